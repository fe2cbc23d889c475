"""A broker that promises too early is found out by a run with a power cut; a sound one passes it.

The bugs are patches of tests/sim/mutants on a copy of the sources, which simulations find as well:
here they are in real nodes, and it is the judge of chaos runs that must see them.
"""

import asyncio
import os
from pathlib import Path
from typing import Final

import pytest

from tests.cluster.leaders import leader_and_others, leader_number
from tests.cluster.power import Disks, Supply, lose_power, patched
from warren.testing import ClusterOfNodes, Node, NodeFailed
from warren.testing.chaos.local import LocalTarget
from warren.testing.chaos.workload import CLASSIC, QUORUM
from warren.testing.history import Kind, Verdict

LONG: Final = os.environ.get("WARREN_LONG") == "1"
LOST_MIN: Final = 20
QUEUE: Final = "power"
long = pytest.mark.skipif(not LONG, reason="takes long: `make chaos` runs it")
pytestmark = [pytest.mark.source, pytest.mark.timeout(240)]


def one_node(folder: Path, environment: dict[str, str]) -> Verdict:
    """A classic queue on a node that loses its power."""
    disks = Disks(folder)
    with Node(data_dir=disks.data_dir, environment=disks.environment() | environment) as node:

        async def depth(queue: str) -> int | None:
            try:
                found = await asyncio.to_thread(node.api, "GET", f"/api/queues/%2F/{queue}")
            except (OSError, NodeFailed):
                return None
            return int(found["messages"])

        def restore() -> None:
            disks.quick()
            node.start()

        supply = Supply([node.url], disks.slow, node.kill9, restore, depth)
        return lose_power(supply, QUEUE, CLASSIC, folder / "history.jsonl")


def whole_cluster(folder: Path, environment: dict[str, str], *, only_followers: bool) -> Verdict:
    """A quorum queue on three nodes that lose their power at the same moment.

    `only_followers`: the leader's disk is quick, and the leader is back only when the others have
    done without it.
    """
    disks = Disks(folder)
    environment = disks.environment() | environment
    with ClusterOfNodes(3, data_dir=disks.data_dir, environment=environment) as cluster:
        others: list[int] = []

        def slow() -> None:
            if only_followers:
                others.extend(leader_and_others(cluster, QUEUE)[1:])
                disks.slow(*(f"/n{number}/" for number in others))
            else:
                disks.slow()

        def restore() -> None:
            disks.quick()
            if others:
                cluster.start(others)
                leader_number(cluster, QUEUE)  # One of them leads it now.
            cluster.start()

        supply = Supply(cluster.urls, slow, cluster.kill9, restore, LocalTarget(cluster).depth)
        return lose_power(supply, QUEUE, QUORUM, folder / "history.jsonl")


def assert_lost(verdict: Verdict) -> None:
    assert verdict.counts.get(Kind.LOST, 0) >= LOST_MIN, verdict.format()
    assert any(finding.message for finding in verdict.findings)


def assert_clean(verdict: Verdict) -> None:
    assert verdict.is_clean, verdict.format()
    assert verdict.undrained == []


def test_a_node_that_confirms_before_its_sync_fails_a_run_with_a_power_cut(tmp_path: Path) -> None:
    assert_lost(one_node(tmp_path, patched(tmp_path, "confirm-before-sync")))


@long
def test_a_sound_node_passes_it(tmp_path: Path) -> None:
    assert_clean(one_node(tmp_path, {}))


@long
def test_a_leader_that_confirms_what_it_only_proposes_fails_it(tmp_path: Path) -> None:
    environment = patched(tmp_path, "quorum-confirms-what-it-proposes")
    assert_lost(whole_cluster(tmp_path, environment, only_followers=False))


@long
def test_followers_that_acknowledge_before_their_sync_fail_it(tmp_path: Path) -> None:
    environment = patched(tmp_path, "raft-acknowledges-before-sync")
    assert_lost(whole_cluster(tmp_path, environment, only_followers=True))


@long
@pytest.mark.parametrize("only_followers", [False, True])
def test_a_sound_cluster_passes_it(tmp_path: Path, only_followers: bool) -> None:
    assert_clean(whole_cluster(tmp_path, {}, only_followers=only_followers))

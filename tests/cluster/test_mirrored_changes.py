"""Mirrored queues in use while their policy, the nodes and the cluster change, with a judge.

What takes long runs with WARREN_LONG=1 (`make chaos`).
"""

import asyncio
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pika
import pytest

from node.cli.warrenctl import main as warrenctl
from tests.cluster.suffering import check, plan, used_while
from tests.conformance.broker import drain, numbered, publish_all
from tests.waiting import eventually
from warren.testing import ClusterOfNodes
from warren.testing.chaos.workload import CLASSIC
from warren.testing.history import Recorder

LONG: Final = os.environ.get("WARREN_LONG") == "1"
WAIT_S: Final = 60.0
POLICY: Final = {
    "pattern": "^mirrored-",
    "apply-to": "queues",
    "definition": {
        "ha-mode": "all",
        "ha-sync-mode": "automatic",
        "ha-promote-on-failure": "when-synced",
    },
}
pytestmark = pytest.mark.timeout(240)


@pytest.fixture(scope="module")
def cluster() -> Iterator[ClusterOfNodes]:
    with ClusterOfNodes(3) as found:
        yield found


def set_policy(cluster: ClusterOfNodes, number: int) -> None:
    cluster.node(number).api("PUT", "/api/policies/%2F/mirrored", POLICY)


def row(cluster: ClusterOfNodes, queue: str, number: int) -> dict[str, Any]:
    found = cluster.node(number).api("GET", f"/api/queues/%2F/{queue}")
    assert isinstance(found, dict)
    return found


def await_mirrors(cluster: ClusterOfNodes, queue: str, count: int, number: int = 1) -> None:
    """Wait until so many mirrors are synchronised, as that node sees it."""

    def is_so() -> bool:
        return len(row(cluster, queue, number).get("synchronised_slave_nodes", ())) == count

    eventually(is_so, seconds=WAIT_S)


def await_plain(cluster: ClusterOfNodes, queue: str, times: int) -> None:
    """Wait until the mirrored queue was made a plain one so often."""
    text = f"queue '{queue}' in vhost '/': the queue has no mirrors any more"
    eventually(
        lambda: sum(each.log().count(text) for each in cluster.nodes) >= times, seconds=WAIT_S
    )


def amqp(cluster: ClusterOfNodes, number: int) -> Any:
    return pika.BlockingConnection(pika.URLParameters(cluster.node(number).url))


def home_of(cluster: ClusterOfNodes, queue: str, seen_by: int) -> int:
    name = row(cluster, queue, seen_by)["node"]
    return next(number for number in (1, 2, 3) if cluster.node(number).name == name)


def test_a_queue_in_use_becomes_a_plain_one_and_a_mirrored_one_again(
    cluster: ClusterOfNodes, tmp_path: Path
) -> None:
    """And its node is killed when it is a plain one."""
    queue = "mirrored-at-times"
    set_policy(cluster, 1)

    def happens(recorder: Recorder) -> None:
        await_mirrors(cluster, queue, 2)
        cluster.node(2).api("DELETE", "/api/policies/%2F/mirrored")
        await_plain(cluster, queue, 1)
        home = home_of(cluster, queue, 3)
        recorder.fault("kill", cluster.node(home).name)
        cluster.node(home).kill9()
        cluster.node(home).start()
        recorder.healed("kill", cluster.node(home).name)
        set_policy(cluster, 2)
        await_mirrors(cluster, queue, 2, 2)

    check(used_while(cluster, plan(queue, CLASSIC), tmp_path, happens))


def test_a_queue_that_was_mirrored_survives_a_crash_by_older_saved_definitions(
    cluster: ClusterOfNodes,
) -> None:
    """The definitions that its node saved last have the queue with mirrors, led by another node."""
    queue = "mirrored-before"
    cluster.node(2).api("PUT", f"/api/queues/%2F/{queue}", {"durable": True})
    set_policy(cluster, 1)
    for _ in range(2):
        await_mirrors(cluster, queue, 2)
        cluster.node(2).restart()  # A clean stop saves the definitions.
    await_mirrors(cluster, queue, 2)
    alone = {"ha-mode": "nodes", "ha-params": ["n2"]}
    cluster.node(1).api("PUT", "/api/policies/%2F/mirrored", {**POLICY, "definition": alone})
    eventually(lambda: home_of(cluster, queue, 1) == 2, seconds=WAIT_S)
    cluster.node(1).api("DELETE", "/api/policies/%2F/mirrored")
    await_plain(cluster, queue, 1)
    with amqp(cluster, 2) as connection:
        publish_all(connection.channel(), queue, numbered(20), persistent=True)
    cluster.node(2).kill9()
    cluster.node(2).start()
    with amqp(cluster, 2) as connection:
        assert drain(connection.channel(), queue) == numbered(20)


def test_a_leader_whose_saved_definitions_have_no_mirrors_joins_again_after_a_crash(
    cluster: ClusterOfNodes,
) -> None:
    """Its node saves them when the last mirror goes; then the queue gets mirrors again."""
    queue = "mirrored-again"
    cluster.node(2).api("PUT", f"/api/queues/%2F/{queue}", {"durable": True})
    set_policy(cluster, 1)
    await_mirrors(cluster, queue, 2)
    cluster.node(1).api("DELETE", "/api/policies/%2F/mirrored")
    await_plain(cluster, queue, 1)
    set_policy(cluster, 1)
    await_mirrors(cluster, queue, 2)
    home = home_of(cluster, queue, 1)
    cluster.node(home).kill9()
    eventually(lambda: home_of(cluster, queue, home % 3 + 1) != home, seconds=WAIT_S)
    cluster.node(home).start()
    await_mirrors(cluster, queue, 2)
    with amqp(cluster, home) as connection:
        publish_all(connection.channel(), queue, numbered(5), persistent=True)
        assert drain(connection.channel(), queue) == numbered(5)
    cluster.node(1).api("DELETE", "/api/policies/%2F/mirrored")


def test_the_log_keeps_nothing_of_a_mirror_that_left_and_joined_again_after_a_crash() -> None:
    """The log of its node does not say that it left; the definitions that it has saved do."""
    settings = {2: {"testing.definitions_save_entries": "1"}}
    with ClusterOfNodes(3, node_settings=settings) as cluster:
        shared = {"ha-mode": "nodes", "ha-params": ["n1", "n2"], "ha-sync-mode": "automatic"}
        for number, queue in ((2, "kept"), (1, "mirrored-twice")):
            cluster.node(1).api(
                "PUT", "/api/policies/%2F/mirrored", {**POLICY, "definition": shared}
            )
            cluster.node(number).api("PUT", f"/api/queues/%2F/{queue}", {"durable": True})
            with amqp(cluster, number) as connection:
                publish_all(connection.channel(), queue, [bytes(1000)] * 40, persistent=True)
        await_mirrors(cluster, "mirrored-twice", 1)
        cluster.node(1).api("DELETE", "/api/policies/%2F/mirrored")
        await_plain(cluster, "mirrored-twice", 1)
        cluster.node(2).kill9()
        cluster.node(2).start()
        cluster.node(1).api("PUT", "/api/policies/%2F/mirrored", {**POLICY, "definition": shared})
        await_mirrors(cluster, "mirrored-twice", 1)
        cluster.node(1).api("DELETE", "/api/queues/%2F/mirrored-twice")
        eventually(lambda: cluster.node(2).metrics()["warren_wal_live_bytes"] < 50_000)


@pytest.mark.skipif(not LONG, reason="long")
@pytest.mark.parametrize("wait_s", [0.0, 0.1, 0.2, 0.4])
def test_a_node_that_is_killed_while_its_queue_becomes_a_plain_one_loses_nothing(
    cluster: ClusterOfNodes, tmp_path: Path, wait_s: float
) -> None:
    queue = f"mirrored-killed-{wait_s:g}"
    set_policy(cluster, 1)

    def happens(recorder: Recorder) -> None:
        await_mirrors(cluster, queue, 2)
        home = home_of(cluster, queue, 1)
        other = home % 3 + 1
        cluster.node(other).api("DELETE", "/api/policies/%2F/mirrored")
        eventually(lambda: not row(cluster, queue, other).get("slave_nodes"), seconds=WAIT_S)
        asyncio.run(asyncio.sleep(wait_s))  # The moments of a change that takes half a second.
        recorder.fault("kill", cluster.node(home).name)
        cluster.node(home).kill9()
        cluster.node(home).start()
        recorder.healed("kill", cluster.node(home).name)
        # The log says that it is plain, unless the node was killed just before that line.
        eventually(lambda: "slave_nodes" not in row(cluster, queue, other), seconds=WAIT_S)

    check(used_while(cluster, plan(queue, CLASSIC), tmp_path, happens))


def test_all_nodes_restart_one_after_the_other_and_nothing_is_lost(
    cluster: ClusterOfNodes, tmp_path: Path
) -> None:
    queue = "mirrored-rolling"
    set_policy(cluster, 1)

    def happens(recorder: Recorder) -> None:
        await_mirrors(cluster, queue, 2)
        for number in (1, 2, 3):
            name = cluster.node(number).name
            recorder.fault("restart", name)
            cluster.node(number).stop()
            cluster.node(number).start()
            await_mirrors(cluster, queue, 2, number)
            recorder.healed("restart", name)

    check(used_while(cluster, plan(queue, CLASSIC), tmp_path, happens))


def test_a_queue_goes_on_when_the_node_of_its_leader_is_forgotten(
    cluster: ClusterOfNodes, tmp_path: Path
) -> None:
    """The last test of the file: the cluster has two nodes then."""
    queue = "mirrored-forgotten"
    set_policy(cluster, 1)

    def happens(recorder: Recorder) -> None:
        await_mirrors(cluster, queue, 2)
        home = home_of(cluster, queue, 1)
        other = home % 3 + 1
        recorder.fault("kill", cluster.node(home).name)
        cluster.node(home).kill9()
        url = cluster.node(other).management_url
        name = cluster.node(home).name
        eventually(
            lambda: warrenctl(["--node-url", url, "forget_cluster_node", name]) == 0,
            seconds=WAIT_S,
        )
        await_mirrors(cluster, queue, 1, other)
        recorder.healed("kill", name)
        found = row(cluster, queue, other)
        assert name not in (found["node"], *found["slave_nodes"])

    check(used_while(cluster, plan(queue, CLASSIC), tmp_path, happens))

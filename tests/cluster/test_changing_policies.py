"""Mirrored queues whose policies change while nodes are killed; definitions on disk of any age.

A node that starts judges its queues by the definitions that it saved last, and reads what came
later in the log. Runs with WARREN_LONG=1 (`make chaos`).
"""

import os
import re
import time
from pathlib import Path
from random import Random
from typing import Any, Final

import pytest

from tests.cluster.suffering import HABITS, check, used_while
from warren.testing import ClusterOfNodes
from warren.testing.chaos.workload import CLASSIC, Plan, QueuePlan
from warren.testing.history import Recorder

LONG: Final = os.environ.get("WARREN_LONG") == "1"
SEEDS: Final = range(*map(int, os.environ.get("WARREN_FAULT_SEEDS", "0:4").split(":")))
SECONDS: Final = 100.0
QUEUES: Final = tuple(f"changing-{number}" for number in range(4))
FAULT: Final = re.compile(r"^Traceback|\[CRITICAL\]|is set aside").search
SAVE_ENTRIES: Final = (1, 2, 5, 20, 4096)
MIRRORS: Final[tuple[dict[str, Any], ...]] = (
    {"ha-mode": "all"},
    {"ha-mode": "exactly", "ha-params": 2},
    {"ha-mode": "nodes", "ha-params": ["n1", "n3"]},
    {"ha-mode": "nodes", "ha-params": ["n2"]},
)
SAFE: Final = {"ha-sync-mode": "automatic", "ha-promote-on-failure": "when-synced"}


def change_policy(cluster: ClusterOfNodes, drawn: Random) -> None:
    """Give a queue other mirrors, or none, by a node that runs."""
    queue = drawn.choice(QUEUES)
    node = drawn.choice([each for each in cluster.nodes if each.is_running()])
    path = f"/api/policies/%2F/{queue}"
    mirrors = drawn.choice((None, *MIRRORS))
    if mirrors is not None:
        body = {"pattern": f"^{queue}$", "apply-to": "queues", "definition": {**mirrors, **SAFE}}
        node.api("PUT", path, body)
    elif any(row["name"] == queue for row in node.api("GET", "/api/policies/%2F")):
        node.api("DELETE", path)


def killed(cluster: ClusterOfNodes, drawn: Random) -> list[int]:
    """One node, or all of them."""
    numbers = [1, 2, 3] if drawn.random() < 0.2 else [drawn.randrange(1, 4)]
    cluster.kill9(numbers)
    return numbers


@pytest.mark.skipif(not LONG, reason="long")
@pytest.mark.timeout(SECONDS + 300)
@pytest.mark.parametrize("seed", SEEDS)
def test_nothing_is_lost_whatever_policies_and_nodes_do(tmp_path: Path, seed: int) -> None:
    drawn = Random(seed)
    saved = {
        number: {"testing.definitions_save_entries": str(drawn.choice(SAVE_ENTRIES))}
        for number in (1, 2, 3)
    }

    def happens(recorder: Recorder) -> None:
        until = time.monotonic() + SECONDS
        while time.monotonic() < until:
            for _ in range(drawn.randrange(4)):
                change_policy(cluster, drawn)
                time.sleep(drawn.random() * drawn.choice((0.01, 0.5)))  # Moments of a change.
            numbers = killed(cluster, drawn)
            names = ",".join(cluster.node(each).name for each in numbers)
            recorder.fault("kill", names)
            if len(numbers) == 1 and drawn.random() < 0.5:
                change_policy(cluster, drawn)
            cluster.start(numbers)
            recorder.healed("kill", names)

    queues = tuple(QueuePlan(name, CLASSIC, 2, 2) for name in QUEUES)
    with ClusterOfNodes(3, node_settings=saved) as cluster:
        check(used_while(cluster, Plan(queues=queues, habits=HABITS), tmp_path, happens))
        faults = [line for each in cluster.nodes for line in each.log().splitlines() if FAULT(line)]
        assert not faults

"""Queues whose members change while nodes are killed; definitions on disk of any age.

Mirrored queues get other policies, or none; quorum queues get and lose members. A node that starts
judges its queues by the definitions that it saved last, and reads what came later in the log. Runs
with WARREN_LONG=1 (`make chaos`).
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
from warren.testing.chaos.workload import CLASSIC, QUORUM, Plan, QueuePlan
from warren.testing.history import Recorder
from warren.testing.http_api import HttpApi

LONG: Final = os.environ.get("WARREN_LONG") == "1"
SEEDS: Final = range(*map(int, os.environ.get("WARREN_FAULT_SEEDS", "0:4").split(":")))
SECONDS: Final = 100.0
MIRRORED: Final = ("mirrored-1", "mirrored-2", "mirrored-3")
REPLICATED: Final = ("quorum-1", "quorum-2")
FAULT: Final = re.compile(r"^Traceback|\[CRITICAL\]|is set aside").search
SAVE_ENTRIES: Final = (1, 2, 5, 20, 4096)
MIRRORS: Final[tuple[dict[str, Any], ...]] = (
    {"ha-mode": "all"},
    {"ha-mode": "exactly", "ha-params": 2},
    {"ha-mode": "nodes", "ha-params": ["n1", "n3"]},
    {"ha-mode": "nodes", "ha-params": ["n2"]},
)
SAFE: Final = {"ha-sync-mode": "automatic", "ha-promote-on-failure": "when-synced"}


def change(cluster: ClusterOfNodes, drawn: Random) -> None:
    """Ask a node that runs for other members of a queue: while a node is down it may refuse, or the
    time for it may be over."""
    queue = drawn.choice((*MIRRORED, *REPLICATED))
    node = drawn.choice([each for each in cluster.nodes if each.is_running()])
    api = HttpApi(node.management_url)
    if queue in REPLICATED:
        path = f"/api/queues/quorum/%2F/{queue}/replicas"
        body = {"node": drawn.choice(cluster.nodes).name}
        method, what = drawn.choice((("POST", "add"), ("DELETE", "delete")))
        status, content = api.page(method, f"{path}/{what}", body)
    elif (mirrors := drawn.choice((None, *MIRRORS))) is not None:
        policy = {"pattern": f"^{queue}$", "apply-to": "queues", "definition": {**mirrors, **SAFE}}
        status, content = api.page("PUT", f"/api/policies/%2F/{queue}", policy)
    else:
        status, content = api.page("DELETE", f"/api/policies/%2F/{queue}")
    assert status in (201, 204, 400, 404, 503), content


def killed(cluster: ClusterOfNodes, drawn: Random) -> list[int]:
    """One node, or all of them."""
    numbers = [1, 2, 3] if drawn.random() < 0.2 else [drawn.randrange(1, 4)]
    cluster.kill9(numbers)
    return numbers


@pytest.mark.skipif(not LONG, reason="long")
@pytest.mark.timeout(SECONDS + 300)
@pytest.mark.parametrize("seed", SEEDS)
def test_nothing_is_lost_whatever_members_and_nodes_do(tmp_path: Path, seed: int) -> None:
    drawn = Random(seed)
    saved = {
        number: {"testing.definitions_save_entries": str(drawn.choice(SAVE_ENTRIES))}
        for number in (1, 2, 3)
    }

    def happens(recorder: Recorder) -> None:
        until = time.monotonic() + SECONDS
        while time.monotonic() < until:
            for _ in range(drawn.randrange(4)):
                change(cluster, drawn)
                time.sleep(drawn.random() * drawn.choice((0.01, 0.5)))  # Moments of a change.
            numbers = killed(cluster, drawn)
            names = ",".join(cluster.node(each).name for each in numbers)
            recorder.fault("kill", names)
            if len(numbers) == 1 and drawn.random() < 0.5:
                change(cluster, drawn)
            cluster.start(numbers)
            recorder.healed("kill", names)

    queues = [QueuePlan(name, CLASSIC, 2, 2) for name in MIRRORED]
    queues += [QueuePlan(name, QUORUM, 2, 2) for name in REPLICATED]
    plan = Plan(queues=tuple(queues), habits=HABITS)
    with ClusterOfNodes(3, node_settings=saved) as cluster:
        check(used_while(cluster, plan, tmp_path, happens))
        faults = [line for each in cluster.nodes for line in each.log().splitlines() if FAULT(line)]
        assert not faults

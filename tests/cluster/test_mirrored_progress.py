"""What listings show of a mirrored queue while a mirror is synchronised."""

from typing import Any

import pytest

from tests.cluster.queue_clients import WAIT_S, channel_to, publish
from tests.waiting import eventually
from warren.testing import ClusterOfNodes

BODIES = [b"%d" % number * 100_000 for number in range(10)]
BYTES_PER_S = 200_000  # a synchronisation takes several seconds: it sends a megabyte
pytestmark = [pytest.mark.timeout(180)]


@pytest.mark.parametrize(("is_nonblocking", "state"), [(False, "syncing"), (True, "running")])
def test_listings_show_the_progress_of_a_synchronisation(is_nonblocking: bool, state: str) -> None:
    limit = {"cluster.mirroring_sync_max_throughput": str(BYTES_PER_S)}
    seen: set[tuple[str, int]] = set()
    with ClusterOfNodes(2, settings=limit) as cluster:

        def row() -> dict[str, Any]:
            found = cluster.node(2).api("GET", "/api/queues/%2F/q")
            assert isinstance(found, dict)
            return found

        def is_synchronised() -> bool:
            found = row()
            if "sync_messages" in found:
                seen.add((found["state"], found["sync_messages"]))
            return len(found.get("synchronised_slave_nodes", ())) == 1

        channel = channel_to(cluster, 1)
        channel.queue_declare("q", durable=True)
        publish(channel, "q", BODIES)
        definition = {
            "ha-mode": "all",
            "ha-sync-mode": "automatic",
            "ha-sync-batch-size": 1,
            "ha-sync-nonblocking": is_nonblocking,
        }
        policy = {"pattern": "^q$", "definition": definition, "apply-to": "queues"}
        cluster.node(1).api("PUT", "/api/policies/%2F/q", policy)
        eventually(is_synchronised, seconds=WAIT_S)
        eventually(lambda: row()["state"] == "running" and "sync_messages" not in row())
    assert {found for found, _ in seen} == {state}
    counts = {count for _, count in seen}
    assert len(counts) > 2 and max(counts) <= len(BODIES), counts

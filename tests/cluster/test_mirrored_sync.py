"""Synchronisation of mirrors in its blocking form, with a limit of its throughput."""

import time

import pika
import pytest

from tests.waiting import eventually
from warren.testing import ClusterOfNodes

WAIT_S = 60.0
QUEUE = "/api/queues/%2F/blocked"
BODIES = [b"%d" % number * 100_000 for number in range(10)]
BYTES_PER_S = 200_000  # a synchronisation takes several seconds: it sends a megabyte
PERSISTENT = pika.BasicProperties(delivery_mode=2)
pytestmark = [pytest.mark.timeout(240)]


def test_a_queue_takes_no_publishes_while_its_mirrors_are_synchronised() -> None:
    limit = {"cluster.mirroring_sync_max_throughput": str(BYTES_PER_S)}
    with ClusterOfNodes(3, settings=limit) as cluster:
        channel = pika.BlockingConnection(pika.URLParameters(cluster.node(1).url)).channel()
        channel.confirm_delivery()
        channel.queue_declare("blocked", durable=True)
        for body in BODIES:
            channel.basic_publish("", "blocked", body, PERSISTENT)
        definition = {"ha-mode": "all", "ha-sync-mode": "automatic", "ha-sync-nonblocking": False}
        policy = {"pattern": "^blocked$", "definition": definition, "apply-to": "queues"}
        cluster.node(1).api("PUT", "/api/policies/%2F/blocking", policy)

        def count_synchronised() -> int:
            row = cluster.node(1).api("GET", QUEUE)
            return len(row.get("synchronised_slave_nodes", ()))

        # Some are confirmed before the mirrors join. The limit holds one back for seconds.
        later: list[bytes] = []
        waits: list[float] = []
        deadline = time.monotonic() + WAIT_S
        while count_synchronised() < 2 and time.monotonic() < deadline:
            later.append(b"later %d" % len(later))
            began = time.monotonic()
            channel.basic_publish("", "blocked", later[-1], PERSISTENT)
            waits.append(time.monotonic() - began)
        assert max(waits) > 1, "no confirm waited for the synchronisation"
        eventually(lambda: count_synchronised() == 2, seconds=WAIT_S)
        cluster.node(1).kill9()
        eventually(lambda: cluster.node(2).api("GET", QUEUE)["node"] != "n1", seconds=WAIT_S)
        other = pika.BlockingConnection(pika.URLParameters(cluster.node(2).url)).channel()
        expected = [*BODIES, *later]
        found: list[bytes] = []
        for method, _, body in other.consume("blocked", inactivity_timeout=WAIT_S):
            assert method is not None, f"nothing comes behind {len(found)} messages"
            found.append(body)
            if len(found) == len(expected):
                break
        assert found == expected

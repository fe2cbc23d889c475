"""A stream while nodes are cut off and killed: publishers go on elsewhere, and every member has the
same afterwards, without a gap and without a message twice."""

import asyncio
import threading
from collections.abc import Callable

import pytest

from tests.cluster.leaders import leader_number, without_leader
from tests.cluster.queue_clients import channel_to
from tests.cluster.test_partitions import long
from tests.cluster.test_streams import declare
from tests.waiting import eventually
from warren.client import ClientError, amqp091
from warren.testing import ClusterOfNodes
from warren.testing.stream_history import StreamHistory

PHASE = 300  # confirms between two faults
WAIT_S = 90.0
PATIENCE_S = 3.0  # for one confirm
pytestmark = [pytest.mark.timeout(300)]


class Publisher:
    """Publishes ids one after the other, to one node after the other; one that was not confirmed is
    never sent again."""

    def __init__(self, name: str, cluster: ClusterOfNodes, stream: str, first_node: int) -> None:
        self.history = StreamHistory()
        self._name = name
        self._cluster = cluster
        self._stream = stream
        self._node = first_node
        self._is_over = False
        self._thread = threading.Thread(target=self._run, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._is_over = True
        self._thread.join(WAIT_S)
        assert not self._thread.is_alive()

    def _run(self) -> None:
        asyncio.run(self._publish())

    async def _publish(self) -> None:
        number = 0
        while not self._is_over:
            try:
                async with (
                    asyncio.timeout(None) as deadline,
                    await amqp091.connect(self._cluster.node(self._node).url) as connection,
                ):
                    publisher = await connection.publisher("", self._stream)
                    while not self._is_over:
                        deadline.reschedule(asyncio.get_running_loop().time() + PATIENCE_S)
                        number += 1
                        message = f"{self._name}:{number}"
                        self.history.published(message)
                        outcome = await publisher.publish(amqp091.Message(message.encode()))
                        if outcome.is_accepted:
                            self.history.confirmed(message)
            except (ClientError, TimeoutError, OSError):
                self._node = self._node % 3 + 1


def read_all(cluster: ClusterOfNodes, number: int, stream: str, history: StreamHistory) -> None:
    channel = channel_to(cluster, number)
    end = channel.queue_declare(stream, passive=True).method.message_count
    channel.basic_qos(prefetch_count=200)
    arguments = {"x-stream-offset": "first"}
    for method, properties, body in channel.consume(
        stream, inactivity_timeout=WAIT_S, arguments=arguments
    ):
        assert method is not None
        channel.basic_ack(method.delivery_tag)
        offset = properties.headers["x-stream-offset"]
        history.read(f"n{number}", offset, body.decode())
        if offset == end - 1:
            break
    channel.connection.close()


def counts(cluster: ClusterOfNodes, stream: str) -> set[int]:
    found = set()
    for number in (1, 2, 3):
        channel = channel_to(cluster, number)
        found.add(channel.queue_declare(stream, passive=True).method.message_count)
        channel.connection.close()
    return found


@long
def test_all_members_are_alike_after_partitions_and_kills(
    proxied_cluster: ClusterOfNodes,
) -> None:
    cluster = proxied_cluster
    declare(cluster, "rough", x_stream_max_segment_size_bytes=20_000)
    publisher = Publisher("p1", cluster, "rough", 1)
    publisher.start()

    def more(fault: Callable[[], object]) -> None:
        """A fault, and so many confirms in spite of it."""
        fault()
        wanted = publisher.history.confirmed_count + PHASE
        eventually(lambda: publisher.history.confirmed_count >= wanted, seconds=WAIT_S)

    try:
        more(lambda: None)
        more(lambda: cluster.links.isolate(leader_number(cluster, "rough")))
        more(cluster.links.heal)
        with without_leader(cluster, "rough"):
            more(lambda: None)
        more(lambda: None)
        more(lambda: cluster.links.isolate(3))
        more(cluster.links.heal)
    finally:
        cluster.links.heal()
        publisher.stop()
    eventually(lambda: len(counts(cluster, "rough")) == 1, seconds=WAIT_S)
    for number in (1, 2, 3):
        read_all(cluster, number, "rough", publisher.history)
    assert publisher.history.judge(("n1", "n2", "n3")) == []
    assert publisher.history.confirmed_count >= 7 * PHASE

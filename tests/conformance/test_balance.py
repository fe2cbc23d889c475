"""A publisher and a consumer at full speed: the consumer keeps up, whatever the speed is."""

import struct
import threading
from collections.abc import Iterator
from typing import Final

import pytest

from tests.conformance import raw
from tests.conformance.raw import RawClient
from tests.waiting import eventually
from warren.testing import Node

MESSAGES: Final = 300_000
BLOCK: Final = 500  # messages in one write of the publisher
BODY: Final = b"x" * 100
PREFETCH: Final = 500
BACKLOG_MAX: Final = MESSAGES // 3
QOS: Final = raw.method(1, (60, 10), struct.pack(">IHB", 0, PREFETCH, 0))
ACK_ALL: Final = raw.method(1, (60, 80), struct.pack(">QB", 0, 1))
SECONDS: Final = 90.0

pytestmark = [pytest.mark.slow, pytest.mark.timeout(240)]


@pytest.fixture
def node() -> Iterator[Node]:
    with Node(name="balance") as started:
        yield started


def client(node: Node) -> RawClient:
    return RawClient(node.host, node.port, SECONDS).begin_channel()


def publish_all(publisher: RawClient, queue: str) -> None:
    block = raw.publish(1, "", queue, BODY) * BLOCK
    for _ in range(MESSAGES // BLOCK):
        publisher.send(block)


class Consumer(threading.Thread):
    """Acknowledges each read at once. Every delivery has the same number of bytes."""

    def __init__(self, node: Node, queue: str) -> None:
        super().__init__(daemon=True)
        self.received_bytes = 0
        self._client = client(node)
        self._client.send(QOS)
        self._client.expect((60, 11))
        self._client.send(raw.consume(1, queue, "c"))
        self._client.expect(raw.BASIC_CONSUME_OK)

    def run(self) -> None:
        while data := self._client.socket.recv(1 << 16):
            self.received_bytes += len(data)
            self._client.send(ACK_ALL)


def ready_count(observer: RawClient, queue: str) -> int:
    observer.send(raw.declare(1, queue, 1))
    arguments = observer.expect(raw.QUEUE_DECLARE_OK).arguments
    return int(struct.unpack_from(">I", arguments, 1 + arguments[0])[0])


@pytest.mark.parametrize("kind", ["classic", "quorum"])
def test_backlog_stays_short_while_publisher_and_consumer_run(node: Node, kind: str) -> None:
    observer = client(node)
    table = raw.short("x-queue-type") + b"S" + raw.long(kind.encode())
    observer.send(raw.declare(1, "work", 2, table))
    observer.expect(raw.QUEUE_DECLARE_OK)
    consumer = Consumer(node, "work")
    consumer.start()
    with client(node) as publishing:
        publisher = threading.Thread(target=publish_all, args=(publishing, "work"), daemon=True)
        publisher.start()
        longest = 0
        while publisher.is_alive():
            longest = max(longest, ready_count(observer, "work"))
        delivered = MESSAGES * len(BODY)
        eventually(lambda: consumer.received_bytes > delivered, lambda: "messages are missing")
        eventually(lambda: ready_count(observer, "work") == 0, lambda: "messages are ready")
    assert longest < BACKLOG_MAX

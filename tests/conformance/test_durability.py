"""kill -9, SIGTERM and restart: what was confirmed is there, once and in order."""

import random
import struct
import threading
import time
from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any, Final

import pika
import pika.exceptions
import pytest

from tests.conformance import raw
from tests.conformance.broker import (
    PATIENCE_SECONDS,
    Inbox,
    drain,
    numbered,
    publish_all,
    ready_count,
    take,
)
from tests.conformance.raw import RawClient
from warren.testing import Node, NodeFailed

BATCH: Final = 100
WINDOW: Final = 2_000
CONFIRM_SELECT: Final = (85, 10)
CONFIRM_SELECT_OK: Final = (85, 11)
BASIC_ACK: Final = (60, 80)
PERSISTENT: Final = struct.pack(">HB", 0x1000, 2)

pytestmark = [pytest.mark.timeout(240)]


@pytest.fixture
def node() -> Iterator[Node]:
    """A node whose write-ahead log rolls often."""
    with Node(name="durable", settings={"storage.wal_file_bytes": str(1024 * 1024)}) as started:
        yield started


def connect(node: Node) -> Any:
    return pika.BlockingConnection(pika.URLParameters(node.url))


class Load(threading.Thread):
    """Publishes numbered persistent messages until the node is gone; knows which are confirmed.

    Message n of the load has the body `n` padded to `size`, and the delivery tag n - first + 1.
    """

    def __init__(self, node: Node, exchange: str, routing_key: str, first: int, size: int) -> None:
        super().__init__(daemon=True)
        self.client = RawClient(node.host, node.port, 30.0).begin_channel()
        self.client.send(raw.method(1, CONFIRM_SELECT, b"\x00")).expect(CONFIRM_SELECT_OK)
        self.exchange = exchange
        self.routing_key = routing_key
        self.first = first
        self.size = size
        self.sent = 0
        self.open_tags: set[int] = set()
        self.lowest_open = 1
        self.confirmed: set[int] = set()  # Numbers of messages, not tags.
        self.failure: Exception | None = None

    def run(self) -> None:
        try:
            while True:
                self.publish_batch()
                while len(self.open_tags) > WINDOW:
                    self.take_confirm()
        except (raw.PeerClosed, ConnectionError):
            return  # The node was killed, as this test wants it.
        except Exception as error:
            self.failure = error
            raise

    def publish_batch(self) -> None:
        parts = []
        for number in range(self.first + self.sent, self.first + self.sent + BATCH):
            body = (b"%d" % number).ljust(self.size)
            parts.append(raw.publish_method(1, self.exchange, self.routing_key))
            parts.append(raw.content_header(1, len(body), PERSISTENT))
            parts.append(raw.body(1, body))
        self.open_tags.update(range(self.sent + 1, self.sent + BATCH + 1))
        self.sent += BATCH
        self.client.send(*parts)

    def take_confirm(self) -> None:
        arguments = self.client.expect(BASIC_ACK).arguments
        tag = int.from_bytes(arguments[:8])
        tags = range(self.lowest_open, tag + 1) if arguments[8] & 1 else range(tag, tag + 1)
        settled = self.open_tags.intersection(tags)
        assert settled, f"tag {tag} was confirmed twice"
        self.open_tags -= settled
        self.confirmed.update(number + self.first - 1 for number in settled)
        if arguments[8] & 1:
            self.lowest_open = tag + 1

    def wait_for_confirms(self, count: int) -> None:
        deadline = time.monotonic() + 30
        while len(self.confirmed) < count:
            assert self.is_alive(), f"the load ended early: {self.failure}"
            assert time.monotonic() < deadline, f"only {len(self.confirmed)} confirms"
            self.join(0.005)

    def end(self) -> None:
        """Wait for the thread; take the confirms that were on their way when the node died."""
        self.join(30)
        assert not self.is_alive() and self.failure is None
        self.client.socket.settimeout(2.0)
        try:
            while True:
                self.take_confirm()
        except (raw.PeerClosed, ConnectionError, TimeoutError):
            self.client.socket.close()


def consume_all(node: Node, queue: str, count: int | None = None) -> list[tuple[int, bool]]:
    """(number, redelivered) of all that is ready, in order, settled."""
    connection = connect(node)
    channel = connection.channel()
    waiting = ready_count(channel, queue) if count is None else count
    inbox = Inbox(channel, queue, auto_ack=True)
    inbox.wait(waiting)
    connection.close()
    return [(int(message.body), message.redelivered) for message in inbox.messages]


def assert_once_and_in_order(numbers: list[int]) -> None:
    wrong = [(a, b) for a, b in pairwise(numbers) if a >= b]
    assert wrong == []


@pytest.mark.slow
@pytest.mark.parametrize(("size", "confirms"), [(12, 9_000), (3_000, 3_000)])
def test_every_confirmed_message_is_there_once_and_in_order_after_kill_9(
    node: Node, size: int, confirms: int
) -> None:
    drawn = random.Random(size)
    connection = connect(node)
    channel = connection.channel()
    channel.exchange_declare("both", "fanout", durable=True)
    for queue in ("left", "right"):
        channel.queue_declare(queue, durable=True)
        channel.queue_bind(queue, "both")
    connection.close()
    confirmed: set[int] = set()
    first = 1
    for _ in range(3):
        load = Load(node, "both", "", first, size)
        load.start()
        load.wait_for_confirms(drawn.randrange(confirms // 3, confirms))
        node.kill9()
        load.end()
        confirmed |= load.confirmed
        first += load.sent
        node.start()
    for queue in ("left", "right"):
        numbers = [number for number, _ in consume_all(node, queue)]
        assert_once_and_in_order(numbers)
        assert confirmed - set(numbers) == set()


class AckingConsumer(threading.Thread):
    """Consumes and acks all but the last hundred, until the node is gone."""

    def __init__(self, node: Node, queue: str) -> None:
        super().__init__(daemon=True)
        self.client = RawClient(node.host, node.port, 30.0).begin_channel()
        self.client.send(raw.consume(1, queue, "c")).expect(raw.BASIC_CONSUME_OK)
        self.numbers: list[int] = []
        self.acked: set[int] = set()

    def run(self) -> None:
        try:
            while True:
                got = self.client.read()
                if got.kind == raw.BODY:
                    self.numbers.append(int(got.payload))
                    if len(self.numbers) % 50 == 0 and len(self.numbers) > 100:
                        self.ack(len(self.numbers) - 100)
        except (raw.PeerClosed, ConnectionError):
            self.client.socket.close()

    def ack(self, tag: int) -> None:
        self.acked.update(self.numbers[:tag])
        self.client.send(raw.method(1, BASIC_ACK, struct.pack(">QB", tag, 1)))


@pytest.mark.slow
def test_what_was_not_acked_survives_kill_9_while_consuming(node: Node) -> None:
    connection = connect(node)
    connection.channel().queue_declare("jobs", durable=True)
    connection.close()
    load, consumer = Load(node, "", "jobs", 1, 200), AckingConsumer(node, "jobs")
    consumer.start()
    load.start()
    load.wait_for_confirms(8_000)
    node.kill9()
    load.end()
    consumer.join(30)
    assert not consumer.is_alive()
    assert_once_and_in_order(consumer.numbers)
    node.start()
    received = dict(consume_all(node, "jobs"))
    assert_once_and_in_order(list(received))
    assert load.confirmed - consumer.acked - set(received) == set()
    came_again = set(received) & set(consumer.numbers)
    assert [number for number in came_again if not received[number]] == []


def test_transient_messages_and_queues_and_exclusive_ones_are_gone_after_a_restart(
    node: Node,
) -> None:
    connection = connect(node)
    channel = connection.channel()
    channel.queue_declare("durable", durable=True)
    channel.queue_declare("transient")
    channel.queue_declare("exclusive", durable=True, exclusive=True)
    publish_all(channel, "durable", [b"1"], persistent=True)
    publish_all(channel, "durable", [b"lost"])
    publish_all(channel, "durable", [b"2"], persistent=True)
    publish_all(channel, "transient", [b"lost"], persistent=True)
    node.kill9()
    node.start()
    channel = connect(node).channel()
    assert drain(channel, "durable") == [b"1", b"2"]
    for queue in ("transient", "exclusive"):
        with pytest.raises(pika.exceptions.ChannelClosedByBroker, match="NOT_FOUND"):
            connect(node).channel().queue_declare(queue, passive=True)


@pytest.mark.parametrize("end", [Node.kill9, Node.stop])
def test_durable_definitions_survive_and_transient_ones_do_not(
    node: Node, end: Callable[[Node], None]
) -> None:
    channel = connect(node).channel()
    alternate = {"alternate-exchange": "amq.fanout"}
    channel.exchange_declare("kept", "topic", durable=True, arguments=alternate)
    channel.exchange_declare("gone", "topic")
    channel.queue_declare("q", durable=True, arguments={"x-max-length": 5_000})
    channel.queue_declare("deleted", durable=True)
    channel.queue_bind("q", "kept", "a.#", {"note": "kept"})
    channel.queue_bind("q", "kept", "unbound")
    channel.queue_bind("q", "amq.fanout")
    channel.queue_unbind("q", "kept", "unbound")
    channel.queue_delete("deleted")
    end(node)
    node.start()
    channel = connect(node).channel()
    channel.exchange_declare("kept", "topic", durable=True, arguments=alternate)
    channel.queue_declare("q", durable=True, arguments={"x-max-length": 5_000})
    channel.confirm_delivery()
    for key in ("a.b", "unbound"):
        channel.basic_publish("kept", key, key.encode(), mandatory=True)
    assert drain(channel, "q") == [b"a.b", b"unbound"]
    channel.queue_unbind("q", "amq.fanout")
    channel.basic_publish("kept", "unbound", b"")
    assert drain(channel, "q") == []
    attempts: list[Callable[[Any], object]] = [
        lambda channel: channel.exchange_declare("gone", passive=True),
        lambda channel: channel.queue_declare("deleted", passive=True),
    ]
    for attempt in attempts:
        with pytest.raises(pika.exceptions.ChannelClosedByBroker, match="NOT_FOUND"):
            attempt(connect(node).channel())


def test_a_delivered_but_unsettled_message_comes_again_marked_redelivered(node: Node) -> None:
    channel = connect(node).channel()
    channel.queue_declare("q", durable=True)
    publish_all(channel, "q", numbered(3), persistent=True)
    assert [take(channel, "q").body for _ in range(2)] == numbered(2)
    node.kill9()
    node.start()
    received = consume_all(node, "q", 3)
    assert [number for number, _ in received] == [1, 2, 3]
    assert [redelivered for _, redelivered in received[:2]] == [True, True]


def test_a_purge_is_not_undone_by_kill_9(node: Node) -> None:
    channel = connect(node).channel()
    channel.queue_declare("q", durable=True)
    publish_all(channel, "q", numbered(100), persistent=True)
    assert channel.queue_purge("q").method.message_count == 100
    publish_all(channel, "q", [b"after"], persistent=True)
    node.kill9()
    node.start()
    assert drain(connect(node).channel(), "q") == [b"after"]


def test_messages_in_many_queues_survive(node: Node) -> None:
    channel = connect(node).channel()
    channel.confirm_delivery()
    persistent = pika.BasicProperties(delivery_mode=2)
    queues = [f"q{number}" for number in range(150)]
    for queue in queues:
        channel.queue_declare(queue, durable=True)
    for body in numbered(10):
        for queue in queues:
            channel.basic_publish("", queue, queue.encode() + b":" + body, persistent)
    node.kill9()
    node.start()
    channel = connect(node).channel()
    for queue in queues:
        assert drain(channel, queue) == [queue.encode() + b":" + body for body in numbered(10)]


def test_large_bodies_survive_whole(node: Node) -> None:
    bodies = [random.Random(n).randbytes(n * 150_000) for n in range(1, 12)]
    channel = connect(node).channel()
    channel.queue_declare("q", durable=True)
    publish_all(channel, "q", bodies, persistent=True)
    node.kill9()
    node.start()
    assert drain(connect(node).channel(), "q") == bodies


def test_properties_and_headers_survive(node: Node) -> None:
    channel = connect(node).channel()
    channel.queue_declare("q", durable=True)
    sent = pika.BasicProperties(
        delivery_mode=2, message_id="m", headers={"list": [1, "two"], "table": {"k": True}}
    )
    channel.confirm_delivery()
    channel.basic_publish("", "q", b"body", sent)
    node.kill9()
    node.start()
    message = take(connect(node).channel(), "q")
    assert vars(message.properties) == vars(sent)
    assert (message.exchange, message.routing_key) == ("", "q")


def test_sigterm_tells_the_clients_and_keeps_everything(node: Node) -> None:
    connection = connect(node)
    channel = connection.channel()
    channel.queue_declare("q", durable=True)
    publish_all(channel, "q", numbered(200), persistent=True)
    stopping = threading.Thread(target=node.stop)
    stopping.start()
    deadline = time.monotonic() + PATIENCE_SECONDS
    with pytest.raises(pika.exceptions.ConnectionClosedByBroker) as caught:
        while time.monotonic() < deadline:
            connection.process_data_events(time_limit=0.1)
    assert caught.value.reply_code == 320
    stopping.join(20)
    assert not node.is_running()
    node.start()
    assert drain(connect(node).channel(), "q") == numbered(200)


def test_ten_restarts_in_a_row_lose_nothing(node: Node) -> None:
    for round_number in range(10):
        channel = connect(node).channel()
        channel.queue_declare("q", durable=True)
        publish_all(channel, "q", [b"%d" % round_number], persistent=True)
        if round_number % 2:
            node.kill9()
        else:
            node.stop()
        node.start()
    assert drain(connect(node).channel(), "q") == [b"%d" % number for number in range(10)]


def test_a_second_node_on_the_same_data_is_refused_and_the_first_goes_on(node: Node) -> None:
    channel = connect(node).channel()
    channel.queue_declare("q", durable=True)
    publish_all(channel, "q", [b"1"], persistent=True)
    second = Node(name="durable", data_dir=node.data_dir)
    try:
        with pytest.raises(NodeFailed, match=r"ended with code [1-9]"):
            second.start()
        assert str(node.data_dir) in second.log()
        assert "Traceback" not in second.log()
    finally:
        second.close()
    assert drain(connect(node).channel(), "q") == [b"1"]

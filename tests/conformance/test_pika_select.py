"""pika's callback connection: publishing without waiting, with confirms, beside a consumer."""

from typing import Any, Final

import pika
import pytest

from tests.conformance.broker import Broker

SECONDS: Final = 60.0


class Loop:
    """One SelectConnection whose steps run as callbacks; `run` returns when `stop` was called."""

    def __init__(self, broker: Broker) -> None:
        self.closed_because: Exception | None = None
        self.connection = pika.SelectConnection(
            pika.URLParameters(broker.url()),
            on_open_callback=lambda connection: connection.channel(on_open_callback=self.opened),
            on_close_callback=self.on_closed,
        )
        self.channel: Any = None

    def run(self) -> None:
        self.connection.ioloop.call_later(SECONDS, self.connection.ioloop.stop)
        self.connection.ioloop.start()

    def stop(self) -> None:
        self.connection.close()

    def opened(self, channel: Any) -> None:
        self.channel = channel
        self.begin()

    def begin(self) -> None:
        raise NotImplementedError

    def on_closed(self, _connection: Any, reason: Exception) -> None:
        self.closed_because = reason
        self.connection.ioloop.stop()


class ConfirmedPublisher(Loop):
    """Publishes `count` messages at once and notes each confirm."""

    def __init__(self, broker: Broker, queue: str, count: int, mandatory: bool = False) -> None:
        super().__init__(broker)
        self.queue = queue
        self.count = count
        self.mandatory = mandatory
        self.open_tags = set(range(1, count + 1))
        self.confirmed: list[int] = []
        self.nacked = 0
        self.returned: list[int] = []  # How many confirms were here at each return.

    def begin(self) -> None:
        self.channel.add_on_return_callback(self.on_return)
        self.channel.confirm_delivery(self.on_confirm, callback=self.publish)

    def publish(self, _frame: Any) -> None:
        properties = pika.BasicProperties(delivery_mode=2)
        for number in range(1, self.count + 1):
            body = b"%d" % number
            self.channel.basic_publish("", self.queue, body, properties, self.mandatory)

    def on_return(self, _channel: Any, _method: Any, _properties: Any, body: bytes) -> None:
        assert int(body) in self.open_tags, "returned after its confirm"
        self.returned.append(int(body))

    def on_confirm(self, frame: Any) -> None:
        tag, multiple = frame.method.delivery_tag, frame.method.multiple
        settled = {t for t in self.open_tags if t <= tag} if multiple else {tag}
        assert settled <= self.open_tags, "confirmed twice"
        self.open_tags -= settled
        self.confirmed += sorted(settled)
        self.nacked += isinstance(frame.method, pika.spec.Basic.Nack)
        if not self.open_tags:
            self.stop()


class Consumer(Loop):
    """Consumes `count` messages with a prefetch and acks in groups of ten."""

    def __init__(self, broker: Broker, queue: str, count: int) -> None:
        super().__init__(broker)
        self.queue = queue
        self.count = count
        self.bodies: list[bytes] = []

    def begin(self) -> None:
        self.channel.basic_qos(prefetch_count=50)
        self.channel.basic_consume(self.queue, self.on_message)

    def on_message(self, channel: Any, method: Any, _properties: Any, body: bytes) -> None:
        self.bodies.append(body)
        if method.delivery_tag % 10 == 0:
            channel.basic_ack(method.delivery_tag, multiple=True)
        if len(self.bodies) == self.count:
            self.stop()


@pytest.mark.parametrize("count", [1, 3_000])
def test_every_publish_gets_exactly_one_confirm_and_arrives_in_order(
    broker: Broker, queue: str, count: int
) -> None:
    publisher = ConfirmedPublisher(broker, queue, count)
    publisher.run()
    assert (publisher.open_tags, publisher.nacked) == (set(), 0)
    assert sorted(publisher.confirmed) == list(range(1, count + 1))
    consumer = Consumer(broker, queue, count)
    consumer.run()
    assert consumer.bodies == [b"%d" % number for number in range(1, count + 1)]


def test_a_return_comes_before_the_confirm_of_its_message(broker: Broker, name: str) -> None:
    publisher = ConfirmedPublisher(broker, f"{name}-nowhere", 500, mandatory=True)
    publisher.run()
    assert publisher.returned == list(range(1, 501))
    assert (publisher.open_tags, publisher.nacked) == (set(), 0)

"""Line breaks in names that clients of AMQP 0-9-1 declare are stripped, as RabbitMQ does."""

import uuid

from tests.conformance import raw
from tests.conformance.broker import Broker
from tests.conformance.raw import RawClient, short


def test_an_exchange_is_declared_without_the_line_breaks_of_its_name(broker: Broker) -> None:
    name = f"lines-{uuid.uuid4().hex}"
    connection = broker.connect()
    channel = connection.channel()
    channel.exchange_declare(f"{name}\r\n", "fanout")
    channel.exchange_declare(name, passive=True)
    channel.exchange_delete(name)
    connection.close()


def test_a_queue_is_declared_without_the_line_breaks_of_its_name(broker: Broker) -> None:
    """By bytes: pika waits for a declare-ok with the name that it sent."""
    name = f"lines-{uuid.uuid4().hex}"
    with RawClient(broker.host, broker.port).begin_channel() as client:
        client.send(raw.declare(1, f"\r{name}\r\n", 0))
        answer = client.expect(raw.QUEUE_DECLARE_OK)
        assert short(name) in answer.payload
    connection = broker.connect()
    channel = connection.channel()
    channel.queue_declare(name, passive=True)
    channel.queue_delete(name)
    connection.close()

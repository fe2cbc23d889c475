"""Line breaks in names that clients of AMQP 0-9-1 declare are stripped, as RabbitMQ does."""

import uuid

from tests.conformance.broker import Broker


def test_an_exchange_is_declared_without_the_line_breaks_of_its_name(broker: Broker) -> None:
    name = f"lines-{uuid.uuid4().hex}"
    connection = broker.connect()
    channel = connection.channel()
    channel.exchange_declare(f"{name}\r\n", "fanout")
    channel.exchange_declare(name, passive=True)
    channel.exchange_delete(name)
    connection.close()

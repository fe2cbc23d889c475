"""RabbitMQ's own AMQP 1.0 client for Python, as it is: management, publishing, consuming."""

from collections.abc import Iterator
from typing import Any

import pytest
import rabbitmq_amqp_python_client as rabbitmq

from tests.conformance.broker import Broker

BODIES = [b"%d" % number for number in range(20)]


class Taker(rabbitmq.AMQPMessagingHandler):
    """Accepts what it gets, unless that is settled already, until it has enough."""

    def __init__(self, count: int, settled: bool = False) -> None:
        super().__init__()
        self.count = count
        self.settled = settled
        self.bodies: list[bytes] = []

    def on_amqp_message(self, event: Any) -> None:
        self.bodies.append(bytes(event.message.body))
        if not self.settled:
            self.delivery_context.accept(event)
        if len(self.bodies) == self.count:
            raise StopIteration


@pytest.fixture
def client(own_broker: Broker) -> Iterator[Any]:
    place = f"{own_broker.host}:{own_broker.port}"
    connection = rabbitmq.Environment(f"amqp://guest:guest@{place}/").connection()
    connection.dial()
    yield connection
    connection.close()


def test_it_declares_binds_publishes_consumes_and_deletes(client: Any, name: str) -> None:
    management = client.management()
    management.declare_queue(rabbitmq.QuorumQueueSpecification(name=name))
    management.declare_exchange(rabbitmq.ExchangeSpecification(name=name))
    binding = rabbitmq.ExchangeToQueueBindingSpecification(
        source_exchange=name, destination_queue=name, binding_key="key"
    )
    assert management.bind(binding)
    address = rabbitmq.AddressHelper.exchange_address(name, "key")
    publisher = client.publisher(address)
    for body in BODIES:
        status = publisher.publish(rabbitmq.Message(body=body))
        assert status.remote_state == rabbitmq.OutcomeState.ACCEPTED
    assert management.queue_info(name).message_count == len(BODIES)
    taker = Taker(len(BODIES))
    source = rabbitmq.AddressHelper.queue_address(name)
    consumer = client.consumer(source, message_handler=taker)
    with pytest.raises(StopIteration):
        consumer.run()
    assert taker.bodies == BODIES
    consumer.close()
    publisher.close()
    assert management.purge_queue(name) == 0
    management.delete_exchange(name)
    management.delete_queue(name)
    management.close()


def test_an_exclusive_queue_goes_with_its_connection(
    own_broker: Broker, client: Any, channel: Any, name: str
) -> None:
    management = client.management()
    management.declare_queue(rabbitmq.ClassicQueueSpecification(name=name, is_exclusive=True))
    client.close()
    channel.queue_declare(name)  # Refused with 405 if it were there still.


def test_a_reply_comes_directly_to_who_asked(client: Any, channel: Any) -> None:
    """The client asks for a dynamic source with the capability `rabbitmq:volatile-queue`."""
    taker = Taker(1, settled=True)
    directly = rabbitmq.ConsumerOptions(
        settle_strategy=rabbitmq.ConsumerSettleStrategy.DirectReplyTo
    )
    consumer = client.consumer(message_handler=taker, consumer_options=directly)
    channel.basic_publish("", consumer.address.removeprefix("/queues/"), b"reply")
    with pytest.raises(StopIteration):
        consumer.run()
    assert taker.bodies == [b"reply"]
    consumer.close()

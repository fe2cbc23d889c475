"""rabbitmq-amqp-python-client, unmodified: each kind of request, what is refused, outcomes."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import rabbitmq_amqp_python_client as rabbit

from tests.conformance.broker import Broker

NAMES = ("rac.q", "rac.dead", "rac q/1")


@pytest.fixture
def connection(own_broker: Broker) -> Iterator[Any]:
    uri = f"amqp://guest:guest@{own_broker.host}:{own_broker.port}/"
    environment = rabbit.Environment(uri=uri)
    opened = environment.connection()
    opened.dial()
    yield opened
    management = opened.management()
    for name in NAMES:
        management.delete_queue(name)
    for name in ("rac.x", "rac.y"):
        management.delete_exchange(name)
    environment.close()


@pytest.fixture
def management(connection: Any) -> Any:
    return connection.management()


class Collector(rabbit.AMQPMessagingHandler):
    """Deals with so many messages by `settle`, then ends the run."""

    def __init__(self, count: int, settle: Callable[[Any, Any], None]) -> None:
        super().__init__()
        self.bodies: list[bytes] = []
        self._count = count
        self._settle = settle

    def on_amqp_message(self, event: Any) -> None:
        self.bodies.append(bytes(event.message.body))
        self._settle(self.delivery_context, event)
        if len(self.bodies) == self._count:
            raise Enough


class Enough(Exception):
    """All have come."""


def take(connection: Any, queue: str, count: int, settle: Callable[[Any, Any], None]) -> Collector:
    handler = Collector(count, settle)
    address = rabbit.AddressHelper.queue_address(queue)
    consumer = connection.consumer(address, message_handler=handler)
    with pytest.raises(Enough):
        consumer.run()
    consumer.close()
    return handler


def publish(connection: Any, address: str, *bodies: bytes) -> list[Any]:
    publisher = connection.publisher(address)
    states = [publisher.publish(rabbit.Message(body)).remote_state for body in bodies]
    publisher.close()
    return states


def accept(context: Any, event: Any) -> None:
    context.accept(event)


def test_a_queue_of_each_kind_is_declared_described_and_deleted(management: Any) -> None:
    management.declare_queue(rabbit.QuorumQueueSpecification(name="rac.q"))
    found = management.queue_info("rac.q")
    assert (found.name, found.queue_type, found.is_durable) == (
        "rac.q",
        rabbit.QueueType.quorum,
        True,
    )
    assert found.leader in found.members
    management.declare_queue(rabbit.ClassicQueueSpecification(name="rac q/1", max_len=5))
    assert management.queue_info("rac q/1").arguments["x-max-length"] == 5
    management.delete_queue("rac q/1")
    with pytest.raises(rabbit.ValidationCodeException):
        management.queue_info("rac q/1")


def test_a_queue_that_is_there_with_other_properties_is_a_precondition_that_failed(
    management: Any,
) -> None:
    management.declare_queue(rabbit.ClassicQueueSpecification(name="rac.q"))
    management.declare_queue(rabbit.ClassicQueueSpecification(name="rac.q"))
    with pytest.raises(rabbit.ValidationCodeException, match="ErrPreconditionFailed"):
        management.declare_queue(rabbit.QuorumQueueSpecification(name="rac.q"))


def test_messages_are_published_consumed_and_counted(connection: Any, management: Any) -> None:
    management.declare_queue(rabbit.QuorumQueueSpecification(name="rac.q"))
    address = rabbit.AddressHelper.queue_address("rac.q")
    bodies = [b"%d" % number for number in range(50)]
    accepted = rabbit.OutcomeState.ACCEPTED
    assert publish(connection, address, *bodies) == [accepted] * len(bodies)
    assert management.queue_info("rac.q").message_count == 50
    assert take(connection, "rac.q", 50, accept).bodies == bodies
    assert management.purge_queue("rac.q") == 0


def test_bindings_lead_from_exchanges_and_are_taken_away(connection: Any, management: Any) -> None:
    management.declare_exchange(rabbit.ExchangeSpecification(name="rac.x"))
    management.declare_exchange(
        rabbit.ExchangeSpecification(name="rac.y", exchange_type=rabbit.ExchangeType.topic)
    )
    management.declare_queue(rabbit.ClassicQueueSpecification(name="rac q/1"))
    management.bind(
        rabbit.ExchangeToExchangeBindingSpecification(
            source_exchange="rac.x", destination_exchange="rac.y", binding_key="a b"
        )
    )
    last = management.bind(
        rabbit.ExchangeToQueueBindingSpecification(
            source_exchange="rac.y", destination_queue="rac q/1", binding_key="#"
        )
    )
    address = rabbit.AddressHelper.exchange_address("rac.x", "a b")
    assert publish(connection, address, b"1") == [rabbit.OutcomeState.ACCEPTED]
    management.unbind(last)
    publisher = connection.publisher(address)
    with pytest.raises(Exception, match=f"^{int(rabbit.OutcomeState.RELEASED)}$"):
        publisher.publish(rabbit.Message(b"2"))
    publisher.close()
    assert management.purge_queue("rac q/1") == 1


def test_discarded_messages_are_dead_lettered_and_requeued_ones_come_again(
    connection: Any, management: Any
) -> None:
    management.declare_queue(rabbit.ClassicQueueSpecification(name="rac.dead"))
    management.declare_queue(
        rabbit.QuorumQueueSpecification(
            name="rac.q", dead_letter_exchange="", dead_letter_routing_key="rac.dead"
        )
    )
    publish(connection, rabbit.AddressHelper.queue_address("rac.q"), b"m")
    take(connection, "rac.q", 1, lambda context, event: context.requeue(event))
    take(connection, "rac.q", 1, lambda context, event: context.discard(event))
    assert take(connection, "rac.dead", 1, accept).bodies == [b"m"]

"""AMQP 1.0 frame by frame: settle modes, identifiers of messages, and the ends of links."""

from collections.abc import Iterator
from typing import Any
from uuid import UUID

import pytest
from proton import Described, int32, symbol, ubyte, uint, ulong

from tests.conformance.broker import Broker, numbered, publish_all, ready_count, take
from tests.conformance.raw10 import (
    ACCEPTED,
    ATTACH,
    DETACH,
    DISPOSITION,
    RECEIVER,
    SENDER,
    TRANSFER,
    Raw10,
    encode,
    source,
    target,
)

PROPERTIES = 0x73
SECOND = ubyte(1)
QUORUM = {"x-queue-type": "quorum"}


@pytest.fixture
def session(own_broker: Broker) -> Iterator[Raw10]:
    """With a session on channel 0."""
    with Raw10(own_broker.host, own_broker.port) as client:
        client.open()
        client.begin()
        yield client


def attach_second(raw: Raw10, address: str, snd_settle_mode: int) -> Any:
    """Attach a receiver with rcv-settle-mode second; the rcv-settle-mode of the answer."""
    modes = (ubyte(snd_settle_mode), SECOND)
    raw.call(ATTACH, "r0", uint(0), RECEIVER, *modes, source(address), target(None))
    answer = raw.expect(ATTACH)
    assert answer.field(5) is not None
    return answer.field(4)


def message_with(message_id: Any, correlation_id: Any = None) -> bytes:
    fields: list[Any] = [message_id, None, None, None, None, correlation_id]
    return encode(Described(ulong(PROPERTIES), fields)) + b"\x00\x53\x75\xa0\x01m"


# Settle modes


def test_pre_settled_consumer_may_ask_for_settle_mode_second(
    session: Raw10, channel: Any, queue: str
) -> None:
    publish_all(channel, queue, numbered(2))
    assert attach_second(session, f"/queues/{queue}", 1) == 1
    session.credit(2)
    assert [session.until(TRANSFER).field(4) for _ in range(2)] == [True, True]
    assert ready_count(channel, queue) == 0


def test_consumer_with_settle_mode_second_settles_after_the_broker(
    session: Raw10, channel: Any, queue: str
) -> None:
    publish_all(channel, queue, numbered(1))
    assert attach_second(session, f"/queues/{queue}", 0) == 1
    session.credit(1)
    delivery = session.until(TRANSFER).field(1)
    session.settle(int(delivery), int(delivery), ACCEPTED, settled=False)
    answer = session.until(DISPOSITION)
    assert (answer.field(0), answer.field(1), answer.field(3)) == (SENDER, delivery, True)
    assert answer.field(4).descriptor == ACCEPTED


# Identifiers


@pytest.mark.parametrize(
    ("sent", "shown"),
    [
        (int32(-7), "-7"),
        (-(1 << 40), str(-(1 << 40))),
        (uint(7), "7"),
        (ulong(1 << 40), str(1 << 40)),
        (True, "true"),
        (False, "false"),
        (UUID(int=1), f"urn:uuid:{UUID(int=1)}"),
    ],
)
def test_identifier_comes_as_sent_and_as_text_to_amqp_091(
    session: Raw10, channel: Any, queue: str, sent: object, shown: str
) -> None:
    session.attach_sender(f"/queues/{queue}")
    message = message_with(sent, sent)
    session.send(session.transfer(payload=message) + session.transfer(payload=message))
    assert session.until(DISPOSITION).field(4).descriptor == ACCEPTED
    got = take(channel, queue)
    assert got.properties.message_id == got.properties.correlation_id == shown
    session.attach_receiver(f"/queues/{queue}", handle=1)
    session.credit(1, handle=1)
    assert session.until(TRANSFER).payload.endswith(message)


@pytest.mark.parametrize("sent", [symbol("s"), [1], {"a": 1}, 1.5])
def test_identifier_of_another_type_is_refused_with_the_name_of_its_field(
    session: Raw10, channel: Any, queue: str, sent: object
) -> None:
    session.attach_sender(f"/queues/{queue}")
    session.send(session.transfer(payload=message_with(None, sent)))
    frame = session.read()
    while frame.code not in (DETACH, DISPOSITION):
        frame = session.read()
    error = frame.field(2) if frame.code == DETACH else frame.field(4).value[0]
    assert "correlation-id" in str(error.value[1])
    assert ready_count(channel, queue) == 0


# Queues that are deleted


@pytest.mark.parametrize("arguments", [{}, QUORUM])
@pytest.mark.parametrize("published", [0, 3])
def test_sender_whose_queue_is_deleted_is_detached(
    session: Raw10, channel: Any, name: str, arguments: Any, published: int
) -> None:
    channel.queue_declare(name, durable=True, arguments=arguments)
    session.attach_sender(f"/queues/{name}")
    if published:
        session.send(b"".join(session.transfer() for _ in range(published)))
        settled = 0
        while settled < published:
            frame = session.until(DISPOSITION)
            settled = int(frame.field(2) or frame.field(1)) + 1
    channel.queue_delete(name)
    detach = session.until(DETACH)
    assert (detach.field(1), detach.error) == (True, "amqp:resource-deleted")
    assert name in str(detach.field(2).value[1])
    session.call(DETACH, uint(0), True)
    channel.queue_declare(name, durable=True, arguments=arguments)
    session.attach_sender(f"/queues/{name}")
    session.send(session.transfer())
    assert session.until(DISPOSITION).field(4).descriptor == ACCEPTED

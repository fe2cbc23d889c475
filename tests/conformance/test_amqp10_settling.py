"""AMQP 1.0 frame by frame: settle modes, identifiers of messages, and the ends of links."""

from collections.abc import Iterator
from typing import Any
from uuid import UUID

import pytest
from proton import Described, Message, int32, symbol, ubyte, uint, ulong

from tests.conformance.broker import Broker, numbered, publish_all, ready_count, take
from tests.conformance.raw10 import (
    ACCEPTED,
    ATTACH,
    CLOSE,
    DETACH,
    DISPOSITION,
    END,
    FLOW,
    RECEIVER,
    SENDER,
    SOURCE,
    TRANSFER,
    Raw10,
    described,
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


# Detaches


def attach_management(raw: Raw10) -> None:
    """Links 7 and 8 to `/management`, with credit for replies."""
    rest = (None, None, uint(0), None, None, None, {symbol("paired"): True})
    node, modes = "/management", (ubyte(1), ubyte(0))
    ends = (source(node), target(node))
    raw.call(ATTACH, "pair", uint(7), SENDER, *modes, *ends, *rest)
    raw.until(ATTACH)
    raw.call(ATTACH, "pair", uint(8), RECEIVER, *modes, *ends, *rest)
    raw.until(ATTACH)
    raw.credit(100, handle=8)


def queue_info_count(raw: Raw10, queue: str) -> int:
    """The `message_count` in the answer to a request on the same session."""
    request: list[Any] = [ulong(1), None, f"/queues/{queue}", "GET", "$me"]
    null = b"\x00\x53\x77\x40"
    message = encode(Described(ulong(PROPERTIES), request)) + null
    raw.send(raw.transfer(handle=7, settled=True, payload=message))
    reply: Any = Message()
    reply.decode(raw.until(TRANSFER).payload)
    assert reply.subject == "200"
    return int(reply.body["message_count"])


@pytest.mark.parametrize("arguments", [{}, QUORUM])
@pytest.mark.parametrize("closed", [True, False])
def test_detach_is_answered_after_the_queue_has_the_messages(
    session: Raw10, channel: Any, name: str, arguments: Any, closed: bool
) -> None:
    channel.queue_declare(name, durable=True, arguments=arguments)
    attach_management(session)
    for turn in range(3):
        publish_all(channel, name, numbered(4))
        session.attach_receiver(f"/queues/{name}", handle=turn)
        session.credit(4, handle=turn)
        for _ in range(4):
            session.until(TRANSFER)
        session.call(DETACH, uint(turn), closed)
        assert bool(session.until(DETACH).field(1)) is closed
        assert queue_info_count(session, name) == 4
        channel.queue_purge(name)


@pytest.mark.parametrize("arguments", [{}, QUORUM])
def test_end_of_a_session_is_answered_after_the_queue_has_the_messages(
    session: Raw10, channel: Any, name: str, arguments: Any
) -> None:
    channel.queue_declare(name, durable=True, arguments=arguments)
    for _ in range(5):
        publish_all(channel, name, numbered(4))
        session.attach_receiver(f"/queues/{name}", handle=0)
        session.credit(4, handle=0)
        for _ in range(4):
            session.until(TRANSFER)
        session.call(END)
        assert session.until(END).error is None
        assert channel.queue_declare(name, passive=True).method.message_count == 4
        channel.queue_purge(name)
        session.begin()


def test_session_goes_on_while_a_detach_waits(session: Raw10, channel: Any, name: str) -> None:
    channel.queue_declare(name, durable=True, arguments=QUORUM)
    publish_all(channel, name, numbered(1))
    session.attach_receiver(f"/queues/{name}")
    session.credit(1)
    session.until(TRANSFER)
    again = ("r0", uint(0), RECEIVER, ubyte(0), ubyte(0), source(f"/queues/{name}"), target(None))
    session.send(session.frame(DETACH, uint(0), True) + session.frame(ATTACH, *again))
    codes = {session.read().code, session.read().code}
    assert codes == {ATTACH, DETACH}
    session.send(session.frame(DETACH, uint(0), True) + session.frame(END))
    assert session.until(END).error is None
    assert ready_count(channel, name) == 1


# Flows


def test_available_of_a_flow_leaves_out_what_was_sent_before_it(
    session: Raw10, channel: Any, queue: str
) -> None:
    publish_all(channel, queue, numbered(10))
    session.attach_receiver(f"/queues/{queue}")
    session.credit(4, echo=True)
    available = None
    for _ in range(5):
        frame = session.read()
        if frame.code == FLOW:
            available = int(frame.field(7))
    assert available == 6


# Opens


def test_open_before_a_refusal_names_the_container(own_broker: Broker) -> None:
    with Raw10(own_broker.host, own_broker.port) as raw:
        answer = raw.open(hostname="vhost:nowhere")
        assert answer.field(0) == "conformance"
        assert raw.expect(CLOSE).error == "amqp:not-allowed"


# Addresses of answers


def test_volatile_queue_has_a_name_of_direct_reply_to(session: Raw10, own_broker: Broker) -> None:
    source_of_answers = described(
        SOURCE, None, uint(0), symbol("link-detach"), uint(0), True, *[None] * 5,
        symbol("rabbitmq:volatile-queue"),
    )  # fmt: skip
    modes = (ubyte(1), ubyte(0))
    session.call(ATTACH, "r0", uint(0), RECEIVER, *modes, source_of_answers, target(None))
    address = str(session.expect(ATTACH).field(5).value[0])
    name = address.removeprefix("/queues/")
    assert name.startswith("amq.rabbitmq.reply-to.")
    session.credit(2)
    connection = own_broker.connect()
    responder = connection.channel()
    assert responder.queue_declare(name, passive=True).method.queue == name
    publish_all(responder, name, [b"answer"])
    connection.close()
    assert session.until(TRANSFER).payload.endswith(b"answer")
    session.attach_sender(address, handle=1)
    session.send(session.transfer(handle=1))
    found = {session.read().code for _ in range(3)}
    assert found == {FLOW, DISPOSITION, TRANSFER}

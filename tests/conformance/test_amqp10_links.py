"""AMQP 1.0 frame by frame: what links may ask for, and what becomes of deliveries."""

import time
from collections.abc import Iterator
from typing import Any

import pika
import pytest
from proton import Described, Message, symbol, timestamp, ubyte, uint, ulong

from tests.conformance.broker import Broker, drain, numbered, publish_all, ready_count
from tests.conformance.raw10 import (
    ACCEPTED,
    ATTACH,
    CLOSE,
    DETACH,
    DISPOSITION,
    END,
    FLOW,
    MESSAGE,
    OPEN,
    RECEIVER,
    RELEASED,
    SENDER,
    SOURCE,
    TARGET,
    TRANSFER,
    Frame,
    Raw10,
    described,
    encode,
    link_flow,
    source,
    target,
)

MODIFIED = 0x27
RECEIVED = 0x23
DELETE_ON_CLOSE, DELETE_ON_NO_LINKS, DELETE_ON_NO_MESSAGES = 0x2B, 0x2C, 0x2D
QUORUM = {"x-queue-type": "quorum"}
UNSETTLED = (ubyte(0), ubyte(0))


@pytest.fixture
def raw(own_broker: Broker) -> Iterator[Raw10]:
    with Raw10(own_broker.host, own_broker.port) as client:
        yield client


@pytest.fixture
def session(raw: Raw10) -> Raw10:
    """With a session on channel 0."""
    raw.open()
    raw.begin()
    return raw


def attach(raw: Raw10, role: bool, terminus: Any, handle: int = 0, properties: Any = None) -> Frame:
    """Attach as `role` with this source or target; the broker's attach."""
    termini = (terminus, target(None)) if role is RECEIVER else (source(None), terminus)
    rest = () if role is RECEIVER and properties is None else (None, None, uint(0))
    if properties is not None:
        rest = (*rest, None, None, None, properties)
    raw.call(ATTACH, f"l{handle}", uint(handle), role, *UNSETTLED, *termini, *rest)
    return raw.expect(ATTACH)


def dynamic(kind: int, policy: int | None = None, capability: str | None = None) -> Any:
    """A source or target that asks for a queue."""
    node = None
    if policy is not None:
        node = {symbol("lifetime-policy"): Described(ulong(policy), [])}
    fields: list[Any] = [None, uint(0), symbol("link-detach"), uint(0), True, node]
    kept = None if capability is None else symbol(capability)
    fields += [None] * 4 + [kept] if kind == SOURCE else [kept]
    return described(kind, *fields)


def address_of(frame: Frame, role: bool = RECEIVER) -> str:
    return str(frame.field(5 if role is RECEIVER else 6).value[0])


def name_of(address: str) -> str:
    assert address.startswith(("/queues/amq.gen-", "/queues/amq.rabbitmq.reply-to."))
    return address.removeprefix("/queues/")


def deliveries(raw: Raw10, count: int) -> list[Frame]:
    return [raw.until(TRANSFER) for _ in range(count)]


def message_of(frame: Frame) -> Any:
    message = Message()
    message.decode(frame.payload)
    return message


def annotations_of(frame: Frame) -> dict[str, object]:
    found = message_of(frame).annotations or {}
    route = ("x-exchange", "x-routing-key")
    return {str(key): value for key, value in found.items() if key not in route}


def modified(failed: bool, elsewhere: bool, **annotations: object) -> Any:
    words = {symbol(key.replace("_", "-")): value for key, value in annotations.items()}
    return described(MODIFIED, failed, elsewhere, words or None)


def settle(raw: Raw10, frame: Frame, state: Any) -> None:
    raw.call(DISPOSITION, RECEIVER, frame.field(1), None, True, state)


def is_gone(connection: Any, queue: str) -> bool:
    channel = connection.channel()
    try:
        channel.queue_declare(queue, passive=True)
    except pika.exceptions.ChannelClosedByBroker as error:
        return bool(error.reply_code == 404)
    channel.close()
    return False


# Dynamic termini


@pytest.mark.parametrize("capability", [None, "temporary-queue", "rabbitmq:volatile-queue"])
def test_a_dynamic_source_is_a_queue_of_its_own_until_the_link_ends(
    session: Raw10, connection: Any, capability: str | None
) -> None:
    answer = attach(session, RECEIVER, dynamic(SOURCE, DELETE_ON_CLOSE, capability))
    told = answer.field(5).value
    address = address_of(answer)
    assert (told[2], told[4]) == (symbol("link-detach"), True)
    [(key, policy)] = told[5].items()
    assert (str(key), int(policy.descriptor)) == ("lifetime-policy", DELETE_ON_CLOSE)
    assert told[10] == symbol(capability or "temporary-queue")
    session.credit(1)
    connection.channel().basic_publish("", name_of(address), b"reply")
    assert message_of(session.until(TRANSFER)).body == b"reply"
    session.call(DETACH, uint(0), True)
    session.until(DETACH)
    session.call(CLOSE)
    session.until(CLOSE)
    assert is_gone(connection, name_of(address))


def test_a_queue_that_was_made_for_a_link_is_locked_for_other_connections(
    own_broker: Broker, session: Raw10
) -> None:
    address = address_of(attach(session, RECEIVER, dynamic(SOURCE)))
    with Raw10(own_broker.host, own_broker.port) as other:
        other.open()
        other.begin()
        assert attach(other, RECEIVER, source(address)).field(5) is None
        assert other.expect(DETACH).error == "amqp:resource-locked"
        answer = attach(other, SENDER, target(address), 1)
        assert address_of(answer, SENDER) == address


def test_a_dynamic_target_is_published_to_and_read_from_its_address(session: Raw10) -> None:
    address = address_of(attach(session, SENDER, dynamic(TARGET)), SENDER)
    session.expect(FLOW)
    session.send(session.transfer())
    session.expect(DISPOSITION)
    assert address_of(attach(session, RECEIVER, source(address), 1)) == address
    session.credit(1, handle=1)
    assert session.until(TRANSFER).payload.endswith(b"\x00\x53\x75\xa0\x01m")
    session.call(DETACH, uint(0), True)
    assert session.until(DETACH).field(0) in (0, 1)
    assert session.until(DETACH).field(0) in (0, 1)


@pytest.mark.parametrize("end", ["session", "connection", "socket"])
def test_a_dynamic_queue_goes_with_its_session_and_its_connection(
    own_broker: Broker, connection: Any, end: str
) -> None:
    with Raw10(own_broker.host, own_broker.port) as raw:
        raw.open()
        raw.begin()
        name = name_of(address_of(attach(raw, RECEIVER, dynamic(SOURCE, DELETE_ON_NO_MESSAGES))))
        connection.channel().basic_publish("", name, b"kept")
        assert not is_gone(connection, name)
        if end == "connection":
            raw.call(CLOSE)
            raw.until(CLOSE)
        elif end == "session":
            raw.call(END)
            raw.until(END)
            raw.call(CLOSE)
            raw.until(CLOSE)
    wait_until_gone(own_broker, name)


def wait_until_gone(broker: Broker, name: str) -> None:
    connection = broker.connect()
    for _ in range(200):
        if is_gone(connection, name):
            connection.close()
            return
        connection.process_data_events(time_limit=0.02)
    pytest.fail(f"{name} is still there")


def test_a_lifetime_until_there_are_no_links_outlives_the_link_it_was_made_for(
    own_broker: Broker, session: Raw10
) -> None:
    address = address_of(attach(session, RECEIVER, dynamic(SOURCE, DELETE_ON_NO_LINKS)))
    assert address_of(attach(session, SENDER, target(address), 1), SENDER) == address
    session.until(FLOW)
    session.call(DETACH, uint(0), True)
    session.until(DETACH)
    session.send(session.transfer(handle=1))
    assert session.until(DISPOSITION).field(4).descriptor == ACCEPTED
    session.call(DETACH, uint(1), True)
    session.until(DETACH)
    wait_until_gone(own_broker, name_of(address))


def test_the_user_needs_the_right_to_declare_but_for_a_volatile_queue(raw: Raw10) -> None:
    raw.open("limited")
    raw.begin()
    attach(raw, RECEIVER, dynamic(SOURCE, None, "rabbitmq:volatile-queue"))
    raw.call(ATTACH, "l1", uint(1), RECEIVER, *UNSETTLED, dynamic(SOURCE), target(None))
    assert raw.until(END).error == "amqp:unauthorized-access"


@pytest.mark.parametrize(
    "asked",
    [
        described(SOURCE, "/queues/q", uint(0), None, uint(0), True),
        dynamic(SOURCE, 0x2F),
        dynamic(SOURCE, 0x24),
    ],
)
def test_what_no_dynamic_source_can_be_is_invalid(session: Raw10, asked: Any) -> None:
    assert attach(session, RECEIVER, asked).field(5) is None
    assert session.expect(DETACH).error == "amqp:invalid-field"


def test_a_link_that_is_detached_before_its_queue_is_there_leaves_no_queue(
    own_broker: Broker, session: Raw10, channel: Any
) -> None:
    frames = session.frame(
        ATTACH, "l0", uint(0), RECEIVER, *UNSETTLED, dynamic(SOURCE), target(None)
    )
    session.send(frames + session.frame(DETACH, uint(0), True))
    assert session.expect(ATTACH).field(5) is None
    session.expect(DETACH)
    address = address_of(attach(session, RECEIVER, dynamic(SOURCE), 1))
    assert not is_gone(channel.connection, name_of(address))


# Termini


def test_an_attach_is_answered_with_what_holds(session: Raw10, queue: str) -> None:
    filters = {symbol("selector"): Described(symbol("apache.org:selector-filter:string"), "a = 1")}
    asked = described(
        *(SOURCE, f"/queues/{queue}", uint(2), symbol("connection-close"), uint(5), False, None),
        *(symbol("move"), filters, None, None, symbol("queue")),
    )
    termini = (asked, target("mine"))
    session.call(ATTACH, "l", uint(0), RECEIVER, ubyte(0), ubyte(1), *termini)
    answer = session.expect(ATTACH)
    assert answer.field(4) == 1
    told = answer.field(5).value
    told += [None] * (11 - len(told))
    assert told[2] in (None, symbol("session-end"))
    assert [str(name) for name in told[7]] == ["selector"]
    assert int(told[8].descriptor) == RELEASED
    assert [str(each) for each in told[9].elements] == [
        f"amqp:{outcome}:list" for outcome in ("accepted", "rejected", "released", "modified")
    ]
    assert told[10] is None


@pytest.mark.parametrize("role", [SENDER, RECEIVER])
def test_a_terminus_that_never_expires_is_refused(session: Raw10, queue: str, role: bool) -> None:
    kind = SOURCE if role is RECEIVER else TARGET
    asked = described(kind, f"/queues/{queue}", uint(0), symbol("never"))
    assert attach(session, role, asked).field(5 if role is RECEIVER else 6) is None
    assert session.expect(DETACH).error == "amqp:not-implemented"


@pytest.mark.parametrize(
    ("expiry", "told"),
    [
        ("link-detach", "link-detach"),
        ("session-end", None),
        ("connection-close", None),
        ("SESSION_END", None),
    ],
)
def test_other_expiry_policies_are_taken(
    session: Raw10, queue: str, expiry: str, told: str | None
) -> None:
    asked = described(SOURCE, f"/queues/{queue}", uint(0), symbol(expiry))
    answer = attach(session, RECEIVER, asked).field(5).value[2]
    assert answer in (symbol(told or "session-end"), told)


def test_the_same_container_may_connect_twice(own_broker: Broker, queue: str) -> None:
    with (
        Raw10(own_broker.host, own_broker.port) as first,
        Raw10(own_broker.host, own_broker.port) as second,
    ):
        for each in (first, second):
            assert each.open().code == OPEN
            each.begin()
        for each in (first, second):
            assert address_of(attach(each, RECEIVER, source(f"/queues/{queue}"))).endswith(queue)


# Outcomes of consumers


@pytest.mark.parametrize("arguments", [{}, QUORUM])
def test_the_next_consumer_sees_what_a_modified_outcome_says(
    session: Raw10, channel: Any, name: str, arguments: dict[str, str]
) -> None:
    channel.queue_declare(name, durable=True, arguments=arguments)
    publish_all(channel, name, numbered(2))
    attach(session, RECEIVER, source(f"/queues/{name}"))
    session.credit(10)
    first, second = deliveries(session, 2)
    settle(session, second, modified(True, False, x_why="bad", x_count=uint(1)))
    again = session.until(TRANSFER)
    assert annotations_of(again) == {"x-why": "bad", "x-count": 1}
    assert message_of(again).body == b"2"
    settle(session, again, modified(False, False, x_count=uint(2), x_new=[1, None]))
    third = session.until(TRANSFER)
    assert annotations_of(third) == {"x-why": "bad", "x-count": 2, "x-new": [1, None]}
    settle(session, first, described(RELEASED))
    assert annotations_of(session.until(TRANSFER)) == {}


def test_consumers_of_the_other_protocol_see_it_as_headers(
    session: Raw10, channel: Any, queue: str
) -> None:
    properties = pika.BasicProperties(headers={"kept": 1, "x-why": "old"}, message_id="m")
    channel.basic_publish("", queue, b"1", properties)
    attach(session, RECEIVER, source(f"/queues/{queue}"))
    session.credit(1)
    settle(session, session.until(TRANSFER), modified(True, False, x_why="new"))
    session.call(DETACH, uint(0), True)
    session.until(DETACH)
    method, got, body = channel.basic_get(queue, auto_ack=True)
    assert (method.redelivered, body, got.message_id) == (True, b"1", "m")
    assert got.headers == {"kept": 1, "x-why": "new"}


@pytest.mark.parametrize("arguments", [{}, QUORUM])
def test_what_is_undeliverable_here_is_dead_lettered_with_what_was_said(
    session: Raw10, channel: Any, name: str, arguments: dict[str, str]
) -> None:
    dead = channel.queue_declare("", exclusive=True).method.queue
    rule = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": dead}
    channel.queue_declare(name, durable=True, arguments=arguments | rule)
    attach(session, SENDER, target(f"/queues/{name}"), 1)
    session.expect(FLOW)
    session.send(session.transfer(handle=1))
    session.until(DISPOSITION)
    attach(session, RECEIVER, source(f"/queues/{name}"))
    session.credit(1)
    forged = {"x_why": "bad", "x_opt_deaths": [], "x_first_death_queue": "forged"}
    settle(session, session.until(TRANSFER), modified(False, True, **forged))
    session.call(CLOSE)
    session.until(CLOSE)
    got = None
    while got is None:
        _, got, _ = channel.basic_get(dead, auto_ack=True)
    assert got.headers["x-why"] == "bad"
    assert got.headers["x-first-death-queue"] == name
    assert got.headers["x-death"][0]["reason"] == "rejected"


@pytest.mark.parametrize(
    ("words", "condition"),
    [
        ({"own": 1}, "amqp:invalid-field"),
        ({"x_large": "x" * 3000}, "amqp:resource-limit-exceeded"),
    ],
)
def test_annotations_that_may_not_be_are_an_error_and_the_message_stays(
    session: Raw10, channel: Any, queue: str, words: dict[str, object], condition: str
) -> None:
    publish_all(channel, queue, [b"1"])
    attach(session, RECEIVER, source(f"/queues/{queue}"))
    session.credit(1)
    settle(session, session.until(TRANSFER), modified(True, False, **words))
    assert session.until(END).error == condition
    session.call(END)
    assert drain(channel, queue) == [b"1"]


def test_a_delivery_that_was_only_received_stays_with_its_consumer(
    session: Raw10, channel: Any, queue: str
) -> None:
    publish_all(channel, queue, numbered(3))
    attach(session, RECEIVER, source(f"/queues/{queue}"))
    session.credit(3)
    deliveries(session, 3)
    heard = described(RECEIVED, uint(0), ulong(0))
    session.call(DISPOSITION, RECEIVER, uint(0), uint(2), False, heard)
    session.settle(0, 1, ACCEPTED)
    session.call(DETACH, uint(0), True)
    session.until(DETACH)
    assert drain(channel, queue) == [b"3"]


def test_a_detach_that_does_not_close_gives_back_what_was_held(
    session: Raw10, channel: Any, queue: str
) -> None:
    publish_all(channel, queue, numbered(2))
    attach(session, RECEIVER, source(f"/queues/{queue}"))
    session.credit(2)
    deliveries(session, 2)
    session.call(DETACH, uint(0), False)
    session.until(DETACH)
    assert drain(channel, queue) == numbered(2)


# A consumer that is too slow


@pytest.mark.parametrize("arguments", [{}, QUORUM])
def test_deliveries_that_are_held_too_long_are_released_and_the_link_goes_on(
    session: Raw10, channel: Any, name: str, arguments: dict[str, str]
) -> None:
    channel.queue_declare(name, durable=True, arguments=arguments)
    publish_all(channel, name, numbered(2))
    timeout = {symbol("rabbitmq:consumer-timeout"): uint(100)}
    answer = attach(session, RECEIVER, source(f"/queues/{name}"), properties=timeout)
    assert answer.field(5) is not None
    session.credit(3)
    assert [int(each.field(1)) for each in deliveries(session, 2)] == [0, 1]
    told = session.until(DISPOSITION)
    assert (told.field(0), told.field(1), told.field(2)) == (SENDER, 0, 1)
    assert (told.field(3), told.field(4).descriptor) == (True, RELEASED)
    third = session.until(TRANSFER)
    assert (int(third.field(1)), third.payload[-1:]) == (2, b"1")
    session.settle(0, 2, ACCEPTED)
    session.credit(5, count=3)
    assert session.until(TRANSFER).payload[-1:] == b"2"
    session.credit(4, count=4, drain=True, echo=True)
    flow = session.until(FLOW)
    while link_flow(flow)[1] > 0:
        flow = session.until(FLOW)
    assert link_flow(flow) == (8, 0, True)
    session.settle(3, 3, ACCEPTED)
    assert ready_count(channel, name) == 0


def test_a_single_active_consumer_that_is_too_slow_gives_way_and_stays_in_line(
    session: Raw10, channel: Any, name: str
) -> None:
    channel.queue_declare(name, arguments={"x-single-active-consumer": True})
    publish_all(channel, name, numbered(2))
    timeout = {symbol("rabbitmq:consumer-timeout"): uint(100)}
    attach(session, RECEIVER, source(f"/queues/{name}"), 0, timeout)
    attach(session, RECEIVER, source(f"/queues/{name}"), 1)
    session.credit(5, handle=1)
    session.credit(1, handle=0)
    assert int(session.until(TRANSFER).field(0)) == 0
    taken = deliveries(session, 2)
    assert [(int(each.field(0)), each.payload[-1:]) for each in taken] == [(1, b"1"), (1, b"2")]
    session.settle(1, 2, ACCEPTED)
    session.call(DETACH, uint(1), True)
    session.until(DETACH)
    channel.basic_publish("", name, b"3")
    session.credit(2, count=1, handle=0)
    assert int(session.until(TRANSFER).field(0)) == 0


@pytest.mark.parametrize("timeout", ["soon", True, ulong(1 << 40)])
def test_a_consumer_timeout_that_is_none_is_invalid(
    session: Raw10, queue: str, timeout: object
) -> None:
    properties = {symbol("rabbitmq:consumer-timeout"): timeout}
    terminus = source(f"/queues/{queue}")
    assert attach(session, RECEIVER, terminus, properties=properties).field(5) is None
    assert session.expect(DETACH).error == "amqp:invalid-field"


# Messages


def test_a_message_without_a_header_is_transient_and_has_priority_4(
    session: Raw10, channel: Any, queue: str
) -> None:
    attach(session, SENDER, target(f"/queues/{queue}"), 1)
    session.expect(FLOW)
    session.send(session.transfer(handle=1, payload=b"\x00\x53\x75\xa0\x01m"))
    session.until(DISPOSITION)
    _, properties, body = channel.basic_get(queue)
    assert (body, properties.delivery_mode) == (b"m", 1)
    assert properties.priority in (None, 4)


def test_the_bare_message_comes_as_it_went_bit_by_bit(session: Raw10, queue: str) -> None:
    """In encodings that no encoder would choose."""
    properties = b"\x00\x80" + (0x73).to_bytes(8) + b"\xd0\x00\x00\x00\x0a\x00\x00\x00\x01"
    properties += b"\xb1\x00\x00\x00\x01i"
    application = b"\x00\x53\x74\xd1\x00\x00\x00\x08\x00\x00\x00\x02\xa1\x01k\x40"
    body = b"\x00\x53\x77\xf0\x00\x00\x00\x06\x00\x00\x00\x01\x56\x01"
    footer = b"\x00\x53\x78\xc1\x01\x00"
    bare = properties + application + body + footer
    attach(session, SENDER, target(f"/queues/{queue}"), 1)
    session.expect(FLOW)
    session.send(session.transfer(handle=1, payload=bare))
    told = session.until(DISPOSITION)
    assert told.field(4).descriptor == ACCEPTED
    attach(session, RECEIVER, source(f"/queues/{queue}"))
    session.credit(1)
    came = session.until(TRANSFER)
    assert came.payload.endswith(bare)
    settle(session, came, modified(True, False, x_why="bad"))
    session.credit(1, count=1)
    again = session.until(TRANSFER)
    assert again.payload.endswith(bare)
    assert again.payload != came.payload


def test_an_aborted_message_is_dropped_and_its_link_goes_on(
    session: Raw10, channel: Any, queue: str
) -> None:
    attach(session, SENDER, target(f"/queues/{queue}"), 1)
    session.expect(FLOW)
    begun = (uint(1), uint(0), b"t", uint(0), False, True)
    session.send(session.frame(TRANSFER, *begun, payload=b"\x00\x53\x75\xa0\x02a"))
    aborted = (uint(1), uint(0), None, None, None, False, None, None, False, True)
    session.call(TRANSFER, *aborted)
    session.next_id = 1
    session.send(session.transfer(handle=1))
    told = session.until(DISPOSITION)
    assert (told.field(1), told.field(4).descriptor) == (1, ACCEPTED)
    assert drain(channel, queue) == [b"m"]


def test_a_large_message_to_a_queue_that_is_deleted_is_called_off(
    own_broker: Broker, channel: Any, name: str
) -> None:
    channel.queue_declare(name, durable=True)
    channel.basic_publish("", name, bytes(100_000))
    with Raw10(own_broker.host, own_broker.port) as raw:
        raw.open()
        raw.begin(window=3)
        attach(raw, RECEIVER, source(f"/queues/{name}"))
        raw.call(FLOW, *map(uint, (0, 1, 0, 100, 0, 0, 3)))
        assert raw.until(TRANSFER).field(5) is True
        raw.call(FLOW, *map(uint, (1, 0, 0, 100)))
        channel.queue_delete(name)
        assert raw.until(DETACH).error == "amqp:resource-deleted"


@pytest.mark.parametrize("arguments", [{}, QUORUM])
def test_what_was_sent_before_a_detach_is_answered_all_the_same(
    session: Raw10, channel: Any, name: str, arguments: dict[str, str]
) -> None:
    channel.queue_declare(name, durable=True, arguments=arguments)
    attach(session, SENDER, target(f"/queues/{name}"), 1)
    session.expect(FLOW)
    sent = session.transfer(handle=1) + session.transfer(handle=1)
    session.send(sent + session.frame(DETACH, uint(1), False))
    frames = [session.read(), session.read()]
    told = next(each for each in frames if each.code == DISPOSITION)
    assert (told.field(1), told.field(2), told.field(4).descriptor) == (0, 1, ACCEPTED)
    assert {each.code for each in frames} == {DISPOSITION, DETACH}


def test_messages_before_a_wrong_one_are_answered(session: Raw10, queue: str) -> None:
    attach(session, SENDER, target(None), 1)
    session.expect(FLOW)
    to_queue = encode(described(0x73, None, None, f"/queues/{queue}")) + MESSAGE
    sent = session.transfer(handle=1, payload=to_queue)
    session.send(sent + session.transfer(handle=1, settled=True))
    frames = [session.read(), session.read()]
    assert {each.code for each in frames} == {DISPOSITION, DETACH}
    told = next(each for each in frames if each.code == DISPOSITION)
    assert (told.field(1), told.field(4).descriptor) == (0, ACCEPTED)


def test_a_consumer_says_when_a_message_is_to_come_again(
    session: Raw10, channel: Any, name: str
) -> None:
    channel.queue_declare(name, durable=True, arguments=QUORUM)
    publish_all(channel, name, numbered(2))
    attach(session, RECEIVER, source(f"/queues/{name}"))
    session.credit(1)
    came = session.until(TRANSFER)
    due_s = time.time() + 0.5
    words = {"x_opt_delivery_time": timestamp(round(1000 * due_s))}
    settle(session, came, modified(True, False, **words))
    session.credit(2, 1)
    assert message_of(session.until(TRANSFER)).body == b"2"
    assert message_of(session.until(TRANSFER)).body == b"1"
    assert time.time() >= due_s - 0.05

"""AMQP 1.0 frame by frame: what clients hide."""

from collections.abc import Iterator
from typing import Any

import pytest
from proton import symbol, uint

from tests.conformance.broker import Broker, drain, numbered, publish_all, ready_count
from tests.conformance.raw10 import (
    ACCEPTED,
    AMQP_HEADER,
    CLOSE,
    DETACH,
    DISPOSITION,
    END,
    FLOW,
    OPEN,
    REJECTED,
    RELEASED,
    SASL_HEADER,
    SASL_INIT,
    SASL_OUTCOME,
    SENDER,
    TRANSFER,
    Frame,
    Raw10,
    link_flow,
)

TLS_HEADER = b"AMQP\x02\x01\x00\x00"
CREDIT = 170


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


def deliveries(raw: Raw10, count: int) -> list[Frame]:
    """So many transfers, in order."""
    return [raw.until(TRANSFER) for _ in range(count)]


# Connections


@pytest.mark.parametrize("header", [AMQP_HEADER, TLS_HEADER])
def test_who_does_not_begin_with_sasl_is_told_to_and_closed(raw: Raw10, header: bytes) -> None:
    raw.send(header)
    assert raw.take(8) == SASL_HEADER
    assert raw.closed()


def test_a_wrong_password_gets_outcome_1_and_the_end(raw: Raw10) -> None:
    assert int(raw.login("guest", "wrong").field(0)) == 1
    assert raw.closed()


def test_anonymous_logs_in_as_the_user_that_the_settings_name(raw: Raw10) -> None:
    raw.send(SASL_HEADER)
    assert raw.take(8) == SASL_HEADER
    assert symbol("ANONYMOUS") in raw.read().field(0).elements
    raw.call(SASL_INIT, symbol("ANONYMOUS"), b"trace")
    assert int(raw.expect(SASL_OUTCOME).field(0)) == 0
    raw.send(AMQP_HEADER)
    assert raw.take(8) == AMQP_HEADER
    raw.call(OPEN, "raw")
    raw.expect(OPEN)
    raw.begin()


def test_open_says_who_we_are_and_what_there_is(raw: Raw10) -> None:
    answer = raw.open()
    container, _, frame_size, channel_max, idle_ms = answer.fields[:5]
    assert (container, frame_size, channel_max, idle_ms) == ("conformance", 131072, 63, 30000)
    offered = {str(each) for each in answer.field(7).elements}
    assert offered >= {"LINK_PAIR_V1_0", "ANONYMOUS-RELAY"}
    properties = {str(key): value for key, value in answer.field(9).items()}
    assert properties["version"] >= "4.2"
    assert (properties["implementation"], properties["node"]) == ("Warren", "conformance")


@pytest.mark.parametrize(
    ("user", "hostname", "condition"),
    [
        ("guest", "vhost:nowhere", "amqp:not-allowed"),
        ("stranger", None, "amqp:unauthorized-access"),
    ],
)
def test_a_vhost_that_is_not_for_this_user_closes(
    raw: Raw10, user: str, hostname: str | None, condition: str
) -> None:
    raw.open(user, hostname)
    assert raw.expect(CLOSE).error == condition
    raw.call(CLOSE)
    assert raw.closed()


def test_the_hostname_chooses_the_vhost(raw: Raw10, queue: str) -> None:
    raw.open(hostname="vhost:/")
    raw.begin()
    assert raw.attach_receiver(f"/queues/{queue}").field(5).value[0] == f"/queues/{queue}"


def test_a_client_that_wants_to_hear_from_us_each_second_does(raw: Raw10) -> None:
    raw.open(idle_ms=1000)
    assert raw.take(8) == b"\x00\x00\x00\x08\x02\x00\x00\x00"


def test_close_is_answered(session: Raw10) -> None:
    session.call(CLOSE)
    assert session.expect(CLOSE).error is None
    assert session.closed()


# Publishing


def test_a_publisher_is_granted_credit_again_from_half_on(session: Raw10, queue: str) -> None:
    session.attach_sender(f"/queues/{queue}")
    assert link_flow(session.expect(FLOW)) == (0, CREDIT, False)
    session.send(b"".join(session.transfer() for _ in range(CREDIT // 2)))
    granted = False
    settled = 0
    while not granted or settled < CREDIT // 2:
        frame = session.read()
        if frame.code == FLOW:
            granted = True
            assert link_flow(frame) == (CREDIT // 2, CREDIT, False)
        else:
            assert (frame.code, frame.field(4).descriptor) == (DISPOSITION, ACCEPTED)
            settled += int(frame.field(2) or frame.field(1)) - int(frame.field(1)) + 1


def test_a_quorum_queue_has_its_publisher_granted_credit_as_it_commits(
    session: Raw10, channel: Any, name: str
) -> None:
    channel.queue_declare(name, durable=True, arguments={"x-queue-type": "quorum"})
    session.attach_sender(f"/queues/{name}")
    wanted, confirmed = 4 * CREDIT, 0
    while confirmed < wanted:
        frame = session.read()
        if frame.code == DISPOSITION:
            confirmed = int(frame.field(2) or frame.field(1)) + 1
        elif frame.field(4) is not None:
            count, credit, _ = link_flow(frame)
            room = min(count + credit, wanted) - session.next_id
            session.send(b"".join(session.transfer() for _ in range(room)))
    assert ready_count(channel, name) == wanted


def test_outcomes_of_a_run_are_one_disposition(session: Raw10, queue: str) -> None:
    session.attach_sender(f"/queues/{queue}")
    session.expect(FLOW)
    session.send(b"".join(session.transfer() for _ in range(20)))
    told = session.expect(DISPOSITION)
    assert (told.field(0), told.field(1), told.field(2), told.field(3)) == (True, 0, 19, True)


def test_a_settled_message_gets_no_outcome(session: Raw10, channel: Any, queue: str) -> None:
    session.attach_sender(f"/queues/{queue}")
    session.expect(FLOW)
    session.send(session.transfer(settled=True) + session.transfer())
    told = session.expect(DISPOSITION)
    assert (told.field(1), told.field(2)) == (1, None)
    assert ready_count(channel, queue) == 2


def test_a_settled_message_without_a_way_ends_an_anonymous_link(session: Raw10) -> None:
    session.attach_sender(None)
    session.expect(FLOW)
    session.send(session.transfer(settled=True))
    assert session.expect(DETACH).error == "amqp:precondition-failed"


def test_a_full_queue_is_named_in_the_outcome(session: Raw10, channel: Any, name: str) -> None:
    channel.queue_declare(name, arguments={"x-max-length": 0, "x-overflow": "reject-publish"})
    session.attach_sender(f"/queues/{name}")
    session.expect(FLOW)
    session.send(session.transfer())
    state = session.expect(DISPOSITION).field(4)
    error = state.value[0].value
    assert (state.descriptor, str(error[0])) == (REJECTED, "amqp:resource-limit-exceeded")
    info = {str(key): value for key, value in error[2].items()}
    assert info == {"queue": name, "reason": "maxlen"}


def test_a_user_without_the_right_loses_the_session(raw: Raw10) -> None:
    raw.open("limited")
    for address in ("/exchanges/amq.direct/x", "/queues/closed"):
        raw.begin()
        with pytest.raises(AssertionError, match="0x17"):
            raw.attach_sender(address)
        raw.call(END)


def test_more_messages_than_credit_end_the_link(session: Raw10, queue: str) -> None:
    session.attach_sender(f"/queues/{queue}")
    session.expect(FLOW)
    session.send(b"".join(session.transfer() for _ in range(CREDIT + 1)))
    assert session.until(DETACH).error == "amqp:link:transfer-limit-exceeded"


# Consuming


def test_nothing_comes_before_credit_and_no_more_than_that(
    session: Raw10, channel: Any, queue: str
) -> None:
    publish_all(channel, queue, numbered(5))
    session.attach_receiver(f"/queues/{queue}")
    session.credit(0, echo=True)
    flow = session.expect(FLOW)
    assert (link_flow(flow), flow.field(7)) == ((0, 0, False), 5)
    session.credit(2, echo=True)
    assert [each.payload[-1:] for each in deliveries(session, 2)] == [b"1", b"2"]
    session.credit(0, count=2, echo=True)
    assert link_flow(session.until(FLOW)) == (2, 0, False)
    assert ready_count(channel, queue) == 3


def test_a_drain_uses_up_the_credit(session: Raw10, channel: Any, queue: str) -> None:
    session.attach_receiver(f"/queues/{queue}")
    session.credit(10, drain=True)
    assert link_flow(session.expect(FLOW)) == (10, 0, True)
    publish_all(channel, queue, numbered(3))
    session.credit(10, count=10, drain=True)
    assert [each.payload[-1:] for each in deliveries(session, 3)] == [b"1", b"2", b"3"]
    assert link_flow(session.expect(FLOW)) == (20, 0, True)


def test_what_is_left_of_an_outcome_is_settled_by_us(
    session: Raw10, channel: Any, queue: str
) -> None:
    publish_all(channel, queue, numbered(3))
    session.attach_receiver(f"/queues/{queue}")
    session.credit(3)
    ids = [int(each.field(1)) for each in deliveries(session, 3)]
    session.settle(ids[0], ids[1], ACCEPTED, settled=False)
    told = session.until(DISPOSITION)
    assert told.field(0) is SENDER
    assert (told.field(1), told.field(2), told.field(3)) == (ids[0], ids[1], True)
    session.settle(ids[0], ids[2], RELEASED)
    session.call(CLOSE)
    session.until(CLOSE)
    assert drain(channel, queue) == [b"3"]


def test_settled_deliveries_are_gone_at_once(session: Raw10, channel: Any, queue: str) -> None:
    publish_all(channel, queue, numbered(3))
    session.attach_receiver(f"/queues/{queue}", settled=1)
    session.credit(2)
    assert [each.field(4) for each in deliveries(session, 2)] == [True, True]
    session.call(CLOSE)
    session.until(CLOSE)
    assert drain(channel, queue) == [b"3"]


def test_a_small_window_holds_up_transfers_and_nothing_else(
    raw: Raw10, channel: Any, queue: str
) -> None:
    publish_all(channel, queue, numbered(5))
    raw.open()
    raw.begin(window=2)
    raw.attach_receiver(f"/queues/{queue}")
    raw.call(FLOW, *map(uint, (0, 2, 0, 100, 0, 0, 5)))
    first = deliveries(raw, 2)
    raw.settle(0, 1, ACCEPTED, settled=False)
    assert raw.until(DISPOSITION).field(1) == 0
    raw.call(FLOW, *map(uint, (2, 3, 0, 100)))
    assert [each.payload[-1:] for each in first + deliveries(raw, 3)] == numbered(5)


def test_what_was_never_sent_goes_back_as_if_untouched(
    raw: Raw10, channel: Any, queue: str
) -> None:
    publish_all(channel, queue, numbered(3))
    raw.open()
    raw.begin(window=1)
    raw.attach_receiver(f"/queues/{queue}")
    raw.call(FLOW, *map(uint, (0, 1, 0, 100, 0, 0, 3)))
    deliveries(raw, 1)
    raw.call(CLOSE)
    raw.until(CLOSE)
    got = [channel.basic_get(queue, auto_ack=True)[0].redelivered for _ in range(3)]
    assert got == [True, False, False]


def test_two_links_of_a_single_active_consumer_queue_take_over_in_order(
    session: Raw10, channel: Any, name: str
) -> None:
    channel.queue_declare(name, arguments={"x-single-active-consumer": True})
    publish_all(channel, name, numbered(4))
    session.attach_receiver(f"/queues/{name}", handle=0)
    session.attach_receiver(f"/queues/{name}", handle=1)
    session.credit(4, handle=1)
    session.credit(2, handle=0)
    assert [int(each.field(0)) for each in deliveries(session, 2)] == [0, 0]
    session.call(DETACH, uint(0), True)
    after = deliveries(session, 4)
    assert [int(each.field(0)) for each in after] == [1] * 4
    assert [each.payload[-1:] for each in after] == numbered(4)

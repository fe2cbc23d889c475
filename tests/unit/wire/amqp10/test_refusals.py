"""What the peer may not do: the condition it gets, and that nothing beside it suffers."""

from collections.abc import Callable

import pytest

from tests.unit.wire.amqp10.peers import (
    MESSAGE,
    RECEIVER,
    SENDER,
    Raw,
    attach_frame,
    data_section,
    flow_frame,
    frame,
    only,
    parse_sasl,
    transfer_frame,
)
from warren.wire.amqp10.arrivals import Received
from warren.wire.amqp10.codec.performatives import (
    Attach,
    Begin,
    Close,
    Detach,
    Disposition,
    End,
    Open,
    SaslInit,
    SaslOutcome,
    SaslResponse,
)
from warren.wire.amqp10.errors import Condition
from warren.wire.amqp10.events import (
    AttachRequested,
    Ended,
    Event,
    Failed,
    LinkDetached,
    LinkFailed,
    LoginRequested,
    SessionEnded,
    SessionFailed,
)
from warren.wire.amqp10.handshake import AMQP_HEADER, SASL_HEADER
from warren.wire.amqp10.limits import Limits

SMALL = Limits(max_incoming_window=10, max_link_credit=8, message_bytes_max=100, held_bytes_max=250)


def running(limits: Limits | None = None) -> Raw:
    raw = Raw(limits)
    raw.open()
    raw.begin()
    raw.bytes_out()
    return raw


# Connection


@pytest.mark.parametrize(
    "header", [AMQP_HEADER, b"AMQP\x02\x01\x00\x00", b"AMQP\x03\x01\x00\x01", b"GET / HT"]
)
def test_a_wrong_first_header_is_answered_with_the_sasl_header(header: bytes) -> None:
    raw = Raw()
    events = raw.feed(header + b"more of the same")
    assert len(only(events, Failed)) == 1
    assert raw.bytes_out() == SASL_HEADER
    assert only(raw.core.tick(0), Ended)
    assert raw.feed(SASL_HEADER) == []


def test_a_wrong_second_header_is_answered_with_the_amqp_header() -> None:
    raw = Raw()
    raw.feed(SASL_HEADER + frame(1, 0, SaslInit(mechanism="PLAIN")))
    raw.core.accept_login()
    raw.bytes_out()
    assert only(raw.feed(SASL_HEADER), Failed)
    assert raw.bytes_out() == AMQP_HEADER
    assert only(raw.core.tick(0), Ended)


@pytest.mark.parametrize("code", [1, 2])
def test_a_refused_login_is_told_by_its_code_and_nothing_else(code: int) -> None:
    raw = Raw()
    init = SaslInit(mechanism="PLAIN", initial_response=b"\0a\0b", hostname="vhost:x")
    events = raw.feed(SASL_HEADER + frame(1, 0, init) + AMQP_HEADER)
    login = only(events, LoginRequested)[0]
    assert (login.mechanism, login.response, login.hostname) == ("PLAIN", b"\0a\0b", "vhost:x")
    raw.bytes_out()
    raw.core.refuse_login(code)
    assert parse_sasl(raw.bytes_out()) == [SaslOutcome(code=code)]
    assert only(raw.core.tick(0), Ended)
    assert raw.feed(AMQP_HEADER) == []
    assert raw.bytes_out() == b""


@pytest.mark.parametrize(
    "garbage",
    [
        frame(1, 0, SaslResponse(response=b"too early")),
        frame(1, 0, SaslOutcome(code=0)),
        frame(0, 0, Open(container_id="no")),
        b"\x00\x00\x00\x0c\x02\x01\x00\x00\x00\x53\x41\x45",
        b"\xff\xff\xff\xff\x02\x01\x00\x00",
        b"\x00\x00\x00\x07\x02\x01\x00\x00",
    ],
)
def test_sasl_garbage_ends_the_connection_without_a_close(garbage: bytes) -> None:
    raw = Raw()
    raw.feed(SASL_HEADER)
    raw.bytes_out()
    assert len(only(raw.feed(garbage + b"and more"), Failed)) == 1
    assert raw.bytes_out() == b""
    assert only(raw.core.tick(0), Ended)


@pytest.mark.parametrize(
    ("fields", "condition"),
    [
        ({"max_frame_size": 511}, Condition.FRAME_SIZE_TOO_SMALL),
        ({"idle_time_out": 999}, Condition.NOT_ALLOWED),
    ],
)
def test_an_open_that_cannot_be_kept_is_refused(
    fields: dict[str, object], condition: Condition
) -> None:
    answers = Raw().open(**fields)
    assert isinstance(answers[0], Open)
    assert isinstance(answers[1], Close)
    assert answers[1].error is not None
    assert answers[1].error.condition == condition


def test_idle_time_out_of_a_second_and_frames_of_512_bytes_are_taken() -> None:
    raw = Raw()
    answers = raw.open(idle_time_out=1000, max_frame_size=512)
    assert [type(each) for each in answers] == [Open]


CONNECTION_ERRORS: list[tuple[str, bytes, Condition]] = [
    ("channel above 63", frame(0, 64, flow_frame()), Condition.FRAMING_ERROR),
    ("frame without session", frame(0, 5, flow_frame()), Condition.ILLEGAL_STATE),
    (
        "begin twice",
        frame(0, 0, Begin(next_outgoing_id=0, incoming_window=1, outgoing_window=1)),
        Condition.ILLEGAL_STATE,
    ),
    (
        "answer to no begin",
        frame(
            0, 1, Begin(remote_channel=9, next_outgoing_id=0, incoming_window=1, outgoing_window=1)
        ),
        Condition.ILLEGAL_STATE,
    ),
    ("data offset of 1", b"\x00\x00\x00\x08\x01\x00\x00\x00", Condition.FRAMING_ERROR),
    ("size below the head", b"\x00\x00\x00\x07\x02\x00\x00\x00", Condition.FRAMING_ERROR),
    ("data offset behind the end", b"\x00\x00\x00\x08\x03\x00\x00\x00", Condition.FRAMING_ERROR),
    ("frame too large", b"\x00\x02\x00\x01\x02\x00\x00\x00", Condition.FRAMING_ERROR),
    ("sasl frame after sasl", frame(1, 0, SaslOutcome(code=0)), Condition.FRAMING_ERROR),
    (
        "unknown performative",
        b"\x00\x00\x00\x0c\x02\x00\x00\x00\x00\x53\x19\x45",
        Condition.DECODE_ERROR,
    ),
    (
        "flow without fields",
        b"\x00\x00\x00\x0c\x02\x00\x00\x00\x00\x53\x13\x45",
        Condition.INVALID_FIELD,
    ),
    ("bytes behind a flow", frame(0, 0, flow_frame(), b"\x40"), Condition.DECODE_ERROR),
    ("open twice", frame(0, 0, Open(container_id="again")), Condition.ILLEGAL_STATE),
]


@pytest.mark.parametrize(("what", "data", "condition"), CONNECTION_ERRORS)
def test_an_error_of_the_connection_closes_it(what: str, data: bytes, condition: Condition) -> None:
    raw = running()
    events = raw.feed(data + frame(0, 0, attach_frame(0, SENDER)))
    assert only(events, Failed)[0].error.condition == condition
    close = raw.answers()[-1]
    assert isinstance(close, Close)
    assert close.error is not None
    assert close.error.condition == condition
    assert raw.send(attach_frame(1, SENDER)) == []
    assert raw.bytes_out() == b""
    raw.feed(frame(0, 0, Close()))
    assert raw.core.state_name in ("closed", "closing")
    assert only(events, Ended) or raw.core.state_name == "closed" or raw.core.tick(10_000)


def test_silence_longer_than_twice_the_idle_time_out_closes_the_connection() -> None:
    raw = running(Limits(idle_time_out_ms=5_000))
    assert raw.core.tick(9_999) == []
    events = raw.core.tick(10_000)
    assert only(events, Failed)[0].error.condition == Condition.RESOURCE_LIMIT_EXCEEDED
    assert isinstance(raw.answers()[-1], Close)
    assert only(raw.core.tick(20_000), Ended)


def test_silence_is_not_the_peers_fault_while_nobody_reads() -> None:
    raw = running(Limits(idle_time_out_ms=5_000))
    raw.core.pause_reading()
    assert raw.core.tick(60_000) == []
    raw.core.resume_reading(60_000)
    assert raw.core.tick(69_999) == []
    assert only(raw.core.tick(70_000), Failed)


def test_a_peer_that_wants_to_hear_from_us_gets_heartbeats() -> None:
    raw = Raw()
    raw.open(idle_time_out=4_000)
    raw.core.tick(0)
    assert raw.bytes_out() == b""
    raw.core.tick(1_999)
    assert raw.bytes_out() == b""
    raw.core.tick(2_000)
    assert raw.bytes_out() == b"\x00\x00\x00\x08\x02\x00\x00\x00"
    assert raw.feed(b"\x00\x00\x00\x08\x02\x00\x00\x00") == []


def test_a_handshake_that_does_not_come_to_its_end_is_given_up() -> None:
    raw = Raw()
    raw.feed(SASL_HEADER)
    assert raw.core.tick(9_999) == []
    events = raw.core.tick(10_000)
    assert only(events, Failed)
    assert only(events, Ended)


# Session


def ahead_of_us(raw: Raw) -> list[Event]:
    return raw.flow(next_incoming_id=1)


def too_many_frames(raw: Raw) -> list[Event]:
    raw.attach(0, SENDER)
    events = []
    for number in range(21):
        more = number < 20
        events += raw.transfer(
            0, 0, more=more, payload=b"\x00\x53\x75\xa0\x14" if not number else b"x"
        )
    return events


def handle_in_use(raw: Raw) -> list[Event]:
    raw.attach(0, SENDER)
    return raw.send(attach_frame(0, RECEIVER, "another"))


def handle_of_a_link_that_we_detached(raw: Raw) -> list[Event]:
    link = raw.attach(0, SENDER)
    raw.core.sessions[0].detach(link)
    return raw.send(attach_frame(0, SENDER, "another"))


def handle_above_the_limit(raw: Raw) -> list[Event]:
    return raw.send(attach_frame(256, SENDER))


def transfer_on_no_link(raw: Raw) -> list[Event]:
    return raw.transfer(3, 0)


def flow_on_no_link(raw: Raw) -> list[Event]:
    return raw.flow(handle=3, link_credit=1)


def detach_of_no_link(raw: Raw) -> list[Event]:
    return raw.send(Detach(handle=3))


def transfer_against_the_direction(raw: Raw) -> list[Event]:
    raw.attach(0, RECEIVER)
    return raw.transfer(0, 0)


def delivery_id_left_out(raw: Raw) -> list[Event]:
    raw.attach(0, SENDER)
    return raw.send(transfer_frame(0, None, delivery_tag=b"t"), MESSAGE)


def delivery_id_with_a_gap(raw: Raw) -> list[Event]:
    raw.attach(0, SENDER)
    raw.transfer(0, 7)
    return raw.transfer(0, 9)


def delivery_id_used_twice(raw: Raw) -> list[Event]:
    raw.attach(0, SENDER)
    raw.transfer(0, 7, settled=True, more=True)
    raw.transfer(0, 7, settled=True)
    return raw.transfer(0, 7)


def two_messages_at_once_on_one_link(raw: Raw) -> list[Event]:
    raw.attach(0, SENDER)
    raw.transfer(0, 0, more=True)
    return raw.transfer(0, 1)


def range_that_runs_backwards(raw: Raw) -> list[Event]:
    return raw.send(Disposition(role=True, first=5, last=4))


def sender_without_a_count(raw: Raw) -> list[Event]:
    return raw.send(Attach(name="x", handle=0, role=SENDER))


SESSION_ERRORS: list[tuple[Callable[[Raw], list[Event]], Condition]] = [
    (ahead_of_us, Condition.WINDOW_VIOLATION),
    (too_many_frames, Condition.WINDOW_VIOLATION),
    (handle_in_use, Condition.HANDLE_IN_USE),
    (handle_of_a_link_that_we_detached, Condition.HANDLE_IN_USE),
    (handle_above_the_limit, Condition.NOT_ALLOWED),
    (transfer_on_no_link, Condition.UNATTACHED_HANDLE),
    (flow_on_no_link, Condition.UNATTACHED_HANDLE),
    (detach_of_no_link, Condition.UNATTACHED_HANDLE),
    (transfer_against_the_direction, Condition.ILLEGAL_STATE),
    (delivery_id_left_out, Condition.INVALID_FIELD),
    (delivery_id_with_a_gap, Condition.INVALID_FIELD),
    (delivery_id_used_twice, Condition.INVALID_FIELD),
    (two_messages_at_once_on_one_link, Condition.INVALID_FIELD),
    (range_that_runs_backwards, Condition.INVALID_FIELD),
    (sender_without_a_count, Condition.INVALID_FIELD),
]


@pytest.mark.parametrize(("wrong", "condition"), SESSION_ERRORS)
def test_an_error_of_a_session_ends_that_session_and_no_other(
    wrong: Callable[[Raw], list[Event]], condition: Condition
) -> None:
    raw = running(SMALL)
    raw.core.set_alarm(wrong is too_many_frames)
    other = raw.begin(1)
    raw.bytes_out()
    failed = only(wrong(raw), SessionFailed)[0]
    assert failed.error.condition == condition
    end = raw.answers()[-1]
    assert isinstance(end, End)
    assert end.error is not None
    assert end.error.condition == condition
    assert raw.send(attach_frame(9, SENDER)) == []
    assert raw.bytes_out() == b""
    assert only(raw.send(attach_frame(0, SENDER), channel=1), AttachRequested)
    assert only(raw.send(End()), SessionEnded)[0].session is failed.session
    assert raw.begin(0) is not failed.session
    assert raw.core.sessions[1] is other


# Link


def transfer_before_the_answer(raw: Raw) -> list[Event]:
    raw.ask(0, SENDER)
    return raw.transfer(0, 0)


def ninth_message_of_eight(raw: Raw) -> list[Event]:
    raw.core.sessions[0].open_window()
    return raw.feed(b"".join(frame(0, 0, transfer_frame(0, i), MESSAGE) for i in range(9)))


def ninth_message_slowly(raw: Raw) -> list[Event]:
    events = []
    for number in range(9):
        more = number % 2 == 0
        events += raw.transfer(0, number, more=more)
        if more:
            events += raw.send(transfer_frame(0, None), b"")
    return events


def message_too_large(raw: Raw) -> list[Event]:
    return raw.transfer(0, 0, payload=data_section(b"x" * 93))


def message_too_large_in_parts(raw: Raw) -> list[Event]:
    raw.transfer(0, 0, more=True, payload=data_section(b"x" * 60))
    return raw.transfer(0, 0, more=True, payload=b"x" * 60)


def tag_too_long(raw: Raw) -> list[Event]:
    return raw.transfer(0, 0, delivery_tag=b"t" * 33)


def tag_left_out(raw: Raw) -> list[Event]:
    return raw.transfer(0, 0, delivery_tag=None)


def tag_changed(raw: Raw) -> list[Event]:
    raw.transfer(0, 0, delivery_tag=b"a", more=True)
    return raw.transfer(0, 0, delivery_tag=b"b")


def format_changed(raw: Raw) -> list[Event]:
    raw.transfer(0, 0, message_format=0, more=True)
    return raw.transfer(0, 0, message_format=1)


def resumed(raw: Raw) -> list[Event]:
    return raw.transfer(0, 0, resume=True)


def settle_mode_second(raw: Raw) -> list[Event]:
    return raw.transfer(0, 0, rcv_settle_mode=1)


def no_message(raw: Raw) -> list[Event]:
    return raw.transfer(0, 0, payload=b"\x00")


def settled_by_halves(raw: Raw) -> list[Event]:
    raw.send(Detach(handle=0))
    asked = attach_frame(0, SENDER)
    asked.snd_settle_mode = 1
    link = only(raw.send(asked), AttachRequested)[0].link
    raw.core.sessions[0].accept(link, None, None)
    raw.bytes_out()
    return raw.transfer(0, 0, settled=False)


LINK_ERRORS: list[tuple[Callable[[Raw], list[Event]], Condition]] = [
    (ninth_message_of_eight, Condition.TRANSFER_LIMIT_EXCEEDED),
    (ninth_message_slowly, Condition.TRANSFER_LIMIT_EXCEEDED),
    (message_too_large, Condition.MESSAGE_SIZE_EXCEEDED),
    (message_too_large_in_parts, Condition.MESSAGE_SIZE_EXCEEDED),
    (tag_too_long, Condition.INVALID_FIELD),
    (tag_left_out, Condition.INVALID_FIELD),
    (tag_changed, Condition.INVALID_FIELD),
    (format_changed, Condition.INVALID_FIELD),
    (resumed, Condition.NOT_IMPLEMENTED),
    (settle_mode_second, Condition.INVALID_FIELD),
    (no_message, Condition.DECODE_ERROR),
    (settled_by_halves, Condition.INVALID_FIELD),
]


@pytest.mark.parametrize(("wrong", "condition"), LINK_ERRORS)
def test_an_error_of_a_link_detaches_that_link_and_no_other(
    wrong: Callable[[Raw], list[Event]], condition: Condition
) -> None:
    raw = running(SMALL)
    raw.attach(0, SENDER)
    other = raw.attach(1, RECEIVER)
    failed = only(wrong(raw), LinkFailed)[0]
    assert failed.error.condition == condition
    detach = only(raw.answers(), Detach)[0]
    assert (detach.handle, detach.closed) == (0, True)
    assert detach.error is not None
    assert detach.error.condition == condition
    assert other.is_up()
    assert raw.core.held.bytes == 0
    gone = only(raw.send(Detach(handle=0, closed=True)), LinkDetached)[0]
    assert (gone.link, gone.ours) == (failed.link, True)
    assert raw.attach(0, SENDER).is_up()


@pytest.mark.parametrize("wrong", [ninth_message_of_eight, ninth_message_slowly])
def test_the_messages_before_the_one_without_credit_count(
    wrong: Callable[[Raw], list[Event]],
) -> None:
    raw = running(SMALL)
    raw.attach(0, SENDER)
    received = only(wrong(raw), Received)
    assert sum(int(each.transfers.count) for each in received) == 8


def test_a_transfer_before_the_answer_to_attach_refuses_the_link() -> None:
    raw = running()
    link = only(transfer_before_the_answer(raw), LinkFailed)[0].link
    attach, detach = raw.answers()
    assert isinstance(attach, Attach)
    assert (attach.source, attach.target) == (None, None)
    assert isinstance(detach, Detach)
    assert not raw.core.sessions[0].accept(link, None, None)
    assert raw.bytes_out() == b""


def test_incomplete_unsettled_is_refused() -> None:
    raw = running()
    asked = attach_frame(0, SENDER)
    asked.incomplete_unsettled = True
    assert only(raw.send(asked), AttachRequested) == []
    attach, detach = raw.answers()
    assert isinstance(attach, Attach)
    assert isinstance(detach, Detach)
    assert detach.error is not None
    assert detach.error.condition == Condition.NOT_IMPLEMENTED


def test_unfinished_messages_of_all_links_together_are_bounded() -> None:
    raw = running(SMALL)
    for handle in range(4):
        raw.attach(handle, SENDER)
    failed = []
    for handle in range(4):
        events = raw.transfer(handle, handle, more=True, payload=data_section(b"x" * 50))
        failed += only(events, LinkFailed)
    assert [each.error.condition for each in failed] == [Condition.RESOURCE_LIMIT_EXCEEDED] * 2
    assert raw.core.held.bytes <= 250


def test_empty_parts_take_no_memory() -> None:
    raw = running(Limits(max_incoming_window=100_000))
    link = raw.attach(0, SENDER)
    raw.transfer(0, 0, more=True)
    held = int(raw.core.held.bytes)
    raw.feed(frame(0, 0, transfer_frame(0, 0, more=True)) * 1000)
    assert raw.core.held.bytes == held
    assert link.is_up()

"""A peer whose frames are small: what does not fit is shortened, refused, or its session ended."""

import pytest

from tests.unit.wire.amqp10.peers import (
    MESSAGE,
    RECEIVER,
    SENDER,
    Pair,
    Raw,
    attach_frame,
    frame,
    only,
    parse,
)
from warren.wire.amqp10.codec.performatives import (
    Attach,
    Begin,
    Close,
    Detach,
    Disposition,
    End,
    Error,
    Modified,
    Open,
    Rejected,
    SaslInit,
    Source,
    Target,
)
from warren.wire.amqp10.errors import Condition, ProtocolError, Scope
from warren.wire.amqp10.events import SessionFailed
from warren.wire.amqp10.handshake import AMQP_HEADER, SASL_HEADER
from warren.wire.amqp10.link import DETACHING
from warren.wire.amqp10.settling import (
    MODIFIED,
    REJECTED,
)

SIZE = 512
LONG = "n" * 500
INFO: dict[str, object] = {"queue": "q" * 400}


def small() -> Raw:
    raw = Raw()
    raw.open(max_frame_size=SIZE)
    raw.begin()
    raw.bytes_out()
    return raw


def answers(raw: Raw) -> list[object]:
    """What came out, of which no frame is too large."""
    data = raw.bytes_out()
    at = 0
    while at < len(data):
        size = int.from_bytes(data[at : at + 4])
        assert size <= SIZE
        at += size
    return [each for _, each, _ in parse(data)]


@pytest.mark.parametrize("role", [SENDER, RECEIVER])
def test_a_link_whose_name_cannot_be_answered_ends_its_session(role: bool) -> None:
    raw = small()
    events = raw.send(attach_frame(0, role, LONG))
    failed = only(events, SessionFailed)[0]
    assert failed.error.condition is Condition.FRAME_SIZE_TOO_SMALL
    [end] = answers(raw)
    assert isinstance(end, End)
    assert end.error is not None
    assert end.error.condition == "amqp:frame-size-too-small"


@pytest.mark.parametrize("role", [SENDER, RECEIVER])
def test_an_answer_that_does_not_fit_refuses_the_link(role: bool) -> None:
    raw = small()
    link = raw.ask(0, role, "short")
    session = raw.core.sessions[0]
    far = "/queues/" + LONG
    assert not session.accept(link, Source(address=far), Target(address=far))
    assert link.status == DETACHING
    attach, detach = answers(raw)
    assert isinstance(attach, Attach)
    assert (attach.source, attach.target) == (None, None)
    assert isinstance(detach, Detach)
    assert detach.error is not None
    assert (detach.closed, detach.error.condition) == (True, "amqp:frame-size-too-small")
    raw.send(Detach(handle=0, closed=True))
    again = raw.ask(0, role, "short")
    assert session.accept(again, Source(address="/queues/q"), Target(address="/queues/q"))


def test_a_link_of_ours_that_does_not_fit_is_an_error_and_leaves_no_trace() -> None:
    pair = Pair()
    pair.settle()
    pair.client.output.max_frame_size = SIZE
    session = pair.client.begin()
    pair.settle()
    with pytest.raises(ProtocolError, match="larger than the peer's max-frame-size") as caught:
        session.attach(LONG, True, Source(address="/queues/q"), Target())
    assert caught.value.scope is Scope.LINK
    assert session.links.all == []
    assert session.attach("short", True, Source(address="/queues/q"), Target()).handle == 0


def test_the_longest_properties_of_an_open_go_first() -> None:
    raw = Raw()
    raw.feed(SASL_HEADER + frame(1, 0, SaslInit(mechanism="PLAIN", initial_response=b"")))
    raw.core.accept_login()
    raw.feed(AMQP_HEADER + frame(0, 0, Open(container_id="raw", max_frame_size=SIZE)))
    raw.bytes_out()
    properties: dict[str, object] = {"product": "P", "copyright": "c" * 700, "version": "1"}
    raw.core.accept_open(Open(container_id="server", properties=properties))
    [opened] = answers(raw)
    assert isinstance(opened, Open)
    assert opened.properties == {"product": "P", "version": "1"}


def test_a_begin_always_fits() -> None:
    frame = Begin(
        remote_channel=65_535,
        next_outgoing_id=(1 << 32) - 1,
        incoming_window=(1 << 32) - 1,
        outgoing_window=(1 << 32) - 1,
        handle_max=(1 << 32) - 1,
    )
    assert len(frame.encoded()) + 8 < SIZE


@pytest.mark.parametrize("text", ["x" * 900, "ü" * 900, "\U0001f407" * 900, "\ud800" * 900])
def test_errors_of_any_length_fit_whatever_they_end(text: str) -> None:
    raw = small()
    session = raw.core.sessions[0]
    link = raw.attach(0, SENDER)
    session.detach(link, ProtocolError(Condition.INTERNAL_ERROR, text, Scope.LINK, INFO))
    [detach] = answers(raw)
    session.end(ProtocolError(Condition.INTERNAL_ERROR, text, Scope.SESSION, INFO))
    [end] = answers(raw)
    raw.core.close(ProtocolError(Condition.INTERNAL_ERROR, text, Scope.CONNECTION, INFO))
    [close] = answers(raw)
    assert isinstance(detach, Detach)
    assert isinstance(end, End)
    assert isinstance(close, Close)
    for error in (detach.error, end.error, close.error):
        assert error is not None
        assert (error.condition, error.info) == ("amqp:internal-error", None)
        assert len((error.description or "").encode()) in range(150, 201)


def test_an_outcome_keeps_of_its_reason_what_fits() -> None:
    raw = small()
    raw.attach(0, SENDER)
    raw.transfer(0, 0, payload=MESSAGE)
    error = Error(condition="amqp:resource-limit-exceeded", description="d" * 300, info=INFO)
    raw.core.sessions[0].settle(0, 1, REJECTED, Rejected(error=error))
    told = [each for each in answers(raw) if isinstance(each, Disposition)]
    [state] = [each.state for each in told]
    assert isinstance(state, Rejected)
    assert state.error is not None
    assert (state.error.condition, state.error.info) == ("amqp:resource-limit-exceeded", None)


def test_annotations_of_an_outcome_that_do_not_fit_are_left_out() -> None:
    raw = small()
    raw.attach(0, SENDER)
    raw.transfer(0, 0, payload=MESSAGE)
    state = Modified(delivery_failed=True, message_annotations={"x-why": "w" * 600})
    raw.core.sessions[0].settle(0, 1, MODIFIED, state)
    [told] = [each for each in answers(raw) if isinstance(each, Disposition)]
    assert told.state == Modified(delivery_failed=True)

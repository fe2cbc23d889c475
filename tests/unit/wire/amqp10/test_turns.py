"""Two publishers of one connection that send in turn, and what must not be taken together."""

from tests.unit.wire.amqp10.peers import (
    MESSAGE,
    SENDER,
    Raw,
    data_section,
    frame,
    only,
    transfer_frame,
)
from warren.wire.amqp10.arrivals import Received
from warren.wire.amqp10.events import (
    LinkFailed,
    SessionFailed,
)
from warren.wire.amqp10.limits import Limits


def running(links: int, limits: Limits | None = None) -> Raw:
    raw = Raw(limits)
    raw.open()
    raw.begin()
    for handle in range(links):
        raw.attach(handle, SENDER)
    return raw


def in_turn(count: int, links: int, channel: int = 0) -> bytes:
    return b"".join(
        frame(0, channel, transfer_frame(place % links, place), MESSAGE) for place in range(count)
    )


def got(events: list[Received]) -> list[tuple[int, int, list[tuple[int, int]]]]:
    return [
        (each.link.peer_handle, each.transfers.count, each.transfers.id_runs(0, 3))
        for each in events
    ]


def test_each_link_gets_its_messages_as_one_run() -> None:
    raw = running(2)
    events = raw.feed(in_turn(100, 2))
    assert got(only(events, Received)) == [
        (0, 50, [(0, 1), (2, 1), (4, 1)]),
        (1, 50, [(1, 1), (3, 1), (5, 1)]),
    ]
    assert len(events) == 2
    session = raw.core.sessions[0]
    assert (session.incoming.left, session.arrivals.next_id) == (300, 100)
    for link in session.links.all:
        assert link.receiver is not None
        assert (link.receiver.credit, link.receiver.unconfirmed) == (120, 50)


def test_sessions_that_take_turns_are_told_apart() -> None:
    raw = running(1)
    raw.begin(1)
    raw.attach(0, SENDER, "other", channel=1)
    data = b"".join(
        frame(0, place % 2, transfer_frame(0, place // 2), MESSAGE) for place in range(20)
    )
    found = only(raw.feed(data), Received)
    assert [(each.link.channel, each.transfers.count, each.transfers.ids) for each in found] == [
        (0, 10, b""),
        (1, 10, b""),
    ]


def test_a_link_that_breaks_a_rule_is_detached_and_the_others_go_on() -> None:
    raw = running(2, Limits(max_link_credit=20))
    events = raw.feed(
        in_turn(10, 2)
        + b"".join(
            frame(0, 0, transfer_frame(place % 2 and 1, place), MESSAGE) for place in range(10, 12)
        )
    )
    assert [each.transfers.count for each in only(events, Received)] == [6, 6]
    data = b"".join(
        frame(0, 0, transfer_frame(1 if place % 8 == 0 else 0, place), MESSAGE)
        for place in range(12, 52)
    )
    events = raw.feed(data)
    failed = only(events, LinkFailed)
    assert [(each.link.peer_handle, each.error.condition) for each in failed] == [
        (0, "amqp:link:transfer-limit-exceeded")
    ]
    taken = {each.link.peer_handle: each.transfers.count for each in only(events, Received)}
    assert taken == {0: 14, 1: 5}
    assert raw.core.sessions[0].arrivals.next_id == 52


def test_messages_for_a_link_that_is_being_detached_are_passed_over() -> None:
    raw = running(2)
    session = raw.core.sessions[0]
    session.detach(session.links.of_handle(0))
    events = raw.feed(in_turn(40, 2))
    assert {each.link.peer_handle for each in only(events, Received)} == {1}
    assert sum(each.transfers.count for each in only(events, Received)) == 20
    assert session.arrivals.next_id == 40


def test_a_message_under_way_keeps_turns_apart() -> None:
    raw = running(2)
    whole = data_section(b"x" * 40)
    raw.transfer(0, 0, more=True, payload=whole[:9])
    rest = frame(0, 0, transfer_frame(0, None), whole[9:])
    turn = frame(0, 0, transfer_frame(1, 1), MESSAGE)
    found = only(raw.feed(turn + rest), Received)
    assert [each.link.peer_handle for each in found] == [1, 0]


def test_a_message_under_way_in_another_session_is_not_forgotten() -> None:
    raw = running(1)
    raw.begin(1)
    raw.attach(0, SENDER, "other", channel=1)
    begun = transfer_frame(0, 0, more=True)
    raw.send(begun, MESSAGE[:4], 1)
    own = frame(0, 0, transfer_frame(0, 0), MESSAGE)
    events = raw.feed(own + frame(0, 1, transfer_frame(0, 1), MESSAGE))
    (failed,) = only(events, SessionFailed)
    assert (failed.session.peer_channel, failed.error.condition) == (1, "amqp:invalid-field")


def test_a_gap_before_the_first_of_them_is_an_error_of_the_session() -> None:
    raw = running(2)
    raw.feed(in_turn(10, 2))
    late = b"".join(
        frame(0, 0, transfer_frame(place % 2, place), MESSAGE) for place in range(11, 20)
    )
    (failed,) = only(raw.feed(late), SessionFailed)
    assert failed.error.condition == "amqp:invalid-field"


def test_more_than_the_window_ends_the_session_after_what_fits() -> None:
    raw = running(2, Limits(max_incoming_window=10, max_link_credit=100))
    events = raw.feed(in_turn(30, 2))
    (failed,) = only(events, SessionFailed)
    assert failed.error.condition == "amqp:session:window-violation"
    assert sum(each.transfers.count for each in only(events, Received)) == 20

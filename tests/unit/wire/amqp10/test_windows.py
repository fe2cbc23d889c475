"""Session windows against models that count without wrapping."""

from hypothesis import given, settings
from hypothesis import strategies as st

from warren.wire.amqp10.codec.serial import MASK, UINT_MAX, ahead, plus
from warren.wire.amqp10.windows import IncomingWindow, OutgoingWindow

BOUNDED = settings(max_examples=80, deadline=None, database=None)
NEAR_THE_WRAP = st.integers(min_value=-40, max_value=40).map(lambda number: number & MASK)
U32 = st.integers(min_value=0, max_value=UINT_MAX)


@BOUNDED
@given(U32, st.integers(min_value=-(1 << 31), max_value=(1 << 31) - 1))
def test_a_number_is_ahead_by_the_steps_that_were_made(number: int, steps: int) -> None:
    assert ahead(plus(number, steps), number) == steps


class NaiveOutgoing:
    """All that was ever sent and ever allowed, in numbers that do not wrap."""

    def __init__(self) -> None:
        self.sent = 0
        self.limit = 0  # the peer takes transfers up to this one

    def left(self) -> int:
        return max(self.limit - self.sent, 0)


@BOUNDED
@given(NEAR_THE_WRAP, st.lists(st.tuples(st.integers(0, 60), st.integers(0, 60)), max_size=30))
def test_the_outgoing_window_is_what_the_peer_takes_less_what_it_has_not_seen(
    first_id: int, steps: list[tuple[int, int]]
) -> None:
    window, naive = OutgoingWindow(first_id), NaiveOutgoing()
    for lag, allowed in steps:
        seen = max(naive.sent - lag, 0)
        assert window.update(plus(first_id, seen), allowed)
        naive.limit = seen + allowed
        assert window.left == naive.left()
        count = naive.left() // 2
        window.take(count)
        naive.sent += count
        assert window.next_id == plus(first_id, naive.sent)


def test_a_peer_that_saw_what_was_never_sent_is_told_so_and_changes_nothing() -> None:
    window = OutgoingWindow(MASK)
    assert window.update(MASK, 10)
    window.take(2)
    assert not window.update(2, 50)
    assert (window.left, window.next_id) == (8, 1)
    assert window.update(1, 50)


def test_without_next_incoming_id_the_peer_has_seen_nothing() -> None:
    window = OutgoingWindow(MASK)
    window.update(None, 10)
    window.take(4)
    assert window.update(None, 10)
    assert window.left == 6


def test_the_window_is_refilled_at_half_and_not_before() -> None:
    window = IncomingWindow(400, True)
    assert window.take(199)
    assert not window.flow_due
    assert window.take(1)
    assert window.flow_due
    window.refill()
    assert (window.left, window.announced(), window.flow_due) == (400, 400, False)


def test_an_early_flow_tells_what_is_left_and_gives_no_more() -> None:
    window = IncomingWindow(400, True)
    window.take(100)
    window.refill()
    assert window.announced() == 300


def test_one_full_window_more_is_tolerated_and_announced_as_nothing() -> None:
    window = IncomingWindow(10, False)
    assert window.take(10)
    assert window.announced() == 0
    assert not window.take(1)


def test_a_closed_window_is_not_refilled_until_it_is_reopened() -> None:
    window = IncomingWindow(400, True)
    window.take(150)
    window.close()
    assert window.flow_due
    window.refill()
    assert window.announced() == 0
    assert window.take(250)
    assert not window.flow_due
    window.reopen()
    assert window.flow_due
    window.refill()
    assert window.announced() == 400


@BOUNDED
@given(
    st.integers(1, 20),
    NEAR_THE_WRAP,
    st.lists(st.sampled_from(["send", "flow", "close", "reopen", "read"]), max_size=120),
)
def test_a_peer_that_keeps_to_what_it_reads_never_breaks_the_window(
    size: int, first_id: int, steps: list[str]
) -> None:
    """The peer sends all that it may at each step; flows reach it late, in order."""
    ours, theirs = IncomingWindow(size, True), OutgoingWindow(first_id)
    ours.next_id = first_id
    theirs.update(None, size)
    flows: list[tuple[int, int]] = []
    for step in steps:
        if step == "send" and theirs.left > 0:
            theirs.take(1)
            assert ours.take(1)
        elif step == "close":
            ours.close()
        elif step == "reopen":
            ours.reopen()
        elif step == "flow" and ours.flow_due:
            ours.refill()
            flows.append((int(ours.next_id), int(ours.announced())))
        elif step == "read" and flows:
            assert theirs.update(*flows.pop(0))
        assert ours.next_id == theirs.next_id
        assert 0 <= ours.announced() <= size

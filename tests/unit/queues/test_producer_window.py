"""The byte window of a sending link: what is granted, and when it is worth a flow."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from queues.addresses.producer_window import (
    ASKED,
    SIZE_MAX,
    SIZE_MIN,
    BadWindow,
    ProducerWindow,
    asked_window,
)


def test_the_limit_follows_what_was_answered() -> None:
    window = ProducerWindow(1000, True)
    assert (window.limit, window.granted) == (1000, 1000)
    window.came(4, 800)
    assert window.granted == 200
    assert not window.advance()
    window.answered(1)
    assert not window.advance()  # A flow for less than a quarter is not worth it.
    window.answered(1)
    assert window.advance()
    assert (window.limit, window.granted) == (1400, 600)
    window.answered(2)
    assert window.advance()
    assert window.limit == 1800
    assert not window.advance()


def test_a_message_that_is_larger_than_the_window_opens_it_when_it_is_answered() -> None:
    window = ProducerWindow(1024, True)
    window.came(1, 5000)
    assert window.granted == 0
    window.answered(1)
    assert window.advance()
    assert window.granted == 1024


def test_the_limit_is_not_raised_beyond_what_the_address_takes() -> None:
    window = ProducerWindow(1000, True)
    window.came(4, 800)
    window.answered(4)
    assert not window.advance(room=100)  # The client has more than that from before.
    assert window.limit == 1000
    assert window.advance(room=500)
    assert (window.limit, window.granted) == (1300, 500)
    assert window.advance(room=5000)
    assert window.granted == 1000


@given(st.lists(st.tuples(st.integers(1, 9), st.integers(1, 5000)), max_size=60), st.data())
def test_no_more_than_the_window_is_under_way(
    runs: list[tuple[int, int]], data: st.DataObject
) -> None:
    window = ProducerWindow(4096, True)
    waiting = 0
    limits = [window.limit]
    for count, size in runs:
        window.came(count, count * size)
        waiting += count
        answered = data.draw(st.integers(0, waiting))
        window.answered(answered)
        waiting -= answered
        window.advance()
        limits.append(window.limit)
    assert limits == sorted(limits)
    window.answered(waiting)
    window.advance()
    assert window.limit == window.received + 4096
    assert window.granted == 4096


def test_a_client_that_counts_no_bytes_gets_as_many_messages_as_fit() -> None:
    window = ProducerWindow(64 << 10, False)
    assert window.credit(170) == 64
    window.came(1, 10 << 10)
    assert window.credit(170) == 6
    for _ in range(40):
        window.came(10, 2000)
    assert window.credit(170) > 40
    window.came(1, 1 << 20)
    assert window.credit(170) == 1
    assert ProducerWindow(1 << 30, False).credit(170) == 170
    assert ProducerWindow(64 << 10, True).credit(170) == 170


@pytest.mark.parametrize("value", [0, -1, SIZE_MIN - 1, SIZE_MAX + 1, True, "1024", 2048.0])
def test_what_is_no_window_is_refused(value: object) -> None:
    with pytest.raises(BadWindow, match="expected a number of bytes from 1024 to 1099511627776"):
        asked_window({ASKED: value})


def test_a_client_may_ask_for_none() -> None:
    assert asked_window(None) == -1
    assert asked_window({}) == -1
    assert asked_window({ASKED: SIZE_MIN}) == SIZE_MIN

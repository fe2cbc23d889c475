"""What empty queues share stays empty, whatever becomes of one of them."""

from queues.machine.annotations import encode_words
from queues.machine.commands import (
    FAIL,
    Attach,
    EndSession,
    Enqueue,
    SessionId,
    Settle,
    consumer_key,
)
from queues.machine.fifo import NONE, NOTHING, Fifo
from queues.machine.fifo_snapshot import decode_fifo, encode_fifo
from queues.machine.traits import Traits

SESSION = SessionId(7 << 64 | 1)
KEY = consumer_key(SESSION, 1)


def used() -> Fifo:
    """Two of its messages have come back with words; all have expired while they were held."""
    fifo = Fifo()
    words = encode_words({b"a": b"b"})
    traits = Traits(ttl_ms=1000)
    fifo.apply([Attach(KEY, 9, True, False, 0), Enqueue(SESSION, 1, 5, traits)], 1)
    fifo.apply([Settle(KEY, FAIL, [(2, 2)], words)], 2)
    fifo.apply([], 5000)
    return fifo


def test_a_queue_with_redelivered_messages_and_words_leaves_the_others_alone() -> None:
    other = Fifo()
    fifo = used()
    assert (fifo.redelivered.count, fifo.overdue.count) == (2, 5)
    assert sorted(fifo.annotations.words) == [2, 3]
    fifo.apply([EndSession(SESSION)], 5001)
    assert (other.redelivered.count, other.overdue.count, other.annotations.words) == (0, 0, {})
    assert NONE.count == 0
    assert not NOTHING.words


def test_a_queue_that_is_restored_changes_its_own_alone() -> None:
    again = Fifo()
    decode_fifo(again, encode_fifo(used()))
    assert (again.redelivered.count, again.overdue.count) == (2, 5)
    assert sorted(again.annotations.words) == [2, 3]
    assert NONE.count == 0
    assert not NOTHING.words

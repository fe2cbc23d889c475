"""Messages that wait for their time before they are delivered again, beside what the golden story
and the comparison with the naive rules show: times, limits, snapshots."""

import pytest

from queues.definitions.queue_options import QueueDefaults, options_of
from queues.machine.annotations import encode_words
from queues.machine.commands import FAIL, RELEASE, Attach, Enqueue, SessionId, Settle, consumer_key
from queues.machine.delays import DELIVERY_TIME, delivery_time
from queues.machine.fifo import Fifo
from queues.machine.fifo_snapshot import decode_fifo, encode_fifo
from queues.machine.options import DELAY_ALL, DELAY_FAILED, DELAY_MS_MAX, REJECT_PUBLISH, Options
from queues.machine.traits import Traits
from tests.unit.queues.runs import seqs_of

ONE = SessionId(7 << 64 | 1)
KEY = consumer_key(ONE, 1)
NOW_MS = 10_000


def machine_with(count: int, **options: int | bool) -> Fifo:
    """So many messages of 10 bytes, all with a consumer."""
    given: dict[str, int | bool] = {"counts_deliveries": True, "delays": True}
    fifo = Fifo(Options(**(given | options)))  # type: ignore[arg-type]
    traits = Traits(-1, -1, None, None, (10).to_bytes(4, "little") * count)
    fifo.apply([Enqueue(ONE, 1, count, traits), Attach(KEY, count, False, False, 0)], NOW_MS)
    assert fifo.checked_out == count
    return fifo


def waiting(fifo: Fifo) -> list[int]:
    return [] if fifo.delays is None else seqs_of(fifo.delays.seqs.runs())


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (b"\x83" + (5).to_bytes(8, "big"), 5),
        (b"\x80" + (5).to_bytes(8, "big"), 5),
        (b"\x81" + (5).to_bytes(8, "big"), 5),
        (b"\x83" + bytes(8), 0),
        (b"\x83" + b"\xff" * 8, 0),
        (b"\x80" + b"\x7f" * 8, 0),
        (b"\x83" + bytes(7), 0),
        (b"\xa1\x01x", 0),
    ],
)
def test_a_delivery_time_is_a_number_of_milliseconds_or_nothing(
    value: bytes, expected: int
) -> None:
    assert delivery_time(encode_words({b"x-a": b"\x41", DELIVERY_TIME: value})) == expected


def test_words_that_only_speak_of_it_are_none() -> None:
    assert delivery_time(encode_words({b"x-a": b"\xa1\x13" + DELIVERY_TIME})) == 0


def test_a_queue_that_does_not_delay_has_nothing_of_it() -> None:
    fifo = machine_with(2)
    fifo.apply([Settle(KEY, FAIL, [(1, 2)])], NOW_MS)
    assert (fifo.delays, fifo.ready.count) == (None, 2)


def test_many_failures_and_long_delays_stay_within_ten_years() -> None:
    fifo = machine_with(1, delay_type=DELAY_ALL, delay_min_ms=DELAY_MS_MAX)
    fifo.attempts.put(1, 1 << 31)
    fifo.apply([Settle(KEY, FAIL, [(1, 1)])], NOW_MS)
    assert fifo.delays is not None
    assert 0 <= fifo.delays.calendar.next_due_ms() - NOW_MS - DELAY_MS_MAX <= 1 << 17


def test_what_waits_counts_for_the_limits_and_no_more_once_it_has_left() -> None:
    limits = {"length_max": 2, "bytes_max": 25, "overflow": REJECT_PUBLISH}
    fifo = machine_with(2, delay_type=DELAY_ALL, delay_min_ms=100, **limits)
    fifo.apply([Settle(KEY, FAIL, [(1, 2)])], NOW_MS)
    assert (fifo.notes.beside_count, fifo.notes.beside_bytes, fifo.length()) == (2, 20, 2)
    fifo.apply([Enqueue(ONE, 3, 1)], NOW_MS)
    assert fifo.length() == 2
    fifo.apply([], NOW_MS + 104)
    assert (waiting(fifo), fifo.notes.beside_count, fifo.notes.beside_bytes) == ([], 0, 0)
    assert (fifo.ready.count, fifo.notes.ready_bytes) == (2, 20)


def test_a_machine_made_of_a_snapshot_goes_on_waiting() -> None:
    fifo = machine_with(3, delay_type=DELAY_FAILED, delay_min_ms=100, bytes_max=1000)
    fifo.apply([Settle(KEY, FAIL, [(1, 1), (3, 1)]), Settle(KEY, RELEASE, [(2, 1)])], NOW_MS)
    copy = Fifo(fifo.options)
    decode_fifo(copy, encode_fifo(fifo))
    assert encode_fifo(copy) == encode_fifo(fifo)
    assert (waiting(copy), copy.notes.beside_bytes) == ([1, 3], 20)
    copy.apply([], NOW_MS + 1)
    assert NOW_MS + 100 <= copy.due_ms <= NOW_MS + 104
    copy.apply([], NOW_MS + 104)
    assert (waiting(copy), seqs_of(copy.ready.runs())) == ([], [1, 2, 3])


def test_a_slice_of_what_is_due_comes_back_at_a_time() -> None:
    count = 10_000
    fifo = machine_with(count, delay_type=DELAY_ALL, delay_min_ms=100)
    fifo.apply([Settle(KEY, FAIL, [(seq, 1)]) for seq in range(count, 0, -1)], NOW_MS)
    assert len(waiting(fifo)) == count
    fifo.apply([], NOW_MS + 200)
    assert 0 < fifo.ready.count < count
    assert fifo.has_more()
    while fifo.has_more():
        fifo.apply([], NOW_MS + 200)
    assert fifo.ready.count == count


def test_the_arguments_of_a_queue_say_what_it_delays() -> None:
    quorum: dict[str, object] = {"x-queue-type": "quorum"}
    late = quorum | {"x-delayed-retry-type": "failed", "x-delayed-retry-min": 1 << 62}
    made = options_of(late, QueueDefaults())
    assert (made.delays, made.delay_type, made.delay_min_ms) == (True, DELAY_FAILED, DELAY_MS_MAX)
    assert made.delay_max_ms == -1
    for none in (
        quorum,
        quorum | {"x-delayed-retry-type": "all"},
        late | {"x-delayed-retry-type": "disabled"},
    ):
        assert options_of(none, QueueDefaults()).delay_type == 0
    assert not options_of({}, QueueDefaults()).delays


def test_dead_letters_are_sure_where_nothing_is_dropped() -> None:
    sure: dict[str, object] = {
        "x-queue-type": "quorum",
        "x-dead-letter-exchange": "dlx",
        "x-dead-letter-strategy": "at-least-once",
        "x-overflow": "reject-publish",
    }
    assert options_of(sure, QueueDefaults()).keeps_dead
    for lacks in sure:
        if lacks != "x-queue-type":
            fewer = {name: value for name, value in sure.items() if name != lacks}
            assert not options_of(fewer, QueueDefaults()).keeps_dead
    assert not options_of(sure | {"x-overflow": "reject-publish-dlx"}, QueueDefaults()).keeps_dead

"""One connection once it stands: messages, beats, faults."""

import struct

from tests.unit.wire.peer.two_ends import feed, open_pair, output
from warren.wire.peer.codes import BULK_ROLE, RAFT
from warren.wire.peer.connection import BEATS_KEPT, Answered, Failed
from warren.wire.peer.frames import Frame

MS = 1_000_000


def test_messages_come_in_order_and_are_counted() -> None:
    first, second = open_pair(BULK_ROLE)
    for number in range(5):
        assert first.send(RAFT, 1, [b"%d" % number])
    events = feed(second, output(first))
    assert [bytes(each.payload) for each in events if isinstance(each, Frame)] == [
        b"0", b"1", b"2", b"3", b"4",
    ]  # fmt: skip
    assert (first.messages_sent, second.messages_received) == (5, 5)


def test_what_the_accepter_sends_behind_its_proof_is_taken_in() -> None:
    first, second = open_pair()
    assert second.send(RAFT, 0, [b"early"])
    (event,) = feed(first, output(second))
    assert isinstance(event, Frame)
    assert bytes(event.payload) == b"early"


def test_one_beat_in_ten_is_answered_at_once_and_its_round_is_timed() -> None:
    first, second = open_pair()
    assert second.pop_urgent() and not second.pop_urgent()  # the end of the handshake
    rounds, averages = [], []
    for beat in range(1, 12):
        first.beat(now_ns=beat * 100 * MS)
        assert feed(second, output(first)) == []
        assert second.pop_urgent() == (beat in (1, 11))
        took = 3 * MS if beat == 1 else 11 * MS
        (event,) = feed(first, output(second), now_ns=beat * 100 * MS + took)
        assert isinstance(event, Answered)
        rounds.append(event.rtt_ns)
        averages.append(first.rtt_ns)
    assert rounds == [3 * MS, *([0] * 9), 11 * MS]
    assert averages == [*([3 * MS] * 10), 4 * MS]  # an eighth of the way


def test_answers_that_come_late_are_timed_by_their_own_beat() -> None:
    first, second = open_pair()
    for beat in range(21):
        first.beat(now_ns=beat * 100 * MS)
    feed(second, output(first))
    rounds = [
        each.rtt_ns
        for each in feed(first, output(second), now_ns=2050 * MS)
        if isinstance(each, Answered)
    ]
    assert rounds == [2050 * MS, *([0] * 9), 1050 * MS, *([0] * 9), 50 * MS]


def test_an_answer_older_than_those_that_are_kept_counts_without_a_time() -> None:
    first, second = open_pair()
    first.beat(now_ns=1)
    feed(second, output(first))
    late = output(second)
    for beat in range(BEATS_KEPT):
        first.beat(now_ns=2 + beat)
    output(first)
    (event,) = feed(first, late, now_ns=1000)
    assert isinstance(event, Answered)
    assert (event.rtt_ns, first.rtt_ns) == (0, 0)


def test_the_answer_to_a_beat_that_was_not_sent_is_a_fault() -> None:
    for seq in (0, 2, 1 << 63):
        first, _ = open_pair()
        first.beat(now_ns=1)
        answer = struct.pack("<IBBBBQ", 8, 2, 0, 0, 0, seq)
        (event,) = feed(first, answer)
        assert isinstance(event, Failed)
        assert "was not sent" in event.text


def test_beats_that_nobody_reads_the_answers_to_do_not_pile_up() -> None:
    first, second = open_pair()
    for beat in range(1000):
        first.beat(now_ns=beat)
    feed(second, output(first))
    assert len(output(second)) == BEATS_KEPT * 16


def test_what_came_before_a_fault_counts_and_nothing_behind_it_does() -> None:
    first, second = open_pair(BULK_ROLE)
    first.send(RAFT, 1, [b"good"])
    good = output(first)
    wrong = struct.pack("<IBBBB", 1, 9, 1, 0, 0)
    events = feed(second, good + wrong + good)
    assert isinstance(events[0], Frame)
    assert isinstance(events[1], Failed)
    assert len(events) == 2
    assert feed(second, good) == []
    assert not second.is_open()

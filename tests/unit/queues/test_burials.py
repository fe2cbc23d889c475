"""What becomes of the dead: when letters are sent, again, and when they are buried for good."""

from random import Random

import pytest

from queues.burials import ANSWER_MS, PURGED_MAX, REST_MS_MAX, REST_MS_MIN, WINDOW, Burials, Letter
from queues.effects import LEFT_EXPIRED, LEFT_REJECTED
from tests.unit.queues.runs import seqs_of

NOW_MS = 5_000


def given(burials: Burials, now_ms: int = NOW_MS) -> Letter:
    letter = burials.next(now_ms)
    assert letter is not None
    return letter


def sent(burials: Burials, *uids: int, now_ms: int = NOW_MS) -> Letter:
    letter = given(burials, now_ms)
    burials.sent(letter, list(uids), now_ms)
    return letter


def dead(count: int = 1) -> Burials:
    burials = Burials()
    burials.died(1, count, LEFT_REJECTED)
    return burials


def test_a_letter_is_buried_when_all_its_queues_have_it() -> None:
    burials = dead()
    letter = sent(burials, 7, 8)
    assert (letter.seq, letter.reason) == (1, LEFT_REJECTED)
    burials.confirmed(letter, 7, NOW_MS)
    assert burials.take_buried() == []
    burials.confirmed(letter, 8, NOW_MS)
    assert (burials.take_buried(), burials.take_buried(), burials.count) == ([(1, 1)], [], 0)


def test_so_many_are_on_their_way_and_no_more() -> None:
    burials = dead(WINDOW + 2)
    letters = [sent(burials, 7) for _ in range(WINDOW)]
    assert burials.next(NOW_MS) is None
    burials.confirmed(letters[3], 7, NOW_MS)
    assert given(burials).seq == WINDOW + 1
    assert burials.count == WINDOW + 1


def test_a_letter_that_was_refused_goes_again_to_those_who_do_not_have_it() -> None:
    burials = dead()
    letter = sent(burials, 7, 8)
    burials.refused(letter, 7, NOW_MS)
    burials.confirmed(letter, 8, NOW_MS)
    assert (burials.take_buried(), burials.next(NOW_MS)) == ([], None)
    assert burials.due_ms() == NOW_MS + REST_MS_MIN
    assert given(burials, NOW_MS + REST_MS_MIN) is letter
    assert letter.safe == {8}
    burials.sent(letter, [7], NOW_MS + REST_MS_MIN)
    burials.confirmed(letter, 7, NOW_MS + REST_MS_MIN)
    assert burials.take_buried() == [(1, 1)]


def test_a_late_answer_to_an_earlier_time_does_not_bury_what_waits_to_be_sent_again() -> None:
    """Queue 8 answers twice, for it was asked twice; queue 7 does not have the letter."""
    burials = dead()
    letter = sent(burials, 7, 8)
    again_ms = NOW_MS + ANSWER_MS
    assert given(burials, again_ms) is letter
    burials.sent(letter, [7, 8], again_ms)
    burials.confirmed(letter, 8, again_ms)
    burials.refused(letter, 7, again_ms)
    burials.confirmed(letter, 8, again_ms)
    assert (burials.take_buried(), burials.count) == ([], 1)


def test_who_refuses_again_and_again_is_asked_less_and_less() -> None:
    burials = dead()
    letter = given(burials)
    now_ms, waits = NOW_MS, []
    for _ in range(12):
        burials.sent(letter, [7], now_ms)
        burials.refused(letter, 7, now_ms)
        waits.append(int(burials.due_ms()) - now_ms)
        now_ms = int(burials.due_ms())
        assert given(burials, now_ms) is letter
    assert waits[:3] == [REST_MS_MIN, 2 * REST_MS_MIN, 4 * REST_MS_MIN]
    assert waits[-1] == REST_MS_MAX


def test_a_letter_that_nobody_answers_for_is_sent_again() -> None:
    burials = dead()
    letter = sent(burials, 7)
    assert burials.due_ms() == NOW_MS + ANSWER_MS
    assert burials.next(NOW_MS + ANSWER_MS - 1) is None
    assert given(burials, NOW_MS + ANSWER_MS) is letter
    burials.confirmed(letter, 7, NOW_MS)  # after all: and then no queue lacks it
    burials.nowhere(letter, NOW_MS)
    assert burials.take_buried() == [(1, 1)]


def test_a_queue_that_goes_is_waited_for_no_more() -> None:
    burials = dead(2)
    one, other = sent(burials, 7, 8), sent(burials, 7)
    burials.confirmed(one, 8, NOW_MS)
    burials.lost(one, 7, NOW_MS)
    burials.lost(other, 7, NOW_MS)
    assert burials.take_buried() == [(1, 1)]
    assert (burials.count, burials.resting.count) == (1, 1)


def test_what_no_queue_wants_takes_nobodys_place_and_is_tried_after_a_while() -> None:
    burials = dead(3 * WINDOW)
    for _ in range(3 * WINDOW):
        burials.nowhere(given(burials), NOW_MS)
    burials.died(1000, 1, LEFT_EXPIRED)
    assert sent(burials, 7).seq == 1000
    assert burials.next(NOW_MS) is None
    due_ms = int(burials.due_ms())
    assert due_ms == NOW_MS + REST_MS_MIN
    tried = [sent(burials, 7, now_ms=due_ms).seq for _ in range(WINDOW - 1)]
    assert tried == list(range(1, WINDOW))


def tries(burials: Burials, now_ms: int, wanted: int = 0) -> int:
    """How many of those that rest are tried at once; the `wanted`th finds a queue."""
    count = 0
    while (letter := burials.next(now_ms)) is not None:
        count += 1
        if count == wanted:
            burials.sent(letter, [7], now_ms)
            burials.confirmed(letter, 7, now_ms)
        else:
            burials.nowhere(letter, now_ms)
    return count


def test_of_those_that_rest_more_are_tried_as_long_as_that_helps() -> None:
    burials = dead(10 * WINDOW)
    assert tries(burials, NOW_MS) == 10 * WINDOW
    now_ms = NOW_MS + REST_MS_MAX
    assert tries(burials, now_ms) == WINDOW
    assert tries(burials, now_ms) == 0
    assert tries(burials, now_ms + REST_MS_MAX, wanted=5) == 2 * WINDOW


def test_in_turn_all_are_tried() -> None:
    burials = dead(3 * WINDOW)
    tries(burials, NOW_MS)
    seen: set[int] = set()
    for round_number in range(1, 4):
        now_ms = NOW_MS + round_number * 2 * REST_MS_MAX
        while (letter := burials.next(now_ms)) is not None:
            seen.add(int(letter.seq))
            burials.nowhere(letter, now_ms)
    assert seen == set(range(1, 3 * WINDOW + 1))


def test_what_cannot_be_read_yet_comes_next() -> None:
    burials = dead(2)
    letter = given(burials)
    burials.put_back(letter, NOW_MS)
    assert given(burials) is letter
    burials.put_back(letter, NOW_MS)
    burials.rest(letter, NOW_MS)
    assert given(burials).seq == 2
    assert burials.due_ms() <= NOW_MS + REST_MS_MIN


def test_buried_are_told_as_runs() -> None:
    burials = dead(6)
    letters = [sent(burials, 7) for _ in range(6)]
    for place in (4, 0, 1, 5, 2):
        burials.confirmed(letters[place], 7, NOW_MS)
    assert burials.take_buried() == [(1, 3), (5, 2)]


@pytest.mark.parametrize("seed", range(30))
def test_by_lots_each_is_buried_once_and_only_when_some_queue_has_it(seed: int) -> None:
    lots = Random(seed)
    burials = Burials()
    now_ms, next_seq = NOW_MS, 1
    has: dict[int, set[int]] = {}
    out: list[tuple[Letter, int]] = []
    buried: list[int] = []
    for step in range(2_000):
        if step < 600 and lots.random() < 0.3:
            count = lots.randrange(1, 5)
            burials.died(next_seq, count, lots.choice((LEFT_REJECTED, LEFT_EXPIRED)))
            next_seq += count
        letter = burials.next(now_ms)
        if letter is not None:
            uids = [uid for uid in (7, 8) if lots.random() < 0.6 and uid not in letter.safe]
            if uids:
                burials.sent(letter, uids, now_ms)
                out += [(letter, uid) for uid in uids]
            else:
                burials.nowhere(letter, now_ms)
        if out and lots.random() < 0.8:
            letter, uid = out.pop(lots.randrange(len(out)))
            lot = lots.random()
            if lot < 0.6:
                has.setdefault(int(letter.seq), set()).add(uid)
                burials.confirmed(letter, uid, now_ms)
            elif lot < 0.9:
                burials.refused(letter, uid, now_ms)
            else:
                burials.lost(letter, uid, now_ms)
        for seq in seqs_of(burials.take_buried()):
            buried.append(seq)
            assert has.get(seq), f"{seq} is buried, and nowhere"
        assert len(burials.letters) <= WINDOW
        now_ms += lots.choice((0, 1, 50, 500))
    assert len(buried) == len(set(buried))
    assert len(buried) + burials.count == next_seq - 1
    assert len(buried) > next_seq // 2


def test_a_purge_buries_everything_some_at_a_time() -> None:
    burials = dead(WINDOW + 2 * PURGED_MAX)
    out = sent(burials, 7)
    rests = given(burials)
    burials.nowhere(rests, NOW_MS)
    burials.purge()
    assert burials.next(NOW_MS + REST_MS_MAX + ANSWER_MS) is None
    buried = burials.take_buried()
    assert sum(count for _, count in buried) <= WINDOW + PURGED_MAX
    while burials.has_purged():
        buried += burials.take_buried()
    assert sorted(seqs_of(buried)) == list(range(1, WINDOW + 2 * PURGED_MAX + 1))
    burials.confirmed(out, 7, NOW_MS)  # It was on its way, and arrives.
    assert (burials.take_buried(), burials.count) == ([], 0)

"""What becomes of the dead: when letters are sent, again, and when they are buried for good."""

from random import Random

import pytest

from queues.dead_lettering.dead_letter_schedule import (
    ANSWER_MS,
    PURGED_MAX,
    REST_MS_MAX,
    REST_MS_MIN,
    WINDOW,
    DeadLetterSchedule,
    Letter,
)
from queues.machine.effects import LEFT_EXPIRED, LEFT_REJECTED
from tests.unit.queues.runs import seqs_of

NOW_MS = 5_000


def given(schedule: DeadLetterSchedule, now_ms: int = NOW_MS) -> Letter:
    letter = schedule.next(now_ms)
    assert letter is not None
    return letter


def sent(schedule: DeadLetterSchedule, *uids: int, now_ms: int = NOW_MS) -> Letter:
    letter = given(schedule, now_ms)
    schedule.sent(letter, list(uids), now_ms)
    return letter


def dead(count: int = 1) -> DeadLetterSchedule:
    schedule = DeadLetterSchedule()
    schedule.died(1, count, LEFT_REJECTED)
    return schedule


def test_a_letter_is_buried_when_all_its_queues_have_it() -> None:
    schedule = dead()
    letter = sent(schedule, 7, 8)
    assert (letter.seq, letter.reason) == (1, LEFT_REJECTED)
    schedule.confirmed(letter, 7, NOW_MS)
    assert schedule.take_released() == []
    schedule.confirmed(letter, 8, NOW_MS)
    assert (schedule.take_released(), schedule.take_released(), schedule.count) == ([(1, 1)], [], 0)


def test_so_many_are_on_their_way_and_no_more() -> None:
    schedule = dead(WINDOW + 2)
    letters = [sent(schedule, 7) for _ in range(WINDOW)]
    assert schedule.next(NOW_MS) is None
    schedule.confirmed(letters[3], 7, NOW_MS)
    assert given(schedule).seq == WINDOW + 1
    assert schedule.count == WINDOW + 1


def test_a_letter_that_was_refused_goes_again_to_those_who_do_not_have_it() -> None:
    schedule = dead()
    letter = sent(schedule, 7, 8)
    schedule.refused(letter, 7, NOW_MS)
    schedule.confirmed(letter, 8, NOW_MS)
    assert (schedule.take_released(), schedule.next(NOW_MS)) == ([], None)
    assert schedule.due_ms() == NOW_MS + REST_MS_MIN
    assert given(schedule, NOW_MS + REST_MS_MIN) is letter
    assert letter.safe == {8}
    schedule.sent(letter, [7], NOW_MS + REST_MS_MIN)
    schedule.confirmed(letter, 7, NOW_MS + REST_MS_MIN)
    assert schedule.take_released() == [(1, 1)]


def test_a_late_answer_to_an_earlier_time_does_not_bury_what_waits_to_be_sent_again() -> None:
    """Queue 8 answers twice, for it was asked twice; queue 7 does not have the letter."""
    schedule = dead()
    letter = sent(schedule, 7, 8)
    again_ms = NOW_MS + ANSWER_MS
    assert given(schedule, again_ms) is letter
    schedule.sent(letter, [7, 8], again_ms)
    schedule.confirmed(letter, 8, again_ms)
    schedule.refused(letter, 7, again_ms)
    schedule.confirmed(letter, 8, again_ms)
    assert (schedule.take_released(), schedule.count) == ([], 1)


def test_who_refuses_again_and_again_is_asked_less_and_less() -> None:
    schedule = dead()
    letter = given(schedule)
    now_ms, waits = NOW_MS, []
    for _ in range(12):
        schedule.sent(letter, [7], now_ms)
        schedule.refused(letter, 7, now_ms)
        waits.append(int(schedule.due_ms()) - now_ms)
        now_ms = int(schedule.due_ms())
        assert given(schedule, now_ms) is letter
    assert waits[:3] == [REST_MS_MIN, 2 * REST_MS_MIN, 4 * REST_MS_MIN]
    assert waits[-1] == REST_MS_MAX


def test_a_letter_that_nobody_answers_for_is_sent_again() -> None:
    schedule = dead()
    letter = sent(schedule, 7)
    assert schedule.due_ms() == NOW_MS + ANSWER_MS
    assert schedule.next(NOW_MS + ANSWER_MS - 1) is None
    assert given(schedule, NOW_MS + ANSWER_MS) is letter
    schedule.confirmed(letter, 7, NOW_MS)  # after all: and then no queue lacks it
    schedule.nowhere(letter, NOW_MS)
    assert schedule.take_released() == [(1, 1)]


def test_a_queue_that_goes_is_waited_for_no_more() -> None:
    schedule = dead(2)
    one, other = sent(schedule, 7, 8), sent(schedule, 7)
    schedule.confirmed(one, 8, NOW_MS)
    schedule.lost(one, 7, NOW_MS)
    schedule.lost(other, 7, NOW_MS)
    assert schedule.take_released() == [(1, 1)]
    assert (schedule.count, schedule.resting.count) == (1, 1)


def test_what_no_queue_wants_takes_nobodys_place_and_is_tried_after_a_while() -> None:
    schedule = dead(3 * WINDOW)
    for _ in range(3 * WINDOW):
        schedule.nowhere(given(schedule), NOW_MS)
    schedule.died(1000, 1, LEFT_EXPIRED)
    assert sent(schedule, 7).seq == 1000
    assert schedule.next(NOW_MS) is None
    due_ms = int(schedule.due_ms())
    assert due_ms == NOW_MS + REST_MS_MIN
    tried = [sent(schedule, 7, now_ms=due_ms).seq for _ in range(WINDOW - 1)]
    assert tried == list(range(1, WINDOW))


def tries(schedule: DeadLetterSchedule, now_ms: int, wanted: int = 0) -> int:
    """How many of those that rest are tried at once; the `wanted`th finds a queue."""
    count = 0
    while (letter := schedule.next(now_ms)) is not None:
        count += 1
        if count == wanted:
            schedule.sent(letter, [7], now_ms)
            schedule.confirmed(letter, 7, now_ms)
        else:
            schedule.nowhere(letter, now_ms)
    return count


def test_of_those_that_rest_more_are_tried_as_long_as_that_helps() -> None:
    schedule = dead(10 * WINDOW)
    assert tries(schedule, NOW_MS) == 10 * WINDOW
    now_ms = NOW_MS + REST_MS_MAX
    assert tries(schedule, now_ms) == WINDOW
    assert tries(schedule, now_ms) == 0
    assert tries(schedule, now_ms + REST_MS_MAX, wanted=5) == 2 * WINDOW


def test_in_turn_all_are_tried() -> None:
    schedule = dead(3 * WINDOW)
    tries(schedule, NOW_MS)
    seen: set[int] = set()
    for round_number in range(1, 4):
        now_ms = NOW_MS + round_number * 2 * REST_MS_MAX
        while (letter := schedule.next(now_ms)) is not None:
            seen.add(int(letter.seq))
            schedule.nowhere(letter, now_ms)
    assert seen == set(range(1, 3 * WINDOW + 1))


def test_what_cannot_be_read_yet_comes_next() -> None:
    schedule = dead(2)
    letter = given(schedule)
    schedule.put_back(letter, NOW_MS)
    assert given(schedule) is letter
    schedule.put_back(letter, NOW_MS)
    schedule.rest(letter, NOW_MS)
    assert given(schedule).seq == 2
    assert schedule.due_ms() <= NOW_MS + REST_MS_MIN


def test_buried_are_told_as_runs() -> None:
    schedule = dead(6)
    letters = [sent(schedule, 7) for _ in range(6)]
    for place in (4, 0, 1, 5, 2):
        schedule.confirmed(letters[place], 7, NOW_MS)
    assert schedule.take_released() == [(1, 3), (5, 2)]


@pytest.mark.parametrize("seed", range(30))
def test_by_lots_each_is_buried_once_and_only_when_some_queue_has_it(seed: int) -> None:
    lots = Random(seed)
    schedule = DeadLetterSchedule()
    now_ms, next_seq = NOW_MS, 1
    has: dict[int, set[int]] = {}
    out: list[tuple[Letter, int]] = []
    released: list[int] = []
    for step in range(2_000):
        if step < 600 and lots.random() < 0.3:
            count = lots.randrange(1, 5)
            schedule.died(next_seq, count, lots.choice((LEFT_REJECTED, LEFT_EXPIRED)))
            next_seq += count
        letter = schedule.next(now_ms)
        if letter is not None:
            uids = [uid for uid in (7, 8) if lots.random() < 0.6 and uid not in letter.safe]
            if uids:
                schedule.sent(letter, uids, now_ms)
                out += [(letter, uid) for uid in uids]
            else:
                schedule.nowhere(letter, now_ms)
        if out and lots.random() < 0.8:
            letter, uid = out.pop(lots.randrange(len(out)))
            lot = lots.random()
            if lot < 0.6:
                has.setdefault(int(letter.seq), set()).add(uid)
                schedule.confirmed(letter, uid, now_ms)
            elif lot < 0.9:
                schedule.refused(letter, uid, now_ms)
            else:
                schedule.lost(letter, uid, now_ms)
        for seq in seqs_of(schedule.take_released()):
            released.append(seq)
            assert has.get(seq), f"{seq} is buried, and nowhere"
        assert len(schedule.letters) <= WINDOW
        now_ms += lots.choice((0, 1, 50, 500))
    assert len(released) == len(set(released))
    assert len(released) + schedule.count == next_seq - 1
    assert len(released) > next_seq // 2


def test_a_purge_buries_everything_some_at_a_time() -> None:
    schedule = dead(WINDOW + 2 * PURGED_MAX)
    out = sent(schedule, 7)
    rests = given(schedule)
    schedule.nowhere(rests, NOW_MS)
    schedule.purge()
    assert schedule.next(NOW_MS + REST_MS_MAX + ANSWER_MS) is None
    released = schedule.take_released()
    assert sum(count for _, count in released) <= WINDOW + PURGED_MAX
    while schedule.has_purged():
        released += schedule.take_released()
    assert sorted(seqs_of(released)) == list(range(1, WINDOW + 2 * PURGED_MAX + 1))
    schedule.confirmed(out, 7, NOW_MS)  # It was on its way, and arrives.
    assert (schedule.take_released(), schedule.count) == ([], 0)

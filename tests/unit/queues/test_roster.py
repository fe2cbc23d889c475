"""Who is there, who is the active one, who stands in line, and who holds something for too long."""

import random

import pytest

from queues.machine.commands import ConsumerKey, SessionId, consumer_key
from queues.machine.consuming.consumers import Consumer, Lines
from queues.machine.consuming.roster import CHECK_MS_MAX, CHECK_MS_MIN, Roster
from queues.machine.effects import Activated, Effect


def joined(roster: Roster, number: int, priority: int = 0, timeout_ms: int = -1) -> Consumer:
    consumer = Consumer(ConsumerKey(number), priority)
    consumer.timeout_ms = timeout_ms
    roster.attach(consumer, False)
    return consumer


def activated(roster: Roster) -> list[tuple[int, bool]]:
    effects: list[Effect] = []
    roster.activate(effects)
    return [(each.key, each.active) for each in effects if isinstance(each, Activated)]


def standing(roster: Roster) -> list[list[int]]:
    return [[each.key for each in level.standing()] for level in roster.lines.levels]


def gone(roster: Roster, consumer: Consumer) -> None:
    roster.detach(consumer)
    if consumer.held.count == 0:
        roster.remove(consumer.key)


def test_the_first_of_the_highest_priority_is_active_and_stays_it() -> None:
    roster = Roster(True, False)
    joined(roster, 1)
    assert activated(roster) == [(1, True)]
    joined(roster, 2)
    assert activated(roster) == []
    joined(roster, 3, 5)
    assert activated(roster) == [(1, False), (3, True)]
    joined(roster, 4, 5)
    assert activated(roster) == []
    gone(roster, roster.consumers[ConsumerKey(3)])
    assert activated(roster) == [(4, True)]
    gone(roster, roster.consumers[ConsumerKey(4)])
    assert activated(roster) == [(1, True)]


def test_only_the_active_one_stands_in_line() -> None:
    roster = Roster(True, False)
    one, two = joined(roster, 1), joined(roster, 2)
    for consumer in (two, one):
        roster.give(consumer, 3)
    assert standing(roster) == []
    activated(roster)
    assert standing(roster) == [[1]]
    roster.give(two, 9)
    assert standing(roster) == [[1]]
    gone(roster, one)
    activated(roster)
    assert standing(roster) == [[2]]


def test_one_that_gives_way_gets_nothing_more_until_it_holds_nothing() -> None:
    roster = Roster(True, False)
    one = joined(roster, 1)
    activated(roster)
    one.held.add(1, 2)
    two = joined(roster, 2, 1)
    assert activated(roster) == []
    assert roster.gives_way
    for consumer in (one, two):
        roster.give(consumer, 5)
    assert standing(roster) == []
    assert roster.waits_for(one)
    assert not roster.waits_for(two)
    one.held.remove(1, 2)
    assert activated(roster) == [(1, False), (2, True)]
    assert standing(roster) == [[2]]


def test_one_that_gave_way_goes_on_when_the_other_goes_first() -> None:
    roster = Roster(True, False)
    one = joined(roster, 1)
    activated(roster)
    roster.give(one, 5)
    one.held.add(1, 2)
    two = joined(roster, 2, 1)
    activated(roster)
    gone(roster, two)
    assert activated(roster) == []
    assert not roster.gives_way
    assert standing(roster) == [[1]]


@pytest.mark.parametrize(("drain", "expected"), [(False, [(2, True)]), (True, [])])
def test_after_a_cancel_the_next_one_waits_only_with_a_drained_handover(
    drain: bool, expected: list[tuple[int, bool]]
) -> None:
    roster = Roster(True, drain)
    one = joined(roster, 1)
    activated(roster)
    one.held.add(1, 1)
    joined(roster, 2)
    gone(roster, one)
    assert activated(roster) == expected
    roster.remove(one.key)
    assert activated(roster) == ([] if expected else [(2, True)])


def test_the_higher_priority_stands_ahead_and_empty_lines_go() -> None:
    roster = Roster(False, False)
    for number, priority in ((1, 0), (2, 7), (3, -2), (4, 7)):
        roster.give(joined(roster, number, priority), 1)
    assert standing(roster) == [[2, 4], [1], [3]]
    roster.give(roster.consumers[ConsumerKey(2)], 5)
    assert standing(roster) == [[2, 4], [1], [3]]
    for number in (1, 2, 4):
        gone(roster, roster.consumers[ConsumerKey(number)])
    assert standing(roster) == [[3]]


def test_lines_that_ran_dry_go_when_somebody_leaves() -> None:
    roster = Roster(False, False)
    for number in range(1, 50):
        consumer = joined(roster, number, number)
        roster.give(consumer, 1)
        assert roster.lines.levels[0].take() is consumer
        consumer.in_turn = False
        gone(roster, consumer)
        assert len(roster.lines.levels) <= 1


def test_who_is_detached_is_given_no_place() -> None:
    roster = Roster(False, False)
    one = joined(roster, 1)
    one.held.add(1, 1)
    gone(roster, one)
    roster.give(one, 4)
    assert standing(roster) == []


@pytest.mark.parametrize(
    ("timeouts", "default_ms", "step_ms"),
    [
        ([-1], -1, -1),
        ([0], 5000, -1),
        ([-1], 8000, 1000),
        ([-1, 1600, 90_000], 8000, 200),
        ([0, 1600], -1, 200),
        ([-1], 1, CHECK_MS_MIN),
        ([-1], 1_800_000, CHECK_MS_MAX),
    ],
)
def test_looks_are_an_eighth_of_the_shortest_timeout_apart(
    timeouts: list[int], default_ms: int, step_ms: int
) -> None:
    roster = Roster(False, False)
    for number, timeout in enumerate(timeouts):
        joined(roster, number, 0, timeout)
    assert roster.check_step_ms(default_ms) == step_ms


def late(roster: Roster, now_ms: int, default_ms: int = -1) -> list[int]:
    return [each.key for each in roster.late(now_ms, default_ms)]


def test_a_delivery_is_late_its_timeout_after_the_first_look_at_it() -> None:
    roster = Roster(False, False)
    one, two = joined(roster, 1, 0, 1000), joined(roster, 2)
    one.held.add(1, 3)
    two.held.add(4, 1)
    assert late(roster, 5000) == []
    assert late(roster, 5999) == []
    assert late(roster, 6000) == [1]
    assert late(roster, 9000, 3000) == [1]
    assert late(roster, 12_000, 3000) == [1, 2]


def test_what_was_settled_or_came_later_does_not_count() -> None:
    roster = Roster(False, False)
    one = joined(roster, 1, 0, 1000)
    one.held.add(1, 4)
    assert late(roster, 0) == []
    one.held.add(5, 1)
    one.held.remove(1, 2)
    assert late(roster, 500) == []
    one.held.remove(3, 2)
    assert late(roster, 1000) == []
    assert late(roster, 1499) == []
    assert late(roster, 1500) == [1]


def test_what_was_given_back_and_came_again_begins_anew() -> None:
    roster = Roster(False, False)
    one = joined(roster, 1, 0, 1000)
    one.held.add(1, 2)
    assert late(roster, 0) == []
    one.note_returned(1, 1)
    one.note_returned(1, 1)
    assert late(roster, 1000) == [1]  # for the second one
    one.note_returned(1, 2)
    assert late(roster, 1100) == []
    assert late(roster, 2100) == [1]


def test_a_timeout_of_nothing_is_none() -> None:
    roster = Roster(False, False)
    one = joined(roster, 1, 0, 0)
    one.held.add(1, 1)
    assert late(roster, 0, 1000) == []
    assert late(roster, 10**9, 1000) == []


def test_only_who_ranks_higher_or_is_active_can_change_who_is_active() -> None:
    roster = Roster(True, False)
    first = joined(roster, 1)
    assert roster.may_change(first)
    activated(roster)
    second, higher = joined(roster, 2), joined(roster, 3, 1)
    assert [roster.may_change(each) for each in (first, second, higher)] == [True, False, True]
    first.held.add(1, 1)
    activated(roster)
    assert roster.gives_way
    gone(roster, second)
    assert roster.may_change(second)


@pytest.mark.parametrize("seed", range(20))
def test_lines_keep_their_order_whoever_leaves_and_comes_again(seed: int) -> None:
    chance = random.Random(seed)
    lines = Lines()
    consumers = [Consumer(ConsumerKey(number), number % 3) for number in range(1, 31)]
    naive: dict[int, list[Consumer]] = {0: [], 1: [], 2: []}
    for _ in range(600):
        consumer = chance.choice(consumers)
        place = naive[int(consumer.priority)]
        what = chance.choice(("join", "leave", "leave", "take"))
        if what == "join":
            lines.join(consumer)
            if consumer not in place:
                place.append(consumer)
        elif what == "leave":
            lines.leave(consumer)
            if consumer in place:
                place.remove(consumer)
        elif not lines.is_empty():
            level = next(level for level in lines.levels if level.count > 0)
            taken = level.take()
            taken.in_turn = False
            assert taken is naive[int(level.priority)].pop(0)
        expected = [naive[priority] for priority in (2, 1, 0) if naive[priority]]
        assert [level.standing() for level in lines.levels if level.count > 0] == expected
        assert lines.is_empty() == (not expected)


def test_a_session_has_its_consumers_in_the_order_in_which_they_came() -> None:
    roster = Roster(False, False)
    keys = [consumer_key(SessionId(session), number) for number in (1, 2) for session in (7, 8)]
    for key in keys:
        roster.attach(Consumer(key, 0), False)
    assert roster.of_session(SessionId(8)) == [keys[1], keys[3]]
    roster.remove(keys[1])
    roster.remove(keys[3])
    assert roster.of_session(SessionId(8)) == []
    assert roster.sessions() == [7]

"""The log in memory: terms by runs, contents of the newest part, against a plain list."""

import random

import pytest

from raft.entries import COMMAND, Config, Entry, SnapshotPoint
from raft.log import Log
from tests.unit.raft.cores import entries, entry, indexes

EMPTY = SnapshotPoint(0, 0, 0, Config((1,)))


def log_of(*terms: int) -> Log:
    log = Log(EMPTY, [], 0)
    log.extend(entries(1, *terms))
    return log


def test_terms_are_known_from_the_base_to_the_end() -> None:
    log = log_of(1, 1, 2, 2, 5)
    assert [log.term(index) for index in range(-1, 8)] == [-1, 0, 1, 1, 2, 2, 5, -1, -1]
    log.take_snapshot(SnapshotPoint(4, 2, 2, EMPTY.config), 3)
    assert [log.term(index) for index in range(1, 7)] == [-1, -1, 2, 2, 5, -1]
    assert (log.base_index, log.snapshot.index, log.memory_first) == (3, 4, 4)


def test_the_last_place_of_a_term_or_lower_is_found() -> None:
    log = log_of(1, 1, 3, 3, 5)
    found = [log.last_at_most(index, term) for index, term in ((5, 5), (5, 4), (5, 2), (2, 9))]
    assert found == [5, 4, 2, 2]
    assert log.last_at_most(99, 3) == 4
    assert log.last_at_most(3, 0) == 0
    log.take_snapshot(SnapshotPoint(3, 3, 3, EMPTY.config), 3)
    assert log.last_at_most(5, 2) == 2  # below what is known
    assert log.last_at_most(1, 9) == 1


def test_holes_and_terms_that_fall_are_faults() -> None:
    log = log_of(1, 2)
    for wrong in (entry(4, 2), entry(2, 2), entry(3, 1)):
        with pytest.raises(AssertionError):
            log.append(wrong)
        with pytest.raises(AssertionError):
            log.extend([wrong])
    with pytest.raises(AssertionError):
        log.append(Entry(3, 2, COMMAND, (), (), 1))
    with pytest.raises(AssertionError):
        log.truncate(0)
    with pytest.raises(AssertionError):
        log.truncate(3)


def test_bytes_are_counted_without_looking_at_each() -> None:
    log = log_of(1, 1, 1, 1)  # 64 bytes each
    assert log.bytes_behind(1) == 192
    assert log.bytes_between(2, 3) == 128
    assert [log.last_within(1, 4, limit) for limit in (1, 64, 127, 128, 10_000)] == [1, 1, 1, 2, 4]
    assert [log.last_within(2, 3, limit) for limit in (1, 128, 999)] == [2, 3, 3]
    log.truncate(3)
    assert log.bytes_behind(0) == 128
    log.forget(1)
    assert log.bytes_behind(0) == 64
    assert log.last_within(2, 2, 1) == 2


def test_a_slice_that_is_wanted_twice_is_one_list_and_stays_as_it_is() -> None:
    log = log_of(1, 1, 1)
    first = log.slice(2, 3)
    assert log.slice(2, 3) is first
    log.append(entry(4, 1))
    assert indexes(first) == [2, 3]
    log.truncate(3)
    log.append(entry(3, 2))
    log.append(entry(4, 2))
    assert [one.term for one in log.slice(2, 3)] == [1, 2]
    assert [one.term for one in first] == [1, 1]


def test_a_few_of_many_stay_until_they_are_more() -> None:
    log = log_of(*[1] * 64)
    log.forget(3)
    assert log.memory_first == 1
    log.forget(4)
    assert log.memory_first == 5
    log.forget(999)
    assert log.memory_first == 65
    log.append(entry(65, 1))
    assert indexes(log.slice(65, 65)) == [65]


class Model:
    """The same as a plain list of (term, appended term), from index 1 on."""

    def __init__(self) -> None:
        self.terms: list[tuple[int, int]] = []
        self.base = 0
        self.forgotten = 0


@pytest.mark.parametrize("seed", range(20))
def test_any_course_of_things_gives_what_a_list_gives(seed: int) -> None:
    lots = random.Random(seed)
    model = Model()
    log = Log(EMPTY, [], 0)
    term = 1
    for _ in range(300):
        act = lots.randrange(6)
        last = len(model.terms)
        if act <= 2:
            term += lots.randrange(2)
            low = model.terms[-1][0] if model.terms else 1
            chosen = sorted(lots.randint(low, term) for _ in range(lots.randrange(5)))
            added = [
                Entry(last + place, one, COMMAND, (b"x" * lots.randrange(50),), (), term)
                for place, one in enumerate(chosen, 1)
            ]
            log.extend(added)
            model.terms += [(one, term) for one in chosen]
        elif act == 3 and last > model.base:
            index = lots.randint(model.base + 1, last)
            log.truncate(index)
            del model.terms[index - 1 :]
            term += 1
        elif act == 4 and last > model.base:
            index = lots.randint(model.base + 1, last)
            release = lots.randint(model.base, index)
            point = SnapshotPoint(index, *model.terms[index - 1], EMPTY.config)
            log.take_snapshot(point, release)
            model.base = max(model.base, release)
        elif act == 5:
            log.forget(lots.randrange(last + 2))
        check(log, model, lots)


def check(log: Log, model: Model, lots: random.Random) -> None:
    last = len(model.terms)
    assert (log.last_index, log.base_index) == (last, model.base)
    assert log.last_term == (model.terms[-1][0] if last else 0)
    assert log.memory_first <= last + 1
    for index in range(model.base, last + 1):
        wanted = model.terms[index - 1] if index else (0, 0)
        assert (log.term(index), log.appended_term(index)) == wanted
    low = max(int(log.memory_first), model.base + 1)
    if low <= last:
        first = lots.randint(low, last)
        assert indexes(log.slice(first, last)) == list(range(first, last + 1))
        assert log.bytes_between(first, last) == sum(
            one.byte_count for one in log.slice(first, last)
        )
    index, term = lots.randint(model.base, last + 3), lots.randrange(8)
    place = min(index, last)
    while place > model.base and model.terms[place - 1][0] > term:
        place -= 1
    if place > model.base or model.base == 0 or model.terms[place - 1][0] <= term:
        assert log.last_at_most(index, term) == place

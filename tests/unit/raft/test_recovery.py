"""The log that is found on a disk is the log that was there, whatever else is there."""

import random

import pytest

from raft.entries import COMMAND, CONFIG, Config, HardState, SnapshotPoint
from raft.membership import encode_config
from raft.recovery import Candidate, FoundLog, Restored, founded, resolve

ONE = Config((1, 2, 3))
TWO = Config((1, 2, 3), (4,))
START = SnapshotPoint(0, 0, 0, ONE)


def plain(index: int, term: int, appended_term: int) -> Candidate:
    return (index, term, appended_term, COMMAND, b"")


def log_terms(found: Restored) -> list[int]:
    if not found.runs:
        return []
    terms: list[int] = []
    ends = [first for first, _, _ in found.runs[1:]] + [int(found.last_index) + 1]
    for (first, term, _), end in zip(found.runs, ends, strict=True):
        terms += [term] * (end - first)
    return terms


def test_nothing_found_is_an_empty_log() -> None:
    found = resolve(START, HardState(4, 2), [])
    assert (found.last_index, found.runs, found.configs) == (0, [], [])
    assert (found.hard_state.term, found.hard_state.vote) == (4, 2)
    begun = founded(ONE)
    assert (begun.last_index, begun.hard_state.term, begun.snapshot.config) == (0, 0, ONE)


def test_what_was_replaced_is_dead_and_so_is_what_was_behind_it() -> None:
    candidates = [plain(index, 1, 1) for index in range(1, 7)] + [plain(3, 2, 2)]
    found = resolve(START, HardState(2, 0), candidates)
    assert log_terms(found) == [1, 1, 2]
    assert found.runs == [(1, 1, 1), (3, 2, 2)]


def test_an_entry_of_an_older_term_may_have_been_appended_later() -> None:
    candidates = [plain(1, 1, 1), plain(2, 2, 2), plain(3, 2, 2), plain(2, 1, 3)]
    found = resolve(START, HardState(3, 0), candidates)
    assert found.runs == [(1, 1, 1), (2, 1, 3)]
    assert found.last_index == 2


def test_a_hole_ends_the_log() -> None:
    found = resolve(START, HardState(1, 0), [plain(1, 1, 1), plain(3, 1, 1)])
    assert found.last_index == 1


def test_what_a_snapshot_covers_is_passed_over_and_an_older_tail_is_dead() -> None:
    candidates = [plain(index, 2, 2) for index in range(1, 9)]
    kept = resolve(SnapshotPoint(4, 2, 2, TWO), HardState(5, 0), candidates)
    assert (kept.last_index, kept.runs) == (8, [(5, 2, 2)])
    dead = resolve(SnapshotPoint(4, 3, 5, TWO), HardState(5, 0), candidates)
    assert (dead.last_index, dead.runs) == (4, [])


def test_records_of_another_incarnation_are_passed_over() -> None:
    found = FoundLog(2)
    found.add(1, 1, 9, 9, COMMAND, b"")
    found.add(2, 1, 3, 3, COMMAND, b"")
    found.add(1, 2, 9, 9, COMMAND, b"")
    found.add_hard_state(1, 9, 1)
    found.add_hard_state(2, 3, 1)
    log = found.restored(START)
    assert log_terms(log) == [3]
    assert (log.hard_state.term, log.hard_state.vote) == (3, 1)


def test_the_newest_hard_state_has_the_highest_term_and_then_a_vote() -> None:
    records = [(3, 0), (3, 2), (2, 1), (1, 3)]
    for order in range(24):
        shuffled = records[:]
        random.Random(order).shuffle(shuffled)
        found = FoundLog(0)
        for term, vote in shuffled:
            found.add_hard_state(0, term, vote)
        state = found.restored(START).hard_state
        assert (state.term, state.vote) == (3, 2)


def test_configurations_of_the_log_are_found_and_dead_ones_are_not() -> None:
    candidates: list[Candidate] = [
        plain(1, 1, 1),
        (2, 1, 1, CONFIG, encode_config(Config((1, 9)))),
        (2, 2, 2, CONFIG, encode_config(TWO)),
        plain(3, 2, 2),
        (5, 1, 1, CONFIG, encode_config(Config((7,)))),
    ]
    found = resolve(START, HardState(2, 0), candidates)
    assert found.configs == [(2, TWO)]


def test_what_can_be_no_log_is_refused() -> None:
    for candidates, term in (
        ([plain(1, 1, 1)], 0),  # an entry of a term that was never promised
        ([plain(1, 3, 3), plain(2, 2, 4)], 9),  # terms that fall
        ([plain(1, 5, 4)], 9),  # appended before its term began
    ):
        with pytest.raises(ValueError, match="term"):
            resolve(START, HardState(term, 0), candidates)


class Member:
    """A log as a plain list, and a disk from which nothing is ever erased.

    `leaders` has the log of each term's leader, of which all members get prefixes: so two members
    that append at one index in one term append the same.
    """

    def __init__(self, lots: random.Random) -> None:
        self.lots = lots
        self.term = 1
        self.log: list[tuple[int, int]] = []  # (term, appended term) from index 1 on
        self.committed = 0
        self.point = START
        self.disk: list[Candidate] = []

    def next_term(self) -> list[int]:
        """Terms of the entries of a new leader: what is committed, then what it had or made."""
        self.term += self.lots.randint(1, 3)
        leader = [term for term, _ in self.log[: self.committed]]
        low = leader[-1] if leader else 1
        count = self.lots.randrange(6)
        leader += sorted(self.lots.randint(low, self.term - 1) for _ in range(count))
        return leader + [self.term] * self.lots.randrange(1, 5)

    def follow(self, leader: list[int]) -> None:
        """Take a part of the leader's log: replace from the first place that differs on."""
        upto = self.lots.randint(self.committed, len(leader))
        for index in range(self.point.index + 1, upto + 1):
            term = leader[index - 1]
            if index <= len(self.log):
                if self.log[index - 1][0] == term:
                    continue
                assert index > self.committed
                del self.log[index - 1 :]
            self.log.append((term, self.term))
            self.disk.append(plain(index, term, self.term))
        self.committed = self.lots.randint(self.committed, min(upto, len(self.log)))

    def snapshot(self) -> None:
        if self.committed > self.point.index:
            index = self.lots.randint(self.point.index + 1, self.committed)
            self.point = SnapshotPoint(index, *self.log[index - 1], ONE)

    def install(self, leader: list[int]) -> None:
        """A snapshot of the leader; what does not fit it is gone."""
        index = self.lots.randint(self.committed, len(leader))
        if index <= self.committed:
            return
        term = leader[index - 1]
        if index <= len(self.log) and self.log[index - 1][0] == term:
            self.point = SnapshotPoint(index, term, self.log[index - 1][1], ONE)
        else:
            self.point = SnapshotPoint(index, term, self.term, ONE)
            self.log = [(one, self.term) for one in leader[:index]]
        self.committed = index


@pytest.mark.parametrize("seed", range(150))
def test_the_log_is_found_among_all_that_ever_was(seed: int) -> None:
    lots = random.Random(seed)
    member = Member(lots)
    for _ in range(lots.randint(1, 12)):
        leader = member.next_term()
        for _ in range(lots.randint(1, 4)):
            act = lots.randrange(8)
            if act == 0:
                member.snapshot()
            elif act == 1:
                member.install(leader)
            else:
                member.follow(leader)
            found = on_disk(member)
            assert log_terms(found) == [term for term, _ in member.log[member.point.index :]]
            appended = [one for _, _, one in found.runs]
            assert appended == sorted(appended)


def on_disk(member: Member) -> Restored:
    """In any order, some records twice; what the snapshot covers may be there still or not."""
    candidates = member.disk + member.lots.sample(member.disk, len(member.disk) // 3)
    if member.lots.randrange(2):
        candidates = [one for one in candidates if one[0] > member.point.index]
    member.lots.shuffle(candidates)
    return resolve(member.point, HardState(member.term, 0), candidates)


def test_a_snapshot_may_be_durable_before_the_term_that_it_was_taken_in() -> None:
    point = SnapshotPoint(4, 2, 5, TWO)
    early = resolve(point, HardState(3, 2), [plain(5, 2, 3)])
    assert (early.hard_state.term, early.hard_state.vote) == (5, 0)
    assert early.last_index == 4
    kept = resolve(point, HardState(5, 2), [plain(5, 2, 5)])
    assert (kept.hard_state.term, kept.hard_state.vote) == (5, 2)
    assert kept.last_index == 5

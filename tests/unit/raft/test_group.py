"""What a group tells its owner: outcomes once and in order, barriers, whatever the leaders do."""

from random import Random

from raft.core import Raft
from raft.entries import COMMAND, Config, Entry
from raft.group import Counters, Group, Marks, NotLeader
from raft.log_group import COMMITTED, LOST, UNKNOWN
from raft.recovery import founded
from raft.settings import Settings
from tests.unit.raft.host_world import GROUP, INCARNATION, FakeLog, Recorder, World


class Bench:
    """A group by itself, which is handed entries as a host would."""

    def __init__(self) -> None:
        self.log = FakeLog()
        self.owner = Recorder(self.log, GROUP)
        self.turns = 0
        self.marks = Marks(self._begin_turn)
        raft = Raft(1, founded(Config((1, 2, 3))), Settings(), Random(1))
        self.group = Group(GROUP, INCARNATION, raft, self.owner, self.log, self.marks, Counters())

    def _begin_turn(self) -> None:
        self.turns += 1

    def opened(self, *places: tuple[int, int]) -> None:
        for place in places:
            self.group.opened(place)

    def committed(self, *places: tuple[int, int]) -> None:
        self.group.hand_over([entry(*place) for place in places])


def entry(index: int, term: int) -> Entry:
    return Entry(index, term, COMMAND, (b"x",), (), term)


def test_outcomes_come_in_order_behind_what_they_are_about() -> None:
    bench = Bench()
    bench.opened((1, 3), (2, 3), (3, 3))
    bench.committed((1, 3), (2, 3))
    assert bench.owner.story == ["apply 1", "apply 2", "outcome 1 1", "outcome 2 1"]
    bench.committed((3, 3))
    assert bench.owner.outcomes == [(1, 3, COMMITTED), (2, 3, COMMITTED), (3, 3, COMMITTED)]


def test_entries_of_others_before_a_proposal_decide_nothing_about_it() -> None:
    bench = Bench()
    bench.opened((4, 5))
    bench.committed((1, 2), (2, 2), (3, 5))
    assert bench.owner.outcomes == []
    bench.committed((4, 5))
    assert bench.owner.outcomes == [(4, 5, COMMITTED)]


def test_an_entry_of_a_later_leader_loses_all_that_could_stand_behind_it() -> None:
    bench = Bench()
    bench.opened((2, 3), (3, 3), (4, 3))
    bench.committed((1, 2), (2, 3), (3, 4))
    assert bench.owner.story == [
        "apply 1",
        "apply 2",
        "outcome 2 1",
        "outcome 3 2",
        "outcome 4 2",
        "apply 3",
    ]


def test_an_entry_of_an_earlier_leader_loses_the_proposal_in_its_place() -> None:
    bench = Bench()
    bench.opened((1, 4), (2, 4))
    bench.committed((1, 3))
    assert bench.owner.story == ["outcome 1 2", "apply 1"]
    bench.committed((2, 5))
    assert bench.owner.outcomes == [(1, 4, LOST), (2, 4, LOST)]


def test_a_member_that_led_twice_is_told_of_both_times_in_their_order() -> None:
    bench = Bench()
    bench.opened((5, 3), (6, 3), (7, 3))
    bench.committed((1, 2), (2, 2), (3, 2))
    bench.opened((5, 6), (6, 6))
    bench.committed((4, 6), (5, 6), (6, 6))
    assert bench.owner.outcomes == [
        (5, 3, LOST),
        (6, 3, LOST),
        (7, 3, LOST),
        (5, 6, COMMITTED),
        (6, 6, COMMITTED),
    ]


def test_a_snapshot_that_passes_over_proposals_says_of_them_what_can_be_known() -> None:
    bench = Bench()
    bench.opened((2, 3), (3, 5), (4, 5), (5, 5), (9, 7))
    bench.group.passed_over(4, 5)
    assert bench.owner.outcomes == [(2, 3, UNKNOWN), (3, 5, COMMITTED), (4, 5, COMMITTED)]
    bench.owner.outcomes.clear()
    bench.group.passed_over(6, 6)
    assert bench.owner.outcomes == [(5, 5, UNKNOWN)]
    bench.owner.outcomes.clear()
    bench.group.passed_over(7, 8)
    assert bench.owner.outcomes == [(9, 7, LOST)]


def test_a_snapshot_of_an_older_term_than_the_proposal_has_lost_it() -> None:
    bench = Bench()
    bench.opened((3, 9), (6, 9))
    bench.group.passed_over(4, 8)
    assert bench.owner.outcomes == [(3, 9, LOST)]


def test_a_barrier_on_a_follower_is_refused_with_the_name_of_the_leader() -> None:
    world = World()
    world.add_group()
    world.elect(1)
    answers: list[bool] = []
    refusal = world.nodes[2].group().barrier(answers.append)
    assert isinstance(refusal, NotLeader)
    assert (refusal.leader, refusal.term) == (1, 1)
    assert answers == []


def test_a_barrier_is_answered_when_a_majority_has_and_all_before_it_is_applied() -> None:
    world = World()
    world.add_group()
    node = world.elect(1)
    applied: list[int] = []
    node.group().propose([b"x"])
    assert node.group().barrier(lambda sure: applied.append(node.owner().applied_index)) is None
    node.turn()
    assert applied == []
    world.settle()
    assert len(applied) == 1
    assert node.group().barrier(lambda sure: applied.append(int(sure))) is None
    world.settle()
    assert applied[1:] == [1]


def test_a_barrier_waits_for_what_is_committed_and_not_applied_yet() -> None:
    world = World(1, Settings(apply_bytes_max=1))
    world.add_group()
    node = world.elect(1)
    for _ in range(5):
        node.group().propose([b"x"])
    node.turn()
    node.sync()
    node.turn()
    assert node.owner().applied_index == 2
    seen: list[int] = []
    node.group().barrier(lambda sure: seen.append(node.owner().applied_index))
    node.turn()
    assert seen == []
    world.settle()
    assert seen == [6]


def test_a_barrier_of_a_leader_that_was_cut_off_fails_when_it_gives_up() -> None:
    world = World()
    world.add_group()
    node = world.elect(1)
    world.cut(1, 2)
    world.cut(1, 3)
    answers: list[bool] = []
    assert node.group().barrier(answers.append) is None
    world.tick(10)
    world.settle()
    world.tick(100)
    assert answers == [False]


def test_a_group_is_marked_once_and_asks_for_one_turn() -> None:
    bench = Bench()
    bench.marks.mark(bench.group)
    bench.marks.mark(bench.group)
    assert bench.turns == 1
    assert bench.marks.take(10) == [bench.group]
    assert bench.marks.take(10) == []
    bench.marks.speak()
    bench.marks.mark(bench.group)
    assert bench.turns == 2
    bench.marks.sleep(bench.group)
    bench.marks.sleep(bench.group)
    assert bench.marks.awake == {}


def test_groups_that_are_too_many_for_one_turn_stay_marked_for_the_next() -> None:
    bench = Bench()
    others = [Bench().group for _ in range(4)]
    for group in (*others, *others):
        bench.marks.mark(group)
    assert bench.marks.take(3) == others[:3]
    bench.marks.mark(others[3])
    assert bench.marks.take(3) == others[3:]
    assert bench.marks.take(3) == []

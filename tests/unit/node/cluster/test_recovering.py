"""A queue that lost its majority goes on with one member: only without a leader, and if no member
has more that could be asked. Of two members the whole one goes on by itself."""

from collections.abc import Coroutine, Sequence
from typing import Any

import pytest

from node.cluster.membership.member_changes import Refused
from node.cluster.queues.recovering import TERM_GAP, Recovered, Recovering
from node.cluster.queues.recovering_many import HAS_MAJORITY, NO_MEMBER, RecoveringMany
from queues.definitions.broker_objects import Queue
from queues.definitions.metadata.commands import RecoverQueue, RemoveMember
from raft.entries import TERM_MAX
from tests.unit.node.cluster.operating_world import FakeLeaders, OperatingWorld


class Terms:
    """The highest terms that were heard of."""

    def __init__(self, leaders: FakeLeaders) -> None:
        self._leaders = leaders
        self.heard = 0

    def term_of(self, uid: int) -> int:
        return self.heard


class FakeAlone:
    """The definitions, which the first node leads as soon as it stands alone."""

    def __init__(self) -> None:
        self.leader = 0
        self.cut: list[int] = []
        self.terms: list[int] = []

    def cut_off(self, members: Sequence[int]) -> None:
        self.cut.extend(members)

    def stand_alone(self, term: int) -> None:
        assert self.cut
        self.terms.append(term)
        self.leader = 1


class Harness:
    """Three nodes of which the first has what is left of queue `q`, without a leader."""

    def __init__(self, members: tuple[int, ...] = (1, 2, 3)) -> None:
        self.world = OperatingWorld(4)
        self.queue = self.world.queue("q", members)
        self.told: list[Recovered] = []
        self.groups = {number: each.groups for number, each in self.world.nodes.items()}
        self.parts: dict[int, Recovering] = {}
        self.terms = Terms(self.world.leaders)
        self.alone = FakeAlone()
        for number, node in self.world.nodes.items():
            part = Recovering(
                node.membership, self.groups[number], self.terms, node.status, self.alone
            )
            part.sure_s = 0.05
            part.on_recovered = self._done
            self.parts[number] = part

    def _done(self, done: Recovered) -> None:
        """The member leads as soon as it may."""
        self.told.append(done)
        queue = self.world.machine.vhosts[done.vhost].queues[done.name]
        self.world.leaders.table[queue.uid] = (int(done.node[1:]), done.term + 1)

    def recover(self, node: str = "n1", asked: int = 1) -> Recovered:
        work: Coroutine[Any, Any, Recovered] = self.parts[asked].recover(self.queue, node)
        return self.world.run(work)

    def heal(self, member: int = 1) -> None:
        """Node 2 asks, whose member is damaged."""
        self.groups[2].has_none = True
        self.world.run(self.parts[2].go_on_with(self.queue, member))

    def refusal(self, node: str = "n1", asked: int = 1) -> str:
        with pytest.raises(Refused) as caught:
            self.recover(node, asked)
        assert not self.commands()
        return str(caught.value)

    def commands(self) -> list[RecoverQueue]:
        return [
            each
            for node in self.world.nodes.values()
            for each in node.definitions.proposed
            if isinstance(each, RecoverQueue)
        ]


def after(harness: Harness) -> Queue:
    found = harness.world.machine.queue(harness.queue.uid)
    assert found is not None
    return found


@pytest.mark.parametrize("asked", [1, 4])
def test_the_queue_is_its_one_members_and_everybody_hears_it(asked: int) -> None:
    harness = Harness()
    harness.world.stop(2)
    harness.world.stop(3)
    done = harness.recover(asked=asked)
    assert done == Recovered("/", "q", "n1", 7 + TERM_GAP, 9, ("n2", "n3"))
    queue = after(harness)
    assert (queue.members, queue.reborn_on, queue.reborn_term) == ((1,), 1, done.term)
    assert harness.told == [done]


def test_no_leader_of_before_can_have_reached_its_term() -> None:
    harness = Harness()
    harness.terms.heard = 90
    assert harness.recover().term == 90 + TERM_GAP


def test_a_queue_that_is_led_is_left_as_it_is() -> None:
    harness = Harness()
    harness.world.leaders.table[harness.queue.uid] = (2, 8)
    assert "node 'n2' leads the queue" in harness.refusal()


def test_a_member_that_can_be_asked_and_has_more_comes_first() -> None:
    harness = Harness()
    harness.groups[3].changed = {"last_index": 10}
    assert "node 'n3' has more" in harness.refusal()
    harness.groups[3].changed = {"last_index": 10, "membership": "promotable"}
    assert harness.recover().node == "n1"


def test_who_takes_no_part_has_none_or_never_had_all_cannot_go_on() -> None:
    harness = Harness()
    assert "no member of the queue" in harness.refusal("n4")
    assert "not a member of the cluster" in harness.refusal("n9")
    harness.groups[1].changed = {"membership": "promotable"}
    assert "never had all" in harness.refusal()
    harness.groups[1].has_none = True
    assert "its log is not whole" in harness.refusal()


def test_a_node_that_cannot_be_reached_does_nothing() -> None:
    harness = Harness()
    harness.world.stop(2)
    assert "not connected" in harness.refusal("n2")


def test_terms_do_not_run_out_in_the_midst_of_it() -> None:
    harness = Harness()
    harness.terms.heard = TERM_MAX - TERM_GAP
    assert "too often" in harness.refusal()


def pair() -> Harness:
    harness = Harness((2, 1))
    harness.groups[1].changed = {"voters": (1, 2)}
    return harness


def test_of_two_members_the_whole_one_goes_on_alone() -> None:
    harness = pair()
    harness.heal()
    assert (after(harness).members, after(harness).reborn_on) == ((1,), 1)
    assert harness.told[0].lost == ("n2",)


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"voters": (1, 2, 3)}, "other members"),
        ({"voters": (1, 2), "learners": (3,)}, "other members"),
        ({"voters": (1, 2), "membership": "promotable"}, "never had all"),
    ],
)
def test_it_does_not_if_the_group_may_be_more_than_the_two(
    changed: dict[str, Any], reason: str
) -> None:
    harness = pair()
    harness.groups[1].changed = changed
    with pytest.raises(Refused, match=reason):
        harness.heal()
    assert not harness.commands()


def test_it_does_not_while_a_node_is_silent_or_has_another_member() -> None:
    harness = pair()
    harness.world.stop(4)
    with pytest.raises(Refused, match="another node"):
        harness.heal()
    harness = pair()
    harness.groups[2].has_none = False
    with pytest.raises(Refused, match="another node"):
        harness.world.run(harness.parts[2].go_on_with(harness.queue, 1))
    harness = pair()
    harness.world.leaders.table[harness.queue.uid] = (1, 8)
    with pytest.raises(Refused, match="is led"):
        harness.heal()
    assert not harness.commands()


def test_it_does_not_for_a_queue_of_three() -> None:
    harness = Harness()
    harness.groups[1].changed = {"voters": (1, 2)}
    with pytest.raises(Refused, match="other members"):
        harness.heal()


# The definitions


def lonely(harness: Harness) -> Harness:
    for number in (2, 3, 4):
        harness.world.stop(number)
    return harness


def test_the_cluster_goes_on_with_the_one_node_that_is_left() -> None:
    harness = lonely(Harness())
    assert harness.world.run(harness.parts[1].recover_cluster()) == ("n2", "n3", "n4")
    assert (harness.alone.cut, harness.alone.terms) == ([2, 3, 4], [5 + TERM_GAP])
    proposed = harness.world.nodes[1].definitions.proposed
    assert [each.member for each in proposed if isinstance(each, RemoveMember)] == [2, 3, 4]
    assert harness.recover().lost == ("gone@2", "gone@3")


def test_it_does_not_while_others_run_or_somebody_leads_or_it_has_no_vote() -> None:
    harness = Harness()
    with pytest.raises(Refused, match="node 'n2' is running"):
        harness.world.run(harness.parts[1].recover_cluster())
    harness = lonely(Harness())
    harness.alone.leader = 3
    with pytest.raises(Refused, match="have a leader"):
        harness.world.run(harness.parts[1].recover_cluster())
    harness.alone.leader = 0
    harness.groups[1].changed = {"membership": "promotable"}
    with pytest.raises(Refused, match="no vote"):
        harness.world.run(harness.parts[1].recover_cluster())
    assert not harness.alone.cut


def many(harness: Harness, pattern: str = "") -> dict[str, tuple[str, tuple[str, ...], str]]:
    node = harness.world.nodes[1]
    part = RecoveringMany(node.membership, node.status, harness.parts[1])
    rows = harness.world.run(part.recover(lambda queue: pattern in queue.name))
    return {each.name: (each.node, each.lost, each.error) for each in rows}


def test_each_queue_without_a_majority_goes_on_with_the_member_that_has_most() -> None:
    harness = Harness()
    harness.world.queue("led", (1, 2, 3), leader=1)
    harness.world.queue("classic", ())
    harness.world.queue("elects", (1, 3, 4))
    harness.world.queue("gone", (2, 3))
    harness.world.queue("wide", (1, 2, 3, 4))
    harness.groups[4].changed = {"last_index": 10}
    harness.world.stop(2)
    harness.world.stop(3)
    assert many(harness, "wi") == {"wide": ("n4", ("n1", "n2", "n3"), "")}
    assert many(harness) == {
        "q": ("n1", ("n2", "n3"), ""),
        "elects": ("", (), HAS_MAJORITY),
        "gone": ("", (), NO_MEMBER),
    }


def test_a_queue_that_is_refused_holds_up_no_other() -> None:
    harness = Harness()
    harness.world.queue("stuck", (1, 2, 3))
    harness.world.stop(2)
    harness.world.stop(3)
    harness.terms.heard = TERM_MAX - TERM_GAP
    found = many(harness)
    assert set(found) == {"q", "stuck"} and all("too often" in each[2] for each in found.values())
    harness.groups[1].changed = {"membership": "promotable"}
    assert many(harness, "q") == {"q": ("", (), NO_MEMBER)}

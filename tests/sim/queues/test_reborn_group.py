"""A quorum queue that loses its majority for ever goes on with one member (0054), on real logs.

Members of before that come back, also together and without having heard of it, are never heard:
what the survivor had is there once, and no other member leads. `WARREN_SIM_SEEDS=first:last` runs
others than the seeds here.
"""

import os
from random import Random
from typing import Final

import pytest

from raft.entries import Config
from tests.sim.queues.group_node import UID
from tests.sim.queues.group_world import GroupWorld

FIRST, _, LAST = os.environ.get("WARREN_SIM_SEEDS", "0:3").partition(":")
STEPS: Final = 1500
TERM_GAP: Final = 1 << 16


class Loss:
    """One run: the world until the majority is lost, and what is known of that moment."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.world = GroupWorld(seed, 5 if seed % 4 == 3 else 3)
        self.world.is_steady = True
        self.world.run_until("a leader", self.world.has_leader)
        self.world.run(STEPS)
        self.world.run_until("a node with a member", self._choose)

    def _choose(self) -> bool:
        """Who goes on: a voter that is up."""
        alive = [node for node in self.world.alive() if node.member is not None and node.is_joined]
        if alive:
            self.survivor = self.random.choice(alive).number
        return bool(alive)

    def lose_the_others(self) -> None:
        """All at once, with the sessions, so that nothing is left on the way."""
        world = self.world
        leader = world.find_leader()
        self.has_all = leader is not None and (
            self._commit_index(self.survivor) >= self._commit_index(leader.number)
        )
        for number in sorted(world.nodes):
            if number != self.survivor:
                world.crash(number)
        self.processes = {int(each.session) >> 64 for each in world.sessions}
        for session in list(world.sessions):
            world.abandon(session)
        world.wires.mend()
        for number, disk in sorted(world.disks.items()):  # What was still to break does not.
            disk.crash_in = -1
            if disk.space_bytes >= 0:
                world.fill_or_free(number)
        if not self.has_all:  # Settlements may be lost as well.
            for letter in world.books.letters.values():
                letter.is_open = letter.is_open or letter.settled
                letter.settled = False

    def _commit_index(self, number: int) -> int:
        node = self.world.nodes[number]
        group = None if node is None else node.raft.group(UID)
        return 0 if group is None else int(group.raft.commit_index)

    def counts_on(self, members: list[int], number: int) -> bool:
        """Whether that node has the group, and these are a majority of it as it knows it."""
        node = self.world.nodes[number]
        group = None if node is None else node.raft.group(UID)
        if group is None:
            return False
        voters = group.raft.status().config.voters
        return len(set(voters) & set(members)) * 2 > len(voters)

    def may_stand(self, number: int) -> bool:
        """Whether that node does not take the survivor for its leader still."""
        node = self.world.nodes[number]
        group = None if node is None else node.raft.group(UID)
        return group is not None and group.raft.leader != self.survivor

    def is_of_before(self, number: int) -> bool:
        """Whether that node still has the group that lost its majority."""
        node = self.world.nodes[number]
        group = None if node is None else node.raft.group(UID)
        return group is not None and int(group.incarnation) < self.world.reborn[0]

    def recover(self) -> int:
        """What an operator does; the term of it."""
        world = self.world
        node = world.nodes[self.survivor]
        assert node is not None
        group = node.raft.group(UID)
        assert group is not None
        term = int(group.raft.term) + TERM_GAP
        world.reborn = (term, self.survivor)
        world.has_changed = True
        world.wanted = (self.survivor,)
        world.follow(self.survivor)
        return term

    def sessions_of_before(self) -> set[int]:
        """Processes of which the queue knows still, and which know no more how it stands."""
        node = self.world.nodes[self.survivor]
        assert node is not None and node.member is not None
        return self.processes & node.member.processes()

    def leads_alone(self) -> bool:
        """As another incarnation."""
        return self.world.wires.leaders.get(self.survivor, 0) > self.world.reborn[0]


def lost(seed: int) -> Loss:
    loss = Loss(seed)
    loss.lose_the_others()
    return loss


@pytest.mark.parametrize("seed", range(int(FIRST), int(LAST)))
def test_the_survivor_goes_on_with_all_it_had_and_grows_again(seed: int) -> None:
    loss = lost(seed)
    world = loss.world
    term = loss.recover()
    world.is_calm = True  # Of one member a crash is a matter of its own.
    world.run_until("the survivor to lead", loss.leads_alone)
    assert world.wires.leaders[loss.survivor] > term
    assert not loss.sessions_of_before()
    for number in sorted(world.nodes):
        if number != loss.survivor:
            world.start(number)
    world.want(sorted(world.nodes))
    check_nothing_was_doubled(loss)


@pytest.mark.parametrize("seed", range(int(FIRST), int(LAST)))
def test_members_of_before_that_come_back_together_are_never_heard(seed: int) -> None:
    """They are a majority of the group of before, and elect one that is not accepted."""
    loss = lost(seed)
    world = loss.world
    others = sorted(set(world.nodes) - {loss.survivor})
    world.ignorant = set(others)
    term = loss.recover()
    world.is_calm = True
    for number in others:
        world.start(number)

    def are_led() -> bool:
        return any(number in world.wires.leaders for number in others)

    def can_elect() -> bool:
        return all(loss.counts_on(others, each) and loss.may_stand(each) for each in others)

    if loss.random.random() < 0.5:
        world.run_until("a leader of the group of before", lambda: are_led() or not can_elect())
    world.run_until("the survivor to lead", loss.leads_alone)
    world.run(STEPS)
    node = world.nodes[loss.survivor]
    assert node is not None and node.member is not None and node.member.is_leading
    status = node.member.status()
    assert status is not None and status.config == Config((loss.survivor,))
    assert max(world.wires.leaders.values()) == world.wires.leaders[loss.survivor] > term
    world.ignorant.clear()
    world.run_until("the end of those of before", lambda: not any(map(loss.is_of_before, others)))
    world.want(sorted(world.nodes))
    check_nothing_was_doubled(loss)


@pytest.mark.parametrize("seed", range(int(FIRST), int(LAST)))
def test_a_crash_at_any_moment_of_it_changes_nothing(seed: int) -> None:
    loss = lost(seed)
    world = loss.world
    term = loss.recover()
    world.is_calm = True
    for _ in range(3):
        node = world.nodes[loss.survivor]
        assert node is not None
        node.disk.crash_in = loss.random.randint(0, 8)
        for _ in range(loss.random.randint(1, 60)):
            if world.nodes[loss.survivor] is not None:
                world.step()
        world.crash(loss.survivor)
        world.start(loss.survivor)
    world.run_until("the survivor to lead", loss.leads_alone)
    assert world.wires.leaders[loss.survivor] > term
    for number in sorted(world.nodes):
        if number != loss.survivor:
            world.start(number)
    world.want(sorted(world.nodes))
    check_nothing_was_doubled(loss)


def check_nothing_was_doubled(loss: Loss) -> None:
    """Who comes then takes all there is, once; it is all that was confirmed, if the survivor had
    all of that. All members are the same in the end."""
    world = loss.world
    world.wires.mend()
    world.run_until("an end of those that are gone", world.bury)
    last = world.new_session()
    world.sessions = [last]
    last.attach()
    world.run_until("an empty queue", lambda: world.takes_all(last))
    for letter in world.books.letters.values():
        assert world.is_safe(letter) or not loss.has_all, f"{letter.payload[:20]!r} is lost"
    world.run_until("rest", world.is_at_rest)
    world.check_leaks()


def test_messages_that_came_without_their_bodies_leave_the_queue() -> None:
    """Entries that are sent again have no bodies of what was settled by then. A survivor that lacks
    the settlement would give a consumer nothing, for ever."""
    world = GroupWorld(0, 1)
    world.is_calm = True
    world.run_until("a leader", world.has_leader)
    node = world.find_leader()
    assert node is not None and node.member is not None
    core = node.member.core
    session = world.new_session()
    session.connect(node)
    session.publish([b"settled"])
    session.publish([b"kept"])
    world.run_until("two messages", lambda: core.machine.ready.count == 2)
    first = core.machine.next_seq - 2
    core.release_found(first, 1)
    group = node.raft.group(UID)
    assert group is not None
    world.reborn = (int(group.raft.term) + TERM_GAP, node.number)
    world.has_changed = True
    world.run_until("one message", lambda: core.machine.ready.count == 1)
    assert node.member.is_leading
    assert core.machine.queue_within(first, 2) == [(first + 1, 1)]

"""A mirrored queue with two to five members, on real logs. A failing seed is in the test's name.

`WARREN_SIM_SEEDS=first:last` runs others.
"""

import os
from typing import Final

import pytest

from tests.sim.queues.group_node import GroupNode
from tests.sim.queues.group_world import GroupWorld

FIRST, _, LAST = os.environ.get("WARREN_SIM_SEEDS", "0:12").partition(":")
STEPS: Final = 4000
STEPS_BEFORE: Final = 800
NEVER: Final = 1 << 62  # no message has such a number


@pytest.mark.parametrize("seed", range(int(FIRST), int(LAST)))
def test_what_is_confirmed_is_there_once_whatever_becomes_of_the_mirrors(seed: int) -> None:
    world = GroupWorld(seed, (3, 2, 3, 5)[seed % 4], mirrored=True)
    assert world.views is not None
    world.views.blocks = seed % 3 == 2
    world.run_until("a leader", world.has_leader)
    world.run(STEPS)
    world.drain()


class Promotion:
    """A run with a mirror that is not synchronised, until all other members are lost at once."""

    def __init__(self, seed: int) -> None:
        self.world = GroupWorld(seed, 3, mirrored=True)
        assert self.world.views is not None
        self.views = self.world.views
        self.world.is_steady = True
        self.world.run_until("a leader", self.world.has_leader)
        self.world.run(STEPS_BEFORE)
        self.views.synchronises = False
        self.world.run_until("a mirror to crash", self._crash_mirror)
        self.world.run_until("a mirror with a part of the messages", self._has_partial)
        joined = self.views.view.joined_in(self.survivor)
        self.newer_seq = NEVER  # messages from here on were committed with the mirror
        leader = self.world.find_leader()
        ring = None if leader is None else leader.ring()
        committed = 0 if ring is None else int(ring.commit_index)
        self.world.run_until("them to be applied", lambda: self._has_applied(committed))
        self.world.run(STEPS_BEFORE)
        self.world.run_until("it once more", self._has_partial)
        if self.views.view.joined_in(self.survivor) != joined:
            self.newer_seq = NEVER

    def _has_applied(self, index: int) -> bool:
        self._give_room()
        leader = self.world.find_leader()
        member = None if leader is None else leader.member
        if member is None or member.applied_index < index:
            return False
        self.newer_seq = int(member.core.machine.next_seq)
        return True

    def _crash_mirror(self) -> bool:
        self._give_room()
        mirrors = [m for m in self.views.view.members[1:] if self.world.nodes[m] is not None]
        if mirrors and self.world.has_leader():
            self.world.crash(mirrors[-1])
        return bool(mirrors)

    def _has_partial(self) -> bool:
        """Known to the leader, which leads in the newest view."""
        self._give_room()
        view = self.views.view
        leader = self.world.find_leader()
        some = [m for m in view.partial if m != view.leader and self.world.nodes[m] is not None]
        if not some or leader is None or leader.number != view.leader:
            return False
        ring = leader.ring()
        self.survivor = some[0]
        return ring is not None and ring.view == view

    def _give_room(self) -> None:
        """To nodes that are down, which may have stopped for want of it; in the end to all."""
        world = self.world
        for number, disk in sorted(world.disks.items()):
            if disk.space_bytes >= 0 and (world.is_calm or world.nodes[number] is None):
                world.fill_or_free(number)

    def lose_the_others(self) -> None:
        """With the sessions; then the mirror leads that is left."""
        world = self.world
        leader = world.find_leader()
        assert leader is not None and leader.member is not None
        next_seq = leader.member.core.machine.next_seq
        before = messages_of(leader, next_seq)
        for number in sorted(world.nodes):
            if number != self.survivor:
                world.crash(number)
        for session in list(world.sessions):
            world.abandon(session)
        letters = world.books.letters.values()
        # The mirror may have entries that settle them, which the leader has not applied.
        unclear = before & {each.seq for each in letters if each.accepted and not each.settled}
        for letter in letters:  # Settlements are lost as well.
            letter.is_open = letter.is_open or letter.settled
            letter.settled = False
        world.states.clear()
        world.wires.mend()
        for disk in world.disks.values():
            disk.crash_in = -1
        world.is_calm = True
        self._give_room()
        self.views.promotes_always = True
        world.run_until("a promoted mirror", lambda: self.survivor in world.wires.leaders)
        before -= unclear
        after = messages_of(self.promoted, next_seq) - unclear
        world.loss_count = len(before - after)
        assert not after - before, "a message that was acknowledged is there again"
        assert not [seq for seq in before - after if seq >= self.newer_seq], "newer ones are lost"
        # What a node reports: it does not know which messages the two have in common.
        assert len(before) - len(after) == world.loss_count

    def lacks_bodies(self) -> bool:
        """Whether it has messages without bodies. Entries that are sent again come without bodies
        of messages that are settled; until the settlement is applied, the mirror has them."""
        node = self.promoted
        assert node.member is not None
        core = node.member.core
        seqs = messages_of(node, core.machine.next_seq)
        return any(core.store.find_live(seq) is None for seq in seqs)

    @property
    def promoted(self) -> GroupNode:
        found = self.world.nodes[self.survivor]
        assert found is not None
        return found


def messages_of(node: GroupNode, end: int) -> set[int]:
    """Sequence numbers below `end` that are in the queue of that node."""
    assert node.member is not None
    runs = node.member.core.machine.queue_within(1, end - 1)
    return {seq for first, count in runs for seq in range(first, first + count)}


@pytest.mark.parametrize("seed", range(int(FIRST), int(LAST)))
def test_a_promotion_without_synchronisation_loses_no_more_than_it_counts(seed: int) -> None:
    promotion = Promotion(seed)
    world = promotion.world
    promotion.lose_the_others()
    assert promotion.promoted.promotions, "the promoted mirror does not report its loss"
    assert not promotion.lacks_bodies()
    promotion.views.synchronises = True
    for number in [each for each in world.nodes if each != promotion.survivor]:
        world.wipe(number)
    world.drain()

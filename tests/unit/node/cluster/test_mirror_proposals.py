"""Which views of mirrored queues a node proposes: real definitions, fake links, fake rings."""

import asyncio
from dataclasses import dataclass, field

import msgspec
import pytest

from node.cluster.queues.mirror_lags import QUIET_MS, SLOW_MS
from node.cluster.queues.mirror_losses import ASK_MS, EVENT, Length, MirrorLosses
from node.cluster.queues.mirror_proposals import CLOSED_MS, LOST_MS, ROUND_MS, MirrorProposals
from node.cluster.queues.mirrors import ring_view
from node.events.events import Events
from queues.definitions.broker_objects import MirrorView, Queue, Uid
from queues.definitions.metadata.commands import (
    DeleteQueue,
    PutPolicy,
    RemoveMember,
    SetMirrorView,
)
from queues.definitions.metadata.outcomes import Refused
from queues.definitions.mirror_policy import MirrorPolicy
from raft.ring_view import RingView
from tests.unit.node.cluster.operating_world import OperatingWorld

UNSYNCHRONISED = MirrorView(3, 1, (1, 2, 3), (1, 2, 3), (1,), (2, 3))
SYNCHRONISED = MirrorView(3, 1, (1, 2, 3), (1, 2, 3), (1, 2, 3))


@dataclass
class Report:
    """Keeps `Reporting`."""

    view: RingView | None
    next_synchronised: int = 0
    next_partial: int = 0
    needs_term: bool = False
    right_acked_index: int = -1
    last_index: int = 0


@dataclass
class FakeRings:
    """Keeps `Rings`: all members of this node's rings have the view of the definitions."""

    world: OperatingWorld
    synchronised: int = 0  # what a leader here reports
    needs_term: bool = False
    acked_and_last: tuple[int, int] = (-1, 0)  # of the right neighbours
    asked: list[tuple[int, bool, bool]] = field(default_factory=list)

    members: set[int] = field(default_factory=set)  # uids of rings with a member here

    def has_member(self, uid: int) -> bool:
        return uid in self.members

    def ring(self, uid: int) -> Report | None:
        queue = self.world.machine.queue(uid)
        assert queue is not None and queue.mirrors is not None
        view = ring_view(queue.mirrors)
        return Report(view, self.synchronised, 0, self.needs_term, *self.acked_and_last)

    def synchronise(self, queue: Queue, view: RingView, policy: MirrorPolicy | None) -> None:
        if policy is None:
            return
        self.asked.append((int(queue.uid), policy.synchronises, policy.blocks))

    def order(self, uid: int, is_wanted: bool) -> None:
        raise AssertionError("no operator orders anything")


@dataclass
class FakeLengths:
    """Keeps `Lengths`: of queues that are led on this node, or that a mirror has a part of."""

    world: OperatingWorld
    led: dict[int, Length] = field(default_factory=dict)
    below: dict[tuple[int, int], int] = field(default_factory=dict)

    def length(self, uid: int) -> Length | None:
        return self.led.get(uid)

    def count_below(self, uid: int, seq: int) -> int:
        return self.below[uid, seq]

    def queue_of(self, uid: int) -> Queue | None:
        return self.world.machine.queue(uid)


class World:
    """Three nodes with the proposals of each, and one classic queue whose home is n1."""

    def __init__(
        self, view: MirrorView | None = None, policy: dict[str, object] | None = None
    ) -> None:
        self.world = OperatingWorld(3)
        self.rings = {number: FakeRings(self.world) for number in (1, 2, 3)}
        self.lengths = {number: FakeLengths(self.world) for number in (1, 2, 3)}
        self.events = Events("n", lambda: 0)
        self.losses = {
            number: MirrorLosses(self.world.nodes[number].status, self.lengths[number], self.events)
            for number in (1, 2, 3)
        }
        self.damaged: set[int] = set()  # nodes whose member is damaged
        self.proposals = {number: self._of(number) for number in (1, 2, 3)}
        if policy:
            definition = msgspec.json.encode(policy)
            self.world.do(PutPolicy("/", "ha", False, "^q", "queues", 0, definition))
        self.uid = self.world.queue("q", ()).uid
        self.now_ms = 0
        self.stopped: set[int] = set()
        self.leads_definitions: int | None = None  # None: the lowest node that runs
        if view is not None:
            self._set(self.uid, view)

    def _leader_of_definitions(self) -> int:
        if self.leads_definitions is not None:
            return self.leads_definitions
        return min({1, 2, 3} - self.stopped)

    def add_queue(self, name: str) -> Uid:
        """A queue whose mirrors are synchronised."""
        uid = self.world.queue(name, ()).uid
        self._set(uid, SYNCHRONISED)
        return uid

    def _of(self, number: int) -> MirrorProposals:
        node = self.world.nodes[number]
        return MirrorProposals(
            node.membership,
            self.rings[number],
            node.status,
            lambda: number == self._leader_of_definitions(),
            lambda uid: number in self.damaged,
            True,
            self.losses[number],
        )

    def _set(self, uid: Uid, view: MirrorView) -> None:
        """By the views before it: each has the next epoch."""
        first = MirrorView(1, 1, (1,), (1,), (1,))
        some = tuple(sorted({1, *view.synchronised[:2]}))
        second = MirrorView(2, 1, (1, 2), (1, 2), some, view.partial[:1])
        for each in (first, second, view):
            outcome = self.world.do(SetMirrorView(uid, each))
            assert not isinstance(outcome, Refused), outcome

    @property
    def view(self) -> MirrorView | None:
        queue = self.world.machine.queue(self.uid)
        assert queue is not None
        return queue.mirrors

    def view_of(self, uid: Uid) -> MirrorView:
        queue = self.world.machine.queue(uid)
        assert queue is not None and queue.mirrors is not None
        return queue.mirrors

    def stop(self, number: int) -> None:
        self.stopped.add(number)
        self.world.stop(number)

    def tick(self, times: int = 1, step_ms: int = LOST_MS) -> MirrorView | None:
        """All nodes that run look, so often; the view after that."""

        async def look() -> None:
            for _ in range(times):
                for number, each in self.proposals.items():
                    if number not in self.stopped:
                        each.tick(self.now_ms)
                        await asyncio.sleep(0)
                        await asyncio.sleep(0)
                self.now_ms += step_ms

        self.world.run(look())
        return None if self.world.machine.queue(self.uid) is None else self.view

    def hand_over(self, number: int) -> list[int]:
        """The node is to stop: how many queues each call has named."""

        async def call() -> list[int]:
            counts = []
            for _ in range(3):
                counts.append(self.proposals[number].hand_over())
                await asyncio.sleep(0)
                await asyncio.sleep(0)
            return counts

        return self.world.run(call())


def test_a_queue_under_a_policy_begins_a_ring_on_its_node_and_gets_all_mirrors() -> None:
    world = World(None, {"ha-mode": "all"})
    view = world.tick(6)
    assert view is not None
    assert (view.members, view.synchronised) == ((1, 2, 3), (1,))
    assert world.rings[2].asked


def test_the_policy_decides_whether_a_synchronisation_blocks_the_queue() -> None:
    for nonblocking in (True, False):
        world = World(UNSYNCHRONISED, {"ha-mode": "all", "ha-sync-nonblocking": nonblocking})
        world.tick()
        assert {(by_policy, blocks) for _, by_policy, blocks in world.rings[1].asked} == {
            (True, not nonblocking)
        }


def test_a_queue_without_a_policy_stays_as_it_is() -> None:
    assert World().tick(3) is None


ALONE = MirrorView(3, 3, (2,), (2,), (2,))


@pytest.mark.parametrize("policy", [None, {"ha-mode": "exactly", "ha-params": 1}])
def test_a_queue_that_is_to_have_no_mirrors_belongs_to_the_node_of_its_last_member(
    policy: dict[str, object] | None,
) -> None:
    world = World(ALONE, policy)
    assert world.tick(4) == MirrorView(4)
    queue = world.world.machine.queue(world.uid)
    assert queue is not None and queue.node == "n2"


def test_a_queue_under_a_policy_keeps_its_ring_while_no_other_node_runs() -> None:
    world = World(ALONE, {"ha-mode": "all"})
    world.stop(1)
    world.stop(3)
    assert world.tick(4) == ALONE


def test_a_queue_gets_mirrors_again_when_its_node_has_made_it_a_plain_one() -> None:
    world = World(ALONE)
    world.tick(4)
    world.rings[2].members.add(int(world.uid))
    definition = msgspec.json.encode({"ha-mode": "all"})
    world.world.do(PutPolicy("/", "ha", False, "^q", "queues", 0, definition))
    assert world.tick(4) == MirrorView(4)
    world.rings[2].members.clear()
    view = world.tick(6)
    assert view is not None and view.members[0] == 2 and set(view.members) == {1, 2, 3}


def test_the_leader_declares_what_its_ring_reports() -> None:
    world = World(UNSYNCHRONISED, {"ha-mode": "all"})
    world.rings[1].synchronised = 2
    view = world.tick()
    assert view is not None and set(view.synchronised) == {1, 2}


def suspect(world: World, number: int) -> None:
    """The node does not answer the others; its connections stand."""
    for other in {1, 2, 3} - {number}:
        world.world.nodes[other].peers.suspected.add(number)


def test_a_mirror_that_is_silent_leaves_as_soon_as_it_is_suspected() -> None:
    world = World(SYNCHRONISED, {"ha-mode": "all"})
    assert world.tick(1, CLOSED_MS) == SYNCHRONISED
    suspect(world, 3)
    view = world.tick(1, 1)
    assert view is not None and (view.members, view.term) == ((1, 2), 1)


def test_a_synchronised_mirror_leads_as_soon_as_the_leader_is_suspected() -> None:
    world = World(SYNCHRONISED, {"ha-mode": "all"})
    assert world.tick(1, CLOSED_MS) == SYNCHRONISED
    world.leads_definitions = 3
    suspect(world, 1)
    view = world.tick(1, 1)
    assert view is not None and view.members == (2, 3)


def test_a_silent_leader_that_no_synchronised_mirror_can_replace_has_half_a_second_more() -> None:
    world = World(UNSYNCHRONISED, {"ha-mode": "all"})
    assert world.tick(1, CLOSED_MS) == UNSYNCHRONISED
    world.leads_definitions = 3
    suspect(world, 1)
    assert world.tick(1, LOST_MS - 1) == UNSYNCHRONISED
    assert world.tick(1, 1) == UNSYNCHRONISED
    view = world.tick(1, 1)
    assert view is not None and view.members[0] == 2


def test_a_mirror_whose_connections_have_ended_leaves_after_a_tenth_of_a_second() -> None:
    world = World(SYNCHRONISED, {"ha-mode": "all"})
    world.tick(1, CLOSED_MS)
    world.stop(3)
    world.tick(1, CLOSED_MS - 1)
    assert world.tick(1, 1) == SYNCHRONISED
    view = world.tick()
    assert view is not None and (view.members, view.term) == ((1, 2), 1)


def test_a_node_that_starts_waits_for_connections_to_others() -> None:
    world = World(SYNCHRONISED, {"ha-mode": "all"})
    world.stop(3)
    world.tick(1, LOST_MS - 1)
    assert world.tick(1, 1) == SYNCHRONISED
    view = world.tick()
    assert view is not None and view.members == (1, 2)


def test_a_new_leader_of_the_definitions_looks_at_all_queues_of_lost_nodes_at_once() -> None:
    world = World(SYNCHRONISED, {"ha-mode": "all"})
    uids = [world.add_queue(f"q{number}") for number in range(100)]
    world.tick(1, CLOSED_MS)
    world.leads_definitions = 0  # until one is elected
    world.stop(1)
    world.tick(2, CLOSED_MS)
    world.leads_definitions = 2
    world.tick(2)
    assert {world.view_of(uid).members[0] for uid in uids} == {2}


def test_a_damaged_member_proposes_the_view_without_itself() -> None:
    world = World(SYNCHRONISED, {"ha-mode": "exactly", "ha-params": 2})
    world.damaged.add(2)
    view = world.tick()
    assert view is not None and 2 not in view.members


def test_the_leader_of_the_definitions_promotes_a_synchronised_mirror() -> None:
    world = World(SYNCHRONISED, {"ha-mode": "all"})
    world.stop(1)
    view = world.tick(3)
    assert view is not None and view.members[0] == 2 and view.term == view.epoch


def test_promote_on_failure_decides_whether_a_mirror_that_lacks_messages_leads() -> None:
    kept = World(UNSYNCHRONISED, {"ha-mode": "all", "ha-promote-on-failure": "when-synced"})
    kept.stop(1)
    assert kept.tick(3) == UNSYNCHRONISED
    taken = World(UNSYNCHRONISED, {"ha-mode": "all"})
    taken.stop(1)
    view = taken.tick(3)
    assert view is not None and (view.members[0], view.synchronised) == (2, (2,))


def test_a_mirror_that_lacks_messages_leads_once_the_cluster_has_forgotten_the_leader() -> None:
    world = World(UNSYNCHRONISED, {"ha-mode": "all", "ha-promote-on-failure": "when-synced"})
    world.stop(1)
    assert world.tick(3) == UNSYNCHRONISED
    world.world.do(RemoveMember(1))
    view = world.tick(3)
    assert view is not None and (view.members, view.synchronised) == ((2, 3), (2,))


def test_a_node_that_stops_has_a_synchronised_mirror_lead() -> None:
    world = World(SYNCHRONISED, {"ha-mode": "all"})
    assert world.hand_over(1) == [1, 0, 0]
    assert world.view is not None
    assert (world.view.members[0], world.view.leader_stopped) == (2, False)


def test_by_default_no_mirror_that_lacks_messages_leads_while_the_leader_is_stopped(
    caplog: pytest.LogCaptureFixture,
) -> None:
    world = World(UNSYNCHRONISED, {"ha-mode": "all", "ha-promote-on-failure": "always"})
    assert world.hand_over(1) == [1, 0, 0]
    stopped = msgspec.structs.replace(UNSYNCHRONISED, epoch=4, leader_stopped=True)
    assert world.view == stopped
    [line] = [each.getMessage() for each in caplog.records if "ha-promote-on-shutdown" in each.msg]
    assert "queue 'q' in vhost '/'" in line and "is down until this node is back" in line
    world.stop(1)
    assert world.tick(3) == stopped


def test_promote_on_shutdown_always_has_the_oldest_mirror_lead() -> None:
    settings: dict[str, object] = {
        "ha-promote-on-shutdown": "always",
        "ha-promote-on-failure": "when-synced",
    }
    world = World(UNSYNCHRONISED, {"ha-mode": "all", **settings})
    world.hand_over(1)
    world.stop(1)
    view = world.tick(3)
    assert view is not None and (view.members[0], view.leader_stopped) == (2, False)


def test_that_the_leader_has_stopped_holds_until_it_is_back() -> None:
    world = World(UNSYNCHRONISED, {"ha-mode": "all"})
    world.hand_over(1)
    world.rings[1].synchronised = 2
    still = world.tick()
    assert still is not None and still.leader_stopped and 2 in still.synchronised
    world.rings[1].synchronised, world.rings[1].needs_term = 0, True
    back = world.tick()
    assert back is not None and not back.leader_stopped and back.members[0] == 1


def lost_by_promotion(world: World, below: int) -> dict[str, object]:
    """n2 has asked for the length, and is promoted with so many messages of that time."""
    world.lengths[1].led[world.uid] = Length(100, 501)
    losses = world.losses[2]

    async def ask() -> None:
        world.proposals[2].tick(0)
        world.proposals[2].tick(ASK_MS)
        while not losses.known:
            await asyncio.sleep(0)

    world.world.run(ask())
    world.lengths[2].below[world.uid, 501] = below
    losses.promoted(world.uid)
    (event,) = [each for each in world.events.since(0)[0] if each.name == EVENT]
    return dict(event.properties)


def test_a_promotion_without_synchronisation_counts_what_it_has_lost(
    caplog: pytest.LogCaptureFixture,
) -> None:
    world = World(UNSYNCHRONISED, {"ha-mode": "all", "ha-sync-mode": "manual"})
    assert lost_by_promotion(world, 30) == {"name": "q", "vhost": "/", "messages_lost": 70}
    assert (world.losses[2].promotions, world.losses[2].messages) == (1, 70)
    [line] = [each.getMessage() for each in caplog.records if "without being" in each.msg]
    assert "queue 'q' in vhost '/'" in line and "about 70 messages are lost" in line


def test_a_promotion_before_the_length_is_known_says_that_messages_are_lost(
    caplog: pytest.LogCaptureFixture,
) -> None:
    world = World(UNSYNCHRONISED, {"ha-mode": "all"})
    world.losses[2].promoted(world.uid)
    (event,) = [each for each in world.events.since(0)[0] if each.name == EVENT]
    assert "messages_lost" not in event.properties
    [line] = [each.getMessage() for each in caplog.records if "without being" in each.msg]
    assert "the messages that only the other mirrors had are lost" in line


def test_a_mirror_that_does_not_acknowledge_is_slow_until_it_does(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level("INFO")
    world = World(SYNCHRONISED, {"ha-mode": "all"})
    world.rings[1].acked_and_last = (7, 9)
    world.tick(1, SLOW_MS - ROUND_MS)
    world.tick(1, ROUND_MS)
    assert not world.proposals[1].lags.slow
    world.tick(1, SLOW_MS)
    slow = world.proposals[1].lags.slow[2]
    assert (slow.queue, slow.lag_ms) == ("'q' in vhost '/'", SLOW_MS)
    [line] = [each.getMessage() for each in caplog.records if "has not synced" in each.msg]
    assert "the mirror on node n2 has not synced messages for 500 ms" in line
    world.rings[1].acked_and_last = (9, 9)
    world.tick(1, QUIET_MS - 1)
    world.tick(1, ROUND_MS)
    assert world.proposals[1].lags.slow
    world.tick()
    assert not world.proposals[1].lags.slow
    assert caplog.messages[-1] == "node n2: its mirrors of queues keep up again"


def test_a_deleted_queue_has_no_slow_mirrors() -> None:
    world = World(SYNCHRONISED, {"ha-mode": "all"})
    world.rings[1].acked_and_last = (7, 9)
    world.tick(3, SLOW_MS)
    assert world.proposals[1].lags.slow
    world.world.do(DeleteQueue("/", "q"))
    world.tick()
    assert not world.proposals[1].lags.slow

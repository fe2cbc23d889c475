"""A member whose log is damaged is removed, and put back once it has left; never at the cost of the
others' majority."""

import asyncio

from node.cluster.membership.member_changes import Refused as Refusal
from node.cluster.queues.healing import Healing
from queues.definitions.broker_objects import Queue
from queues.definitions.metadata.commands import SetQueueMembers
from queues.definitions.metadata.outcomes import Refused
from tests.unit.node.cluster.operating_world import OperatingWorld
from warren.wire.errors import ReplyCode

HERE = 3


class FakeMembers:
    """The damaged members of the node, each of which leaves once the definitions name it no more,
    some looks later."""

    def __init__(self, world: OperatingWorld, queues: list[Queue], looks: int = 2) -> None:
        self._world = world
        self._queues = {queue.uid: queue for queue in queues}
        self._looks = looks

    @property
    def damaged(self) -> dict[int, str]:
        for uid, queue in list(self._queues.items()):
            if HERE not in self._world.members_of(queue):
                self._looks -= 1
                if self._looks <= 0:
                    del self._queues[uid]
        return {int(uid): "bad" for uid in self._queues}


class FakePairs:
    """Who is asked to go on alone."""

    def __init__(self, refusal: str = "") -> None:
        self.asked: list[tuple[str, int]] = []
        self.refusal = refusal

    async def go_on_with(self, queue: Queue, member: int) -> None:
        self.asked.append((queue.name, member))
        if self.refusal:
            raise Refusal(self.refusal)


def heal(
    world: OperatingWorld,
    members: FakeMembers,
    ticks: int = 3,
    pairs: FakePairs | None = None,
) -> list[tuple[int, ...]]:
    """What the queues are made to have, in order."""
    node = world.nodes[HERE]
    part = Healing(members, node.cluster_snapshot, node.membership, pairs or FakePairs())

    async def go_on() -> None:
        for _ in range(ticks):
            part.tick()
            for _ in range(20):
                await asyncio.sleep(0.002)
        part.stop()

    world.run(go_on())
    proposed = node.definitions.proposed
    return [each.members for each in proposed if isinstance(each, SetQueueMembers)]


def test_it_is_removed_and_put_back_when_it_has_left() -> None:
    world = OperatingWorld()
    queue = world.queue("q", (1, 2, 3), leader=1)
    assert heal(world, FakeMembers(world, [queue])) == [(1, 2), (1, 2, 3)]


def test_nothing_is_done_while_the_others_are_no_majority_or_nobody_leads() -> None:
    world = OperatingWorld()
    pair = world.queue("pair", (2, 3), leader=2)
    headless = world.queue("headless", (1, 2, 3))
    own = world.queue("own", (1, 2, 3), leader=HERE)
    assert heal(world, FakeMembers(world, [pair, headless, own])) == []
    down = world.queue("down", (1, 2, 3), leader=1)
    world.stop(2)
    assert heal(world, FakeMembers(world, [down])) == []


def test_one_after_the_other_is_healed() -> None:
    world = OperatingWorld()
    queues = [world.queue(name, (1, 2, 3), leader=1) for name in ("a", "b")]
    done = heal(world, FakeMembers(world, queues, looks=4), ticks=9)
    assert done == [(1, 2), (1, 2, 3), (1, 2), (1, 2, 3)]


def test_who_was_removed_before_the_node_started_is_put_back() -> None:
    world = OperatingWorld()
    queue = world.queue("q", (1, 2), leader=1)
    assert heal(world, FakeMembers(world, [queue], looks=3)) == [(1, 2, 3)]


def test_a_change_that_is_refused_is_tried_again() -> None:
    world = OperatingWorld()
    queue = world.queue("q", (1, 2, 3), leader=1)
    members = FakeMembers(world, [queue])
    node = world.nodes[HERE]
    node.definitions.refusal = Refused(ReplyCode.INTERNAL_ERROR, "no majority")
    assert len(heal(world, members)) >= 2
    node.definitions.refusal = None
    node.definitions.proposed.clear()
    assert heal(world, members) == [(1, 2), (1, 2, 3)]


def test_the_other_one_of_two_is_asked_to_go_on_alone_and_all_such_queues_have_their_turn() -> None:
    world = OperatingWorld()
    queues = [world.queue(name, (2, HERE)) for name in ("a", "b")]
    led = world.queue("led", (2, HERE), leader=2)
    three = world.queue("three", (1, 2, HERE))
    pairs = FakePairs("not yet")
    members = FakeMembers(world, [*queues, led, three])
    assert heal(world, members, 4, pairs) == []
    assert pairs.asked == [("a", 2), ("b", 2), ("a", 2), ("b", 2)]
    world.stop(2)
    assert heal(world, members, 2, pairs) == [] and len(pairs.asked) == 4

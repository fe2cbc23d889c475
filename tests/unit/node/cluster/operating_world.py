"""Nodes of a cluster in one process: real definitions machine, fake links, fake log groups."""

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import suppress
from random import Random
from typing import Any, TypeVar

from msgspec.structs import replace

from node.cluster.coordination.coordination_interface import NoCoordination
from node.cluster.queues.log_groups import GroupRow
from node.cluster.queues.reconciling import Rules
from node.cluster.services.cluster_services import Operating, ServiceParts
from node.resources.alarms import Alarms
from queues.definitions.arguments import encode_arguments
from queues.definitions.broker_objects import Queue
from queues.definitions.members import Member
from queues.definitions.metadata.commands import Command, DeclareQueue, Found
from queues.definitions.metadata.machine import Metadata
from queues.definitions.metadata.outcomes import Created, Outcome
from raft.log_group import METADATA_OWNER
from tests.unit.node.fake_timers import FakeTimers
from tests.unit.node.peer_net import PeerNet

T = TypeVar("T")


def member(number: int, **more: Any) -> Member:
    place = ("127.0.0.1", 25000 + number)
    return Member(number, f"n{number}", 100 + number, *place, **more)


class FakeLeaders:
    """Who leads what; one table for all nodes."""

    def __init__(self) -> None:
        self.table: dict[int, tuple[int, int]] = {}

    def leader_of(self, uid: int) -> tuple[int, int] | None:
        return self.table.get(uid)


class FakeGroups:
    """The log groups of one node. Those in `stubborn` keep their leader."""

    def __init__(self, world: "OperatingWorld", here: int) -> None:
        self._world = world
        self._here = here
        self.stubborn: set[int] = set()
        self.settled: dict[int, tuple[int, ...]] = {}  # the voters, where they are others
        self.changed: dict[str, Any] = {}  # fields of all rows that are others
        self.has_none = False

    def row(self, uid: int) -> GroupRow | None:
        if uid == METADATA_OWNER:
            return replace(GroupRow(state="follower", term=5), **self.changed)
        queue = self._world.machine.queue(uid)
        if queue is None or self._here not in queue.members or self.has_none:
            return None
        leader = self._world.leaders.table.get(uid, (0, 0))[0]
        row = GroupRow(
            state="leader" if leader == self._here else "follower",
            term=7,
            last_index=9,
            leader=leader,
            voters=self.settled.get(uid, queue.members),
        )
        return replace(row, **self.changed)

    def transfer(self, uid: int, member: int) -> bool:
        leader = self._world.leaders.table.get(uid, (0, 0))
        if leader[0] != self._here or uid in self.stubborn:
            return False
        self._world.leaders.table[uid] = (member, leader[1] + 1)
        return True


class FakeDefinitions:
    """Commands are applied at once, to the one machine that all nodes read."""

    def __init__(self, world: "OperatingWorld") -> None:
        self._world = world
        self.proposed: list[Command] = []
        self.leader = 1
        self.refusal: Outcome | None = None  # of every command
        self.instead: Callable[[], None] | None = None  # of an answer to the proposer

    def members(self) -> list[Member]:
        return sorted(self._world.machine.roster.members.values(), key=lambda each: each.id)

    def member_named(self, name: str) -> Member | None:
        return self._world.machine.roster.named(name)

    def propose(self, command: Command, done: Callable[[Outcome], None] | None = None) -> None:
        self.proposed.append(command)
        outcome = self.refusal or self._world.do(command)
        if self.instead is not None:
            self.instead()
        elif done is not None:
            done(outcome)


class FakeSite:
    """The broker of one node: connections that close on command, or never."""

    def __init__(self, world: "OperatingWorld", number: int) -> None:
        self._world = world
        self.node_name = f"n{number}"
        self.alarms = Alarms(100, 50, lambda: None)
        self.client_count = number
        self.stays = False
        self.done: list[str] = []

    @property
    def metadata(self) -> Metadata:
        return self._world.machine

    def propose(self, command: Command, done: Callable[[Outcome], None] | None = None) -> None:
        outcome = self._world.do(command)
        if done is not None:
            done(outcome)

    def close_clients(self, reason: str) -> int:
        count = self.client_count
        if not self.stays:
            self.client_count = 0
        self.done.append(reason)
        return count

    def set_in_maintenance(self, is_so: bool) -> None:
        self.done.append("in maintenance" if is_so else "in service")


class OperatingNode:
    """What one node has of it."""

    def __init__(self, world: "OperatingWorld", number: int) -> None:
        self.peers = world.net.add(number)
        self.definitions = FakeDefinitions(world)
        self.groups = FakeGroups(world, number)
        self.site = FakeSite(world, number)
        service_parts = ServiceParts(
            self.peers,
            self.definitions,
            world.leaders,
            self.groups,
            NoCoordination(),
            lambda: number == 1,
        )
        self.operating = Operating(
            self.site, service_parts, FakeTimers().call_later, Rules(), Random(1)
        )
        self.operating.attach()
        self.status = self.operating.status
        self.cluster_snapshot = self.operating.cluster_snapshot
        self.membership = self.operating.membership


class OperatingWorld:
    """Nodes `n1`, `n2`, ... with the ids 1, 2, ..."""

    def __init__(self, count: int = 3, **zones: str) -> None:
        self.machine = Metadata()
        self.net = PeerNet()
        self.leaders = FakeLeaders()
        members = [member(each, zone=zones.get(f"n{each}", "")) for each in range(1, count + 1)]
        self.do(Found(77, tuple(members)))
        self.nodes = {each.id: OperatingNode(self, each.id) for each in members}
        self.net.join_all()
        self.net.run()

    def do(self, command: Command) -> Outcome:
        return self.machine.apply(self.machine.applied_index + 1, command)

    def queue(
        self, name: str, members: tuple[int, ...], leader: int = 0, node: str = "n1", more: Any = ()
    ) -> Queue:
        """A quorum queue, or a classic one if it has no members."""
        arguments: dict[str, object] = {"x-queue-type": "quorum"} if members else {}
        arguments.update(more)
        outcome = self.do(
            DeclareQueue(
                "/", name, True, arguments=encode_arguments(arguments), node=node, members=members
            )
        )
        assert isinstance(outcome, Created), outcome
        queue = outcome.subject
        assert isinstance(queue, Queue)
        if leader:
            self.leaders.table[queue.uid] = (leader, 1)
        return queue

    def members_of(self, queue: Queue) -> tuple[int, ...]:
        found = self.machine.queue(queue.uid)
        assert found is not None
        return found.members

    def leader_of(self, queue: Queue) -> int:
        return self.leaders.table[queue.uid][0]

    def stop(self, number: int) -> None:
        """No node reaches that one any more."""
        for other in self.nodes:
            if other != number:
                self.net.cut(number, other)

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Do it while frames are delivered."""

        async def deliver() -> None:
            while True:
                self.net.run()
                await asyncio.sleep(0)

        async def all_of_it() -> T:
            delivering = asyncio.ensure_future(deliver())
            try:
                return await asyncio.wait_for(work, 20)
            finally:
                delivering.cancel()
                with suppress(asyncio.CancelledError):
                    await delivering

        return asyncio.run(all_of_it())

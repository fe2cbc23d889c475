"""A standby that is a cluster of three nodes with a quorum queue: on each of them a real `Replica`.

The nodes are those of `GroupWorld`: they lose power and what is not synced, links between them are
cut, leaders move. A replica reaches the leader of the queue by the real proxies and the streams
between nodes, as sessions of clients do.
"""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from random import Random
from types import SimpleNamespace
from typing import Any, Final, cast

from federation.standby_parameter import StandbyConfig
from node.broker import Broker
from node.operations.body_access import BodyReads
from node.standby.primary_client import PrimaryClient
from node.standby.replica import Replica
from node.standby.standby_service import Row, together
from node.standby.stored_runs import live_runs, stored_runs
from queues.definitions.broker_objects import Uid, VhostEntry
from queues.definitions.metadata.vhost import VHost
from queues.machine.commands import EndProcess, SessionId
from queues.queue_host import QueueHost
from queues.remote.peer_queues import PeerQueues
from queues.remote.quorum_proxy import QuorumProxies, QuorumProxy
from queues.remote.remote_interfaces import Ending, HomeEnd, PeerRoute
from queues.sessions.credit import CreditSpec
from tests.sim.federation.cluster_primary import NAME, QUEUE, STEP_S
from tests.sim.queues.group_node import UID, GroupNode
from tests.sim.queues.group_world import GroupWorld

CONFIG: Final = StandbyConfig("/", "primary", ("http://a:b@primary",), 0.1, 0.1)
NODES: Final = 3
FAULT_CHANCES: Final = (0.02, 0.05, 0.2)
TICK_STEPS: Final = 50
CALM_STEPS: Final = 20_000

Connect = Callable[[], PrimaryClient]


class StandbySite:
    """One life of a node."""

    def __init__(
        self, node: GroupNode, cluster: "ClusterStandby", connect: Connect, follows: bool
    ) -> None:
        """`follows`: it is a standby still."""
        self.node = node
        self.process = cluster.draw_process()
        self._cluster = cluster
        self._sessions = 0
        self._marked: list[Ending] = []
        self._peers: dict[int, PeerQueues] = {}
        self._leader = (0, 0)  # as the proxy knows: member and term
        self._proxies = QuorumProxies(node.number, self._find_end, self._find_route, self)
        self._proxy = QuorumProxy(UID, "/", NAME, False, CreditSpec(400, 200), self._proxies)
        self._proxies.add(self._proxy)
        node.turn.away = self
        self.broker = cast(
            Broker,
            SimpleNamespace(
                alarms=SimpleNamespace(is_set=lambda: False, reason=str),
                bodies=node.wal,
                budget=node.budget,
                definitions=SimpleNamespace(group=SimpleNamespace(is_leader=True)),
                events=SimpleNamespace(tell=lambda event, /, **fields: None),
                identity=SimpleNamespace(new_session=self._new_session),
                metadata=SimpleNamespace(vhosts={"/": cluster.vhost}),
                node_name=str(node.number),
                operating=self,
                queues=SimpleNamespace(
                    hosts=SimpleNamespace(awake=node.hosts), host=lambda uid: self._host()
                ),
                turn=node.turn,
            ),
        )
        clock_s, roll = asyncio.get_running_loop().time, cluster.dice.random
        self.replica = Replica(
            self.broker, CONFIG, self._copy_definitions, lambda config: connect(), clock_s, roll
        )
        self._task = asyncio.ensure_future(self.replica.run()) if follows else None

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task

    # What the replica asks of its node

    async def _copy_definitions(self, vhost: str, wanted: dict[str, Any]) -> None:
        """They are here from the beginning."""

    def _new_session(self) -> SessionId:
        self._sessions += 1
        return SessionId(self.process << 64 | self._sessions)

    def _host(self) -> QueueHost:
        return self._proxy

    def leader_of(self, vhost: str, name: str) -> int:
        return 0 if self.node.member is None else int(self.node.member.leader)

    def is_led_here(self, uid: int) -> bool:
        return self.node.member is not None and self.node.member.is_leading

    # The way to the leader

    def _find_end(self, uid: int) -> HomeEnd | None:
        return self.node.member

    def _find_route(self, member: int) -> PeerRoute | None:
        return self.peer(member).proxies

    def peer(self, member: int) -> PeerQueues:
        found = self._peers.get(member)
        if found is None:
            found = self._peers[member] = PeerQueues(
                self.process,
                lambda uid: self._proxy,
                lambda frame: self._cluster.send(self, member, b"".join(frame)),
                self,
                find_end=self._find_end,
                member=member,
                roams=self._proxies,
            )
        return found

    def take(self, member: int, frame: bytes) -> None:
        self.node.turn.begin()
        self.peer(member).received(frame)

    def mark_away(self, ending: Ending) -> None:
        self._marked.append(ending)
        self.node.turn.begin()

    def end_turn(self) -> None:
        for peer in list(self._peers.values()):
            peer.settle()
        while self._marked:
            marked, self._marked = self._marked, []
            for each in marked:
                each.end_turn()
        for peer in list(self._peers.values()):
            peer.end_turn()

    def hear(self, leader: int, term: int) -> None:
        """Of who leads, and in which term; 0: no node that can be reached."""
        if (leader, term) != self._leader:
            self._leader = (leader, term)
            self.node.turn.begin()
            self._proxy.leader(leader, term)

    def tick(self) -> None:
        self.node.turn.begin()
        self._proxies.tick(0)


class ClusterStandby:
    """The cluster; `connect` gives a replica its way to the primary."""

    def __init__(self, seed: int, dice: Random, connect: Connect) -> None:
        self.dice = dice
        self.group = GroupWorld(seed, NODES)
        self.group.is_steady = True
        self.group.has_clients = False
        self.group.fault_chance = dice.choice(FAULT_CHANCES)
        self.vhost = VHost(VhostEntry(Uid(1), "/", "", ()))
        self.vhost.queues[NAME] = QUEUE
        self._connect = connect
        self._processes = 0
        self._sites: dict[int, StandbySite] = {}
        self._gone: set[int] = set()  # processes whose sessions are to be ended
        self._wires: dict[tuple[int, int], deque[bytes]] = {}  # no key: no link
        self._steps = 0
        self.group.run_until("a leader", self.group.has_leader)
        self._is_promoted = False

    def draw_process(self) -> int:
        self._processes += 1
        return self._processes

    # Nodes and links

    async def step(self) -> None:
        self.group.run(self.dice.randint(1, 8))
        await self._look_at_nodes()
        self._look_at_links()
        self._look_for_leader()
        for ends, wire in list(self._wires.items()):
            site = self._sites[ends[1]]
            for _ in range(min(len(wire), self.dice.randint(0, 4))):
                site.take(ends[0], wire.popleft())
        self._steps += 1
        if self._steps % TICK_STEPS == 0:
            for site in self._sites.values():
                site.tick()

    async def _look_at_nodes(self) -> None:
        for number, node in sorted(self.group.nodes.items()):
            site = self._sites.get(number)
            if site is not None and site.node is not node:
                del self._sites[number]
                self._gone.add(site.process)
                self._wires = {
                    ends: each for ends, each in self._wires.items() if number not in ends
                }
                for other in self._sites.values():
                    other.peer(number).disconnected()
                await site.stop()
                site = None
            if site is None and node is not None:
                follows = not self._is_promoted
                self._sites[number] = StandbySite(node, self, self._connect, follows)

    def _look_at_links(self) -> None:
        for one in sorted(self._sites):
            for other in sorted(self._sites):
                if one >= other:
                    continue
                is_open = self.group.is_open(one, other) and self.group.is_open(other, one)
                if is_open != ((one, other) in self._wires):
                    self._link(one, other, is_open)

    def _link(self, one: int, other: int, is_open: bool) -> None:
        for near, far in ((one, other), (other, one)):
            if is_open:
                self._wires[near, far] = deque()
            else:
                del self._wires[near, far]
        for near, far in ((one, other), (other, one)):
            site = self._sites[near]
            site.node.turn.begin()
            site.peer(far).connected() if is_open else site.peer(far).disconnected()

    def send(self, source: StandbySite, target: int, frame: bytes) -> None:
        number = source.node.number
        wire = self._wires.get((number, target))
        if wire is not None and self._sites.get(number) is source:
            wire.append(frame)

    def _look_for_leader(self) -> None:
        node = self.group.find_leader()
        leader = 0 if node is None else node.number
        term = max(self.group.wires.leaders.values(), default=0)
        for number, site in self._sites.items():
            if self.dice.random() < 0.7:  # Else it does not know yet.
                is_near = number == leader or (number, leader) in self._wires
                site.hear(leader if is_near else 0, term)
        if node is not None and node.member is not None and self.dice.random() < 0.1:
            self._gone &= node.member.processes()
            for process in sorted(self._gone):
                node.turn.begin()
                node.member.order(EndProcess(process))

    # What an operator sees

    def row(self) -> Row:
        """As an operator sees it who reaches all nodes that are up."""
        return together([site.replica.row() for site in self._sites.values()], 1)

    def synced_s(self) -> float | None:
        """The recovery point as a time. None: it is not known."""
        if not self._sites or self.row()["rpo_seconds"] is None:
            return None
        times = [site.replica.synced_s for site in self._sites.values()]
        return min(each for each in times if each is not None)

    async def promote(self) -> None:
        """Each node stops and releases its messages; then all nodes are up."""
        self._is_promoted = True
        for site in self._sites.values():
            await site.stop()
            site.replica.release(True)
        self.group.calm_down()
        for _ in range(CALM_STEPS):
            await self.step()
            if self._is_released():
                return
        raise AssertionError("the messages are not released")

    def _is_released(self) -> bool:
        leader = self.group.find_leader()
        if leader is None or leader.member is None:
            return False
        member = leader.member
        return member.consumer_count == 0 == member.checked_out_count and not self._gone

    async def contents(self) -> list[bytes]:
        """Messages of the queue, as they are stored."""
        leader = self.group.find_leader()
        assert leader is not None
        core, found = leader.hosts[UID], list[bytes]()
        site = cast(Any, SimpleNamespace(budget=leader.budget, bodies=leader.wal))
        async with working(leader):
            async for run in stored_runs(BodyReads(site), core, live_runs(core), 1 << 62):
                found += run.messages()
        return found


@asynccontextmanager
async def working(node: GroupNode) -> AsyncIterator[None]:
    """The node's disk works meanwhile."""

    async def work() -> None:
        while True:
            node.run(8)
            await asyncio.sleep(STEP_S)

    task = asyncio.ensure_future(work())
    try:
        yield
    finally:
        task.cancel()

"""One simulated node: disk, log, host of groups and the definitions' group, from start to crash."""

from random import Random
from typing import TYPE_CHECKING, Final

from node.cluster.cluster_interfaces import PeerChannel
from node.cluster.definitions.definitions_group import DefinitionsGroup
from node.cluster.definitions.definitions_store import Births, DefinitionsRecovery, DefinitionsStore
from queues.definitions.members import Member
from queues.definitions.metadata.commands import Found
from queues.definitions.metadata.machine import Metadata
from raft.entries import Config
from raft.host import RaftHost
from tests.sim.definitions.follower import Follower
from tests.sim.definitions.sim_log import SimLog
from tests.sim.storage.sim_disk import SimDisk
from tests.sim.storage.sim_keyed import SimKeyed
from tests.sim.storage.steps import StepRunner
from warren.storage.snapshot import SnapshotStore
from warren.wire.peer.handshake import VERSION_MAX

if TYPE_CHECKING:
    from tests.sim.definitions.world import World

CLUSTER: Final = 0xC1A5


class SimLinks:
    """The links as the host of groups sees them."""

    def __init__(self, node: "Node") -> None:
        self._node = node

    def send(self, member: int, lane: int, parts: list[bytes]) -> None:
        self._node.send(member, True, lane, parts)

    def is_full(self, member: int) -> bool:
        return False


class SimPeers:
    """The cluster as its parts see it."""

    def __init__(self, node: "Node") -> None:
        self._node = node

    @property
    def member(self) -> int:
        return self._node.member

    def attach(self, kind: int, part: PeerChannel) -> None:
        self._node.part = part

    def send(self, member: int, kind: int, lane: int, parts: list[bytes]) -> bool:
        self._node.send(member, False, lane, parts)
        return member in self._node.links

    def is_connected(self, member: int) -> bool:
        return member in self._node.links

    def is_full(self, member: int) -> bool:
        return False

    def version(self, member: int) -> int:
        return VERSION_MAX

    def is_trusted(self, member: int) -> bool:
        return self._node.is_trusted(member)

    def members(self) -> list[int]:
        return sorted(self._node.machine.roster.members)


class Node:
    """See the module. What it is while it is up is rebuilt at each start."""

    def __init__(
        self, world: "World", member: int, founders: tuple[int, ...], name: str = ""
    ) -> None:
        self.world = world
        self.name = name or f"n{member}"
        self.member = member
        self.founders = founders
        self.disk = SimDisk()
        self.log = SimLog()
        self.is_up = False
        self.runs = 0
        self.links: set[int] = set()
        self.needed: set[int] = set()  # queues that may have messages in the log
        self.known_index = 0  # what it had applied when it crashed
        self.mute: dict[int, int] = {}  # by peer: no beats are answered until then
        self.host: RaftHost
        self.definitions: DefinitionsGroup
        self.user: Follower
        self.runner: StepRunner
        self.recovery: DefinitionsRecovery
        self.recovered: set[str] = set()  # names of queues whose births the log had
        self.wants_turn = False

    @property
    def machine(self) -> Metadata:
        return self.user.metadata

    # Life

    def start(self) -> None:
        world = self.world
        assert not self.is_up
        self.is_up = True
        self.runs += 1
        self.runner = StepRunner()
        keyed = SimKeyed(self.disk, self.runner)
        snapshots = SnapshotStore(keyed)
        births = Births(self.log)
        recovery = self.recovery = DefinitionsRecovery(keyed, snapshots, births)
        self.log.recover(recovery, world.random)
        self.user = Follower(recovery.machine, self.name, world.draw(), world.draw)
        store = DefinitionsStore(
            keyed, snapshots, births, world.save_entries, slice_bytes=world.slice_bytes
        )
        self.part: PeerChannel | None = None
        lots = Random(world.random.getrandbits(64))
        self.host = RaftHost(
            self.member, self.log, SimLinks(self), world.settings, lots, self._begin_turn
        )
        self.definitions = DefinitionsGroup(
            SimPeers(self), self.user, store, world.clock, world.grace_ms
        )
        self.definitions.found = self._found
        self.definitions.on_process.append(self._process_changed)
        self.definitions.attach()
        restored = recovery.restored(Config(self.founders))
        self.recovered = {queue.name for queue in births.found.values()}
        if recovery.machine.applied_index <= self.known_index:  # Else they may have been deleted.
            for uid in self.needed:
                assert recovery.queue(uid) is not None, f"{self.name} has forgotten its queue {uid}"
        self.definitions.join(self.host, restored, world.settings)
        for other in world.nodes:
            if other != self.member:
                self.host.add_peer(other)
        self.wants_turn = True
        self.is_serving = False

    def serve(self) -> None:
        if self.is_up and not self.is_serving and self.member in self.machine.roster.members:
            self.is_serving = True
            self.definitions.serve()

    def crash(self) -> None:
        self.is_up = False
        homed: set[int] = {
            queue.uid
            for vhost in self.machine.vhosts.values()
            for queue in vhost.queues.values()
            if self.user.is_born_here(queue)
        }
        self.log = self.log.crash(self.world.random)
        self.needed = homed & self.log.born
        self.known_index = self.machine.applied_index
        self.disk = self.disk.crash(self.world.random)
        self.links.clear()

    def _found(self) -> Found:
        founders = (Member(each, f"n{each}", each, f"h{each}", each) for each in self.founders)
        return Found(CLUSTER, tuple(founders))

    def _process_changed(self, name: str, process: int, is_up: bool) -> None:
        if not is_up:
            self.world.ended.add(process)

    def _begin_turn(self) -> None:
        self.wants_turn = True

    def turn(self) -> None:
        self.wants_turn = False
        if self.user.wants_step:
            self.user.wants_step = False
            self.definitions.step(self.world.now_ms)
        self.host.end_turn()
        self.wants_turn |= self.user.wants_step
        self.world.looks_at(self)

    def tick(self) -> None:
        now = self.world.now_ms
        for peer in self.links:
            if self.mute.get(peer, 0) <= now and self.world.nodes[peer].is_up:
                self.host.heard(peer)
        self.host.tick(now)
        if now % 100 == 0:
            self.definitions.tick(now)
            self.wants_turn = True

    # Links

    def connected(self, peer: int) -> None:
        self.links.add(peer)
        self.host.connected(peer)
        self.definitions.peer_connected(peer)
        self.wants_turn = True

    def lost(self, peer: int) -> None:
        if peer in self.links:
            self.links.discard(peer)
            self.host.lost(peer)
            self.definitions.peer_lost(peer)
            self.wants_turn = True

    def is_trusted(self, member: int) -> bool:
        return member == self.member or self.host.detector.is_trusted(member)

    def send(self, member: int, is_raft: bool, lane: int, parts: list[bytes]) -> None:
        if member in self.links:
            self.world.send(self.member, member, is_raft, lane, b"".join(parts))

    def receive(self, peer: int, is_raft: bool, content: bytes) -> None:
        if is_raft:
            self.host.receive(peer, memoryview(content))
        else:
            assert self.part is not None
            self.part.peer_received(peer, memoryview(content))
            self.wants_turn = True

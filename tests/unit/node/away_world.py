"""Nodes with classic queues, and sessions that use those of other nodes (`queues_channel`)."""

from node.cluster.cluster_interfaces import QUEUES
from node.cluster.queues.queues_channel import DOWN_AFTER_MS, TICK_MS, QueuesChannel
from node.cluster.queues.unknown_host import UnknownHost
from queues.hosts.classic import ClassicHost
from queues.queue_host import QueueHost
from queues.remote.proxy import Proxy
from queues.sessions.credit import CreditSpec
from tests.unit.node.peer_net import PeerNet
from tests.unit.queues.fake_node import FakeNode

SPEC = CreditSpec(400, 200)
LATER = 9000  # uids from here on are of queues that no node knows yet


class AwayNode:
    """One process of a node: its queues, its part, its turns."""

    def __init__(self, world: "AwayWorld", member: int, uids: list[int]) -> None:
        self.fake = FakeNode()
        self.hosts: dict[int, ClassicHost] = {uid: self.fake.queue(uid) for uid in uids}
        self.changes = 0
        self._has_begun = False
        peers = world.net.add(member)
        self.part = QueuesChannel(
            peers, self.host_for_stub, self.homes_changed, self.begin, lambda: world.now_ms, SPEC
        )
        peers.attach(QUEUES, self.part)

    def host_for_stub(self, uid: int) -> QueueHost | None:
        return UnknownHost(uid) if uid >= LATER else self.hosts.get(uid)

    def homes_changed(self) -> None:
        self.changes += 1

    def begin(self) -> None:
        self._has_begun = True

    def turn(self) -> bool:
        """One turn; whether there was anything to do."""
        begun, self._has_begun = self._has_begun, False
        self.fake.turn()
        self.part.end_turn()
        return begun


class AwayWorld:
    """Node `m` is home of the queues m0 .. m9, by uid, of which it has made `queues[m]`."""

    def __init__(self, queues: dict[int, list[int]], *, is_open: bool = True) -> None:
        self.net = PeerNet()
        self.now_ms = 1_000_000
        self.nodes: dict[int, AwayNode] = {}
        self._queues = queues
        for member in queues:
            self.start(member, is_open=is_open)
        self.net.join_all()
        self.settle()

    def start(self, member: int, *, is_open: bool = True) -> AwayNode:
        """A process of that node, without links."""
        node = self.nodes[member] = AwayNode(self, member, self._queues[member])
        if is_open:
            node.part.open()
        return node

    def proxy(self, member: int, uid: int) -> Proxy:
        """The queue as sessions of that node see it."""
        return self.nodes[member].part.proxy(uid // 10, uid, "/", f"q{uid}", False, False)

    def ready(self, uid: int) -> int:
        return self.nodes[uid // 10].hosts[uid].ready_count

    def turn(self) -> bool:
        """What is under way arrives, and each node has a turn; whether anything happened."""
        passed = self.net.pass_all()
        more = [node.turn() for node in self.nodes.values()]
        return passed > 0 or any(more)

    def settle(self) -> None:
        """Until nothing is under way, and everything is durable."""
        for node in self.nodes.values():
            node.turn()
        while self.turn():
            pass
        for node in self.nodes.values():
            node.fake.sync()
            node.turn()
        while self.turn():
            pass

    def wait(self, for_ms: int = DOWN_AFTER_MS) -> None:
        """Time goes by."""
        for _ in range(for_ms // TICK_MS):
            self.now_ms += TICK_MS
            for node in self.nodes.values():
                node.part.tick()
        self.settle()

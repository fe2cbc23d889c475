"""What is between the nodes of a simulated group: links, what is under way on them, who leads."""

from collections import deque
from random import Random
from typing import Generic, Protocol, TypeVar

from raft.host import RaftHost


class Wired(Protocol):
    @property
    def number(self) -> int: ...

    @property
    def raft(self) -> RaftHost: ...


N = TypeVar("N", bound=Wired)


class Switchboard(Generic[N]):
    """`cut`: ways on which nothing comes through. `leaders`: term, by member that leads."""

    def __init__(self, nodes: dict[int, N | None], random: Random) -> None:
        self.nodes = nodes
        self.cut: set[tuple[int, int]] = set()
        self.leaders: dict[int, int] = {}
        self._random = random
        self._channels: dict[tuple[int, int, int], deque[bytes]] = {}

    def alive(self) -> list[N]:
        return [node for node in self.nodes.values() if node is not None]

    def find_leader(self) -> N | None:
        if not self.leaders:
            return None
        return self.nodes[max(self.leaders, key=lambda member: self.leaders[member])]

    def leads(self, member: int, leader: int, term: int, is_ready: bool) -> None:
        if is_ready and leader == member:
            self.leaders[member] = term
        else:
            self.leaders.pop(member, None)

    def is_open(self, source: int, target: int) -> bool:
        return (source, target) not in self.cut and self.nodes.get(target) is not None

    def plug_in(self, node: N) -> None:
        """A node has started."""
        for peer in self.alive():
            if peer is not node and self.is_open(node.number, peer.number):
                self._connect(node, peer)

    def unplug(self, number: int) -> None:
        """A node is gone, and with it what was under way."""
        for ends, channel in self._channels.items():
            if number in ends[:2]:
                channel.clear()
        for peer in self.alive():
            peer.raft.lost(number)

    def _connect(self, node: N, peer: N) -> None:
        node.raft.connected(peer.number)
        peer.raft.connected(node.number)

    def send(self, source: int, target: int, lane: int, batch: bytes) -> None:
        if self.is_open(source, target) and self.nodes.get(source) is not None:
            self._channels.setdefault((source, target, lane), deque()).append(batch)

    def deliver(self) -> None:
        """A batch arrives somewhere."""
        full = [ends for ends, channel in self._channels.items() if channel]
        if not full:
            return
        source, target, lane = self._random.choice(full)
        batch = self._channels[source, target, lane].popleft()
        node = self.nodes.get(target)
        if node is not None and (source, target) not in self.cut:
            node.raft.receive(source, memoryview(batch))

    def is_idle(self) -> bool:
        """Nothing is under way."""
        return not any(self._channels.values())

    def beat(self) -> None:
        """Nodes hear each other where both ways are open."""
        for node in self.alive():
            for peer in self.alive():
                ends = (node.number, peer.number)
                if node is not peer and ends not in self.cut and ends[::-1] not in self.cut:
                    node.raft.heard(peer.number)

    def break_link(self, one: int, other: int) -> None:
        """What was under way is lost; the link is there again at once."""
        for ends, channel in self._channels.items():
            if ends[:2] in ((one, other), (other, one)):
                channel.clear()
        first, second = self.nodes.get(one), self.nodes.get(other)
        if first is None or second is None:
            return
        first.raft.lost(other)
        second.raft.lost(one)
        if self.is_open(one, other) and self.is_open(other, one):
            self._connect(first, second)

    def cut_some(self, chance: float) -> None:
        """Other ways are cut than before, each with that chance."""
        self.mend()
        self.cut = {
            (one, other)
            for one in sorted(self.nodes)
            for other in sorted(self.nodes)
            if one != other and self._random.random() < chance
        }

    def mend(self) -> None:
        """All ways are open."""
        cut, self.cut = self.cut, set()
        for one, other in sorted(cut):
            first, second = self.nodes.get(one), self.nodes.get(other)
            if first is not None and second is not None:
                self._connect(first, second)

"""Nodes in one process with links between them: keeps `Peers`, delivers when it is told to."""

from collections.abc import Callable
from dataclasses import dataclass, field

from node.cluster.seams import PeerPart


@dataclass
class FakePeers:
    """The cluster as one node sees it. `cut` in the net says which pairs have no link."""

    net: "FakeNet"
    member: int
    parts: dict[int, PeerPart] = field(default_factory=dict)

    def attach(self, kind: int, part: PeerPart) -> None:
        assert kind not in self.parts
        self.parts[kind] = part

    def send(self, member: int, kind: int, lane: int, parts: list[bytes]) -> None:
        if self.is_connected(member):
            self.net.under_way.append((self.member, member, kind, b"".join(parts)))

    def is_connected(self, member: int) -> bool:
        return member in self.net.nodes and frozenset((self.member, member)) not in self.net.cut

    def is_full(self, member: int) -> bool:
        return False

    def is_trusted(self, member: int) -> bool:
        return member == self.member or self.is_connected(member)

    def members(self) -> list[int]:
        return sorted(self.net.nodes)


@dataclass
class FakeNet:
    """Nodes by member id. Frames wait in `under_way` until `run`; a cut link loses its own."""

    nodes: dict[int, FakePeers] = field(default_factory=dict)
    under_way: list[tuple[int, int, int, bytes]] = field(default_factory=list)
    cut: set[frozenset[int]] = field(default_factory=set)

    def add(self, member: int) -> FakePeers:
        self.nodes[member] = FakePeers(self, member)
        return self.nodes[member]

    def connect_all(self) -> None:
        """Tell every part of every other node."""
        for one in self.nodes.values():
            for other in self.nodes:
                if other != one.member:
                    for part in one.parts.values():
                        part.peer_connected(other)

    def run(self) -> int:
        """Deliver what is under way, and what that brings; how many frames."""
        count = 0
        while self.under_way:
            source, target, kind, payload = self.under_way.pop(0)
            self.nodes[target].parts[kind].peer_received(source, memoryview(payload))
            count += 1
        return count

    def lose(self, one: int, other: int) -> None:
        """Their link goes, with what is on it."""
        self.cut.add(frozenset((one, other)))
        self.under_way = [each for each in self.under_way if {each[0], each[1]} != {one, other}]
        self._tell(one, other, lambda part, member: part.peer_lost(member))

    def heal(self, one: int, other: int) -> None:
        self.cut.discard(frozenset((one, other)))
        self._tell(one, other, lambda part, member: part.peer_connected(member))

    def _tell(self, one: int, other: int, tell: Callable[[PeerPart, int], None]) -> None:
        for here, there in ((one, other), (other, one)):
            for part in self.nodes[here].parts.values():
                tell(part, there)

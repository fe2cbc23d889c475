"""Nodes of a cluster for tests, and links between them that break, fill up and are slow.

`FakePeers` is what the parts of one node see (`node.cluster.cluster_interfaces.Peers`). Frames of
one lane keep
their order; those under way on a link that is cut are lost, and so is what is sent to one that is
full. A frame that its taker refuses ends the link, as in a node.
"""

from collections import deque

from node.cluster.cluster_interfaces import PeerChannel
from warren.wire.peer.codes import PeerFault
from warren.wire.peer.handshake import VERSION_MAX

Frame = tuple[int, bytes]  # kind, payload


class FakePeers:
    """One node's side."""

    def __init__(self, net: "PeerNet", member: int) -> None:
        self.member = member
        self.parts: dict[int, PeerChannel] = {}
        self.suspected: set[int] = set()  # connected, and silent
        self._net = net

    def attach(self, kind: int, part: PeerChannel) -> None:
        assert kind not in self.parts
        self.parts[kind] = part

    def send(self, member: int, kind: int, lane: int, parts: list[bytes]) -> bool:
        if not self.is_connected(member) or self.is_full(member):
            return False
        self._net.under_way[self.member, member].append((kind, b"".join(parts)))
        return True

    def is_full(self, member: int) -> bool:
        way = self.member, member
        return not self.is_connected(member) or len(self._net.under_way[way]) >= self._net.room

    def is_connected(self, member: int) -> bool:
        return frozenset((self.member, member)) in self._net.links

    def version(self, member: int) -> int:
        return self._net.version

    def is_trusted(self, member: int) -> bool:
        if member in self.suspected:
            return False
        return member == self.member or self.is_connected(member)

    def members(self) -> list[int]:
        return sorted(self._net.nodes)


class PeerNet:
    """All nodes. Invariant: `under_way` has the two ways of each link, and no others."""

    def __init__(self) -> None:
        self.nodes: dict[int, FakePeers] = {}
        self.links: set[frozenset[int]] = set()
        self.under_way: dict[tuple[int, int], deque[Frame]] = {}
        self.version = VERSION_MAX  # that both ends of all links speak
        self.room = 1_000_000  # frames that one way of a link takes
        self.faults: list[str] = []

    def add(self, member: int) -> FakePeers:
        """A node; one of that id that was there is another process from now on."""
        peers = self.nodes[member] = FakePeers(self, member)
        return peers

    def join(self, one: int, other: int) -> None:
        """A new link; one that was there ends first."""
        self.cut(one, other)
        self.links.add(frozenset((one, other)))
        for way in ((one, other), (other, one)):
            self.under_way[way] = deque()
        for member, peer in ((one, other), (other, one)):
            for part in self.nodes[member].parts.values():
                part.peer_connected(peer)

    def join_all(self) -> None:
        members = sorted(self.nodes)
        for place, one in enumerate(members):
            for other in members[place + 1 :]:
                self.join(one, other)

    def cut(self, one: int, other: int) -> None:
        if frozenset((one, other)) not in self.links:
            return
        self.links.remove(frozenset((one, other)))
        for member, peer in ((one, other), (other, one)):
            del self.under_way[member, peer]
            for part in self.nodes[member].parts.values():
                part.peer_lost(peer)

    def kill(self, member: int) -> None:
        """The process ends: nothing of it hears of it."""
        self.nodes[member].parts = {}
        for other in list(self.nodes):
            if other != member:
                self.cut(member, other)

    def pass_on(self, sender: int, taker: int, count: int = 1_000_000) -> int:
        """Let so many frames of one way arrive; how many there were."""
        passed = 0
        while passed < count and self.under_way.get((sender, taker)):
            kind, payload = self.under_way[sender, taker].popleft()
            passed += 1
            try:
                self.nodes[taker].parts[kind].peer_received(sender, memoryview(payload))
            except PeerFault as fault:
                self.faults.append(fault.text)
                self.cut(sender, taker)
        return passed

    def pass_all(self) -> int:
        """What is under way now arrives; how many frames that were."""
        return sum(self.pass_on(*way) for way in list(self.under_way))

    def run(self) -> int:
        """All that is under way arrives, and what that brings; how many frames that were."""
        count = 0
        while passed := self.pass_all():
            count += passed
        return count

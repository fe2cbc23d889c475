"""Resource alarms of the whole cluster: one node in alarm stops publishers on all of them.

    part = AlarmsChannel(peers, alarms, loop.call_later)
    peers.attach(ALARMS, part)
    alarms.on_local = part.tell          # told when the alarms of this node change

Each node says its own alarms to a peer when their link comes up, and to all peers when they change.
A node that cannot be reached keeps its last word for GRACE_S, for a link that comes again at once
is no news; then it counts as clear, for clients cannot publish to it. One that is removed counts as
clear at once. What all of them say together is handed to `node.resources.alarms`, whose readers ask
it for
nothing else.

A frame is a version (u8, 1) and the alarms as bits (u8): 1 memory, 2 disk.
"""

from collections.abc import Mapping
from typing import Final

from node.cluster.cluster_interfaces import ALARMS, CONTROL_LANE, Peers
from node.resources.alarms import Alarms
from node.timers import CallLater, Handle
from warren.wire.peer.codes import PeerFault

GRACE_S: Final = 0.5  # as long as the failure detector waits for an answer
VERSION: Final = 1
MEMORY: Final = 1
DISK: Final = 2


class AlarmsChannel:
    """Invariant: `node.resources.alarms` has been told what `_words` say together, and `_leaving`
    has a timer
    for each member that has said something and has no link."""

    def __init__(self, peers: Peers, alarms: Alarms, call_later: CallLater) -> None:
        self._peers = peers
        self._alarms = alarms
        self._call_later = call_later
        self._words: dict[int, int] = {}  # by member: the bits, never 0
        self._leaving: dict[int, Handle] = {}

    def by_member(self) -> Mapping[int, tuple[bool, bool]]:
        """Memory and disk alarm of each other node that has one."""
        return {
            member: (bool(bits & MEMORY), bool(bits & DISK)) for member, bits in self._words.items()
        }

    def tell(self) -> None:
        """The alarms of this node have changed."""
        for member in self._peers.members():
            if member != self._peers.member:
                self._send(member)

    def _send(self, member: int) -> None:
        bits = (MEMORY if self._alarms.memory else 0) | (DISK if self._alarms.disk else 0)
        self._peers.send(member, ALARMS, CONTROL_LANE, [bytes((VERSION, bits))])

    # What the cluster tells

    def peer_connected(self, member: int) -> None:
        self._stay(member)
        self._send(member)

    def peer_lost(self, member: int) -> None:
        if member in self._words and member not in self._leaving:
            self._leaving[member] = self._call_later(GRACE_S, lambda: self._forget(member))

    def peer_removed(self, member: int) -> None:
        self._stay(member)
        self._heard(member, 0)

    def peer_received(self, member: int, payload: memoryview) -> None:
        if len(payload) != 2 or payload[0] != VERSION or payload[1] > MEMORY | DISK:
            raise PeerFault("no word about alarms")
        self._heard(member, payload[1])

    # What they say together

    def _forget(self, member: int) -> None:
        del self._leaving[member]
        self._heard(member, 0)

    def _stay(self, member: int) -> None:
        leaving = self._leaving.pop(member, None)
        if leaving is not None:
            leaving.cancel()

    def _heard(self, member: int, bits: int) -> None:
        if bits:
            self._words[member] = bits
        else:
            self._words.pop(member, None)
        together = 0
        for each in self._words.values():
            together |= each
        self._alarms.observe_cluster(bool(together & MEMORY), bool(together & DISK))

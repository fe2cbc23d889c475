"""Which other nodes are alive, as far as this one can tell: one judgement for all groups. No I/O.

Takes connections that come and go, answers to this node's beats, and the time; says whom it trusts.
A peer is trusted from the moment that its connection stands, which has taken a round trip, until
that is lost or SILENCE_MS pass without an answer; then it is suspected, and an answer ends that. An
answer counts and a beat of the peer does not: it shows that both directions work.

Silence is measured on a clock of its own, which goes on by STEP_MS_MAX at most from tick to tick:
while this node did not run it has heard no peer, which says nothing about the peers. Compiled.
"""

from typing import Final, final

from mypy_extensions import i64

BEAT_MS: Final = 100  # between two beats to a peer
SILENCE_MS: Final = 500
STEP_MS_MAX: Final = BEAT_MS


@final
class Peer:
    """What is known of a node. Invariant: trusted only if connected."""

    __slots__ = ("heard_ms", "is_connected", "is_trusted")

    def __init__(self) -> None:
        self.is_connected = False
        self.is_trusted = False
        self.heard_ms: i64 = 0  # on the detector's clock


@final
class Detector:
    """Judges the peers that were added. Methods that may change a judgement say whether they did;
    those for a node that it does not know change nothing.
    """

    def __init__(self, silence_ms: i64 = SILENCE_MS) -> None:
        assert silence_ms > 0
        self._silence_ms: i64 = silence_ms
        self._peers: dict[int, Peer] = {}
        self._own_ms: i64 = 0
        self._ticked_ms: i64 = -1  # when the last tick was, by the clock of the caller

    def add(self, node: int) -> None:
        """There is such a node; it is not trusted before it is connected."""
        if node not in self._peers:
            self._peers[node] = Peer()

    def remove(self, node: int) -> bool:
        """Forget the node; whether it was trusted."""
        peer = self._peers.pop(node, None)
        return peer is not None and peer.is_trusted

    def nodes(self) -> list[int]:
        """All peers that were added."""
        return list(self._peers)

    def is_trusted(self, node: int) -> bool:
        peer = self._peers.get(node)
        return peer is not None and peer.is_trusted

    def connected(self, node: int) -> bool:
        """A connection stands, both ends have proven who they are."""
        peer = self._peers.get(node)
        if peer is None:
            return False
        peer.is_connected = True
        return self._hear(peer)

    def heard(self, node: int) -> bool:
        """It has answered a beat; one that comes late, over a lost connection, is no news."""
        peer = self._peers.get(node)
        return peer is not None and peer.is_connected and self._hear(peer)

    def lost(self, node: int) -> bool:
        """The connection is gone."""
        peer = self._peers.get(node)
        if peer is None:
            return False
        was_trusted = peer.is_trusted
        peer.is_connected = False
        peer.is_trusted = False
        return was_trusted

    def tick(self, now_ms: i64) -> list[int]:
        """Time has passed; who is suspected from now on."""
        if self._ticked_ms >= 0:
            self._own_ms += min(max(now_ms - self._ticked_ms, 0), STEP_MS_MAX)
        self._ticked_ms = now_ms
        suspected: list[int] = []
        for node, peer in self._peers.items():
            if peer.is_trusted and self._own_ms - peer.heard_ms > self._silence_ms:
                peer.is_trusted = False
                suspected.append(node)
        return suspected

    def _hear(self, peer: Peer) -> bool:
        peer.heard_ms = self._own_ms
        was_trusted = peer.is_trusted
        peer.is_trusted = True
        return not was_trusted

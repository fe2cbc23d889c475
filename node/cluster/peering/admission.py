"""Who may come in: the peers that there are, those that were removed, strangers within limits.

Decides and does nothing. Takes claims that were proven; a claim that contradicts what is known of
that node, so that there must be two of it, is reported to `on_conflict`, once each.
"""

from collections.abc import Callable

from node.cluster.peering.link_settings import LinkSettings
from node.cluster.peering.link_socket import LinkSocket
from node.cluster.peering.peer_record import Peer
from warren.wire.peer.codes import (
    ACCEPTED,
    CONTROL_ROLE,
    DIRECTION,
    FORGOTTEN,
    INCARNATION,
    PAIR,
    TWICE,
    UNKNOWN,
    refusal_text,
)
from warren.wire.peer.handshake import Claim, Identity


class Admission:
    """The list of connections in their handshake."""

    def __init__(
        self, identity: Identity, settings: LinkSettings, on_conflict: Callable[[int, str], None]
    ) -> None:
        self.peers: dict[int, Peer] = {}
        self.forgotten: set[int] = set()
        self.given_below = 0  # ids that the cluster has given: who is no peer was removed
        self.strangers: dict[LinkSocket, str] = {}  # accepted, not let in yet -> their hosts
        self._identity = identity
        self._settings = settings
        self._on_conflict = on_conflict

    def judge(self, claim: Claim, is_dialed: bool) -> int:
        """ACCEPTED, or why not."""
        peer = self.peers.get(claim.node_id)
        if peer is None:
            return FORGOTTEN if self.has_forgotten(claim.node_id) else UNKNOWN
        if not is_dialed and self._identity.node_id < claim.node_id:
            return DIRECTION
        if peer.incarnation not in (0, claim.incarnation):
            return self._conflict(peer, claim, INCARNATION)
        if claim.boot in peer.past_boots:
            return self._conflict(peer, claim, TWICE)
        if claim.role != CONTROL_ROLE and not peer.awaits_bulk(claim.pair):
            return PAIR
        return ACCEPTED

    def has_forgotten(self, member: int) -> bool:
        """Whether that node was a member and is none any more."""
        return member in self.forgotten or (member < self.given_below and member not in self.peers)

    def _conflict(self, peer: Peer, claim: Claim, code: int) -> int:
        if peer.is_new_conflict(claim.boot):
            self._on_conflict(peer.member, refusal_text(code))
        return code

    def take_stranger(self, socket: LinkSocket) -> str:
        """A connection was accepted: '' or why it cannot wait here for its handshake."""
        host = socket.host
        of_host = list(self.strangers.values()).count(host)
        if len(self.strangers) >= self._settings.strangers_max:
            return f"{len(self.strangers)} connections wait for their handshake already"
        if of_host >= self._settings.strangers_per_host_max:
            return f"{of_host} connections of its host wait for their handshake already"
        self.strangers[socket] = host
        return ""

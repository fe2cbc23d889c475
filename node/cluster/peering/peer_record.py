"""What is known of one other node, and the link to it while there is one."""

from dataclasses import dataclass
from typing import Final

from node.cluster.peering.dialer import Dialer
from node.cluster.peering.link_socket import LinkSocket
from warren.wire.peer.handshake import Claim

BOOTS_KEPT: Final = 64  # processes of a peer that have had a successor


class Link:
    """Two connections, once it is up; until then the control connection alone."""

    def __init__(self, pair: int, control: LinkSocket, now_ns: int) -> None:
        self.pair = pair
        self.began_ns = now_ns
        self.control = control
        self.bulk: LinkSocket | None = None
        self.is_up = False

    def sockets(self) -> list[LinkSocket]:
        return [self.control] if self.bulk is None else [self.control, self.bulk]


@dataclass(frozen=True, slots=True)
class PeerStatus:
    """For listings: counters are of all links to this peer since this process began."""

    member: int
    host: str
    port: int
    is_connected: bool
    incarnation: int  # 0: never seen
    rtt_ns: int  # average of the control connection; 0: not known
    queued_bytes: int  # that wait to be sent
    bytes_sent: int
    bytes_received: int
    batches_sent: int
    batches_received: int
    dropped: int  # batches that had nowhere to go
    connects: int
    losses: int
    last_error: str


class Peer:
    """A node that may come in. Invariant: a link's sockets are owned by its peer alone."""

    def __init__(self, member: int, host: str, port: int, incarnation: int) -> None:
        self.member = member
        self.host = host
        self.port = port
        self.incarnation = incarnation  # 0: the first one that comes counts
        self.boot = 0  # of the process that was there last
        self.version = 0  # of the peer link, which that process and this one speak
        self.past_boots: list[int] = []
        self._conflicts: list[int] = []  # processes that were reported in conflict with it
        self.link: Link | None = None
        self.dialer: Dialer | None = None
        self.dropped = 0
        self.connects = 0
        self.losses = 0
        self.last_error = ""
        self._bytes_sent = 0  # these four: of links that have ended
        self._bytes_received = 0
        self._batches_sent = 0
        self._batches_received = 0

    def awaits_bulk(self, pair: int) -> bool:
        """Whether there is a control connection that waits for this one."""
        return self.link is not None and self.link.pair == pair and self.link.bulk is None

    def take_claim(self, claim: Claim) -> None:
        """The process that has come in is the one that counts from now on."""
        self.incarnation = claim.incarnation
        if self.boot not in (0, claim.boot):
            self.past_boots = [*self.past_boots[1 - BOOTS_KEPT :], self.boot]
        self.boot = claim.boot

    def is_new_conflict(self, boot: int) -> bool:
        """Whether this process comes into conflict for the first time."""
        if boot in self._conflicts:
            return False
        self._conflicts = [*self._conflicts[1 - BOOTS_KEPT :], boot]
        return True

    def count(self, link: Link) -> None:
        """Keep the counts of a link that ends."""
        for socket in link.sockets():
            self._bytes_sent += socket.bytes_sent
            self._bytes_received += socket.bytes_received
            self._batches_sent += socket.core.messages_sent
            self._batches_received += socket.core.messages_received

    def status(self) -> PeerStatus:
        link = self.link
        sockets = link.sockets() if link is not None else []
        dialing_error = self.dialer.last_error if self.dialer is not None else ""
        return PeerStatus(
            member=self.member,
            host=self.host,
            port=self.port,
            is_connected=link is not None and link.is_up,
            incarnation=self.incarnation,
            rtt_ns=link.control.core.rtt_ns if link is not None else 0,
            queued_bytes=sum(each.core.lanes.queued_bytes for each in sockets),
            bytes_sent=self._bytes_sent + sum(each.bytes_sent for each in sockets),
            bytes_received=self._bytes_received + sum(each.bytes_received for each in sockets),
            batches_sent=self._batches_sent + sum(each.core.messages_sent for each in sockets),
            batches_received=self._batches_received
            + sum(each.core.messages_received for each in sockets),
            dropped=self.dropped,
            connects=self.connects,
            losses=self.losses,
            last_error=dialing_error or self.last_error,
        )

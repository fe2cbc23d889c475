"""Queues in use across nodes: the stream to each other node, its queues and its sessions here.

The part of kind QUEUES (0036). Takes what comes from the links, gives frames to them; what
sessions of this node hand down for queues of another goes through the `Proxy` that `host` gives.

A link that breaks is latency: everything waits, but who asks for a queue (declare, consume, get)
while its home has no listener is answered 404 at once (`is_refusing`). A node is *down* when a
stream to it has not stood for `down_after_ms`, or when it is removed. Then what was not confirmed
is refused, to sessions here its queues are gone, and what its sessions held here is ready again;
until it is back, publishes to its queues are refused, and their users are answered 404
(`node.broker`). This end draws a new process number for the stream then, so that the other end,
should it live and have waited longer, ends the same sessions when it hears of it. A process that is
another one than before is the same at once, and not down.

Nothing is sent before this node is in service (`open`): its queues have to be there first. Bounded:
64 MiB that a node has not acknowledged; then sessions that publish to its queues are held up, and
no others. What the link has no room for waits here. No I/O, and no clock but the times it is given.
"""

import logging
import os
from collections.abc import Callable
from functools import partial
from typing import Final

from node.cluster.cluster_interfaces import QUEUES, QUEUES_LANE, Peers
from queues.queue_host import QueueHost
from queues.remote.home import no_end
from queues.remote.items import BadItem, Buffer
from queues.remote.moving import Movers
from queues.remote.peer_queues import BadFrame, PeerQueues
from queues.remote.proxy import Proxy, Roams
from queues.remote.remote_interfaces import Ending, FindEnd, PeerRoute
from queues.sessions.credit import CreditSpec
from warren.wire.peer.codes import PeerFault
from warren.wire.peer.handshake import MOVING_VERSION
from warren.wire.peer.stream import HELLO

log = logging.getLogger("warren.cluster")

DOWN_AFTER_MS: Final = 5_000
TICK_MS: Final = 100
STANDS: Final = -1  # since when a stream has not stood
HELLO_BYTE: Final = bytes([HELLO])
LARGE_BYTES: Final = 16_384  # a frame of so many is not copied as a whole
NO_NODE: Final = 0  # the home of queues whose node is a member no more


HostForStub = Callable[[int], QueueHost | None]


def draw_process() -> int:
    """A number for this end of a stream that no other has had."""
    return int.from_bytes(os.urandom(8), "big") | 1


class Other:
    """One other node."""

    __slots__ = ("gone_since_ms", "greeting", "is_refusing", "peer_queues")

    def __init__(self, peer_queues: PeerQueues, now_ms: int) -> None:
        self.peer_queues = peer_queues
        self.gone_since_ms = now_ms  # STANDS: the stream stands
        self.greeting: list[bytes] = []  # came before this node was open
        self.is_refusing = False  # its port does: no process is there, for now at least

    @property
    def is_down(self) -> bool:
        return self.peer_queues.proxies.is_down


class QueuesChannel:
    """See the module. `node.cluster.cluster_interfaces.PeerChannel` and
    `queues.remote.remote_interfaces.EndOfTurn`."""

    def __init__(
        self,
        peers: Peers,
        host_for_stub: HostForStub,
        homes_changed: Callable[[], None],
        begin_turn: Callable[[], None],
        monotonic_ms: Callable[[], int],
        spec: CreditSpec,
        down_after_ms: int = DOWN_AFTER_MS,
    ) -> None:
        """`host_for_stub`: a queue of this node, for a session of another; None: it was deleted.
        `homes_changed`: what was found of queues may hold no more, as a node is down, or back."""
        self._peers = peers
        self._host_for_stub = host_for_stub
        self._homes_changed = homes_changed
        self._begin_turn = begin_turn
        self._now_ms = monotonic_ms
        self._spec = spec
        self._down_after_ms = down_after_ms
        self._others: dict[int, Other] = {}
        self._marked: list[Ending] = []
        self._is_marked = False
        self._is_open = False
        self.find_end: FindEnd = no_end  # of quorum queues, for sessions of other nodes
        self.movers: Movers | None = None  # who knows which queues have mirrors
        self.roams: Roams | None = None  # who uses those that are led elsewhere

    def peer_route(self, member: int) -> PeerRoute:
        """The way to quorum queues that the node leads."""
        return self._other(member).peer_queues.proxies

    @property
    def all_peer_queues(self) -> dict[int, PeerQueues]:
        """The streams to other nodes, by member."""
        return {member: other.peer_queues for member, other in self._others.items()}

    def is_down(self, member: int) -> bool:
        """Whether the queues of that node cannot be used now."""
        return self._other(member).is_down

    def is_refusing(self, member: int) -> bool:
        """Whether that node's address has no listener: who asks now need not wait for it."""
        return self._other(member).is_refusing

    # Proxies

    def known(self, member: int, uid: int) -> Proxy | None:
        """The proxy of that queue, if it was made."""
        return self._other(member).peer_queues.proxies.hosts.get(uid)

    def proxy(
        self, member: int, uid: int, vhost: str, name: str, quorum: bool, single_active: bool
    ) -> Proxy:
        """The queue, whose home that node is, as sessions of this one see it."""
        proxies = self._other(member).peer_queues.proxies
        known = proxies.hosts.get(uid)
        if known is None:
            known = Proxy(uid, vhost, name, quorum, single_active, self._spec, proxies)
            proxies.add(known)
        return known

    def unserved(self, uid: int, vhost: str, name: str) -> Proxy:
        """A queue that this node does not serve now: publishes are refused."""
        known = self.known(NO_NODE, uid)
        return known or self.proxy(NO_NODE, uid, vhost, name, False, False)

    def serve_again(self) -> None:
        """Sessions that had what `unserved` gave start again at the queue itself."""
        proxies = self._other(NO_NODE).peer_queues.proxies
        for uid in list(proxies.hosts):
            proxies.leave(uid)

    def answers(self, member: int, uid: int, vhost: str, name: str) -> Proxy | None:
        """A pseudo-queue of another node (`node.connections.direct_reply_to`), while that can be
        reached."""
        if member not in self._peers.members() or self.is_down(member):
            return None
        proxy = self.proxy(member, uid, vhost, name, False, False)
        proxy.is_passing = True
        return proxy

    def remove(self, uid: int) -> None:
        """The queue is deleted."""
        for other in self._others.values():
            other.peer_queues.proxies.remove(uid)

    def _other(self, member: int) -> Other:
        other = self._others.get(member)
        if other is None:
            peer_queues = PeerQueues(
                draw_process(),
                self._host_for_stub,
                partial(self._send, member),
                self,
                lambda: not self._peers.is_full(member),
                self.find_end,
                member,
                self.roams,
                self.movers,
            )
            other = self._others[member] = Other(peer_queues, self._now_ms())
            if member == NO_NODE:
                peer_queues.proxies.is_down = True
        return other

    def _send(self, member: int, frame: list[bytes]) -> None:
        """What is lost the stream sends again."""
        self._peers.send(member, QUEUES, QUEUES_LANE, frame)

    # From the links (PeerChannel)

    def open(self) -> None:
        """This node is in service: its queues are there, and may be used from elsewhere."""
        self._is_open = True
        self._begin_turn()
        self._know_all()
        for member, other in list(self._others.items()):
            if self._peers.is_connected(member):
                greeting, other.greeting = other.greeting, []
                other.peer_queues.connected()
                for payload in greeting:
                    self._greet(member, other, payload)

    def _greet(self, member: int, other: Other, payload: bytes) -> None:
        try:
            self._take(member, other, payload)
        except PeerFault as fault:  # Its queues are down until it connects again.
            log.error("node %d: %s", member, fault.text)

    def peer_connected(self, member: int) -> None:
        other = self._other(member)
        other.greeting = []
        other.is_refusing = False
        version = self._peers.version(member)
        other.peer_queues.proxies.hands_over = version >= MOVING_VERSION
        if self._is_open:
            other.peer_queues.connected()

    def peer_refuses(self, member: int, is_so: bool) -> None:
        """It was dialed, and no link came of it."""
        self._other(member).is_refusing = is_so

    def peer_lost(self, member: int) -> None:
        other = self._other(member)
        other.greeting = []
        other.peer_queues.disconnected()
        if other.gone_since_ms == STANDS:
            other.gone_since_ms = self._now_ms()

    def peer_removed(self, member: int) -> None:
        """It never comes back, and neither do its queues."""
        self.peer_lost(member)
        self._give_up(member, self._other(member))

    def peer_received(self, member: int, payload: memoryview) -> None:
        other = self._other(member)
        if self._is_open:
            is_large = len(payload) >= LARGE_BYTES
            self._take(member, other, payload if is_large else bytes(payload))
        else:
            other.greeting = [bytes(payload)]
            if other.greeting[0][:1] != HELLO_BYTE:
                raise PeerFault("queues: more than hello before this node has said it")

    def _take(self, member: int, other: Other, frame: Buffer) -> None:
        try:
            other.peer_queues.received(frame)
        except (BadFrame, BadItem) as error:
            raise PeerFault(f"queues: {error}") from None
        self._mark()  # It may be time to acknowledge what has come.
        if other.peer_queues.stream.stands and other.gone_since_ms != STANDS:
            self._came_up(member, other)

    # The end of a turn (`EndOfTurn` for all that is away, `Ending` for the turn)

    def mark_away(self, ending: Ending) -> None:
        self._marked.append(ending)
        self._mark()

    def _mark(self) -> None:
        if not self._is_marked:
            self._is_marked = True
            self._begin_turn()

    def end_turn(self) -> None:
        """Send what the turn has brought; hosts were stepped, and endpoints flushed."""
        if not self._is_marked:
            return
        for other in list(self._others.values()):
            other.peer_queues.settle()
        while self._marked:
            marked, self._marked = self._marked, []
            for each in marked:
                each.end_turn()
        self._is_marked = False
        for other in list(self._others.values()):
            other.peer_queues.end_turn()

    # Time

    def tick(self) -> None:
        """Every TICK_MS: who has been away for too long, whose link has room again, who waits for
        an acknowledgement."""
        if not self._is_open:
            return
        now_ms = self._now_ms()
        for member, other in list(self._others.items()):
            since_ms = other.gone_since_ms
            if since_ms == STANDS:
                stream = other.peer_queues.stream
                if stream.owes_ack:
                    stream.hurry_ack()
                    self._mark()
                elif stream.has_unsent:
                    self._mark()
            elif not other.is_down and now_ms - since_ms >= self._down_after_ms:
                self._give_up(member, other)
                if self._peers.is_connected(member):  # It starts, and has not come that far yet.
                    other.peer_queues.connected()

    def _know_all(self) -> None:
        """From now on, at the latest, the time counts in which a node was not heard of."""
        for member in self._peers.members():
            if member != self._peers.member:
                self._other(member)

    def tell_counts(self) -> None:
        """About once a second: how queues stand here that others use."""
        if not self._is_open:
            return
        self._begin_turn()
        self._know_all()
        for other in list(self._others.values()):
            if other.gone_since_ms == STANDS:
                other.peer_queues.stubs.tell_counts()

    def _give_up(self, member: int, other: Other) -> None:
        """What it had here, and what was under way to it, is over."""
        if other.is_down:
            return
        self._begin_turn()
        other.peer_queues.proxies.is_down = True
        self._homes_changed()
        log.warning(
            "node %d cannot be reached: its %d queues that are in use here are down, and %d uses "
            "of queues of this node from there have ended",
            member,
            len(other.peer_queues.proxies.hosts),
            other.peer_queues.stubs.count,
        )
        other.peer_queues.give_up(draw_process())
        self._mark()

    def _came_up(self, member: int, other: Other) -> None:
        other.gone_since_ms = STANDS
        if other.is_down:
            log.info("node %d is back, and with it its queues", member)
            other.peer_queues.come_back()
            self._homes_changed()

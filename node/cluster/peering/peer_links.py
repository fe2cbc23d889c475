"""Links to the other nodes of the cluster: two connections each, kept up, in order or told as lost.

Takes the peers that there are (`add_peer`) and batches to send; gives its user (`PeerUser`) what
comes, and when a link comes and goes. A link is a pair of connections, control and bulk, between
two nodes that have proven to each other that they know the cluster's secret; it comes and goes as a
whole. What is sent while there is none is lost. Of two nodes the one with the lower id dials; a new
link ends the old one first, so that nothing of the old one comes behind the first of the new one.
Within a link each lane keeps its order, nothing is doubled and nothing is left out.

A node without a link can be asked a question by its address alone (`ask`, `take_questions`), also
before this node is a member and has peers.

Limits: bytes that wait for a peer (`is_full`), connections that have not proven who they are, the
time they have for it, and silence, after which a link is given up. Beats go out on a timer; the
answers are passed to the user, who judges whether the peer is alive (`raft.detector`).
"""

import asyncio
import logging
import os
import time
from random import Random, SystemRandom
from typing import Any, Final, Protocol, cast

from node.cluster.peering.admission import Admission
from node.cluster.peering.asking import Answer, Questioner, Reception
from node.cluster.peering.cluster_secret import draw_id
from node.cluster.peering.dialer import Dialer
from node.cluster.peering.link_settings import LinkSettings
from node.cluster.peering.link_socket import LinkSocket
from node.cluster.peering.peer_record import Link, Peer, PeerStatus
from node.cluster.peering.refusal_log import RefusalLog
from node.supervision import Repeating
from node.tls.acceptor import Acceptor, Contexts, bound_socket
from node.tls.proxy_protocol import Forwarded
from warren.wire.peer.codes import (
    ACCEPTED,
    ASK_ROLE,
    CONTROL_LANE,
    CONTROL_ROLE,
    RAFT,
    UNKNOWN,
)
from warren.wire.peer.connection import PeerConnection
from warren.wire.peer.frames import Frame
from warren.wire.peer.handshake import ID_MAX, NONCE_BYTES, Claim, Handshake, Identity

log = logging.getLogger("warren.peers")

STALL_BEATS: Final = 3  # a timer that is late by so many says that this node stood still
BACKLOG: Final = 100
REPLACED: Final = "replaced by a new connection"
ANY_NODE: Final = ID_MAX  # ask the node at that address


class PeerUser(Protocol):
    """Who has the links. Called from the loop's callbacks; may send, and drop, in them."""

    def connected(self, member: int, incarnation: int) -> None:
        """A link stands; `incarnation` is that of the peer's data directory."""

    def lost(self, member: int, reason: str) -> None:
        """The link is gone, with all that was under way on it."""

    def unreachable(self, member: int, reason: str) -> None:
        """The peer was dialed and no link came of it; told once for each new reason."""

    def answered(self, member: int) -> None:
        """The peer has answered a beat: both directions work."""

    def received(self, member: int, lane: int, kind: int, payload: memoryview) -> None:
        """A batch, as it was sent. The view is good as long as it is held."""

    def drained(self, member: int) -> None:
        """There is room on the bulk connection again, half of it at least."""

    def conflict(self, member: int, text: str) -> None:
        """Two nodes claim to be this one, or it came with another data directory."""

    def ends_turn(self, socket: LinkSocket) -> bool:
        """Call its `end_turn` at the end of the turn; False: no turn is under way."""


class PeerLinks:
    """All links of this node.

    Invariant: each peer has at most one link, and no socket is of two links.
    """

    def __init__(
        self,
        identity: Identity,
        user: PeerUser,
        settings: LinkSettings | None = None,
        tls: Contexts | None = None,
        random: Random | None = None,
    ) -> None:
        """`tls` has the contexts of either side, each asked for it again; None: no TLS."""
        self.refusals = RefusalLog()
        self.dropped = 0  # batches that were sent and had nowhere to go
        self._identity = identity
        self._user = user
        self._settings = settings or LinkSettings()
        self._tls = tls
        self._random = random or SystemRandom()
        self._admission = Admission(identity, self._settings, user.conflict)
        self._peers = self._admission.peers
        self._reception = Reception()
        self._server: asyncio.Server | Acceptor | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._is_stopping = False
        self._beats = 0
        self._beat_ns = time.monotonic_ns()
        later = asyncio.get_running_loop().call_later
        seconds = self._settings.beat_interval_ms / 1000
        self._beating = Repeating("beats to peers", seconds, self._beat, later)

    # Its life

    async def listen(self, host: str, port: int) -> int:
        """Take connections of peers; the port. OSError if it cannot be had."""
        if self._tls is not None:
            timeout_s = self._settings.handshake_timeout_ms / 1000
            listening = bound_socket(host, port, BACKLOG)
            acceptor = Acceptor(listening, self._accepted, self._tls, timeout_s=timeout_s)
            acceptor.start()
            self._server = acceptor
            return acceptor.port
        loop = asyncio.get_running_loop()
        server = await loop.create_server(self._accepted, host, port)
        self._server = server
        sockets: Any = cast(Any, server).sockets  # uvloop has a list where asyncio has a tuple.
        return int(sockets[0].getsockname()[1])

    def become(self, member: int, cluster_id: bytes) -> None:
        """This node is that member of that cluster, from now on."""
        self._identity.node_id = member
        self._identity.cluster_id = cluster_id

    def given_below(self, member: int) -> None:
        """All ids below that have been given: who is no peer was removed."""
        self._admission.given_below = member

    def add_peer(self, member: int, host: str, port: int, incarnation: int = 0) -> None:
        """There is such a node. Its `incarnation`, if it is known; else the first one counts.

        Told again with another address, that one is dialed from then on.
        """
        assert member not in (0, self._identity.node_id)
        peer = self._peers.get(member)
        if peer is None:
            peer = Peer(member, host, port, incarnation)
            self._peers[member] = peer
        elif (peer.host, peer.port) == (host, port) and incarnation in (0, peer.incarnation):
            return
        else:
            peer.host = host
            peer.port = port
            peer.incarnation = incarnation or peer.incarnation
            self._stop_dialing(peer)
            self._end_link(peer, "its address or its data directory has changed")
        self._admission.forgotten.discard(member)
        if self._identity.node_id < member:
            self._dial(peer)

    def remove_peer(self, member: int) -> None:
        """There is no such node any more: its link ends, and it is not let in again."""
        peer = self._peers.pop(member, None)
        self._admission.forgotten.add(member)
        if peer is not None:
            self._stop_dialing(peer)
            self._end_link(peer, "the node was removed")

    async def close(self) -> None:
        """End everything; the user learns of the links that were there."""
        self._is_stopping = True
        self._beating.stop()
        if self._server is not None:
            self._server.close()
        for peer in list(self._peers.values()):
            self._stop_dialing(peer)
            self._end_link(peer, "this node stops")
        for stranger in list(self._admission.strangers):
            stranger.abort("this node stops")
        self._reception.close()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    # Sending

    def send(self, member: int, lane: int, parts: list[bytes], kind: int = RAFT) -> None:
        """As `offer`, for those who send again anyway."""
        self.offer(member, lane, parts, kind)

    def offer(self, member: int, lane: int, parts: list[bytes], kind: int) -> bool:
        """Send a batch; False where there is no link or no room: it is lost, and counted."""
        link = self._link(member)
        if link is not None:
            socket = link.control if lane == CONTROL_LANE else link.bulk
            if socket is not None and socket.send(kind, lane, parts):
                return True
        self.dropped += 1
        peer = self._peers.get(member)
        if peer is not None:
            peer.dropped += 1
        return False

    def is_full(self, member: int) -> bool:
        """Whether the bulk connection takes nothing now; so it is where there is no link."""
        link = self._link(member)
        return link is None or link.bulk is None or link.bulk.core.lanes.is_full()

    def is_connected(self, member: int) -> bool:
        return self._link(member) is not None

    def drop(self, member: int, reason: str) -> None:
        """End the link: what came over it made no sense."""
        peer = self._peers.get(member)
        if peer is not None:
            self._end_link(peer, reason)

    def version_of(self, member: int) -> int:
        """What both sides of the last link speak; 0: there was none."""
        peer = self._peers.get(member)
        return 0 if peer is None else peer.version

    def status(self, member: int) -> PeerStatus | None:
        """What there is to be told of a peer."""
        peer = self._peers.get(member)
        return peer.status() if peer is not None else None

    def _link(self, member: int) -> Link | None:
        peer = self._peers.get(member)
        link = peer.link if peer is not None else None
        return link if link is not None and link.is_up else None

    # Questions

    async def ask(self, host: str, port: int, question: bytes) -> bytes:
        """Ask the node at that address. AskFailed: there is no answer."""
        questioner = Questioner(question)
        socket = self._question_socket(questioner)
        return await questioner.ask(socket, (host, port), self._settings, self._tls)

    def take_questions(self, answer: Answer) -> None:
        """Questions of others are answered so."""
        self._reception.answer = answer

    def boot_of(self, member: int) -> int:
        """The process of the peer that was linked last; 0: none was."""
        peer = self._peers.get(member)
        return 0 if peer is None else peer.boot

    def incarnation_of(self, member: int) -> int:
        """The data directory of the peer; 0: not known."""
        peer = self._peers.get(member)
        return 0 if peer is None else peer.incarnation

    def hurry(self, member: int) -> None:
        """The peer has said that it is there: dial it now, if it is this node that dials."""
        peer = self._peers.get(member)
        if peer is not None and peer.dialer is not None and peer.link is None:
            peer.dialer.hurry()

    def is_superseded(self, member: int, boot: int) -> bool:
        """Whether another process has taken the place of that one."""
        peer = self._peers.get(member)
        return peer is not None and boot in peer.past_boots

    def _question_socket(self, questioner: Questioner) -> LinkSocket:
        handshake = Handshake(
            self._identity, os.urandom(NONCE_BYTES), ASK_ROLE, ANY_NODE, draw_id()
        )
        settings = self._settings
        core = PeerConnection(handshake, settings.peer_bytes_max, settings.message_bytes_max)
        timeout_ms = settings.handshake_timeout_ms
        return LinkSocket(questioner, core, ASK_ROLE, ANY_NODE, timeout_ms)

    # Dialing

    def _dial(self, peer: Peer) -> None:
        address = (peer.host, peer.port)
        peer.dialer = Dialer(self, peer.member, address, self._settings, self._tls, self._random)
        self._tasks.add(peer.dialer.task)
        peer.dialer.task.add_done_callback(self._dialed_out)

    def _dialed_out(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled():
            task.result()  # It only ends by a fault of ours, which the loop then tells.

    def _stop_dialing(self, peer: Peer) -> None:
        if peer.dialer is not None:
            peer.dialer.cancel()
            peer.dialer = None

    def draw_pair(self) -> int:
        return draw_id()

    def dialed(self, member: int, role: int, pair: int) -> LinkSocket:
        handshake = Handshake(self._identity, os.urandom(NONCE_BYTES), role, member, pair)
        return self._socket(handshake, role, member)

    def unreachable(self, member: int, reason: str) -> None:
        self._user.unreachable(member, reason)

    # Accepting

    def _accepted(self, forwarded: Forwarded | None = None) -> LinkSocket:
        return self._socket(Handshake(self._identity, os.urandom(NONCE_BYTES)), CONTROL_ROLE, 0)

    def _socket(self, handshake: Handshake, role: int, member: int) -> LinkSocket:
        settings = self._settings
        core = PeerConnection(handshake, settings.peer_bytes_max, settings.message_bytes_max)
        return LinkSocket(self, core, role, member, settings.handshake_timeout_ms)

    # What sockets tell

    def arrived(self, socket: LinkSocket) -> None:
        fault = "" if socket.is_dialer else self._admission.take_stranger(socket)
        if fault:
            socket.abort(fault)

    def judge(self, socket: LinkSocket, claim: Claim) -> int:
        if claim.role == ASK_ROLE:
            return ACCEPTED if self._reception.takes() else UNKNOWN
        return self._admission.judge(claim, socket.is_dialer)

    def opened(self, socket: LinkSocket) -> None:
        claim = socket.core.claim()
        self._admission.strangers.pop(socket, None)
        if claim.role == ASK_ROLE:
            self._reception.opened(socket)
            return
        peer = self._peers[claim.node_id]
        socket.member = peer.member
        if claim.role == CONTROL_ROLE:
            self._end_link(peer, REPLACED)
            if self._peers.get(peer.member) is not peer:
                socket.abort("the node was removed")  # By the user, when told of the old link.
                return
            peer.take_claim(claim)
            peer.version = socket.core.version()
            peer.link = Link(claim.pair, socket, time.monotonic_ns())
            if socket.is_dialer:
                socket.hold()  # It has both connections before we do, and may send at once.
            return
        link = peer.link
        assert link is not None
        link.bulk = socket
        link.is_up = True
        peer.connects += 1
        host = f"{peer.host}:{peer.port}" if socket.is_dialer else socket.host
        log.info("peer link to node %d (%s) is up", peer.member, host)
        self._user.connected(peer.member, claim.incarnation)
        if link.control.is_dialer:
            link.control.go_on()

    def received(self, socket: LinkSocket, frame: Frame) -> None:
        if socket.role == ASK_ROLE:
            self._reception.received(socket, frame)
            return
        peer = self._peers.get(socket.member)
        if peer is None or peer.link is None or not peer.link.is_up:
            socket.abort("a message before the link was up")
            return
        self._user.received(socket.member, frame.lane, frame.kind, frame.payload)

    def answered(self, socket: LinkSocket) -> None:
        peer = self._peers.get(socket.member)
        if peer is not None and peer.link is not None and peer.link.control is socket:
            self._user.answered(socket.member)

    def ends_turn(self, socket: LinkSocket) -> bool:
        return self._user.ends_turn(socket)

    def drained(self, socket: LinkSocket) -> None:
        peer = self._peers.get(socket.member)
        if peer is not None and peer.link is not None and peer.link.bulk is socket:
            self._user.drained(socket.member)

    def ended(self, socket: LinkSocket, reason: str) -> None:
        if socket in self._reception:
            self._reception.ended(socket)
            return
        if not socket.is_dialer and (socket.member == 0 or socket in self._admission.strangers):
            self._admission.strangers.pop(socket, None)
            self.refusals.tell(socket.host, reason, time.monotonic_ns() // 1_000_000)
            return
        peer = self._peers.get(socket.member)
        link = peer.link if peer is not None else None
        if peer is not None and link is not None and socket in (link.control, link.bulk):
            self._end_link(peer, reason)

    def _end_link(self, peer: Peer, reason: str) -> None:
        """Both connections end, at once; then the user learns, if it knew of the link."""
        link = peer.link
        if link is None:
            return
        peer.link = None
        peer.count(link)
        link.control.abort(reason)
        if link.bulk is not None:
            link.bulk.abort(reason)
        if link.is_up:
            peer.losses += 1
            peer.last_error = reason
            level = logging.INFO if self._is_stopping else logging.WARNING
            log.log(level, "peer link to node %d is lost: %s", peer.member, reason)
            self._user.lost(peer.member, reason)

    # Beats

    def _beat(self) -> None:
        """Send beats to all peers, and drop links that were silent for long."""
        now_ns = time.monotonic_ns()
        interval_ns = self._settings.beat_interval_ms * 1_000_000
        stood_still = now_ns - self._beat_ns > STALL_BEATS * interval_ns
        self._beat_ns = now_ns
        self._beats += 1
        beats_bulk = self._beats % self._settings.bulk_beats_apart() == 0
        for peer in list(self._peers.values()):
            link = peer.link
            if link is not None and link.is_up:
                self._beat_link(peer, link, now_ns, beats_bulk, stood_still)
            elif link is not None and now_ns - link.began_ns > self._settings.pairing_ns():
                self._end_link(peer, "its bulk connection did not come")

    def _beat_link(
        self, peer: Peer, link: Link, now_ns: int, beats_bulk: bool, stood_still: bool
    ) -> None:
        silence_ns = self._settings.silence_ms * 1_000_000
        bulk = link.bulk
        assert bulk is not None
        for socket in (link.control, bulk):
            if stood_still:
                socket.heard_ns = now_ns  # It may have spoken; this node was not running.
            elif now_ns - socket.heard_ns > silence_ns:
                self._end_link(peer, f"silent for {self._settings.silence_ms} ms")
                return
        link.control.beat(now_ns)
        if beats_bulk and link.is_up and not bulk.is_gone:
            bulk.beat(now_ns)

"""One TCP connection of a peer link, dialed or accepted: the socket and its core.

Takes the loop's callbacks, gives its owner what the core makes of them, and writes what the core
has, as fast as the socket takes it and at most `PUMP_BYTES_MAX` in one go. Owns the transport and
the deadline of the handshake. It ends exactly once (`SocketOwner.ended`), and it reports nothing
behind that, whatever the socket still had.

What is sent during a turn of the node's loop is written once, at its end: each write costs both
nodes a call of the kernel, and the other one a wake and a turn. Only AT_ONCE_BYTES go earlier, so
that the other node works at the same time. Compiled.
"""

import asyncio
import socket
import time
from collections.abc import Iterable
from typing import Final, Protocol, cast

from warren.wire.peer.codes import ACCEPTED, refusal_text
from warren.wire.peer.connection import Answered, Event, Failed, PeerConnection, Proven
from warren.wire.peer.frames import Frame
from warren.wire.peer.handshake import Claim

AT_ONCE_BYTES: Final = 16 * 1024  # that wait: they are written before the end of the turn
JOINED_BYTES: Final = 4 * 1024  # in one write: a copy costs less than a call with many parts
WRITE_BYTES: Final = 256 * 1024  # in one write
PUMP_BYTES_MAX: Final = 1024 * 1024  # written in one callback; then others have their turn
WRITE_HIGH_BYTES: Final = 256 * 1024  # in the transport: more waits in the lanes
WRITE_LOW_BYTES: Final = 64 * 1024
NOTSENT_LOWAT_BYTES: Final = 256 * 1024  # in the kernel, not sent: as well


class SocketOwner(Protocol):
    """Who has the socket."""

    def arrived(self, socket: "LinkSocket") -> None:
        """It is connected."""

    def judge(self, socket: "LinkSocket", claim: Claim) -> int:
        """The other side has proven this: ACCEPTED, or why not."""

    def opened(self, socket: "LinkSocket") -> None:
        """Both sides have accepted each other."""

    def received(self, socket: "LinkSocket", frame: Frame) -> None: ...

    def answered(self, socket: "LinkSocket") -> None:
        """A beat came back."""

    def drained(self, socket: "LinkSocket") -> None:
        """There is room again where there was none."""

    def ends_turn(self, socket: "LinkSocket") -> bool:
        """Call its `end_turn` at the end of the turn; False: no turn is under way."""

    def ended(self, socket: "LinkSocket", reason: str) -> None:
        """Nothing comes from it any more."""


class LinkSocket(asyncio.Protocol):
    """See the module. `member` was dialed, or has been let in; 0: a stranger."""

    def __init__(
        self, owner: SocketOwner, core: PeerConnection, role: int, member: int, timeout_ms: int
    ) -> None:
        loop = asyncio.get_running_loop()
        self.core = core
        self.role = role  # of an accepted one: as its claim says, once that is proven
        self.member = member
        self.is_dialer = member != 0
        self.host = ""
        self.heard_ns = time.monotonic_ns()
        self.bytes_sent = 0
        self.bytes_received = 0
        self.is_gone = False
        self.opening: asyncio.Future[str] = loop.create_future()  # '' or why it did not open
        self.ending: asyncio.Future[str] = loop.create_future()  # why it ended
        self._owner = owner
        self._loop = loop
        self._timeout_ms = timeout_ms
        self._deadline: asyncio.TimerHandle | None = None
        self._transport: asyncio.Transport | None = None
        self._is_full = False  # the transport is
        self._is_pump_planned = False
        self._ends_turn = False  # of the turn that is under way
        self._was_full = False  # the lanes were, and the sender was notified

    # The loop's side

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        if self.is_gone:  # Given up while it was being made.
            self._transport.abort()
            return
        self._transport.set_write_buffer_limits(WRITE_HIGH_BYTES, WRITE_LOW_BYTES)
        name = transport.get_extra_info("peername")
        self.host = str(name[0]) if isinstance(name, tuple) else "unknown"
        plain = transport.get_extra_info("socket")
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if hasattr(socket, "TCP_NOTSENT_LOWAT"):
            plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT, NOTSENT_LOWAT_BYTES)
        self._deadline = self._loop.call_later(self._timeout_ms / 1000, self._late)
        self._owner.arrived(self)
        self.pump()

    def data_received(self, data: bytes) -> None:
        if self.is_gone:
            return
        now_ns = time.monotonic_ns()
        self.heard_ns = now_ns
        self.bytes_received += len(data)
        core = self.core
        self._handle_all(core.receive(data, now_ns))
        if core.pop_urgent():
            self.pump()

    def eof_received(self) -> bool:
        self._end("it closed the connection")
        return False

    def connection_lost(self, error: Exception | None) -> None:
        self._end(f"the connection was lost: {error}" if error else "the connection was closed")

    def pause_writing(self) -> None:
        self._is_full = True

    def resume_writing(self) -> None:
        self._is_full = False
        self.pump()

    # The owner's side

    def send(self, kind: int, lane: int, parts: list[bytes]) -> bool:
        """Send, or say that there is no room."""
        lanes = self.core.lanes
        if not self.core.send(kind, lane, parts):
            self._was_full = True
            return False
        self._was_full = self._was_full or lanes.is_full()
        if lanes.queued_bytes >= AT_ONCE_BYTES:
            self.pump()
        elif not self._ends_turn:
            self._ends_turn = self._owner.ends_turn(self)
            if not self._ends_turn:
                self.pump()
        return True

    def beat(self, now_ns: int) -> None:
        self.core.beat(now_ns)
        self.pump()

    def hold(self) -> None:
        """Read nothing for now."""
        assert self._transport is not None
        self._transport.pause_reading()

    def go_on(self) -> None:
        """Read again."""
        if self._transport is not None and not self.is_gone:
            self._transport.resume_reading()

    def end_turn(self) -> None:
        """Write what the turn has sent."""
        self._ends_turn = False
        self.pump()

    def pump(self) -> None:
        """Write what there is to write, as far as the socket takes it."""
        transport = self._transport
        lanes = self.core.lanes
        written = 0
        while transport is not None and not (self.is_gone or self._is_full or lanes.is_empty()):
            if written >= PUMP_BYTES_MAX:
                self._plan_pump()
                break
            parts = lanes.take(WRITE_BYTES)
            if lanes.taken_bytes <= JOINED_BYTES:
                transport.write(b"".join(parts))
            else:
                transport.writelines(cast(Iterable[bytes], parts))
            written += lanes.taken_bytes
        self.bytes_sent += written
        if self._was_full and written and 2 * lanes.queued_bytes <= lanes.bytes_max:
            self._was_full = False
            self._owner.drained(self)

    def abort(self, reason: str) -> None:
        """End it at once; what waits is lost, but not what the turn has sent before."""
        if self._ends_turn:
            self.end_turn()
        self._end(reason)
        if self._transport is not None:
            self._transport.abort()

    # What the core says

    def _handle_all(self, events: list[Event]) -> None:
        for event in events:
            if self.is_gone:
                return
            self._handle(event)

    def _handle(self, event: Event) -> None:
        if isinstance(event, Frame):
            self._owner.received(self, event)
        elif isinstance(event, Answered):
            self._owner.answered(self)
        elif isinstance(event, Proven):
            self._proven(event.claim)
        else:
            self._failed(event)

    def _proven(self, claim: Claim) -> None:
        self.role = claim.role
        code = self._owner.judge(self, claim)
        if self.is_gone:
            return
        if code != ACCEPTED:
            self.core.refuse(code)
            self._close(f"node {claim.node_id} was refused: {refusal_text(code)}")
            return
        self.core.accept()
        self._cancel_deadline()
        self.pump()
        self._owner.opened(self)
        if self.is_gone:
            return
        if not self.opening.done():
            self.opening.set_result("")
        self._handle_all(self.core.receive(b"", self.heard_ns))

    def _failed(self, event: Failed) -> None:
        if self.opening.done():
            self.abort(event.text)
        else:
            self._close(event.text)

    def _close(self, reason: str) -> None:
        """End it, but let the other side read why."""
        self.pump()
        self._end(reason)
        if self._transport is not None:
            self._transport.close()

    def _end(self, reason: str) -> None:
        if self.is_gone:
            return
        self.is_gone = True
        self._cancel_deadline()
        if not self.opening.done():
            self.opening.set_result(reason)
        if not self.ending.done():  # The waiting task may have been cancelled.
            self.ending.set_result(reason)
        self._owner.ended(self, reason)

    # Time

    def _late(self) -> None:
        self.abort(f"nothing was proven within {self._timeout_ms} ms")

    def _cancel_deadline(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _plan_pump(self) -> None:
        if not self._is_pump_planned:
            self._is_pump_planned = True
            self._loop.call_soon(self._pump_later)

    def _pump_later(self) -> None:
        self._is_pump_planned = False
        self.pump()

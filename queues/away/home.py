"""The home's end of queues that are used from other nodes (0036).

A `Visitor` stands at the queue's host for a session that is on another node: the host sees a
`SessionSink` like any other, and what it tells that goes back as items. Bodies follow the
deliveries that name them, as far as the window goes that the proxy opens (`TAKEN`); those that are
on disk are waited for. Publishes are granted to the proxy again as the host takes them, so that
its internal flow control reaches the sessions of other nodes.

`Visitors` has those of one other node. When that is gone, all their sessions end. Compiled.
"""

from collections import deque
from collections.abc import Callable
from typing import Final, final

from mypy_extensions import i64

from queues.away.items import (
    ACTIVATED,
    ATTACH_REFUSED,
    ATTACHED,
    BODIES,
    COMMAND,
    CONFIRMS,
    COUNTED,
    DELIVERS,
    DETACHED,
    DRAINED,
    GONE,
    GOT,
    GOT_BODY,
    GRANTED,
    INSPECTED,
    PUBLISH,
    PURGED,
    REFUSED,
    TAKEN,
    TIMED_OUT,
    UNREADABLE,
    BadItem,
    Item,
    put_numbers,
    put_run,
    take_items,
)
from queues.away.seam import PART_BYTES, WINDOW_BYTES, EndOfTurn, Send
from queues.commands import (
    ATTACH,
    CREDIT,
    DETACH,
    END_SESSION,
    GET,
    INSPECT,
    PURGE,
    SETTLE,
    BadCommand,
    EndSession,
    SessionId,
    Settle,
    decode,
)
from queues.credit import CreditActor, CreditSpec
from queues.host import QueueHost
from queues.message import Chunk
from queues.seqset import SeqSet

FindHost = Callable[[int], QueueHost | None]
VISITOR_CREDIT: Final = CreditSpec(400, 200)
OF_SESSIONS: Final = frozenset(
    (SETTLE, ATTACH, CREDIT, DETACH, GET, PURGE, INSPECT, END_SESSION)
)  # ENQUEUE comes as PUBLISH, with its messages; the others are the home's own


@final
class Promised:
    """Messages that consumer `number` got by name, and whose bodies are still to be sent."""

    __slots__ = ("count", "first", "number")

    def __init__(self, number: i64, first: i64, count: i64) -> None:
        self.number: i64 = number
        self.first: i64 = first
        self.count: i64 = count


@final
class Visitor:
    """A session of another node, at one queue."""

    def __init__(self, session: SessionId, host: QueueHost, visitors: "Visitors") -> None:
        self.host = host
        self._session = session
        self._visitors = visitors
        self._credit = CreditActor("visitor", VISITOR_CREDIT, self.grant)
        self._to_grant: i64 = 0  # publishes handed to the host, and not granted again
        self._promised: deque[Promised] = deque()
        self._room: i64 = WINDOW_BYTES  # what may be sent before the proxy has taken some
        self._got: tuple[int, int, int, int] | None = None  # an answer whose body is being read

    @property
    def session(self) -> SessionId:
        return self._session

    @property
    def credit(self) -> CreditActor:
        return self._credit

    # From the proxy

    def publish(self, chunk: Chunk, first_seq: i64) -> None:
        self._to_grant += chunk.count()
        self.host.publish(self, chunk, first_seq)

    def command(self, data: bytes) -> bool:
        """Hand a command down; whether it was the session's last. BadCommand."""
        command = decode(data)
        if command.kind not in OF_SESSIONS:
            raise BadCommand(f"a command of kind {command.kind}, which no session gives")
        if isinstance(command, Settle):
            self._forget(command.runs)
        self.host.command(self, command)
        return isinstance(command, EndSession)

    def taken(self, byte_count: i64) -> None:
        """So many bytes of bodies were looked at."""
        self._room += byte_count
        self.pump()

    def end(self) -> None:
        """The session's node is gone."""
        self._promised.clear()
        self._got = None
        self.host.command(self, EndSession(self._session))

    def grant(self) -> None:
        """Let the proxy's sessions publish as much again as was taken, if the host has room."""
        if self._to_grant > 0 and not self._credit.is_blocked():
            granted = self._to_grant
            self._to_grant = 0
            self._tell(GRANTED, granted)

    def _forget(self, runs: list[tuple[int, int]]) -> None:
        """These are settled: whoever did that does not want their bodies."""
        if len(self._promised) == 0:
            return
        settled = SeqSet()
        for first, count in runs:
            settled.add(first, count)
        left: deque[Promised] = deque()
        for promised in self._promised:
            at = promised.first
            for first, count in sorted(settled.within(promised.first, promised.count)):
                if first > at:
                    left.append(Promised(promised.number, at, first - at))
                at = first + count
            end = promised.first + promised.count
            if end > at:
                left.append(Promised(promised.number, at, end - at))
        self._promised = left

    def pump(self) -> None:
        """Send bodies while there is room, at least one message whenever nothing is under way."""
        while len(self._promised) > 0 and self._room > 0:
            head = self._promised[0]
            view = self.host.view(self, head.first, head.count)
            if view is None:
                return  # `on_loaded` goes on.
            chunk, index = view.chunk, view.index
            count = within(chunk, index, view.count, self._room)
            run = put_run(BODIES, self.host.uid, self._session, head.first, chunk, index, count)
            self._visitors.put(run)
            self._room -= chunk.bytes_between(index, index + count)
            if count == head.count:
                self._promised.popleft()
            else:
                head.first += count
                head.count -= count

    # From the host (SessionSink)

    def on_confirms(self, uid: int, upto_seq: int) -> None:
        self._tell(CONFIRMS, upto_seq)

    def on_refused(self, uid: int, first_seq: int, count: int) -> None:
        self._tell(REFUSED, first_seq, count)

    def on_delivers(
        self,
        uid: int,
        number: int,
        delivery_seq: int,
        first: int,
        count: int,
        redelivered: bool,
        attempts: int,
    ) -> None:
        self._tell(DELIVERS, number, delivery_seq, first, count, int(redelivered), attempts)
        self._promised.append(Promised(number, first, count))
        self._visitors.want_pump(self)

    def on_got(self, uid: int, message: int, redelivered: bool, ready: int, attempts: int) -> None:
        if message == 0:
            self._tell(GOT, 0, 0, ready, 0)
            return
        self._got = (message, int(redelivered), ready, attempts)
        self._answer_get()

    def _answer_get(self) -> None:
        got = self._got
        if got is None:
            return
        message, redelivered, ready, attempts = got
        view = self.host.view(self, message, 1)
        if view is None:
            return
        self._got = None
        uid = self.host.uid
        body = put_run(GOT_BODY, uid, self._session, message, view.chunk, view.index, 1)
        self._visitors.put(body)
        self._tell(GOT, message, redelivered, ready, attempts)

    def on_attached(self, uid: int, number: int) -> None:
        self._tell(ATTACHED, number)

    def on_attach_refused(self, uid: int, number: int) -> None:
        self._tell(ATTACH_REFUSED, number)

    def on_detached(self, uid: int, number: int, goes: bool) -> None:
        self._tell(DETACHED, number, int(goes))

    def on_activated(self, uid: int, number: int, active: bool) -> None:
        self._tell(ACTIVATED, number, int(active))

    def on_timed_out(self, uid: int, number: int, timeout_ms: int) -> None:
        left = [each for each in self._promised if each.number != number]
        self._promised = deque(left)
        self._tell(TIMED_OUT, number, timeout_ms)

    def on_drained(self, uid: int, number: int, delivery_count: int) -> None:
        self._tell(DRAINED, number, delivery_count)

    def on_purged(self, uid: int, count: int) -> None:
        self._tell(PURGED, count)

    def on_inspected(self, uid: int, ready: int, consumer_count: int) -> None:
        self._tell(INSPECTED, ready, consumer_count)

    def on_loaded(self, uid: int) -> None:
        self._answer_get()
        self.pump()

    def on_unreadable(self, uid: int) -> None:
        self._tell(UNREADABLE)

    def on_gone(self, uid: int) -> None:
        self._promised.clear()
        self._got = None
        self._tell(GONE)
        self._visitors.leave(self)

    def _tell(self, kind: int, *numbers: int) -> None:
        self._visitors.put([put_numbers(kind, self.host.uid, self._session, *numbers)])


def within(chunk: Chunk, index: i64, count: i64, room: i64) -> i64:
    """How many of the messages index.. fit into `room` bytes; at least one."""
    fit: i64 = 1
    while fit < count and chunk.bytes_between(index, index + fit + 1) <= room:
        fit += 1
    return fit


@final
class Visitors:
    """All sessions of one other node that use queues of this one."""

    def __init__(self, find: FindHost, send: Send, turn: EndOfTurn) -> None:
        self._find = find
        self._send = send
        self._turn = turn
        self._visitors: dict[tuple[int, SessionId], Visitor] = {}
        self._pumping: list[Visitor] = []
        self._publishing: list[Visitor] = []
        self._parts: list[bytes] = []
        self._bytes: i64 = 0
        self._counts: dict[int, tuple[int, int, int]] = {}  # as they were told last
        self._marked = False

    @property
    def count(self) -> int:
        return len(self._visitors)

    def received(self, data: bytes) -> None:
        """A message of the stream. BadItem: the peer is wrong, or of another version."""
        for item in take_items(data):
            visitor = self._visitor(item)
            if visitor is None:
                self.put([put_numbers(GONE, item.uid, item.session)])
            else:
                self._hand_down(visitor, item)

    def _visitor(self, item: Item) -> Visitor | None:
        """Of that session at that queue; None if there is no such queue."""
        key = (int(item.uid), item.session)
        visitor = self._visitors.get(key)
        if visitor is None:
            host = self._find(item.uid)
            if host is None:
                return None
            visitor = Visitor(item.session, host, self)
            self._visitors[key] = visitor
        return visitor

    def _hand_down(self, visitor: Visitor, item: Item) -> None:
        if item.kind == PUBLISH:
            assert item.chunk is not None
            visitor.publish(item.chunk, item.first)
            self._publishing.append(visitor)
            self._mark()
        elif item.kind == TAKEN:
            visitor.taken(item.numbers[0])
        elif item.kind == COMMAND:
            try:
                is_last = visitor.command(item.command)
            except BadCommand as error:
                raise BadItem(str(error)) from None
            if is_last:
                self.leave(visitor)
        else:
            raise BadItem(f"an item of kind {item.kind} for a home")

    def leave(self, visitor: Visitor) -> None:
        """Its session is over, or its queue."""
        self._visitors.pop((visitor.host.uid, visitor.session), None)

    def want_pump(self, visitor: Visitor) -> None:
        """It has bodies to send: behind all that this turn tells it."""
        self._pumping.append(visitor)
        self._mark()

    def put(self, parts: list[bytes]) -> None:
        """To be sent at the end of the turn, or now if much has come together."""
        self._mark()
        self._parts.extend(parts)
        for part in parts:
            self._bytes += len(part)
        if self._bytes >= PART_BYTES:
            self._flush()

    def _mark(self) -> None:
        if not self._marked:
            self._marked = True
            self._turn.mark_away(self)

    def end_turn(self) -> None:
        """Send what the turn has brought; the hosts were stepped."""
        pumping = self._pumping
        self._pumping = []
        for visitor in pumping:
            visitor.pump()
        publishing = self._publishing
        self._publishing = []
        for visitor in publishing:
            visitor.grant()
        self._flush()
        self._marked = False

    def _flush(self) -> None:
        if len(self._parts) > 0:
            parts = self._parts
            self._parts = []
            self._bytes = 0
            self._send(parts)

    def tell_counts(self) -> None:
        """Once in a while: how the queues stand that are used from there."""
        seen: dict[int, tuple[int, int, int]] = {}
        for visitor in self._visitors.values():
            host = visitor.host
            if host.uid not in seen:
                counts = (host.ready_count, host.checked_out_count, host.consumer_count)
                seen[host.uid] = counts
                if self._counts.get(host.uid) != counts:
                    self.put([put_numbers(COUNTED, host.uid, SessionId(0), *counts)])
        self._counts = seen

    def peer_lost(self) -> None:
        """The node is gone: what its sessions held is ready again."""
        visitors = list(self._visitors.values())
        self._visitors = {}
        self._pumping = []
        self._publishing = []
        self._parts = []
        self._bytes = 0
        for visitor in visitors:
            visitor.end()

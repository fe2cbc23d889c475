"""The home's end of queues that are used from other nodes (0036).

A `SessionStub` stands at the queue's host for a session that is on another node: the host sees a
`SessionSink` like any other, and what it tells that goes back as items. Bodies follow the
deliveries that name them, as far as the window goes that the proxy opens (`TAKEN`); those that are
on disk are waited for. Publishes are granted to the proxy again as the host takes them, so that
its internal flow control reaches the sessions of other nodes.

`SessionStubs` has those of one other node. When that is gone, all their sessions end. At a quorum
queue, whose leader is here for a while, they only leave (0036): the cluster ends sessions, by a
command, and until then they may resume here or elsewhere. Compiled.
"""

from collections import deque
from collections.abc import Callable
from typing import Final, final

from mypy_extensions import i64

from queues.hosts.effect_dispatch import tell_resumed
from queues.machine.commands import (
    ENQUEUE,
    OF_SESSIONS,
    BadCommand,
    Command,
    EndSession,
    Enqueue,
    Numbered,
    SessionId,
    Settle,
    decode,
    session_named,
)
from queues.message import Chunk
from queues.queue_host import QueueHost, View
from queues.remote.items import (
    ACTIVATED,
    APPLIED,
    ATTACH_REFUSED,
    ATTACHED,
    BODIES,
    COMMAND,
    CONFIRMS,
    CONFIRMS_HELD,
    COUNTED,
    DELIVERS,
    DETACHED,
    DRAINED,
    GONE,
    GOT,
    GOT_BODY,
    GRANTED,
    INSPECT,
    INSPECT_OK,
    INSPECTED,
    MOVE,
    NOT_LEADER,
    NUMBERED,
    PUBLISH,
    PURGED,
    REFUSED,
    RELEASED,
    RESEND,
    RESUME,
    RESUMED,
    TAKEN,
    TIMED_OUT,
    UNREADABLE,
    BadItem,
    Buffer,
    Item,
    put_moved,
    put_numbers,
    put_run,
    resume_in,
    take_items,
)
from queues.remote.moving import Mirrored, Moved, Movers, NoMovers
from queues.remote.remote_interfaces import (
    PART_BYTES,
    WINDOW_BYTES,
    EndOfTurn,
    FindEnd,
    HomeEnd,
    Send,
)
from queues.runs.seqset import SeqSet
from queues.sessions.credit import CreditActor, CreditSpec

FindHost = Callable[[int], QueueHost | None]
VISITOR_CREDIT: Final = CreditSpec(400, 200)
MOVES_A_TURN: Final = 512  # sessions that are looked at, whether they can be handed over
AS_COMMANDS: Final = OF_SESSIONS - {ENQUEUE}  # that comes as PUBLISH, with its messages


@final
class Promised:
    """Messages that consumer `number` got by name, and whose bodies are still to be sent."""

    __slots__ = ("count", "delivery_seq", "first", "number")

    def __init__(self, number: i64, delivery_seq: i64, first: i64, count: i64) -> None:
        self.number: i64 = number
        self.delivery_seq: i64 = delivery_seq
        self.first: i64 = first
        self.count: i64 = count


@final
class SessionStub:
    """A session of another node, at one queue: at its home, or at the end of its leader."""

    def __init__(
        self,
        session: SessionId,
        uid: i64,
        host: QueueHost | None,
        end: HomeEnd | None,
        stubs: "SessionStubs",
    ) -> None:
        self.uid: i64 = uid
        self._host = host
        self._end = end
        self._term: i64 = 0  # of the leader that it speaks to
        self._attempt: i64 = 0  # of the proxy to resume here
        self._last: i64 = 0  # the number of its EndSession
        self._session = session
        self._stubs = stubs
        self._credit = CreditActor("remote session", VISITOR_CREDIT, self.grant)
        self._to_grant: i64 = 0  # publishes handed to the host, and not granted again
        self._is_holding = False  # publishes of a quorum queue were confirmed, without credit
        self._promised: deque[Promised] = deque()
        self._room: i64 = WINDOW_BYTES  # what may be sent before the proxy has taken some
        self._got: tuple[int, int, int, int] | None = None  # an answer whose body is being read
        self.is_over = False  # the node was lost: another session may have this number now

    @property
    def session(self) -> SessionId:
        return self._session

    @property
    def credit(self) -> CreditActor:
        return self._credit

    @property
    def has_numbers(self) -> bool:
        """Whether the session numbers its commands."""
        return self._host is None

    def use(self, host: QueueHost) -> None:
        """The queue gets mirrors: its leader may come to be another node."""
        if self._end is None:
            self._host = host

    def moved(self, host: Mirrored) -> Moved | None:
        """What the session takes along to go on by itself; None: it cannot yet."""
        if self._got is not None:
            return None
        moved = host.hand_over(self._session)
        if moved is not None:
            for promised in self._promised:
                moved.wanted.setdefault(int(promised.number), int(promised.delivery_seq))
        return moved

    # From the proxy

    def publish(self, chunk: Chunk, first_seq: i64) -> None:
        host = self._host
        assert host is not None
        self._to_grant += chunk.count()
        host.publish(self, chunk, first_seq)

    def command(self, data: bytes) -> bool:
        """Hand a command down; whether it was the session's last. BadCommand."""
        host = self._host
        assert host is not None
        command = self._decoded(data)
        host.command(self, command)
        return isinstance(command, EndSession)

    def _decoded(self, data: bytes) -> Command:
        command = decode(data)
        if command.kind not in AS_COMMANDS:
            raise BadCommand(f"a command of kind {command.kind}, which no session gives")
        if isinstance(command, Settle):
            self._forget(command.runs)
            if len(self._promised) > 0:
                self._stubs.want_pump(self)
        return command

    # From the proxy of a queue whose leader may change

    def numbered(self, item: Item, term: int, number: int, confirmed: int) -> bool:
        """A command of the stream; whether this node leads and has taken it. BadCommand."""
        end = self._end
        if end is None or end.term != term:
            return False
        self._term = term
        command: Command
        if item.kind == PUBLISH:
            assert item.chunk is not None
            command = Enqueue(self._session, item.first, item.chunk.count())
        else:
            command = self._decoded(item.command)
        if number < 1 or confirmed < 0 or session_named(command) != self._session:
            raise BadCommand(f"command {number} of a stream of others")
        if isinstance(command, EndSession):
            self._last = number
        return end.hand_down(self, Numbered(self._session, number, confirmed, command), item.chunk)

    def resume(self, item: Item) -> bool:
        """The proxy asks how the session stands; whether this node leads and has said so."""
        term, attempt, wanted = resume_in(item)
        end = self._end
        if end is None or end.term != term:
            return False
        self._term = term
        self._attempt = attempt
        self._promised.clear()
        self._got = None
        self._room = WINDOW_BYTES
        resumed = end.resume(self, wanted)
        if resumed is None:
            return False
        tell_resumed(self, int(self.uid), term, resumed)
        return True

    def inspect(self, term: int) -> bool:
        """The proxy asks for the counts of the queue; whether this node leads and answers."""
        end = self._end
        return end is not None and end.term == term and end.inspect(self)

    def taken(self, byte_count: i64) -> None:
        """So many bytes of bodies were looked at."""
        self._room += byte_count
        self.pump()

    def end(self, is_cut_off: bool = False) -> None:
        """The session's node is gone, or what was under way to it and from it. `is_cut_off`: it
        could not be reached for too long."""
        self.is_over = True
        self._promised.clear()
        self._got = None
        if self._host is not None:
            self._host.command(self, EndSession(self._session, is_cut_off))
        if self._end is not None:
            self._end.forget_sink(self._session, self, is_cut_off)
        self._credit.peer_down_everywhere()

    def grant(self) -> None:
        """Let the proxy's sessions publish as much again as was taken, if the host has room."""
        if self._credit.is_blocked():
            return
        if self._is_holding:
            self._is_holding = False
            self._tell(RELEASED)
        if self._to_grant > 0:
            granted = self._to_grant
            self._to_grant = 0
            self._tell(GRANTED, granted)

    def _forget(self, runs: list[tuple[int, int]]) -> None:
        """These are settled: their session does not want their bodies."""
        if len(self._promised) == 0:
            return
        settled = SeqSet()
        for first, count in runs:
            settled.add(first, count)
        left: deque[Promised] = deque()
        for promised in self._promised:
            at = promised.first
            ahead = promised.delivery_seq - promised.first
            for first, count in sorted(settled.within(promised.first, promised.count)):
                if first > at:
                    left.append(Promised(promised.number, at + ahead, at, first - at))
                at = first + count
            end = promised.first + promised.count
            if end > at:
                left.append(Promised(promised.number, at + ahead, at, end - at))
        self._promised = left

    def pump(self) -> None:
        """Send bodies while there is room, at least one message whenever nothing is under way."""
        while len(self._promised) > 0 and self._room > 0:
            head = self._promised[0]
            view = self._view(head.first, head.count)
            if view is None:
                return  # `on_loaded` goes on.
            chunk, index = view.chunk, view.index
            count = within(chunk, index, view.count, self._room)
            run = put_run(BODIES, int(self.uid), self._session, head.first, chunk, index, count)
            self._stubs.put(run)
            self._room -= chunk.bytes_between(index, index + count)
            if count == head.count:
                self._promised.popleft()
            else:
                head.first += count
                head.delivery_seq += count
                head.count -= count

    def _view(self, first: i64, count: i64) -> View | None:
        if self._end is not None:
            return self._end.view(self, first, count)
        assert self._host is not None
        return self._host.view(self, first, count)

    def counts(self) -> tuple[int, int, int]:
        """How the queue stands."""
        if self._end is not None:
            end = self._end
            return end.ready_count, end.checked_out_count, end.consumer_count
        host = self._host
        assert host is not None
        return host.ready_count, host.checked_out_count, host.consumer_count

    # From the leader's end (StreamSink)

    def on_resumed(self, uid: int, term: int, number: int) -> None:
        self._tell(RESUMED, term, self._attempt, number)

    def on_applied(self, uid: int, number: int) -> None:
        self._tell(APPLIED, number)
        if 0 < self._last <= number:
            self._stubs.leave(self)

    def on_resend(self, uid: int) -> None:
        self._tell(RESEND)

    def on_inspect_ok(self, uid: int, ready: int, consumer_count: int) -> None:
        self._tell(INSPECT_OK, ready, consumer_count)
        if self._term == 0 and not self.is_over:
            self._stubs.leave(self)  # The session has done nothing else here.

    def on_leader_lost(self, uid: int) -> None:
        self._promised.clear()
        self._got = None
        self._tell(NOT_LEADER, self._term)
        self._stubs.leave(self)

    # From both (SessionSink)

    def on_confirms(self, uid: int, upto_seq: int) -> None:
        if self._end is None or not self._credit.is_blocked():
            self._tell(CONFIRMS, upto_seq)
        else:
            self._is_holding = True
            self._tell(CONFIRMS_HELD, upto_seq)

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
        self._promised.append(Promised(number, delivery_seq, first, count))
        self._stubs.want_pump(self)

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
        view = self._view(message, 1)
        if view is None:
            return
        self._got = None
        body = put_run(GOT_BODY, int(self.uid), self._session, message, view.chunk, view.index, 1)
        self._stubs.put(body)
        self._tell(GOT, message, redelivered, ready, attempts)

    def on_attached(self, uid: int, number: int) -> None:
        self._stubs.tell_count(self)
        self._tell(ATTACHED, number)

    def on_attach_refused(self, uid: int, number: int, reason: int) -> None:
        self._tell(ATTACH_REFUSED, number, reason)

    def on_detached(self, uid: int, number: int, goes: bool) -> None:
        self._tell(DETACHED, number, int(goes))

    def on_activated(self, uid: int, number: int, active: bool) -> None:
        self._tell(ACTIVATED, number, int(active))

    def on_timed_out(self, uid: int, number: int, timeout_ms: int) -> None:
        left = [each for each in self._promised if each.number != number]
        self._promised = deque(left)
        if number == 0 and self._got is not None:
            self._got = None
            self._tell(GOT, 0, 0, 0, 0)
        self._tell(TIMED_OUT, number, timeout_ms)

    def on_drained(self, uid: int, number: int, delivery_count: int) -> None:
        self._stubs.tell_count(self)
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
        self._stubs.leave(self)

    def _tell(self, kind: int, *numbers: int) -> None:
        if self.is_over:
            return
        self._stubs.put([put_numbers(kind, int(self.uid), self._session, *numbers)])


def within(chunk: Chunk, index: i64, count: i64, room: i64) -> i64:
    """How many of the messages index.. fit into `room` bytes; at least one."""
    fit: i64 = 1
    while fit < count and chunk.bytes_between(index, index + fit + 1) <= room:
        fit += 1
    return fit


def no_end(uid: int) -> HomeEnd | None:
    """Where no queue has a leader that may change."""
    return None


@final
class SessionStubs:
    """All sessions of one other node that use queues of this one."""

    def __init__(
        self,
        find: FindHost,
        send: Send,
        turn: EndOfTurn,
        find_end: FindEnd = no_end,
        movers: Movers | None = None,
    ) -> None:
        self._find = find
        self._movers: Movers = movers or NoMovers()
        self._moving: deque[tuple[SessionStub, int]] = deque()  # and since which view
        self._find_end = find_end
        self._send = send
        self._turn = turn
        self._stubs: dict[tuple[int, SessionId], SessionStub] = {}
        self._pumping: list[SessionStub] = []
        self._publishing: list[SessionStub] = []
        self._parts: list[bytes] = []
        self._bytes: i64 = 0
        self._counts: dict[int, tuple[int, int, int]] = {}  # as last received
        self._marked = False

    @property
    def count(self) -> int:
        return len(self._stubs)

    def received(self, data: Buffer) -> None:
        """A message of the stream. BadItem: the peer is wrong, or of another version."""
        address: Item | None = None
        for item in take_items(data):
            if item.kind == NUMBERED:
                address = item
                continue
            if address is not None or item.kind in (RESUME, INSPECT):
                self._hand_to_leader(item, address)
                address = None
                continue
            stub = self._stub(item)
            if stub is not None:
                self._hand_down(stub, item)
            elif item.kind != TAKEN:  # That may be late, and of a session that has left.
                self.put([put_numbers(GONE, item.uid, item.session)])
        if address is not None:
            raise BadItem("a number without a command")

    def _hand_to_leader(self, item: Item, address: Item | None) -> None:
        """A question about a session, or a command of its stream, whose address came before."""
        key = (int(item.uid), item.session)
        stub = self._known(key, True)
        if stub is None:
            stub = SessionStub(item.session, item.uid, None, self._find_end(item.uid), self)
            self._stubs[key] = stub
        if address is None:
            term = item.numbers[0]
            taken = stub.inspect(term) if item.kind == INSPECT else stub.resume(item)
        else:
            if item.kind not in (PUBLISH, COMMAND) or address.session != item.session:
                raise BadItem(f"a number for an item of kind {item.kind}")
            term, number, confirmed = address.numbers
            try:
                taken = stub.numbered(item, term, number, confirmed)
            except BadCommand as error:
                raise BadItem(str(error)) from None
        if not taken:
            self.put([put_numbers(NOT_LEADER, item.uid, item.session, term)])
            self.leave(stub)

    def _known(self, key: tuple[int, SessionId], has_numbers: bool) -> SessionStub | None:
        """The stub of the session, if it is of that kind. One of the other kind ends: the queue
        has got mirrors or lost them since, and the session uses it again."""
        stub = self._stubs.get(key)
        if stub is not None and stub.has_numbers != has_numbers:
            stub.end()
            self.leave(stub)
            return None
        return stub

    def _stub(self, item: Item) -> SessionStub | None:
        """Of that session at that queue; None if there is no such queue."""
        key = (int(item.uid), item.session)
        stub = self._stubs.get(key) if item.kind == TAKEN else self._known(key, False)
        if stub is None:
            host = None if item.kind == TAKEN else self._find(item.uid)
            if host is None:
                return None
            stub = SessionStub(item.session, item.uid, host, None, self)
            self._stubs[key] = stub
        return stub

    def _hand_down(self, stub: SessionStub, item: Item) -> None:
        if item.kind == PUBLISH:
            assert item.chunk is not None
            stub.publish(item.chunk, item.first)
            self._publishing.append(stub)
            self._mark()
        elif item.kind == TAKEN:
            stub.taken(item.numbers[0])
        elif item.kind == COMMAND:
            try:
                is_last = stub.command(item.command)
            except BadCommand as error:
                raise BadItem(str(error)) from None
            if is_last:
                self.leave(stub)
        elif item.kind == MOVE:
            self._moving.append((stub, item.numbers[0]))
            self._mark()
        else:
            raise BadItem(f"an item of kind {item.kind} for a home")

    def leave(self, stub: SessionStub) -> None:
        """Its session is over, or its queue, or the time in which this node leads it."""
        self._stubs.pop((int(stub.uid), stub.session), None)
        stub.credit.peer_down_everywhere()

    def move(self, uid: int, host: QueueHost) -> None:
        """The queue has another kind of host now: its sessions go on with that one."""
        for key, stub in self._stubs.items():
            if key[0] == uid:
                stub.use(host)

    def _move_some(self) -> None:
        """Hand sessions over that are to go on by themselves, as far as they can now."""
        for _ in range(min(len(self._moving), MOVES_A_TURN)):
            stub, epoch = self._moving.popleft()
            uid = int(stub.uid)
            if self._stubs.get((uid, stub.session)) is not stub:
                continue  # It is over.
            host = self._movers.mirrored(uid)
            moved = None if host is None else stub.moved(host)
            if moved is not None:
                self.put([put_moved(uid, stub.session, moved)])
                self.leave(stub)
            elif host is None and self._movers.is_plain_again(uid, epoch):
                stub.on_gone(uid)
                stub.end()
            else:
                self._moving.append((stub, epoch))

    def want_pump(self, stub: SessionStub) -> None:
        """It has bodies to send: behind all that this turn tells it."""
        self._pumping.append(stub)
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
        for stub in pumping:
            stub.pump()
        publishing = self._publishing
        self._publishing = []
        for stub in publishing:
            stub.grant()
        self._move_some()
        self._flush()
        self._marked = False

    def _flush(self) -> None:
        if len(self._parts) > 0:
            parts = self._parts
            self._parts = []
            self._bytes = 0
            self._send(parts)

    def tell_count(self, stub: SessionStub) -> None:
        """Now, for a consumer that is to be told with its answer how its queue stands."""
        uid = int(stub.uid)
        counts = stub.counts()
        if self._counts.get(uid) != counts:
            self._counts[uid] = counts
            self.put([put_numbers(COUNTED, uid, SessionId(0), *counts)])

    def tell_counts(self) -> None:
        """Once in a while: how the queues stand that are used from there."""
        self._move_some()
        seen: dict[int, tuple[int, int, int]] = {}
        for stub in self._stubs.values():
            uid = int(stub.uid)
            if uid not in seen:
                counts = stub.counts()
                seen[uid] = counts
                if self._counts.get(uid) != counts:
                    self.put([put_numbers(COUNTED, uid, SessionId(0), *counts)])
        self._counts = seen

    def peer_lost(self, is_cut_off: bool = False) -> None:
        """The node is gone, or could not be reached for too long: what its sessions held is ready
        again."""
        self._counts = {}
        stubs = list(self._stubs.values())
        self._stubs = {}
        self._pumping = []
        self._publishing = []
        self._moving.clear()
        self._parts = []
        self._bytes = 0
        for stub in stubs:
            stub.end(is_cut_off)

"""Queues whose home is another node, as the sessions of this node see them (0036).

A `Proxy` is the `QueueHost` of such a queue: what sessions hand down goes to the home as items,
what the home answers goes to the sessions' sinks. `Proxies` has all of them that are at home on one
node; `send` is a stream that loses and doubles nothing as long as both processes live.

Bodies come behind the deliveries that name them, at most WINDOW_BYTES and a message for each
session and queue before the session has looked at them (`view`), which it does in the order of the
deliveries; those that it settles unseen go as well. That of basic.get comes before its answer.

The home is lost when its node is: publishes that were not confirmed are refused, and to its
sessions the queue is gone (RabbitMQ cancels their consumers). As long as the node is down, all
that is handed down is answered so. A stream that is only interrupted is nothing but latency; while
it is full, the sessions that publish to it are held up by credit. Compiled.
"""

from collections import deque
from typing import Final, Protocol, final

from mypy_extensions import i64

from queues.machine.commands import (
    ATTACH,
    DETACH,
    GET,
    INSPECT,
    PURGE,
    Command,
    EndSession,
    SessionId,
    Settle,
)
from queues.message import Chunk
from queues.queue_host import QueueHost, SessionSink, View
from queues.remote.items import (
    ACTIVATED,
    ATTACH_REFUSED,
    ATTACHED,
    BODIES,
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
    MOVE,
    MOVED,
    PUBLISH,
    PURGED,
    REFUSED,
    TAKEN,
    TIMED_OUT,
    UNREADABLE,
    BadItem,
    Buffer,
    Item,
    put_command,
    put_numbers,
    put_run,
    take_items,
)
from queues.remote.moving import Moved, moved_in
from queues.remote.remote_interfaces import PART_BYTES, WINDOW_BYTES, EndOfTurn, Send
from queues.sessions.credit import QUEUE, CreditActor, CreditSpec

TAKEN_BYTES: Final = WINDOW_BYTES // 4  # looked at, and told to the home at once
ANSWERED: Final = frozenset((ATTACH, DETACH, GET, PURGE, INSPECT))  # commands that are
HELD_SPEC: Final = CreditSpec(1, 1)  # of the edge that holds up proxies of a full stream


@final
class Body:
    """Messages that have come for a session: first.. of a chunk of their own."""

    __slots__ = ("chunk", "count", "first")

    def __init__(self, first: i64, chunk: Chunk) -> None:
        self.first: i64 = first
        self.count: i64 = chunk.count()
        self.chunk = chunk


@final
class Tie:
    """One session's use of one queue."""

    __slots__ = (
        "bodies",
        "confirmed",
        "got",
        "is_moving",
        "is_over",
        "published",
        "sink",
        "taken_bytes",
        "wanted",
    )

    def __init__(self, sink: SessionSink) -> None:
        self.sink = sink
        self.published: i64 = 0  # the last number
        self.confirmed: i64 = 0
        self.bodies: deque[Body] = deque()  # in the order of the deliveries
        self.got: Body | None = None  # the newest that basic.get has brought
        self.taken_bytes: i64 = 0  # looked at, and not told to the home yet
        self.wanted: i64 = 0  # the session waits for this message; 0: for none
        self.is_moving = False  # the home is to hand it over: what it gives now waits elsewhere
        self.is_over = False  # it has ended meanwhile

    def drop(self, runs: list[tuple[int, int]]) -> None:
        """Messages that were settled: what has come of them and was not looked at is not wanted."""
        for first, count in runs:
            self._drop_run(first, first + count)

    def _drop_run(self, first: i64, end: i64) -> None:
        """Whole chunks alone: what is left of one goes when a later one is looked at."""
        kept: deque[Body] = deque()
        for body in self.bodies:
            if first <= body.first and body.first + body.count <= end:
                self.taken_bytes += body.chunk.size()
            else:
                kept.append(body)
        self.bodies = kept


@final
class Proxy:
    """A queue whose home is another node."""

    def __init__(
        self,
        uid: i64,
        vhost: str,
        name: str,
        quorum: bool,
        single_active: bool,
        spec: CreditSpec,
        proxies: "Proxies",
    ) -> None:
        self.uid: i64 = uid
        self.vhost = vhost
        self.name = name
        place = f"queue '{name}' in vhost '{vhost}'"
        self.credit = CreditActor(place, spec, None, QUEUE)
        self.is_gone = False
        self.is_passing = False  # it is not kept: it goes with the last session that uses it
        self._relay: Relay | None = None  # the queue has mirrors now: its sessions are moving there
        self._moved_to: Relay | None = None  # and those that have, also if it is a plain one again
        self._is_shared = False  # the queue had mirrors: older sessions have another proxy
        self._quorum = quorum
        self._single_active = single_active
        self._proxies = proxies
        self._ties: dict[SessionId, Tie] = {}
        self._ready: i64 = 0
        self._checked_out: i64 = 0
        self._consumers: i64 = 0

    @property
    def quorum(self) -> bool:
        return self._quorum

    @property
    def single_active(self) -> bool:
        return self._single_active

    @property
    def ready_count(self) -> int:
        """As the home has told it last, and so for the others."""
        return self._ready

    @property
    def checked_out_count(self) -> int:
        return self._checked_out

    @property
    def consumer_count(self) -> int:
        return self._consumers

    # Handed down by sessions

    def publish(self, sink: SessionSink, chunk: Chunk, first_seq: i64) -> None:
        """See QueueHost."""
        elsewhere = self._elsewhere(sink.session)
        if elsewhere is not None:
            elsewhere.publish(sink, chunk, first_seq)
            return
        count = chunk.count()
        if self._proxies.is_down or self.is_gone:  # Gone since the message was routed, or moved.
            self._proxies.refuse(self, sink, first_seq, count)
            return
        tie = self._tie(sink)
        tie.published = first_seq + count - 1
        sink.credit.send(self.credit, count)
        if self._proxies.is_held:
            self._proxies.hold(self.credit)
        self._proxies.published_bytes += chunk.size()
        session = sink.session
        self._proxies.put(put_run(PUBLISH, self.uid, session, first_seq, chunk, 0, count))

    def command(self, sink: SessionSink, command: Command) -> None:
        """See QueueHost."""
        elsewhere = self._elsewhere(sink.session)
        if elsewhere is not None:
            elsewhere.command(sink, command)
            return
        if self._proxies.is_down:
            if command.kind in ANSWERED:
                self._proxies.refuse(self, sink, 1, 0)
            return
        tie = self._tie(sink)
        self._proxies.put([put_command(self.uid, sink.session, command)])
        if isinstance(command, Settle):
            tie.drop(command.runs)
            self._tell_taken(tie, TAKEN_BYTES)
        if isinstance(command, EndSession):
            self._end(sink)

    def view(self, sink: SessionSink, first: i64, count: i64) -> View | None:
        """See QueueHost; what was delivered before `first` was looked at, or never will be."""
        elsewhere = self._elsewhere(sink.session)
        if elsewhere is not None and sink.session not in self._ties:
            return elsewhere.view(sink, first, count)
        tie = self._tie(sink)
        got = tie.got
        if got is not None and got.first == first:
            return View(got.chunk, 0, first, 1)
        bodies = tie.bodies
        while len(bodies) > 0:
            body = bodies[0]
            if body.first <= first < body.first + body.count:
                self._tell_taken(tie, TAKEN_BYTES)
                index = first - body.first
                return View(body.chunk, index, first, min(count, body.count - index))
            tie.taken_bytes += bodies.popleft().chunk.size()
        tie.wanted = first
        self._tell_taken(tie, 1)  # Or what is wanted might wait for room for ever.
        return None

    def _elsewhere(self, session: SessionId) -> "Relay | None":
        """Who takes what the session hands down, if it is moving or has moved and does not know."""
        if self._moved_to is None:
            return None
        is_away = self._relay is not None and not self.takes(session)
        return self._moved_to if is_away or self._moved_to.has(session) else None

    def _tie(self, sink: SessionSink) -> Tie:
        tie = self._ties.get(sink.session)
        if tie is None:
            tie = Tie(sink)
            self._ties[sink.session] = tie
        return tie

    def _tell_taken(self, tie: Tie, least: i64) -> None:
        if tie.taken_bytes >= least:
            taken = put_numbers(TAKEN, self.uid, tie.sink.session, tie.taken_bytes)
            tie.taken_bytes = 0
            self._proxies.put([taken])

    def _end(self, sink: SessionSink) -> None:
        self._ties.pop(sink.session, None)
        self.credit.peer_down(sink.credit)
        sink.credit.peer_down(self.credit)
        if len(self._ties) == 0 and (self.is_passing or self._relay is not None):
            self._proxies.forget(self.uid)
            if self._relay is not None:
                self._relay.relay_by(None)

    # The queue gets mirrors

    def relay(self, relay: "Relay", epoch: int) -> bool:
        """Sessions that use the queue do so by way of its old home until that has handed them over,
        or as long as they last if it does not know how; others elsewhere. `epoch`: of the view.
        Return whether there are any."""
        self._relay = self._moved_to = relay
        for tie in self._ties.values():
            if not tie.is_moving and self._proxies.hands_over:
                tie.is_moving = True
                relay.begin_moving(tie.sink)
                self._proxies.put([put_numbers(MOVE, self.uid, tie.sink.session, epoch)])
        return len(self._ties) > 0

    def takes(self, session: SessionId) -> bool:
        """Whether the session's commands go by way of the home."""
        tie = self._ties.get(session)
        return self.serves(session) and (tie is None or not tie.is_moving)

    def end_moving(self, session: SessionId) -> None:
        """It ends: it hears no more of this queue, and its end waits until it is handed over."""
        tie = self._ties.get(session)
        if tie is not None:
            tie.is_over = True
            tie.bodies.clear()

    def _moved(self, tie: Tie, item: Item) -> None:
        """The home has handed the session over. BadItem."""
        try:
            moved = moved_in(item.numbers)
        except ValueError as error:
            raise BadItem(str(error)) from None
        relay = self._relay
        if not tie.is_moving or relay is None:
            raise BadItem("a session was handed over that did not ask for it")
        relay.moved(tie, moved)
        self._end(tie.sink)

    def succeed(self) -> None:
        """The queue is one of its home alone again: its sessions go there, but for those that stay
        with the proxy of the mirrored queue."""
        self._is_shared = True
        if self._relay is not None:
            self._relay.relay_by(None)
            self._relay = None

    def serves(self, session: SessionId) -> bool:
        """Whether the session uses the queue by way of its home."""
        if self._relay is None and not self._is_shared:
            return True
        return session in self._ties

    # From the home

    def take(self, item: Item) -> None:
        """An answer to one of the sessions; to one that has ended: nothing."""
        if item.kind == COUNTED:
            self._ready, self._checked_out, self._consumers = item.numbers
            return
        tie = self._ties.get(item.session)
        if tie is None:
            return
        if item.kind == MOVED:
            self._moved(tie, item)
        elif item.kind == GONE:
            self._lose(tie)
        elif tie.is_over:
            return
        elif item.kind == BODIES:
            self._take_bodies(tie, item)
        elif item.kind == GOT_BODY:
            assert item.chunk is not None
            tie.got = Body(item.first, item.chunk)
        elif item.kind == CONFIRMS:
            tie.confirmed = item.numbers[0]
            tie.sink.on_confirms(self.uid, item.numbers[0])
        elif item.kind == GRANTED:
            self.credit.ack(tie.sink.credit, item.numbers[0])
        else:
            answer(tie.sink, self.uid, item)

    def _take_bodies(self, tie: Tie, item: Item) -> None:
        chunk = item.chunk
        assert chunk is not None
        body = Body(item.first, chunk)
        tie.bodies.append(body)
        if body.first <= tie.wanted < body.first + body.count:
            tie.wanted = 0
            tie.sink.on_loaded(self.uid)

    def _lose(self, tie: Tie) -> None:
        """To this session the queue is gone: deleted, or its home is lost."""
        sink = tie.sink
        relay = self._moved_to
        if tie.is_moving:
            self._refuse_open(tie)
        self._end(sink)
        if not (tie.is_moving and relay is not None and relay.moving_lost(tie)):
            sink.on_gone(self.uid)

    def _refuse_open(self, tie: Tie) -> None:
        """The outcome of publishes that were not confirmed is unknown."""
        open_count = tie.published - tie.confirmed
        if open_count > 0 and not tie.is_over:
            tie.sink.on_refused(self.uid, tie.confirmed + 1, open_count)
            tie.sink.on_confirms(self.uid, tie.published)
            tie.confirmed = tie.published

    # The end

    def home_lost(self) -> None:
        """The home's node is gone: the outcome of waiting publishes is unknown."""
        for tie in list(self._ties.values()):
            self._refuse_open(tie)
            if self._relay is not None:
                self._relay.end_session(tie.sink)
            self._lose(tie)

    def delete(self) -> None:
        """The definition is gone, or the queue has another home now."""
        self.is_gone = True
        for tie in list(self._ties.values()):
            self._lose(tie)


def answer(sink: SessionSink, uid: int, item: Item) -> None:
    """Tell a session what its queue has said. BadItem: a kind that is no answer."""
    kind = item.kind
    numbers = item.numbers
    if kind == DELIVERS:
        number, delivery_seq, first, count, redelivered, attempts = numbers
        sink.on_delivers(uid, number, delivery_seq, first, count, redelivered != 0, attempts)
    elif kind == GOT:
        message, redelivered, ready, attempts = numbers
        sink.on_got(uid, message, redelivered != 0, ready, attempts)
    elif kind == REFUSED:
        sink.on_refused(uid, numbers[0], numbers[1])
    elif kind == ATTACHED:
        sink.on_attached(uid, numbers[0])
    elif kind == ATTACH_REFUSED:
        sink.on_attach_refused(uid, numbers[0], numbers[1])
    elif kind == DETACHED:
        sink.on_detached(uid, numbers[0], numbers[1] != 0)
    elif kind == ACTIVATED:
        sink.on_activated(uid, numbers[0], numbers[1] != 0)
    elif kind == TIMED_OUT:
        sink.on_timed_out(uid, numbers[0], numbers[1])
    elif kind == DRAINED:
        sink.on_drained(uid, numbers[0], numbers[1])
    elif kind == PURGED:
        sink.on_purged(uid, numbers[0])
    elif kind == INSPECTED:
        sink.on_inspected(uid, numbers[0], numbers[1])
    elif kind == UNREADABLE:
        sink.on_unreadable(uid)
    else:
        raise BadItem(f"an answer of kind {kind}")


class Relay(QueueHost, Protocol):
    """The queue as sessions use it that do so since it has mirrors
    (`queues.remote.quorum_proxy.QuorumProxy`)."""

    def relay_by(self, proxy: Proxy | None) -> None:
        """The proxy serves sessions that have used the queue before; None: there are none left."""

    def has(self, session: SessionId) -> bool:
        """Whether the session uses the queue by way of this proxy."""

    def begin_moving(self, sink: SessionSink) -> None:
        """What the session hands down waits until the home has handed it over."""

    def moved(self, tie: Tie, moved: Moved) -> None:
        """It has: the session goes on with that, and with what has come for it."""

    def moving_lost(self, tie: Tie) -> bool:
        """The home has not: to the session the queue is gone, if it has not heard so already."""

    def end_session(self, sink: SessionSink) -> None:
        """The old home is gone, and the session does not know how far its commands have come: end
        it. If it uses the queue again, that comes behind the end."""


@final
class Refusal:
    """Publishes that a node which is down does not get; or a command that wants an answer."""

    __slots__ = ("count", "first_seq", "host", "sink")

    def __init__(self, host: Proxy, sink: SessionSink, first_seq: i64, count: i64) -> None:
        self.host = host
        self.sink = sink
        self.first_seq: i64 = first_seq
        self.count: i64 = count


class Roams(Protocol):
    """Takes answers of leaders (`queues.remote.quorum_proxy`)."""

    def take(self, member: int, item: Item) -> None:
        """BadItem: it makes no sense."""

    def lost(self, member: int) -> None:
        """What was under way to that node and from it is lost."""


@final
class Proxies:
    """The proxies of all queues whose home is one other node.

    Takes what the home sends (`received`), gives to `send` what the turn has put together.
    """

    def __init__(
        self, send: Send, turn: EndOfTurn, member: int = 0, roams: Roams | None = None
    ) -> None:
        self.hosts: dict[int, Proxy] = {}
        self._member = member  # the other node
        self._roams = roams  # who takes what its leaders of quorum queues say
        self.is_down = False  # nothing goes there until the node is heard of again
        self.is_held = False  # the stream has taken as much as it may
        self.hands_over = True  # the node knows MOVE; else sessions stay when queues get mirrors
        self.published_bytes: i64 = 0  # messages for queues whose home is there
        self._stream_credit = CreditActor(
            f"stream to member {member}", HELD_SPEC, None, "peer stream"
        )
        self._held: list[CreditActor] = []  # of proxies that were published to since then
        self._refusals: list[Refusal] = []
        self._send = send
        self._turn = turn
        self._parts: list[bytes] = []
        self._bytes: i64 = 0

    def add(self, host: Proxy) -> None:
        self.hosts[host.uid] = host

    def remove(self, uid: int) -> None:
        """The queue is deleted, or has moved."""
        host = self.hosts.pop(uid, None)
        if host is not None:
            host.delete()

    def leave(self, uid: int) -> None:
        """The queue is served again: sessions restart, unconfirmed publishes are refused."""
        host = self.hosts.pop(uid, None)
        if host is not None:
            host.is_gone = True
            host.home_lost()

    def relay(self, uid: int, relay: "Relay", epoch: int) -> None:
        """The queue has mirrors since the view of that epoch: sessions reach it by its leader."""
        host = self.hosts.get(uid)
        if host is None:
            return
        if host.relay(relay, epoch):
            relay.relay_by(host)
        else:
            self.forget(uid)

    def forget(self, uid: int) -> None:
        """It is not in use any more."""
        self.hosts.pop(uid, None)

    def put(self, parts: list[bytes]) -> None:
        """To be sent at the end of the turn, or now if much has come together."""
        if len(self._parts) == 0:
            self._turn.mark_away(self)
        self._parts.extend(parts)
        for part in parts:
            self._bytes += len(part)
        if self._bytes >= PART_BYTES:
            self._flush()

    def end_turn(self) -> None:
        self._answer_refused()
        self._flush()

    def _flush(self) -> None:
        if len(self._parts) > 0:
            parts = self._parts
            self._parts = []
            self._bytes = 0
            self._send(parts)

    def received(self, data: Buffer) -> None:
        """A message of the stream. BadItem: the home is wrong, or of another version."""
        for item in take_items(data):
            host = self.hosts.get(item.uid)
            if host is not None and host.serves(item.session):
                host.take(item)
                continue
            if host is not None and item.kind == COUNTED:
                host.take(item)
            if self._roams is not None:
                self._roams.take(self._member, item)

    def home_lost(self) -> None:
        """The node is gone, with all that was under way to it."""
        self._parts = []
        self._bytes = 0
        for host in list(self.hosts.values()):
            host.home_lost()
        if self._roams is not None:
            self._roams.lost(self._member)

    # While the node is down

    def refuse(self, host: Proxy, sink: SessionSink, first_seq: i64, count: i64) -> None:
        """Answer with the turn: these publishes are refused, and to the session the queue is gone,
        so that it starts again when the node is back."""
        if len(self._refusals) == 0:
            self._turn.mark_away(self)
        self._refusals.append(Refusal(host, sink, first_seq, count))

    def _answer_refused(self) -> None:
        refusals = self._refusals
        if len(refusals) == 0:
            return
        self._refusals = []
        gone: dict[tuple[int, SessionId], Refusal] = {}
        for each in refusals:
            uid = each.host.uid
            gone[int(uid), each.sink.session] = each
            if each.count > 0:
                each.sink.on_refused(uid, each.first_seq, each.count)
                each.sink.on_confirms(uid, each.first_seq + each.count - 1)
        for each in gone.values():
            each.sink.on_gone(each.host.uid)

    def come_back(self) -> None:
        """The node is heard of again: sessions may use its queues."""
        self._answer_refused()
        self.is_down = False

    # While the stream is full

    def hold_up(self) -> None:
        """The stream has taken as much as it may."""
        self.is_held = True

    def hold(self, credit: CreditActor) -> None:
        """The proxy's sessions get no more credit until the stream has room again."""
        if not credit.is_blocked():
            credit.send(self._stream_credit, 1)
            self._held.append(credit)

    def go_on(self) -> None:
        """There is room again."""
        if self.is_held:
            self.is_held = False
            held = self._held
            self._held = []
            for credit in held:
                self._stream_credit.ack(credit, 1)

"""Commands of the queue machine, and their bytes.

One encoding serves the journal of a classic queue, the Raft entry of a quorum queue and the mirror
stream. The first byte is the kind, the second the version of that kind's layout; integers are
little-endian. See docs/formats/queue-commands.md. A command says what happened, never what time it
is: the batch that carries it does (`now_ms` of `Fifo.apply`).

Sessions are (node incarnation, counter) folded into one integer, `incarnation << 64 | counter`.
A consumer key is `session << 32 | number`; number 0 stands for basic.get.
"""

from enum import IntEnum
from typing import Final, NewType, final

from mypy_extensions import i64, mypyc_attr

from queues.machine.command_fields import QUEUE_LIMIT as QUEUE_LIMIT
from queues.machine.command_fields import TERM_BITS as TERM_BITS
from queues.machine.command_fields import BadCommand as BadCommand
from queues.machine.command_fields import (
    Reader,
    put_key,
    put_name,
    put_selector,
    put_session,
    put_sizes,
    put_traits,
    put_u32,
    put_u64,
)
from queues.machine.options import Options
from queues.machine.traits import Traits
from queues.runs.seqset import SeqSet

SessionId = NewType("SessionId", int)
ConsumerKey = NewType("ConsumerKey", int)

VERSION: Final = 1
SIZED_VERSION: Final = 2  # of a CONFIGURE with sizes
CUT_OFF: Final = 2  # version of an END_SESSION or END_PROCESS of a node that cannot be reached
ANNOTATED: Final = 2  # the version of a SETTLE that has annotations
LIMITED: Final = 2  # the version of an ATTACH with limits of the consumer's own
SELECTIVE: Final = 3  # the version of an ATTACH with limits and a selector
ENQUEUE: Final = 1
SETTLE: Final = 2
ATTACH: Final = 3
CREDIT: Final = 4
DETACH: Final = 5
GET: Final = 6
PURGE: Final = 7
INSPECT: Final = 8
END_SESSION: Final = 9
CONFIGURE: Final = 10
TICK: Final = 11
RESTARTED: Final = 12
NUMBERED: Final = 13
LEADS: Final = 14
RETIRE: Final = 15
SUSPEND: Final = 16
UNSUSPEND: Final = 17
END_PROCESS: Final = 18
BURIED: Final = 19
STORE_OFFSETS: Final = 20  # the rest concern streams alone
QUERY_TRACKING: Final = 21
IDENTIFY: Final = 22
DROP_LOST: Final = 23  # of mirrored queues
JOIN_GROUP: Final = 24  # of streams
SELECTED: Final = 25  # of queues that are no streams

TERM_SHIFT: Final = 40  # a message_seq is term << TERM_SHIFT | counter where leaders change

ACCEPT: Final = 1  # done with
REJECT: Final = 2  # dead-lettered or dropped
RELEASE: Final = 3  # back to ready, redelivered
RETURN_UNSEEN: Final = 4  # back to ready; the client never saw it, so it is not redelivered
FAIL: Final = 5  # as RELEASE, and counted as a failed delivery
REJECT_TOO_LARGE: Final = 6  # as REJECT: the client cannot be sent a header of that size

TRACKED_OFFSET: Final = 1  # what QUERY_TRACKING asks for: the stored offset of a consumer name
TRACKED_PUBLISHER: Final = 2  # the highest publishing id of a publisher name
GROUP_CONSUMER: Final = 1  # number of the consumer of a session that is in a group of a stream
NAME_BYTES_MAX: Final = 255  # of a consumer or publisher


# What sessions give; the others are the host's own, or the cluster's.
OF_SESSIONS: Final = frozenset(
    (
        *(ENQUEUE, SETTLE, ATTACH, CREDIT, DETACH, GET, PURGE, INSPECT, END_SESSION, RETIRE),
        *(STORE_OFFSETS, QUERY_TRACKING, IDENTIFY, JOIN_GROUP),
    )
)


def consumer_key(session: SessionId, number: int) -> ConsumerKey:
    """Key of a session's consumer; `number` is 1-based, 0 stands for basic.get."""
    return ConsumerKey(session << 32 | number)


def group_consumer(session: SessionId) -> ConsumerKey:
    """Key of the `Activated` of a session that is in a group of a stream."""
    return consumer_key(session, GROUP_CONSUMER)


def session_of(key: ConsumerKey) -> SessionId:
    return SessionId(key >> 32)


def process_of(session: SessionId) -> int:
    """The process that the session belongs to: nodes draw one at each start."""
    return session >> 64


@mypyc_attr(allow_interpreted_subclasses=False)
class Command:
    """Base of all commands; `kind` is their first byte."""

    def __init__(self, kind: i64) -> None:
        self.kind: i64 = kind


@final
class Enqueue(Command):
    """`count` messages, the session's numbers first_seq.. (1-based per session and queue)."""

    def __init__(
        self, session: SessionId, first_seq: i64, count: i64, traits: Traits | None = None
    ) -> None:
        super().__init__(ENQUEUE)
        self.session = session
        self.first_seq: i64 = first_seq
        self.count: i64 = count
        self.traits = traits  # None: no message has a priority or an expiration


@final
class Settle(Command):
    """The outcome of messages that the consumer holds; those that it does not hold are ignored.

    `annotations` are words (`queues.machine.annotations`) for messages that are not accepted.
    """

    def __init__(
        self,
        key: ConsumerKey,
        outcome: i64,
        runs: list[tuple[int, int]],
        annotations: bytes = b"",
    ) -> None:
        super().__init__(SETTLE)
        self.key = key
        self.outcome: i64 = outcome
        self.runs = runs  # (first message_seq, count)
        self.annotations = annotations


@final
class Attach(Command):
    """A consumer comes. `auto_return`: settling gives the credit back (0-9-1 prefetch)."""

    def __init__(
        self,
        key: ConsumerKey,
        credit: i64,
        auto_return: bool,
        exclusive: bool,
        priority: i64,
        timeout_ms: i64 = -1,
        window_bytes: i64 = QUEUE_LIMIT,
        rate_max: i64 = QUEUE_LIMIT,
        selector: bytes = b"",
    ) -> None:
        super().__init__(ATTACH)
        self.key = key
        self.credit: i64 = credit
        self.auto_return = auto_return
        self.exclusive = exclusive
        self.priority: i64 = priority  # higher is served first
        self.timeout_ms: i64 = timeout_ms  # for settling a delivery; -1: the queue's own
        self.window_bytes: i64 = window_bytes  # -1: no limit; QUEUE_LIMIT: the queue's own
        self.rate_max: i64 = rate_max  # messages per second; the same
        self.selector = selector  # what it wants (`queues.selectors.terms`); empty: every message


@final
class Credit(Command):
    """The consumer may get `credit` more messages, counted from its `delivery_count`th delivery."""

    def __init__(
        self, key: ConsumerKey, delivery_count: i64, credit: i64, drain: bool, auto_return: bool
    ) -> None:
        super().__init__(CREDIT)
        self.key = key
        self.delivery_count: i64 = delivery_count
        self.credit: i64 = credit
        self.drain = drain
        self.auto_return = auto_return


@final
class Detach(Command):
    """The consumer gets no more; what it holds it may still settle."""

    def __init__(self, key: ConsumerKey) -> None:
        super().__init__(DETACH)
        self.key = key


@final
class Get(Command):
    """One message now, or none (basic.get)."""

    def __init__(self, session: SessionId) -> None:
        super().__init__(GET)
        self.session = session


@final
class Purge(Command):
    """Everything that is ready goes; what is checked out stays."""

    def __init__(self, session: SessionId) -> None:
        super().__init__(PURGE)
        self.session = session


@final
class Inspect(Command):
    """Tell the session how many messages are ready and how many consumers there are."""

    def __init__(self, session: SessionId) -> None:
        super().__init__(INSPECT)
        self.session = session


@final
class EndSession(Command):
    """The session is over: its consumers go, what they hold is ready again.

    `is_cut_off`: its node could not be reached for too long, which is no failed delivery."""

    def __init__(self, session: SessionId, is_cut_off: bool = False) -> None:
        super().__init__(END_SESSION)
        self.session = session
        self.is_cut_off = is_cut_off


@final
class Configure(Command):
    """The queue's options are these from now on.

    `sizes` as (first, count, body bytes of each), ascending: of messages that are in the queue, for
    a limit on bytes that begins now. Those that are not named count nothing.
    """

    def __init__(self, options: Options, sizes: list[tuple[int, int, int]] | None = None) -> None:
        super().__init__(CONFIGURE)
        self.options = options
        self.sizes: list[tuple[int, int, int]] = [] if sizes is None else sizes


@final
class Tick(Command):
    """Nothing but the time of its batch: something is due."""

    def __init__(self) -> None:
        super().__init__(TICK)


@final
class Restarted(Command):
    """The only member restarted: all sessions are over, and numbers below are used up."""

    def __init__(self, next_seq: i64) -> None:
        super().__init__(RESTARTED)
        self.next_seq: i64 = next_seq


@final
class Numbered(Command):
    """The `number`th command of the session's stream (0036): it is applied once, in its turn.

    `confirmed`: the session knows what became of its publishes up to this one.
    """

    def __init__(self, session: SessionId, number: i64, confirmed: i64, command: Command) -> None:
        super().__init__(NUMBERED)
        assert command.kind in OF_SESSIONS
        self.session = session
        self.number: i64 = number  # 1-based
        self.confirmed: i64 = confirmed
        self.command = command


@final
class Leads(Command):
    """A leader begins: it numbers messages from `term << 40 | 1` on. Its first command."""

    def __init__(self, term: i64) -> None:
        super().__init__(LEADS)
        self.term: i64 = term


@final
class Retire(Command):
    """The queue is about to be deleted: from now on it refuses every publish.

    Only if nothing is ready (`if_empty`) and there is no consumer (`if_unused`), where that is
    asked. Off, or when the session ends, it goes on. The answer, `Inspected`, shows whether they
    held.
    """

    def __init__(
        self, session: SessionId, off: bool = False, if_empty: bool = False, if_unused: bool = False
    ) -> None:
        super().__init__(RETIRE)
        self.session = session
        self.off = off
        self.if_empty = if_empty
        self.if_unused = if_unused


@final
class Suspend(Command):
    """The process (high half of its session ids) cannot be reached: its consumers get nothing new,
    and after `timeout_ms` what they hold is ready again."""

    def __init__(self, process: int, timeout_ms: i64) -> None:
        super().__init__(SUSPEND)
        self.process = process
        self.timeout_ms: i64 = timeout_ms


@final
class Unsuspend(Command):
    """The process is there again, with its sessions."""

    def __init__(self, process: int) -> None:
        super().__init__(UNSUSPEND)
        self.process = process


@final
class EndProcess(Command):
    """The process is gone for good: all its sessions are over. `is_cut_off`: see `EndSession`."""

    def __init__(self, process: int, is_cut_off: bool = False) -> None:
        super().__init__(END_PROCESS)
        self.process = process
        self.is_cut_off = is_cut_off


@final
class ReleaseDeadLetters(Command):
    """Where dead letters are kept until they are safe elsewhere: these are."""

    def __init__(self, runs: list[tuple[int, int]]) -> None:
        super().__init__(BURIED)
        self.runs = runs  # (first message_seq, count)


@final
class DropLost(Command):
    """A member that lacks committed entries begins to lead: it does not have these messages'
    bodies, for they were settled."""

    def __init__(self, runs: list[tuple[int, int]]) -> None:
        super().__init__(DROP_LOST)
        self.runs = runs  # (first message_seq, count)


@final
class StoreOffsets(Command):
    """Consumers of a stream have come so far: (name, offset) each. Answered, once it is applied."""

    def __init__(self, session: SessionId, rows: list[tuple[bytes, int]]) -> None:
        super().__init__(STORE_OFFSETS)
        self.session = session
        self.rows = rows


@final
class QueryTracking(Command):
    """Ask a stream for what it has stored under a name; the answer is `Inspected`, whose first
    number is one more than what was stored, or 0."""

    def __init__(self, session: SessionId, subject: i64, name: bytes) -> None:
        super().__init__(QUERY_TRACKING)
        self.session = session
        self.subject: i64 = subject  # TRACKED_OFFSET or TRACKED_PUBLISHER
        self.name = name


@final
class Identify(Command):
    """The next ENQUEUE of the session comes from this publisher, its messages with these ids.

    A stream does not append messages whose id is not above the publisher's highest one.
    """

    def __init__(self, session: SessionId, publisher: bytes, runs: list[tuple[int, int]]) -> None:
        super().__init__(IDENTIFY)
        self.session = session
        self.publisher = publisher
        # (first publishing id, count), in the order of the messages; see `queues.streams.tracking`
        self.runs = runs


@final
class JoinGroup(Command):
    """The session consumes in the group of that name of a stream, once it is active (`Activated`);
    of an active one: it consumes no more, and waits again."""

    def __init__(self, session: SessionId, name: bytes, partition: i64) -> None:
        super().__init__(JOIN_GROUP)
        self.session = session
        self.name = name
        self.partition: i64 = partition  # of the stream in its super stream; -1: it is in none


@final
class Selected(Command):
    """The host evaluated messages `after` + 1 to `upto` for selection `number`; `matching` are
    those that match. Without effect if others were evaluated meanwhile."""

    def __init__(self, number: i64, after: i64, upto: i64, matching: SeqSet) -> None:
        super().__init__(SELECTED)
        self.number: i64 = number
        self.after: i64 = after
        self.upto: i64 = upto
        self.matching = matching


def session_named(command: Command) -> SessionId:
    """Whose command it is; 0: no session's."""
    if isinstance(command, (Settle, Attach, Credit, Detach)):
        return session_of(command.key)
    if isinstance(command, (Enqueue, Get, Purge, Inspect, EndSession, Retire, Numbered)):
        return command.session
    if isinstance(command, (StoreOffsets, QueryTracking, Identify, JoinGroup)):
        return command.session
    return SessionId(0)


def enqueue_of(command: Command) -> Enqueue | None:
    """The Enqueue that the command is, or has in it."""
    if isinstance(command, Numbered):
        command = command.command
    return command if isinstance(command, Enqueue) else None


class Flag(IntEnum):
    """Bits of the flag byte of ATTACH and CREDIT."""

    AUTO_RETURN = 1
    EXCLUSIVE = 2
    DRAIN = 4


class RetireFlag(IntEnum):
    """Bits of the flag byte of RETIRE."""

    OFF = 1
    IF_EMPTY = 2
    IF_UNUSED = 4


def encode(command: Command) -> bytes:
    """The bytes of one command."""
    head = bytes((command.kind, VERSION))
    if isinstance(command, Enqueue):
        numbers = put_u64(command.first_seq) + put_u32(command.count)
        return head + put_session(command.session) + numbers + put_traits(command.traits)
    if isinstance(command, Settle):
        runs = b"".join([put_u64(first) + put_u32(count) for first, count in command.runs])
        body = bytes((command.outcome,)) + put_u32(len(command.runs)) + runs
        words = command.annotations
        if len(words) > 0:
            head = bytes((SETTLE, ANNOTATED))
            body += put_u32(len(words)) + words
        return head + put_key(command.key) + body
    if isinstance(command, Attach):
        flags = Flag.AUTO_RETURN * command.auto_return | Flag.EXCLUSIVE * command.exclusive
        numbers = int(command.priority).to_bytes(4, "little", signed=True)
        numbers += int(command.timeout_ms).to_bytes(8, "little", signed=True)
        is_limited = command.window_bytes != QUEUE_LIMIT or command.rate_max != QUEUE_LIMIT
        if is_limited or command.selector:
            head = bytes((ATTACH, SELECTIVE if command.selector else LIMITED))
            for limit in (command.window_bytes, command.rate_max):
                numbers += int(limit).to_bytes(8, "little", signed=True)
            numbers += put_selector(command.selector)
        return head + put_key(command.key) + bytes((flags,)) + put_u64(command.credit) + numbers
    if isinstance(command, Credit):
        flags = Flag.AUTO_RETURN * command.auto_return | Flag.DRAIN * command.drain
        amounts = put_u64(command.delivery_count) + put_u64(command.credit)
        return head + put_key(command.key) + bytes((flags,)) + amounts
    if isinstance(command, Detach):
        return head + put_key(command.key)
    if isinstance(command, (Get, Purge, Inspect)):
        return head + put_session(command.session)
    if isinstance(command, EndSession):
        return _ending(command.kind, command.is_cut_off) + put_session(command.session)
    if isinstance(command, Configure):
        if len(command.sizes) == 0:
            return head + command.options.encode()
        return (
            bytes((CONFIGURE, SIZED_VERSION)) + command.options.encode() + put_sizes(command.sizes)
        )
    if isinstance(command, Tick):
        return head
    if isinstance(command, Restarted):
        return head + put_u64(command.next_seq)
    if isinstance(command, Selected):
        numbers = put_u64(command.number) + put_u64(command.after) + put_u64(command.upto)
        return head + numbers + command.matching.encode()
    if isinstance(command, EndProcess):
        return _ending(command.kind, command.is_cut_off) + put_u64(command.process)
    return head + _encode_leadership(command)


def _ending(kind: int, is_cut_off: bool) -> bytes:
    return bytes((kind, CUT_OFF if is_cut_off else VERSION))


def _encode_leadership(command: Command) -> bytes:
    """The fields of commands that only queues in a cluster are given."""
    if isinstance(command, Numbered):
        inner = encode(command.command)
        numbers = put_u64(command.number) + put_u64(command.confirmed) + put_u32(len(inner))
        return put_session(command.session) + numbers + inner
    if isinstance(command, Leads):
        return put_u64(command.term)
    if isinstance(command, Retire):
        flags = RetireFlag.OFF * command.off | RetireFlag.IF_EMPTY * command.if_empty
        flags |= RetireFlag.IF_UNUSED * command.if_unused
        return put_session(command.session) + bytes((flags,))
    if isinstance(command, Suspend):
        return put_u64(command.process) + put_u64(command.timeout_ms)
    if isinstance(command, Unsuspend):
        return put_u64(command.process)
    if isinstance(command, (ReleaseDeadLetters, DropLost)):
        runs = [put_u64(first) + put_u32(count) for first, count in command.runs]
        return put_u32(len(runs)) + b"".join(runs)
    return _encode_tracking(command)


def _encode_tracking(command: Command) -> bytes:
    """The fields of commands of streams."""
    if isinstance(command, StoreOffsets):
        rows = [put_name(name) + put_u64(offset) for name, offset in command.rows]
        return put_session(command.session) + put_u32(len(rows)) + b"".join(rows)
    if isinstance(command, QueryTracking):
        return put_session(command.session) + bytes((command.subject,)) + put_name(command.name)
    if isinstance(command, Identify):
        runs = [put_u64(first) + put_u32(count) for first, count in command.runs]
        head = put_session(command.session) + put_name(command.publisher)
        return head + put_u32(len(runs)) + b"".join(runs)
    if isinstance(command, JoinGroup):
        return (
            put_session(command.session) + put_name(command.name) + put_u32(command.partition + 1)
        )
    raise BadCommand(f"no encoding for {type(command).__name__}")


def decode(data: bytes) -> Command:
    """The command in `data`; raise BadCommand unless the bytes are exactly one known command."""
    if len(data) < 2 or not _is_known(data[0], data[1]):
        raise BadCommand(f"unknown version in {data[:8].hex()}")
    reader = Reader(data)
    command = _decode(data[0], reader)
    if reader.place != len(data):
        raise BadCommand(f"{len(data) - reader.place} bytes after a command of kind {data[0]}")
    return command


def _is_known(kind: int, version: int) -> bool:
    if version == VERSION:
        return True
    assert ANNOTATED == LIMITED == SIZED_VERSION == CUT_OFF
    if version == SELECTIVE:
        return kind == ATTACH
    return version == CUT_OFF and kind in (SETTLE, ATTACH, CONFIGURE, END_SESSION, END_PROCESS)


def _decode(kind: int, reader: Reader) -> Command:
    if kind == ENQUEUE:
        session, first, count = SessionId(reader.take(16)), reader.take(8), reader.take(4)
        return Enqueue(session, first, count, reader.traits(count))
    if kind == SETTLE:
        key = ConsumerKey(reader.take(20))
        outcome = reader.take(1)
        if not ACCEPT <= outcome <= REJECT_TOO_LARGE:
            raise BadCommand(f"unknown outcome {outcome}")
        runs = reader.runs()
        words = reader.words() if reader.data[1] == ANNOTATED else b""
        return Settle(key, outcome, runs, words)
    if kind == ATTACH:
        key = ConsumerKey(reader.take(20))
        flags = reader.flags(Flag.AUTO_RETURN | Flag.EXCLUSIVE)
        credit = reader.take(8)
        priority, timeout = reader.signed(4), reader.signed(8)
        auto_return, exclusive = bool(flags & Flag.AUTO_RETURN), bool(flags & Flag.EXCLUSIVE)
        own = (QUEUE_LIMIT, QUEUE_LIMIT)
        if reader.data[1] != VERSION:
            own = reader.limit(), reader.limit()
        selector = reader.selector() if reader.data[1] == SELECTIVE else b""
        return Attach(key, credit, auto_return, exclusive, priority, timeout, *own, selector)
    if kind == CREDIT:
        key = ConsumerKey(reader.take(20))
        flags = reader.flags(Flag.AUTO_RETURN | Flag.DRAIN)
        drain, auto_return = bool(flags & Flag.DRAIN), bool(flags & Flag.AUTO_RETURN)
        return Credit(key, reader.take(8), reader.take(8), drain, auto_return)
    if kind == DETACH:
        return Detach(ConsumerKey(reader.take(20)))
    if kind == CONFIGURE:
        options = reader.options()
        return Configure(options, reader.sizes() if reader.data[1] == SIZED_VERSION else None)
    if kind == TICK:
        return Tick()
    if kind == RESTARTED:
        return Restarted(reader.take(8))
    if NUMBERED <= kind <= BURIED:
        return _decode_leadership(kind, reader)
    if kind == DROP_LOST:
        return DropLost(reader.runs())
    if kind == SELECTED:
        number, after, upto = reader.take(8), reader.take(8), reader.take(8)
        return Selected(number, after, upto, reader.rest_as_set(after, upto))
    session = SessionId(reader.take(16))
    if STORE_OFFSETS <= kind <= IDENTIFY or kind == JOIN_GROUP:
        return _decode_tracking(kind, session, reader)
    if kind == GET:
        return Get(session)
    if kind == PURGE:
        return Purge(session)
    if kind == INSPECT:
        return Inspect(session)
    if kind == END_SESSION:
        return EndSession(session, reader.data[1] == CUT_OFF)
    raise BadCommand(f"unknown kind {kind}")


def _inner(reader: Reader, session: SessionId, size: int) -> Command:
    """A command of that session."""
    reader.need(max(size, 1))
    kind = reader.data[reader.place]
    if kind not in OF_SESSIONS:
        raise BadCommand(f"a command of kind {kind} in a stream of others")
    command = decode(reader.raw(size))
    if session_named(command) != session:
        raise BadCommand("a command of another session in a stream of others")
    return command


def _decode_leadership(kind: int, reader: Reader) -> Command:
    if kind == LEADS:
        return Leads(reader.term())
    if kind == SUSPEND:
        return Suspend(reader.wide(), reader.take(8))
    if kind == UNSUSPEND:
        return Unsuspend(reader.wide())
    if kind == END_PROCESS:
        return EndProcess(reader.wide(), reader.data[1] == CUT_OFF)
    if kind == BURIED:
        return ReleaseDeadLetters(reader.runs())
    session = SessionId(reader.take(16))
    if kind == NUMBERED:
        number, confirmed, size = reader.take(8), reader.take(8), reader.take(4)
        return Numbered(session, number, confirmed, _inner(reader, session, size))
    known = RetireFlag.OFF | RetireFlag.IF_EMPTY | RetireFlag.IF_UNUSED
    flags = reader.flags(known)
    conditions = bool(flags & RetireFlag.IF_EMPTY), bool(flags & RetireFlag.IF_UNUSED)
    return Retire(session, bool(flags & RetireFlag.OFF), *conditions)


def _decode_tracking(kind: int, session: SessionId, reader: Reader) -> Command:
    if kind == STORE_OFFSETS:
        count = reader.take(4)
        reader.need(9 * count)
        return StoreOffsets(session, [(reader.name(), reader.take(8)) for _ in range(count)])
    if kind == IDENTIFY:
        publisher = reader.name()
        return Identify(session, publisher, reader.runs())
    if kind == JOIN_GROUP:
        return JoinGroup(session, reader.name(), reader.take(4) - 1)
    subject = reader.take(1)
    if subject not in (TRACKED_OFFSET, TRACKED_PUBLISHER):
        raise BadCommand(f"unknown subject {subject} of tracking")
    return QueryTracking(session, subject, reader.name())

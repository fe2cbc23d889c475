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

from queues.annotations import WORDS_BYTES_MAX, decode_words
from queues.options import OPTIONS_BYTES, Options, decode_options
from queues.traits import Traits

SessionId = NewType("SessionId", int)
ConsumerKey = NewType("ConsumerKey", int)

VERSION: Final = 1
SIZED_VERSION: Final = 2  # of a CONFIGURE with sizes
SIZE_BYTES: Final = 16
ANNOTATED: Final = 2  # the version of a SETTLE that has annotations
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

ACCEPT: Final = 1  # done with
REJECT: Final = 2  # dead-lettered or dropped
RELEASE: Final = 3  # back to ready, redelivered
RETURN_UNSEEN: Final = 4  # back to ready; the client never saw it, so it is not redelivered
FAIL: Final = 5  # as RELEASE, and counted as a failed delivery


TRAITS: Final = 1  # bits of the flag byte before traits: there are some; and each column
PRIORITIES: Final = 2
TTLS: Final = 4
SIZES: Final = 8


class BadCommand(Exception):
    """Bytes that are no command of a version that this node knows."""


def consumer_key(session: SessionId, number: int) -> ConsumerKey:
    """Key of a session's consumer; `number` is 1-based, 0 stands for basic.get."""
    return ConsumerKey(session << 32 | number)


def session_of(key: ConsumerKey) -> SessionId:
    return SessionId(key >> 32)


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

    `annotations` are words (`queues.annotations`) for messages that are not accepted (B-34).
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
    ) -> None:
        super().__init__(ATTACH)
        self.key = key
        self.credit: i64 = credit
        self.auto_return = auto_return
        self.exclusive = exclusive
        self.priority: i64 = priority  # higher is served first
        self.timeout_ms: i64 = timeout_ms  # for settling a delivery; -1: the queue's own


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
    """The session is over: its consumers go, what they hold is ready again."""

    def __init__(self, session: SessionId) -> None:
        super().__init__(END_SESSION)
        self.session = session


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
    """The only member began anew: all sessions are over, and numbers below are used up."""

    def __init__(self, next_seq: i64) -> None:
        super().__init__(RESTARTED)
        self.next_seq: i64 = next_seq


class Flag(IntEnum):
    """Bits of the flag byte of ATTACH and CREDIT."""

    AUTO_RETURN = 1
    EXCLUSIVE = 2
    DRAIN = 4


def encode(command: Command) -> bytes:
    """The bytes of one command."""
    head = bytes((command.kind, VERSION))
    if isinstance(command, Enqueue):
        numbers = _u64(command.first_seq) + _u32(command.count)
        return head + _session(command.session) + numbers + _traits(command.traits)
    if isinstance(command, Settle):
        runs = b"".join([_u64(first) + _u32(count) for first, count in command.runs])
        body = bytes((command.outcome,)) + _u32(len(command.runs)) + runs
        words = command.annotations
        if len(words) > 0:
            head = bytes((SETTLE, ANNOTATED))
            body += _u32(len(words)) + words
        return head + _key(command.key) + body
    if isinstance(command, Attach):
        flags = Flag.AUTO_RETURN * command.auto_return | Flag.EXCLUSIVE * command.exclusive
        numbers = int(command.priority).to_bytes(4, "little", signed=True)
        numbers += int(command.timeout_ms).to_bytes(8, "little", signed=True)
        return head + _key(command.key) + bytes((flags,)) + _u64(command.credit) + numbers
    if isinstance(command, Credit):
        flags = Flag.AUTO_RETURN * command.auto_return | Flag.DRAIN * command.drain
        amounts = _u64(command.delivery_count) + _u64(command.credit)
        return head + _key(command.key) + bytes((flags,)) + amounts
    if isinstance(command, Detach):
        return head + _key(command.key)
    if isinstance(command, Get | Purge | Inspect | EndSession):
        return head + _session(command.session)
    if isinstance(command, Configure):
        if len(command.sizes) == 0:
            return head + command.options.encode()
        return bytes((CONFIGURE, SIZED_VERSION)) + command.options.encode() + _sizes(command.sizes)
    if isinstance(command, Tick):
        return head
    if isinstance(command, Restarted):
        return head + _u64(command.next_seq)
    raise BadCommand(f"no encoding for {type(command).__name__}")


def decode(data: bytes) -> Command:
    """The command in `data`; raise BadCommand unless the bytes are exactly one known command."""
    if len(data) < 2 or not _is_known(data[0], data[1]):
        raise BadCommand(f"unknown version in {data[:8].hex()}")
    reader = _Reader(data)
    command = _decode(data[0], reader)
    if reader.place != len(data):
        raise BadCommand(f"{len(data) - reader.place} bytes after a command of kind {data[0]}")
    return command


def _is_known(kind: int, version: int) -> bool:
    if kind == SETTLE and version == ANNOTATED:
        return True
    return version == VERSION or (kind == CONFIGURE and version == SIZED_VERSION)


def _decode(kind: int, reader: "_Reader") -> Command:
    if kind == ENQUEUE:
        session, first, count = SessionId(reader.take(16)), reader.take(8), reader.take(4)
        return Enqueue(session, first, count, reader.traits(count))
    if kind == SETTLE:
        key = ConsumerKey(reader.take(20))
        outcome = reader.take(1)
        if not ACCEPT <= outcome <= FAIL:
            raise BadCommand(f"unknown outcome {outcome}")
        count = reader.take(4)
        reader.need(12 * count)
        runs = [(reader.take(8), reader.take(4)) for _ in range(count)]
        words = reader.words() if reader.data[1] == ANNOTATED else b""
        return Settle(key, outcome, runs, words)
    if kind == ATTACH:
        key = ConsumerKey(reader.take(20))
        flags = reader.flags(Flag.AUTO_RETURN | Flag.EXCLUSIVE)
        credit = reader.take(8)
        priority, timeout = reader.signed(4), reader.signed(8)
        auto_return, exclusive = bool(flags & Flag.AUTO_RETURN), bool(flags & Flag.EXCLUSIVE)
        return Attach(key, credit, auto_return, exclusive, priority, timeout)
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
    session = SessionId(reader.take(16))
    if kind == GET:
        return Get(session)
    if kind == PURGE:
        return Purge(session)
    if kind == INSPECT:
        return Inspect(session)
    if kind == END_SESSION:
        return EndSession(session)
    raise BadCommand(f"unknown kind {kind}")


class _Reader:
    """A place in the bytes of one command."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.place = 2

    def need(self, size: int) -> None:
        if self.place + size > len(self.data):
            raise BadCommand(f"cut short at byte {len(self.data)}")

    def take(self, size: int) -> int:
        """The next `size` bytes as an unsigned little-endian integer."""
        self.need(size)
        value = int.from_bytes(self.data[self.place : self.place + size], "little")
        if size == 8 and value >= 1 << 63:
            raise BadCommand(f"number out of range at byte {self.place}")
        self.place += size
        return value

    def signed(self, size: int) -> int:
        """The next `size` bytes as a signed little-endian integer."""
        self.need(size)
        self.place += size
        return int.from_bytes(self.data[self.place - size : self.place], "little", signed=True)

    def column(self, flag: int, flags: int, size: int) -> bytes | None:
        """A column of that many bytes, if `flags` say that it is there."""
        if not flags & flag:
            return None
        self.need(size)
        self.place += size
        return self.data[self.place - size : self.place]

    def traits(self, count: int) -> Traits | None:
        flags = self.flags(TRAITS | PRIORITIES | TTLS | SIZES)
        if flags == 0:
            return None
        if not flags & TRAITS:
            raise BadCommand(f"columns of no traits: flags {flags:#x}")
        priority, ttl = self.signed(4), self.signed(8)
        priorities = self.column(PRIORITIES, flags, 4 * count)
        ttls = self.column(TTLS, flags, 8 * count)
        return Traits(priority, ttl, priorities, ttls, self.column(SIZES, flags, 4 * count))

    def words(self) -> bytes:
        """Annotations: at least one."""
        size = self.take(4)
        if not 0 < size <= WORDS_BYTES_MAX:
            raise BadCommand(f"annotations of {size} bytes")
        self.need(size)
        self.place += size
        words = self.data[self.place - size : self.place]
        try:
            decode_words(words)
        except ValueError as error:
            raise BadCommand(str(error)) from error
        return words

    def options(self) -> Options:
        self.need(OPTIONS_BYTES)
        self.place += OPTIONS_BYTES
        try:
            return decode_options(self.data[self.place - OPTIONS_BYTES : self.place])
        except ValueError as error:
            raise BadCommand(str(error)) from error

    def sizes(self) -> list[tuple[int, int, int]]:
        count = self.take(4)
        self.need(SIZE_BYTES * count)
        runs: list[tuple[int, int, int]] = []
        after = 0
        for _ in range(count):
            first, run, size = self.take(8), self.take(4), self.take(4)
            if first < after or size >= 1 << 31:
                raise BadCommand(f"sizes are out of order or range at byte {self.place}")
            runs.append((first, run, size))
            after = first + run
        return runs

    def flags(self, known: int) -> int:
        """A byte of flags, none but `known` ones."""
        value = self.take(1)
        if value & ~known:
            raise BadCommand(f"unknown flags {value:#x}")
        return value


def _traits(traits: Traits | None) -> bytes:
    if traits is None:
        return b"\x00"
    columns = ((PRIORITIES, traits.priorities), (TTLS, traits.ttls), (SIZES, traits.sizes))
    flags = TRAITS
    parts: list[bytes] = []
    for flag, column in columns:
        if column is not None:
            flags |= flag
            parts.append(column)
    priority = int(traits.priority).to_bytes(4, "little", signed=True)
    ttl = int(traits.ttl_ms).to_bytes(8, "little", signed=True)
    return b"".join([bytes((flags,)), priority, ttl, *parts])


def _sizes(runs: list[tuple[int, int, int]]) -> bytes:
    rows = [_u64(first) + _u32(count) + _u32(size) for first, count, size in runs]
    return _u32(len(runs)) + b"".join(rows)


def _u32(value: int) -> bytes:
    return value.to_bytes(4, "little")


def _u64(value: int) -> bytes:
    return value.to_bytes(8, "little")


def _session(session: SessionId) -> bytes:
    return int(session).to_bytes(16, "little")


def _key(key: ConsumerKey) -> bytes:
    return int(key).to_bytes(20, "little")

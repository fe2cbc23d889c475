"""Fields of commands as bytes (`queues.machine.commands`), little-endian. Compiled."""

from typing import Final

from queues.machine.address_settings import VALUE_MAX
from queues.machine.annotations import WORDS_BYTES_MAX, decode_words
from queues.machine.known_ids import DIGEST_BYTES
from queues.machine.options import Options, decode_options, options_bytes
from queues.machine.traits import Traits
from queues.runs.seqset import SeqSet

QUEUE_LIMIT: Final = -2  # a consumer's own limit: it has none, and that of the queue holds
TERM_BITS: Final = 23  # of a term in a message_seq
SIZE_BYTES: Final = 16
SELECTOR_BYTES_MAX: Final = 32 << 10
TRAITS: Final = 1  # bits of the flag byte before traits: there are some; and each column
PRIORITIES: Final = 2
TTLS: Final = 4
SIZES: Final = 8
IDS: Final = 16
KEYS: Final = 32
GROUPS: Final = 64


class BadCommand(Exception):
    """Bytes that are no command of a version that this node knows."""


class Reader:
    """A place in the bytes of one command."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.place = 2

    def need(self, size: int) -> None:
        if self.place + size > len(self.data):
            raise BadCommand(f"cut short at byte {len(self.data)}")

    def raw(self, size: int) -> bytes:
        """The next `size` bytes."""
        self.need(size)
        self.place += size
        return self.data[self.place - size : self.place]

    def take(self, size: int) -> int:
        """The next `size` bytes as an unsigned little-endian integer."""
        value = int.from_bytes(self.raw(size), "little")
        if size == 8 and value >= 1 << 63:
            raise BadCommand(f"number out of range at byte {self.place - size}")
        return value

    def signed(self, size: int) -> int:
        """The next `size` bytes as a signed little-endian integer."""
        return int.from_bytes(self.raw(size), "little", signed=True)

    def limit(self) -> int:
        """A limit of a consumer's own, or QUEUE_LIMIT."""
        value = self.signed(8)
        if not QUEUE_LIMIT <= value <= VALUE_MAX:
            raise BadCommand(f"a limit of {value}")
        return value

    def column(self, flag: int, flags: int, size: int) -> bytes | None:
        """A column of that many bytes, if `flags` say that it is there."""
        return self.raw(size) if flags & flag else None

    def traits(self, count: int) -> Traits | None:
        flags = self.flags(TRAITS | PRIORITIES | TTLS | SIZES | IDS | KEYS | GROUPS)
        if flags == 0:
            return None
        if not flags & TRAITS:
            raise BadCommand(f"columns of no traits: flags {flags:#x}")
        priority, ttl = self.signed(4), self.signed(8)
        priorities = self.column(PRIORITIES, flags, 4 * count)
        ttls = self.column(TTLS, flags, 8 * count)
        sizes = self.column(SIZES, flags, 4 * count)
        ids = self.column(IDS, flags, DIGEST_BYTES * count)
        keys = self.column(KEYS, flags, DIGEST_BYTES * count)
        groups = self.column(GROUPS, flags, 4 * count)
        return Traits(priority, ttl, priorities, ttls, sizes, ids, keys, groups)

    def name(self) -> bytes:
        """Of a consumer or publisher."""
        return self.raw(self.take(1))

    def wide(self) -> int:
        """The next 8 bytes, all of whose bits count: the number of a process."""
        return int.from_bytes(self.raw(8), "little")

    def term(self) -> int:
        term = self.take(8)
        if not 0 < term < 1 << TERM_BITS:
            raise BadCommand(f"term {term}")
        return term

    def runs(self) -> list[tuple[int, int]]:
        count = self.take(4)
        self.need(12 * count)
        return [(self.take(8), self.take(4)) for _ in range(count)]

    def selector(self) -> bytes:
        size = self.take(2)
        if not 0 < size <= SELECTOR_BYTES_MAX:
            raise BadCommand(f"a selector of {size} bytes")
        return self.raw(size)

    def rest_as_set(self, after: int, upto: int) -> SeqSet:
        """All that follows: members behind `after`, up to `upto`."""
        if upto <= after:
            raise BadCommand(f"messages from {after + 1} to {upto}")
        try:
            found = SeqSet.decode(self.raw(len(self.data) - self.place))
        except (ValueError, IndexError) as error:
            raise BadCommand(str(error)) from error
        if found.count > 0 and not (after < found.first() and found.last() <= upto):
            raise BadCommand(f"messages outside of {after + 1} to {upto}")
        return found

    def words(self) -> bytes:
        """Annotations: at least one."""
        size = self.take(4)
        if not 0 < size <= WORDS_BYTES_MAX:
            raise BadCommand(f"annotations of {size} bytes")
        words = self.raw(size)
        try:
            decode_words(words)
        except ValueError as error:
            raise BadCommand(str(error)) from error
        return words

    def options(self) -> Options:
        try:
            return decode_options(self.raw(options_bytes(self.data, self.place)))
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


def put_traits(traits: Traits | None) -> bytes:
    if traits is None:
        return b"\x00"
    columns = (
        (PRIORITIES, traits.priorities),
        (TTLS, traits.ttls),
        (SIZES, traits.sizes),
        (IDS, traits.ids),
        (KEYS, traits.keys),
        (GROUPS, traits.groups),
    )
    flags = TRAITS
    parts: list[bytes] = []
    for flag, column in columns:
        if column is not None:
            flags |= flag
            parts.append(column)
    priority = int(traits.priority).to_bytes(4, "little", signed=True)
    ttl = int(traits.ttl_ms).to_bytes(8, "little", signed=True)
    return b"".join([bytes((flags,)), priority, ttl, *parts])


def put_sizes(runs: list[tuple[int, int, int]]) -> bytes:
    rows = [put_u64(first) + put_u32(count) + put_u32(size) for first, count, size in runs]
    return put_u32(len(runs)) + b"".join(rows)


def put_selector(selector: bytes) -> bytes:
    return len(selector).to_bytes(2, "little") + selector if selector else b""


def put_u32(value: int) -> bytes:
    return value.to_bytes(4, "little")


def put_u64(value: int) -> bytes:
    return value.to_bytes(8, "little")


def put_name(name: bytes) -> bytes:
    return bytes((len(name),)) + name


def put_session(session: int) -> bytes:
    return int(session).to_bytes(16, "little")


def put_key(key: int) -> bytes:
    return int(key).to_bytes(20, "little")

"""What the queue machine knows of each message of a publish run: priority, lifetime, size.

A run in which no message has a priority or an expiration, in a queue that does not count bytes,
has no traits at all. What is the same for the whole run is one number; what differs is a column
with one little-endian entry per message: i32 for priorities and sizes, i64 for lifetimes in
milliseconds. Compiled.
"""

from typing import Final, final

from mypy_extensions import i32, i64, mypyc_attr

from queues.machine.known_ids import DIGEST_BYTES
from queues.message import FORMAT_091, Chunk
from warren.wire.amqp091.deliver import content_size
from warren.wire.amqp091.properties import expiration_of, priority_of
from warren.wire.amqp10.codec.message import Sections
from warren.wire.amqp10.transfers import payload_at
from warren.wire.buffer import (
    BytesWriter,
    read_i32_le,
    read_i64_le,
    write_i32_le,
    write_i64_le,
)

ABSENT: Final = -1  # no priority, no expiration
META_BYTES: Final = 16  # expiration i64, priority i32, size i32, little-endian


@final
@mypyc_attr(acyclic=True)
class Traits:
    """Of `count` messages; a column is None where the run has one value for all."""

    def __init__(
        self,
        priority: i64 = ABSENT,
        ttl_ms: i64 = ABSENT,
        priorities: bytes | None = None,
        ttls: bytes | None = None,
        sizes: bytes | None = None,
        ids: bytes | None = None,
        keys: bytes | None = None,
        groups: bytes | None = None,
    ) -> None:
        self.priority: i64 = priority
        self.ttl_ms: i64 = ttl_ms
        self.priorities = priorities  # i32 each, ABSENT for none
        self.ttls = ttls  # i64 each, ABSENT for none
        self.sizes = sizes  # i32 body bytes each; None: not needed
        self.ids = ids  # digests of DIGEST_BYTES each; None: not needed, or no message has an id
        self.keys = keys  # the same of keys of last values
        self.groups = groups  # i32 each, numbers of their groups, 0 for none; None: not needed

    def priority_of(self, index: i64) -> i64:
        column = self.priorities
        return self.priority if column is None else i64(read_i32_le(column, 4 * index))

    def ttl_of(self, index: i64) -> i64:
        column = self.ttls
        return self.ttl_ms if column is None else read_i64_le(column, 8 * index)

    def size_of(self, index: i64) -> i64:
        column = self.sizes
        assert column is not None
        return i64(read_i32_le(column, 4 * index))

    def one(self, index: i64) -> "Traits":
        """Of that message alone, without its id."""
        sizes = self.sizes
        size = None if sizes is None else sizes[4 * index : 4 * index + 4]
        keys = self.keys
        key = None if keys is None else keys[DIGEST_BYTES * index : DIGEST_BYTES * (index + 1)]
        groups = self.groups
        group = None if groups is None else groups[4 * index : 4 * index + 4]
        priority, ttl_ms = self.priority_of(index), self.ttl_of(index)
        return Traits(priority, ttl_ms, None, None, size, None, key, group)

    def with_digests(
        self, ids: bytes | None, keys: bytes | None, groups: bytes | None = None
    ) -> "Traits":
        """The same of messages that have ids, keys or groups."""
        columns = self.priorities, self.ttls, self.sizes
        return Traits(self.priority, self.ttl_ms, *columns, ids, keys, groups)

    def from_index(self, first: i64) -> "Traits":
        """Of the messages from `first` on."""
        return Traits(
            self.priority,
            self.ttl_ms,
            None if self.priorities is None else self.priorities[4 * first :],
            None if self.ttls is None else self.ttls[8 * first :],
            None if self.sizes is None else self.sizes[4 * first :],
            None if self.ids is None else self.ids[DIGEST_BYTES * first :],
            None if self.keys is None else self.keys[DIGEST_BYTES * first :],
            None if self.groups is None else self.groups[4 * first :],
        )


@final
class Reading:
    """What is read of one message after the other."""

    def __init__(self, format_tag: i64) -> None:
        self._is_091 = format_tag == FORMAT_091
        self._sections = Sections()
        self.priority: i64 = ABSENT
        self.ttl_ms: i64 = ABSENT
        self.size: i64 = 0  # of the body

    def read(self, data: bytes, start: i64, end: i64) -> None:
        if self._is_091:
            self._read_091(data, start)
        else:
            self._read_10(data, payload_at(data, start), end)

    def _read_091(self, data: bytes, start: i64) -> None:
        found = priority_of(data, start)
        self.priority = ABSENT if found is None else i64(found)
        text = expiration_of(data, start)
        self.ttl_ms = ABSENT if text is None else i64(int(text))
        self.size = content_size(data, start)

    def _read_10(self, data: bytes, at: i64, end: i64) -> None:
        sections = self._sections
        sections.find(data, at, end)
        header = sections.header(data)
        self.priority = ABSENT if header.priority is None else i64(header.priority)
        self.ttl_ms = ABSENT if header.ttl is None else i64(header.ttl)
        self.size = sections.footer_at - sections.body_at


def traits_of(chunk: Chunk, sized: bool) -> Traits:
    """Read the messages of a chunk; `sized`: with the size of their bodies.

    Its bytes must be in memory. Expirations were checked when the messages came in.
    """
    data = chunk.data
    assert data is not None
    count = chunk.count()
    reading = Reading(chunk.format_tag)
    priorities = BytesWriter()
    ttls = BytesWriter()
    sizes = BytesWriter()
    same_priority = True
    same_ttl = True
    priority: i64 = ABSENT
    ttl: i64 = ABSENT
    i: i64 = 0
    while i < count:
        start = i64(read_i32_le(chunk.offsets, 4 * i)) - chunk.base
        end = i64(read_i32_le(chunk.offsets, 4 * i + 4)) - chunk.base
        reading.read(data, start, end)
        own_priority = reading.priority
        own_ttl = reading.ttl_ms
        if i == 0:
            priority = own_priority
            ttl = own_ttl
        same_priority = same_priority and own_priority == priority
        same_ttl = same_ttl and own_ttl == ttl
        write_i32_le(priorities, i32(own_priority))
        write_i64_le(ttls, own_ttl)
        if sized:
            write_i32_le(sizes, i32(reading.size))
        i += 1
    return Traits(
        priority,
        ttl,
        None if same_priority else priorities.getvalue(),
        None if same_ttl else ttls.getvalue(),
        sizes.getvalue() if sized else None,
    )


def encode_meta(traits: Traits, count: i64) -> bytes:
    """META_BYTES per message for the log: what a restart must know without reading bodies."""
    writer = BytesWriter()
    i: i64 = 0
    while i < count:
        write_i64_le(writer, traits.ttl_of(i))
        write_i32_le(writer, i32(traits.priority_of(i)))
        write_i32_le(writer, i32(0 if traits.sizes is None else traits.size_of(i)))
        i += 1
    return writer.getvalue()


def decode_meta(meta: bytes) -> Traits:
    """The traits of all messages of a record."""
    count: i64 = len(meta) // META_BYTES
    priorities = BytesWriter()
    ttls = BytesWriter()
    sizes = BytesWriter()
    i: i64 = 0
    while i < count:
        at = META_BYTES * i
        write_i64_le(ttls, read_i64_le(meta, at))
        write_i32_le(priorities, read_i32_le(meta, at + 8))
        write_i32_le(sizes, read_i32_le(meta, at + 12))
        i += 1
    return Traits(ABSENT, ABSENT, priorities.getvalue(), ttls.getvalue(), sizes.getvalue())

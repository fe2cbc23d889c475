"""Messages as they are held: many at a time, in the bytes that they came in as.

A `Chunk` is a run of messages that took the same way: published in one socket read by one channel
to the same queues. Nothing is made per message. Several queues may hold the same chunk; it goes
when the last of them lets go.
"""

from typing import TYPE_CHECKING, Final

from mypy_extensions import i64, mypyc_attr

from warren.wire.buffer import read_i32_le

if TYPE_CHECKING:
    from queues.machine.traits import Traits

FORMAT_091: Final = 1  # publish method frame, header frame, body frames (wire.amqp091.events)
FORMAT_10: Final = 2  # transfer frame with the message's sections (wire.amqp10.transfers)
BEING_PAGED: Final = -1  # a `page_id`: on its way to a page file


@mypyc_attr(acyclic=True)
class Chunk:
    """Messages 0..count-1 of one publish run.

    Message `i` is `data[offsets[i] - base : offsets[i + 1] - base]`. `data` is None while the bytes
    are on disk alone: in the log at `file_id`, `file_offset`, or in a page file at `page_id`,
    `page_offset`. In the log they are for the queues that are journaled, in a page file, which
    claims `size()` of it, for the holders of the chunk.
    """

    def __init__(
        self,
        format_tag: i64,
        data: bytes | None,
        base: i64,
        offsets: bytes,
        info: i64,
        names: bytes = b"",
    ) -> None:
        self.format_tag: i64 = format_tag
        self.data = data
        self.base: i64 = base
        self.offsets = offsets  # count + 1 times u32 little-endian
        # Bits of wire.amqp091.events: INFO_PERSISTENT holds for every message; INFO_PRIORITY and
        # INFO_EXPIRATION say that some message has one.
        self.info: i64 = info
        # Exchange and routing key, short strings, where the messages do not say them (FORMAT_10).
        self.names = names
        self.traits: Traits | None = None  # what the machine got, if anything
        self.file_id: i64 = 0  # 0: in memory alone
        self.file_offset: i64 = 0  # where `data` begins in that file
        self.page_id: i64 = 0  # 0: in no page file
        self.page_offset: i64 = 0
        self.durable = False  # the bytes at that place are synced
        self.unclaimed: i64 = 0  # bytes that died before the record was written
        self.holders: i64 = 0  # queues that still have live messages of it
        self.pinned = False  # some queue has no claim on the log: `data` stays, or is paged
        self.lazy = False  # only lazy queues hold it: `data` goes as soon as it is on disk
        # To be journaled for this queue, as its message_seqs owner_first.., and for others.
        self.owner: i64 = 0  # its uid; 0: for none
        self.owner_first: i64 = 0
        self.others: list[tuple[int, int]] | None = None  # (uid, first message_seq)

    def count(self) -> i64:
        return len(self.offsets) // 4 - 1

    def span(self, index: i64) -> tuple[int, int]:
        """Where message `index` begins and ends in `data`."""
        start = i64(read_i32_le(self.offsets, 4 * index)) - self.base
        end = i64(read_i32_le(self.offsets, 4 * index + 4)) - self.base
        return start, end

    def first_offset(self) -> i64:
        return i64(read_i32_le(self.offsets, 0))

    def size(self) -> i64:
        """Bytes of all messages, frames included."""
        return self.bytes_between(0, self.count())

    def twin(self) -> "Chunk":
        """Another chunk of the same messages, for one who keeps and drops it by itself. The bytes
        are in memory, and are the same."""
        assert self.data is not None
        twin = Chunk(self.format_tag, self.data, self.base, self.offsets, self.info, self.names)
        twin.traits = self.traits
        return twin

    def bytes_between(self, first: i64, last: i64) -> i64:
        """Bytes of messages first..last-1, frames included."""
        return i64(read_i32_le(self.offsets, 4 * last)) - i64(read_i32_le(self.offsets, 4 * first))

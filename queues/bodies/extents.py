"""Where a long stretch of a queue's messages is on disk, in few bytes of memory. Compiled.

Takes chunks of which nothing is in memory, one behind the other in one file of the log or in one
page file, and gives a *table* from which they can be made again exactly as they were: places,
counts and sizes. Nothing is read from disk for that, so that a chunk that is made again can be
moved, released in part, or loaded as any other. Chunks that are alike cost next to nothing: 512 of
one message each took 512 * 300 bytes and take about 100, or 2 bytes for each message if sizes are
random.

A table is the size of each message (`queues.bodies.holes`), and deflated u32, little-endian: the
number of
chunks; then for each chunk its count, its info bits, and how far its data lies behind that of the
one before. It lives in memory alone; no file has it.

Messages that leave the midst of an extent are *holes* in it (`queues.bodies.holes`): it stays
folded. When
its chunks are made again, all are that have a live message, whole as they were written.
"""

import zlib
from typing import Final, final

from mypy_extensions import i32, i64, mypyc_attr

from queues.bodies.holes import Holes, Sizes
from queues.message import Chunk
from warren.wire.buffer import BytesWriter, read_i32_le, write_i32_le

LEVEL: Final = 1  # of deflate: what is alike is found by the quickest, too
GAP_MAX: Final = 0x7FFFFFFF


@final
@mypyc_attr(acyclic=True)
class Table:
    """What an extent has instead of slots."""

    def __init__(self, deflated: bytes, sizes: Sizes) -> None:
        self.deflated = deflated
        self.sizes = sizes
        self.holes: Holes | None = None  # once one of its messages has gone alone

    def dig(self, first: i64, last: i64, count: i64) -> None:
        """Of its `count` messages, first..last-1 have gone."""
        holes = self.holes
        if holes is None:
            holes = Holes(count)
            self.holes = holes
        holes.dig(first, last)

    def byte_count(self) -> int:
        """What it takes."""
        return len(self.deflated) + self.sizes.byte_count()


@final
class Columns:
    """Records that follow each other in one file, little-endian: where the data of each is (u32),
    how many messages it has (u32), the size of each message (u32), when it came (u64, ms)."""

    def __init__(self, places: bytes, counts: bytes, sizes: bytes, arrivals: bytes) -> None:
        self.places = places
        self.counts = counts
        self.sizes = sizes
        self.arrivals = arrivals

    def place(self, record: i64) -> i64:
        """Where the data of a record begins in the file."""
        return i64(read_i32_le(self.places, 4 * record)) & 0xFFFFFFFF


def data_begin(chunk: Chunk, index: i64, paged: bool) -> i64:
    """Where message `index` of the chunk begins in its page file, or in its file of the log."""
    offset = chunk.page_offset if paged else chunk.file_offset
    return offset + chunk.bytes_between(0, index)


def encode_table(chunks: list[Chunk], indexes: list[int], counts: list[int], paged: bool) -> Table:
    """A table of `counts[i]` messages from `indexes[i]` on of each chunk, in order of the file."""
    gaps = BytesWriter()
    infos = BytesWriter()
    lengths = BytesWriter()
    sizes = BytesWriter()
    end = data_begin(chunks[0], indexes[0], paged)
    for place in range(len(chunks)):
        chunk = chunks[place]
        index: i64 = indexes[place]
        last: i64 = index + counts[place]
        begin = data_begin(chunk, index, paged)
        gap = begin - end
        assert 0 <= gap <= GAP_MAX
        write_i32_le(lengths, i32(last - index))
        write_i32_le(infos, i32(chunk.info))
        write_i32_le(gaps, i32(gap))
        at = i64(read_i32_le(chunk.offsets, 4 * index))
        end = begin - at
        while index < last:
            index += 1
            following = i64(read_i32_le(chunk.offsets, 4 * index))
            write_i32_le(sizes, i32(following - at))
            at = following
        end += at
    number = len(chunks).to_bytes(4, "little")
    rows = b"".join((number, lengths.getvalue(), infos.getvalue(), gaps.getvalue()))
    return Table(zlib.compress(rows, LEVEL), Sizes(sizes.getvalue()))


def encode_columns(
    columns: Columns, begin: i64, end: i64, message: i64, info: i64
) -> tuple[Table, int, int]:
    """A table of the records begin..end-1 of the columns; also how many messages and bytes.

    The first message of record `begin` is the `message`th of all.
    """
    gaps = BytesWriter()
    infos = BytesWriter()
    place = begin
    at = columns.place(begin)
    first = message
    byte_count: i64 = 0
    while place < end:
        data_at = columns.place(place)
        assert 0 <= data_at - at <= GAP_MAX
        write_i32_le(infos, i32(info))
        write_i32_le(gaps, i32(data_at - at))
        at = data_at
        last = message + i64(read_i32_le(columns.counts, 4 * place))
        while message < last:
            size = i64(read_i32_le(columns.sizes, 4 * message))
            at += size
            byte_count += size
            message += 1
        place += 1
    number = int(end - begin).to_bytes(4, "little")
    counts = columns.counts[4 * begin : 4 * end]
    sizes = columns.sizes[4 * first : 4 * message]
    rows = b"".join((number, counts, infos.getvalue(), gaps.getvalue()))
    table = Table(zlib.compress(rows, LEVEL), Sizes(sizes))
    return table, int(message - first), int(byte_count)


def decode_table(table: Table, whole: Chunk) -> list[Chunk]:
    """The chunks again, each cut to the messages that the table was made of.

    `whole` says what is the same for all of them, and where the first message is.
    """
    raw = zlib.decompress(table.deflated)
    sizes = table.sizes
    number: i64 = i64(read_i32_le(raw, 0))
    infos: i64 = 4 + 4 * number
    gaps: i64 = infos + 4 * number
    message: i64 = 0
    found: list[Chunk] = []
    paged = whole.page_id > 0
    offset = whole.page_offset if paged else whole.file_offset
    place: i64 = 0
    while place < number:
        count = i64(read_i32_le(raw, 4 + 4 * place))
        offset += i64(read_i32_le(raw, gaps + 4 * place))
        info = i64(read_i32_le(raw, infos + 4 * place))
        offsets = offsets_within(sizes, message, message + count)
        message += count
        chunk = Chunk(whole.format_tag, None, 0, offsets, info, whole.names)
        if paged:
            chunk.page_id = whole.page_id
            chunk.page_offset = offset
            chunk.pinned = True
        else:
            chunk.file_id = whole.file_id
            chunk.file_offset = offset
            chunk.durable = True
        chunk.lazy = whole.lazy
        offset += i64(read_i32_le(offsets, 4 * count))
        found.append(chunk)
        place += 1
    return found


def offsets_within(sizes: Sizes, first: i64, last: i64) -> bytes:
    """A table of offsets, from 0 on, of messages first..last-1."""
    writer = BytesWriter()
    end: i64 = 0
    write_i32_le(writer, 0)
    while first < last:
        end += sizes.size_of(first)
        write_i32_le(writer, i32(end))
        first += 1
    return writer.getvalue()


def offsets_of(raw: bytes, at: i64, count: i64) -> bytes:
    """A table of offsets, from 0 on, of messages whose sizes are in `raw` from `at` on."""
    writer = BytesWriter()
    end: i64 = 0
    write_i32_le(writer, 0)
    last = at + 4 * count
    while at < last:
        end += i64(read_i32_le(raw, at))
        write_i32_le(writer, i32(end))
        at += 4
    return writer.getvalue()

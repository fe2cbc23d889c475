"""Messages in stored form 2 (`transfers`) on their way out, each behind a transfer frame. Compiled.

Hot. A delivery is a frame head, a transfer performative, then the sections of the message. Tags are
8 bytes, a number that counts up. The bare message is copied as it is; the sections before it are
those that came, or what `Heads` makes of them. A message that does not fit one frame goes out in
pieces (`write_piece`), so that a window may end within it.

    frame head   size (u32)  02 00  channel (u16)
    transfer     00 53 14  c0 size count  52 handle  70 delivery-id  a0 08 tag  format  settled
"""

from typing import Final, final

from mypy_extensions import i64

from warren.wire.amqp10.codec import codes
from warren.wire.amqp10.codec.descriptors import MESSAGE_ANNOTATIONS
from warren.wire.amqp10.codec.message import Sections, list_span
from warren.wire.amqp10.codec.performatives import Header
from warren.wire.amqp10.codec.reader import value_end
from warren.wire.amqp10.codec.writer import (
    write_compound,
    write_symbol,
    write_value,
)
from warren.wire.amqp10.output import Output
from warren.wire.amqp10.transfers import payload_at
from warren.wire.buffer import (
    BytesWriter,
    read_i16_be,
    read_i32_le,
    write_i32_be,
    write_i64_be,
)
from warren.wire.inplace import begins_with, copy_words

HANDLE_MAX: Final = 255  # so that a handle always takes two octets
TAG_MAX: Final = (1 << 55) - 1  # so that the first octet of a tag is 0
TRANSFER_BYTES: Final = 33  # frame head and transfer before the payload, message format 0
PIECE_BYTES: Final = 16  # the same in a later frame that is the last
MORE_BYTES: Final = 5  # and what it takes to say that it is not
SMALL_BYTES: Final = 128  # so much is copied by words: no slice is made


@final
class Heads:
    """What stands before the bare message in deliveries to one consumer along one route.

    The header keeps durable, priority and ttl, and says how often delivery failed and whether
    a consumer had the message before. Delivery annotations of the publisher go, for they were for
    us. `annotations` are added to those of the message, in place of any with the same key. What
    came before the bare message mostly is what came with the last one, so the last answer is kept.
    """

    def __init__(self, annotations: dict[str, object]) -> None:
        self._keys: list[bytes] = []
        self._count: i64 = 2 * len(annotations)
        added = BytesWriter()
        for name, value in annotations.items():
            key = BytesWriter()
            write_symbol(key, name)
            self._keys.append(name.encode("ascii"))
            added.write(key.getvalue())
            write_value(added, value)
        self._added = added.getvalue()
        self._sections = Sections()
        self._known = b""  # the sections that came
        self._known_count: i64 = -1  # what the last answer was made with
        self._known_acquired = False
        self._made = b""
        self.bare_at: i64 = 0  # after `head`: where the bare message begins

    def head(self, data: bytes, at: i64, end: i64, delivery_count: i64, acquired: bool) -> bytes:
        """What is to stand in place of the sections before the bare message of data[at:end]."""
        is_known = delivery_count == self._known_count and acquired == self._known_acquired
        if is_known and begins_with(data, at, end, self._known):
            bare_at = at + i64(len(self._known))
            if bare_at == end or _is_bare(data, bare_at, end):
                self.bare_at = bare_at
                return self._made
        bare_at = self._sections.walk_head(data, at, end)
        if bare_at < 0:  # It goes as it came; a turn that raises would stop the node.
            self._sections.take_as_body(at, end)
            bare_at = at
        self.bare_at = bare_at
        self._known = data[at:bare_at]
        self._known_count = delivery_count
        self._known_acquired = acquired
        self._made = self._make(data)
        return self._made

    def _make(self, data: bytes) -> bytes:
        came = self._sections.header(data)
        header = Header(
            durable=True if came.durable else None,
            priority=came.priority,
            ttl=came.ttl,
            first_acquirer=None if self._known_acquired else True,
            delivery_count=self._known_count if self._known_count > 0 else None,
        )
        writer = BytesWriter()
        if header != Header():
            header.encode(writer)
        self._write_annotations(writer, data)
        return writer.getvalue()

    def _write_annotations(self, writer: BytesWriter, data: bytes) -> None:
        """Those of the message that are not replaced, as they came; then those added."""
        kept = BytesWriter()
        count = self._count
        sections = self._sections
        at = sections.message_annotations_at
        if at < sections.bare_at:
            value_at = value_end(data, at + 1, sections.bare_at)  # behind the descriptor
            at, inside_end, left = list_span(data, value_at, sections.bare_at, codes.MAP)
            while left > 0:
                item_at = value_end(data, at, inside_end)
                after = value_end(data, item_at, inside_end)
                if not self._replaces(data, at, item_at):
                    kept.write(data[at:after])
                    count += 2
                at = after
                left -= 2
        if count > 0:
            kept.write(self._added)
            writer.append(codes.DESCRIBED)
            writer.append(codes.ULONG_8)
            writer.append(MESSAGE_ANNOTATIONS)
            write_compound(writer, codes.MAP, kept.getvalue(), count)

    def _replaces(self, data: bytes, at: i64, end: i64) -> bool:
        """Whether the key data[at:end] is one of those added."""
        code: i64 = data[at]
        if code == codes.SYMBOL_8:
            return data[at + 2 : end] in self._keys
        return code == codes.SYMBOL and data[at + 5 : end] in self._keys


def _is_bare(data: bytes, at: i64, end: i64) -> bool:
    """Whether what begins at `at` certainly is no section that stands before the bare message."""
    return end - at >= 4 and read_i16_be(data, at) == 0x0053 and data[at + 2] > MESSAGE_ANNOTATIONS


def write_transfers(
    output: Output,
    channel: i64,
    handle: i64,
    delivery_id: i64,
    tag: i64,
    settled: bool,
    heads: Heads | None,
    delivery_count: i64,
    acquired: bool,
    data: bytes,
    base: i64,
    offsets: bytes,
    first: i64,
    last: i64,
    frame_bytes_max: i64,
) -> i64:
    """Write messages first..last-1 of a chunk in a frame each; return how many were written.

    It ends before a message that does not fit `frame_bytes_max`. Ids and tags count up from
    `delivery_id` (which wraps) and `tag`; the message format is 0. Message `i` is in stored form 2
    and is `data[offsets[i] - base : offsets[i + 1] - base]`. Without `heads` it goes as it came.
    """
    assert 0 <= handle <= HANDLE_MAX
    assert 0 <= tag <= TAG_MAX - (last - first)
    writer = output.writer
    place = first
    lead: i64 = 0x005314C014055200 | handle
    channel_word: i64 = 0x02000000 | channel
    flag: i64 = codes.TRUE if settled else codes.FALSE
    head = b""
    start = i64(read_i32_le(offsets, 4 * place)) - base
    while place < last:
        end = i64(read_i32_le(offsets, 4 * place + 4)) - base
        at = payload_at(data, start)
        if heads is not None:
            head = heads.head(data, at, end, delivery_count, acquired)
            at = heads.bare_at
        size: i64 = TRANSFER_BYTES + len(head) + end - at
        if size > frame_bytes_max:
            break
        write_i64_be(writer, size << 32 | channel_word)
        write_i64_be(writer, lead)
        write_i64_be(writer, 0x7000000000A00800 | delivery_id << 24)
        write_i64_be(writer, tag << 8 | codes.UINT_0)
        writer.append(flag)
        writer.write(head)
        if end - at <= SMALL_BYTES:
            copy_words(writer, data, at, end)
        else:
            output.put(data, at, end)
            writer = output.writer
        delivery_id = (delivery_id + 1) & 0xFFFFFFFF
        tag += 1
        place += 1
        start = end
    return place - first


def write_piece(
    output: Output,
    channel: i64,
    handle: i64,
    delivery_id: i64,
    tag: i64,
    settled: bool,
    head: bytes,
    data: bytes,
    at: i64,
    end: i64,
    sent: i64,
    frame_bytes_max: i64,
) -> i64:
    """Write the next frame of a message whose payload is `head`, then data[at:end].

    `sent` bytes of it went before; return how many have gone now. Only the first frame names the
    delivery; all but the last say that there is more.
    """
    assert 0 <= handle <= HANDLE_MAX
    assert 0 <= tag <= TAG_MAX
    assert 0 <= delivery_id <= 0xFFFFFFFF
    writer = output.writer
    whole: i64 = len(head) + end - at
    is_first = sent == 0
    overhead: i64 = TRANSFER_BYTES if is_first else PIECE_BYTES
    more = overhead + whole - sent > frame_bytes_max
    if more:
        overhead += 1 if is_first else MORE_BYTES
    stop = sent + frame_bytes_max - overhead if more else whole
    write_i64_be(writer, (overhead + stop - sent) << 32 | 0x02000000 | channel)
    if is_first:
        write_i64_be(writer, (0x005314C015065200 if more else 0x005314C014055200) | handle)
        write_i64_be(writer, 0x7000000000A00800 | delivery_id << 24)
        write_i64_be(writer, tag << 8 | codes.UINT_0)
        writer.append(codes.TRUE if settled else codes.FALSE)
    else:
        write_i64_be(writer, (0x005314C008065200 if more else 0x005314C003015200) | handle)
        if more:
            write_i32_be(writer, 0x40404040)
    if more:
        writer.append(codes.TRUE)
    inside_head: i64 = len(head)
    if sent < inside_head:
        writer.write(head[sent : min(stop, inside_head)])
    if stop > inside_head:
        output.put(data, at + max(sent - inside_head, 0), at + stop - inside_head)
    return stop

"""Runs of messages found in place in a socket read, and the form they are kept in. Compiled, hot.

`Transfers` is a run of whole messages of one link with consecutive delivery-ids, still as they
came: message `i` is `data[offsets[i]:offsets[i + 1]]` and is its transfer frame. This is *stored
form 2* (`queues.message.FORMAT_10`): a frame head of 8 bytes (doff 2), a transfer performative with
the descriptor in its small form and a list, then the message's sections up to the end. Only the
sections mean anything; where they begin says `payload_at`. A message that came in several frames,
or in an odd one, is put into that form behind a performative without fields (`single`).

The scan takes what is whole, entirely right and ordinary; at anything else it stops in front of
it, and the session looks at that frame by itself, slowly and with every error text. So nothing here
raises, and nothing is made per message: a run costs its offsets, and an entry where the `info` of
a message (`message`) differs from that of the one before.
"""

from typing import Final, final

from mypy_extensions import i32, i64, mypyc_attr

from warren.wire.amqp10.codec import codes
from warren.wire.amqp10.codec.descriptors import AMQP_VALUE, DATA, HEADER, PROPERTIES
from warren.wire.amqp10.codec.frames import FRAME_HEAD
from warren.wire.amqp10.codec.message import Sections, check_readable, fail_sections
from warren.wire.buffer import (
    BytesWriter,
    read_i16_be,
    read_i32_be,
    read_i32_le,
    read_i64_be,
    write_i32_be,
    write_i32_le,
    write_i64_be,
)
from warren.wire.inplace import rebase, same_bytes

TRANSFER_BYTES_MIN: Final = 16  # frame head, descriptor, list head, handle
TAG_BYTES_MAX: Final = 32
FIELD_COUNT: Final = 11
STATE: Final = 7  # place of the fields in the performative that must be null in a run
BATCHABLE: Final = 10
BARE_HEAD: Final = 0x0200000000531445  # doff 2, type 0, channel 0, transfer, no fields
BARE_BYTES: Final = 12
DESCRIPTOR_BYTES: Final = 3  # with its code, in the small form
NULL_VALUE: Final = b"\x00\x53\x77\x40"  # a body that is null
UINT_MASK: Final = 0xFFFFFFFF

ANY_CHANNEL: Final = 0x0000FFFF000000FF  # the octets that differ: channel, kind of list
MIXED_COUNT: Final = 16  # a run of fewer messages is short

STOP_ODD: Final = 0  # something else, or something wrong: to be looked at by itself
STOP_SHORT: Final = 1  # the read ends within a frame


@final
@mypyc_attr(acyclic=True)
class Transfers:
    """Whole messages of one link, in order; delivery-ids count up from `delivery_id` and wrap.

    Where messages of other links came between them the ids are in `ids` (`id_at`, `id_runs`).

    `infos[k]` holds for the messages from `firsts[k]` up to `firsts[k + 1]` (or the end).
    Invariant: firsts[0] == 0, both lists are equally long, count >= 1.
    """

    def __init__(
        self,
        channel: i64,
        handle: i64,
        delivery_id: i64,
        settled: bool,
        message_format: i64,
        data: bytes,
        offsets: bytes,
        firsts: list[int],
        infos: list[int],
    ) -> None:
        self.channel: i64 = channel
        self.handle: i64 = handle
        self.delivery_id: i64 = delivery_id  # of the first
        self.settled = settled  # all of them, or none
        self.message_format: i64 = message_format
        self.data = data
        self.offsets = offsets  # count + 1 times u32 little-endian, positions in `data`
        self.firsts = firsts
        self.infos = infos
        self.ids = b""  # u32 little-endian, one each, where they do not count up (`gather`)
        self.transaction = b""  # id of the transaction in which they were posted
        self.count: i64 = len(offsets) // 4 - 1

    def id_at(self, place: i64) -> i64:
        """The delivery-id of a message."""
        if len(self.ids) > 0:
            return i64(read_i32_le(self.ids, 4 * place)) & UINT_MASK
        return (self.delivery_id + place) & UINT_MASK

    def id_runs(self, first: i64, last: i64) -> list[tuple[int, int]]:
        """The ids of messages first..last-1 as (first id, count) of those that count up."""
        if len(self.ids) == 0:
            return [(int(self.id_at(first)), int(last - first))]
        runs: list[tuple[int, int]] = []
        while first < last:
            begin = self.id_at(first)
            count: i64 = 1
            while first + count < last and self.id_at(first + count) == (begin + count) & UINT_MASK:
                count += 1
            runs.append((int(begin), int(count)))
            first += count
        return runs

    def head(self, count: i64) -> "Transfers":
        """The first `count` messages."""
        assert 0 < count <= self.count
        kept = 1
        while kept < len(self.firsts) and self.firsts[kept] < count:
            kept += 1
        head = Transfers(
            self.channel,
            self.handle,
            self.delivery_id,
            self.settled,
            self.message_format,
            self.data,
            self.offsets[: 4 * count + 4],
            self.firsts[:kept],
            self.infos[:kept],
        )
        head.ids = self.ids[: 4 * count]
        return head

    def payload_total(self) -> i64:
        """Bytes of all messages."""
        total: i64 = 0
        place: i64 = 0
        while place < self.count:
            total += self._payload_bytes(place)
            place += 1
        return total

    def payload_max(self) -> i64:
        """Bytes of the largest message."""
        largest: i64 = 0
        place: i64 = 0
        while place < self.count:
            largest = max(largest, self._payload_bytes(place))
            place += 1
        return largest

    def fitting(self, bytes_max: i64) -> i64:
        """How many messages come before the first that is larger than `bytes_max`."""
        place: i64 = 0
        while place < self.count:
            if self._payload_bytes(place) > bytes_max:
                return place
            place += 1
        return place

    def _payload_bytes(self, place: i64) -> i64:
        start = i64(read_i32_le(self.offsets, 4 * place))
        return i64(read_i32_le(self.offsets, 4 * place + 4)) - payload_at(self.data, start)


def payload_at(data: bytes, start: i64) -> i64:
    """Where the sections begin of the message in stored form 2 at `start`."""
    code: i64 = data[start + 11]
    if code == codes.LIST_8:
        return start + 13 + data[start + 12]
    if code == codes.LIST:
        return start + 16 + i64(read_i32_be(data, start + 12))
    return start + BARE_BYTES


def is_unannotated(data: bytes, begin: i64, end: i64) -> bool:
    """Whether the message of AMQP 1.0 begins with its properties or its body, perhaps behind a
    header, and so has no annotations; one that begins otherwise may have none, too."""
    if _kind_at(data, begin, end) == HEADER and end - begin > DESCRIPTOR_BYTES + 1:
        begin += DESCRIPTOR_BYTES
        if data[begin] == codes.LIST_8:
            begin += 2 + i64(data[begin + 1])
        elif data[begin] == codes.LIST_0:
            begin += 1
    return _kind_at(data, begin, end) >= PROPERTIES


def _kind_at(data: bytes, at: i64, end: i64) -> i64:
    """Kind of the section that begins there; -1: it is not said in the shortest way."""
    if end - at < DESCRIPTOR_BYTES or data[at] != codes.DESCRIBED:
        return -1
    return i64(data[at + 2]) if data[at + 1] == codes.ULONG_8 else -1


def store(payload: bytes) -> bytes:
    """A message in stored form 2, made from its sections."""
    writer = BytesWriter()
    write_i32_be(writer, i32(BARE_BYTES + len(payload)))
    write_i64_be(writer, BARE_HEAD)
    writer.write(payload)
    return writer.getvalue()


def single(
    channel: i64,
    handle: i64,
    delivery_id: i64,
    message_format: i64,
    settled: bool,
    payload: bytes,
) -> Transfers:
    """The run of one message. ProtocolError amqp:decode-error: the payload is no message."""
    sections = Sections()
    if not sections.walk(payload, 0, len(payload)):
        # RabbitMQ's Python client puts the empty body of a request before its properties.
        if not payload.startswith(NULL_VALUE):
            fail_sections(sections)
        payload = payload[len(NULL_VALUE) :] + NULL_VALUE
        if not sections.walk(payload, 0, len(payload)):
            fail_sections(sections)
    check_readable(sections, payload)
    data = store(payload)
    offsets = BytesWriter()
    write_i32_le(offsets, 0)
    write_i32_le(offsets, i32(len(data)))
    return Transfers(
        channel,
        handle,
        delivery_id,
        settled,
        message_format,
        data,
        offsets.getvalue(),
        [0],
        [sections.info],
    )


def lead_of(channel: i64) -> i64:
    """How an ordinary transfer frame of the channel goes on behind its size, for 7 octets."""
    return (0x02000000 | channel) << 24 | 0x005314


def is_transfer(data: bytes, pos: i64) -> bool:
    """Whether the frame at `pos` is a transfer of any channel, as far as it has come."""
    if i64(len(data)) - pos < TRANSFER_BYTES_MIN:
        return False
    return read_i64_be(data, pos + 4) & ~ANY_CHANNEL == 0x0200000000531400


@final
class TransferScanner:
    """Scans one read after the other.

    After `scan`: `end` is behind the last message of the run, `stop` says why there; at STOP_SHORT
    the frame begun at `end` needs the bytes up to `need` at least. `mixed` says that the run was
    short and that a transfer of another link follows: `gather` makes longer runs of such a read.
    """

    def __init__(self, frame_bytes_max: i64) -> None:
        self.frame_bytes_max: i64 = frame_bytes_max
        self.end: i64 = 0
        self.stop: i64 = STOP_ODD
        self.need: i64 = 0
        self.mixed = False
        # Of the transfer that was looked at last.
        self.at: i64 = 0
        self.handle: i64 = 0
        self.delivery_id: i64 = 0
        self.message_format: i64 = 0
        self.settled: i64 = 0
        # Of the message that was walked through last.
        self.sections = Sections()
        self._known_at: i64 = 0  # its sections before the body
        self._known_bytes: i64 = -1
        self._head_bytes: i64 = 0  # and those of them that are before the bare message
        self._head_info: i64 = 0

    def scan(self, data: bytes, start: i64, channel: i64) -> Transfers | None:
        """The run of transfers at `start` on `channel`; None: not even one ordinary message."""
        offsets = BytesWriter()
        firsts: list[int] = []
        infos: list[int] = []
        lead = lead_of(channel)
        count: i64 = 0
        info: i64 = -1
        handle: i64 = 0
        first_id: i64 = 0
        message_format: i64 = 0
        settled: i64 = 0
        pos = start
        self.begin()
        while True:
            end = self.look(data, pos, lead)
            if end < 0:
                break
            if count == 0:
                handle, first_id = self.handle, self.delivery_id
                message_format, settled = self.message_format, self.settled
            elif (
                self.handle != handle
                or self.delivery_id != (first_id + count) & UINT_MASK
                or self.settled != settled
                or self.message_format != message_format
            ):
                break
            if not self.walk(data, self.at, end):
                break
            if self.sections.info != info:
                info = self.sections.info
                firsts.append(count)
                infos.append(info)
            write_i32_le(offsets, i32(pos))
            count += 1
            pos = end
        self.end = pos
        if count == 0:
            return None
        self.mixed = count < MIXED_COUNT and is_transfer(data, pos)
        write_i32_le(offsets, i32(pos))
        table = offsets.getvalue()
        if (pos - start) * 4 < i64(len(data)) * 3:  # Keep the read only if the run is most of it.
            table = rebase(table, start) if start > 0 else table
            data = data[start:pos]
        is_settled = settled != 0
        return Transfers(
            channel, handle, first_id, is_settled, message_format, data, table, firsts, infos
        )

    def begin(self) -> None:
        """Another read comes: nothing is known."""
        self.stop = STOP_ODD
        self.mixed = False
        self._known_bytes = -1

    def walk(self, data: bytes, at: i64, end: i64) -> bool:
        """Whether data[at:end] is a message; its info is in the sections then.

        What comes before the body is mostly the same bytes as in the message before.
        """
        size = self._known_bytes
        if size >= 0 and end - at - size >= 4 and same_bytes(data, self._known_at, at, size):
            body_at = at + size
            code: i64 = data[body_at + 2]
            if read_i16_be(data, body_at) == 0x0053 and DATA <= code <= AMQP_VALUE:
                return self._body(data, body_at, end, code)
        sections = self.sections
        if size >= 0 and self._same_head(data, at, end):
            sections.info = self._head_info
            bare_at = at + self._head_bytes
        else:
            bare_at = sections.walk_head(data, at, end)
        if bare_at < 0:
            return False
        self._head_bytes = bare_at - at
        self._head_info = sections.info
        if not sections.walk_bare(data, bare_at, end) or len(sections.unreadable(data)) > 0:
            return False
        self._known_at = at
        self._known_bytes = sections.body_at - at
        return True

    def _same_head(self, data: bytes, at: i64, end: i64) -> bool:
        """Whether the sections before the bare message are those of the message before."""
        size = self._head_bytes
        if end - at - size < 4 or not same_bytes(data, self._known_at, at, size):
            return False
        return read_i16_be(data, at + size) == 0x0053 and data[at + size + 2] >= PROPERTIES

    def _body(self, data: bytes, body_at: i64, end: i64, code: i64) -> bool:
        """Mostly the body is one data section."""
        kind: i64 = data[body_at + 3]
        if code == DATA and kind == codes.BINARY_8 and end - body_at >= 5:
            if body_at + 5 + data[body_at + 4] == end:
                return True
        elif code == DATA and kind == codes.BINARY and end - body_at >= 8:
            length = i64(read_i32_be(data, body_at + 4))
            if body_at + 8 + length == end:
                return True
        return self.sections.walk_body(data, body_at, end)

    def look(self, data: bytes, pos: i64, lead: i64) -> i64:
        """Where the ordinary transfer frame ends; -1: it is not whole, or not that."""
        there = i64(len(data)) - pos
        if there < FRAME_HEAD:
            self.stop = STOP_SHORT
            self.need = pos + FRAME_HEAD
            return -1
        size = i64(read_i32_be(data, pos))
        if size > self.frame_bytes_max or size < TRANSFER_BYTES_MIN:
            return -1
        if size > there:
            self.stop = STOP_SHORT
            self.need = pos + size
            return -1
        word = read_i64_be(data, pos + 4)
        if word >> 8 != lead:
            return -1
        code: i64 = word & 0xFF
        end = pos + size
        if code == codes.LIST_8:
            inside_end = pos + 13 + data[pos + 12]
            count: i64 = data[pos + 13]
            at = pos + 14
        elif code == codes.LIST and size >= 20:
            inside_end = pos + 16 + i64(read_i32_be(data, pos + 12))
            count = i64(read_i32_be(data, pos + 16))
            at = pos + 20
        else:
            return -1
        if inside_end > end or inside_end < at or not 3 <= count <= FIELD_COUNT:
            return -1
        self.at = at
        if not self._fields(data, inside_end, count):
            return -1
        self.at = inside_end
        return end

    def _fields(self, data: bytes, end: i64, count: i64) -> bool:
        """Take the fields at `_at`; False: one is odd, or they do not end at `end`."""
        self.handle = self._uint(data, end)
        self.delivery_id = self._uint(data, end)
        if self.handle < 0 or self.delivery_id < 0:
            return False
        at = self.at
        if end - at < 2 or data[at] != codes.BINARY_8 or data[at + 1] > TAG_BYTES_MAX:
            return False
        at += 2 + data[at + 1]
        self.message_format = 0
        self.settled = 0
        if count > 3:
            if at >= end:
                return False
            if data[at] == codes.NULL or data[at] == codes.UINT_0:
                at += 1
            else:
                self.at = at
                self.message_format = self._uint(data, end)
                if self.message_format < 0:
                    return False
                at = self.at
        place: i64 = 4
        while place < count:
            if at >= end:
                return False
            code: i64 = data[at]
            if code == codes.TRUE and (place == 4 or place == BATCHABLE):
                if place == 4:
                    self.settled = 1
            elif code != codes.NULL and (code != codes.FALSE or 6 <= place <= STATE):
                return False
            at += 1
            place += 1
        return at == end

    def _uint(self, data: bytes, end: i64) -> i64:
        """The uint at `_at`, which moves behind it; -1: it is something else."""
        at = self.at
        left = end - at
        if left < 1:
            return -1
        code: i64 = data[at]
        if code == codes.UINT_8 and left >= 2:
            self.at = at + 2
            return i64(data[at + 1])
        if code == codes.UINT and left >= 5:
            self.at = at + 5
            return i64(read_i32_be(data, at + 1)) & UINT_MASK
        if code == codes.UINT_0:
            self.at = at + 1
            return 0
        return -1

"""Runs of dispositions found in place, and dispositions and flows on their way out. Compiled, hot.

Many clients settle each delivery by a frame of its own. Frames that follow each other and say the
same of delivery-ids that follow each other are one `Dispositions`. Only what is ordinary is taken:
a state without fields, or none. All else is left for the slow way.
"""

from typing import Final, final

from mypy_extensions import i64, mypyc_attr, u8

from warren.wire.amqp10.codec import codes
from warren.wire.amqp10.codec.descriptors import ACCEPTED, MODIFIED
from warren.wire.amqp10.codec.frames import FRAME_HEAD
from warren.wire.amqp10.codec.writer import write_uint
from warren.wire.buffer import BytesWriter, read_i32_be, read_i64_be, write_i64_be

DISPOSITION_BYTES_MIN: Final = 16
UINT_MASK: Final = 0xFFFFFFFF
NO_STATE: Final = 0
ABSENT: Final = -1


@final
@mypyc_attr(acyclic=True)
class Dispositions:
    """What was said of the deliveries first..last, ids that count up and wrap.

    `state` is the descriptor of the delivery state, which has no fields; 0: there is none.
    """

    def __init__(
        self, channel: i64, as_receiver: bool, first: i64, last: i64, settled: bool, state: i64
    ) -> None:
        self.channel: i64 = channel
        self.as_receiver = as_receiver  # the role of who sent it
        self.first: i64 = first
        self.last: i64 = last
        self.settled = settled
        self.state: i64 = state


@final
class DispositionScanner:
    """Scans one read after the other. After `scan`, `end` is behind the last frame taken."""

    def __init__(self, frame_bytes_max: i64) -> None:
        self.frame_bytes_max: i64 = frame_bytes_max
        self.end: i64 = 0
        # Of the frame that was looked at last.
        self._at: i64 = 0
        self._role: i64 = 0
        self._first: i64 = 0
        self._last: i64 = 0
        self._settled: i64 = 0
        self._state: i64 = 0

    def scan(self, data: bytes, start: i64, channel: i64) -> Dispositions | None:
        """The run of dispositions at `start` on `channel`; None: not even one ordinary one."""
        lead: i64 = (0x02000000 | channel) << 24 | 0x005315
        pos = self._disposition(data, start, lead)
        if pos < 0:
            self.end = start
            return None
        role, settled, state = self._role, self._settled, self._state
        first, last = self._first, self._last
        while True:
            end = self._disposition(data, pos, lead)
            if end < 0 or self._first != (last + 1) & UINT_MASK:
                break
            if self._role != role or self._settled != settled or self._state != state:
                break
            last = self._last
            pos = end
        self.end = pos
        return Dispositions(channel, role != 0, first, last, settled != 0, state)

    def _disposition(self, data: bytes, pos: i64, lead: i64) -> i64:
        """Where the ordinary disposition ends; -1: it is not whole, or not that."""
        there = i64(len(data)) - pos
        if there < DISPOSITION_BYTES_MIN:
            return -1
        size = i64(read_i32_be(data, pos))
        if not DISPOSITION_BYTES_MIN <= size <= self.frame_bytes_max or size > there:
            return -1
        word = read_i64_be(data, pos + 4)
        if word >> 8 != lead:
            return -1
        code: i64 = word & 0xFF
        end = pos + size
        if code == codes.LIST_8:
            inside_end = pos + 13 + data[pos + 12]
            count: i64 = data[pos + 13]
            self._at = pos + 14
        elif code == codes.LIST and size >= 20:
            inside_end = pos + 16 + i64(read_i32_be(data, pos + 12))
            count = i64(read_i32_be(data, pos + 16))
            self._at = pos + 20
        else:
            return -1
        if inside_end != end or not 2 <= count <= 6:
            return -1
        if not self._fields(data, end, count) or self._at != end:
            return -1
        return end

    def _fields(self, data: bytes, end: i64, count: i64) -> bool:
        """Take the fields at `_at`; False: one is odd."""
        role = self._flag(data, end)
        self._first = self._uint(data, end)
        if role < 0 or self._first < 0:
            return False
        self._role = role
        self._last = self._first
        self._settled = 0
        self._state = NO_STATE
        if count > 2:
            if self._at < end and data[self._at] == codes.NULL:
                self._at += 1
            else:
                self._last = self._uint(data, end)
                if self._last < 0 or (self._last - self._first) & UINT_MASK >= 1 << 31:
                    return False
        if count > 3:
            self._settled = self._flag_or_null(data, end)
        if count > 4 and not self._take_state(data, end):
            return False
        return self._settled >= 0 and (count < 6 or self._flag_or_null(data, end) >= 0)

    def _take_state(self, data: bytes, end: i64) -> bool:
        at = self._at
        if at < end and data[at] == codes.NULL:
            self._at = at + 1
            return True
        if end - at < 4 or data[at] != codes.DESCRIBED or data[at + 1] != codes.ULONG_8:
            return False
        state: i64 = data[at + 2]
        if not ACCEPTED <= state <= MODIFIED:
            return False
        self._state = state
        code: i64 = data[at + 3]
        if code == codes.LIST_0:
            self._at = at + 4
            return True
        if code == codes.LIST_8 and end - at >= 6 and data[at + 4] == 1 and data[at + 5] == 0:
            self._at = at + 6
            return True
        if code == codes.LIST and end - at >= 12 and read_i64_be(data, at + 4) == 4 << 32:
            self._at = at + 12
            return True
        return False

    def _flag(self, data: bytes, end: i64) -> i64:
        """The boolean at `_at`: 0 or 1; -1: it is something else."""
        at = self._at
        if at >= end:
            return -1
        self._at = at + 1
        code: i64 = data[at]
        if code == codes.TRUE:
            return 1
        if code == codes.FALSE:
            return 0
        return -1

    def _flag_or_null(self, data: bytes, end: i64) -> i64:
        if self._at < end and data[self._at] == codes.NULL:
            self._at += 1
            return 0
        return self._flag(data, end)

    def _uint(self, data: bytes, end: i64) -> i64:
        """The uint at `_at`, which moves behind it; -1: it is something else."""
        at = self._at
        left = end - at
        if left < 1:
            return -1
        code: i64 = data[at]
        if code == codes.UINT_8 and left >= 2:
            self._at = at + 2
            return i64(data[at + 1])
        if code == codes.UINT and left >= 5:
            self._at = at + 5
            return i64(read_i32_be(data, at + 1)) & UINT_MASK
        if code == codes.UINT_0:
            self._at = at + 1
            return 0
        return -1


def write_disposition(
    writer: BytesWriter,
    channel: i64,
    as_receiver: bool,
    first: i64,
    last: i64,
    settled: bool,
    state: i64,
) -> None:
    """The frame; `state` is the descriptor of a delivery state without fields, or `NO_STATE`."""
    at: i64 = len(writer)
    write_i64_be(writer, 0x02000000 | channel)
    write_i64_be(writer, 0x005315C000000000 | (codes.TRUE if as_receiver else codes.FALSE) << 8)
    writer.truncate(at + 15)  # behind the role
    count: i64 = 2
    write_uint(writer, first)
    if last != first or settled or state != NO_STATE:
        count = 3
        if last == first:
            writer.append(codes.NULL)
        else:
            write_uint(writer, last)
    if settled or state != NO_STATE:
        count = 4
        writer.append(codes.TRUE if settled else codes.NULL)
    if state != NO_STATE:
        count = 5
        writer.append(codes.DESCRIBED)
        writer.append(codes.ULONG_8)
        writer.append(state)
        writer.append(codes.LIST_0)
    _patch(writer, at, count)


def write_flow(
    writer: BytesWriter,
    channel: i64,
    next_incoming_id: i64,
    incoming_window: i64,
    next_outgoing_id: i64,
    outgoing_window: i64,
    handle: i64 = ABSENT,
    delivery_count: i64 = ABSENT,
    link_credit: i64 = ABSENT,
    available: i64 = ABSENT,
    drain: bool = False,
    echo: bool = False,
) -> None:
    """The frame of a flow without properties; `ABSENT` numbers are null."""
    at: i64 = len(writer)
    write_i64_be(writer, 0x02000000 | channel)
    write_i64_be(writer, 0x005313C000000000)
    writer.truncate(at + 14)
    _write_number(writer, next_incoming_id)
    write_uint(writer, incoming_window)
    write_uint(writer, next_outgoing_id)
    write_uint(writer, outgoing_window)
    count: i64 = 4
    if handle >= 0:
        count = 7 if available < 0 else 8
        write_uint(writer, handle)
        _write_number(writer, delivery_count)
        _write_number(writer, link_credit)
        if available >= 0:
            write_uint(writer, available)
    if drain or echo:
        while count < 8:
            writer.append(codes.NULL)
            count += 1
        writer.append(codes.TRUE if drain else codes.NULL)
        count = 9
        if echo:
            writer.append(codes.TRUE)
            count = 10
    _patch(writer, at, count)


def _write_number(writer: BytesWriter, value: i64) -> None:
    if value < 0:
        writer.append(codes.NULL)
    else:
        write_uint(writer, value)


def _patch(writer: BytesWriter, at: i64, count: i64) -> None:
    """Put the sizes of the frame and of its list (both below 256) and the count in their places."""
    size = i64(len(writer)) - at
    writer[at + 3] = u8(size)
    writer[at + FRAME_HEAD + 4] = u8(size - 13)
    writer[at + FRAME_HEAD + 5] = u8(count)

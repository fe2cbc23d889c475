"""Contents on their way to a client: runs found in place, and what did not come whole. Compiled.

A content is a method frame (deliver, return or get-ok), a content header frame and body frames. The
scan takes only what is whole and entirely right; at anything else it stops in front of it, and the
frames go one by one through an `Assembly`, which says what is wrong with them.
"""

from typing import Final, final

from mypy_extensions import i32, i64

from warren.wire.amqp091.deliver import body_bytes
from warren.wire.amqp091.scanner import FRAME_END, FRAME_OVERHEAD, HEADER_OF_BASIC
from warren.wire.buffer import BytesWriter, read_i32_be, read_i64_be, write_i32_le
from warren.wire.errors import ProtocolError, ReplyCode

FRAME_METHOD: Final = 1
FRAME_HEADER: Final = 2
FRAME_BODY: Final = 3

RETURN: Final = 0x003C0032
DELIVER: Final = 0x003C003C
GET_OK: Final = 0x003C0047

BASIC_CLASS: Final = 60
HEADER_FRAME_BYTES_MIN: Final = 22
METHOD_FRAME_BYTES_MIN: Final = 12
KIND_STEP: Final = 1 << 24  # from method to header to body, in a frame's first four octets
PART_BYTES: Final = 64  # what a part takes beside its bytes


def has_content(method: i64) -> bool:
    """Whether a content follows this method of the broker's."""
    return method in (DELIVER, RETURN, GET_OK)


def whole_method(data: bytes, start: i64, end: i64) -> bool:
    """Whether the method frame data[start:end] is one of these three, and its lengths fit."""
    method = i64(read_i32_be(data, start + 7))
    pos = start + 11
    last = end - 1
    if method == DELIVER:
        pos = _string_end(data, pos, last) + 9  # consumer tag; delivery tag, redelivered
        pos = _string_end(data, _string_end(data, pos, last), last)
    elif method == GET_OK:
        pos = _string_end(data, _string_end(data, pos + 9, last), last) + 4  # message count
    elif method == RETURN:
        pos = _string_end(data, pos + 2, last)  # reply code and text
        pos = _string_end(data, _string_end(data, pos, last), last)
    else:
        return False
    return pos == last


def _string_end(data: bytes, pos: i64, last: i64) -> i64:
    """Behind the short string at `pos`; behind `last` if it does not fit."""
    return pos + 1 + data[pos] if pos < last else last + 256


def method_id(data: bytes, start: i64) -> int:
    """Which of the three methods the content at `start` has."""
    return i64(read_i32_be(data, start + 7))


def delivery_tag(data: bytes, start: i64) -> int:
    """Of a content with basic.deliver."""
    return read_i64_be(data, start + 12 + data[start + 11])


def method_payload(data: bytes, start: i64) -> bytes:
    """The payload of the method frame at `start`, for `decode_method`."""
    return data[start + 7 : start + 7 + i64(read_i32_be(data, start + 3))]


def content_parts(data: bytes, start: i64, end: i64) -> tuple[bytes, bytes]:
    """Properties (`properties`) and body of the content data[start:end]."""
    header_at = start + FRAME_OVERHEAD + i64(read_i32_be(data, start + 3))
    header_end = header_at + 7 + i64(read_i32_be(data, header_at + 3))
    return data[header_at + 19 : header_end], body_bytes(data, start, end)


@final
class ContentScanner:
    """Scans one read after the other.

    After `scan`: `end` is behind the last whole content. If `short`, the next one is begun there
    and not whole: it needs the bytes up to `need` at least, and `missing` more body bytes.
    """

    def __init__(self, payload_max: i64, body_max: i64) -> None:
        self.payload_max: i64 = payload_max
        self.body_max: i64 = body_max
        self.end: i64 = 0
        self.short = False
        self.need: i64 = 0
        self.missing: i64 = 0

    def scan(self, data: bytes, start: i64, channel: i64) -> bytes:
        """Offsets of the run of contents of `channel` at `start`, as in `Arrived`; b"": none."""
        offsets = BytesWriter()
        head: i64 = 1 << 24 | channel << 8
        self.short = False
        self.missing = 0
        pos = start
        while True:
            end = self._content_end(data, pos, head)
            if end < 0:
                break
            write_i32_le(offsets, i32(pos))
            pos = end
        self.end = pos
        if pos == start:
            return b""
        write_i32_le(offsets, i32(pos))
        return offsets.getvalue()

    def _content_end(self, data: bytes, pos: i64, head: i64) -> i64:
        """Where the content at `pos` ends; -1: it is not whole, or not that."""
        header_at = self._frame_end(data, pos, head)
        if header_at < pos + METHOD_FRAME_BYTES_MIN or not whole_method(data, pos, header_at):
            return -1
        body_at = self._frame_end(data, header_at, head + KIND_STEP)
        if body_at < header_at + HEADER_FRAME_BYTES_MIN:
            return -1
        if read_i32_be(data, header_at + 7) != HEADER_OF_BASIC:
            return -1
        left = read_i64_be(data, header_at + 11)
        if not 0 <= left <= self.body_max:
            return -1
        while left > 0:
            end = self._frame_end(data, body_at, head + 2 * KIND_STEP)
            payload = end - body_at - FRAME_OVERHEAD
            if end < 0:
                self.missing = left
                return -1
            if payload == 0 or payload > left:
                return -1
            left -= payload
            body_at = end
        return body_at

    def _frame_end(self, data: bytes, pos: i64, head: i64) -> i64:
        """Where the frame of this kind and channel ends; -1: it is not whole, or not that."""
        size: i64 = len(data)
        if size - pos < FRAME_OVERHEAD:
            self.short = True
            self.need = pos + FRAME_OVERHEAD
            return -1
        if read_i32_be(data, pos) != head:  # With the top octet of the size, which must be 0.
            return -1
        payload = i64(read_i32_be(data, pos + 3))
        end = pos + FRAME_OVERHEAD + payload
        if payload > self.payload_max:
            return -1
        if end > size:
            self.short = True
            self.need = end
            return -1
        return end if data[end - 1] == FRAME_END else -1


@final
class Assembly:
    """One channel's content that is being put together out of single frames.

    Invariant: `parts` is empty unless a content has begun; `held_bytes` is what they take.
    """

    def __init__(self) -> None:
        self.expected: i64 = FRAME_METHOD
        self.held_bytes: i64 = 0
        self._parts: list[bytes] = []
        self._missing: i64 = 0  # body bytes that have not come yet

    def begin(self, frame: bytes) -> None:
        """A whole method frame that a content follows. ProtocolError: it is malformed."""
        if not whole_method(frame, 0, len(frame)):
            raise ProtocolError(ReplyCode.FRAME_ERROR, "cannot decode a method with content")
        self.expected = FRAME_HEADER
        self._keep(frame)

    def add(self, frame: bytes, kind: i64, body_max: i64) -> bytes:
        """The next frame; the whole content, if this was its last, else b"".

        ProtocolError: it is not the next one.
        """
        if kind != self.expected:
            text = f"a frame of kind {kind} within a content, expected kind {self.expected}"
            raise ProtocolError(ReplyCode.UNEXPECTED_FRAME, text)
        if kind == FRAME_HEADER:
            self._add_header(frame, body_max)
        else:
            self._add_body(frame)
        return self._finish() if self._missing == 0 else b""

    def drop(self) -> None:
        """Forget what has come of a content."""
        self._parts = []
        self.held_bytes = 0
        self._missing = 0
        self.expected = FRAME_METHOD

    def _add_header(self, frame: bytes, body_max: i64) -> None:
        if len(frame) < HEADER_FRAME_BYTES_MIN or read_i32_be(frame, 7) != HEADER_OF_BASIC:
            raise ProtocolError(ReplyCode.FRAME_ERROR, "cannot decode content header")
        body_bytes = read_i64_be(frame, 11)
        if not 0 <= body_bytes <= body_max:
            text = f"message size {body_bytes} is larger than the limit of this client ({body_max})"
            raise ProtocolError(ReplyCode.RESOURCE_ERROR, text)
        self._missing = body_bytes
        self.expected = FRAME_BODY
        self._keep(frame)

    def _add_body(self, frame: bytes) -> None:
        size: i64 = len(frame) - FRAME_OVERHEAD
        if size == 0:
            raise ProtocolError(ReplyCode.UNEXPECTED_FRAME, "empty content body frame")
        if size > self._missing:
            text = f"content body frame of {size} bytes where {self._missing} are left to come"
            raise ProtocolError(ReplyCode.UNEXPECTED_FRAME, text)
        self._missing -= size
        self._keep(frame)

    def _keep(self, frame: bytes) -> None:
        self._parts.append(frame)
        self.held_bytes += len(frame) + PART_BYTES

    def _finish(self) -> bytes:
        whole = b"".join(self._parts)
        self.drop()
        return whole

"""One channel's input: whether it is open, and the content that is being put together. Compiled.

Only contents that did not come whole in one read, or were mixed with frames of other channels, go
through here; the rest is found in place by `scanner`. A content is kept as the frames it came in,
and joined once, when it is whole.
"""

from typing import Final, final

from mypy_extensions import i64

from warren.wire.amqp091.events import Publishes
from warren.wire.amqp091.properties import BAD_HEADERS, headers_of, scan_properties
from warren.wire.amqp091.scanner import HEADER_OF_BASIC, valid_publish
from warren.wire.buffer import BytesWriter, read_i16_be, read_i32_be, read_i64_be, write_i32_le
from warren.wire.errors import ProtocolError, ReplyCode

FRAME_METHOD: Final = 1
FRAME_HEADER: Final = 2
FRAME_BODY: Final = 3
FRAME_HEARTBEAT: Final = 8

LANE_OPEN: Final = 0
LANE_CLOSING: Final = 1  # channel.close sent: input is dropped up to close-ok
LANE_PEER_CLOSING: Final = 2  # channel.close received, close-ok not yet sent

PUBLISH: Final = 0x003C0028
BASIC_CLASS: Final = 60
PART_BYTES: Final = 64  # what a part takes beside its bytes; a body may come in one-byte frames
PUBLISH_METHOD: Final = 40


@final
class Lane:
    """Invariant: `parts` is empty unless a content has begun; `held_bytes` is what they take."""

    def __init__(self, channel: i64) -> None:
        self.channel: i64 = channel
        self.status: i64 = LANE_OPEN
        self.expected: i64 = FRAME_METHOD
        self.parts: list[bytes] = []
        self.held_bytes: i64 = 0
        self.missing: i64 = 0  # body bytes that have not come yet
        self.key = b""
        self.info: i64 = 0

    def begin(self, frame: bytes) -> None:
        """A whole basic.publish frame: a content follows."""
        if not valid_publish(frame, 7, len(frame) - 1):
            raise _malformed("cannot decode basic.publish")
        self.key = frame[13 : len(frame) - 1]
        self.expected = FRAME_HEADER
        self._keep(frame)

    def add_header(self, frame: bytes, body_max: i64) -> Publishes | None:
        """The content header frame; the message, if it has no body."""
        if len(frame) < 22:
            raise _malformed("cannot decode content header")
        class_id = i64(read_i16_be(frame, 7)) & 0xFFFF
        if class_id != BASIC_CLASS:
            text = f"expected content header for class 60, got one for class {class_id} instead"
            raise ProtocolError(ReplyCode.UNEXPECTED_FRAME, text)
        body_bytes = read_i64_be(frame, 11)
        info = scan_properties(frame, 19, len(frame) - 1)
        if info == BAD_HEADERS:
            raise self._malformed_headers(frame)
        if read_i32_be(frame, 7) != HEADER_OF_BASIC or body_bytes < 0 or info < 0:
            raise _malformed("cannot decode content header")
        if body_bytes > body_max:
            text = f"message size {body_bytes} is larger than configured max size {body_max}"
            code = ReplyCode.PRECONDITION_FAILED
            raise ProtocolError(code, text, None, BASIC_CLASS, PUBLISH_METHOD)
        self.info = info
        self.missing = body_bytes
        self.expected = FRAME_BODY
        self._keep(frame)
        return self._finish() if body_bytes == 0 else None

    def _malformed_headers(self, frame: bytes) -> ProtocolError:
        """What the decoder says of the headers in this content header frame."""
        try:
            headers_of(self.parts[0] + frame, 0)
        except ProtocolError as error:
            return _malformed(error.text)
        return _malformed("cannot decode content header")

    def add_body(self, frame: bytes) -> Publishes | None:
        """A body frame; the message, if this was its last."""
        size: i64 = len(frame) - 8
        if size == 0:
            raise ProtocolError(ReplyCode.UNEXPECTED_FRAME, "empty content body frame")
        if size > self.missing:
            text = f"content body frame of {size} bytes where {self.missing} are left to come"
            raise ProtocolError(ReplyCode.UNEXPECTED_FRAME, text)
        self.missing -= size
        self._keep(frame)
        return self._finish() if self.missing == 0 else None

    def unexpected(self) -> ProtocolError:
        """What to say of a frame that is not of the `expected` kind."""
        text = "expected method frame, got non method frame instead"
        if self.expected == FRAME_HEADER:
            text = "expected content header for class 60, got non content header frame instead"
        elif self.expected == FRAME_BODY:
            text = "expected content body, got non content body frame instead"
        class_id = 0 if self.expected == FRAME_METHOD else BASIC_CLASS
        method_id = 0 if self.expected == FRAME_METHOD else PUBLISH_METHOD
        return ProtocolError(ReplyCode.UNEXPECTED_FRAME, text, None, class_id, method_id)

    def drop_content(self) -> None:
        """Forget what has come of a content."""
        self.parts = []
        self.held_bytes = 0
        self.missing = 0
        self.expected = FRAME_METHOD

    def _keep(self, frame: bytes) -> None:
        self.parts.append(frame)
        self.held_bytes += len(frame) + PART_BYTES

    def _finish(self) -> Publishes:
        data = b"".join(self.parts)
        self.drop_content()
        offsets = BytesWriter()
        write_i32_le(offsets, 0)
        write_i32_le(offsets, len(data))
        return Publishes(self.channel, data, offsets.getvalue(), [0], [self.key], [self.info])


def _malformed(text: str) -> ProtocolError:
    code = ReplyCode.FRAME_ERROR
    return ProtocolError(code, text, None, BASIC_CLASS, PUBLISH_METHOD)

"""Frame layer of AMQP 1.0: whole frames found in place in the input (part 2.3). Compiled.

A frame is size (u32, all of it), doff (u8, where its body begins, in 4-byte words), type (u8: 0
AMQP, 1 SASL), channel (u16; nothing in SASL), an extended header up to doff that is unused, and
the body: a performative and its payload. A frame without a body keeps the connection alive.
Integers are big-endian. What cannot be a frame is amqp:connection:framing-error.
"""

from typing import Final, final

from mypy_extensions import i64

from warren.wire.amqp10.errors import Condition, ProtocolError
from warren.wire.buffer import read_i16_be, read_i32_be

FRAME_HEAD: Final = 8
FRAME_BYTES_MIN: Final = 512  # the least max-frame-size; what may be sent before open is seen
AMQP: Final = 0
SASL: Final = 1


@final
class FrameScanner:
    """Finds one frame after the other.

    After `scan` was true: `kind`, `channel`, the body is `data[body_at:end]` (empty: a heartbeat),
    and `end` is where the next frame begins. After it was false the frame is not whole: at least
    the bytes up to `end` are needed.
    """

    def __init__(self, frame_bytes_max: i64 = FRAME_BYTES_MIN) -> None:
        self.frame_bytes_max: i64 = frame_bytes_max
        self.kind: i64 = AMQP
        self.channel: i64 = 0
        self.body_at: i64 = 0
        self.end: i64 = 0

    def scan(self, data: bytes, pos: i64) -> bool:
        """Look at the frame at `pos`. What is wrong with its head is raised before it is whole."""
        there = i64(len(data)) - pos
        if there < FRAME_HEAD:
            self.end = pos + FRAME_HEAD
            return False
        size = i64(read_i32_be(data, pos)) & 0xFFFFFFFF
        doff: i64 = data[pos + 4]
        kind: i64 = data[pos + 5]
        if size > self.frame_bytes_max:
            fail(f"a frame of {size} bytes, where {self.frame_bytes_max} are allowed")
        if doff < 2 or 4 * doff > size:
            fail(f"a frame of {size} bytes whose body begins at word {doff}")
        if kind > SASL:
            fail(f"unknown frame type {kind}")
        self.kind = kind
        self.channel = i64(read_i16_be(data, pos + 6)) & 0xFFFF
        self.body_at = pos + 4 * doff
        self.end = pos + size
        return size <= there


def fail(text: str) -> None:
    raise ProtocolError(Condition.FRAMING_ERROR, text)

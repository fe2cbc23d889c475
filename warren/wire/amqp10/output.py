"""Frames on their way out: the writer of one connection, and what the peer can take. Compiled.

A frame is size (u32, all of it), doff (1 octet, 2: no extended header), type (0 AMQP, 1 SASL),
channel (u16), then the performative and what it carries. The connection owns the one `Output`;
its sessions write through it, in the order in which their frames are to leave.
"""

from typing import Final, final

from mypy_extensions import i32, i64

from warren.wire.amqp10.codec.frames import FRAME_HEAD
from warren.wire.amqp10.codec.performatives import Close, Composite, Detach, End, Error
from warren.wire.amqp10.errors import ProtocolError
from warren.wire.buffer import BytesWriter, write_i32_be

AMQP_FRAME: Final = 0x02000000
SASL_FRAME: Final = 0x02010000
LARGE_BYTES: Final = 8192  # a payload of so many goes out as it lies in memory
WRITER_BYTES_KEPT: Final = 65_536  # a writer that grew larger is not used again
DESCRIPTION_BYTES_MAX: Final = 200  # with its condition an error fits into any frame


Buffer = bytes | memoryview


@final
class Output:
    """What is to go out: parts, then what is in the writer."""

    def __init__(self) -> None:
        self.writer = BytesWriter()
        self._parts: list[Buffer] = []
        self._parts_bytes: i64 = 0
        self.max_frame_size: i64 = 512  # of the peer; until its open has come, what all must take

    def pending_bytes(self) -> i64:
        return self._parts_bytes + len(self.writer)

    def has_parts(self) -> bool:
        """Whether some of it goes out as it lies in memory."""
        return len(self._parts) > 0

    def put(self, data: bytes, at: i64, end: i64) -> None:
        """Append data[at:end]; much of it as a part, for which `data` is kept until it is sent."""
        size = end - at
        if size < LARGE_BYTES:
            self.writer.write(data[at:end])
            return
        if len(self.writer) > 0:
            self._end_part()
        self._parts.append(memoryview(data)[at:end])
        self._parts_bytes += size

    def _end_part(self) -> None:
        self._parts_bytes += len(self.writer)
        self._parts.append(self._written())

    def _written(self) -> bytes:
        """Take what is in the writer, which may be another object afterwards."""
        written = self.writer.getvalue()
        if len(written) > WRITER_BYTES_KEPT:
            self.writer = BytesWriter()
        else:
            self.writer.truncate(0)
        return written

    def take(self) -> bytes:
        """Take all of it in one piece."""
        return b"".join(self.take_parts()) if len(self._parts) > 0 else self._written()

    def take_parts(self) -> list[Buffer]:
        """Take all of it as it lies in memory."""
        if len(self.writer) > 0:
            self._end_part()
        parts = self._parts
        self._parts = []
        self._parts_bytes = 0
        return parts

    def frame(self, channel: i64, performative: Composite) -> None:
        write_frame(self.writer, AMQP_FRAME | channel, performative.encoded())

    def fits(self, performative: Composite) -> bool:
        """Whether the peer could take the frame."""
        return len(performative.encoded()) + FRAME_HEAD <= self.max_frame_size

    def frame_if_fits(self, channel: i64, performative: Composite) -> bool:
        """Write the frame, unless the peer could not take it."""
        encoded = performative.encoded()
        if len(encoded) + FRAME_HEAD > self.max_frame_size:
            return False
        write_frame(self.writer, AMQP_FRAME | channel, encoded)
        return True

    def ending(self, channel: i64, frame: Detach | End | Close) -> None:
        """Write what ends a link, a session or the connection; of its error as much as fits."""
        if self.frame_if_fits(channel, frame):
            return
        frame.error = shortened(frame.error)
        self.frame(channel, frame)

    def sasl(self, frame: Composite) -> None:
        write_frame(self.writer, SASL_FRAME, frame.encoded())


def write_frame(writer: BytesWriter, kind_and_channel: i64, payload: bytes) -> None:
    write_i32_be(writer, i32(FRAME_HEAD + len(payload)))
    write_i32_be(writer, i32(kind_and_channel))
    writer.write(payload)


def error_of(error: ProtocolError) -> Error:
    """The encoding of an error for the peer."""
    return Error(condition=error.condition.value, description=cut(error.text), info=error.info)


def shortened(error: Error | None) -> Error | None:
    """The same error without its map, so that it fits into any frame."""
    if error is None:
        return None
    description = None if error.description is None else cut(error.description)
    return Error(condition=error.condition, description=description)


def cut(text: str) -> str:
    """At most DESCRIPTION_BYTES_MAX of it."""
    encoded = text.encode("utf-8", "replace")
    return encoded[:DESCRIPTION_BYTES_MAX].decode("utf-8", "ignore")

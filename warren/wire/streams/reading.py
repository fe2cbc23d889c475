"""Read the fields of one frame, and cut frames out of what the socket delivers."""

from typing import Final, final

from mypy_extensions import i64

from warren.wire.buffer import read_i16_be, read_i32_be, read_i64_be
from warren.wire.streams.codes import Code, StreamProtocolError

SIZE_BYTES: Final = 4
HEADER_BYTES: Final = 4  # key and version


@final
class FieldReader:
    """Reads the fields of a frame in order; StreamProtocolError where the frame ends too early."""

    def __init__(self, frame: bytes) -> None:
        self.frame = frame
        self.place: i64 = 0

    @property
    def is_at_end(self) -> bool:
        return self.place >= len(self.frame)

    def _skip(self, size: i64) -> i64:
        """Return where the field begins, and go behind it."""
        start = self.place
        if size < 0 or start + size > len(self.frame):
            text = f"frame of {len(self.frame)} bytes ends inside a field of {size} at byte {start}"
            raise StreamProtocolError(Code.UNKNOWN_FRAME, text)
        self.place = start + size
        return start

    def u8(self) -> int:
        return int(self.frame[self._skip(1)])

    def u16(self) -> int:
        return int(read_i16_be(self.frame, self._skip(2))) & 0xFFFF

    def i16(self) -> int:
        return int(read_i16_be(self.frame, self._skip(2)))

    def u32(self) -> int:
        return int(read_i32_be(self.frame, self._skip(4))) & 0xFFFFFFFF

    def i32(self) -> int:
        return int(read_i32_be(self.frame, self._skip(4)))

    def i64(self) -> int:
        return int(read_i64_be(self.frame, self._skip(8)))

    def u64(self) -> int:
        return self.i64() & 0xFFFFFFFFFFFFFFFF

    def raw(self, size: int) -> bytes:
        start = self._skip(size)
        return self.frame[start : self.place]

    def bytes32(self) -> bytes:
        """Bytes with a length of four bytes; -1 is read as no bytes."""
        size = self.i32()
        return b"" if size == -1 else self.raw(size)

    def string(self) -> str:
        """Text with a length of two bytes; -1 is read as an empty one."""
        size = self.i16()
        raw = b"" if size == -1 else self.raw(size)
        try:
            return raw.decode()
        except UnicodeDecodeError as error:
            text = f"{raw[:40]!r} is not valid UTF-8"
            raise StreamProtocolError(Code.UNKNOWN_FRAME, text) from error

    def count(self, item_bytes: int) -> int:
        """The length of an array of items of at least so many bytes each."""
        number = self.i32()
        if number < 0 or number * item_bytes > len(self.frame) - self.place:
            text = f"array of {number} items in {len(self.frame) - self.place} bytes"
            raise StreamProtocolError(Code.UNKNOWN_FRAME, text)
        return number

    def strings(self) -> tuple[str, ...]:
        return tuple([self.string() for _ in range(self.count(2))])

    def pairs(self) -> dict[str, str]:
        """An array of keys and values."""
        found: dict[str, str] = {}
        for _ in range(self.count(4)):
            key = self.string()
            found[key] = self.string()
        return found


@final
class FrameScanner:
    """Collects bytes of the socket and returns whole frames without their size field."""

    def __init__(self, frame_max: int) -> None:
        self.frame_max = frame_max  # above 0
        self._data = bytearray()
        self._place = 0

    def __len__(self) -> int:
        """Bytes that no frame was cut out of."""
        return len(self._data) - self._place

    def feed(self, data: bytes) -> None:
        del self._data[: self._place]
        self._place = 0
        self._data += data

    def next_frame(self) -> bytes | None:
        """Return the next frame; None: it is not complete."""
        start = self._place + SIZE_BYTES
        if len(self._data) < start:
            return None
        size = int.from_bytes(self._data[self._place : start], "big")
        if size > self.frame_max:
            text = f"frame of {size} bytes; allowed: {self.frame_max}"
            raise StreamProtocolError(Code.FRAME_TOO_LARGE, text)
        if size < HEADER_BYTES:
            text = f"frame of {size} bytes; a key and a version take {HEADER_BYTES}"
            raise StreamProtocolError(Code.UNKNOWN_FRAME, text)
        if len(self._data) - start < size:
            return None
        self._place = start + size
        return bytes(self._data[start : self._place])

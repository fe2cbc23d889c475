"""Frames of RabbitMQ's stream protocol: from bytes to commands and back. No I/O.

    frames = FrameBuffer(frame_max)
    frames.add(data)
    body = frames.take()                  # one frame without its size; None: not all of it is there
    command = Fields(body)                # key, version and the fields, taken one by one

    Answer(key, correlation, code).string("x").end()       # bytes of a whole frame

A frame is size u32, key u16, version u16 and the fields; integers are big-endian, a string has a
length i16, bytes have a length i32 (-1: null), an array has a count i32. Compiled.
"""

from collections.abc import Iterable, Mapping
from struct import Struct
from struct import error as StructError
from typing import Final, final

from mypy_extensions import i64

from warren.wire.buffer import read_i32_be
from warren.wire.stream.codes import RESPONSE, VERSION_1

U8: Final = Struct(">B")
U16: Final = Struct(">H")
I16: Final = Struct(">h")
I32: Final = Struct(">i")
U32: Final = Struct(">I")
U64: Final = Struct(">Q")
I64: Final = Struct(">q")
HEAD: Final = Struct(">HH")
SIZE_BYTES: Final = 4
U32_MASK: Final = 0xFFFFFFFF
HEAD_BYTES: Final = 4
COUNT_MAX: Final = 65_536  # of strings in an array: what a frame cannot hold is not counted out
STRING_BYTES_MAX: Final = 32_767


class BadFrame(Exception):
    """Bytes that are no frame, or are more than the limit; the text says why."""

    def __init__(self, text: str, is_too_large: bool = False) -> None:
        super().__init__(text)
        self.is_too_large = is_too_large


@final
class FrameBuffer:
    """Cuts what a socket reads into frames."""

    def __init__(self, frame_max: int) -> None:
        self.frame_max = frame_max  # bytes of a frame without its size; 0: any
        self._data = b""
        self._at: i64 = 0
        self._cut = bytearray()  # a frame of which bytes are still to come; `_data` has none then
        self._need: i64 = 0  # bytes of `_cut` before it is looked at again

    def add(self, data: bytes) -> None:
        if len(self._cut) == 0:
            if self._at == len(self._data):
                self._data = data
                self._at = 0
                return
            self._cut += self._data[self._at :]
            self._data = b""
            self._at = 0
        self._cut += data  # in place: a frame may come a byte at a time
        if len(self._cut) >= self._need:
            self._data = bytes(self._cut)
            self._cut = bytearray()

    def take(self) -> bytes | None:
        """The next frame without its size. BadFrame: it is too large, or too short for a key."""
        if len(self._cut) > 0:
            return None
        there = i64(len(self._data)) - self._at
        if there < SIZE_BYTES:
            self._need = SIZE_BYTES
            return None
        size = i64(read_i32_be(self._data, self._at)) & U32_MASK
        if 0 < self.frame_max < size:
            text = f"a frame of {size} bytes; allowed: at most {self.frame_max}"
            raise BadFrame(text, is_too_large=True)
        if size < HEAD_BYTES:
            raise BadFrame(f"a frame of {size} bytes has no key and no version")
        begin = self._at + SIZE_BYTES
        if there < SIZE_BYTES + size:
            self._need = SIZE_BYTES + size
            return None
        self._at = begin + size
        self._need = 0
        return self._data[begin : begin + size]


class Fields:
    """The fields of a frame, in order. All methods raise BadFrame where the frame ends too soon."""

    def __init__(self, body: bytes) -> None:
        self.body = body
        key, self.version = HEAD.unpack_from(body)
        self.key = int(key) & ~RESPONSE
        self.is_response = bool(int(key) & RESPONSE)
        self.at = HEAD_BYTES

    @property
    def is_at_end(self) -> bool:
        return self.at >= len(self.body)

    def _take(self, layout: Struct) -> int:
        try:
            (value,) = layout.unpack_from(self.body, self.at)
        except StructError:
            raise BadFrame(f"a frame of command {self.key} is cut short") from None
        self.at += layout.size
        return int(value)

    def u8(self) -> int:
        return self._take(U8)

    def u16(self) -> int:
        return self._take(U16)

    def u32(self) -> int:
        return self._take(U32)

    def u64(self) -> int:
        return self._take(U64)

    def i64(self) -> int:
        return self._take(I64)

    def _span(self, length: int) -> bytes:
        end = self.at + length
        if end > len(self.body):
            raise BadFrame(f"a frame of command {self.key} is cut short")
        found = self.body[self.at : end]
        self.at = end
        return found

    def string(self) -> str:
        """A null string is read as an empty one."""
        length = self._take(I16)
        if length < 0:
            return ""
        try:
            return self._span(length).decode("utf-8")
        except UnicodeDecodeError:
            text = f"a string in a frame of command {self.key} is not UTF-8"
            raise BadFrame(text) from None

    def blob(self) -> bytes:
        """Bytes with a length i32; null is read as empty."""
        length = self._take(I32)
        return b"" if length < 0 else self._span(length)

    def count(self) -> int:
        count = self._take(I32)
        if not 0 <= count <= COUNT_MAX:
            raise BadFrame(f"an array of {count} in a frame of command {self.key}")
        return count

    def strings(self) -> list[str]:
        return [self.string() for _ in range(self.count())]

    def pairs(self) -> dict[str, str]:
        """A map from string to string."""
        return {self.string(): self.string() for _ in range(self.count())}


class FrameWriter:
    """A frame that is being made. `end` gives its bytes, with the size in front."""

    def __init__(self, key: int, version: int = VERSION_1) -> None:
        self._parts: list[bytes] = [HEAD.pack(key, version)]

    def u8(self, value: int) -> "FrameWriter":
        self._parts.append(U8.pack(value))
        return self

    def u16(self, value: int) -> "FrameWriter":
        self._parts.append(U16.pack(value))
        return self

    def i16(self, value: int) -> "FrameWriter":
        self._parts.append(I16.pack(value))
        return self

    def u32(self, value: int) -> "FrameWriter":
        self._parts.append(U32.pack(value))
        return self

    def u64(self, value: int) -> "FrameWriter":
        self._parts.append(U64.pack(value))
        return self

    def i64(self, value: int) -> "FrameWriter":
        self._parts.append(I64.pack(value))
        return self

    def string(self, value: str) -> "FrameWriter":
        encoded = value.encode("utf-8")[:STRING_BYTES_MAX]
        self._parts.append(I16.pack(len(encoded)) + encoded)
        return self

    def blob(self, value: bytes) -> "FrameWriter":
        self._parts.append(I32.pack(len(value)) + value)
        return self

    def raw(self, value: bytes) -> "FrameWriter":
        self._parts.append(value)
        return self

    def strings(self, values: Iterable[str]) -> "FrameWriter":
        listed = list(values)
        self._parts.append(I32.pack(len(listed)))
        for value in listed:
            self.string(value)
        return self

    def pairs(self, values: Mapping[str, str]) -> "FrameWriter":
        self._parts.append(I32.pack(len(values)))
        for key, value in values.items():
            self.string(key).string(value)
        return self

    def end(self, following_bytes: int = 0) -> bytes:
        """`following_bytes`: of the frame that are not put in, but written behind what is given."""
        body = b"".join(self._parts)
        return U32.pack(len(body) + following_bytes) + body


class Answer(FrameWriter):
    """The answer to the request of that correlation id."""

    def __init__(self, key: int, correlation: int, code: int | None) -> None:
        """`code` None: the answer has none (Metadata)."""
        super().__init__(key | RESPONSE)
        self.u32(correlation)
        if code is not None:
            self.u16(code)

"""How much of a socket is read: in one read, in one turn, and while its connection may be read.

Takes the bytes of each read and gives what is to be taken in now; the rest waits, in order, for the
next turn. Owns the pausing of the transport and tells the codec of it, so that silence is not held
against the peer. Compiled.
"""

from asyncio import BaseProtocol
from collections.abc import Callable, Sequence
from typing import Final, Protocol, final

from node.turn import READ_BYTES_MAX as TURN_BYTES_MAX
from node.turn import Turn

READ_BYTES_MAX: Final = 512 * 1024  # taken from one socket in one turn
ANSWER_BYTES_MAX: Final = 4 * 1024 * 1024  # waiting for a peer that does not read


class Transport(Protocol):
    """What endpoints use of the event loop's transport."""

    def write(self, data: bytes) -> None: ...
    def writelines(self, parts: Sequence[bytes | memoryview]) -> None: ...
    def close(self) -> None: ...
    def abort(self) -> None: ...
    def pause_reading(self) -> None: ...
    def resume_reading(self) -> None: ...
    def get_write_buffer_size(self) -> int: ...
    def is_closing(self) -> bool: ...
    def can_write_eof(self) -> bool: ...
    def write_eof(self) -> None: ...
    def set_protocol(self, protocol: BaseProtocol) -> None: ...


class Source(Protocol):
    """What `Reading` uses of it."""

    def pause_reading(self) -> None: ...
    def resume_reading(self) -> None: ...


class Codec(Protocol):
    """The report of a pause."""

    def pause_reading(self) -> None: ...
    def resume_reading(self, now_ms: int) -> None: ...


@final
class Reading:
    """The reading of one connection."""

    def __init__(
        self, turn: Turn, source: Source, codec: Codec, monotonic_ms: Callable[[], int]
    ) -> None:
        self._turn = turn
        self._source = source
        self._codec = codec
        self._monotonic_ms = monotonic_ms
        self._backlog: list[bytes] = []  # input that waits for the next turn
        self._read_bytes = 0  # in this turn
        self.is_paused = False
        self.read_count = 0

    def receive(self, data: bytes) -> bytes:
        """A read has come: what is to be taken in now, or nothing."""
        turn = self._turn
        self.read_count += 1
        self._read_bytes += len(data)
        if self._read_bytes >= READ_BYTES_MAX and not self.is_paused:
            self.is_paused = True  # Until the end of this turn at least.
            self._source.pause_reading()
        if len(self._backlog) > 0 or turn.read_bytes >= TURN_BYTES_MAX:
            self._backlog.append(data)
            return b""
        turn.read_bytes += len(data)
        return data

    def begin_turn(self) -> bytes:
        """Another turn: what was too much for the one in which it came."""
        self._read_bytes = 0
        turn = self._turn
        if len(self._backlog) == 0 or turn.read_bytes >= TURN_BYTES_MAX:
            return b""
        data = b"".join(self._backlog)
        self._backlog = []
        turn.read_bytes += len(data)
        return data

    def has_backlog(self) -> bool:
        return len(self._backlog) > 0

    def judge(self, stop: bool) -> None:
        """Go on reading, or not."""
        if stop and not self.is_paused:
            self.is_paused = True
            self._codec.pause_reading()
            self._source.pause_reading()
        elif not stop and self.is_paused:
            self.is_paused = False
            self._codec.resume_reading(self._monotonic_ms())
            self._source.resume_reading()

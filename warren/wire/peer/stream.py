"""Messages to one other node: in order, none lost, none doubled, as long as both processes live.

A connection breaks and comes back; both sides say what they expect next, and it goes on there. A
process is known by a number that it draws when it starts; when the other side's is another one
than before, everything under way is lost, and the user of the stream gets `Restarted`. No
I/O: `take_frame` is what goes to the connection next, as long as that has room.

Frames, little-endian, each a message of the connection below:

    HELLO u8 = 1, process u64, peer process u64 (0: not known), expected u64   first on a connection
    DATA  u8 = 2, number u64, the message
    ACK   u8 = 3, expected u64: all before this number has come

Numbers begin with 1 for each pair of processes. Messages that wait for their acknowledgement are
kept, up to UNACKED_BYTES_MAX: beyond that the stream `is_full`, and its users are to wait. An
acknowledgement goes with the next message, or behind ACK_MESSAGES messages or ACK_BYTES, or when
`hurry_ack` is called: alone, for each message, it would cost both nodes as much as the message.
Compiled.
"""

from collections import deque
from collections.abc import Sequence
from struct import Struct
from typing import Final, final

from mypy_extensions import i64

Buffer = bytes | memoryview

HELLO: Final = 1
DATA: Final = 2
ACK: Final = 3

HELLO_LAYOUT: Final = Struct("<BQQQ")
NUMBERED: Final = Struct("<BQ")
UNACKED_BYTES_MAX: Final = 64 << 20
ACK_MESSAGES: Final = 64
ACK_BYTES: Final = 256 * 1024


class BadFrame(Exception):
    """The other side does not keep to this; the connection is to be ended."""


@final
class Restarted:
    """The other side's process is a new one: what was under way to and from the old one is lost."""


@final
class Kept:
    """A message that was not acknowledged."""

    __slots__ = ("byte_count", "number", "parts")

    def __init__(self, number: i64, parts: Sequence[bytes], byte_count: i64) -> None:
        self.number: i64 = number
        self.parts = parts
        self.byte_count: i64 = byte_count


@final
class Stream:
    """One node's end of the stream to one other.

    Invariant: `_kept` are the messages `_next - len(_kept)` .. `_next - 1`, and `_unsent` are those
    of them that are above `_sent`.
    """

    def __init__(self, process: int) -> None:
        assert process > 0
        self._process = process  # of this node
        self._peer = 0  # process of the other side; 0: never heard of
        self._next: i64 = 1  # number of the next message to be sent
        self._sent: i64 = 0  # highest number that was given to this connection
        self._expected: i64 = 1  # of the other side
        self._kept: deque[Kept] = deque()
        self._unsent: deque[Kept] = deque()
        self._greeted = False  # the other side has said hello on this connection
        self._connected = False
        self._hello_due = False
        self._owed_messages: i64 = 0  # that came, and were not acknowledged
        self._owed_bytes: i64 = 0
        self._ack_due = False
        self.unacked_bytes: i64 = 0

    @property
    def is_full(self) -> bool:
        return self.unacked_bytes >= UNACKED_BYTES_MAX

    @property
    def is_idle(self) -> bool:
        """Everything was acknowledged."""
        return len(self._kept) == 0

    @property
    def has_unsent(self) -> bool:
        """Something waits for the connection to have room."""
        return self.stands and len(self._unsent) > 0

    @property
    def owes_ack(self) -> bool:
        """Messages have come that were not acknowledged."""
        return self.stands and self._owed_messages > 0

    def hurry_ack(self) -> None:
        """What has come is acknowledged by the next `take_frame` that has no message."""
        self._ack_due = self._owed_messages > 0

    @property
    def stands(self) -> bool:
        """Both sides have said hello on this connection."""
        return self._connected and self._greeted

    def send(self, parts: Sequence[bytes]) -> None:
        """A message in parts that are not joined; they must not change."""
        byte_count: i64 = 0
        for part in parts:
            byte_count += len(part)
        kept = Kept(self._next, parts, byte_count)
        self._kept.append(kept)
        self._unsent.append(kept)
        self._next += 1
        self.unacked_bytes += byte_count

    def connected(self) -> None:
        """There is a new connection; the one before is closed, and nothing more comes from it."""
        self._connected = True
        self._hello_due = True
        self._greeted = False
        self._acknowledges()

    def disconnected(self) -> None:
        """Nothing can be sent until `connected`."""
        self._connected = False
        self._greeted = False

    @property
    def has_frames(self) -> bool:
        """Whether `take_frame` has something for the connection."""
        if not self._connected:
            return False
        return self._hello_due or (self._greeted and (len(self._unsent) > 0 or self._ack_due))

    def take_frames(self) -> list[list[bytes]]:
        """All that is to be sent now, each frame in parts."""
        frames: list[list[bytes]] = []
        frame = self.take_frame()
        while frame is not None:
            frames.append(frame)
            frame = self.take_frame()
        return frames

    def take_frame(self) -> list[bytes] | None:
        """The next frame, in parts. None: there is nothing to be sent."""
        if not self._connected:
            return None
        if self._hello_due:
            self._hello_due = False
            return [HELLO_LAYOUT.pack(HELLO, self._process, self._peer, self._expected)]
        if not self._greeted:
            return None
        if len(self._unsent) > 0:
            kept = self._unsent.popleft()
            self._sent = kept.number
            self._ack_due = self._owed_messages > 0
            return [NUMBERED.pack(DATA, kept.number), *kept.parts]
        if self._ack_due:
            self._acknowledges()
            return [NUMBERED.pack(ACK, self._expected)]
        return None

    def _acknowledges(self) -> None:
        """All that has come is acknowledged by what is sent now."""
        self._ack_due = False
        self._owed_messages = 0
        self._owed_bytes = 0

    def received(self, frame: Buffer) -> Buffer | Restarted | None:
        """A frame of this connection: a message, or news of the other side, or nothing to tell.

        A message is as the frame: of a view it is one.

        BadFrame: the connection is to be ended; nothing has changed.
        """
        kind = frame[0] if len(frame) > 0 else 0
        if kind == HELLO and len(frame) == HELLO_LAYOUT.size:
            return self._hello(frame)
        if not self._greeted:
            raise BadFrame("a stream that does not begin with hello")
        if kind == DATA and len(frame) >= NUMBERED.size:
            return self._data(frame)
        if kind == ACK and len(frame) == NUMBERED.size:
            _, expected = NUMBERED.unpack(frame)
            self._acknowledged(expected)
            return None
        raise BadFrame(f"a frame of kind {kind} and {len(frame)} bytes in a stream")

    def _hello(self, frame: Buffer) -> Restarted | None:
        _, process, known, expected = HELLO_LAYOUT.unpack(frame)
        if process == 0 or self._greeted:
            raise BadFrame("a second hello in a stream, or one without a process number")
        first = self._peer == 0
        is_known = known == self._process  # else what came from it was for an older one of ours
        restarted = not first and (process != self._peer or (not is_known and self._expected > 1))
        if restarted:
            self._begin_anew()
        resumed = is_known and not restarted and not first
        wanted = expected if resumed else 1
        if not self._next - len(self._kept) <= wanted <= self._next:
            raise BadFrame(f"a stream that wants to go on at {wanted}")
        self._peer = process
        self._greeted = True
        self._sent = wanted - 1
        if resumed:
            self._acknowledged(wanted)
        self._unsent = deque(self._kept)  # All that is left of them is above `_sent` now.
        return Restarted() if restarted else None

    def _begin_anew(self) -> None:
        """What was for the old process is of no use to the new one."""
        self._kept.clear()
        self._unsent.clear()
        self._next = 1
        self._expected = 1
        self._acknowledges()
        self.unacked_bytes = 0

    def _data(self, frame: Buffer) -> Buffer:
        _, number = NUMBERED.unpack_from(frame)
        if number != self._expected:
            raise BadFrame(f"message {number} of a stream where {self._expected} is expected")
        self._owed_messages += 1
        self._owed_bytes += len(frame)
        if self._owed_messages >= ACK_MESSAGES or self._owed_bytes >= ACK_BYTES:
            self._ack_due = True
        self._expected += 1
        return frame[NUMBERED.size :]

    def _acknowledged(self, expected: int) -> None:
        if not self._next - len(self._kept) <= expected <= self._next:
            if expected < self._next:
                return  # An older word than one that has come.
            raise BadFrame(f"a stream that has received {expected - 1}, which was not sent")
        kept = self._kept
        while kept and kept[0].number < expected:
            self.unacked_bytes -= kept.popleft().byte_count
        while self._unsent and self._unsent[0].number < expected:
            self._unsent.popleft()

"""Frames of the peer link: bytes in, messages out. No I/O.

A frame is length (u32, of what follows the head), kind (u8), lane (u8), flags (u8; 1: the message
goes on in the next frame of its lane, and this one is full), zero (u8), and `length` bytes.
Little-endian. A message that
came whole in one read is a view of that read; any other is joined once. Limits are held against
what a head says, before its bytes come; what is wrong is a PeerFault. Compiled.
"""

import struct
from typing import Final, final

from mypy_extensions import i64

from warren.wire.peer.codes import (
    ASK,
    ASK_ANSWER,
    ASK_ROLE,
    BEAT,
    BEAT_ANSWER,
    CONTROL_LANE,
    CONTROL_ROLE,
    LANE_COUNT,
    OTHER_KIND_MIN,
    RAFT,
    PeerFault,
)

FRAME_HEAD: Final = 8
FRAME_BYTES_MAX: Final = 256 * 1024  # behind the head; longer messages are cut
MORE: Final = 1
HEAD: Final = struct.Struct("<IBBBB")
BEAT_BYTES: Final = 8

_BEAT_SLOT: Final = LANE_COUNT
_SLOTS: Final = LANE_COUNT + 1


@final
class Frame:
    """One whole message."""

    __slots__ = ("kind", "lane", "payload")

    def __init__(self, kind: int, lane: int, payload: memoryview) -> None:
        self.kind = kind
        self.lane = lane
        self.payload = payload


@final
class FrameReader:
    """Reads one connection.

    Invariant: `_left` bytes of the frame of `_kind` and `_lane` are still to come if `_in_frame`,
    else `_head` is what there is of the next head; `_pieces[slot]` is what there is of a message.
    Slots are lanes, and one more for beats: they come between the frames of a message.
    """

    def __init__(self, role: int, message_bytes_max: i64) -> None:
        self._is_control = role == CONTROL_ROLE
        self._is_ask = role == ASK_ROLE
        self._message_bytes_max: i64 = message_bytes_max
        self._head = b""
        self._in_frame = False
        self._left: i64 = 0
        self._kind: i64 = 0
        self._lane: i64 = 0
        self._slot: i64 = 0
        self._has_more = False
        self._pieces: list[list[memoryview]] = [[] for _ in range(_SLOTS)]
        self._piece_bytes: list[int] = [0] * _SLOTS
        self._begun_kind: list[int] = [0] * _SLOTS  # of the message that goes on; 0: none does

    def receive(self, data: bytes, frames: list[Frame]) -> None:
        """Take in what was read, whatever its borders; add the messages that it completes."""
        view = memoryview(data)
        pos: i64 = 0
        end: i64 = len(data)
        while pos < end or (self._in_frame and self._left == 0):
            if not self._in_frame:
                pos = self._read_head(data, pos, end)
                continue
            size: i64 = min(self._left, end - pos)
            self._left -= size
            if self._left == 0:
                self._in_frame = False
                self._end_frame(view[pos : pos + size], frames)
            else:
                self._keep(view[pos : pos + size])
            pos += size

    def _read_head(self, data: bytes, pos: i64, end: i64) -> i64:
        """Take of the head what is there; where its frame goes on."""
        missing: i64 = FRAME_HEAD - len(self._head)
        if missing == FRAME_HEAD and end - pos >= FRAME_HEAD:
            self._begin_frame(data, pos)
            return pos + FRAME_HEAD
        size: i64 = min(missing, end - pos)
        self._head += data[pos : pos + size]
        if size == missing:
            head = self._head
            self._head = b""
            self._begin_frame(head, 0)
        return pos + size

    def _begin_frame(self, data: bytes, pos: i64) -> None:
        length, kind, lane, flags, zero = HEAD.unpack_from(data, pos)
        if length > FRAME_BYTES_MAX:
            raise PeerFault(f"a frame of {length} bytes, where {FRAME_BYTES_MAX} are allowed")
        is_cut_short = flags == MORE and length < FRAME_BYTES_MAX
        if flags > MORE or zero != 0 or lane >= LANE_COUNT or is_cut_short:
            raise PeerFault("the head of a frame is malformed")
        self._slot = lane
        if kind in (BEAT, BEAT_ANSWER):
            if length != BEAT_BYTES or flags != 0 or lane != CONTROL_LANE:
                raise PeerFault("a beat is malformed")
            self._slot = _BEAT_SLOT
        elif self._is_ask:
            if kind not in (ASK, ASK_ANSWER) or lane != CONTROL_LANE or flags != 0:
                raise PeerFault(f"a frame of kind {kind} on a connection that asks")
        elif kind != RAFT and kind < OTHER_KIND_MIN:
            raise PeerFault(f"a frame of unknown kind {kind}")
        elif (lane == CONTROL_LANE) != self._is_control:
            raise PeerFault(f"a frame of lane {lane} on the wrong connection")
        else:
            self._check_message(lane, kind, length)
        self._left = length
        self._kind = kind
        self._lane = lane
        self._has_more = flags == MORE
        self._in_frame = True

    def _check_message(self, lane: int, kind: int, length: int) -> None:
        """Whether the frame may be the next one of the message on its lane."""
        begun = self._begun_kind[lane]
        if begun != 0 and begun != kind:
            raise PeerFault(f"a message of kind {begun} goes on as one of kind {kind}")
        if self._piece_bytes[lane] + length > self._message_bytes_max:
            raise PeerFault(f"a message of more than {self._message_bytes_max} bytes")

    def _keep(self, piece: memoryview) -> None:
        slot = self._slot
        if len(piece) > 0:
            self._pieces[slot].append(piece)
            self._piece_bytes[slot] += len(piece)

    def _end_frame(self, piece: memoryview, frames: list[Frame]) -> None:
        """The last bytes of a frame: the message is whole, or goes on."""
        slot = self._slot
        if self._has_more:
            self._keep(piece)
            self._begun_kind[slot] = self._kind
            return
        if len(self._pieces[slot]) > 0:
            self._keep(piece)
            piece = memoryview(b"".join(self._pieces[slot]))
            self._pieces[slot] = []
            self._piece_bytes[slot] = 0
        self._begun_kind[slot] = 0
        frames.append(Frame(self._kind, self._lane, piece))

"""What a stream needs of the disk (`warren.storage.streams`), and its snapshot.

The snapshot of a stream's group is its machine and the list of segments that count: the messages
themselves are in the segment files, made durable before the snapshot is written.
"""

from collections.abc import Callable, Collection, Sequence
from typing import Final, Protocol

import msgspec

from queues.streams.machine import MachineState
from warren.storage.streams.log import StreamLog
from warren.storage.streams.offloaded import SegmentStore
from warren.storage.streams.segments import Segment, SegmentFiles

PIECE_BYTES: Final = 48 << 10  # of a snapshot, in the keyed state
VERSION: Final = 1

SegmentRow = tuple[int, int, int, int, int, int]


class StreamState(msgspec.Struct, frozen=True, array_like=True):
    version: int
    generation: int
    machine: MachineState
    segments: list[SegmentRow]


class Disks(Protocol):
    """Makes the files of streams (`node.cluster.queues.stream_storage`)."""

    @property
    def store(self) -> SegmentStore: ...

    def keep_only(self, uids: Collection[int]) -> None:
        """At the start: remove the files of all other streams."""

    def files(self, uid: int, generation: int) -> SegmentFiles: ...

    def log(
        self,
        files: SegmentFiles,
        segments: Sequence[Segment],
        end_offset: int,
        segment_bytes: int,
    ) -> StreamLog: ...

    def write(self, work: Callable[[], Callable[[], None]]) -> None:
        """Run on the writer's thread; what it returns is called on the loop."""

    def read(self, work: Callable[[], Callable[[], None]]) -> None: ...


def encode_state(generation: int, machine: MachineState, segments: Sequence[Segment]) -> bytes:
    rows = [
        (s.first_offset, s.end_offset, s.first_ms, s.last_ms, s.byte_count, s.chunk_count)
        for s in segments
    ]
    return msgspec.msgpack.encode(StreamState(VERSION, generation, machine, rows))


def decode_state(content: bytes) -> tuple[int, MachineState, list[Segment]]:
    """Generation, machine and segments. ValueError: not a state that this node knows."""
    try:
        state = msgspec.msgpack.decode(content, type=StreamState)
    except msgspec.DecodeError as error:
        raise ValueError(f"the state of a stream cannot be read: {error}") from error
    if state.version != VERSION:
        raise ValueError(f"the state of a stream of version {state.version}")
    segments = [Segment(*row) for row in state.segments]
    end = segments[0].first_offset if segments else state.machine.next_offset
    for each in segments:  # A gap is a loss that an operator has accepted.
        if each.first_offset < end or each.end_offset <= each.first_offset:
            raise ValueError(f"segments of a stream that overlap at offset {end}")
        end = each.end_offset
    if end > state.machine.next_offset:
        raise ValueError(f"segments end at {end}, the stream at {state.machine.next_offset}")
    return state.generation, state.machine, segments


def pieces(content: bytes) -> list[bytes]:
    """The state in pieces that the keyed state takes."""
    return [content[at : at + PIECE_BYTES] for at in range(0, len(content), PIECE_BYTES)]

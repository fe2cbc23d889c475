"""What the groups of a node need of the links to other nodes; how messages travel. No I/O.

A message goes out in an envelope: uid u64 of the group, incarnation u32, member u64 that sends it,
length u32 of what follows, little-endian, then the message (docs/formats/raft-messages.md). All
messages of a turn for one node and lane are one `send`, in parts that are not joined here. Each
lane keeps its order or is lost whole; the two overtake each other. Compiled.
"""

from collections.abc import Sequence
from struct import Struct
from typing import Final, Protocol, final

from mypy_extensions import i64

# Lanes
CONTROL: Final = 0  # votes and responses: small, and others wait for them
BULK: Final = 1  # entries and slices of snapshots

ENVELOPE: Final = Struct("<QIQI")
ENVELOPE_BYTES: Final = 24


class BadEnvelope(Exception):
    """Not a batch of messages: the peer is wrong, and its connection ends."""


class Links(Protocol):
    """The way to other nodes. A member of a group is the node that it is on."""

    def send(self, member: int, lane: int, parts: list[bytes]) -> None:
        """Send a batch, or lose it: a peer that is not connected gets nothing."""

    def is_full(self, member: int) -> bool:
        """So much waits on its bulk lane that nothing may be added now, or there is no link. The
        host gets `drained` or `connected` when that ends."""


@final
class Envelope:
    """A message as it came: to whom, and its bytes, which are read by `raft.codec`."""

    __slots__ = ("incarnation", "message", "sender", "uid")

    def __init__(self, uid: int, incarnation: int, sender: int, message: memoryview) -> None:
        self.uid = uid
        self.incarnation = incarnation
        self.sender = sender
        self.message = message


@final
class Outbox:
    """What one peer is sent at the end of the turn."""

    __slots__ = ("bulk", "bulk_bytes", "control")

    def __init__(self) -> None:
        self.control: list[bytes] = []
        self.bulk: list[bytes] = []
        self.bulk_bytes: i64 = 0


def put(
    lane: list[bytes], uid: int, incarnation: int, sender: int, message: Sequence[bytes]
) -> i64:
    """Add a message, in its parts, to what goes out on a lane; its bytes."""
    length: i64 = 0
    for part in message:
        length += len(part)
    lane.append(ENVELOPE.pack(uid, incarnation, sender, length))
    lane.extend(message)
    return length


def open_batch(batch: memoryview) -> list[Envelope]:
    """The messages of a batch, in order; BadEnvelope if it is anything else."""
    found: list[Envelope] = []
    at: i64 = 0
    end: i64 = len(batch)
    while at < end:
        if end - at < ENVELOPE_BYTES:
            raise BadEnvelope("an envelope is cut short")
        uid, incarnation, sender, length = ENVELOPE.unpack_from(batch, at)
        at += ENVELOPE_BYTES
        size: i64 = length
        if size > end - at:
            raise BadEnvelope("a message is longer than its batch")
        found.append(Envelope(uid, incarnation, sender, batch[at : at + size]))
        at += size
    return found

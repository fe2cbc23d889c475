"""Frames of kind DEFINITIONS between nodes (docs/formats/peer.md). No I/O.

`Forwarded` carries a batch to the leader of the group; `Applied` says how far the sender has
applied it, for nodes that wait for it. Integers are big-endian. PeerFault: the bytes are neither.
"""

from struct import Struct, error
from typing import Final, final

from warren.wire.peer.codes import PeerFault

FORWARDED: Final = 1
APPLIED: Final = 2
_FORWARDED: Final = Struct(">BQQI")  # kind, process, number, commands; the batch behind it
_APPLIED: Final = Struct(">BQB")  # kind, index, whether clients are served


@final
class Forwarded:
    """Batch `number` of a process: `content` is a command `Numbered`."""

    __slots__ = ("command_count", "content", "number", "process")

    def __init__(self, process: int, number: int, command_count: int, content: bytes) -> None:
        self.process = process
        self.number = number
        self.command_count = command_count
        self.content = content


@final
class Applied:
    """The sender has applied the log up to `index`. `is_serving`: clients can come to it."""

    __slots__ = ("index", "is_serving")

    def __init__(self, index: int, is_serving: bool) -> None:
        self.index = index
        self.is_serving = is_serving


def encode_forwarded(batch: Forwarded) -> list[bytes]:
    head = _FORWARDED.pack(FORWARDED, batch.process, batch.number, batch.command_count)
    return [head, batch.content]


def encode_applied(told: Applied) -> list[bytes]:
    return [_APPLIED.pack(APPLIED, told.index, told.is_serving)]


def decode(payload: memoryview) -> Forwarded | Applied:
    kind = payload[0] if len(payload) else 0
    try:
        if kind == FORWARDED:
            _, process, number, count = _FORWARDED.unpack_from(payload)
            return Forwarded(process, number, count, bytes(payload[_FORWARDED.size :]))
        if kind == APPLIED:
            _, index, is_serving = _APPLIED.unpack(payload)
            return Applied(index, bool(is_serving))
    except error as fault:
        raise PeerFault(f"a frame about definitions: {fault}") from fault
    raise PeerFault(f"a frame about definitions of an unknown kind: {kind}")

"""What a `RemoteSession` keeps: commands to send again, deliveries, bodies. Compiled."""

from typing import final

from mypy_extensions import i64

from queues.machine.commands import Command
from queues.message import Chunk


@final
class Kept:
    """A command that may have to be sent again: publishes as their bytes, whatever becomes of the
    chunk in the meantime."""

    __slots__ = ("base", "chunk", "command", "data", "first_seq", "number")

    def __init__(
        self, number: i64, command: Command | None, chunk: Chunk | None, first_seq: i64
    ) -> None:
        self.number: i64 = number
        self.command = command
        self.chunk = chunk
        self.data: bytes | None = None if chunk is None else chunk.data
        self.base: i64 = 0 if chunk is None else chunk.base
        self.first_seq: i64 = first_seq

    def fresh(self) -> Chunk:
        """The messages, in a chunk without a holder."""
        old = self.chunk
        assert old is not None and self.data is not None
        return Chunk(old.format_tag, self.data, self.base, old.offsets, old.info, old.names)

    def size(self) -> i64:
        return 0 if self.chunk is None else self.chunk.size()


@final
class Told:
    """Messages that the session received, and that it cannot look at yet, or has not."""

    __slots__ = ("count", "delivery_seq", "first", "number")

    def __init__(self, number: i64, delivery_seq: i64, first: i64, count: i64) -> None:
        self.number: i64 = number
        self.delivery_seq: i64 = delivery_seq
        self.first: i64 = first
        self.count: i64 = count


@final
class Body:
    """Messages first.. that another node has sent; `foreign`: it leads no longer."""

    __slots__ = ("chunk", "count", "first", "foreign")

    def __init__(self, first: i64, chunk: Chunk) -> None:
        self.first: i64 = first
        self.count: i64 = chunk.count()
        self.chunk = chunk
        self.foreign = False

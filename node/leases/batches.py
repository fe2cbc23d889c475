"""The batches of a lease: which messages of the queue belong to which number. Pure.

    batches = Batches(Room(messages=100_000, size_bytes=1 << 28))
    batches.find(7)                    # a batch that is held; None: 7 is to be filled
    batches.add(batch)
    batches.take_upto(7)               # those are settled: their runs, to be accepted

Numbers rise: a number that is not above the newest one and is not held cannot be filled any more,
because its messages were settled. Sizes are estimates (see `node.leases.lease`).
"""

from collections.abc import Iterable
from typing import Final

from msgspec import Struct, field

NUMBER_MAX: Final = (1 << 63) - 1


class OutOfOrder(ValueError):
    """A batch was asked for whose number is used up; the text says which is the newest."""


class HeldRun(Struct, frozen=True):
    """Messages first.. of the queue, as they were delivered."""

    first: int
    count: int
    is_redelivered: bool
    attempts: int  # see `queues.queue_host.SessionSink.on_delivers`


class Batch(Struct):
    """Messages that were fetched under one number, in the order of their delivery."""

    number: int
    runs: list[HeldRun] = field(default_factory=list)
    count: int = 0
    size_bytes: int = 0

    def add(self, runs: Iterable[HeldRun], size_bytes: int) -> None:
        for run in runs:
            self.runs.append(run)
            self.count += run.count
        self.size_bytes += size_bytes

    def part(self, first: int, count: int) -> list[HeldRun]:
        """`count` messages from the one at place `first` (0-based) on."""
        found: list[HeldRun] = []
        for run in self.runs:
            begin, end = min(first, run.count), min(first + count, run.count)
            if end > begin:
                found.append(
                    HeldRun(run.first + begin, end - begin, run.is_redelivered, run.attempts)
                )
            count -= end - begin
            first -= begin
            if count == 0:
                break
        return found


class Room(Struct, frozen=True):
    """Of a lease or for a fetch."""

    messages: int
    size_bytes: int


class Batches:
    """Invariant: `held` has rising numbers, none above `newest`."""

    def __init__(self, limits: Room) -> None:
        self.held: dict[int, Batch] = {}
        self.newest = 0  # the highest number that was filled or settled
        self.count = 0  # messages
        self.size_bytes = 0
        self._limits = limits

    def find(self, number: int) -> Batch | None:
        """None: the batch may be filled. OutOfOrder: it was settled, or was never filled and a
        later one was."""
        batch = self.held.get(number)
        if batch is None and number <= self.newest:
            raise OutOfOrder(
                f"batch {number} is out of order: the newest one is {self.newest}, and held are "
                f"{', '.join(map(str, self.held)) or 'none'}; allowed: one that is held, or a "
                "higher number"
            )
        return batch

    def room(self) -> Room:
        """For the next batch: at most half of what the lease may hold, so that the batch that is
        being processed and the next one have room together."""
        limits = self._limits
        return Room(
            max(0, min(limits.messages - self.count, (limits.messages + 1) // 2)),
            max(0, min(limits.size_bytes - self.size_bytes, (limits.size_bytes + 1) // 2)),
        )

    def add(self, batch: Batch) -> None:
        assert batch.number > self.newest and batch.count > 0
        self.held[batch.number] = batch
        self.newest = batch.number
        self.count += batch.count
        self.size_bytes += batch.size_bytes

    def take_upto(self, number: int) -> list[Batch]:
        """Forget these batches: they are to be settled. Numbers up to this one are used up."""
        taken = [each for each in self.held.values() if each.number <= number]
        for batch in taken:
            del self.held[batch.number]
            self.count -= batch.count
            self.size_bytes -= batch.size_bytes
        self.newest = max(self.newest, number)
        return taken

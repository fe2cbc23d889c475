"""What a stream remembers by name: offsets of consumers, and how far publishers have published.

Both are part of the machine, so that they survive restarts, changes of the leader and retention.
Each table has NAMES_MAX names; a new one replaces the name that was used least recently. No I/O.
"""

from typing import Final

import msgspec

from queues.hosts.quorum_entry import cut_of
from queues.machine.commands import (
    TRACKED_OFFSET,
    Identify,
    QueryTracking,
    SessionId,
    StoreOffsets,
)
from queues.message import Chunk

NAMES_MAX: Final = 4096
NUMBER_MAX: Final = (1 << 63) - 1
BATCH: Final = 1 << 31  # bit of a count: so many messages that have one publishing id together
SESSION_BYTES: Final = 16

Row = tuple[bytes, int]


class TrackingState(msgspec.Struct, frozen=True, array_like=True):
    """Tracking in a snapshot; rows in the order in which they were used."""

    offsets: list[Row] = []
    publishers: list[Row] = []
    identified: list[tuple[bytes, bytes, list[tuple[int, int]]]] = []


class Tracking:
    """See the module."""

    def __init__(self) -> None:
        self.offsets: dict[bytes, int] = {}  # by name of the consumer
        self.publishers: dict[bytes, int] = {}  # highest publishing id, by name of the publisher
        # What the sessions have said of their next publish
        self.identified: dict[SessionId, Identify] = {}

    def store(self, command: StoreOffsets) -> None:
        for name, offset in command.rows:
            use(self.offsets, name, offset)

    def answer(self, command: QueryTracking) -> int:
        """One more than what was stored under the name; 0: nothing was."""
        rows = self.offsets if command.subject == TRACKED_OFFSET else self.publishers
        return rows.get(command.name, -1) + 1

    def new_in(self, session: SessionId, chunk: Chunk) -> list[Chunk]:
        """The messages of the session's next publish that their publisher has not sent before."""
        command = self.identified.pop(session, None)
        if command is None:
            return [chunk]
        last = self.publishers.get(command.publisher, -1)
        kept: list[tuple[int, int]] = []  # index of the first one, count
        index = 0
        for first, length in command.runs:
            count = length & ~BATCH
            if length & BATCH:
                if first > last:
                    last = first
                    kept.append((index, count))
                index += count
                continue
            skipped = min(max(last + 1 - first, 0), count)
            if skipped < count:
                last = first + count - 1
                kept.append((index + skipped, count - skipped))
            index += count
        if last >= 0:
            use(self.publishers, command.publisher, last)
        assert index == chunk.count(), "publishing ids for other messages than these"
        return [cut_of(chunk, at, count) for at, count in joined(kept)]

    def end(self, session: SessionId) -> None:
        self.identified.pop(session, None)

    def state(self) -> TrackingState:
        identified = [
            (int(session).to_bytes(SESSION_BYTES, "little"), each.publisher, each.runs)
            for session, each in self.identified.items()
        ]
        return TrackingState(list(self.offsets.items()), list(self.publishers.items()), identified)


def use(rows: dict[bytes, int], name: bytes, number: int) -> None:
    """Set the number of a name, which becomes the one that was used last."""
    if rows.pop(name, None) is None and len(rows) >= NAMES_MAX:
        del rows[next(iter(rows))]
    rows[name] = number


def joined(runs: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """The same runs of indexes, with those that touch made one."""
    found: list[tuple[int, int]] = []
    for first, count in runs:
        if found and sum(found[-1]) == first:
            found[-1] = (found[-1][0], found[-1][1] + count)
        else:
            found.append((first, count))
    return found


def restored_tracking(state: TrackingState) -> Tracking:
    """ValueError: of no machine."""
    tracking = Tracking()
    for rows, into in (
        (state.offsets, tracking.offsets),
        (state.publishers, tracking.publishers),
    ):
        for name, number in rows:
            if not 0 <= number <= NUMBER_MAX:
                raise ValueError(f"the number {number} of {name!r} is out of range")
            into[name] = number
    for session, publisher, runs in state.identified:
        if len(session) != SESSION_BYTES:
            raise ValueError("a publisher of a session of a wrong length")
        number = SessionId(int.from_bytes(session, "little"))
        tracking.identified[number] = Identify(number, publisher, runs)
    return tracking

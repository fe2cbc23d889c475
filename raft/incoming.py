"""A snapshot that is coming in, slice by slice. Nothing of it counts before all of it. Compiled.

One stream at a time, known by (source, index, snapshot_term). Slices are taken in order and given
to the host to be staged; what does not fit is answered with how far things are. Another stream, or
a log that got so far by itself, drops what was staged; not any more once the last slice is out,
for then the host is installing it.
"""

from collections import deque
from typing import final

from mypy_extensions import i64

from raft.entries import SnapshotPoint
from raft.messages import SliceResponse, SnapshotSlice
from raft.outbox import Outbox
from raft.ready import Ready


@final
class Incoming:
    """Invariant: stored <= received. `is_installing`: the last slice was given to the host."""

    __slots__ = (
        "_install",
        "_outbox",
        "_received",
        "_sender",
        "_slices",
        "_stored",
        "_stream",
        "_term",
        "_told_term",
        "_unstored",
        "_was_dropped",
        "is_installing",
        "point",
    )

    def __init__(self, outbox: Outbox) -> None:
        self._outbox = outbox
        self._stream: SnapshotSlice | None = None  # the first slice, or any, of the stream
        self._sender: i64 = 0
        self._term: i64 = 0  # of the sender, when a slice was taken last
        self._told_term: i64 = 0  # in which it began the stream once more, and heard how far it is
        self._received: i64 = 0  # slices before this one were taken
        self._stored: i64 = 0  # slices before this one are durable
        self._slices: list[SnapshotSlice] = []  # for the host
        self._unstored: deque[SnapshotSlice] = deque()  # taken, and not durable
        self._was_dropped = False
        self._install: SnapshotPoint | None = None
        self.is_installing = False
        self.point: SnapshotPoint | None = None  # what it is called, while it is being installed

    @property
    def is_empty(self) -> bool:
        """Nothing is coming in, and nothing is to be told."""
        return self._stream is None and not self._was_dropped

    def fits(self, part: SnapshotSlice) -> bool:
        """Whether it is of the stream that is coming in."""
        stream = self._stream
        return (
            stream is not None
            and part.source == stream.source
            and part.index == stream.index
            and part.snapshot_term == stream.snapshot_term
        )

    def heed_restart(self, part: SnapshotSlice) -> None:
        """Drop the stream that is coming in if its sender begins it once more, although it could go
        on with what was answered: it has restarted, and cuts its slices in other places."""
        is_first = part.slice_number == 0 and self.fits(part)
        if is_first and self._stored > 0 and not self.is_installing:
            self.drop()

    def heed_later_term(self, part: SnapshotSlice) -> None:
        """Drop the stream that is coming in if its sender begins it once more in a later term, and
        does so again when it knows how far things are: it has restarted since it led last, and cuts
        its slices in other places. One that can go on where it was does."""
        if part.slice_number != 0 or part.term <= self._term or not self.fits(part):
            return
        if part.term > self._told_term:
            self._told_term = part.term  # `receive` answers how far things are.
        elif not self.is_installing:
            self.drop()

    def _is_late(self, part: SnapshotSlice) -> bool:
        """A newer snapshot of the same member is coming in."""
        stream = self._stream
        return stream is not None and part.source == stream.source and part.index < stream.index

    def receive(self, sender: i64, part: SnapshotSlice, term: i64) -> bool:
        """Whether it is the last one, and all before it were taken: then say what the snapshot is
        called (`install`)."""
        if not self.fits(part):
            if self.is_installing or self._is_late(part):
                return False  # it will be sent again, or was long ago
            self.drop()
            if part.slice_number != 0:
                self._answer(sender, part, term)
                return False
            self._stream = part
        self._sender = sender
        if self.is_installing or part.slice_number != self._received:
            self._answer(sender, part, term)
            return False
        self._received += 1
        self._slices.append(part)
        self._unstored.append(part)
        self._term = part.term
        return part.is_last

    def install(self, point: SnapshotPoint) -> None:
        self.is_installing = True
        self.point = point
        self._install = point

    def store(self, part: SnapshotSlice, term: i64) -> SnapshotPoint | None:
        """The slice is durable, in the order in which they were taken; with the last one: the point
        of the snapshot that is installed."""
        if not self._unstored or self._unstored[0] is not part:
            return None  # of a stream that was dropped, perhaps to begin again
        self._unstored.popleft()
        self._stored += 1
        self._answer(self._sender, part, term)
        if not part.is_last:
            return None
        point = self.point
        self._forget()
        return point

    def passed(self, commit_index: i64) -> None:
        """The log got so far: what is not beyond it is of no use."""
        stream = self._stream
        if stream is not None and stream.index <= commit_index and not self.is_installing:
            self.drop()

    def drop(self) -> None:
        if self._stream is not None:
            self._was_dropped = True
            self._forget()

    def take(self, result: Ready) -> None:
        """What the host is to do."""
        result.slices_dropped = self._was_dropped
        self._was_dropped = False
        if self._slices:
            result.slices = self._slices
            self._slices = []
        result.install = self._install
        self._install = None

    def _forget(self) -> None:
        self._stream = None
        self._received = 0
        self._stored = 0
        self._slices = []
        self._unstored.clear()
        self.is_installing = False
        self.point = None

    def _answer(self, member: i64, part: SnapshotSlice, term: i64) -> None:
        response = SliceResponse(term, part.source, part.index, part.snapshot_term, self._stored)
        self._outbox.messages.append((member, response))

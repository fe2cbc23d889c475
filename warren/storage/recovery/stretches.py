"""Publishes that follow each other, as columns: what recovery keeps of most records. Compiled.

A *run* is made of PUBLISH records of one file, with one target and no bytes beside the messages,
whose messages follow each other. It keeps 28 bytes for a record of one message, where an object
would take 900. What is alive of it is handed over as `Stretch`es of whole records; a record of
which a part is dead goes its own way (`Run.payload`).
"""

import sys
from array import array
from struct import Struct
from typing import Final, final

from warren.storage.files import LogFile
from warren.storage.record import (
    HEADER_BYTES,
    PUBLISH_BYTES,
    PUBLISH_HEAD,
    TARGET,
    PublishPayload,
    Ranges,
    Record,
    label_end,
    label_of,
    padded,
)

TARGETS_END: Final = PUBLISH_BYTES + 16  # in the payload, with one target
PAIR: Final = Struct("<II")
RUN_RECORDS_MAX: Final = 1 << 16


@final
class Stretch:
    """Live records of one run, one behind the other. Columns are little-endian.

    Message_seqs `first`.. ; record `i` has `counts[i]` messages (u32), its data at `places[i]`
    (u32) of the file, and came at `arrivals[i]` (u64, ms); `sizes` (u32) are of its messages.
    """

    __slots__ = (
        "arrivals",
        "count",
        "counts",
        "file_id",
        "first",
        "format_tag",
        "info",
        "label",
        "owner",
        "places",
        "records",
        "sizes",
    )

    def __init__(
        self,
        run: "Run",
        first: int,
        count: int,
        begin: int,
        end: int,
        message: int,
    ) -> None:
        self.owner = run.owner
        self.file_id = run.file.id
        self.format_tag = run.format_tag
        self.info = run.info
        self.label = run.label
        self.first = first
        self.count = count
        self.records = end - begin
        self.places = little(run.places[begin:end])
        self.counts = little(run.counts[begin:end])
        self.arrivals = little(run.arrivals[begin:end])
        self.sizes = little(run.sizes[message : message + count])


def little(column: "array[int]") -> bytes:
    if sys.byteorder == "big":
        column.byteswap()
    return column.tobytes()


@final
class Run:
    """Records of one owner; messages first..end-1."""

    __slots__ = (
        "arrivals",
        "counts",
        "data_bytes",
        "end",
        "file",
        "first",
        "format_tag",
        "indexes",
        "info",
        "label",
        "last_index",
        "live",
        "owner",
        "places",
        "sizes",
        "stored",
    )

    def __init__(
        self, file: LogFile, owner: int, first: int, format_tag: int, info: int, label: bytes
    ) -> None:
        self.file = file
        self.owner = owner
        self.first = first
        self.end = first
        self.format_tag = format_tag
        self.info = info
        self.label = label
        self.last_index = -1
        self.data_bytes = 0
        self.stored = 0
        self.indexes = array("Q")
        self.places = array("I")
        self.counts = array("I")
        self.sizes = array("I")
        self.arrivals = array("Q")
        self.live: Ranges = []  # what counts in this file

    def bytes_of(self, first: int, count: int) -> int:
        """Data bytes of these messages."""
        if count == self.end - self.first:
            return self.data_bytes
        place = first - self.first
        return sum(self.sizes[place : place + count])

    def payload(self, record: int, message: int) -> PublishPayload:
        """A record again as it was read; `message`: messages of the run before it."""
        count: int = self.counts[record]
        offsets = array("I", [0])
        at = 0
        for size in self.sizes[message : message + count]:
            at += size
            offsets.append(at)
        return PublishPayload(
            self.format_tag,
            self.info,
            self.arrivals[record],
            count,
            [(self.owner, self.first + message)],
            0,
            b"",
            little(offsets),
            0,
            at,
            self.label,
        )


@final
class Runs:
    """The runs of one file in the making."""

    def __init__(self, file: LogFile) -> None:
        self.found: list[Run] = []
        self._file = file
        self._open: dict[int, Run] = {}  # the last one of each owner

    def add(self, record: Record) -> bool:
        """Take a PUBLISH; False: it is not of the kind that runs are made of."""
        payload = record.payload
        version, format_tag, info, targets, stride, count, data_bytes, now_ms = (
            PUBLISH_HEAD.unpack_from(payload, 0)
        )
        if targets != 1 or stride != 0 or record.part != 0:
            return False
        owner, first = TARGET.unpack_from(payload, PUBLISH_BYTES)
        offsets_at = label_end(payload, version, TARGETS_END)
        label = label_of(payload, TARGETS_END, offsets_at)
        run = self._open.get(owner)
        if (
            run is None
            or run.end != first
            or run.info != info
            or run.format_tag != format_tag
            or run.label != label
            or run.last_index >= record.index
            or len(run.places) >= RUN_RECORDS_MAX
        ):
            run = Run(self._file, owner, first, format_tag, info, label)
            self._open[owner] = run
            self.found.append(run)
        data_at = offsets_at + 4 * (count + 1)
        assert data_at + data_bytes == len(payload)
        run.end = first + count
        run.last_index = record.index
        run.data_bytes += data_bytes
        run.stored += padded(len(payload))
        run.indexes.append(record.index)
        run.places.append(record.offset + HEADER_BYTES + data_at)
        run.counts.append(count)
        run.arrivals.append(now_ms)
        if count == 1:
            run.sizes.append(data_bytes)
        else:
            offsets = memoryview(payload[offsets_at:data_at]).cast("I")
            before = offsets[0]
            for offset in offsets[1:]:
                run.sizes.append(offset - before)
                before = offset
        return True


@final
class Cut:
    """Part of a run that is alive: whole records (`stretch`), or one of which a part is dead."""

    __slots__ = ("index", "live", "offset", "payload", "run", "stretch")

    def __init__(self, run: Run, index: int) -> None:
        self.run = run
        self.index = index  # of its first PUBLISH
        self.stretch: tuple[int, int, int, int, int] | None = None  # as Stretch takes them
        self.payload: PublishPayload | None = None
        self.offset = 0  # of its data
        self.live: Ranges = []


def cuts_of(run: Run) -> list[Cut]:
    """What `run.live` leaves of it, in order."""
    found: list[Cut] = []
    record = 0
    at = run.first  # first message of `record`
    number = len(run.places)
    spans = run.live
    place = 0
    while place < len(spans) and record < number:
        start, count = spans[place]
        stop = start + count
        size: int = run.counts[record]
        if at + size <= start:  # Dead.
            at += size
            record += 1
            continue
        if start <= at and at + size <= stop:
            begin, begun = record, at
            while record < number and at + run.counts[record] <= stop:
                at += run.counts[record]
                record += 1
            cut = Cut(run, run.indexes[begin])
            cut.stretch = (begun, at - begun, begin, record, begun - run.first)
            found.append(cut)
        else:
            cut = Cut(run, run.indexes[record])
            cut.payload = run.payload(record, at - run.first)
            cut.offset = run.places[record]
            end = at + size
            while place < len(spans) and spans[place][0] < end:
                first = max(spans[place][0], at)
                last = min(spans[place][0] + spans[place][1], end)
                cut.live.append((first, last - first))
                if spans[place][0] + spans[place][1] > end:
                    break
                place += 1
            found.append(cut)
            at = end
            record += 1
            continue
        if at >= stop:
            place += 1
    return found

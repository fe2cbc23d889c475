"""Finding records in a file by places inside of them, without reading the rest. Compiled.

Takes places that the owners know, ascending; gives the whole records that they lie in, each once.
Reads from the landmark before each place on (`LogFile.landmarks`), some 64 KiB, so that the few
messages that are alive in a full file cost little. Runs on the thread that rewrites.

A record that is not sound is corruption, for the file was durable: `CorruptRecord`, and the file
is marked.
"""

from collections.abc import Iterator, Sequence
from typing import Final

from warren.storage.files import LogFile
from warren.storage.record import CorruptRecord, Record, padded
from warren.storage.recovery.scan import Scan

WALK_BYTES: Final = 1 << 16  # a good window for the scan


def records_at(scan: Scan, file: LogFile, places: Sequence[int]) -> Iterator[Record]:
    """The records that have one of these places in them, in order; copies, not views."""
    offset = 0
    for place in places:
        if place < offset:
            continue  # In the record that was found last.
        offset = max(offset, file.landmark_before(place))
        while True:
            record = scan.read(offset)
            if record is None:
                file.corrupt = True
                raise CorruptRecord(file.path, offset)
            offset += padded(len(record.payload))
            if place < offset:
                record.payload = memoryview(bytes(record.payload))
                yield record
                break

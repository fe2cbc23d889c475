"""Messages of a queue as they are stored, by their numbers: ready ones and those with consumers.

The queue does not change. Messages that leave meanwhile are left out.
"""

from collections.abc import AsyncIterator
from hashlib import blake2b
from itertools import accumulate
from typing import Final

from msgspec import Struct

from node.operations.body_access import BodyReads
from queues.hosts.queue_core import QueueCore
from queues.message import Chunk

TRIES: Final = 3  # a body may move to another file while it is looked for
DIGEST_BYTES: Final = 8

Runs = list[tuple[int, int]]


class StoredRun(Struct, frozen=True):
    """Messages first.. of one chunk."""

    first: int
    format_tag: int
    info: int
    names: bytes
    sizes: list[int]  # of each message in `data`
    data: bytes

    def chunk(self) -> Chunk:
        """The messages as they are published."""
        places = accumulate(self.sizes, initial=0)
        offsets = b"".join(place.to_bytes(4, "little") for place in places)
        return Chunk(self.format_tag, self.data, 0, offsets, self.info, self.names)

    def messages(self) -> list[bytes]:
        found: list[bytes] = []
        at = 0
        for size in self.sizes:
            found.append(self.data[at : at + size])
            at += size
        return found


class Unreadable(Exception):
    """The disk does not give a message."""


def digest(message: bytes) -> bytes:
    """Of a message in stored form: it is known again by this and its number."""
    return blake2b(message, digest_size=DIGEST_BYTES).digest()


def live_runs(core: QueueCore) -> Runs:
    """All messages of the queue, ascending; neighbours are one run."""
    found: Runs = []
    for first, count in core.standing_ranges(1, core.machine.next_seq - 1):
        if found and found[-1][0] + found[-1][1] == first:
            found[-1] = (found[-1][0], found[-1][1] + count)
        else:
            found.append((first, count))
    return found


async def stored_runs(
    reads: BodyReads, core: QueueCore, runs: Runs, bytes_max: int
) -> AsyncIterator[StoredRun]:
    """Those of these messages that are there, `bytes_max` of them and one at least."""
    left = bytes_max
    for wanted_first, wanted_count in runs:
        for first, count in core.standing_ranges(wanted_first, wanted_count):
            at = first
            while at < first + count:
                found = await _run_at(reads, core, at, first + count, left)
                if found is None:
                    at += 1
                    continue
                yield found
                at += len(found.sizes)
                left -= len(found.data)
                if left <= 0:
                    return


async def _run_at(
    reads: BodyReads, core: QueueCore, at: int, end: int, bytes_max: int
) -> StoredRun | None:
    """Messages at.. of one chunk; None: the first of them is gone. Unreadable: the disk has it."""
    error: Exception | None = None
    for _ in range(TRIES):
        slot = core.store.find_live(at)
        if slot is None or not core.standing_ranges(at, 1):
            return None
        chunk, index = slot.chunk, int(slot.index + at - slot.first)
        stop = index + min(end, int(slot.first + slot.count)) - at
        stop = _fitting(chunk, index, stop, bytes_max)
        spans = [chunk.span(each) for each in range(index, stop)]
        if chunk.data is not None:
            data: bytes | Exception = bytes(chunk.data[spans[0][0] : spans[-1][1]])
        else:
            data = await reads.read(chunk, index, stop)
        if isinstance(data, bytes):
            sizes = [after - before for before, after in spans]
            return StoredRun(at, int(chunk.format_tag), int(chunk.info), chunk.names, sizes, data)
        error = data
    raise Unreadable(
        f"queue '{core.name}' in vhost '{core.vhost}': message {at} cannot be read: {error}"
    )


def _fitting(chunk: Chunk, index: int, stop: int, bytes_max: int) -> int:
    """The end of messages index.. that fit, one at least."""
    while stop > index + 1 and chunk.bytes_between(index, stop) > bytes_max:
        stop = index + max(1, (stop - index) // 2)
    return stop

"""What the messages of a queue weigh, for a limit on bytes that begins while they are there.

Nothing is read from disk: of each slot the mean of its messages in the form in which they are
stored is taken. Where their bytes are in memory, what the first of them has around its body counts
off all of them; else these bytes count too, some 60 to 100 a message. Not compiled: once per
change of a policy, a few steps per slot.
"""

from queues.bodies.store import Store
from queues.machine.traits import Reading
from queues.message import Chunk

Sizes = list[tuple[int, int, int]]  # first, count, bytes of each; ascending


def sizes_in(store: Store, next_seq: int, chunks: list[Chunk]) -> Sizes:
    """Of all messages whose slots are alive, of which some are gone already, and of those in the
    chunks, which are still to come as `next_seq`...
    """
    runs: Sizes = []
    for slot in store.pieces():
        first, count = int(slot.first), int(slot.count)
        if slot.table is not None:
            runs.append((first, count, int(slot.chunk.size()) // count))
        else:
            index = int(slot.index)
            runs.append((first, count, mean_size(slot.chunk, index, index + count)))
    for chunk in chunks:
        count = int(chunk.count())
        runs.append((next_seq, count, mean_size(chunk, 0, count)))
        next_seq += count
    return join_runs(runs)


def mean_size(chunk: Chunk, first: int, last: int) -> int:
    """Of messages first..last-1 of the chunk."""
    mean = int(chunk.bytes_between(first, last)) // (last - first)
    data = chunk.data
    if data is None:
        return mean
    reading = Reading(chunk.format_tag)
    start, end = chunk.span(first)
    reading.read(data, start, end)
    return max(mean - (end - start - int(reading.size)), 0)


def join_runs(runs: Sizes) -> Sizes:
    """The same in fewer runs, where neighbours weigh the same."""
    joined: Sizes = []
    for first, count, size in runs:
        if joined:
            before, length, same = joined[-1]
            if before + length == first and same == size:
                joined[-1] = (before, length + count, size)
                continue
        joined.append((first, count, size))
    return joined

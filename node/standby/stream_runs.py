"""Messages of a stream as they are stored, by their offsets. Not compiled."""

import asyncio
from collections.abc import AsyncIterator
from typing import Final

from node.operations.body_access import READ_S
from node.standby.stored_runs import Runs, StoredRun, Unreadable
from queues.message import Chunk
from queues.streams.member import StreamMember
from queues.streams.offsets import OffsetSpec, Start
from queues.streams.reader import StreamReader

COUNT_MAX: Final = 1024  # messages of one run


def stream_range(member: StreamMember) -> Runs:
    """All messages that are committed and that retention has left; [] if there are none."""
    first, end = member.first_offset, member.next_offset
    return [(first, end - first)] if end > first else []


async def stream_runs(member: StreamMember, runs: Runs, bytes_max: int) -> AsyncIterator[StoredRun]:
    """Those of these messages that are there, about `bytes_max` of them and one at least.
    Unreadable: a segment cannot be read."""
    news = asyncio.Event()
    for first, count in runs:
        reader = StreamReader(member, OffsetSpec(Start.OFFSET, first), news.set)
        while bytes_max > 0 and reader.next_offset < first + count:
            news.clear()
            found = reader.take(min(COUNT_MAX, first + count - reader.next_offset))
            if found is not None and found[0] < first + count:
                run = _run(*found)
                bytes_max -= len(run.data)
                yield run
            elif reader.error is not None:
                raise Unreadable(f"messages at offset {reader.next_offset}: {reader.error}")
            elif found is not None or reader.is_at_end:
                break
            else:
                await _arrival(news)


async def _arrival(news: asyncio.Event) -> None:
    try:
        async with asyncio.timeout(READ_S):
            await news.wait()
    except TimeoutError as error:
        raise Unreadable("a segment of the stream is not read in time") from error


def _run(offset: int, chunk: Chunk, index: int, count: int) -> StoredRun:
    assert chunk.data is not None, "a reader gives messages that are in memory"
    spans = [chunk.span(each) for each in range(index, index + count)]
    data = bytes(chunk.data[spans[0][0] : spans[-1][1]])
    sizes = [end - start for start, end in spans]
    return StoredRun(offset, int(chunk.format_tag), int(chunk.info), chunk.names, sizes, data)

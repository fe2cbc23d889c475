"""Bodies of messages beside the queue's own reading: in memory, in the log or in page files. Not
compiled.

The queue does not change: what is read stays where it is. An answer of the disk that takes longer
than READ_S is an error, and so is a body that has moved to another file: look for it again.
"""

import asyncio
from collections.abc import Callable
from typing import Final, Protocol

from queues.bodies.store import BodyBudget
from queues.message import Chunk

READ_S: Final = 10.0


class BodyLog(Protocol):
    def read(
        self, file_id: int, offset: int, length: int, done: Callable[[bytes | Exception], None]
    ) -> None: ...


class BodySite(Protocol):
    """What it needs of the broker."""

    @property
    def budget(self) -> BodyBudget: ...

    @property
    def bodies(self) -> BodyLog: ...


class BodyReads:
    """See the module."""

    def __init__(self, site: BodySite) -> None:
        self._site = site

    async def alone(self, chunk: Chunk, index: int) -> Chunk | Exception:
        """A copy of one message of a chunk; or why it could not be read."""
        if chunk.data is not None:
            start, end = chunk.span(index)
            message: bytes | Exception = chunk.data[start:end]
        else:
            message = await self.read(chunk, index, index + 1)
        if isinstance(message, Exception):
            return message
        offsets = bytes(4) + len(message).to_bytes(4, "little")
        return Chunk(chunk.format_tag, message, 0, offsets, chunk.info, chunk.names)

    async def read(self, chunk: Chunk, index: int, end: int) -> bytes | Exception:
        """Messages index..end-1 from where they are now; the file stays until they are read."""
        answered: asyncio.Future[bytes | Exception] = asyncio.get_running_loop().create_future()

        def done(result: bytes | Exception) -> None:
            if not answered.done():
                answered.set_result(result)

        skipped = int(chunk.bytes_between(0, index))
        length = int(chunk.bytes_between(index, end))
        pager = self._site.budget.pager
        if pager is not None and chunk.page_id > 0:
            pager.files.read(chunk.page_id, chunk.page_offset + skipped, length, done)
        else:
            self._site.bodies.read(chunk.file_id, chunk.file_offset + skipped, length, done)
        try:
            async with asyncio.timeout(READ_S):
                return await answered
        except TimeoutError as error:
            return error

"""The object store of a node's streams, on a thread of its own.

    store = StreamStore(location, cluster_id, answer)   # `answer` calls on the node's loop

The thread has an event loop, which begins with the first call: requests to a store take long, and
its library is heavy. A read that fails because the store cannot be used is answered after a while
(PAUSE_S), for the reader asks again at once. One line is logged when the store fails, one when it
works again.
"""

import asyncio
import logging
import threading
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, TypeVar

from warren.storage.objects.location import Location, open_store
from warren.storage.objects.store import NoSuchObject, ObjectStore, StoreUnavailable
from warren.storage.streams.offloaded import Chunks, OffloadedSegment
from warren.storage.streams.segment_objects import SegmentObjects
from warren.storage.streams.segments import Segment, SegmentFiles

PAUSE_S: Final = 1.0
STOP_S: Final = 5.0

Answer = Callable[[], None]
Failed = Callable[[Exception], None]
T = TypeVar("T")

log = logging.getLogger("warren.streams")


class StreamStore:
    """Keeps `warren.storage.streams.offloaded.SegmentStore`; called on the node's loop."""

    def __init__(
        self,
        location: Location,
        cluster_id: Callable[[], str],
        answer: Callable[[Answer], None],
        make: Callable[[Location], ObjectStore] = open_store,
        pause_s: float = PAUSE_S,
    ) -> None:
        """`cluster_id` is asked with each call: objects of other clusters are never touched."""
        self._fault = ""  # why the last call failed
        self._cluster_id = cluster_id
        self._location = location
        self._answer = answer
        self._make = make
        self._pause_s = pause_s
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None  # of the thread
        self._tasks: set[asyncio.Task[None]] = set()  # of the thread
        self._segments: SegmentObjects | None = None  # of the thread

    @property
    def is_set(self) -> bool:
        return bool(self._location.url)

    # SegmentStore

    @property
    def fault(self) -> str:
        return self._fault

    def upload(
        self,
        files: SegmentFiles,
        segment: Segment,
        offset: int,
        term: int,
        done: Callable[[OffloadedSegment], None],
        failed: Failed,
    ) -> None:
        self._call(lambda each: each.upload(files, segment, offset, term), done, failed)

    def read(
        self,
        uid: int,
        row: OffloadedSegment,
        offset: int,
        position: int,
        done: Callable[[Chunks, int], None],
        failed: Failed,
    ) -> None:
        self._call(
            lambda each: self._paced(each.read(uid, row, offset, position)),
            lambda found: done(*found),
            failed,
        )

    def find_time(
        self,
        uid: int,
        row: OffloadedSegment,
        timestamp_ms: int,
        done: Callable[[int], None],
        failed: Failed,
    ) -> None:
        self._call(lambda each: self._paced(each.find_time(uid, row, timestamp_ms)), done, failed)

    def sweep(
        self,
        uid: int,
        rows: Sequence[OffloadedSegment],
        term: int,
        done: Answer,
        failed: Failed,
    ) -> None:
        self._call(lambda each: each.sweep(uid, rows, term), lambda _: done(), failed)

    # Streams that are deleted

    def streams(self, done: Callable[[list[int]], None], failed: Failed) -> None:
        """Uids of the streams that have objects in the store."""
        self._call(lambda each: each.streams(), done, failed)

    def remove_stream(self, uid: int, done: Answer, failed: Failed) -> None:
        self._call(lambda each: each.remove_stream(uid), lambda _: done(), failed)

    # The thread

    async def _paced(self, work: Awaitable[T]) -> T:
        try:
            return await work
        except StoreUnavailable:
            await asyncio.sleep(self._pause_s)
            raise

    def _call(
        self,
        work: Callable[[SegmentObjects], Awaitable[T]],
        done: Callable[[T], None],
        failed: Failed,
    ) -> None:
        cluster_id = self._cluster_id()

        async def run() -> None:
            try:
                found = await work(self._opened(cluster_id))
            except Exception as error:  # Told to who asked; others go on.
                told = error
                self._answer(lambda: self._tell_failed(told, failed))
            else:
                self._answer(lambda: self._tell_done(found, done))

        def begin() -> None:
            task = loop.create_task(run())
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

        loop = self._running()
        loop.call_soon_threadsafe(begin)

    def _tell_done(self, found: T, done: Callable[[T], None]) -> None:
        if self._fault:
            log.info("the object store of streams works again: %s", self._location.url)
            self._fault = ""
        done(found)

    def _tell_failed(self, error: Exception, failed: Failed) -> None:
        is_gone = isinstance(error, (FileNotFoundError, NoSuchObject))
        if not self._fault and not is_gone:
            log.error(
                "the object store of streams fails: %s; segments stay on this node, and consumers "
                "of older messages wait, until it works",
                error,
            )
        if not is_gone:
            self._fault = str(error) or type(error).__name__
        failed(error)

    def _opened(self, cluster_id: str) -> SegmentObjects:
        if not self._location.url:
            raise StoreUnavailable("streams.offload_store is not set on this node")
        if self._segments is None:
            self._segments = SegmentObjects(self._make(self._location), cluster_id)
        return self._segments

    def _running(self) -> asyncio.AbstractEventLoop:
        """A node without offloaded segments has no thread for them."""
        if self._loop is None:
            loop = self._loop = asyncio.new_event_loop()
            self._thread = threading.Thread(
                target=loop.run_forever, name="stream-store", daemon=True
            )
            self._thread.start()
        return self._loop

    def stop(self) -> None:
        """Give up what is under way; return when the thread has ended, or after some seconds."""
        loop, thread = self._loop, self._thread
        if loop is None or thread is None:
            return

        async def end() -> None:
            tasks = list(self._tasks)
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            if self._segments is not None:
                await self._segments.close()
            loop.stop()

        asyncio.run_coroutine_threadsafe(end(), loop)
        thread.join(STOP_S)
        self._loop = self._thread = None

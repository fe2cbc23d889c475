"""The object store of a node on its thread: answers come back on the loop, failures are logged
once, and objects of deleted streams are removed."""

import asyncio
import logging
from collections.abc import Callable
from pathlib import Path
from typing import cast

import pytest

from node.cluster.queues.deleted_streams import DeletedStreams
from node.cluster.queues.stream_store import StreamStore
from queues.definitions.metadata.commands import Batch
from queues.definitions.metadata.machine import Metadata
from queues.definitions.metadata.outcomes import Batched, Outcome
from warren.storage.objects.location import Location
from warren.storage.objects.store import NoSuchObject, StoreUnavailable
from warren.storage.streams.offloaded import Chunks, OffloadedSegment

CLUSTER = "c1"
ROW = OffloadedSegment(0, 3, 1, 2, 100, 1, 5)
Answer = Callable[[], None]


def answering() -> Callable[[Answer], None]:
    loop = asyncio.get_running_loop()

    def answer(call: Answer) -> None:
        loop.call_soon_threadsafe(call)

    return answer


async def asked(store: StreamStore) -> Exception:
    """Why a segment cannot be read."""
    done: asyncio.Future[Exception] = asyncio.get_running_loop().create_future()

    def found(chunks: Chunks, end: int) -> None:
        raise AssertionError("the segment was read")

    store.read(7, ROW, 0, 0, found, done.set_result)
    return await asyncio.wait_for(done, 20)


def play(folder: Path, test: Callable[[StreamStore], object], pause_s: float = 0.0) -> None:
    async def whole() -> None:
        location = Location(f"file://{folder}")
        store = StreamStore(location, lambda: CLUSTER, answering(), pause_s=pause_s)
        found = test(store)
        if asyncio.iscoroutine(found):
            await found
        store.stop()

    asyncio.run(whole())


def test_a_failing_store_is_told_once_and_again_when_it_works(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder = tmp_path / "late"
    caplog.set_level(logging.INFO, "warren.streams")

    async def test(store: StreamStore) -> None:
        for _ in range(3):
            assert isinstance(await asked(store), StoreUnavailable)
        assert "there is no such directory" in store.fault
        folder.mkdir()
        assert isinstance(await asked(store), NoSuchObject)
        done = asyncio.get_running_loop().create_future()
        store.streams(done.set_result, done.set_exception)
        assert await done == []
        assert store.fault == ""

    play(folder, test)
    told = [each.message for each in caplog.records]
    assert len([each for each in told if "fails" in each]) == 1
    assert len([each for each in told if "works again" in each]) == 1


def test_a_reader_that_asks_again_at_once_does_not_spin(tmp_path: Path) -> None:
    async def test(store: StreamStore) -> None:
        loop = asyncio.get_running_loop()
        began = loop.time()
        await asked(store)
        assert loop.time() - began >= 0.2

    play(tmp_path / "absent", test, pause_s=0.2)


def test_a_node_without_a_store_says_so() -> None:
    async def test() -> None:
        store = StreamStore(Location(""), lambda: CLUSTER, answering(), pause_s=0.0)
        assert not store.is_set
        assert "offload_store is not set" in str(await asked(store))
        store.stop()

    asyncio.run(test())


class Definitions:
    """Which streams there are, and changes that are committed when the test says so."""

    def __init__(self, *uids: int) -> None:
        self.uids = set(uids)
        self.proposed: list[Callable[[Outcome], None]] = []

    def queue(self, uid: int) -> object | None:
        return uid if uid in self.uids else None

    def propose(self, command: Batch, done: Callable[[Outcome], None]) -> None:
        assert command == Batch(())
        self.proposed.append(done)


def objects(folder: Path) -> set[str]:
    try:
        return {each.parent.name for each in folder.rglob("*.segment")}
    except FileNotFoundError:  # A folder has gone meanwhile.
        return objects(folder)


def make(folder: Path, *uids: int) -> None:
    for uid in uids:
        place = folder / CLUSTER / f"{uid:016x}"
        place.mkdir(parents=True)
        (place / f"{0:020d}-{1:016x}.segment").write_bytes(b"x")


def test_objects_of_deleted_streams_go_when_it_is_certain_that_they_are_deleted(
    tmp_path: Path,
) -> None:
    make(tmp_path, 7, 8, 9)
    definitions = Definitions(7)

    async def until(reached: Callable[[], bool]) -> None:
        async with asyncio.timeout(20):
            while not reached():
                await asyncio.sleep(0.001)

    async def test(store: StreamStore) -> None:
        leads = False
        metadata = cast(Metadata, definitions)
        deleted = DeletedStreams(store, metadata, definitions.propose, lambda: leads)
        deleted.tick()
        assert definitions.proposed == []
        leads = True
        deleted.tick()
        await until(lambda: bool(definitions.proposed))
        assert objects(tmp_path) == {f"{uid:016x}" for uid in (7, 8, 9)}
        definitions.uids.add(8)  # It was declared, and this node did not know yet.
        definitions.proposed.pop()(Batched((), ()))
        await until(lambda: objects(tmp_path) == {f"{uid:016x}" for uid in (7, 8)})
        definitions.uids.remove(8)
        deleted.look()

        def proposes_again() -> bool:
            deleted.tick()  # Nothing happens while the last removal is not done.
            return bool(definitions.proposed)

        await until(proposes_again)
        definitions.proposed.pop()(Batched((), ()))
        await until(lambda: objects(tmp_path) == {f"{7:016x}"})

    play(tmp_path, test)

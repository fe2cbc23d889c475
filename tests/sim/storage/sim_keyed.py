"""Keyed state without RocksDB, as part of a simulated disk; its thread runs in steps."""

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Protocol

from tests.sim.storage.sim_disk import SimDisk
from warren.storage.keyed import BATCH_BYTES, Answer, Batch, Row


class Steps(Protocol):
    """Where work runs (`tests.sim.storage.steps.StepRunner`)."""

    def keep(self, work: Callable[[], None]) -> None: ...

    def post(self, work: Callable[[], None]) -> None: ...


class SimKeyed:
    """Keeps the `Keyed` Protocol. No batch may be longer than the rules of `keyed` say."""

    def __init__(self, disk: SimDisk, runner: Steps) -> None:
        self._disk = disk
        disk.keyed_open()
        self._runner = runner

    def save(self, batches: Iterable[Batch], done: Callable[[], None]) -> None:
        drawn = iter(batches)

        def work() -> None:
            self.save_now(drawn)
            self._runner.post(done)

        self._runner.keep(work)

    def save_now(self, batches: Iterable[Batch]) -> None:
        for batch in batches:
            assert batch.byte_count <= BATCH_BYTES
            self._disk.keyed_write(batch)
        self._disk.keyed_sync()

    def rows(self, family: str, first: bytes, end: bytes) -> Iterator[Row]:
        rows = self._disk.keyed.written[family]
        for key in sorted(rows):
            if first <= key < end:
                yield key, rows[key]

    def look_up(self, family: str, key: bytes, done: Answer) -> None:
        def work() -> None:
            self._runner.post(partial(done, self._disk.keyed.written[family].get(key)))

        self._runner.keep(work)

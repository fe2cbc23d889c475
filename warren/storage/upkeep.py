"""Keeping the disk small: dead files go, thin ones are compacted. Decides; does little at a time.

One thing at a time, each in slices, from `turn`, on the loop thread. A file goes in this order:
nothing in it is alive; what it says and is still needed was written anew and is durable; nobody
reads it; its name is gone and the directory synced. Only then is the next one considered, because
until then a crash may bring it back with all it says.
"""

from collections import deque
from collections.abc import Callable
from typing import Final, Protocol

from warren.storage.compaction import Compaction, Copy, Owners, UnreadableFile
from warren.storage.disk import Disk
from warren.storage.files import SEGMENT_PREFIX, TMP_PREFIX, LogFile, Shelf
from warren.storage.ledger import THIN, Ledger, is_thin
from warren.storage.record import (
    CHECKPOINT,
    DELETED,
    MARK,
    CorruptRecord,
    Record,
    encode_checkpoint,
)
from warren.storage.runner import Runner

DEBTS_MAX: Final = 128  # paid in one turn
MERGE_COUNT: Final = 8  # so many small files are worth one segment
SMALL_PART: Final = 8  # a file is small below this part of file_bytes
PLACE: Final = "upkeep of the log"  # where an alarm of ours is


class Host(Protocol):
    """What upkeep needs of the log."""

    @property
    def appended_lsn(self) -> int: ...

    @property
    def durable_lsn(self) -> int: ...

    def append(self, kind: int, owner: int, index: int, parts: list[bytes]) -> object: ...

    def flush(self) -> None: ...

    def post(self, callback: Callable[[], None]) -> None: ...

    def new_segment(self) -> LogFile: ...

    def begin_upkeep(self) -> None:
        """Have everything appended that the owners have applied."""

    def raise_alarm(self, place: str, error: Exception) -> None:
        """Something went wrong that loses nothing; upkeep rests until the next roll or retry."""

    def heal(self, place: str) -> None:
        """There is nothing wrong there, or not any more."""


class Upkeep:
    """See the module. `_busy` while the background thread works for it."""

    def __init__(
        self,
        host: Host,
        ledger: Ledger,
        owners: Owners,
        disk: Disk,
        shelf: Shelf,
        runner: Runner,
        directory: str,
        file_bytes: int,
        slack_bytes: int,
    ) -> None:
        self._host = host
        self._ledger = ledger
        self._owners = owners
        self._disk = disk
        self._shelf = shelf
        self._runner = runner
        self._directory = directory
        self._file_bytes = file_bytes
        self._slack_bytes = slack_bytes
        self._woken = False
        self._busy = False
        self._closed = False
        self._resting = False  # something failed: no compaction for a while,
        self._drop_failed = False  # or not even `_dropping` goes on
        self._drops: deque[LogFile] = deque()
        self._dropping: LogFile | None = None
        self._debts: list[tuple[int, int]] = []
        self._wait_lsn = 0
        self._compaction: Compaction | None = None

    @property
    def idle(self) -> bool:
        return not (self._busy or self._woken or self._drops or self._dropping)

    def wake(self) -> None:
        """Something changed: look again, in a turn of its own."""
        if not self._woken and not self._closed:
            self._woken = True
            self._host.post(self.turn)

    def durable(self, lsn: int) -> None:
        """The log is durable up to `lsn`."""
        if self._dropping is not None and not self._busy and lsn >= self._wait_lsn:
            self.wake()

    def unpinned(self, file: LogFile) -> None:
        """Nobody reads the file any more."""
        if file is self._dropping:
            self.wake()

    def sealed(self) -> None:
        """A full file has become durable."""
        self.retry()

    def retry(self) -> None:
        """Try again what has failed, if anything has."""
        self._resting = False
        self._drop_failed = False
        self.wake()

    def close(self) -> None:
        self._closed = True

    def close_files(self) -> None:
        """After the threads have stopped; what was being made is removed at the next start."""
        if self._compaction is not None:
            self._compaction.close()

    def turn(self) -> None:
        self._woken = False
        if self._busy or self._closed or self._drop_failed:
            return
        self._host.begin_upkeep()
        if self._dropping is None and not self._drops:
            self._choose()
        if self._dropping is None and self._drops:
            self._begin_drop(self._drops.popleft())
        if self._dropping is not None and not self._busy:
            self._go_on_dropping(self._dropping)
        if self._dropping is None and not self._busy and not self._resting:
            self._host.heal(PLACE)

    def _choose(self) -> None:
        sealed = self._ledger.sealed(self._host.durable_lsn)
        for file in sealed:
            if file.live <= 0:
                assert file.live == 0
                self._drops.append(file)
                return
        if not self._resting:
            sources = self._sources(sealed)
            if sources:
                self._begin_compaction(sources)

    def _sources(self, sealed: list[LogFile]) -> list[LogFile]:
        """Files that are worth one segment together."""
        size = sum(file.size for file in sealed)
        alive = sum(file.alive_bytes() for file in sealed)
        thin = [file for file in sealed if is_thin(file)]
        if thin and size > THIN * alive + self._slack_bytes:
            thin.sort(key=lambda file: file.alive_bytes() / file.size)
            return self._first_fitting(thin)
        small = [file for file in sealed if file.size * SMALL_PART < self._file_bytes]
        return self._first_fitting(small) if len(small) >= MERGE_COUNT else []

    def _first_fitting(self, files: list[LogFile]) -> list[LogFile]:
        found: list[LogFile] = []
        alive = 0
        for file in files:
            alive += file.alive_bytes()
            if found and alive > self._file_bytes:
                break
            found.append(file)
        return sorted(found, key=lambda file: file.id)

    # Dropping.

    def _begin_drop(self, file: LogFile) -> None:
        self._dropping = file
        self._debts = self._ledger.debts(file)
        self._wait_lsn = 0

    def _go_on_dropping(self, file: LogFile) -> None:
        if self._debts or not self._wait_lsn:
            self._pay(file)
            self._host.flush()
            self._wait_lsn = self._host.appended_lsn
        if self._debts:
            self.wake()
        elif self._wait_lsn <= self._host.durable_lsn and not file.pins:
            self._background(lambda: self._take_back(file))

    def _pay(self, file: LogFile) -> None:
        """Write anew what the file says and is still needed.

        A newer record of the same kind may have made that unnecessary; then that one must be
        durable first, and so the wait is for all that was appended until now.
        """
        due, self._debts = self._debts[:DEBTS_MAX], self._debts[DEBTS_MAX:]
        for kind, owner in due:
            owed = self._ledger.owed(file, kind, owner)
            if owed == CHECKPOINT:
                last_seq = self._ledger.last_seqs.get(owner, 0)
                payload = encode_checkpoint(last_seq, self._owners.checkpoint(owner))
                self._host.append(CHECKPOINT, owner, 0, [payload])
            elif owed == DELETED:
                self._host.append(DELETED, owner, 0, [])
            elif owed == MARK:
                self._host.append(MARK, owner, self._owners.mark(owner), [])

    def _take_back(self, file: LogFile) -> None:
        self._shelf.take_back(file)
        self._host.post(lambda: self._dropped(file))

    def _dropped(self, file: LogFile) -> None:
        self._busy = False
        self._dropping = None
        self._ledger.drop(file)
        self.wake()

    # Compacting.

    def _begin_compaction(self, sources: list[LogFile]) -> None:
        segment = self._host.new_segment()
        tmp_path = self._shelf.path(TMP_PREFIX, segment.id)
        segment.path = self._shelf.path(SEGMENT_PREFIX, segment.id)
        self._compaction = Compaction(self._disk, sources, segment, tmp_path)
        compaction = self._compaction
        self._background(lambda: self._copy(compaction, []))

    def _copy(self, compaction: Compaction, copies: list[Copy]) -> None:
        compaction.write_slice(copies)
        records = compaction.read_slice()
        if records:
            self._host.post(lambda: self._ask(compaction, records))
            return
        if not compaction.empty:
            compaction.finish(self._directory)
        self._host.post(lambda: self._copied(compaction))

    def _ask(self, compaction: Compaction, records: list[tuple[LogFile, Record]]) -> None:
        if self._closed:
            return
        self._host.begin_upkeep()
        copies = compaction.choose(records, self._owners, self._ledger)
        self._background(lambda: self._copy(compaction, copies))

    def _copied(self, compaction: Compaction) -> None:
        if self._closed:
            return
        if not compaction.empty:
            self._ledger.files[compaction.segment.id] = compaction.segment
            if not compaction.relocate_slice(self._owners, self._ledger):
                self._host.post(lambda: self._copied(compaction))
                return
        self._busy = False
        self._compaction = None
        self._drops.extend(compaction.sources)
        self._host.heal(PLACE)
        self.wake()

    def _background(self, work: Callable[[], None]) -> None:
        """Run `work` on the background thread; it must post what clears `_busy`."""
        self._busy = True
        if not self._closed:
            self._runner.background(lambda: self._guarded(work))

    def _guarded(self, work: Callable[[], None]) -> None:
        try:
            work()
        except (OSError, CorruptRecord, UnreadableFile) as error:
            caught: Exception = error
            self._host.post(lambda: self._failed(caught))

    def _failed(self, error: Exception) -> None:
        """Nothing is lost: the sources are as they were. Try again at the next roll or `retry`.

        A file that could not be dropped stays in the ledger and no other goes before it, for
        nobody knows whether its name is gone for good.
        """
        self._busy = False
        self._resting = True
        self._drop_failed = self._dropping is not None
        if self._compaction is not None:
            compaction, self._compaction = self._compaction, None
            if compaction.named:
                self._bury(compaction.segment)
            else:
                self._runner.background(lambda: compaction.abandon(self._shelf))
        self._host.raise_alarm(PLACE, error)
        self.wake()

    def _bury(self, segment: LogFile) -> None:
        """A segment that has its name, perhaps not for good: nobody uses it, and it is dropped.

        A crash may bring it back until then, so that what it holds must be reckoned with.
        """
        segment.live = segment.claimed = 0
        segment.sealed_lsn = 0
        self._ledger.files[segment.id] = segment

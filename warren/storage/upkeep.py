"""Keeping the disk small: dead files go, thin ones are rewritten. Decides; does little at a time.

One file is dropped at a time and some are rewritten at a time, both in slices, from `turn`, on the
loop thread. A file goes in this order:
nothing in it is alive; what it says and is still needed was written again and is durable; nothing
reads it; its name is gone and the directory synced. Only then is the next one considered, because
until then a crash may bring it back with all it says. Dead files go in rounds: the next one waits
until it frees several times what the last one had to repeat, or repeating would never end.

Files with little alive, those with the least first, are rewritten when the files that have anything
alive take more than three times that and `slack_bytes / 2` (the *debt*), or `slack_bytes / 4` and
they are no longer in the midst of what is published and consumed. From `slack_bytes / 2` on
rewriting hurries, and publishers may go on only as it does (`warren.storage.pace`): while they
wait, upkeep is *behind* (`Host.behind`). So that files go one after the other, no more are
rewritten together than have little to copy, and the next ones are begun while the last ones are
dropped. Compiled.
"""

from collections import deque
from collections.abc import Callable, Sequence
from time import monotonic
from typing import Final, Protocol, final

from warren.storage.compaction import Alive, Compaction, NotAllFound, Owners, UnreadableFile
from warren.storage.debts import Debts
from warren.storage.disk import Disk
from warren.storage.files import SEGMENT_PREFIX, TMP_PREFIX, FilePool, LogFile
from warren.storage.ledger import THIN, Ledger, is_thin
from warren.storage.log import Location
from warren.storage.manifest import SEALED
from warren.storage.pace import Pace
from warren.storage.record import CorruptRecord, PublishPayload, Record
from warren.storage.runner import Runner
from warren.storage.tally import Tally

MERGE_COUNT: Final = 8  # so many small files are worth one segment
SMALL_PART: Final = 16  # a file is small below this part of file_bytes
COPY_PART: Final = 8  # of file_bytes is copied together, at most, but for one file that has more
AGE_PART: Final = 8  # of file_bytes is appended before what is alive in a new file is there to stay
PLACE: Final = "upkeep of the log"  # where an alarm of ours is
UNREAD: Final = "files of the log"  # and one that delays nothing
READ_FILES: Final = 3  # so many full ones are rewritten together, at most
FREED_TIMES: Final = 4  # a round frees so many times what the last one repeated

Records = Sequence[tuple[LogFile, Record, PublishPayload | None]]


class Host(Protocol):
    """What upkeep needs of the log."""

    @property
    def appended_lsn(self) -> int: ...

    @property
    def durable_lsn(self) -> int: ...

    @property
    def active_file_id(self) -> int: ...

    @property
    def active_bytes(self) -> int: ...

    def append(self, kind: int, owner: int, index: int, parts: Sequence[bytes]) -> Location: ...

    def append_hard_state(self, owner: int, incarnation: int, term: int, vote: int) -> Location: ...

    def flush(self) -> None: ...

    def post(self, callback: Callable[[], None]) -> object: ...

    def new_segment(self) -> LogFile: ...

    def begin_upkeep(self) -> None:
        """Have everything appended that the owners have applied."""

    def raise_alarm(self, place: str, error: Exception) -> None:
        """Something went wrong that loses nothing; upkeep rests until the next roll or retry."""

    def heal(self, place: str) -> None:
        """There is nothing wrong there, or not any more."""

    def behind(self, is_behind: bool) -> None:
        """The files take more than they may, or no longer do: publishers have to wait."""


@final
class Upkeep:
    """See the module.

    `_busy` while another thread drops a file, `_copying` while one is at work on `compaction`.
    What is dead goes while something is being rewritten, but not what is read for that.
    """

    def __init__(
        self,
        host: Host,
        ledger: Ledger,
        owners: Owners,
        disk: Disk,
        pool: FilePool,
        runner: Runner,
        directory: str,
        file_bytes: int,
        slack_bytes: int,
    ) -> None:
        self._host = host
        self._ledger = ledger
        self._owners = owners
        self._disk = disk
        self._pool = pool
        self._runner = runner
        self._directory = directory
        self._file_bytes = file_bytes
        self._slack_bytes = slack_bytes
        self._woken = False
        self._busy = False
        self._copying = False
        self._closed = False
        self._resting = False  # something failed: no compaction for a while,
        self._drop_stuck = False  # or not even `dropping` goes on
        self._unread: deque[LogFile] = deque()  # to be read again, each alone
        self._drops: deque[LogFile] = deque()
        self.dropping: LogFile | None = None
        self._debts: Debts | None = None  # of what is being dropped
        self._wait_lsn = 0  # durable so far, and the file may go
        self._round_bytes = 0  # repeated in this round of drops
        self._said_bytes = 0  # and in the last one
        self.compaction: Compaction | None = None
        self._begin_lsn = 0  # durable so far, and everything in the sources was applied
        self._behind_since_s = 0.0
        self._aged_lsn = -1  # appended so far, and a thin file that is waited for may be rewritten
        self._hurries = False
        self._pace = Pace(file_bytes, slack_bytes)
        self._got_through = 0  # of the sources, as last reported to the pace
        self.is_behind = False
        self.tally = Tally()

    @property
    def idle(self) -> bool:
        return not (self._woken or self._works())

    def _works(self) -> bool:
        return bool(self._drops) or self.dropping is not None or self.compaction is not None

    @property
    def behind_s(self) -> float:
        """Seconds that publishers have had to wait, all together."""
        return self.tally.behind_s + (monotonic() - self._behind_since_s if self.is_behind else 0)

    @property
    def has_room(self) -> bool:
        """Whether a file may be left before it is full, though it takes its whole size."""
        return excess(self._ledger.sealed(self._host.durable_lsn)) <= self._slack_bytes // 4

    def is_rewriting(self, file_id: int) -> bool:
        compaction = self.compaction
        return compaction is not None and any(file.id == file_id for file in compaction.sources)

    def wake(self) -> None:
        """Something changed: look again, in a turn of its own."""
        if not self._woken and not self._closed:
            self._woken = True
            self._host.post(self.turn)

    def durable(self, lsn: int) -> None:
        """The log is durable up to `lsn`."""
        may_drop = self.dropping is not None and not self._busy and not self._drop_stuck
        drops = may_drop and lsn >= self._wait_lsn
        copies = self.compaction is not None and not self._copying and lsn >= self._begin_lsn
        ages = 0 <= self._aged_lsn <= lsn
        if ages:
            self._aged_lsn = -1
        if drops or copies or ages:
            self.wake()
        if self._pace.is_on:
            self._judge()

    @property
    def is_pacing(self) -> bool:
        """Whether publishers may go only as fast as files are rewritten."""
        return self._pace.is_on

    def unpinned(self, file: LogFile) -> None:
        """No read of the file is open any more."""
        if file is self.dropping:
            self.wake()

    def sealed(self) -> None:
        """A full file has become durable."""
        self._see_debt()
        self.retry()

    def retry(self) -> None:
        """Try again what has failed, if anything has."""
        self._resting = False
        self._drop_stuck = False
        self.wake()

    def read_again(self) -> None:
        """Try again to rewrite what could not be read."""
        for file in self._ledger.files.values():
            if file.unread:
                file.unread = False
                self._unread.append(file)
        self.retry()

    def close(self) -> None:
        self._closed = True

    def close_files(self) -> None:
        """After the threads have stopped; what was being made is removed at the next start."""
        if self.compaction is not None:
            self.compaction.close()

    def turn(self) -> None:
        self._woken = False
        if self._closed or (self._busy and self._copying):
            return
        self._host.begin_upkeep()
        if self.compaction is None and not self._resting and self._ledger.freeing == 0:
            self._choose_sources()
        elif self.compaction is not None and not self._copying:
            self._begin_reading(self.compaction)
        if self._busy or self._drop_stuck:
            return
        if self.dropping is None and not self._drops:
            self._choose_drops()
        if self.dropping is None and self._drops:
            self._begin_drop(self._drops.popleft())
        if self.dropping is not None:
            self._go_on_dropping(self.dropping)
        elif not self._resting and self.compaction is None:
            self._host.heal(PLACE)

    def _choose_drops(self) -> None:
        """Dead files, but for those that are being read."""
        busy_with = self.compaction.sources if self.compaction is not None else []
        sealed = self._ledger.sealed(self._host.durable_lsn)
        dead = [file for file in sealed if file.live <= 0 and file not in busy_with]
        if dead and sum([file.size for file in dead]) >= FREED_TIMES * self._said_bytes:
            for file in dead:
                assert file.live == 0
            dead.sort(key=lambda file: file.id)
            self._drops.extend(dead)
        self._see_debt()

    def _choose_sources(self) -> None:
        sources = self._sources(self._with_something_alive())
        if sources:
            self._begin_compaction(sources)
            self._see_debt()

    def _with_something_alive(self) -> list[LogFile]:
        return [file for file in self._ledger.sealed(self._host.durable_lsn) if file.live > 0]

    def _sources(self, sealed: list[LogFile]) -> list[LogFile]:
        """Files that are worth one segment together."""
        self._aged_lsn = -1
        while self._unread:
            file = self._unread.popleft()
            if file in sealed:
                return [file]
        thin = [file for file in sealed if is_thin(file)]
        debt = excess(sealed)
        if debt <= self._slack_bytes // 2:
            thin = self._aged(thin) if debt > self._slack_bytes // 4 else []
        if thin:
            thin.sort(key=lambda file: file.alive_bytes() / file.size)
            return self._first_fitting(thin, self._file_bytes // COPY_PART)
        tiers: dict[int, list[LogFile]] = {}
        for file in sealed:
            if file.size * SMALL_PART < self._file_bytes:
                tier = tiers.setdefault(file.size.bit_length() // 3, [])
                tier.append(file)
                if len(tier) >= MERGE_COUNT:
                    return self._first_fitting(tier, self._file_bytes)
        return []

    def _aged(self, files: list[LogFile]) -> list[LogFile]:
        """Those that were full a while ago: most of what is on its way to be consumed has gone."""
        aged: list[LogFile] = []
        for file in files:
            lsn = file.sealed_lsn + self._file_bytes // AGE_PART
            if lsn <= self._host.durable_lsn:
                aged.append(file)
            elif self._aged_lsn < 0 or lsn < self._aged_lsn:
                self._aged_lsn = lsn
        return aged

    def _first_fitting(self, files: list[LogFile], alive_max: int) -> list[LogFile]:
        found: list[LogFile] = []
        alive = size = 0
        for file in files:
            alive += file.alive_bytes()
            size += file.size
            if found and (alive > alive_max or size > READ_FILES * self._file_bytes):
                break
            found.append(file)
        return sorted(found, key=lambda file: file.id)

    def _see_debt(self) -> None:
        """How much there is to be rewritten says how fast that goes, and how fast publishers."""
        works = self._works() and not self._drop_stuck
        if not works and not self._hurries and not self.is_behind:
            return
        appended_lsn = self._host.appended_lsn
        if works and self.compaction is not None:
            # With what is dead and on its way out.
            over = excess(self._ledger.sealed(self._host.durable_lsn))
            self._pace.see(over, over + self._coming(), appended_lsn)
        else:
            self._pace.end()
        hurries = self._pace.is_on
        if hurries != self._hurries:
            self._hurries = hurries
            self._runner.hurry(hurries)
        self._judge()

    def _coming(self) -> int:
        """How much more it is for the file that is being filled: at once, when that is full."""
        file = self._ledger.files[self._host.active_file_id]
        return max(0, self._host.active_bytes - THIN * file.alive_bytes())

    def _see_progress(self, compaction: Compaction) -> None:
        """Rewriting has gone on."""
        through = compaction.got_through()
        self._pace.moved(through - self._got_through, self._host.appended_lsn)
        self._got_through = through
        self._see_debt()

    def _judge(self) -> None:
        """Have publishers wait, or go on."""
        behind = self._pace.holds(self._host.appended_lsn) or self._too_many_dead()
        if behind == self.is_behind:
            return
        self.is_behind = behind
        if behind:
            self.tally.behind_count += 1
            self._behind_since_s = monotonic()
        else:
            self.tally.behind_s += monotonic() - self._behind_since_s
        self._host.behind(behind)

    def _too_many_dead(self) -> bool:
        """Whether files that are on their way out take too much."""
        drops = self.dropping is not None or bool(self._drops)
        if not drops or self._drop_stuck:
            return False
        return excess(self._ledger.sealed(self._host.durable_lsn)) > self._slack_bytes

    # Dropping.

    def _begin_drop(self, file: LogFile) -> None:
        self.dropping = file
        self._debts = Debts(file, self._host, self._ledger, self._owners, self.tally)
        self._wait_lsn = 0

    def _go_on_dropping(self, file: LogFile) -> None:
        debts = self._debts
        if debts is not None:
            debts.pay_slice()
            self._host.flush()
            if not debts.is_paid:
                self.wake()
                return
            self._round_bytes += debts.byte_count
            self._debts = None
            self._wait_lsn = self._host.appended_lsn
        if self._wait_lsn <= self._host.durable_lsn and not file.pins:
            self._background(lambda: self._take_back(file))

    def _take_back(self, file: LogFile) -> None:
        recycled = self._pool.take_back(file)
        self._host.post(lambda: self._dropped(file, recycled))

    def _dropped(self, file: LogFile, recycled: bool) -> None:
        self._busy = False
        self.dropping = None
        self._ledger.drop(file)
        self.tally.dropped_files += 1
        self.tally.recycled_files += recycled
        self._see_unread()
        if not self._drops:
            self._said_bytes = self._round_bytes
            self._round_bytes = 0
        self._see_debt()
        self.wake()

    # Rewriting.

    def _begin_compaction(self, sources: list[LogFile]) -> None:
        """All that is in the sources must have been applied before the owners are asked."""
        segment = self._host.new_segment()
        tmp_path = self._pool.path(TMP_PREFIX, segment.id)
        segment.path = self._pool.path(SEGMENT_PREFIX, segment.id)
        self.compaction = Compaction(self._disk, sources, segment, tmp_path)
        self._got_through = 0
        self.tally.begun += 1
        self._host.flush()
        self._begin_lsn = self._host.appended_lsn
        if self._begin_lsn <= self._host.durable_lsn:
            self.wake()

    def _begin_reading(self, compaction: Compaction) -> None:
        if self._begin_lsn > self._host.durable_lsn:
            return
        if not compaction.ask_slice(self._owners, self._ledger):
            self.wake()
            return
        self._rewrite(compaction, lambda: self._copy(compaction, []))

    def _copy(self, compaction: Compaction, chosen: list[Alive]) -> None:
        compaction.take(chosen)
        records = compaction.read_slice()
        if records:
            self._host.post(lambda: self._ask(compaction, records))
            return
        compaction.write_slice()
        if not compaction.empty:
            compaction.finish(self._directory)
        self._host.post(lambda: self._copied(compaction))

    def _ask(self, compaction: Compaction, records: Records) -> None:
        if self._closed:
            return
        self._host.begin_upkeep()
        chosen = compaction.choose(records, self._owners, self._ledger)
        self._see_progress(compaction)
        self._rewrite(compaction, lambda: self._copy(compaction, chosen))

    def _copied(self, compaction: Compaction) -> None:
        if self._closed:
            return
        if not compaction.empty:
            if compaction.segment.id not in self._ledger.files:
                self._ledger.adopt(compaction.segment)
                # Durable when the list is written before a source is removed.
                self._pool.manifest.add(self._ledger.listed(compaction.segment, SEALED))
            if not compaction.relocate_slice(self._owners, self._ledger):
                self._see_progress(compaction)
                self._host.post(lambda: self._copied(compaction))
                return
            compaction.segment.sealed_lsn = 0  # Not before, or it could be taken for dead.
        self._copying = False
        self.compaction = None
        self.tally.finished += 1
        if not self._resting:  # Else a drop has failed meanwhile.
            self._host.heal(PLACE)
        self._see_unread()
        for file in compaction.sources:
            if file.live <= 0:
                self._drops.append(file)
            elif self._ledger.freeing == 0:
                # An owner needs a record that the scan did not find: keep the file.
                file.corrupt = True
                error = NotAllFound(f"{file.path} is set aside: not all in it was found")
                self._host.raise_alarm(PLACE, error)
        self._see_debt()
        self.wake()

    # The other threads.

    def _background(self, work: Callable[[], None]) -> None:
        """Run `work` on the background thread; it must post what clears `_busy`."""
        self._busy = True
        if not self._closed:
            self._runner.background(lambda: self._guarded(work, self._drop_failed))

    def _rewrite(self, compaction: Compaction, work: Callable[[], None]) -> None:
        """Run a slice of it on the thread that rewrites; what it posts clears `_copying`."""
        self._copying = True
        if not self._closed:
            self._runner.rewrite(lambda: self._metered(compaction, work))

    def _metered(self, compaction: Compaction, work: Callable[[], None]) -> int:
        """How many bytes the slice has moved."""
        read, written = compaction.read_bytes, compaction.written_bytes
        self._guarded(work, self._rewrite_failed)
        read = compaction.read_bytes - read
        written = compaction.written_bytes - written
        self.tally.read_bytes += read
        self.tally.rewritten_bytes += written
        return read + written

    def _guarded(self, work: Callable[[], None], failed: Callable[[Exception], None]) -> None:
        try:
            work()
        except (OSError, CorruptRecord, UnreadableFile) as error:
            caught: Exception = error
            self._host.post(lambda: failed(caught))

    def _drop_failed(self, error: Exception) -> None:
        """It stays in the ledger and no other goes before it, for it is unknown whether its name is
        gone for good.
        """
        self._busy = False
        self._drop_stuck = True
        self._rest(error)

    def _rewrite_failed(self, error: Exception) -> None:
        """Nothing is lost: the sources are as they were."""
        compaction = self.compaction
        assert compaction is not None
        self._copying = False
        self.compaction = None
        self.tally.failed += 1
        if compaction.named:
            self._bury(compaction.segment)
        else:
            self._runner.background(lambda: compaction.abandon(self._pool))
        self._rest(error)

    def _bury(self, segment: LogFile) -> None:
        """A segment that has its name, perhaps not for good: it is unused and dropped.

        A crash may bring it back until then, so that what it holds must be reckoned with.
        """
        segment.live = segment.claimed = 0
        segment.sealed_lsn = 0
        self._ledger.adopt(segment)

    def _see_unread(self) -> None:
        """All was read in the end, or nothing that could not be is needed any more."""
        if not self._unread and not any(file.unread for file in self._ledger.files.values()):
            self._host.heal(UNREAD)

    def _rest(self, error: Exception) -> None:
        """Try again at the next roll or `retry`; the others at once if a file was set aside."""
        is_aside = isinstance(error, UnreadableFile)
        self._resting = not is_aside
        self._see_debt()
        self._host.raise_alarm(UNREAD if is_aside else PLACE, error)
        self.wake()


def excess(sealed: list[LogFile]) -> int:
    """How many bytes the files take beyond three times what is alive in them."""
    return sum([file.size - THIN * file.alive_bytes() for file in sealed])

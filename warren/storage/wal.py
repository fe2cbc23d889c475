"""The write-ahead log of a node: one for all its queues and log groups.

    wal = Wal(OsDisk(), directory, post=loop.call_soon_threadsafe, on_failure=stop_the_node)
    report = wal.open(sink)             # what an earlier process left; then the threads start
    wal.attach(owners)                  # from now on dead files go and thin ones are compacted
    location = wal.append_publish(...)  # any number of appends in a turn of the loop ...
    wal.flush()                         # ... and one hand-over
    wal.on_durable.append(callback)     # callback(lsn) on the loop thread, after each sync

All methods are for the loop thread. There is one synced write at a time, which takes all that was
flushed since the last one, up to `group_bytes`. A small one is submitted (`DirectDisk.submit`), and
the loop hears of its end; others are the writer thread's. What was appended first is durable first.
After a failed write or sync what is on disk is unknown: `on_failure` is called and nothing is
reported durable any more.
"""

import os
import secrets
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Final

from warren.storage.compaction import Owners, UnreadableFile
from warren.storage.disk import Disk
from warren.storage.entry_reads import EntryRead, Found, spans_of
from warren.storage.files import SEGMENT_PREFIX, WAL_PREFIX, FilePool, LogFile
from warren.storage.ledger import Ledger
from warren.storage.log import Batch, Location, Log
from warren.storage.log_proof import LogProof
from warren.storage.manifest import READY, SEALED
from warren.storage.reads import Read, Reads, carry_out
from warren.storage.reads import ShortRead as ShortRead
from warren.storage.record import (
    CHECKPOINT,
    CLEAN,
    DELETED,
    ENTRY,
    HARD_STATE,
    HEADER_BYTES,
    MARK,
    ONE_PUBLISH_BYTES,
    ONE_SETTLE_BYTES,
    OPENED,
    PUBLISH,
    SETTLE,
    STATE_BYTES,
    Buffer,
    RaftRun,
    encode_checkpoint,
    encode_hard_state,
    encode_publish_prefix,
    encode_settle,
    offset_at,
    padded,
)
from warren.storage.recovery.recovery import Recovery, RecoveryReport, RecoverySink
from warren.storage.runner import REWRITE_BYTES_PER_S, Runner, ThreadRunner
from warren.storage.tally import DiskUse, Tally
from warren.storage.upkeep import PLACE as UPKEEP
from warren.storage.upkeep import UNREAD, Upkeep
from warren.storage.writing.log_writer import LogWriter, Post

FILE_BYTES: Final = 128 << 20
GROUP_BYTES: Final = 4 << 20
RESERVE_FILES: Final = 2
RESERVE: Final = "reserve of the log"  # where an alarm is
LIST: Final = "list of the log files"  # and another one
STOCK_QUARTERS: Final = 3  # of a file are written before one is made in place of that before it


class Wal:
    """See the module."""

    def __init__(
        self,
        disk: Disk,
        directory: str,
        *,
        post: Post,
        on_failure: Callable[[BaseException], None],
        file_bytes: int = FILE_BYTES,
        group_bytes: int = GROUP_BYTES,
        reserve_files: int = RESERVE_FILES,
        slack_bytes: int | None = None,
        rewrite_bytes_per_s: int = REWRITE_BYTES_PER_S,
        runner: Runner | None = None,
        proof: LogProof | None = None,
        draw_epoch: Callable[[], int] | None = None,
    ) -> None:
        self._disk = disk
        self._directory = directory
        self._file_bytes = file_bytes
        self._group_bytes = group_bytes
        self._reserve_files = reserve_files
        self._slack_bytes = 2 * file_bytes if slack_bytes is None else slack_bytes
        self._post = post
        self._on_failure = on_failure
        self._draw_epoch = draw_epoch or (lambda: secrets.randbits(32))
        self._pool = FilePool(disk, directory, file_bytes, max(1, reserve_files - 1), proof)
        self._writer = LogWriter(disk, self._pool, group_bytes, post, self._written, on_failure)
        self._runner: Runner = runner or ThreadRunner(self._writer.fail, rewrite_bytes_per_s)
        self.ledger = Ledger()  # what is alive in which file
        self._log: Log | None = None
        self.upkeep: Upkeep | None = None  # from the opening on
        self._last_file_id = 0
        self._last_index = 0  # of a PUBLISH
        self._last_state = 0  # number of a HARD_STATE
        self._reads = Reads()
        self._closed = False
        self._next: LogFile | None = None  # what will be active after the next roll
        self._stocking = False
        self._stocked_once = False  # the first write of the broker's work begins the reserve
        self._stocks_later = False  # no spare is written before the log has got to `_stock_lsn`
        self._stock_lsn = 0
        self._seal_lsns: deque[int] = deque()  # ends of full files that are not yet durable
        self.durable_lsn = 0
        self.on_durable: list[Callable[[int], None]] = []
        # Where and what: bad, and nothing lost. An OSError, or an UnreadableFile, stays until
        # `on_healed`; others are reported once. `retry` tries again what has failed.
        self.on_alarm: Callable[[str, Exception], None] | None = None
        self.on_healed: Callable[[str], None] | None = None
        self.faults: dict[str, Exception] = {}  # by place: what `on_healed` was not called for yet
        self.on_behind: Callable[[bool], None] | None = None  # publishers have to wait, or no more
        # Called before the owners are asked anything: to append what was applied and is not yet
        # appended, or a message could be dropped before what became of it is in the log.
        self.before_upkeep: Callable[[], None] | None = None

    # Opening and closing.

    def open(self, sink: RecoverySink) -> RecoveryReport:
        """Recover, begin a new file, durably, and start the threads."""
        with self._runner.ahead() as ahead:
            recovery = Recovery(self._disk, self._directory, self._pool, ahead=ahead)
            self.ledger, report = recovery.run(sink)
        for file in list(self.ledger.files.values()):
            self.ledger.adopt(file)
        self._last_file_id = recovery.last_file_id
        # A number is left out for ever where one may have been lost: no later one closes the gap.
        left_out = 1 if report.corrupt else 0
        self._last_index = recovery.last_index + left_out
        self._last_state = recovery.last_state + left_out
        self._pool.manifest.write()  # Before a file is cut, and before the first one is made.
        self._trim()
        self._log = Log(self._group_bytes, self._take_file, self._writer.hand_over)
        self.append(OPENED, 0, 0, ())
        self._log.flush()
        batch = self._writer.write_first()
        self.durable_lsn = self.appended_lsn
        batch.file.durable_offset = batch.offset + batch.byte_count
        self._listed = batch.file  # those before it are listed as sealed
        self._writer.start(self._runner)
        return report

    def attach(self, owners: Owners) -> None:
        """Begin with the upkeep; the owners answer from now on."""
        self.upkeep = Upkeep(
            self,
            self.ledger,
            owners,
            self._disk,
            self._pool,
            self._runner,
            self._directory,
            self._file_bytes,
            self._slack_bytes,
        )
        self.upkeep.wake()

    def close(self, clean: bool) -> None:
        """Write what was appended, wait for it, stop. `clean`: the owners are done in good order.

        Blocks until the writer is still; callbacks posted by then find the log closed.
        """
        if self._closed:
            return
        if self.upkeep is not None:
            self.upkeep.close()
        if clean:
            assert self._log is not None
            self.append(CLEAN, 0, 0, ())
            self._log.seal()
        self._writer.end_submits()
        self.flush()
        self._runner.stop()
        self._writer.tell()
        failure = self._writer.failure
        if clean and failure is None and not self.pending_bytes:
            self._list_the_end()
        self._closed = True
        if failure is not None:  # The loop may not come to hear it any more.
            self._on_failure(failure)
        if self.upkeep is not None:
            self.upkeep.close_files()
        for file in self.ledger.files.values():
            if file.handle >= 0:
                self._disk.close(file.handle)
        if self._next is not None and self._next.handle >= 0:
            self._disk.close(self._next.handle)
        self._pool.close()

    def _trim(self) -> None:
        """Give back the unused end of a file that was cut short, so that restarts cost no disk."""
        for file in self.ledger.files.values():
            if file.live and file.used * 2 < file.size and not file.corrupt:
                self._disk.truncate(file.handle, file.used)
                file.size = file.used

    # Appending.

    @property
    def appended_lsn(self) -> int:
        return 0 if self._log is None else self._log.appended_lsn

    @property
    def active_file_id(self) -> int:
        """The file that the next record goes into, unless it is full."""
        assert self._log is not None
        return self._log.active.id

    @property
    def active_bytes(self) -> int:
        """How far that file is filled."""
        assert self._log is not None
        return self._log.offset

    @property
    def pending_bytes(self) -> int:
        """Appended and not yet known to be durable: for back-pressure."""
        return self.appended_lsn - self.durable_lsn

    def append_publish(
        self,
        format_tag: int,
        info: int,
        now_ms: int,
        targets: Sequence[tuple[int, int]],
        meta: bytes,
        offsets: bytes,
        data: bytes,
        base: int,
        label: bytes = b"",
    ) -> Location:
        """Append messages, once for all targets (owner, message_seq of the first message).

        Message `i` is `data[offsets[i] - base : offsets[i + 1] - base]` and is at least one byte.
        `data` is not copied and must not change. Its bytes are claimed once for each target.
        `label` comes back with them, whatever it means.
        """
        log = self._log
        assert log is not None
        count = len(offsets) // 4 - 1
        first = offset_at(offsets, 0)
        byte_count = offset_at(offsets, count) - first
        region: Buffer = data
        if byte_count != len(data):
            region = memoryview(data)[first - base : first - base + byte_count]
        index = self._last_index + 1
        if len(targets) == 1 and not meta and not label:
            owner, seq = targets[0]
            prefix_bytes = ONE_PUBLISH_BYTES + len(offsets)
            at = log.append_publish(index, format_tag, info, now_ms, owner, seq, offsets, region)
        else:
            prefix = encode_publish_prefix(
                format_tag, info, now_ms, targets, meta, offsets, byte_count, label
            )
            prefix_bytes = len(prefix)
            length = prefix_bytes + byte_count
            at = log.append(PUBLISH, targets[0][0], index, 0, [prefix, region], length)
        self._last_index = index  # Not before: a file that became full for it does not have it.
        file = log.active
        stored = padded(prefix_bytes + byte_count)
        file.claim(byte_count * len(targets), stored)
        last_seqs = self.ledger.last_seqs
        for owner, seq in targets:
            if owner not in file.publishers:
                self.ledger.note_publisher(file, owner)
            last_seqs[owner] = max(last_seqs.get(owner, 0), seq + count - 1)
        return Location(file.id, at + HEADER_BYTES + prefix_bytes, stored)

    def append(self, kind: int, owner: int, index: int, parts: Sequence[bytes]) -> Location:
        """Append any other record; `parts` are its payload, one after the other."""
        log = self._log
        assert log is not None
        payload: list[Buffer] = list(parts)
        length = sum(map(len, parts))
        at = log.append(kind, owner, index, 0, payload, length)
        file = log.active
        stored = padded(length)
        self.ledger.note(file, kind, owner, index, at, stored)
        return Location(file.id, at + HEADER_BYTES, stored)

    def append_settle(self, owner: int, ranges: Sequence[tuple[int, int]]) -> Location:
        """These messages, (first, count), of the owner are finished for good."""
        self.ledger.note_settled(owner, ranges)
        if len(ranges) != 1:
            return self.append(SETTLE, owner, 0, (encode_settle(ranges),))
        log = self._log
        assert log is not None
        first, count = ranges[0]
        at = log.append_settle(owner, first, count)
        file = log.active
        self.ledger.note(file, SETTLE, owner, 0, at, ONE_SETTLE_BYTES)
        return Location(file.id, at + HEADER_BYTES, ONE_SETTLE_BYTES)

    def append_mark(self, owner: int, message_seq: int) -> Location:
        """Nothing above `message_seq` was ever delivered."""
        return self.append(MARK, owner, message_seq, ())

    def append_deleted(self, owner: int) -> Location:
        """The owner is gone. It has released all its bytes before; its uid is not used again."""
        return self.append(DELETED, owner, 0, ())

    def append_entry(self, owner: int, index: int, parts: Sequence[bytes]) -> Location:
        """An entry of a log group; it stays until `release_log`."""
        return self.append(ENTRY, owner, index, parts)

    def append_raft_entries(
        self,
        owner: int,
        incarnation: int,
        first: int,
        term: int,
        appended_term: int,
        kind: int,
        contents: Sequence[Sequence[bytes]],
    ) -> None:
        """Entries of a group of several members, from the index `first` on, behind those it has;
        they stay until `release_log` or `truncate_log`, or until another one is appended at their
        index or a lower one.

        `appended_term` is the term in which this member appends them: never less than that of an
        entry before, and more than that of one whose place they take. It says after a start which
        of two records at an index counts.
        """
        log = self._log
        assert log is not None
        run = RaftRun(owner, incarnation, term, appended_term, kind)
        place = 0
        while place < len(contents):
            sizes = log.append_raft_entries(run, first + place, contents, place)
            stored = sum(sizes)
            file = log.active
            file.claim(stored, stored)
            self.ledger.place_entries(owner, first + place, file, log.offset - stored, sizes)
            place += len(sizes)

    def append_hard_state(self, owner: int, incarnation: int, term: int, vote: int) -> Location:
        """The newest term and vote of a member of a group; kept as long as its owner."""
        log = self._log
        assert log is not None
        self._last_state += 1
        payload: list[Buffer] = [encode_hard_state(term, vote)]
        at = log.append(HARD_STATE, owner, self._last_state, incarnation, payload, STATE_BYTES)
        file = log.active
        self.ledger.note_hard_state(file, owner, incarnation, term, vote)
        return Location(file.id, at + HEADER_BYTES, padded(STATE_BYTES))

    def flush(self) -> None:
        """Hand everything appended over to the writer."""
        log = self._log
        assert log is not None
        log.flush()
        if self._stocks_later and log.appended_lsn >= self._stock_lsn:
            self._stocks_later = False
            self._stock()
        self._writer.go_on()

    def roll(self) -> None:
        """Go on in the next file."""
        assert self._log is not None
        self._log.roll()
        self._writer.go_on()

    # What is alive.

    def retain(self, file_id: int, byte_count: int) -> None:
        """One more target needs so many bytes of the file."""
        file = self.ledger.files[file_id]
        file.live += byte_count
        file.claimed += byte_count

    def release(self, file_id: int, byte_count: int) -> None:
        """So many data bytes of a target of this file died."""
        if self.ledger.release(file_id, byte_count) and self.upkeep is not None:
            self.upkeep.wake()

    def note_freeing(self, count: int) -> None:
        """See `queues.hosts.journal.Log`."""
        if self.ledger.note_freeing(count) and self.upkeep is not None:
            self.upkeep.wake()

    def release_log(self, owner: int, index: int) -> None:
        """The entries of the group up to `index` are not needed: a durable snapshot has them."""
        if self.ledger.release_entries(owner, index) and self.upkeep is not None:
            self.upkeep.wake()

    def truncate_log(self, owner: int, index: int) -> None:
        """The entries of the group from `index` on are not part of its log any more.

        Nothing is written: what is appended next has a higher appended_term, and after a start
        that says the same. A group says it after a start, too, of what it has found of no use.
        """
        if self.ledger.truncate_entries(owner, index) and self.upkeep is not None:
            self.upkeep.wake()

    def freeze(self, owner: int) -> None:
        """The owner is damaged and cannot be asked: files that speak of it stay as they are."""
        self.ledger.frozen.add(owner)

    def thaw(self, owner: int) -> None:
        """The owner answers again, or is gone."""
        self.ledger.frozen.discard(owner)
        if self.upkeep is not None:
            self.upkeep.wake()

    def append_checkpoint(self, owner: int, live: Sequence[tuple[int, int]]) -> Location:
        """Of the owner's messages so far exactly these are alive."""
        last_seq = self.ledger.last_seqs.get(owner, 0)
        return self.append(CHECKPOINT, owner, 0, (encode_checkpoint(last_seq, live),))

    @property
    def files(self) -> Mapping[int, LogFile]:
        """The files of the log, by id."""
        return self.ledger.files

    def disk_use(self) -> DiskUse:
        """How the disk stands now."""
        use = DiskUse()
        for file in self.ledger.files.values():
            if file.corrupt and file.handle < 0:  # It is lost.
                continue
            if os.path.basename(file.path).startswith(SEGMENT_PREFIX):
                use.segment_files += 1
                use.segment_bytes += file.size
            else:
                use.log_files += 1
                use.log_bytes += file.size
            use.live_bytes += file.live
            use.live_record_bytes += file.alive_bytes()
        use.reserve_files = self.reserve_count
        use.reserve_bytes = use.reserve_files * self._file_bytes
        if self.upkeep is not None:
            use.is_behind = self.upkeep.is_behind
            use.behind_s = self.upkeep.behind_s
        return use

    @property
    def tally(self) -> Tally:
        """What upkeep has done since the start."""
        return Tally() if self.upkeep is None else self.upkeep.tally

    @property
    def reserve_count(self) -> int:
        """Files that are ready for the next rolls."""
        return self._pool.spare_count + (self._next is not None and self._next.handle >= 0)

    # Writing: how long syncs take.

    @property
    def sync_counts(self) -> list[int]:
        """By buckets of `SYNC_BOUNDS_S`."""
        return self._writer.sync_counts

    @property
    def sync_total_s(self) -> float:
        return self._writer.sync_total_s

    @property
    def sync_begun_s(self) -> float:
        """`perf_counter` at the beginning of the one that runs; 0: none does."""
        return self._writer.sync_begun_s

    # Reading.

    def read(
        self, file_id: int, offset: int, length: int, done: Callable[[bytes | Exception], None]
    ) -> None:
        """Read durable bytes; `done` is called on the loop thread. The file stays until then."""
        file = self.ledger.files.get(file_id)
        if file is None or file.handle < 0:
            error = ShortRead(f"no file {file_id} in the log")
            self._post(lambda: done(error))
            return
        file.pins += 1
        if self._reads.add(Read(file, offset, length, done)):
            self._runner.read(self._read_some)

    def _read_some(self) -> None:
        """On a reader thread: once for each run."""
        run = self._reads.take()
        file = run[0].file
        assert isinstance(file, LogFile)
        answers = carry_out(self._disk, file.handle, run)
        self._post(lambda: self._reads_done(run, answers))

    def _reads_done(self, run: list[Read], answers: list[bytes | Exception]) -> None:
        for read, answer in zip(run, answers, strict=True):
            file = read.file
            assert isinstance(file, LogFile)
            file.pins -= 1
            if not file.pins and self.upkeep is not None:
                self.upkeep.unpinned(file)
            read.done(answer)

    def is_rewriting(self, file_id: int) -> bool:
        """Whether messages of this file may be told to be elsewhere, by what was alive before."""
        return self.upkeep is not None and self.upkeep.is_rewriting(file_id)

    def read_entries(
        self,
        owner: int,
        first: int,
        last: int,
        bytes_max: int,
        done: Callable[[list[Found] | Exception], None],
    ) -> None:
        """Entries of a group from `first` on, as (index, term, appended_term, kind, content).

        At most those up to `last`, and about `bytes_max` in all, but at least one; fewer, if they
        are many; none, if `first` is not in the log. They must be durable. `done` is called on
        the loop thread, later; with an error if any of them cannot be read.
        """
        spans = spans_of(self.ledger.entries.get(owner), first, last, bytes_max)
        read = EntryRead(owner, spans, done)
        if not spans:
            self._post(read.finish)
        for number, span in enumerate(spans):
            self.read(span.file.id, span.offset, span.length, partial(read.take, number))

    def background(self, work: Callable[[], None]) -> None:
        """Run slow work, such as writing a snapshot, beside the log."""
        self._runner.background(work)

    @property
    def runner(self) -> Runner:
        """The threads, for what is stored beside the log (`warren.storage.pages`)."""
        return self._runner

    def _written(self, batch: Batch) -> None:
        """The log is durable up to the end of the batch: tell all owners."""
        if self._closed or batch.end_lsn == self.durable_lsn:
            return
        batch.file.durable_offset = batch.offset + batch.byte_count
        self.durable_lsn = batch.end_lsn
        for callback in self.on_durable:
            callback(batch.end_lsn)
        if not self._stocked_once:
            self._stocked_once = True
            self._stock()
        if batch.file is not self._listed:
            manifest = self._pool.manifest
            self.ledger.list_sealed(manifest, self._listed, batch.file, self.durable_lsn)
            self._listed = batch.file
            self._runner.background(self._write_list)
        if self.upkeep is not None:
            self.upkeep.durable(self.durable_lsn)
        while self._seal_lsns and self._seal_lsns[0] <= self.durable_lsn:
            self._seal_lsns.popleft()
            if self.upkeep is not None:
                self.upkeep.sealed()

    # New files.

    def _new_id(self) -> int:
        self._last_file_id += 1
        return self._last_file_id

    def _new_file(self, prefix: str, size: int) -> LogFile:
        file_id = self._new_id()
        epoch = self._draw_epoch() or 1
        return LogFile(file_id, self._pool.path(prefix, file_id), epoch, size)

    def new_segment(self) -> LogFile:
        return self._new_file(SEGMENT_PREFIX, 0)

    def _take_file(self, least_bytes: int) -> LogFile:
        """The next active file; the writer thread puts it on disk if that has not been done yet."""
        if self._log is not None:
            self._seal_lsns.append(self.appended_lsn)
            left = self._log.active
            left.last_index = self._last_index
            self._stocks_later = left.written_before and left.size == self._file_bytes
            self._stock_lsn = self.appended_lsn + self._file_bytes * STOCK_QUARTERS // 4
        file = self._next
        if file is None:
            file = self._new_file(WAL_PREFIX, max(self._file_bytes, least_bytes))
        self._next = None
        file.first_index = self._last_index + 1
        file.last_index = self._last_index
        self.ledger.files[file.id] = file
        if self._stocked_once and file.size >= least_bytes:
            self._stock()
        return file

    def _stock(self) -> None:
        """Have the next file and spares behind it; the background thread makes one at a time."""
        if self._stocking or self._closed:
            return
        if self._next is None and self._pool.spare_count:
            self._next = self._new_file(WAL_PREFIX, self._file_bytes)
        file = self._next
        in_reserve = self._pool.spare_count + (file is not None)
        if file is not None and file.handle < 0:
            preparing = file
            self._stocking = True
            self._runner.background(lambda: self._prepare(preparing))
        elif in_reserve < self._reserve_files:
            if self._stocks_later and file is not None and RESERVE not in self.faults:
                return  # The file that was left may soon be a spare itself, and need no writing.
            self._stocking = True
            file_id = self._new_id()
            self._runner.background(lambda: self._begin_spare(file_id))
        else:
            self.heal(RESERVE)

    def _prepare(self, file: LogFile) -> None:
        try:
            self._pool.make_ready(file)
        except OSError as error:
            self._post_space_error(error)
            return
        self._post(self._stocked)

    def _begin_spare(self, file_id: int) -> None:
        try:
            made = not self._pool.begin_spare(file_id)
        except OSError as error:
            self._post_space_error(error)
            return
        if made:
            self._post(self._stocked)
        else:
            self._runner.background(self._write_spare)

    def _write_spare(self) -> None:
        try:
            made = self._pool.write_slice()
        except OSError as error:
            self._post_space_error(error)
            return
        if made:
            self._post(self._stocked)
        else:
            self._runner.background(self._write_spare)

    def _stocked(self) -> None:
        """Something is in reserve now. A file written before is quicker to sync: go over to it."""
        self._stocking = False
        following = self._next
        log = self._log
        assert log is not None
        if (
            following is not None
            and following.handle >= 0
            and following.written_before
            and not log.active.written_before
            and log.offset * 2 < log.active.size
            and not self._closed
            and (self.upkeep is None or self.upkeep.has_room)
        ):
            self.roll()
        self._stock()

    def _post_space_error(self, error: OSError) -> None:
        self._post(lambda: self._short_of_space(error))

    def _short_of_space(self, error: OSError) -> None:
        """No reserve: not fatal while there is room in what the log has. The next roll tries
        again, and `retry`.
        """
        self._stocking = False
        self.raise_alarm(RESERVE, error)

    # The list of files.

    def _write_list(self) -> None:
        try:
            self._pool.manifest.write()
        except OSError as error:
            caught = error
            self._post(lambda: self.raise_alarm(LIST, caught))
        else:
            self._post(lambda: self.heal(LIST))

    def _list_the_end(self) -> None:
        """The log was closed in good order: its last file is sealed, the next one has no record."""
        assert self._log is not None
        manifest = self._pool.manifest
        self._log.active.last_index = self._last_index
        manifest.update(self.ledger.listed(self._log.active, SEALED))
        for row in list(manifest.rows.values()):
            if row.state == READY:
                manifest.remove(row.file_id)
        self._write_list()

    def prove(self) -> None:
        """Note outside of the log directory how far the log is durable; about once a second."""
        proof, file = self._pool.proof, self._listed
        end = file.durable_offset
        if proof is not None and not self._closed and proof.durable_end(file.id, file.epoch) != end:
            self._runner.background(lambda: proof.note_end(file.id, file.epoch, end))

    # What has failed, and loses nothing.

    def retry(self) -> None:
        """Try again what has failed, for the disk may be as it should be now."""
        if RESERVE in self.faults:
            self._stock()
        if LIST in self.faults:
            self._runner.background(self._write_list)
        if self.upkeep is not None and UNREAD in self.faults:
            self.upkeep.read_again()
        elif self.upkeep is not None and UPKEEP in self.faults:
            self.upkeep.retry()

    def raise_alarm(self, place: str, error: Exception) -> None:
        if isinstance(error, (OSError, UnreadableFile)):
            self.faults[place] = error
        if self.on_alarm is not None:
            self.on_alarm(place, error)

    def heal(self, place: str) -> None:
        if self.faults.pop(place, None) is not None and self.on_healed is not None:
            self.on_healed(place)

    def begin_upkeep(self) -> None:
        if self.before_upkeep is not None:
            self.before_upkeep()

    def behind(self, is_behind: bool) -> None:
        if self.on_behind is not None:
            self.on_behind(is_behind)

    def post(self, callback: Callable[[], None]) -> None:
        self._post(callback)

"""Keyed state of a node: small rows in column families by kind, on RocksDB. Beside the log.

What may be here: state that the log and a snapshot could give again, such as the rows of the
definitions and the snapshots of log groups. Takes `Batch`es; each is in it whole or not at all,
they become durable in the order in which they were given, and `done` is posted to the loop when the
last one of a save is. So an owner that needs log entries until then releases them in `done`, and
the keyed state is never all that is left of something before it is durable.

Rules, for RocksDB holds the interpreter's lock while it puts and iterates: batches of at most
BATCH_BYTES, written without a sync by one thread, which then syncs its log once for all that
waited; no write waits for the disk to have room in memory again, but the thread does, without the
lock; never on the way of a confirm; families by kind and never by queue; iterators with both
bounds, on the loop at start alone. Memory: MEMTABLE_BYTES and CACHE_BYTES in all.

When something fails: no space or an I/O error while writing is reported to `on_alarm`, and the same
batches are written again, into the reopened database, until they are through (`on_healed`);
meanwhile nothing is released. A database that cannot be opened or read raises `KeyedDamaged` with
the path and what to do. Never compiled: the work is RocksDB's.
"""

import logging
import os
import threading
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Final, Protocol

if TYPE_CHECKING:
    from rocksdict import Options, WriteBatch

log = logging.getLogger("warren.storage")

METADATA: Final = "metadata"  # rows of the definitions (docs/formats/metadata.md)
SNAPSHOTS: Final = "snapshots"  # of log groups (docs/formats/snapshot.md)
FAMILIES: Final = (METADATA, SNAPSHOTS)

BATCH_BYTES: Final = 1 << 16
SYNC_BYTES: Final = 1 << 20  # about so much is written between two syncs
RETRY_S: Final = 1.0
STALL: Final = "Write stall"  # in the error of a write that would have to wait
MEMTABLE_BYTES: Final = 4 << 20
CACHE_BYTES: Final = 1 << 20
LOG_BYTES: Final = 1 << 20  # of each of RocksDB's own files of messages
LOG_FILES: Final = 2
WAL_BYTES: Final = 16 << 20
OPEN_FILES: Final = 64

Row = tuple[bytes, bytes]
Operation = tuple[str, bytes, bytes | None, bytes | None]  # family, key, value, end of a range
Answer = Callable[[bytes | Exception | None], None]


class KeyedDamaged(Exception):
    """The database cannot be opened or read."""

    def __init__(self, path: str, error: object) -> None:
        super().__init__(
            f"keyed state in {path} cannot be read: {error}. Put back {path} from a backup that was"
            " made together with the log. Without one, move it away: the node then begins with the"
            " definitions that the log still has, which may be none."
        )
        self.path = path


class Batch:
    """Changes that come into the keyed state together, in this order."""

    __slots__ = ("byte_count", "operations")

    def __init__(self) -> None:
        self.operations: list[Operation] = []
        self.byte_count = 0

    def put(self, family: str, key: bytes, value: bytes) -> None:
        self.operations.append((family, key, value, None))
        self.byte_count += len(key) + len(value)

    def delete(self, family: str, key: bytes) -> None:
        self.operations.append((family, key, None, None))
        self.byte_count += len(key)

    def delete_range(self, family: str, first: bytes, end: bytes) -> None:
        """All keys from `first` to the last one before `end`."""
        self.operations.append((family, first, None, end))
        self.byte_count += len(first) + len(end)


class Keyed(Protocol):
    """What the owners of keyed state need of it. All calls come from the loop thread."""

    def save(self, batches: Iterable[Batch], done: Callable[[], None]) -> None:
        """Write them, in order and behind all earlier saves; `done` is posted when all are durable.

        They are drawn one by one on another thread, so whatever they are made of must not change.
        """

    def save_now(self, batches: Iterable[Batch]) -> None:
        """The same, durable on return; at start alone."""

    def rows(self, family: str, first: bytes, end: bytes) -> Iterator[Row]:
        """Rows with first <= key < end, in ascending order; at start alone."""

    def look_up(self, family: str, key: bytes, done: Answer) -> None:
        """The value of one key, None if there is none, or an error; `done` is posted.

        It sees every save that has been told to be durable, and may see later ones.
        """


Save = tuple[Iterable[Batch], Callable[[], None]]
Lookup = tuple[str, bytes, Answer]  # family, key


class RocksKeyed:
    """`Keyed` in a directory of its own. Open until `close`."""

    def __init__(
        self,
        path: str,
        post: Callable[[Callable[[], None]], object],
        on_alarm: Callable[[OSError], None],
        on_healed: Callable[[], None],
        retry_s: float = RETRY_S,
    ) -> None:
        self._path = path
        self._post = post
        self._on_alarm = on_alarm
        self._on_healed = on_healed
        self._retry_s = retry_s
        self._saves: SimpleQueue[Save | None] = SimpleQueue()
        self._lookups: SimpleQueue[Lookup] = SimpleQueue()
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None
        os.makedirs(path, mode=0o700, exist_ok=True)
        try:
            self._database: Database | None = Database(path)
        except ImportError:
            raise  # It is the installation that is damaged.
        except Exception as error:  # The binding knows no finer kind.
            raise KeyedDamaged(path, error) from error

    def save(self, batches: Iterable[Batch], done: Callable[[], None]) -> None:
        self._start()
        self._saves.put((batches, done))

    def look_up(self, family: str, key: bytes, done: Answer) -> None:
        """Waits for no save, but for what is being written between two syncs."""
        self._start()
        self._lookups.put((family, key, done))
        self._saves.put(([], _nothing))  # Wakes the thread.

    def _start(self) -> None:
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="keyed", daemon=True)
            self._thread.start()

    def save_now(self, batches: Iterable[Batch]) -> None:
        assert self._thread is None and self._database is not None
        try:
            for batch in batches:
                self._database.write(batch)
            self._database.sync()
        except Exception as error:
            raise OSError(f"keyed state in {self._path} cannot be written: {error}") from error

    def rows(self, family: str, first: bytes, end: bytes) -> Iterator[Row]:
        assert self._database is not None
        try:
            yield from self._database.rows(family, first, end)
        except Exception as error:
            raise KeyedDamaged(self._path, error) from error

    def close(self) -> None:
        """Saves that are not durable yet are given up; their `done` is not called."""
        self._stopping.set()
        self._saves.put(None)
        if self._thread is not None:
            self._thread.join()
            self._thread = None
        if self._database is not None:
            self._database.close()
            self._database = None

    # The thread.

    def _run(self) -> None:
        while True:
            save = self._saves.get()
            if save is None or self._stopping.is_set():
                return
            waiting: list[Callable[[], None]] = []
            self._look_up_all()
            for group in groups_of(self._drawn(save, waiting)):
                self._write(group)
                self._tell(waiting)
                self._look_up_all()
            self._tell(waiting)

    def _tell(self, waiting: list[Callable[[], None]]) -> None:
        """All batches of these saves are durable, unless it is being closed."""
        if self._stopping.is_set():
            return
        for done in waiting:
            if done is not _nothing:
                self._post(done)
        waiting.clear()

    def _drawn(self, save: Save, waiting: list[Callable[[], None]]) -> Iterator[Batch]:
        """The batches of this save and of those that wait behind it already."""
        following: Save | None = save
        while following is not None:
            batches, done = following
            yield from batches
            waiting.append(done)
            following = self._next()

    def _look_up_all(self) -> None:
        """Answer the questions that wait."""
        while True:
            try:
                family, key, done = self._lookups.get_nowait()
            except Empty:
                return
            answer: bytes | Exception | None
            if self._database is None:
                answer = OSError(f"{self._path} is closed")
            else:
                try:
                    answer = self._database.get(family, key)
                except Exception as error:  # The binding knows no finer kind.
                    answer = OSError(f"keyed state in {self._path} cannot be read: {error}")
            self._post(partial(done, answer))

    def _next(self) -> Save | None:
        """Another save that waits already. A None in its place is `close`, which has said so."""
        try:
            return self._saves.get_nowait()
        except Empty:
            return None

    def _write(self, group: list[Batch]) -> None:
        """Make the batches durable; if that fails, all of them again, until it does not."""
        alarmed = False
        while not self._stopping.is_set():
            try:
                if self._database is None:
                    self._database = Database(self._path)
                for batch in group:
                    self._database.write(batch)
                self._database.sync()
                if alarmed:
                    self._post(self._on_healed)
                return
            except Exception as error:  # The binding knows no finer kind.
                alarm = OSError(f"{self._path}: {error}")
            if not alarmed:
                alarmed = True
                self._post(partial(self._on_alarm, alarm))
            self._reset()
            self._stopping.wait(self._retry_s)

    def _reset(self) -> None:
        """After an error RocksDB takes no more writes until it is opened again."""
        database, self._database = self._database, None
        if database is not None:
            database.close()


class KeyedReader:
    """`Keyed` of which rows are read, and nothing else (`warren check-data`)."""

    def __init__(self, path: str) -> None:
        self._path = path
        try:
            self._database = Database(path, read_only=True)
        except ImportError:
            raise
        except Exception as error:  # The binding knows no finer kind.
            raise KeyedDamaged(path, error) from error

    def rows(self, family: str, first: bytes, end: bytes) -> Iterator[Row]:
        try:
            yield from self._database.rows(family, first, end)
        except Exception as error:
            raise KeyedDamaged(self._path, error) from error

    def save(self, batches: Iterable[Batch], done: Callable[[], None]) -> None:
        raise AssertionError("nothing is changed")

    def save_now(self, batches: Iterable[Batch]) -> None:
        raise AssertionError("nothing is changed")

    def look_up(self, family: str, key: bytes, done: Answer) -> None:
        raise AssertionError("no save waits")

    def close(self) -> None:
        self._database.close()


def _nothing() -> None:
    """No caller waits for a save without batches."""


def groups_of(batches: Iterable[Batch]) -> Iterator[list[Batch]]:
    """What is synced together."""
    group: list[Batch] = []
    byte_count = 0
    for batch in batches:
        group.append(batch)
        byte_count += batch.byte_count
        if byte_count >= SYNC_BYTES:
            yield group
            group = []
            byte_count = 0
    if group:
        yield group


class Database:
    """The calls to RocksDB. Holds no handle for longer than a call: they keep it from closing."""

    def __init__(self, path: str, read_only: bool = False) -> None:
        from rocksdict import AccessType, Rdict

        options = database_options()
        access = AccessType.read_only() if read_only else AccessType.read_write()
        self._rocks = Rdict(path, options, dict.fromkeys(FAMILIES, options), access)

    def write(self, batch: Batch) -> None:
        """All of the batch, or nothing; not durable before `sync`."""
        from rocksdict import WriteOptions

        options = WriteOptions()
        options.no_slowdown = True
        while True:
            try:
                self._rocks.write(self._changes(batch), options)
            except Exception as error:  # The binding knows no finer kind.
                if STALL not in str(error):
                    raise
                self._flush()
            else:
                return

    def _changes(self, batch: Batch) -> "WriteBatch":
        """For one try: it is used up by it."""
        from rocksdict import WriteBatch

        rocks = self._rocks
        handles = {name: rocks.get_column_family_handle(name) for name in FAMILIES}
        changes = WriteBatch(raw_mode=True)
        for family, key, value, end in batch.operations:
            if value is not None:
                changes.put(key, value, handles[family])
            elif end is None:
                changes.delete(key, handles[family])
            else:
                changes.delete_range(key, end, handles[family])
        return changes

    def _flush(self) -> None:
        """Write down what is in memory, without the interpreter's lock."""
        for name in FAMILIES:
            self._rocks.get_column_family(name).flush()

    def get(self, family: str, key: bytes) -> bytes | None:
        found: bytes | None = self._rocks.get_column_family(family).get(key)
        return found

    def sync(self) -> None:
        self._rocks.flush_wal(True)

    def rows(self, family: str, first: bytes, end: bytes) -> Iterator[Row]:
        from rocksdict import ReadOptions

        bounds = ReadOptions()
        bounds.set_iterate_lower_bound(first)
        bounds.set_iterate_upper_bound(end)
        column = self._rocks.get_column_family(family)
        yield from column.items(read_opt=bounds, from_key=first)

    def close(self) -> None:
        try:
            self._rocks.close()
        except (
            Exception
        ) as error:  # After a failed write it says so again; it lets go all the same.
            log.warning("closing the keyed state: %s", error)
        del self._rocks


def database_options() -> "Options":
    """Little memory, few files, no statistics."""
    from rocksdict import BlockBasedOptions, Cache, Options

    options = Options(raw_mode=True)
    options.create_if_missing(True)
    options.create_missing_column_families(True)
    options.set_max_log_file_size(LOG_BYTES)
    options.set_keep_log_file_num(LOG_FILES)
    options.set_stats_dump_period_sec(0)
    options.set_stats_persist_period_sec(0)
    options.set_write_buffer_size(MEMTABLE_BYTES // 2)
    options.set_db_write_buffer_size(MEMTABLE_BYTES)
    options.set_max_write_buffer_number(2)
    options.set_max_total_wal_size(WAL_BYTES)
    options.set_max_background_jobs(2)
    options.set_max_open_files(OPEN_FILES)
    table = BlockBasedOptions()
    table.set_block_cache(Cache(CACHE_BYTES))
    options.set_block_based_table_factory(table)
    return options

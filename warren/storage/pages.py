"""Page files: where bodies go that need not outlive the process. Compiled.

    pages = Pages(disk, directory, runner=..., post=..., on_alarm=..., on_healed=...)
    pages.open()                          # what an earlier process left goes
    pages.write(parts, byte_count, batch) # later: batch.written(file_id, offset), or failed(error)
    pages.read(file_id, offset, length, done)
    pages.release(file_id, byte_count)    # of what was written, or claimed besides

Bytes are appended to `page-<id>.tmp`, without header or record, and are never synced. A batch lies
in one file, as one piece; a file takes FILE_BYTES, or one batch that is longer. All methods are for
the loop thread; a thread of its own writes, in order, and the log's reader threads read, reads that
lie close together with one call. Files are open only while a batch or a read uses them. A file of
which nothing is alive is removed or, if it is the active one, overwritten from its beginning: so
page files take what is alive, and what is dead in the same 4 MiB.

A failed write (no space, bad disk) loses nothing: the caller that gave the batch still has the
bytes. Its file takes no more. `on_alarm` hears of it; `retry` tries with a file that holds nothing,
and tells `on_healed` if that can be written.
"""

import os
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final, Protocol, final

from mypy_extensions import i64

from warren.storage.reads import Read, Reads, ShortRead, carry_out
from warren.storage.record import Buffer
from warren.storage.runner import Runner

FILE_BYTES: Final = 4 << 20
PREFIX: Final = "page-"
ENDING: Final = ".tmp"
PLACE: Final = "page files"  # in alarms
PROBE: Final = bytes(65536)


class PageDisk(Protocol):
    """What is needed of a disk (`warren.storage.disk.Disk`)."""

    def create(self, path: str, size: int) -> int: ...

    def open(self, path: str) -> int: ...

    def close(self, handle: int) -> None: ...

    def pwritev(self, handle: int, parts: Sequence[Buffer], offset: int, dsync: bool) -> None: ...

    def pread_pieces(
        self, handle: int, offset: int, pieces: Sequence[tuple[int, int]]
    ) -> Sequence[bytes]: ...

    def unlink(self, path: str) -> None: ...

    def list(self, directory: str) -> list[str]: ...


class PageBatch(Protocol):
    """Bytes that are to be written as one piece, and who wants to know."""

    def written(self, file_id: int, offset: int) -> None: ...

    def failed(self, error: Exception) -> None: ...


@final
class PageFile:
    """One file. `live` is what is alive of it, what is being written included."""

    def __init__(self, file_id: i64, path: str) -> None:
        self.id: i64 = file_id
        self.path = path
        self.handle = -1  # of the writing thread, as is:
        self.is_made = False
        self.used: i64 = 0
        self.live: i64 = 0
        self.pins: i64 = 0  # reads under way
        self.sealed = False


@final
class Pages:
    """See the module."""

    def __init__(
        self,
        disk: PageDisk,
        directory: str,
        *,
        runner: Runner,
        post: Callable[[Callable[[], None]], object],
        on_alarm: Callable[[str, OSError], None],
        on_healed: Callable[[str], None],
        file_bytes: i64 = FILE_BYTES,
        align_bytes: i64 = 1,
    ) -> None:
        self._disk = disk
        self._directory = directory
        self._runner = runner
        self._post = post
        self._on_alarm = on_alarm
        self._on_healed = on_healed
        self._file_bytes: i64 = file_bytes
        self._align_bytes: i64 = align_bytes  # batches begin at multiples of it
        self._files: dict[int, PageFile] = {}
        self._active: PageFile | None = None
        self._last_id: i64 = 0
        self._reads = Reads()
        self._unremoved: list[str] = []
        self.pending_bytes: i64 = 0  # handed over and not written yet
        self.live_bytes: i64 = 0
        self.written_bytes: i64 = 0  # since the start, as are these:
        self.write_count: i64 = 0
        self.failure_count: i64 = 0
        self.read_count: i64 = 0
        self.read_bytes: i64 = 0

    def open(self) -> None:
        """Begin with nothing: what an earlier process left is removed beside other work."""
        old: list[str] = []
        for name in self._disk.list(self._directory):
            digits = name[len(PREFIX) : -len(ENDING)]
            if name.startswith(PREFIX) and name.endswith(ENDING) and digits.isdecimal():
                old.append(os.path.join(self._directory, name))
                self._last_id = max(self._last_id, i64(int(digits)))
        for path in old:
            self._runner.page(partial(self._unlink, path))

    def _path(self, file_id: i64) -> str:
        return os.path.join(self._directory, f"{PREFIX}{file_id:012d}{ENDING}")

    @property
    def file_count(self) -> int:
        return len(self._files)

    @property
    def disk_bytes(self) -> int:
        """Bytes of all page files."""
        return sum([int(file.used) for file in self._files.values()])

    # Writing

    def write(self, parts: Sequence[Buffer], byte_count: int, batch: PageBatch) -> None:
        """Write the parts one behind the other; they must not change until the batch is reported.

        They are alive from now on; a caller that gets `failed` has nothing to release.
        """
        size: i64 = byte_count
        file = self._active
        if file is not None and file.used + size > self._file_bytes:
            if file.live > 0 or file.pins > 0:
                self._seal(file)
                file = None
            else:
                file.used = 0
        if file is None:
            self._last_id += 1
            file = PageFile(self._last_id, self._path(self._last_id))
            self._files[file.id] = file
            self._active = file
        offset = file.used
        file.used += (size + self._align_bytes - 1) // self._align_bytes * self._align_bytes
        file.live += size
        self.live_bytes += size
        self.pending_bytes += size
        self._runner.page(partial(self._write, file, parts, offset, size, batch))

    def _write(
        self, file: PageFile, parts: Sequence[Buffer], offset: i64, size: i64, batch: PageBatch
    ) -> None:
        """On the writing thread."""
        try:
            if file.handle < 0:
                file.handle = self._disk.create(file.path, 0)
                file.is_made = True
            self._disk.pwritev(file.handle, parts, offset, False)
        except OSError as error:
            self._post(partial(self._write_failed, file, size, batch, error))
        else:
            self._post(partial(self._written, file, offset, size, batch))

    def _written(self, file: PageFile, offset: i64, size: i64, batch: PageBatch) -> None:
        self.pending_bytes -= size
        self.written_bytes += size
        self.write_count += 1
        batch.written(file.id, offset)

    def _write_failed(self, file: PageFile, size: i64, batch: PageBatch, error: OSError) -> None:
        self.pending_bytes -= size
        self.failure_count += 1
        if not file.sealed:
            self._seal(file)
        self.release(file.id, size)
        self._on_alarm(PLACE, error)
        batch.failed(error)

    def retry(self) -> None:
        """Find out whether page files can be written and removed again."""
        unremoved = self._unremoved
        self._unremoved = []
        self._last_id += 1
        self._runner.page(partial(self._probe, unremoved, self._path(self._last_id)))

    def _probe(self, unremoved: list[str], path: str) -> None:
        """On the writing thread."""
        try:
            self._remove_all(unremoved)
            handle = self._disk.create(path, 0)
            unremoved.append(path)
            try:
                self._disk.pwritev(handle, [PROBE], 0, False)
            finally:
                self._disk.close(handle)
                self._remove_all(unremoved)
        except OSError as error:
            self._post(partial(self._probe_failed, unremoved, error))
        else:
            self._post(partial(self._on_healed, PLACE))

    def _remove_all(self, paths: list[str]) -> None:
        """On the writing thread. What is left in the list is still there."""
        while len(paths) > 0:
            self._disk.unlink(paths[len(paths) - 1])
            paths.pop()

    def _probe_failed(self, unremoved: list[str], error: OSError) -> None:
        self._unremoved.extend(unremoved)
        self._on_alarm(PLACE, error)

    def _seal(self, file: PageFile) -> None:
        """The file takes no more."""
        file.sealed = True
        self._active = None
        self._runner.page(partial(self._close, file))
        self._remove_dead(file)

    def _close(self, file: PageFile) -> None:
        """On the writing thread."""
        if file.handle >= 0:
            self._disk.close(file.handle)
            file.handle = -1

    # What is alive

    def claim(self, file_id: int, byte_count: int) -> None:
        """So many bytes of the file, which has some alive, are needed once more."""
        self._files[file_id].live += byte_count
        self.live_bytes += byte_count

    def release(self, file_id: int, byte_count: int) -> None:
        """So many bytes of the file are needed no more."""
        file = self._files[file_id]
        file.live -= byte_count
        self.live_bytes -= byte_count
        assert file.live >= 0
        if file.live == 0:
            self._remove_dead(file)

    def _remove_dead(self, file: PageFile) -> None:
        if file.live == 0 and file.pins == 0 and file.sealed and file.id in self._files:
            del self._files[file.id]
            self._runner.page(partial(self._remove, file))

    def _remove(self, file: PageFile) -> None:
        """On the writing thread."""
        if file.is_made:
            self._unlink(file.path)

    def _unlink(self, path: str) -> None:
        """On the writing thread."""
        try:
            self._disk.unlink(path)
        except OSError as error:
            self._post(partial(self._unlink_failed, path, error))

    def _unlink_failed(self, path: str, error: OSError) -> None:
        self._unremoved.append(path)
        self._on_alarm(PLACE, error)

    # Reading

    def read(
        self, file_id: int, offset: int, length: int, done: Callable[[bytes | Exception], None]
    ) -> None:
        """Read what was written; `done` is called on the loop thread. The file stays until then."""
        file = self._files.get(file_id)
        if file is None:
            error = ShortRead(f"no page file {file_id}")
            self._post(partial(done, error))
            return
        file.pins += 1
        self.read_count += 1
        self.read_bytes += length
        if self._reads.add(Read(file, offset, length, done)):
            self._runner.read(self._read_some)

    def _read_some(self) -> None:
        """On a reader thread: once for each run."""
        run = self._reads.take()
        answers: list[bytes | Exception]
        try:
            handle = self._disk.open(run[0].file.path)
        except OSError as error:
            answers = [error] * len(run)
        else:
            answers = carry_out(self._disk, handle, run)
            self._disk.close(handle)
        self._post(partial(self._reads_done, run, answers))

    def _reads_done(self, run: list[Read], answers: list[bytes | Exception]) -> None:
        for read, answer in zip(run, answers, strict=True):
            file = read.file
            assert isinstance(file, PageFile)
            file.pins -= 1
            if file.pins == 0:
                self._remove_dead(file)
            read.done(answer)

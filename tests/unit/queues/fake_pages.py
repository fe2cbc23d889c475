"""Page files in memory (`queues.bodies.paging.PageFiles`), written when the test says so."""

from collections.abc import Callable

from queues.bodies.paging import Batch


class FakePages:
    """Invariant: `live[file_id]` is what was written or claimed of a file and not released."""

    def __init__(self, batches_per_file: int = 2) -> None:
        self.files: dict[int, bytearray] = {}
        self.live: dict[int, int] = {}
        self.waiting: list[tuple[int, int, bytes, Batch]] = []
        self.write_count = 0
        self._batches_per_file = batches_per_file
        self._used: dict[int, int] = {}

    @property
    def pending_bytes(self) -> int:
        return sum(len(data) for _, _, data, _ in self.waiting)

    def write(self, parts: list[bytes | memoryview], byte_count: int, batch: Batch) -> None:
        file_id = 1 + self.write_count // self._batches_per_file
        self.write_count += 1
        data = b"".join(parts)
        assert len(data) == byte_count
        offset = self._used.get(file_id, 3)
        self._used[file_id] = offset + byte_count
        self.live[file_id] = self.live.get(file_id, 0) + byte_count
        self.waiting.append((file_id, offset, data, batch))

    def complete(self, count: int = 1 << 30) -> None:
        """The disk has written so many batches."""
        done, self.waiting = self.waiting[:count], self.waiting[count:]
        for file_id, offset, data, batch in done:
            file = self.files.setdefault(file_id, bytearray())
            file.extend(bytes(offset + len(data) - len(file)))
            file[offset : offset + len(data)] = data
            batch.written(file_id, offset)

    def fail(self) -> None:
        """None of what was handed over could be written."""
        failed, self.waiting = self.waiting, []
        for file_id, _, data, batch in failed:
            self.release(file_id, len(data))
            batch.failed(OSError("no space"))

    def read(
        self, file_id: int, offset: int, length: int, done: Callable[[bytes | Exception], None]
    ) -> None:
        done(bytes(self.files[file_id][offset : offset + length]))

    def claim(self, file_id: int, byte_count: int) -> None:
        assert self.live[file_id] > 0
        self.live[file_id] += byte_count

    def release(self, file_id: int, byte_count: int) -> None:
        self.live[file_id] -= byte_count
        assert self.live[file_id] >= 0

    def live_bytes(self) -> int:
        return sum(self.live.values())

"""A log in memory (`queues.hosts.journal.Log`): what was appended, and how far it is synced."""

from queues.message import Chunk
from tests.unit.queues.messages import bodies_of

Written = tuple[object, ...]


class FakePlace:
    def __init__(self, file_id: int, offset: int) -> None:
        self._file_id = file_id
        self._offset = offset

    @property
    def file_id(self) -> int:
        return self._file_id

    @property
    def offset(self) -> int:
        return self._offset


class FakeLog:
    """Invariant: `live[file_id]` is what targets claim of a file and have not released."""

    def __init__(self) -> None:
        self.records: list[Written] = []
        self.files: dict[int, bytearray] = {}
        self.live: dict[int, int] = {}
        self.active = 1
        self.flushes = 0
        self.freeing = 0  # queues that are gone and have yet to release what they had
        self.released_entries: dict[int, int] = {}  # the last one, by owner
        self._lsn = 0
        self.durable_lsn = 0  # at its start, for a test that says so

    @property
    def appended_lsn(self) -> int:
        return self._lsn

    @property
    def pending_bytes(self) -> int:
        return 0

    def append_publish(
        self,
        format_tag: int,
        info: int,
        now_ms: int,
        targets: list[tuple[int, int]],
        meta: bytes,
        offsets: bytes,
        data: bytes,
        base: int,
        label: bytes,
    ) -> FakePlace:
        bodies = bodies_of(Chunk(format_tag, data, base, offsets, info, label))
        self.records.append(("publish", list(targets), bodies))
        size = sum(map(len, bodies))
        return self.put(b"".join(bodies), size * len(targets))

    def put(self, data: bytes, live: int) -> FakePlace:
        """Write to the active file; `live` bytes of it are claimed."""
        self._lsn += 1
        file = self.files.setdefault(self.active, bytearray(b"head"))
        place = FakePlace(self.active, len(file))
        file += data
        self.live[self.active] = self.live.get(self.active, 0) + live
        return place

    def append_settle(self, owner: int, ranges: list[tuple[int, int]]) -> None:
        self._append("settle", owner, list(ranges))

    def append_mark(self, owner: int, message_seq: int) -> None:
        self._append("mark", owner, message_seq)

    def append_deleted(self, owner: int) -> None:
        self._append("deleted", owner)

    def append_entry(self, owner: int, index: int, parts: list[bytes]) -> None:
        self._append("entry", owner, index, b"".join(parts))

    def release_log(self, owner: int, index: int) -> None:
        self.released_entries[owner] = index

    def _append(self, *record: object) -> None:
        self._lsn += 1
        self.records.append(record)

    def release(self, file_id: int, byte_count: int) -> None:
        self.live[file_id] -= byte_count
        assert self.live[file_id] >= 0

    def note_freeing(self, count: int) -> None:
        self.freeing += count

    def flush(self) -> None:
        self.flushes += 1

    def take(self) -> list[Written]:
        """What was appended since the last time."""
        records, self.records = self.records, []
        return records

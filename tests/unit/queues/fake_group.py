"""A log group on a fake log (`queues.hosts.quorum.Group`): committed when the test says so."""

from collections.abc import Callable

from tests.unit.queues.fake_log import FakeLog


class FakeGroup:
    """`entries` are all that were proposed; `commit` hands over those that were not yet."""

    def __init__(
        self,
        log: FakeLog,
        on_committed: Callable[[int, bytes], None],
        state: bytes | None = None,
        snapshot_index: int = 0,
    ) -> None:
        self._log = log
        self._on_committed = on_committed
        self._state = state
        self.snapshot_index = snapshot_index
        self.is_saving = False
        self.entries: list[bytes] = []
        self.snapshots: list[tuple[int, bytes]] = []
        self.started = False
        self.closed = False
        self._committed = snapshot_index
        self._first = snapshot_index + 1

    def load(self) -> bytes | None:
        return self._state

    def start(self) -> None:
        self.started = True

    def propose(self, parts: list[bytes]) -> int:
        assert self.started
        self.entries.append(b"".join(parts))
        index = self._first + len(self.entries) - 1
        self._log.append_entry(index)
        return index

    def snapshot(self, index: int, state: list[bytes]) -> None:
        """Being written until the test ends it with `saved`."""
        assert not self.is_saving
        self.is_saving = True
        self.snapshots.append((index, b"".join(state)))

    def saved(self) -> None:
        self.is_saving = False
        self.snapshot_index = self.snapshots[-1][0]

    def restart_at(self, state: list[bytes], done: Callable[[], None]) -> None:
        """Saved at once."""
        self._first += 1
        self._committed += 1
        self.snapshot_index = self._committed
        self.snapshots.append((self.snapshot_index, b"".join(state)))
        done()

    def close(self) -> None:
        self.closed = True

    def commit(self) -> None:
        """Everything that was proposed is durable."""
        while not self.closed and self._committed < self._first + len(self.entries) - 1:
            self._committed += 1
            self._on_committed(self._committed, self.entries[self._committed - self._first])

    def replay(self, entries: list[bytes]) -> None:
        """Entries that a recovery found above the snapshot."""
        for entry in entries:
            self._committed += 1
            self._first += 1
            self._on_committed(self._committed, entry)

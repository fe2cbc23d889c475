"""A log group of one member: committed is what the node's own log has made durable.

All such groups of a node share one `Commits`, which hears once what has become durable, however
many groups there are.
"""

from collections import deque
from collections.abc import Callable, Sequence
from typing import Protocol


class LogStore(Protocol):
    """What it needs of a write-ahead log."""

    @property
    def appended_lsn(self) -> int: ...

    def append_entry(self, owner: int, index: int, parts: Sequence[bytes]) -> object: ...

    def release_log(self, owner: int, index: int) -> None:
        """Entries of the owner up to `index` are not needed any more."""


class Snapshots(Protocol):
    """Where the snapshots are."""

    def save(
        self,
        owner: int,
        index: int,
        state: Sequence[bytes],
        done: Callable[[], None],
    ) -> None:
        """`done` when it is durable, however often that had to be tried."""

    def load(self, owner: int) -> tuple[int, bytes] | None: ...

    def forget(self, owner: int) -> None:
        """The owner is gone, and with it its snapshots."""


class Commits:
    """Entries of all groups that wait until they are durable, in the order of the log."""

    def __init__(self) -> None:
        self._waiting: deque[tuple[int, OneMemberGroup, int, Sequence[bytes]]] = deque()

    def wait(self, lsn: int, group: "OneMemberGroup", index: int, parts: Sequence[bytes]) -> None:
        self._waiting.append((lsn, group, index, parts))

    def on_durable(self, lsn: int) -> None:
        """The log up to `lsn` is durable: what waited for that is committed."""
        waiting = self._waiting
        while waiting and waiting[0][0] <= lsn:
            _, group, index, parts = waiting.popleft()
            group.commit(index, parts)


class OneMemberGroup:
    """A `LogGroup`. Recover first: `load`, then `replay` for each entry found, then `start`.

    Invariant: commit_index <= last_index; entries between them wait in `commits` for their lsn.
    """

    def __init__(
        self,
        owner: int,
        log: LogStore,
        snapshots: Snapshots,
        on_committed: Callable[[int, bytes], None],
        commits: Commits,
    ) -> None:
        self._owner = owner
        self._log = log
        self._snapshots = snapshots
        self._on_committed = on_committed
        self._commits = commits
        self._closed = False
        self._barriers: deque[tuple[int, Callable[[], None]]] = deque()  # index
        self._saving = False
        self._started = False
        self.last_index = 0
        self.commit_index = 0
        self.snapshot_index = 0
        self.missing_index = 0  # the first entry that the log should have and has not

    def load(self) -> bytes | None:
        """The state of the newest snapshot, to begin the machine with; None for an empty one."""
        found = self._snapshots.load(self._owner)
        if found is None:
            return None
        self.snapshot_index, state = found
        self.last_index = self.commit_index = self.snapshot_index
        return state

    def resume(self, index: int) -> None:
        """Instead of `load`: the machine has its state up to `index` from elsewhere."""
        self.last_index = self.commit_index = self.snapshot_index = index

    def replay(self, index: int, entry: bytes) -> None:
        """An entry found in the log, in ascending order: committed, for the group has no other
        member that could say otherwise. Below the snapshot it is known already.

        Behind one that is missing nothing is applied: it may have meant something else.
        """
        assert not self._started
        if index <= self.snapshot_index:
            return
        if index != self.last_index + 1 and self.missing_index == 0:
            self.missing_index = self.last_index + 1
        self.last_index = self.commit_index = index
        if self.missing_index == 0:
            self._on_committed(index, entry)

    def broken_at(self, index: int) -> None:
        """The entry is there and means nothing: as if it were missing."""
        if self.missing_index == 0:
            self.missing_index = index

    def lacks(self, index: int) -> bool:
        """Whether the entry behind `index` is neither in the log nor in the snapshot."""
        return index >= max(self.last_index, self.snapshot_index)

    def restart_at(self, state: Sequence[bytes], done: Callable[[], None]) -> None:
        """Go on from this state, whatever is missing in the log: once it is saved, as snapshot
        behind all that may have been there. Then `start`."""
        assert not self._started
        self.last_index += 1
        self.commit_index = index = self.last_index
        self.missing_index = 0

        def saved() -> None:
            if not self._closed:
                self.kept(index)
            done()

        self._snapshots.save(self._owner, index, state, saved)

    def start(self) -> None:
        """All was replayed; proposals may come."""
        self._started = True
        self._log.release_log(self._owner, self.snapshot_index)

    def propose(self, parts: Sequence[bytes]) -> int:
        """See LogGroup. The log is flushed by whoever ends the turn."""
        assert self._started
        self.last_index += 1
        self._log.append_entry(self._owner, self.last_index, parts)
        self._commits.wait(self._log.appended_lsn, self, self.last_index, parts)
        return self.last_index

    def barrier(self, callback: Callable[[], None]) -> None:
        if self.commit_index == self.last_index:
            callback()
        else:
            self._barriers.append((self.last_index, callback))

    @property
    def is_saving(self) -> bool:
        """A snapshot is being written: another one would be left out."""
        return self._saving

    def snapshot(self, index: int, state: Sequence[bytes]) -> None:
        """See LogGroup. Left out while another one is being written."""
        assert index <= self.commit_index
        if self._saving or index <= self.snapshot_index:
            return
        self._saving = True
        self._snapshots.save(self._owner, index, state, lambda: self._saved(index))

    def kept(self, index: int) -> None:
        """The state after applying `index` is durable elsewhere (`resume`)."""
        self.snapshot_index = index
        self._log.release_log(self._owner, index)

    def _saved(self, index: int) -> None:
        self._saving = False
        if not self._closed:
            self.kept(index)

    def commit(self, index: int, parts: Sequence[bytes]) -> None:
        """The entry is durable (`Commits`)."""
        if self._closed:
            return
        self.commit_index = index
        self._on_committed(index, parts[0] if len(parts) == 1 else b"".join(parts))
        self._release_barriers()

    def close(self) -> None:
        """The group is gone: nothing more is committed, and nothing of it is needed."""
        self._closed = True
        self._log.release_log(self._owner, self.last_index)
        self._snapshots.forget(self._owner)

    def clear_away(self, owner: int, index: int) -> None:
        """Entries up to this one were found of a group that is gone: nothing of it is needed."""
        self._log.release_log(owner, index)

    def _release_barriers(self) -> None:
        while self._barriers and self._barriers[0][0] <= self.commit_index:
            self._barriers.popleft()[1]()

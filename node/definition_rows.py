"""Definitions of the node in its keyed state: read at start, saved while it runs.

A save brings the rows to the state after an applied entry, so the rows are never ahead of the log;
the log lets go of entries when the save that holds them is durable. One save at a time: what
changes meanwhile goes with the next one. Rows are encoded on the thread that writes them.
"""

from collections.abc import Iterable, Iterator
from typing import Final, Protocol

from queues import metadata_rows
from queues.metadata import Metadata
from queues.metadata_rows import BATCH_BYTES
from raft.log_group import METADATA_OWNER
from warren.storage.keyed import METADATA, Batch, Keyed
from warren.storage.snapshot import SnapshotStore

SAVE_ENTRIES: Final = 4096  # so many entries, or changed objects, are worth a save


class Group(Protocol):
    """What it needs of the log group of the definitions."""

    @property
    def snapshot_index(self) -> int: ...

    def load(self) -> bytes | None: ...

    def resume(self, index: int) -> None: ...

    def kept(self, index: int) -> None: ...


class DefinitionRows:
    """Owner of the rows in the family METADATA."""

    def __init__(
        self,
        keyed: Keyed,
        snapshots: SnapshotStore,
        save_entries: int = SAVE_ENTRIES,
        batch_bytes: int = BATCH_BYTES,
    ) -> None:
        self._keyed = keyed
        self._snapshots = snapshots
        self._save_entries = save_entries
        self._batch_bytes = batch_bytes
        self._saving = False

    @property
    def is_saving(self) -> bool:
        return self._saving

    def load(self, group: Group) -> Metadata:
        """The machine as it was saved last; `group` goes on behind that.

        BadSnapshot, KeyedDamaged: it cannot be read.
        """
        head = metadata_rows.read_head(self._rows)
        if head is not None:
            self._keyed.save_now(batches(metadata_rows.unfinished(head, self._rows)))
            machine = Metadata.load(self._rows)
            assert machine is not None
            group.resume(machine.applied_index)
            return machine
        state = group.load()  # As earlier versions kept it.
        return Metadata() if state is None else Metadata.restore(state)

    def _rows(self, first: bytes, end: bytes) -> Iterator[tuple[bytes, bytes]]:
        return self._keyed.rows(METADATA, first, end)

    def applied(self, machine: Metadata, group: Group) -> None:
        """An entry was applied: save, if that is worth it."""
        entries = machine.applied_index - group.snapshot_index
        if max(entries, machine.unsaved_count) >= self._save_entries:
            self.save(machine, group)

    def save(self, machine: Metadata, group: Group) -> None:
        """Save what has changed, unless that is going on already."""
        if self._saving or machine.applied_index == group.snapshot_index:
            return
        self._saving = True
        unsaved = machine.take_unsaved()
        index = unsaved.head.applied_index
        rows = metadata_rows.batches_of(unsaved, self._batch_bytes)
        self._keyed.save(batches(rows), lambda: self._saved(index, group))

    def _saved(self, index: int, group: Group) -> None:
        self._saving = False
        group.kept(index)
        self._snapshots.forget(METADATA_OWNER)


def batches(rows: Iterable[list[metadata_rows.Row]]) -> Iterator[Batch]:
    """The same rows in the store's form."""
    for part in rows:
        batch = Batch()
        for key, value in part:
            if value is None:
                batch.delete(METADATA, key)
            else:
                batch.put(METADATA, key, value)
        yield batch

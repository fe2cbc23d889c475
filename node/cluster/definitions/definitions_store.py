"""Definitions of a cluster on the disk of one member: rows, snapshots, births of queues.

Rows are those of `queues.definitions.metadata.rows` in the family METADATA, saved now and then,
with the point
of the group's log in their head. A snapshot from another node comes in as slices (`StateBuilder`)
into the family SNAPSHOTS and counts from its last one on; then the machine becomes what it says,
some of it in each turn, and the next save of rows makes it superfluous. For others, slices are made
of the machine as it was at this member's newest save, or at one that is made for that.

A **birth** is an entry of owner BIRTHS_OWNER in the log: a durable queue that lives on this node
was added. Messages of a queue may be in the log while it is unknown whether the entry that declared
it is committed, after a crash; without its birth they would be taken for those of a queue that is
gone. It stays until a save of rows holds the queue.

One save at a time; none while a snapshot comes in, or goes out from the state of the last one.
Never ahead of what is durable of the group's log. BadSnapshot, KeyedDamaged: what is on disk, or
came in, cannot be read. No clock.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from struct import Struct
from typing import Final, Protocol

import msgspec

from queues.definitions.broker_objects import Queue
from queues.definitions.metadata import rows as metadata_rows
from queues.definitions.metadata.machine import Metadata
from queues.definitions.metadata.outcomes import Change
from queues.definitions.metadata.rows import BATCH_BYTES
from queues.definitions.metadata.snapshot import BadSnapshot
from queues.definitions.metadata.stream import SLICE_BYTES, StateBuilder, StateStream, become
from raft.entries import Config, SnapshotPoint
from raft.group import Group
from raft.log_group import METADATA_OWNER
from raft.membership import decode_config, encode_config
from raft.messages import SnapshotSlice
from raft.recovery import FoundLog, Restored
from warren.storage.keyed import METADATA, Batch, Keyed
from warren.storage.snapshot import SnapshotStore

SAVE_ENTRIES: Final = 4096  # so many entries, or changed objects, are worth a save
INCARNATION: Final = 1  # of the group of the definitions: it is made once
BIRTHS_OWNER: Final = 2
IDLE_TICKS_MAX: Final = 100  # so long the state that a member was getting stays in memory
ACCEPTED_KEY: Final = b"l"  # a row that is of no object, and of this node alone
_FILE_ID: Final = Struct(">Q")
_POINT: Final = Struct(">QQ")  # term, appended_term; the configuration behind it


class BirthLog(Protocol):
    """What the births need of the write-ahead log."""

    def append_entry(self, owner: int, index: int, parts: Sequence[bytes]) -> object: ...

    def release_log(self, owner: int, index: int) -> None: ...


class Births:
    """Queues of this node that the rows may not hold so far."""

    def __init__(self, log: BirthLog) -> None:
        self._log = log
        self._number = 0
        self._waiting: deque[tuple[int, int]] = deque()  # entry that added it, number of the birth
        self.found: dict[int, Queue] = {}  # by uid: found at the start, not confirmed so far
        self._found_number = 0  # the highest of those that were found; 0: the rows hold all of them
        self._found_index = 0  # the entry that added the last of them

    def replay(self, number: int, content: bytes) -> None:
        """One that was found in the log. BadSnapshot: it is none."""
        try:
            queue = msgspec.msgpack.decode(content, type=Queue)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise BadSnapshot(f"no birth of a queue: {error}") from error
        self._number = max(self._number, number)
        self.found[queue.uid] = queue

    def settle(self, machine: Metadata) -> None:
        """All births are found: forget those that the machine knows better."""
        known = [each for each in self.found if each < machine.next_uid]
        for uid in known:
            del self.found[uid]
        if self.found:
            self._found_number = self._number
        elif self._number:
            self._log.release_log(BIRTHS_OWNER, self._number)

    def add(self, index: int, queue: Queue) -> None:
        """The entry at `index` has added it."""
        if self.found.pop(queue.uid, None) is not None:
            self._found_index = index
            return  # Its birth is in the log.
        self._number += 1
        self._log.append_entry(BIRTHS_OWNER, self._number, [msgspec.msgpack.encode(queue)])
        self._waiting.append((index, self._number))

    def unconfirmed(self) -> list[Queue]:
        """The log has been applied as far as it went at the start: these were never added, or are
        gone again."""
        gone = list(self.found.values())
        self.found = {}
        return gone

    def saved(self, index: int) -> None:
        """The rows hold all up to there."""
        if self.found or index < self._found_index:
            return
        number, self._found_number = self._found_number, 0
        while self._waiting and self._waiting[0][0] <= index:
            number = self._waiting.popleft()[1]
        if number:
            self._log.release_log(BIRTHS_OWNER, number)


class DefinitionsStore:
    """See the module. `machine` is the one that is saved, whatever it becomes."""

    def __init__(
        self,
        keyed: Keyed,
        snapshots: SnapshotStore,
        births: Births,
        save_entries: int = SAVE_ENTRIES,
        batch_bytes: int = BATCH_BYTES,
        slice_bytes: int = SLICE_BYTES,
    ) -> None:
        self._keyed = keyed
        self._snapshots = snapshots
        self.births = births
        self._save_entries = save_entries
        self._batch_bytes = batch_bytes
        self._slice_bytes = slice_bytes
        self._saving = False
        self._builder: StateBuilder | None = None
        self._stream: StateStream | None = None
        self._idle_ticks = 0  # since a member asked for a slice
        self._lost: list[Callable[[Sequence[bytes] | None, bool], None]] = []
        # Of `when_saved`, with the index that is to be saved.
        self._awaited: deque[tuple[int, Callable[[], None]]] = deque()
        self.machine: Metadata
        self.group: Group

    @property
    def is_saving(self) -> bool:
        return self._saving

    # Rows

    def applied(self) -> None:
        """Entries were applied, or time has passed: save, if that is worth it or asked for."""
        self._tell_saved()
        machine = self.machine
        entries = machine.applied_index - self.group.raft.snapshot_index
        is_wanted = bool(self._lost or self._awaited)
        if is_wanted or max(entries, machine.unsaved_count) >= self._save_entries:
            self.save()

    def when_saved(self, done: Callable[[], None]) -> None:
        """Save soon; call `done` once a start of this node would know all that is applied now."""
        self._awaited.append((self.machine.applied_index, done))
        self.applied()

    def _tell_saved(self) -> None:
        while self._awaited and self._awaited[0][0] <= self.group.raft.snapshot_index:
            self._awaited.popleft()[1]()

    def save(self) -> None:
        """Save what has changed, unless that must wait."""
        raft = self.group.raft
        machine = self.machine
        if self._saving or self._builder is not None or self._is_giving():
            return
        if not raft.snapshot_index < machine.applied_index <= raft.snapshot_limit:
            return
        self._saving = True
        point = self.group.snapshot_point(machine.applied_index)
        if self._lost:
            self._stream = StateStream(machine, self._slice_bytes)
        unsaved = machine.take_unsaved(encode_point(point))
        rows = metadata_rows.batches_of(unsaved, self._batch_bytes)
        self._keyed.save(batches(rows), lambda: self._saved(point))

    def _is_giving(self) -> bool:
        """A member is getting the state of the last save: another one would make it begin again."""
        raft = self.group.raft
        stream = self._stream
        is_given = stream is not None and stream.index == raft.snapshot_index
        return is_given and raft.is_sending_snapshot

    def _saved(self, point: SnapshotPoint) -> None:
        self._saving = False
        self.group.snapshot_taken(point)
        self.births.saved(point.index)
        self._tell_saved()
        if self._builder is None:
            self._snapshots.forget(METADATA_OWNER)
        lost = self._lost
        self._lost = []
        for done in lost:
            done(None, False)

    # Snapshots for others

    def read_slice(
        self, index: int, number: int, done: Callable[[Sequence[bytes] | None, bool], None]
    ) -> None:
        """See GroupOwner. What is asked for is this member's newest snapshot."""
        if index != self.group.raft.snapshot_index:
            done(None, False)
            return
        self._idle_ticks = 0
        stream = self._stream
        if stream is None or stream.index != index:
            if self.machine.applied_index != index:
                self._lost.append(done)  # Once there is a newer one, of which slices can be made.
                self.save()
                return
            stream = self._stream = StateStream(self.machine, self._slice_bytes)
        found = stream.slice(number)
        if found is None:
            done(None, False)
        else:
            done([found[0]], found[1])

    def tick(self) -> None:
        """Time has passed."""
        self._idle_ticks += 1
        if self._idle_ticks > IDLE_TICKS_MAX and not self._saving and not self._lost:
            self._stream = None
        self.applied()

    # A snapshot from elsewhere

    def stage(self, piece: SnapshotSlice, done: Callable[[], None]) -> None:
        """Keep a slice; `done` when it is durable."""
        if piece.slice_number == 0:
            self._builder = StateBuilder()
        assert self._builder is not None
        self._builder.add(b"".join(piece.parts))
        is_next = self._snapshots.stage(
            METADATA_OWNER,
            piece.source,
            piece.index,
            piece.snapshot_term,
            piece.slice_number,
            piece.parts,
            done,
        )
        assert is_next

    def install(self, point: SnapshotPoint, done: Callable[[Iterator[list[Change]]], None]) -> None:
        """All slices are here. `done` when that is durable, with the changes that the machine is
        to be brought to by: it has become what they say."""
        builder = self._builder
        assert builder is not None

        def installed() -> None:
            new = builder.finish()
            assert new.applied_index == point.index
            self._builder = None
            done(become(self.machine, new))

        self._snapshots.install(METADATA_OWNER, encode_point(point), installed)

    def drop_staged(self) -> None:
        self._builder = None
        self._snapshots.drop_staged(METADATA_OWNER)


class DefinitionsRecovery:
    """What a member of the group is after a start: machine, log, births. Goes before the hosts.

    Made first: it reads the rows. Then the log hands over what it finds (`raft_entry`,
    `hard_state`, `birth`), and at last `restored` says what the group begins with.
    """

    def __init__(self, keyed: Keyed, snapshots: SnapshotStore, births: Births) -> None:
        self.births = births
        self._log = FoundLog(INCARNATION)
        self._keyed = keyed
        self._snapshots = snapshots
        self._point: SnapshotPoint | None = None
        self.has_log = False  # this member has taken part before
        self.machine = self._load()
        # The operator has accepted that definitions were lost in log files up to this one.
        self.accepted_file_id = read_accepted(self._rows)

    def _load(self) -> Metadata:
        machine = Metadata()
        head = metadata_rows.read_head(self._rows)
        if head is not None:
            unfinished = metadata_rows.unfinished(head, self._rows)
            self._keyed.save_now(batches(unfinished))
            loaded = Metadata.load(self._rows)
            assert loaded is not None
            machine = loaded
            self._point = decode_point(head.applied_index, head.point)
        snapshot = self._snapshots.open(METADATA_OWNER)
        if snapshot is not None and snapshot.index > machine.applied_index:
            builder = StateBuilder()
            for content in self._snapshots.slices(METADATA_OWNER, snapshot):
                builder.add(content)
            for _ in become(machine, builder.finish()):
                pass  # What differs from the rows is noted as unsaved.
            self._point = decode_point(snapshot.index, snapshot.point)
        self.has_log = self._point is not None
        return machine

    def _rows(self, first: bytes, end: bytes) -> Iterator[tuple[bytes, bytes]]:
        return self._keyed.rows(METADATA, first, end)

    def raft_entry(
        self,
        incarnation: int,
        index: int,
        term: int,
        appended_term: int,
        kind: int,
        content: bytes,
    ) -> None:
        """An entry of the group, as `RecoverySink.raft_entry`."""
        self.has_log = True
        self._log.add(incarnation, index, term, appended_term, kind, content)

    def hard_state(self, incarnation: int, term: int, vote: int) -> None:
        self.has_log = True
        self._log.add_hard_state(incarnation, term, vote)

    def accept_files(self, file_id: int) -> None:
        """Note it, durably; at start alone."""
        self.accepted_file_id = file_id
        batch = Batch()
        batch.put(METADATA, ACCEPTED_KEY, _FILE_ID.pack(file_id))
        self._keyed.save_now([batch])

    def birth(self, number: int, content: bytes) -> None:
        """An entry of BIRTHS_OWNER. BadSnapshot: it cannot be read."""
        self.births.replay(number, content)

    def queue(self, uid: int) -> Queue | None:
        """One that may have messages in the log: `RecoverySink.knows`."""
        found = self.machine.queue(uid)
        if found is None and uid >= self.machine.next_uid:
            found = self.births.found.get(uid)
        return found

    def missing_index(self, founding: Config) -> int:
        """The first entry that is neither in the log nor in the saved state; 0: none is missing."""
        point = self._point or SnapshotPoint(0, 0, 0, founding)
        return int(self._log.missing_index(self._log.restored(point)))

    def restored(self, founding: Config) -> Restored:
        """What to begin the group with; `founding` is that of the founding list, or empty for a
        member that was taken in later. ValueError: what was found is no log."""
        self.births.settle(self.machine)
        return self._log.restored(self._point or SnapshotPoint(0, 0, 0, founding))


def encode_point(point: SnapshotPoint) -> bytes:
    """What the head of rows or snapshot keeps beside the index (docs/formats/metadata.md)."""
    return _POINT.pack(point.term, point.appended_term) + encode_config(point.config)


def decode_point(index: int, content: bytes) -> SnapshotPoint:
    """BadSnapshot: it cannot be read."""
    if len(content) < _POINT.size:
        raise BadSnapshot("the point of the saved definitions is cut short")
    term, appended_term = _POINT.unpack_from(content)
    try:
        config = decode_config(content[_POINT.size :])
    except ValueError as error:
        raise BadSnapshot(f"no point of a log: {error}") from error
    return SnapshotPoint(index, term, appended_term, config)


def read_accepted(rows: metadata_rows.Rows) -> int:
    """The last log file whose lost definitions were accepted; 0: there is none."""
    found = [value for _, value in rows(ACCEPTED_KEY, ACCEPTED_KEY + b"\0")]
    return int(_FILE_ID.unpack(found[0])[0]) if found else 0


def batches(rows: Iterable[list[metadata_rows.Row]]) -> Iterator[Batch]:
    """Convert rows to the form of the keyed store."""
    for part in rows:
        batch = Batch()
        for key, value in part:
            if value is None:
                batch.delete(METADATA, key)
            else:
                batch.put(METADATA, key, value)
        yield batch

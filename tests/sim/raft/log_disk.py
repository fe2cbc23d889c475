"""What one member has on its disk: log, hard states, bodies, a snapshot. Loses what is unsynced.

Batches become durable in the order in which they were written, each all at once. At a crash some
first records of what is not durable survive, perhaps none, perhaps all: the tail is torn somewhere.
Records that are not of use any more (truncated, replaced, below the snapshot) may be gone or may
still be there, and the next start gets all that are there in any order.

A snapshot is there whole or not at all. What is staged of one that comes in is lost at a crash.
"""

from collections.abc import Sequence
from random import Random

from raft.entries import CONFIG, Config, Entry, HardState, SnapshotPoint
from raft.membership import decode_config
from tests.sim.raft.machine import State, published


class EntryRecord:
    """An entry in the log. `is_durable`: a crash does not lose it."""

    __slots__ = ("entry", "is_dead", "is_durable")

    def __init__(self, entry: Entry) -> None:
        self.entry = entry
        self.is_durable = False
        self.is_dead = False  # truncated, replaced or released: it may go


class HardRecord:
    """A hard state in the log."""

    __slots__ = ("state",)

    def __init__(self, state: HardState) -> None:
        self.state = state


class BodyRecord:
    """The body of a message."""

    __slots__ = ("number",)

    def __init__(self, number: int) -> None:
        self.number = number


Record = EntryRecord | HardRecord | BodyRecord


class StoredSnapshot:
    """A snapshot that is durable: the machine's state at a point. Its bodies are the disk's."""

    __slots__ = ("point", "state")

    def __init__(self, point: SnapshotPoint, state: State) -> None:
        self.point = point
        self.state = state


class LogDisk:
    """`entries` are the live ones, as the member sees its log; the first has `base.index` + 1.

    `hard_state` is what a crash now would leave at least.
    """

    def __init__(self, birth: SnapshotPoint) -> None:
        self.birth = birth
        self.snapshot: StoredSnapshot | None = None
        self.base = (birth.index, birth.term)  # what is before the first of `entries`
        self.entries: list[EntryRecord] = []
        self.configs: list[tuple[int, Config]] = [(birth.index, birth.config)]  # ascending
        self.released_index = birth.index  # entries up to here are not served any more
        self.hard_state = HardState(0, 0)
        self.bodies: dict[int, bool] = {}  # by message: whether durable
        self.lost_bodies: set[int] = set()  # by the last crash
        self._durable: list[Record] = []
        self._pending: list[list[Record]] = []
        self._open: list[Record] = []  # the next batch

    # The log as the member sees it

    @property
    def last_index(self) -> int:
        return self.base[0] + len(self.entries)

    @property
    def point(self) -> SnapshotPoint:
        return self.birth if self.snapshot is None else self.snapshot.point

    def record(self, index: int) -> EntryRecord:
        return self.entries[index - self.base[0] - 1]

    def has(self, index: int) -> bool:
        return self.base[0] < index <= self.last_index

    def term(self, index: int) -> int:
        """-1 if it is not known here."""
        if index == self.base[0]:
            return self.base[1]
        return self.record(index).entry.term if self.has(index) else -1

    def truncate(self, first: int) -> None:
        """Entries from `first` on are dead."""
        kept = max(0, first - self.base[0] - 1)
        for record in self.entries[kept:]:
            record.is_dead = True
        del self.entries[kept:]
        while len(self.configs) > 1 and self.configs[-1][0] >= first:
            self.configs.pop()

    def release(self, index: int) -> None:
        """Entries up to `index` are not needed any more."""
        self.released_index = max(self.released_index, index)
        for record in self.entries[: max(0, index - self.base[0])]:
            record.is_dead = True

    # Writing

    def put_state(self, state: HardState) -> None:
        self._open.append(HardRecord(state))

    def put_body(self, number: int) -> None:
        self.bodies.setdefault(number, False)
        self._open.append(BodyRecord(number))

    def put_entry(self, entry: Entry) -> None:
        """What had its place, and all behind that, is dead."""
        self.truncate(entry.index)
        assert entry.index == self.last_index + 1, f"{entry.index} after {self.last_index}"
        record = EntryRecord(entry)
        self._append(record)
        self._open.append(record)

    def flush(self) -> bool:
        """What was put since the last time is one batch; whether there is anything in it."""
        batch = self._open
        if batch:
            self._open = []
            self._pending.append(batch)
        return bool(batch)

    def _append(self, record: EntryRecord) -> None:
        entry = record.entry
        self.entries.append(record)
        if entry.kind == CONFIG:
            self.configs.append((entry.index, decode_config(b"".join(entry.parts))))

    def config_at(self, index: int) -> Config:
        """The one that counts when the log ends there."""
        return next(config for begin, config in reversed(self.configs) if begin <= index)

    def sync(self) -> None:
        """The oldest batch that is not durable is."""
        self._keep(self._pending.pop(0))

    def _keep(self, batch: Sequence[Record]) -> None:
        self._durable += batch
        for record in batch:
            if isinstance(record, EntryRecord):
                record.is_durable = True
            elif isinstance(record, HardRecord):
                self.hard_state = newer(self.hard_state, record.state)
            elif record.number in self.bodies:
                self.bodies[record.number] = True

    def drop_bodies(self, numbers: Sequence[int]) -> None:
        """They are dead: the log forgets them when it likes."""
        for number in numbers:
            self.bodies.pop(number, None)

    def save(self, snapshot: StoredSnapshot) -> None:
        """It is durable now, and is the newest."""
        if snapshot.point.index > self.point.index:
            self.snapshot = snapshot

    def install(self, snapshot: StoredSnapshot, numbers: Sequence[int]) -> None:
        """A snapshot from elsewhere is durable, with its bodies."""
        self.save(snapshot)
        for number in numbers:
            self.bodies[number] = True

    def restart_log(self, point: SnapshotPoint) -> None:
        """The member goes on behind a snapshot that does not fit its log."""
        self.truncate(self.base[0] + 1)
        self.base = (point.index, point.term)
        self.configs = [(point.index, point.config)]
        self.release(point.index)

    # Crash and start

    def crash(self, random: Random, kept: int | None) -> None:
        """What is not durable survives up to some record, or up to `kept`."""
        flat = [record for batch in self._pending for record in batch]
        self._pending.clear()
        self._open = []  # It was never handed to the disk.
        if kept is None:
            kept = random.choice((0, len(flat), random.randint(0, len(flat))))
        self._keep(flat[:kept])
        self.lost_bodies = {number for number, durable in self.bodies.items() if not durable}
        self.bodies = {number: True for number, durable in self.bodies.items() if durable}

    def survivors(self, random: Random) -> tuple[list[Entry], list[HardState]]:
        """All that the next start finds, in any order. Some of what is of no use is gone."""
        keep = random.choice((0.0, 0.5, 1.0))
        self._durable = [
            record
            for record in self._durable
            if not self._is_useless(record) or random.random() < keep
        ]
        found = [record.entry for record in self._durable if isinstance(record, EntryRecord)]
        states = [record.state for record in self._durable if isinstance(record, HardRecord)]
        random.shuffle(found)
        random.shuffle(states)
        return found, states

    def found(self, entries: Sequence[Entry], state: HardState) -> None:
        """What a recovery has found: no less than what was durable, and perhaps more."""
        known = {
            (record.entry.index, record.entry.appended_term): record
            for record in self._durable
            if isinstance(record, EntryRecord)
        }
        self._durable = [HardRecord(state)]
        for entry in entries:
            record = known.get((entry.index, entry.appended_term), EntryRecord(entry))
            record.is_durable = True
            self._durable.append(record)
            for number in self.lost_bodies & set(published(entry)):
                self.bodies[number] = True
        assert newer(state, self.hard_state) is state, "a hard state is lost"
        self.hard_state = state

    def _is_useless(self, record: Record) -> bool:
        if isinstance(record, HardRecord):
            return record.state is not self.hard_state
        return isinstance(record, EntryRecord) and record.is_dead

    def restore(self, last_index: int, chosen: Sequence[Entry]) -> None:
        """After a crash: `chosen` is the log behind the snapshot. Nothing that lived is missing."""
        alive = [record for record in self.entries if record.is_durable and not record.is_dead]
        point = self.point
        needed = max([record.entry.index for record in alive], default=point.index)
        assert last_index >= needed, f"the log ends at {last_index}, and {needed} was durable"
        records = {
            (record.entry.index, record.entry.appended_term): record
            for record in self._durable
            if isinstance(record, EntryRecord)
        }
        self.base = (point.index, point.term)
        self.released_index = point.index
        self.entries = []
        self.configs = [(point.index, point.config)]
        for record in records.values():
            record.is_dead = True
        for entry in chosen:
            record = records[entry.index, entry.appended_term]
            record.is_dead = False
            self._append(record)


def newer(one: HardState, other: HardState) -> HardState:
    """Of two hard states of a member: the higher term, then the one with a vote."""
    return other if (other.term, other.vote != 0) > (one.term, one.vote != 0) else one

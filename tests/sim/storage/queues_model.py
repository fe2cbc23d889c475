"""Queues as small as can be, above the log: what it asks of them, and what they expect of it."""

from warren.storage.compaction import FilePlace
from warren.storage.recovery.recovery import RecoveredPublish
from warren.storage.recovery.stretches import Stretch
from warren.storage.wal import Wal

LABELS = {7: b"", 8: b"label"}  # by the info of a record


class Held:
    """A live message: where its bytes are."""

    def __init__(self, file_id: int, offset: int, length: int, body: bytes, lsn: int) -> None:
        self.file_id = file_id
        self.offset = offset
        self.length = length
        self.body = body
        self.lsn = lsn  # durable from here on


class Queues:
    """Any number of queues and one log group. Keeps `Owners` and `RecoverySink`."""

    def __init__(self, known: set[int]) -> None:
        self.known = known
        self.wal: Wal | None = None
        self.live: dict[int, dict[int, Held]] = {owner: {} for owner in known}
        self.last_seqs: dict[int, int] = dict.fromkeys(known, 0)
        self.marks: dict[int, int] = dict.fromkeys(known, -1)
        self.entries: dict[int, bytes] = {}
        self.entry_lsns: dict[int, int] = {}
        self.publishes = 0
        self.known_groups: set[int] = set()  # that are there, whatever the log says
        self.saved_indexes: dict[int, int] = {}  # of groups, by owner
        self.accepted_files: dict[int, int] = {}  # of groups, by owner
        # Of members of log groups, by owner: (incarnation, term, vote), and entries by incarnation.
        self.found_states: dict[int, tuple[int, int, int]] = {}
        self.found_entries: dict[int, list[tuple[int, tuple[int, int, int, int, bytes]]]] = {}

    def copy(self) -> "Queues":
        """What is known of them now, for a check after a crash."""
        twin = Queues(set(self.known))
        twin.live = {owner: dict(held) for owner, held in self.live.items()}
        twin.last_seqs = dict(self.last_seqs)
        twin.marks = dict(self.marks)
        twin.entries = dict(self.entries)
        twin.entry_lsns = dict(self.entry_lsns)
        return twin

    # RecoverySink

    def entry(self, owner: int, index: int, payload: bytes) -> None:
        assert owner == 1
        assert not self.entries or index > max(self.entries)
        self.entries[index] = payload
        self.entry_lsns[index] = 0

    def raft_entry(
        self,
        owner: int,
        incarnation: int,
        index: int,
        term: int,
        appended_term: int,
        kind: int,
        content: bytes,
    ) -> None:
        item = (index, term, appended_term, kind, content)
        self.found_entries.setdefault(owner, []).append((incarnation, item))

    def hard_state(self, owner: int, incarnation: int, term: int, vote: int) -> None:
        assert owner not in self.found_states
        self.found_states[owner] = (incarnation, term, vote)

    def knows(self, owner: int) -> bool:
        return owner in self.known

    def all_owners(self) -> tuple[list[int], list[int]]:
        return sorted(self.known), [1, *sorted({*self.found_states, *self.known_groups})]

    def saved_index(self, owner: int) -> int:
        return self.saved_indexes.get(owner, 0)

    def accepted_file_id(self, owner: int) -> int:
        return self.accepted_files.get(owner, 0)

    def owner(self, owner: int, last_seq: int, mark: int) -> None:
        assert owner in self.known
        self.last_seqs[owner] = last_seq
        self.marks[owner] = mark

    def publish(self, found: RecoveredPublish) -> None:
        assert found.targets
        assert found.label == LABELS.get(found.info, b"")
        for owner, first, live in found.targets:
            held = self.live[owner]
            for start, count in live:
                for seq in range(start, start + count):
                    assert not held or seq > next(reversed(held)), "doubled or out of order"
                    assert seq <= self.last_seqs[owner], f"{owner}/{seq} may be used twice"
                    held[seq] = self._held(found, seq - first, owner)

    def _held(self, found: RecoveredPublish, place: int, owner: int) -> Held:
        table = memoryview(found.offsets).cast("I")
        offset = found.data_offset + table[place] - table[0]
        length = table[place + 1] - table[place]
        meta = found.meta[found.meta_stride * place : found.meta_stride * (place + 1)]
        return Held(found.file_id, offset, length, meta, 0)

    def stretch(self, found: Stretch) -> None:
        """As `publish` for each of its records."""
        assert found.label == LABELS.get(found.info, b"")
        first = found.first
        sizes = list(memoryview(found.sizes).cast("I"))
        places = memoryview(found.places).cast("I")
        for place, count in zip(places, memoryview(found.counts).cast("I"), strict=True):
            held = self.live[found.owner]
            offset = place
            for seq in range(first, first + count):
                assert not held or seq > next(reversed(held)), "doubled or out of order"
                length = sizes.pop(0)
                held[seq] = Held(found.file_id, offset, length, b"", 0)
                offset += length
            first += count
        assert (first - found.first, sizes) == (found.count, [])

    # Owners

    def live_ranges(
        self, owner: int, first: int, count: int, file_id: int
    ) -> list[tuple[int, int]]:
        held = self.live.get(owner, {})
        seqs = [seq for seq in range(first, first + count) if seq in held]
        return ranges_of([seq for seq in seqs if held[seq].file_id == file_id])

    def relocated(
        self,
        owner: int,
        first: int,
        count: int,
        source: FilePlace,
        target: FilePlace,
        offsets: bytes,
    ) -> list[tuple[int, int]]:
        table = memoryview(offsets).cast("I")
        held = self.live.get(owner, {})
        moved: list[int] = []
        for place, seq in enumerate(range(first, first + count)):
            message = held.get(seq)
            begin = table[place] - table[0]
            if message and (message.file_id, message.offset) == (source[0], source[1] + begin):
                assert table[place + 1] - table[place] == message.length
                message.file_id, message.offset = target[0], target[1] + begin
                moved.append(seq)
        return ranges_of(moved)

    def places(self, owner: int, file_id: int, after: int) -> tuple[list[int], int]:
        """Two in one answer, so that every answer has to be gone on with."""
        held = self.live.get(owner, {})
        seqs = [seq for seq in held if seq > after and held[seq].file_id == file_id][:2]
        return [held[seq].offset for seq in seqs], seqs[-1] if seqs else 0

    def alive(self, owner: int) -> list[tuple[int, int]]:
        return ranges_of(list(self.live.get(owner, {})))

    def alive_from(self, owner: int, first: int) -> tuple[list[tuple[int, int]], int]:
        """At most three runs in an answer."""
        runs = ranges_of([seq for seq in self.live.get(owner, {}) if seq >= first])
        if len(runs) <= 3:
            return runs, 0
        return runs[:3], runs[3][0]

    def mark(self, owner: int) -> int:
        return self.marks[owner]

    # What an application does.

    def publish_bodies(self, owners: list[int], bodies: list[bytes], base: int) -> list[int]:
        """Publish to all `owners`; the first message_seq in each."""
        assert self.wal is not None
        table = [base]
        for body in bodies:
            table.append(table[-1] + len(body))
        offsets = b"".join(value.to_bytes(4, "little") for value in table)
        firsts = [self.last_seqs[owner] + 1 for owner in owners]
        meta = b"".join(body[:4].ljust(4, b"-") for body in bodies)
        if len(owners) == 1 and len(bodies[0]) % 2:  # Comes back as a stretch.
            meta = b""
        info = 7 + len(bodies[-1]) % 3 // 2
        location = self.wal.append_publish(
            1,
            info,
            1000,
            list(zip(owners, firsts, strict=True)),
            meta,
            offsets,
            b"".join(bodies),
            base,
            LABELS[info],
        )
        lsn = self.wal.appended_lsn
        for owner, first in zip(owners, firsts, strict=True):
            self.last_seqs[owner] = first + len(bodies) - 1
            for place, body in enumerate(bodies):
                self.live[owner][first + place] = Held(
                    location.file_id, location.offset + table[place] - base, len(body), body, lsn
                )
        return firsts

    def settle(self, owner: int, seqs: list[int]) -> None:
        """Finish with messages, durably when the log says so."""
        assert self.wal is not None
        self.wal.append_settle(owner, ranges_of(seqs))
        for seq in seqs:
            message = self.live[owner].pop(seq)
            self.wal.release(message.file_id, message.length)

    def delete(self, owner: int) -> None:
        assert self.wal is not None
        for message in self.live.pop(owner).values():
            self.wal.release(message.file_id, message.length)
        self.known.discard(owner)
        self.wal.append_deleted(owner)


def ranges_of(seqs: list[int]) -> list[tuple[int, int]]:
    """Ascending numbers as (first, count)."""
    found: list[tuple[int, int]] = []
    for seq in sorted(seqs):
        if found and found[-1][0] + found[-1][1] == seq:
            found[-1] = (found[-1][0], found[-1][1] + 1)
        else:
            found.append((seq, 1))
    return found

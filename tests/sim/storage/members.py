"""Members of log groups, above the log and the snapshots: what they tell them, what must be found.

Each member keeps its history: what a recovery may find after each of its records. What is found
must be one of those states, whole (hard state and log together), and none from before what the log
has called durable. Snapshots, its own and those that come in, are kept the same way.
"""

from collections.abc import Callable
from copy import copy
from dataclasses import dataclass, replace
from random import Random
from struct import Struct
from typing import Final

from tests.sim.storage.queues_model import Queues
from warren.storage.disk import Disk
from warren.storage.record import RAFT_HEAD_BYTES, decode_record, padded
from warren.storage.snapshot import SnapshotStore, SnapshotWriter
from warren.storage.wal import Wal

POINT: Final = Struct(">4Q")
LOG_MAX: Final = 12  # entries; above that none are proposed, so that files die
COMMAND, NOOP, CONFIG = 0, 1, 2

Item = tuple[int, int, int, int, bytes]  # index, term, appended_term, kind, content


@dataclass(frozen=True, slots=True)
class Point:
    """The end of what a snapshot holds."""

    incarnation: int
    index: int
    term: int
    appended_term: int

    def encode(self) -> bytes:
        return POINT.pack(self.incarnation, self.index, self.term, self.appended_term)


@dataclass(frozen=True, slots=True)
class State:
    """A member as it may be found. The log may begin below its snapshot."""

    incarnation: int
    term: int
    vote: int
    log: tuple[Item, ...]

    def above(self, point: Point) -> "State":
        """As it is with this snapshot: entries of a tail that was dropped for it do not count."""
        if point.incarnation != self.incarnation:
            return replace(self, log=())
        items: list[Item] = []
        lowest = point.appended_term
        for item in self.log:
            if item[0] > point.index:
                if item[2] < lowest or item[0] != point.index + 1 + len(items):
                    break
                lowest = item[2]
                items.append(item)
        return replace(self, log=tuple(items))


def resolved(point: Point, state: tuple[int, int, int], found: list[tuple[int, Item]]) -> State:
    """The log of a member from what was found: at each index the highest appended_term, up to
    where there is none, or it falls."""
    incarnation, term, vote = state
    best: dict[int, Item] = {}
    for its_incarnation, item in found:
        if its_incarnation == incarnation and item[0] > point.index:
            old = best.get(item[0])
            if old is None or item[2] > old[2]:
                best[item[0]] = item
    items = tuple(best[index] for index in sorted(best))
    return State(incarnation, term, vote, items).above(point)


class Coming:
    """A snapshot on its way from another node."""

    def __init__(self, point: Point, source: int, slices: list[bytes], lsn: int) -> None:
        self.point = point
        self.source = source
        self.slices = slices
        self.lsn = lsn  # of the hard state with the term of its sender
        self.sent = 0


class Member:
    """One member, and what may be found of it."""

    def __init__(self, owner: int, state: State, point: Point) -> None:
        self.owner = owner
        self.state = state
        self.point = point  # durable
        self.commit = point.index
        self.history: list[tuple[int, State]] = [(0, state)]  # lsn behind its last record
        self.snapshots: dict[Point, bytes] = {}  # that may be found
        self.writing: tuple[SnapshotWriter, Point, list[bytes]] | None = None
        self.coming: Coming | None = None
        self.is_installing = False
        self.is_saving = False
        self.forget_lsn = 0  # durable so far, and the snapshots of its predecessor may go

    def copy(self) -> "Member":
        twin = copy(self)
        twin.history = list(self.history)
        twin.snapshots = dict(self.snapshots)
        return twin

    @property
    def last(self) -> int:
        return self.state.log[-1][0] if self.state.log else self.point.index

    def became(self, state: State, lsn: int) -> None:
        self.state = state
        self.history.append((lsn, state))

    def possible(self, durable_lsn: int) -> list[State]:
        """What may be found after a crash."""
        known = max(place for place, (lsn, _) in enumerate(self.history) if lsn <= durable_lsn)
        return [state for _, state in self.history[known:]]


class Members:
    """All members of a node."""

    def __init__(self, owners: list[int]) -> None:
        nothing = State(1, 0, 0, ())
        self.all = {owner: Member(owner, nothing, Point(1, 0, 0, 0)) for owner in owners}
        self.deleted: dict[int, int] = {}  # lsn; 0: durable
        self.next_owner = 2000
        self.number = 0

    def copy(self) -> "Members":
        twin = copy(self)
        twin.all = {owner: member.copy() for owner, member in self.all.items()}
        twin.deleted = dict(self.deleted)
        return twin

    def boot(self, disk: Disk, wal: Wal, store: SnapshotStore, random: Random) -> None:
        self.disk = disk
        self.wal = wal
        self.store = store
        self.random = random

    # What a group does.

    def act(self) -> None:
        """Some steps of one member."""
        member = self.all[self.random.choice(sorted(self.all))]
        for _ in range(self.random.choice((1, 2, 6))):
            if self.all.get(member.owner) is member and not member.is_installing:
                self.step(member)

    def step(self, member: Member) -> None:
        if member.forget_lsn > self.wal.durable_lsn:
            return
        if member.forget_lsn:
            member.forget_lsn = 0
            self.store.forget(member.owner)
        if member.coming is not None:
            self.receive(member, member.coming)
            return
        steps: list[tuple[float, Callable[[Member], None]]] = [
            (0.36, self.propose),
            (0.10, self.begin_term),
            (0.08, self.vote),
            (0.14, self.truncate),
            (0.24, self.snapshot),
            (0.04, self.begin_receiving),
            (0.08, self.read),
            (0.01, self.recreate),
            (0.01, self.delete),
        ]
        chances = [chance for chance, _ in steps]
        self.random.choices([step for _, step in steps], chances)[0](member)

    def hard_state(self, member: Member, term: int, vote: int) -> None:
        incarnation = member.state.incarnation
        self.wal.append_hard_state(member.owner, incarnation, term, vote)
        member.became(replace(member.state, term=term, vote=vote), self.wal.appended_lsn)

    def begin_term(self, member: Member) -> None:
        step = self.random.choice((1, 1, 3))
        self.hard_state(member, member.state.term + step, self.random.choice((0, 7)))

    def vote(self, member: Member) -> None:
        if member.state.vote == 0 and member.state.term > 0:
            self.hard_state(member, member.state.term, self.random.choice((5, 6)))

    def propose(self, member: Member) -> None:
        if member.state.term == 0:
            self.begin_term(member)
        for _ in range(self.random.choice((1, 1, 4))):
            if len(member.state.log) < LOG_MAX:
                self.append(member, member.last + 1)

    def append(self, member: Member, index: int) -> None:
        """In the current term; it may be an entry of an earlier one."""
        state = member.state
        kept = tuple(item for item in state.log if item[0] < index)
        low = kept[-1][1] if kept else member.point.term
        term = self.random.choice((state.term, self.random.randint(low, state.term)))
        kind = self.random.choice((COMMAND, COMMAND, COMMAND, NOOP, CONFIG))
        item = (index, term, state.term, kind, self.content(kind))
        parts = (item[4][:3], item[4][3:])
        self.wal.append_raft_entries(
            member.owner, state.incarnation, index, term, state.term, kind, [parts]
        )
        member.became(replace(state, log=(*kept, item)), self.wal.appended_lsn)

    def content(self, kind: int) -> bytes:
        self.number += 1
        length = 0 if kind == NOOP else self.random.choice((8, 30, 300))
        return (b"%08d" % self.number).ljust(length, b".")[:length]

    def durable_index(self, member: Member) -> int:
        """Up to there the log is durable as it is now."""
        durable = len([lsn for lsn, _ in member.history if lsn <= self.wal.durable_lsn])
        member.history = member.history[durable - 1 :]
        items = set(member.history[0][1].log)
        last = member.point.index
        for item in member.state.log:
            if item[0] > last:
                if item not in items:
                    break
                last = item[0]
        return last

    def truncate(self, member: Member) -> None:
        """Another leader's log goes on elsewhere."""
        if member.last <= member.commit:
            return
        self.begin_term(member)
        index = self.random.randint(member.commit + 1, member.last)
        if self.random.random() < 0.7:  # Appending says the same.
            self.wal.truncate_log(member.owner, index)
        self.append(member, index)

    def read(self, member: Member) -> None:
        last = self.durable_index(member)
        items = [item for item in member.state.log if member.point.index < item[0] <= last]
        if not items:
            return
        first = self.random.choice(items)[0]
        wanted = [item for item in items if item[0] >= first]
        most = self.random.choice((1, 500, 1 << 20))

        def check(found: list[Item] | Exception) -> None:
            assert not isinstance(found, Exception), found
            assert 1 <= len(found) <= len(wanted)
            assert found == wanted[: len(found)], "other entries were read than were appended"
            assert most < 1 << 20 or len(found) == len(wanted)

        self.wal.read_entries(member.owner, first, last, most, check)

    def recreate(self, member: Member) -> None:
        """The group is created again, with the uid that it had.

        What it had of snapshots is forgotten once no start can find the old hard state any more.
        """
        self.wal.truncate_log(member.owner, 0)
        incarnation = member.state.incarnation + 1
        fresh = Member(member.owner, State(incarnation, 0, 0, ()), Point(incarnation, 0, 0, 0))
        fresh.history = member.history
        fresh.snapshots = dict(member.snapshots)  # A crash may bring them back.
        self.all[member.owner] = fresh
        self.hard_state(fresh, 1, 0)
        fresh.forget_lsn = self.wal.appended_lsn

    def delete(self, member: Member) -> None:
        self.wal.append_deleted(member.owner)
        self.deleted[member.owner] = self.wal.appended_lsn
        self.store.forget(member.owner)
        del self.all[member.owner]
        owner = self.next_owner
        self.next_owner += 1
        self.all[owner] = Member(owner, State(1, 0, 0, ()), Point(1, 0, 0, 0))

    # Snapshots.

    def snapshot(self, member: Member) -> None:
        """Begin one, or go on with it."""
        if member.writing is None:
            member.commit = max(member.commit, self.durable_index(member))
            items = [item for item in member.state.log if item[0] <= member.commit]
            if items and not member.is_saving and items[-1][0] > member.point.index:
                index, term, appended_term, _, _ = items[-1]
                point = Point(member.state.incarnation, index, term, appended_term)
                writer = self.store.begin(member.owner, index, point.encode())
                member.writing = (writer, point, [])
            return
        writer, point, slices = member.writing
        if slices and self.random.random() < 0.6:
            member.snapshots[point] = b"".join(slices)
            member.writing = None
            member.is_saving = True
            writer.commit(lambda: self.saved(member, point))
        else:
            slices.append(self.slice())
            writer.add([slices[-1][:5], slices[-1][5:]])

    def slice(self) -> bytes:
        self.number += 1
        return (b"slice %d " % self.number).ljust(self.random.choice((12, 200)), b"s")

    def saved(self, member: Member, point: Point) -> None:
        member.is_saving = False
        if self.all.get(member.owner) is member and point.index > member.point.index:
            member.point = point
            self.wal.release_log(member.owner, point.index)
            log = tuple(item for item in member.state.log if item[0] > point.index)
            member.state = replace(member.state, log=log)

    def begin_receiving(self, member: Member) -> None:
        """A new leader has no more of its log than a snapshot: this member's log does not fit."""
        self.begin_term(member)
        term = member.state.term
        index = self.random.randint(member.commit + 1, member.last + 5)
        point = Point(member.state.incarnation, index, term, term)
        slices = [self.slice() for _ in range(self.random.randint(1, 4))]
        member.coming = Coming(point, self.random.choice((5, 6)), slices, self.wal.appended_lsn)

    def receive(self, member: Member, coming: Coming) -> None:
        """The next slice of it, or what may come between."""
        if coming.lsn > self.wal.durable_lsn:
            return
        choice = self.random.random()
        if choice < 0.1:
            member.coming = None
            if self.random.random() < 0.5:
                self.store.drop_staged(member.owner)
            self.begin_term(member)
            return
        point = coming.point
        number = coming.sent
        taken = self.store.stage(
            member.owner,
            coming.source,
            point.index,
            point.term,
            number,
            [coming.slices[number]],
            lambda: None,
        )
        assert taken, "the next slice was refused"
        coming.sent += 1
        staged = self.store.staged(member.owner)
        assert staged is not None and staged[3] <= coming.sent
        if coming.sent == len(coming.slices):
            member.snapshots[point] = b"".join(coming.slices)
            member.coming = None
            member.writing = None
            member.is_installing = True
            self.store.install(member.owner, point.encode(), lambda: self.installed(member, point))

    def installed(self, member: Member, point: Point) -> None:
        assert self.all[member.owner] is member
        member.is_installing = False
        member.point = point
        member.commit = point.index
        self.wal.truncate_log(member.owner, 0)
        member.state = replace(member.state, log=())

    # After a crash.

    def recover(self, before: "Members", queues: Queues, durable_lsn: int) -> None:
        """Take what was found, check it, and go on from there."""
        self.next_owner = before.next_owner
        self.number = before.number
        self.deleted = {}
        for owner, lsn in before.deleted.items():
            found = owner in queues.found_states or owner in queues.found_entries
            assert not (found and lsn <= durable_lsn), f"deleted group {owner} is back"
            if found:
                self.wal.append_deleted(owner)
                self.deleted[owner] = self.wal.appended_lsn
            else:
                self.deleted[owner] = 0
            self.store.forget(owner)
        assert {*queues.found_states, *queues.found_entries} <= {*before.all, *before.deleted}
        self.all = {
            owner: self.recovered(member, queues, durable_lsn)
            for owner, member in before.all.items()
        }

    def recovered(self, before: Member, queues: Queues, durable_lsn: int) -> Member:
        owner = before.owner
        hard_state = queues.found_states.get(owner, (1, 0, 0))
        point = self.found_point(before, hard_state[0])
        found = resolved(point, hard_state, queues.found_entries.get(owner, []))
        found = replace(found, log=tuple(self.with_content(owner, item) for item in found.log))
        possible = [state.above(point) for state in before.possible(durable_lsn)]
        assert found in possible, f"member {owner} is found as it never was: {found}"
        member = Member(owner, found, point)
        member.snapshots = dict(before.snapshots)  # What is forgotten may be there once more.
        self.wal.release_log(owner, point.index)
        self.wal.truncate_log(owner, member.last + 1)
        return member

    def found_point(self, before: Member, incarnation: int) -> Point:
        """Of the snapshot that is there, if it is of this incarnation."""
        head = self.store.open(before.owner)
        nothing = Point(incarnation, 0, 0, 0)
        if head is None:
            found = nothing
        else:
            found = Point(*POINT.unpack(head.point))
            content = b"".join(self.store.slices(before.owner, head))
            assert found in before.snapshots, "a snapshot is there that was never finished"
            assert (head.index, content) == (found.index, before.snapshots[found])
        if before.point.incarnation == incarnation:
            same = found.incarnation == incarnation
            assert not same or found.index >= before.point.index, "a snapshot is lost"
            assert same or before.point.index == 0, "a snapshot is lost"
        if found.incarnation != incarnation:
            self.store.forget(before.owner)
            return nothing
        return found

    def with_content(self, owner: int, item: Item) -> Item:
        """The entry as it is on disk, read past the log."""
        ledger = self.wal.ledger
        run = ledger.entries[owner].run_of(item[0])
        assert run is not None
        size = run.size_of(item[0])
        handle = run.file.handle
        stored = self.disk.pread(handle, size, run.offset_of(item[0]))
        record = decode_record(memoryview(stored), 0, run.file.epoch, 0)
        assert record is not None and (record.owner, record.index) == (owner, item[0])
        content = bytes(record.payload[RAFT_HEAD_BYTES:])
        assert item[3] == COMMAND or item[4] == content
        return (*item[:4], content)

    def live_bytes(self) -> int:
        """What their entries claim of the log, once all is at rest."""
        return sum(
            padded(RAFT_HEAD_BYTES + len(item[4]))
            for member in self.all.values()
            for item in member.state.log
            if item[0] > member.point.index
        )

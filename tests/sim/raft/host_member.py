"""One member that runs in a real `RaftHost`: the group's owner, and a log as the host wants it.

It is a `Member` to the world, and shows `Truth` what goes to its log, to its links and up to its
machine. The host has its turns when it asks for them, a little later; several messages may come
before one.
"""

from collections.abc import Callable, Sequence
from functools import partial
from random import Random
from typing import Final

from raft.codec import decode
from raft.core import Raft
from raft.entries import CONFIG, Config, Entry, HardState, SnapshotPoint
from raft.group import Group, NotLeader
from raft.host import RaftHost
from raft.links import open_batch
from raft.log_group import COMMITTED, LOST, Found
from raft.membership import Change, Refused
from raft.messages import AppendResponse, Message, SnapshotSlice, VoteRequest, VoteResponse
from raft.ready import Lead
from raft.settings import Settings
from raft.status import LEADER
from tests.sim.raft.log_disk import StoredSnapshot
from tests.sim.raft.machine import (
    Machine,
    attached_body,
    numbers_of,
    published,
    read_slices,
    slices_of,
)
from tests.sim.raft.member import HELD_LOOK, Asked, Member, MemberWorld
from tests.sim.raft.restoring import INCARNATION, Begin

GROUP: Final = 77


class HostMember(Member):
    """Keeps `GroupOwner`, `GroupLog` and `Links`, too."""

    def __init__(
        self,
        number: int,
        world: MemberWorld,
        birth: SnapshotPoint,
        settings: Settings,
        uid: int = GROUP,
        incarnation: int = INCARNATION,
    ) -> None:
        super().__init__(number, world, birth, settings)
        self.uid = uid
        self.incarnation = incarnation
        self.host: RaftHost | None = None
        self.group: Group | None = None
        self.appended_lsn = 0
        self._batch_lsns: list[int] = []
        self._barriers = 0
        self._open_places: list[tuple[int, int]] = []
        self._staging: list[tuple[SnapshotSlice, SnapshotPoint | None, Callable[[], None], int]]
        self._staging = []
        self._installed: SnapshotPoint | None = None  # on disk and in the machine, not in the core
        self.full: set[int] = set()  # peers whose bulk lane takes nothing

    # Life

    def start(self) -> None:
        assert self.core is None
        begin = self.find()
        lots = Random(self.world.random.getrandbits(64))
        host = RaftHost(self.number, self, self, self.settings, lots, self._begin_turn)
        self.join(host, begin)

    def join(self, host: RaftHost, begin: Begin) -> None:
        """Take part in the group, with what was found."""
        world = self.world
        self.disk.restore(begin.restored.last_index, begin.entries)
        for entry in begin.entries:
            world.truth.appended(self.disk, entry)
        snapshot = self.disk.snapshot
        self.machine = Machine() if snapshot is None else Machine(snapshot.state)
        self.host = host
        self.group = host.add(self.uid, self.incarnation, begin.restored, self)
        core = self.group.raft
        assert isinstance(core, Raft)
        self.core = core
        self._commit_index = self._commit_seen = self.core.commit_index
        assert self.core.term >= self.disk.hard_state.term, "the term is forgotten"
        world.tells(f"{self.number} starts: {self.core.term} {self.core.last_index}")

    def crash(self, kept: int | None = None) -> None:
        super().crash(kept)
        self.host = self.group = None
        self._batch_lsns.clear()
        self._open_places.clear()
        self._staging.clear()
        self._installed = None
        self.full.clear()

    def _begin_turn(self) -> None:
        if not self._turn_due:
            self._turn_due = True
            self._later(self.world.random.choice((0, 0, 1, 3)), self.turn)

    def act(self) -> None:
        """The host asks for its turns itself."""

    def turn(self) -> None:
        self._turn_due = False
        host, core = self.host, self.core
        assert host is not None and core is not None
        host.end_turn()
        self.check(core)

    def receive(self, source: int, content: bytes) -> None:
        assert self.host is not None
        self.host.receive(source, memoryview(content))

    # Links

    def send(self, member: int, lane: int, parts: list[bytes]) -> None:
        content = b"".join(parts)
        for envelope in open_batch(memoryview(content)):
            self.look_at(member, decode(envelope.message))
        self.world.send_batch(self.number, member, content)

    def is_full(self, member: int) -> bool:
        return member in self.full

    def look_at(self, target: int, message: Message) -> None:
        """What it promises is durable. An entry that was replaced since was durable in its time."""
        truth, disk = self.world.truth, self.disk
        if isinstance(message, VoteRequest) and not message.is_pre_vote:
            truth.voted(message.term, self.number, self.number)
            assert self._has_voted(message.term, self.number), "a vote before its sync"
        elif isinstance(message, VoteResponse) and message.is_granted and not message.is_pre_vote:
            truth.voted(message.term, self.number, target)
            assert self._has_voted(message.term, target), "a vote before its sync"
        elif isinstance(message, AppendResponse) and message.is_matching:
            index = message.index
            if index > disk.point.index and disk.has(index):
                record = disk.record(index)
                was_replaced = record.entry.appended_term > message.term
                assert record.is_durable or was_replaced, f"acknowledges {index} before its sync"

    # The log

    def append_raft_entries(
        self,
        owner: int,
        incarnation: int,
        first: int,
        term: int,
        appended_term: int,
        kind: int,
        contents: Sequence[Sequence[bytes]],
    ) -> None:
        assert (owner, incarnation) == (self.uid, self.incarnation), "an entry of another group"
        for index, parts in enumerate(contents, first):
            self._append_entry(Entry(index, term, kind, parts, (), appended_term))

    def _append_entry(self, entry: Entry) -> None:
        assert entry.index > self._commit_index, "a committed entry is replaced"
        core = self.core
        assert core is not None
        assert entry.appended_term >= entry.term, "appended before it was made"
        self.disk.put_entry(entry)
        self.world.truth.appended(self.disk, entry)
        if entry.kind == CONFIG and core.role == LEADER and entry.term == core.term:
            self.world.truth.proposed_config(self.disk, entry, core.commit_index)
        self.appended_lsn += 1

    def append_hard_state(self, owner: int, incarnation: int, term: int, vote: int) -> object:
        assert (owner, incarnation) == (self.uid, self.incarnation), "a hard state of another group"
        state = HardState(term, vote)
        self.disk.put_state(state)
        self.appended_lsn += 1
        self.world.on_sync_wanted(self.number, state)
        return None

    def truncate_log(self, owner: int, index: int) -> None:
        assert index > self._commit_index, "a committed entry is truncated"
        self.disk.truncate(index)

    def release_log(self, owner: int, index: int) -> None:
        point = self._installed
        if point is not None:
            self._installed = None
            if self.disk.term(point.index) != point.term:
                self.disk.restart_log(point)
            self._commit_index = max(self._commit_index, point.index)
        self.disk.release(index)

    def read_entries(
        self,
        owner: int,
        first: int,
        last: int,
        bytes_max: int,
        done: Callable[[Found | Exception], None],
    ) -> None:
        self._later(self.world.read_delay(), partial(self._read_back, first, last, bytes_max, done))

    def _read_back(
        self, first: int, last: int, bytes_max: int, done: Callable[[Found | Exception], None]
    ) -> None:
        if self.world.random.random() < self.world.faults.read_failure:
            done(OSError("a read that fails"))
            return
        found: Found = []
        byte_count = 0
        if first > self.disk.released_index and self.disk.has(first):
            for index in range(first, min(last, self.disk.last_index) + 1):
                record = self.disk.record(index)
                assert record.is_durable, f"{index} is read before it is written"
                entry = record.entry
                byte_count += entry.byte_count
                if found and byte_count > bytes_max:
                    break
                content = b"".join(entry.parts)
                found.append((index, entry.term, entry.appended_term, entry.kind, content))
        done(found)

    def flush(self) -> None:
        if self.disk.flush():
            self._batch_lsns.append(self.appended_lsn)
            self._busy_until = max(self.world.now, self._busy_until)
            self._busy_until += self.world.sync_delay(self.number)
            self._later(self._busy_until - self.world.now, self._synced)
            self.world.on_sync_wanted(self.number, None)

    def _synced(self) -> None:
        if self.number in self.world.held:
            self._later(HELD_LOOK, self._synced)
            return
        assert self.host is not None
        self.disk.sync()
        self.host.on_durable(self._batch_lsns.pop(0))

    # The owner of the group

    def propose(
        self, parts: Sequence[bytes], attached: Sequence[bytes] = ()
    ) -> tuple[int, int] | None:
        """As a queue does: the bodies are in the log before the entry."""
        group = self.group
        assert group is not None
        if not group.is_leader:
            return group.propose(parts, attached)
        for number in numbers_of(attached):
            self.put_body(number)
        place = group.propose(parts, attached)
        if place is not None:
            self._open_places.append(place)
        return place

    def change(self, change: Change) -> tuple[int, int] | Refused:
        assert self.group is not None
        return self.group.change(change)

    def transfer(self, member: int) -> bool:
        assert self.group is not None
        return self.group.transfer(member)

    def campaign(self) -> None:
        assert self.group is not None
        self.group.campaign()

    def forget(self, index: int) -> None:
        """The host does so itself."""

    def put_body(self, number: int) -> None:
        self.disk.put_body(number)
        self.appended_lsn += 1

    def store(self, entry: Entry) -> None:
        for number in numbers_of(entry.attached):
            self.put_body(number)

    def truncated(self, index: int) -> None:
        """Bodies of entries that are gone: no entry refers to them."""

    def apply(self, entries: Sequence[Entry]) -> None:
        assert self.core is not None
        self._see_commits(self.core)
        for entry in entries:
            self._apply(entry)

    def outcome(self, first: int, last: int, term: int, outcome: int) -> None:
        for index in range(first, last + 1):
            self._outcome(index, term, outcome)

    def _outcome(self, index: int, term: int, outcome: int) -> None:
        if (index, term) not in self._open_places:
            return  # of a change of members
        self._open_places.remove((index, term))
        committed = self.world.truth.committed
        if outcome == COMMITTED:
            assert index <= self.machine.index, "committed, and not applied"
            assert committed[index][0] == term, "called committed, and another entry is there"
        elif outcome == LOST and index < len(committed):
            assert committed[index][0] != term, "called lost, and it is there"

    def lead(self, lead: Lead) -> None:
        if lead.is_ready:
            self.leads_ready_in = lead.term
            self.check_bodies()

    def configured(self, config: Config) -> None:
        """The world looks at the core's own word."""

    def reattach(self, entries: Sequence[Entry], done: Callable[[Sequence[Entry]], None]) -> None:
        result = []
        for entry in entries:
            numbers = [number for number in published(entry) if number in self.disk.bodies]
            attached = [attached_body(number) for number in numbers]
            result.append(
                Entry(
                    entry.index, entry.term, entry.kind, entry.parts, attached, entry.appended_term
                )
            )
        self._later(self.world.read_delay(), partial(done, result))

    def read_slice(
        self, index: int, number: int, done: Callable[[Sequence[bytes] | None, bool], None]
    ) -> None:
        self._later(self.world.read_delay(), partial(self._give_slice, index, number, done))

    def _give_slice(
        self, index: int, number: int, done: Callable[[Sequence[bytes] | None, bool], None]
    ) -> None:
        snapshot = self.disk.snapshot
        if snapshot is None or snapshot.point.index != index:
            done(None, False)
            return
        slices = slices_of(snapshot.state, self.disk.bodies)
        done(slices[number], number == len(slices) - 1)

    def stage(
        self, piece: SnapshotSlice, point: SnapshotPoint | None, done: Callable[[], None]
    ) -> None:
        self._staging.append((piece, point, done, self._stage))
        self._busy_until = max(self.world.now, self._busy_until)
        self._busy_until += self.world.sync_delay(self.number)
        self._later(self._busy_until - self.world.now, self._staged_durably)

    def drop_staged(self) -> None:
        self._staged = []
        self._stage += 1

    def _staged_durably(self) -> None:
        piece, point, done, stage = self._staging.pop(0)
        if stage == self._stage:
            assert piece.slice_number == len(self._staged), "a slice out of order"
            self._staged.append(piece.parts)
            if point is not None:
                self._make_own(point)
        done()

    def _make_own(self, point: SnapshotPoint) -> None:
        """All of the snapshot is here: it is this member's, on disk and in the machine."""
        state, numbers = read_slices(self._staged)
        self.world.truth.is_point(point)
        assert state.index == point.index > self.machine.index
        self.world.tells(f"{self.number} installs {point.index}")
        self.disk.install(StoredSnapshot(point, state), numbers)
        self._staged = []
        self._stage += 1
        self.machine = Machine(state)
        self._installed = point

    # What the world asks

    def ask(self) -> None:
        group = self.group
        assert group is not None
        raft = group.raft
        asked = Asked(self.world.truth.commit_index, self.world.now, raft.term, raft.config)

        def done(is_sure: bool) -> None:
            if is_sure:
                assert self.machine.index >= asked.commit_index, "a stale read"
                assert self.is_heard(asked), "a read is answered, and no majority was asked"

        refused = group.barrier(done)
        assert refused is None or isinstance(refused, NotLeader)

    def _saved(self, stored: StoredSnapshot) -> None:
        self._saving = False
        group = self.group
        assert group is not None
        if stored.point.index <= self.disk.point.index:
            return
        self.world.truth.is_point(stored.point)
        self.disk.save(stored)
        group.snapshot_taken(stored.point)

    # Checks

    def _see_commits(self, core: Raft) -> None:
        """In one turn it may have led, committed, changed members, and been deposed: what no member
        has committed before, the leader of its term has, by the members then."""
        disk, truth, index = self.disk, self.world.truth, core.commit_index
        assert index >= self._commit_index, f"commit moves back: {self._commit_index} to {index}"
        if index > truth.commit_index:
            term = disk.term(index)
            leader = truth.leaders.get(term, self.number)
            assert leader == self.number, f"{self.number} takes {index} for committed, too early"
            first = truth.commit_index + 1
            configs = [config for _, config in disk.configs[-2:]]
            truth.commits(self.number, term, self.world.disks, configs, first, index)
        self._commit_seen = index

    def check(self, core: Raft) -> None:
        """As of any member; less while the machine is a snapshot and the core does not know yet."""
        if self._installed is None:
            super().check(core)
            return
        self._see_commits(core)
        for index in range(self._commit_index + 1, core.commit_index + 1):
            self.world.truth.agrees(self.number, self.disk, index)
        self._commit_index = core.commit_index

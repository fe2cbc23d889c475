"""One member on a simulated machine: the host of a core, with a disk that is slow and loses things.

It does what `raft.ready` asks of a host, in that order, and shows all that it does to the world's
`Truth`. Everything that takes time is put on the world's schedule; what comes back after a crash
(`epoch`) is dropped.
"""

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random
from typing import Protocol

from raft.core import Raft
from raft.entries import CONFIG, Config, Entry, HardState, SnapshotPoint
from raft.membership import Change, Refused
from raft.messages import (
    AppendResponse,
    Message,
    SliceResponse,
    SnapshotSlice,
    VoteRequest,
    VoteResponse,
)
from raft.ready import Load, LoadSlice, Read, Ready
from raft.settings import Settings
from raft.status import LEADER
from tests.sim.raft.log_disk import EntryRecord, LogDisk, StoredSnapshot
from tests.sim.raft.machine import Machine, State, numbers_of, read_slices, slices_of
from tests.sim.raft.restoring import Begin, restored
from tests.sim.raft.surroundings import Surroundings, later_in_life
from tests.sim.raft.truth import Truth, has_durably

HELD_LOOK = 5  # a disk that is held is asked again so soon


class MemberWorld(Surroundings, Protocol):
    """What a member needs of its world."""

    truth: Truth
    disks: dict[int, LogDisk]

    @property
    def held(self) -> set[int]:
        """Members whose disks sync nothing for now."""

    def send(self, source: int, target: int, message: Message) -> None: ...

    def sync_delay(self, member: int) -> int: ...

    def read_delay(self) -> int: ...

    def send_batch(self, source: int, target: int, content: bytes) -> None: ...

    def paused_for(self, number: int) -> int: ...

    def is_heard(self, leader: int, term: int, since: int, voters: Sequence[int]) -> bool: ...

    def crash(self, number: int, down_for: int = 0) -> None: ...

    def on_sync_wanted(self, member: int, hard_state: HardState | None) -> None:
        """A batch was handed to the disk: a moment that faults like."""


@dataclass(frozen=True, slots=True)
class Promise:
    """A message, and the entry that it speaks of, if that is not below the log."""

    target: int
    message: Message
    record: EntryRecord | None


@dataclass(frozen=True, slots=True)
class Batch:
    """Handed to the disk in one turn. `last` (index, term) 0: nothing but promises."""

    last_index: int
    last_term: int
    promises: list[Promise]


@dataclass(frozen=True, slots=True)
class Asked:
    """A read barrier that waits: what was committed then, and when it was."""

    commit_index: int
    at: int
    term: int
    config: Config


class Member:
    """`core` is None while the member is down."""

    def __init__(
        self, number: int, world: MemberWorld, birth: SnapshotPoint, settings: Settings
    ) -> None:
        self.number = number
        self.world = world
        self.settings = settings
        self.disk = LogDisk(birth)
        self.core: Raft | None = None
        self.epoch = 0
        self.machine = Machine()
        self.leads_ready_in = 0  # term in which the core has said that it leads and is ready
        self._forget_all()

    def _forget_all(self) -> None:
        self._batches: deque[Batch] = deque()
        self._busy_until = 0
        self._staged: list[Sequence[bytes]] = []
        self._stage = 0  # counts the streams that were begun
        self._install_point: SnapshotPoint | None = None  # its last slice is being written
        self._slices: deque[tuple[SnapshotSlice, int]] = deque()  # being written, their stream
        self._turn_due = False
        self._saving = False
        self._led_term = 0  # the last one in which it was seen to lead
        self._commit_index = 0  # as of the last turn
        self._commit_seen = 0  # as of the last call
        self._seen = (0, -1)  # term and role
        self._reads: dict[int, Asked] = {}
        self._next_context = 1
        self.leads_ready_in = 0

    # Life

    def start(self) -> None:
        """The process starts on what the disk has."""
        assert self.core is None
        world = self.world
        begin = self.find()
        self.disk.restore(begin.restored.last_index, begin.entries)
        for entry in begin.entries:
            world.truth.appended(self.disk, entry)
        snapshot = self.disk.snapshot
        self.machine = Machine() if snapshot is None else Machine(snapshot.state)
        random = Random(world.random.getrandbits(64))
        core = Raft(self.number, begin.restored, self.settings, random)
        self._commit_index = self._commit_seen = core.commit_index
        assert core.term >= self.disk.hard_state.term, "the term is forgotten"
        if core.term == self.disk.hard_state.term:
            assert core.vote == self.disk.hard_state.vote, "the vote is forgotten"
        self.core = core
        world.tells(f"{self.number} starts: {core.term} {core.last_index} {core.commit_index}")
        self.act()

    def find(self) -> Begin:
        """What the disk has."""
        found, states = self.disk.survivors(self.world.random)
        return restored(self.world.random, self.disk.point, found, states)

    def crash(self, kept: int | None = None) -> None:
        """The machine loses power."""
        assert self.core is not None
        self.world.tells(f"{self.number} crashes")
        self.core = None
        self.epoch += 1
        self._forget_all()
        self.disk.crash(self.world.random, kept)
        self.world.truth.lost(self.disk, self.world.disks.values())

    def _later(self, delay: int, action: Callable[[], None]) -> None:
        later_in_life(self.world, self, delay, action)

    # Turns

    def act(self) -> None:
        """The core had input: look at it, and do what it wants now or a little later."""
        core = self.core
        assert core is not None
        self._see_commits(core)
        seen = (core.term, core.role)
        if seen != self._seen or self.world.random.random() < 0.6:
            self._seen = seen
            self.turn()
        elif core.has_ready and not self._turn_due:
            self._turn_due = True
            self._later(self.world.random.randint(0, 3), self.turn)

    def turn(self) -> None:
        self._turn_due = False
        core = self.core
        assert core is not None
        while core.has_ready:
            self._take(core, core.ready())
        self.check(core)

    def _take(self, core: Raft, ready: Ready) -> None:
        self._log(core, ready)
        promises = [self._promise(*pair) for pair in ready.messages_after_sync]
        self._see_commits(core)
        for target, message in ready.messages:
            self._say(self._promise(target, message))
        self._hand_to_disk(ready, promises)
        self._stage_slices(ready)
        for entry in ready.committed:
            self._apply(entry)
        for read in ready.reads:
            self._answer(read)
        lead = ready.lead
        if lead is not None:
            assert (lead.term, lead.leader) == (core.term, core.leader), "an old word of who leads"
            if lead.is_ready:
                self._leads_ready(core)
        for load in ready.loads:
            self._load(load)
        for slice_load in ready.slice_loads:
            self._load_slice(slice_load)

    def _log(self, core: Raft, ready: Ready) -> None:
        """Its log changes: at once in what the member sees, on the disk when it is synced."""
        disk, truth = self.disk, self.world.truth
        if ready.truncated_from:
            assert ready.truncated_from > self._commit_index, "a committed entry is truncated"
            disk.truncate(ready.truncated_from)
        numbers = [number for entry in ready.entries for number in numbers_of(entry.attached)]
        if ready.entries:
            assert ready.entries[0].index > self._commit_index, "a committed entry is replaced"
        if ready.hard_state is not None:
            disk.put_state(ready.hard_state)
        for number in numbers:
            disk.put_body(number)
        for entry in ready.entries:
            disk.put_entry(entry)
            assert entry.appended_term >= entry.term, "appended before it was made"
            truth.appended(disk, entry)
            if entry.kind == CONFIG and core.role == LEADER and entry.term == core.term:
                truth.proposed_config(disk, entry, core.commit_index)
        disk.flush()

    def _hand_to_disk(self, ready: Ready, promises: list[Promise]) -> None:
        is_written = bool(ready.entries) or ready.hard_state is not None
        if not is_written and not self._batches:
            for promise in promises:
                self._say(promise)
            return
        if not is_written:
            self._batches[-1].promises.extend(promises)
            return
        last = ready.entries[-1] if ready.entries else None
        batch = Batch(
            last.index if last is not None else 0, last.term if last is not None else 0, promises
        )
        self._batches.append(batch)
        world = self.world
        self._busy_until = max(world.now, self._busy_until) + world.sync_delay(self.number)
        self._later(self._busy_until - world.now, self._synced)
        world.on_sync_wanted(self.number, ready.hard_state)

    def _synced(self) -> None:
        """The oldest batch is durable."""
        if self.number in self.world.held:
            self._later(HELD_LOOK, self._synced)
            return
        core = self.core
        assert core is not None
        batch = self._batches.popleft()
        self.disk.sync()
        for promise in batch.promises:
            self._say(promise)
        if batch.last_index:
            core.durable(batch.last_index, batch.last_term)
        self.act()

    # What it says

    def _promise(self, target: int, message: Message) -> Promise:
        record = None
        if isinstance(message, AppendResponse) and message.is_matching:
            if self.disk.has(message.index):
                record = self.disk.record(message.index)
            else:
                assert message.index <= self.disk.base[0], "it acknowledges what it has not"
        return Promise(target, message, record)

    def _say(self, promise: Promise) -> None:
        """Send it; what it promises is durable by now."""
        message, disk, truth = promise.message, self.disk, self.world.truth
        if isinstance(message, VoteRequest) and not message.is_pre_vote:
            truth.voted(message.term, self.number, self.number)
            assert self._has_voted(message.term, self.number), "a vote before its sync"
        elif isinstance(message, VoteResponse) and message.is_granted and not message.is_pre_vote:
            truth.voted(message.term, self.number, promise.target)
            assert self._has_voted(message.term, promise.target), "a vote before its sync"
        elif isinstance(message, AppendResponse) and message.is_matching:
            record = promise.record
            if record is not None and message.index > disk.point.index:
                assert record.is_durable, f"acknowledges {message.index} before its sync"
            elif record is None:
                assert message.index <= disk.point.index, "acknowledges a snapshot too early"
        elif isinstance(message, SliceResponse):
            assert message.next_slice <= len(self._staged) or message.index <= disk.point.index, (
                "acknowledges slices before their sync"
            )
        self.world.send(self.number, promise.target, message)

    def _has_voted(self, term: int, candidate: int) -> bool:
        kept = self.disk.hard_state
        return kept.term > term or (kept.term == term and kept.vote == candidate)

    # Slices of a snapshot that comes in

    def _stage_slices(self, ready: Ready) -> None:
        if ready.slices_dropped:
            self._staged = []
            self._stage += 1
        if ready.install is not None:
            self._install_point = ready.install
        for taken in ready.slices:
            self._slices.append((taken, self._stage))
            self._busy_until = max(self.world.now, self._busy_until)
            self._busy_until += self.world.sync_delay(self.number)
            self._later(self._busy_until - self.world.now, self._slice_durable)

    def _slice_durable(self) -> None:
        """The oldest slice that was being written is durable."""
        core = self.core
        assert core is not None
        taken, stage = self._slices.popleft()
        if stage != self._stage and self.world.random.random() < 0.5:
            return
        if stage == self._stage:
            assert taken.slice_number == len(self._staged), "a slice out of order"
            self._staged.append(taken.parts)
            if taken.is_last:
                self._install(core, taken)
                return
        core.slice_stored(taken)
        self.act()

    def _install(self, core: Raft, taken: SnapshotSlice) -> None:
        """All of it is durable: it is this member's newest snapshot from now on."""
        state, numbers = read_slices(self._staged)
        point = self._install_point
        assert point is not None
        assert (point.index, point.term) == (taken.index, taken.snapshot_term)
        assert state.index == point.index
        self.world.truth.is_point(point)
        self.disk.install(StoredSnapshot(point, state), numbers)
        self._staged = []
        self._stage += 1
        self.turn()
        core.slice_stored(taken)
        assert core.applied_index == point.index > self.machine.index, "it is not installed"
        self.world.tells(f"{self.number} installs {point.index}")
        self.machine = Machine(state)
        if self.disk.term(point.index) != point.term:
            self.disk.restart_log(point)
        self.disk.release(core.first_index - 1)
        self.act()

    # What it is asked for; `act` comes after it

    def propose(
        self, parts: Sequence[bytes], attached: Sequence[bytes] = ()
    ) -> tuple[int, int] | None:
        assert self.core is not None
        return self.core.propose(parts, attached)

    def change(self, change: Change) -> tuple[int, int] | Refused:
        assert self.core is not None
        return self.core.propose_change(change)

    def transfer(self, member: int) -> bool:
        assert self.core is not None
        return self.core.transfer(member)

    def campaign(self) -> None:
        assert self.core is not None
        self.core.campaign()

    def forget(self, index: int) -> None:
        assert self.core is not None
        self.core.forget(index)

    # What is committed

    def _apply(self, entry: Entry) -> None:
        self.world.truth.applied(self.number, entry)
        self.disk.drop_bodies(self.machine.apply(entry))

    def _leads_ready(self, core: Raft) -> None:
        """It serves clients from now on: all that is alive is there."""
        self.leads_ready_in = core.term
        self.check_bodies()

    def check_bodies(self) -> None:
        missing = [number for number in self.machine.alive if number not in self.disk.bodies]
        assert not missing, f"{self.number} has lost the bodies of {missing}"

    def ask(self) -> None:
        """A read barrier."""
        core = self.core
        assert core is not None
        context = self._next_context
        self._next_context += 1
        asked = Asked(self.world.truth.commit_index, self.world.now, core.term, core.config)
        if core.read(context):
            self._reads[context] = asked
        self.act()

    def is_heard(self, asked: Asked) -> bool:
        """By a majority of the members when it was asked, or of those that came in since."""
        configs = [asked.config, *(config for _, config in self.disk.configs[-2:])]
        is_heard = self.world.is_heard
        return any(is_heard(self.number, asked.term, asked.at, c.voters) for c in configs)

    def _answer(self, read: Read) -> None:
        asked = self._reads.pop(read.context)
        if read.index < 0:
            return
        assert read.index >= asked.commit_index, (
            f"a stale read: {read.index}, and {asked.commit_index} was committed"
        )
        heard = self.is_heard(asked)
        assert heard, "a read is answered, and no majority was asked"
        self.world.tells(f"{self.number} reads {read.index}")

    # Snapshots and the log below memory

    def take_snapshot(self) -> None:
        """Of what is applied; durable after a while."""
        disk, index = self.disk, self.machine.index
        if self._saving or index <= disk.point.index or not disk.has(index):
            return
        assert self.core is not None
        if index > self.core.snapshot_limit:
            return
        self._saving = True
        point = self.core.snapshot_point(index)
        entry = disk.record(index).entry
        assert (point.term, point.appended_term) == (entry.term, entry.appended_term)
        stored = StoredSnapshot(point, self.machine.state)
        self._later(self.world.sync_delay(self.number) * 3, lambda: self._saved(stored))

    def _saved(self, stored: StoredSnapshot) -> None:
        self._saving = False
        core = self.core
        assert core is not None
        if stored.point.index <= self.disk.point.index:
            return
        self.world.truth.is_point(stored.point)
        self.disk.save(stored)
        core.snapshot_taken(stored.point)
        unused = core.first_index - 1
        self.disk.release(self.world.random.choice((0, unused, unused, stored.point.index)))
        self.act()

    def _load(self, load: Load) -> None:
        assert load.first <= load.last <= self.disk.last_index, "no member has these entries"
        assert self.core is not None
        term = self.core.term
        self._later(self.world.read_delay(), lambda: self._loaded(load, term))

    def _loaded(self, load: Load, asked_term: int) -> None:
        core = self.core
        assert core is not None
        found: list[Entry] = []
        byte_count = 0
        if load.first > self.disk.released_index and self.disk.has(load.first):
            upto = load.last - self.world.random.choice((0, 0, 1))
            for index in range(load.first, max(load.first, upto) + 1):
                if core.term > asked_term and not self.disk.has(index):
                    break  # Another leads now, and has cut it off.
                record = self.disk.record(index)
                is_sure = record.is_durable or core.term > asked_term
                assert is_sure, f"{index} is read before it is written"
                entry = self._reattached(record.entry, load.member)
                byte_count += entry.byte_count
                if found and byte_count > load.bytes_max:
                    break
                found.append(entry)
        core.loaded(load, found)
        self.act()

    def _reattached(self, entry: Entry, member: int) -> Entry:
        """As the log has it; what goes to another member has the bodies that are still there."""
        attached: list[bytes] = []
        if member:
            for content in entry.attached:
                if numbers_of([content])[0] in self.disk.bodies:
                    attached.append(content)
        return Entry(
            entry.index, entry.term, entry.kind, entry.parts, attached, entry.appended_term
        )

    def _load_slice(self, load: LoadSlice) -> None:
        self._later(self.world.read_delay(), lambda: self._slice_loaded(load))

    def _slice_loaded(self, load: LoadSlice) -> None:
        core = self.core
        assert core is not None
        snapshot = self.disk.snapshot
        if snapshot is None or snapshot.point.index != load.index:
            core.slice_lost(load)
        else:
            slices = slices_of(snapshot.state, self.disk.bodies)
            number = load.slice_number
            assert number < len(slices), "there are not so many slices"
            core.slice_loaded(load, slices[number], number == len(slices) - 1)
        self.act()

    # Checks

    def _see_commits(self, core: Raft) -> None:
        """A leader that commits is seen at once."""
        index = core.commit_index
        assert index >= self._commit_index, f"commit moves back: {self._commit_index} to {index}"
        if core.role == LEADER:
            self._led_term = core.term
        # It may have stepped down with that commit.
        world = self.world
        known = world.truth.commit_index
        leads = core.role == LEADER or (core.term == self._led_term and index > known)
        if leads and index > self._commit_seen:
            first = min(self._commit_seen, known) + 1
            world.truth.commits(self.number, core.term, world.disks, [core.config], first, index)
        self._commit_seen = index

    def check(self, core: Raft) -> None:
        """After a turn: the core and what its host has seen of it are the same."""
        disk, truth = self.disk, self.world.truth
        if core.role == LEADER:
            truth.leads(self.number, core.term, disk, core.config)
        self._see_commits(core)
        for index in range(self._commit_index + 1, core.commit_index + 1):
            truth.agrees(self.number, disk, index)
        self._commit_index = core.commit_index
        assert core.last_index == disk.last_index, "the host has another log"
        assert core.config == disk.config_at(disk.last_index), "another configuration"
        durable = core.durable_index
        if durable > disk.base[0]:
            assert has_durably(disk, durable, disk.term(durable)), f"{durable} is not durable"
        assert core.applied_index == self.machine.index
        assert core.applied_index <= core.commit_index <= core.last_index

    @property
    def state(self) -> State:
        return self.machine.state

    @property
    def staged_count(self) -> int:
        """Slices that are durable of the snapshot that is coming in."""
        return len(self._staged)

"""One member of a ring on a simulated machine: a host of the core, and a disk that loses data."""

from collections import deque
from collections.abc import Callable, Sequence
from random import Random
from typing import Protocol

from raft.entries import Config, Entry, SnapshotPoint
from raft.messages import AppendResponse, Message, SnapshotSlice
from raft.ready import Load, LoadSlice, Ready
from raft.ring import Ring
from raft.ring_view import RingView
from raft.settings import Settings
from raft.status import LEADER
from tests.sim.mirrors.truth import Truth, has_durably
from tests.sim.raft.log_disk import LogDisk, StoredSnapshot
from tests.sim.raft.machine import Machine, State, publish, read_slices, slices_of
from tests.sim.raft.restoring import restored

STATE_SLICES = 2  # of a snapshot (`slices_of`); they are on the disk as they were cut


class Surroundings(Protocol):
    """What a member needs of its world."""

    truth: Truth
    disks: dict[int, LogDisk]
    lossy_terms: set[int]  # that began with a leader which was not synchronised

    @property
    def random(self) -> Random: ...

    @property
    def now(self) -> int: ...

    def later(self, delay: int, action: Callable[[], None]) -> None: ...

    def send(self, source: int, target: int, message: Message) -> None: ...

    def sync_delay(self, member: int) -> int: ...

    def tells(self, text: str) -> None: ...


class Member:
    """`core` is None while the process is down, or has no view yet."""

    def __init__(self, number: int, world: Surroundings, settings: Settings) -> None:
        self.number = number
        self.world = world
        self.settings = settings
        self.is_up = True
        self.core: Ring | None = None
        self.life = 0
        self.joined = 0
        self.machine = Machine()
        self.disk = LogDisk(SnapshotPoint(0, 0, 0, Config(())))
        self._forget_all()

    def _forget_all(self) -> None:
        self._cut = (0, 0)  # index of the newest snapshot, and how many slices of it were cut
        self._batches: deque[tuple[int, int, list[tuple[int, Message]]]] = deque()
        self._staged: list[Sequence[bytes]] = []
        self._stage = 0
        self._staged_at = 0
        self._installing: SnapshotPoint | None = None
        self._turn_due = False
        self._saving = False
        self._commit_index = 0

    # Life

    def view_came(self, view: RingView) -> None:
        """The node has learnt of a view, perhaps of an old one."""
        if not self.is_up:
            return
        joined = view.joined_in(self.number)
        if self.core is not None:
            self.core.change_view(view)
        if (self.core is None or self.core.is_retired) and joined > self.joined:
            self.core = self._begin_new(joined)
            self.core.change_view(view)
        if self.core is not None:
            self.world.tells(f"{self.number} takes {view}")
            self.act()

    def _begin_new(self, joined: int) -> Ring:
        """It joins: what an earlier membership left on the disk does not count."""
        self.life += 1
        self._forget_all()
        self.joined = joined
        self.disk = LogDisk(SnapshotPoint(0, 0, joined - 1, Config(())))
        self.world.disks[self.number] = self.disk
        self.machine = Machine()
        begin = restored(self.world.random, self.disk.point, [], [])
        return Ring(self.number, joined, begin.restored, self.settings)

    def start(self) -> None:
        """The process starts on what the disk has; views come later."""
        self.is_up = True
        if self.joined == 0:
            return
        found, states = self.disk.survivors(self.world.random)
        begin = restored(self.world.random, self.disk.point, found, states)
        self.disk.restore(begin.restored.last_index, begin.entries)
        snapshot = self.disk.snapshot
        self.machine = Machine() if snapshot is None else Machine(snapshot.state)
        self.core = Ring(self.number, self.joined, begin.restored, self.settings)
        self._commit_index = int(self.core.commit_index)
        self.world.tells(f"{self.number} starts with {self.core.last_index}")

    def crash(self) -> None:
        """The machine loses power."""
        self.world.tells(f"{self.number} crashes")
        self.is_up = False
        self.core = None
        self.life += 1
        self._forget_all()
        self.disk.crash(self.world.random, None)
        self.world.truth.forgotten(self.disk, self.world.disks.values())

    def _later(self, delay: int, action: Callable[[], None]) -> None:
        life = self.life

        def run() -> None:
            if self.life == life:
                action()

        self.world.later(delay, run)

    # Turns

    def act(self) -> None:
        core = self.core
        assert core is not None
        self._see_commits(core)
        if self.world.random.random() < 0.6:
            self.turn()
        elif core.has_ready and not self._turn_due:
            self._turn_due = True
            self._later(self.world.random.randint(0, 3), self.turn)

    def turn(self) -> None:
        self._turn_due = False
        core = self.core
        while core is not None and core.has_ready:
            self._take(core, core.ready())

    def _take(self, core: Ring, ready: Ready) -> None:
        self._write(ready)
        self._see_commits(core)
        for target, message in ready.messages:
            self.world.send(self.number, target, message)
        self._hand_to_disk(ready)
        if ready.slices_dropped:
            self._staged = []
            self._stage += 1
        for piece in ready.slices:
            delay = self.world.sync_delay(self.number)
            self._staged_at = max(self._staged_at, self.world.now) + delay
            self._later(self._staged_at - self.world.now, self._stored_later(piece))
        if ready.base is not None:
            self._later(self.world.sync_delay(self.number), self._based_later(ready.base))
        if ready.install is not None:
            self._installing = ready.install
        for entry in ready.committed:
            self._apply(entry)
        for load in ready.loads:
            self._later(2, self._loaded_later(load))
        for slice_load in ready.slice_loads:
            self._later(2, self._slice_loaded_later(slice_load))
        if core.wanted_snapshot_index:
            self.take_snapshot()

    def _write(self, ready: Ready) -> None:
        disk = self.disk
        if ready.truncated_from:
            disk.truncate(ready.truncated_from)
        if ready.hard_state is not None:
            disk.put_state(ready.hard_state)
        for entry in ready.entries:
            disk.put_entry(entry)
            self.world.truth.appended(disk, entry)
        disk.flush()

    def _hand_to_disk(self, ready: Ready) -> None:
        promises = list(ready.messages_after_sync)
        is_written = len(ready.entries) > 0 or ready.hard_state is not None
        if not is_written and not self._batches:
            self._say(promises)
        elif not is_written:
            self._batches[-1][2].extend(promises)
        else:
            last = ready.entries[-1] if ready.entries else None
            self._batches.append((last.index if last else 0, last.term if last else 0, promises))
            if len(self._batches) == 1:
                self._later(self.world.sync_delay(self.number), self._synced)

    def _synced(self) -> None:
        """The oldest batch is durable."""
        core = self.core
        assert core is not None
        index, term, promises = self._batches.popleft()
        self.disk.sync()
        self._say(promises)
        if index:
            core.durable(index, term)
        if self._batches:
            self._later(self.world.sync_delay(self.number), self._synced)
        self.act()

    def _say(self, promises: Sequence[tuple[int, Message]]) -> None:
        for target, message in promises:
            if isinstance(message, AppendResponse) and message.is_matching:
                term = self.disk.term(message.index)
                assert term < 0 or has_durably(self.disk, message.index, term), (
                    f"{self.number} acknowledges {message.index} before its sync"
                )
            self.world.send(self.number, target, message)

    def _apply(self, entry: Entry) -> None:
        self.world.truth.applied(self.number, entry)
        self.machine.apply(entry)

    def _see_commits(self, core: Ring) -> None:
        view = core.view
        if core.role == LEADER and view is not None:
            is_synchronised = int(core.term) not in self.world.lossy_terms
            self.world.truth.leads(core, self.disk, is_synchronised)
            if core.commit_index > self._commit_index:
                self.world.truth.commits(core, view, self.world.disks)
        self._commit_index = int(core.commit_index)

    # What is asked for

    def publish(self, number: int) -> bool:
        core = self.core
        if core is None or core.role != LEADER:
            return False
        parts, _ = publish([number])
        is_taken = core.propose(parts) is not None
        self.act()
        return is_taken

    def tick(self) -> None:
        if self.core is not None:
            self.core.tick()
            self.act()

    def receive(self, sender: int, message: Message) -> None:
        if self.core is not None:
            self.core.step(sender, message)
            self.act()

    # Snapshots and the log below memory

    def take_snapshot(self) -> None:
        """Of what is applied; durable after a while."""
        core, index = self.core, self.machine.index
        if core is None or self._saving or index <= self.disk.point.index or core.is_hollow:
            return
        if index > core.snapshot_limit or not self.disk.has(index):
            return
        self._saving = True
        stored = StoredSnapshot(core.snapshot_point(index), self.machine.state)
        self._later(self.world.sync_delay(self.number) * 3, lambda: self._saved(stored))

    def _saved(self, stored: StoredSnapshot) -> None:
        self._saving = False
        core = self.core
        assert core is not None
        if stored.point.index <= self.disk.point.index:
            return
        self.disk.save(stored)
        core.snapshot_taken(stored.point)
        self.disk.release(core.first_index - 1)
        self.act()

    def forget(self) -> None:
        if self.core is not None:
            self.core.forget_all()

    def _loaded_later(self, load: Load) -> Callable[[], None]:
        def loaded() -> None:
            core = self.core
            assert core is not None
            found = [
                self.disk.record(index).entry
                for index in range(load.first, load.last + 1)
                if self.disk.has(index)
            ]
            core.loaded(load, found)
            self.act()

        return loaded

    def _slice_loaded_later(self, load: LoadSlice) -> Callable[[], None]:
        def loaded() -> None:
            core = self.core
            assert core is not None
            snapshot = self.disk.snapshot
            if snapshot is None or snapshot.point.index != load.index:
                core.slice_lost(load)
            else:
                self._give_slice(core, load, slices_of(snapshot.state, ()))
            self.act()

        return loaded

    def _give_slice(self, core: Ring, load: LoadSlice, slices: list[list[bytes]]) -> None:
        """Where slices of bodies begin is known of those that this process has cut, in order."""
        number = load.slice_number
        index, count = self._cut
        if index != load.index:
            count = STATE_SLICES
        if number > count:
            core.slice_lost(load)
            return
        self._cut = (int(load.index), max(count, number + 1))
        core.slice_loaded(load, slices[number], number == len(slices) - 1)

    def _stored_later(self, piece: SnapshotSlice) -> Callable[[], None]:
        stage = self._stage

        def stored() -> None:
            if stage != self._stage:
                return
            core = self.core
            assert core is not None
            self._staged.append(piece.parts)
            if piece.is_last:
                self._install(piece)
            core.slice_stored(piece)
            self.act()

        return stored

    def _based_later(self, point: SnapshotPoint) -> Callable[[], None]:
        def based() -> None:
            core = self.core
            assert core is not None
            empty = State(point.index, 0, ())
            self.disk.save(StoredSnapshot(point, empty))
            self.disk.restart_log(point)
            self.machine = Machine(empty)
            core.based(point)
            self.act()

        return based

    def _install(self, piece: SnapshotSlice) -> None:
        point = self._installing
        assert point is not None and point.index == piece.index
        self._installing = None
        state, _ = read_slices(self._staged)
        self._staged = []
        self._stage += 1
        assert state.index == point.index
        is_known = self.disk.term(point.index) == point.term
        self.disk.snapshot = StoredSnapshot(point, state)  # At its base it replaces an empty one.
        if not is_known:
            self.disk.restart_log(point)
        self.machine = Machine(state)

"""Several nodes with a `RaftHost` each, in one process: logs, links and owners that the test
drives.

Nothing happens by itself: a log is durable when it is synced, a batch arrives when the wire is run,
time passes in ticks. `World.settle` does all of it until nothing is left to do.
"""

from collections.abc import Callable, Sequence
from random import Random

from raft.entries import Config, Entry, SnapshotPoint
from raft.group import Group
from raft.host import TICK_MS, RaftHost
from raft.links import BULK
from raft.log_group import Found
from raft.messages import SnapshotSlice
from raft.ready import Lead
from raft.recovery import Restored, founded
from raft.settings import Settings

GROUP = 5
INCARNATION = 1
SLICE_BYTES = 64


class FakeLog:
    """A log in memory. What was appended is durable once `sync` was called behind the flush."""

    def __init__(self) -> None:
        self.appended_lsn = 0
        self.flushed_lsn = 0
        self.durable_lsn = 0
        self.flushes = 0
        self.records: list[tuple[str, int, int]] = []  # what, owner, index or term
        self.calls: list[tuple[int, int]] = []  # of appends: first index, count
        self.entries: dict[int, dict[int, tuple[int, int, int, int, bytes]]] = {}
        self.hard_states: dict[int, tuple[int, int]] = {}
        self.released: dict[int, int] = {}
        self.reads: list[Callable[[], None]] = []  # that wait to be answered
        self.failing_reads = 0

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
        self.calls.append((first, len(contents)))
        for index, parts in enumerate(contents, first):
            self.appended_lsn += 1
            self.records.append(("entry", owner, index))
            payload = b"".join(parts)
            entry = (index, term, appended_term, kind, payload)
            self.entries.setdefault(owner, {})[index] = entry

    def append_hard_state(self, owner: int, incarnation: int, term: int, vote: int) -> None:
        self.appended_lsn += 1
        self.records.append(("hard_state", owner, term))
        self.hard_states[owner] = (term, vote)

    def append_body(self, owner: int) -> None:
        self.appended_lsn += 1
        self.records.append(("body", owner, 0))

    def truncate_log(self, owner: int, index: int) -> None:
        entries = self.entries.get(owner, {})
        for dead in [each for each in entries if each >= index]:
            del entries[dead]

    def release_log(self, owner: int, index: int) -> None:
        self.released[owner] = max(index, self.released.get(owner, 0))
        entries = self.entries.get(owner, {})
        for dead in [each for each in entries if each <= index]:
            del entries[dead]

    def read_entries(
        self,
        owner: int,
        first: int,
        last: int,
        bytes_max: int,
        done: Callable[[Found | Exception], None],
    ) -> None:
        if self.failing_reads:
            self.failing_reads -= 1
            self.reads.append(lambda: done(OSError("the disk does not answer")))
            return
        entries = self.entries.get(owner, {})
        found: Found = []
        for index in range(first, last + 1):
            if index not in entries:
                break
            found.append(entries[index])
        self.reads.append(lambda: done(found))

    def flush(self) -> None:
        self.flushes += self.flushed_lsn != self.appended_lsn
        self.flushed_lsn = self.appended_lsn


class FakeLinks:
    """The links of one node: batches wait in the world's wire."""

    def __init__(self, world: "World", node: int) -> None:
        self._world = world
        self._node = node
        self.full: set[int] = set()
        self.sends: list[tuple[int, int]] = []  # (member, lane), one for each send
        self.bulk_bytes = 0

    def send(self, member: int, lane: int, parts: list[bytes]) -> None:
        assert parts
        self.sends.append((member, lane))
        batch = b"".join(parts)
        if lane == BULK:
            self.bulk_bytes += len(batch)
        self._world.wire.append((self._node, member, batch))

    def is_full(self, member: int) -> bool:
        return member in self.full


class Recorder:
    """An owner that keeps what it receives; its snapshot is the list of commands."""

    def __init__(self, log: FakeLog, uid: int) -> None:
        self.log = log
        self.uid = uid
        self.group: Group | None = None
        self.applied: list[tuple[int, bytes]] = []  # commands alone
        self.applied_index = 0
        self.outcomes: list[tuple[int, int, int]] = []
        self.story: list[str] = []  # "apply 3", "outcome 3 1", in the order of the calls
        self.leads: list[Lead] = []
        self.configs: list[Config] = []
        self.bodies: dict[int, tuple[bytes, ...]] = {}  # by index
        self.truncations: list[int] = []
        self.staged: list[SnapshotSlice] = []
        self.staging: list[Callable[[], None]] | None = None  # if a list: answered later
        self.snapshot_point: SnapshotPoint | None = None
        self.snapshot_slices: list[bytes] = []
        self.slices_read = 0
        self.on_apply: Callable[[Sequence[Entry]], None] | None = None
        self.on_outcome: Callable[[int, int, int], None] | None = None

    def snapshot_wanted(self, index: int) -> None:
        """Taken where a test says so."""

    def store(self, entry: Entry) -> None:
        self.log.append_body(self.uid)
        self.bodies[entry.index] = tuple(entry.attached)

    def truncated(self, index: int) -> None:
        self.truncations.append(index)
        self.bodies = {each: body for each, body in self.bodies.items() if each < index}

    def apply(self, entries: Sequence[Entry]) -> None:
        for entry in entries:
            assert entry.index == self.applied_index + 1
            self.applied_index = entry.index
            self.story.append(f"apply {entry.index}")
            if entry.kind == 0:
                self.applied.append((entry.index, b"".join(entry.parts)))
        if self.on_apply is not None:
            self.on_apply(entries)

    def outcome(self, first: int, last: int, term: int, outcome: int) -> None:
        for index in range(first, last + 1):
            self._outcome(index, term, outcome)

    def _outcome(self, index: int, term: int, outcome: int) -> None:
        self.outcomes.append((index, term, outcome))
        self.story.append(f"outcome {index} {outcome}")
        if self.on_outcome is not None:
            self.on_outcome(index, term, outcome)

    def lead(self, lead: Lead) -> None:
        self.leads.append(lead)

    def configured(self, config: Config) -> None:
        self.configs.append(config)

    def reattach(self, entries: Sequence[Entry], done: Callable[[Sequence[Entry]], None]) -> None:
        done(
            [
                Entry(
                    each.index,
                    each.term,
                    each.kind,
                    each.parts,
                    self.bodies.get(each.index, ()),
                    each.appended_term,
                )
                for each in entries
            ]
        )

    def take_snapshot(self, slice_bytes: int = SLICE_BYTES) -> None:
        """Of the machine as it is now, durable at once."""
        assert self.group is not None
        point = self.group.snapshot_point(self.applied_index)
        state = b"".join(
            index.to_bytes(8, "little") + len(command).to_bytes(4, "little") + command
            for index, command in self.applied
        )
        self.snapshot_slices = [
            state[at : at + slice_bytes] for at in range(0, max(len(state), 1), slice_bytes)
        ]
        self.snapshot_point = point
        self.group.snapshot_taken(point)

    def read_slice(
        self, index: int, number: int, done: Callable[[Sequence[bytes] | None, bool], None]
    ) -> None:
        self.slices_read += 1
        slices = self.snapshot_slices
        point = self.snapshot_point
        if point is None or point.index != index or number >= len(slices):
            done(None, False)
        else:
            done([slices[number]], number == len(slices) - 1)

    def stage(
        self, piece: SnapshotSlice, point: SnapshotPoint | None, done: Callable[[], None]
    ) -> None:
        assert piece.slice_number == len(self.staged)
        assert piece.is_last == (point is not None)
        self.staged.append(piece)
        if point is not None:
            self._install(point)
        if self.staging is None:
            done()
        else:
            self.staging.append(done)

    def _install(self, point: SnapshotPoint) -> None:
        assert point.index > self.applied_index
        state = b"".join(part for each in self.staged for part in each.parts)
        self.staged = []
        self.applied = []
        at = 0
        while at < len(state):
            index = int.from_bytes(state[at : at + 8], "little")
            size = int.from_bytes(state[at + 8 : at + 12], "little")
            self.applied.append((index, state[at + 12 : at + 12 + size]))
            at += 12 + size
        self.applied_index = point.index

    def drop_staged(self) -> None:
        self.staged = []

    def begin_at(self, point: SnapshotPoint, done: Callable[[], None]) -> None:
        self.applied_index = point.index
        done()


class Node:
    """A host with its log, its links and its owners."""

    def __init__(self, world: "World", member: int) -> None:
        self.world = world
        self.member = member
        self.log = FakeLog()
        self.links = FakeLinks(world, member)
        self.wants_turn = False
        self.is_alive = True
        self.turns = 0
        self.syncing = (0, 0)  # when that is over, and what is durable then
        self.owners: dict[int, Recorder] = {}
        self.host = RaftHost(
            member, self.log, self.links, world.settings, world.random, self._begin_turn
        )
        for other in world.members:
            if other != member:
                self.host.add_peer(other)

    def _begin_turn(self) -> None:
        self.wants_turn = True

    def add(self, uid: int, voters: Sequence[int], incarnation: int = INCARNATION) -> Group:
        """A new group."""
        return self.restore(uid, founded(Config(voters)), incarnation)

    def restore(self, uid: int, restored: Restored, incarnation: int = INCARNATION) -> Group:
        owner = Recorder(self.log, uid)
        owner.applied_index = restored.snapshot.index
        self.owners[uid] = owner
        owner.group = self.host.add(uid, incarnation, restored, owner)
        return owner.group

    def group(self, uid: int = GROUP) -> Group:
        group = self.host.group(uid)
        assert group is not None
        return group

    def owner(self, uid: int = GROUP) -> Recorder:
        return self.owners[uid]

    def turn(self) -> None:
        self.wants_turn = False
        self.turns += 1
        self.host.end_turn()

    def sync(self) -> None:
        """All that was flushed becomes durable, or what was when a slow sync began."""
        log = self.log
        if self.world.sync_ms == 0:
            self.syncing = (self.world.now_ms, log.flushed_lsn)
        elif self.syncing[1] == log.durable_lsn < log.flushed_lsn:
            self.syncing = (self.world.now_ms + self.world.sync_ms, log.flushed_lsn)
        due_ms, lsn = self.syncing
        if log.durable_lsn < lsn and due_ms <= self.world.now_ms:
            log.durable_lsn = lsn
            self.host.on_durable(lsn)

    def answer_reads(self) -> None:
        reads = self.log.reads
        self.log.reads = []
        for read in reads:
            read()


class World:
    """Nodes and the wire between them."""

    def __init__(self, count: int = 3, settings: Settings | None = None, seed: int = 1) -> None:
        self.random = Random(seed)
        self.settings = settings or Settings()
        self.members = tuple(range(1, count + 1))
        self.wire: list[tuple[int, int, bytes]] = []  # (from, to, batch)
        self.now_ms = 0
        self.slow_disks: dict[int, int] = {}  # by node: how long its syncs take, for its pace alone
        self.sync_ms = 0  # how long a sync takes; 0: as soon as it is looked for
        self.nodes = {member: Node(self, member) for member in self.members}
        self.deaf: set[tuple[int, int]] = set()  # (from, to): nothing gets through
        for node in self.nodes.values():
            for other in self.members:
                node.host.connected(other)

    def living(self) -> list[Node]:
        return [node for node in self.nodes.values() if node.is_alive]

    def add_group(self, uid: int = GROUP, incarnation: int = INCARNATION) -> None:
        for node in self.living():
            node.add(uid, self.members, incarnation)

    def kill(self, member: int) -> None:
        """The node is gone; its connections are lost."""
        self.nodes[member].is_alive = False
        self.wire = [each for each in self.wire if member not in each[:2]]
        for node in self.living():
            node.host.lost(member)

    def cut(self, one: int, other: int) -> None:
        """The connection between two nodes is lost, with what is in it."""
        self.deaf |= {(one, other), (other, one)}
        self.wire = [each for each in self.wire if (each[0], each[1]) not in self.deaf]
        self.nodes[one].host.lost(other)
        self.nodes[other].host.lost(one)

    def heal(self) -> None:
        cut = sorted(self.deaf)
        self.deaf.clear()
        for one, other in cut:
            self.nodes[other].host.connected(one)

    def deliver(self) -> None:
        """Everything on the wire arrives."""
        wire = self.wire
        self.wire = []
        for sender, to, batch in wire:
            node = self.nodes[to]
            if node.is_alive and (sender, to) not in self.deaf:
                node.host.receive(sender, memoryview(batch))

    def settle(self, rounds: int = 1000) -> None:
        """Run turns, wire, syncs and reads until nothing is left to do. Time stands still."""
        for _ in range(rounds):
            for node in self.living():
                if node.wants_turn:
                    node.turn()
                node.sync()
                node.answer_reads()
            self.deliver()
            if not self.wire and not any(node.wants_turn for node in self.living()):
                return
        raise AssertionError("they do not come to rest")

    def tick(self, count: int = 1) -> None:
        """Time passes; all living peers answer their beats, and everything settles in between."""
        for _ in range(count):
            self.now_ms += TICK_MS
            for node in self.living():
                for other in self.living():
                    if other is not node and (node.member, other.member) not in self.deaf:
                        node.host.heard(other.member)
                node.host.pace.note_sync(self.slow_disks.get(node.member, self.sync_ms))
                node.host.tick(self.now_ms)
            self.settle()

    def leader(self, uid: int = GROUP) -> Node:
        """The one living node that leads the group in the highest term."""
        members = [node for node in self.living() if node.host.group(uid) is not None]
        leading = [node for node in members if node.group(uid).is_leader]
        assert leading, "no leader"
        return max(leading, key=lambda node: node.group(uid).raft.term)

    def elect(self, member: int = 1, uid: int = GROUP) -> Node:
        """Have that member lead."""
        self.nodes[member].group(uid).campaign()
        self.settle()
        leader = self.leader(uid)
        assert leader.member == member
        return leader

    def followers(self, uid: int = GROUP) -> list[Node]:
        return [node for node in self.living() if not node.group(uid).is_leader]

    def rest(self, uid: int = GROUP, ticks: int = 500) -> None:
        """Until no member of the group is awake."""
        for _ in range(ticks):
            if all(node.host.hibernating_count == node.host.group_count for node in self.living()):
                return
            self.tick()
        raise AssertionError("they do not come to rest")

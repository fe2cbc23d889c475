"""A node with one member of one quorum queue: real log, real log groups, real machine, put together
as a node of a cluster does it, on a simulated disk and with threads that run one step at a time.
"""

from collections.abc import Callable
from random import Random
from typing import Final, Protocol

from node.recovery.log_owners import QueueOwners
from node.timers import Timers
from node.turn import Turn
from queues.bodies.extents import Columns
from queues.bodies.store import BodyBudget
from queues.hosts.host_interfaces import BodyOwner, DeadLetterPublisher
from queues.hosts.journal import Journal
from queues.hosts.queue_core import DEFAULT, QueueCore
from queues.hosts.quorum_member import QuorumMember
from queues.hosts.quorum_recovery import (
    INCARNATION,
    FoundGroup,
    FoundGroups,
    beginning,
    birth_of,
)
from queues.hosts.quorum_snapshot import Slicing
from queues.machine.effects import SlowConsumer
from queues.machine.options import Options
from queues.message import Chunk
from queues.sessions.credit import CreditActor, CreditSpec
from raft.entries import INDEX_MAX, Config
from raft.host import RaftHost
from raft.recovery import Restored
from raft.ring import Ring
from raft.ring_view import RingView
from raft.settings import Settings
from tests.sim.queues.sim_timers import SimTimers
from tests.sim.storage.sim_disk import SimDisk
from tests.sim.storage.sim_keyed import SimKeyed
from tests.sim.storage.steps import StepRunner
from warren.storage.recovery.recovery import RecoveredPublish
from warren.storage.recovery.stretches import Stretch
from warren.storage.snapshot import SnapshotStore
from warren.storage.wal import Wal

UID: Final = 9
DIRECTORY: Final = "/log"
LOG_CREDIT: Final = CreditSpec(4000, 800)
OPTIONS: Final = Options(levels=32, default_level=4, counts_deliveries=True, delivery_limit=1000)


class Network(Protocol):
    """What a node asks of the world around it."""

    @property
    def now_ms(self) -> int: ...

    def send(self, source: int, target: int, lane: int, batch: bytes) -> None: ...

    def is_open(self, source: int, target: int) -> bool: ...

    def leads(self, member: int, leader: int, term: int, is_ready: bool) -> None: ...

    def is_up(self, node: "GroupNode") -> bool:
        """Whether that life of the node goes on."""

    def dead_letter_publisher(self, node: "GroupNode") -> DeadLetterPublisher | None: ...

    def reborn_of(self, number: int) -> tuple[int, int]:
        """What the node has heard: term and member with which the group restarted; 0, 0: none."""

    @property
    def options(self) -> Options: ...

    @property
    def snapshots(self) -> tuple[int, int] | None:
        """After how many entries, and with which rest in ms; None: as the node likes."""


class Sink:
    """Takes what the log has found (`RecoverySink`)."""

    def __init__(self, found: FoundGroups, host: Callable[[], QueueCore | None]) -> None:
        self._found = found
        self._host = host
        self.entry_count = 0
        self.raft_entry = found.raft_entry
        self.hard_state = found.hard_state
        self.knows = found.knows
        self.saved_index = found.saved_index

    def entry(self, owner: int, index: int, payload: bytes) -> None:
        raise AssertionError("an entry of a group of one member")

    def all_owners(self) -> tuple[list[int], list[int]]:
        return [], sorted(self._found.groups)

    def accepted_file_id(self, owner: int) -> int:
        return 0

    def owner(self, owner: int, last_seq: int, mark: int) -> None:
        assert owner == UID

    def publish(self, found: RecoveredPublish) -> None:
        host = self._host()
        assert host is not None
        chunk = Chunk(found.format_tag, None, 0, found.offsets, found.info, found.label)
        chunk.file_id = found.file_id
        chunk.file_offset = found.data_offset
        chunk.durable = True
        for _, first, live in found.targets:
            host.recover(chunk, first, live, found.meta, found.now_ms)

    def stretch(self, found: Stretch) -> None:
        host = self._host()
        assert host is not None
        whole = Chunk(found.format_tag, None, 0, b"", found.info, found.label)
        whole.file_id = found.file_id
        whole.durable = True
        columns = Columns(found.places, found.counts, found.sizes, found.arrivals)
        host.recover_stretch(found.first, found.count, whole, columns)


class GroupNode:
    """One life of a node. Keeps `Steps` for the host and `Links` for the groups."""

    def __init__(
        self, number: int, disk: SimDisk, world: Network, random: Random, settings: Settings
    ) -> None:
        self.number = number
        self.world = world
        self.disk = disk
        self.random = random
        self.runner = StepRunner()
        self.runner.saves_late = random.random() < 0.5
        self.failed: list[BaseException] = []
        self._clock = SimTimers(lambda: world.now_ms, self.runner.post)
        self.turn = Turn(self.runner.post, self.failed.append)
        file_bytes = random.choice((16_384, 65_536))
        self.wal = Wal(
            disk,
            DIRECTORY,
            post=self.runner.post,
            on_failure=self.failed.append,
            file_bytes=file_bytes,
            group_bytes=random.choice((512, 4096, 1 << 20)),
            reserve_files=random.choice((2, 6)),
            slack_bytes=random.choice((0, file_bytes)),
            runner=self.runner,
            draw_epoch=lambda: random.getrandbits(32),
        )
        self.budget = BodyBudget(random.choice((0, 2_000, 1 << 30)))
        self.journal = Journal(self.wal, self.budget, CreditActor("log", LOG_CREDIT))
        self.wal.before_upkeep = self._end_turn
        self.turn.journal = self.journal
        self.turn.now_ms = lambda: world.now_ms
        self.timers = Timers(self._clock.set, lambda: world.now_ms, self.turn.begin)
        self.shelf = SnapshotStore(SimKeyed(disk, self.runner))
        lots = Random(random.getrandbits(64))
        self.raft = RaftHost(number, self.wal, self, settings, lots, self.turn.begin_groups)
        self.turn.groups = self.raft
        self.member: QuorumMember | None = None
        self.hosts: dict[int, QueueCore] = {}
        self.is_joined = False
        self.promotions: list[int] = []  # uids of mirrors that were promoted unsynchronised
        self.recover()

    def is_alive(self) -> bool:
        return self.world.is_up(self)

    # Life

    def recover(self) -> None:
        """Begin with what the disk has."""
        self.found = FoundGroups()
        self.found.begin(self.shelf.owners, self.shelf.load_slices)
        group = self.found.groups.get(UID)
        if group is not None:
            self.make().load(group.standing, group.slices)
        report = self.wal.open(Sink(self.found, lambda: self.hosts.get(UID)))
        assert not report.corrupt, f"corrupt: {report.corrupt}"
        for owner, index in self.found.strays().items():
            self.wal.release_log(owner, index)
        if group is not None:
            assert self.member is not None
            self._rejoin(group)
        self.wal.on_durable.append(self.turn.on_durable)
        self.wal.attach(QueueOwners(self.hosts, lambda uid: 0, lambda uid: True))
        self.turn.begin()
        self.renew()
        if group is not None and not self.is_joined:
            self.leave()

    def _rejoin(self, group: FoundGroup) -> None:
        """Unless the group has restarted without it."""
        assert self.member is not None
        if group.is_mirror:
            self.member.recovered()
            self._join_ring(group.born, group.restored(), group.is_whole)
            return
        term, alone = self.world.reborn_of(self.number)
        if group.incarnation < term and alone != self.number:
            return
        restored = group.restored()
        incarnation = group.incarnation
        if alone == self.number and not group.has_begun_anew(restored, term):
            incarnation = group.born
        self.member.recovered()
        self._join(restored, incarnation)

    def renew(self) -> None:
        """What was heard of the group is so here: it goes on with this member alone, or without."""
        term, alone = self.world.reborn_of(self.number)
        group = self.raft.group(UID)
        if self.member is not None:
            self.member.reborn_term = term
        if group is None or group.incarnation >= term:
            return
        self.turn.begin()
        if alone == self.number:
            self.raft.renew(UID, term, term)  # Not while a snapshot is installed: then next time.
        else:
            self.leave()

    @property
    def incarnation(self) -> int:
        group = self.raft.group(UID)
        return INCARNATION if group is None else int(group.incarnation)

    def make(self) -> QuorumMember:
        """The host of the queue, and this node's member of its group."""
        credit = CreditActor("queue", CreditSpec(400, 200))
        core = QueueCore(
            *(UID, "/", "q", True, self.journal, self.budget, self, credit, False),
            *(self.world.options, DEFAULT, True, self.world.dead_letter_publisher(self)),
        )
        self.hosts[UID] = core
        entries = self.random.choice((4, 16, 64))
        slicing = Slicing(
            small=self.random.choice((0, 1000)),
            piece_bytes=self.random.choice((40, 400, 60_000)),
            body_bytes=self.random.choice((100, 1000, 1 << 18)),
            pieces=self.random.choice((1, 4)),
            sweep_slots=self.random.choice((1, 3, 2000)),
        )
        entries, rest_ms = self.world.snapshots or (entries, 0)
        self.member = QuorumMember(self.number, core, self.shelf, entries, slicing, rest_ms)
        self.member.on_lead = self._leads
        self.member.on_left = self._left
        return self.member

    def found_member(self, config: Config, first: bool) -> None:
        """A new member: of a new group, or one that joins it."""
        assert self.member is None
        member = self.make()
        term = self.found.term_of(UID)
        incarnation = max(INCARNATION, self.world.reborn_of(self.number)[0])

        def begun() -> None:
            if self.member is member:
                self._join(beginning(self.number, config, term), incarnation)
                if first:
                    member.campaign_first()

        member.begin_new(config, term, birth_of(incarnation), begun)

    def _join(self, restored: Restored, incarnation: int) -> None:
        member = self.member
        assert member is not None
        group = self.raft.add(UID, incarnation, restored, member)
        self.is_joined = True
        member.join(group)

    # A mirrored queue, as `node.cluster.queues.mirrors` does it

    def take_view(self, view: RingView) -> None:
        """The node hears of a view, perhaps of an old one."""
        joined = view.joined_in(self.number)
        member = self.member
        self.turn.begin()
        if member is not None and view.epoch < member.mirror.joined:
            return
        if member is not None and joined != member.mirror.joined:
            self.leave()
            member = None
        if member is not None:
            member.take_view(view)
        elif joined > self.found.term_of(UID):
            self._begin_mirror(joined)

    def _begin_mirror(self, joined: int) -> None:
        member = self.make()

        def begun() -> None:
            if self.member is member:
                self._join_ring(joined, beginning(self.number, Config(()), 0), False)

        member.begin_mirror(joined, begun)

    def _join_ring(self, joined: int, restored: Restored, is_whole: bool) -> None:
        member = self.member
        assert member is not None
        member.mirror.on_lost = self.promotions.append
        group = self.raft.add_mirror(UID, INCARNATION, joined, restored, member, is_whole)
        self.is_joined = True
        member.join(group)

    def ring(self) -> Ring | None:
        group = self.raft.group(UID)
        return group.raft if group is not None and isinstance(group.raft, Ring) else None

    def _left(self, uid: int) -> None:
        """The group does not have this node any more; not in the middle of a report."""
        self.runner.post(self.leave)

    def leave(self) -> None:
        """All that is here of the queue goes."""
        member = self.member
        if member is None:
            return
        self.turn.begin()
        group = self.raft.group(UID)
        if group is not None:
            self.found.hard_state(UID, INCARNATION, group.raft.term, 0)
            self.raft.remove(UID)
        else:
            self.wal.release_log(UID, INDEX_MAX)
        member.leave()
        member.core.delete([], False)
        del self.hosts[UID]
        self.member = None
        self.is_joined = False
        self.world.leads(self.number, 0, 0, False)

    def _leads(self, uid: int, leader: int, term: int, is_ready: bool) -> None:
        self.world.leads(self.number, leader, term, is_ready)

    # Links

    def send(self, member: int, lane: int, parts: list[bytes]) -> None:
        self.world.send(self.number, member, lane, b"".join(parts))

    def is_full(self, member: int) -> bool:
        return not self.world.is_open(self.number, member)

    # Steps

    def mark_host(self, host: object) -> None:
        self.turn.mark_host(host)  # type: ignore[arg-type]

    def mark_host_later(self, host: object) -> None:
        self.turn.mark_host_later(host)  # type: ignore[arg-type]

    def wake_host(self, host: object, due_ms: int) -> None:
        self.timers.wake(host, due_ms)  # type: ignore[arg-type]

    def queue_unused(self, uid: int) -> None:
        """No test deletes it here."""

    def consumer_slow(self, uid: int, effect: SlowConsumer) -> None:
        """No test asks for it."""

    def load(self, owner: BodyOwner, chunk: Chunk) -> None:
        def done(result: bytes | Exception) -> None:
            self.turn.begin()
            assert isinstance(result, bytes), f"a body cannot be read: {result}"
            owner.loaded(chunk, result)

        self.wal.read(chunk.file_id, chunk.file_offset, chunk.size(), done)

    # Time and disk

    def pass_time(self) -> None:
        self.renew()
        self._clock.pass_time()

    def _end_turn(self) -> None:
        self.journal.end_turn(self.world.now_ms)
        self.journal.settle_now()

    def run(self, steps: int) -> None:
        """Some pieces of what the loop and the threads have to do."""
        for _ in range(steps):
            if not self.runner.step(self.random):
                break
        self.check()

    def run_loop(self) -> None:
        """What is posted to the loop, and no thread."""
        while self.runner.posted:
            self.runner.posted.popleft()()
        self.check()

    def check_claims(self) -> None:
        """The queue is empty: entries are all that the files of the log have alive."""
        alive = dict.fromkeys(self.wal.ledger.files, 0)
        for group in self.wal.ledger.entries.values():
            for run in group.runs:
                alive[run.file.id] += run.byte_count
        counted = {file.id: int(file.live) for file in self.wal.ledger.files.values()}
        assert counted == alive, f"{self.number} counts {counted}, and has {alive}"

    def check(self) -> None:
        """What would stop a node stops the test."""
        for error in self.failed:
            raise error

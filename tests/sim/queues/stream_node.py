"""A node with one member of one stream: real log, real log groups, real segments and readers, on a
simulated disk and with threads that run one step at a time."""

from random import Random
from typing import Protocol

from node.recovery.log_owners import QueueOwners
from node.timers import Timers
from node.turn import Turn
from queues.bodies.store import BodyBudget
from queues.hosts.journal import Journal
from queues.hosts.quorum_recovery import INCARNATION, FoundGroups, beginning
from queues.machine.effects import SlowConsumer
from queues.message import Chunk
from queues.sessions.credit import CreditActor, CreditSpec
from queues.streams.member import StreamMember
from queues.streams.offsets import OffsetSpec, Start
from queues.streams.reader import StreamReader
from queues.streams.settings import StreamSettings
from queues.streams.tail import EncodedChunk, Run, Tail
from raft.entries import Config
from raft.host import RaftHost
from raft.recovery import Restored
from raft.settings import Settings
from tests.sim.queues.group_node import LOG_CREDIT, UID, Sink
from tests.sim.queues.sim_streams import SimStreams
from tests.sim.queues.sim_timers import SimTimers
from tests.sim.storage.sim_disk import SimDisk
from tests.sim.storage.sim_keyed import SimKeyed
from tests.sim.storage.sim_objects import SimObjects
from tests.sim.storage.steps import StepRunner
from warren.storage.snapshot import SnapshotStore
from warren.storage.wal import Wal

DIRECTORY = "/log"


class World(Protocol):
    """What a node asks of the world around it."""

    @property
    def now_ms(self) -> int: ...

    @property
    def settings(self) -> Settings: ...

    @property
    def limits(self) -> StreamSettings: ...

    @property
    def slice_bytes(self) -> int: ...

    @property
    def objects(self) -> SimObjects: ...

    def send(self, source: int, target: int, lane: int, batch: bytes) -> None: ...

    def is_open(self, source: int, target: int) -> bool: ...

    def follow(self, number: int) -> None: ...

    def leads(self, member: int, leader: int, term: int, is_ready: bool) -> None: ...

    def read(self, node: "StreamNode", offset: int, payload: bytes) -> None: ...


class StreamNode:
    """One life of a node. Keeps `Steps` for the member and `Links` for the groups."""

    def __init__(self, number: int, disk: SimDisk, world: World, random: Random) -> None:
        self.number = number
        self.world = world
        self.disk = disk
        self.random = random
        self.runner = StepRunner()
        self.failed: list[BaseException] = []
        self._clock = SimTimers(lambda: world.now_ms, self.runner.post)
        self.turn = Turn(self.runner.post, self.failed.append)
        self.wal = Wal(
            disk,
            DIRECTORY,
            post=self.runner.post,
            on_failure=self.failed.append,
            file_bytes=random.choice((16_384, 65_536)),
            group_bytes=random.choice((512, 4096, 1 << 20)),
            reserve_files=2,
            slack_bytes=16_384,
            runner=self.runner,
            draw_epoch=lambda: random.getrandbits(32),
        )
        self.journal = Journal(self.wal, BodyBudget(1 << 30), CreditActor("log", LOG_CREDIT))
        self.wal.before_upkeep = self._end_turn
        self.turn.journal = self.journal
        self.turn.now_ms = lambda: world.now_ms
        self.timers = Timers(self._clock.set, lambda: world.now_ms, self.turn.begin)
        self.shelf = SnapshotStore(SimKeyed(disk, self.runner))
        lots = Random(random.getrandbits(64))
        self.raft = RaftHost(number, self.wal, self, world.settings, lots, self.turn.begin_groups)
        self.turn.groups = self.raft
        self.streams = SimStreams(disk, self.runner, self.turn.begin, world.objects)
        self.member = self.make()
        self.readers: list[StreamReader] = []
        self._cut_below = 0  # by retention, also if it comes to the store later
        self.is_begun = False  # it has a member, which perhaps is not written down yet
        self.is_joined = False
        self.recover()

    def make(self) -> StreamMember:
        member = StreamMember(
            *(self.number, UID, "/", "s", self, self.shelf, self.streams),
            CreditActor("stream", CreditSpec(400, 200)),
            self.world.limits,
            self.random.choice((4, 16, 64)),
            self.world.slice_bytes,
        )
        member.tail = Tail(self.random.choice((0, 200, 1 << 20)))
        member.on_lead = self._leads
        member.on_left = self._left
        return member

    def recover(self) -> None:
        """Begin with what the disk has."""
        self.found = FoundGroups()
        self.found.begin(self.shelf.owners, self.shelf.load_slices)
        group = self.found.groups.get(UID)
        if group is not None:
            self.member.load(group.standing, group.slices)
            assert self.member.fault == "", self.member.fault
        report = self.wal.open(Sink(self.found, lambda: None))
        assert not report.corrupt, f"corrupt: {report.corrupt}"
        for owner, index in self.found.strays().items():
            self.wal.release_log(owner, index)
        self.streams.keep_only([] if group is None else [UID])
        if group is not None:
            self._join(group.restored())
        self.wal.on_durable.append(self.turn.on_durable)
        self.wal.attach(QueueOwners({}, lambda uid: 0))
        self.turn.begin()

    def found_member(self, config: Config, is_first: bool) -> None:
        """A new member: of a new group, or one that joins it."""
        member = self.member
        term = self.found.term_of(UID)
        self.is_begun = True

        def begun() -> None:
            if self.member is member:
                self._join(beginning(self.number, config, term))
                if is_first:
                    member.campaign_first()

        member.begin_new(config, term, b"", begun)

    def _left(self, uid: int) -> None:
        """The group does not have this node any more; not in the middle of a report."""
        group = self.raft.group(UID)
        is_member = group is not None and self.number in group.raft.config.members()
        assert not is_member, f"{self.number} leaves before it is removed"
        self.runner.post(self.leave)

    def leave(self) -> None:
        """All that is here of the stream goes; as `QuorumQueues.leave` does it."""
        group = self.raft.group(UID)
        if group is None:
            return
        self.turn.begin()
        self.found.hard_state(UID, INCARNATION, group.raft.term, 0)
        self.raft.remove(UID)
        self.readers, self._cut_below = [], 0
        self.member.leave()
        self.member = self.make()
        self.is_begun = self.is_joined = False
        self.world.leads(self.number, 0, 0, False)
        self.world.follow(self.number)

    def _join(self, restored: Restored) -> None:
        self.is_begun = self.is_joined = True
        self.member.join(self.raft.add(UID, INCARNATION, restored, self.member))

    def _leads(self, uid: int, leader: int, term: int, is_ready: bool) -> None:
        self.world.leads(self.number, leader, term, is_ready)

    # Readers

    def begin_reading(self, spec: OffsetSpec) -> None:
        if self.is_joined:
            self.turn.begin()
            encode = one_by_one if len(self.readers) % 2 else None
            self.readers.append(StreamReader(self.member, spec, nothing, encode))

    def read_some(self) -> None:
        """Each reader takes what it can have now."""
        self.turn.begin()
        for reader in self.readers:
            assert reader.error is None, f"{self.number} cannot read: {reader.error}"
            expected = reader.next_offset
            messages = self._taken(reader)
            if not messages:
                continue
            offset = messages[0][0]
            is_cut = expected < self._cut_below or self._is_between(expected)
            assert offset == expected or is_cut, f"read {offset} where {expected} comes next"
            for offset, payload in messages:
                self.world.read(self, offset, payload)

    def _is_between(self, expected: int) -> bool:
        """Whether retention has cut what is expected while the leader was uploading what was before
        it: the first segment in the store is older than those here."""
        return self.member.log.offloaded_end <= expected < self.member.log.local_offset

    def _taken(self, reader: StreamReader) -> list[tuple[int, bytes]]:
        """What the reader gives at once: offsets and messages."""
        count_max = self.random.randint(1, 5)
        encoded = reader.take_encoded()
        if encoded is not None:
            return [(encoded.first_offset, encoded.data)]
        found = reader.take(count_max)
        if found is None:
            return []
        offset, chunk, index, count = found
        return [(offset + place, message_in(chunk, index + place)) for place in range(count)]

    def reads_from_first(self) -> None:
        self.readers, self._cut_below = [], 0
        self.begin_reading(OffsetSpec(Start.FIRST))

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
        raise AssertionError("a stream is never unused")

    def consumer_slow(self, uid: int, effect: SlowConsumer) -> None:
        raise AssertionError("a stream has no slow consumers")

    def load(self, core: object, chunk: object) -> None:
        raise AssertionError("a stream has no bodies in the log")

    # Time and disk

    def pass_time(self) -> None:
        self._clock.pass_time()

    def _end_turn(self) -> None:
        self.journal.end_turn(self.world.now_ms)
        self.journal.settle_now()

    def run(self, steps: int) -> None:
        """Some pieces of what the loop and the threads have to do."""
        for _ in range(steps):
            if not self.runner.step(self.random):
                break
            self._cut_below = max(self._cut_below, self.member.first_offset)
        for error in self.failed:
            raise error


def message_in(chunk: Chunk, index: int) -> bytes:
    data = chunk.data
    assert data is not None
    begin, end = chunk.span(index)
    return data[begin:end]


def one_by_one(runs: list[Run], offset: int) -> list[EncodedChunk]:
    """Each message from an offset on as a chunk of its own."""
    return [
        EncodedChunk(first + index, first + index + 1, b"", message_in(chunk, index))
        for first, chunk, _ in runs
        for index in range(max(0, offset - first), int(chunk.count()))
    ]


def nothing() -> None:
    """Readers are asked again and again."""

"""A node without sockets, the only one of its cluster: log, journal, turn, definitions and classic
queues put together as `node.boot` does it, on the simulated disk and with the log's threads run one
step at a time.
"""

from collections.abc import Callable
from random import Random
from typing import cast

from node.broker import Broker
from node.clock import NodeClock
from node.cluster.cluster_node import Cluster
from node.cluster.wiring import ClusterParts
from node.config.settings import Config, NodeSection
from node.recovery.log_owners import QueueOwners, Recovered
from node.timers import Timers
from node.turn import Turn
from queues.bodies.paging import Pager
from queues.bodies.store import BodyBudget
from queues.definitions.metadata.commands import Batch, DeclareVhost
from queues.hosts.journal import Journal
from queues.hosts.queue_core import QueueCore
from queues.sessions.credit import CreditActor, CreditSpec
from tests.sim.queues.flaky_disk import FlakyDisk
from tests.sim.queues.sim_streams import SimStreams
from tests.sim.queues.sim_timers import SimTimers
from tests.sim.queues.sole_cluster import SoleCluster
from tests.sim.storage.block_disk import past_cache
from tests.sim.storage.sim_disk import SimDisk
from tests.sim.storage.sim_keyed import SimKeyed
from tests.sim.storage.sim_objects import SimObjects
from tests.sim.storage.steps import StepRunner
from warren.storage.pages import Pages
from warren.storage.snapshot import SnapshotStore
from warren.storage.wal import Wal
from warren.wire.amqp091.deliver import body_bytes

DIRECTORY = "/log"
PAGES_DIRECTORY = "/pages"
NODE = "n"
SNAPSHOT_ENTRIES = 6
SAVES = ((SNAPSHOT_ENTRIES, 60), (SNAPSHOT_ENTRIES, 60_000))  # entries, bytes of a batch


class SimNode:
    """One life of a node, from recovery on."""

    def __init__(self, disk: SimDisk, random: Random, now_ms: int) -> None:
        self.time_ms = now_ms
        self._is_complete = False
        self._disk = disk
        self.runner = StepRunner()
        self._clock = SimTimers(self.now_ms, self.runner.post)
        self.runner.saves_late = random.random() < 0.5
        self.failed: list[BaseException] = []
        self.turn = Turn(self.runner.post, self.failed.append)
        self.clock = NodeClock()
        file_bytes = random.choice((16_384, 32_768))
        self.wal = Wal(
            random.choice((disk, past_cache(disk, self.runner, random))),
            DIRECTORY,
            post=self.runner.post,
            on_failure=self.failed.append,
            file_bytes=file_bytes,
            group_bytes=random.choice((512, 4096, 1 << 20)),
            reserve_files=random.choice((2, 6)),  # 6: dead files are used again
            slack_bytes=random.choice((0, 0, file_bytes)),
            runner=self.runner,
            draw_epoch=lambda: random.getrandbits(32),
        )
        self.budget = BodyBudget(random.choice((0, 2_000, 1 << 30)))
        credit = CreditActor("log", CreditSpec(4000, 800))
        self.journal = Journal(self.wal, self.budget, credit)
        if random.random() < 0.5:
            self.journal.settle_later = self.runner.post
        self._page(random)
        self.wal.before_upkeep = self._end_turn
        self.turn.journal = self.journal
        self.turn.now_ms = self.now_ms
        keyed = SimKeyed(disk, self.runner)
        self._snapshots = SnapshotStore(keyed)
        self._cluster = SoleCluster(NODE, self.wal, self.turn, random)
        self._recover(keyed, random)

    def _page(self, random: Random) -> None:
        """Page files, some of them so small that a batch is longer; some writes fail."""
        pages = Pages(
            FlakyDisk(SimDisk(), random, random.choice((0.0, 0.0, 0.3))),
            PAGES_DIRECTORY,
            runner=self.runner,
            post=self.runner.post,
            on_alarm=lambda place, error: self.runner.background(pages.retry),
            on_healed=lambda place: pager.try_again(),
            file_bytes=random.choice((100, 2_000, 10_000)),
        )
        pages.open()
        self._pages = pages
        pager = Pager(pages, self.budget, random.choice((0, 300, 3_000)))
        self.turn.pager = pager

    def _recover(self, keyed: SimKeyed, random: Random) -> None:
        cluster = cast(Cluster, self._cluster)  # It has all of that but the sockets.
        parts = self._parts = ClusterParts(
            cluster,
            keyed,
            self._snapshots,
            self.wal,
            self._clock.set,
            SimStreams(self._disk, self.runner, self.turn.begin, SimObjects(Random(0))),
            random.choice(SAVES),
        )
        timers = Timers(self._clock.set, self.now_ms, self.turn.begin)
        self.broker = broker = Broker(
            Config(node=NodeSection(name=NODE)),
            self.clock,
            self.turn,
            parts,
            self.journal,
            self.budget,
            self.wal,
            self._pages,
            timers,
            self.wal,
            {},
        )
        broker.changes.load()
        recovered = Recovered(
            broker.queues.hosts.find,
            broker.queues.hosts,
            broker.queues.damages,
            lambda: broker.metadata.next_uid,
            parts,
            self.wal,
        )
        self.report = self.wal.open(recovered)
        self.lost = parts.lost(self.report, recovered)
        recovered.finish(self.report)
        self.wal.on_durable.append(self.turn.on_durable)
        self.wal.attach(QueueOwners(broker.queues.hosts.awake, broker.queues.hosts.mark))

    def complete(self) -> None:
        """Have the definitions as they were committed; what the queues have to do first waits."""
        self._is_complete = True
        held, self.turn.hosts = self.turn.hosts, []
        self.turn.begin()
        self._parts.join(lambda: (DeclareVhost("/"),))
        done: list[object] = []
        self._parts.definitions.propose(Batch(()), done.append)
        self.run_until(lambda: bool(done) and self._parts.definitions.cluster_id != 0)
        done = []
        self._parts.definitions.propose(Batch(()), done.append)
        self.run_until(lambda: bool(done))
        self.turn.hosts += held

    def begin(self) -> None:
        """Clients may come."""
        if not self._is_complete:
            self.complete()
        self.turn.begin()
        self.run_loop()
        self._parts.definitions.serve()
        self.broker.begin_service()

    def now_ms(self) -> int:
        return self.time_ms

    def advance(self, ms: int) -> None:
        """Time passes, and the loop calls what is due."""
        self.time_ms += ms
        self._clock.pass_time()

    def _end_turn(self) -> None:
        self.journal.end_turn(self.now_ms())
        self.journal.settle_now()

    def run_until(self, reached: Callable[[], bool]) -> None:
        """Run the loop and the log's threads until something is so."""
        random = Random(0)
        while not reached():
            assert self.runner.step(random), "nothing is left to run"
        self.check()

    def run_loop(self) -> None:
        """Run what is posted to the loop, and no thread."""
        while self.runner.posted:
            self.runner.posted.popleft()()
        self.check()

    def check(self) -> None:
        """What would stop a node stops the test."""
        for error in self.failed:
            raise error

    def stop(self) -> None:
        """The end of `node.boot.Node`, when its clients are gone."""
        self.broker.end_service()
        self.run_loop()
        for host in self.broker.queues.hosts.classic.values():
            host.end_cleanly()
        self._end_turn()
        self.wal.close(clean=True)

    def contents(self, core: QueueCore) -> dict[int, bytes]:
        """The payloads of a recovered queue by message_seq, read past the node from its disk."""
        found: dict[int, bytes] = {}
        for first, count in core.live_ranges(1, core.machine.next_seq - 1):
            for seq in range(first, first + count):
                found[seq] = self._payload(core, seq)
        return found

    def _payload(self, core: QueueCore, seq: int) -> bytes:
        slot = core.store.find(seq)
        chunk = slot.chunk
        index = slot.index + seq - slot.first
        offset = chunk.file_offset + chunk.bytes_between(0, index)
        size = chunk.bytes_between(index, index + 1)
        assert chunk.file_id in self.wal.files, f"message {seq} of {core.uid} has no body"
        stored = self._disk.pread(self.wal.files[chunk.file_id].handle, size, offset)
        assert len(stored) == size
        return body_bytes(stored, 0, size)

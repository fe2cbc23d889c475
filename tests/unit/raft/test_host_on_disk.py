"""Hosts on the real log, on a simulated disk: what comes back after power was lost on all nodes."""

from collections.abc import Callable, Sequence
from random import Random

from raft.entries import Config, Entry, SnapshotPoint
from raft.group import Group
from raft.host import TICK_MS, RaftHost, host_settings
from raft.messages import SnapshotSlice
from raft.ready import Lead
from raft.recovery import FoundLog
from tests.sim.storage.queues_model import Queues
from tests.sim.storage.sim_disk import SimDisk
from tests.sim.storage.steps import StepRunner
from warren.storage.wal import Wal

UID = 500
INCARNATION = 3
VOTERS = (1, 2, 3)
CONTENT_BYTES = 200


class Machine:
    """An owner whose state is the list of commands. It has no snapshots."""

    def __init__(self) -> None:
        self.commands: list[bytes] = []
        self.outcomes: list[int] = []

    def store(self, entry: Entry) -> None:
        raise AssertionError("nothing is attached")

    def truncated(self, index: int) -> None:
        assert index > 0

    def apply(self, entries: Sequence[Entry]) -> None:
        self.commands += [b"".join(entry.parts) for entry in entries if entry.kind == 0]

    def outcome(self, first: int, last: int, term: int, outcome: int) -> None:
        self.outcomes += [outcome] * (last - first + 1)

    def lead(self, lead: Lead) -> None:
        assert lead.term > 0

    def configured(self, config: Config) -> None:
        raise AssertionError("no member joins")

    def reattach(self, entries: Sequence[Entry], done: Callable[[Sequence[Entry]], None]) -> None:
        done(entries)

    def read_slice(
        self, index: int, number: int, done: Callable[[Sequence[bytes] | None, bool], None]
    ) -> None:
        raise AssertionError("no snapshots")

    def stage(
        self, piece: SnapshotSlice, point: SnapshotPoint | None, done: Callable[[], None]
    ) -> None:
        raise AssertionError("no snapshots")

    def drop_staged(self) -> None:
        raise AssertionError("no snapshots")


class Sink(Queues):
    """What recovery finds of the group."""

    def __init__(self) -> None:
        super().__init__(set())
        self.log = FoundLog(INCARNATION)

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
        assert owner == UID
        self.log.add(incarnation, index, term, appended_term, kind, content)

    def hard_state(self, owner: int, incarnation: int, term: int, vote: int) -> None:
        self.log.add_hard_state(incarnation, term, vote)


class Node:
    """A node, begun on whatever its disk has. It is its own links."""

    def __init__(self, cluster: "Cluster", member: int, disk: SimDisk) -> None:
        self.cluster = cluster
        self.member = member
        self.disk = disk
        self.runner = StepRunner()
        self.wal = Wal(
            disk,
            "/data",
            post=self.runner.post,
            on_failure=fail,
            file_bytes=16_384,
            runner=self.runner,
        )
        self.wants_turn = False
        self.host = RaftHost(
            member, self.wal, self, host_settings(), cluster.random, self._begin_turn
        )
        sink = Sink()
        self.wal.open(sink)
        self.wal.attach(sink)
        self.wal.on_durable.append(self.host.on_durable)
        self.machine = Machine()
        point = SnapshotPoint(0, 0, 0, Config(VOTERS))
        self.restored = sink.log.restored(point)
        self.group: Group = self.host.add(UID, INCARNATION, self.restored, self.machine)
        for other in VOTERS:
            if other != member:
                self.host.add_peer(other)
                self.host.connected(other)

    def _begin_turn(self) -> None:
        self.wants_turn = True

    def send(self, member: int, lane: int, parts: list[bytes]) -> None:
        self.cluster.wire.append((self.member, member, b"".join(parts)))

    def is_full(self, member: int) -> bool:
        return False


class Cluster:
    """Three nodes, which do in turn what there is to do."""

    def __init__(self) -> None:
        self.random = Random(7)
        self.now_ms = 0
        self.wire: list[tuple[int, int, bytes]] = []
        self.nodes = [Node(self, member, SimDisk()) for member in VOTERS]

    def lose_power(self) -> None:
        """On all nodes at once, with what was on its way to the disks."""
        self.wire = []
        disks = [node.disk.crash(self.random) for node in self.nodes]
        self.nodes = [Node(self, member, disks[member - 1]) for member in VOTERS]

    def run(self, ticks: int) -> None:
        for _ in range(ticks):
            self.now_ms += TICK_MS
            for node in self.nodes:
                for other in VOTERS:
                    node.host.heard(other)
                node.host.tick(self.now_ms)
            for _ in range(20):
                self.turn()

    def turn(self) -> None:
        for node in self.nodes:
            if node.wants_turn:
                node.wants_turn = False
                node.host.end_turn()
            node.runner.settle()
        wire = self.wire
        self.wire = []
        for sender, to, batch in wire:
            self.nodes[to - 1].host.receive(sender, memoryview(batch))

    def leader(self) -> Node:
        for _ in range(100):
            for node in self.nodes:
                if node.group.is_leader:
                    return node
            self.run(5)
        raise AssertionError("no leader")


def fail(error: BaseException) -> None:
    raise AssertionError from error


def content(number: int) -> bytes:
    return b"%06d" % number + bytes(CONTENT_BYTES)


def test_all_that_was_committed_is_applied_again_after_power_was_lost_everywhere() -> None:
    cluster = Cluster()
    expected: list[bytes] = []
    for life in range(4):
        leader = cluster.leader()
        cluster.run(10)
        for number in range(100):
            expected.append(content(1000 * life + number))
            assert leader.group.propose([expected[-1][:3], expected[-1][3:]]) is not None
        cluster.run(10)
        assert [node.machine.commands for node in cluster.nodes] == [expected] * 3
        assert leader.machine.outcomes == [1] * 100
        leader.group.propose([b"under way"])
        leader.host.end_turn()
        leader.runner.write_once()
        cluster.lose_power()
        cluster.leader()
        cluster.run(20)
        found = cluster.nodes[0].machine.commands
        assert found[: len(expected)] == expected
        assert found[len(expected) :] in ([], [b"under way"])
        expected = list(found)


def test_members_come_to_rest_on_the_real_log() -> None:
    cluster = Cluster()
    cluster.leader()
    cluster.run(100)
    assert [node.host.hibernating_count for node in cluster.nodes] == [1, 1, 1]
    assert cluster.wire == []

"""Definitions as rows: what is loaded is the state at one entry, whatever crash came when."""

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from node.definition_rows import DefinitionRows
from queues import metadata_commands as commands
from queues.metadata import Metadata
from queues.metadata_commands import Command
from queues.metadata_rows import BATCH_BYTES
from queues.metadata_snapshot import BadSnapshot
from raft.log_group import METADATA_OWNER
from tests.sim.storage.sim_disk import Crashed, SimDisk
from tests.sim.storage.sim_keyed import SimKeyed
from tests.sim.storage.steps import StepRunner
from tests.unit.queues.metadata.histories import histories
from tests.unit.queues.metadata.steps import bind, declare_queue
from warren.storage.keyed import METADATA, Batch
from warren.storage.snapshot import SnapshotStore


class Group:
    """The log group as far as rows see it."""

    def __init__(self, snapshots: SnapshotStore) -> None:
        self.snapshot_index = 0
        self._snapshots = snapshots

    def load(self) -> bytes | None:
        found = self._snapshots.load(METADATA_OWNER)
        if found is None:
            return None
        self.snapshot_index, state = found
        return state

    def resume(self, index: int) -> None:
        self.snapshot_index = index

    kept = resume


class Life:
    """A process: it loads, replays the log behind that, applies and saves."""

    def __init__(
        self, disk: SimDisk, log: list[Command], batch_bytes: int = 100, save_entries: int = 1 << 60
    ) -> None:
        self.runner = StepRunner()
        keyed = SimKeyed(disk, self.runner)
        snapshots = SnapshotStore(keyed)
        self.rows = DefinitionRows(keyed, snapshots, save_entries, batch_bytes)
        self.group = Group(snapshots)
        self.machine = self.rows.load(self.group)
        self.loaded_index = self.machine.applied_index
        self._log = log
        for index in range(self.loaded_index, len(log)):
            self.machine.apply(index + 1, log[index])

    def do(self, command: Command) -> None:
        self._log.append(command)
        self.machine.apply(len(self._log), command)
        self.rows.applied(self.machine, self.group)

    def save(self) -> None:
        self.rows.save(self.machine, self.group)


def state_of(log: list[Command], count: int) -> bytes:
    """What the first entries of the log make."""
    machine = Metadata()
    for index in range(count):
        machine.apply(index + 1, log[index])
    return machine.snapshot()


@settings(max_examples=120, deadline=None)
@given(
    st.lists(st.lists(histories, min_size=1, max_size=12), min_size=1, max_size=5),
    st.sampled_from([40, 200, BATCH_BYTES]),
    st.integers(0, 60),
    st.integers(0, 1 << 30),
)
def test_a_crash_at_any_step_of_a_save_leaves_the_state_at_one_entry(
    parts: list[list[Command]], batch_bytes: int, crash_in: int, seed: int
) -> None:
    disk = SimDisk()
    log: list[Command] = []
    life = Life(disk, log, batch_bytes)
    disk.crash_in = crash_in
    told = 0
    try:
        for part in parts:
            for command in part:
                life.do(command)
            life.save()
            life.runner.settle()
            told = life.group.snapshot_index
    except Crashed:
        pass
    after = disk.crash(Random(seed))
    again = Life(after, log, batch_bytes)
    assert told <= again.loaded_index <= len(log)
    assert again.machine.snapshot() == state_of(log, len(log))
    again.save()
    again.runner.settle()
    last = Life(after, log, batch_bytes)
    assert last.loaded_index == len(log)
    assert last.machine.snapshot() == state_of(log, len(log))


def full_vhost(count: int) -> list[Command]:
    log: list[Command] = [commands.DeclareVhost("v")]
    for number in range(count):
        name = f"queue-{number}"
        log.append(commands.DeclareQueue("v", name))
        key = b"key"
        direct = commands.Bind("v", "amq.direct", bind("x", "q").destination_kind, name, key)
        log.append(direct)
    return log


def test_a_crash_between_any_two_batches_of_a_long_save_is_harmless() -> None:
    log = full_vhost(60)
    disk = SimDisk()
    life = Life(disk, log, 500)
    life.save()
    life.runner.settle()
    log.append(commands.DeleteVhost("v"))
    finished = False
    crash_in = 0
    while not finished:
        twin = disk.copy()
        life = Life(twin, log, 500)
        twin.crash_in = crash_in
        try:
            life.save()
            life.runner.settle()
            finished = True
        except Crashed:
            crash_in += 1
        for seed in range(5):
            # The next start may crash while it carries the rest of the save out.
            after = twin.crash(Random(seed))
            after.crash_in = seed
            try:
                Life(after, log, 500)
            except Crashed:
                after = after.crash(Random(seed))
            after.crash_in = -1
            again = Life(after, log, 500)
            assert again.loaded_index in (len(log) - 1, len(log))
            assert "v" not in again.machine.vhosts
            assert again.machine.snapshot() == state_of(log, len(log))
    assert crash_in > 10


def test_a_save_writes_what_has_changed_and_no_more() -> None:
    log: list[Command] = []
    disk = SimDisk()
    life = Life(disk, log, BATCH_BYTES)
    for number in range(500):
        life.do(declare_queue(f"q{number}"))
    life.save()
    life.runner.settle()
    life.do(declare_queue("one more"))
    life.do(commands.DeleteQueue("/", "q3"))
    written: list[Batch] = []
    disk.watch = lambda step: written.extend(disk.keyed.unsynced if step == "keyed_sync" else ())
    life.save()
    life.runner.settle()
    (batch,) = written
    assert [(key[:1], value is None) for _, key, value, _ in batch.operations] == [
        (b"v", False),
        (b"q", False),
        (b"q", True),
        (b"\0", False),
    ]


def test_saves_come_by_themselves_one_at_a_time() -> None:
    log: list[Command] = []
    disk = SimDisk()
    life = Life(disk, log, save_entries=30)
    for number in range(60):
        life.do(declare_queue(f"q{number}"))
    assert len(life.runner.saves) == 1
    life.runner.settle()
    assert life.group.snapshot_index == 21  # with the nine objects of a new machine
    life.do(declare_queue("another"))
    life.runner.settle()
    assert life.group.snapshot_index == 61
    assert Life(disk, log).loaded_index == 61


def test_the_snapshot_of_an_earlier_version_becomes_rows_with_the_first_save() -> None:
    log = full_vhost(30)
    old = Life(SimDisk(), log)
    disk = SimDisk()
    runner = StepRunner()
    told: list[bool] = []
    snapshots = SnapshotStore(SimKeyed(disk, runner))
    snapshots.save(METADATA_OWNER, len(log), [old.machine.snapshot()], lambda: told.append(True))
    runner.settle()
    life = Life(disk, log)
    assert life.loaded_index == len(log)
    life.do(declare_queue("new"))
    life.save()
    life.runner.settle()
    again = Life(disk, log)
    assert again.loaded_index == len(log)
    assert again.machine.snapshot() == life.machine.snapshot()
    assert SnapshotStore(SimKeyed(disk, runner)).load(METADATA_OWNER) is None


def test_rows_that_are_wrong_are_told() -> None:
    log = full_vhost(2)
    for key, value in (
        (b"\0", b"\x02"),
        (b"\0", b"\x01nonsense"),
        (b"q\0", b"nonsense"),
    ):
        disk = SimDisk()
        life = Life(disk, log)
        life.save()
        life.runner.settle()
        disk.keyed.written[METADATA][key] = value
        with pytest.raises(BadSnapshot):
            Life(disk, log)


def test_the_rows_of_a_queue_and_the_head_are_these_bytes() -> None:
    log: list[Command] = [declare_queue("q")]
    disk = SimDisk()
    life = Life(disk, log, BATCH_BYTES)
    life.save()
    life.runner.settle()
    rows = disk.keyed.durable[METADATA]
    assert rows[b"\0"].hex() == "01" + "96" + "01" + "01" + "1a" + "00" + "00" + "c400"
    assert rows[b"q" + (25).to_bytes(8, "big")].hex() == (
        "9c" + "19" + "a12f" + "a171" + "c2" + "a0" + "c2" + "c400" + "a26e31" + "90" + "000000"
    )

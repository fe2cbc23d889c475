"""What is written of the log outside of its directory, and the losses that it shows."""

import errno
from contextlib import suppress
from random import Random

import pytest

from tests.sim.storage.queues_model import Queues
from tests.sim.storage.sim_disk import Crashed, SimDisk
from tests.sim.storage.steps import StepRunner
from warren.storage.files import BLOCK_BYTES
from warren.storage.log_proof import LIST_OFFSETS, NAME, LogProof, decode_end, encode_end
from warren.storage.manifest import SEALED, Listed, encode, number_of
from warren.storage.recovery.recovery import RecoveryReport
from warren.storage.wal import Wal

PROOF = f"/{NAME}"
GROUP = 1
OWNERS = (10, 11)
EPOCHS = iter(range(1000, 1_000_000))


class Log:
    """A log with two queues, and its proof."""

    def __init__(self, disk: SimDisk, accepted: int = 0) -> None:
        self.disk = disk
        self.runner = StepRunner()
        self.failures: list[OSError] = []
        self.queues = Queues(set(OWNERS))
        self.queues.known_groups = {GROUP}
        self.queues.accepted_files = {GROUP: accepted}
        self.wal = Wal(
            disk,
            "/data",
            post=self.runner.post,
            on_failure=lambda error: pytest.fail(str(error)),
            file_bytes=16_384,
            slack_bytes=1 << 20,
            runner=self.runner,
            proof=LogProof(disk, "/", self.failures.append),
            draw_epoch=lambda: next(EPOCHS),
        )
        self.queues.wal = self.wal
        self.report: RecoveryReport = self.wal.open(self.queues)

    def publish(self, *owners: int) -> None:
        self.queues.publish_bodies(list(owners), [b"a body of some bytes"], 0)
        self.wal.flush()
        self.runner.settle()

    def prove(self) -> None:
        self.wal.prove()
        self.runner.settle()

    def hit(self) -> set[int]:
        return {hit.owner for hit in self.report.hits}

    @property
    def path(self) -> str:
        return self.wal.files[self.wal.active_file_id].path

    def zero_from(self, offset: int) -> None:
        content = self.disk.names[self.path].cached
        content[offset:] = bytes(len(content) - offset)


@pytest.fixture
def log() -> Log:
    """It has gone over to a file that was written before, so that it stays in this one."""
    fresh = Log(SimDisk())
    fresh.publish(10)
    fresh.publish(10)
    return fresh


def test_bytes_of_the_end_are_golden() -> None:
    found = encode_end(2, 0x01020304, 8192)
    assert found.hex() == (
        "57415252454e4c500100000004030201020000000000000000200000000000004d40972c"
    )
    assert decode_end(found) == (2, 0x01020304, 8192)


@pytest.mark.parametrize("place", range(36))
def test_damaged_end_is_not_believed(place: int) -> None:
    found = bytearray(encode_end(2, 7, 8192))
    found[place] ^= 4
    assert decode_end(bytes(found)) == (0, 0, 0)
    assert decode_end(bytes(found[:place])) == (0, 0, 0)


def test_zeros_over_the_proven_end_of_the_open_file_are_damage(log: Log) -> None:
    log.publish(10)
    proven = log.wal.active_bytes
    log.publish(11)
    log.prove()
    log.zero_from(proven)
    after = Log(log.disk.left_behind())
    assert [(bad.path, bad.offset) for bad in after.report.corrupt] == [(log.path, proven)]
    assert after.hit() == {*OWNERS, GROUP}
    assert after.report.torn is None
    again = Log(after.disk.left_behind())
    assert [bad.offset for bad in again.report.corrupt] == [proven], "the damage is still there"


def test_zeros_behind_the_proven_end_are_the_torn_end_of_a_crash(log: Log) -> None:
    log.publish(10)
    log.prove()
    proven = log.wal.active_bytes
    log.publish(11)
    log.zero_from(proven)
    after = Log(log.disk.left_behind())
    assert (after.report.corrupt, after.hit()) == ((), set())
    assert [len(after.queues.live[owner]) for owner in OWNERS] == [3, 0]


def test_damage_within_the_proven_part_is_found_and_a_torn_end_behind_it_is_cut(log: Log) -> None:
    log.publish(10)
    proven = log.wal.active_bytes
    log.publish(11)
    log.prove()
    end = log.wal.active_bytes
    log.publish(10)
    content = log.disk.names[log.path].cached
    content[proven : proven + 8] = bytes(8)
    content[end : end + 8] = b"\xff" * 8
    after = Log(log.disk.left_behind())
    assert [bad.offset for bad in after.report.corrupt] == [proven]


def test_whole_directory_of_the_log_lost_is_damage_of_every_queue_and_group(log: Log) -> None:
    log.publish(10)
    disk = log.disk.left_behind()
    for name in list(disk.names):
        if name.startswith("/data/"):
            del disk.names[name]
    after = Log(disk)
    assert {bad.reason for bad in after.report.corrupt} == {"is missing"}
    assert after.hit() == {*OWNERS, GROUP}
    again = Log(after.disk.left_behind())
    assert again.hit() >= set(OWNERS), "later starts miss them too"
    accepting = Log(again.disk.left_behind(), accepted=again.wal.active_file_id - 1)
    assert GROUP not in accepting.hit()


@pytest.mark.parametrize("place", LIST_OFFSETS)
def test_one_sound_copy_of_the_list_is_enough(log: Log, place: int) -> None:
    log.publish(11)
    disk = log.disk.left_behind()
    for name in list(disk.names):
        if name.startswith("/data/"):
            del disk.names[name]
    disk.names[PROOF].cached[place + 9] ^= 1
    assert Log(disk).hit() == {*OWNERS, GROUP}


def test_lost_list_of_files_alone_is_said_as_before(log: Log) -> None:
    log.publish(10)
    disk = log.disk.left_behind()
    del disk.names["/data/files.list"]
    after = Log(disk)
    assert "is missing, so that" in after.report.corrupt[0].reason
    assert after.hit() == set()


def test_log_without_a_proof_is_read_as_before(log: Log) -> None:
    log.publish(10)
    log.prove()
    disk = log.disk.left_behind()
    del disk.names[PROOF]
    after = Log(disk)
    assert after.report.corrupt == ()
    assert PROOF in disk.names, "and it has one from now on"


@pytest.mark.parametrize("place", [0, *LIST_OFFSETS])
def test_damaged_proof_is_ignored(log: Log, place: int) -> None:
    log.publish(10)
    log.prove()
    disk = log.disk.left_behind()
    disk.names[PROOF].cached[place + 9] ^= 1
    assert Log(disk).report.corrupt == ()


@pytest.mark.parametrize("call", ["create", "pwritev", "fsync", "rename", "fsync_directory"])
def test_proof_that_cannot_be_made_is_reported_once(call: str) -> None:
    disk = SimDisk()
    disk.failures[call] = OSError(errno.EIO, "broken")
    failures: list[OSError] = []
    proof = LogProof(disk, "/", failures.append)
    assert proof.load(number_of) == []
    proof.note_list(b"list")
    proof.note_list(b"list")
    proof.note_end(1, 2, BLOCK_BYTES)
    assert [failure.errno for failure in failures] == [errno.EIO]
    disk.failures.clear()
    fresh = LogProof(disk, "/", failures.append)
    fresh.load(number_of)
    fresh.note_list(b"list")
    fresh.close()
    assert len(failures) == 1
    again = LogProof(disk, "/")
    assert [each[:4] for each in again.load(number_of)] == [b"list"] * 2


def test_failing_write_of_the_end_is_reported_once(log: Log) -> None:
    log.publish(10)
    log.disk.failures["pwritev"] = OSError(errno.EIO, "broken")
    log.prove()
    log.disk.failures.clear()
    log.publish(10)
    log.prove()
    assert [failure.errno for failure in log.failures] == [errno.EIO]


def test_a_proof_that_cannot_be_synced_at_a_start_is_read_at_the_next() -> None:
    """What a killed process left in the cache may be lost: it proves nothing before a sync."""
    disk = SimDisk()
    LogProof(disk, "/").note_list(b"list")
    disk.failures["fsync"] = OSError(errno.EIO, "broken")
    with pytest.raises(OSError, match="broken"):
        LogProof(disk, "/").load(number_of)
    disk.failures.clear()
    assert LogProof(disk, "/").load(number_of)[0][:4] == b"list"


def listing(number: int) -> bytes:
    """A list of files that is longer than what a disk writes at once."""
    rows = [Listed(each, 7, True, SEALED, 4096 * number) for each in range(1, 200)]
    return encode(rows, number, False)


def write_torn(disk: SimDisk, number: int, crash_in: int) -> SimDisk:
    """Start on this disk, write the list, and cut the power at that step of the disk."""
    proof = LogProof(disk, "/")
    proof.load(number_of)
    disk.crash_in = crash_in
    with suppress(Crashed):
        proof.note_list(listing(number))
        proof.note_list(listing(number + 1))
    return disk


@pytest.mark.parametrize("second", range(6))
@pytest.mark.parametrize("first", range(6))
@pytest.mark.parametrize("is_killed", [False, True])
def test_two_crashes_leave_a_sound_copy(first: int, second: int, is_killed: bool) -> None:
    """After the first crash one copy may be torn, or be in the cache alone: the next process must
    not begin with the other one."""
    random = Random(first * 6 + second)
    for _ in range(20):
        disk = SimDisk()
        proof = LogProof(disk, "/")
        assert proof.load(number_of) == []
        proof.note_list(listing(1))
        write_torn(disk, 2, first)
        again = write_torn(disk.left_behind() if is_killed else disk.crash(random), 4, second)
        copies = LogProof(again.crash(random), "/").load(number_of)
        numbers = [number_of(copy) for copy in copies]
        assert max(numbers) >= 1, f"both copies are torn: crashes at steps {first} and {second}"

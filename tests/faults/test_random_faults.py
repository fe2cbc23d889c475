"""Random load over a disk on which random calls fail for a while; then the power goes.

Whatever fails in the background: nothing that was reported durable is lost, and once the disk is
well again the log has its reserve and owes nothing. `WARREN_FAULT_SEEDS=a:b` runs other seeds.
"""

import errno
import os
from random import Random

import pytest

from tests.faults.fault_disk import Call, Fault
from tests.faults.log_world import FILE_BYTES, OWNERS, LogWorld

STEPS = 200
OPERATIONS = ("create", "pwritev", "pread", "fsync", "fsync_directory", "rename", "unlink", "close")


def seeds() -> range:
    first, _, end = os.environ.get("WARREN_FAULT_SEEDS", "0:12").partition(":")
    return range(int(first), int(end))


def draw_fault(random: Random) -> Fault:
    """Some calls of one kind fail; writes of records seldom do, for that is the end."""
    operation = random.choice(OPERATIONS)
    after = random.random() < 0.02
    part = random.choice((0.2, 0.5, 1.0))

    def when(call: Call) -> bool:
        if call.operation != operation or random.random() > part:
            return False
        return after or not (call.dsync and call.name.startswith("wal-"))

    return Fault(
        when=when,
        errno=random.choice((errno.ENOSPC, errno.EIO)),
        short=random.random() < 0.3,
        nth=random.choice((1, 1, 2, 5)),
    )


def act(world: LogWorld, random: Random) -> None:
    """One piece of load, of work, or of bad luck."""
    choice = random.random()
    if choice < 0.30:
        world.publish(random.choice((1, 1, 3, 12)))
    elif choice < 0.45 and world.queues.live[OWNERS[0]]:
        world.settle(random.choice((0, 2, 10)))
    elif choice < 0.60:
        world.wal.flush()
    elif choice < 0.64:
        world.disk.faults.append(draw_fault(random))
    elif choice < 0.67:
        world.disk.faults.clear()
    elif choice < 0.70:
        world.wal.retry()
    else:
        for _ in range(10):
            world.runner.step(random)


@pytest.mark.parametrize("seed", seeds())
def test_whatever_fails_for_a_while_nothing_durable_is_lost(seed: int) -> None:
    random = Random(seed)
    world = LogWorld()
    world.open()
    for _ in range(2):
        for _ in range(STEPS):
            act(world, random)
            if world.failures:
                break
        for crash in range(3):
            world.crash(seed * 10 + crash)
        world.disk.faults.clear()
        if world.failures:
            assert all(isinstance(failure, OSError) for failure in world.failures)
            world = world.crash(seed)
            continue
        world.rest()
        for _ in range(3):  # What failed first may have hidden what comes after it.
            world.wal.retry()
            world.rest()
        assert world.wal.faults == {}
        for _ in range(FILE_BYTES // 1000):  # A spare may wait until a file is nearly full.
            if world.wal.reserve_count < 2 and world.bodies:
                world.publish(1)
                world.rest()
        assert world.wal.reserve_count >= 2 or not world.bodies
        world.assert_readable()
    world.crash(seed)

"""Logs that lost their first block, header and copy: records of an earlier life never count.

A world with files that are used again crashes; of what is left on its disk each log loses its
first block in turn. It is read by its own epoch, which is known here, or it is not read at all;
and it is read where a newer log has a record, for then it was full.

`WARREN_SIM_SEEDS=first:last` runs other seeds.
"""

import os
from contextlib import suppress

import pytest

from tests.sim.storage.queues_model import Queues
from tests.sim.storage.sim_disk import Crashed, SimDisk
from tests.sim.storage.world import DIRECTORY, World
from warren.storage.disk import Disk
from warren.storage.files import BLOCK_BYTES, WAL_PREFIX, FilePool, decode_header, id_of
from warren.storage.ledger import Ledger
from warren.storage.recovery.recovery import Recovery
from warren.storage.recovery.scan import Scan

FIRST, _, LAST = os.environ.get("WARREN_SIM_SEEDS", "0:25").partition(":")
CRASHES = 6
STEPS = 400


def crashed(world: World) -> SimDisk:
    """What a crash in the midst of load leaves on the disk."""
    world.disk.crash_in = world.random.randint(0, 300)
    with suppress(Crashed):
        world.load(STEPS)
    world.disk.crash_in = -1
    return world.disk.crash(world.random)


def recovered(disk: SimDisk, world: World) -> tuple[Ledger, Queues, list[str]]:
    """The books, the messages and the files that were reported as damaged."""
    queues = Queues(set(world.queues.known))
    pool = FilePool(disk, DIRECTORY, world.file_bytes, 6)
    ledger, report = Recovery(disk, DIRECTORY, pool).run(queues)
    return ledger, queues, [os.path.basename(bad.path) for bad in report.corrupt]


def epochs(disk: SimDisk) -> dict[str, int]:
    """Of all logs, by their names, the newest one last."""
    found: dict[str, int] = {}
    for name in disk.list(DIRECTORY):
        if name.startswith(WAL_PREFIX):
            header = decode_header(bytes(disk.names[f"{DIRECTORY}/{name}"].cached[:BLOCK_BYTES]))
            assert header is not None
            found[name] = header[1]
    return found


def begins_soundly(disk: Disk, name: str, epoch: int) -> bool:
    """Whether the first record of the file is of this life of it."""
    path = f"{DIRECTORY}/{name}"
    handle = disk.open(path)
    scan = Scan(disk, handle, path, disk.size(path), epoch)
    record = scan.read(BLOCK_BYTES)
    disk.close(handle)
    return record is not None


def lose_each(world: World, image: SimDisk) -> tuple[int, int]:
    """Every log without its first block; how many held an earlier life, how many were read."""
    lives = epochs(image)
    filled = {name: begins_soundly(image, name, epoch) for name, epoch in lives.items()}
    _, whole, _ = recovered(image.copy(), world)
    traps = read = 0
    for name, epoch in lives.items():
        disk = image.copy()
        disk.names[f"{DIRECTORY}/{name}"].cached[:BLOCK_BYTES] = bytes(BLOCK_BYTES)
        traps += not filled[name] and any(disk.names[f"{DIRECTORY}/{name}"].cached)
        ledger, queues, told = recovered(disk, world)
        assert told[0] == name
        file = ledger.files.get(id_of(name))
        if any(filled[newer] for newer in lives if newer > name):
            assert file is not None, f"{name} was full and is not read"
        if file is not None:
            read += 1
            assert file.epoch == epoch, f"{name} is read by the epoch of an earlier life"
            assert queues.live.keys() == whole.live.keys()
            for owner, held in whole.live.items():
                assert held.keys() == queues.live[owner].keys()
    return traps, read


def history(seed: int) -> tuple[int, int]:
    world = World(seed)
    traps = read = 0
    for _ in range(CRASHES):
        image = crashed(world)
        before = world.copy()
        found = lose_each(world, image)
        traps += found[0]
        read += found[1]
        world.durable_lsn = world.wal.durable_lsn
        before.durable_lsn = world.durable_lsn
        before.recover(image)
        world = before
    return traps, read


@pytest.mark.parametrize("seed", range(int(FIRST), int(LAST)))
def test_a_log_without_its_first_block_is_never_read_as_an_earlier_life_of_it(seed: int) -> None:
    history(seed)


def test_the_histories_have_both_kinds_of_logs() -> None:
    found = [history(seed) for seed in range(20)]
    assert sum(traps for traps, _ in found) > 5
    assert sum(read for _, read in found) > 5

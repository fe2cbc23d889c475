"""Files of the log that are removed, shortened or overwritten: no loss is hidden.

A world crashes in the midst of its load. Then each file of its log is lost in turn, in one of
these ways, and the log is recovered. Every queue and group that has less than it had in the whole
log must be named as hit, and the file must be named as damaged.

`WARREN_SIM_SEEDS=first:last` runs other seeds.
"""

import os
from contextlib import suppress
from dataclasses import replace
from random import Random

import pytest

from tests.sim.storage.members import Member, State, resolved
from tests.sim.storage.queues_model import Queues
from tests.sim.storage.sim_disk import Crashed, SimDisk
from tests.sim.storage.world import DIRECTORY, GROUP, PROOF_DIRECTORY, World
from warren.storage.files import BLOCK_BYTES, SEGMENT_PREFIX, WAL_PREFIX, FilePool
from warren.storage.log_proof import LogProof
from warren.storage.recovery.recovery import Recovery, RecoveryReport

FIRST, _, LAST = os.environ.get("WARREN_SIM_SEEDS", "0:25").partition(":")
CRASHES = 4
STEPS = 400


def recovered(disk: SimDisk, world: World) -> tuple[Queues, RecoveryReport]:
    queues = Queues(set(world.queues.known))
    queues.known_groups = set(world.members.all)
    queues.saved_indexes = {uid: member.point.index for uid, member in world.members.all.items()}
    pool = FilePool(disk, DIRECTORY, world.file_bytes, 6, LogProof(disk, PROOF_DIRECTORY))
    return queues, Recovery(disk, DIRECTORY, pool).run(queues)[1]


def remove(disk: SimDisk, path: str, random: Random) -> None:
    del disk.names[path]


def shorten(disk: SimDisk, path: str, random: Random) -> None:
    content = disk.names[path].cached
    del content[random.randrange(len(content)) :]


def overwrite(disk: SimDisk, path: str, random: Random) -> None:
    content = disk.names[path].cached
    content[BLOCK_BYTES:] = bytes(len(content) - BLOCK_BYTES)


def exchange(disk: SimDisk, path: str, random: Random) -> None:
    """By another file of the log."""
    others = [name for name in disk.names if is_log_file(name) and name != path]
    if others:
        disk.names[path].cached[:] = disk.names[random.choice(sorted(others))].cached


def is_log_file(path: str) -> bool:
    return os.path.basename(path).startswith((WAL_PREFIX, SEGMENT_PREFIX))


def lost_owners(world: World, whole: Queues, left: Queues) -> set[int]:
    """Queues and groups that have less than they had, apart from what their snapshots have."""
    lost = {
        owner
        for owner, held in whole.live.items()
        if confirmed(world, owner) & held.keys() - left.live[owner].keys()
    }
    durable_lsn, lsns = world.wal.durable_lsn, world.queues.entry_lsns
    entries = {index for index in whole.entries if lsns.get(index, 0) <= durable_lsn}
    if {index for index in entries if index > world.released} - left.entries.keys():
        lost.add(GROUP)
    for owner, member in world.members.all.items():
        if owner in whole.found_states and found(member, whole) != found(member, left):
            # A crash alone may have left that, if what is missing was not known to be durable.
            possible = [each.above(member.point) for each in member.possible(durable_lsn)]
            if without_content(found(member, left)) not in map(without_content, possible):
                lost.add(owner)
    return lost


def without_content(state: State) -> State:
    return replace(state, log=tuple((*item[:4], b"") for item in state.log))


def confirmed(world: World, owner: int) -> set[int]:
    durable_lsn = world.wal.durable_lsn
    return {seq for seq, held in world.queues.live[owner].items() if held.lsn <= durable_lsn}


def found(member: Member, queues: Queues) -> State:
    state = queues.found_states.get(member.owner, (1, 0, 0))
    return resolved(member.point, state, queues.found_entries.get(member.owner, []))


def lose_each(world: World, image: SimDisk) -> int:
    """How many losses were reported."""
    whole, before = recovered(image.copy(), world)
    assert before.corrupt == ()
    told = 0
    for path in sorted(filter(is_log_file, image.names)):
        for lose in (remove, shorten, overwrite, exchange):
            disk = image.copy()
            lose(disk, path, world.random)
            left, report = recovered(disk, world)
            lost = lost_owners(world, whole, left)
            hit = {each.owner for each in report.hits}
            assert lost <= hit, f"{lose.__name__} {path}: {lost - hit} lost, not told"
            if lost:
                assert path in {bad.path for bad in report.corrupt}
                told += 1
    return told + lose_all(world, image, whole)


def lose_all(world: World, image: SimDisk, whole: Queues) -> int:
    """The directory of the log: whether there was a loss, which must be reported."""
    disk = image.copy()
    for path in [path for path in disk.names if path.startswith(DIRECTORY)]:
        del disk.names[path]
    left, report = recovered(disk, world)
    lost = lost_owners(world, whole, left)
    assert lost <= {each.owner for each in report.hits}
    return len(lost) > 0


def crashed(world: World) -> SimDisk:
    world.disk.crash_in = world.random.randint(0, 300)
    with suppress(Crashed):
        world.load(STEPS)
    world.disk.crash_in = -1
    return world.disk.crash(world.random)


def history(seed: int) -> int:
    world = World(seed)
    told = 0
    for _ in range(CRASHES):
        image = crashed(world)
        before = world.copy()
        told += lose_each(world, image)
        before.durable_lsn = world.wal.durable_lsn
        before.recover(image)
        world = before
    return told


@pytest.mark.parametrize("seed", range(int(FIRST), int(LAST)))
def test_no_loss_of_a_file_is_hidden(seed: int) -> None:
    history(seed)


def test_files_with_live_records_are_lost_in_the_histories() -> None:
    assert sum(history(seed) for seed in range(5)) > 50

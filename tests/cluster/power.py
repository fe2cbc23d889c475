"""Nodes that lose their power while they write, some of them with a planted bug.

A kill alone loses nothing that was handed to the operating system. So disks are made slow first:
whatever is to be durable waits for `SLOW_MS` before it is written (`tests/faults/disk_faults.c`),
and a kill in that time loses it, as a power cut would. A broker that waits for its disk before it
promises anything loses nothing by that; one that does not is seen by the judge of the run.
"""

import asyncio
import os
import shutil
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.faults.nodes import build_library
from warren.testing.chaos.clients import Habits
from warren.testing.chaos.workload import Depth, Plan, QueuePlan, Workload
from warren.testing.history import Recorder, Verdict, judge, read
from warren.testing.node import PACKAGES_DIR

PATCHES: Final = Path(__file__).resolve().parent.parent / "sim" / "mutants"
PACKAGES: Final = ("warren", "raft", "queues", "federation", "node")
SLOW_MS: Final = 300
BEFORE: Final = 60  # messages confirmed while the disk is quick
UNDER_WAY: Final = 150  # and then while it is slow
PATIENCE_S: Final = 60.0
HABITS: Final = Habits(rate=300, window=400, patience_s=5, timeout_s=3)


def patched(folder: Path, patch: str) -> dict[str, str]:
    """The environment of nodes that run the sources with that patch of tests/sim/mutants."""
    place = folder / "patched"
    ignored = shutil.ignore_patterns("__pycache__", "*.so")
    for name in PACKAGES:
        shutil.copytree(PACKAGES_DIR / name, place / name, ignore=ignored)
    command = ["git", "apply", "-C1", "--recount", str(PATCHES / f"{patch}.patch")]
    environment = os.environ | {"GIT_CEILING_DIRECTORIES": str(folder)}
    done = subprocess.run(command, cwd=place, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, f"{patch} is stale: {done.stderr}"
    return {"PYTHONPATH": str(place)}


class Disks:
    """The disks of all nodes whose data is below one folder."""

    def __init__(self, folder: Path) -> None:
        self.data_dir = folder / "data"
        self._control = folder / "disk-faults"
        self._library = build_library(folder)

    def environment(self) -> dict[str, str]:
        """Of nodes that use them."""
        return {
            "LD_PRELOAD": str(self._library),
            "DISK_FAULTS": str(self._control),
            "DISK_FAULTS_UNDER": str(self.data_dir.resolve()),
        }

    def slow(self, *names: str) -> None:
        """Those whose path has one of these in it; all, if none is given."""
        lines = [f"sync {name} 0 {SLOW_MS} all\n" for name in names or (".",)]
        fresh = self._control.with_suffix(".new")
        fresh.write_text("".join(lines))
        fresh.replace(self._control)

    def quick(self) -> None:
        self._control.unlink(missing_ok=True)


@dataclass(frozen=True, slots=True)
class Supply:
    """What the power is taken from: where clients connect, and how it goes and comes back."""

    urls: Sequence[str]
    slow: Callable[[], None]
    cut: Callable[[], None]
    restore: Callable[[], None]
    depth: Depth


def lose_power(supply: Supply, queue: str, type_: str, path: Path) -> Verdict:
    """Publish with confirms, lose the power while much is under way, and take what is left."""
    with Recorder(path) as recorder:
        asyncio.run(_lose(supply, queue, type_, recorder))
    return judge(read(path))


async def _lose(supply: Supply, queue: str, type_: str, recorder: Recorder) -> None:
    # No client consumes before it is over: a consumed message cannot be lost any more.
    filling = Plan(queues=(QueuePlan(queue, type_, 2, 0),), habits=HABITS)
    async with Workload(supply.urls, filling, recorder) as workload:
        await _confirmed(workload, BEFORE)
        await asyncio.to_thread(supply.slow)
        await _confirmed(workload, workload.counts.confirmed + UNDER_WAY)
        recorder.fault("power", "all")
        await asyncio.to_thread(supply.cut)
    await asyncio.to_thread(supply.restore)
    recorder.healed("power", "all")
    emptying = Plan(queues=(QueuePlan(queue, type_, 0, 2),), habits=HABITS)
    async with Workload(supply.urls, emptying, recorder) as workload:
        await workload.finish(supply.depth, PATIENCE_S)


async def _confirmed(workload: Workload, count: int) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while workload.counts.confirmed < count:
            await asyncio.sleep(0.01)  # Counts have no notification.

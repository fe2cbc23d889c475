"""A follower with a slow disk, and clocks that jump: latency or an alarm, and never a loss."""

import os
import subprocess
from pathlib import Path
from typing import Final

import pytest

from tests.cluster.suffering import check, plan, suffer
from tests.conformance.programs import program
from tests.faults.nodes import build_library
from warren.testing import ClusterOfNodes
from warren.testing.chaos.timeline import Timeline

HERE: Final = Path(__file__).resolve().parent
LONG: Final = os.environ.get("WARREN_LONG") == "1"
JUMP_MS: Final = 3_600_000
SLOW_MS: Final = 100
pytestmark = [
    pytest.mark.timeout(240),
    pytest.mark.skipif(not LONG, reason="takes long: `make chaos` runs it"),
]


def clock_library(folder: Path) -> Path:
    """Compile the library that makes wall clocks jump."""
    path = folder / "clock_jump.so"
    source = str(HERE / "clock_jump.c")
    command = [program("gcc", "gcc"), "-shared", "-fPIC", "-O1", "-o", str(path), source]
    subprocess.run(command, check=True, timeout=60)
    return path


def test_a_slow_disk_of_one_follower_stops_nobody(tmp_path: Path) -> None:
    control = tmp_path / "faults"
    slow = {
        "LD_PRELOAD": str(build_library(tmp_path)),
        "DISK_FAULTS": str(control),
        "DISK_FAULTS_UNDER": str((tmp_path / "data" / "n3").resolve()),
    }
    with ClusterOfNodes(3, data_dir=tmp_path / "data", environment=slow) as cluster:
        verdict, before = suffer(cluster, plan("quick-disk"), tmp_path, (), seconds=5.0)
        check(verdict)
        control.write_text(f"sync . 0 {SLOW_MS} all\n")
        (tmp_path / "history.jsonl").unlink()
        verdict, seen = suffer(cluster, plan("slow-disk"), tmp_path, (), seconds=5.0)
        assert control.with_suffix(".hits").stat().st_size > 10
    check(verdict)
    assert median_ms(seen) < median_ms(before) + SLOW_MS / 2  # The other two are a majority.


def median_ms(seen: Timeline) -> float:
    """From publish to confirm, when the first second is over."""
    latencies = sorted(each for slot in seen.slots[1:] for each in slot.latencies_ms)
    return latencies[len(latencies) // 2]


@pytest.mark.parametrize("sign", [1, -1])
def test_a_clock_that_jumps_loses_nothing(tmp_path: Path, sign: int) -> None:
    control = tmp_path / "jump"
    jumpy = {"LD_PRELOAD": str(clock_library(tmp_path)), "CLOCK_JUMP": str(control)}
    with ClusterOfNodes(3, environment=jumpy) as cluster:
        verdict, _ = suffer(cluster, plan("before"), tmp_path, (), seconds=2.0)
        check(verdict)
        control.write_text(str(sign * JUMP_MS))
        (tmp_path / "history.jsonl").unlink()
        verdict, seen = suffer(cluster, plan("after"), tmp_path, (), seconds=4.0)
    check(verdict)
    assert not seen.leaders or len(seen.leaders) == 1  # No election was caused by it.

"""Run the simulations with fresh seeds for a long time, and say which seeds fail.

    tools/sim.py [--hours H] [--jobs N] [--seed N] [FOLDER OR FILE ...]     all, if none is named

Each round gives every simulation that knows WARREN_SIM_SEEDS some seeds that it has not had. A line
is printed for each failing seed, with the command that runs it again; it fails again, for nothing
but the seed decides what happens. Exit code 1 if there was one.
"""

import argparse
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from random import SystemRandom
from time import monotonic
from typing import Final

ROOT: Final = Path(__file__).resolve().parent.parent
SIMULATIONS: Final = ROOT / "tests" / "sim"
SEEDS_A_ROUND: Final = 10
LIMIT_S: Final = 900
FAILED: Final = re.compile(r"^(?:FAILED|ERROR) (\S+)\[(\d+)\](.*)$", re.MULTILINE)


def simulations(paths: list[Path]) -> list[Path]:
    """Test files that are run by seeds."""
    found: list[Path] = []
    for path in paths or [SIMULATIONS]:
        found += [path] if path.is_file() else sorted(path.rglob("test_*.py"))
    return [file.resolve() for file in found if "WARREN_SIM_SEEDS" in file.read_text("utf-8")]


def rounds(files: list[Path], first_seed: int, end_s: float) -> Iterator[tuple[Path, int]]:
    """(file, first seed) until the time is over."""
    seed = first_seed
    while True:
        for file in files:
            if monotonic() >= end_s:
                return
            yield file, seed
        seed += SEEDS_A_ROUND


def try_seeds(file: Path, first: int) -> tuple[int, int]:
    """(seeds that were run, seeds that failed). Says which."""
    name = file.relative_to(ROOT).as_posix()
    seeds = f"{first}:{first + SEEDS_A_ROUND}"
    command = [sys.executable, "-m", "pytest", "-p", "pytest_timeout", "--timeout", "300"]
    command += ["-q", "--tb=short", name]
    environment = os.environ | {"WARREN_SIM_SEEDS": seeds, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    try:
        ran = subprocess.run(
            command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=LIMIT_S
        )
    except subprocess.TimeoutExpired:
        print(f"{name} {seeds}: longer than {LIMIT_S} s", flush=True)
        return SEEDS_A_ROUND, 1
    failed = FAILED.findall(ran.stdout)
    for test, seed, why in failed:
        again = f"WARREN_SIM_SEEDS={seed}:{int(seed) + 1} python -m pytest {name}"
        print(f"{test} fails{why}\n    {again}", flush=True)
    if ran.returncode and not failed:
        print(f"{name} {seeds}: exit code {ran.returncode}\n{ran.stdout[-2000:]}", flush=True)
        return SEEDS_A_ROUND, 1
    return SEEDS_A_ROUND, len(failed)


def main() -> int:
    parser = argparse.ArgumentParser(description="Simulations with fresh seeds, for long.")
    parser.add_argument("paths", nargs="*", type=Path, help="folders or files; tests/sim, if none")
    parser.add_argument("--hours", type=float, default=1.0, help="how long (1)")
    parser.add_argument("--jobs", type=int, default=2, help="how many at a time (2)")
    parser.add_argument("--seed", type=int, help="the first seed; drawn, if not given")
    options = parser.parse_args()
    first_seed = options.seed if options.seed is not None else SystemRandom().randrange(1, 10**9)
    print(f"from seed {first_seed} on", flush=True)
    files = simulations(options.paths)
    assert files, "no simulations there"
    end_s = monotonic() + options.hours * 3600
    with ThreadPoolExecutor(options.jobs) as pool:
        work = rounds(files, first_seed, end_s)
        ran, failed = 0, 0
        # As many at a time as there are jobs: a round that is not begun may still be left out.
        while batch := [item for _, item in zip(range(options.jobs), work, strict=False)]:
            for count, wrong in pool.map(lambda item: try_seeds(*item), batch):
                ran, failed = ran + count, failed + wrong
    print(f"{ran} seeds, {failed} failed")
    return int(failed != 0)


if __name__ == "__main__":
    sys.exit(main())

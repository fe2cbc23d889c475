"""Whether the tests see planted faults: with each patch in tests/mutants some test must fail.

    tools/mutants.py [--jobs N] [PATCH ...]     all patches, if none is named

A patch begins with a header, one `Name: value` a line:

    Plants      what is wrong with it
    Dies in     the test file that must fail, and `::` and the test, if it is one
    Seeds       first:last, for a simulation (WARREN_SIM_SEEDS)
    Verdict     a regular expression for where and why: the innermost frame of the traceback

The sources are copied to a temporary folder, the patch is applied there and the tests are run. The
mutant is dead if they fail by that verdict. A patch that does not apply is stale, and a failure;
so is a mutant that survives, runs longer than the limit, or dies in another way.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from time import monotonic
from typing import Final

ROOT: Final = Path(__file__).resolve().parent.parent
PATCHES: Final = ROOT / "tests" / "mutants"
COPIED: Final = ("warren", "raft", "queues", "federation", "node", "tests", "pyproject.toml")
IGNORED: Final = shutil.ignore_patterns("__pycache__", "*.so", "conformance", "golden")
LIMIT_S: Final = 120
# The innermost frame of a short traceback, with its line of source, and what was raised there.
FAILURE: Final = re.compile(r"^(\S+:\d+: in .*\n(?:    .*\n)+(?:E .*\n)+)", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Mutant:
    """One patch. `verdict` is searched for in the reasons that pytest gives."""

    path: Path
    plants: str
    dies_in: str
    seeds: str
    verdict: str


def read(path: Path) -> Mutant:
    """Raises KeyError if the header is not whole."""
    fields: dict[str, str] = {}
    for line in path.read_text("utf-8").splitlines():
        name, colon, value = line.partition(": ")
        if not colon or line.startswith("---"):
            break
        fields[name] = value
    return Mutant(
        path, fields["Plants"], fields["Dies in"], fields.get("Seeds", ""), fields["Verdict"]
    )


def try_mutant(mutant: Mutant) -> str:
    """Why it is not dead; empty if it is."""
    with tempfile.TemporaryDirectory(prefix="warren-mutant-") as folder:
        place = Path(folder)
        for name in COPIED:
            source = ROOT / name
            if source.is_dir():
                shutil.copytree(source, place / name, ignore=IGNORED)
            else:
                shutil.copy(source, place / name)
        applied = run(["git", "apply", "-C1", "--recount", str(mutant.path)], place)
        if applied.returncode:
            return f"does not apply: {applied.stderr.strip()}"
        return judge(mutant, place)


def judge(mutant: Mutant, place: Path) -> str:
    """Run its tests, and look at how they fail."""
    command = [sys.executable, "-m", "pytest", "-x", "-q", "--tb=short", mutant.dies_in]
    try:
        tested = run(command, place, WARREN_SIM_SEEDS=mutant.seeds)
    except subprocess.TimeoutExpired:
        return f"ran longer than {LIMIT_S} s"
    if tested.returncode == 0:
        return "survives"
    reasons = FAILURE.findall(tested.stdout)
    if any(re.search(mutant.verdict, reason) for reason in reasons):
        return ""
    said = "; ".join(reasons) or tested.stdout[-500:] + tested.stderr[-500:]
    return f"fails with exit code {tested.returncode}, but not by its verdict: {said}"


def run(command: list[str], place: Path, **settings: str) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {name: value for name, value in settings.items() if value}
    environment["PYTHONPATH"] = str(place)
    environment["GIT_CEILING_DIRECTORIES"] = str(place.parent)
    return subprocess.run(
        command, cwd=place, env=environment, capture_output=True, text=True, timeout=LIMIT_S
    )


def report(mutant: Mutant) -> bool:
    """Try one and say what became of it; whether it is dead."""
    begun_s = monotonic()
    alive = try_mutant(mutant)
    took_s = monotonic() - begun_s
    print(f"{mutant.path.stem}: {alive or 'dead'} ({took_s:.1f} s)", flush=True)
    return not alive


def main() -> int:
    parser = argparse.ArgumentParser(description="Every planted fault must be found by the tests.")
    parser.add_argument("patches", nargs="*", type=Path, help="patch files; all, if none")
    parser.add_argument("--jobs", type=int, default=2, help="how many at a time (2)")
    options = parser.parse_args()
    paths = [path.resolve() for path in options.patches] or sorted(PATCHES.glob("*.patch"))
    mutants = [read(path) for path in paths]
    assert mutants, "no patches"
    with ThreadPoolExecutor(options.jobs) as pool:
        dead = sum(pool.map(report, mutants))
    print(f"{dead} of {len(mutants)} mutants are dead")
    return int(dead != len(mutants))


if __name__ == "__main__":
    sys.exit(main())

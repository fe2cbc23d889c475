"""Whether the tests see planted faults: with each patch in tests/sim/mutants some test must fail.

    tools/mutants.py [--jobs N] [--seed N] [--unpatched] [PATCH ...]     all, if none is named

A patch begins with a header, one `Name: value` a line:

    Plants      what is wrong with it
    Dies in     the test file that must fail, and `::` and the test, if it is one
    Seeds       first:last, for a simulation (WARREN_SIM_SEEDS); `--seed` is added to both
    Verdict     a regular expression for where and why: the innermost frame of the traceback

The sources are copied to a temporary folder, the patch is applied there and the tests are run. The
mutant is dead if they fail by that verdict. A patch that does not apply is stale, and a failure;
so is a mutant that survives, takes longer than the limit, or dies in another way. The limit is of
processor time: a machine that has other work kills no mutant.

One line is printed for each (name, file:line, the seed that killed it, seconds), and at the end
`killed N/N`. With `--unpatched` the sources as they are go through the same seeds afterwards: those
that the mutants lived through, and those that killed them.
"""

import argparse
import os
import re
import resource
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from time import monotonic
from typing import Final

ROOT: Final = Path(__file__).resolve().parent.parent
PATCHES: Final = ROOT / "tests" / "sim" / "mutants"
COPIED: Final = ("warren", "raft", "queues", "federation", "node", "tests", "pyproject.toml")
IGNORED: Final = shutil.ignore_patterns("*.so", "conformance", "golden")
LIMIT_S: Final = 120  # of processor time
UNPATCHED_LIMIT_S: Final = 1200
WALL_LIMIT_S: Final = 7200
# The innermost frame of a short traceback, with its line of source, and what was raised there.
FAILURE: Final = re.compile(r"^(\S+:\d+: in .*\n(?:    .*\n)+(?:E .*\n)+)", re.MULTILINE)
SEED: Final = re.compile(r"^(?:FAILED|ERROR) \S+\[(\d+)\]", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Mutant:
    """One patch. `verdict` is searched for in the reasons that pytest gives."""

    path: Path
    place: str  # file:line of the first change
    plants: str
    dies_in: str
    seeds: range  # empty: the test is not run by seeds
    verdict: str


@dataclass(frozen=True, slots=True)
class Outcome:
    """`alive`: why it is not dead; empty if it is. `seed`: what has killed it."""

    alive: str
    seed: str = "-"


def read(path: Path, base_seed: int) -> Mutant:
    """Raises KeyError if the header is not whole."""
    text = path.read_text("utf-8")
    fields: dict[str, str] = {}
    for line in text.splitlines():
        name, colon, value = line.partition(": ")
        if not colon or line.startswith("---"):
            break
        fields[name] = value
    first, _, last = fields.get("Seeds", "0:0").partition(":")
    shift = base_seed if "Seeds" in fields else 0
    seeds = range(int(first) + shift, int(last) + shift)
    return Mutant(
        path, place_of(text), fields["Plants"], fields["Dies in"], seeds, fields["Verdict"]
    )


def place_of(patch: str) -> str:
    """Where the first line is changed."""
    file, number = "", 0
    for line in patch.splitlines():
        if line.startswith("+++ b/"):
            file = line.removeprefix("+++ b/")
        elif line.startswith("@@ "):
            number = int(line.split()[1].removeprefix("-").partition(",")[0])
        elif file and number and line[:1] in ("+", "-"):
            break
        elif file and number:
            number += 1
    return f"{file}:{number}"


def copy_sources(place: Path) -> None:
    """With their times, and so with what Python has kept of them compiled (`__pycache__`)."""
    for name in COPIED:
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, place / name, ignore=IGNORED)
        else:
            shutil.copy2(source, place / name)


def try_mutant(mutant: Mutant) -> Outcome:
    with tempfile.TemporaryDirectory(prefix="warren-mutant-") as folder:
        place = Path(folder)
        copy_sources(place)
        applied = run(["git", "apply", "-C1", "--recount", str(mutant.path)], place, LIMIT_S)
        if applied.returncode:
            return Outcome(f"does not apply: {applied.stderr.strip()}")
        return judge(mutant, place)


def judge(mutant: Mutant, place: Path) -> Outcome:
    """Run its tests, and look at how they fail."""
    tested = run_tests(mutant.dies_in, mutant.seeds, place, LIMIT_S)
    if tested.returncode == 0:
        return Outcome("survives")
    if tested.returncode < 0:
        return Outcome(f"took longer than {LIMIT_S} s, or ended by signal {-tested.returncode}")
    reasons = FAILURE.findall(tested.stdout)
    if any(re.search(mutant.verdict, reason) for reason in reasons):
        seed = SEED.search(tested.stdout)
        return Outcome("", seed[1] if seed is not None else "-")
    said = "; ".join(reasons) or tested.stdout[-500:] + tested.stderr[-500:]
    return Outcome(f"fails with exit code {tested.returncode}, but not by its verdict: {said}")


def run_tests(
    tests: str, seeds: range, place: Path, limit_s: int
) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "pytest", "-x", "-q", "--tb=short", tests]
    given = f"{seeds.start}:{seeds.stop}" if seeds else ""
    return run(command, place, limit_s, WARREN_SIM_SEEDS=given)


def run(
    command: list[str], place: Path, limit_s: int, **settings: str
) -> subprocess.CompletedProcess[str]:
    """Ended by a signal if it takes more of a processor than `limit_s`."""
    environment = os.environ | {name: value for name, value in settings.items() if value}
    environment["PYTHONPATH"] = str(place)
    environment["GIT_CEILING_DIRECTORIES"] = str(place.parent)
    environment["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"  # They take most of the time.
    with subprocess.Popen(
        command,
        cwd=place,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        resource.prlimit(process.pid, resource.RLIMIT_CPU, (limit_s, limit_s))
        try:
            output, errors = process.communicate(timeout=WALL_LIMIT_S)
        except BaseException:
            process.kill()
            raise
    return subprocess.CompletedProcess(command, process.returncode, output, errors)


def report(mutant: Mutant) -> Outcome:
    """Try one and say what became of it."""
    begun_s = monotonic()
    outcome = try_mutant(mutant)
    took_s = monotonic() - begun_s
    fate = f"seed {outcome.seed}" if not outcome.alive else f"ALIVE: {outcome.alive}"
    print(f"{mutant.path.stem:40} {mutant.place:40} {fate:12} {took_s:5.1f} s", flush=True)
    return outcome


def passes_unpatched(spans: Iterable[tuple[str, range]]) -> bool:
    """Whether nothing fails where nothing is planted."""
    passes = True
    with tempfile.TemporaryDirectory(prefix="warren-unpatched-") as folder:
        copy_sources(Path(folder))
        for tests, seeds in spans:
            tested = run_tests(tests, seeds, Path(folder), UNPATCHED_LIMIT_S)
            if tested.returncode:
                passes = False
                print(f"{tests} fails without any patch:\n{tested.stdout[-4000:]}", flush=True)
            else:
                print(f"{tests} {seeds.start}:{seeds.stop} passes unpatched", flush=True)
    return passes


def spans_of(tried: Iterable[tuple[Mutant, Outcome]]) -> Iterator[tuple[str, range]]:
    """(tests, seeds) that were run with some patch, each once."""
    wanted: dict[str, set[int]] = {}
    for mutant, outcome in tried:
        killer = int(outcome.seed) if outcome.seed.isdigit() else mutant.seeds.stop - 1
        ran = range(mutant.seeds.start, killer + 1) if mutant.seeds else ()
        wanted.setdefault(mutant.dies_in, set()).update(ran)
    for tests, seeds in sorted(wanted.items()):
        if not seeds:
            yield tests, range(0)
        for first in sorted(seed for seed in seeds if seed - 1 not in seeds):
            last = first
            while last in seeds:
                last += 1
            yield tests, range(first, last)


def chosen(paths: Sequence[Path], base_seed: int) -> list[Mutant]:
    named = [path.resolve() for path in paths] or sorted(PATCHES.glob("*.patch"))
    mutants = [read(path, base_seed) for path in named]
    assert mutants, "no patches"
    return mutants


def main() -> int:
    parser = argparse.ArgumentParser(description="Every planted fault must be found by the tests.")
    parser.add_argument("patches", nargs="*", type=Path, help="patch files; all, if none")
    parser.add_argument("--jobs", type=int, default=2, help="how many at a time (2)")
    parser.add_argument("--seed", type=int, default=0, help="added to the seeds of all (0)")
    parser.add_argument("--unpatched", action="store_true", help="then the unpatched sources, too")
    options = parser.parse_args()
    mutants = chosen(options.patches, options.seed)
    with ThreadPoolExecutor(options.jobs) as pool:
        outcomes = list(pool.map(report, mutants))
    spans = spans_of(zip(mutants, outcomes, strict=True))
    passes = not options.unpatched or passes_unpatched(spans)
    dead = sum(not outcome.alive for outcome in outcomes)
    print(f"killed {dead}/{len(mutants)}")
    return int(dead != len(mutants) or not passes)


if __name__ == "__main__":
    sys.exit(main())

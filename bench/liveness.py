"""What stays unacknowledged among millions keeps little on disk: `python -m bench.liveness --help`.

Each case runs a load of `vgen` on a fresh node and looks, all the time, at what is on disk beside
what is alive. The bound: full files of the log, segments in the making included, take no more than
three times the live records and two files; the active file and the reserve come on top of that.
`many` and `turn` have 10,000 queues with a little alive in each: no confirm of theirs may take more
than a second, and they must reach half of what `one` does in the same call.

Prints a JSON object for each case, with each bound and whether it was kept, and a table of these at
the end; the exit code is 1 if one was not. All cases together take at most `--minutes`: a case that
would take longer than its share of what is left ends there, and says so (`cut_short`).
"""

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from bench.run import HERE, ROOT, Warren, machine
from bench.turns import LOG_TURNS, Turns
from warren.testing.http_api import HttpApi

LOOK_SECONDS: Final = 0.25
FAMILY: Final = "warren_log_metrics"
PATIENCE_SECONDS: Final = 3600.0
SLACK_FILES: Final = 2
CONFIRM_MS_MAX: Final = 1000.0  # of any confirm in `many` and `turn`
SHARE_MIN: Final = 0.5  # of what `one` publishes, for these
ONE: Final = "one"
HELD_AGAINST_ONE: Final = ("many", "turn")
REST_SECONDS: Final = 15.0  # of a case: its node starts, queues are declared, it stops
CASE_SECONDS_MIN: Final = 5.0
STREAM: Final = "--consumers 1 --window 1000 --prefetch 2000"
FILL: Final = "--connections 0 --duration 0 --warmup 0 --keep"


@dataclass(frozen=True, slots=True)
class Case:
    """A load, and what is there before it."""

    name: str
    count: int  # messages
    load: str  # options of vgen
    before: str = ""


CASES: Final = (
    Case("one", 2_000_000, f"{STREAM} --size 1024"),
    Case("head", 5_000_000, f"{STREAM} --size 1024 --leave 1000000000000"),
    Case("scattered", 20_000_000, f"{STREAM} --size 1024 --leave 50000"),
    Case("scattered-12", 20_000_000, f"{STREAM} --size 12 --leave 50000"),
    Case("dense", 2_000_000, f"{STREAM} --size 1024 --leave 10 --prefetch 0"),
    Case("lazy", 5_000_000, f"{STREAM} --size 1024 --leave 50000 --qarg x-queue-mode=lazy"),
    Case("quorum", 5_000_000, f"{STREAM} --size 1024 --leave 50000 --qarg x-queue-type=quorum"),
    Case("fanout", 3_000_000, "--exchange fanout --queues 3 --consumers 3 --leave 50000"
         " --window 1000 --prefetch 2000 --size 1024"),
    Case("many", 2_000_000, f"{STREAM} --size 1024",
         f"{FILL} --queues 10000 --prefill 30000 --size 1024"),
    Case("turn", 2_000_000, f"{STREAM} --size 1024 --queues 10000 --leave 100 --prefetch 0"),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Bound:
    """What was asked for, and what was found."""

    what: str
    asked: float
    found: float
    is_least: bool = False  # `asked` is the least, not the most

    @property
    def kept(self) -> bool:
        return self.found >= self.asked if self.is_least else self.found <= self.asked

    def row(self) -> dict[str, Any]:
        sign = ">=" if self.is_least else "<="
        what = f"{self.what} {sign} {self.asked:g}"
        return {"what": what, "found": self.found, "kept": self.kept}


@dataclass
class Watch:
    """Looks at a node until told to stop: the worst that it has seen."""

    api: HttpApi
    folder: Path  # of the log
    file_bytes: int
    looks: int = 0
    excess_bytes: int = -(1 << 62)  # of full files, over three times the live records
    disk_bytes_max: int = 0  # of everything in the folder
    live_bytes: int = 0  # at the end
    stopping: threading.Event = field(default_factory=threading.Event)

    def run(self) -> None:
        while not self.stopping.wait(LOOK_SECONDS):
            self.look()

    def look(self) -> None:
        values = scrape(self.api)
        sizes = on_disk(self.folder)
        full = values['warren_wal_bytes{kind="log"}'] + values['warren_wal_bytes{kind="segment"}']
        self.live_bytes = int(values["warren_wal_live_record_bytes"])
        excess = int(full) - self.file_bytes - 3 * self.live_bytes
        making = sum(size for name, size in sizes.items() if name.startswith("tmp-"))
        if making < self.file_bytes:  # A reserve in the making has its full size at once.
            excess += making
        self.excess_bytes = max(self.excess_bytes, excess)
        self.disk_bytes_max = max(self.disk_bytes_max, sum(sizes.values()))
        self.looks += 1


def scrape(api: HttpApi) -> dict[str, float]:
    """All plain values of the metrics; of the log and the loop alone, for a look at each of 10,000
    queues would take a third of the time of what is measured."""
    text = api.text(f"/metrics/detailed?family={FAMILY}")
    lines = [line.rsplit(" ", 1) for line in text.splitlines() if not line.startswith("#")]
    return {name: float(value) for name, value in lines}


def slowest_sync_ms(values: dict[str, float]) -> float:
    """Upper bound of the bucket of the slowest write and sync of the log, which confirms wait for;
    infinite if there is none."""
    mark = 'warren_wal_sync_seconds_bucket{le="'
    counts = {
        name[len(mark) : -2]: count for name, count in values.items() if name.startswith(mark)
    }
    of_all = counts["+Inf"]
    return min(1000 * float(bound) for bound, count in counts.items() if count == of_all)


def on_disk(folder: Path) -> dict[str, int]:
    """Bytes of the files of the log, by name; those that go meanwhile are left out."""
    found: dict[str, int] = {}
    for path in folder.iterdir():
        try:
            found[path.name] = path.stat().st_blocks * 512
        except FileNotFoundError:
            continue
    return found


def generate(broker: Warren, words: str) -> dict[str, Any]:
    """Run vgen; its answer."""
    command = [str(HERE / "vgen"), "--port", str(broker.port), "--pids", str(broker.pid())]
    done = subprocess.run(
        [*command, *words.split()],
        stdout=subprocess.PIPE,
        text=True,
        timeout=PATIENCE_SECONDS,
        check=True,
    )
    answer: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
    return answer


def bounds_of(case: Case, found: dict[str, Any], one_per_s: float) -> list[Bound]:
    """What a case must keep; `one_per_s` is what `one` has published, 0 if it has not run."""
    bounds = [Bound("files over three times the live records", SLACK_FILES, found["excess_files"])]
    if case.name in HELD_AGAINST_ONE:
        slowest = found["confirm_p50_p99_max_ms"][2]
        bounds.append(Bound("slowest confirm, ms", CONFIRM_MS_MAX, slowest))
        if one_per_s > 0:
            share = round(found["published_per_s"] / one_per_s, 2)
            bounds.append(Bound("share of what one publishes", SHARE_MIN, share, True))
    return bounds


def run_case(
    case: Case, broker: Warren, data: Path, options: argparse.Namespace, seconds: float
) -> dict[str, Any]:
    """Run the load, no longer than this, and look."""
    api = HttpApi(f"http://127.0.0.1:{broker.management_port}")
    watch = Watch(api, data / "log", options.file_bytes)
    if case.before:
        generate(broker, case.before)
    thread = threading.Thread(target=watch.run)
    turns = Turns(broker.management_port, broker.log)
    turns.begin()
    thread.start()
    count = max(1000, int(case.count * options.scale))
    try:
        bound = f"--count {count} --duration {seconds:.0f}"
        answer = generate(broker, f"{case.load} {bound} --warmup 0 --keep")
    finally:
        watch.stopping.set()
        thread.join()
        found = turns.end()
    values = scrape(api)
    return {
        "case": case.name,
        "messages": answer["confirmed"],
        "cut_short": answer["confirmed"] < count,
        "seconds": round(answer["seconds"], 1),
        "published_per_s": answer["pub_per_s"],
        "confirm_p50_p99_max_ms": answer["conf_ms"],
        "slowest_sync_ms": slowest_sync_ms(values),
        "broker_cpu_us": round(answer["broker_cpu_pct"] * 1e4 / max(answer["pub_per_s"], 1), 2),
        "broker_rss_mb": answer["broker_rss_end_mb"],
        **found,
        "live_mb": round(watch.live_bytes / 1e6, 2),
        "disk_mb_max": round(watch.disk_bytes_max / 1e6),
        "excess_files": round(watch.excess_bytes / options.file_bytes, 2),
        "looks": watch.looks,
        "rewritten_mb": round(values["warren_wal_rewritten_bytes_total"] / 1e6, 2),
        "compactions": values["warren_wal_compactions_finished_total"],
        "behind_seconds": round(values["warren_wal_behind_seconds_total"], 2),
    }


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--python", type=Path, default=ROOT / ".venv-compiled/bin/python")
    parser.add_argument("--cases", default="", help="comma-separated names; default all")
    parser.add_argument("--scale", type=float, default=1.0, help="share of the messages")
    parser.add_argument("--minutes", type=float, default=30.0, help="of all cases together")
    parser.add_argument("--file-bytes", type=int, default=128 << 20, help="of a file of the log")
    parser.add_argument("--port", type=int, default=0, help="of the node; default as in run.py")
    parser.add_argument("--data", type=Path, help="folder on the disk to measure")
    parser.add_argument("--set", action="append", default=[], help="KEY=VALUE for Warren")
    return parser.parse_args(arguments)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the cases, each on a node of its own."""
    options = parse(arguments)
    names = set(filter(None, options.cases.split(","))) or {case.name for case in CASES}
    unknown = names - {case.name for case in CASES}
    if unknown:
        raise SystemExit(f"no case is called {', '.join(sorted(unknown))}")
    subprocess.run(["make", "-s", "-C", str(HERE)], check=True)
    folder = Path(tempfile.mkdtemp(prefix="warren-liveness-", dir=options.data))
    settings = [LOG_TURNS, *options.set, f"storage.wal_file_bytes={options.file_bytes}"]
    broker = Warren(options.python.absolute(), folder, settings)
    if options.port:
        broker.port, broker.management_port = options.port, options.port + 1
    print(machine(), time.strftime("%Y-%m-%d"))
    try:
        judged = run_cases([case for case in CASES if case.name in names], broker, folder, options)
    finally:
        broker.stop()
        shutil.rmtree(folder, ignore_errors=True)
    for name, bound in judged:
        row = bound.row()
        print(f"{name:13} {row['what']:45} {bound.found:8g}  {'kept' if bound.kept else 'BROKEN'}")
    return 0 if all(bound.kept for _, bound in judged) else 1


def run_cases(
    cases: Sequence[Case], broker: Warren, folder: Path, options: argparse.Namespace
) -> list[tuple[str, Bound]]:
    """Each on a fresh node, in its share of the time that is left."""
    until = time.monotonic() + 60 * options.minutes
    judged: list[tuple[str, Bound]] = []
    one_per_s = 0.0
    for place, case in enumerate(cases):
        share = (until - time.monotonic()) / (len(cases) - place) - REST_SECONDS
        broker.start()
        found = run_case(case, broker, folder / "warren", options, max(share, CASE_SECONDS_MIN))
        broker.stop()
        if case.name == ONE:
            one_per_s = found["published_per_s"]
        bounds = bounds_of(case, found, one_per_s)
        judged += [(case.name, bound) for bound in bounds]
        print(json.dumps(found | {"bounds": [bound.row() for bound in bounds]}), flush=True)
    return judged


if __name__ == "__main__":
    sys.exit(main())

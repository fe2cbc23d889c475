"""Warren and RabbitMQ measured side by side: `run.py --help`; see README.md.

Both brokers are started fresh, on empty data, and the rows of the speed table are run on them in
turn, A B A B ..., so that a slow minute of the machine hits both. A figure is the median of the
rounds with its spread. Writes a markdown table to stdout, the raw results to `results/`.
"""

import argparse
import json
import os
import platform
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final, Protocol

import psutil

from warren.testing.http_api import HttpApi

HERE: Final = Path(__file__).resolve().parent
ROOT: Final = HERE.parent
RMQ_TAG: Final = "bench"
RMQ_BASE_PORT: Final = 5800


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the table: a generator (`bgen` or `vgen`) and its options."""

    name: str
    generator: str
    options: str
    anchor_is_quorum: bool = False  # Only RabbitMQ's quorum queues confirm after an fsync.
    figure: str = "pub_per_s"  # What the ratio compares, by its name in the generator's answer.


QUEUE: Final = "--declare bench:classic --fresh --queue bench --delete-after --producers 1"
MAIN_ROWS: Final = (
    Row("t12", "bgen", f"{QUEUE} --transient --nonpersistent --window 0 --size 12"),
    Row("d12", "bgen", f"{QUEUE} --window 1000 --size 12"),
    Row("d1k", "bgen", f"{QUEUE} --window 1000 --size 1024"),
    Row(
        "d1k-pubsub",
        "bgen",
        f"{QUEUE} --consumers 1 --window 1000 --size 1024 --prefetch 1000 --ack 100",
    ),
    Row("w1", "bgen", f"{QUEUE} --window 1 --size 1024", anchor_is_quorum=True),
    Row(
        "l5k",
        "bgen",
        f"{QUEUE} --consumers 1 --window 1000 --size 1024 --prefetch 1000 --ack 20 --rate 5000",
        anchor_is_quorum=True,
    ),
)
VARY_ROWS: Final = (
    Row("same", "vgen", "--window 1000 --size 12"),
    Row("keys-100", "vgen", "--window 1000 --size 12 --queues 100"),
    Row("properties", "vgen", "--window 1000 --size 12 --vary"),
    Row("sizes-0-64k", "vgen", "--window 100 --size 0:65536 --vary"),
    Row("one-per-write", "vgen", "--window 1000 --size 12 --one-per-write"),
    Row("connections-10", "vgen", "--connections 10 --window 100 --size 12"),
    Row("connections-100", "vgen", "--connections 100 --window 10 --size 12"),
    Row("connections-1000", "vgen", "--connections 1000 --window 1 --size 12"),
    Row("queues-1000", "vgen", "--window 1000 --size 12 --queues 1000"),
    Row("fanout-10", "vgen", "--window 1000 --size 12 --exchange fanout --queues 10"),
    Row("topic-10", "vgen", "--window 1000 --size 12 --exchange topic --queues 10 --bindings 10"),
    Row(
        "topic-10000",
        "vgen",
        "--window 1000 --size 12 --exchange topic --queues 10 --bindings 10000",
    ),
    Row(
        "all-at-once",
        "vgen",
        "--connections 10 --consumers 10 --window 100 --size 0:4096 --vary --queues 50 --ack 50",
    ),
)
FLOW: Final = "--window 1000 --consumers 1"
SIZES: Final = (("12", 12), ("1k", 1024))  # what a row's name ends in, bytes of a body


def sized(
    name: str, options: str, figure: str = "pub_per_s", sizes: Sequence[tuple[str, int]] = SIZES
) -> list[Row]:
    """A row of vgen for each size of body."""
    return [
        Row(f"{name}-{word}", "vgen", f"{options} --size {size}", figure=figure)
        for word, size in sizes
    ]


REFUSED: Final = "--window 1000 --qarg x-max-length=1000 --qarg x-overflow=reject-publish"
OPTION_ROWS: Final = (
    *sized("plain", FLOW),
    *sized("ttl", f"{FLOW} --qarg x-message-ttl=60000"),
    *sized("expiration", f"{FLOW} --expiration 60000:120000"),
    *sized("prio10", f"{FLOW} --qarg x-max-priority=10 --priorities 10"),
    *sized("maxlen", "--window 1000 --qarg x-max-length=10000"),
    *sized("dlx-ttl", f"{FLOW} --dead-letters --qarg x-message-ttl=0", "sub_per_s"),
    *sized("dlx-maxlen", f"{FLOW} --dead-letters --qarg x-max-length=0", "sub_per_s"),
    *sized("reject-publish", REFUSED, "nack_per_s"),
    *sized("mandatory", "--window 1000 --mandatory --key nowhere", "return_per_s"),
    *sized("chash100", f"{FLOW} --exchange hash --queues 100"),
    *sized("consumers1000", "--window 1000 --consumers 10 --subscriptions 100 --prefetch 10"),
    *sized("get", "--connections 0 --consumers 10 --get --ack 1 --prefill 200000", "sub_per_s"),
    *sized("quorum1", f"{FLOW} --qarg x-queue-type=quorum"),
)
SINGLE: Final = "--connections 0 --subscriptions 1 --prefetch 1 --ack 1 --prefill 600000"
LONE_ROWS: Final = (
    *sized("in-flight-1", "--connections 100 --window 1", sizes=SIZES[:1]),
    *sized("prefetch-1-by-1", f"{SINGLE} --consumers 1", "sub_per_s", SIZES[:1]),
    *sized("prefetch-1-by-10", f"{SINGLE} --consumers 10", "sub_per_s", SIZES[:1]),
    *sized("get-empty", "--connections 0 --consumers 10 --get", "empty_per_s", SIZES[:1]),
    *sized("channels-100", "--channels 100 --window 10", sizes=SIZES[:1]),
    *sized("headers-2", f"{FLOW} --exchange headers --queues 2", sizes=SIZES[:1]),
)


class Broker(Protocol):
    """A broker process that the rows are run on."""

    name: str
    port: int

    def start(self) -> float: ...
    def pid(self) -> int: ...
    def stop(self) -> None: ...


class Warren:
    """A Warren node of a given interpreter's environment, on fresh data."""

    def __init__(self, python: Path, folder: Path, settings: Sequence[str]) -> None:
        self.name = "warren"
        self.port = 5900
        self.management_port = 15900
        self.build = ""
        self._python = python
        self._folder = folder
        self._settings = settings
        self._process: subprocess.Popen[str] | None = None

    @property
    def log(self) -> Path:
        """The node's log."""
        return self._folder / "warren.log"

    def start(self) -> float:
        """Start on empty data; seconds until the ready line."""
        data = self._folder / "warren"
        shutil.rmtree(data, ignore_errors=True)
        data.mkdir(parents=True)
        return self.start_again()

    def start_again(self) -> float:
        """The same on the data that there is."""
        data = self._folder / "warren"
        command = [str(self._python), "-P", "-m", "node", "server", "--name", "bench"]
        command += ["--data", str(data), "--listen", f"127.0.0.1:{self.port}"]
        command += ["--management", f"127.0.0.1:{self.management_port}"]
        for setting in self._settings:
            command += ["--set", setting]
        begun = time.monotonic()
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                command, cwd=self._folder, stdout=subprocess.PIPE, stderr=log, text=True
            )
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line.startswith("ready "):
            raise SystemExit(f"Warren did not start; see {self.log}")
        self.build = line.split("build=")[-1].strip()
        return time.monotonic() - begun

    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def management_get(self) -> None:
        """One GET of the overview, as the start row asks for."""
        HttpApi(f"http://127.0.0.1:{self.management_port}").get("/overview")

    def stop(self) -> None:
        if self._process is not None and self._process.poll() is None:
            self._process.terminate()
            self._process.wait(30)


class RabbitMQ:
    """A RabbitMQ node by `rmq.sh`, out of the chroot that `RMQ_ROOT` names, if any."""

    def __init__(self) -> None:
        self.name = "rabbitmq"
        self.port = RMQ_BASE_PORT + 1
        self._environment = os.environ | {
            "RMQ_TAG": RMQ_TAG,
            "RMQ_BASE": str(RMQ_BASE_PORT),
            "RMQ_DATA": os.environ.get("RMQ_DATA", "/var/tmp/warren-bench-rmq"),
            "RMQ_PLUGINS": "rabbitmq_consistent_hash_exchange",
        }

    def start(self) -> float:
        """Start on empty data; seconds until TCP connections are accepted."""
        self._script("wipe")
        begun = time.monotonic()
        self._script("start")
        return time.monotonic() - begun

    def pid(self) -> int:
        return int(self._script("pid"))

    def stop(self) -> None:
        pid = self.pid()
        self._script("stop")
        psutil.wait_procs([psutil.Process(pid)] if psutil.pid_exists(pid) else [], timeout=30)

    def _script(self, command: str) -> str:
        # Through a file: the shell that `start` leaves behind would keep a pipe open.
        with tempfile.TemporaryFile("w+") as output:
            subprocess.run(
                ["sh", str(HERE / "rmq.sh"), command, "1"],
                env=self._environment,
                stdout=output,
                timeout=90,
                check=True,
            )
            output.seek(0)
            return output.read()


@dataclass
class Figures:
    """What the rounds of one row on one broker gave."""

    compared: list[float] = field(default_factory=list)  # the row's `figure`
    published_per_s: list[float] = field(default_factory=list)
    consumed_per_s: list[float] = field(default_factory=list)
    cpu_us_per_message: list[float] = field(default_factory=list)
    confirm_ms: list[list[float]] = field(default_factory=list)  # p50, p99, max of each round
    end_to_end_ms: list[list[float]] = field(default_factory=list)
    rss_mb: list[float] = field(default_factory=list)


class RowFailed(Exception):
    """A generator gave up: the broker refused something, or went away."""


def run_row(row: Row, broker: Broker, options: argparse.Namespace) -> dict[str, Any]:
    """Run one row once; the generator's JSON object."""
    words = row.options
    if row.anchor_is_quorum and broker.name == "rabbitmq":
        words = words.replace("bench:classic", "bench:quorum")
    command = [str(HERE / row.generator), "--port", str(broker.port), *words.split()]
    command += ["--pids", str(broker.pid()), "--warmup", str(options.warmup)]
    # bgen counts its warm-up as part of the duration, vgen does not.
    seconds = options.seconds + (options.warmup if row.generator == "bgen" else 0)
    command += ["--duration", str(seconds)]
    done = subprocess.run(
        command, stdout=subprocess.PIPE, text=True, timeout=seconds + 120, check=False
    )
    if done.returncode not in (0, 3) or not done.stdout.strip():
        raise RowFailed(f"{' '.join(command)} failed with code {done.returncode}")
    answer: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
    return answer


def note(row: Row, figures: Figures, result: dict[str, Any]) -> None:
    """Add one round to the figures of its row."""
    rate = float(result[row.figure])
    figures.compared.append(rate)
    figures.published_per_s.append(float(result["pub_per_s"]))
    figures.consumed_per_s.append(float(result["sub_per_s"]))
    if rate:
        figures.cpu_us_per_message.append(float(result["broker_cpu_pct"]) / 100 / rate * 1e6)
    figures.confirm_ms.append(result["conf_ms"])
    if "e2e_ms" in result:
        figures.end_to_end_ms.append(result["e2e_ms"])
    figures.rss_mb.append(float(result["broker_rss_end_mb"]))


def spread(values: Sequence[float], digits: int = 0) -> str:
    """Median and range, as in `1,234 (1,100-1,300)`."""
    if not values or not any(values):
        return "-"
    low, middle, high = min(values), statistics.median(values), max(values)
    if len(values) == 1:
        return f"{middle:,.{digits}f}"
    return f"{middle:,.{digits}f} ({low:,.{digits}f}-{high:,.{digits}f})"


def percentiles(values: Sequence[Sequence[float]]) -> str:
    """Median over the rounds of p50 and of p99."""
    if not values or not any(any(value) for value in values):
        return "-"
    return "/".join(f"{statistics.median(v[i] for v in values):.2f}" for i in (0, 1))


def table(results: dict[str, dict[str, Figures]]) -> str:
    """The markdown table of all rows and brokers."""
    lines = [
        "| row | broker | compared/s | published/s | consumed/s | CPU us/message"
        " | confirm p50/p99 ms | end to end p50/p99 ms | RSS MB |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for row, by_broker in results.items():
        for broker, figures in by_broker.items():
            cells = (
                row,
                broker,
                spread(figures.compared),
                spread(figures.published_per_s),
                spread(figures.consumed_per_s),
                spread(figures.cpu_us_per_message, 2),
                percentiles(figures.confirm_ms),
                percentiles(figures.end_to_end_ms),
                spread(figures.rss_mb),
            )
            lines.append(f"| {' | '.join(cells)} |")
        if len(by_broker) == 2 and all(figures.compared for figures in by_broker.values()):
            ours, theirs = (
                statistics.median(by_broker[name].compared) for name in ("warren", "rabbitmq")
            )
            lines.append(f"| {row} | ratio | {ours / max(theirs, 1):.2f} x | | | | | | |")
    return "\n".join(lines)


def sync_p50_us(folder: Path) -> float:
    """fsyncbench's p50 for 4 KB into an overwritten file on the disk of the data folder."""
    done = subprocess.run(
        [str(HERE / "fsyncbench"), str(folder)],
        stdout=subprocess.PIPE,
        text=True,
        timeout=120,
        check=True,
    )
    [line] = [line for line in done.stdout.splitlines() if "overwritten" in line]
    return float(line.split("p50")[1].split()[0])


def measure_start(warren: Warren, rounds: int, idle_seconds: float) -> dict[str, list[float]]:
    """Seconds until ready on empty data; RSS after one management GET and a while of idling."""
    ready, rss = [], []
    for _ in range(rounds):
        ready.append(warren.start())
        warren.management_get()
        time.sleep(idle_seconds)
        rss.append(psutil.Process(warren.pid()).memory_info().rss / 1e6)
        warren.stop()
    return {"ready_seconds": ready, "idle_rss_mb": rss}


def machine() -> str:
    """What the numbers were measured on."""
    memory = psutil.virtual_memory().total / 2**30
    return (
        f"{os.cpu_count()} CPUs, {memory:.0f} GB, {platform.system()} {platform.release()},"
        f" Python {platform.python_version()}"
    )


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--python", type=Path, default=ROOT / ".venv-compiled/bin/python")
    parser.add_argument("--rabbitmq", action="store_true", help="measure RabbitMQ beside Warren")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=10.0, help="measured time of one row")
    parser.add_argument("--warmup", type=float, default=1.0)
    sets = parser.add_mutually_exclusive_group()
    sets.add_argument("--vary", action="store_true", help="the rows of what varies instead")
    sets.add_argument("--options", action="store_true", help="the rows of queue options instead")
    sets.add_argument("--lone", action="store_true", help="one message at a time instead")
    parser.add_argument("--rows", default="", help="comma-separated names; default all")
    parser.add_argument("--idle", type=float, default=30.0, help="seconds of the start row; 0 none")
    parser.add_argument("--data", type=Path, help="folder on the disk to measure")
    parser.add_argument("--set", action="append", default=[], help="KEY=VALUE for Warren")
    return parser.parse_args(arguments)


def chosen(options: argparse.Namespace) -> list[Row]:
    """The rows that the command line names."""
    rows: tuple[Row, ...] = MAIN_ROWS
    if options.vary:
        rows = VARY_ROWS
    elif options.options:
        rows = OPTION_ROWS
    elif options.lone:
        rows = LONE_ROWS
    names = set(filter(None, options.rows.split(",")))
    unknown = names - {row.name for row in rows} - {"start"}
    if unknown:
        raise SystemExit(f"no such row: {', '.join(sorted(unknown))}")
    return [row for row in rows if not names or row.name in names]


def run_rows(
    rows: Sequence[Row], brokers: Sequence[Broker], options: argparse.Namespace
) -> dict[str, dict[str, Figures]]:
    """All rows on all brokers, in turn, `rounds` times."""
    results = {row.name: {broker.name: Figures() for broker in brokers} for row in rows}
    for row in rows:
        for number in range(options.rounds):
            for broker in brokers if number % 2 == 0 else reversed(brokers):
                try:
                    note(row, results[row.name][broker.name], run_row(row, broker, options))
                except RowFailed as failure:
                    print(failure, file=sys.stderr, flush=True)
        for broker in brokers:
            rates = results[row.name][broker.name].compared
            print(f"{row.name} {broker.name}: {spread(rates)}/s", file=sys.stderr, flush=True)
    return results


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print the table, keep the results."""
    options = parse(arguments)
    rows = chosen(options)
    subprocess.run(["make", "-s", "-C", str(HERE)], check=True)
    folder = Path(tempfile.mkdtemp(prefix="warren-bench-", dir=options.data))
    warren = Warren(options.python.absolute(), folder, options.set)
    brokers: list[Broker] = [warren, RabbitMQ()] if options.rabbitmq else [warren]
    started: list[Broker] = []
    kept: dict[str, Any] = {"machine": machine(), "arguments": sys.argv[1:]}
    try:
        main_rows = not options.vary and not options.options
        if main_rows and options.idle and "start" in (options.rows or "start"):
            kept["start"] = measure_start(warren, options.rounds, options.idle)
        kept["sync_p50_us"] = sync_p50_us(folder)
        for broker in brokers:
            broker.start()
            started.append(broker)
        kept["build"] = warren.build
        results = run_rows(rows, brokers, options)
    finally:
        for broker in started:
            broker.stop()
        warren.stop()
        shutil.rmtree(folder, ignore_errors=True)
    kept["rows"] = {row: {b: asdict(f) for b, f in got.items()} for row, got in results.items()}
    (HERE / "results").mkdir(exist_ok=True)
    path = HERE / "results" / f"{time.strftime('%Y%m%d-%H%M%S')}.json"
    path.write_text(json.dumps(kept, indent=1))
    print(f"{kept['machine']}; Warren {kept['build']}; sync p50 {kept['sync_p50_us']:.0f} us")
    if "start" in kept:
        ready, rss = kept["start"]["ready_seconds"], kept["start"]["idle_rss_mb"]
        print(f"start until ready {spread(ready, 3)} s")
        print(f"RSS after a management GET and {options.idle:.0f} s idle {spread(rss, 1)} MB")
    print(f"\n{table(results)}\n\nraw: {path.relative_to(ROOT)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())

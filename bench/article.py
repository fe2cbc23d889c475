"""The article's two loads on both brokers in turn: `python -m bench.article --help`.

    two-senders                 one connection publishes to a classic queue and a quorum queue
    one-sender-one-receiver     one consumes a full classic queue, publishes to a quorum queue
    ...-c                       the same by `bgen`, whose client is no limit
    ...-slow, ...-c-slow        Warren alone; its quorum queue hears 50 ms late that it is durable
    d1k10, d1k10-pubsub         1 KB, durable classic queue, AMQP 1.0: confirmed; and consumed
    d1k10-credit, d1k-credit    the same with max_link_credit 1000, Warren alone; and by AMQP 0-9-1

Each load runs on a fresh broker, by protocol, in rounds; a figure is the median of the rounds with
its range. The fast link of `two-senders` and `one-sender-one-receiver` also runs alone: what it has
left beside the slow one is its share. A markdown table goes to stdout, raw results to `results/`.
"""

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final

from bench.run import HERE, ROOT, Broker, RabbitMQ, Warren, machine, spread

SLOW_MS: Final = 50
FAST: Final = "warren-bench-fast"
SLOW: Final = "warren-bench-slow"
PROTOCOLS: Final = ("0.9.1", "1.0")
TWO: Final = "two-senders"
BOTH: Final = "one-sender-one-receiver"
SETTLE_SECONDS: Final = 1.0  # of a broker that has just started
WARREN_TIMES: Final = 4  # as many messages to be consumed by bgen from Warren
SLOW_NAMES: Final = ",".join([SLOW, *(f"{SLOW}-{each.replace('.', '')}" for each in PROTOCOLS)])
SLOW_SETTINGS: Final = (f"testing.slow_queues={SLOW_NAMES}", f"testing.slow_ms={SLOW_MS}")
CREDIT_SETTINGS: Final = ("amqp10.max_link_credit=1000",)

ONE_KB: Final = "--declare bench:classic --fresh --queue bench --delete-after --producers 1"
LOADS: Final = (TWO, BOTH)


@dataclass(frozen=True, slots=True)
class Row:
    """One load: by `warren bench` or, with `options` or `in_c`, by `bgen`."""

    name: str
    load: str = ""
    in_c: bool = False
    settings: tuple[str, ...] = ()  # of Warren; then RabbitMQ is left out
    options: str = ""
    protocols: tuple[str, ...] = PROTOCOLS


ROWS: Final = (
    *(Row(load, load) for load in LOADS),
    *(Row(f"{load}-c", load, in_c=True) for load in LOADS),
    *(Row(f"{load}-slow", load, settings=SLOW_SETTINGS) for load in LOADS),
    *(Row(f"{load}-c-slow", load, in_c=True, settings=SLOW_SETTINGS) for load in LOADS),
    Row("d1k10", options=f"{ONE_KB} --window 1000 --size 1024", protocols=("1.0",)),
    Row(
        "d1k10-pubsub",
        options=f"{ONE_KB} --consumers 1 --window 1000 --size 1024 --prefetch 1000 --ack 100",
        protocols=("1.0",),
    ),
    Row(
        "d1k10-credit",
        settings=CREDIT_SETTINGS,
        options=f"{ONE_KB} --window 1000 --size 1024",
        protocols=("1.0", "0.9.1"),
    ),
)


@dataclass
class Figures:
    """What the rounds of one row, on one broker, by one protocol gave."""

    fast_per_s: list[float] = field(default_factory=list)
    slow_per_s: list[float] = field(default_factory=list)
    share: list[float] = field(default_factory=list)  # of what the fast link reaches alone
    confirm_ms: list[list[float]] = field(default_factory=list)
    client_cpu: list[float] = field(default_factory=list)


def by_warren(row: Row, broker: Broker, protocol: str, options: argparse.Namespace) -> Figures:
    """`warren bench` once."""
    command = [str(options.python), "-P", "-m", "node", "bench", row.load, "--json", "--alone"]
    command += ["--port", str(broker.port), "--protocol", protocol]
    command += ["--seconds", str(options.seconds)]
    if row.load == BOTH:
        command += ["--messages", str(options.messages)]
    answer = run_json(command, 4 * options.seconds + 300)
    [result] = answer["results"]
    fast, slow = result["links"]
    figures = Figures([fast["per_s"]], [slow["per_s"]])
    figures.share = [fast["share_of_alone"]] if fast["share_of_alone"] is not None else []
    figures.client_cpu = [result["client_cpu"]]
    return figures


def by_bgen(row: Row, broker: Broker, protocol: str, options: argparse.Namespace) -> Figures:
    """`bgen` twice: the fast link alone, then beside the slow one."""
    alone = _bgen_load(row, broker, protocol, options, with_slow=False)["fast"]
    links = _bgen_load(row, broker, protocol, options, with_slow=True)
    figures = Figures([links["fast"]], [links["slow"]])
    figures.share = [links["fast"] / alone] if alone else []
    return figures


def _bgen_load(
    row: Row, broker: Broker, protocol: str, options: argparse.Namespace, with_slow: bool
) -> dict[str, float]:
    """Messages/s of each link."""
    base = [str(HERE / "bgen"), "--port", str(broker.port), "--size", "12"]
    declare = ["--declare", f"{FAST}:classic", "--declare", f"{SLOW}:quorum", "--fresh"]
    if row.load == BOTH:
        fill = ["--queue", FAST, "--producers", "1", "--window", "1000"]
        # bgen does not tell when it had the last one: there must be more than it can take.
        count = options.messages * (WARREN_TIMES if broker.name == "warren" else 1)
        run_json([*base, *declare, *fill, "--count", str(count)], 300)
        links = f"sub={FAST},prefetch=200,ack=1"
        links += f",pub={SLOW},batch=10000,window=10000" if with_slow else ""
        declare = ["--declare", f"{FAST}:classic", "--declare", f"{SLOW}:quorum"]
    else:
        links = f"pub={FAST}+{SLOW}" if with_slow else f"pub={FAST}"
        links += ",window=30000"
    spec = ["--conn", f"proto={protocol},{links}", "--duration", str(options.seconds)]
    answer = run_json([*base, *declare, "--delete-after", *spec], options.seconds + 120)
    found = {"fast": 0.0, "slow": 0.0}
    for link in answer["links"]:
        part = "fast" if FAST in link.values() else "slow"
        found[part] = (link.get("confirmed") or link.get("received") or 0) / options.seconds
    return found


def by_options(row: Row, broker: Broker, protocol: str, options: argparse.Namespace) -> Figures:
    """`bgen` with the options of the row."""
    command = [str(HERE / "bgen"), "--port", str(broker.port), "--proto", protocol]
    command += [*row.options.split(), "--warmup", "1", "--duration", str(options.seconds + 1)]
    answer = run_json(command, options.seconds + 120)
    return Figures([answer["pub_per_s"]], [answer["sub_per_s"]], [], [answer["conf_ms"]])


def run_json(command: Sequence[str], timeout: float) -> dict[str, Any]:
    """Run a program; the JSON object in its last line."""
    done = subprocess.run(
        command, stdout=subprocess.PIPE, text=True, timeout=timeout, check=False, cwd=ROOT
    )
    if not done.stdout.strip():
        raise SystemExit(f"{' '.join(command)} failed with code {done.returncode}")
    answer: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
    return answer


def measure(
    rows: Sequence[Row], folder: Path, options: argparse.Namespace
) -> dict[tuple[str, str, str], Figures]:
    """All rows on fresh brokers, in turn, `rounds` times; by row, broker and protocol."""
    results: dict[tuple[str, str, str], Figures] = {}
    for row in rows:
        run = by_options if row.options else by_bgen if row.in_c else by_warren
        for number in range(options.rounds):
            brokers: list[Broker] = [Warren(options.python, folder, [*options.set, *row.settings])]
            if options.rabbitmq and not row.settings:
                brokers.append(RabbitMQ())
            for broker in brokers if number % 2 == 0 else reversed(brokers):
                broker.start()
                try:
                    time.sleep(SETTLE_SECONDS)
                    for protocol in row.protocols:
                        figures = results.setdefault((row.name, broker.name, protocol), Figures())
                        add(figures, run(row, broker, protocol, options))
                finally:
                    broker.stop()
        for (name, broker_name, protocol), figures in results.items():
            if name == row.name:
                fast = spread(figures.fast_per_s)
                print(f"{name} {broker_name} {protocol}: {fast}/s", file=sys.stderr, flush=True)
    return results


def add(figures: Figures, more: Figures) -> None:
    """One more round."""
    figures.fast_per_s += more.fast_per_s
    figures.slow_per_s += more.slow_per_s
    figures.share += more.share
    figures.confirm_ms += more.confirm_ms
    figures.client_cpu += more.client_cpu


def table(results: dict[tuple[str, str, str], Figures]) -> str:
    """Markdown."""
    lines = [
        "| row | broker | protocol | fast link (published)/s | slow link (consumed)/s"
        " | share of alone | confirm p50 ms | client CPU |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for (row, broker, protocol), figures in results.items():
        p50 = [each[0] for each in figures.confirm_ms]
        cells = (
            row,
            broker,
            protocol,
            spread(figures.fast_per_s),
            spread(figures.slow_per_s),
            spread(figures.share, 2),
            spread(p50, 2),
            spread(figures.client_cpu, 2),
        )
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--python", type=Path, default=ROOT / ".venv-compiled/bin/python")
    parser.add_argument("--rabbitmq", action="store_true", help="measure RabbitMQ beside Warren")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=10.0, help="of one load, one protocol")
    parser.add_argument("--messages", type=int, default=1_000_000, help="that are consumed")
    parser.add_argument("--rows", default="", help="comma-separated names; default all")
    parser.add_argument("--data", type=Path, help="folder on the disk to measure")
    parser.add_argument("--set", action="append", default=[], help="KEY=VALUE for Warren")
    options = parser.parse_args(arguments)
    options.python = options.python.absolute()
    return options


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print the table, keep the results."""
    options = parse(arguments)
    names = set(filter(None, options.rows.split(",")))
    unknown = names - {row.name for row in ROWS}
    if unknown:
        raise SystemExit(f"no such row: {', '.join(sorted(unknown))}")
    subprocess.run(["make", "-s", "-C", str(HERE)], check=True)
    folder = Path(tempfile.mkdtemp(prefix="warren-article-", dir=options.data))
    try:
        results = measure([row for row in ROWS if not names or row.name in names], folder, options)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    kept = {
        "machine": machine(),
        "arguments": sys.argv[1:],
        "rows": {" ".join(key): asdict(figures) for key, figures in results.items()},
    }
    (HERE / "results").mkdir(exist_ok=True)
    path = HERE / "results" / f"article-{time.strftime('%Y%m%d-%H%M%S')}.json"
    path.write_text(json.dumps(kept, indent=1))
    print(f"{kept['machine']}\n\n{table(results)}\n\nraw: {path.relative_to(ROOT)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())

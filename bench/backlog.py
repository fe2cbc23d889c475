"""What a backlog costs: `python -m bench.backlog --help`; Warren, and with --rabbitmq RabbitMQ.

    in-out   a million messages of 1 KB in, then out again, for each kind of queue: rates and RSS
    depth    what publishing and consuming costs while so many messages lie in the queue: medians of
             several samples, each after the disk has come to rest; user is CPU outside the kernel.
             A second node has nothing in its queue and is measured in turn with it, for a machine
             is faster or slower from minute to minute: `ratio` is the median of the pairs
    ttl      ten million messages in a lazy queue, a tenth of them with a time to live of their own:
             RSS and the longest turn of the loop, while they come and while they expire

Each row has a broker of its own on empty data. RSS is that of the broker's process, sampled every
SAMPLE_SECONDS; growth is against the moment before the first message. Everything is confirmed with
1,000 in flight, and consumed with a prefetch of 1,000 and an ack every 100.
"""

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import psutil

from bench.run import HERE, ROOT, Broker, RabbitMQ, Warren, machine
from bench.turns import LOG_TURNS, Turns

SAMPLE_SECONDS: Final = 0.1
SETTLE_SECONDS: Final = 2.0  # of a broker that has just started
PATIENCE_SECONDS: Final = 1800.0
SIZE: Final = 1024
DEPTH_COUNT: Final = 200_000  # messages in and out of one sample at a depth
DIRTY_BYTES: Final = 32 << 20  # the kernel has written back what came before
REST_SECONDS: Final = 60.0
KINDS: Final = {"lazy": "classic:lazy", "default": "classic", "quorum": "quorum"}


@dataclass(frozen=True, slots=True)
class Flow:
    """What one run of a generator did."""

    per_s: float
    cpu_us: float  # of the broker, per message
    user_us: float  # of these, outside the kernel


class Rss:
    """RSS of a broker over a time, in MB."""

    def __init__(self, broker: Broker) -> None:
        self._process = psutil.Process(broker.pid())
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._sample, daemon=True)
        self.start = self.now()
        self.peak = self.start
        self._thread.start()

    def now(self) -> float:
        return float(self._process.memory_info().rss) / 1e6

    def growth(self) -> tuple[float, float]:
        """(now, at its peak), against the start."""
        return self.now() - self.start, self.peak - self.start

    def stop(self) -> None:
        self._over.set()
        self._thread.join()

    def _sample(self) -> None:
        while not self._over.wait(SAMPLE_SECONDS):
            self.peak = max(self.peak, self.now())


def bgen(broker: Broker, words: str, figure: str, count: int) -> Flow:
    """One run of bgen on the queue `backlog`, of so many messages."""
    command = [str(HERE / "bgen"), "--port", str(broker.port), "--queue", "backlog"]
    command += ["--size", str(SIZE), "--pids", str(broker.pid()), "--warmup", "0"]
    command += ["--duration", str(PATIENCE_SECONDS), *words.split()]
    process = psutil.Process(broker.pid())
    user = process.cpu_times().user
    done = subprocess.run(
        command, stdout=subprocess.PIPE, text=True, timeout=PATIENCE_SECONDS, check=False
    )
    if done.returncode not in (0, 3) or not done.stdout.strip():
        raise SystemExit(f"{' '.join(command)} failed with code {done.returncode}")
    answer: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
    rate = float(answer[figure])
    user = process.cpu_times().user - user
    cpu_us = float(answer["broker_cpu_pct"]) / 100 / max(rate, 1) * 1e6
    return Flow(rate, cpu_us, user / count * 1e6)


def publish(broker: Broker, count: int, kind: str = "") -> Flow:
    """Publish so many; with a kind, into a new queue."""
    declare = f"--declare backlog:{KINDS[kind]} --fresh" if kind else ""
    return bgen(
        broker, f"{declare} --producers 1 --window 1000 --count {count}", "pub_per_s", count
    )


def consume(broker: Broker, count: int) -> Flow:
    """Consume so many from the head of the queue."""
    words = f"--producers 0 --consumers 1 --prefetch 1000 --ack 100 --consume-count {count}"
    return bgen(broker, words, "sub_per_s", count)


def in_out(broker: Broker, kind: str, count: int) -> dict[str, Any]:
    """The whole backlog in, then out."""
    rss = Rss(broker)
    came = publish(broker, count, kind)
    end, peak = rss.growth()
    went = consume(broker, count)
    rss.stop()
    return {
        "in_per_s": round(came.per_s),
        "rss_growth_mb": round(end),
        "rss_growth_peak_mb": round(peak),
        "out_per_s": round(went.per_s),
        "in_cpu_us": round(came.cpu_us, 2),
        "out_cpu_us": round(went.cpu_us, 2),
    }


def depth(
    broker: Broker, level: Broker, kind: str, depths: Sequence[int], samples: int
) -> list[dict[str, Any]]:
    """Cost of a message in and out at each depth, and beside it on `level`, where nothing lies;
    all of it persistent, 1 KB."""
    found = []
    lies = 0
    for each in (broker, level):
        publish(each, DEPTH_COUNT, kind)
        consume(each, DEPTH_COUNT)  # The node is warm.
    for messages in depths:
        if messages > lies:
            publish(broker, messages - lies)
            lies = messages
        found.append({"depth": messages, **at_depth(broker, level, samples)})
    return found


def at_depth(broker: Broker, level: Broker, samples: int) -> dict[str, Any]:
    """Medians over the samples, and the range of the CPU of both ways."""
    deep: list[tuple[Flow, Flow]] = []
    empty: list[tuple[Flow, Flow]] = []
    for _ in range(samples):
        for each, flows in ((level, empty), (broker, deep)):
            rest()
            flows.append((publish(each, DEPTH_COUNT), consume(each, DEPTH_COUNT)))
    both = [i.cpu_us + o.cpu_us for i, o in deep]
    without = [i.cpu_us + o.cpu_us for i, o in empty]
    return {
        "in_per_s": round(statistics.median(i.per_s for i, _ in deep)),
        "in_cpu_us": round(statistics.median(i.cpu_us for i, _ in deep), 2),
        "out_per_s": round(statistics.median(o.per_s for _, o in deep)),
        "out_cpu_us": round(statistics.median(o.cpu_us for _, o in deep), 2),
        "both_cpu_us": round(statistics.median(both), 2),
        "both_cpu_us_range": [round(min(both), 2), round(max(both), 2)],
        "both_user_us": round(statistics.median(i.user_us + o.user_us for i, o in deep), 2),
        "empty_cpu_us": round(statistics.median(without), 2),
        "empty_user_us": round(statistics.median(i.user_us + o.user_us for i, o in empty), 2),
        "ratio": round(statistics.median(b / w for b, w in zip(both, without, strict=True)), 2),
    }


def rest() -> None:
    """Wait until nothing of what came before is still to be written back, or REST_SECONDS."""
    os.sync()
    until = time.monotonic() + REST_SECONDS
    while dirty_bytes() > DIRTY_BYTES and time.monotonic() < until:
        time.sleep(SAMPLE_SECONDS)


def dirty_bytes() -> int:
    """What the kernel has still to write, of all files."""
    wanted = ("Dirty:", "Writeback:")
    lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
    return sum(1024 * int(line.split()[1]) for line in lines if line.startswith(wanted))


def ttl(broker: Warren, count: int) -> dict[str, Any]:
    """Many in a lazy queue, one in ten with an expiration of 30 to 120 s of its own."""
    rss = Rss(broker)
    turns = Turns(broker.management_port, broker.log)
    turns.begin()
    command = [str(HERE / "vgen"), "--port", str(broker.port), "--size", str(SIZE)]
    command += ["--qarg", "x-queue-mode=lazy", "--expiration", "30000:120000"]
    command += ["--expiration-every", "10", "--connections", "0", "--keep", "--prefill", str(count)]
    command += ["--warmup", "0", "--duration", "0"]
    begun = time.monotonic()
    subprocess.run(command, stdout=subprocess.DEVNULL, timeout=PATIENCE_SECONDS, check=True)
    filled_seconds = time.monotonic() - begun
    filling = turns.end()
    turns.begin()
    end, peak = rss.growth()
    time.sleep(max(0.0, 125.0 - filled_seconds))  # Until the last of them has expired.
    expiring = turns.end()
    rss.stop()
    return {
        "messages": count,
        "fill_seconds": round(filled_seconds, 1),
        "rss_growth_mb": round(end),
        "rss_growth_peak_mb": round(max(peak, rss.peak - rss.start)),
        "filling": filling,
        "expiring": expiring,
    }


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--python", type=Path, default=ROOT / ".venv-compiled/bin/python")
    parser.add_argument("--rabbitmq", action="store_true", help="in-out on RabbitMQ as well")
    parser.add_argument("--rounds", type=int, default=1, help="of in-out")
    parser.add_argument("--rows", default="in-out,depth,ttl")
    parser.add_argument("--kinds", default=",".join(KINDS), help="queues: lazy,default,quorum")
    parser.add_argument("--count", type=int, default=1_000_000, help="of in-out")
    parser.add_argument("--depths", default="0,1000000,5000000,10000000")
    parser.add_argument("--samples", type=int, default=5, help="at each depth")
    parser.add_argument("--ttl-count", type=int, default=10_000_000)
    parser.add_argument("--port", type=int, default=0, help="of the node; default as in run.py")
    parser.add_argument("--data", type=Path, help="folder on the disk to measure")
    parser.add_argument("--set", action="append", default=[], help="KEY=VALUE for Warren")
    return parser.parse_args(arguments)


def run_rows(warren: Warren, level: Warren, options: argparse.Namespace) -> None:
    """Every row that was asked for, a line of JSON each."""
    rows = options.rows.split(",")
    kinds = options.kinds.split(",")
    brokers: list[Broker] = [warren, RabbitMQ()] if options.rabbitmq else [warren]
    if "in-out" in rows:
        for kind in kinds:
            for _ in range(options.rounds):
                for broker in brokers:
                    with_broker(broker)
                    tell("in-out", kind, broker, in_out(broker, kind, options.count))
                    broker.stop()
    if "depth" in rows:
        for kind in kinds:
            with_broker(warren)
            with_broker(level)
            depths = [int(word) for word in options.depths.split(",")]
            for found in depth(warren, level, kind, depths, options.samples):
                tell("depth", kind, warren, found)
            warren.stop()
            level.stop()
    if "ttl" in rows:
        with_broker(warren)
        tell("ttl", "lazy", warren, ttl(warren, options.ttl_count))
        warren.stop()


def with_broker(broker: Broker) -> None:
    """Start it on empty data, and let it come to rest."""
    broker.start()
    time.sleep(SETTLE_SECONDS)


def tell(row: str, kind: str, broker: Broker, found: dict[str, Any]) -> None:
    print(json.dumps({"row": row, "queue": kind, "broker": broker.name} | found), flush=True)


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure; a line of JSON for each row."""
    options = parse(arguments)
    subprocess.run(["make", "-s", "-C", str(HERE)], check=True)
    folder = Path(tempfile.mkdtemp(prefix="warren-backlog-", dir=options.data))
    warren = Warren(options.python.absolute(), folder, [LOG_TURNS, *options.set])
    if options.port:
        warren.port, warren.management_port = options.port, options.port + 1
    level = Warren(options.python.absolute(), folder / "level", options.set)
    level.port, level.management_port = warren.port + 2, warren.management_port + 2
    (folder / "level").mkdir()
    print(machine())
    try:
        run_rows(warren, level, options)
    finally:
        warren.stop()
        level.stop()
        shutil.rmtree(folder, ignore_errors=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())

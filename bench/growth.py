"""What happens when very many messages go at once: `python -m bench.growth --help`; Warren alone.

Fills a queue of a fresh node, lets all of it go by expiry or by a purge, and tells how long that
took and the longest turn of the node's loop meanwhile, which is what every other connection waits
for. The turn comes from the buckets of `warren_loop_turn_ms` in `/metrics`: its upper bound.
"""

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pika
import psutil

from bench.run import HERE, ROOT, Warren, machine
from bench.turns import LOG_TURNS, Turns

QUEUE: Final = "vgen-0"  # the queue that vgen fills
PATIENCE_SECONDS: Final = 600.0
POLL_SECONDS: Final = 0.05


@dataclass(frozen=True, slots=True)
class Check:
    """One queue to fill and how its messages go."""

    name: str
    count: int  # messages
    fill: str  # options of vgen
    empty: Callable[[Any], None]  # what makes them go


def purge(channel: Any) -> None:
    """All of it by one method."""
    channel.queue_purge(QUEUE)


def wait(channel: Any) -> None:
    """They go by themselves."""


# Filling must be over before the first expires, and a TTL counts from the publish.
CHECKS: Final = (
    Check("expiry-queue-ttl", 1_000_000, "--qarg x-message-ttl={ttl_ms}", wait),
    Check("expiry-each-different", 1_000_000, "--expiration {ttl_ms}:{ttl_later_ms}", wait),
    Check("purge", 5_000_000, "", purge),
)


def fill(check: Check, broker: Warren, options: argparse.Namespace) -> float:
    """Fill the queue with small persistent messages; seconds taken."""
    ttl_ms = int(options.ttl * 1000)
    words = check.fill.format(ttl_ms=ttl_ms, ttl_later_ms=2 * ttl_ms)
    count = int(check.count * options.scale)
    command = [str(HERE / "vgen"), "--port", str(broker.port), "--size", "12"]
    command += ["--connections", "0", "--duration", "0", "--warmup", "0", "--keep"]
    command += ["--prefill", str(count), *words.split()]
    begun = time.monotonic()
    subprocess.run(command, stdout=subprocess.DEVNULL, timeout=PATIENCE_SECONDS, check=True)
    return time.monotonic() - begun


def wait_until_empty(channel: Any) -> float:
    """Seconds from the first message that is gone to the last."""
    begun = time.monotonic()
    full = depth = ready(channel)
    while depth > 0:
        if time.monotonic() - begun > PATIENCE_SECONDS:
            raise SystemExit(f"{depth} messages are still there after {PATIENCE_SECONDS:.0f} s")
        time.sleep(POLL_SECONDS)
        depth = ready(channel)
        if depth == full:
            begun = time.monotonic()
    return time.monotonic() - begun


def ready(channel: Any) -> int:
    """Messages in the queue."""
    return int(channel.queue_declare(QUEUE, passive=True).method.message_count)


def run_check(check: Check, broker: Warren, options: argparse.Namespace) -> dict[str, Any]:
    """Fill, let go, measure."""
    fill_seconds = fill(check, broker, options)
    url = f"amqp://guest:guest@127.0.0.1:{broker.port}/%2F?heartbeat=0&socket_timeout=60"
    connection = pika.BlockingConnection(pika.URLParameters(url))
    channel = connection.channel()
    filled = ready(channel)
    process = psutil.Process(broker.pid())
    rss_mb = process.memory_info().rss / 1e6
    turns = Turns(broker.management_port, broker.log)
    turns.begin()
    begun = time.monotonic()
    check.empty(channel)
    answered = time.monotonic() - begun
    gone = wait_until_empty(channel)
    found = turns.end()
    channel.queue_delete(QUEUE)
    connection.close()
    return {
        "check": check.name,
        "messages": filled,
        "fill_seconds": round(fill_seconds, 2),
        "gone_seconds": round(max(answered, gone), 2),
        **found,
        "rss_full_mb": round(rss_mb),
        "rss_empty_mb": round(process.memory_info().rss / 1e6),
    }


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--python", type=Path, default=ROOT / ".venv-compiled/bin/python")
    parser.add_argument("--checks", default="", help="comma-separated names; default all")
    parser.add_argument("--scale", type=float, default=1.0, help="share of the messages")
    parser.add_argument("--ttl", type=float, default=30.0, help="seconds; longer than filling")
    parser.add_argument("--data", type=Path, help="folder on the disk to measure")
    parser.add_argument("--set", action="append", default=[], help="KEY=VALUE for Warren")
    return parser.parse_args(arguments)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the checks, each on a node of its own; a JSON object for each."""
    options = parse(arguments)
    names = set(filter(None, options.checks.split(","))) or {check.name for check in CHECKS}
    subprocess.run(["make", "-s", "-C", str(HERE)], check=True)
    folder = Path(tempfile.mkdtemp(prefix="warren-growth-", dir=options.data))
    broker = Warren(options.python.absolute(), folder, [LOG_TURNS, *options.set])
    print(machine())
    try:
        for check in CHECKS:
            if check.name in names:
                broker.start()
                print(json.dumps(run_check(check, broker, options)), flush=True)
                broker.stop()
    finally:
        broker.stop()
        shutil.rmtree(folder, ignore_errors=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())

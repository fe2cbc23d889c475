"""How long a restart with a backlog of single messages takes, and what memory.

    python bench/restart.py DIRECTORY [--messages 1000000] [--bytes 1024]
                                      [--mode default|lazy|quorum] [--window N]

A real node declares a durable queue and is stopped; the messages are written into its log, each a
record of its own; the node is started again. With `--window`, and for quorum queues always, `bgen`
(`make bench`) publishes them with so many unconfirmed: records of many messages, with 1 again of
one each; the node is killed. By hand, on a quiet machine, with a compiled node: run it with the
Python of an environment in which the wheel is installed. Files are read from the page cache, if
they fit.
"""

import argparse
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pika

from warren.storage.direct import DirectDisk
from warren.storage.disk import OsDisk
from warren.storage.recovery.recovery import RecoveredPublish
from warren.storage.recovery.stretches import Stretch
from warren.storage.wal import Wal
from warren.testing import Node

FLUSH_EVERY = 500
BGEN = Path(__file__).resolve().parent / "bgen"


class EmptyOwner:
    """Takes nothing of what is in the log."""

    def entry(self, owner: int, index: int, payload: bytes) -> None:
        return

    def raft_entry(
        self,
        owner: int,
        incarnation: int,
        index: int,
        term: int,
        appended_term: int,
        kind: int,
        content: bytes,
    ) -> None:
        return

    def hard_state(self, owner: int, incarnation: int, term: int, vote: int) -> None:
        return

    def knows(self, owner: int) -> bool:
        return True

    def all_owners(self) -> tuple[list[int], list[int]]:
        return [], []

    def saved_index(self, owner: int) -> int:
        return 0

    def accepted_file_id(self, owner: int) -> int:
        return 0

    def owner(self, owner: int, last_seq: int, mark: int) -> None:
        return

    def publish(self, found: RecoveredPublish) -> None:
        return

    def stretch(self, found: Stretch) -> None:
        return


def stop(error: BaseException) -> None:
    print("log failed:", error, file=sys.stderr)
    os._exit(1)


ARGUMENTS = {
    "default": {},
    "lazy": {"x-queue-mode": "lazy"},
    "quorum": {"x-queue-type": "quorum"},
}


def declare(directory: Path, arguments: dict[str, str]) -> None:
    with Node(name="restart", data_dir=directory) as node:
        connection = pika.BlockingConnection(pika.URLParameters(node.url))
        connection.channel().queue_declare("q", durable=True, arguments=arguments)
        connection.close()
        node.stop()


def queue_of(directory: Path) -> dict[str, Any]:
    """What `warren check-data` says of the queue."""
    words = [sys.executable, "-m", "node", "check-data", str(directory), "--formatter", "json"]
    answer = json.loads(subprocess.run(words, capture_output=True, check=True).stdout)
    row: dict[str, Any] = next(row for row in answer["queues"] if row["name"] == "q")
    return row


def fill(directory: Path, owner: int, count: int, size: int) -> None:
    wal = Wal(DirectDisk(OsDisk()), str(directory / "log"), post=lambda work: None, on_failure=stop)
    wal.open(EmptyOwner())
    body = os.urandom(size)
    offsets = bytes(4) + size.to_bytes(4, "little")
    for seq in range(1, count + 1):
        wal.append_publish(1, 1, 1_000 + seq, [(owner, seq)], b"", offsets, body, 0)
        if seq % FLUSH_EVERY == 0:
            wal.flush()
    wal.close(clean=False)


def publish(directory: Path, count: int, size: int, window: int) -> None:
    """Over AMQP, all of them confirmed; then the node is killed."""
    with Node(name="restart", data_dir=directory) as node:
        words = [str(BGEN), "--port", str(node.port), "--queue", "q", "--producers", "1"]
        words += ["--count", str(count), "--size", str(size), "--window", str(window)]
        words += ["--warmup", "0", "--duration", "3600"]
        subprocess.run(words, check=True, stdout=subprocess.DEVNULL)
        node.kill9()


def status_of(node: Node, key: str) -> int:
    """A line of /proc/PID/status, in KB."""
    assert node.process is not None
    text = Path(f"/proc/{node.process.pid}/status").read_text()
    return int(text.split(f"{key}:")[1].split()[0])


def cpu_seconds(node: Node) -> float:
    assert node.process is not None
    text = Path(f"/proc/{node.process.pid}/stat").read_text().rsplit(")", 1)[1]
    return sum(map(int, text.split()[11:13])) / os.sysconf("SC_CLK_TCK")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("directory", type=Path)
    parser.add_argument("--messages", type=int, default=1_000_000)
    parser.add_argument("--bytes", type=int, default=1024)
    parser.add_argument("--mode", choices=sorted(ARGUMENTS), default="default")
    parser.add_argument("--window", type=int, default=0, help="publish, so many in flight")
    options = parser.parse_args()
    declare(options.directory, ARGUMENTS[options.mode])
    with Node(name="restart", data_dir=options.directory) as node:
        empty_kb = status_of(node, "VmHWM")
        node.stop()
    if options.window or options.mode == "quorum":
        publish(options.directory, options.messages, options.bytes, options.window or 1000)
    else:
        uid = queue_of(options.directory)["uid"]
        fill(options.directory, uid, options.messages, options.bytes)
    began = time.perf_counter()
    with Node(name="restart", data_dir=options.directory, ready_seconds=300) as node:
        took = time.perf_counter() - began
        print(node.ready_line)
        print(
            f"{options.messages} messages of {options.bytes} B: ready after {took:.2f} s, "
            f"{cpu_seconds(node):.2f} s of CPU, "
            f"peak {status_of(node, 'VmHWM') // 1024} MB, then {status_of(node, 'VmRSS') // 1024}"
            f" MB; empty {empty_kb // 1024} MB"
        )
        node.kill9()
    found = queue_of(options.directory)
    assert (found["messages"], found["last_seq"]) == (options.messages, options.messages), found


if __name__ == "__main__":
    main()

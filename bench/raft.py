"""What log groups of three nodes can do on this machine: speed, fail-over, sleep, long logs.

    python -m bench.raft                               # 30 s and 5 rounds of each; about 20 minutes
    python -m bench.raft --seconds 5 --rounds 1 --cases batch,many,single
    python -m bench.raft --python .venv-compiled/bin/python --scale 0.1 --cases purge

Three processes (bench/raft_node.py) on loopback, each with its own log, synced, under `--data`.
Prints a line of JSON for each run, then a table of medians with the aim of each case. CPU is that
of all three processes together.

| case | what | aim |
|---|---|---|
| `batch` | 1 group, entries of 10 operations of 1 KB, 16 in flight | 84,000 operations/s |
| `many` | 9 groups, entries of 1 KB, 32 in flight for each | 69,000 entries/s |
| `single` | 1 group, one entry of 1 KB in flight | p50 of 0.83 ms |
| `idle` | 1,000 groups in which nothing happens | 2 % of a core for each process |
| `kill` | kill -9 of the leader: until the next commit | 150 ms |
| `stop` | SIGSTOP of the leader: until the next commit | 1 s |
| `purge` | a snapshot of 5 M entries: the longest turn of any node | 50 ms |
"""

import argparse
import json
import os
import platform
import selectors
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any, Final

import psutil

SPEED: Final = {
    "batch": {"groups": 1, "batch": 10, "window": 16, "size": 1024},
    "many": {"groups": 9, "batch": 1, "window": 32, "size": 1024},
    "single": {"groups": 1, "batch": 1, "window": 1, "size": 1024},
}
# (key of the result, the aim, whether more is better)
AIMS: Final = {
    "batch": ("ops_per_s", 84_000, True),
    "many": ("entries_per_s", 69_000, True),
    "single": ("p50_ms", 0.83, False),
    "idle": ("cpu_pct_max", 2.0, False),
    "kill": ("until_commit_ms", 150, False),
    "stop": ("until_commit_ms", 1000, False),
    "purge": ("longest_turn_ms", 50, False),
}
IDLE_GROUPS: Final = 1000
PURGE_ENTRIES: Final = 5_000_000
NEVER: Final = 1 << 62
RESERVE_FILES: Final = 2  # of the log; until they are written the disk is busy with them
WAIT_S: Final = 120.0
GATHER_S: Final = 0.3
ROOT: Final = str(Path(__file__).resolve().parent.parent)
# What is installed comes before the sources: with a compiled build that is what is measured.
NODE_CODE: Final = (
    f"import sys; sys.path.append({ROOT!r}); from bench.raft_node import main; main()"
)
PORT_MIN: Final = 31000
PORT_MAX: Final = 39000


class Process:
    """One node."""

    def __init__(self, command: list[str]) -> None:
        # Without a buffer, so that a line that has come can be selected for.
        self.popen = subprocess.Popen(
            command, bufsize=0, stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        self.cpu = psutil.Process(self.popen.pid)

    def do(self, **command: Any) -> None:
        stdin = self.popen.stdin
        assert stdin is not None
        stdin.write(json.dumps(command).encode() + b"\n")
        stdin.flush()

    def hear(self, event: str) -> dict[str, Any]:
        """Wait for that one; others are passed over."""
        stdout: IO[bytes] | None = self.popen.stdout
        assert stdout is not None
        for line in stdout:
            found: dict[str, Any] = json.loads(line)
            if found["event"] == event:
                return found
        raise RuntimeError(f"a node has ended before it said {event}")

    def cpu_s(self) -> float:
        times = self.cpu.cpu_times()
        return float(times.user + times.system)


class Cluster:
    """Three nodes on empty directories; the first one leads all groups."""

    def __init__(self, arguments: argparse.Namespace, groups: int, snapshot_entries: int) -> None:
        self._base = tempfile.TemporaryDirectory(dir=arguments.data, prefix="warren-raft-")
        ports = ",".join(str(port) for port in free_ports(3))
        self.processes: list[Process] = []
        try:
            for member in (1, 2, 3):
                directory = os.path.join(self._base.name, str(member))
                os.mkdir(directory)
                command = [arguments.python, "-P", "-c", NODE_CODE, str(member), directory]
                command += [ports, "--groups", str(groups)]
                command += ["--snapshot-entries", str(snapshot_entries)]
                self.processes.append(Process(command))
            for process in self.processes:
                process.hear("ready")
            self._gather()
        except BaseException:
            self.close()
            raise

    def _gather(self) -> None:
        """Have the first node lead; others may have been elected while all were starting."""
        deadline_s = time.monotonic() + WAIT_S
        while True:
            for process in self.processes:
                process.do(do="gather", member=1)
            time.sleep(GATHER_S)
            self.leader.do(do="status")
            status = self.leader.hear("status")
            if status["leading"] == status["groups"]:
                return
            if time.monotonic() > deadline_s:
                raise RuntimeError(f"the first node does not lead: {status}")

    @property
    def leader(self) -> Process:
        return self.processes[0]

    def __enter__(self) -> "Cluster":
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        for process in self.processes:
            process.popen.kill()
        for process in self.processes:
            process.popen.wait()
        self._base.cleanup()

    def cpu_s(self) -> float:
        return sum(process.cpu_s() for process in self.processes)


def free_ports(count: int) -> list[int]:
    """Ports that are free now."""
    found: list[int] = []
    port = PORT_MIN + os.getpid() * 7 % (PORT_MAX - PORT_MIN)
    while len(found) < count:
        port = port + 1 if port < PORT_MAX else PORT_MIN
        with socket.socket() as tried:
            tried.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                tried.bind(("127.0.0.1", port))
            except OSError:
                continue
        found.append(port)
    return found


def speed(case: str, arguments: argparse.Namespace) -> dict[str, Any]:
    load = SPEED[case]
    with Cluster(arguments, load["groups"], 4096) as cluster:
        wait_until(cluster, "has its reserve", lambda status: status["reserve"] == RESERVE_FILES)
        cpu_s = cluster.cpu_s()
        warmup_s = min(2.0, arguments.seconds / 5)
        cluster.leader.do(do="load", seconds=arguments.seconds, warmup_s=warmup_s, **load)
        found = cluster.leader.hear("load")
        cpu_s = cluster.cpu_s() - cpu_s
        all_entries = found["entries"] * (1 + warmup_s / arguments.seconds)
        found["cpu_us_per_entry"] = round(cpu_s / max(all_entries, 1) * 1e6, 1)
        return found


def idle(arguments: argparse.Namespace) -> dict[str, Any]:
    with Cluster(arguments, IDLE_GROUPS, 4096) as cluster:
        wait_until(cluster, "has its reserve", lambda status: status["reserve"] == RESERVE_FILES)
        wait_until(cluster, "sleeps", lambda status: status["hibernating"] == status["groups"])
        before = [process.cpu_s() for process in cluster.processes]
        began_s = time.monotonic()
        time.sleep(arguments.seconds)
        took_s = time.monotonic() - began_s
        after = [process.cpu_s() for process in cluster.processes]
        shares = [100 * (b - a) / took_s for a, b in zip(before, after, strict=True)]
        return {
            "cpu_pct": [round(each, 2) for each in shares],
            "cpu_pct_max": round(max(shares), 2),
        }


def status_of(process: Process) -> dict[str, Any]:
    process.do(do="status")
    return process.hear("status")


def wait_until(cluster: Cluster, what: str, holds: Callable[[dict[str, Any]], bool]) -> None:
    """Until it holds for the status of every node."""
    deadline_s = time.monotonic() + WAIT_S
    for process in cluster.processes:
        while True:
            status = status_of(process)
            if holds(status):
                break
            if time.monotonic() > deadline_s:
                raise RuntimeError(f"no node that {what}: {status}")
            time.sleep(0.1)


def fail_over(number: signal.Signals, arguments: argparse.Namespace) -> dict[str, Any]:
    with Cluster(arguments, 1, 4096) as cluster:
        for process in cluster.processes[1:]:
            process.do(do="watch")
            process.hear("watching")
        cluster.leader.do(do="begin_load", batch=1, window=4, size=1024)
        time.sleep(1.5)
        at_s = time.monotonic()
        cluster.leader.popen.send_signal(number)
        first_s = first_commit(cluster.processes[1:])
        return {"until_commit_ms": round(1000 * (first_s - at_s), 1)}


def first_commit(processes: list[Process]) -> float:
    """Both are asked, for either may lead; the leader says so."""
    with selectors.DefaultSelector() as selector:
        for process in processes:
            assert process.popen.stdout is not None
            selector.register(process.popen.stdout, selectors.EVENT_READ, process)
        for _ in range(100):
            for key, _ in selector.select(timeout=10):
                process = key.data
                assert process.popen.stdout is not None
                found = json.loads(process.popen.stdout.readline())
                if found["event"] == "commit":
                    return float(found["at_s"])
    raise RuntimeError("no commit in time")


def purge(arguments: argparse.Namespace) -> dict[str, Any]:
    entries = int(PURGE_ENTRIES * arguments.scale)
    with Cluster(arguments, 1, NEVER) as cluster:
        load = {"batch": 1, "window": 2000, "size": 16, "seconds": 600, "entries": entries}
        cluster.leader.do(do="load", **load)
        filled = cluster.leader.hear("load")
        time.sleep(1.0)
        filling = [status_of(process) for process in cluster.processes]
        longest_ms = 0.0
        call_ms = 0.0
        for process in cluster.processes:
            process.do(do="snapshot")
            found = process.hear("snapshot")
            longest_ms = max(longest_ms, found["longest_turn_ms"], found["call_ms"])
            call_ms = max(call_ms, found["call_ms"])
        status = status_of(cluster.leader)
        return {
            "entries": filled["entries"],
            "fill_entries_per_s": filled["entries_per_s"],
            "fill_longest_turn_ms": max(each["longest_turn_ms"] for each in filling),
            "fill_longest_turn_cpu_ms": max(each["longest_turn_cpu_ms"] for each in filling),
            "call_ms": call_ms,
            "longest_turn_ms": longest_ms,
            "rss_mb": status["rss_mb"],
        }


def run(case: str, arguments: argparse.Namespace) -> dict[str, Any]:
    if case in SPEED:
        return speed(case, arguments)
    if case == "idle":
        return idle(arguments)
    if case == "kill":
        return fail_over(signal.SIGKILL, arguments)
    if case == "stop":
        return fail_over(signal.SIGSTOP, arguments)
    return purge(arguments)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", default=",".join(AIMS))
    parser.add_argument("--seconds", type=float, default=30.0)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--scale", type=float, default=1.0, help="of the 5 M entries of `purge`")
    parser.add_argument(
        "--data", type=Path, default=None, help="a directory on the disk to be used"
    )
    parser.add_argument("--python", default=sys.executable)
    arguments = parser.parse_args()
    print(f"{platform.platform()}, Python {platform.python_version()}, {os.cpu_count()} CPUs")
    rows: list[str] = []
    for case in arguments.cases.split(","):
        key, aim, is_more_better = AIMS[case]
        values: list[float] = []
        for number in range(arguments.rounds):
            found = run(case, arguments)
            found.pop("event", None)
            print(json.dumps({"case": case, "round": number, **found}), flush=True)
            values.append(found[key])
        median = statistics.median(values)
        reached = median >= aim if is_more_better else median <= aim
        verdict = "reached" if reached else "missed"
        spread = f"{min(values):g} .. {max(values):g}"
        rows.append(f"{case:8s} {key:16s} {median:>10g}  ({spread})  aim {aim:g}: {verdict}")
    print("\n".join(rows))


if __name__ == "__main__":
    main()

"""The bytes that were synced are at least the bytes that were confirmed: `--help`; needs strace.

Runs a short load of durable, confirmed publishes on a node under
`strace -f -e trace=pwritev2,pwritev,fdatasync,fsync` and reads what it says: each `pwritev2` with
RWF_DSYNC that came back is synced by itself; what was written without counts when the file is
synced. Bodies are random in size and cannot be squeezed. The exit code is 0 if all bodies that
were confirmed, in bytes, are no more than what was synced to files of the log while they were sent.
"""

import argparse
import json
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from bench.run import HERE, ROOT, Warren

CALLS: Final = "trace=pwritev2,pwritev,fdatasync,fsync"
CALL: Final = re.compile(r"(pwritev2|pwritev|fdatasync|fsync)\((\d+)<([^>]*)>(.*)")
RESUMED: Final = re.compile(r"<\.\.\. (\w+) resumed>(.*)")
ANSWER: Final = re.compile(r"\) += (-?\d+)")


@dataclass
class Synced:
    """Bytes by how they came to the disk. `begun`: calls that strace shows in two lines."""

    by_write: int = 0
    by_sync: int = 0
    syncs: int = 0
    unsynced: dict[str, int] = field(default_factory=dict)  # by file
    begun: dict[str, tuple[str, str, str]] = field(default_factory=dict)  # by thread

    def take(self, line: str) -> None:
        """One line of strace."""
        thread, _, rest = line.strip().partition(" ")
        call = CALL.search(rest)
        if call is not None:
            name, _, path, arguments = call.groups()
            if "<unfinished" in rest:
                self.begun[thread] = (name, path, arguments)
            else:
                self._done(name, path, arguments)
            return
        resumed = RESUMED.search(rest)
        if resumed is not None and thread in self.begun:
            name, path, arguments = self.begun.pop(thread)
            self._done(name, path, arguments + resumed.group(2))

    def _done(self, name: str, path: str, arguments: str) -> None:
        answer = ANSWER.search(arguments)
        if answer is None or int(answer.group(1)) < 0 or "/log/" not in path:
            return
        if name in ("fsync", "fdatasync"):
            self.syncs += 1
            self.by_sync += self.unsynced.pop(path, 0)
        elif "RWF_DSYNC" in arguments:
            self.syncs += 1
            self.by_write += int(answer.group(1))
        else:
            self.unsynced[path] = self.unsynced.get(path, 0) + int(answer.group(1))


def read_trace(lines: Iterable[str]) -> Synced:
    """What a trace says."""
    synced = Synced()
    for line in lines:
        synced.take(line)
    return synced


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--python", type=Path, default=ROOT / ".venv-compiled/bin/python")
    parser.add_argument("--count", type=int, default=100_000, help="messages")
    parser.add_argument("--size", type=int, default=1024, help="bytes of a body")
    parser.add_argument("--port", type=int, default=0, help="of the node; default as in run.py")
    parser.add_argument("--data", type=Path, help="folder on the disk to measure")
    return parser.parse_args(arguments)


def run(options: argparse.Namespace, folder: Path) -> tuple[int, Synced, Synced]:
    """Messages confirmed; what was synced before and during the load."""
    broker = Warren(options.python.absolute(), folder, [])
    if options.port:
        broker.port, broker.management_port = options.port, options.port + 1
    broker.start()
    trace = folder / "trace"
    # What is written to make a reserve is synced, too: its name distinguishes it.
    command = ["strace", "-f", "-y", "-e", CALLS, "-o", str(trace), "-p", str(broker.pid())]
    watcher = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    try:
        assert watcher.stderr is not None
        watcher.stderr.readline()  # It is attached.
        words = [str(HERE / "vgen"), "--port", str(broker.port), "--window", "1000", "--keep"]
        words += ["--size", str(options.size), "--count", str(options.count), "--warmup", "0"]
        done = subprocess.run(
            [*words, "--duration", "600"],
            stdout=subprocess.PIPE,
            text=True,
            timeout=700,
            check=True,
        )
        confirmed = int(json.loads(done.stdout.strip().splitlines()[-1])["confirmed"])
    finally:
        watcher.terminate()
        watcher.wait(30)
        broker.stop()
    lines = trace.read_text(errors="replace").splitlines()
    reserve = [line for line in lines if "/tmp-" in line or "/spare-" in line]
    logged = [line for line in lines if "/tmp-" not in line and "/spare-" not in line]
    return confirmed, read_trace(logged), read_trace(reserve)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run, print a JSON object."""
    options = parse(arguments)
    subprocess.run(["make", "-s", "-C", str(HERE)], check=True)
    folder = Path(tempfile.mkdtemp(prefix="warren-synced-", dir=options.data))
    try:
        confirmed, log, reserve = run(options, folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    synced = log.by_write + log.by_sync
    result = {
        "messages_confirmed": confirmed,
        "bytes_confirmed": confirmed * options.size,
        "bytes_synced": synced,
        "syncs": log.syncs,
        "bytes_of_reserve_not_counted": reserve.by_write + reserve.by_sync,
        "holds": 0 < confirmed * options.size <= synced,
    }
    print(json.dumps(result))
    return 0 if result["holds"] else 1


if __name__ == "__main__":
    sys.exit(main())

"""Keyed state on a disk that takes long to sync: the interpreter goes on meanwhile."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Final

from tests.faults.nodes import build_library

SYNC_MS: Final = 400
BATCHES: Final = 150  # of 60 KB: several times what RocksDB keeps in memory
SCRIPT: Final = """
import os, sys, threading, time
from queue import SimpleQueue
from warren.storage.keyed import SNAPSHOTS, Batch, RocksKeyed

path, control, order, batches = sys.argv[1:]
posted = SimpleQueue()
keyed = RocksKeyed(path, posted.put, print, print)
moments = [time.monotonic()]
is_over = threading.Event()

def look():
    while not is_over.wait(0.005):
        moments.append(time.monotonic())

watch = threading.Thread(target=look)
watch.start()
with open(control, "w") as file:
    file.write(order)
told = []
for number in range(int(batches)):
    batch = Batch()
    batch.put(SNAPSHOTS, b"%06d" % number, os.urandom(60_000))
    keyed.save([batch], lambda: told.append(number))
while len(told) < int(batches):
    posted.get(timeout=60)()
is_over.set()
watch.join()
assert len(list(keyed.rows(SNAPSHOTS, b"0", b"9"))) == int(batches)
keyed.close()
print(max(after - before for before, after in zip(moments, moments[1:])))
"""


def test_the_loop_goes_on_while_rocksdb_waits_for_the_disk(tmp_path: Path) -> None:
    """RocksDB holds the interpreter's lock while it takes a batch: it may not wait then."""
    keyed, control = tmp_path / "keyed", tmp_path / "faults"
    keyed.mkdir()
    environment = {
        **os.environ,
        "LD_PRELOAD": str(build_library(tmp_path)),
        "DISK_FAULTS": str(control),
        "DISK_FAULTS_UNDER": str(keyed.resolve()),
    }
    order = f"sync . 0 {SYNC_MS} all\n"
    command = [sys.executable, "-c", SCRIPT, str(keyed), str(control), order, str(BATCHES)]
    run = subprocess.run(
        command, env=environment, capture_output=True, text=True, timeout=120, check=True
    )
    assert control.with_suffix(".hits").stat().st_size > BATCHES * 60_000 >> 20
    assert float(run.stdout) < SYNC_MS / 1000

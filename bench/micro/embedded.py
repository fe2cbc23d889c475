"""How long a program waits for a broker of `warren.testing`, its import included.

    python bench/micro/embedded.py [--rounds 10]

Run it with the interpreter that has the wheel. Each round is a process of its own, which imports
`warren.testing` and starts a `Broker`; the time begins before the import and ends with the first
statement inside of `with`. On a quiet machine.
"""

import argparse
import statistics
import subprocess
import sys

PROGRAM = """
import time
begun_s = time.perf_counter()
from warren.testing import Broker
imported_s = time.perf_counter()
with Broker() as broker:
    ready_s = time.perf_counter()
print(imported_s - begun_s, ready_s - begun_s, broker.build)
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=10)
    rounds: int = parser.parse_args().rounds
    imports, brokers, build = [], [], ""
    for _ in range(rounds):
        done = subprocess.run(
            [sys.executable, "-P", "-c", PROGRAM], capture_output=True, text=True, timeout=60
        )
        if done.returncode:
            raise SystemExit(done.stderr)
        imported, ready, build = done.stdout.split()
        imports.append(float(imported))
        brokers.append(float(ready))
    print(
        f"{build} build, {rounds} rounds: import {statistics.median(imports):.3f} s, "
        f"broker there after {statistics.median(brokers):.3f} s "
        f"({min(brokers):.3f} to {max(brokers):.3f})"
    )


if __name__ == "__main__":
    main()

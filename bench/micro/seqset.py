"""What a set of message_seqs costs: time of single operations, small and large; bytes per run.

    python bench/micro/seqset.py [--runs 1000000] [--sample 20000]

Run it with the interpreter that has the compiled wheel. The loops add some 50 ns to each call of
a compiled method. By hand, on a quiet machine; no run takes longer than a minute.
"""

import argparse
import platform
import random
import sys
import time
import tracemalloc
from collections.abc import Callable

from queues.runs import seqset
from queues.runs.seqset import SeqSet

CYCLES = 300_000
ROUNDS = 5  # the best of so many is reported
SLICE_RUNS = 1000


def backlog(cycles: int) -> None:
    """One run that grows at its end and shrinks at its head."""
    found = SeqSet()
    found.add(1, 1000)
    for seq in range(1001, 1001 + cycles):
        found.add(seq, 1)
        found.drop_head(1)


def keeping_up(cycles: int) -> None:
    """A queue that is empty between any two messages."""
    found = SeqSet()
    for seq in range(1, 1 + cycles):
        found.add(seq, 1)
        found.drop_head(1)


def whole_way(cycles: int) -> None:
    """What a message costs from publish to accept: ready, then held, then gone."""
    ready = SeqSet()
    held = SeqSet()
    ready.add(1, 100)
    held.add(ready.first(), 100)
    ready.drop_head(100)
    for seq in range(101, 101 + cycles):
        ready.add(seq, 1)
        first = ready.first()
        if ready.head_run() > 0:
            ready.drop_head(1)
        held.add(first, 1)
        held.remove(seq - 100, 1)


def few_runs(cycles: int) -> None:
    """Thirty runs, new ones at the tail, the oldest but nine taken out."""
    found = SeqSet()
    for seq in range(0, 90, 3):
        found.add(seq, 2)
    for seq in range(90, 90 + 3 * cycles, 3):
        found.add(seq, 2)
        found.remove(seq - 63, 2)


def singles(runs: int) -> SeqSet:
    """Every fourth number."""
    found = SeqSet()
    for seq in range(4, 4 * runs + 4, 4):
        found.add(seq, 1)
    return found


def removed(found: SeqSet, order: list[int]) -> None:
    for seq in order:
        found.remove(seq, 1)


def inserted(found: SeqSet, order: list[int]) -> None:
    for seq in order:
        found.add(seq + 2, 1)


def looked_up(found: SeqSet, order: list[int]) -> None:
    for seq in order:
        found.contains(seq)


def dropped(found: SeqSet, order: list[int]) -> None:
    for _ in order:
        found.drop_head(1)


def best(work: Callable[[int], None], count: int) -> float:
    taken: list[float] = []
    for _ in range(ROUNDS):
        start = time.perf_counter()
        work(count)
        taken.append(time.perf_counter() - start)
    return min(taken)


def tell(name: str, seconds: float, count: int) -> None:
    print(f"{name:<44} {seconds / count * 1e9:10.1f} ns each  {seconds * 1e3:10.1f} ms in all")


def small_sets() -> None:
    for work in (backlog, keeping_up, whole_way, few_runs):
        tell(f"cycle, {work.__name__}", best(work, CYCLES), CYCLES)


def large_set(runs: int, sample: int) -> None:
    start = time.perf_counter()
    found = singles(runs)
    tell("append a run", time.perf_counter() - start, runs)
    order = random.Random(1).sample(range(4, 4 * runs + 4, 4), sample)
    for work in (looked_up, removed, inserted, dropped):
        start = time.perf_counter()
        work(found, order)
        tell(f"{work.__name__} among {runs} runs", time.perf_counter() - start, sample)


def wide(runs: int) -> None:
    found = singles(runs)
    start = time.perf_counter()
    slices = 0
    while found.count > runs // 2:
        found.take_head(SLICE_RUNS)
        slices += 1
    tell(f"take_head of {SLICE_RUNS} runs", time.perf_counter() - start, slices)
    kept = found.run_count()
    start = time.perf_counter()
    encoded = found.encode()
    tell("encode a run", time.perf_counter() - start, kept)
    start = time.perf_counter()
    SeqSet.decode(encoded)
    tell("decode a run", time.perf_counter() - start, kept)
    start = time.perf_counter()
    found.remove(1, 8 * runs)
    tell("remove a run of a wide range", time.perf_counter() - start, kept)


def memory(runs: int) -> None:
    order = list(range(4, 4 * runs + 4, 4))
    random.Random(2).shuffle(order)
    tracemalloc.start()
    found = singles(runs)
    tell_bytes("appended", found)
    removed(found, order[: runs // 2])
    tell_bytes("then half removed at random", found)
    removed(found, order[runs // 2 : runs * 9 // 10])
    tell_bytes("then nine in ten", found)
    found = SeqSet()
    inserted(found, order)
    tell_bytes("inserted at random", found)
    tracemalloc.stop()


def tell_bytes(name: str, found: SeqSet) -> None:
    used = tracemalloc.get_traced_memory()[0]
    runs = found.run_count()
    print(f"memory, {name:<36} {used / runs:10.1f} bytes a run  {used / 1e6:10.1f} MB")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument("--runs", type=int, default=1_000_000)
    parser.add_argument("--sample", type=int, default=20_000)
    options = parser.parse_args()
    print(f"Python {platform.python_version()} {sys.platform}, {seqset.__file__}")
    small_sets()
    large_set(options.runs, options.sample)
    wide(options.runs)
    memory(options.runs)


if __name__ == "__main__":
    main()

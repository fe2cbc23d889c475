"""How long a turn a snapshot of a long queue takes. No I/O.

    python -m bench.micro.snapshot [--messages N]

A machine gets N messages, and every second one is settled; some of the others are given back. Then
it is frozen, encoded piece by piece, decoded piece by piece, and what the old one had is looked
through. Printed are milliseconds of CPU time: the longest of each step, and all of them together.
What is done in a turn is WORK_SLICES pieces.
"""

import argparse
from collections.abc import Callable
from functools import partial
from time import process_time
from typing import Final, TypeVar

from queues.hosts.sweeping import Sweep, sets_alive
from queues.machine.commands import ACCEPT, FAIL, Attach, Enqueue, SessionId, Settle, consumer_key
from queues.machine.fifo import Fifo
from queues.machine.fifo_snapshot import Frozen, Thawing
from queues.machine.options import Options
from queues.runs import seqset
from queues.runs.seqset import SeqSet

KEY: Final = consumer_key(SessionId(7 << 64 | 1), 1)
BATCH: Final = 8192  # messages that are settled at once
OPTIONS: Final = Options(counts_deliveries=True, delivery_limit=1000)


Found = TypeVar("Found")


class Steps:
    """Times of steps of one kind."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.times: list[float] = []

    def time(self, call: Callable[[], Found]) -> Found:
        began = process_time()
        found = call()
        self.times.append(1000 * (process_time() - began))
        return found

    def line(self) -> str:
        if not self.times:
            return f"{self.name:<24}{'-':>8}"
        longest, total = max(self.times), sum(self.times)
        return f"{self.name:<24}{len(self.times):>8}{longest:>12.2f}{total:>12.1f}"


def scattered(count: int, returned: bool) -> Fifo:
    """Every second message is settled; of the others half are given back, if `returned`."""
    machine = Fifo(OPTIONS)
    machine.begin_streams()
    machine.apply([Attach(KEY, count, True, False, 0)], 1)
    machine.apply([Enqueue(SessionId(7 << 64 | 1), 1, count)], 1)
    for first in range(1, count + 1, BATCH):
        end = min(first + BATCH, count + 1)
        machine.apply([Settle(KEY, ACCEPT, [(seq, 1) for seq in range(first, end, 2)])], 2)
        if returned:
            runs = [(seq, 1) for seq in range(first + 1, end, 4)]
            machine.apply([Settle(KEY, FAIL, runs)], 2)
    return machine


def measure(count: int, returned: bool) -> None:
    machine = scattered(count, returned)
    names = ("freeze", "encode a piece", "decode a piece", "finish", "look for the dead")
    freeze, encode, decode, finish, look = (Steps(name) for name in names)
    frozen = freeze.time(lambda: Frozen(machine))
    pieces: list[bytes] = []
    while (piece := encode.time(frozen.take)) is not None:
        pieces.append(piece)
    copy = Fifo(OPTIONS)
    copy.begin_streams()
    thawing = Thawing(copy)
    for piece in pieces:
        decode.time(partial(thawing.feed, piece))
    finish.time(thawing.finish)
    sweep = Sweep(machine, SeqSet(), sets_alive(copy), copy.next_seq, 1)
    for first in range(1, count, BATCH):
        look.time(partial(sweep.within, first, BATCH))
    byte_count = sum(map(len, pieces))
    print(f"{count} messages, given back: {returned}; {len(pieces)} pieces, {byte_count} bytes")
    for steps in (freeze, encode, decode, finish, look):
        print("   " + steps.line())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--messages", type=int, default=1_000_000)
    arguments = parser.parse_args()
    build = "pure" if (seqset.__file__ or "").endswith(".py") else "compiled"
    print(f"{build} build; steps, longest ms, all ms")
    for returned in (False, True):
        measure(arguments.messages, returned)


if __name__ == "__main__":
    main()

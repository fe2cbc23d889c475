"""Messages that died and are kept until their dead letters are safe elsewhere. Compiled.

Owned by the machine of a queue that dead-letters at least once: what dies is out of the queue, and
here until a command says that it is buried. A new leader begins with what is here. Where the queue
has a limit on bytes, what is dying counts for it (and never for the length).
"""

from typing import Final, final

from mypy_extensions import i64

from queues.machine.effects import (
    LEFT_DELIVERY_LIMIT,
    LEFT_EXPIRED,
    LEFT_MAXLEN,
    LEFT_REJECTED,
    LEFT_TOO_LARGE,
)
from queues.runs.columns import Sparse, alike_runs
from queues.runs.seqset import SeqSet

DEATHS: Final = {  # why messages die, and what their dead letters call it
    LEFT_REJECTED: "rejected",
    LEFT_EXPIRED: "expired",
    LEFT_MAXLEN: "maxlen",
    LEFT_DELIVERY_LIMIT: "delivery_limit",
    LEFT_TOO_LARGE: "headers_too_large",
}


@final
class PendingDeadLetters:
    """By the reason why they died. Invariant: the sets have no message in common; `bytes` is the
    sum of `sizes`, which have no message that is not here, and none that weighs nothing."""

    def __init__(self) -> None:
        self.count: i64 = 0
        self.bytes: i64 = 0  # of bodies, where they were counted when they died
        self.sizes = Sparse()
        self._by_reason: dict[int, SeqSet] = {}

    def copy(self) -> "PendingDeadLetters":
        """Those that are here now, without what they weigh."""
        made = PendingDeadLetters()
        made.count = self.count
        for reason, seqs in self._by_reason.items():
            made._by_reason[reason] = seqs.copy()
        return made

    def add(self, first: i64, count: i64, reason: i64) -> None:
        self.seqs_of(reason).add(first, count)
        self.count += count

    def weigh(self, sizes: list[tuple[int, int, int]]) -> None:
        """What some of them weigh, as (first, count, bytes of each); they were not weighed yet."""
        for first, count, size in sizes:
            self.bytes += count * size
            if size > 0:
                for seq in range(first, first + count):
                    self.sizes.put(seq, size)

    def remove(self, first: i64, count: i64) -> list[tuple[int, int]]:
        """Those of them that were here, as runs."""
        found: list[tuple[int, int]] = []
        for seqs in self._by_reason.values():
            found.extend(seqs.remove(first, count))
        for gone_first, gone in found:
            self.count -= gone
            if self.sizes.count > 0:
                for seq in range(gone_first, gone_first + gone):
                    self.bytes -= self.sizes.take(seq)
        found.sort()
        return found

    def take_from(self, seq: i64) -> tuple[i64, i64]:
        """Take out the lowest that is not below `seq`, or else the lowest of all: it and why it
        died. There is one."""
        assert self.count > 0
        best: i64 = -1
        reason: i64 = 0
        for why, seqs in self._by_reason.items():
            if seqs.count == 0:
                continue
            found = seqs.first_from(seq)
            if found >= 0 and (best < 0 or found < best):
                best = found
                reason = why
        if best < 0:
            return self.take_from(0)
        self.remove(best, 1)
        return best, reason

    def seqs_of(self, reason: i64) -> SeqSet:
        """Those that died for this reason. Who puts some in counts them."""
        seqs = self._by_reason.get(reason)
        if seqs is None:
            seqs = SeqSet()
            self._by_reason[reason] = seqs
        return seqs

    def reasons(self) -> list[int]:
        """Why those died that are here, ascending."""
        return sorted([reason for reason, seqs in self._by_reason.items() if seqs.count > 0])

    def within(self, first: i64, count: i64) -> list[tuple[int, int]]:
        """Which of these messages are here, in no order."""
        found: list[tuple[int, int]] = []
        if self.count > 0:
            for seqs in self._by_reason.values():
                found.extend(seqs.within(first, count))
        return found

    def runs(self) -> list[tuple[int, int, int]]:
        """All, as (first, count, reason), ascending."""
        found: list[tuple[int, int, int]] = []
        for reason, seqs in self._by_reason.items():
            found.extend([(first, count, reason) for first, count in seqs.runs()])
        found.sort()
        return found

    def size_runs(self) -> list[tuple[int, int, int]]:
        """All that were weighed, as (first, count, bytes of each), ascending."""
        return alike_runs(dict(self.sizes.items()))

"""Messages that died and are kept until their dead letters are safe elsewhere (D-08). Compiled.

Owned by the machine of a queue that dead-letters at least once: what dies is out of the queue, and
here until a command says that it is buried. A new leader begins with what is here.
"""

from typing import Final, final

from mypy_extensions import i64

from queues.effects import LEFT_DELIVERY_LIMIT, LEFT_EXPIRED, LEFT_MAXLEN, LEFT_REJECTED
from queues.seqset import SeqSet

DEATHS: Final = (LEFT_REJECTED, LEFT_EXPIRED, LEFT_MAXLEN, LEFT_DELIVERY_LIMIT)


@final
class DyingRuns:
    """By the reason why they died. Invariant: the sets have no message in common."""

    def __init__(self) -> None:
        self.count: i64 = 0
        self._by_reason: dict[int, SeqSet] = {}

    def add(self, first: i64, count: i64, reason: i64) -> None:
        seqs = self._by_reason.get(reason)
        if seqs is None:
            seqs = SeqSet()
            self._by_reason[reason] = seqs
        seqs.add(first, count)
        self.count += count

    def remove(self, first: i64, count: i64) -> list[tuple[int, int]]:
        """Those of them that were here, as runs."""
        found: list[tuple[int, int]] = []
        for seqs in self._by_reason.values():
            found.extend(seqs.remove(first, count))
        for _, gone in found:
            self.count -= gone
        found.sort()
        return found

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

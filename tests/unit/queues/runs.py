"""Numbers as runs, the slow and obvious way."""

from collections.abc import Iterable


def runs_of(seqs: Iterable[int]) -> list[tuple[int, int]]:
    """The numbers, ascending, as (first, count)."""
    found: list[tuple[int, int]] = []
    for seq in sorted(seqs):
        if found and sum(found[-1]) == seq:
            found[-1] = (found[-1][0], found[-1][1] + 1)
        else:
            found.append((seq, 1))
    return found


def seqs_of(runs: Iterable[tuple[int, int]]) -> list[int]:
    """The numbers of the runs, in the order of the runs."""
    return [seq for first, count in runs for seq in range(first, first + count)]

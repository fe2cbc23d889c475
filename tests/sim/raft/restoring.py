"""From what a disk has after a crash to what a core begins with, through `raft.recovery`.

Beside the group's own records there may be some of an earlier group of the same number: `GHOSTS`.
The log is worked out a second time, in the plainest way, and must be the same.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from typing import Final

from raft.entries import COMMAND, Entry, HardState, SnapshotPoint
from raft.recovery import FoundLog, Restored

INCARNATION: Final = 2
GHOSTS: Final = [Entry(index, 50, COMMAND, [b"ghost"], (), 60) for index in range(1, 40)]
GHOST_STATE: Final = HardState(70, 1)


@dataclass(frozen=True, slots=True)
class Begin:
    """`entries` are those that the log consists of, behind the snapshot."""

    restored: Restored
    entries: list[Entry]


def restored(
    random: Random,
    point: SnapshotPoint,
    found: Sequence[Entry],
    states: Sequence[HardState],
) -> Begin:
    """`found` is in any order, and has entries that were replaced; `states` has old ones, too."""
    log = FoundLog(INCARNATION)
    is_haunted = random.random() < 0.3
    for ghost in GHOSTS if is_haunted else ():
        add(log, INCARNATION - 1, ghost)
    for state in states:
        log.add_hard_state(INCARNATION, state.term, state.vote)
    for entry in found:
        add(log, INCARNATION, entry)
    if is_haunted:
        log.add_hard_state(INCARNATION - 1, GHOST_STATE.term, GHOST_STATE.vote)
    return begin_with(log.restored(point), point, found)


def begin_with(result: Restored, point: SnapshotPoint, found: Sequence[Entry]) -> Begin:
    """What was restored is what the entries say."""
    chosen = plainly(point, found)
    assert result.last_index == point.index + len(chosen), (
        f"the log is restored up to {result.last_index}: {point.index} and {len(chosen)}"
    )
    assert list(result.runs) == runs_of(chosen), f"{result.runs}, and the log has {runs_of(chosen)}"
    return Begin(result, chosen)


def add(log: FoundLog, incarnation: int, entry: Entry) -> None:
    payload = b"".join(entry.parts)
    log.add(incarnation, entry.index, entry.term, entry.appended_term, entry.kind, payload)


def plainly(point: SnapshotPoint, found: Sequence[Entry]) -> list[Entry]:
    """At each index the one that was appended last, for as long as that does not fall."""
    newest: dict[int, Entry] = {}
    for entry in sorted(found, key=lambda entry: entry.appended_term):
        newest[entry.index] = entry
    chosen: list[Entry] = []
    appended_term = int(point.appended_term)
    while (entry_here := newest.get(point.index + len(chosen) + 1)) is not None:
        if entry_here.appended_term < appended_term:
            break
        appended_term = entry_here.appended_term
        chosen.append(entry_here)
    return chosen


def runs_of(entries: Sequence[Entry]) -> list[tuple[int, int, int]]:
    runs: list[tuple[int, int, int]] = []
    for entry in entries:
        if not runs or runs[-1][1:] != (entry.term, entry.appended_term):
            runs.append((entry.index, entry.term, entry.appended_term))
    return runs

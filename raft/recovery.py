"""From what a disk holds of a group's log to the log itself. No I/O. Compiled.

A log on disk is what was appended to it, in any order, with entries among it that had been replaced
later: nothing is ever erased. Each entry bears `appended_term`, the term in which this member put
it into its log. At each index behind the snapshot the entry with the highest one counts; the log
ends where there is none, or where it is lower than that of the entry before (or of the snapshot).

Why that is the log. (1) A member appends in the order of its terms, and its log was at each moment
ascending in `appended_term`: what is appended goes to the end. (2) In one term there is one leader,
whose log only grows; what a member appends in that term is the leader's, so two entries at one
index with the same `appended_term` are the same. (3) An entry leaves the log only when another one
is appended at its index or before it, in a higher term, or by a snapshot that is not in accord with
it; then `SnapshotPoint.appended_term` is the term of that, and all that was there before is lower.
So of an index whose newest entry E (appended in a) had left the log, and which got no other, some
index before it has an entry appended in b > a, and from there to E the terms have to fall: the log
ends before E. And an entry of the log is never passed over: whatever was appended at its index
later would have replaced it, and its predecessors were appended no later than it (1). (4) What is
durable is all that was appended up to some moment, for the disk has one log and writes it in order:
so what is found is the log as it was at that moment.
"""

from collections.abc import Iterable
from typing import final

from mypy_extensions import i64

from raft.entries import CONFIG, Config, HardState, SnapshotPoint
from raft.membership import decode_config

Candidate = tuple[int, int, int, int, bytes]  # index, term, appended term, kind, payload


@final
class Restored:
    """What a member is after a start. No contents: entries to apply or to send are asked for.

    `runs`: (first index, term, appended term) of the log behind the snapshot, ascending, one where
    either term changes. `configs`: those behind the snapshot, with their indexes.
    """

    __slots__ = ("configs", "hard_state", "last_index", "runs", "snapshot")

    def __init__(
        self,
        hard_state: HardState,
        snapshot: SnapshotPoint,
        last_index: i64,
        runs: list[tuple[int, int, int]],
        configs: list[tuple[int, Config]],
    ) -> None:
        self.hard_state = hard_state
        self.snapshot = snapshot
        self.last_index: i64 = last_index
        self.runs = runs
        self.configs = configs


def founded(config: Config) -> Restored:
    """A member at its beginning. All that found a group have the same `config`; one that joins a
    group has an empty one, and learns who the members are from the log."""
    return Restored(HardState(0, 0), SnapshotPoint(0, 0, 0, config), 0, [], [])


@final
class FoundLog:
    """Takes what a recovery finds of one group, in any order, and tells what it means.

    Records of another incarnation of the group are of no use and are passed over.
    """

    __slots__ = ("_configs", "_incarnation", "_newest", "_term", "_vote")

    def __init__(self, incarnation: i64) -> None:
        self._incarnation: i64 = incarnation
        self._newest: dict[int, tuple[int, int]] = {}  # by index: appended term, term
        self._configs: dict[tuple[int, int], bytes] = {}  # by index and appended term
        self._term: i64 = 0
        self._vote: i64 = 0

    def add(
        self,
        incarnation: i64,
        index: i64,
        term: i64,
        appended_term: i64,
        kind: i64,
        payload: bytes | memoryview,
    ) -> None:
        """An entry. The payload is looked at only if it is a configuration."""
        if incarnation != self._incarnation:
            return
        known = self._newest.get(index)
        if known is None or known[0] < appended_term:
            self._newest[index] = (appended_term, term)
        if kind == CONFIG:
            self._configs[(index, appended_term)] = bytes(payload)

    def add_hard_state(self, incarnation: i64, term: i64, vote: i64) -> None:
        """The newest one has the highest term; in a term, the one with a vote."""
        if incarnation != self._incarnation or term < self._term:
            return
        if term > self._term or vote != 0:
            self._term = term
            self._vote = vote

    def highest_term(self) -> i64:
        """That anything here speaks of, be it no log any more."""
        found = self._term
        for appended_term, _ in self._newest.values():
            found = max(found, i64(appended_term))
        return found

    def highest_index(self) -> i64:
        """Of all entries that were found, be they no log any more; 0: none."""
        found: i64 = 0
        for index in self._newest:
            found = max(found, i64(index))
        return found

    def missing_index(self, restored: Restored) -> i64:
        """The first index behind the log at which an entry must have been, since a later one was
        appended no earlier than the log's last; 0: nothing is missing."""
        last_appended: i64 = restored.snapshot.appended_term
        if len(restored.runs) > 0:
            last_appended = restored.runs[-1][2]
        for index, (appended_term, _) in self._newest.items():
            if index > restored.last_index and appended_term >= last_appended:
                return restored.last_index + 1
        return 0

    def restored(self, snapshot: SnapshotPoint) -> Restored:
        """With the newest snapshot that is there. ValueError: what was found is no log."""
        runs: list[tuple[int, int, int]] = []
        configs: list[tuple[int, Config]] = []
        index = snapshot.index
        last_term = snapshot.term
        last_appended = snapshot.appended_term
        while True:
            found = self._newest.get(index + 1)
            if found is None or found[0] < last_appended:
                break
            index += 1
            appended_term, term = found
            if term < last_term or appended_term < term:
                raise ValueError(f"entry {index} of term {term} behind one of {last_term}")
            if not runs or term != last_term or appended_term != last_appended:
                runs.append((int(index), term, appended_term))
            last_term = term
            last_appended = appended_term
            payload = self._configs.get((index, appended_term))
            if payload is not None:
                configs.append((int(index), decode_config(payload)))
        hard_state = HardState(self._term, self._vote)
        if self._term < snapshot.appended_term:
            # The snapshot became durable before the log had that term: no vote was given in it.
            hard_state = HardState(snapshot.appended_term, 0)
        if hard_state.term < last_appended:
            raise ValueError(f"term {self._term}, and an entry of {last_appended} in the log")
        return Restored(hard_state, snapshot, index, runs, configs)


def resolve(
    snapshot: SnapshotPoint, hard_state: HardState, candidates: Iterable[Candidate]
) -> Restored:
    """All at once, of one incarnation."""
    found = FoundLog(0)
    found.add_hard_state(0, hard_state.term, hard_state.vote)
    for index, term, appended_term, kind, payload in candidates:
        found.add(0, index, term, appended_term, kind, payload)
    return found.restored(snapshot)

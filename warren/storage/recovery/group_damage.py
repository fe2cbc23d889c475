"""Which members of log groups a bad place may have hit: an entry, or a term and vote. Reads only.

Takes the RAFT_ENTRY and HARD_STATE records of all files in ascending order of their ids, each with
the number of bad places before it; gives `Hit`s. What shows that nothing is missing in a place:

- the entries of a group before and behind it follow each other and have the same appended_term:
  what a member appends in one term is without holes. Otherwise an entry may have been there, or one
  that was to end others, below the index of the entry behind it;
- hard states have numbers in the whole log, also those that are repeated: the numbers before and
  behind it follow each other; or the member has a newer hard state behind the place.

A place that names no owner is held against the groups that have entries in its file, and, if a hard
state may have been there, against every member whose newest one is older. Compiled.
"""

from collections.abc import Iterable, Sequence
from typing import Final, final

from warren.storage.record import HARD_STATE, RAFT_ENTRY, Record, decode_raft_head
from warren.storage.recovery.damage import FAR, Hit, Place

LOGS: Final = 0  # stands for the file id of all logs: their records are in the order of appends


@final
class Step:
    """Entries of a group between two bad places: the first and the last of them."""

    __slots__ = ("file_ids", "first", "interval", "last")

    def __init__(self, interval: int, entry: tuple[int, int, int], file_id: int) -> None:
        self.interval = interval  # so many bad places are before it
        self.first = entry  # incarnation, appended_term, index
        self.last = entry
        self.file_ids = (file_id, file_id)  # of the first and the last one


@final
class GroupEvidence:
    """`begin_file` and `note` for all that is sound, then `hits`."""

    def __init__(self) -> None:
        self._file_id = 0
        self._shared = False
        self._trails: dict[tuple[int, int], list[Step]] = {}  # by owner and segment, or LOGS
        self._members: set[int] = set()
        self._numbers: list[
            tuple[int, int, int]
        ] = []  # interval; first, last number of hard states
        self._newest: dict[int, int] = {}  # interval of the newest hard state, by owner

    def begin_file(self, file_id: int, shared: bool) -> None:
        self._file_id = file_id
        self._shared = shared

    def note(self, record: Record, interval: int) -> None:
        """A RAFT_ENTRY or HARD_STATE behind so many bad places."""
        self._members.add(record.owner)
        if record.kind == HARD_STATE:
            self._newest[record.owner] = interval
            if self._numbers and self._numbers[-1][0] == interval:
                self._numbers[-1] = (interval, self._numbers[-1][1], record.index)
            else:
                self._numbers.append((interval, record.index, record.index))
            return
        _, appended_term, _ = decode_raft_head(record.payload)
        entry = (record.part, appended_term, record.index)
        place = LOGS if self._shared else self._file_id
        trail = self._trails.setdefault((record.owner, place), [])
        if trail and trail[-1].interval == interval:
            step = trail[-1]
            step.last = entry
            step.file_ids = (step.file_ids[0], self._file_id)
        else:
            trail.append(Step(interval, entry, self._file_id))

    def hits(self, places: Sequence[Place], groups: Iterable[int] = ()) -> list[Hit]:
        """Members that may be hit, with the highest index that may be missing. `groups` are all
        that there may be: a lost file may have had all records of one."""
        members = self._members.union(groups)
        found: list[Hit] = []
        for number, place in enumerate(places):
            kind = place.bad.kind
            if kind not in (0, RAFT_ENTRY, HARD_STATE):
                continue
            for owner in self._suspects(place, members):
                upto = -1
                if kind != RAFT_ENTRY and self._may_lack_state(number, place, owner):
                    upto = FAR
                elif kind != HARD_STATE:
                    upto = self._lost_upto(number, place, owner)
                if upto > 0:
                    found.append(Hit(owner, place.bad, 0, upto))
        return found

    def has_records(self, owner: int) -> bool:
        """Whether a sound record of that group was noted, so that `hits` judges it."""
        return owner in self._members

    def _suspects(self, place: Place, members: set[int]) -> list[int]:
        named = place.bad.owners
        if place.listed is not None and place.listed.groups is not None:
            return sorted(members.intersection(place.listed.groups))
        if not named:
            return sorted(members)
        certain = place.bad.kind != 0
        return [owner for owner in named if certain or owner in members]

    def _may_lack_state(self, number: int, place: Place, owner: int) -> bool:
        """Whether the newest hard state of the member may have been in this place."""
        if not place.shared or self._newest.get(owner, 0) > number:
            return False  # They are not copied to segments; or there is a newer one.
        before = 0
        after = 0
        for interval, first, last in self._numbers:
            if interval <= number:
                before = last
            elif after == 0:
                after = first
        return after != before + 1

    def _lost_upto(self, number: int, place: Place, owner: int) -> int:
        """The highest index of an entry of the group that may have been in this place; -1: none."""
        before: Step | None = None
        after: Step | None = None
        for step in self._trails.get((owner, LOGS if place.shared else place.file_id), []):
            if step.interval <= number:
                before = step
            elif after is None:
                after = step
        is_named = owner in place.bad.owners
        near_before = before is not None and before.file_ids[1] == place.file_id
        near_after = after is not None and after.file_ids[0] == place.file_id
        if not is_named and not near_before and not near_after and place.listed is None:
            return -1
        if after is None:
            return FAR if before is None else self._last_lost(place, before)
        incarnation, appended_term, index = after.first
        if before is not None and before.last == (incarnation, appended_term, index - 1):
            return -1
        return index - 1

    def _last_lost(self, place: Place, before: Step) -> int:
        """The same, if the group has no entry behind the place.

        The index that stands in a bad record counts only if it is the one that was due.
        """
        index = before.last[2] + 1
        is_due = place.bad.kind == RAFT_ENTRY and place.bad.index == index
        return index if is_due else FAR

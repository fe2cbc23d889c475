"""Who is hit by a bad place in the log: the evidence, and the verdict. Reads, changes nothing.

Runs only after recovery has met a bad place, over all files once more. A PUBLISH has its number in
the whole log and keeps it when it is copied, so each place lies between two such numbers, and what
an owner has published before and after it shows what is missing of its messages in between
(docs/decisions/0015). Takes sound records; gives `Hit`s. Whether a hit of a log group matters
depends on its snapshot, so that its owner decides. Compiled.
"""

from bisect import bisect_right
from operator import ne
from typing import Final, final

from msgspec import Struct

from warren.storage.manifest import SEALED, Listed
from warren.storage.ranges import RangeSet
from warren.storage.record import (
    ENTRY,
    FILE_LIST,
    MARK,
    PUBLISH,
    TARGET,
    CorruptRecord,
    PublishPayload,
    Ranges,
)

FAR: Final = 1 << 63
MESSAGE_KINDS: Final = (0, PUBLISH)  # what a bad record may have been if messages are missing
ENTRY_KINDS: Final = (0, ENTRY)
MARK_KINDS: Final = (0, MARK)
UNKNOWN_KINDS: Final = (0, PUBLISH, FILE_LIST)  # behind these a file may be missing as well


class Hit(Struct, frozen=True):
    """An owner that is, or may be, hit by a bad place."""

    owner: int
    place: CorruptRecord
    # Of a log group: an entry behind this one may be missing, unless a snapshot has it.
    # -1: messages are missing.
    entry_after: int = -1
    # Of a member of a log group: an entry up to this index may be missing, and its snapshot does
    # not hold it; FAR: or the last ones, or its vote. -1: it is no such hit.
    lost_upto: int = -1


class Known(Struct, frozen=True):
    """What recovery knows of an owner's messages."""

    dead: RangeSet
    last_seq: int
    mark_file_id: int  # 0: no mark was found


@final
class Place:
    """A bad place, and the numbers of the publishes on both sides of it."""

    __slots__ = (
        "bad",
        "entries",
        "file_id",
        "high",
        "listed",
        "low",
        "publishers",
        "shared",
    )

    def __init__(self, bad: CorruptRecord, file_id: int, low: int, shared: bool) -> None:
        self.bad = bad
        # What the list of files says of the file, if nothing of it could be read.
        self.listed: Listed | None = None
        self.file_id = file_id
        self.shared = shared  # a log, not a segment: no number is left out in it
        self.low = low  # 0: not known
        self.high = FAR
        self.publishers: set[int] = set()  # that have a sound PUBLISH in the same file
        self.entries: dict[int, int] = {}  # last index in the same file before it, by group

    def take_listed(self, row: Listed) -> None:
        """Nothing of the file could be read: use what the list of files says of it."""
        self.listed = row
        if row.state == SEALED:
            if row.first <= row.last:
                self.low = max(self.low, row.first - 1)
                self.high = row.last + 1
            if row.groups is not None:
                self.entries = {owner: last for owner, last in row.groups.items() if last > 0}

    @property
    def holds_no_publish(self) -> bool:
        row = self.listed
        if row is not None and row.state == SEALED and row.first > row.last:
            return True
        return self.shared and self.low > 0 and self.high == self.low + 1


@final
class Trail:
    """What one owner has published, and where in the order of the log."""

    __slots__ = ("checkpoint_file_id", "checkpoint_live", "found", "stretches")

    def __init__(self) -> None:
        self.found = RangeSet()
        self.stretches: dict[int, tuple[int, int]] = {}  # by interval: first, end
        self.checkpoint_file_id = 0
        self.checkpoint_live: Ranges = []  # of the newest one


@final
class Evidence:
    """Two passes: `begin_file`, `number` and `bad` for all, then `seal`, then `note_*`."""

    def __init__(self) -> None:
        self.places: list[Place] = []
        self._low = 0  # number of the last PUBLISH in the logs so far
        self._open: list[Place] = []  # still without the number behind them
        self._file_id = 0
        self._shared = False
        self._low_here = 0
        self._bounds: list[int] = []
        self._trails: dict[int, Trail] = {}
        self._last_entries: dict[int, int] = {}
        self._last_files: dict[int, int] = {}  # with entries, by group
        self._entries_here: dict[int, int] = {}

    # First pass, files in ascending order of their ids

    def begin_file(self, file_id: int, shared: bool) -> None:
        if not shared or not self._shared:
            self._open = [place for place in self._open if place.shared]
        self._file_id = file_id
        self._shared = shared
        self._low_here = 0
        self._entries_here = {}

    def number(self, index: int) -> None:
        """A sound PUBLISH."""
        still: list[Place] = []
        for place in self._open:
            if place.shared == self._shared:
                place.high = min(place.high, index)
            else:
                still.append(place)
        self._open = still
        self._low_here = max(self._low_here, index)
        if self._shared:
            self._low = max(self._low, index)

    def entry(self, owner: int, index: int) -> None:
        """A sound ENTRY."""
        self._last_entries[owner] = max(self._last_entries.get(owner, 0), index)
        self._last_files[owner] = max(self._last_files.get(owner, 0), self._file_id)
        self._entries_here[owner] = max(self._entries_here.get(owner, 0), index)

    def bad(self, found: CorruptRecord, listed: Listed | None = None) -> None:
        low = self._low if self._shared else self._low_here
        place = Place(found, self._file_id, low, self._shared)
        place.entries = dict(self._entries_here)
        if listed is not None:
            place.take_listed(listed)
        self.places.append(place)
        self._open.append(place)

    def seal(self) -> None:
        """All places are known."""
        edges = {place.low + 1 for place in self.places} | {place.high for place in self.places}
        self._bounds = sorted(edges)

    # Second pass, in any order

    def note_publish(self, file_id: int, index: int, payload: PublishPayload) -> None:
        interval = bisect_right(self._bounds, index)
        for owner, first in payload.targets:
            trail = self._trail(owner)
            end = first + payload.count
            trail.found.add(first, payload.count)
            old = trail.stretches.get(interval, (first, end))
            trail.stretches[interval] = (min(old[0], first), max(old[1], end))
            for place in self.places:
                if place.file_id == file_id:
                    place.publishers.add(owner)

    def note_checkpoint(self, file_id: int, owner: int, live: Ranges) -> None:
        trail = self._trail(owner)
        if file_id >= trail.checkpoint_file_id:
            trail.checkpoint_file_id = file_id
            trail.checkpoint_live = live

    def _trail(self, owner: int) -> Trail:
        trail = self._trails.get(owner)
        if trail is None:
            trail = self._trails[owner] = Trail()
        return trail

    # The verdict

    def hits(self, known: dict[int, Known]) -> list[Hit]:
        """The owners whose messages, or entries, are or may be missing."""
        found: list[Hit] = []
        for place in self.places:
            found.extend(self._entry_hits(place))
            if place.bad.kind not in MESSAGE_KINDS or place.holds_no_publish:
                continue
            found.extend(self._message_hits(place, known))
        found.extend(self._missed_by_checkpoints(known))
        return found

    def _message_hits(self, place: Place, known: dict[int, Known]) -> list[Hit]:
        """Whose messages were in the place: its targets, as far as they can be believed, and else
        the owners that miss some there."""
        targets = place.bad.targets
        believed = [each for each in targets if self._credible(place, *each, known)]
        hit = {
            owner
            for owner, first, count in believed
            if owner in known and self._lost(place, owner, known[owner], first, count)
        }
        if not targets or len(believed) < len(targets):
            named = {target[0] for target in believed}
            odd = [TARGET.pack(*each[:2]) for each in targets if each not in believed]
            hit.update(
                owner
                for owner, state in known.items()
                if owner not in named
                and (was_last(owner, state, odd) or self._may_miss(place, owner, state))
            )
        return [Hit(owner, place.bad) for owner in sorted(hit)]

    def settled_since(self, place: Place, known: dict[int, Known]) -> set[int]:
        """Owners that a CHECKPOINT behind the place clears: it must stay in the log as long as the
        place does, or the next start finds them hit."""
        return {
            owner
            for owner, trail in self._trails.items()
            if trail.checkpoint_file_id > place.file_id and owner in known
        }

    def unmarked(self, known: dict[int, Known]) -> set[int]:
        """Owners whose newest MARK may be lost: what they have delivered is unknown."""
        found: set[int] = set()
        for place in self.places:
            if place.bad.kind not in MARK_KINDS:
                continue
            owners = place.bad.owners or tuple(known)
            row = place.listed
            found.update(
                each
                for each in owners
                if each in known
                and known[each].mark_file_id <= place.file_id
                and (row is None or row.may_hold(each))
            )
        return found

    def _credible(
        self, place: Place, owner: int, first: int, count: int, known: dict[int, Known]
    ) -> bool:
        """Whether the owner can have published these there. One target alone was found credible
        by its header."""
        if len(place.bad.targets) == 1:
            return True
        if owner not in known:
            return False
        trail = self._trails.get(owner)
        if trail is None:
            return first == 1
        before, after = self._around(place, trail)
        least = max(count, 1)
        here = trail.found.missing(first, least) == [(first, least)]
        return here and first >= before and first + least <= after

    def _around(self, place: Place, trail: Trail) -> tuple[int, int]:
        """End of what was published before the place (0: nothing), begin of what came after."""
        before = 0
        after = FAR
        low = bisect_right(self._bounds, place.low)
        high = bisect_right(self._bounds, place.high)
        for interval, (first, end) in trail.stretches.items():
            if interval <= low:
                before = max(before, end)
            elif interval >= high:
                after = min(after, first)
        return before, after

    def _lost(self, place: Place, owner: int, state: Known, first: int, count: int) -> bool:
        """Whether messages of a record that was surely this owner's are missing."""
        trail = self._trail(owner)
        before, after = self._around(place, trail)
        if trail.checkpoint_file_id > place.file_id:
            return False  # What it says is alive is looked at by `_missed_by_checkpoints`.
        if before == 0:
            if after != FAR and not self._gaps(trail, state, 1, after):
                return False
            if first == 0 or (after != FAR and first + count != after):
                return True
            before = first
            after = first + count
        end = after
        if after == FAR:
            if count == 0 or first != before:
                return True  # The last ones, and nothing says how many.
            end = max(state.last_seq + 1, first + count)
        return before >= end or bool(self._gaps(trail, state, before, end))

    def _may_miss(self, place: Place, owner: int, state: Known) -> bool:
        """Whether messages of this owner may have been in a record of which nothing is known."""
        trail = self._trail(owner)
        if trail.checkpoint_file_id > place.file_id:
            return False
        if place.listed is not None and not place.listed.may_hold(owner):
            return False
        before, after = self._around(place, trail)
        if before == 0 and place.listed is None:
            return False  # Lower numbers may have come and gone without a trace.
        before = max(before, 1)
        end = state.last_seq + 1 if after == FAR else after
        if self._gaps(trail, state, before, end):
            return True
        # Nothing tells how many there were behind the last number that is known.
        return after == FAR and (place.listed is not None or owner in place.publishers)

    def _gaps(self, trail: Trail, state: Known, first: int, end: int) -> Ranges:
        """Numbers first..end-1 that were neither found nor settled."""
        return [
            gap
            for start, count in state.dead.missing(first, end - first)
            for gap in trail.found.missing(start, count)
        ]

    def _missed_by_checkpoints(self, known: dict[int, Known]) -> list[Hit]:
        """Owners with messages that a checkpoint names and that are nowhere."""
        found: list[Hit] = []
        for owner, trail in sorted(self._trails.items()):
            state = known.get(owner)
            if state is None:
                continue
            gaps = [
                gap
                for first, count in trail.checkpoint_live
                for gap in self._gaps(trail, state, first, first + count)
            ]
            if gaps:
                bads = [place.bad for place in self.places if place.bad.kind in UNKNOWN_KINDS]
                bads.sort(key=lambda bad: (owner not in bad.owners, len(bad.owners) > 0))
                found.extend(Hit(owner, bad) for bad in bads[:1])
        return found

    def _entry_hits(self, place: Place) -> list[Hit]:
        """Log groups of which an entry may have been in this place."""
        if place.bad.kind not in ENTRY_KINDS:
            return []
        if place.listed is not None:
            return self._lost_entries(place, place.listed)
        owners = place.bad.owners
        found: list[Hit] = []
        for owner in owners or tuple(sorted(place.entries)):
            before = place.entries.get(owner, 0)
            if before == 0 and place.bad.kind == ENTRY:
                found.append(Hit(owner, place.bad, max(place.bad.index - 1, 0)))
            elif before == 0:
                if self._last_files.get(owner, 0) <= place.file_id:
                    found.append(Hit(owner, place.bad, self._last_entries.get(owner, 0)))
            elif owners or before >= self._last_entries.get(owner, 0):
                found.append(Hit(owner, place.bad, before))
        return found

    def _lost_entries(self, place: Place, row: Listed) -> list[Hit]:
        """The same, if nothing of the file could be read. `GroupEvidence` sees to groups with
        RAFT_ENTRYs; a gap before an entry that is there shows when it is replayed."""
        if row.groups is not None:
            return [
                Hit(owner, place.bad, last - 1)
                for owner, last in sorted(place.entries.items())
                if last > self._last_entries.get(owner, 0)
            ]
        return [
            Hit(owner, place.bad, last, FAR)
            for owner, last in sorted(self._last_entries.items())
            if self._last_files[owner] <= place.file_id
        ]


def was_last(owner: int, state: Known, odd: list[bytes]) -> bool:
    """Whether one of these targets, which no owner can have had, would be what the owner was to
    publish next if one byte of it were another.
    """
    following = TARGET.pack(owner, state.last_seq + 1)
    return any(sum(map(ne, target, following)) == 1 for target in odd)

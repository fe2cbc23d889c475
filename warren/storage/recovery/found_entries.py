"""What a recovery finds of log groups: which record counts at each index, and the hard states.

Takes the records of the files, newest file first; the order within a file is that of its records.
There may be several records for an index: those of truncated tails, and copies that compaction
made. The one that counts has the highest incarnation, then the highest appended_term (decision
0027); of copies of it that in the newest file. Where a tail ends that was truncated and not yet
overwritten only the group can say. Gives the books of the ledger, and the records to the sink.

Entries are kept as runs of `group_log`, cut where anything but the index changes: about 8 bytes for
an entry. Contents are kept of the few that are no commands (`Found.content`). Compiled.
"""

from typing import Final, Protocol, final

from warren.storage.files import LogFile
from warren.storage.group_log import EntryRun, GroupLog
from warren.storage.ledger import Ledger, StoredState
from warren.storage.ranges import RangeSet
from warren.storage.record import (
    RAFT_HEAD_BYTES,
    Record,
    decode_hard_state,
    decode_raft_head,
    padded,
)

COMMAND: Final = 0  # the kind of entries whose content is not needed at start
ALONE: Final = -1  # stands for the incarnation of groups of one member


class GroupSink(Protocol):
    """Who takes what was found of log groups."""

    def raft_entry(
        self,
        owner: int,
        incarnation: int,
        index: int,
        term: int,
        appended_term: int,
        kind: int,
        content: bytes,
    ) -> None:
        """An entry of a group of several members; see `RecoverySink`."""

    def hard_state(self, owner: int, incarnation: int, term: int, vote: int) -> None:
        """The newest hard state of a member."""


@final
class Found:
    """Entries that follow each other in a file, alike in all but index and content."""

    __slots__ = ("appended_term", "content", "incarnation", "kind", "run", "term")

    def __init__(
        self,
        run: EntryRun,
        incarnation: int,
        term: int,
        appended_term: int,
        kind: int,
        content: bytes,
    ) -> None:
        self.run = run
        self.incarnation = incarnation
        self.term = term
        self.appended_term = appended_term
        self.kind = kind
        self.content = content  # of an entry that is no command, which is a run of its own

    def goes_on(self, record: Record, term: int, appended_term: int) -> bool:
        """Whether the record of a command is the next one of this run."""
        return (
            self.run.end == record.index
            and self.kind == COMMAND
            and self.term == term
            and self.appended_term == appended_term
            and self.incarnation == record.part
        )


@final
class FoundEntries:
    """All of them. `note_*` for each record, `end_file` behind each file; then the rest once."""

    def __init__(self) -> None:
        self._found: dict[int, list[Found]] = {}
        self._open: dict[int, Found] = {}  # the last run of each owner in the file
        self._states: dict[int, StoredState] = {}
        self.last_state = 0  # highest number of a HARD_STATE

    def end_file(self) -> None:
        self._open.clear()

    def note_entry(self, file: LogFile, record: Record) -> None:
        """An ENTRY: whole, for its content has been kept elsewhere."""
        found = self._open.get(record.owner)
        if found is None or found.incarnation != ALONE or found.run.end != record.index:
            run = EntryRun(file, record.index)
            found = self._begin(record.owner, Found(run, ALONE, 0, 0, COMMAND, b""))
        self._add(found, file, record)

    def note_raft_entry(self, file: LogFile, record: Record) -> None:
        """A RAFT_ENTRY."""
        term, appended_term, kind = decode_raft_head(record.payload)
        found = self._open.get(record.owner)
        if found is None or kind != COMMAND or not found.goes_on(record, term, appended_term):
            content = b"" if kind == COMMAND else bytes(record.payload[RAFT_HEAD_BYTES:])
            run = EntryRun(file, record.index)
            fresh = Found(run, record.part, term, appended_term, kind, content)
            found = self._begin(record.owner, fresh)
        self._add(found, file, record)

    def _begin(self, owner: int, found: Found) -> Found:
        self._open[owner] = found
        self._found.setdefault(owner, []).append(found)
        found.run.file.groups.add(owner)
        return found

    def _add(self, found: Found, file: LogFile, record: Record) -> None:
        size = padded(len(record.payload))
        file.claimed += size
        file.stored += size
        found.run.add(record.offset, size)

    def note_hard_state(self, file: LogFile, record: Record) -> None:
        """A HARD_STATE: the newest has the highest term, and a vote if there is one in it."""
        term, vote = decode_hard_state(record.payload)
        self.last_state = max(self.last_state, record.index)
        file.groups.add(record.owner)
        old = self._states.get(record.owner)
        fresh = StoredState(file, record.part, term, vote)
        if old is None or rank(fresh) > rank(old):
            self._states[record.owner] = fresh

    def forget(self, owner: int) -> None:
        """The owner was deleted: what is in files of a group of several members is dead."""
        self._states.pop(owner, None)
        kept = [found for found in self._found.pop(owner, []) if found.incarnation == ALONE]
        if kept:
            self._found[owner] = kept

    def hand_over(self, ledger: Ledger, sink: GroupSink) -> None:
        """Fill the books, and tell the sink what counts."""
        for owner in sorted(self._found):
            live = winners(self._found.pop(owner))
            for found in live:
                found.run.file.live += found.run.byte_count
                if found.incarnation != ALONE:
                    hand_over_run(owner, found, sink)
            ledger.entries[owner] = log_of(live)
        for owner, state in sorted(self._states.items()):
            ledger.hard_states[owner] = state
            state.file.stated.add(owner)
            sink.hard_state(owner, state.incarnation, state.term, state.vote)


def rank(state: StoredState) -> tuple[int, int, bool]:
    return state.incarnation, state.term, state.vote != 0


def winners(found: list[Found]) -> list[Found]:
    """What counts, ascending by index. Of records of one rank the first one in the list does."""
    found.sort(key=lambda each: (each.incarnation, each.appended_term), reverse=True)
    claimed = RangeSet()
    live: list[Found] = []
    for each in found:
        run = each.run
        pieces = claimed.missing(run.begin, run.end - run.begin)
        for first, count in pieces:
            claimed.add(first, count)
            whole = count == run.end - run.begin
            part = run if whole else run.part(first, first + count)
            live.append(
                Found(
                    part,
                    each.incarnation,
                    each.term,
                    each.appended_term,
                    each.kind,
                    each.content,
                )
            )
    live.sort(key=lambda each: each.run.begin)
    return live


def log_of(live: list[Found]) -> GroupLog:
    """The runs, with those that meet in a file made one."""
    group = GroupLog()
    for found in live:
        if not (group.runs and group.runs[-1].join(found.run)):
            group.runs.append(found.run)
    return group


def hand_over_run(owner: int, found: Found, sink: GroupSink) -> None:
    for index in range(found.run.begin, found.run.end):
        sink.raft_entry(
            owner,
            found.incarnation,
            index,
            found.term,
            found.appended_term,
            found.kind,
            found.content,
        )

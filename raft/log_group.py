"""The interfaces of a log group: what it needs of its owner, a machine, and of the disk.

A machine is a `GroupOwner`, and asks `raft.group.Group`, which may have one member or several.
`GroupLog` is what the groups of a node need of its write-ahead log. Compiled.
"""

from collections.abc import Callable, Sequence
from typing import Final, Protocol

from raft.entries import Config, Entry, SnapshotPoint
from raft.messages import SnapshotSlice
from raft.ready import Lead

METADATA_OWNER: Final = 1  # uid of the group that holds the definitions

# Outcomes of a proposal
COMMITTED: Final = 1
LOST: Final = 2  # another entry has its place: it will never be applied
UNKNOWN: Final = 3  # a snapshot has passed over it: only the machine's state knows

Found = list[tuple[int, int, int, int, bytes]]  # index, term, appended_term, kind, payload


class GroupOwner(Protocol):
    """The owner of a group. Called in the turn; may propose, and may close the group.

    Whatever is answered by `done` may be answered at once or later, in any order.
    """

    def store(self, entry: Entry) -> None:
        """Put what is `attached` into the log now: the entry itself comes behind it. Not called for
        entries that were proposed here: their owner has done so before."""

    def truncated(self, index: int) -> None:
        """Entries from `index` on are gone, and what was stored beside them is of no use."""

    def apply(self, entries: Sequence[Entry]) -> None:
        """These are committed, next in order; of every kind, those without meaning included."""

    def outcome(self, first: int, last: int, term: int, outcome: int) -> None:
        """What became of the proposals at the indexes `first`..`last`, all of that term: COMMITTED
        ones have been applied; LOST ones are reported before anything is applied in their place."""

    def lead(self, lead: Lead) -> None:
        """Leader or term have changed."""

    def configured(self, config: Config) -> None:
        """The members have changed, perhaps back."""

    def reattach(self, entries: Sequence[Entry], done: Callable[[Sequence[Entry]], None]) -> None:
        """Entries that were read back for another member: give them with what was stored beside
        them, as far as it is alive."""

    def read_slice(
        self, index: int, number: int, done: Callable[[Sequence[bytes] | None, bool], None]
    ) -> None:
        """A slice of the snapshot at `index`, and whether it is the last; None: it is gone."""

    def stage(
        self, piece: SnapshotSlice, point: SnapshotPoint | None, done: Callable[[], None]
    ) -> None:
        """Keep a slice that came in; `done` when it is durable. With the last one comes the point:
        in one step all that was staged becomes the snapshot and the machine, then `done`."""

    def drop_staged(self) -> None:
        """What was staged so far is of no use."""


class MirrorOwner(GroupOwner, Protocol):
    """The owner of a member of a mirror ring (raft/ring.py)."""

    def begin_at(self, point: SnapshotPoint, done: Callable[[], None]) -> None:
        """This member joins behind the entry at the point: keep an empty machine there as its
        snapshot; `done` when that is durable."""

    def snapshot_wanted(self, index: int) -> None:
        """The right neighbour lacks entries up to `index`: take a snapshot there or behind it.
        Repeated until there is one."""


class GroupLog(Protocol):
    """What the groups need of the write-ahead log. What was appended first is durable first."""

    @property
    def appended_lsn(self) -> int: ...

    def append_raft_entries(
        self,
        owner: int,
        incarnation: int,
        first: int,
        term: int,
        appended_term: int,
        kind: int,
        contents: Sequence[Sequence[bytes]],
    ) -> None:
        """Entries that follow each other from the index `first` on, alike but for their content."""

    def append_hard_state(self, owner: int, incarnation: int, term: int, vote: int) -> object: ...

    def truncate_log(self, owner: int, index: int) -> None:
        """Entries from `index` on are dead."""

    def release_log(self, owner: int, index: int) -> None:
        """Entries up to `index` are dead."""

    def read_entries(
        self,
        owner: int,
        first: int,
        last: int,
        bytes_max: int,
        done: Callable[[Found | Exception], None],
    ) -> None:
        """Durable entries, in order from `first` on, at least one if there is any."""

    def flush(self) -> None: ...

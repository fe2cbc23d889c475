"""What a group's core wants of its host, once a turn. Compiled.

The host does it in this order (`Ready`), for all groups of the turn together:

1. Send `messages`.
2. Hand `hard_state`, then `entries`, to the log. `entries` follow each other; if `truncated_from`
   is set, what this member had from there on is gone: the entry there, if there is one in
   `entries`, takes its place, and all behind it are dead. Hand `slices` to the owner of the group.
3. When all that the group has ever handed to the log is durable: send `messages_after_sync`, which
   promise it, and tell the core `durable(index, term)` of the last entry. In the order of the log.
4. Hand `committed` to the owner of the group, in order; then `reads`, `lead` and `config`.
5. Read what is in `loads`, and answer each with `loaded` or `slice_loaded`.
"""

from collections.abc import Sequence
from typing import final

from mypy_extensions import i64

from raft.entries import Config, Entry, HardState, SnapshotPoint
from raft.messages import Message, SnapshotSlice


@final
class Load:
    """Entries `first`..`last` of the log below what is in memory, `bytes_max` in all, at least one.

    `member`: for this one, that is behind; 0: to be applied here. The answer is
    `Raft.loaded(load, entries)`, in order from `first` on and perhaps not up to `last`; or none at
    all, if the log does not go so far down any more.
    """

    __slots__ = ("bytes_max", "first", "last", "member")

    def __init__(self, member: i64, first: i64, last: i64, bytes_max: i64) -> None:
        self.member: i64 = member
        self.first: i64 = first
        self.last: i64 = last
        self.bytes_max: i64 = bytes_max


@final
class LoadSlice:
    """One slice of this member's newest snapshot, for a member that is far behind.

    The answer is `Raft.slice_loaded(load, parts, is_last)`, or `slice_lost(load)` if the snapshot
    at `index` is not there any more: then it begins again with a newer one.
    """

    __slots__ = ("index", "member", "slice_number")

    def __init__(self, member: i64, index: i64, slice_number: i64) -> None:
        self.member: i64 = member
        self.index: i64 = index
        self.slice_number: i64 = slice_number


@final
class Lead:
    """Who leads: set when the leader or the term changes. `leader` 0: unknown."""

    __slots__ = ("is_ready", "leader", "term")

    def __init__(self, term: i64, leader: i64, is_ready: bool) -> None:
        self.term: i64 = term
        self.leader: i64 = leader
        # This member leads, and all before its term is committed and handed over.
        self.is_ready = is_ready


@final
class Read:
    """A read barrier: a member that has applied up to `index` sees all that was committed when it
    was asked for. `index` -1: the leadership was lost, ask again elsewhere."""

    __slots__ = ("context", "index")

    def __init__(self, context: i64, index: i64) -> None:
        self.context: i64 = context
        self.index: i64 = index


@final
class Ready:
    """See the module. Empty but for what there is to do."""

    __slots__ = (
        "base",
        "committed",
        "config",
        "entries",
        "hard_state",
        "install",
        "lead",
        "loads",
        "messages",
        "messages_after_sync",
        "reads",
        "slice_loads",
        "slices",
        "slices_dropped",
        "truncated_from",
    )

    def __init__(self) -> None:
        self.hard_state: HardState | None = None
        self.entries: Sequence[Entry] = ()
        self.truncated_from: i64 = 0
        self.messages: Sequence[tuple[int, Message]] = ()  # (member, message)
        self.messages_after_sync: Sequence[tuple[int, Message]] = ()
        self.committed: Sequence[Entry] = ()
        self.reads: Sequence[Read] = ()
        self.loads: Sequence[Load] = ()
        self.slice_loads: Sequence[LoadSlice] = ()
        # Slices of a snapshot that is coming in, in order. They are staged: nothing of them counts
        # until the last one. Each is answered by `Raft.slice_stored(slice)` when it is durable.
        self.slices: Sequence[SnapshotSlice] = ()
        # With the last slice: all that was staged becomes this member's snapshot and state, under
        # this point, in one step; only then is the last slice answered. Nothing is handed out in
        # `committed` before that, and after it all entries up to the point are of no use.
        self.install: SnapshotPoint | None = None
        # Of a mirror that joined empty: keep an empty machine at this point as its snapshot, and
        # answer `Ring.based(point)` when that is durable. Entries behind it come later.
        self.base: SnapshotPoint | None = None
        self.slices_dropped = False  # what was staged before `slices` is of no use any more
        self.lead: Lead | None = None  # has changed
        self.config: Config | None = None  # has changed, perhaps back

"""Messages between the members of one group. Values only: `raft.codec` has their bytes.

The host adds from whom, to whom, and of which group (uid and incarnation) each is. `term` is that
of the sender, but for a pre-vote, which asks about the term that the sender would have. Any of
them may be lost, doubled, late, or overtaken by others. Compiled.
"""

from collections.abc import Sequence
from typing import final

from mypy_extensions import i64

from raft.entries import Config, Entry


@final
class VoteRequest:
    """Vote for me in `term`, or, `is_pre_vote`, would you."""

    __slots__ = ("is_pre_vote", "is_transfer", "last_index", "last_term", "term")

    def __init__(
        self, term: i64, last_index: i64, last_term: i64, is_pre_vote: bool, is_transfer: bool
    ) -> None:
        self.term: i64 = term
        self.last_index: i64 = last_index
        self.last_term: i64 = last_term
        self.is_pre_vote = is_pre_vote
        self.is_transfer = is_transfer  # the leader has asked for it: its life is no objection


@final
class VoteResponse:
    """`term` is the one that was asked about if `is_granted`, else that of the sender."""

    __slots__ = ("is_granted", "is_pre_vote", "term")

    def __init__(self, term: i64, is_pre_vote: bool, is_granted: bool) -> None:
        self.term: i64 = term
        self.is_pre_vote = is_pre_vote
        self.is_granted = is_granted


@final
class AppendRequest:
    """Entries behind `previous_index`; none: how far things are, and are you there."""

    __slots__ = ("commit_index", "entries", "previous_index", "previous_term", "read_seq", "term")

    def __init__(
        self,
        term: i64,
        previous_index: i64,
        previous_term: i64,
        commit_index: i64,
        entries: Sequence[Entry],
        read_seq: i64 = 0,
    ) -> None:
        self.term: i64 = term
        self.previous_index: i64 = previous_index
        self.previous_term: i64 = previous_term
        self.commit_index: i64 = commit_index
        self.entries = entries
        self.read_seq: i64 = read_seq  # comes back: evidence that the leader still led then


@final
class AppendResponse:
    """`is_matching`: the log is the leader's up to `index`, durably. Else it is not at `index`, and
    the leader may go on at `hint_index` + 1 or before.
    """

    __slots__ = (
        "commit_index",
        "hint_index",
        "hint_term",
        "index",
        "is_matching",
        "read_seq",
        "term",
    )

    def __init__(
        self,
        term: i64,
        is_matching: bool,
        index: i64,
        commit_index: i64,
        hint_index: i64 = 0,
        hint_term: i64 = 0,
        read_seq: i64 = 0,
    ) -> None:
        self.term: i64 = term
        self.is_matching = is_matching
        self.index: i64 = index
        self.commit_index: i64 = commit_index  # of the sender: whether it may be left alone
        self.hint_index: i64 = hint_index
        self.hint_term: i64 = hint_term
        self.read_seq: i64 = read_seq


@final
class TimeoutNow:
    """Campaign at once, without a pre-vote: the leader wants you to take over."""

    __slots__ = ("term",)

    def __init__(self, term: i64) -> None:
        self.term: i64 = term


@final
class SnapshotSlice:
    """One slice of a snapshot: machine state and what is alive beside it, as one opaque stream.

    A stream is known by (source, index, snapshot_term): another one does not fit it, whatever it is
    called. Slices count from 0.
    """

    __slots__ = (
        "config",
        "index",
        "is_last",
        "parts",
        "slice_number",
        "snapshot_term",
        "source",
        "term",
    )

    def __init__(
        self,
        term: i64,
        source: i64,
        index: i64,
        snapshot_term: i64,
        config: Config,
        slice_number: i64,
        is_last: bool,
        parts: Sequence[bytes],
    ) -> None:
        self.term: i64 = term
        self.source: i64 = source  # member whose snapshot it is
        self.index: i64 = index
        self.snapshot_term: i64 = snapshot_term
        self.config = config
        self.slice_number: i64 = slice_number
        self.is_last = is_last
        self.parts = parts


@final
class SliceResponse:
    """Slices before `next_slice` are durable; go on there. All of them: the snapshot is installed,
    and an AppendResponse comes as well."""

    __slots__ = ("index", "next_slice", "snapshot_term", "source", "term")

    def __init__(
        self, term: i64, source: i64, index: i64, snapshot_term: i64, next_slice: i64
    ) -> None:
        self.term: i64 = term
        self.source: i64 = source
        self.index: i64 = index
        self.snapshot_term: i64 = snapshot_term
        self.next_slice: i64 = next_slice


Message = (
    VoteRequest
    | VoteResponse
    | AppendRequest
    | AppendResponse
    | TimeoutNow
    | SnapshotSlice
    | SliceResponse
)

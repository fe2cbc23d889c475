"""What a log of a group is made of: entries, and the values around them. No I/O.

An entry is `parts`, bytes that are never joined, and `attached`, bytes that travel with it and are
stored beside it by the owner of the group (a quorum queue: the bodies of messages, 0011).
The core looks into neither. Plain classes, for they are made for each entry. Compiled.
"""

from collections.abc import Sequence
from typing import Final, final

from mypy_extensions import i64, mypyc_attr

# Kinds of entries
COMMAND: Final = 0  # for the machine
NOOP: Final = 1  # the first of a leader; nothing but the beginning of its term
CONFIG: Final = 2  # a `Config`, encoded; counts as soon as it is in the log

ENTRY_OVERHEAD_BYTES: Final = 64  # what an entry counts beside its bytes, for limits

# A term fits above the 40 bits of a counter in a number of 63: numbers that a leader gives are its
# own (0011).
TERM_MAX: Final = (1 << 23) - 1
INDEX_MAX: Final = (1 << 62) - 1


@final
@mypyc_attr(acyclic=True)  # Bytes and nothing else: the collector need not look at them.
class Entry:
    """One place in the log. `index` is 1-based; `term` is that of the leader that made it.

    `appended_term` is the term in which this member put it into its own log: of two entries that
    this member ever had at one index the later one has the higher (docs/formats/wal.md).
    """

    __slots__ = ("appended_term", "attached", "byte_count", "index", "kind", "parts", "term")

    def __init__(
        self,
        index: i64,
        term: i64,
        kind: i64,
        parts: Sequence[bytes],
        attached: Sequence[bytes] = (),
        appended_term: i64 = 0,
        byte_count: i64 = 0,
    ) -> None:
        """`byte_count`: given by callers that know it; 0: it is counted here."""
        self.index: i64 = index
        self.term: i64 = term
        self.kind: i64 = kind
        self.parts = parts
        self.attached = attached
        self.appended_term: i64 = appended_term
        if byte_count == 0:
            byte_count = ENTRY_OVERHEAD_BYTES
            for part in parts:
                byte_count += len(part)
            if len(attached) > 0:
                for part in attached:
                    byte_count += len(part)
        self.byte_count: i64 = byte_count


@final
class HardState:
    """What a member must never forget: written and synced before anything it implies is said."""

    __slots__ = ("term", "vote")

    def __init__(self, term: i64, vote: i64) -> None:
        self.term: i64 = term
        self.vote: i64 = vote  # member that has this member's vote in `term`; 0: none


@final
class Config:
    """Who the members are. Member ids are positive, of 64 bits, and are never used for another.

    Ascending; voters decide, learners get the log, and those of them that are `joining` become
    voters as soon as they have caught up. An empty one: a member that has been told nothing yet.
    """

    __slots__ = ("joining", "learners", "voters")

    def __init__(
        self,
        voters: Sequence[int],
        learners: Sequence[int] = (),
        joining: Sequence[int] = (),
    ) -> None:
        self.voters: tuple[int, ...] = tuple(sorted(voters))
        self.learners: tuple[int, ...] = tuple(sorted(learners))
        self.joining: tuple[int, ...] = tuple(sorted(joining))
        assert not set(self.voters) & set(self.learners)
        assert set(self.joining) <= set(self.learners)

    def members(self) -> tuple[int, ...]:
        """Voters and learners."""
        return self.voters + self.learners

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Config)
            and self.voters == other.voters
            and self.learners == other.learners
            and self.joining == other.joining
        )

    def __hash__(self) -> int:
        return hash((self.voters, self.learners, self.joining))

    def __repr__(self) -> str:
        return f"Config({self.voters}, {self.learners}, {self.joining})"


@final
class SnapshotPoint:
    """The end of what a snapshot holds: the machine after `index`, whose entry had `term`.

    `appended_term`: no entry that this member had in its log before, and has no more, was appended
    in a higher one. `config` is the configuration at `index`.
    """

    __slots__ = ("appended_term", "config", "index", "term")

    def __init__(self, index: i64, term: i64, appended_term: i64, config: Config) -> None:
        self.index: i64 = index
        self.term: i64 = term
        self.appended_term: i64 = appended_term
        self.config = config

"""What must be true of a group whatever happens, looked at after every step of every member.

- Election safety: one leader a term, elected by votes of a majority of its voters.
- Log matching: an entry of an index and term is the same everywhere, and so is what is before it.
- Leader completeness: who becomes leader has all that was committed in terms before its own.
- Commit: counted over an entry of the leader's own term, durable on a majority of its voters; what
  a follower takes for committed is that entry. It never moves back.
- No member votes for two in a term, over restarts too; no member claims what is not durable yet.
- Configurations: one uncommitted at most, one voter of difference to the one before.
- Reads: all that was committed when one was asked for, by a leader that a majority heard since.

It knows of each member only what its host sees: its log on disk, and what it says.
"""

from collections.abc import Iterable, Sequence
from typing import Final

from raft.entries import CONFIG, Config, Entry, SnapshotPoint
from raft.membership import decode_config
from tests.sim.raft.log_disk import LogDisk

Content = tuple[int, bytes]  # kind, parts


class Known:
    """An entry that some member has had: what it is, and the term of the one before it."""

    __slots__ = ("config", "content", "previous_term")

    def __init__(self, entry: Entry, previous_term: int) -> None:
        self.content: Content = (entry.kind, b"".join(entry.parts))
        self.previous_term = previous_term
        self.config = decode_config(b"".join(entry.parts)) if entry.kind == CONFIG else None


class Truth:
    """Entries, leaders and votes that there have been in the life of the group."""

    def __init__(self, config: Config) -> None:
        self.first_config: Final = config
        self.known: dict[tuple[int, int], Known] = {}  # by (index, term)
        self.leaders: dict[int, int] = {}  # by term
        self.votes: dict[tuple[int, int], int] = {}  # by (term, member): candidate
        self.committed: list[tuple[int, int]] = [(0, 0)]  # term of the entry, term of who committed

    @property
    def commit_index(self) -> int:
        return len(self.committed) - 1

    def config_at(self, index: int) -> Config:
        """The configuration after `index`, which is committed."""
        for place in range(index, 0, -1):
            config = self.known[place, self.committed[place][0]].config
            if config is not None:
                return config
        return self.first_config

    # Logs

    def appended(self, disk: LogDisk, entry: Entry) -> None:
        """A member has put it into its log."""
        previous_term = disk.term(entry.index - 1)
        found = self.known.get((entry.index, entry.term))
        mine = Known(entry, previous_term)
        if found is None:
            self.known[entry.index, entry.term] = mine
            return
        assert mine.content == found.content, f"log matching: {entry.index} differs"
        assert previous_term == found.previous_term, (
            f"log matching: before {entry.index} of term {entry.term} are entries of"
            f" {previous_term} and {found.previous_term}"
        )

    def lost(self, disk: LogDisk, disks: Iterable[LogDisk]) -> None:
        """A crash has taken what was not durable: if no other member has it, it has never been."""
        others = [other for other in disks if other is not disk]
        for record in disk.entries:
            index, term = record.entry.index, record.entry.term
            if not record.is_durable and all(other.term(index) != term for other in others):
                self.known.pop((index, term), None)

    def proposed_config(self, disk: LogDisk, entry: Entry, commit_index: int) -> None:
        """A leader has put a configuration into its log."""
        configs = disk.configs
        assert configs[-1][0] == entry.index
        open_ones = [index for index, _ in configs if index > commit_index]
        assert open_ones == [entry.index], f"configurations not committed: {open_ones}"
        before, after = set(configs[-2][1].voters), set(configs[-1][1].voters)
        assert len(before ^ after) <= 1, f"voters {before} become {after}"
        assert after, "no voter is left"

    # Elections

    def voted(self, term: int, member: int, candidate: int) -> None:
        """It says so, to others or to itself."""
        found = self.votes.setdefault((term, member), candidate)
        assert found == candidate, f"{member} votes for {found} and {candidate} in term {term}"

    def leads(self, member: int, term: int, disk: LogDisk, config: Config) -> None:
        """Seen to lead; `config` is what it goes by."""
        if self.leaders.get(term) == member:
            return
        assert term not in self.leaders, f"leaders in term {term}: {self.leaders[term]}, {member}"
        self.leaders[term] = member
        self.voted(term, member, member)
        voters = [voter for voter in config.voters if self.votes.get((term, voter)) == member]
        assert 2 * len(voters) > len(config.voters), (
            f"{member} leads term {term} by the votes of {voters} of {config.voters}"
        )
        for index in range(disk.base[0] + 1, len(self.committed)):
            its_term, commit_term = self.committed[index]
            assert commit_term >= term or disk.term(index) == its_term, (
                f"leader completeness: {member} leads term {term} without {index}"
            )

    # Commits

    def commits(
        self,
        member: int,
        term: int,
        disks: dict[int, LogDisk],
        configs: Sequence[Config],
        first: int,
        to: int,
    ) -> None:
        """A leader says that its entries first..to are committed, by one of these members."""
        disk = disks[member]
        assert to <= disk.last_index, f"{member} commits {to} and has {disk.last_index}"
        assert disk.term(to) == term, f"committed by counting: {to} of term {disk.term(to)}"
        copies = [number for number in disks if has_durably(disks[number], to, term)]
        assert any(is_majority(copies, config.voters) for config in configs), (
            f"{to} is committed in term {term} and durable on {copies} of {configs}"
        )
        for index in range(first, to + 1):
            if index == len(self.committed):
                self.committed.append((disk.term(index), term))
            self.agrees(member, disk, index)

    def agrees(self, member: int, disk: LogDisk, index: int) -> None:
        """What a member takes for committed is what was committed."""
        assert index <= self.commit_index, (
            f"{member} takes {index} for committed, no other member does"
        )
        its_term = disk.term(index)
        assert its_term == self.committed[index][0] or index < disk.base[0], (
            f"{member} takes {index} of term {its_term} for committed: {self.committed[index][0]}"
        )

    def applied(self, member: int, entry: Entry) -> None:
        """It was handed over to be applied."""
        index = entry.index
        assert index <= self.commit_index, f"{member} applies {index}, not committed"
        assert entry.term == self.committed[index][0], (
            f"{member} applies {index} of term {entry.term}: {self.committed[index][0]}"
        )
        content = (entry.kind, b"".join(entry.parts))
        assert content == self.known[index, entry.term].content, f"{member} applies another {index}"

    def is_point(self, point: SnapshotPoint) -> None:
        """A snapshot is of what was committed."""
        assert point.index <= self.commit_index, f"a snapshot at {point.index}, not committed"
        assert point.term == self.committed[point.index][0], f"a snapshot of term {point.term}"
        # A member that joins knows no configuration before the one that names it.
        knows = point.config == self.config_at(point.index) or not point.config.voters
        assert knows, "a snapshot of another configuration"


def is_majority(some: Sequence[int], voters: Sequence[int]) -> bool:
    return 2 * len([voter for voter in voters if voter in some]) > len(voters)


def has_durably(disk: LogDisk, index: int, term: int) -> bool:
    """Whether a crash of that member would leave it the entry."""
    if index <= disk.point.index:
        return True
    return disk.has(index) and disk.term(index) == term and disk.record(index).is_durable

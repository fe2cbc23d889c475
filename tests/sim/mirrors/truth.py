"""What must be true of a mirror ring whatever happens, looked at after every step of a member.

- An entry of an index and term is the same on all members.
- An entry is committed when every member of the leader's view has it on its disk.
- A leader has every committed entry, unless it was promoted without being synchronised: then it
  lacks only entries that were committed before it took part, and reports that.
- Members apply committed entries only, in order.
"""

from collections.abc import Iterable

from raft.entries import Entry
from raft.ring import Ring
from raft.ring_view import RingView
from tests.sim.raft.log_disk import LogDisk


class Truth:
    """Entries and commits that there have been in the life of the ring."""

    def __init__(self) -> None:
        self.contents: dict[tuple[int, int], bytes] = {}  # by index and term
        # By index: the entry's term, the term of the leader that committed it, and its epoch.
        self.committed: dict[int, tuple[int, int, int]] = {}
        self.commit_index = 0
        self.lost_count = 0  # committed, and not on a leader that was promoted all the same
        self.lossy_promotions = 0
        self._led: set[int] = set()  # terms

    def appended(self, disk: LogDisk, entry: Entry) -> None:
        """A member has put it into its log."""
        content = b"".join(entry.parts)
        known = self.contents.setdefault((entry.index, entry.term), content)
        assert known == content, f"entry {entry.index} of term {entry.term} is not the same"

    def forgotten(self, disk: LogDisk, disks: Iterable[LogDisk]) -> None:
        """A crash took what was not durable: if no other disk has it, it has never been."""
        others = [other for other in disks if other is not disk]
        for record in disk.entries:
            index, term = record.entry.index, record.entry.term
            if not record.is_durable and all(other.term(index) != term for other in others):
                self.contents.pop((index, term), None)

    def leads(self, core: Ring, disk: LogDisk, is_synchronised: bool) -> None:
        """A member leads in this term from now on."""
        term = int(core.term)
        if term in self._led:
            return
        self._led.add(term)
        missing = [
            index
            for index, (its_term, commit_term, _) in self.committed.items()
            if commit_term < term and not has(disk, index, its_term)
        ]
        if is_synchronised:
            assert not missing, f"{core.member} leads term {term} without {missing[:5]}"
            return
        self.lossy_promotions += 1
        joined = int(core.joined)
        kept = [index for index in missing if self.committed[index][2] >= joined]
        assert not kept, f"{core.member} leads term {term} without {kept[:5]} of its own time"
        assert not missing or core.lost_index >= 0, f"{core.member} does not report a loss"
        self.lost_count += len(missing)
        for index in missing:
            del self.committed[index]
        self.commit_index = max(self.committed, default=0)

    def commits(self, core: Ring, view: RingView, disks: dict[int, LogDisk]) -> None:
        """A leader says that its entries up to here are committed."""
        own = disks[core.member]
        index = int(core.commit_index)
        lacking = [
            member
            for member in view.members
            # A disk of a later membership is no witness of this one.
            if member not in disks
            or (
                disks[member].birth.appended_term < view.joined_in(member)
                and not has_durably(disks[member], index, own.term(index))
            )
        ]
        assert not lacking, f"{index} is committed in epoch {core.epoch}, and {lacking} lack it"
        for place in range(self.commit_index + 1, index + 1):
            if own.has(place):
                self.committed[place] = (own.term(place), int(core.term), int(core.epoch))
        self.commit_index = max(self.commit_index, index)

    def applied(self, member: int, entry: Entry) -> None:
        """It was handed over to be applied."""
        known = self.committed.get(entry.index)
        assert known is not None, f"{member} applies {entry.index}, which is not committed"
        assert entry.term == known[0], f"{member} applies {entry.index} of {entry.term}: {known}"


def has(disk: LogDisk, index: int, term: int) -> bool:
    return index <= disk.base[0] or disk.term(index) == term


def has_durably(disk: LogDisk, index: int, term: int) -> bool:
    """Whether a crash of that member would leave it the entry."""
    if index <= disk.base[0]:
        return True
    return disk.has(index) and disk.term(index) == term and disk.record(index).is_durable

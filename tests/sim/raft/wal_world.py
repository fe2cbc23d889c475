"""A group whose members run in real hosts on the real log: same weather, same truth.

Machines lose power between any two steps of their disks, too.
"""

from raft.entries import HardState, SnapshotPoint
from tests.sim.raft.host_world import HostWorld
from tests.sim.raft.member import Member
from tests.sim.raft.wal_member import WalMember

STEPS_MAX = 12  # of a disk, until it loses power


class WalWorld(HostWorld):
    """See the module."""

    def make_member(self, number: int, birth: SnapshotPoint) -> Member:
        return WalMember(number, self, birth, self.settings)

    def on_sync_wanted(self, member: int, hard_state: HardState | None) -> None:
        """A crash in the midst of what the disk is doing for this."""
        chance = self.faults.crash_at_sync + (self.faults.crash_at_vote if hard_state else 0)
        found = self.members[member]
        assert isinstance(found, WalMember)
        if chance and found.drive.image.crash_in < 0 and self.random.random() < chance:
            found.drive.image.crash_in = self.random.randint(0, STEPS_MAX)

    def heal(self) -> None:
        for member in self.members.values():
            assert isinstance(member, WalMember)
            member.drive.image.crash_in = -1
        super().heal()

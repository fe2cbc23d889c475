"""One member of one of many groups on a node: the owner, and the node has host, log and links."""

from collections.abc import Sequence
from typing import Protocol

from raft.entries import Entry, SnapshotPoint
from raft.settings import Settings
from tests.sim.raft.log_drive import LogDrive
from tests.sim.raft.member import MemberWorld
from tests.sim.raft.stored_member import StoredMember


class Home(Protocol):
    """The node that it is on."""

    number: int
    drive: LogDrive

    def leave(self, member: "CrowdMember") -> None:
        """The group has no member here any more."""


class CrowdMember(StoredMember):
    """`leaves`: it goes as soon as something is applied, in the midst of the turn."""

    def __init__(
        self,
        home: Home,
        group: MemberWorld,
        birth: SnapshotPoint,
        settings: Settings,
        uid: int,
        incarnation: int,
    ) -> None:
        super().__init__(home.number, group, birth, settings, uid, incarnation)
        self.home = home
        self.drive = home.drive
        self.ever = {}
        self.leaves = False

    def apply(self, entries: Sequence[Entry]) -> None:
        super().apply(entries)
        if self.leaves:
            self.home.leave(self)

    def go(self) -> None:
        """It is no more; nothing that was under way for it comes to anything."""
        self.core = self.host = self.group = None
        self.epoch += 1
        self._forget_all()

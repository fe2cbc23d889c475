"""What `QuorumQueues` needs of a member of a group, whether of a quorum queue or of a stream."""

from collections.abc import Callable, Sequence
from typing import Protocol

from queues.hosts.quorum_member import OnLead
from queues.hosts.quorum_snapshot import Standing
from queues.machine.commands import Command
from queues.remote.remote_interfaces import HomeEnd
from raft.entries import Config, SnapshotPoint
from raft.group import Group
from raft.log_group import GroupOwner
from raft.status import Status


class GroupMember(HomeEnd, GroupOwner, Protocol):
    """See the module, and `queues.hosts.quorum_member.QuorumMember`."""

    vhost: str
    name: str
    on_lead: OnLead | None
    on_left: Callable[[int], None] | None

    @property
    def is_leading(self) -> bool: ...

    def status(self) -> Status | None: ...

    def processes(self) -> set[int]: ...

    def suspended(self) -> set[int]: ...

    def order(self, command: Command) -> bool: ...

    def rebirth(self, term: int) -> None:
        """The group restarted with one member in that term, by the definitions; 0: it never did."""

    def follow(self, members: tuple[int, ...]) -> None: ...

    def is_wanted(self, node: int) -> bool: ...

    def campaign_first(self) -> None: ...

    def begin_new(
        self, config: Config, appended_term: int, birth: bytes, done: Callable[[], None]
    ) -> None: ...

    def begin_again(self, point: SnapshotPoint, birth: bytes, done: Callable[[], None]) -> None: ...

    def load(self, standing: Standing, slices: Sequence[bytes]) -> None: ...

    def recovered(self) -> None: ...

    def join(self, group: Group) -> None: ...

    def part(self) -> None: ...

    def leave(self) -> None: ...

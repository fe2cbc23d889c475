"""One of many groups that share nodes: its members, and what must be true of it.

It has a number, `uid`, and an incarnation: another group may have had the number before.
"""

from collections.abc import Callable, Sequence
from random import Random
from typing import Final, Protocol

from raft.entries import Config, HardState, SnapshotPoint
from raft.messages import AppendRequest, Message
from raft.settings import Settings
from tests.sim.raft import gathering
from tests.sim.raft.crowd_member import CrowdMember
from tests.sim.raft.crowd_node import CrowdNode
from tests.sim.raft.faults import Faults
from tests.sim.raft.log_disk import LogDisk
from tests.sim.raft.member import Member
from tests.sim.raft.truth import Truth
from tests.sim.raft.work import Work

NUMBERS_OF_A_GROUP: Final = 1 << 24  # its messages have numbers of its own


class Land(Protocol):
    """The world of all groups."""

    nodes: dict[int, CrowdNode]

    @property
    def random(self) -> Random: ...

    @property
    def settings(self) -> Settings: ...

    @property
    def now(self) -> int: ...

    @property
    def steps(self) -> int: ...

    @property
    def faults(self) -> Faults: ...

    @property
    def held(self) -> set[int]: ...

    def later(self, delay: int, action: Callable[[], None]) -> None: ...

    def run_until(self, is_so: Callable[[], bool], limit: int, wanted: str) -> None: ...

    def tells(self, text: str) -> None: ...

    def is_paused(self, number: int) -> bool: ...

    def paused_for(self, number: int) -> int: ...

    def sync_delay(self, member: int) -> int: ...

    def read_delay(self) -> int: ...

    def on_sync_wanted(self, member: int, hard_state: HardState | None) -> None: ...

    def crash(self, number: int, down_for: int = 0) -> None: ...


class CrowdGroup:
    """Keeps `MemberWorld` and `Workplace`. `members`: by node, also those that have left."""

    def __init__(self, land: Land, uid: int, incarnation: int, config: Config) -> None:
        self.land = land
        self.uid = uid
        self.incarnation = incarnation
        self.birth = SnapshotPoint(0, 0, 0, config)
        self.truth = Truth(config)
        self.members: dict[int, Member] = {}
        self.disks: dict[int, LogDisk] = {}
        self.heard = gathering.Heard()
        self.work = Work(self, (uid << 4 | incarnation) * NUMBERS_OF_A_GROUP)

    # Members

    def add(self, number: int, birth: SnapshotPoint) -> None:
        """It has a member on that node, which knows at once."""
        node = self.land.nodes[number]
        settings = self.land.settings
        member = CrowdMember(node, self, birth, settings, self.uid, self.incarnation)
        self.members[number] = member
        self.disks[number] = member.disk
        node.take_in(member)

    def member_on(self, number: int) -> CrowdMember | None:
        """None: it has none there, or none any more."""
        member = self.land.nodes[number].members.get(self.uid)
        return member if member is not None and member is self.members.get(number) else None

    def newcomer(self) -> int:
        """A node that never had anything to do with it."""
        taken = {*self.members, *self.birth.config.voters}
        free = [
            number
            for number, node in self.land.nodes.items()
            if number not in taken and self.uid not in node.members
        ]
        return self.random.choice(free) if free else 0

    def up(self) -> list[Member]:
        return gathering.up(self.members.values())

    def leaders(self) -> list[Member]:
        return gathering.leaders(self.members.values())

    def propose(self, parts: Sequence[bytes], attached: Sequence[bytes] = ()) -> bool:
        return gathering.propose(self.members, parts, attached)

    def is_settled(self) -> bool:
        return gathering.is_settled(self.members, self.truth)

    def describe(self) -> list[str]:
        head = f" group {self.uid}.{self.incarnation}, {self.truth.commit_index} committed"
        return [head, *gathering.describe(self.members)]

    def receive(self, source: int, target: int, sent_at: int, message: Message) -> None:
        """It is about to arrive at a node that is up."""
        member = self.member_on(target)
        if member is None or member.core is None or not isinstance(message, AppendRequest):
            return
        if member.core.term <= message.term:
            self.heard.note(source, message.term, target, sent_at)

    # Of the world

    @property
    def random(self) -> Random:
        return self.land.random

    @property
    def now(self) -> int:
        return self.land.now

    @property
    def steps(self) -> int:
        return self.land.steps

    @property
    def faults(self) -> Faults:
        return self.land.faults

    @property
    def held(self) -> set[int]:
        return self.land.held

    def later(self, delay: int, action: Callable[[], None]) -> None:
        self.land.later(delay, action)

    def run_until(self, is_so: Callable[[], bool], limit: int, wanted: str) -> None:
        self.land.run_until(is_so, limit, f"group {self.uid}.{self.incarnation}: {wanted}")

    def tells(self, text: str) -> None:
        self.land.tells(f"group {self.uid}.{self.incarnation}: {text}")

    def is_paused(self, number: int) -> bool:
        return self.land.is_paused(number)

    def paused_for(self, number: int) -> int:
        return self.land.paused_for(number)

    def sync_delay(self, member: int) -> int:
        return self.land.sync_delay(member)

    def read_delay(self) -> int:
        return self.land.read_delay()

    def on_sync_wanted(self, member: int, hard_state: HardState | None) -> None:
        self.land.on_sync_wanted(member, hard_state)

    def is_heard(self, leader: int, term: int, since: int, voters: Sequence[int]) -> bool:
        return self.heard.by_majority(leader, term, since, voters)

    def crash(self, number: int, down_for: int = 0) -> None:
        self.land.crash(number, down_for)

    def send(self, source: int, target: int, message: Message) -> None:
        raise AssertionError("the host of the node sends batches")

    def send_batch(self, source: int, target: int, content: bytes) -> None:
        raise AssertionError("the node sends for all of its groups")

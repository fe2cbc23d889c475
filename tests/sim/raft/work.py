"""What is asked of one group, at random, for a while.

Clients publish and settle through the leader, ask for reads, and are refused by others. Members
come, go and hand over.
"""

from collections.abc import Callable
from typing import Protocol

from raft.core import Raft
from raft.entries import Config, SnapshotPoint
from raft.membership import AddLearner, AddVoter, Change, Refused, RemoveMember
from raft.status import LEADER
from tests.sim.raft.machine import publish, settle
from tests.sim.raft.member import Member
from tests.sim.raft.surroundings import Surroundings

WORK_EVERY = 8
ALIVE_MAX = 30
BULK_MAX = 300  # messages that are settled and never were
JOINING_CONFIG = Config(())  # of a member that has not heard of any


class Workplace(Surroundings, Protocol):
    """A group and its world."""

    @property
    def members(self) -> dict[int, Member]: ...

    def up(self) -> list[Member]: ...

    def leaders(self) -> list[Member]: ...

    def is_paused(self, number: int) -> bool: ...

    def newcomer(self) -> int: ...

    def add(self, number: int, birth: SnapshotPoint) -> None: ...


class Work:
    """Of one group. Its messages get numbers above `first`."""

    def __init__(self, group: Workplace, first: int = 0) -> None:
        self.group = group
        self.random = group.random
        self._counter = first
        self._end = 0

    def go_on(self, end: int) -> None:
        """Until then. May be called again."""
        self._end = end
        self.group.later(1, self._work)

    def stop(self) -> None:
        """Nothing more is asked of it."""
        self._end = 0

    def _work(self) -> None:
        group = self.group
        if group.now >= self._end:
            return
        group.later(self.random.randint(1, 2 * WORK_EVERY), self._work)
        faults = group.faults
        for chance, action in (
            (faults.proposal, self._propose),
            (faults.read, self._read),
            (faults.change, self._change),
            (faults.transfer, self._transfer),
        ):
            self._perhaps(chance, action, self._someone_asked())
        for chance, action in (
            (faults.snapshot, self._snapshot),
            (faults.forget, self._forget),
            (faults.campaign, self._campaign),
        ):
            self._perhaps(chance, action, self._anybody())

    def _perhaps(
        self, chance: float, action: Callable[[Member, Raft], None], member: Member | None
    ) -> None:
        if self.random.random() >= chance or member is None or member.core is None:
            return
        if not self.group.is_paused(member.number):
            action(member, member.core)

    def _anybody(self) -> Member | None:
        up = self.group.up()
        return self.random.choice(up) if up else None

    def _someone_asked(self) -> Member | None:
        """A leader mostly, perhaps one that was deposed and does not know; or any member."""
        leaders = self.group.leaders()
        return (
            self.random.choice(leaders)
            if leaders and self.random.random() < 0.95
            else (self._anybody())
        )

    def _propose(self, member: Member, core: Raft) -> None:
        for _ in range(self.random.choice((1, 1, 1, 3, 8))):
            alive = list(member.machine.alive)
            ready = member.leads_ready_in == core.term
            if alive and ready and self.random.random() < len(alive) / ALIVE_MAX:
                count = min(len(alive), self.random.randint(1, 6))
                taken = member.propose(settle(self.random.sample(alive, count)))
            elif self._is_bulky():
                taken = member.propose(settle([0] * self.random.randint(1, BULK_MAX)))
            else:
                taken = member.propose(*publish(self._numbers(core)))
            assert taken is None or core.role == LEADER, "it takes proposals and does not lead"
        member.act()

    def _is_bulky(self) -> bool:
        bulk = self.group.faults.bulk
        return bulk > 0 and self.random.random() < bulk

    def _numbers(self, core: Raft) -> list[int]:
        numbers = []
        for _ in range(self.random.randint(1, 3)):
            self._counter += 1
            numbers.append(core.term << 40 | self._counter)
        return numbers

    def _read(self, member: Member, _core: Raft) -> None:
        member.ask()

    def _change(self, member: Member, core: Raft) -> None:
        """One of the changes that there are; the new member runs as soon as its name is known."""
        config = core.config
        kind = self.random.random()
        change: Change
        number = self.group.newcomer()
        if kind < 0.4 and number:
            change = self.random.choice((AddLearner, AddVoter))(number)
        elif kind < 0.6 and config.learners:
            change = AddVoter(self.random.choice(config.learners))
        elif config.members():
            change = RemoveMember(self.random.choice(config.members()))
        else:
            return
        result = member.change(change)
        if isinstance(result, Refused):
            member.act()
            return
        self.group.tells(f"{member.number}: {type(change).__name__} {change.member}")
        member.act()
        if change.member == number and number not in self.group.members:
            self.group.add(change.member, SnapshotPoint(0, 0, 0, JOINING_CONFIG))

    def _transfer(self, member: Member, core: Raft) -> None:
        if core.config.members():
            member.transfer(self.random.choice(core.config.members()))
            member.act()

    def _snapshot(self, member: Member, _core: Raft) -> None:
        member.take_snapshot()

    def _forget(self, member: Member, core: Raft) -> None:
        member.forget(core.applied_index - self.random.choice((0, 0, 1, 5)))
        member.act()

    def _campaign(self, member: Member, _core: Raft) -> None:
        member.campaign()
        member.act()

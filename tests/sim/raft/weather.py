"""What is asked of a group and what befalls it, at random, for a while.

Clients publish and settle through whoever leads, ask for reads, and are refused by others. Members
come, go and hand over. Machines crash, stall and come back; parts of the network are cut off.
"""

from collections.abc import Callable

from raft.core import Raft
from raft.entries import Config, SnapshotPoint
from raft.membership import AddLearner, AddVoter, Change, Refused, RemoveMember
from raft.status import LEADER
from tests.sim.raft.machine import publish, settle
from tests.sim.raft.member import Member
from tests.sim.raft.world import World

WORK_EVERY = 8
FAULT_EVERY = 60
ALIVE_MAX = 30
MEMBERS_MAX = 9  # in the life of a group
JOINING_CONFIG = Config(())  # of a member that has not heard of any


class Weather:
    """Of one world. `blow` may be called again."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.random = world.random
        self._counter = 0  # of messages
        self._end = 0

    def blow(self, duration: int) -> None:
        """All of it for so long. What is not mended stays for `World.heal`."""
        world = self.world
        world.faults = world.draw_faults()
        world.tells(f"weather: {world.faults}")
        self._end = world.now + duration
        world.later(1, self._work)
        world.later(1, self._harm)
        world.run(duration)

    # Work

    def _work(self) -> None:
        world = self.world
        if world.now >= self._end:
            return
        world.later(self.random.randint(1, 2 * WORK_EVERY), self._work)
        faults = world.faults
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
        if not self.world.is_paused(member.number):
            action(member, member.core)

    def _anybody(self) -> Member | None:
        up = self.world.up()
        return self.random.choice(up) if up else None

    def _someone_asked(self) -> Member | None:
        """A leader mostly, perhaps one that was deposed and does not know; or just anybody."""
        leaders = self.world.leaders()
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
            else:
                taken = member.propose(*publish(self._numbers(core)))
            assert taken is None or core.role == LEADER, "it takes proposals and does not lead"
        member.act()

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
        if kind < 0.4 and len(self.world.members) < MEMBERS_MAX:
            number = len(self.world.members) + 1
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
        self.world.tells(f"{member.number}: {type(change).__name__} {change.member}")
        member.act()
        if change.member not in self.world.members:
            self.world.add(change.member, SnapshotPoint(0, 0, 0, JOINING_CONFIG))

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

    # Harm

    def _harm(self) -> None:
        world, random, faults = self.world, self.random, self.world.faults
        if world.now >= self._end:
            return
        world.later(random.randint(1, 2 * FAULT_EVERY), self._harm)
        numbers = list(world.members)
        if random.random() < faults.partition:
            world.network.cut_at_random(numbers)
            world.tells(f"cut: {sorted(world.network.blocked)}")
        elif random.random() < 0.2:
            world.network.heal()
        if random.random() < faults.crash:
            world.crash(random.choice(numbers), random.choice((1, 50, random.randint(5, 900))))
        if random.random() < faults.crash / 10:
            for number in numbers:
                world.crash(number, random.randint(5, 300))
        if random.random() < faults.pause:
            world.pause(random.choice(numbers), random.randint(10, 500))
        self._mislead(numbers)

    def _mislead(self, numbers: list[int]) -> None:
        """The failure detector errs."""
        world, random, faults = self.world, self.random, self.world.faults
        one, other = random.choice(numbers), random.choice(numbers)
        if one == other:
            return
        if random.random() < faults.wrong_suspicion:
            world.detector.force(one, other, False, world.now + random.randint(10, 300))
        if random.random() < faults.wrong_trust:
            world.detector.force(one, other, True, world.now + random.randint(50, 800))

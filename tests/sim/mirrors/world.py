"""A mirrored queue's ring on several machines, and the definitions that decide its views.

`Definitions` stands for the definitions group: views come one after the other, each made from the
one before; nodes learn of them late, and after a restart perhaps of an old one first.
"""

from dataclasses import replace
from functools import partial

from queues.definitions.mirror_policy import Wanted
from queues.definitions.mirror_views import LeaderReport, next_view
from raft.messages import Message, SnapshotSlice
from raft.ring_view import RingView
from raft.status import LEADER
from tests.sim.mirrors.member import Member
from tests.sim.mirrors.truth import Truth
from tests.sim.raft.faults import CALM, Faults, draw, draw_settings
from tests.sim.raft.log_disk import LogDisk
from tests.sim.raft.network import Network
from tests.sim.raft.schedule import TICK, Schedule

LOOK_EVERY = 40
FAULT_EVERY = 60
VIEW_DELAY_MAX = 150


class World(Schedule):
    """`promotes_always`: of the policy key `ha-promote-on-failure`."""

    def __init__(self, seed: int, promotes_always: bool = False) -> None:
        super().__init__(seed)
        random = self.random
        self.faults: Faults = CALM
        self.promotes_always = promotes_always
        self.truth = Truth()
        self.disks: dict[int, LogDisk] = {}
        self.lossy_terms: set[int] = set()
        self.published = 0
        self.settings = draw_settings(random)
        self.members = {
            number: Member(number, self, self.settings)
            for number in range(1, random.choice((2, 3, 3, 4, 5)) + 1)
        }
        self.network = Network(random, self.later, self._unused)
        self.down: set[int] = set()
        self.copies = True
        numbers = tuple(self.members)
        self.views = [RingView(1, 1, numbers, [1] * len(numbers), numbers)]
        self._announce(self.views[0])
        self.later(LOOK_EVERY, self._look)
        for number in numbers:
            self.later(random.randint(1, TICK), partial(self._tick, number))

    def _unused(self, source: int, target: int, at: int, content: bytes) -> None:
        raise AssertionError("values are sent, not bytes")

    @property
    def view(self) -> RingView:
        return self.views[-1]

    def sync_delay(self, member: int) -> int:
        if self.random.random() < self.faults.slow_sync:
            return self.random.randint(50, 400)
        return self.random.randint(1, self.faults.sync_max + 1)

    def _tick(self, number: int) -> None:
        self.later(TICK, partial(self._tick, number))
        self.members[number].tick()

    # The network: values, lost and late as tests.sim.raft.network has bytes

    def send(self, source: int, target: int, message: Message) -> None:
        random, faults = self.random, self.faults
        self.tells(f"{source} to {target}: {describe(message)}")
        if (source, target) in self.network.blocked or random.random() < faults.loss:
            return
        for _ in range(2 if random.random() < faults.double else 1):
            delay = random.randint(1, 30 if random.random() < faults.reorder else 3)
            if random.random() < faults.late:
                delay = random.randint(50, 900)
            self.later(delay, partial(self._arrive, source, target, message))

    def _arrive(self, source: int, target: int, message: Message) -> None:
        if (source, target) not in self.network.blocked and self.members[target].is_up:
            self.members[target].receive(source, message)

    # Definitions

    def decide(self, view: RingView) -> None:
        assert view.epoch == self.view.epoch + 1
        self.tells(f"decided: {view}")
        self.views.append(view)
        self._announce(view)

    def _announce(self, view: RingView) -> None:
        for number in self.members:
            self.later(self.random.randint(1, VIEW_DELAY_MAX), partial(self._learn, number, view))

    def _learn(self, number: int, view: RingView) -> None:
        self.members[number].view_came(view)
        if view.leader == number and self.random.random() < self.faults.crash_at_vote:
            # It is about to write its first entry of the term.
            self.later(self.random.randint(1, 6), partial(self.crash, number, 30))

    def _look(self) -> None:
        """What the definitions leader does about nodes that are gone or back."""
        self.later(LOOK_EVERY, self._look)
        view = self.view
        gone = set(self.down)
        if not gone and self.random.random() < self.faults.wrong_suspicion / 2:
            gone = {self.random.choice(view.members)}
        found = next_view(view, gone, self._wanted(view), self.promotes_always, self._report(view))
        if found is None:
            return  # Nothing changed, or the queue is down until its leader is back.
        if found.leader not in view.synchronised:
            self.lossy_terms.add(int(found.term))
        self.decide(found)

    def _wanted(self, view: RingView) -> Wanted:
        """All nodes; now and then a policy takes a mirror away, or the leader is to be another."""
        leader, mirrors = view.leader, [m for m in self.members if m != view.leader]
        if self.random.random() < self.faults.change:
            number = self.random.choice(mirrors)
            if number in view.synchronised and self.random.random() < 0.5:
                return Wanted(number, (leader, *(m for m in mirrors if m != number)))
            mirrors.remove(number)
        return Wanted(leader, tuple(mirrors))

    def _report(self, view: RingView) -> LeaderReport | None:
        core = self.members[view.leader].core
        if core is None or core.view != view:
            return None
        return LeaderReport(core.next_synchronised, core.next_partial, core.needs_term)

    # Faults

    def crash(self, number: int, down_for: int) -> None:
        member = self.members[number]
        if not member.is_up:
            return
        member.crash()
        self.later(self.random.randint(1, 100), partial(self._suspect, number, member.life))
        self.later(down_for, partial(self.restart, number))

    def _suspect(self, number: int, life: int) -> None:
        if self.members[number].life == life and not self.members[number].is_up:
            self.down.add(number)

    def restart(self, number: int) -> None:
        member = self.members[number]
        if member.is_up:
            return
        self.down.discard(number)
        member.start()
        old = self.random.choice(self.views[-3:])
        self.later(self.random.randint(1, 20), partial(self._learn, number, old))
        self.later(self.random.randint(20, VIEW_DELAY_MAX), partial(self._learn_newest, number))

    def _learn_newest(self, number: int) -> None:
        self._learn(number, self.view)

    def _harm(self, end: int) -> None:
        random, faults = self.random, self.faults
        if self.now >= end:
            return
        self.later(random.randint(1, 2 * FAULT_EVERY), partial(self._harm, end))
        numbers = list(self.members)
        if random.random() < faults.partition:
            self.network.cut_at_random(numbers)
        elif random.random() < 0.3:
            self.network.heal()
        if random.random() < faults.crash:
            self.crash(random.choice(numbers), random.choice((1, 50, random.randint(5, 900))))
        if random.random() < faults.crash / 10:
            for number in numbers:
                self.crash(number, random.randint(5, 300))

    def _work(self, end: int) -> None:
        random, faults = self.random, self.faults
        if self.now >= end:
            return
        self.later(random.randint(1, 8), partial(self._work, end))
        for member in self.members.values():
            if random.random() < faults.proposal and self._is_leader(member):
                self.published += 1
                member.publish(self.published)
            if random.random() < faults.snapshot:
                member.take_snapshot()
            if random.random() < faults.forget:
                member.forget()
            if random.random() < 0.01 and member.core is not None:
                member.core.synchronise(random.random() < 0.7)

    def _is_leader(self, member: Member) -> bool:
        return member.core is not None and member.core.role == LEADER

    # A life

    def blow(self, duration: int) -> None:
        """Faults and publishes for so long."""
        self.faults = replace(draw(self.random), change=self.random.choice((0, 0.1, 0.4)))
        self.later(1, partial(self._work, self.now + duration))
        self.later(1, partial(self._harm, self.now + duration))
        self.run(duration)

    def heal(self) -> None:
        """From now on nothing fails, and everything comes back."""
        self.faults = CALM
        self.network.heal()
        self.tells("healed")
        for number in self.members:
            self.restart(number)
        for member in self.members.values():
            if member.core is not None:
                member.core.synchronise(True)

    def is_whole(self) -> bool:
        """All members are synchronised, have the same, and the leader takes proposals."""
        view = self.view
        if set(view.synchronised) != set(self.members):
            return False
        states = set()
        for member in self.members.values():
            core = member.core
            if core is None or core.view != view or core.is_hollow:
                return False
            if core.commit_index != core.last_index:
                return False
            states.add(member.machine.state)
        return len(states) == 1 and self._is_leader(self.members[view.leader])

    def settle(self) -> None:
        """After `heal`: what is published now is committed, and all are the same."""
        self.run_until(self.is_whole, 60_000, "all members are synchronised")
        leader = self.members[self.view.leader]
        self.published += 1
        number = self.published
        assert leader.publish(number), "the leader takes nothing"
        self.run_until(
            lambda: all(number in m.machine.alive for m in self.members.values()),
            10_000,
            "a message is committed everywhere",
        )
        self.run_until(self.is_whole, 10_000, "all are the same")
        self.run_until(self.is_at_rest, 10_000, "the ring is at rest")

    def is_at_rest(self) -> bool:
        cores = [member.core for member in self.members.values()]
        return all(core is not None and core.is_idle for core in cores)

    def describe(self) -> str:
        lines = [f"seed {self.seed} at {self.now}: {self.view}", *self.trace]
        for number, member in self.members.items():
            core = member.core
            if core is None:
                lines.append(f"{number}: down")
            else:
                lines.append(
                    f"{number}: {core.view} role {core.role} commit {core.commit_index} last"
                    f" {core.last_index} applied {core.applied_index} hollow {core.is_hollow}"
                    f" idle {core.is_idle}"
                    f" base {core.base_index} wants {core.wanted_snapshot_index}"
                )
        return "\n".join(lines)


def live(world: World) -> None:
    """Three times of faults, each with an end at which all must be well."""
    try:
        for _ in range(3):
            world.blow(2000)
            world.heal()
            world.settle()
    except AssertionError:
        print(world.describe())
        raise


def describe(message: Message) -> str:
    if isinstance(message, SnapshotSlice):
        return f"slice {message.slice_number} of {message.index} in {message.term}"
    names = [name for name in dir(message) if not name.startswith("_") and name != "entries"]
    values = ", ".join(f"{name}={getattr(message, name)}" for name in names)
    entries = len(getattr(message, "entries", ()))
    return f"{type(message).__name__}({values}, {entries} entries)"

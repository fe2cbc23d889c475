"""A whole group in one process: members, network, disks, clocks and what goes wrong, by one seed.

Everything happens on one schedule and is drawn from one `Random`: a seed does the same each time.
First there is weather (`faults`) for a while, then `heal`, and what must come after it: a leader,
progress, the same log everywhere, and rest, in which no message is sent, until something is
proposed again. `Truth` looks at every step.
"""

from collections.abc import Callable, Sequence

from raft import codec
from raft.core import Raft
from raft.entries import Config, HardState, SnapshotPoint
from raft.messages import AppendRequest, Message
from raft.settings import Settings
from tests.sim.raft import gathering
from tests.sim.raft.detector import Detector
from tests.sim.raft.faults import CALM, Faults, draw, draw_settings
from tests.sim.raft.log_disk import LogDisk
from tests.sim.raft.member import Member
from tests.sim.raft.network import Network
from tests.sim.raft.schedule import TICK, TRACED, Schedule
from tests.sim.raft.truth import Truth

SETTLE_MAX = 6000  # so long it may take until all is well again
ENTRY_MAX = 30  # and so much longer for each entry that a member may lack
QUIET = 800  # so long no message must be sent
MEMBERS_MAX = 9  # in the life of a group


class World(Schedule):
    """One seed's group. `members` are all there ever were, also those that were removed."""

    def __init__(self, seed: int, voters: int = 0, settings: Settings | None = None) -> None:
        super().__init__(seed)
        self.faults = CALM
        self.settings = settings or draw_settings(self.random)
        numbers = range(1, 1 + (voters or self.random.choice((1, 2, 3, 3, 3, 4, 5, 5))))
        self.birth = SnapshotPoint(0, 0, 0, Config(tuple(numbers)))
        self.truth = Truth(self.birth.config)
        self.network = Network(self.random, self.later, self._receive)
        self.detector = Detector(self.random, self._hears, self._opinion)
        self.members: dict[int, Member] = {}
        self.disks: dict[int, LogDisk] = {}
        self.gone: set[int] = set()  # members that were removed and run no more
        self.held: set[int] = set()  # members whose disks sync nothing for now
        self.passes: Callable[[int, int, Message], bool] | None = None  # what else is lost
        self._periods: dict[int, int] = {}
        self._paused_until: dict[int, int] = {}
        self._told: dict[int, tuple[int, int]] = {}  # leader, term that a member got as lost
        self.heard = gathering.Heard()
        for number in numbers:
            self.add(number, self.birth)
        self.later(TICK, self._beat)

    def newcomer(self) -> int:
        """The number of another member; 0 if there were enough."""
        return len(self.members) + 1 if len(self.members) < MEMBERS_MAX else 0

    def add(self, number: int, birth: SnapshotPoint) -> None:
        member = self.members[number] = self.make_member(number, birth)
        self.disks[number] = member.disk
        self._boot(member)
        self._periods[number] = self.random.randint(TICK - 4, TICK + 6)
        self.later(self.random.randint(1, TICK), lambda: self._tick(member))

    def make_member(self, number: int, birth: SnapshotPoint) -> Member:
        return Member(number, self, birth, self.settings)

    def describe(self) -> str:
        head = f"seed {self.seed} at {self.now}, {self.truth.commit_index} committed"
        return "\n".join([head, *gathering.describe(self.members)])

    # Life of members

    def numbers(self) -> list[int]:
        return list(self.members)

    def up(self) -> list[Member]:
        return gathering.up(self.members.values())

    def is_paused(self, number: int) -> bool:
        return self._paused_until.get(number, 0) > self.now

    def paused_for(self, number: int) -> int:
        return max(0, self._paused_until.get(number, 0) - self.now)

    def pause(self, number: int, duration: int) -> None:
        self._paused_until[number] = self.now + duration

    def _boot(self, member: Member) -> None:
        self._told.pop(member.number, None)
        member.start()
        self.detector.restarted(member.number, list(self.members))

    def crash(self, number: int, down_for: int = 0, kept: int | None = None) -> None:
        """It comes back after that time; 0: when it is started. `kept`: see LogDisk.crash."""
        member = self.members[number]
        if member.core is None:
            return
        member.crash(kept)
        if down_for:
            self.later(down_for, lambda: self.start(number))

    def start(self, number: int) -> None:
        member = self.members[number]
        if member.core is None and number not in self.gone:
            self._boot(member)

    def remove(self, number: int) -> None:
        """It is no member any more, and its node knows it."""
        self.gone.add(number)
        self.crash(number)

    def leaders(self) -> list[Member]:
        return gathering.leaders(self.members.values())

    def leader(self) -> Member | None:
        """Of the highest term."""
        return gathering.leader(self.members.values())

    # Time and the failure detector

    def _tick(self, member: Member) -> None:
        self.later(self._periods[member.number], lambda: self._tick(member))
        core = member.core
        if core is None or self.is_paused(member.number):
            return
        number, leader = member.number, core.leader
        lost = leader not in (0, number) and not self.detector.trusts(number, leader)
        if lost and self._told.get(number) != (leader, core.term):
            self._told[number] = (leader, core.term)
            core.leader_lost()
        elif not core.is_idle:
            core.tick()
        else:
            return
        member.act()

    def _beat(self) -> None:
        self.later(TICK, self._beat)
        self.detector.beat(self.now, [m.number for m in self.up()], list(self.members))

    def _hears(self, one: int, other: int) -> bool:
        is_up = self.members[other].core is not None and not self.is_paused(other)
        return is_up and (other, one) not in self.network.blocked

    def _opinion(self, one: int, other: int, alive: bool) -> None:
        member = self.members[one]
        core = member.core
        assert core is not None
        self._told.pop(one, None)
        core.reachable(other, alive)
        if not alive and core.leader == other:
            self._told[one] = (other, core.term)
            core.leader_lost()
        member.act()

    # The network

    def send(self, source: int, target: int, message: Message) -> None:
        """As bytes, so that members share nothing."""
        if self.passes is None or self.passes(source, target, message):
            content = b"".join(codec.encode(message))
            self.network.send(self.faults, self.now, source, target, content)

    def send_batch(self, source: int, target: int, content: bytes) -> None:
        """Of a host: see `host_world`."""
        raise AssertionError("members of this world send messages")

    def _receive(self, source: int, target: int, sent_at: int, content: bytes) -> None:
        member = self.members.get(target)
        if member is None or member.core is None:
            return
        if self.is_paused(target):
            self.later(
                self.paused_for(target), lambda: self._receive(source, target, sent_at, content)
            )
            return
        self._step(member, member.core, source, sent_at, codec.decode(memoryview(content)))

    def _step(
        self, member: Member, core: Raft, source: int, sent_at: int, message: Message
    ) -> None:
        target = member.number
        if TRACED:
            fields = {name: getattr(message, name) for name in message.__slots__}
            print(self.now, f"{source}->{target}", type(message).__name__, fields)
        core.step(source, message)
        if isinstance(message, AppendRequest) and core.term == message.term:
            self.heard.note(source, message.term, target, sent_at)
        member.act()

    def is_heard(self, leader: int, term: int, since: int, voters: Sequence[int]) -> bool:
        """Whether a majority got what the leader sent since then, and still was of its term."""
        return self.heard.by_majority(leader, term, since, voters)

    # Disks

    def sync_delay(self, member: int) -> int:
        if self.random.random() < self.faults.slow_sync:
            return self.random.randint(10, 300)
        return self.random.randint(0, self.faults.sync_max)

    def read_delay(self) -> int:
        return self.random.choice((0, 1, 3, 20))

    def on_sync_wanted(self, member: int, hard_state: HardState | None) -> None:
        """Some faults wait for this moment."""
        chance = self.faults.crash_at_sync
        if hard_state is not None:
            chance += self.faults.crash_at_vote
        if chance and self.random.random() < chance:
            down_for = self.random.randint(5, 300)
            self.later(self.random.randint(0, 12), lambda: self.crash(member, down_for))

    # After the weather

    def heal(self) -> None:
        """Nothing goes wrong any more, and all members are there."""
        self.tells("healed")
        self.faults = CALM
        self.network.heal()
        self.detector.forget_all_errors()
        self._paused_until.clear()
        self.held.clear()
        for number in self.members:
            self.start(number)

    def propose(self, parts: Sequence[bytes], attached: Sequence[bytes] = ()) -> bool:
        """Of the leader, if there is one, and it takes it."""
        return gathering.propose(self.members, parts, attached)

    def is_settled(self) -> bool:
        """All members have the same, know it, and may be left alone."""
        return gathering.is_settled(self.members, self.truth)

    def deliver(self, source: int, target: int, message: Message) -> None:
        """A message arrives that was kept for long."""
        self._receive(source, target, 0, b"".join(codec.encode(message)))

    def settle_without(self, number: int) -> None:
        """All but this one have applied what is committed."""
        others = [member for member in self.up() if member.number != number]
        self.run_until(
            lambda: all(member.machine.index == self.truth.commit_index for member in others),
            SETTLE_MAX,
            "applied",
        )

    def settle(self) -> None:
        # Small messages, one read of the log for each, may be all that a member catches up by.
        limit = SETTLE_MAX + ENTRY_MAX * self.truth.commit_index
        self.run_until(self.is_settled, limit, "at rest")
        gathering.check_alike(self.members)

    def draw_faults(self) -> Faults:
        return draw(self.random)

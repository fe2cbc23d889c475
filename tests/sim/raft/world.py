"""A whole group in one process: members, network, disks, clocks and what goes wrong, by one seed.

Everything happens on one schedule and is drawn from one `Random`: a seed does the same each time.
First there is weather (`faults`) for a while, then `heal`, and what must come after it: a leader,
progress, the same log everywhere, and rest, in which nobody says anything, until something is
proposed again. `Truth` looks at every step.
"""

import os
from collections import deque
from collections.abc import Callable, Sequence
from heapq import heappop, heappush
from random import Random

from raft import codec
from raft.core import Raft
from raft.entries import Config, HardState, SnapshotPoint
from raft.messages import AppendRequest, Message
from raft.settings import Settings
from raft.status import LEADER
from tests.sim.raft.detector import Detector
from tests.sim.raft.faults import CALM, Faults, draw
from tests.sim.raft.log_disk import LogDisk
from tests.sim.raft.member import Member
from tests.sim.raft.network import Network
from tests.sim.raft.truth import Truth

TICK = 10
SETTLE_MAX = 6000  # so long it may take until all is well again
ENTRY_MAX = 30  # and so much longer for each entry that somebody may lack
QUIET = 800  # so long nobody must say anything
TRACE_LENGTH = 80
TRACED = os.environ.get("WARREN_SIM_TRACE") == "1"


class World:
    """One seed's group. `members` are all there ever were, also those that were removed."""

    def __init__(self, seed: int, voters: int = 0, settings: Settings | None = None) -> None:
        self.seed = seed
        self.random = Random(seed)
        self.now = 0
        self.faults = CALM
        self.settings = settings or self._draw_settings()
        self._schedule: list[tuple[int, int, Callable[[], None]]] = []
        self._order = 0
        self.trace: deque[str] = deque(maxlen=TRACE_LENGTH)
        self.steps = 0
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
        self._told: dict[int, tuple[int, int]] = {}  # leader, term that a member was told is lost
        self._heard: dict[tuple[int, int, int], int] = {}  # leader, term, who heard: sent when
        for number in numbers:
            self.add(number, self.birth)
        self.later(TICK, self._beat)

    def _draw_settings(self) -> Settings:
        pick = self.random.choice
        return Settings(
            election_ticks=10,
            heartbeat_ticks=pick((1, 2, 3)),
            suspicion_ticks=pick((2, 3, 6)),
            append_bytes_max=pick((200, 500, 1 << 20)),
            window_bytes=pick((600, 8 << 20)),
            window_messages=pick((1, 2, 64)),
            slice_window=pick((1, 2, 4)),
            apply_bytes_max=pick((300, 4 << 20)),
            trailing_entries_max=pick((0, 5, 1 << 18)),
            tells_commits_at_once=pick((False, True)),
        )

    def add(self, number: int, birth: SnapshotPoint) -> None:
        member = self.members[number] = self.make_member(number, birth)
        self.disks[number] = member.disk
        self._boot(member)
        self._periods[number] = self.random.randint(TICK - 4, TICK + 6)
        self.later(self.random.randint(1, TICK), lambda: self._tick(member))

    def make_member(self, number: int, birth: SnapshotPoint) -> Member:
        return Member(number, self, birth, self.settings)

    # The schedule

    def later(self, delay: int, action: Callable[[], None]) -> None:
        self._order += 1
        heappush(self._schedule, (self.now + delay, self._order, action))

    def run(self, duration: int) -> None:
        """Let so much time pass."""
        end = self.now + duration
        while self._schedule and self._schedule[0][0] <= end:
            self.step()
        self.now = end

    def run_until(self, is_so: Callable[[], bool], limit: int, wanted: str) -> None:
        """Until it is so; it has so much time."""
        end = self.now + limit
        while not is_so():
            assert self.now < end, f"{wanted}: not within {limit}\n{self.describe()}"
            self.run(TICK)

    def step(self) -> None:
        self.now, _, action = heappop(self._schedule)
        self.steps += 1
        action()

    def tells(self, text: str) -> None:
        """For whoever wants to know how it came to a failure."""
        self.trace.append(f"{self.now} {text}")
        if TRACED:
            print(self.now, text)

    def describe(self) -> str:
        lines = [f"seed {self.seed} at {self.now}, {self.truth.commit_index} committed"]
        for number, member in self.members.items():
            core = member.core
            lines.append(
                f"  {number} down"
                if core is None
                else f"  {number} role {core.role} term {core.term} leader {core.leader}"
                f" commit {core.commit_index} applied {core.applied_index} last {core.last_index}"
                f" durable {core.durable_index} {core.config} idle {core.is_idle}"
            )
        return "\n".join(lines)

    # Life of members

    def up(self) -> list[Member]:
        return [member for member in self.members.values() if member.core is not None]

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
        return [m for m in self.up() if m.core is not None and m.core.role == LEADER]

    def leader(self) -> Member | None:
        """Of the highest term."""
        leaders = self.leaders()
        return max(leaders, key=lambda m: m.core.term if m.core else 0) if leaders else None

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
            key = (source, message.term, target)
            self._heard[key] = max(sent_at, self._heard.get(key, 0))
        member.act()

    def is_heard(self, leader: int, term: int, since: int, voters: Sequence[int]) -> bool:
        """Whether a majority got what the leader sent since then, and still was of its term."""
        count = 0
        for voter in voters:
            count += voter == leader or self._heard.get((leader, term, voter), -1) >= since
        return 2 * count > len(voters)

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
        """Nothing goes wrong any more, and everybody is there."""
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
        leader = self.leader()
        if leader is None or leader.core is None:
            return False
        taken = leader.propose(parts, attached)
        leader.act()
        return taken is not None

    def is_settled(self) -> bool:
        """All members have the same, know it, and may be left alone."""
        leader = self.leader()
        if leader is None or leader.core is None:
            return False
        last = self.truth.commit_index
        for number in leader.core.config.members():
            member = self.members[number]
            core = member.core
            if core is None or not core.is_idle or member.machine.index != last:
                return False
            if core.last_index != last or core.leader != leader.number:
                return False
        return not leader.core.config.joining

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
        leader = self.leader()
        assert leader is not None and leader.core is not None
        for number in leader.core.config.members():
            member = self.members[number]
            assert member.state == leader.state, f"{number} and {leader.number} differ"
            member.check_bodies()

    def draw_faults(self) -> Faults:
        return draw(self.random)

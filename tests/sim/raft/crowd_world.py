"""Many groups on few nodes: a real host and a real log for all that are on a node.

Nodes crash, stall, lose each other and run out of disk. Groups are founded, change their members,
are deleted and created again, under another number or under the same one: nodes hear of that one
after the other, so that for a while an earlier group lives on beside the one that has its number.
What must be true of a group (`Truth`) is of each of them. At rest all sleep, and work of one wakes
none of the others.
"""

from collections.abc import Callable, Sequence
from functools import partial

from raft.codec import decode
from raft.entries import Config, HardState
from raft.links import open_batch
from raft.settings import Settings
from tests.sim.raft import gathering
from tests.sim.raft.crowd_group import CrowdGroup
from tests.sim.raft.crowd_node import CrowdNode
from tests.sim.raft.detector import Detector, tell_host
from tests.sim.raft.faults import CALM, Faults, draw, draw_settings
from tests.sim.raft.network import LATE_MAX, Network
from tests.sim.raft.schedule import TICK, Schedule
from tests.sim.raft.wal_world import STEPS_MAX
from tests.sim.raft.world import ENTRY_MAX, QUIET, SETTLE_MAX

HEARS_WITHIN = 300  # of a group that was deleted
ASK_AGAIN = 20  # whether a node that is down, or stands still, is back


class CrowdWorld(Schedule):
    """Keeps `Region`, `Land` and `Exposed`. `groups`: by uid, those that were not deleted."""

    def __init__(
        self,
        seed: int,
        nodes: int = 0,
        groups: int | None = None,
        settings: Settings | None = None,
    ) -> None:
        super().__init__(seed)
        self.faults = CALM
        self.settings = settings or draw_settings(self.random)
        self.network = Network(self.random, self.later, self._receive)
        self.detector = Detector(self.random, self._hears, self._opinion)
        self.held: set[int] = set()  # nodes whose disks sync nothing for now
        self.spoken: set[int] = set()  # groups of which there was anything on the links
        self.deleted: set[int] = set()  # numbers that are not used again
        self.groups: dict[int, CrowdGroup] = {}
        self._known: dict[tuple[int, int], CrowdGroup] = {}  # all, by uid and incarnation
        self._unaware: dict[int, set[int]] = {}  # by uid: nodes that have yet to hear what it is
        self._paused_until: dict[int, int] = {}
        self._work_end = 0
        count = nodes or self.random.choice((2, 3, 3, 4))
        self.nodes = {number: CrowdNode(number, self) for number in range(1, count + 1)}
        for node in self.nodes.values():
            self.later(self.random.randint(1, TICK), partial(self._tick, node, self._period()))
            node.start()
        for _ in range(self.random.choice((2, 3, 5)) if groups is None else groups):
            self.found()
        self.later(TICK, self._beat)

    def _period(self) -> int:
        return self.random.randint(TICK - 4, TICK + 6)

    def describe(self) -> str:
        lines = [f"seed {self.seed} at {self.now}"]
        for group in self.groups.values():
            lines += group.describe()
        if self._unaware:
            lines.append(f"  have not heard: {self._unaware}")
        return "\n".join(lines)

    # Groups

    def found(self, uid: int = 0, incarnation: int = 1, voters: Sequence[int] = ()) -> CrowdGroup:
        """A group begins, on some nodes, which hear of it in their time."""
        uid = uid or max([uid for uid, _ in self._known], default=1) + 1
        voters = voters or self._draw_voters()
        group = CrowdGroup(self, uid, incarnation, Config(tuple(voters)))
        self.groups[uid] = self._known[uid, incarnation] = group
        if incarnation == 1:
            self._announce(uid, voters, None, group)
        if self.now < self._work_end:
            group.work.go_on(self._work_end)
        return group

    def _draw_voters(self) -> list[int]:
        count = min(len(self.nodes), self.random.choice((1, 2, 3, 3)))
        return sorted(self.random.sample(self.numbers(), count))

    def delete(self, uid: int, is_final: bool) -> None:
        """Another group is founded in its place: with its number, if the end is not final."""
        old = self.groups.pop(uid)
        old.work.stop()
        self.tells(f"group {uid}.{old.incarnation} is deleted{' for good' * is_final}")
        holders = [number for number in self.nodes if old.member_on(number) is not None]
        if is_final:
            self.deleted.add(uid)
            self._announce(uid, holders, old, None)
            self.found()
        else:
            fresh = self.found(uid, old.incarnation + 1)
            heirs = [each for each in fresh.birth.config.voters if each not in holders]
            self._announce(uid, [*holders, *heirs], old, fresh)

    def works_until(self, end: int) -> None:
        """All groups have work until then, those too that are founded meanwhile."""
        self._work_end = end
        for group in self.groups.values():
            group.work.go_on(end)

    def is_certain(self, uid: int) -> bool:
        """All nodes have heard what it is."""
        return uid not in self._unaware

    def is_deleted(self, uid: int) -> bool:
        return uid in self.deleted

    def _announce(
        self, uid: int, numbers: Sequence[int], old: CrowdGroup | None, fresh: CrowdGroup | None
    ) -> None:
        for number in numbers:
            self._unaware.setdefault(uid, set()).add(number)
            delay = self.random.choice((0, self.random.randint(0, HEARS_WITHIN)))
            self.later(delay, partial(self._inform, number, uid, old, fresh))

    def _inform(
        self, number: int, uid: int, old: CrowdGroup | None, fresh: CrowdGroup | None
    ) -> None:
        """A node hears that there is another group, or none, in the place of the old one."""
        node = self.nodes[number]
        again = partial(self._inform, number, uid, old, fresh)
        if node.host is None or self.is_paused(number):
            self.later(ASK_AGAIN, again)
            return
        member = None if old is None else old.member_on(number)
        if member is not None and not member.leaves and self.random.random() < 0.3:
            member.leaves = True  # With the next entry that it applies, or else a little later.
            self.later(ASK_AGAIN, again)
            return
        if member is not None:
            node.leave(member)
        is_wanted = fresh is not None and number in fresh.birth.config.voters
        if fresh is not None and is_wanted and number not in fresh.members:
            fresh.add(number, fresh.birth)
        unaware = self._unaware.get(uid, set())
        unaware.discard(number)
        if not unaware:
            self._unaware.pop(uid, None)

    # Nodes

    def numbers(self) -> list[int]:
        return list(self.nodes)

    def is_paused(self, number: int) -> bool:
        return self._paused_until.get(number, 0) > self.now

    def paused_for(self, number: int) -> int:
        return max(0, self._paused_until.get(number, 0) - self.now)

    def pause(self, number: int, duration: int) -> None:
        self._paused_until[number] = self.now + duration

    def crash(self, number: int, down_for: int = 0) -> None:
        """It comes back after that time; 0: when it is started."""
        node = self.nodes[number]
        if node.host is not None:
            self.tells(f"{number} crashes")
            node.crash()
            if down_for:
                self.later(down_for, node.start)

    def started(self, number: int) -> None:
        self.detector.restarted(number, self.numbers())

    def fill_disk(self, number: int, space_bytes: int) -> None:
        """There is room for so much more."""
        self.tells(f"{number}: {space_bytes} bytes are free")
        self.nodes[number].drive.image.space_bytes = space_bytes

    def free_disk(self, number: int) -> None:
        node = self.nodes[number]
        if node.drive.image.space_bytes >= 0:
            self.tells(f"{number}: its disk has room again")
            node.drive.image.space_bytes = -1

    # Time and the failure detector

    def _tick(self, node: CrowdNode, period: int) -> None:
        self.later(period, partial(self._tick, node, period))
        if node.host is not None and not self.is_paused(node.number):
            node.host.tick(self.now)

    def _beat(self) -> None:
        self.later(TICK, self._beat)
        alive = [number for number, node in self.nodes.items() if node.host is not None]
        self.detector.beat(self.now, alive, self.numbers())
        for number in alive:
            if not self.is_paused(number):
                self._tell_of_others(self.nodes[number])

    def _tell_of_others(self, node: CrowdNode) -> None:
        host = node.host
        assert host is not None
        for other in self.nodes:
            if other == node.number:
                continue
            tell_host(self.detector, node.number, other, host)
            if other in node.full and self.random.random() < 0.2 + (self.faults.full == 0):
                node.full.discard(other)
                host.drained(other)
            elif self.random.random() < self.faults.full:
                node.full.add(other)

    def _hears(self, one: int, other: int) -> bool:
        is_up = self.nodes[other].host is not None and not self.is_paused(other)
        return is_up and (other, one) not in self.network.blocked

    def _opinion(self, one: int, other: int, alive: bool) -> None:
        """A lost connection is reported even if it stands again by the next beat."""
        host = self.nodes[one].host
        if not alive and host is not None:
            host.lost(other)

    # The network

    def carry(self, source: int, target: int, uids: set[int], content: bytes) -> None:
        self.spoken |= uids
        self.network.send(self.faults, self.now, source, target, content)

    def _receive(self, source: int, target: int, sent_at: int, content: bytes) -> None:
        node = self.nodes[target]
        if node.host is None:
            return
        if self.is_paused(target):
            again = partial(self._receive, source, target, sent_at, content)
            self.later(self.paused_for(target), again)
            return
        for envelope in open_batch(memoryview(content)):
            group = self._known[envelope.uid, envelope.incarnation]
            group.receive(source, target, sent_at, decode(envelope.message))
        node.receive(source, content)

    # Disks

    def sync_delay(self, member: int) -> int:
        if self.random.random() < self.faults.slow_sync:
            return self.random.randint(10, 300)
        return self.random.randint(0, self.faults.sync_max)

    def read_delay(self) -> int:
        return self.random.choice((0, 1, 3, 20))

    def on_sync_wanted(self, member: int, hard_state: HardState | None) -> None:
        """A crash in the midst of what the disk is doing for this."""
        chance = self.faults.crash_at_sync + (self.faults.crash_at_vote if hard_state else 0)
        image = self.nodes[member].drive.image
        if chance and image.crash_in < 0 and self.random.random() < chance:
            image.crash_in = self.random.randint(0, STEPS_MAX)

    # After the weather

    def draw_faults(self) -> Faults:
        faults = draw(self.random)
        faults.full_disk = self.random.choice((0, 0.1, 0.3))
        faults.renewal = self.random.choice((0, 0.05, 0.2))
        faults.bulk = self.random.choice((0, 0.1, 0.4))
        return faults

    def heal(self) -> None:
        """Nothing goes wrong any more, and all members are there."""
        self.tells("healed")
        self.faults = CALM
        self.network.heal()
        self.detector.forget_all_errors()
        self._paused_until.clear()
        self.held.clear()
        for number, node in self.nodes.items():
            node.drive.image.crash_in = -1
            self.free_disk(number)
            node.start()

    def settle(self) -> None:
        committed = sum(group.truth.commit_index for group in self.groups.values())
        self.run_until(self._is_settled, SETTLE_MAX + ENTRY_MAX * committed, "at rest")
        for group in self.groups.values():
            gathering.check_alike(group.members)

    def _is_settled(self) -> bool:
        return not self._unaware and all(group.is_settled() for group in self.groups.values())

    def rest(self) -> None:
        """Members that were removed leave; the others say nothing as long as nothing is asked."""
        for group in self.groups.values():
            leader = gathering.leader(group.members.values())
            assert leader is not None and leader.core is not None
            for number in group.members:
                member = group.member_on(number)
                if number not in leader.core.config.members() and member is not None:
                    self.nodes[number].leave(member)
        self.run(LATE_MAX + QUIET)  # What was sent before, and reports of those that are gone.
        sent = self.network.sent
        self.run(QUIET)
        assert self.network.sent == sent, f"messages go on\n{self.describe()}"
        assert self._is_settled(), self.describe()
        for node in self.nodes.values():
            host = node.host
            assert host is not None and host.hibernating_count == host.group_count, "one is awake"
            assert not node.drive.wal.faults, f"the log still has {node.drive.wal.faults}"

    def asks(self, is_so: Callable[[], bool], wanted: str) -> None:
        """It comes about within the time that a settlement may take."""
        self.run_until(is_so, SETTLE_MAX, wanted)

"""A quorum queue on several nodes, in bad weather: what is published, confirmed and settled is
looked at by those who did it, and the members of the group are compared with each other.

By lots: nodes run a little, batches arrive, time passes, sessions work; links break, nodes lose
power and what is not synced, all at once, too; leaders move, members come and go, disks are wiped.
At the end all is well again: then everything that was confirmed and not settled is there, once, and
nothing is left of the rest.
"""

from collections.abc import Callable
from random import Random
from typing import Final
from zlib import crc32

from queues.hosts.host_interfaces import DeadLetterPublisher
from queues.machine.commands import ACCEPT, FAIL, REJECT, RELEASE, EndProcess, SessionId
from queues.machine.fifo_snapshot import encode_fifo
from queues.machine.options import REJECT_PUBLISH, Options
from raft.entries import Config
from raft.settings import Settings
from raft.status import LEADER
from tests.sim.queues.burying import TARGETS, SimUndertaker, Target
from tests.sim.queues.group_node import OPTIONS, UID, GroupNode
from tests.sim.queues.group_session import Books, Letter, Session
from tests.sim.queues.mirror_views import MirrorViews
from tests.sim.queues.switchboard import Switchboard
from tests.sim.storage.sim_disk import Crashed, SimDisk, is_out_of_space

START_MS: Final = 1000
TICK_MS: Final = 20
BEAT_MS: Final = 100
SETTLE_STEPS: Final = 60_000
NODES_MAX: Final = 9
OUTCOMES: Final = (ACCEPT, ACCEPT, ACCEPT, RELEASE, FAIL)
DEADLY: Final = (ACCEPT, ACCEPT, REJECT, REJECT, RELEASE, FAIL, FAIL)
BURYING: Final = Options(
    levels=32,
    default_level=4,
    overflow=REJECT_PUBLISH,
    counts_deliveries=True,
    delivery_limit=4,
    dead_letters=True,
    keeps_dead=True,
)


class GroupWorld:
    """See the module. Members are numbered from 1; a wiped node comes back under a new number."""

    def __init__(
        self,
        seed: int,
        count: int,
        buries: bool = False,
        founders: int | None = None,
        mirrored: bool = False,
        snapshots: tuple[int, int] | None = None,
        stored: Callable[[bytes], bytes] = bytes,
    ) -> None:
        """`buries`: some messages die, and are kept until their dead letters are safe.

        `founders`: how many of the `count` nodes have a member at first; None: all. `mirrored`: it
        is a mirrored queue. `snapshots`: after how many entries, and with which rest in ms.
        `stored`: what is published for a payload.
        """
        self._stored = stored
        self.random = Random(seed)
        self.snapshots = snapshots
        self.buries = buries
        self.options = BURYING if buries else OPTIONS
        self.targets = {uid: Target(uid) for uid in TARGETS} if buries else {}
        self.now_ms = START_MS
        self.disks = {number: SimDisk() for number in range(1, count + 1)}
        self.nodes: dict[int, GroupNode | None] = dict.fromkeys(self.disks)
        self.wanted = tuple(sorted(self.disks)[:founders])
        self.views: MirrorViews | None = None
        if mirrored:
            self.views = MirrorViews(self.wanted, self.random)
        self.wires = Switchboard(self.nodes, self.random)
        self.books = Books({}, {})
        self.sessions: list[Session] = []
        self.gone: list[Session] = []  # what they were confirmed counts all the same
        # By incarnation and index: checksum of the machine, whose
        self.states: dict[tuple[int, int], tuple[int, int]] = {}
        self.ticked_ms = self.beaten_ms = self.now_ms
        self.published = 0
        self.is_calm = False
        self.has_changed = False  # other members are wanted than founded the group
        self.is_steady = False  # the members stay who they are
        self.has_clients = True  # sessions of its own use the queue
        self.fault_chance = 0.4  # of a fault that comes up
        self.stopped_count = 0  # nodes that could write no more
        self.reborn = (0, 0)  # the group has restarted: in which term, with whom
        self.loss_count = 0  # messages that a mirror lacks which was promoted all the same
        self.ignorant: set[int] = set()  # nodes that have not heard of it
        self.settings = Settings(
            election_ticks=10,
            heartbeat_ticks=2,
            suspicion_ticks=2,
            append_bytes_max=self.random.choice((200, 2000, 1 << 20)),
            window_bytes=self.random.choice((400, 1 << 20)),
            window_messages=self.random.choice((1, 4, 64)),
            apply_bytes_max=self.random.choice((300, 1 << 20)),
            uncommitted_bytes_max=self.random.choice((4000, 1 << 20)),
            trailing_entries_max=self.random.choice((0, 4, 1000)),
            tells_commits_at_once=self.random.random() < 0.5,
        )
        for number in self.disks:
            self.start(number)

    # Links and leaders

    def alive(self) -> list[GroupNode]:
        return self.wires.alive()

    def find_leader(self) -> GroupNode | None:
        return self.wires.find_leader()

    def leads(self, member: int, leader: int, term: int, is_ready: bool) -> None:
        self.wires.leads(member, leader, term, is_ready)

    def is_open(self, source: int, target: int) -> bool:
        return self.wires.is_open(source, target)

    def send(self, source: int, target: int, lane: int, batch: bytes) -> None:
        self.wires.send(source, target, lane, batch)

    # Nodes

    def start(self, number: int) -> None:
        disk = self.disks[number]
        random = Random(self.random.getrandbits(64))
        try:
            node = GroupNode(number, disk, self, random, self.settings)
        except OSError as error:
            assert is_out_of_space(error), f"{number} cannot start: {error}"
            self.disks[number] = disk.left_behind()
            return
        self.nodes[number] = node
        for other in range(1, NODES_MAX + 1):
            if other != number:
                node.raft.add_peer(other)
        self.wires.plug_in(node)
        self.follow(number)

    def crash(self, number: int) -> None:
        """The power is gone, and what was not synced."""
        node = self.nodes[number]
        if node is None:
            return
        self.nodes[number] = None
        self.wires.leaders.pop(number, None)
        space_bytes = self.disks[number].space_bytes
        self.disks[number] = self.disks[number].crash(self.random)
        self.disks[number].space_bytes = space_bytes
        self.wires.unplug(number)
        for session in self.sessions:
            if session.face is not None and session.face.node is node:
                session.disconnect()

    def wipe(self, number: int) -> None:
        """Its disk is empty: it comes back as another member."""
        new = max(self.disks) + 1
        if new > NODES_MAX:
            return
        self.crash(number)
        del self.disks[number]
        del self.nodes[number]
        for peer in self.alive():
            peer.raft.remove_peer(number)
        self.disks[new] = SimDisk()
        self.nodes[new] = None
        self.start(new)
        self.want([new if each == number else each for each in self.wanted])

    def follow(self, number: int) -> None:
        """The node hears what the definitions say."""
        node = self.nodes[number]
        if node is None or number in self.ignorant:
            return
        if self.views is not None:
            node.take_view(self.views.heard())
            return
        if node.member is None and number in self.wanted:
            config = Config(()) if self.has_changed else Config(self.wanted)
            node.found_member(config, not self.has_changed and number == self.wanted[0])
        if node.member is not None:
            node.member.follow(self.wanted)

    def want(self, members: list[int]) -> None:
        self.has_changed = True
        self.wanted = tuple(sorted(members))
        for number in list(self.nodes):
            self.follow(number)

    # Network

    def is_up(self, node: GroupNode) -> bool:
        return self.nodes.get(node.number) is node

    def reborn_of(self, number: int) -> tuple[int, int]:
        return (0, 0) if number in self.ignorant else self.reborn

    def dead_letter_publisher(self, node: GroupNode) -> DeadLetterPublisher | None:
        if not self.buries:
            return None
        return SimUndertaker(node, self.targets, Random(node.random.getrandbits(32)))

    def pass_time(self) -> None:
        self.now_ms += self.random.choice((1, 3, 10))
        while self.now_ms - self.ticked_ms >= TICK_MS:
            self.ticked_ms += TICK_MS
            for node in self.alive():
                node.raft.tick(self.ticked_ms)
                node.pass_time()
        if self.views is not None:
            self.views.look(self.nodes, self.wanted, self.is_calm)
            self.views.tell(self.alive())
        if self.now_ms - self.beaten_ms >= BEAT_MS:
            self.beaten_ms = self.now_ms
            self.wires.beat()

    # What happens

    def run(self, steps: int) -> None:
        for _ in range(steps):
            self.step()

    def step(self) -> None:
        random = self.random
        lot = random.random()
        alive = self.alive()
        if lot < 0.5 and alive:
            self.run_node(random.choice(alive), random.randint(1, 12))
        elif lot < 0.75:
            for _ in range(random.randint(1, 4)):
                self.wires.deliver()
        elif lot < 0.87:
            self.pass_time()
        elif self.targets and lot < 0.9:
            random.choice(list(self.targets.values())).decide(random)
        elif lot < 0.99 or self.is_calm:
            self.work()
        elif random.random() < self.fault_chance:
            self.fault()

    def run_node(self, node: GroupNode, steps: int) -> None:
        try:
            node.run(steps)
        except Crashed:
            self.crash(node.number)
            return
        except OSError as error:
            assert is_out_of_space(error), f"{node.number} fails: {error}"
            self.stopped_count += 1
            self.crash(node.number)  # The process ends; perhaps its machine, too.
            return
        self.compare(node)

    def compare(self, node: GroupNode) -> None:
        """Members that have applied the same are the same."""
        member = node.member
        if member is None or member.applied_index == 0 or self.random.random() < 0.7:
            return
        ring = node.ring()
        if self.views is not None and (ring is None or ring.is_hollow):
            return  # Its machine is empty at its base.
        index = (node.incarnation, int(member.applied_index))
        state = crc32(encode_fifo(member.core.machine))
        known = self.states.setdefault(index, (state, node.number))
        assert known[0] == state, f"{node.number} and {known[1]} differ at {index}"

    def fault(self) -> None:
        random = self.random
        numbers = sorted(self.nodes)
        lot = random.random()
        down = [number for number in numbers if self.nodes[number] is None]
        if lot < 0.18 and len(numbers) > 1:
            one, other = random.sample(numbers, 2)
            self.wires.break_link(one, other)
        elif 0.18 <= lot < 0.25:
            self.fill_or_free(random.choice(numbers))
        elif lot < 0.35:
            self.wires.cut_some(0.3)
        elif lot < 0.5:
            self.wires.mend()
        elif lot < 0.65:
            node = self.nodes[random.choice(numbers)]
            if node is not None and random.random() < 0.5:
                node.disk.crash_in = random.randint(0, 12)
            elif node is not None:
                self.crash(node.number)
        elif lot < 0.85 and down:
            self.start(random.choice(down))
        elif lot < 0.88:
            for number in numbers:
                self.crash(number)
        elif lot < 0.94:
            self.move_leader()
        elif not down and len(self.wanted) >= 3 and not self.is_steady:
            self.change_members()

    def fill_or_free(self, number: int) -> None:
        """A disk runs full, so that its log has no more than its reserve; or it has room again."""
        disk = self.disks[number]
        if disk.space_bytes < 0:
            disk.space_bytes = self.random.choice((0, self.random.randint(0, 60_000)))
            return
        disk.space_bytes = -1
        node = self.nodes[number]
        if node is not None:
            node.wal.retry()

    def move_leader(self) -> None:
        if self.views is not None:
            self.views.move_leader()
            return
        leader = self.find_leader()
        if leader is not None and leader.member is not None:
            leader.turn.begin()
            leader.member.transfer(self.random.choice(self.wanted))

    def change_members(self) -> None:
        """Not before the last change is through: of two disks that are lost at once all is."""
        if not self.is_as_wanted():
            return
        if self.random.random() < 0.4:
            self.wipe(self.random.choice(self.wanted))
        elif len(self.wanted) > 3 and self.random.random() < 0.6:
            leaver = self.random.choice(self.wanted)
            self.want([each for each in self.wanted if each != leaver])
        elif others := [number for number in self.nodes if number not in self.wanted]:
            self.want([*self.wanted, self.random.choice(others)])

    def is_as_wanted(self) -> bool:
        """Whether the last change of members is complete."""
        if self.views is not None:
            return self.views.is_whole(self.wanted)
        leader = self.find_leader()
        status = None if leader is None or leader.member is None else leader.member.status()
        return status is not None and status.config == Config(self.wanted)

    # Sessions

    def work(self) -> None:
        """One of the sessions does something."""
        if not self.has_clients:
            return
        random = self.random
        if not self.sessions or (len(self.sessions) < 4 and random.random() < 0.02):
            self.sessions.append(self.new_session())
        session = random.choice(self.sessions)
        lot = random.random()
        if session.face is None:
            leader = self.find_leader()
            if leader is not None and leader.member is not None:
                session.connect(leader)
        elif session.is_ended:
            if not session.kept and not self.is_calm:
                self.sessions.remove(session)
        elif random.random() < 0.01:
            session.disconnect()
        elif random.random() < 0.02 and not self.is_calm:
            self.abandon(session)
        elif self.is_calm:
            session.face.read_some()
        elif lot < 0.35 and len(session.kept) < 30:
            session.publish(self.payloads())
        elif lot < 0.45 and not session.is_attached:
            session.attach()
        elif lot < 0.7:
            session.face.read_some()
        elif session.held:
            some = [seq for seq in session.held if random.random() < 0.6]
            if some:
                session.settle(some, random.choice(DEADLY if self.buries else OUTCOMES))
        elif random.random() < 0.01 and not session.kept:
            self.end(session)

    def new_session(self) -> Session:
        """Each of a process of its own."""
        process = self.random.getrandbits(40)
        return Session(SessionId(process << 64 | 1), self.books)

    def abandon(self, session: Session) -> None:
        """Its process is gone, with all that it kept; the leader learns it, sooner or later."""
        session.disconnect()
        for kept in session.kept:
            for letter in kept.settles:
                letter.is_open = True
        self.sessions.remove(session)
        self.gone.append(session)

    def bury(self) -> bool:
        """Have the leader end the sessions of processes that are gone; whether that is done."""
        leader = self.find_leader()
        if leader is None or leader.member is None:
            return False
        known = leader.member.processes()
        self.gone = [each for each in self.gone if int(each.session) >> 64 in known]
        for session in self.gone:
            leader.turn.begin()
            leader.member.order(EndProcess(int(session.session) >> 64))
        return not self.gone

    def end(self, session: Session) -> None:
        session.end()

    def payloads(self) -> list[bytes]:
        found = []
        for _ in range(self.random.choice((1, 1, 2, 5))):
            self.published += 1
            payload = b"message %d " % self.published + bytes(self.random.choice((0, 20, 300)))
            found.append(self._stored(payload))
        return found

    # The end

    def calm_down(self) -> None:
        """All nodes are up, nothing breaks any more, no client publishes."""
        self.is_calm = True
        for target in self.targets.values():
            target.reliable = True
        self.wires.mend()
        self.start_all()

    def start_all(self) -> None:
        """All nodes are up, and their disks have room."""
        for number in sorted(self.nodes):
            if self.disks[number].space_bytes >= 0:
                self.fill_or_free(number)
            node = self.nodes[number]
            if node is None:
                self.start(number)
            else:
                node.disk.crash_in = -1

    def run_until(self, what: str, reached: object) -> None:
        assert callable(reached)
        for _ in range(SETTLE_STEPS):
            if reached():
                return
            self.step()
        raise AssertionError(f"{what} does not come about")

    def drain(self) -> None:
        """All consumers leave, a new one takes all."""
        self.calm_down()
        self.run_until("an end of what was handed down", self.nothing_kept)
        for session in self.sessions:
            session.disconnect()
            if not session.is_ended:
                session.end()
        self.run_until("an end of the sessions", self.nothing_kept)
        self.run_until("an end of those that are gone", self.bury)
        last = self.new_session()
        self.sessions = [last]
        last.attach()
        self.run_until("an empty queue", lambda: self.takes_all(last))
        self.run_until("the end of the last dead-lettering", self.all_buried)
        lost = [each.payload[:20] for each in self.books.letters.values() if not self.is_safe(each)]
        assert len(lost) <= self.loss_count, f"{lost} is lost"
        self.run_until("rest", self.is_at_rest)
        self.check_leaks()

    def is_safe(self, letter: Letter) -> bool:
        """It was taken, is where dead letters go, or its arrival was not confirmed."""
        if not letter.confirmed or any(
            letter.payload in each.arrived for each in self.targets.values()
        ):
            return True
        return letter.accepted and (letter.settled or letter.is_open)

    def all_buried(self) -> bool:
        leader = self.find_leader()
        member = None if leader is None else leader.member
        return member is not None and member.core.machine.pending_dead_letters.count == 0

    def nothing_kept(self) -> bool:
        return not any(session.kept for session in self.sessions)

    def takes_all(self, last: Session) -> bool:
        if last.face is not None and last.held:
            last.settle(sorted(last.held), ACCEPT)
        leader = self.find_leader()
        if leader is None or leader.member is None or last.kept or last.unread:
            return False
        member = leader.member
        return last.is_attached and member.ready_count == 0 and member.checked_out_count == 0

    def is_at_rest(self) -> bool:
        """All who are wanted are members, and have applied and swept the same."""
        leader = self.find_leader()
        if leader is None or leader.member is None:
            return False
        status = leader.member.status()
        if status is None or tuple(sorted(status.config.voters)) != self.wanted:
            return False
        if status.config.learners or not self.is_as_wanted():
            return False
        if any(node.member is None for node in self.alive() if node.number in self.wanted):
            return False
        members = [node.member for node in self.alive() if node.number in self.wanted]
        if any(member.core.sweeps for member in members if member is not None):
            return False  # What a snapshot has made dead goes in slices.
        indexes = {int(member.applied_index) for member in members if member is not None}
        return indexes == {int(status.last_index)} and self.wires.is_idle()

    def check_leaks(self) -> None:
        for node in self.alive():
            if node.number not in self.wanted:
                continue
            member = node.member
            assert member is not None
            assert member.bodies.promises.count == 0, f"{node.number} keeps promises"
            assert member.core.store.is_empty(), f"{node.number} keeps bodies"
            states = crc32(encode_fifo(member.core.machine))
            place = (node.incarnation, int(member.applied_index))
            known = self.states.setdefault(place, (states, node.number))
            assert known[0] == states, "members differ at the end"
        for node in self.alive():
            if node.number in self.wanted or node.member is None:
                node.check_claims()

    def has_leader(self) -> bool:
        leader = self.find_leader()
        group = None if leader is None else leader.raft.group(UID)
        return group is not None and group.raft.role == LEADER

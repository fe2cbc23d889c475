"""A stream on several nodes, in bad weather: what is confirmed is read on all of them.

Two publishers have names and publishing ids. When the process of one is gone, its successor
publishes again under the same name what it did not see confirmed; no message may get a second
offset by that. The third one has no name: what it did not see confirmed may be lost. They also
store offsets by name, which never go back. With `by_ids` messages of the third one have ids of
duplicate detection, and it publishes them again like the others, but the last one first.

Old segments go to an object store, which fails, answers late and keeps torn objects. Members come
and go while clients publish: one step at a time, as operators do it.

By lots: nodes run a little, batches arrive, time passes, publishers and readers work; links break,
nodes lose power and what is not synced, leaders move. One offset is one message for ever, a message
has one offset, and no reader sees a gap but where retention cuts. At the end everything that was
confirmed is in the stream, and all members have the same; in the store is what the stream says and
nothing else.
"""

from collections import deque
from collections.abc import Callable, Iterable
from random import Random
from typing import Final

from queues.machine.commands import (
    Command,
    Enqueue,
    Identify,
    Numbered,
    SessionId,
    StoreOffsets,
)
from queues.machine.consuming.numbered_sessions import Resume
from queues.streams.offsets import OffsetSpec, Start
from queues.streams.settings import StreamSettings
from raft.entries import Config
from raft.settings import Settings
from tests.sim.queues.group_node import UID
from tests.sim.queues.group_session import chunk_of
from tests.sim.queues.sim_streams import CLUSTER, DIRECTORY
from tests.sim.queues.stream_node import StreamNode
from tests.sim.queues.switchboard import Switchboard
from tests.sim.storage.sim_disk import Crashed, SimDisk
from tests.sim.storage.sim_objects import SimObjects, on_no_thread
from tests.unit.queues.fake_sink import FakeSink
from warren.storage.streams.segment_objects import SegmentObjects
from warren.wire.amqp091.deliver import build
from warren.wire.amqp091.fields import encode_table

TICK_MS: Final = 20
BEAT_MS: Final = 100
SETTLE_STEPS: Final = 60_000
ANONYMOUS: Final = b"app 102"
IDS_MAX: Final = 500  # more than are published and repeated meanwhile
SPARE: Final = 2  # nodes without a member at first


class Publisher:
    """A session that numbers its commands and sends again what it does not know to be applied."""

    def __init__(self, number: int, name: bytes, world: "StreamWorld") -> None:
        self.session = SessionId(number << 64 | 1)
        self.name = name
        self.has_ids = name != ANONYMOUS
        self.world = world
        self.kept: list[tuple[Numbered, list[bytes]]] = []
        self.unsent: deque[tuple[Numbered, list[bytes]]] = deque()
        self.ids: list[int] = []  # publishing ids by number of the publish
        self.payloads: list[bytes] = []  # by number of the publish, from 1
        self.number = 0
        self.confirmed = 0
        self.line: Line | None = None

    def publish(self, payloads: list[bytes], ids: list[int]) -> None:
        first, count = len(self.payloads) + 1, len(payloads)
        self.payloads.extend(payloads)
        self.ids.extend(ids)
        if self.has_ids:
            self.command(Identify(self.session, self.name, [(each, 1) for each in ids]))
        self.command(Enqueue(self.session, first, count), payloads)

    def repeat(self, count: int) -> None:
        """Publish the last messages once more, as one who does not know how far it has come."""
        if self.payloads and self.has_ids:
            self.publish(self.payloads[-count:], self.ids[-count:])
        elif self.payloads and self.world.limits.ids_max:
            self.publish(self.payloads[-count:][::-1], self.ids[-count:])

    def store(self, offset: int) -> None:
        self.command(StoreOffsets(self.session, [(self.name, offset)]))

    def command(self, command: Command, payloads: list[bytes] | None = None) -> None:
        self.number += 1
        numbered = Numbered(self.session, self.number, self.confirmed, command)
        self.kept.append((numbered, payloads or []))
        self.unsent.append(self.kept[-1])
        if self.world.random.random() < 0.7:
            self.flush()

    def flush(self) -> None:
        """Send what is not sent; without a line it is sent when there is one."""
        while self.unsent and self.line is not None:
            self.line.send(*self.unsent.popleft())

    def confirm(self, upto: int) -> None:
        while self.confirmed < upto:
            self.world.confirmed.add(self.payloads[self.confirmed])
            self.confirmed += 1

    def applied(self, number: int) -> None:
        while self.kept and self.kept[0][0].number <= number:
            command = self.kept.pop(0)[0].command
            if isinstance(command, StoreOffsets):
                self.world.stored[self.name] = command.rows[0][1]


class Line(FakeSink):
    """A publisher's connection to one leader (`StreamSink`)."""

    def __init__(self, owner: Publisher, node: StreamNode) -> None:
        super().__init__()
        self.owner = owner
        self.node = node
        self._is_resumed = False
        node.runner.post(self._resume)

    @property
    def session(self) -> SessionId:
        return self.owner.session

    @property
    def is_up(self) -> bool:
        return self.owner.line is self

    def _resume(self) -> None:
        owner = self.owner
        if not self.is_up:
            return
        self.node.turn.begin()
        wanted = Resume(owner.session, 0, owner.confirmed, [])
        resumed = self.node.member.resume(self, wanted)
        if resumed is None:
            owner.line = None
            return
        self._is_resumed = True
        owner.applied(int(resumed.number))
        owner.confirm(int(resumed.published))
        owner.unsent.clear()
        for kept in list(owner.kept):
            self.send(*kept)

    def send(self, command: Numbered, payloads: list[bytes]) -> None:
        if self._is_resumed:
            self.node.runner.post(lambda: self._arrive(command, payloads))

    def _arrive(self, command: Numbered, payloads: list[bytes]) -> None:
        if self.is_up:
            self.node.turn.begin()
            chunk = chunk_of(payloads) if payloads else None
            if not self.node.member.hand_down(self, command, chunk):
                self.owner.line = None

    def on_confirms(self, uid: int, upto_seq: int) -> None:
        if self.is_up:
            self.owner.confirm(upto_seq)

    def on_applied(self, uid: int, number: int) -> None:
        if self.is_up:
            self.owner.applied(number)

    def on_refused(self, uid: int, first_seq: int, count: int) -> None:
        raise AssertionError("a stream refuses nothing")

    def on_inspect_ok(self, uid: int, ready: int, consumer_count: int) -> None:
        raise AssertionError("no publisher asks for counts")

    def on_resumed(self, uid: int, term: int, number: int) -> None:
        return

    def _drop(self) -> None:
        if self.is_up:
            self.owner.line = None

    def on_resend(self, uid: int) -> None:
        self._drop()

    def on_leader_lost(self, uid: int) -> None:
        self._drop()

    def on_gone(self, uid: int) -> None:
        raise AssertionError("no session is ended here")


def with_id(payload: bytes) -> bytes:
    """A message with this body, which is also its id."""
    headers = encode_table({"_AMQ_DUPL_ID": payload.decode()})
    return build("", b"s", b"\x20\x00" + headers, payload)


class StreamWorld:
    """See the module."""

    def __init__(
        self,
        seed: int,
        count: int = 3,
        limits: StreamSettings | None = None,
        by_ids: bool = False,
    ) -> None:
        self.random = random = Random(seed)
        self.now_ms = 1000
        self.limits = limits or StreamSettings(
            bytes_max=random.choice((-1, -1, 3000)),
            segment_bytes=random.choice((200, 1000, 100_000)),
            offloads=random.random() < 0.6,
            local_bytes_max=random.choice((0, 0, 2000)),
            ids_max=IDS_MAX if by_ids else 0,
        )
        self.slice_bytes = random.choice((60, 1000))  # stays when a node restarts, as in a release
        self.objects = SimObjects(Random(random.getrandbits(64)))
        self.objects.fails = random.choice((0.0, 0.1))
        self.objects.tears = random.choice((0.0, 0.2))
        self.settings = Settings(
            election_ticks=10,
            heartbeat_ticks=2,
            suspicion_ticks=2,
            append_bytes_max=random.choice((200, 2000, 1 << 20)),
            window_bytes=random.choice((400, 1 << 20)),
            window_messages=random.choice((1, 4, 64)),
            apply_bytes_max=random.choice((300, 1 << 20)),
            uncommitted_bytes_max=random.choice((4000, 1 << 20)),
            trailing_entries_max=random.choice((0, 4, 1000)),
            tells_commits_at_once=random.random() < 0.5,
        )
        self.disks = {number: SimDisk() for number in range(1, count + SPARE + 1)}
        self.wanted = tuple(range(1, count + 1))  # who is to have a member, by the definitions
        self.has_changed = False  # others than founded the group
        self.nodes: dict[int, StreamNode | None] = dict.fromkeys(self.disks)
        self.wires = Switchboard(self.nodes, self.random)
        self.publishers = [
            Publisher(number, b"app %d" % number, self) for number in (100, 101, 102)
        ]
        self.next_ids = {each.name: 1 for each in self.publishers}
        self.stored: dict[bytes, int] = {}  # known to be applied, by name
        self.offered: dict[bytes, int] = {}  # ever sent
        self.process_count = 102
        self.confirmed: set[bytes] = set()
        self.by_offset: dict[int, bytes] = {}
        self.by_payload: dict[bytes, int] = {}
        self.published = 0
        self.is_calm = False
        self.ticked_ms = self.beaten_ms = self.now_ms
        for number in self.disks:
            self.start(number)

    # Links and leaders

    def alive(self) -> list[StreamNode]:
        return self.wires.alive()

    def find_leader(self) -> StreamNode | None:
        return self.wires.find_leader()

    def leads(self, member: int, leader: int, term: int, is_ready: bool) -> None:
        self.wires.leads(member, leader, term, is_ready)

    def is_open(self, source: int, target: int) -> bool:
        return self.wires.is_open(source, target)

    def send(self, source: int, target: int, lane: int, batch: bytes) -> None:
        self.wires.send(source, target, lane, batch)

    # Nodes

    def members(self) -> list[StreamNode]:
        """Nodes that run and have the member that they are to have."""
        return [node for node in self.alive() if node.is_joined and node.number in self.wanted]

    def start(self, number: int) -> None:
        node = StreamNode(number, self.disks[number], self, Random(self.random.getrandbits(64)))
        self.nodes[number] = node
        for other in self.disks:
            if other != number:
                node.raft.add_peer(other)
        self.wires.plug_in(node)
        self.follow(number)

    def follow(self, number: int) -> None:
        """The node hears what the definitions say."""
        node = self.nodes[number]
        if node is None:
            return
        node.turn.begin()
        if not node.is_begun and number in self.wanted:
            config = Config(()) if self.has_changed else Config(self.wanted)
            node.found_member(config, not self.has_changed and number == self.wanted[0])
        if node.is_begun:
            node.member.follow(self.wanted)

    def change_members(self) -> None:
        """An operator adds or removes a member, when the last change is through."""
        leader = self.find_leader()
        status = None if leader is None else leader.member.status()
        if status is None or status.config != Config(self.wanted):
            return
        others = [number for number in self.nodes if number not in self.wanted]
        wanted = set(self.wanted)
        if len(wanted) > 2 and (not others or self.random.random() < 0.5):
            wanted.remove(self.random.choice(self.wanted))
        elif others:
            wanted.add(self.random.choice(others))
        self.want(wanted)

    def want(self, members: Iterable[int]) -> None:
        """The definitions name these as members from now on."""
        self.has_changed = True
        self.wanted = tuple(sorted(members))
        for number in self.nodes:
            self.follow(number)

    def exit_members(self) -> None:
        """As `GroupExits`: members that missed their removal leave, a leader tries again."""
        leader = self.find_leader()
        status = None if leader is None else leader.member.status()
        for node in self.alive():
            if node.number in self.wanted or not node.is_joined or status is None:
                continue
            if node is leader:
                node.member.follow(self.wanted)
            elif (
                status.config_index <= status.commit_index
                and node.number not in status.config.members()
            ):
                node.leave()

    def crash(self, number: int) -> None:
        """The power is gone, and what was not synced."""
        node = self.nodes[number]
        if node is None:
            return
        self.nodes[number] = None
        self.wires.leaders.pop(number, None)
        self.disks[number] = self.disks[number].crash(self.random)
        self.wires.unplug(number)
        for publisher in self.publishers:
            if publisher.line is not None and publisher.line.node is node:
                publisher.line = None

    # Network

    def pass_time(self) -> None:
        self.now_ms += self.random.choice((1, 3, 10))
        while self.now_ms - self.ticked_ms >= TICK_MS:
            self.ticked_ms += TICK_MS
            for node in self.alive():
                node.raft.tick(self.ticked_ms)
                node.pass_time()
            self.exit_members()
        if self.now_ms - self.beaten_ms >= BEAT_MS:
            self.beaten_ms = self.now_ms
            self.wires.beat()

    # What happens

    def run(self, steps: int) -> None:
        for _ in range(steps):
            self.step()

    def run_until(self, what: str, reached: Callable[[], bool]) -> None:
        for _ in range(SETTLE_STEPS):
            if reached():
                return
            self.step()
        raise AssertionError(f"{what} is not reached")

    def step(self) -> None:
        random = self.random
        lot = random.random()
        alive = self.alive()
        if lot < 0.5 and alive:
            node = random.choice(alive)
            try:
                node.run(random.randint(1, 12))
            except Crashed:
                self.crash(node.number)
        elif lot < 0.75:
            for _ in range(random.randint(1, 4)):
                self.wires.deliver()
        elif lot < 0.85:
            self.pass_time()
            self.check_tracking()
        elif lot < 0.92 and alive:
            self.read_somewhere(random.choice(alive))
        elif lot < 0.997 or self.is_calm:
            self.work()
        else:
            self.fault()

    def read_somewhere(self, node: StreamNode) -> None:
        if len(node.readers) < 3 and node.is_joined and self.random.random() < 0.1:
            start = self.random.choice((Start.FIRST, Start.NEXT, Start.LAST, Start.OFFSET))
            value = self.random.randint(0, max(self.by_offset, default=0))
            if value <= node.member.next_offset or start is not Start.OFFSET:
                node.begin_reading(OffsetSpec(start, value))
        node.read_some()

    def work(self) -> None:
        publisher = self.random.choice(self.publishers)
        publisher.flush()
        if publisher.line is None:
            leader = self.find_leader()
            if leader is not None:
                publisher.line = Line(publisher, leader)
        elif self.random.random() < 0.01:
            publisher.line = None
        elif self.random.random() < 0.02 and not self.is_calm:
            self.abandon(publisher)
        elif len(publisher.kept) < 10 and not self.is_calm:
            payloads = []
            for _ in range(self.random.randint(1, 4)):
                self.published += 1
                payload = b"%d." % self.published + b"x" * self.random.randint(0, 60)
                by_ids = bool(self.limits.ids_max) and not publisher.has_ids
                payloads.append(with_id(payload) if by_ids else payload)
            first_id = self.next_ids[publisher.name]
            self.next_ids[publisher.name] += len(payloads)
            publisher.publish(payloads, list(range(first_id, first_id + len(payloads))))
            if self.random.random() < 0.1:
                publisher.repeat(self.random.randint(1, 4))
            if self.random.random() < 0.2:
                offset = self.offered.get(publisher.name, 0) + 1
                self.offered[publisher.name] = offset
                publisher.store(offset)

    def abandon(self, publisher: Publisher) -> None:
        """Its process is gone, with all that it kept; what it saw confirmed has to be there.

        The successor of one with ids publishes the rest again.
        """
        publisher.line = None
        self.process_count += 1
        new = Publisher(self.process_count, publisher.name, self)
        self.publishers[self.publishers.index(publisher)] = new
        confirmed = publisher.confirmed
        if confirmed < len(publisher.payloads) and (new.has_ids or self.limits.ids_max):
            new.publish(publisher.payloads[confirmed:], publisher.ids[confirmed:])

    def fault(self) -> None:
        random = self.random
        numbers = sorted(self.nodes)
        lot = random.random()
        down = [number for number in numbers if self.nodes[number] is None]
        if lot < 0.3:
            self.wires.cut_some(0.3)
        elif lot < 0.45:
            self.wires.mend()
        elif lot < 0.65:
            node = self.nodes[random.choice(numbers)]
            if node is not None and random.random() < 0.5:
                node.disk.crash_in = random.randint(0, 12)
            elif node is not None:
                self.crash(node.number)
        elif lot < 0.9 and down:
            self.start(random.choice(down))
        elif lot < 0.93:
            for number in numbers:
                self.crash(number)
        elif lot < 0.95:
            leader = self.find_leader()
            if leader is not None:
                leader.turn.begin()
                leader.member.transfer(random.choice(self.wanted))
        elif lot < 0.98:
            self.change_members()
        else:
            self.objects.is_down = not self.objects.is_down

    # What must be so

    def check_tracking(self) -> None:
        """The leader knows every offset that was answered, or a later one."""
        for node in self.alive():
            if node.member.is_leading:
                known = node.member.machine.tracking.offsets
                for name, offset in self.stored.items():
                    found = known.get(name, 0)
                    assert found >= offset, f"the stored offset {offset} went back to {found}"

    def read(self, node: StreamNode, offset: int, payload: bytes) -> None:
        known = self.by_offset.setdefault(offset, payload)
        assert known == payload, f"offset {offset} is {known[:12]!r} and {payload[:12]!r}"
        place = self.by_payload.setdefault(payload, offset)
        assert place == offset, f"{payload[:12]!r} has the offsets {place} and {offset}"

    def end(self) -> None:
        """All is well again: everything that was confirmed is there, on every member."""
        self.is_calm = True
        self.objects.is_down = False
        self.objects.fails = self.objects.tears = 0.0
        self.wires.mend()
        for number, disk in self.disks.items():
            disk.crash_in = -1
            if self.nodes[number] is None:
                self.start(number)
        self.run_until(
            "an answer to all publishes", lambda: not any(p.kept for p in self.publishers)
        )
        self.run_until("the same on all members", self.are_alike)
        self.run_until("what the stream says in the store", self.is_stored)
        for node in self.members():
            node.reads_from_first()
        self.run_until("the end of reading", self.have_read_all)
        first = max(node.member.first_offset for node in self.members())
        lost = [each for each in self.confirmed if each not in self.by_payload]
        if self.limits.bytes_max < 0 and self.limits.age_max_ms < 0:
            assert first == 0, "retention without a limit"
            assert lost == [], f"{len(lost)} confirmed messages are lost"
        states = {str(node.member.machine.state()) for node in self.members()}
        assert len(states) == 1, "members differ at the end"
        self.check_tracking()
        self.run_until("no files without a member", lambda: not self.left_files())

    def left_files(self) -> list[str]:
        """Files of the stream on nodes that have no member of it."""
        others = [node for node in self.alive() if node.number not in self.wanted]
        paths = [path for node in others for path in node.disk.names]
        return [path for path in paths if path.startswith(DIRECTORY)]

    def are_alike(self) -> bool:
        """All that is to be offloaded is, and all who are wanted are members."""
        leader = self.find_leader()
        group = None if leader is None else leader.raft.group(UID)
        if leader is None or group is None or group.raft.config != Config(self.wanted):
            return False
        if any(node.is_begun != (node.number in self.wanted) for node in self.alive()):
            return False
        if self.limits.offloads and leader.member.log.to_offload() is not None:
            return False
        indexes = {node.member.applied_index for node in self.members()}
        is_whole = len(self.members()) == len(self.wanted)
        return is_whole and indexes == {int(group.raft.last_index)}

    def is_stored(self) -> bool:
        """What the store has is what the members say, and nothing else."""
        segments = SegmentObjects(self.objects, CLUSTER, on_no_thread)
        for node in self.members():
            known = {segments.key_of(UID, row) for row in node.member.machine.offloaded}
            if known != set(self.objects.objects):
                return False
        return True

    def have_read_all(self) -> bool:
        return all(
            node.readers and node.readers[0].next_offset >= node.member.next_offset
            for node in self.members()
        )

"""What the disks of a quorum queue's members would be after a crash, compared with each confirm.

At the very moment at which a session hears of a confirm an image is drawn of the disk of every
member: what was synced, with any part of the rest. From each of them a node is recovered that talks
to no other node. An image holds the confirm if its log, or its snapshot, has the entry that brought
it about, and the bodies beside it. Images of a majority of the members have to.
"""

from random import Random

from queues.hosts.host_interfaces import DeadLetterPublisher
from queues.hosts.quorum_entry import decode_member_entry
from queues.machine.commands import SessionId, enqueue_of
from queues.machine.options import Options
from raft.core import Raft
from raft.entries import COMMAND
from raft.recovery import Restored
from tests.sim.queues.group_node import UID, GroupNode
from tests.sim.queues.group_world import GroupWorld


class Quiet:
    """The world of an image: nothing comes in and nothing goes out."""

    def __init__(self, world: GroupWorld) -> None:
        self.now_ms = world.now_ms
        self.options: Options = world.options
        self.snapshots: tuple[int, int] | None = None

    def send(self, source: int, target: int, lane: int, batch: bytes) -> None:
        return

    def is_open(self, source: int, target: int) -> bool:
        return False

    def leads(self, member: int, leader: int, term: int, is_ready: bool) -> None:
        return

    def is_up(self, node: GroupNode) -> bool:
        return True

    def reborn_of(self, number: int) -> tuple[int, int]:
        return (0, 0)

    def dead_letter_publisher(self, node: GroupNode) -> DeadLetterPublisher | None:
        return None


class Image:
    """What a node finds on one of the disks."""

    def __init__(self, world: GroupWorld, number: int, random: Random) -> None:
        disk = world.disks[number].crash(random)
        self.node = GroupNode(number, disk, Quiet(world), random, world.settings)
        found = self.node.found.groups.get(UID)
        self.restored: Restored | None = None if found is None else found.restored()

    def holds(self, index: int, term: int) -> bool:
        """Whether the log has that entry, or had it before its snapshot was taken."""
        restored = self.restored
        if restored is None:
            return False
        if index <= restored.snapshot.index:
            return True
        if index > restored.last_index:
            return False
        at = [run_term for first, run_term, _ in restored.runs if first <= index]
        return bool(at) and at[-1] == term

    def has_body(self, seq: int) -> bool:
        return bool(self.node.hosts[UID].store.spans_within(seq, 1))


class ImageWatch:
    """Looks at some of the confirms of a world; `count` is how many."""

    def __init__(self, world: GroupWorld, chance: float) -> None:
        self._world = world
        self._chance = chance
        self._random = Random(world.random.getrandbits(32))
        self.count = 0
        world.books.on_confirms = self._confirmed

    def _confirmed(self, node: GroupNode, session: SessionId, numbers: range) -> None:
        if self._random.random() >= self._chance:
            return
        self.count += 1
        group = node.raft.group(UID)
        assert group is not None
        assert node.member is not None
        index = int(node.member.applied_index)
        assert isinstance(group.raft, Raft)
        term = int(group.raft.log.term(index))
        voters = group.raft.config.voters
        images = [Image(self._world, number, self._random) for number in voters]
        holders = [image for image in images if image.holds(index, term)]
        text = f"a confirm of entry {index} of term {term}"
        assert 2 * len(holders) > len(voters), f"{text} is held by {len(holders)} images"
        for seq in self._alive(node, session, numbers, index):
            having = [image for image in holders if image.has_body(seq)]
            assert 2 * len(having) > len(voters), f"{text}: {seq} is held by {len(having)} images"

    def _alive(self, node: GroupNode, session: SessionId, numbers: range, index: int) -> list[int]:
        """Messages that the session published by these numbers, and the entry brought in."""
        content = self._content(node, index)
        if content is None or node.member is None:
            return []
        entry = decode_member_entry(content)
        found: list[int] = []
        seq = int(entry.message_first)
        for command in entry.commands:
            enqueue = enqueue_of(command)
            if enqueue is None:
                continue
            if enqueue.session == session:
                for at in range(enqueue.count):
                    if enqueue.first_seq + at in numbers:
                        found.append(seq + at)
            seq += int(enqueue.count)
        machine = node.member.core.machine
        return [each for each in found if machine.alive_within(each, 1)]

    def _content(self, node: GroupNode, index: int) -> bytes | None:
        """Of an entry in the newest part of the log, if it is one of commands."""
        group = node.raft.group(UID)
        assert group is not None and isinstance(group.raft, Raft)
        entries = group.raft.log.slice(index, index)
        if not entries or entries[0].kind != COMMAND:
            return None
        return b"".join(entries[0].parts)

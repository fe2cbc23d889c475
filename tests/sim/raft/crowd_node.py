"""A node with members of many groups: one real host, one real log on a simulated disk, one link to
each other node.

What a turn does is looked at: the log is flushed once, each peer gets one batch a lane, and no node
speaks for a group that is not here. All groups share the batches of the log: each of them learns
of a sync what it had in it, and nothing else.

A disk that is full refuses what is new. The log's reserve and its upkeep wait then; a write that
finds no room ends the process, and it starts when there is some again.
"""

from collections import deque
from collections.abc import Callable, Sequence
from random import Random
from typing import Protocol

from raft.codec import decode
from raft.entries import HardState
from raft.host import RaftHost
from raft.links import open_batch
from raft.log_group import Found
from raft.settings import Settings
from tests.sim.raft.crowd_member import CrowdMember
from tests.sim.raft.log_drive import LogDrive
from tests.sim.raft.surroundings import later_in_life
from tests.sim.storage.queues_model import Queues
from tests.sim.storage.sim_disk import is_out_of_space
from warren.storage.record import DELETED

START_AGAIN = 40  # until the next attempt to start on a full disk
RETRY_AFTER = 100  # until what has failed for want of room is tried again


class Region(Protocol):
    """What a node needs of its world."""

    @property
    def random(self) -> Random: ...

    @property
    def settings(self) -> Settings: ...

    @property
    def held(self) -> set[int]: ...

    def later(self, delay: int, action: Callable[[], None]) -> None: ...

    def paused_for(self, number: int) -> int: ...

    def sync_delay(self, member: int) -> int: ...

    def on_sync_wanted(self, member: int, hard_state: HardState | None) -> None: ...

    def crash(self, number: int, down_for: int = 0) -> None: ...

    def started(self, number: int) -> None: ...

    def is_deleted(self, uid: int) -> bool:
        """For good: its number is not used again."""

    def carry(self, source: int, target: int, uids: set[int], content: bytes) -> None:
        """A batch, and whose messages are in it."""

    def tells(self, text: str) -> None: ...


class CrowdNode:
    """Keeps `GroupLog`, `Links`, `LogUser` and `Home`. `members`: of the groups that the node knows
    of, by uid; they outlive the process. `host` is None while the node is down."""

    def __init__(self, number: int, world: Region) -> None:
        self.number = number
        self.world = world
        self.drive = LogDrive(world.random, self)
        self.host: RaftHost | None = None
        self.members: dict[int, CrowdMember] = {}
        self.full: set[int] = set()  # peers whose bulk lane takes nothing
        self.epoch = 0
        self.stop_count = 0  # because its disk was full
        # What each has written, up to where in the log.
        self._batches: deque[tuple[int, CrowdMember]] = deque()
        self._turn_due = False
        self._start_due = False
        self._sent: set[tuple[int, int]] = set()  # (peer, lane) in this turn
        self._flush_count = 0  # in this turn

    # Life

    def start(self) -> None:
        """The process starts on what the disk has, if it can."""
        self._start_due = False
        if self.host is not None:
            return
        try:
            queues = self.drive.open()
        except OSError as error:
            assert is_out_of_space(error), f"the log cannot be opened: {error}"
            self.drive.stop()
            self._start_later()
            return
        world = self.world
        lots = Random(world.random.getrandbits(64))
        host = RaftHost(self.number, self, self, world.settings, lots, self._begin_turn)
        for uid, found in queues.found_entries.items():
            if uid not in self.members:  # Its member left, and the log did not hear of it.
                self.drive.wal.release_log(uid, max(item[0] for _, item in found))
        self.host = host
        self.drive.wal.on_alarm = self._alarmed
        for member in self.members.values():
            member.join(host, member.found_in(queues))
        world.tells(f"{self.number} starts with groups {list(self.members)}")
        world.started(self.number)

    def _start_later(self) -> None:
        if not self._start_due:
            self._start_due = True
            self.world.later(START_AGAIN, self.start)

    def crash(self) -> None:
        """The machine loses power."""
        self._end()
        self.drive.crash()

    def stop(self) -> None:
        """The process ends: it could not write."""
        self.world.tells(f"{self.number} stops: its disk is full")
        self.stop_count += 1
        self._end()
        self.drive.stop()
        self._start_later()

    def _end(self) -> None:
        self.host = None
        self.epoch += 1
        self._turn_due = False
        self._batches.clear()
        self.full.clear()
        for member in self.members.values():
            member.crash(0)
            member.appended_lsn = 0  # The next process counts from zero.

    def _later(self, delay: int, action: Callable[[], None]) -> None:
        later_in_life(self.world, self, delay, action)

    # Groups

    def take_in(self, member: CrowdMember) -> None:
        """Its group has a member here from now on."""
        assert member.uid not in self.members, "two members of one number"
        self.members[member.uid] = member
        if self.host is not None:
            member.join(self.host, member.found_in(Queues(set())))

    def leave(self, member: CrowdMember) -> None:
        """Its group has none here any more. The node is up."""
        assert self.host is not None
        self.host.remove(member.uid)
        if self.world.is_deleted(member.uid):
            self.drive.wal.append(DELETED, member.uid, 0, ())
            self._begin_turn()
        del self.members[member.uid]
        member.go()

    # Turns

    def _begin_turn(self) -> None:
        if not self._turn_due:
            self._turn_due = True
            self._later(self.world.random.choice((0, 0, 1, 3)), self._turn)

    def _turn(self) -> None:
        self._turn_due = False
        assert self.host is not None
        self._sent.clear()
        self._flush_count = 0
        self.host.end_turn()
        assert self._flush_count == 1, "a turn is one write"
        for member in list(self.members.values()):
            assert member.core is not None
            member.check(member.core)

    def receive(self, source: int, content: bytes) -> None:
        assert self.host is not None
        self.host.receive(source, memoryview(content))

    def _alarmed(self, place: str, error: Exception) -> None:
        """As a node does: what has failed is tried again after a while."""
        assert is_out_of_space(error), f"{place}: {error}"
        self._later(RETRY_AFTER, self._retry)

    def _retry(self) -> None:
        self.drive.wal.retry()
        self.drive.work_later()

    # Links

    def send(self, member: int, lane: int, parts: list[bytes]) -> None:
        assert (member, lane) not in self._sent, "two batches for a peer in one turn"
        self._sent.add((member, lane))
        content = b"".join(parts)
        uids: set[int] = set()
        for envelope in open_batch(memoryview(content)):
            speaker = self.members.get(envelope.uid)
            assert speaker is not None, f"speaks for group {envelope.uid}, which is not here"
            assert speaker.incarnation == envelope.incarnation, "speaks for an earlier group"
            speaker.look_at(member, decode(envelope.message))
            uids.add(envelope.uid)
        self.world.carry(self.number, member, uids, content)

    def is_full(self, member: int) -> bool:
        return member in self.full

    # The log

    @property
    def appended_lsn(self) -> int:
        return self.drive.wal.appended_lsn

    def append_raft_entries(
        self,
        owner: int,
        incarnation: int,
        first: int,
        term: int,
        appended_term: int,
        kind: int,
        contents: Sequence[Sequence[bytes]],
    ) -> None:
        self.members[owner].append_raft_entries(
            owner, incarnation, first, term, appended_term, kind, contents
        )

    def append_hard_state(self, owner: int, incarnation: int, term: int, vote: int) -> object:
        return self.members[owner].append_hard_state(owner, incarnation, term, vote)

    def truncate_log(self, owner: int, index: int) -> None:
        self.members[owner].truncate_log(owner, index)

    def release_log(self, owner: int, index: int) -> None:
        self.members[owner].release_log(owner, index)

    def read_entries(
        self,
        owner: int,
        first: int,
        last: int,
        bytes_max: int,
        done: Callable[[Found | Exception], None],
    ) -> None:
        self.members[owner].read_entries(owner, first, last, bytes_max, done)

    def flush(self) -> None:
        """One hand-over for all of them."""
        self._flush_count += 1
        written = [member for member in self.members.values() if member.disk.flush()]
        written.sort(key=lambda member: member.appended_lsn)
        if written:
            self._batches.extend([(member.appended_lsn, member) for member in written])
            self.world.on_sync_wanted(self.number, None)
        self.drive.flush()

    # The user of the log

    def log_later(self, action: Callable[[], None]) -> None:
        self._later(self.world.sync_delay(self.number), action)

    def is_log_held(self) -> bool:
        return self.number in self.world.held

    def log_durable(self, lsn: int) -> None:
        assert self.host is not None
        while self._batches and self._batches[0][0] <= lsn:
            self._batches.popleft()[1].disk.sync()
        self.host.on_durable(lsn)

    def log_failed(self, error: BaseException) -> None:
        assert is_out_of_space(error), f"the log fails: {error}"
        self._later(0, self.stop)

    def lose_power(self) -> None:
        self.world.later(0, lambda: self.world.crash(self.number, 50))

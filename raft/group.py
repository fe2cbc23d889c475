"""One log group on this node: what its owner, a machine of queue or metadata, sees of it.

    place = group.propose(parts, attached)   # (index, term), or None: ask the leader
    owner.outcome(first, last, term, COMMITTED)   # later, each place once, in order

Takes proposals, read barriers and wishes; gives the owner what is committed, and what became of the
proposals, whichever member leads meanwhile. Owns what is open: proposals whose place is undecided,
barriers. All that reaches the core comes through here or through the host (`raft.host`), which has
the group looked at (`Marks`) whenever something was asked of it. Compiled.

When something fails: an assertion goes through, and the node stops; a proposal whose leader is gone
stays open until its place is decided by another, which may take as long as there is no majority.
"""

from collections import deque
from collections.abc import Callable, Sequence
from typing import final

from mypy_extensions import i64

from raft.core import Raft
from raft.entries import Config, Entry, SnapshotPoint
from raft.log_group import COMMITTED, LOST, UNKNOWN, GroupLog, GroupOwner, MirrorOwner
from raft.membership import Change, Refused, next_change
from raft.messages import AppendResponse
from raft.proposals import Proposals
from raft.ready import Read
from raft.ring import Ring
from raft.ring_view import RingView
from raft.status import LEADER, Status


@final
class NotLeader:
    """Ask `leader` (0: unknown)."""

    __slots__ = ("leader", "term")

    def __init__(self, leader: i64, term: i64) -> None:
        self.leader: i64 = leader
        self.term: i64 = term


@final
class GroupStatus:
    """How a group stands, for the API."""

    __slots__ = ("incarnation", "is_hibernating", "open_proposals", "raft", "uid")

    def __init__(
        self, uid: i64, incarnation: i64, is_hibernating: bool, open_proposals: i64, raft: Status
    ) -> None:
        self.uid: i64 = uid
        self.incarnation: i64 = incarnation
        self.is_hibernating = is_hibernating
        self.open_proposals: i64 = open_proposals
        self.raft = raft


@final
class Counters:
    """What the groups of a node have done since the start."""

    def __init__(self) -> None:
        self.proposals: i64 = 0
        self.commits: i64 = 0  # entries handed over
        self.elections: i64 = 0  # that members here have stood for
        self.leader_changes: i64 = 0
        self.appended_bytes: i64 = 0
        self.snapshots_sent: i64 = 0
        self.snapshots_received: i64 = 0
        self.suspicions: i64 = 0
        self.strays: i64 = 0  # messages for groups that are not here, or for another incarnation
        self.held_back: i64 = 0  # messages for peers whose link was full
        self.read_failures: i64 = 0
        self.turns: i64 = 0


@final
class Marks:
    """Groups that the turn has to look at, and those that get ticks.

    A group is in `dirty` while its `is_dirty` is set, in `awake` while its `is_awake` is.
    """

    def __init__(self, begin_turn: Callable[[], None]) -> None:
        self._begin_turn = begin_turn
        self._asked = False
        self.on_awake: Callable[[], None] | None = None  # the first one is awake
        self.dirty: list[Group] = []
        self.awake: dict[int, Group] = {}

    def mark(self, group: "Group") -> None:
        """Look at it in this turn, and keep it awake until it has come to rest."""
        if not group.is_dirty:
            group.is_dirty = True
            self.dirty.append(group)
        if not group.is_awake:
            group.is_awake = True
            self.awake[group.uid] = group
            if len(self.awake) == 1 and self.on_awake is not None:
                self.on_awake()
        self.ask()

    def ask(self) -> None:
        """There is something for a turn."""
        if not self._asked:
            self._asked = True
            self._begin_turn()

    def take(self, count_max: int) -> "list[Group]":
        """The turn looks at these now; more than that are left for the next one."""
        groups = self.dirty[:count_max]
        self.dirty = self.dirty[count_max:]
        for group in groups:
            group.is_dirty = False
        return groups

    def put_back(self, groups: "list[Group]") -> None:
        """The turn has not come to these: the next one begins with them."""
        for group in groups:
            assert not group.is_dirty
            group.is_dirty = True
        self.dirty = groups + self.dirty

    def hush(self) -> None:
        """A turn has begun: it needs no other one for what comes up in it, until `speak`."""
        self._asked = True

    def speak(self) -> None:
        self._asked = False

    def sleep(self, group: "Group") -> None:
        """No ticks for it any more."""
        if group.is_awake:
            group.is_awake = False
            del self.awake[group.uid]


@final
class Group:
    """See the module."""

    def __init__(
        self,
        uid: i64,
        incarnation: i64,
        raft: Raft | Ring,
        owner: GroupOwner,
        log: GroupLog,
        marks: Marks,
        counters: Counters,
    ) -> None:
        self.uid: i64 = uid
        self.incarnation: i64 = incarnation
        # In records of the log: of a mirror the epoch in which it joined, which tells its records
        # from those of an earlier membership on this node.
        self.record_incarnation: i64 = incarnation
        self.raft: Raft | Ring = raft
        self.owner = owner
        self.mirror_owner: MirrorOwner | None = None  # the owner, where the core is a ring
        self._log = log
        self._marks = marks
        self._counters = counters
        self._proposed = Proposals()
        self._barriers: dict[int, Callable[[bool], None]] = {}
        self._reads: deque[Read] = deque()  # sure of, and not all before them is applied
        self._last_context: i64 = 0
        self.is_closed = False
        # Of the host
        self.config = Config(())
        self.is_dirty = False
        self.is_awake = False
        self.waits_tick: i64 = 0  # when its writes, not durable, were heard of last
        self.own_term: i64 = 0  # the last one in which it was led, and proposed to, from here
        self.leader: i64 = 0  # as last reported to its owner
        self.forget_index: i64 = 0  # what was applied a while ago

    # What the owner asks

    def propose(
        self, parts: Sequence[bytes], attached: Sequence[bytes] = ()
    ) -> tuple[int, int] | None:
        """Append an entry; its place. None: this member does not lead, or takes nothing now."""
        if self.is_closed:
            return None
        place = self.raft.propose(parts, attached)
        if place is not None:
            self.opened(place)
        return place

    def change(self, change: Change) -> tuple[int, int] | Refused:
        """Change the members, one at a time; the outcome is reported as that of a proposal."""
        assert not self.is_closed
        answer = self.raft.propose_change(change)
        if not isinstance(answer, Refused):
            self.opened(answer)
        return answer

    def opened(self, place: tuple[int, int]) -> None:
        self.own_term = place[1]
        self._proposed.open(place[0], place[1])
        self._counters.proposals += 1
        self._marks.mark(self)

    def barrier(self, done: Callable[[bool], None]) -> NotLeader | None:
        """`done(True)` when all that is committed now has been handed over here, wherever it was
        proposed; `done(False)`: the leadership was lost meanwhile. NotLeader: it is not called."""
        raft = self.raft
        if self.is_closed or raft.role != LEADER:
            return NotLeader(raft.leader, raft.term)
        self._last_context += 1
        context = self._last_context
        if not raft.read(context):
            return NotLeader(0, raft.term)
        self._barriers[context] = done
        self._marks.mark(self)
        return None

    def transfer(self, member: int) -> bool:
        """Have that member lead; False: it cannot be tried."""
        begun = not self.is_closed and self.raft.transfer(member)
        if begun:
            self._marks.mark(self)
        return begun

    def campaign(self) -> None:
        """Try to lead if there is no leader."""
        if not self.is_closed:
            self.raft.campaign()
            self._marks.mark(self)

    def change_view(self, view: RingView) -> None:
        """The definitions decided a view of this mirror ring."""
        raft = self.raft
        assert isinstance(raft, Ring)
        if not self.is_closed:
            raft.change_view(view)
            self._marks.mark(self)

    def synchronise(self, is_wanted: bool) -> None:
        """Have this member of a mirror ring bring its right neighbour what it lacks, or not."""
        raft = self.raft
        assert isinstance(raft, Ring)
        if not self.is_closed and raft.copies != is_wanted:
            raft.synchronise(is_wanted)
            self._marks.mark(self)

    def block(self, is_wanted: bool) -> None:
        """Have this leader of a mirror ring take no proposals until all mirrors are synchronised,
        or not."""
        raft = self.raft
        assert isinstance(raft, Ring)
        raft.blocks = is_wanted

    def is_late(self, answer: AppendResponse) -> bool:
        """Whether the answer of a follower may wait for the next turn, a tick at the latest."""
        raft = self.raft
        return self.is_awake and isinstance(raft, Raft) and raft.is_late(answer)

    def is_ahead(self, index: int) -> bool:
        """Whether it leads, and entries up to `index`, being durable here, are not committed by
        that: followers have yet to answer, and ticks go on until then."""
        raft = self.raft
        return self.is_awake and isinstance(raft, Raft) and raft.is_ahead(index)

    def snapshot_point(self, index: int) -> SnapshotPoint:
        """What to write with a snapshot of the machine behind `index`, which was applied and is
        durable in the log (`Raft.snapshot_limit`)."""
        return self.raft.snapshot_point(index)

    def snapshot_taken(self, point: SnapshotPoint) -> None:
        """The machine at that point is durable: the log up to there may go."""
        if not self.is_closed:
            self.raft.snapshot_taken(point)
            self._log.release_log(self.uid, self.raft.first_index - 1)
            self._marks.mark(self)

    @property
    def is_leader(self) -> bool:
        return self.raft.role == LEADER

    def status(self) -> GroupStatus:
        return GroupStatus(
            self.uid,
            self.incarnation,
            not self.is_awake,
            self._proposed.count(),
            self.raft.status(),
        )

    # What the host hands up

    def hand_over(self, entries: Sequence[Entry]) -> None:
        """These are committed."""
        self._counters.commits += len(entries)
        last = entries[len(entries) - 1]
        if self._proposed.are_all_of(last.term):
            # One leader made them all, so that what it proposed is at its place.
            self.owner.apply(entries)
            self._tell_committed(last)
            return
        for entry in entries:
            if self.is_closed:
                return
            self._tell_lost(entry)
            self.owner.apply([entry])
            self._tell_committed(entry)

    def _tell_committed(self, last: Entry) -> None:
        """All up to the entry is applied; what was proposed for there is what is there."""
        head = self._proposed.head()
        while head is not None and head.first <= last.index:
            assert head.term == last.term
            self._tell(last.index, COMMITTED)
            head = self._proposed.head()

    def _tell_lost(self, entry: Entry) -> None:
        """The entry is next: it has the place of these proposals."""
        head = self._proposed.head()
        while head is not None:
            if head.term < entry.term:
                self._tell(head.last, LOST)
            elif head.term > entry.term and head.first == entry.index:
                self._tell(entry.index, LOST)
            else:
                return
            head = self._proposed.head()

    def passed_over(self, last_index: i64, last_term: i64) -> None:
        """The machine has become what it is behind that entry, by a snapshot."""
        head = self._proposed.head()
        while head is not None:
            if head.first > last_index and head.term >= last_term:
                return
            if head.first > last_index:
                self._tell(head.last, LOST)
            elif head.term > last_term:
                self._tell(last_index, LOST)
            else:
                self._tell(last_index, COMMITTED if head.term == last_term else UNKNOWN)
            head = self._proposed.head()

    def _tell(self, index: i64, outcome: int) -> None:
        """Tell the owner of those of the first run up to `index`."""
        told = self._proposed.take(index)
        self.owner.outcome(told.first, told.last, told.term, outcome)

    def answer_reads(self, reads: Sequence[Read]) -> None:
        """These are sure of; they are answered when all that is committed for them is applied."""
        waiting = self._reads
        for read in reads:
            if read.index < 0:
                self._answer_read(read.context, False)
            else:
                waiting.append(read)
        while len(waiting) > 0 and waiting[0].index <= self.raft.applied_index:
            self._answer_read(waiting.popleft().context, True)

    def _answer_read(self, context: int, is_sure: bool) -> None:
        done = self._barriers.pop(context, None)
        if done is not None:
            done(is_sure)

    @property
    def has_reads(self) -> bool:
        """Some wait until more is applied."""
        return len(self._reads) > 0

    def close(self) -> None:
        """The group is gone from this node; the outcome of open proposals is not reported."""
        self.is_closed = True
        self._proposed.clear()
        self._marks.sleep(self)
        barriers = self._barriers
        self._barriers = {}
        for done in barriers.values():
            done(False)


@final
class WantedMembers:
    """The members that a group is to have, for the owner of one of them: who leads changes those
    that there are one by one (`next_change`).
    """

    def __init__(self, node: i64) -> None:
        self._node: i64 = node
        self.members: tuple[int, ...] = ()  # none: it is not known yet
        self.is_refused = False  # the last step: to be taken again later

    def has(self, node: i64) -> bool:
        """Whether the node is to be a member, as far as is known."""
        return len(self.members) == 0 or node in self.members

    def next(self, group: Group) -> Change | None:
        """What is to be changed next."""
        if len(self.members) == 0:
            return None
        return next_change(group.raft.config, self.members, int(self._node))

    def approach(self, group: Group) -> None:
        """Take one step, on the node that leads. It is refused while another change or a transfer
        is under way, and a transfer may end without another leader."""
        change = self.next(group)
        self.is_refused = change is not None and isinstance(group.change(change), Refused)
        if change is None and not self.has(self._node):
            for member in self.members:
                if member in group.raft.config.voters and group.transfer(member):
                    return

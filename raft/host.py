"""The groups of a node, thousands of them, on one log and one link to each peer. No I/O, no clock.

    host = RaftHost(member, log, links, settings, lots, begin_turn)
    group = host.add(uid, incarnation, restored, owner)
    host.receive(peer, batch)   host.on_durable(lsn)   host.tick(now_ms)   # ask for a turn
    host.end_turn()             # does all that they and the owners have brought about

One turn: step what has arrived, take each marked group's `Ready` once, send one batch per peer and
lane, hand everything to the log and flush it once, and give the owners what is committed. What
promises something about the log (`messages_after_sync`) is sent by the turn that follows the sync,
in the order of the log. Every call of a core is made in a turn or by the owner, so that the code
that runs the turn stops the node when a group asserts; nothing here catches that.

Groups at rest get no ticks (`Raft.is_idle`). They are woken by messages and proposals, and by the
failure detector: those led from a suspected node elect, those that lead without enough trusted
voters find out whether they still do. What the detector says reaches NEWS_MAX groups a turn, and no
turn takes more than TURN_GROUPS_MAX, nor goes on with messages or groups behind TURN_ENTRIES_MAX
entries: others wait for the next one, however many are awake, however much has arrived.

A link that is full gets no more entries: groups that have some for the peer hold them back until
there is room, and then ask how far it is. A read of the log that fails is tried again, every
RETRY_TICKS. Copies for mirrors, and answers to those that bring copies here, wait for `pace`.
Compiled.
"""

from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final, final

from mypy_extensions import i64

from raft.codec import decode, encode
from raft.copy_pace import CopyPace
from raft.core import Raft
from raft.detector import Detector
from raft.entries import Config, Entry, SnapshotPoint
from raft.group import Counters, Group, GroupStatus, Marks
from raft.links import BULK, CONTROL, Links, Outbox, open_batch, put
from raft.log_group import Found, GroupLog, GroupOwner, MirrorOwner
from raft.messages import AppendRequest, AppendResponse, Message, SnapshotSlice
from raft.ready import Lead, Load, LoadSlice, Ready
from raft.recovery import Restored
from raft.ring import Ring
from raft.settings import Lots, Settings

TICK_MS: Final = 20  # between two calls of `tick`; `Settings` counts in them
NEWS_MAX: Final = 512  # groups that are informed about a peer in one turn
TURN_GROUPS_MAX: Final = 1024  # of which a Ready is taken in one turn
TURN_ENTRIES_MAX: Final = 2048  # that are taken in, or handed to log and owners, in one turn
RETRY_TICKS: Final = 50
HELD_TICKS_MAX: Final = 10  # of an answer to a slice: its sender repeats it after five times that
LOOKED_MAX: Final = 64  # groups whose entries have become durable, before a turn is asked for
SLOW_TICKS: Final = 5  # of a sync: then leaders hear that this member is there all the same
FORGET_TICKS: Final = 5  # contents of applied entries stay in memory for one to two times as long
BATCH_BYTES_MAX: Final = 1 << 20  # for one peer and lane; more goes out before the turn's end


def host_settings() -> Settings:
    """What the core counts in ticks, for TICK_MS: a leader that is silent for a second is given up,
    and followers of a lost node wait up to 60 ms before one of them stands."""
    return Settings(election_ticks=50, heartbeat_ticks=5, suspicion_ticks=3)


@final
class Pending:
    """What a group has handed to the log, and what is to be said when that is durable."""

    __slots__ = ("group", "index", "lsn", "messages", "term")

    def __init__(self, lsn: i64, group: Group) -> None:
        self.lsn: i64 = lsn
        self.group = group
        self.index: i64 = 0  # of the last entry; 0: a hard state alone
        self.term: i64 = 0
        self.messages: list[tuple[int, Message]] = []

    def may_wait(self) -> bool:
        """Whether it is all the same if the core hears with the next turn that this is durable."""
        if self.index == 0 or len(self.messages) > 0:
            return False
        return self.group.is_ahead(self.index)


@final
class RaftHost:
    """See the module.

    Invariants: `_waiting` ascends by lsn; `_pending[uid]` is the last of the group in it;
    `_members[member]` holds the groups that have the member in their configuration.
    """

    def __init__(
        self,
        member: int,
        log: GroupLog,
        links: Links,
        settings: Settings,
        lots: Lots,
        begin_turn: Callable[[], None],
    ) -> None:
        self.member = member
        self.detector = Detector()
        self.counters = Counters()
        self.pace = CopyPace()
        self._log = log
        self._links = links
        self._settings = settings
        self._lots = lots
        self._marks = Marks(begin_turn)
        self._on_trusted: Callable[[], None] | None = None
        self._groups: dict[int, Group] = {}
        self._members: dict[int, dict[int, Group]] = {}
        self._arrived: list[tuple[Group, int, Message]] = []
        self._answers: list[Callable[[], None]] = []
        self._waiting: deque[Pending] = deque()
        self._pending: dict[int, Pending] = {}
        self._durable_lsn: i64 = 0
        self._news: deque[tuple[Group, int, bool]] = deque()  # that member; whether it was lost
        self._held: dict[int, dict[int, Group]] = {}  # by peer: groups that its full link holds up
        self._retries: deque[tuple[int, Callable[[], None]]] = deque()  # due in that tick
        self._stored_later: deque[tuple[int, Group, SnapshotSlice]] = deque()  # in that tick
        self._outboxes: dict[int, Outbox] = {}
        self._encoded: Message | None = None  # the last one, for others who get the same
        self._encoded_parts: list[bytes] = []
        self._ticks: i64 = 0
        self._ticks_due: i64 = 0

    # Groups

    def add(
        self,
        uid: int,
        incarnation: int,
        restored: Restored,
        owner: GroupOwner,
        settings: Settings | None = None,
    ) -> Group:
        """Begin with a group; what was found of it on disk, and is of use, is in `restored`.
        `settings`: other ones than those of the host."""
        assert uid not in self._groups
        self._log.release_log(uid, restored.snapshot.index)
        self._log.truncate_log(uid, restored.last_index + 1)
        raft = Raft(self.member, restored, settings or self._settings, self._lots)
        group = self._begin(uid, incarnation, raft, owner)
        if raft.config.voters == (self.member,):
            raft.campaign()  # No other vote is needed: do not wait for an election timeout.
        return group

    def add_mirror(
        self,
        uid: int,
        incarnation: int,
        joined: int,
        restored: Restored,
        owner: MirrorOwner,
        is_whole: bool = False,
    ) -> Group:
        """Begin with a member of a mirror ring, which joined in that epoch. It acts once it has a
        view (`Group.change_view`). `is_whole`: see `Ring.restore_whole`."""
        assert uid not in self._groups
        self._log.release_log(uid, restored.snapshot.index)
        self._log.truncate_log(uid, restored.last_index + 1)
        ring = Ring(self.member, joined, restored, self._settings)
        if is_whole:
            ring.restore_whole()
        ring.copy_limit.pace = self.pace
        group = self._begin(uid, incarnation, ring, owner)
        group.mirror_owner = owner
        group.record_incarnation = joined
        return group

    def _begin(self, uid: int, incarnation: int, core: Raft | Ring, owner: GroupOwner) -> Group:
        group = Group(uid, incarnation, core, owner, self._log, self._marks, self.counters)
        self._groups[uid] = group
        self._configure(group, core.config)
        self._marks.mark(group)
        return group

    def remove(self, uid: int) -> None:
        """The group is gone from this node. Answers for it that are under way come to nothing."""
        group = self._groups.pop(uid)
        self._configure(group, Config(()))
        for held in self._held.values():
            held.pop(uid, None)
        self._pending.pop(uid, None)
        group.close()
        self._log.release_log(uid, group.raft.last_index)

    def renew(self, uid: int, incarnation: int, term: int) -> bool:
        """The others of the group are lost for ever: it goes on with this member alone, from that
        term on, as another incarnation, so that it and the others no longer accept each other's
        messages; or as the same one, if the caller makes sure of that. False: not now, a snapshot
        is being installed (`Raft.stand_alone`)."""
        group = self._groups[uid]
        assert incarnation >= group.incarnation
        if not group.raft.stand_alone(term):
            return False
        group.incarnation = incarnation
        group.record_incarnation = incarnation
        self._arrived = [each for each in self._arrived if each[0] is not group]
        for pending in self._waiting:
            if pending.group is group:
                pending.messages = []
        self._marks.mark(group)
        return True

    def group(self, uid: int) -> Group | None:
        return self._groups.get(uid)

    def status(self) -> list[GroupStatus]:
        """How all groups stand."""
        return [group.status() for group in self._groups.values()]

    @property
    def group_count(self) -> int:
        return len(self._groups)

    @property
    def hibernating_count(self) -> int:
        """Groups that get no ticks."""
        return len(self._groups) - len(self._marks.awake)

    @property
    def needs_ticks(self) -> bool:
        """Whether time means something to a group; else ticks may come seldom."""
        return len(self._marks.awake) > 0 or len(self._retries) > 0

    def when_awake(self, call: Callable[[], None]) -> None:
        """Call whenever a group needs ticks and none did before."""
        self._marks.on_awake = call

    def when_trusted(self, call: Callable[[], None]) -> None:
        """Call whenever a peer is trusted that was not, before what it sends next is received."""
        self._on_trusted = call

    def held_counts(self) -> dict[int, int]:
        """By peer whose link is full: groups that have something for it, and wait."""
        return {member: len(groups) for member, groups in self._held.items()}

    def hand_over(self) -> int:
        """This node is to stop: have others lead what is led here; how many groups that concerns.

        Called again until there are none: a transfer may fail."""
        count = 0
        for group in self._groups.values():
            if not group.is_leader or group.mirror_owner is not None:
                continue  # The leader of a mirror ring changes by a view.
            others: list[int] = []
            for voter in group.config.voters:
                if voter != self.member and self.detector.is_trusted(voter):
                    others.append(voter)
            if len(others) > 0:
                count += 1
                group.transfer(others[group.uid % len(others)])
        return count

    def _configure(self, group: Group, config: Config) -> None:
        """Keep `_members`, and tell the group how those stand that are new to it."""
        old = group.config
        group.config = config
        members = config.members()
        for member in old.members():
            if member != self.member and member not in members:
                del self._members[member][group.uid]
        for member in members:
            if member == self.member:
                continue
            groups = self._members.setdefault(member, {})
            if group.uid not in groups:
                groups[group.uid] = group
                group.raft.reachable(member, self.detector.is_trusted(member))

    # What comes from outside: kept for the turn

    def receive(self, peer: int, batch: memoryview) -> None:
        """Messages from a peer. BadEnvelope, BadMessage: the peer is wrong; end its connection.

        The answer of a member that is later than the majority costs no turn of its own: it is
        stepped in the next one, at a tick at the latest, for its group is not at rest before."""
        for envelope in open_batch(batch):
            group = self._groups.get(envelope.uid)
            if (
                group is None
                or group.incarnation != envelope.incarnation
                or envelope.sender != peer
            ):
                self.counters.strays += 1
                continue
            message = decode(envelope.message)
            self._arrived.append((group, peer, message))
            if not (isinstance(message, AppendResponse) and group.is_late(message)):
                self._marks.ask()

    def on_durable(self, lsn: int) -> None:
        """The log up to there is durable. Where that alone changes nothing, as for a leader whose
        followers have not answered yet, it costs no turn: the next one takes it in, at a tick at
        the latest, for the group is not at rest before."""
        self._durable_lsn = lsn
        for place, pending in enumerate(self._waiting):
            if pending.lsn > lsn:
                return
            if place >= LOOKED_MAX or not pending.may_wait():
                self._marks.ask()
                return

    def tick(self, now_ms: int) -> None:
        """TICK_MS have passed, more or less; `now_ms` is monotonic time."""
        for member in self.detector.tick(now_ms):
            self._trust_changed(member, True)
        if self.needs_ticks:
            self._ticks_due += 1
            self._marks.ask()

    def add_peer(self, member: int) -> None:
        """There is such a node."""
        self.detector.add(member)

    def remove_peer(self, member: int) -> None:
        """There is no such node any more."""
        if self.detector.remove(member):
            self._trust_changed(member, True)

    def connected(self, member: int) -> None:
        """The links to a peer stand."""
        if self.detector.connected(member):
            self._trust_changed(member, False)
        self.drained(member)

    def heard(self, member: int) -> None:
        """A peer has answered a beat."""
        if self.detector.heard(member):
            self._trust_changed(member, False)

    def lost(self, member: int) -> None:
        """The links to a peer are gone, and what was in them."""
        if self.detector.lost(member):
            self._trust_changed(member, True)

    def drained(self, member: int) -> None:
        """There is room on the bulk lane of a peer that was full."""
        held = self._held.pop(member, None)
        if held is not None:
            for group in held.values():
                group.raft.hold(member, False)
                self._news.append((group, member, False))
            self._marks.ask()

    def _trust_changed(self, member: int, is_lost: bool) -> None:
        if is_lost:
            self.counters.suspicions += 1
        groups = self._members.get(member)
        if groups is not None:
            for group in groups.values():
                self._news.append((group, member, is_lost))
            self._marks.ask()
        if not is_lost and self._on_trusted is not None:
            self._on_trusted()

    # The turn

    def end_turn(self) -> None:
        """See the module."""
        self._marks.hush()
        self.counters.turns += 1
        self._settle()  # First: what is stepped now may replace what has become durable.
        self._step_arrived()
        self._take_answers()
        self._pass_news()
        self._take_ticks()
        begun: list[Group] = []
        readies: list[Ready] = []
        self._take_readies(begun, readies)
        self._send_all()  # First: the others write at the same time.
        for i in range(len(begun)):
            if not begun[i].is_closed:
                self._write(begun[i], readies[i])
        self._log.flush()
        for i in range(len(begun)):
            self._hand_up(begun[i], readies[i])
        self._marks.speak()
        if self._has_work():
            self._marks.ask()

    def _take_readies(self, begun: list[Group], readies: list[Ready]) -> None:
        """What marked groups have to do, with what may be said at once put down to be sent."""
        marks = self._marks
        groups = marks.take(TURN_GROUPS_MAX)
        left: i64 = TURN_ENTRIES_MAX
        for place in range(len(groups)):
            if left <= 0:
                marks.put_back(groups[place:])
                return
            group = groups[place]
            if not group.is_closed and group.raft.has_ready:
                ready = group.raft.ready()
                if group.raft.has_ready:  # There was more than goes into one.
                    marks.mark(group)
                self._say(group, ready)
                begun.append(group)
                readies.append(ready)
                left -= len(ready.entries) + len(ready.committed)

    def _has_work(self) -> bool:
        """What the turn has brought up, or left for the next one."""
        if len(self._marks.dirty) > 0 or len(self._news) > 0 or len(self._answers) > 0:
            return True
        if len(self._arrived) > 0:
            return True
        return len(self._waiting) > 0 and self._waiting[0].lsn <= self._durable_lsn

    def _step_arrived(self) -> None:
        arrived = self._arrived
        left: i64 = TURN_ENTRIES_MAX
        count = 0
        for group, sender, message in arrived:
            if left <= 0:
                break
            count += 1
            if not group.is_closed:
                group.raft.step(sender, message)
                self._marks.mark(group)
            if isinstance(message, AppendRequest):
                left -= len(message.entries)
        self._arrived = arrived[count:]

    def _take_answers(self) -> None:
        answers = self._answers
        self._answers = []
        for answer in answers:
            answer()

    def _settle(self) -> None:
        """What has become durable: tell the cores, and say what waited for it."""
        waiting = self._waiting
        lsn = self._durable_lsn
        while len(waiting) > 0 and waiting[0].lsn <= lsn:
            pending = waiting.popleft()
            group = pending.group
            if group.is_closed:
                continue
            if self._pending.get(group.uid) is pending:
                del self._pending[group.uid]
            group.waits_tick = self._ticks
            if pending.index > 0:
                group.raft.durable(pending.index, pending.term)
            for member, message in pending.messages:
                self._post(group, member, message)
            self._marks.mark(group)

    def _pass_news(self) -> None:
        """Tell groups how it stands with a peer; many have the same, so a part of them each turn.

        Told is how it stands now; but a leader that was lost for a moment may lead no more.
        """
        left: i64 = NEWS_MAX
        news = self._news
        while len(news) > 0 and left > 0:
            left -= 1
            group, member, is_lost = news.popleft()
            if group.is_closed or member not in group.config.members():
                continue
            raft = group.raft
            raft.reachable(member, self.detector.is_trusted(member))
            if is_lost and raft.leader == member:
                raft.leader_lost()
            self._marks.mark(group)

    def _take_ticks(self) -> None:
        """Give ticks to those who are awake, and let those sleep that have come to rest."""
        if self._ticks_due == 0:
            return
        # Those that were missed were this node's own fault: no core counts them.
        self._ticks_due = 0
        self._ticks += 1
        self.pace.tick()
        self._take_held_slices()
        forgets = self._ticks % FORGET_TICKS == 0
        for group in list(self._marks.awake.values()):
            raft = group.raft
            if not group.is_dirty and raft.is_idle:
                raft.forget(raft.applied_index)
                self._marks.sleep(group)
                continue
            if forgets:
                raft.forget(group.forget_index)
                group.forget_index = raft.applied_index
            raft.tick()
            if raft.has_ready:
                self._marks.mark(group)
        while len(self._retries) > 0 and self._retries[0][0] <= self._ticks:
            self._retries.popleft()[1]()

    # To the log and to the peers

    def _say(self, group: Group, ready: Ready) -> None:
        """Step 1 of `raft.ready`, and step 3 where there is nothing to write."""
        if group.uid not in self._pending:
            group.waits_tick = self._ticks
        for member, message in ready.messages:
            self._post(group, member, message)
        if len(ready.entries) == 0 and ready.hard_state is None:
            self._say_after_sync(group, ready.messages_after_sync)
        else:
            self._say_meanwhile(group, ready.messages_after_sync)

    def _write(self, group: Group, ready: Ready) -> None:
        """Step 2 of `raft.ready`, but for slices; what is to be said then waits for the sync."""
        log = self._log
        uid = group.uid
        hard_state = ready.hard_state
        if hard_state is not None:
            log.append_hard_state(uid, group.record_incarnation, hard_state.term, hard_state.vote)
            if hard_state.vote == self.member and group.mirror_owner is None:
                self.counters.elections += 1
        if ready.truncated_from > 0:
            self._truncate(group, ready.truncated_from)
        count = len(ready.entries)
        if count > 0:
            self._append(group, ready.entries)
        if count > 0 or hard_state is not None:
            pending = Pending(log.appended_lsn, group)
            if count > 0:
                last = ready.entries[count - 1]
                pending.index = last.index
                pending.term = last.term
            pending.messages = list(ready.messages_after_sync)
            self._waiting.append(pending)
            self._pending[uid] = pending

    def _truncate(self, group: Group, index: int) -> None:
        """Entries from `index` on are gone: that they become durable says nothing any more, even
        if the same come again. What takes their place is in the same Ready."""
        for pending in self._waiting:
            if pending.group is group and pending.index >= index:
                pending.index = 0
        self._log.truncate_log(group.uid, index)
        group.owner.truncated(index)

    def _append(self, group: Group, entries: Sequence[Entry]) -> None:
        """Hand entries to the log, as many at once as are alike; what is attached before them."""
        byte_count: i64 = 0
        first = entries[0]
        contents: list[Sequence[bytes]] = []
        for entry in entries:
            if (
                entry.term != first.term
                or entry.kind != first.kind
                or entry.appended_term != first.appended_term
            ):
                self._append_alike(group, first, contents)
                first = entry
                contents = []
            # What was appended in a term in which it led was proposed here.
            if len(entry.attached) > 0 and entry.appended_term != group.own_term:
                group.owner.store(entry)
            contents.append(entry.parts)
            byte_count += entry.byte_count
        self._append_alike(group, first, contents)
        self.counters.appended_bytes += byte_count

    def _append_alike(
        self, group: Group, first: Entry, contents: Sequence[Sequence[bytes]]
    ) -> None:
        self._log.append_raft_entries(
            group.uid,
            group.record_incarnation,
            first.index,
            first.term,
            first.appended_term,
            first.kind,
            contents,
        )

    def _say_after_sync(self, group: Group, messages: Sequence[tuple[int, Message]]) -> None:
        """Nothing new to write: say it behind what is being written, or now."""
        if len(messages) == 0:
            return
        pending = self._pending.get(group.uid)
        if pending is not None:
            pending.messages.extend(messages)
            self._say_meanwhile(group, messages)
            return
        for member, message in messages:
            self._post(group, member, message)

    def _say_meanwhile(self, group: Group, messages: Sequence[tuple[int, Message]]) -> None:
        """The disk is slow. A leader without answers steps down, and an election needs disks
        twice: so this member reports that it is alive, and what of its log is durable."""
        if self._ticks - group.waits_tick < SLOW_TICKS:
            return
        for member, message in messages:
            if isinstance(message, AppendResponse) and message.is_matching:
                group.waits_tick = self._ticks
                index = min(message.index, group.raft.durable_index)
                answer = AppendResponse(
                    message.term, True, index, message.commit_index, message.hint_index
                )
                self._post(group, member, answer)

    def _post(self, group: Group, member: int, message: Message) -> None:
        """Have it sent at the end of the turn."""
        outbox = self._outboxes.get(member)
        if outbox is None:
            outbox = Outbox()
            self._outboxes[member] = outbox
        is_bulk = isinstance(message, (AppendRequest, SnapshotSlice))
        if is_bulk and self._links.is_full(member):
            self._hold_back(group, member)
            return
        if message is not self._encoded:
            self._encoded = message
            self._encoded_parts = encode(message)
        lane = outbox.bulk if is_bulk else outbox.control
        size = put(lane, group.uid, group.incarnation, self.member, self._encoded_parts)
        if not is_bulk:
            return
        outbox.bulk_bytes += size
        if outbox.bulk_bytes > BATCH_BYTES_MAX:
            self._send_bulk(member, outbox)

    def _send_all(self) -> None:
        for member, outbox in self._outboxes.items():
            if len(outbox.control) > 0:
                parts = outbox.control
                outbox.control = []
                self._links.send(member, CONTROL, parts)
            if len(outbox.bulk) > 0:
                self._send_bulk(member, outbox)

    def _send_bulk(self, member: int, outbox: Outbox) -> None:
        parts = outbox.bulk
        outbox.bulk = []
        outbox.bulk_bytes = 0
        self._links.send(member, BULK, parts)

    def _hold_back(self, group: Group, member: int) -> None:
        """The link is full: what is lost now is found to be missing when there is room."""
        self.counters.held_back += 1
        self._held.setdefault(member, {})[group.uid] = group
        group.raft.hold(member, True)
        self._marks.mark(group)

    # To the owners

    def _hand_up(self, group: Group, ready: Ready) -> None:
        """What the owner of the group gets of its Ready, in the order of `raft.ready`."""
        if group.is_closed:
            return
        config = ready.config
        if config is not None:
            self._configure(group, config)
            self._marks.mark(group)
            group.owner.configured(config)
        if ready.base is not None:
            self._begin_at(group, ready.base)
        if ready.slices_dropped:
            group.owner.drop_staged()
        for piece in ready.slices:
            point = ready.install if piece.is_last else None
            stored = partial(self._answer, partial(self._stored, group, piece))
            group.owner.stage(piece, point, stored)
        if len(ready.committed) > 0:
            group.hand_over(ready.committed)
            if group.is_closed:
                return
        if ready.lead is not None:
            self._lead(group, ready.lead)
        if len(ready.reads) > 0 or group.has_reads:
            group.answer_reads(ready.reads)
        if group.mirror_owner is not None:
            self._ask_snapshot(group)
        for load in ready.loads:
            self._load(group, load)
        for wanted in ready.slice_loads:
            done = partial(self._slice_read, group, wanted)
            group.owner.read_slice(wanted.index, wanted.slice_number, done)

    def _lead(self, group: Group, lead: Lead) -> None:
        leader = lead.leader
        if leader != group.leader and leader != 0:
            self.counters.leader_changes += 1
        group.leader = leader
        if leader not in (0, self.member) and not self.detector.is_trusted(leader):
            # A message that was under way when its node was lost, or the detector is late.
            self._news.append((group, leader, True))
        group.owner.lead(lead)

    # Answers: kept for the turn

    def _answer(self, answer: Callable[[], None]) -> None:
        self._answers.append(answer)
        self._marks.ask()

    def _begin_at(self, group: Group, point: SnapshotPoint) -> None:
        owner = group.mirror_owner
        assert owner is not None
        owner.begin_at(point, partial(self._answer, partial(self._based, group, point)))

    def _ask_snapshot(self, group: Group) -> None:
        owner = group.mirror_owner
        raft = group.raft
        if owner is not None and isinstance(raft, Ring) and raft.wanted_snapshot_index > 0:
            owner.snapshot_wanted(raft.wanted_snapshot_index)

    def _based(self, group: Group, point: SnapshotPoint) -> None:
        """A mirror that joins may take part from there on."""
        raft = group.raft
        assert isinstance(raft, Ring)
        if not group.is_closed:
            raft.based(point)
            self._log.release_log(group.uid, point.index)
            self._marks.mark(group)

    def _stored(self, group: Group, piece: SnapshotSlice) -> None:
        """A slice that came in is durable, and with the last one the whole snapshot."""
        if group.mirror_owner is None:
            self._take_slice(group, piece)
            return
        for part in piece.parts:
            self.pace.copied(len(part))
        self._stored_later.append((self._ticks + HELD_TICKS_MAX, group, piece))
        self._take_held_slices()

    def _take_held_slices(self) -> None:
        """Slices for mirrors that are durable: the answer brings more, when the disk has time."""
        held = self._stored_later
        while len(held) > 0 and (self.pace.may_copy or held[0][0] <= self._ticks):
            _, group, piece = held.popleft()
            self._take_slice(group, piece)

    def _take_slice(self, group: Group, piece: SnapshotSlice) -> None:
        if group.is_closed:
            return
        group.raft.slice_stored(piece)
        if piece.is_last:
            self.counters.snapshots_received += 1
            self._log.release_log(group.uid, group.raft.first_index - 1)
            group.passed_over(piece.index, piece.snapshot_term)
        self._marks.mark(group)

    def _load(self, group: Group, load: Load) -> None:
        if not group.is_closed:
            done = partial(self._entries_read, group, load)
            self._log.read_entries(group.uid, load.first, load.last, load.bytes_max, done)

    def _entries_read(self, group: Group, load: Load, found: Found | Exception) -> None:
        self._answer(partial(self._entries_found, group, load, found))

    def _entries_found(self, group: Group, load: Load, found: Found | Exception) -> None:
        if group.is_closed:
            return
        if isinstance(found, Exception):
            self.counters.read_failures += 1
            self._retries.append((self._ticks + RETRY_TICKS, partial(self._load, group, load)))
            return
        entries: list[Entry] = []
        for index, term, appended_term, kind, payload in found:
            entries.append(Entry(index, term, kind, (payload,), (), appended_term))
        if load.member == 0 or len(entries) == 0:
            self._loaded(group, load, entries)
        else:
            group.owner.reattach(entries, partial(self._reattached, group, load))

    def _reattached(self, group: Group, load: Load, entries: Sequence[Entry]) -> None:
        self._answer(partial(self._loaded, group, load, entries))

    def _loaded(self, group: Group, load: Load, entries: Sequence[Entry]) -> None:
        if not group.is_closed:
            group.raft.loaded(load, entries)
            self._marks.mark(group)

    def _slice_read(
        self, group: Group, wanted: LoadSlice, parts: Sequence[bytes] | None, is_last: bool
    ) -> None:
        self._answer(partial(self._slice_found, group, wanted, parts, is_last))

    def _slice_found(
        self, group: Group, wanted: LoadSlice, parts: Sequence[bytes] | None, is_last: bool
    ) -> None:
        if group.is_closed:
            return
        if parts is None:
            group.raft.slice_lost(wanted)
        else:
            group.raft.slice_loaded(wanted, parts, is_last)
            if is_last:
                self.counters.snapshots_sent += 1
        self._marks.mark(group)

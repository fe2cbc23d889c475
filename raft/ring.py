"""One member of a mirror ring: the log of a mirrored queue. No I/O, no clock.

The interface is that of `raft.core.Raft`, and so are log, messages and `Ready`: hosts drive both
alike. What differs is who decides. Views (`raft.ring_view`) come from outside, by `change_view`;
there are no elections, and an entry is committed when *all* members of the view have synced it.

The way of an entry. The leader numbers it and sends it to its right neighbour; each member writes
it, and forwards it at the same time. Behind that runs a mark: all members up to the sender have
synced up to here. The last member sends the mark to the leader, which closes the ring: the entry is
committed. The commit index goes round with the entries that follow, and tells members that an entry
is stable; they apply it then. The leader sends each entry once, however many mirrors there are.

Messages are those of Raft, read so:

- AppendRequest, to the right neighbour: `term` is the epoch, `read_seq` the mark.
- AppendResponse, to the left neighbour, and as the mark to the leader, from the last member and
  from those that are not synchronised: `term` is the epoch. If it is_matching, `hint_index` is
  base + 1 when the sender joined behind the entry at base and lacks what was before, else 0.
- SnapshotSlice and SliceResponse, between neighbours: `term` is the epoch.

Why no confirmed entry is lost. A message of another epoch than the member's own counts for nothing.
An entry is committed by marks of all members in one epoch, so each of them has it. The leader of a
later view was a synchronised member of this one, or joined later and then got all entries. Members
forward only a log that ends in the term of the view: before that its end may differ from the
leader's, and what differs is replaced by the leader's first entry of its term.

A member that restarts never leads in a term in which it may have led before: entries that it lost
may be elsewhere under the same number. It waits for a view with a new term. Compiled.
"""

from collections.abc import Sequence
from typing import Final, final

from mypy_extensions import i64

from raft.copy_pace import CopyLimit
from raft.entries import COMMAND, NOOP, TERM_MAX, Config, Entry, HardState, SnapshotPoint
from raft.leading import Leadership
from raft.membership import Change, Refused
from raft.messages import AppendRequest, AppendResponse, Message, SliceResponse, SnapshotSlice
from raft.ready import LoadSlice, Ready
from raft.recovery import Restored
from raft.replica import LogMember
from raft.ring_view import Early, Heard, RingView
from raft.settings import Settings
from raft.status import FOLLOWER, LEADER, ROLE_NAMES, MemberStatus, Status

NO_BASE: Final = -1


@final
class Ring(LogMember):
    """`base_index`: the member has no entries up to here, nor what they did to the machine; 0 once
    a snapshot has brought that; NO_BASE: it has nothing at all so far.
    """

    __slots__ = (
        "_base_is_asked",
        "_base_point",
        "_copying",
        "_early",
        "_first_index",
        "_heard",
        "_is_hollow",
        "_left_mark",
        "_mark_elapsed",
        "_needed_index",
        "_next_view",
        "_restored_epoch",
        "_returned",
        "_returned_here",
        "_right_base",
        "_view_has_moved",
        "base_index",
        "blocks",
        "config",
        "copies",
        "copy_limit",
        "epoch",
        "is_retired",
        "joined",
        "lost_index",
        "view",
        "wanted_snapshot_index",
    )

    def __init__(self, member: i64, joined: i64, restored: Restored, settings: Settings) -> None:
        """`joined`: the epoch in which this member joined (`RingView.joined`)."""
        super().__init__(member, 0, restored, settings)
        self.joined: i64 = joined
        self.epoch: i64 = restored.hard_state.term
        self._restored_epoch: i64 = restored.hard_state.term
        self.view: RingView | None = None
        self._next_view: RingView | None = None  # once an incoming snapshot is installed
        self.config = Config(())
        self.is_retired = False  # a newer view is without this membership: the log is of no use
        self._is_hollow = True  # until the definitions say otherwise
        self.base_index: i64 = restored.snapshot.index if restored.last_index > 0 else NO_BASE
        self._base_point: SnapshotPoint | None = None  # being made durable
        self._base_is_asked = False
        self.lost_index: i64 = NO_BASE  # promoted without entries up to here, or a little further
        # Synchronisation of the right neighbour
        self.copies = True  # begin it when it is needed
        self.blocks = False  # take no proposals until all members are synchronised
        self.copy_limit = CopyLimit()
        self.wanted_snapshot_index: i64 = 0  # take a snapshot at this index or behind it; 0: none
        self._copying: Leadership | None = None
        self._right_base: i64 = NO_BASE  # of the right neighbour, if it lacks entries
        # The ring
        self._first_index: i64 = 0  # of the term, where this member leads or is about to
        self._left_mark: i64 = 0  # all members to the left have synced up to here, in this epoch
        self._returned: i64 = 0  # the mark that came back to the leader, in this epoch
        self._returned_here: i64 = 0  # the mark that this last member sent
        self._mark_elapsed: i64 = 0  # ticks since then
        # Of the leader: what is committed in a view needs all its members, what was before does not
        self._needed_index: i64 = 0  # committed, as far as it knows, when it took the view
        self._heard = Heard()
        self._early = Early()
        self._view_has_moved = False

    def restore_whole(self) -> None:
        """The restored snapshot is one of the queue, not the empty machine of a base."""
        self._is_hollow = False
        self.base_index = 0

    # What there is to know

    @property
    def is_hollow(self) -> bool:
        """Lacks entries that the leader has, or had: not synchronised."""
        return self._is_hollow

    @property
    def is_sending_snapshot(self) -> bool:
        return self._copying is not None and self._copying.is_sending_snapshot()

    @property
    def needs_term(self) -> bool:
        """It is to lead in a term in which it may have led before a restart."""
        view = self.view
        return (
            view is not None
            and view.leader == self.member
            and self.role != LEADER
            and self._first_index == 0
        )

    @property
    def next_partial(self) -> int:
        """A member that the leader should have declared `partial`; 0: none."""
        return self._heard.next_partial(self.view)

    @property
    def next_synchronised(self) -> int:
        """A member that the leader should have declared synchronised; 0: none."""
        return self._heard.next_synchronised()

    @property
    def right_acked_index(self) -> int:
        """The right neighbour has synced all entries up to here; -1: it is not known."""
        leading = self._leading
        if leading is not None:
            for peer in leading.peers.values():
                return int(peer.match_index)
        return -1

    @property
    def copied_slices(self) -> tuple[int, int]:
        """Slices of a snapshot that the right neighbour has, and of how many; -1: not known."""
        copying = self._copying
        if copying is not None:
            for peer in copying.peers.values():
                return int(peer.acked_slice), int(peer.slice_count)
        return 0, -1

    @property
    def is_idle(self) -> bool:
        """May be left without ticks."""
        last_index = self._log.last_index
        view = self.view
        if self._is_dirty or view is None or self._has_news(view):
            return False
        right = view.right_of(self.member)
        if self.copies and right != 0 and right not in view.synchronised:
            return False
        if self.commit_index != last_index or self._replica.durable_index != last_index:
            return False
        if self._copying is not None or not self._incoming.is_empty:
            return False
        if self.applied_index != last_index and not self._is_hollow:
            return False
        leading = self._leading
        return leading is None or leading.is_idle(self.commit_index)

    def status(self) -> Status:
        leading = self._leading
        return Status(
            self.member,
            ROLE_NAMES[self.role],
            self.term,
            self.joined,
            self.leader,
            self.commit_index,
            self.applied_index,
            self.durable_index,
            self.last_index,
            self._log.snapshot.index,
            self.config,
            0,
            0,
            [] if leading is None else [MemberStatus(peer) for peer in leading.peers.values()],
        )

    # Views

    def change_view(self, view: RingView) -> None:
        """The definitions decided this view; one that is not newer than the known one is passed
        over, but for the first after a restart."""
        if self.is_retired or view.epoch < self.epoch or view.epoch < self.joined:
            return
        if self.view is not None and view.epoch == self.epoch:
            return
        self._is_dirty = True
        if view.joined_in(self.member) != self.joined:
            self._retire()
            return
        if view.leader == self.member and (
            self._incoming.is_installing or self._base_point is not None
        ):
            self._next_view = view  # Its log is about to begin at another place.
            return
        if view.epoch > self.epoch:
            self.epoch = view.epoch
            self._hard_state_has_moved = True
        self.view = view
        self.config = Config(view.members)
        self._view_has_moved = True
        self._leading = None
        self._end_copying()
        if not self._incoming.is_installing:
            self._incoming.drop()  # A neighbour that restarted cuts its slices in other places.
        self._left_mark = self._returned = self._returned_here = 0
        self._right_base = NO_BASE
        self._heard = Heard()
        if self.member in view.synchronised:
            self._complete(view)
        if view.term != self.term:
            self._begin_term(view)
        # Before its first entry is committed it does not know how much of its log is.
        self._needed_index = max(self.commit_index, self._first_index)
        for sender, message in self._early.take(self.epoch):
            self.step(sender, message)

    def _retire(self) -> None:
        self.is_retired = True
        self.view = None
        self.role = FOLLOWER
        self.leader = 0
        self._leading = None
        self._end_copying()

    def _complete(self, view: RingView) -> None:
        """The definitions say that it has all entries, or that it goes on with those that it has:
        promoted, it takes what it lacks for lost."""
        if self._is_hollow and view.leader == self.member and self.member in view.partial:
            self.lost_index = self.base_index
        self._incoming.drop()
        self._is_hollow = False
        self.base_index = 0

    def _begin_term(self, view: RingView) -> None:
        self.term = view.term
        self.leader = view.leader
        self.role = FOLLOWER
        self._first_index = 0
        if view.leader != self.member or view.term <= self._restored_epoch:
            return
        assert view.term <= TERM_MAX
        # It leads once this entry is durable, for a crash before that would take back the term.
        self._first_index = self._log.last_index + 1
        self._replica.append(Entry(self._first_index, self.term, NOOP, (), (), self.epoch))

    # What the host asks for

    def propose(
        self, parts: Sequence[bytes], attached: Sequence[bytes] = ()
    ) -> tuple[int, int] | None:
        """(index, term), as `Raft.propose`; None: not the leader, or it takes nothing now."""
        if self.role != LEADER or self.is_full or self.is_blocked:
            return None
        self._is_dirty = True
        index = self._log.last_index + 1
        self._replica.append(Entry(index, self.term, COMMAND, parts, attached, self.epoch))
        return index, int(self.term)

    @property
    def is_blocked(self) -> bool:
        """A mirror is being synchronised, in the blocking form."""
        view = self.view
        return self.blocks and view is not None and len(view.synchronised) < len(view.members)

    def read(self, context: i64) -> bool:
        """There are no read barriers: the log of a mirror ring is read by its owner alone."""
        return False

    def propose_change(self, change: Change) -> tuple[int, int] | Refused:
        return Refused("the members of a mirrored queue follow its policy")

    def transfer(self, member: i64) -> bool:
        """Another leader needs another view."""
        return False

    def campaign(self) -> None:
        """Leaders come by views."""

    def leader_lost(self) -> None:
        """Leaders go by views."""

    def stand_alone(self, term: i64) -> bool:
        """A member goes on alone by a view."""
        return False

    def synchronise(self, is_wanted: bool) -> None:
        """Bring the right neighbour what it lacks, or cancel that."""
        self.copies = is_wanted
        if not is_wanted:
            self._end_copying()
        self._is_dirty = True

    def reachable(self, member: i64, is_reachable: bool) -> None:
        self._note_reachable(member, is_reachable)
        leading = self._leading
        if leading is not None and member in leading.peers:
            self._is_dirty = True
            leading.reachable(member, is_reachable, self.commit_index)

    def hold(self, member: i64, is_held: bool) -> None:
        self._note_held(member, is_held)
        self._hold_back(self._leading, member, is_held)
        self._hold_back(self._copying, member, is_held)

    def tick(self) -> None:
        """One tick has passed: send again what may be lost."""
        leading = self._leading
        copying = self._copying
        if leading is not None:
            self._is_dirty = True
            leading.tick((self.member,), self.commit_index)
            leading.greet_unanswered(self.commit_index)
        if copying is not None:
            self._is_dirty = True
            copying.beat_slices()
            self.copy_limit.tick()
        self._mark_elapsed += 1
        if self._mark_elapsed >= self._settings.heartbeat_ticks:
            self._mark_elapsed = 0
            if self.commit_index < self._log.last_index:
                self._returned_here = 0
                self._is_dirty = True
            view = self.view
            if view is not None and self._has_news(view):
                self._report(view)

    def _has_news(self, view: RingView) -> bool:
        """Whether this member has more than the definitions know of."""
        if self._is_hollow:
            return self.member not in view.partial
        return self.member not in view.synchronised

    def _report(self, view: RingView) -> None:
        """Say to the leader how much this member has."""
        mark = self._mark()
        if mark > 0 and self.base_index != NO_BASE:
            self._is_dirty = True
            self._outbox.messages.append((view.leader, self._mark_message(mark)))

    def _mark_message(self, mark: i64) -> AppendResponse:
        hint_index = self.base_index + 1 if self._is_hollow else 0
        return AppendResponse(self.epoch, True, mark, self.commit_index, hint_index)

    # The disk

    def durable(self, index: i64, term: i64) -> None:
        """The host's log is synced up to the entry at `index` of `term`."""
        if not self._replica.synced(index, term):
            return
        self._is_dirty = True
        if (
            self.role != LEADER
            and self._first_index != 0
            and self._replica.durable_index >= self._first_index
        ):
            self.role = LEADER
        self._maybe_commit()

    def slice_loaded(self, load: LoadSlice, parts: Sequence[bytes], is_last: bool) -> None:
        """The answer to a `LoadSlice`."""
        if self._copying is not None:
            self._is_dirty = True
            for part in parts:
                self.copy_limit.copied(len(part))
            self._copying.slice_loaded(load, parts, is_last)

    def slice_lost(self, load: LoadSlice) -> None:
        if self._copying is not None:
            self._is_dirty = True
            self._copying.slice_lost(load)

    def slice_stored(self, part: SnapshotSlice) -> None:
        """A slice of an incoming snapshot is durable; the last one: the snapshot is installed."""
        point = self._incoming.store(part, self.epoch)
        self._is_dirty = True
        if point is not None:
            self._installed(point)

    # Messages

    def step(self, sender: i64, message: Message) -> None:
        """A message of another member: of another epoch, or not of a neighbour, it is nothing."""
        view = self.view
        if view is None or message.term != self.epoch:
            self._early.keep(sender, message, self.epoch if view is not None else -1)
            return
        self._is_dirty = True
        if isinstance(message, AppendResponse):
            self._on_response(view, sender, message)
        elif isinstance(message, AppendRequest):
            if sender == view.left_of(self.member):
                self._on_append(sender, message)
        elif isinstance(message, SnapshotSlice):
            if sender == view.left_of(self.member):
                self._on_slice(sender, message)
        elif isinstance(message, SliceResponse):
            copying = self._copying
            if copying is not None and sender in copying.peers:
                copying.slice_stored(copying.peers[sender], message)

    def _on_append(self, sender: i64, message: AppendRequest) -> None:
        entries = message.entries
        previous_index = message.previous_index
        previous_term = message.previous_term
        assert len(entries) == 0 or entries[0].index == previous_index + 1
        if self._is_hollow and self.base_index == NO_BASE:
            # An entry that is not committed might be replaced: it cannot be the base.
            if self._base_point is None and previous_index <= message.commit_index:
                self._base_point = SnapshotPoint(
                    previous_index, previous_term, self.epoch, Config(())
                )
                self._base_is_asked = True
            return
        if previous_index < self.commit_index:
            known = self.commit_index - previous_index
            previous_index = self.commit_index
            previous_term = self._log.term(previous_index)
            entries = () if known > len(entries) else entries[known:]
        if self._log.term(previous_index) != previous_term:
            self._reject(sender, previous_index, previous_term)
            return
        if len(entries) > 0:
            self._replica.take(entries, self.epoch, self.commit_index)
        match_index = previous_index + len(entries)
        self._left_mark = max(self._left_mark, message.read_seq)
        self._acknowledge(sender, match_index)
        self._commit_to(min(message.commit_index, match_index))

    def based(self, point: SnapshotPoint) -> None:
        """The base is durable: an empty member takes part from here on, and what was before comes
        by a snapshot."""
        assert point is self._base_point
        self._base_point = None
        self._is_dirty = True
        self._replica.install(point, NO_BASE)
        self.base_index = point.index
        self.commit_index = point.index
        self.applied_index = point.index
        self._began_elsewhere()

    def _began_elsewhere(self) -> None:
        """The log begins at another place than before."""
        view = self.view
        if view is not None and view.left_of(self.member):
            self._acknowledge(view.left_of(self.member), self.commit_index)
        following = self._next_view
        if following is not None:
            self._next_view = None
            self.change_view(following)

    def _acknowledge(self, left: i64, index: i64) -> None:
        self._outbox.messages_after_sync.append((left, self._mark_message(index)))

    def _reject(self, left: i64, index: i64, term: i64) -> None:
        hint_index = self._log.last_at_most(min(index, self._log.last_index), term)
        hint_index = max(hint_index, self.commit_index)
        hint_term = self._log.term(hint_index)
        response = AppendResponse(
            self.epoch, False, index, self.commit_index, hint_index, hint_term
        )
        self._outbox.messages_after_sync.append((left, response))

    def _on_response(self, view: RingView, sender: i64, message: AppendResponse) -> None:
        if self.role == LEADER and message.is_matching:
            if sender == view.last:
                self._returned = max(self._returned, message.index)
                self._maybe_commit()
            is_hollow = message.hint_index > 0
            self._heard.note(view, sender, is_hollow, message.index >= self._needed_index)
        leading = self._leading
        if leading is None or sender not in leading.peers:
            return
        leading.appended(leading.peers[sender], message)
        if message.is_matching:
            base_index = message.hint_index - 1
            if base_index != self._right_base:
                self._right_base = base_index
                self._end_copying()  # It has all, or a restart gave it another base.

    def _on_slice(self, sender: i64, message: SnapshotSlice) -> None:
        if not self._is_hollow:
            self._acknowledge(sender, self.commit_index)
            return
        if message.index < max(self.base_index, 1):
            return
        self._incoming.heed_restart(message)
        if self._incoming.receive(sender, message, self.epoch):
            self._incoming.install(self._replica.incoming_point(message, self.epoch))

    def _installed(self, point: SnapshotPoint) -> None:
        index = point.index
        assert index >= self.applied_index
        self._replica.install(point, self.commit_index)
        self._apply_load = None
        self._loaded = ()
        self.applied_index = index
        self.commit_index = max(self.commit_index, index)
        self._is_hollow = False
        self.base_index = 0
        self._began_elsewhere()

    # Commits

    def _mark(self) -> i64:
        """Up to here all members from the leader to this one have synced the entries. The leader
        looks at its own disk when the mark comes back."""
        if self._log.last_term != self.term:
            return 0
        if self.role == LEADER:
            return self._log.last_index
        return min(self._left_mark, self._replica.durable_index)

    def _maybe_commit(self) -> None:
        view = self.view
        if self.role != LEADER or view is None:
            return
        index: i64 = self._replica.durable_index
        if len(view.members) > 1:
            index = min(index, self._returned)
        if index >= self._first_index:
            self._commit_to(index)

    def _commit_to(self, index: i64) -> None:
        if index <= self.commit_index:
            return
        assert index <= self._log.last_index
        self.commit_index = index
        if not self._is_hollow:
            self._incoming.passed(index)

    # What is to be done

    def ready(self) -> Ready:
        """Take all that is to be done; the order is in raft/ready.py."""
        self._is_dirty = False
        view = self.view
        if view is not None:
            self._send(view)
        result = Ready()
        if self._hard_state_has_moved:
            self._hard_state_has_moved = False
            result.hard_state = HardState(self.epoch, self.joined)
        if self._view_has_moved:
            self._view_has_moved = False
            result.config = self.config
        if self._base_is_asked:
            self._base_is_asked = False
            result.base = self._base_point
        self._replica.hand_over(result)
        if not self._incoming.is_empty:
            self._incoming.take(result)
        if self.applied_index < self.commit_index and not self._is_hollow:
            self._take_committed(result)
        self._outbox.take(result, self.epoch, self.commit_index)
        self._take_news(result)
        return result

    def _send(self, view: RingView) -> None:
        self._maybe_commit()
        right = view.right_of(self.member)
        mark = self._mark()
        if right == 0:
            if self.role != LEADER and mark > self._returned_here:
                self._returned_here = mark
                self._mark_elapsed = 0
                self._outbox.messages.append((view.leader, self._mark_message(mark)))
            return
        leading = self._leading
        if leading is None:
            if self._log.last_term != self.term or (
                view.leader == self.member and self.role != LEADER
            ):
                return
            leading = self._begin_sending(right)
            self._leading = leading
            leading.greet(right, self.commit_index)
        if right in view.synchronised:
            # It has what is committed, even if its own answer was lost.
            leading.peers[right].matched(self.commit_index)
        leading.carry(mark)
        leading.send(self.commit_index)
        leading.tell_carried(self.commit_index)
        self._copy(right)

    def _begin_sending(self, right: i64) -> Leadership:
        """All members of a view have what is committed; the first message finds out about the rest,
        and is the base of a member that is empty."""
        return Leadership(
            self.member,
            self.epoch,
            self.commit_index + 1,
            self._log,
            self._outbox,
            self._settings,
            Config((self.member, right)),
            self._unreachable,
            self._held,
        )

    def _copy(self, right: i64) -> None:
        """Send the right neighbour a snapshot, if it lacks what one holds."""
        self.wanted_snapshot_index = 0
        if not self.copies or self._is_hollow or self._right_base == NO_BASE:
            return
        copying = self._copying
        if copying is None:
            needed = max(self._right_base, 1)
            if self._log.snapshot.index < needed:
                self.wanted_snapshot_index = needed
                return
            copying = self._begin_sending(right)
            copying.peers[right].send_snapshot(self._log.snapshot)
            self._copying = copying
        if self.copy_limit.may_copy:
            copying.send_slices()

    def _end_copying(self) -> None:
        self._copying = None

    def _take_news(self, result: Ready) -> None:
        is_ready = self.role == LEADER and self.applied_index >= self._first_index
        self._tell_lead(result, is_ready)

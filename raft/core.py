"""One member of one Raft group. No I/O, no clock: told by its host, answers with a `Ready`.

The host says what happened: `tick`, `step` (a message), `propose`, `durable`, `loaded`, ... and
takes all that is to be done, once a turn, by `ready` (raft/ready.py has the order). All that a
message promises waits for the disk; entries go to the others at the same time as to the own disk,
and the own copy counts only when it is durable (dissertation, 10.2.1).

Beyond the dissertation's sections 3 and 4: pre-vote and a vote that is kept while the leader lives
(9.6), reads by a round of messages (6.4), no heartbeat of a group in which nothing happens: the
host leaves it without ticks (`is_idle`) and its detector of nodes says when a leader is suspected
(`leader_lost`).

The log, terms and votes are kept by the host; after a start (`Restored`) contents are asked for
when they are needed. A wrong message of a peer that has authenticated itself is a fault of ours: an
assert stops the node before anything is said that is not so. Compiled.
"""

from collections.abc import Sequence
from typing import assert_never, final

from mypy_extensions import i64

from raft.election import Election
from raft.entries import COMMAND, CONFIG, NOOP, TERM_MAX, Config, Entry, HardState, SnapshotPoint
from raft.leading import Leadership
from raft.log import Log
from raft.membership import Change, Refused, changed, encode_config, promoted
from raft.messages import (
    AppendRequest,
    AppendResponse,
    Message,
    SliceResponse,
    SnapshotSlice,
    TimeoutNow,
    VoteRequest,
    VoteResponse,
)
from raft.ready import LoadSlice, Ready
from raft.recovery import Restored
from raft.replica import LogMember
from raft.settings import Lots, Settings
from raft.status import CANDIDATE, FOLLOWER, LEADER, PRE_CANDIDATE, ROLE_NAMES, MemberStatus, Status


@final
class Raft(LogMember):
    """Invariant: `_leading` is there iff LEADER."""

    __slots__ = (
        "_alone_index",
        "_election",
        "vote",
    )

    def __init__(self, member: i64, restored: Restored, settings: Settings, lots: Lots) -> None:
        super().__init__(member, restored.hard_state.term, restored, settings)
        self.vote: i64 = restored.hard_state.vote
        assert self.term >= self._log.appended_term(restored.last_index)
        self._alone_index: i64 = 0  # elected by itself: leads once this entry is durable; 0: no
        self._election = Election(settings, lots)

    # What there is to know

    @property
    def config(self) -> Config:
        return self._replica.configs.current

    @property
    def log(self) -> Log:
        """The entries that this member has."""
        return self._log

    @property
    def is_sending_snapshot(self) -> bool:
        """A peer is receiving this member's snapshot: a new one would restart the transfer."""
        return self._leading is not None and self._leading.is_sending_snapshot()

    @property
    def is_idle(self) -> bool:
        """May be left without ticks: nothing will happen by itself, and every member knows it."""
        last_index = self._log.last_index
        if (
            self._is_dirty
            or self.commit_index != last_index
            or self._replica.durable_index != last_index
        ):
            return False
        if self.applied_index != last_index or not self._incoming.is_empty:
            return False
        leading = self._leading
        if leading is not None and leading.is_awaited(self._replica.configs.current.joining):
            return False
        if leading is not None:
            voters = self._replica.configs.current.voters
            return leading.is_idle(self.commit_index) and leading.quorum_is_reachable(voters)
        if self.role != FOLLOWER or self.leader == 0 or self.leader in self._unreachable:
            return False
        return self.leader in self._replica.configs.current.voters

    def status(self) -> Status:
        leading = self._leading
        return Status(
            self.member,
            ROLE_NAMES[self.role],
            self.term,
            self.vote,
            self.leader,
            self.commit_index,
            self.applied_index,
            self.durable_index,
            self.last_index,
            self._log.snapshot.index,
            self._replica.configs.current,
            self._replica.configs.index,
            0 if leading is None else leading.transferee,
            [] if leading is None else [MemberStatus(peer) for peer in leading.peers.values()],
        )

    # What the host asks for

    def propose(
        self, parts: Sequence[bytes], attached: Sequence[bytes] = ()
    ) -> tuple[int, int] | None:
        """(index, term): committed if the entry at that index turns out to be of that term.

        None: not the leader, or about to hand over, or `is_full`.
        """
        leading = self._leading
        if leading is None or leading.transferee or self.is_full:
            return None
        return self._append_own(COMMAND, parts, attached), self.term

    def propose_change(self, change: Change) -> tuple[int, int] | Refused:
        """Begin to change who the members are; it counts at once, and is settled by its commit."""
        leading = self._leading
        if leading is None:
            return Refused("is not the leader")
        if leading.transferee:
            return Refused("the leadership is being handed over")
        if self.commit_index < leading.first_index:
            return Refused("nothing is committed in this term so far")
        if self._replica.configs.index > self.commit_index:
            return Refused("another change is under way")
        config = changed(self._replica.configs.current, change)
        if isinstance(config, Refused):
            return config
        return self._change(config), self.term

    def transfer(self, member: i64) -> bool:
        """Let another voter lead. No proposals until that has happened, or has not in time."""
        leading = self._leading
        if leading is None or member not in self._replica.configs.current.voters:
            return False
        self._wake(leading)
        return leading.transfer(member)

    def read(self, context: i64) -> bool:
        """Answered by a `ready.Read`, once a majority has said that this is the leader still.

        False: it is not, or does not know yet what is committed.
        """
        leading = self._leading
        if leading is None or self.commit_index < leading.first_index:
            return False
        self._wake(leading)
        leading.read(context, self.commit_index)
        return True

    def campaign(self) -> None:
        """Try to become the leader: ask first whether that would succeed. Not while votes are asked
        for: to ask again would be another term, and answers that are under way would be lost."""
        is_free = self._leading is None and self.role != CANDIDATE and self._alone_index == 0
        if is_free and self._may_be_elected():
            self._pre_campaign()

    def stand_alone(self, term: i64) -> bool:
        """Go on without the others, from `term` on or later (0054). False: a snapshot comes in."""
        if self._incoming.is_installing:
            return False
        self._follow(max(term, self.term), 0)
        self._incoming.drop()
        self._replica.stand_alone(self.member, self.term)
        self._pre_campaign()
        return True

    def leader_lost(self) -> None:
        """The leader's node is suspected: look for another leader, soon."""
        if self.role != FOLLOWER or self.leader == 0:
            return
        self.leader = 0
        self._election.hurry()
        self._is_dirty = True

    def reachable(self, member: i64, is_reachable: bool) -> None:
        """What the host's failure detector thinks of a member's node."""
        self._note_reachable(member, is_reachable)
        if is_reachable and self.role == PRE_CANDIDATE:
            self._election.again()
        if self._leading is not None:
            self._is_dirty = True
            self._leading.reachable(member, is_reachable, self.commit_index)

    def hold(self, member: i64, is_held: bool) -> None:
        """The way to this member is full: no entries and no slices for it until it is not."""
        self._note_held(member, is_held)
        self._hold_back(self._leading, member, is_held)

    def tick(self) -> None:
        """One tick has passed. Of times without ticks the core does not know."""
        leading = self._leading
        if leading is not None:
            self._tick_leader(leading)
            return
        if not self._election.tick() or self._alone_index != 0:
            return
        if self._may_be_elected():
            self._pre_campaign()
        elif self.leader == 0 and self.member in self._replica.configs.current.learners:
            self._ask_who_leads()

    def _tick_leader(self, leading: Leadership) -> None:
        config = self._replica.configs.current
        self._is_dirty = True
        if not leading.tick(config.voters, self.commit_index):
            self._follow(self.term, 0)
            self._election.hurry()  # Others may have waited for their disks: it may lead again.
            return
        if config.joining and self._replica.configs.index <= self.commit_index:
            learner = leading.caught_up(config)
            is_free = self.commit_index >= leading.first_index and not leading.transferee
            if learner and is_free:
                self._change(promoted(config, learner))

    # The disk

    def durable(self, index: i64, term: i64) -> None:
        """The host's log is synced up to the entry at `index` of `term`. In the order of the log.

        What was there may have been replaced meanwhile: then this says nothing.
        """
        if not self._replica.synced(index, term):
            return
        self._is_dirty = True
        if self._alone_index != 0 and self._replica.durable_index >= self._alone_index:
            self._lead(self._alone_index)
        if self._leading is not None:
            self._maybe_commit(self._leading)

    def slice_loaded(self, load: LoadSlice, parts: Sequence[bytes], is_last: bool) -> None:
        """The answer to a `LoadSlice`."""
        if self._leading is not None:
            self._is_dirty = True
            self._leading.slice_loaded(load, parts, is_last)

    def slice_lost(self, load: LoadSlice) -> None:
        """The other answer: that snapshot is not there any more."""
        if self._leading is not None:
            self._is_dirty = True
            self._leading.slice_lost(load)

    def slice_stored(self, part: SnapshotSlice) -> None:
        """A slice of an incoming snapshot is durable; the last one: the snapshot is installed."""
        point = self._incoming.store(part, self.term)
        self._is_dirty = True
        if point is not None:
            self._installed(point)

    # Messages

    def step(self, sender: i64, message: Message) -> None:
        """A message of another member, perhaps late, doubled, or of one that is no member."""
        self._is_dirty = True
        if isinstance(message, AppendResponse):
            self._on_append_response(sender, message)
        elif isinstance(message, AppendRequest):
            self._on_append(sender, message)
        elif isinstance(message, VoteRequest):
            self._on_vote_request(sender, message)
        elif isinstance(message, VoteResponse):
            self._on_vote_response(sender, message)
        elif isinstance(message, TimeoutNow):
            self._on_timeout_now(sender, message)
        elif isinstance(message, SnapshotSlice):
            self._on_slice(sender, message)
        elif isinstance(message, SliceResponse):
            self._on_slice_response(sender, message)
        else:
            assert_never(message)

    def _on_append(self, sender: i64, message: AppendRequest) -> None:
        if not self._hear_leader(sender, message.term):
            return
        entries = message.entries
        previous_index = message.previous_index
        assert not entries or entries[0].index == previous_index + 1
        previous_term = message.previous_term
        if previous_index < self.commit_index:
            # What is committed is the same everywhere: only what comes behind it is of interest.
            known = self.commit_index - previous_index
            previous_index = self.commit_index
            previous_term = self._log.term(previous_index)
            if known > len(entries):
                entries = ()
            else:
                assert entries[known - 1].term == previous_term
                entries = entries[known:]
        if self._log.term(previous_index) != previous_term:
            self._reject(sender, previous_index, previous_term, message.read_seq)
            return
        if entries:
            self._replica.take(entries, self.term, self.commit_index)
        match_index = previous_index + len(entries)
        self._outbox.acknowledge(sender, match_index, message.read_seq)
        self._commit_to(min(message.commit_index, match_index))

    def _reject(self, sender: i64, index: i64, term: i64, read_seq: i64) -> None:
        """With the last place that may be alike: its term is not higher than what the leader has
        behind it."""
        hint_index = self._log.last_at_most(min(index, self._log.last_index), term)
        hint_index = max(hint_index, self.commit_index)
        response = AppendResponse(
            self.term,
            False,
            index,
            self.commit_index,
            hint_index,
            self._log.term(hint_index),
            read_seq,
        )
        self._outbox.messages_after_sync.append((sender, response))

    def _on_append_response(self, sender: i64, message: AppendResponse) -> None:
        leading = self._leading
        peer = None if leading is None else leading.peers.get(sender)
        if leading is None or peer is None:
            return
        if message.term != self.term:
            if message.term > self.term:
                self._follow(message.term, 0)
            return
        if leading.appended(peer, message):
            self._maybe_commit(leading)
        leading.finish_reads(self._replica.configs.current.voters)

    def is_late(self, answer: AppendResponse) -> bool:
        """Whether the answer may be stepped with whatever comes next (`Leadership.is_late`)."""
        leading = self._leading
        return leading is not None and leading.is_late(answer, self.commit_index)

    def is_ahead(self, index: i64) -> bool:
        """Whether it leads and commits nothing by its own log being durable up to `index`."""
        leading = self._leading
        if leading is None or self._alone_index != 0:
            return False
        voters = self._replica.configs.current.voters
        return leading.agreed_index(voters, index) <= self.commit_index

    def _on_vote_request(self, sender: i64, message: VoteRequest) -> None:
        if sender == self.leader and message.term > self.term:
            self.leader = 0  # it leads no more
        if not message.is_transfer and self._has_live_leader():
            if self._leading is not None:
                self._leading.greet(sender, self.commit_index)
            return
        log = self._log
        is_up_to_date = message.last_term > log.last_term or (
            message.last_term == log.last_term and message.last_index >= log.last_index
        )
        if message.is_pre_vote:
            is_granted = is_up_to_date and message.term > self.term
            term = message.term if is_granted else self.term
            if is_granted and self.role == PRE_CANDIDATE and self._yields(sender, message):
                self.role = FOLLOWER
            self._outbox.messages.append((sender, VoteResponse(term, True, is_granted)))
            return
        if message.term > self.term:
            self._follow(message.term, 0)
        is_granted = (
            is_up_to_date
            and message.term == self.term
            and (self.vote == sender or (self.vote == 0 and self.leader == 0))
        )
        if is_granted:
            self._set_hard_state(self.term, sender)
            self.role = FOLLOWER
            self._election.wait()
        response = VoteResponse(self.term, False, is_granted)
        self._outbox.messages_after_sync.append((sender, response))

    def _yields(self, sender: i64, message: VoteRequest) -> bool:
        """Of two that ask at once and may both be elected, one waits: else they split the votes."""
        log = self._log
        if message.last_index != log.last_index or message.last_term != log.last_term:
            return True
        return sender > self.member

    def _has_live_leader(self) -> bool:
        """Then no member gets a vote, nor a higher term from here (9.6): who was cut off for a
        while is no reason for an election. Without ticks the leader lives as long as its node
        does."""
        if self._leading is not None:
            return True
        return self.leader != 0 and self._election.is_recent()

    def _on_vote_response(self, sender: i64, message: VoteResponse) -> None:
        asked_term = self.term + 1 if message.is_pre_vote else self.term
        wanted = PRE_CANDIDATE if message.is_pre_vote else CANDIDATE
        if message.is_granted:
            if self.role != wanted or message.term != asked_term:
                return
            self._election.vote(sender)
            if self._election.is_won(self._replica.configs.current.voters):
                self._win()
        elif message.term > self.term:
            self._follow(message.term, 0)
        elif self.role == CANDIDATE and message.term == self.term and not message.is_pre_vote:
            self._election.deny(sender)
            if self._election.is_hopeless(self._replica.configs.current.voters):
                self._election.hurry()

    def _on_timeout_now(self, sender: i64, message: TimeoutNow) -> None:
        if message.term != self.term or sender != self.leader or self.role != FOLLOWER:
            return
        if self._may_be_elected():
            self._campaign(True)

    def _on_slice(self, sender: i64, message: SnapshotSlice) -> None:
        if not self._hear_leader(sender, message.term):
            return
        if message.index <= self.commit_index:
            self._outbox.acknowledge(sender, self.commit_index, 0)
            return
        self._incoming.heed_later_term(message)
        if self._incoming.receive(sender, message, self.term):
            self._incoming.install(self._replica.incoming_point(message, self.term))

    def _installed(self, point: SnapshotPoint) -> None:
        index = point.index
        assert index > self.applied_index
        self._replica.install(point, self.commit_index)
        self._apply_load = None
        self._loaded = ()
        self.applied_index = index
        self.commit_index = max(self.commit_index, index)
        self._is_dirty = True
        if self.leader != 0 and self._leading is None:
            self._outbox.acknowledge(self.leader, self.commit_index, 0)

    def _on_slice_response(self, sender: i64, message: SliceResponse) -> None:
        leading = self._leading
        peer = None if leading is None else leading.peers.get(sender)
        if leading is None or peer is None:
            return
        if message.term > self.term:
            self._follow(message.term, 0)
        elif message.term == self.term:
            leading.slice_stored(peer, message)

    # Terms and roles

    def _hear_leader(self, sender: i64, term: i64) -> bool:
        """Word of the leader of `term`; False: from an old leader, which gets an answer."""
        if term < self.term:
            response = AppendResponse(self.term, False, 0, self.commit_index)
            self._outbox.messages_after_sync.append((sender, response))
            return False
        assert self._leading is None or term > self.term  # one leader in a term
        if term > self.term or self.role != FOLLOWER or self.leader != sender:
            assert term > self.term or self.leader in (0, sender)
            self._follow(term, sender)
        self._election.heard()
        return True

    def _follow(self, term: i64, leader: i64) -> None:
        if term > self.term:
            self._set_hard_state(term, 0)
        if self._leading is not None:
            self._leading.end()
            self._leading = None
        self._alone_index = 0
        self.role = FOLLOWER
        self.leader = leader
        self._outbox.withdraw()
        self._election.wait()

    def _may_be_elected(self) -> bool:
        """A voter; or one whose removal is in the log and not known to be committed: it may be the
        only one that has it, and no other can be elected then (4.2.2)."""
        configs = self._replica.configs
        if self.member in configs.current.voters:
            return True
        is_open = configs.index > self.commit_index
        return is_open and self.member in configs.at(configs.index - 1).voters

    def _pre_campaign(self) -> None:
        self.role = PRE_CANDIDATE
        self.leader = 0
        self._ask_votes(self.term + 1, True, False)

    def _campaign(self, is_transfer: bool) -> None:
        self.role = CANDIDATE
        self.leader = 0
        assert self.term < TERM_MAX
        self._set_hard_state(self.term + 1, self.member)
        self._ask_votes(self.term, False, is_transfer)

    def _ask_votes(self, term: i64, is_pre_vote: bool, is_transfer: bool) -> None:
        """A pre-vote is not binding; a vote is asked for when the own one is durable."""
        self._is_dirty = True
        self._outbox.withdraw()
        self._election.attempt(self.member, is_pre_vote)
        voters = self._replica.configs.current.voters
        if self._election.is_won(voters):
            if is_pre_vote:
                self._win()
            else:
                self._open_alone()
            return
        request = VoteRequest(
            term, self._log.last_index, self._log.last_term, is_pre_vote, is_transfer
        )
        outbox = self._outbox
        messages = outbox.messages if is_pre_vote else outbox.messages_after_sync
        for voter in voters:
            if voter != self.member:
                messages.append((voter, request))

    def _ask_who_leads(self) -> None:
        """Of a learner whose leader sleeps: a leader answers who asks for a vote. None is given,
        for it says that it has no log."""
        self._is_dirty = True
        self._election.attempt(self.member, True)
        request = VoteRequest(self.term, 0, 0, True, False)
        for voter in self._replica.configs.current.voters:
            self._outbox.messages.append((voter, request))

    def _win(self) -> None:
        """A majority is for it."""
        if self.role == PRE_CANDIDATE:
            self._campaign(False)
            return
        assert self.role == CANDIDATE
        self._lead(self._log.last_index + 1)
        self._append_own(NOOP, (), ())

    def _open_alone(self) -> None:
        """Elected by itself: it leads when its term is durable, for a crash would take that back,
        and it would lead in the same term again. The first entry is written behind the term."""
        index = self._log.last_index + 1
        self._alone_index = index
        self._replica.append(Entry(index, self.term, NOOP, (), (), self.term))

    def _lead(self, first_index: i64) -> None:
        """From the entry that opens the term on, which is in the log or is the next."""
        self._alone_index = 0
        self.role = LEADER
        self.leader = self.member
        self._election.heard()
        self._leading = Leadership(
            self.member,
            self.term,
            first_index,
            self._log,
            self._outbox,
            self._settings,
            self._replica.configs.current,
            self._unreachable,
            self._held,
        )

    def _set_hard_state(self, term: i64, vote: i64) -> None:
        assert term > self.term or (term == self.term and self.vote in (0, vote))
        if term != self.term or vote != self.vote:
            self.term = term
            self.vote = vote
            self._hard_state_has_moved = True

    # Entries and commits

    def _append_own(self, kind: i64, parts: Sequence[bytes], attached: Sequence[bytes]) -> int:
        leading = self._leading
        assert leading is not None
        self._wake(leading)
        index = self._log.last_index + 1
        self._log.append(Entry(index, self.term, kind, parts, attached, self.term))
        return index

    def _change(self, config: Config) -> int:
        leading = self._leading
        assert leading is not None
        self._wake(leading)
        next_index = self._log.last_index + 1
        leading.configure(config, self._unreachable, self._held, next_index)
        index = self._append_own(CONFIG, (encode_config(config),), ())
        self._replica.configure(index, config)
        return index

    def _wake(self, leading: Leadership) -> None:
        """After a time without ticks no peer was heard: start the check for a majority again."""
        self._is_dirty = True
        if self.commit_index == self._log.last_index and leading.is_idle(self.commit_index):
            leading.elapsed = 0

    def _maybe_commit(self, leading: Leadership) -> None:
        """Entries of older terms are committed by one of this term behind them (3.6.2)."""
        config = self._replica.configs.current
        index = leading.agreed_index(config.voters, self._replica.durable_index)
        if index <= self.commit_index or index < leading.first_index:
            return
        self._commit_to(index)
        if self.member not in config.voters and self._replica.configs.index <= index:
            leading.send_last_commit(config.voters, self.commit_index)
            self._follow(self.term, 0)

    def _commit_to(self, index: i64) -> None:
        if index <= self.commit_index:
            return
        assert index <= self._log.last_index
        self.commit_index = index
        self._incoming.passed(index)

    # What is to be done

    def ready(self) -> Ready:
        """Take all that is to be done; the order is in raft/ready.py."""
        self._is_dirty = False
        leading = self._leading
        if leading is not None:
            leading.send(self.commit_index)
            leading.finish_reads(self._replica.configs.current.voters)
        result = Ready()
        if self._hard_state_has_moved:
            self._hard_state_has_moved = False
            result.hard_state = HardState(self.term, self.vote)
        self._replica.hand_over(result)
        if not self._incoming.is_empty:
            self._incoming.take(result)
        if self.applied_index < self.commit_index:
            self._take_committed(result)
        self._outbox.take(result, self.term, self.commit_index)
        self._take_news(result)
        return result

    def _take_news(self, result: Ready) -> None:
        leading = self._leading
        is_ready = leading is not None and self.applied_index >= leading.first_index
        self._tell_lead(result, is_ready)

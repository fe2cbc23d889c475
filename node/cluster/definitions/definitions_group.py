"""The definitions of a cluster as one log group with a member on each node (0037).

    definitions = DefinitionsGroup(peers, user, store, now_ms)    # then `join`
    definitions.propose(command, done)       # on any node
    definitions.step(now_ms)                 # in each turn in which `user.mark` was called

Takes commands of this node and hands them, batched per turn and numbered, to the leader, which puts
those of all nodes into entries (`definitions_leader`); gives the user the changes of each committed
entry, in the order of the log, and each proposer its outcome, once the entry is applied here and by
every member that this node trusts and that serves clients. Each node tells those whose batches are
in an entry that it has applied it; a node that missed that, because a link broke, hears when it
stands again. Batches are sent again when there is another leader, another link, or after RESEND_MS.

Owns the group (`GroupOwner`), the part of the link (`PeerChannel`), and whatever is under way.
Limits:
`definitions_outbox`, `definitions_store`. Without a majority changes time out, reading goes on. A
process that finds that the others have given it up starts again (`DefinitionsUser.given_up`).
"""

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final, Protocol

from node.cluster.cluster_interfaces import CONTROL_LANE, DEFINITIONS, Peers
from node.cluster.definitions.definitions_frames import (
    Applied,
    Forwarded,
    decode,
    encode_applied,
    encode_forwarded,
)
from node.cluster.definitions.definitions_leader import GRACE_MS, Leading
from node.cluster.definitions.definitions_outbox import ANSWER_MS, Outbox, Sent
from node.cluster.definitions.definitions_store import INCARNATION, DefinitionsStore
from node.events.authors import BROKER, Author
from queues.definitions.broker_objects import Queue
from queues.definitions.members import Member, Process
from queues.definitions.metadata.commands import Command, NodeUp, Numbered
from queues.definitions.metadata.entries import decode_entry
from queues.definitions.metadata.machine import Metadata
from queues.definitions.metadata.outcomes import Added, Batched, Change, Outcome, Refused, Removed
from queues.definitions.metadata.stream import members_of
from queues.hosts.host_interfaces import Steppable
from raft.entries import COMMAND, Config, Entry, SnapshotPoint
from raft.group import Group
from raft.host import RaftHost, host_settings
from raft.log_group import METADATA_OWNER
from raft.messages import SnapshotSlice
from raft.ready import Lead
from raft.recovery import Restored
from raft.settings import Settings

log = logging.getLogger("warren.cluster")

RESEND_MS: Final = 1_000
EVERYWHERE: Final = 1 << 62
EARLY_MAX: Final = 256  # batches that a member keeps that is elected and not ready to lead


class DefinitionsUser(Protocol):
    """The broker, as the group sees it."""

    @property
    def metadata(self) -> Metadata: ...

    @property
    def node_name(self) -> str: ...

    @property
    def incarnation(self) -> int:
        """Of this process."""

    def mark_definitions(self, group: Steppable, is_later: bool) -> None:
        """Call `step` of the group in this turn, or, `is_later`, in the next one."""

    def carry(self, changes: Sequence[Change]) -> Mapping[int, int]:
        """Bring routers and hosts to what the machine says; what was ready in queues that went."""

    def carried(self) -> None:
        """A great many changes are through: nothing that was remembered meanwhile holds."""

    def answer(
        self, done: Callable[[Outcome], None], outcome: Outcome, ready: Mapping[int, int]
    ) -> None:
        """Tell a proposer."""

    def proposal_applied(self, outcome: Outcome, author: Author) -> None:
        """What this process has proposed is applied here, once."""

    def is_born_here(self, queue: Queue) -> bool:
        """Whether its messages may come into the log of this node, and outlive a restart."""

    def unborn(self, queue: Queue) -> None:
        """A queue that was found in the log, and is none: its messages may go."""

    def given_up(self) -> None:
        """The others have given this process up: close what its clients have, draw another
        incarnation."""


class GroupStatus:
    """How the definitions stand on this node (`definitions_seam.DefinitionsStatus`)."""

    def __init__(
        self,
        leader: int,
        term: int,
        applied_index: int,
        waiting: int,
        lags: dict[int, int],
        config: Config,
    ) -> None:
        self.leader = leader
        self.term = term
        self.applied_index = applied_index
        self.waiting = waiting
        self.lags = lags
        self.voters = config.voters
        self.learners = config.learners


class DefinitionsGroup:
    """See the module. All calls in a turn, on the loop thread."""

    def __init__(
        self,
        peers: Peers,
        user: DefinitionsUser,
        store: DefinitionsStore,
        now_ms: Callable[[], int],
        grace_ms: int = GRACE_MS,
        answer_ms: int = ANSWER_MS,
    ) -> None:
        self.on_changed: list[Callable[[Member | None, Member | None], None]] = []
        self.on_process: list[Callable[[str, int, bool], None]] = []
        self.found: Callable[[], Command | None] = nothing_to_found
        self.group: Group
        self._peers = peers
        self._user = user
        self._store = store
        self._machine = store.machine = user.metadata
        self._now_ms = now_ms
        self._grace_ms = grace_ms
        self._outbox = Outbox(user.incarnation, answer_ms)
        self._outbox.on_applied = user.proposal_applied
        self._lead = Lead(0, 0, False)
        self._leading: Leading | None = None
        self._applied: dict[int, Applied] = {}  # by member, as it said last
        self._lagging: set[int] = set()  # members reported to the log as lagging
        self._asking: dict[int, None] = {}  # members that wait for what is applied here
        self._switching: Iterator[list[Change]] | None = None
        self._switched: Callable[[], None]
        self._caught_up_index = -1
        self._resend_ms = 0
        self._is_marked = False
        self._early: list[Forwarded] = []  # came before this member leads for good
        self._is_given_up = False
        self._is_serving = False
        self._members: dict[int, Member] = dict(self._machine.roster.members)

    def attach(self) -> None:
        """Take the frames of its kind; before the links begin."""
        self._peers.attach(DEFINITIONS, self)

    def join(self, host: RaftHost, restored: Restored, settings: Settings | None = None) -> None:
        """Begin with what a start has found."""
        self._caught_up_index = restored.last_index
        self.group = host.add(
            METADATA_OWNER, INCARNATION, restored, self, settings or group_settings()
        )
        self._store.group = self.group
        self._begin_process()
        self._look_for_unborn()

    def _begin_process(self) -> None:
        self.propose(NodeUp(self._user.node_name, self._peers.member, self._outbox.process))

    # What others ask (definitions_seam.Definitions)

    @property
    def cluster_id(self) -> int:
        return self._machine.roster.cluster_id

    @property
    def is_leader(self) -> bool:
        return self._leading is not None

    @property
    def leader(self) -> int:
        return self._lead.leader

    @property
    def membership_index(self) -> int:
        return self._machine.roster.changed_index

    @property
    def applied_index(self) -> int:
        return self._machine.applied_index

    def propose(
        self,
        command: Command,
        done: Callable[[Outcome], None] | None = None,
        author: Author = BROKER,
    ) -> None:
        self._outbox.add(command, done, self._now_ms(), author)
        self._mark()

    def members(self) -> list[Member]:
        return [each for _, each in sorted(self._machine.roster.members.items())]

    def member_named(self, name: str) -> Member | None:
        return self._machine.roster.named(name)

    def process_of(self, name: str) -> int:
        return self._machine.processes.incarnation_at(name)

    def status(self) -> GroupStatus:
        last = self._machine.applied_index
        lags = {each: max(0, last - told.index) for each, told in self._applied.items()}
        config = self.group.raft.config
        lead = self._lead
        return GroupStatus(lead.leader, lead.term, last, self._outbox.waiting_count, lags, config)

    def serve(self) -> None:
        """Clients may come to this node from now on: what is declared elsewhere is to be known
        here before it is answered."""
        self._is_serving = True
        self._tell_all()

    def save(self) -> None:
        """Save the rows, unless that is going on or has to wait; for a clean stop."""
        self._store.save()

    def when_saved(self, done: Callable[[], None]) -> None:
        """Save soon; call `done` once a start of this node would know all that is applied now."""
        self._store.when_saved(done)

    @property
    def is_saving(self) -> bool:
        return self._store.is_saving

    # The turn

    def _mark(self) -> None:
        if not self._is_marked:
            self._is_marked = True
            self._user.mark_definitions(self, False)

    def step(self, now_ms: int) -> None:
        """What has come up since the last one."""
        self._is_marked = False
        if self._switching is not None:
            self._switch()
        if self._is_given_up:
            self._begin_anew()
        for sent in self._outbox.form():
            self._forward(sent)
        if self._leading is not None:
            self._leading.propose()
        asking = self._asking
        self._asking = {}
        for member in asking:
            self._tell_applied(member)
        self._answer()

    def tick(self, now_ms: int) -> None:
        """Some time has passed: about a tenth of a second. `now_ms` is monotonic."""
        self._outbox.expire(now_ms)
        if self._leading is not None:
            self._leading.tick(now_ms)
        if self._outbox.open and now_ms >= self._resend_ms:
            self._resend()
        self._store.tick()
        self._mark()

    def is_trusted(self, member: int) -> bool:
        return self._peers.is_trusted(member)

    @property
    def process(self) -> int:
        return self._outbox.process

    def _forward(self, sent: Sent) -> None:
        leader = self._lead.leader
        if leader == self._peers.member:
            if self._leading is not None:
                self._leading.received(sent.forwarded)
        elif leader != 0:
            parts = encode_forwarded(sent.forwarded)
            self._peers.send(leader, DEFINITIONS, CONTROL_LANE, parts)

    def _resend(self) -> None:
        """The leader may not have what is under way."""
        self._resend_ms = self._now_ms() + RESEND_MS
        for sent in self._outbox.open:
            self._forward(sent)
        self._mark()

    def _answer(self) -> None:
        index = self._outbox.next_index
        everywhere = self._everywhere_index() if index else 0
        for done, outcome, ready in self._outbox.take_answers(everywhere, self._now_ms()):
            self._user.answer(done, outcome, ready)
        if index and self._outbox.unwaited_index > everywhere:
            self._tell_lagging(self._outbox.unwaited_index)

    def said_by(self, member: int) -> Applied | None:
        """How far another member is, as it said last."""
        return self._applied.get(member)

    @property
    def is_switching(self) -> bool:
        """Whether the changes of an installed snapshot are still being reported."""
        return self._switching is not None

    def _tell_lagging(self, index: int) -> None:
        """Once of each that is not waited for, until it is as far as this node."""
        for member, told in self._applied.items():
            is_waited_for = told.is_serving and self._peers.is_trusted(member)
            if not is_waited_for or told.index >= index or member in self._lagging:
                continue
            self._lagging.add(member)
            row = self._members.get(member)
            log.warning(
                "node '%s' is %d changes of the definitions behind: they are answered without it",
                *("" if row is None else row.name, self._machine.applied_index - told.index),
            )

    def _everywhere_index(self) -> int:
        """All who are to be waited for have applied up to there."""
        lowest = EVERYWHERE
        config = self.group.raft.config
        for member in config.members():
            if member == self._peers.member or not self._peers.is_trusted(member):
                continue
            told = self._applied.get(member)
            if told is None and member in config.voters:
                return 0
            if told is not None and told.is_serving:
                lowest = min(lowest, told.index)
        return lowest

    def _tell_all(self) -> None:
        for member in self._peers.members():
            self._tell_applied(member)

    def _tell_applied(self, member: int) -> None:
        if member != self._peers.member:
            told = Applied(self._machine.applied_index, self._is_serving)
            self._peers.send(member, DEFINITIONS, CONTROL_LANE, encode_applied(told))

    def _begin_anew(self) -> None:
        self._is_given_up = False
        self._user.given_up()
        self._outbox.begin_anew(self._user.incarnation)
        self._begin_process()

    # The link (PeerChannel)

    def peer_connected(self, member: int) -> None:
        self._applied.pop(member, None)
        self._tell_applied(member)
        if member == self._lead.leader:
            self._resend()

    def peer_lost(self, member: int) -> None:
        self._applied.pop(member, None)
        self._lagging.discard(member)
        self._mark()

    def peer_removed(self, member: int) -> None:
        self.peer_lost(member)

    def peer_received(self, member: int, payload: memoryview) -> None:
        told = decode(payload)
        if isinstance(told, Applied):
            self._applied[member] = told
            if told.index >= self._machine.applied_index:
                self._lagging.discard(member)
        elif self._leading is not None:
            self._leading.received(told)
        elif self.group.is_leader and len(self._early) < EARLY_MAX:
            self._early.append(told)
        self._mark()

    # The group (GroupOwner)

    def store(self, entry: Entry) -> None:
        """Nothing is stored beside the entries."""

    def truncated(self, index: int) -> None:
        """What was proposed there is sent again."""

    def apply(self, entries: Sequence[Entry]) -> None:
        for entry in entries:
            if entry.kind == COMMAND:
                self._apply(entry.index, b"".join(entry.parts))
            else:
                self._machine.pass_over(entry.index)
        self._look_for_unborn()
        self._store.applied()
        if self._leading is not None:
            self._leading.look()
        self._mark()

    def _apply(self, index: int, content: bytes) -> None:
        batch = decode_entry(content)
        outcome = self._machine.apply(index, batch)
        assert isinstance(outcome, Batched)
        ready = self._carry(index, outcome.changes)
        for command, each in zip(batch.commands, outcome.outcomes, strict=True):
            if not isinstance(command, Numbered):
                continue
            if command.process == self._outbox.process:
                self._outbox.applied(index, command.number, each, ready, self._now_ms())
                self._is_given_up |= isinstance(each, Refused)
            else:
                batches = self._machine.processes.batches.get(command.process)
                if batches is not None:
                    self._asking[batches.process.member] = None

    def _carry(self, index: int, changes: Sequence[Change]) -> Mapping[int, int]:
        self._note_births(index, changes)
        ready = self._user.carry(changes)
        if self._machine.roster.changed_index == index:
            self._members_changed(members_of(changes))
        return ready

    def _note_births(self, index: int, changes: Sequence[Change]) -> None:
        for change in changes:
            queue = change.subject
            if isinstance(change, Removed) or not isinstance(queue, Queue):
                continue
            if self._user.is_born_here(queue):
                self._store.births.add(index, queue)

    def _members_changed(self, changes: Sequence[Change]) -> None:
        for change in changes:
            subject = change.subject
            if isinstance(subject, Member):
                after = None if isinstance(change, Removed) else subject
                before = self._members.pop(subject.id, None)
                if after is not None:
                    self._members[subject.id] = after
                elif self._leading is not None:
                    self._leading.forget(subject.name)
                for told in self.on_changed:
                    told(before, after)
            elif isinstance(subject, Process):
                self._process_changed(subject, isinstance(change, Added))

    def _process_changed(self, process: Process, is_up: bool) -> None:
        if not is_up and process.incarnation == self._outbox.process:
            self._is_given_up = True
        for told in self.on_process:
            told(process.node, process.incarnation, is_up)

    def _look_for_unborn(self) -> None:
        """What was found in the log at the start is applied, or was replaced."""
        if 0 <= self._caught_up_index <= self._machine.applied_index:
            self._caught_up_index = -1
            for queue in self._store.births.unconfirmed():
                self._user.unborn(queue)

    def outcome(self, first: int, last: int, term: int, outcome: int) -> None:
        """Batches have numbers of their own."""

    def lead(self, lead: Lead) -> None:
        before = self._lead
        self._lead = lead
        if lead.is_ready:
            if self._leading is None or before.term != lead.term:
                self._leading = Leading(
                    self._machine, self.group, self, self._found, self._grace_ms
                )
                for batch in self._early:
                    self._leading.received(batch)
                self._leading.look()
            self._early = []
        else:
            self._leading = None
            if lead.leader != self._peers.member:
                self._early = []
        if lead.leader and (before.leader != lead.leader or before.is_ready != lead.is_ready):
            self._resend()

    def _found(self) -> Command | None:
        return self.found()

    def configured(self, config: Config) -> None:
        if self._leading is not None:
            self._leading.look()
        self._mark()

    def reattach(self, entries: Sequence[Entry], done: Callable[[Sequence[Entry]], None]) -> None:
        done(entries)

    def read_slice(
        self, index: int, number: int, done: Callable[[Sequence[bytes] | None, bool], None]
    ) -> None:
        self._store.read_slice(index, number, done)

    def stage(
        self, piece: SnapshotSlice, point: SnapshotPoint | None, done: Callable[[], None]
    ) -> None:
        if point is None:
            self._store.stage(piece, done)
            return

        def begun(changes: Iterator[list[Change]]) -> None:
            self._switching = changes
            self._switched = done
            self._mark()

        self._store.stage(piece, ignored)
        self._store.install(point, begun)

    def drop_staged(self) -> None:
        self._store.drop_staged()

    # A snapshot that has come in

    def _switch(self) -> None:
        """Bring the broker some steps nearer to what the machine has become."""
        assert self._switching is not None
        changes = next(self._switching, None)
        if changes is not None:
            self._carry_all(changes)
            self._user.mark_definitions(self, True)  # The rest in turns to come.
            return
        self._switching = None
        self._user.carried()
        known = self._machine.processes.batches.get(self._outbox.process)
        if known is not None:
            self._outbox.passed_over(self._machine.applied_index, known, self._now_ms())
        elif self._outbox.process in self._machine.processes.ended:
            self._is_given_up = True
        self._switched()
        self._look_for_unborn()
        self._tell_all()  # It is unknown who asked for what the snapshot has passed over.

    def _carry_all(self, changes: list[Change]) -> None:
        self._note_births(self._machine.applied_index, changes)
        self._user.carry(changes)
        self._members_changed(members_of(changes))


def group_settings() -> Settings:
    """Of the core: as for all groups, but callers wait for commits."""
    settings = host_settings()
    settings.tells_commits_at_once = True
    return settings


def nothing_to_found() -> Command | None:
    """Another node founds."""
    return None


def ignored() -> None:
    """The answer is given with the whole."""

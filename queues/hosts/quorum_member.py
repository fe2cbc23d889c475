"""A quorum queue on a node that has a member of its group (0011). Compiled.

Every member applies what is committed, the leader alone speaks: of the effects a follower takes
what concerns bodies. Sessions of all nodes come in through `hand_down` with numbered commands
(`queues.remote.remote_interfaces.HomeEnd`); what a leader loses is sent again by them, to the
leader of that time, so nothing reports a proposal that is lost.

A leader begins when all entries of older terms are applied here: with `Leads(term)`, behind which
messages are numbered from term << 40 | 1 on, and with the queue's options where they have changed.
It makes one entry of what a turn brought, with the bodies in the log before it; while the group
takes nothing more, what comes waits, and its senders for their credit. It alone looks at the time.
Acknowledgements alone, while no message waits for a consumer, make no entry for SETTLE_WAIT_MS:
they go with the next publish. What was acknowledged in that time may come again, flagged as
redelivered, if the leader is lost.

Bodies are in `quorum_bodies`, snapshots in `quorum_snapshot`, entries in `quorum_entry`. Owns the
member's role and what is on its way to the group; `QueueCore` has the machine and the bodies,
`EntryApply` the sinks. Keeps `raft.log_group.GroupOwner`. An unreadable entry stops the node.

    member = QuorumMember(node, core, shelf)
    member.begin_new(config, birth, join) | member.load(standing, state), ..., member.recovered()
    member.join(group)
"""

from collections import deque
from collections.abc import Callable, Sequence
from typing import Final, final

from mypy_extensions import i64

from queues.dead_lettering.at_least_once_worker import AtLeastOnceWorker
from queues.hosts.entry_apply import EntryApply
from queues.hosts.host_interfaces import DeadLetterPublisher
from queues.hosts.queue_core import QueueCore
from queues.hosts.quorum_bodies import Bodies, BodyReader, Gathering
from queues.hosts.quorum_entry import (
    decode_member_entry,
    encode_member_entry,
    is_acknowledgement,
    put_run,
    range_of,
    take_attached,
)
from queues.hosts.quorum_recovery import born_in, is_mirror, mirror_birth
from queues.hosts.quorum_snapshot import Incoming, Outgoing, Shelf, Slicing, Standing
from queues.machine.commands import (
    TERM_SHIFT,
    Command,
    Configure,
    DropLost,
    EndSession,
    Inspect,
    Leads,
    SessionId,
    Tick,
    enqueue_of,
)
from queues.machine.consuming.numbered_sessions import Resume, Resumed
from queues.machine.effects import DeadLettersPending
from queues.machine.expiry import FAR
from queues.machine.fifo import Fifo
from queues.machine.fifo_snapshot import Thawing
from queues.machine.options import Options
from queues.message import Chunk
from queues.queue_host import SessionSink, View
from queues.remote.remote_interfaces import StreamSink
from queues.sessions.credit import CreditActor
from raft.entries import COMMAND, CONFIG, Config, Entry, SnapshotPoint
from raft.group import Group, WantedMembers
from raft.messages import SnapshotSlice
from raft.ready import Lead
from raft.ring import Ring
from raft.ring_view import RingView
from raft.status import Status

SNAPSHOT_ENTRIES: Final = 4096
LATE_ENTRIES: Final = 16  # times as many, while a peer receives the last one or it is new
LATE_BYTES: Final = 16 << 20  # of entries; with so much it is new no longer
SNAPSHOT_REST_MS: Final = 10_000  # so long it is new: each one costs the disk a sync
REATTACH_BYTES: Final = 1 << 20  # bodies with entries for one who is behind, in one go
CAMPAIGN_MS: Final = 50  # until it is tried again by the member that is to lead a new queue
RETRY_MS: Final = 20  # until what the group did not take is proposed again
CHANGE_MS: Final = 200  # until a change of the members that was refused is tried again
SETTLE_WAIT_MS: Final = 20  # acknowledgements wait for other commands, if no message waits
SETTLES_WAIT_MAX: Final = 1024  # so many of them
CAMPAIGNS: Final = 20
UNTIMED: Final = -1  # of a batch: the turn says what time it is

OnLead = Callable[[int, int, int, bool], None]  # uid, leader or 0, term, leads here and is ready


@final
class Batch:
    """Commands that are proposed together, with the bodies beside them."""

    __slots__ = ("attached", "commands", "is_bare", "message_first", "now_ms", "owed", "place")

    def __init__(self, now_ms: i64, message_first: i64, commands: list[Command]) -> None:
        self.now_ms: i64 = now_ms
        self.message_first: i64 = message_first
        self.commands = commands
        self.attached: list[bytes] = []
        self.is_bare = False  # its messages are not attached, for there is no other member
        self.owed: list[tuple[CreditActor, int]] = []  # whose messages these are
        self.place: tuple[int, int] = (0, 0)  # index and term, once it is proposed


@final
class Mirror:
    """What a member of a mirror ring has beside others."""

    def __init__(self) -> None:
        self.joined: i64 = 0  # the epoch in which it joined; 0: it is not one of a ring
        self.next_view: RingView | None = None  # taken as soon as entries are applied
        self.wanted_index: i64 = 0  # its right neighbour needs a snapshot there or behind it
        self.on_lost: Callable[[int], None] | None = None  # it leads, and lacks messages
        self.is_retiring = False  # the queue becomes a plain one: nothing more is taken
        self.is_retired = False  # and it leads no more


@final
class QuorumMember:
    """See the module. Invariant: nothing is handed down, stepped or open unless `term` is set."""

    def __init__(
        self,
        node: i64,
        core: QueueCore,
        shelf: Shelf,
        snapshot_entries: i64 = SNAPSHOT_ENTRIES,
        slicing: Slicing | None = None,
        snapshot_rest_ms: i64 = SNAPSHOT_REST_MS,
    ) -> None:
        self.node: i64 = node  # member id
        self.core = core
        self.uid: i64 = core.uid
        self.vhost = core.vhost
        self.name = core.name
        self.term: i64 = 0  # in which it leads and takes commands; 0: it does not
        self.leader: i64 = 0
        self.on_lead: OnLead | None = None
        self.on_left: Callable[[int], None] | None = None  # its group has it no more
        self.applied_index: i64 = 0
        slicing = Slicing() if slicing is None else slicing
        self.bodies = Bodies(core, slicing.sweep_slots)
        self._entries = EntryApply(
            core, self.bodies, self._died, self._purged, self._follow_options
        )
        self.options = core.options  # what the definitions say
        self.reborn_term: i64 = 0  # its group restarted in it (0054); 0: it never did
        self._is_sweeping = False  # sessions of before that are ended first
        self._journal = core.journal
        self._turn = core.turn
        self._shelf = shelf
        self._reader = BodyReader(core, core.turn)
        wake, later, made = self._mark, self._mark_later, core.new_machine
        self.outgoing = Outgoing(self.uid, shelf, self._reader, slicing, wake, later)
        self._incoming = Incoming(
            self.uid, shelf, core.journal, self.bodies, later, made, slicing.pieces
        )
        self._group: Group | None = None
        self._birth = b""
        self._wanted = WantedMembers(node)
        self._inspects: list[StreamSink] = []  # to be answered in the next step
        self._commands: list[Command] = []
        self._settle_count: i64 = 0  # of them: acknowledgements, which may wait
        self._settle_due_ms: i64 = FAR  # then those that wait are proposed
        self._chunks: list[Chunk] = []
        self._owed: list[tuple[CreditActor, int]] = []
        self._stepped: deque[Batch] = deque()  # to be proposed when their bodies are written
        self._open: deque[Batch] = deque()  # proposed, and not known to be committed
        self._next_seq: i64 = 1  # of the leader's next message
        self._grows = False  # a member is to be added as soon as entries are applied
        self.mirror = Mirror()
        self._marked = False
        self._timer_ms: i64 = FAR
        self._campaigns: i64 = 0  # left, of a new queue that begins here
        self._at_least_once_worker: AtLeastOnceWorker | None = (
            None  # where it leads, once something died that is kept
        )
        self._snapshot_entries: i64 = snapshot_entries
        self._snapshot_rest_ms: i64 = snapshot_rest_ms
        self.snapshot_ms: i64 = 0  # when the last one was taken, by the machine's clock
        self.unsaved_bytes: i64 = 0  # of entries since then

    # What listings and sessions see

    @property
    def quorum(self) -> bool:
        return True

    @property
    def single_active(self) -> bool:
        return self.core.single_active

    @property
    def is_gone(self) -> bool:
        return self.core.is_gone

    @property
    def is_leading(self) -> bool:
        return self.term > 0

    @property
    def ready_count(self) -> int:
        return self.core.ready_count

    @property
    def checked_out_count(self) -> int:
        return self.core.checked_out_count

    @property
    def consumer_count(self) -> int:
        return self.core.consumer_count

    @property
    def credit(self) -> CreditActor:
        return self.core.credit

    def status(self) -> Status | None:
        """How the group stands, as this member sees it; None: it has not begun."""
        return None if self._group is None else self._group.raft.status()

    # HomeEnd

    def hand_down(self, sink: StreamSink, command: Command, chunk: Chunk | None) -> bool:
        """See HomeEnd. The chunk stays its owner's: what is kept here is another one."""
        if self.term == 0 or self.mirror.is_retiring:
            return False
        if not self._entries.takes(sink, command):
            return True
        core = self.core
        if chunk is not None:
            own = chunk.twin()
            enqueue = enqueue_of(command)
            assert enqueue is not None
            if enqueue.traits is None:
                enqueue.traits = core.traits(own)
            core.expect(own)
            count = own.count()
            sink.credit.send(core.credit, count)
            self._chunks.append(own)
            self._owed.append((sink.credit, count))
            traffic = self.bodies.traffic
            if traffic is not None:
                traffic.published(sink.session, own.size(), count)
        elif is_acknowledgement(command):
            self._settle_count += 1
        self._commands.append(command)
        self._mark()
        return True

    def resume(self, sink: StreamSink, wanted: Resume) -> Resumed | None:
        """See HomeEnd."""
        if self.term == 0 or self.mirror.is_retiring:
            return None
        self._entries.adopt(sink)
        return self.core.machine.resume(wanted)

    def inspect(self, sink: StreamSink) -> bool:
        """See HomeEnd."""
        if self.term == 0 or self.mirror.is_retiring:
            return False
        self._inspects.append(sink)
        self._mark()
        return True

    def _answer_inspects(self) -> None:
        """Answer from the applied state, as RabbitMQ does: a leader that is cut off may do so until
        it steps down. Only a queue that expires needs an entry, because using it postpones that."""
        sinks = self._inspects
        self._inspects = []
        core = self.core
        if core.machine.options.expires_ms >= 0:
            self._commands.append(Inspect(SessionId(0)))
        for sink in sinks:
            sink.on_inspect_ok(int(self.uid), core.ready_count, core.consumer_count)

    def forget_sink(
        self, session: SessionId, sink: StreamSink | None = None, is_cut_off: bool = False
    ) -> None:
        if sink is not None and self._entries.sink_of(session) is not sink:
            return
        if len(self._inspects) > 0:
            self._inspects = [sink for sink in self._inspects if sink.session != session]
        self._entries.forget(session)

    def view(self, sink: SessionSink, first: int, count: int) -> View | None:
        """See HomeEnd. None as well for what its session settled at another leader meanwhile."""
        if self.core.store.find_live(first) is None:
            return None
        return self.core.view(sink, first, count)

    def processes(self) -> set[int]:
        """Of all sessions that the queue knows of, or will."""
        return self._entries.processes()

    def suspended(self) -> set[int]:
        """Processes whose consumers get nothing, for their nodes could not be reached."""
        streams = self.core.machine.streams
        assert streams is not None
        return set(streams.suspended)

    def order(self, command: Command) -> bool:
        """A command of the node's own (a process that is gone, suspended, back); False: this node
        does not lead, and the leader receives it as well."""
        if self.term == 0:
            return False
        self._commands.append(command)
        self._mark()
        return True

    def configure(
        self, options: Options, dead_letter_publisher: DeadLetterPublisher | None
    ) -> None:
        """The definitions say so from now on; the leader has all members follow."""
        self.core.dead_letter_to(dead_letter_publisher)
        self.options = options
        self._follow_options()

    def _follow_options(self) -> None:
        """Have all members follow what the definitions say and consumers need, if this leads."""
        if len(self._stepped) > 0 and self._stepped[0].now_ms == UNTIMED:
            return  # The first batch of the term is yet to begin.
        if self.term > 0 and not self.core.options.same(self.core.wanted(self.options)):
            self._commands.append(self._configuration())
            self._mark()

    def _configure_first(self, batch: Batch) -> None:
        """Not before the leader is stepped: at a start the node steps no queue before it knows the
        definitions, and with older ones members would forget ids and drop messages."""
        machine = self.core.machine
        if machine.next_seq == 1 or not machine.options.same(self.core.wanted(self.options)):
            batch.commands.append(self._configuration())

    def _configuration(self) -> Configure:
        """Bodies of what is promised are in the store; of what is only handed down, here."""
        options = self.core.wanted(self.options)
        return self.core.reconfigured(options, self._next_seq, self._chunks)

    # The turn

    def _mark(self) -> None:
        if not self._marked:
            self._marked = True
            self._turn.mark_host(self)

    def _mark_later(self) -> None:
        if not self._marked:
            self._marked = True
            self._turn.mark_host_later(self)

    def on_timer(self) -> None:
        self._timer_ms = FAR
        self._mark()

    def step(self, now_ms: i64) -> None:
        """Make an entry of what was handed down, or of what time brings about."""
        self._marked = False
        group = self._group
        if self.core.is_gone:
            return
        self._work(group)
        if group is None:
            return
        if self.term == 0:
            self._campaign(group, now_ms)
            return
        if self._wanted.is_refused:
            self._turn.wake_host(self, int(now_ms) + CHANGE_MS)
            self._follow()
        if len(self._inspects) > 0:
            self._answer_inspects()
        if len(self._stepped) > 0:
            waiting = self._stepped[0]  # The first of its term, or what the group did not take.
            if waiting.now_ms == UNTIMED:
                waiting.now_ms = now_ms
                self._configure_first(waiting)
            self._journal.entry(self)
            return
        self._commands.extend(self.core.evaluated(self, self._next_seq - 1))
        if len(self._commands) == 0 and not self._is_due(now_ms):
            return
        if self._may_wait(now_ms):
            return
        batch = Batch(now_ms, self._next_seq, self._commands)
        batch.owed = self._owed
        batch.is_bare = self._is_sole(group)
        for chunk in self._chunks:
            if not batch.is_bare:
                batch.attached.extend(put_run(self._next_seq, chunk, 0, chunk.count()))
            self.bodies.promise_own(chunk, self._next_seq)
            self._next_seq += chunk.count()
        batch.commands.extend(self.core.evaluated(self, self._next_seq - 1))
        self._commands = []
        self._settle_count = 0
        self._settle_due_ms = FAR
        self._chunks = []
        self._owed = []
        self._stepped.append(batch)
        self._journal.entry(self)

    def _may_wait(self, now_ms: i64) -> bool:
        """Whether there are acknowledgements alone, and no message waits for their credit."""
        count = self._settle_count
        machine = self.core.machine
        if count < len(self._commands) or count >= SETTLES_WAIT_MAX or self.core.ready_count > 0:
            return False
        if machine.has_more() or now_ms >= machine.due_ms:
            return False
        if self._settle_due_ms == FAR:
            self._settle_due_ms = now_ms + SETTLE_WAIT_MS
        if now_ms >= self._settle_due_ms:
            return False
        self._turn.wake_host(self, int(self._settle_due_ms))  # Again: a wake may come earlier.
        return True

    def end_wait(self) -> bool:
        """The node stops: acknowledgements wait no longer. Whether some are not proposed yet."""
        if self._settle_count > 0:
            self._settle_due_ms = 0
            self._mark()
        return self.term > 0 and (self._settle_count > 0 or len(self._stepped) > 0)

    def _is_sole(self, group: Group) -> bool:
        """Whether this is the only member, and is to stay so: no entries are sent, so messages
        are in the log alone. To copy them is a fifth of what a message of 1 KB costs."""
        config = group.raft.config
        return (
            len(self._wanted.members) <= 1 and len(config.voters) == 1 and len(config.learners) == 0
        )

    def _forget_bare(self, group: Group) -> bool:
        """Before another member comes: no entry without its messages may be in memory, from where
        it would be sent. False: some are still to be applied."""
        for batch in self._stepped:
            if batch.is_bare:
                return False
        for batch in self._open:
            if batch.is_bare:
                return False
        group.raft.forget_all()
        return True

    def _work(self, group: Group | None) -> None:
        """What is done in slices: some of each (0009)."""
        if self.outgoing.is_writing:
            self.outgoing.work()
        elif group is not None:
            self.outgoing.write(group.raft.durable_index, self._saved)
        self._incoming.work()
        if self.bodies.sweep():
            self._mark_later()

    def _is_due(self, now_ms: i64) -> bool:
        """Whether time brings something about; then there is a command that has it come."""
        if len(self._open) > 0:
            return False  # What is under way brings the time with it.
        machine = self.core.machine
        if not machine.has_more() and now_ms < machine.due_ms:
            self._set_timer()
            return False
        self._commands.append(Tick())
        return True

    def _set_timer(self) -> None:
        due_ms = self.core.machine.due_ms
        if due_ms < self._timer_ms:
            self._timer_ms = due_ms
            self._turn.wake_host(self, due_ms)

    def propose(self) -> None:
        """The messages of what was stepped are in the log: so shall be its entries."""
        group = self._group
        if group is None or self.term == 0 or group.raft.term != self.term:
            return  # It leads no more, or again in another term: `lead` is about to tell.
        while len(self._stepped) > 0:
            batch = self._stepped[0]
            entry = encode_member_entry(batch.now_ms, batch.message_first, batch.commands)
            place = group.propose([entry], batch.attached)
            if place is None:  # Too much is under way, or a transfer; or `lead` is about to tell.
                self._turn.wake_host(self, int(batch.now_ms) + RETRY_MS)
                return
            self._stepped.popleft()
            batch.attached = []
            batch.place = place
            self._open.append(batch)
        if len(self._commands) > 0:
            self._mark_later()

    # GroupOwner: the log

    def store(self, entry: Entry) -> None:
        now_ms = self.core.machine.now_ms
        for first, chunk in take_attached(entry.attached):
            self.bodies.promise(chunk, first, now_ms)

    def truncated(self, index: int) -> None:
        """What was promised there goes when the machine passes over it."""

    def apply(self, entries: Sequence[Entry]) -> None:
        group = self._group
        assert group is not None
        for entry in entries:
            self.applied_index = entry.index
            for part in entry.parts:
                self.unsaved_bytes += len(part)
            if entry.kind == COMMAND:
                self._apply(entry)
            elif entry.kind == CONFIG:
                self._settle_members(group)
                if self._group is None:
                    return  # This node was removed, and has left.
        core = self.core
        core.store.tidy()
        if len(core.sweeps) > 0:
            self._mark_later()
        core.publish_dead_letters(core.machine.now_ms)
        if self.term > 0:
            core.pace_publishers(core.machine.now_ms)
            if len(self._stepped) > 0:
                self._mark_later()
            elif core.machine.has_more():
                self._turn.mark_host_later(self)
            elif core.wants_evaluation(self._next_seq - 1):
                self._mark()
            elif self._settle_count > 0 and core.ready_count > 0:
                self._mark()  # They wait no longer.
            else:
                self._set_timer()
        self._take_snapshot(group)
        if self._grows:
            self._grows = False
            self._follow()
        following = self.mirror.next_view
        if following is not None:
            self.take_view(following)

    def _apply(self, entry: Entry) -> None:
        core = self.core
        now_ms: i64 = 0
        message_first: i64 = 0
        batch = self._batch_of(entry)
        if batch is not None:
            commands = batch.commands
            now_ms = batch.now_ms
            message_first = batch.message_first
        else:
            content = entry.parts[0] if len(entry.parts) == 1 else b"".join(entry.parts)
            decoded = decode_member_entry(content)
            commands = decoded.commands
            now_ms = decoded.now_ms
            message_first = decoded.message_first
        if self.mirror.joined > 0 and core.machine.next_seq == 1:
            # A mirror that was promoted without what came before the entries that it has.
            core.machine.next_seq = message_first
            core.machine.is_partial = self._lossy_ring() is not None
        message_end = message_first
        for command in commands:
            enqueue = enqueue_of(command)
            if enqueue is not None:
                message_end += enqueue.count
        self._entries.apply(commands, now_ms, self.term > 0)
        assert core.machine.next_seq == message_end, "messages have other numbers than bodies"
        if batch is not None:
            for sender, count in batch.owed:
                core.credit.ack(sender, count)
        if self._is_sweeping and self.term > 0:
            self._swept()

    def _batch_of(self, entry: Entry) -> Batch | None:
        """What was proposed here for this place, if it is what came to be there."""
        if len(self._open) == 0:
            return None
        batch = self._open[0]
        if batch.place != (entry.index, entry.term):
            return None
        return self._open.popleft()

    def outcome(self, first: int, last: int, term: int, outcome: int) -> None:
        """Of what was lost the sessions hear from the next leader, which does not have it."""
        while len(self._open) > 0 and self._open[0].place[0] <= last:
            if self._open[0].place[1] > term:
                return
            self._open.popleft()

    # GroupOwner: who leads

    def lead(self, lead: Lead) -> None:
        leads = lead.is_ready and lead.leader == self.node
        if self.term > 0 and (not leads or lead.term != self.term):
            self._step_down()
        self.leader = lead.leader
        if lead.leader != 0:
            self._campaigns = 0
        if leads and self.term == 0 and not self.mirror.is_retired:
            self._take_over(lead.term)
        told = self.on_lead
        if told is not None:
            serves = self.term > 0 and not self._is_sweeping and not self.mirror.is_retiring
            told(int(self.uid), int(self.leader), int(lead.term), serves)

    def _take_over(self, term: i64) -> None:
        """All that older leaders have committed is applied here."""
        machine = self.core.machine
        self.term = term
        self._next_seq = term << TERM_SHIFT | 1
        self.core.options = machine.options
        self.core.evaluate_again()
        commands: list[Command] = [Leads(term)]
        has_lost = self._has_lost(term)
        if has_lost or machine.next_seq >> TERM_SHIFT < self.reborn_term:
            commands.extend(self._sweep())
            # Entries that were sent again came without bodies of what was settled by then.
            commands.append(DropLost(self.bodies.lost_below(machine.next_seq)))
        self._stepped.append(Batch(UNTIMED, self._next_seq, commands))
        self._mark()
        if machine.pending_dead_letters.count > 0:
            self._at_least_once_worker_here().begin(machine.pending_dead_letters)
        self._follow()

    def _lossy_ring(self) -> Ring | None:
        """The ring, if this mirror was promoted without being synchronised and has yet to lead."""
        raft = None if self._group is None else self._group.raft
        return raft if isinstance(raft, Ring) and raft.lost_index >= 0 else None

    def _has_lost(self, term: i64) -> bool:
        """Whether this mirror was promoted in that term without being synchronised."""
        ring = self._lossy_ring()
        if ring is None:
            return False
        ring.lost_index = -1
        lost = self.mirror.on_lost
        if lost is not None:
            lost(int(self.uid))
        return True

    def _sweep(self) -> list[Command]:
        """The first of a group that has restarted: what sessions know of it may be lost. All are
        ended before any session hears of the leader; who comes then finds that out."""
        streams = self.core.machine.streams
        assert streams is not None
        self._is_sweeping = True
        return [EndSession(session) for session in sorted(streams.by_session)]

    def _swept(self) -> None:
        """Its first entry is applied: sessions may come."""
        self._is_sweeping = False
        told = self.on_lead
        if told is not None:
            told(int(self.uid), int(self.leader), int(self.term), True)

    def _step_down(self) -> None:
        """Others lead: what was handed down is theirs, and so are the sessions."""
        self.term = 0
        self._is_sweeping = False
        self.core.forget_balance()
        at_least_once_worker = self._at_least_once_worker
        self._at_least_once_worker = None
        if at_least_once_worker is not None:
            at_least_once_worker.close()
        self._drop_work()
        for sink in self._inspects:
            self._entries.adopt(sink)
        self._inspects = []
        self._entries.lose_leadership()

    def _died(self, effect: DeadLettersPending) -> None:
        """Told where it leads alone."""
        self._at_least_once_worker_here().died(effect.first, effect.count, effect.reason)

    def _purged(self) -> None:
        if self._at_least_once_worker is not None:
            self._at_least_once_worker.purge()

    def _at_least_once_worker_here(self) -> AtLeastOnceWorker:
        at_least_once_worker = self._at_least_once_worker
        if at_least_once_worker is None:
            at_least_once_worker = AtLeastOnceWorker(self.core, self._turn, self._bury)
            self._at_least_once_worker = at_least_once_worker
        return at_least_once_worker

    def _bury(self, command: Command) -> None:
        self.order(command)

    def _drop_work(self) -> None:
        for chunk in self._chunks:
            self.core.store.cancel_reserve(chunk)
        self._commands = []
        self._settle_count = 0
        self._settle_due_ms = FAR
        self._chunks = []
        self._owed = []
        self._stepped.clear()

    def campaign_first(self) -> None:
        """The queue is new, and is to begin here: stand, until there is a leader."""
        self._campaigns = CAMPAIGNS
        self._mark()

    def _campaign(self, group: Group, now_ms: i64) -> None:
        if self._campaigns > 0 and self.leader == 0:
            self._campaigns -= 1
            group.campaign()
            self._turn.wake_host(self, now_ms + CAMPAIGN_MS)

    def transfer(self, member: int) -> bool:
        """Have another member lead; False: it cannot be tried here."""
        return self._group is not None and self._group.transfer(member)

    # Members

    def rebirth(self, term: i64) -> None:
        """The definitions say that the group restarted in that term; 0: it never did."""
        self.reborn_term = term

    def follow(self, members: tuple[int, ...]) -> None:
        """The definitions name these as members."""
        self._wanted.members = members
        self._follow()

    def is_wanted(self, node: int) -> bool:
        """Whether the definitions name the node, as far as is known."""
        return self._wanted.has(node)

    def configured(self, config: Config) -> None:
        """What is in the log may be taken back; what counts comes with `apply`."""

    def _settle_members(self, group: Group) -> None:
        """A change of the members is committed."""
        config = group.raft.config
        if self.node in config.members() or self._wanted.has(self.node):
            self._follow()
            return
        left = self.on_left
        if left is not None:
            left(int(self.uid))

    def _follow(self) -> None:
        """Take one step to the members that are wanted, if this node leads; later if refused."""
        group, wanted = self._group, self._wanted
        if group is None or self.term == 0 or self.mirror.joined > 0:
            return
        is_alone = len(group.raft.config.members()) == 1
        if is_alone and wanted.next(group) is not None and not self._forget_bare(group):
            self._grows = True  # Once they are applied.
            return
        was_refused = wanted.is_refused
        wanted.approach(group)
        if wanted.is_refused and not was_refused:
            self._mark()

    # GroupOwner: snapshots

    def _take_snapshot(self, group: Group) -> None:
        outgoing = self.outgoing
        outgoing.write(group.raft.durable_index, self._saved)
        is_busy = outgoing.is_busy or self.core.machine.is_partial  # That is not in a snapshot.
        behind = self.applied_index - group.raft.snapshot_index
        is_wanted = group.raft.snapshot_index < self.mirror.wanted_index <= self.applied_index
        if (behind < self._snapshot_entries and not is_wanted) or is_busy:
            return
        machine = self.core.machine
        if (
            not is_wanted
            and behind < LATE_ENTRIES * self._snapshot_entries
            and (group.raft.is_sending_snapshot or self._is_snapshot_new(machine.now_ms))
        ):
            return
        self.snapshot_ms = machine.now_ms
        self.unsaved_bytes = 0
        point = group.snapshot_point(int(self.applied_index))
        outgoing.take(Standing(point, machine.next_seq, self._birth), machine)
        outgoing.write(group.raft.durable_index, self._saved)

    def _is_snapshot_new(self, now_ms: i64) -> bool:
        """Whether so little has come since the last one that it may do for a while."""
        rested_ms = now_ms - self.snapshot_ms
        return 0 <= rested_ms < self._snapshot_rest_ms and self.unsaved_bytes < LATE_BYTES

    def _saved(self, point: SnapshotPoint) -> None:
        if self._group is not None:
            self._group.snapshot_taken(point)

    def reattach(self, entries: Sequence[Entry], done: Callable[[Sequence[Entry]], None]) -> None:
        ranges: list[tuple[int, int]] = []
        for entry in entries:
            ranges.append(range_of(entry))

        def gathered(wanted: Gathering) -> None:
            result: list[Entry] = []
            for place in range(len(wanted.found)):
                entry = entries[place]
                attached = wanted.found[place]
                result.append(
                    Entry(
                        entry.index,
                        entry.term,
                        entry.kind,
                        entry.parts,
                        attached,
                        entry.appended_term,
                    )
                )
            done(result)

        self._reader.gather(Gathering(ranges, REATTACH_BYTES, False, gathered))

    def read_slice(
        self, index: int, number: int, done: Callable[[Sequence[bytes] | None, bool], None]
    ) -> None:
        self.outgoing.read_slice(index, number, done)

    def stage(
        self, piece: SnapshotSlice, point: SnapshotPoint | None, done: Callable[[], None]
    ) -> None:
        now_ms = self.core.machine.now_ms
        if point is None:
            self._incoming.stage(piece, now_ms, done)
            return
        last = point

        def whole(machine: Fifo) -> None:
            self._install(last, machine, done)

        def staged() -> None:
            self._incoming.when_whole(whole)

        self._incoming.stage(piece, now_ms, staged)

    def _install(self, point: SnapshotPoint, fresh: Fifo, done: Callable[[], None]) -> None:
        """All slices are durable and decoded: have them count, then go on with them."""
        if self.core.is_gone:
            return
        standing = Standing(point, fresh.next_seq, self._birth)
        slice_count = self._incoming.slice_count
        self.outgoing.give_up()

        def installed() -> None:
            if self.core.is_gone:
                return
            self._incoming.finish(fresh)
            self._mark()  # What it does not have goes in slices.
            self.core.options = fresh.options
            self.applied_index = point.index
            self.outgoing.stands(standing, slice_count)
            done()

        self._incoming.install(standing, installed)

    def drop_staged(self) -> None:
        self._incoming.drop()

    # MirrorOwner

    def take_view(self, view: RingView) -> None:
        """The definitions decided this view of the mirror ring. A leader that was alone waits until
        no entry without its messages is left in memory."""
        self._wanted.members = view.members
        self.mirror.next_view = None
        group = self._group
        if group is None:
            return
        was_alone = len(group.raft.config.members()) == 1
        if was_alone and len(view.members) > 1 and not self._forget_bare(group):
            self.mirror.next_view = view  # Once they are applied.
            return
        group.change_view(view)

    def retire(self) -> bool:
        """Take nothing more, for the queue becomes a plain one of this node; whether everything is
        applied that was taken. Called again until it is; this member leads, or is about to."""
        mirror, group = self.mirror, self._group
        mirror.is_retiring = True
        if group is None or self.core.is_gone:
            return False
        if not mirror.is_retired:
            is_behind = self.core.machine.next_seq >> TERM_SHIFT < self.term
            is_idle = len(self._commands) + len(self._stepped) + len(self._open) == 0
            if self.term == 0 or is_behind or not is_idle:
                self.end_wait()  # No other command comes with which acknowledgements could go.
                self._mark()
                return False
            mirror.is_retired = True
            self._step_down()
            if self.on_lead is not None:
                self.on_lead(int(self.uid), int(self.leader), int(group.raft.term), False)
        self.outgoing.give_up()
        return self.applied_index == group.raft.last_index and len(self.core.sweeps) == 0

    def begin_at(self, point: SnapshotPoint, done: Callable[[], None]) -> None:
        def begun(at: SnapshotPoint) -> None:
            if not self.core.is_gone:
                self.applied_index = at.index
                done()

        if point.index == self.outgoing.index:
            begun(point)  # Nothing was committed so far: the first snapshot is the base.
            return
        self.outgoing.give_up()
        birth = mirror_birth(int(self.mirror.joined), True)
        self.outgoing.take(Standing(point, 1, birth), self.core.machine)
        self.outgoing.write(point.index, begun)
        self._mark()

    def snapshot_wanted(self, index: int) -> None:
        self.mirror.wanted_index = index
        group = self._group
        if group is not None:
            self._take_snapshot(group)

    # Beginning and end

    def begin_mirror(self, joined: int, done: Callable[[], None]) -> None:
        """A mirror that is new here and joined in that epoch, with the messages that the core has.
        `done` when it may take part."""
        self.mirror.joined = joined
        self.begin_new(Config(()), 0, mirror_birth(joined, False), done)

    def begin_new(
        self, config: Config, appended_term: i64, birth: bytes, done: Callable[[], None]
    ) -> None:
        """A member that is new: `config` as its group was founded, or empty for one that joins it.

        `done` when it may take part, for it will be found again. `appended_term`: the last one of
        an earlier member of the group on this node, or 0: what is left of its log is not taken for
        this one's.
        """
        self._birth = birth
        machine = self.core.machine
        point = SnapshotPoint(0, 0, appended_term, config)
        self.outgoing.take(Standing(point, machine.next_seq, birth), machine)

        def begun(at: SnapshotPoint) -> None:
            done()

        self.outgoing.write(0, begun)
        self._mark()

    def begin_again(self, point: SnapshotPoint, birth: bytes, done: Callable[[], None]) -> None:
        """The log was damaged, and this was the only member: go on at `point` with the messages
        that the core has. `done` when that is durable; then `join`."""
        machine = self.core.machine
        self._birth = birth
        self.applied_index = point.index
        self.outgoing.take(Standing(point, machine.next_seq, birth), machine)

        def begun(at: SnapshotPoint) -> None:
            done()

        self.outgoing.write(point.index, begun)
        self._mark()

    def load(self, standing: Standing, slices: Sequence[bytes]) -> None:
        """The node starts: the newest snapshot. Bodies are found next, then `recovered`."""
        thawing = Thawing(self.core.machine)
        for piece in slices:
            thawing.feed(piece)
        thawing.finish()
        self.core.options = self.core.machine.options
        self._birth = standing.birth
        if is_mirror(standing.birth):
            self.mirror.joined = born_in(standing.birth)
            self._birth = mirror_birth(int(self.mirror.joined), False)
        self.applied_index = standing.point.index
        self.outgoing.stands(standing, len(slices))

    def recovered(self) -> None:
        """All bodies were found."""
        self.bodies.recovered()

    def join(self, group: Group) -> None:
        """Take part in the group (`RaftHost.add`)."""
        self._group = group
        self._mark()

    def part(self) -> None:
        """The group has restarted without this member, which leaves when the others say so."""
        if self.term > 0:
            self._step_down()
        self.leader = 0
        self._group = None
        self._open.clear()

    def leave(self) -> None:
        """The definition is gone, or the group has no member here any more: all that is here of it
        goes. `QueueCore.delete` follows, and the part that added the group removes it."""
        self.core.settles = False  # The same messages may come again, if a member does.
        if self.term > 0:
            self._step_down()
        self._group = None
        self._open.clear()
        self.outgoing.close()
        self._reader.clear()
        self._incoming.drop()
        self._shelf.forget(int(self.uid))

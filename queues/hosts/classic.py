"""Host of a classic queue: the machine, its bodies, and the journal that makes it durable.

Commands of a turn are applied together in `step`; deliveries go out in the same turn, only the
confirm of a durable message waits for the sync. What the queue owns: its `Fifo`, its `Store`, the
sinks of the sessions that use it. Journaled are persistent messages of a durable queue and their
settlements; the rest is gone after a restart, and lives in memory or, above the node's budget, in
page files (`queues.bodies.paging`). A lazy queue has no bodies in memory beyond what rests there.

Messages that are to be dead-lettered stay in the store, and in the log, until they have been handed
to the exchange: they are *dying* (`queues.dead_lettering.dead_letter_reads`).

A quorum queue with its only member here has such a host inside (`queues.hosts.quorum`): it logs
the commands itself and calls `apply_batch` once they are committed. Compiled.
"""

from collections.abc import Callable
from typing import Final, final

from mypy_extensions import i64

from queues.bodies.extents import Columns
from queues.bodies.store import BodyBudget, Slot, Store
from queues.conversion.annotated import annotated_view
from queues.dead_lettering.dead_letter_reads import Burying
from queues.hosts.body_reads import UNSEEN_SLACK as UNSEEN_SLACK
from queues.hosts.body_reads import Reading
from queues.hosts.effect_dispatch import number_of, session_in, tell
from queues.hosts.found_state import Found, note_found, note_stretch
from queues.hosts.host_interfaces import DeadLetterPublisher as DeadLetterPublisher
from queues.hosts.host_interfaces import Steppable as Steppable
from queues.hosts.host_interfaces import Steps as Steps
from queues.hosts.host_interfaces import Waking as Waking
from queues.hosts.journal import Journal
from queues.hosts.session_users import Users
from queues.hosts.size_recount import sizes_in
from queues.hosts.sweeping import Remains, Sweep, runs_both, stored_runs
from queues.machine.commands import (
    Command,
    Configure,
    EndSession,
    Enqueue,
    SessionId,
    Tick,
)
from queues.machine.effects import (
    LEFT_ACCEPTED,
    DeadLettersPending,
    Delivers,
    Effect,
    Enqueued,
    Got,
    KnownAlready,
    LastConsumerGone,
    Left,
    Purged,
    QueueExpired,
    Refused,
)
from queues.machine.expiry import FAR
from queues.machine.fifo import Fifo
from queues.machine.options import DROP_HEAD, Options
from queues.machine.pending_dead_letters import DEATHS
from queues.machine.traits import Traits, decode_meta, traits_of
from queues.message import Chunk
from queues.queue_host import SessionSink, View
from queues.runs.seqset import SeqSet
from queues.sessions.counts import Capacity
from queues.sessions.credit import CreditActor
from warren.wire.amqp091.events import INFO_EXPIRATION, INFO_PERSISTENT, INFO_PRIORITY

MARK_STRIDE: Final = 2048  # deliveries between two delivered marks in the journal
SHIFT_SLOTS: Final = 1024  # of the store, looked at in a step after a change of mode
SHIFT_REST_MS: Final = 50  # while page files are behind

DEFAULT: Final = 0  # modes
LAZY: Final = 1
NO_CHUNKS: Final[list[Chunk]] = []  # of commands that bring none
LOGGED: Final = 2  # messages and commands are in the log before they are applied


@final
class ClassicHost:
    """A classic queue on this node."""

    def __init__(
        self,
        uid: i64,
        vhost: str,
        name: str,
        durable: bool,
        journal: Journal,
        budget: BodyBudget,
        turn: Steps,
        credit: CreditActor,
        auto_delete: bool = False,
        options: Options | None = None,
        mode: i64 = DEFAULT,
        dead_letter_publisher: DeadLetterPublisher | None = None,
    ) -> None:
        self.uid: i64 = uid
        self.vhost = vhost
        self.name = name
        self.durable = durable
        self.auto_delete = auto_delete
        self.mode: i64 = mode
        self.machine = Fifo(options)
        self.options = self.machine.options  # once all that was handed down is applied
        self.dead_letter_publisher = dead_letter_publisher
        self._parts = False  # from its undertaker, once what is dying is buried
        self.on_pending: Callable[[DeadLettersPending], None] | None = None  # machine keeps them
        self.on_purged: Callable[[], None] | None = None  # of the same, while it is led here
        self.store = Store(budget)
        self.credit = credit
        self.capacity = Capacity()
        self._journal = journal
        self._budget = budget
        self._turn = turn
        self._users = Users()
        self._commands: list[Command] | None = None  # None: there are none
        self._chunks: list[Chunk] | None = None  # of the Enqueue commands, in order
        self._marked = False
        self._gone = False
        self.damaged = False  # some bodies could not be read back
        self._mark: i64 = 0  # the last one in the journal
        self._reading = Reading(uid, self.store, budget, turn, mode != LOGGED)
        self._pending_dead_letters = Burying(self._reading, self.store, turn)
        self._timer_ms: i64 = FAR
        self._shift_end: i64 = 0  # messages before this one have yet to follow a change of mode
        # Confirms behind refusals.
        self._settled_late: list[tuple[SessionSink, int]] | None = None
        self._found: list[Found] = []  # what a recovery has found so far
        # LOGGED: of messages in the log, or on their way there, that are still to be applied.
        self.promised_first = self.promised_end = i64(1)
        self._moved: list[tuple[int, int, int, int, bytes]] | None = None  # of the promised
        self.promises: SeqSet | None = None  # of a member: not applied yet, with bodies here
        self.sweeps: list[Sweep] = []  # of a member: what snapshots have made dead
        self.settles = True  # for good: nothing that leaves comes again
        self.published_count: i64 = 0
        self.delivered_count: i64 = 0
        self.accepted_count: i64 = 0
        self.redelivered_count: i64 = 0
        self.refused_count: i64 = 0
        self.got_count: i64 = 0  # of those delivered, by basic.get

    @property
    def ready_count(self) -> int:
        return self.machine.ready.count

    @property
    def checked_out_count(self) -> int:
        return self.machine.checked_out

    @property
    def consumer_count(self) -> int:
        return self.machine.attached_count

    @property
    def is_gone(self) -> bool:
        return self._gone

    @property
    def is_burying(self) -> bool:
        """Whether messages wait to be dead-lettered."""
        return len(self._pending_dead_letters.runs) > 0

    @property
    def quorum(self) -> bool:
        return self.mode == LOGGED

    @property
    def single_active(self) -> bool:
        return self.machine.options.single_active

    # Handed down by sessions

    def publish(self, sink: SessionSink, chunk: Chunk, first_seq: i64) -> None:
        """Enqueue the whole chunk as the session's numbers first_seq.."""
        session = self._users.publishes(sink)
        count = chunk.count()
        sink.credit.send(self.credit, count)
        self.expect(chunk)
        if self._chunks is None:
            self._chunks = [chunk]
        else:
            self._chunks.append(chunk)
        self._hand_down(Enqueue(session, first_seq, count, self.traits(chunk)))

    def _hand_down(self, command: Command) -> None:
        """To be applied in this turn."""
        if self._commands is None:
            self._commands = [command]
        else:
            self._commands.append(command)
        if not self._marked:
            self._marked = True
            self._turn.mark_host(self)

    def expect(self, chunk: Chunk) -> None:
        """The chunk is to be applied: it stays, whatever other queues do with it until then."""
        self._see_lazy(chunk)
        self.store.reserve(chunk)

    def traits(self, chunk: Chunk) -> Traits | None:
        """What the machine must know of these messages."""
        options = self.options
        sized = options.bytes_max >= 0
        ranked = options.levels > 1 and (chunk.info & INFO_PRIORITY) != 0
        if not sized and not ranked and (chunk.info & INFO_EXPIRATION) == 0:
            return None
        known = chunk.traits
        if known is None or (sized and known.sizes is None):
            known = traits_of(chunk, sized)
            chunk.traits = known
        return known

    def configure(
        self, options: Options, mode: i64, dead_letter_publisher: DeadLetterPublisher | None
    ) -> None:
        """Other rules hold from now on; not for a queue in mode LOGGED."""
        if mode != self.mode:
            self.mode = mode
            self._shift_end = FAR  # What is in the queue follows, in slices.
            self._mark_self()
        self.bury_by(dead_letter_publisher)
        if not self.options.same(options):
            chunks = NO_CHUNKS if self._chunks is None else self._chunks
            self._hand_down(self.reconfigured(options, self.machine.next_seq, chunks))

    def bury_by(self, dead_letter_publisher: DeadLetterPublisher | None) -> None:
        """Dead letters go this way from now on. None: nowhere, once those that wait are through."""
        old = self.dead_letter_publisher
        self._parts = dead_letter_publisher is None and len(self._pending_dead_letters.runs) > 0
        if old is not dead_letter_publisher and old is not None and not self._parts:
            old.close()
        if not self._parts:
            self.dead_letter_publisher = dead_letter_publisher

    def reconfigured(self, options: Options, next_seq: i64, chunks: list[Chunk]) -> Configure:
        """The command for it; `chunks`, from `next_seq` on, were handed down and not applied."""
        begins = options.bytes_max >= 0 and self.options.bytes_max < 0
        self.options = options
        return Configure(options, sizes_in(self.store, next_seq, chunks) if begins else None)

    def adopt(self, sink: SessionSink) -> None:
        """The session is about to use the queue (of a host around this one)."""
        self._users.adopt(sink)

    def forget_sink(self, session: SessionId) -> None:
        """Nobody stands here for the session any more."""
        self._users.end(session)
        self._reading.end_session(session)

    def bytes_of(self, sink: SessionSink, first: i64, count: i64) -> View | None:
        """As `view`, of any messages in the store, and as they are stored."""
        return self._reading.view(self, sink, first, count)

    def take_found(self) -> list[Found]:
        """What a recovery has found, in no order."""
        found = self._found
        self._found = []
        return found

    def command(self, sink: SessionSink, command: Command) -> None:
        """Apply the command in this turn, after what was handed down before."""
        self._users.commands(sink)
        self._hand_down(command)

    def view(self, sink: SessionSink, first: i64, count: i64) -> View | None:
        """The head of these messages with their bytes, or None while they are being read, or
        while the log does not know yet that as much as that has been delivered.
        """
        noted = self.machine.annotations
        view = self._reading.view(self, sink, first, count)
        return view if view is None or len(noted.words) == 0 else annotated_view(view, noted)

    def mark_durable(self, message_seq: i64) -> None:
        """The log knows for good that messages up to this one may have been delivered."""
        self._reading.mark_durable(message_seq)

    # The turn

    def step(self, now_ms: i64) -> None:
        """Apply what was handed down, and what time brings about; carry the effects out."""
        self._marked = False
        if self._gone:
            return
        if self.mode == LOGGED:
            if len(self._pending_dead_letters.runs) > 0:
                self._bury(now_ms)
            return
        machine = self.machine
        commands = self._commands
        if commands is not None:
            self._commands = None
            chunks = NO_CHUNKS if self._chunks is None else self._chunks
            self._chunks = None
            self.apply_batch(commands, chunks, now_ms)
        elif now_ms >= machine.due_ms or machine.has_more():
            self.apply_batch([], NO_CHUNKS, now_ms)
        elif len(self._pending_dead_letters.runs) > 0:
            self._bury(now_ms)
        if self._shift_end > 0:
            self._shift(now_ms)
        if machine.has_more():
            self._turn.mark_host_later(self)
        elif machine.due_ms < self._timer_ms:
            self._timer_ms = machine.due_ms
            self._turn.wake_host(self, self._timer_ms)

    def _shift(self, now_ms: i64) -> None:
        """Follow a change of mode: some bodies leave memory, or may stay there once read again."""
        pager = self._budget.pager
        if pager is not None and pager.is_behind():
            self._turn.wake_host(self, now_ms + SHIFT_REST_MS)
            return
        lazy: i64 = 1 if self.mode == LAZY else 0
        self._shift_end = self.store.shed(self._shift_end, SHIFT_SLOTS, lazy)
        if self._shift_end > 0:
            self._turn.mark_host_later(self)

    def on_timer(self) -> None:
        """Something may be due."""
        self._timer_ms = FAR
        self._mark_self()

    def _mark_self(self) -> None:
        if not self._marked:
            self._marked = True
            self._turn.mark_host(self)

    def apply_batch(self, commands: list[Command], chunks: list[Chunk], now_ms: i64) -> None:
        """Let the machine have a batch; `chunks` are those of its Enqueue commands."""
        effects = self.machine.apply(commands, now_ms)
        self.capacity.observe(self.machine.is_able(), now_ms)
        self._carry_out(effects, chunks)
        for chunk in chunks:
            self.store.cancel_reserve(chunk)
        late = self._settled_late
        if late is not None:
            self._settled_late = None
            for sink, upto in late:
                sink.on_confirms(self.uid, upto)
        if self.dead_letter_publisher is not None and len(self._pending_dead_letters.runs) > 0:
            self._bury(now_ms)
        for command in commands:
            if isinstance(command, EndSession):
                self.forget_sink(command.session)
        self.store.tidy()
        high = self.machine.delivered_high
        if self.durable and high > self._mark + MARK_STRIDE and self.mode != LOGGED:
            self._mark = high
            self._journal.mark(self.uid, high, self)

    def _carry_out(self, effects: list[Effect], chunks: list[Chunk]) -> None:
        taken: i64 = 0
        for effect in effects:
            if isinstance(effect, Enqueued):
                self._enqueued(effect, chunks[taken])
                taken += 1
            elif isinstance(effect, Delivers):
                self._delivers(effect)
            elif isinstance(effect, Left):
                self.left(effect)
            elif isinstance(effect, DeadLettersPending):
                self.dies(effect)
            else:
                self._answer(effect)

    def _enqueued(self, effect: Enqueued, chunk: Chunk) -> None:
        first = effect.message_first
        count = effect.count
        self.published_count += count
        persistent = (chunk.info & INFO_PERSISTENT) != 0
        journaled = (self.durable and persistent) or self.mode == LOGGED
        self.store.add(first, chunk, 0, count, journaled)
        if self._moved is not None:
            self._follow_moves(first, count)
        sink = self._users.publisher(effect.session)
        self.credit.ack(sink.credit, count)
        upto = effect.first_seq + count - 1
        if self.mode == LOGGED:
            self._decided(sink, upto)
            return
        if not journaled and (chunk.lazy or self._budget.is_over()):
            self._page(chunk, count)
        if journaled:
            self._journal.publish(chunk, self.uid, first)
            receipt = self._journal.confirm(sink, self.uid, upto, self.credit, count)
            self._users.note_receipt(effect.session, receipt)
        elif self._users.receipt_of(effect.session) > self._journal.confirmed_receipt:
            # A confirm holds for all before it: this one must not overtake those in the journal.
            self._journal.confirm(sink, self.uid, upto, self.credit, 0)
        else:
            self._decided(sink, upto)

    def _page(self, chunk: Chunk, count: i64) -> None:
        """The bytes may go to a page file, if it takes them as fast as they come."""
        pager = self._budget.pager
        if pager is not None:
            pager.offer(chunk)
            if pager.is_behind():
                pager.hold(self.credit, count)

    def _see_lazy(self, chunk: Chunk) -> None:
        """The queue is about to hold the chunk: whether only lazy ones do."""
        if self.mode != LAZY:
            chunk.lazy = False
        elif chunk.holders == 0:
            chunk.lazy = True

    def _decided(self, sink: SessionSink, upto: i64) -> None:
        """Everything up to this number is safe, or refused by an effect that is still to come."""
        if self.machine.options.overflow == DROP_HEAD:
            sink.on_confirms(self.uid, upto)
        else:
            late = [] if self._settled_late is None else self._settled_late
            late.append((sink, upto))
            self._settled_late = late

    def _delivers(self, effect: Delivers) -> None:
        key = effect.key
        self.delivered_count += effect.count
        if effect.redelivered:
            self.redelivered_count += effect.count
        sink = self._users.served(key)
        sink.on_delivers(
            self.uid,
            number_of(key),
            effect.delivery_seq,
            effect.first,
            effect.count,
            effect.redelivered,
            effect.attempts,
        )

    def left(self, effect: Left) -> None:
        reason = effect.reason
        self.accepted_count += effect.count if reason == LEFT_ACCEPTED else 0
        if self.dead_letter_publisher is not None and reason in DEATHS:
            self._pending_dead_letters.died(effect)
        else:
            self.release_found(effect.first, effect.count)

    def dies(self, effect: DeadLettersPending) -> None:
        """It is kept in the machine, until whoever hears of it has buried it there."""
        assert self.on_pending is not None
        self.on_pending(effect)

    def _bury(self, now_ms: i64) -> None:
        """Dead-letter some of what waits for it."""
        dead_letter_publisher = self.dead_letter_publisher
        assert dead_letter_publisher is not None
        if self._pending_dead_letters.bury(self, dead_letter_publisher, now_ms) and self._parts:
            self._parts = False
            self.dead_letter_publisher = None
            dead_letter_publisher.close()

    def release(self, first: i64, count: i64) -> None:
        """Messages are gone for good: free them, and journal it for those that are in the log."""
        seq = first
        end = first + count
        while seq < end:
            slot = self.store.covering(seq)
            stop = min(end, slot.first + slot.count)
            if slot.journaled:
                if self.settles:
                    self._journal.settle(self.uid, seq, stop - seq)
                self._journal.release(slot.chunk, slot.bytes_of(seq, stop))
            self.store.release(seq, stop - seq)
            seq = stop

    def release_found(self, first: i64, count: i64) -> None:
        """The same, for what of these messages is in the store: a member of a group that was
        behind never got those that were dead by then."""
        if self.promises is None:
            self.release(first, count)
            return
        for run_first, run_count in self.store.spans_within(first, count):
            self.release(run_first, run_count)

    def _answer(self, effect: Effect) -> None:
        """What concerns one session, or the queue itself."""
        if isinstance(effect, (LastConsumerGone, QueueExpired)):
            self.unused(effect)
            return
        # A session on the same node neither repeats nor leaves out a number.
        assert not isinstance(effect, KnownAlready), "a local session repeated a publish"
        self.count_answer(effect)
        sink = self._users.get(session_in(effect))
        if sink is None:
            assert isinstance(effect, Purged), "an answer to nobody"
            return  # Who has gone during a long purge need not know.
        tell(sink, self.uid, effect, self.auto_delete and self.machine.attached_count == 0)

    def unused(self, effect: Effect) -> None:
        """Its last consumer is gone, or its time is over."""
        if self.auto_delete or isinstance(effect, QueueExpired):
            self._turn.queue_unused(int(self.uid))

    def count_answer(self, effect: Effect) -> None:
        """Count an answer to a session; a purge also takes what waits to be dead-lettered."""
        if isinstance(effect, Got) and effect.message > 0:
            self.delivered_count += 1
            self.got_count += 1
        elif isinstance(effect, Refused):
            self.refused_count += effect.count
        elif isinstance(effect, Purged) and self.on_purged is not None:
            self.on_purged()

    # Bodies on disk

    def loaded(self, chunk: Chunk, data: bytes) -> None:
        """The bytes asked for by `Steps.load` are here."""
        self._reading.loaded(chunk, data)
        if len(self._pending_dead_letters.runs) > 0:
            self._mark_self()

    def load_failed(self, chunk: Chunk) -> None:
        """The bytes cannot be read: whoever waits for them is told, and nobody else.

        DeadLettersPending messages that begin with these are not lost for it: the others go first,
        and they
        are tried again later.
        """
        self._reading.load_failed(chunk)
        if self._pending_dead_letters.load_failed(chunk):
            self._mark_self()

    # The log's questions (warren.storage.compaction.Owners)

    def _alive(self) -> list[tuple[int, int]]:
        """All messages of the queue, ready or checked out, as ascending (first, count)."""
        return self.live_ranges(1, self.machine.next_seq - 1)

    def _promised(self, first: i64, count: i64) -> list[tuple[int, int]]:
        """Which of these messages are to be applied; they are alive as far as the log goes."""
        if self.promises is not None:
            return self.promises.within(first, count)
        start = max(first, self.machine.next_seq, self.promised_first)
        end = min(first + count, self.promised_end)
        return [(start, end - start)] if start < end else []

    def live_ranges(self, first: i64, count: i64) -> list[tuple[int, int]]:
        """Which of these messages are in the queue, as ascending (first, count)."""
        runs = self.machine.alive_within(first, count)
        runs.extend(self._promised(first, count))
        for (
            pending_dead_letter_first,
            pending_dead_letter_count,
            _,
        ) in self._pending_dead_letters.runs:
            start = max(first, i64(pending_dead_letter_first))
            end = min(first + count, i64(pending_dead_letter_first) + pending_dead_letter_count)
            if start < end:
                runs.append((start, end - start))
        for sweep in self.sweeps:
            runs.extend(sweep.within(first, count))
        runs.sort()
        return runs if self.promises is None else stored_runs(self.store, runs)

    def journaled_from(self, first: i64) -> tuple[list[tuple[int, int]], int]:
        """Messages from `first` on that the log must keep, as ascending (first, count), a bounded
        part; and the number to go on at, or 0 if these were all.
        """
        found: list[tuple[int, int]] = []
        spans, following = self.store.journaled_spans(first)
        if len(spans) > 0:  # One question, for there may be thousands of spans of one message each.
            begin = spans[0][0]
            last = spans[len(spans) - 1]
            found = runs_both(self.live_ranges(begin, last[0] + last[1] - begin), spans)
        if following == 0:
            found.extend(self._promised(first, self.promised_end - first))
        return found, following

    def relocated(
        self, first: i64, count: i64, file_id: i64, data_offset: i64, offsets: bytes
    ) -> None:
        """The log moved these messages, all of one record, to another file."""
        slot = self.store.find_live(first)
        if slot is not None:
            self._move(slot, first, count, file_id, data_offset, offsets, False)
        elif len(self._promised(first, count)) > 0:
            moved = [] if self._moved is None else self._moved
            moved.append((first, count, file_id, data_offset, offsets))
            self._moved = moved
        self.store.tidy_moved()

    def _follow_moves(self, first: i64, count: i64) -> None:
        """These messages are in the store now: go where the log has put them in the meantime.

        The machine may be done with some already; none of them has left the store yet.
        """
        moves = self._moved
        if moves is None:
            return
        kept = [move for move in moves if not first <= move[0] < first + count]
        self._moved = kept if len(kept) > 0 else None
        for move in moves:
            at: i64 = move[0]
            if at < first or at >= first + count:
                continue
            self._move(self.store.find(at), at, move[1], move[2], move[3], move[4], True)

    def _move(
        self,
        slot: Slot,
        first: i64,
        count: i64,
        file_id: i64,
        data_offset: i64,
        offsets: bytes,
        new: bool,
    ) -> None:
        """Part of a slot is in another file now. `new`: everything in the slot is alive."""
        moved = Chunk(0, None, 0, offsets, 0)
        moved.file_id = file_id
        moved.file_offset = data_offset
        moved.durable = True
        end = first + count
        assert slot.first <= first and end <= slot.first + slot.count
        pieces: list[tuple[int, int, int]] = []
        for piece, stop in ((slot.first, first), (first, end), (end, slot.first + slot.count)):
            if stop > piece:
                live = stop - piece if new else self._live_count(piece, stop - piece)
                pieces.append((piece, stop - piece, live))
        self.store.relocate(moved, pieces, first)

    def _live_count(self, first: i64, count: i64) -> i64:
        total: i64 = 0
        for _, run in self.live_ranges(first, count):
            total += run
        return total

    # After a restart

    def recover(
        self, chunk: Chunk, first: i64, runs: list[tuple[int, int]], meta: bytes, arrived_ms: i64
    ) -> None:
        """The log holds this chunk as first..; `runs` of message_seqs are alive."""
        traits = decode_meta(meta) if len(meta) > 0 else None
        self._see_lazy(chunk)
        for run_first, run_count in runs:
            self.store.add(run_first, chunk, run_first - first, run_count, True)
            kept = self.mode != LAZY or (chunk.info & INFO_PERSISTENT) != 0
            found = Found(run_first, run_count, run_first - first, traits, arrived_ms, kept)
            note_found(self._found, found, self.machine.options.ttl_ms >= 0)

    def recover_stretch(self, first: i64, count: i64, whole: Chunk, columns: Columns) -> None:
        """The log holds records one behind the other whose messages are all alive, as first..

        `whole` says what is the same for all of them.
        """
        kept = self.mode != LAZY or (whole.info & INFO_PERSISTENT) != 0
        whole.lazy = self.mode == LAZY
        self.store.add_stretch(first, whole, columns)
        note_stretch(self._found, columns, first, kept, self.machine.options.ttl_ms >= 0)

    def begin(self) -> None:
        """A new queue: nothing was delivered yet, and after a restart the log shall say so."""
        if self.durable:
            self._journal.mark(self.uid, 0, self)
        if self.machine.options.expires_ms >= 0:
            self._hand_down(Tick())  # Its time begins.

    def end_cleanly(self) -> None:
        """The node stops in good order: the log shall know exactly what was delivered."""
        if self.durable:
            self._journal.mark(self.uid, self.machine.delivered_high, self)

    def recovered(self, last_seq: i64, mark: i64, redelivered_upto: i64) -> None:
        """All chunks are there: what is alive is ready again. `mark` is what the log knows."""
        found = sorted(self._found, key=lambda each: each.first)
        self._found = []
        if self.mode == LOGGED:  # Its log is damaged: what it has made is not to be relied on.
            old = self.machine
            self.machine = Fifo(old.options)
            if old.streams is not None:
                self.machine.begin_streams()
        for each in found:
            if each.kept:
                self.machine.restore_run(
                    each.first, each.count, each.traits, each.index, each.arrived_ms
                )
        self.machine.end_restore(last_seq + 1, redelivered_upto)
        self._mark = mark
        self._reading.mark_durable(mark)
        self.options = self.machine.options
        if self.machine.options.expires_ms >= 0:
            self._hand_down(Tick())  # Its time begins anew.
        for each in found:
            if not each.kept:  # A transient message of a lazy queue.
                self.release(each.first, each.count)
        self._mark_self()

    # The end of the queue

    def delete(self, for_good: bool = True) -> int:
        """The definition is gone: tell the sessions, free everything; return what was ready.

        Not `for_good`: another member of its group may come to be here.
        """
        self.settles = False
        self._gone = True
        ready = self.machine.ready.count
        self.credit.peer_down_everywhere()
        for sink in self._users.all():
            sink.on_gone(self.uid)
        if self.promises is None:
            self.promises = SeqSet()
        for first, count, _ in self._pending_dead_letters.runs:
            self.promises.add(first, count)
        for found in self._found:  # Of a damaged queue, for the machine knows nothing of it.
            self.release_found(found.first, found.count)
        self._pending_dead_letters.clear()
        if self.dead_letter_publisher is not None:
            self.dead_letter_publisher.close()
        Remains(self, self._turn).step(0)
        if self._chunks is not None:
            for chunk in self._chunks:
                self.store.cancel_reserve(chunk)
        if self.durable and for_good:
            self._journal.deleted(self.uid)
        self._users.clear()
        self._commands = None
        self._chunks = None
        return ready

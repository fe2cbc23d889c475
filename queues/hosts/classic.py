"""Host of a classic queue: a `QueueCore` whose commands are applied in the turn in which they come.

Commands of a turn are applied together in `step`; deliveries go out in the same turn, only the
confirm of a durable message waits for the sync. The journal keeps persistent messages of a durable
queue and their settlements. All other messages are lost at a restart; their bodies are in memory
or, above the node's budget, in page files (`queues.bodies.paging`). A lazy queue keeps bodies in
memory only until they are on disk. Compiled.
"""

from typing import Final, Protocol, final

from mypy_extensions import i64

from queues.hosts.delay_log import DelayLog
from queues.hosts.effect_dispatch import number_of, session_in, tell
from queues.hosts.found_state import found_digests
from queues.hosts.host_interfaces import DeadLetterPublisher
from queues.hosts.id_log import IdLog, logged
from queues.hosts.queue_core import DEFAULT as DEFAULT
from queues.hosts.queue_core import LAZY, QueueCore
from queues.hosts.session_users import Users
from queues.machine.commands import (
    Command,
    Configure,
    EndSession,
    Enqueue,
    Numbered,
    SessionId,
    Tick,
    enqueue_of,
)
from queues.machine.effects import (
    Applied,
    Delivers,
    Effect,
    Enqueued,
    Inspected,
    KnownAlready,
    Left,
    Purged,
    ResendFrom,
    SessionOver,
    SizesWanted,
    Unwanted,
)
from queues.machine.expiry import FAR
from queues.machine.known_ids import Fresh, KnownIds
from queues.machine.options import DROP_HEAD, Options
from queues.message import Chunk
from queues.queue_host import QueueHost, SessionSink, View
from warren.wire.amqp091.events import INFO_PERSISTENT

MARK_STRIDE: Final = 2048  # deliveries between two delivered marks in the journal
SHIFT_SLOTS: Final = 1024  # of the store, looked at in a step after a change of mode
SHIFT_REST_MS: Final = 50  # while page files are behind
NO_CHUNKS: Final[list[Chunk]] = []  # of commands that bring none


class NumberedEnd(Protocol):
    """Who has the sinks of sessions whose commands have numbers (`queues.hosts.classic_end`)."""

    def applied(self, session: SessionId, number: i64) -> None: ...

    def resend(self, session: SessionId) -> None: ...

    def ended(self, session: SessionId) -> None: ...

    def close(self) -> None: ...

    def sessions(self) -> set[SessionId]: ...


@final
class ClassicHost:
    """A classic queue on this node."""

    def __init__(self, core: QueueCore) -> None:
        self.core = core
        self.uid: i64 = core.uid
        self.vhost = core.vhost
        self.name = core.name
        self._credit = core.credit
        self._journal = core.journal
        self._users = Users()
        self._commands: list[Command] | None = None  # None: there are none
        self._chunks: list[Chunk] | None = None  # of the Enqueue commands, in order
        self._marked = False
        self._wants_sizes = False  # of its messages, once those of this batch are in the store
        self._mark: i64 = 0  # the last delivered mark in the journal
        self._timer_ms: i64 = FAR
        self._shift_end: i64 = 0  # messages before this one have yet to follow a change of mode
        # Confirms behind refusals.
        self._settled_late: list[tuple[SessionSink, int]] | None = None
        # The queue gets mirrors: what sessions publish waits there.
        self._served_by: QueueHost | None = None
        self._id_log: IdLog | None = None  # once the queue remembers ids
        self._delay_log: DelayLog | None = None  # once the queue delays messages
        self._is_over = False  # and its core has another host
        self._is_recovered = False  # and was not stepped since
        self.numbered_end: NumberedEnd | None = None  # the queue had mirrors, and sessions do

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
    def is_gone(self) -> bool:
        return self.core.is_gone

    @property
    def quorum(self) -> bool:
        return False

    @property
    def single_active(self) -> bool:
        return self.core.single_active

    # Handed down by sessions

    def publish(self, sink: SessionSink, chunk: Chunk, first_seq: i64) -> None:
        """Enqueue the whole chunk as the session's numbers first_seq.."""
        served_by = self._served_by
        if served_by is not None:
            served_by.publish(sink, chunk, first_seq)
            return
        if self.core.is_gone:  # Since the message was routed, some turns ago.
            sink.on_gone(self.uid)
            return
        session = self._users.publishes(sink)
        count = chunk.count()
        sink.credit.send(self._credit, count)
        core = self.core
        core.expect(chunk)
        if self._chunks is None:
            self._chunks = [chunk]
        else:
            self._chunks.append(chunk)
        self._hand_down(Enqueue(session, first_seq, count, core.traits(chunk)))

    def command(self, sink: SessionSink, command: Command) -> None:
        """Apply the command in this turn, after what was handed down before."""
        served_by = self._served_by
        if served_by is not None and (self._is_over or isinstance(command, EndSession)):
            served_by.command(sink, command)
            if self._is_over:
                return
        self._users.commands(sink)
        self._hand_down(command)

    def numbered(self, sink: SessionSink, command: Command, chunk: Chunk | None) -> None:
        """The same for a session whose commands have numbers. The chunk stays its owner's."""
        if chunk is None:
            self._users.commands(sink)
            self._hand_down(command)
            return
        self._users.publishes(sink)
        own = chunk.twin()
        core = self.core
        enqueue = enqueue_of(command)
        assert enqueue is not None
        enqueue.traits = core.traits(own)
        sink.credit.send(self._credit, own.count())
        core.expect(own)
        if self._chunks is None:
            self._chunks = [own]
        else:
            self._chunks.append(own)
        self._hand_down(command)

    def order(self, command: Command) -> None:
        """A command of the node's own."""
        self._hand_down(command)

    def adopt(self, sink: SessionSink) -> None:
        """The sink stands for its session from now on."""
        self._users.adopt(sink)

    def confirm_later(self, sink: SessionSink, upto_seq: i64) -> bool:
        """Have what the session has published confirmed once it is in the log; False: it is."""
        if self._users.receipt_of(sink.session) <= self._journal.confirmed_receipt:
            return False
        self._journal.confirm(sink, self.uid, upto_seq, self._credit, 0)
        return True

    def _hand_down(self, command: Command) -> None:
        """Apply the command in this turn."""
        if self._commands is None:
            self._commands = [command]
        else:
            self._commands.append(command)
        self._mark_self()

    def configure(
        self, options: Options, mode: i64, dead_letter_publisher: DeadLetterPublisher | None
    ) -> None:
        """Follow other rules from now on."""
        core = self.core
        if mode != core.mode:
            core.mode = mode
            self._shift_end = FAR  # What is in the queue follows, in slices.
            self._mark_self()
        core.dead_letter_to(dead_letter_publisher)
        if self._is_recovered:
            self._drop_configures()
        self._reconfigure(core.wanted(options))

    def _drop_configures(self) -> None:
        """At a start policies change as the log has them: the earlier ones must not act now."""
        core = self.core
        core.options = core.machine.options
        commands = self._commands
        if commands is not None:
            self._commands = [each for each in commands if not isinstance(each, Configure)]

    def _reconfigure(self, options: Options) -> None:
        core = self.core
        if not core.options.same(options):
            chunks = NO_CHUNKS if self._chunks is None else self._chunks
            self._hand_down(core.reconfigured(options, core.machine.next_seq, chunks))

    def view(self, sink: SessionSink, first: i64, count: i64) -> View | None:
        """See `QueueHost.view`."""
        served_by = self._served_by
        if self._is_over and served_by is not None:
            return served_by.view(sink, first, count)
        return self.core.view(sink, first, count)

    def mark_durable(self, message_seq: i64) -> None:
        """The log knows for good that messages up to this one may have been delivered."""
        self.core.reading.mark_durable(message_seq)

    # The turn

    def step(self, now_ms: i64) -> None:
        """Apply what was handed down, and what time brings about; carry the effects out."""
        self._marked = False
        core = self.core
        if core.is_gone or self._is_over:
            return
        machine = core.machine
        if self._is_recovered:
            self._begin_recovered(now_ms)
        commands = self._commands
        if commands is not None:
            self._commands = None
            chunks = NO_CHUNKS if self._chunks is None else self._chunks
            self._chunks = None
            self._apply(commands, chunks, now_ms)
        elif now_ms >= machine.due_ms or machine.has_more():
            self._apply([], NO_CHUNKS, now_ms)
        evaluated = core.evaluated(self, machine.next_seq - 1)
        if len(evaluated) > 0:
            self._apply(evaluated, NO_CHUNKS, now_ms)
        core.pace_publishers(now_ms)
        if self._shift_end > 0:
            self._shift(now_ms)
        if machine.has_more() or core.wants_evaluation(machine.next_seq - 1):
            core.turn.mark_host_later(self)
        elif machine.due_ms < self._timer_ms:
            self._timer_ms = machine.due_ms
            core.turn.wake_host(self, self._timer_ms)

    def _shift(self, now_ms: i64) -> None:
        """Follow a change of mode: some bodies leave memory, or may stay there once read again."""
        core = self.core
        pager = core.budget.pager
        if pager is not None and pager.is_behind():
            core.turn.wake_host(self, now_ms + SHIFT_REST_MS)
            return
        lazy: i64 = 1 if core.mode == LAZY else 0
        self._shift_end = core.store.shed(self._shift_end, SHIFT_SLOTS, lazy)
        if self._shift_end > 0:
            core.turn.mark_host_later(self)

    def on_timer(self) -> None:
        """Something may be due."""
        self._timer_ms = FAR
        self._mark_self()

    def _mark_self(self) -> None:
        if not self._marked:
            self._marked = True
            self.core.turn.mark_host(self)

    def _apply(self, commands: list[Command], chunks: list[Chunk], now_ms: i64) -> None:
        """Give the machine a batch; `chunks` are those of its Enqueue commands."""
        core = self.core
        machine = core.machine
        effects = machine.apply(commands, now_ms)
        core.capacity.observe(machine.is_able(), now_ms)
        if machine.known_ids is not None or self._id_log is not None:
            self._log_ids(effects, chunks)
        if machine.delays is not None or self._delay_log is not None:
            self._log_delays()
        self._carry_out(effects, chunks)
        for chunk in chunks:
            core.store.cancel_reserve(chunk)
        if self._wants_sizes:
            self._wants_sizes = False
            self._reconfigure(core.wanted(core.options))
        late = self._settled_late
        if late is not None:
            self._settled_late = None
            for sink, upto in late:
                sink.on_confirms(self.uid, upto)
        core.publish_dead_letters(now_ms)
        for command in commands:
            last = command.command if isinstance(command, Numbered) else command
            if isinstance(last, EndSession):
                self._end_session(last.session)
        core.store.tidy()
        high = machine.delivered_high
        if core.durable and high > self._mark + MARK_STRIDE:
            self._mark = high
            self._journal.mark(self.uid, high, self)

    def _end_session(self, session: SessionId) -> SessionSink | None:
        sink = self._users.get(session)
        self._users.end(session)
        self.core.reading.end_session(session)
        if self.numbered_end is not None:
            self.numbered_end.ended(session)
        return sink

    def _log_ids(self, effects: list[Effect], chunks: list[Chunk]) -> None:
        """Journal the ids that the queue remembers since the last batch, of messages that are in
        the log."""
        known = self.core.machine.known_ids
        if known is None:
            self._drop_ids()
            return
        runs: list[tuple[int, int]] = []
        taken: i64 = 0
        for effect in effects:
            if isinstance(effect, Enqueued):
                if self._is_journaled(chunks[taken]):
                    runs.append((effect.message_first, effect.count))
                taken += 1
            elif isinstance(effect, Unwanted):
                taken += 1
        self._write_ids(known, logged(known.take_fresh(), runs))

    def _write_ids(self, known: KnownIds, fresh: list[Fresh]) -> None:
        if len(fresh) == 0:
            return
        if self._id_log is None:
            self._id_log = IdLog(self.uid, self._journal)
        self._id_log.write(fresh)
        self._id_log.forget(known)

    def _drop_ids(self) -> None:
        if self._id_log is not None:  # It stays: numbers of its entries are used once.
            self._id_log.drop()

    def _drop_logs(self) -> None:
        self._drop_ids()
        if self._delay_log is not None:
            self._delay_log.drop()

    def _log_delays(self) -> None:
        """Journal which messages wait since the last batch, in a queue that outlives a restart."""
        core = self.core
        delays = core.machine.delays
        if delays is not None:
            fresh = delays.take_fresh()
            if len(fresh) > 0 and core.durable:
                if self._delay_log is None:
                    self._delay_log = DelayLog(self.uid, self._journal)
                self._delay_log.write(fresh)
        if self._delay_log is not None:
            self._delay_log.tidy(core.machine)

    def _is_journaled(self, chunk: Chunk) -> bool:
        return self.core.durable and (chunk.info & INFO_PERSISTENT) != 0

    def _carry_out(self, effects: list[Effect], chunks: list[Chunk]) -> None:
        taken: i64 = 0
        for effect in effects:
            if isinstance(effect, Enqueued):
                self._enqueued(effect, chunks[taken])
                taken += 1
            elif isinstance(effect, Delivers):
                self._delivers(effect)
            elif isinstance(effect, Left):
                self.core.left(effect)
            elif isinstance(effect, Unwanted):
                taken += 1
                again = self._users.get(effect.session)
                if again is not None:
                    self._credit.ack(again.credit, effect.count)
            else:
                self._answer(effect)

    def _enqueued(self, effect: Enqueued, chunk: Chunk) -> None:
        core = self.core
        first = effect.message_first
        count = effect.count
        core.published_count += count
        journaled = self._is_journaled(chunk)
        core.store.add(first, chunk, 0, count, journaled)
        sink = self._users.publisher(effect.session)
        self._credit.ack(sink.credit, count)
        upto = effect.first_seq + count - 1
        if not journaled and (chunk.lazy or core.budget.is_over()):
            self._page(chunk, count)
        if journaled:
            self._journal.publish(chunk, self.uid, first)
            receipt = self._journal.confirm(sink, self.uid, upto, self._credit, count)
            self._users.note_receipt(effect.session, receipt)
        elif self._users.receipt_of(effect.session) > self._journal.confirmed_receipt:
            # A confirm holds for all before it: this one must not overtake those in the journal.
            self._journal.confirm(sink, self.uid, upto, self._credit, 0)
        else:
            self._decided(sink, upto)

    def _page(self, chunk: Chunk, count: i64) -> None:
        """Offer the bytes to a page file; the publisher waits while that is behind."""
        pager = self.core.budget.pager
        if pager is not None:
            pager.offer(chunk)
            if pager.is_behind():
                pager.hold(self._credit, count)

    def _decided(self, sink: SessionSink, upto: i64) -> None:
        """Everything up to this number is safe, or refused by an effect that is still to come."""
        if self.core.machine.options.overflow == DROP_HEAD:
            sink.on_confirms(self.uid, upto)
        else:
            late = [] if self._settled_late is None else self._settled_late
            late.append((sink, upto))
            self._settled_late = late

    def _delivers(self, effect: Delivers) -> None:
        key = effect.key
        self.core.count_delivered(effect)
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

    def _answer(self, effect: Effect) -> None:
        """What concerns one session, or the queue itself."""
        core = self.core
        if core.has_changed(effect):
            return
        if isinstance(effect, SizesWanted):
            self._wants_sizes = True
            return
        # A session on the same node neither repeats nor leaves out a number.
        assert not isinstance(effect, KnownAlready), "a local session repeated a publish"
        if isinstance(effect, (Applied, ResendFrom, SessionOver)):
            self._answer_numbered(effect)
            return
        core.count_answer(effect)
        sink = self._users.get(session_in(effect))
        if sink is None:
            assert isinstance(effect, (Purged, Inspected)), "an answer without an asker"
            return  # A session that ended during a long purge.
        tell(sink, self.uid, effect, core.auto_delete and core.machine.attached_count == 0)

    def _answer_numbered(self, effect: Applied | ResendFrom | SessionOver) -> None:
        """An effect for a session whose commands have numbers."""
        if isinstance(effect, SessionOver):
            over = self._end_session(effect.session)
            if over is not None:
                over.on_gone(int(self.uid))
            return
        end = self.numbered_end
        assert end is not None
        if isinstance(effect, Applied):
            end.applied(effect.session, effect.number)
        else:
            end.resend(effect.session)

    # Beginning and end

    def begin(self) -> None:
        """A new queue: journal that nothing was delivered yet."""
        if self.core.durable:
            self._journal.mark(self.uid, 0, self)
        if self.core.machine.options.expires_ms >= 0:
            self._hand_down(Tick())  # The time until it expires begins.

    def recovered(self, last_seq: i64, mark: i64, redelivered_upto: i64) -> None:
        """All chunks are there: make the messages ready. `mark`: the delivered mark in the log."""
        core = self.core
        core.restore(last_seq, redelivered_upto)
        self._is_recovered = True
        self._mark = mark
        core.reading.mark_durable(mark)
        if core.machine.options.expires_ms >= 0:
            self._hand_down(Tick())  # The time until it expires begins again.
        self._mark_self()

    def _begin_recovered(self, now_ms: i64) -> None:
        """The first step behind a recovery. The machine was made with the definitions that were
        saved, and they are known as the log has them now: nothing expires or is forgotten by the
        older ones, and then the queue gets the ids and delays that the log has."""
        self._is_recovered = False
        machine = self.core.machine
        commands = [] if self._commands is None else self._commands
        first: list[Command] = [each for each in commands if isinstance(each, Configure)]
        if len(first) > 0:
            self._commands = [each for each in commands if not isinstance(each, Configure)]
            delay_log, self._delay_log = self._delay_log, None  # It has yet to be read.
            machine.due_ms = FAR  # `Configure` finds out.
            self._apply(first, NO_CHUNKS, now_ms)
            self._delay_log = delay_log
        if self._id_log is not None:
            self._id_log.restore(machine.known_ids)
        if self._delay_log is not None:
            self._delay_log.restore(machine)

    def ids_found(self, index: int, content: bytes) -> None:
        """The log has these ids of an earlier process; called in ascending order, before
        `recovered`. The queue remembers them when it is stepped."""
        if self._id_log is None:
            self._id_log = IdLog(self.uid, self._journal)
        self._id_log.found(index, content)

    def delays_found(self, index: int, content: bytes) -> None:
        """The log has these delays of an earlier process; called in ascending order, before
        `recovered`."""
        if self._delay_log is None:
            self._delay_log = DelayLog(self.uid, self._journal)
        self._delay_log.found(index, content)

    def first_unread(self) -> int:
        """The first message whose body says a key, group or id that no record says; 0: none
        does."""
        machine = self.core.machine
        if machine.length() == 0:
            return 0
        if machine.last_values is not None or machine.ready.groups is not None:
            return 1
        if machine.known_ids is None:
            return 0
        return 1 if self._id_log is None else int(self._id_log.last_message) + 1

    def digests_found(self, rows: list[tuple[int, bytes, bytes, int]]) -> None:
        """Bodies were read after a restart: message, digests of its key and its id, number of its
        group, ascending."""
        machine = self.core.machine
        for seq, key, digest, group in rows:
            found_digests(machine, seq, key, digest, group)
        known = machine.known_ids
        if known is not None:
            self._write_ids(known, known.take_fresh())
        self._mark_self()

    def end_cleanly(self) -> None:
        """The node stops in good order: journal exactly what was delivered."""
        if self.core.durable:
            self._journal.mark(self.uid, self.core.machine.delivered_high, self)

    # The queue gets mirrors

    def divert(self, served_by: QueueHost) -> None:
        """Another host is about to take over: it keeps what sessions publish from now on."""
        self._served_by = served_by
        if self.numbered_end is not None:
            self.numbered_end.close()

    def hand_over(self, now_ms: i64) -> list[SessionSink]:
        """The other host takes over now: all publishes so far are confirmed. Return the sessions,
        which keep what they have; those whose commands have numbers find the other host by
        themselves."""
        core = self.core
        self.step(now_ms)
        while core.machine.has_more():
            self._apply([], NO_CHUNKS, now_ms)
        self._is_over = True
        self._drop_logs()
        core.forget_balance()
        core.credit.peer_down_everywhere()
        end = self.numbered_end
        numbered = set() if end is None else end.sessions()
        sinks = [sink for sink in self._users.all() if sink.session not in numbered]
        self._users.clear()
        return sinks

    def delete(self) -> int:
        """Tell the sessions that the queue is gone and free everything; return what was ready."""
        core = self.core
        self._drop_logs()
        ready = core.delete(self._users.all(), True)
        if self._chunks is not None:
            for chunk in self._chunks:
                core.store.cancel_reserve(chunk)
        self._users.clear()
        self._commands = None
        self._chunks = None
        return ready

"""The queue machine: one for classic, lazy, mirrored and quorum queues. No I/O, no clock.

Takes batches of commands (`queues.machine.commands`) in log order, answers with effects
(`queues.machine.effects`). Same commands in, same state and effects out: nothing here reads the
time, draws lots or walks a set. What differs between queue types is the host and the options.

Messages are numbers: a message_seq is 1-based, given in the order of arrival, never used twice.
What a message is made of is the host's business; what the options need of it comes as `Traits`.

Work that may grow with the backlog (expiry, purge, dropping) is done in slices: what is to leave
is out of `ready` at once and leaves the queue in the next batches. While `has_more()`, the host
applies again soon, with an empty batch if need be; at `due_ms` it does so because something is due.

Commands of a batch have the effects that they would have one by one, but ready messages are handed
to consumers as late as that allows: before a command that could tell the difference (`_catch_up`),
and at the end of the batch. A consumer that leaves in a batch gets nothing of what came in it.

Where the leader may change (`begin_streams`), sessions are
`queues.machine.consuming.numbered_sessions`, and the rest is in
`queues.machine.time_and_leadership`. Compiled.
"""

from collections import deque
from typing import Final, final

from mypy_extensions import i64

from queues.machine.annotations import Annotations
from queues.machine.commands import (
    ACCEPT,
    CREDIT,
    ENQUEUE,
    FAIL,
    GET,
    NUMBERED,
    REJECT,
    REJECT_TOO_LARGE,
    RELEASE,
    RETURN_UNSEEN,
    SETTLE,
    Attach,
    Command,
    Configure,
    ConsumerKey,
    Credit,
    Detach,
    EndSession,
    Enqueue,
    Get,
    Inspect,
    Numbered,
    Purge,
    Restarted,
    Retire,
    Selected,
    SessionId,
    Settle,
    Tick,
    consumer_key,
)
from queues.machine.consuming.ack_timeouts import Timeouts
from queues.machine.consuming.checked_out import Row
from queues.machine.consuming.consumers import Consumer, Level
from queues.machine.consuming.limiter import Limiter
from queues.machine.consuming.numbered_sessions import Resume, Resumed, Streams
from queues.machine.consuming.roster import Roster
from queues.machine.delays import Delays, delivery_time, oldest_of, wait_ms
from queues.machine.effects import (
    ACQUIRED_SHIFT,
    LEFT_ACCEPTED,
    LEFT_DELIVERY_LIMIT,
    LEFT_DUPLICATE,
    LEFT_EXPIRED,
    LEFT_MAXLEN,
    LEFT_PURGED,
    LEFT_REFUSED,
    LEFT_REJECTED,
    LEFT_REPLACED,
    LEFT_TOO_LARGE,
    NOT_REFUSED,
    Attached,
    AttachRefused,
    DeadLettersPending,
    Delivers,
    Detached,
    Drained,
    Effect,
    Enqueued,
    Got,
    Inspected,
    KnownAlready,
    LastConsumerGone,
    Left,
    Purged,
    Refused,
    ResendFrom,
    SizesWanted,
)
from queues.machine.expiry import Arrivals, Calendar
from queues.machine.known_ids import KnownIds, resized
from queues.machine.last_values import LastValues
from queues.machine.leaving import Leaving as Leaving
from queues.machine.leaving import begin_leave, leave_at_once, leave_replaced
from queues.machine.notes import Notes
from queues.machine.options import DELAY_MS_MAX, DROP_HEAD, REJECT_PUBLISH_DLX, Options
from queues.machine.pending_dead_letters import DEATHS, PendingDeadLetters
from queues.machine.published_numbers import Numbers
from queues.machine.ready import Ready, alike
from queues.machine.time_and_leadership import DUE_SLICE as DUE_SLICE
from queues.machine.time_and_leadership import (
    admit,
    apply_leadership,
    apply_selected,
    begin_consumer,
    configure,
    drain,
    expire_by_ttl,
    number_sessions,
    pass_over_bare,
    pass_time,
    refuse_all,
    resume,
    return_all,
    settle_unheld,
    wants_drain,
)
from queues.machine.traits import Traits
from queues.runs.columns import Sparse
from queues.runs.seqset import SeqSet

# In a long backlog a turn of a consumer has several messages: runs of message_seqs stay together.
LONG_BACKLOG: Final = 1024
LONG_TURN: Final = 32

LEAVE_SLICE: Final = 8192  # messages that leave in one batch, beside those that are settled in it
DEAD_SLICE: Final = 1024  # the same where what leaves is dead-lettered
NO_EFFECTS: Final[list[Effect]] = []  # between batches, when nothing has any
# All queues share these sets, which stay empty: a queue with few messages is a third smaller so.
NONE: Final = SeqSet()
NOTHING: Final = Annotations()
FAILED_MASK: Final = (1 << ACQUIRED_SHIFT) - 1


@final
class Fifo:
    """State of one queue.

    Invariant: each message in the queue is either in `ready`, or held by exactly one consumer, or
    in `delays`, or in `leaving`; `redelivered` and `overdue` are subsets of all
    together. Messages in `dying` have left the queue, and only their bodies are kept.
    """

    def __init__(self, options: Options | None = None) -> None:
        self.options = Options() if options is None else options
        self.retired = False  # refuses every publish, for it is about to be deleted
        self.retired_by = SessionId(0)  # whose end calls that off
        self.next_seq: i64 = 1
        self.ready = Ready(self.options.levels)
        self.notes = Notes(self.ready, self.options)
        self.redelivered = NONE
        self.checked_out: i64 = 0
        self.roster = Roster(self.options.single_active, self.options.drain_handover)
        self.limiter = Limiter(self.roster, self.notes)
        self.limiter.configure_dispatch(0)
        self.last_seqs = Numbers()
        self.leaving: deque[Leaving] = deque()
        self.delivered_high: i64 = 0  # highest message_seq ever checked out
        self.now_ms: i64 = 0
        self.due_ms: i64 = 0  # not later than the next thing that time brings about
        self.arrivals = Arrivals()
        self.calendar = Calendar()
        self.overdue = NONE  # expired while a consumer held them
        self.attempts = Sparse()  # times acquired << 32 | failed deliveries, if any
        self.annotations = NOTHING
        self.unused_since_ms: i64 = -1  # -1: since the first batch, which is still to come
        self.timeouts = Timeouts(self.roster)
        self.streams: Streams | None = None  # where the leader may change
        self.is_partial = False  # lacks what came before the entries that it has (`DropLost`)
        self.pending_dead_letters = PendingDeadLetters()
        self.delays: Delays | None = None  # once something has to wait for its time
        self.deliver_at_ms: i64 = 0  # what is given back now is to wait until then; 0: no
        self.behind = False  # more is due than one batch could look at
        self.put_off: deque[Command] = deque()  # until nothing expired can be served
        self._effects = NO_EFFECTS
        self._plain = False  # messages need no look of their own
        self._came_back = False  # messages were returned: the queue may be over its limits
        self._unserved = False  # messages or credit came since consumers were served last
        self._settling = False  # what comes back now is given back by a client
        self._one_by_one = False  # messages that come back differ
        self.known_ids: KnownIds | None = None  # where duplicates are found by ids
        self.last_values: LastValues | None = None
        self._noted = False  # some message has more to it than its number
        self.counts = False  # deliveries of each message
        self._delays_returns = False  # a message that comes back may have to wait
        self.set_options(self.options)

    def set_options(self, options: Options) -> None:
        self.options = options
        self.notes.configure(options)
        self.roster.drain_handover = options.drain_handover
        counts = options.counts_deliveries or options.delivery_limit >= 0
        self.counts = counts or options.redelivers_late
        self._delays_returns = options.delays or options.redelivers_late
        self._one_by_one = self.counts or self._delays_returns or options.keeps_last_values
        if options.keeps_last_values != (self.last_values is not None):
            self.last_values = LastValues() if options.keeps_last_values else None
        self.roster.groups = self.ready.group(options.group_buckets)
        self._noted = options.levels > 1 or options.counts_bytes or self._one_by_one
        self._noted = self._noted or options.group_buckets > 0
        self.known_ids = resized(self.known_ids, options.id_cache_size)
        limited = options.length_max >= 0 or options.counts_bytes or options.bounds_expiry
        self._plain = not (limited or options.copies or options.group_buckets > 0)
        self._plain = self._plain and options.levels == 1 and options.ttl_ms < 0

    # After a restart

    def restore_run(
        self, first: i64, count: i64, traits: Traits | None, index: i64, arrived_ms: i64
    ) -> None:
        """Messages first.. are alive: `index`.. of the traits, which came at that time. Called for
        all of them in ascending order, before `end_restore`."""
        now_ms = self.now_ms
        self.now_ms = arrived_ms
        self._put(first, count, traits, index)
        self.now_ms = max(now_ms, arrived_ms)

    def end_restore(self, next_seq: i64, redelivered_upto: i64) -> None:
        """All came by `restore_run`; the log knows the next number and the delivered mark."""
        assert self.next_seq == 1
        for first, count in self.ready.runs():
            if first <= redelivered_upto:
                self._mark_redelivered(first, min(count, redelivered_upto - first + 1))
        self.next_seq = next_seq
        self.delivered_high = min(redelivered_upto, next_seq - 1)

    # Where the leader may change (queues.machine.time_and_leadership)

    def begin_streams(self) -> None:
        """Sessions number their commands from now on, and keep what they have."""
        if self.streams is None:
            self.streams = Streams()
        number_sessions(self)

    def resume(self, wanted: Resume) -> Resumed:
        """What a session's proxy has to know of a new leader; nothing changes."""
        return resume(self, wanted)

    def tell(self, effect: Effect) -> None:
        self._effects.append(effect)

    def activate(self) -> None:
        self.roster.activate(self._effects)

    def set_retired(self, retired: bool, by: SessionId) -> None:
        self.retired = retired
        self.retired_by = by

    # Batches

    def apply(self, commands: list[Command], now_ms: i64) -> list[Effect]:
        """Change the state by a batch of commands; return what the host must do, in order."""
        if now_ms > self.now_ms:
            self.now_ms = now_ms
        effects: list[Effect] = []
        assert len(NO_EFFECTS) == 0
        self._effects = effects
        if self.now_ms >= self.due_ms:
            pass_time(self)
        self._unserved = False
        for command in commands:
            self._apply(command)
        self._catch_up()
        if len(self.leaving) > 0:
            self._let_leave()
        if self.checked_out > 0 and self.timeouts.wants_plan():
            self.due_by(self.timeouts.plan(self.now_ms, self.options.consumer_timeout_ms))
        if self.streams is not None:
            self.streams.end_batch(effects)
        self._effects = NO_EFFECTS
        return effects

    def _catch_up(self) -> None:
        """Serve consumers, and bring the queue within its limits again after returns."""
        self._unserved = False
        self.serve()
        if self._came_back:
            self._came_back = False
            if self.options.overflow == DROP_HEAD:
                self.drop_head()

    def _apply(self, command: Command) -> None:
        kind = command.kind
        if kind == ENQUEUE:
            assert isinstance(command, Enqueue)
            if self.options.levels > 1:
                self.serve()  # It must not overtake a message that a consumer waits for.
            self._unserved = True
            self._enqueue(command)
        elif kind == SETTLE:
            assert isinstance(command, Settle)
            if self._unserved:
                self._catch_up()
            self._settle(command)
        elif kind == NUMBERED:
            assert isinstance(command, Numbered)
            if admit(self, command):
                self._apply(command.command)
        elif kind == CREDIT:
            assert isinstance(command, Credit)
            if self._unserved:
                self._catch_up()
            self._unserved = True
            self._credit(command)
        elif kind == GET:
            assert isinstance(command, Get)
            self._get(command)
        else:
            self._seldom(command)

    def _seldom(self, command: Command) -> None:
        if isinstance(command, (Purge, Inspect, Configure, Retire)):
            self._catch_up()
        if isinstance(command, Attach):
            if self._unserved:
                self._catch_up()
            self._unserved = True
            self._attach(command)
        elif isinstance(command, Detach):
            self._detach(command.key)
        elif isinstance(command, Purge):
            self._purge(command.session)
        elif isinstance(command, Inspect):
            self.use()
            answer = Inspected(command.session, self.ready.count, self.roster.attached_count)
            self._effects.append(answer)
        elif isinstance(command, EndSession):
            self.end_session(command.session, command.is_cut_off)
        elif isinstance(command, Configure):
            configure(self, command)
        elif isinstance(command, Selected):
            self._unserved = True
            apply_selected(self, command)
        elif isinstance(command, Restarted):
            self._restarted(command.next_seq)
        elif not isinstance(command, Tick):
            apply_leadership(self, command)

    def has_more(self) -> bool:
        """Whether work is left that wants another batch soon."""
        return len(self.leaving) > 0 or self.behind or self.due_ms <= self.now_ms

    def length(self) -> i64:
        """Of the queue: ready, with a consumer, or waiting for its time."""
        return self.ready.count + self.checked_out + self.notes.beside_count

    @property
    def consumers(self) -> dict[ConsumerKey, Consumer]:
        return self.roster.consumers

    @property
    def attached_count(self) -> int:
        return self.roster.attached_count

    def alive_within(self, first: i64, count: i64) -> list[tuple[int, int]]:
        """Of which of these messages the bodies are needed, in no order."""
        found = self.queue_within(first, count)
        found.extend(self.pending_dead_letters.within(first, count))
        return found

    def queue_within(self, first: i64, count: i64) -> list[tuple[int, int]]:
        """Which of these messages are in the queue, in no order."""
        found = self.ready.within(first, count)
        found.extend(self.roster.held_within(first, count))
        for leaving in self.leaving:
            found.extend(leaving.seqs.within(first, count))
        if self.delays is not None:
            found.extend(self.delays.seqs.within(first, count))
        return found

    # Publishing

    def _enqueue(self, command: Enqueue) -> None:
        session = command.session
        first = command.first_seq
        count = command.count
        traits = command.traits
        last_seen = self.last_seqs.of(session)
        if first != last_seen + 1 and self.streams is not None:
            pass_over_bare(self, command, last_seen + 1)
            return
        if first > last_seen + 1:
            self._effects.append(ResendFrom(session, last_seen + 1))
            return
        if first <= last_seen:
            known = min(count, last_seen + 1 - first)
            self._effects.append(KnownAlready(session, first, known))
            first += known
            count -= known
            if count == 0:
                return
            traits = None if traits is None else traits.from_index(known)
        self.last_seqs.put(session, first + count - 1)
        message_first = self.next_seq
        self.next_seq = message_first + count
        enqueued = Enqueued(session, first, count, message_first)
        if self.retired:
            refuse_all(self, enqueued)
            return
        self._effects.append(enqueued)
        if self._plain and traits is None:
            self.ready.add(message_first, count, 0)
        else:
            self._admit(session, first, message_first, count, traits)

    def _put_new(
        self, session: SessionId, first: i64, message_first: i64, count: i64, traits: Traits
    ) -> None:
        """Messages with ids, one by one: those that are known are gone at once."""
        known = self.known_ids
        ids = traits.ids
        assert known is not None and ids is not None
        at: i64 = 0
        while at < count:
            if known.knows(ids, at):
                self._effects.append(Left(message_first + at, 1, LEFT_DUPLICATE))
            else:
                own = traits.one(at)
                if self._put_or_refuse(session, first + at, message_first + at, 1, own):
                    known.remember(ids, at, message_first + at if self.streams is None else 0)
            at += 1

    def _admit(
        self, session: SessionId, first: i64, message_first: i64, count: i64, traits: Traits | None
    ) -> None:
        """Messages that need a look, or a queue that has limits."""
        if self.known_ids is not None and traits is not None and traits.ids is not None:
            self._put_new(session, first, message_first, count, traits)
        else:
            self._put_or_refuse(session, first, message_first, count, traits)
        if self.options.overflow == DROP_HEAD and self.notes.is_over():
            self.serve()
            self.drop_head()
        if self.due_ms <= self.now_ms:
            # A lifetime of nothing: a waiting consumer gets it, or it expires.
            self.serve()
            pass_time(self)

    def _put_or_refuse(
        self, session: SessionId, first: i64, message_first: i64, count: i64, traits: Traits | None
    ) -> bool:
        """Return whether all of the messages are in the queue."""
        if self.options.overflow != DROP_HEAD and not self.is_partial:
            return self._put_what_fits(session, first, message_first, count, traits)
        self._put(message_first, count, traits, 0)
        return True

    def _put(self, first: i64, count: i64, traits: Traits | None, index: i64) -> None:
        """Messages first.. are ready; they are `index`.. of the traits."""
        options = self.options
        if self.ready.groups is not None:
            self.ready.groups.note(first, count, traits, index)
        self.notes.put(first, count, traits, index)
        if options.ttl_ms >= 0:
            if self.arrivals.wants_prune():
                oldest = oldest_of(self.delays, self.ready.oldest())
                self.arrivals.prune(self.roster.oldest_held(oldest))
            self.arrivals.note(first, self.now_ms, options.ttl_ms)
            self.due_by(self.arrivals.due_ms(first, options.ttl_ms))
        if options.copies:
            self.limiter.new_messages()
        if self.last_values is not None and traits is not None and traits.keys is not None:
            self._replace(self.last_values, first, count, traits.keys, index)
        expires = traits is not None and (traits.ttls is not None or traits.ttl_ms >= 0)
        if expires or options.bounds_expiry:
            bounds = options.address
            due_ms = self.calendar.note(first, count, self.now_ms, traits, index, bounds)
            if self.calendar.wants_sweep(self.length()):
                due_ms = self.now_ms
            self.due_by(due_ms)

    def _replace(
        self, last_values: LastValues, first: i64, count: i64, keys: bytes, index: i64
    ) -> None:
        """Messages first.. are ready: those that they replace go, unless a consumer has them."""
        for place in range(count):
            old = last_values.put(first + place, keys, index + place)
            if old > 0:
                leave_replaced(self.leaving, self.notes, self.delays, old)

    # Limits

    def drop_head(self) -> None:
        """The oldest of the lowest level go, until the queue is within its limits."""
        while self.notes.is_over():
            if self._drops_delayed():
                continue
            if self.notes.is_far_over() and (self.delays is None or self.delays.seqs.count == 0):
                leave_at_once(self.leaving, self.notes.drop_many(), LEFT_MAXLEN)
                continue
            first, count = self.notes.drop_lowest()
            begin_leave(self.leaving, first, count, LEFT_MAXLEN)

    def _drops_delayed(self) -> bool:
        """Drop the oldest message that waits for its time, unless the next ready one is older."""
        delays = self.delays
        if delays is None or delays.seqs.count == 0:
            return False
        first = delays.seqs.first()
        if self.ready.count > 0 and self.ready.lowest_lane().first() < first:
            return False
        delays.remove(first, 1)
        begin_leave(self.leaving, first, 1, LEFT_MAXLEN)
        return True

    def _put_what_fits(
        self, session: SessionId, first: i64, message_first: i64, count: i64, traits: Traits | None
    ) -> bool:
        """Take each message for which there is room at its turn, refuse the others; return
        whether there was room for all."""
        at: i64 = 0
        is_whole = True
        while at < count:
            room = self.notes.room(traits, at, count)
            if room == 0 and self.is_able():
                self.serve()
                room = self.notes.room(traits, at, count)
            if room > 0:
                self._put(message_first + at, room, traits, at)
                at += room
                continue
            refused: i64 = 1 if self.options.bytes_max >= 0 else count - at
            self._refuse(session, first + at, message_first + at, refused)
            at += refused
            is_whole = False
        return is_whole

    def _refuse(self, session: SessionId, first: i64, message_first: i64, count: i64) -> None:
        dead = self.options.overflow == REJECT_PUBLISH_DLX
        if self.streams is not None:
            self.streams.refuse(session, first, count)
        self._effects.append(Refused(session, first, count))
        reason = LEFT_MAXLEN if dead else LEFT_REFUSED
        self._effects.append(Left(message_first, count, reason))

    # Settling

    def _settle(self, command: Settle) -> None:
        if self.is_partial:
            settle_unheld(self, command)
            return
        consumer = self.roster.find(command.key)
        if consumer is None:
            return  # It went while this was under way; its messages are back in `ready`.
        outcome = command.outcome
        noted = len(command.annotations) > 0 and outcome != ACCEPT
        if noted and self.options.delays:
            self.deliver_at_ms = delivery_time(command.annotations)
        limits = consumer.limits
        if limits is not None:
            self.limiter.settle_copies(consumer, limits, command.runs)
        self.roster.held_changes()
        self._settling = True
        for first, count in command.runs:
            for run_first, run_count in consumer.remove_held(first, count):
                self.checked_out -= run_count
                if limits is not None:
                    self.limiter.settled(consumer, limits, run_first, run_count)
                if noted:
                    self.own_annotations().merge(run_first, run_count, command.annotations)
                if outcome == ACCEPT:
                    self._leave(run_first, run_count, LEFT_ACCEPTED)
                elif outcome == REJECT:
                    begin_leave(self.leaving, run_first, run_count, LEFT_REJECTED)
                elif outcome == REJECT_TOO_LARGE:
                    begin_leave(self.leaving, run_first, run_count, LEFT_TOO_LARGE)
                else:
                    consumer.note_returned(run_first, run_count)
                    self._return(run_first, run_count, outcome)
                if consumer.auto_return:
                    self.roster.give(consumer, consumer.credit + run_count)
        self._settling = False
        self.deliver_at_ms = 0
        if consumer.held.count == 0:
            self._holds_nothing(consumer)

    def _leave(self, first: i64, count: i64, reason: i64) -> None:
        """Out of the queue for good; they are in none of its sets any more."""
        if self.redelivered.count > 0:
            self.redelivered.remove(first, count)
        if self.overdue.count > 0:
            self.overdue.remove(first, count)
        if self.roster.selections is not None:
            self.roster.selections.forget(first, count)
        dies = self.options.keeps_dead and reason in DEATHS
        if dies and self.options.bytes_max >= 0:
            self.pending_dead_letters.weigh(self.notes.size_runs([(first, count)]))
            self.notes.pending_dead_letter_bytes = self.pending_dead_letters.bytes
        if self._noted:
            self._forget(first, count)
        if dies:
            self.pending_dead_letters.add(first, count, reason)
            self._effects.append(DeadLettersPending(first, count, reason))
        else:
            self.let_go(first, count, reason)

    def let_go(self, first: i64, count: i64, reason: i64) -> None:
        """Nothing is known of them any more."""
        left = Left(first, count, reason)
        if len(self.annotations.words) > 0:
            left.annotations = self.annotations.take(first, count)
        self._effects.append(left)

    def _forget(self, first: i64, count: i64) -> None:
        """What was noted of these messages."""
        self.notes.forget(first, count)
        if self.attempts.count > 0:
            self.attempts.forget(first, count)
        if self.last_values is not None:
            self.last_values.forget(first, count)
        if self.ready.groups is not None:
            self.ready.groups.forget(first, count)

    def _let_leave(self) -> None:
        """One slice of what is to leave."""
        room: i64 = DEAD_SLICE if self.options.dead_letters else LEAVE_SLICE
        while room > 0 and len(self.leaving) > 0:
            leaving = self.leaving[0]
            for first, count in leaving.seqs.take_head(room).runs():
                self._leave(first, count, leaving.reason)
                room -= count
            if leaving.seqs.count == 0:
                self.leaving.popleft()
                if leaving.purged >= 0:
                    self._effects.append(Purged(leaving.session, leaving.purged))

    def _return(self, first: i64, count: i64, outcome: i64) -> None:
        """Back to where they stood; what the client has seen is redelivered the next time."""
        self._came_back = True
        if self._noted or self.overdue.count > 0:
            self._return_noted(first, count, outcome)
            return
        self.ready.add(first, count, 0)
        if outcome != RETURN_UNSEEN:
            self._mark_redelivered(first, count)
        if self.options.ttl_ms >= 0:
            self._watch_returned(first)

    def _watch_returned(self, first: i64) -> None:
        """Messages from `first` on are ready again: their time may be over."""
        due_ms = self.arrivals.due_ms(first, self.options.ttl_ms)
        if due_ms <= self.now_ms:
            expire_by_ttl(self)
        else:
            self.due_by(due_ms)

    def _return_noted(self, first: i64, count: i64, outcome: i64) -> None:
        """The same where each message may have a level, a size, a count of failures."""
        end = first + count
        while first < end:
            level, run = self.notes.level_run(first, end - first)
            if self._one_by_one or self.overdue.count > 0:
                run = 1
            self._return_alike(first, run, level, outcome)
            first += run

    def _return_alike(self, first: i64, count: i64, level: i64, outcome: i64) -> None:
        tries: i64 = 0
        if self.counts and outcome != RETURN_UNSEEN:
            tries = self.attempts.get(first)
            tries += 1 << ACQUIRED_SHIFT
            returned = self._settling and self.options.counts_returns
            tries += 1 if outcome == FAIL or returned else 0
            self.attempts.put(first, tries)
            if 0 <= self.options.delivery_limit < (tries & FAILED_MASK):
                begin_leave(self.leaving, first, count, LEFT_DELIVERY_LIMIT)
                return
        if self.last_values is not None and not self.last_values.is_newest(first):
            begin_leave(self.leaving, first, count, LEFT_REPLACED)
            return
        if self.overdue.count > 0 and self.overdue.contains(first):
            begin_leave(self.leaving, first, count, LEFT_EXPIRED)
            return
        waits = False
        if outcome != RETURN_UNSEEN:
            self._mark_redelivered(first, count)
            waits = self._delays_returns and self._wait(first, outcome, tries)
        if not waits:
            self.notes.put_back(first, count, level)
        if self.options.ttl_ms >= 0:
            self._watch_returned(first)

    def _wait(self, seq: i64, outcome: i64, tries: i64) -> bool:
        """Keep a message that was given back until its time, if it has to wait."""
        due_ms = self.now_ms + wait_ms(self.options, outcome, seq, tries)
        if self.deliver_at_ms > 0:
            due_ms = min(self.deliver_at_ms, self.now_ms + DELAY_MS_MAX)
        if due_ms <= self.now_ms:
            return False
        if self.delays is None:
            self.delays = Delays(self.notes)
        self.due_by(self.delays.add(seq, self.now_ms, due_ms))
        if self.streams is None:
            self.delays.note_fresh(seq, due_ms, tries)
        return True

    # What few queues have: each gets a set of its own when it needs one

    def own_redelivered(self) -> SeqSet:
        if self.redelivered is NONE:
            self.redelivered = SeqSet()
        return self.redelivered

    def _mark_redelivered(self, first: i64, count: i64) -> None:
        redelivered = self.own_redelivered()
        redelivered.remove(first, count)  # Those that are marked already.
        redelivered.add(first, count)

    def own_overdue(self) -> SeqSet:
        if self.overdue is NONE:
            self.overdue = SeqSet()
        return self.overdue

    def own_annotations(self) -> Annotations:
        if self.annotations is NOTHING:
            self.annotations = Annotations()
        return self.annotations

    # Consumers

    def _attach(self, command: Attach) -> None:
        roster = self.roster
        refusal = roster.refusal_of(command.exclusive, command.selector)
        if refusal != NOT_REFUSED:
            self._effects.append(AttachRefused(command.key, refusal))
            return
        assert command.key not in roster.consumers
        consumer = Consumer(command.key, command.priority)
        consumer.auto_return = command.auto_return
        consumer.timeout_ms = command.timeout_ms
        if self.streams is not None:
            begin_consumer(self, consumer)
        consumer.own_window_bytes = command.window_bytes
        consumer.own_rate_max = command.rate_max
        if len(command.selector) > 0:
            is_empty = self.length() == 0 and len(self.leaving) == 0
            seen: i64 = self.next_seq - 1 if is_empty else 0
            roster.select(consumer, command.selector, seen, self.ready)
        roster.attach(consumer, command.exclusive)
        self._effects.append(Attached(command.key))
        if self.limiter.begin(consumer, self.now_ms):
            self._effects.append(SizesWanted())
        self.due_by(min(self.limiter.due_ms, self.limiter.look_ms))
        if self.options.single_active and roster.may_change(consumer):
            roster.activate(self._effects)
        roster.give(consumer, command.credit)
        self.timeouts.look_sooner = True

    def _credit(self, command: Credit) -> None:
        """Absolute credit, counted from the delivery count that its giver knew."""
        if self.behind:
            self.put_off.append(command)
            return
        consumer = self.roster.find(command.key)
        if consumer is None or not consumer.attached:
            if command.drain and self.streams is not None:
                self._effects.append(Drained(command.key, 0))  # The asker waits for it.
            return
        consumer.auto_return = command.auto_return
        if consumer.drain_upto > 0:
            drain(self, consumer)
        self.roster.give(
            consumer, command.delivery_count + command.credit - consumer.delivery_count
        )
        if command.drain:
            wants_drain(self, consumer)

    def _detach(self, key: ConsumerKey) -> None:
        consumer = self.roster.consumers.get(key)
        if consumer is not None and consumer.attached:
            self._leave_line(consumer)
            if consumer.held.count == 0:
                self.roster.remove(key)
            if self.options.single_active and self.roster.may_change(consumer):
                self.activate()
        self._effects.append(Detached(key))

    def _leave_line(self, consumer: Consumer) -> None:
        self.roster.detach(consumer)
        if consumer.drain_upto > 0:
            drain(self, consumer)  # The asker waits for the answer.
        if self.roster.attached_count == 0:
            self.use()
            self.limiter.configure_dispatch(self.now_ms)
            self._effects.append(LastConsumerGone())

    def _holds_nothing(self, consumer: Consumer) -> None:
        """It has settled all that it held."""
        if not consumer.attached:
            self.roster.remove(consumer.key)
        if self.options.single_active and self.roster.waits_for(consumer):
            self.activate()

    def end_session(self, session: SessionId, is_cut_off: bool = False) -> None:
        self.last_seqs.end(session)
        if self.streams is not None:
            self.streams.end(session)
        if self.retired and self.retired_by == session:
            self.retired = False  # It was not deleted, or will be all the same.
        if len(self.put_off) > 0:
            self._call_off(session)
        roster = self.roster
        ended = roster.of_session(session)
        for key in ended:
            self.end_consumer(roster.remove(key), RELEASE if is_cut_off else FAIL)
        if self.options.single_active and (roster.gives_way or roster.active_key in ended):
            roster.activate(self._effects)

    def _call_off(self, session: SessionId) -> None:
        """The session that wanted to get messages is gone."""
        kept: deque[Command] = deque()
        for command in self.put_off:
            if not isinstance(command, Get) or command.session != session:
                kept.append(command)
        self.put_off = kept

    def end_consumer(self, consumer: Consumer, outcome: i64) -> None:
        """It is gone, and no longer in `consumers`: what it held goes back."""
        if consumer.attached:
            self._leave_line(consumer)
        self.roster.held_changes()
        self.checked_out -= consumer.held.count
        if self._noted or self.overdue.count > 0:
            for first, count in consumer.held.runs():
                self._return(first, count, outcome)
        elif consumer.held.count > 0:
            self._came_back = True
            return_all(self, consumer.held, outcome != RETURN_UNSEEN)

    def _restarted(self, next_seq: i64) -> None:
        sessions: dict[SessionId, bool] = dict.fromkeys(self.last_seqs.all(), True)
        sessions.update(dict.fromkeys(self.roster.sessions(), True))
        if self.streams is not None:
            sessions.update(dict.fromkeys(self.streams.by_session, True))
        sessions.update({get.session: True for get in self.put_off if isinstance(get, Get)})
        for session in list(sessions):
            self.end_session(session)
        self.next_seq = max(self.next_seq, next_seq)
        self.use()  # The time in which no client could use it does not count.

    # Taking messages

    def is_able(self) -> bool:
        """Whether a consumer waits for messages (after a batch: none is ready that it may get)."""
        return self.roster.is_able()

    def _get(self, command: Get) -> None:
        self.use()
        if self.behind or self.is_partial:
            self.put_off.append(command)
            return
        self._catch_up()
        session = command.session
        if self.ready.count == 0:
            self._effects.append(Got(session, 0, False, 0))
            return
        key = consumer_key(session, 0)
        consumer = self.roster.consumers.get(key)
        if consumer is None:
            consumer = Consumer(key, 0)
            self.roster.add(consumer)
            self.timeouts.look_sooner = True
        seq = self.ready.first()
        if not self.options.copies:
            self._take(consumer, seq, 1)
        redelivered = self.redelivered.count > 0 and self.redelivered.contains(seq)
        tries: i64 = self.attempts.get(seq) if self.attempts.count > 0 else 0
        self._effects.append(Got(session, seq, redelivered, self.ready.count, tries))

    def _purge(self, session: SessionId) -> None:
        count = self.ready.count + self.notes.beside_count
        alone = len(self.leaving) == 0
        parts = self.ready.take_all()
        if self.delays is not None and self.delays.seqs.count > 0:
            parts.append(self.delays.seqs)
            self.notes.count_beside(SeqSet())
        self.delays = None
        for part in parts:
            self.leaving.append(Leaving(part, LEFT_PURGED))
        self.notes.ready_bytes = 0
        if count == 0:
            self._effects.append(Purged(session, 0))
            return
        last = self.leaving[len(self.leaving) - 1]
        last.purged = count
        last.session = session
        if alone and count <= LEAVE_SLICE:
            self._let_leave()

    def serve(self) -> None:
        """Hand ready messages to consumers with credit, the highest priority first, in turns."""
        woken = not (self.behind or self.is_partial)
        while woken and self.ready.count > 0:
            woken = self.roster.wake()
            only = self.roster.lines.only
            if only is not None:
                self._serve(only)
            else:
                for level in self.roster.lines.levels:
                    self._serve(level)

    def _serve(self, level: Level) -> None:
        while self.ready.count > 0 and level.count > 0:
            consumer = level.take()
            if self.ready.has_none_for(consumer):
                self.roster.rest(consumer)
                continue
            want = consumer.credit
            if level.count > 0:
                want = min(want, LONG_TURN if self.ready.count >= LONG_BACKLOG else 1)
            if consumer.limits is None:
                self._deliver(consumer, want)
            elif self.options.copies:
                self.limiter.copy(consumer, want, self.next_seq, self.now_ms, self._effects)
                self.due_by(self.limiter.due_ms)
            else:
                first, count = self.ready.head_for(consumer, want)
                self._deliver(consumer, self.limiter.allowed(consumer, first, count, self.now_ms))
                self.due_by(self.limiter.due_ms)
            consumer.in_turn = consumer.credit > 0 and not consumer.barred
            if consumer.in_turn:
                level.put(consumer)

    def _deliver(self, consumer: Consumer, want: i64) -> None:
        while want > 0:
            first, count = self.ready.head_for(consumer, want)
            if count == 0:
                return
            redelivered = False
            tries: i64 = 0
            if self.redelivered.count > 0:
                count, redelivered = alike(self.redelivered, first, count)
                if redelivered and self.attempts.count > 0:
                    tries = self.attempts.get(first)
                    count = 1
            self._take(consumer, first, count)
            delivery_seq = consumer.delivery_count + 1
            if consumer.rows is not None and self.streams is not None:
                self.streams.order += 1
                order = self.streams.order
                consumer.rows.add(Row(order, delivery_seq, first, count, redelivered, tries))
            consumer.delivery_count += count
            consumer.credit -= count
            want -= count
            self._effects.append(
                Delivers(consumer.key, delivery_seq, first, count, redelivered, tries)
            )

    def _take(self, consumer: Consumer, first: i64, count: i64) -> None:
        self.ready.take(consumer, first, count)
        if self.options.counts_bytes:
            self.notes.taken(first, count)
        consumer.held.add(first, count)
        self.roster.held_changes()
        self.checked_out += count
        if first + count - 1 > self.delivered_high:
            self.delivered_high = first + count - 1

    # Time (queues.machine.time_and_leadership)

    def due_by(self, due_ms: i64) -> None:
        if due_ms < self.due_ms:
            self.due_ms = due_ms

    def resume_put_off(self) -> None:
        """Nothing that has expired is ready any more: do what waited for that."""
        put_off = self.put_off
        self.put_off = deque()
        for command in put_off:
            if isinstance(command, Get):
                self._get(command)
            else:
                assert isinstance(command, Credit)
                self._credit(command)

    # The queue's options

    def use(self) -> None:
        """The queue is in use now (for `x-expires`)."""
        self.unused_since_ms = self.now_ms
        if self.options.expires_ms >= 0:
            self.due_by(self.now_ms + self.options.expires_ms)

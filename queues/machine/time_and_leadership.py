"""What changes a queue besides its clients: time, options, evaluated selectors, and processes and
leaders that come and go.

The part of `queues.machine.fifo.Fifo` for commands that only replicated queues get (numbered
commands of sessions, a leader that begins, processes that cannot be reached or have ended, dead
letters that are kept until they are safe elsewhere), and for what is due at `Fifo.due_ms`. What
expires is out of `ready` at once and leaves with the next batches. `resume` only reads. As in the
machine: same state and command, same state and effects. Compiled.
"""

from typing import TYPE_CHECKING, Final

from mypy_extensions import i64

from queues.machine.commands import (
    ACCEPT,
    REJECT,
    REJECT_TOO_LARGE,
    RELEASE,
    TERM_BITS,
    TERM_SHIFT,
    Command,
    Configure,
    ConsumerKey,
    DropLost,
    EndProcess,
    Enqueue,
    Leads,
    Numbered,
    ReleaseDeadLetters,
    Retire,
    Selected,
    SessionId,
    Settle,
    Suspend,
    Unsuspend,
    consumer_key,
    process_of,
    session_of,
)
from queues.machine.consuming.checked_out import Row, Rows
from queues.machine.consuming.consumers import Consumer
from queues.machine.consuming.numbered_sessions import KNOWN, TAKEN, Resume, Resumed, Stream
from queues.machine.delays import oldest_of
from queues.machine.effects import (
    LEFT_ACCEPTED,
    LEFT_BURIED,
    LEFT_EXPIRED,
    LEFT_PURGED,
    LEFT_REFUSED,
    Activated,
    Attached,
    AttachRefused,
    Delivers,
    Detached,
    Drained,
    Effect,
    Enqueued,
    Got,
    Inspected,
    KnownAlready,
    Left,
    QueueExpired,
    Refused,
    ResendFrom,
    SessionOver,
    SizesWanted,
    TimedOut,
    Unwanted,
)
from queues.machine.expiry import FAR, Arrivals, default_lifetime
from queues.machine.leaving import Leaving, begin_leave
from queues.machine.options import DROP_HEAD, Options
from queues.machine.ready import alike
from queues.runs.columns import Sparse
from queues.runs.seqset import SeqSet, missing

if TYPE_CHECKING:
    from queues.machine.fifo import Fifo

DUE_SLICE: Final = 2048  # entries of the calendar looked at in one batch
PROCESS_SHIFT: Final = 96  # of a consumer's key: what is above is its session's process
NUMBER_MASK: Final = 0xFFFFFFFF  # the session's own number of the consumer


def apply_leadership(machine: "Fifo", command: Command) -> None:
    """One of the commands of this module, but for `Numbered`."""
    if isinstance(command, Leads):
        assert 0 < command.term < 1 << TERM_BITS
        machine.next_seq = max(machine.next_seq, command.term << TERM_SHIFT | 1)
        machine.use()  # The time in which there was no leader does not count.
    elif isinstance(command, Retire):
        _retire(machine, command)
    elif isinstance(command, Suspend):
        _suspend(machine, command)
    elif isinstance(command, Unsuspend):
        _unsuspend(machine, command.process)
    elif isinstance(command, EndProcess):
        _end_process(machine, command.process, command.is_cut_off)
    elif isinstance(command, DropLost):
        _drop_lost(machine, command)
    else:
        assert isinstance(command, ReleaseDeadLetters)
        for first, count in command.runs:
            for run_first, run_count in machine.pending_dead_letters.remove(first, count):
                machine.let_go(run_first, run_count, LEFT_BURIED)
        machine.notes.pending_dead_letter_bytes = machine.pending_dead_letters.bytes


def _drop_lost(machine: "Fifo", command: DropLost) -> None:
    """These messages leave the queue, and are not dead-lettered. All sessions have been ended, so
    no consumer holds one. Others may have been delivered: which ones is not known."""
    if machine.is_partial:
        machine.is_partial = False
        redelivered = machine.own_redelivered()
        for first, count in machine.queue_within(1, machine.next_seq - 1):
            redelivered.remove(first, count)
            redelivered.add(first, count)
    for first, count in command.runs:
        lost: list[tuple[int, int]] = []
        for run_first, run_count in machine.ready.remove(first, count):
            machine.notes.taken(run_first, run_count)
            lost.append((run_first, run_count))
        if machine.delays is not None:
            lost.extend(machine.delays.remove(first, count))
        for leaving in machine.leaving:
            lost.extend(leaving.seqs.remove(first, count))
        for run_first, run_count in lost:
            begin_leave(machine.leaving, run_first, run_count, LEFT_PURGED)


def settle_unheld(machine: "Fifo", command: Settle) -> None:
    """A machine that is partial does not know who holds what, and serves no consumer: messages that
    are settled leave it at once. Their dead letters are the business of the leader of that time."""
    if command.outcome not in (ACCEPT, REJECT, REJECT_TOO_LARGE):
        return
    reason = LEFT_ACCEPTED if command.outcome == ACCEPT else LEFT_PURGED
    for first, count in command.runs:
        for run_first, run_count in machine.ready.remove(first, count):
            machine.notes.taken(run_first, run_count)
            begin_leave(machine.leaving, run_first, run_count, reason)


# Streams


def admit(machine: "Fifo", command: Numbered) -> bool:
    """Whether the command in it is to be applied now; if not, its answers have been given."""
    streams = machine.streams
    assert streams is not None
    session = command.session
    inner = command.command
    verdict = streams.admit(command, machine.is_partial)
    if verdict == TAKEN:
        if isinstance(inner, Enqueue):  # The stream's numbers hold, whatever was before.
            machine.last_seqs.put(session, inner.first_seq - 1)
        return True
    if isinstance(inner, Enqueue):
        pass_over(machine, inner)
    if verdict != KNOWN:
        machine.tell(ResendFrom(session, verdict))
    return False


def pass_over(machine: "Fifo", command: Enqueue) -> None:
    """Nothing of it is taken; it uses up numbers all the same, for bodies bear them already."""
    machine.tell(Unwanted(command.session, machine.next_seq, command.count))
    machine.next_seq += command.count


def pass_over_bare(machine: "Fifo", command: Enqueue, wanted: i64) -> None:
    """The same for one that came without a number and is not the session's next."""
    pass_over(machine, command)
    if command.first_seq > wanted:
        machine.tell(ResendFrom(command.session, wanted))
    else:
        machine.tell(KnownAlready(command.session, command.first_seq, command.count))


def resume(machine: "Fifo", wanted: Resume) -> Resumed:
    """What a session's proxy has to know of a leader that is new to it."""
    streams = machine.streams
    assert streams is not None
    session = wanted.session
    stream = streams.by_session.get(session)
    if stream is None:
        return Resumed(session, 0, 0)
    resumed = Resumed(session, stream.number, machine.last_seqs.of(session))
    effects = resumed.effects
    if stream.refused is not None:
        for first, count in stream.refused.runs():
            begin = max(i64(first), wanted.confirmed + 1)
            if begin < first + count:
                effects.append(Refused(session, begin, first + count - begin))
    answer: Effect | None = None
    if 0 < wanted.asked == stream.answered:
        answer = _still_true(machine, session, stream.answer)
    if isinstance(answer, (Attached, AttachRefused)):
        effects.append(answer)
    _consumers_again(machine, wanted, answer, effects)
    if answer is not None and not isinstance(answer, (Attached, AttachRefused)):
        effects.append(answer)
    return resumed


def _still_true(machine: "Fifo", session: SessionId, answer: Effect | None) -> Effect | None:
    """A message that was got may have been taken back: then there was none."""
    if isinstance(answer, Got) and answer.message > 0:
        holder = machine.roster.consumers.get(consumer_key(session, 0))
        if holder is None or not holder.held.contains(answer.message):
            return Got(session, 0, False, machine.ready.count)
    return answer


def _consumers_again(
    machine: "Fifo", wanted: Resume, answer: Effect | None, effects: list[Effect]
) -> None:
    """Deliveries of all of them in the order in which they were made, then who is active."""
    active: list[Effect] = []
    found: list[tuple[int, int, int]] = []  # order, place of the consumer, place of the row
    rows: list[list[Row]] = []
    keys: list[ConsumerKey] = []
    for number, delivery_seq in wanted.wanted:
        key = consumer_key(wanted.session, number)
        consumer = machine.roster.consumers.get(key)
        if consumer is None:
            if not _explains(answer, key):
                effects.append(TimedOut(key, machine.options.consumer_timeout_ms))
            continue
        if machine.options.single_active and consumer.attached:
            active.append(Activated(key, machine.roster.active_key == key))
        if consumer.rows is not None:
            own = consumer.rows.from_number(delivery_seq)
            found += [(row.order, len(rows), place) for place, row in enumerate(own)]
            rows.append(own)
            keys.append(key)
    found.sort()
    for _, at, place in found:
        row = rows[at][place]
        effects.append(
            Delivers(
                keys[at], row.delivery_seq, row.first, row.count, row.redelivered, row.attempts
            )
        )
    effects.extend(active)


def _explains(answer: Effect | None, key: ConsumerKey) -> bool:
    """Whether the answer says why there is no such consumer."""
    return isinstance(answer, (Detached, AttachRefused)) and answer.key == key


# The queue is about to go


def _retire(machine: "Fifo", command: Retire) -> None:
    ready = machine.ready.count
    consumer_count = machine.roster.attached_count
    if command.off:
        machine.set_retired(False, SessionId(0))
    elif (not command.if_empty or ready == 0) and (not command.if_unused or consumer_count == 0):
        machine.set_retired(True, command.session)
    machine.tell(Inspected(command.session, ready, consumer_count))


def refuse_all(machine: "Fifo", enqueued: Enqueued) -> None:
    """A publish to a queue that is about to go. Refusals come before what confirms the others."""
    session, first, count = enqueued.session, enqueued.first_seq, enqueued.count
    if machine.streams is not None:
        machine.streams.refuse(session, first, count)
    machine.tell(Refused(session, first, count))
    machine.tell(enqueued)
    machine.tell(Left(enqueued.message_first, count, LEFT_REFUSED))


# A queue of one node gets leaders


def number_sessions(machine: "Fifo") -> None:
    """Sessions that use the queue keep their consumers and what these hold. None of their commands
    had a number; the first one gets 1."""
    streams = machine.streams
    assert streams is not None
    for session in (*machine.last_seqs.all(), *machine.roster.sessions()):
        if session not in streams.by_session:
            streams.restore(session, Stream())
    for key, consumer in machine.roster.consumers.items():
        if key & NUMBER_MASK and consumer.rows is None:  # 0 holds what basic.get has brought.
            consumer.rows = _rows_of(machine, consumer)


def _rows_of(machine: "Fifo", consumer: Consumer) -> Rows:
    """What the consumer holds, as its last deliveries: in which order they were made is unknown."""
    streams = machine.streams
    assert streams is not None
    rows = Rows()
    delivery_seq: i64 = consumer.delivery_count - consumer.held.count + 1
    for first, left in consumer.held.runs():
        while left > 0:
            count, redelivered = alike(machine.redelivered, first, left)
            tries: i64 = 0
            if redelivered and machine.attempts.count > 0:
                tries = machine.attempts.get(first)
                count = 1
            streams.order += 1
            rows.add(Row(streams.order, delivery_seq, first, count, redelivered, tries))
            delivery_seq += count
            first += count
            left -= count
    return rows


# Processes that cannot be reached, or are gone


def begin_consumer(machine: "Fifo", consumer: Consumer) -> None:
    """It is being let in."""
    streams = machine.streams
    assert streams is not None
    consumer.rows = Rows()
    consumer.suspended = (consumer.key >> PROCESS_SHIFT) in streams.suspended
    consumer.barred = consumer.suspended


def _of_process(machine: "Fifo", process: int) -> list[Consumer]:
    consumers = machine.roster.consumers
    return [each for key, each in consumers.items() if key >> PROCESS_SHIFT == process]


def _suspend(machine: "Fifo", command: Suspend) -> None:
    streams = machine.streams
    assert streams is not None
    if command.process in streams.suspended:
        return
    due_ms = machine.now_ms + command.timeout_ms
    streams.suspended[command.process] = due_ms
    for consumer in _of_process(machine, command.process):
        consumer.suspended = True
        machine.limiter.open_or_close(consumer)
    if machine.options.single_active:
        machine.activate()
    machine.due_by(due_ms)


def _unsuspend(machine: "Fifo", process: int) -> None:
    streams = machine.streams
    assert streams is not None
    if streams.suspended.pop(process, None) is None:
        return
    for consumer in _of_process(machine, process):
        consumer.suspended = False
        machine.limiter.open_or_close(consumer)
    if machine.options.single_active:
        machine.activate()


def return_suspended(machine: "Fifo") -> None:
    """A process could not be reached for too long: what its consumers hold is ready again, and they
    are out, as those that keep a delivery for too long. No delivery has failed by that."""
    streams = machine.streams
    assert streams is not None
    for process, due_ms in streams.suspended.items():
        if due_ms > machine.now_ms:
            machine.due_by(due_ms)
            continue
        streams.suspended[process] = FAR
        for consumer in _of_process(machine, process):
            if consumer.held.count > 0:
                machine.roster.remove(consumer.key)
                machine.tell(TimedOut(consumer.key, machine.options.consumer_timeout_ms))
                machine.end_consumer(consumer, RELEASE)
            elif machine.ready.groups is not None:
                machine.ready.groups.leave(consumer)
        if machine.options.single_active:
            machine.activate()


def _end_process(machine: "Fifo", process: int, is_cut_off: bool) -> None:
    streams = machine.streams
    assert streams is not None
    streams.end_process(process)
    ended: dict[SessionId, None] = dict.fromkeys(
        [session for session in streams.by_session if process_of(session) == process]
    )
    for consumer in _of_process(machine, process):
        ended[session_of(consumer.key)] = None
    for session in ended:
        machine.end_session(session, is_cut_off)
        machine.tell(SessionOver(session))


def pass_time(machine: "Fifo") -> None:
    """Do what is due, and find out when the next thing will be."""
    options = machine.options
    now_ms = machine.now_ms
    machine.due_ms = FAR
    if machine.unused_since_ms < 0:
        machine.unused_since_ms = now_ms
    if machine.streams is not None and len(machine.streams.suspended) > 0:
        return_suspended(machine)
    if machine.delays is not None:
        machine.due_by(machine.delays.end_due(now_ms))
    if options.ttl_ms >= 0:
        expire_by_ttl(machine)
    if machine.calendar.count > 0 or machine.behind:
        _expire_by_calendar(machine)
    if machine.limiter.due_ms < FAR:
        machine.due_by(machine.limiter.end_waits(now_ms))
    if now_ms >= machine.limiter.look_ms:
        _check_slow(machine)
    machine.due_by(machine.limiter.look_ms)
    if now_ms >= machine.timeouts.check_ms:
        _check_timeouts(machine)
        if machine.checked_out > 0:
            machine.timeouts.plan(now_ms, options.consumer_timeout_ms)
    machine.due_by(machine.timeouts.due_ms())
    if options.expires_ms >= 0:
        _expire_queue(machine)


def expire_by_ttl(machine: "Fifo") -> None:
    """What is ready and older than the queue's TTL leaves, wherever it stands."""
    ttl_ms = machine.options.ttl_ms
    boundary = machine.arrivals.boundary(machine.now_ms, ttl_ms, machine.next_seq)
    if boundary > 0:
        _expire_parts(machine, machine.ready.split_below(boundary))
        if machine.delays is not None:
            gone = machine.delays.split_below(boundary)
            if gone.count > 0:
                machine.leaving.append(Leaving(gone, LEFT_EXPIRED))
    oldest = oldest_of(machine.delays, machine.ready.oldest())
    if oldest > 0:
        machine.due_by(machine.arrivals.due_ms(oldest, ttl_ms))


def return_all(machine: "Fifo", seqs: SeqSet, is_seen: bool) -> None:
    """All that a consumer held is ready again, where messages are all alike: it may be millions,
    in as many runs. `is_seen`: they are redelivered the next time. The set is used up."""
    oldest = seqs.first()
    if is_seen:
        machine.own_redelivered().unite(seqs.copy())
    machine.ready.join(seqs)
    if machine.options.ttl_ms >= 0:
        due_ms = machine.arrivals.due_ms(oldest, machine.options.ttl_ms)
        if due_ms <= machine.now_ms:
            expire_by_ttl(machine)
        else:
            machine.due_by(due_ms)


def _expire_parts(machine: "Fifo", parts: list[SeqSet]) -> None:
    for part in parts:
        if machine.options.counts_bytes:
            for first, count in part.runs():
                machine.notes.taken(first, count)
        machine.leaving.append(Leaving(part, LEFT_EXPIRED))


def _expire_by_calendar(machine: "Fifo") -> None:
    """One slice of the messages whose own expiration is due."""
    calendar = machine.calendar
    for first, count in calendar.take_due(machine.now_ms, DUE_SLICE):
        found: i64 = 0
        for run_first, run_count in machine.ready.remove(first, count):
            machine.notes.taken(run_first, run_count)
            begin_leave(machine.leaving, run_first, run_count, LEFT_EXPIRED)
            found += run_count
        if found < count and machine.delays is not None:
            for run_first, run_count in machine.delays.remove(first, count):
                begin_leave(machine.leaving, run_first, run_count, LEFT_EXPIRED)
                found += run_count
        if found < count and machine.checked_out > 0:
            _note_overdue(machine, first, count)
    due_ms = calendar.next_due_ms()
    machine.behind = due_ms <= machine.now_ms
    if calendar.wants_sweep(machine.length()):
        calendar.sweep(machine.queue_within, DUE_SLICE)
        due_ms = machine.now_ms
    machine.due_by(due_ms)
    if not machine.behind and len(machine.put_off) > 0:
        machine.resume_put_off()


def _note_overdue(machine: "Fifo", first: i64, count: i64) -> None:
    for run_first, run_count in machine.roster.held_within(first, count):
        overdue = machine.own_overdue()
        overdue.remove(run_first, run_count)
        overdue.add(run_first, run_count)


def _check_timeouts(machine: "Fifo") -> None:
    """Consumers that keep a delivery for too long are out."""
    late = machine.timeouts.take_late(machine.now_ms, machine.options.consumer_timeout_ms)
    for consumer in late:
        machine.roster.remove(consumer.key)
        timeout = consumer.timeout_or(machine.options.consumer_timeout_ms)
        machine.tell(TimedOut(consumer.key, timeout))
        machine.end_consumer(consumer, RELEASE)
    if machine.options.single_active and len(late) > 0:
        machine.activate()


def _check_slow(machine: "Fifo") -> None:
    """Tell of consumers that are slow; close them if the queue is set so."""
    is_any_killed = False
    for slow in machine.limiter.take_slow(machine.now_ms):
        machine.tell(slow)
        if slow.is_killed:
            consumer = machine.roster.remove(slow.key)
            machine.tell(TimedOut(slow.key, 0))
            machine.end_consumer(consumer, RELEASE)
            is_any_killed = True
    if machine.options.single_active and is_any_killed:
        machine.activate()


def _expire_queue(machine: "Fifo") -> None:
    if machine.roster.attached_count > 0:
        return  # Its time begins when the last consumer goes.
    due_ms = machine.unused_since_ms + machine.options.expires_ms
    if due_ms <= machine.now_ms:
        machine.tell(QueueExpired())
        machine.use()  # in case that it is not deleted
    else:
        machine.due_by(due_ms)


# Options


def configure(machine: "Fifo", command: Configure) -> None:
    """Other limits hold at once; levels and counting are fixed for the life of a queue."""
    old = machine.options
    options = command.options
    assert options.levels == old.levels
    assert options.counts_deliveries == old.counts_deliveries
    assert options.single_active == old.single_active
    if options.group_buckets == 0:
        machine.roster.end_groups()
    machine.set_options(options)
    if machine.ready.groups is not None and old.group_buckets == 0:
        alive = machine.queue_within(1, machine.next_seq - 1)
        machine.ready.groups.begin(alive, machine.ready.lanes)
    if options.counts_bytes and not old.counts_bytes:
        machine.notes.begin_sizes(machine.queue_within(1, machine.next_seq - 1), command.sizes)
        if machine.delays is not None:
            machine.notes.count_beside(machine.delays.seqs)
    if options.ttl_ms >= 0 and old.ttl_ms < 0:
        machine.arrivals = Arrivals()
        if machine.length() > 0 or len(machine.leaving) > 0:  # What came before counts from now on.
            machine.arrivals.note(1, machine.now_ms, options.ttl_ms)
    elif options.ttl_ms >= 0:
        machine.arrivals.change(machine.now_ms, old.ttl_ms, options.ttl_ms)
    if options.bounds_expiry or old.bounds_expiry:
        _change_bounds(machine, old)
    if options.expires_ms != old.expires_ms:
        machine.use()
    if not machine.counts and machine.attempts.count > 0:
        machine.attempts = Sparse()
    machine.timeouts.look_sooner = True
    if machine.limiter.configured(machine.now_ms):
        machine.tell(SizesWanted())
    if options.single_active:
        machine.activate()
    if options.overflow == DROP_HEAD:
        machine.drop_head()
    pass_time(machine)


def _change_bounds(machine: "Fifo", old: Options) -> None:
    """Bounds of lifetimes have changed: they hold for what is in the queue. Where it is not known
    when a message came, its time begins now."""
    before, now_ms, calendar = old.address, machine.now_ms, machine.calendar
    address = machine.options.address
    old_ms = default_lifetime(before)
    ttl_ms = default_lifetime(address)
    if old_ms >= 0 and ttl_ms != old_ms:
        calendar.change_default(now_ms, old_ms, ttl_ms)
    elif ttl_ms >= 0 and old_ms < 0:
        timed = calendar.messages()
        for first, count in machine.queue_within(1, machine.next_seq - 1):
            for run_first, run_count in missing(timed, first, count):
                calendar.add_default(run_first, run_count, now_ms, ttl_ms)
    if address is not None and (
        before is None
        or before.expiry_min_ms != address.expiry_min_ms
        or before.expiry_max_ms != address.expiry_max_ms
    ):
        calendar.clamp(now_ms, address.expiry_min_ms, address.expiry_max_ms)


# Selectors


def apply_selected(machine: "Fifo", command: Selected) -> None:
    """Messages were evaluated: those that match may be served by the selection."""
    selections = machine.roster.selections
    selection = None if selections is None else selections.numbered(command.number)
    if selections is None or selection is None or selection.seen != command.after:
        return
    for first, count in command.matching.runs():
        for run_first, run_count in machine.queue_within(first, count):
            selection.known.add(run_first, run_count)
        for level, lane in enumerate(machine.ready.lanes):
            if lane.count > 0:
                for run_first, run_count in lane.within(first, count):
                    selection.add(run_first, run_count, level)
    selection.seen = command.upto
    if machine.options.copies:
        machine.limiter.new_messages()
    for consumer in selections.group(selection).attached.values():
        if 0 < consumer.drain_upto <= selection.seen:
            drain(machine, consumer)


def wants_drain(machine: "Fifo", consumer: Consumer) -> None:
    """The client wants what matches, and then its credit back: at once, unless the selector has
    not seen all messages."""
    selection = consumer.selection
    if selection is not None and selection.seen < machine.next_seq - 1:
        consumer.drain_upto = machine.next_seq - 1
    else:
        drain(machine, consumer)


def drain(machine: "Fifo", consumer: Consumer) -> None:
    """The consumer gets what there is, and no more for the credit that it has."""
    machine.serve()
    consumer.drain_upto = 0
    consumer.delivery_count += max(consumer.credit, 0)
    consumer.credit = 0
    machine.tell(Drained(consumer.key, consumer.delivery_count))

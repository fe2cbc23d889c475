"""What time brings about in a queue: messages, deliveries and the queue itself may be over it.

Functions of `queues.machine.fifo.Fifo`, called when its time has come (`due_ms`) or its rules
change. What
expires is out of `ready` at once and leaves with the next batches. Compiled.
"""

from typing import TYPE_CHECKING, Final

from mypy_extensions import i64

from queues.machine.commands import RELEASE
from queues.machine.delays import oldest_of
from queues.machine.effects import LEFT_EXPIRED, QueueExpired, TimedOut
from queues.machine.expiry import FAR
from queues.machine.leadership import return_suspended
from queues.machine.leaving import Leaving, begin_leave
from queues.runs.seqset import SeqSet

if TYPE_CHECKING:
    from queues.machine.fifo import Fifo

DUE_SLICE: Final = 2048  # entries of the calendar looked at in one batch


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

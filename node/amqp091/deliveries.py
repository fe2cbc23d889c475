"""The consuming side of one channel: deliveries out, acknowledgements back. Compiled.

Queues check messages out to the channel's consumers (`on_delivers`); the bytes are fetched and
written when the socket has room (`write`). What is waiting here is names of messages, not bodies,
so a client that never reads costs no memory. Messages that were never written go back unseen.

Prefetch of a consumer is credit that settling gives back in the queue (auto-return). Without a
limit, or with automatic acknowledgement, the channel grants WINDOW at a time as it writes.

With a limit on the whole channel (basic.qos global), a consumer that has used its credit waits in a
line. When acknowledgements make room, the consumers in the line share it in turn. If several wait,
each gets its share with a drain: its queue either uses the credit or answers that it is empty, so
that an empty queue cannot keep room from the others. A consumer of an empty queue keeps a standing
credit. What it uses of that beyond the limit is returned to the queue, and the consumer waits.
"""

from typing import Final, final

from mypy_extensions import i32, i64, mypyc_attr

from node.amqp091.delivery_ids import DeliveryIds
from node.amqp091.forms import NO_OFFSET, Forms
from node.amqp091.plans import Tracing
from node.amqp091.sent_times import Clock, timed
from node.amqp091.transaction import Transaction
from node.oversized import OversizedHeaders
from queues.conversion.costs import REWRITTEN
from queues.machine.commands import (
    ACCEPT,
    FAIL,
    QUEUE_LIMIT,
    REJECT,
    REJECT_TOO_LARGE,
    RELEASE,
    RETURN_UNSEEN,
    Attach,
    ConsumerKey,
    Credit,
    Detach,
    Settle,
    consumer_key,
)
from queues.machine.effects import ACQUIRED_SHIFT
from queues.message import FORMAT_091, Chunk
from queues.queue_host import CancelSink, QueueHost, SessionSink, View
from queues.sessions.counts import Counts
from queues.sessions.unacked import VOID, TagRun, Unacked
from queues.streams.host import StreamHost
from queues.streams.offsets import OffsetSpec
from warren.wire.amqp091.connection import Connection
from warren.wire.amqp091.deliver import (
    LARGE_BYTES,
    fitting_headers,
    header_frame_bytes,
    write_deliveries,
    write_large,
)
from warren.wire.amqp091.events import ACK, Settles
from warren.wire.amqp091.events import REJECT as REJECTED
from warren.wire.amqp091.rewrite import raw_headers, rewrite, without_keys
from warren.wire.buffer import BytesWriter, write_i32_le, write_i64_be
from warren.wire.errors import ProtocolError, ReplyCode

WINDOW: Final = 2048  # messages that an unlimited consumer may have waiting here
HEAD_SLACK: Final = 256
QUORUM_PREFETCH: Final = 2000  # what no limit means for a consumer of a quorum queue
ACQUIRED_COUNT: Final = b"x-acquired-count"
DELIVERY_COUNT: Final = b"x-delivery-count"


@final
class Consumer091:
    """A consumer of this channel. `number` is 1-based and never used twice on a channel."""

    def __init__(
        self,
        key: ConsumerKey,
        tag: str,
        host: QueueHost,
        no_ack: bool,
        prefetch: i64,
        exclusive: bool,
    ) -> None:
        self.key = key
        self.number: i64 = key & 0xFFFFFFFF
        self.tag = tag
        encoded = tag.encode()
        self.prefix: bytes = b"\x00\x3c\x00\x3c" + bytes([len(encoded)]) + encoded
        self.host = host
        self.quorum = host.quorum
        self.stream = isinstance(host, StreamHost)
        self.no_ack = no_ack
        self.prefetch: i64 = prefetch  # 0: no limit
        self.limited = True  # the channel's limit applies to it
        self.exclusive = exclusive
        self.priority: i64 = 0
        self.arguments: dict[str, object] | None = None  # of basic.consume, if there were any
        self.ids: DeliveryIds | None = None  # that it has asked for
        self.active = not host.single_active  # or the single active one
        self.delivered: i64 = 0  # highest delivery_seq that came from the queue
        self.written: i64 = 0  # of those, how many went to the socket
        self.held: i64 = 0  # checked out to it and not settled
        self.granted: i64 = 0  # delivery count up to which credit was given
        self.cancelled = False
        self.waits = False  # in the line for room under the channel's limit
        self.probing: i64 = 0  # of its credit, what is reserved until its queue has drained it
        self.attached = False  # its queue has taken it, and it is not over

    def windowed(self) -> bool:
        """Whether the channel grants credit by what it writes."""
        return self.no_ack or self.prefetch == 0


@final
@mypyc_attr(acyclic=True)
class Pending:
    """Messages first.. that are checked out to the consumer and not written yet."""

    def __init__(
        self, consumer: Consumer091, first: i64, count: i64, redelivered: bool, attempts: i64
    ) -> None:
        self.consumer = consumer
        self.first: i64 = first
        self.count: i64 = count
        self.redelivered = redelivered
        self.attempts: i64 = attempts  # as `SessionSink.on_delivers` has it


@final
class Deliveries:
    """Consumers, waiting deliveries and outstanding tags of one channel."""

    def __init__(
        self,
        sink: SessionSink,
        cancel_sink: CancelSink,
        connection: Connection,
        channel: i64,
        counts: Counts,
        oversized: OversizedHeaders,
        sent_clock: Clock | None = None,
    ) -> None:
        self._sink = sink
        self.sent_clock = sent_clock  # deliveries say when they are sent; None: they do not
        self._cancel_sink = cancel_sink
        self._oversized = oversized
        self._counts = counts
        self._connection = connection
        self._channel: i64 = channel
        self.consumers: dict[int, Consumer091] = {}
        self.by_tag: dict[str, Consumer091] = {}
        self.hosts: dict[int, QueueHost] = {}  # every queue that holds something for the session
        self.unacked = Unacked()
        self._forms: Forms | None = None  # from the first conversion on
        self.limit: i64 = 0  # of the whole channel (basic.qos global); 0: none
        self.spans_quorum = False  # the limit holds for consumers of quorum queues too
        self.prefetch: i64 = 0  # for consumers started from now on
        self.transaction: Transaction | None = None  # keeps what is settled until commit
        self.trace: Tracing | None = None  # while messages of the vhost are traced
        self.next_tag: i64 = 1
        self.delivered_count: i64 = 0  # to consumers that acknowledge
        self.delivered_no_ack_count: i64 = 0
        self.redelivered_count: i64 = 0
        self.acknowledged_count: i64 = 0
        self._next_number: i64 = 1
        self._pending: list[Pending] = []
        self._head: i64 = 0
        self._held: i64 = 0  # deliveries to consumers, written or not, that are not settled
        self._line: list[Consumer091] = []  # consumers that wait for room, the next one first
        self._reserved: i64 = 0  # room that consumers were granted with a drain
        self._loading = False

    # Consumers

    def attach(
        self,
        tag: str,
        host: QueueHost,
        no_ack: bool,
        exclusive: bool,
        priority: i64,
        timeout_ms: i64 = -1,
        start: OffsetSpec | None = None,
        window_bytes: i64 = QUEUE_LIMIT,
        rate_max: i64 = QUEUE_LIMIT,
        selector: bytes = b"",
    ) -> Consumer091:
        """Start a consumer; the queue's answer comes to the channel. `start`: of a stream."""
        number = self._next_number
        self._next_number += 1
        prefetch = self.prefetch
        if prefetch == 0 and host.quorum and not no_ack:
            prefetch = QUORUM_PREFETCH
        key = self._key(number)
        consumer = Consumer091(key, tag, host, no_ack, prefetch, exclusive)
        if (host.quorum and not self.spans_quorum) or consumer.stream:
            consumer.limited = False
        if start is not None and isinstance(host, StreamHost):
            host.begin_at(key, start, self._cancel_sink)
        consumer.priority = priority
        self.consumers[number] = consumer
        self.by_tag[tag] = consumer
        self.hosts[host.uid] = host
        credit = self._allowance(consumer, self.room())
        if credit == 0:
            self._wait(consumer)
        consumer.granted = credit
        auto_return = self._auto_returns(consumer)
        attach = Attach(
            *(key, credit, auto_return, exclusive, priority),
            *(timeout_ms, window_bytes, rate_max, selector),
        )
        host.command(self._sink, attach)
        return consumer

    def forget(self, consumer: Consumer091) -> None:
        """The consumer is cancelled, refused, or its queue is gone; what it waits for goes back."""
        self._forget_all([consumer])

    def cancel(self, consumer: Consumer091) -> None:
        """basic.cancel: no more deliveries; what was delivered may still be acknowledged."""
        self.forget(consumer)
        consumer.host.command(self._sink, Detach(consumer.key))

    def time_out(self, uid: i64, number: i64) -> Consumer091 | None:
        """The queue has taken back all that the consumer held; return it, if it is there still."""
        before = self._tags_open()
        self.unacked.void(uid, number)
        if self.transaction is not None:
            self.transaction.void(uid, number)
        if number > 0:
            self._held -= before - self._tags_open()
        consumer = self.consumers.get(number)
        if consumer is not None:
            self._take_waiting([consumer])
            self.forget(consumer)
        elif self.limit > 0:
            self._share()
        return consumer

    def take_cancelled(self, number: i64) -> Consumer091 | None:
        """The queue cancels the consumer: end it and requeue what it holds, but not what a
        transaction has settled; return it, if it is there still."""
        consumer = self.consumers.get(number)
        if consumer is None:
            return None
        host = consumer.host
        self.forget(consumer)
        before = self.unacked.count
        held = self.unacked.void(host.uid, number)
        self._held -= before - self.unacked.count
        if len(held) > 0:
            host.command(self._sink, Settle(consumer.key, RELEASE, held))
        host.command(self._sink, Detach(consumer.key))
        if self.limit > 0:
            self._share()
        return consumer

    def _tags_open(self) -> i64:
        """Tags that are not settled, or whose settlement waits for a commit."""
        held: i64 = 0 if self.transaction is None else self.transaction.settled_count
        return self.unacked.count + held

    def waiting(self) -> list[Pending]:
        """Deliveries that are not written yet, the oldest first."""
        return self._pending[self._head :]

    def _take_waiting(self, consumers: list[Consumer091]) -> dict[int, list[tuple[int, int]]]:
        """Drop the deliveries that wait for these consumers; return their messages, by number."""
        taken: dict[int, list[tuple[int, int]]] = {each.number: [] for each in consumers}
        kept: list[Pending] = []
        for pending in self.waiting():
            runs = taken.get(pending.consumer.number)
            if runs is None:
                kept.append(pending)
                continue
            runs.append((pending.first, pending.count))
            if not pending.consumer.no_ack:
                self._held -= pending.count
        self._pending = kept
        self._head = 0
        return taken

    def _forget_all(self, consumers: list[Consumer091]) -> None:
        """As `forget`, with one look at what waits for all of them together."""
        waiting = self._take_waiting(consumers)
        for consumer in consumers:
            consumer.cancelled = True
            self._leave_line(consumer)
            self.consumers.pop(consumer.number, None)
            if self.by_tag.get(consumer.tag) is consumer:
                del self.by_tag[consumer.tag]
            back = waiting[consumer.number]
            if len(back) > 0 and consumer.host.uid in self.hosts:
                settle = Settle(consumer.key, RETURN_UNSEEN, back)
                consumer.host.command(self._sink, settle)
        if self.limit > 0:
            self._share()

    def queue_gone(self, uid: int) -> list[Consumer091]:
        """The queue is deleted; return the consumers that it had here."""
        self.hosts.pop(uid, None)
        gone = [consumer for consumer in self.consumers.values() if consumer.host.uid == uid]
        self._forget_all(gone)
        return gone

    # From the queues

    def on_delivers(
        self,
        uid: int,
        number: int,
        delivery_seq: i64,
        first: i64,
        count: i64,
        redelivered: bool,
        attempts: i64,
    ) -> bool:
        """Messages came for a consumer; return whether there is something to write."""
        consumer = self.consumers.get(number)
        if consumer is None:
            # They were on their way when the consumer was cancelled. The queue counts them as held
            # by it until they are settled, which no client could do.
            host = self.hosts.get(uid)
            if host is not None:
                settle = Settle(self._key(number), RETURN_UNSEEN, [(first, count)])
                host.command(self._sink, settle)
            return False
        consumer.delivered = delivery_seq + count - 1
        if self.limit > 0 and consumer.limited:
            count = self._keep_within(consumer, first, count)
        if count > 0:
            if not consumer.no_ack:
                self._held += count
                consumer.held += count
            self._pending.append(Pending(consumer, first, count, redelivered, attempts))
        if self.limit > 0 and len(self._line) > 0:
            self._share()
        return count > 0 and not self._loading

    def _keep_within(self, consumer: Consumer091, first: i64, count: i64) -> i64:
        """Return to the queue what is over the channel's limit; how many messages are kept."""
        self._release(consumer, count)
        room = self.room()
        kept = min(count, max(room, 0))
        if consumer.no_ack:
            kept = count if room > 0 else 0
        if kept < count:
            back = Settle(consumer.key, RETURN_UNSEEN, [(first + kept, count - kept)])
            consumer.host.command(self._sink, back)
            self._release(consumer, consumer.probing)
            self._wait(consumer)
            consumer.granted = consumer.delivered
            consumer.host.command(self._sink, Credit(consumer.key, 0, 0, False, False))
        elif consumer.granted <= consumer.delivered and not consumer.no_ack:
            self._release(consumer, consumer.probing)
            self._wait(consumer)
        return kept

    def on_drained(self, number: int, delivery_count: i64) -> None:
        """The queue has used or dropped the credit that a consumer was granted with a drain."""
        consumer = self.consumers.get(number)
        if consumer is None:
            return
        gap = max(delivery_count - consumer.delivered, 0)
        consumer.delivered += gap
        consumer.written += gap
        if self.limit == 0:
            if gap > 0:
                self._grant_beyond(consumer, self._allowance(consumer, 0), False)
            return
        # A count above `granted` answers a larger grant from before the limit was lowered.
        if consumer.probing > 0 and (delivery_count == 0 or delivery_count >= consumer.granted):
            self._release(consumer, consumer.probing)
            standing = self._allowance(consumer, max(self.room(), 1))
            if standing > 0:
                self._grant_beyond(consumer, standing, False)
        if consumer.limited and consumer.granted <= consumer.delivered:
            self._wait(consumer)
        self._share()

    def has_work(self) -> bool:
        """Whether `write` could write something now."""
        return len(self._pending) > self._head and not self._loading

    def on_loaded(self) -> bool:
        self._loading = False
        return len(self._pending) > self._head

    def write(self, budget: i64) -> i64:
        """Write waiting deliveries of about `budget` bytes; return how many bytes that were.
        Messages that are shown in another form cost more (`queues.conversion.costs`)."""
        written: i64 = 0
        while self._head < len(self._pending) and written < budget:
            pending = self._pending[self._head]
            view = pending.consumer.host.view(self._sink, pending.first, pending.count)
            if view is None:
                self._loading = True
                break
            written += self._write_view(pending, view, budget - written)
            if pending.count == 0:
                self._head += 1
        if self._head == len(self._pending):
            self._pending = []
            self._head = 0
        elif self._head > HEAD_SLACK and self._head * 2 > len(self._pending):
            del self._pending[: self._head]
            self._head = 0
        return written

    def _write_view(self, pending: Pending, view: View, budget: i64) -> i64:
        """Write the first messages of the run, as many as the budget allows; return their cost."""
        consumer = pending.consumer
        chunk = view.chunk
        index: i64 = view.index
        count = messages_within(chunk, index, view.count, budget)
        cost: i64 = 0
        if pending.attempts != 0 or consumer.ids is not None or self.sent_clock is not None:
            count = min(count, max(budget // REWRITTEN, 1))
            cost = count * REWRITTEN
        shown: Chunk | None = None
        if chunk.format_tag != FORMAT_091 or consumer.stream:
            if self._forms is None:
                self._forms = Forms()
            offset = pending.first - 1 if consumer.stream else NO_OFFSET
            shown = self._forms.show(chunk, index, count, offset, budget)
            count = shown.count()
            cost = max(cost, self._forms.cost)
        self._write_run(pending, chunk, index, count, shown)
        pending.first += count
        pending.count -= count
        return max(cost, chunk.bytes_between(index, index + count))

    def _write_run(
        self, pending: Pending, chunk: Chunk, index: i64, count: i64, converted: Chunk | None
    ) -> None:
        """Write `count` messages; reject those whose header frame the client cannot receive.

        They are those from `index` of `chunk` on, and of `converted` the first.
        """
        shown = chunk
        first = index
        if converted is not None:
            shown = converted
            first = 0
        if pending.attempts != 0:
            shown = counted(shown, first, count, pending.attempts)
            first = 0
        if pending.consumer.ids is not None:
            shown = pending.consumer.ids.marked(shown, first, count, pending.first)
            first = 0
        if self.sent_clock is not None:
            shown = timed(shown, int(first), int(count), self.sent_clock())
            first = 0
        data = shown.data
        assert data is not None
        frame_max = self._connection.frame_max
        end = first + count
        done: i64 = 0
        while done < count:
            place = first + done
            fitting = fitting_headers(data, shown.base, shown.offsets, place, end, frame_max)
            if fitting > 0:
                self._write_fitting(pending, done, fitting, chunk, index, shown, first)
                done += fitting
            else:
                start, _ = shown.span(place)
                size = header_frame_bytes(data, start)
                self._reject_oversized(pending.consumer, pending.first + done, size)
                done += 1

    def _write_fitting(
        self,
        pending: Pending,
        skipped: i64,
        count: i64,
        chunk: Chunk,
        index: i64,
        shown: Chunk,
        first: i64,
    ) -> None:
        """Write `count` messages of the run, behind the `skipped` first.

        The run begins at `index` of `chunk` as stored, and at `first` of `shown` as the client
        gets it.
        """
        consumer = pending.consumer
        index += skipped
        first += skipped
        message = pending.first + skipped
        tag = self.next_tag
        self.next_tag = tag + count
        self._put_run(consumer, tag, pending.redelivered, shown, first, first + count)
        if self.trace is not None:
            self.trace.delivered(consumer.host, chunk, index, count, pending.redelivered)
        consumer.written += count
        if consumer.quorum:
            self._counts.quorum.deliver(count, pending.redelivered, consumer.no_ack)
        if pending.redelivered:
            self._counts.redelivered += count
            self.redelivered_count += count
        if consumer.no_ack:
            self._counts.delivered_no_ack += count
            self.delivered_no_ack_count += count
            settle = Settle(consumer.key, ACCEPT, [(message, count)])
            consumer.host.command(self._sink, settle)
        else:
            self._counts.delivered += count
            self.delivered_count += count
            self.unacked.add(tag, count, consumer.host.uid, consumer.number, message)
        self._grant_window(consumer)

    def _reject_oversized(self, consumer: Consumer091, message: i64, header_bytes: i64) -> None:
        """Reject a message for the consumer, which cannot be sent it and so cannot settle it."""
        consumer.written += 1
        self._oversized.note(consumer.host, int(header_bytes), int(self._connection.frame_max))
        if consumer.no_ack:
            consumer.host.command(
                self._sink, Settle(consumer.key, REJECT_TOO_LARGE, [(message, 1)])
            )
        else:
            run = TagRun(0, 1, consumer.host.uid, consumer.number, message)
            self.settle_runs([run], REJECT_TOO_LARGE)
        self._grant_window(consumer)

    def _grant_window(self, consumer: Consumer091) -> None:
        """Renew the credit of a consumer without a limit as its messages are written."""
        granted = consumer.windowed() and (consumer.no_ack or self.limit == 0)
        if granted and not consumer.waits and consumer.granted - consumer.written <= WINDOW // 2:
            self._grant(consumer, WINDOW)

    def _put_run(
        self, consumer: Consumer091, tag: i64, redelivered: bool, chunk: Chunk, first: i64, end: i64
    ) -> None:
        """Messages first..end-1 go out, with tags from `tag` on."""
        data = chunk.data
        assert data is not None
        connection = self._connection
        if chunk.bytes_between(first, end) < (end - first) * LARGE_BYTES:
            write_deliveries(
                connection.writer,
                self._channel,
                consumer.prefix,
                tag,
                redelivered,
                data,
                chunk.base,
                chunk.offsets,
                first,
                end,
                connection.frame_max,
            )
            return
        write_large(
            connection.writer,
            connection.parts,
            self._channel,
            consumer.prefix,
            tag,
            redelivered,
            data,
            chunk.base,
            chunk.offsets,
            first,
            end,
            connection.frame_max,
        )

    # Credit

    def _key(self, number: i64) -> ConsumerKey:
        return consumer_key(self._sink.session, number)

    def _auto_returns(self, consumer: Consumer091) -> bool:
        """Whether settling gives the consumer its credit back, without a word from here."""
        return not consumer.windowed() and (self.limit == 0 or not consumer.limited)

    def _grant(self, consumer: Consumer091, credit: i64) -> None:
        """Let the queue send `credit` more than what the channel has written."""
        consumer.granted = consumer.written + credit
        auto_return = self._auto_returns(consumer)
        command = Credit(consumer.key, consumer.written, credit, False, auto_return)
        consumer.host.command(self._sink, command)

    def _grant_beyond(self, consumer: Consumer091, credit: i64, drain: bool) -> None:
        """Let the queue send `credit` more than what it has delivered."""
        consumer.granted = consumer.delivered + credit
        auto_return = self._auto_returns(consumer)
        command = Credit(consumer.key, consumer.delivered, credit, drain, auto_return)
        consumer.host.command(self._sink, command)

    # The limit of the channel

    def set_limit(self, limit: i64) -> None:
        """basic.qos with global=true: one limit for all consumers of the channel, old and new."""
        self.limit = limit
        for consumer in list(self.consumers.values()):
            if not consumer.limited:
                continue
            if limit > 0:
                self._release(consumer, consumer.probing)
                self._wait(consumer)
            else:
                self._leave_line(consumer)
                self._grant_beyond(consumer, self._allowance(consumer, 0), False)
        self._share()

    def room(self) -> i64:
        """How many more messages the channel's limit allows, beside what is reserved."""
        return self.limit - self._held - self._reserved

    def _allowance(self, consumer: Consumer091, room: i64) -> i64:
        """Credit that a consumer may have beyond what was delivered, `room` being what is left."""
        credit = WINDOW if consumer.windowed() else max(consumer.prefetch - consumer.held, 0)
        if self.limit == 0 or not consumer.limited:
            return credit
        if consumer.no_ack:
            return credit if room > 0 else 0  # It uses up no room, but gets nothing without any.
        return max(room, 0) if consumer.windowed() else min(credit, max(room, 0))

    def _wait(self, consumer: Consumer091) -> None:
        """Put the consumer at the end of the line, unless it is in it."""
        if not consumer.waits:
            consumer.waits = True
            self._line.append(consumer)

    def _leave_line(self, consumer: Consumer091) -> None:
        """The consumer wants no room any more."""
        self._release(consumer, consumer.probing)
        if consumer.waits:
            consumer.waits = False
            self._line.remove(consumer)

    def _release(self, consumer: Consumer091, count: i64) -> None:
        """Up to `count` of what is reserved for the consumer is used, or not wanted any more."""
        released = min(count, consumer.probing)
        consumer.probing -= released
        self._reserved -= released

    def _share(self) -> None:
        """Give the room under the limit to the consumers that wait for it, in turn.

        If a consumer has used up its own prefetch it goes on waiting, and the others share.
        """
        room = self.room()
        if room <= 0 or len(self._line) == 0:
            return
        takers: i64 = 0
        for consumer in self._line:
            if not consumer.no_ack and self._allowance(consumer, room) > 0:
                takers += 1
        drain = takers > 1
        free = room
        line = self._line
        self._line = []
        for consumer in line:
            part = free if consumer.no_ack else (room + takers - 1) // max(takers, 1)
            credit = self._allowance(consumer, part)
            if credit == 0:
                self._line.append(consumer)
                continue
            consumer.waits = False
            if not consumer.no_ack:
                room -= credit
                takers -= 1
                if drain:
                    consumer.probing = credit
                    self._reserved += credit
            self._grant_beyond(consumer, credit, drain and not consumer.no_ack)

    # From the client

    def settle(self, event: Settles) -> None:
        """basic.ack, nack and reject; raise 406 for a tag that is not outstanding."""
        runs: list[TagRun] = []
        unknown: i64 = 0
        if event.multiple and event.last == 0:
            runs = self.unacked.take_all()
        elif event.multiple:
            if not self.unacked.take_upto(event.last, runs):
                unknown = event.last
        else:
            unknown = self.unacked.take_each(event.first, event.last, runs)
        if self.transaction is None:
            self.settle_runs(runs, outcome_of(event))
        else:
            self.transaction.settle(runs, outcome_of(event))
        if unknown != 0 or (not event.multiple and event.last == 0):
            raise ProtocolError(ReplyCode.PRECONDITION_FAILED, f"unknown delivery tag {unknown}")

    def recover(self) -> None:
        """basic.recover: everything outstanding goes back to its queue, in order."""
        self.settle_runs(self.unacked.take_all(), RELEASE)

    def settle_runs(self, runs: list[TagRun], outcome: i64) -> None:
        """Tell the queues the outcome of what was taken out of `unacked`."""
        length: i64 = len(runs)
        i: i64 = 0
        while i < length:
            run = runs[i]
            i += 1
            if run.uid == VOID:
                continue
            settled = [(int(run.first), int(run.count))]
            while i < length and runs[i].uid == run.uid and runs[i].number == run.number:
                settled.append((runs[i].first, runs[i].count))
                i += 1
            total: i64 = 0
            for _, count in settled:
                total += count
            if run.number > 0:
                self._held -= total
            consumer = self.consumers.get(run.number)
            if consumer is None:
                key = self._key(run.number)
                host = self.hosts.get(run.uid)
            else:
                key = consumer.key
                consumer.held -= total
                host = consumer.host
            if outcome == ACCEPT:
                self._counts.acknowledged += total
                self.acknowledged_count += total
                if host is not None and host.quorum:
                    self._counts.quorum.acknowledged += total
            if host is not None:  # A deleted queue has nothing left to settle.
                host.command(self._sink, Settle(key, outcome, settled))
        if self.limit > 0 and length > 0:
            self._share()

    def end(self) -> None:
        """The channel is over: what was never written goes back unseen (the rest by EndSession)."""
        self._forget_all(list(self.consumers.values()))


def messages_within(chunk: Chunk, index: i64, count: i64, budget: i64) -> i64:
    """How many of the messages index.. fit into `budget` bytes; at least one."""
    if chunk.bytes_between(index, index + count) <= budget:
        return count
    low: i64 = 1
    high = count
    while low < high:
        middle = (low + high + 1) // 2
        if chunk.bytes_between(index, index + middle) <= budget:
            low = middle
        else:
            high = middle - 1
    return low


def outcome_of(event: Settles) -> i64:
    """What an acknowledgement means to the queue; only basic.reject counts as a failure."""
    if event.kind == ACK:
        return ACCEPT
    if not event.requeue:
        return REJECT
    return FAIL if event.kind == REJECTED else RELEASE


def counted(chunk: Chunk, index: i64, count: i64, attempts: i64) -> Chunk:
    """`count` messages from `index` on, each with the headers that tell its attempts."""
    data = chunk.data
    assert data is not None
    offsets = BytesWriter()
    parts: list[bytes] = []
    size: i64 = 0
    for place in range(index, index + count):
        start, end = chunk.span(place)
        part = with_counts(data, start, end, attempts)
        write_i32_le(offsets, i32(size))
        parts.append(part)
        size += len(part)
    write_i32_le(offsets, i32(size))
    return Chunk(FORMAT_091, b"".join(parts), 0, offsets.getvalue(), chunk.info)


def with_counts(data: bytes, start: i64, end: i64, attempts: i64) -> bytes:
    """The message with the headers x-acquired-count and, after failures, x-delivery-count.

    A message whose headers cannot be read is delivered as it is.
    """
    try:
        kept = without_keys(raw_headers(data, start), (ACQUIRED_COUNT, DELIVERY_COUNT))
    except ProtocolError:
        return data[start:end]
    table = BytesWriter()
    table.write(kept)
    write_count(table, ACQUIRED_COUNT, attempts >> ACQUIRED_SHIFT)
    failed = attempts & 0xFFFFFFFF
    if failed > 0:
        write_count(table, DELIVERY_COUNT, failed)
    return rewrite(data, start, end, None, None, table.getvalue(), 0, None)


def write_count(table: BytesWriter, name: bytes, value: i64) -> None:
    """A header of kind `l`, signed 64 bits."""
    table.append(len(name))
    table.write(name)
    table.append(0x6C)
    write_i64_be(table, value)

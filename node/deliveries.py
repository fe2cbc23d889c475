"""The consuming side of one channel: deliveries out, acknowledgements back. Compiled.

Queues check messages out to the channel's consumers (`on_delivers`); the bytes are fetched and
written when the socket has room (`write`). What is waiting here is names of messages, not bodies,
so a client that never reads costs no memory. Messages that were never written go back unseen.

Prefetch of a consumer is credit that settling gives back in the queue (auto-return). Without a
limit, or with automatic acknowledgement, the channel grants WINDOW at a time as it writes. With a
limit on the whole channel (basic.qos global) it gives back what is over the limit, withdraws the
credit, and grants again when acknowledgements make room.
"""

from typing import Final, final

from mypy_extensions import i64, mypyc_attr

from queues.commands import (
    ACCEPT,
    REJECT,
    RELEASE,
    RETURN_UNSEEN,
    Attach,
    ConsumerKey,
    Credit,
    Detach,
    Settle,
    consumer_key,
)
from queues.counts import Counts
from queues.host import QueueHost, SessionSink
from queues.message import Chunk
from queues.unacked import TagRun, Unacked
from warren.wire.amqp091.connection import Connection
from warren.wire.amqp091.deliver import write_deliveries
from warren.wire.amqp091.events import ACK, Settles
from warren.wire.errors import ProtocolError, ReplyCode

WINDOW: Final = 2048  # messages that an unlimited consumer may have waiting here
HEAD_SLACK: Final = 256


@final
class Consumer091:
    """A consumer of this channel. `number` is 1-based and never used twice on a channel."""

    def __init__(
        self, number: i64, tag: str, host: QueueHost, no_ack: bool, prefetch: i64, exclusive: bool
    ) -> None:
        self.number: i64 = number
        self.tag = tag
        encoded = tag.encode()
        self.prefix: bytes = b"\x00\x3c\x00\x3c" + bytes([len(encoded)]) + encoded
        self.host = host
        self.no_ack = no_ack
        self.prefetch: i64 = prefetch  # 0: no limit
        self.exclusive = exclusive
        self.priority: i64 = 0
        self.delivered: i64 = 0  # highest delivery_seq that came from the queue
        self.written: i64 = 0  # of those, how many went to the socket
        self.held: i64 = 0  # checked out to it and not settled
        self.granted: i64 = 0  # delivery count up to which credit was given
        self.cancelled = False
        self.withdrawn = False  # the channel's limit took its credit away

    def windowed(self) -> bool:
        """Whether the channel grants credit by what it writes."""
        return self.no_ack or self.prefetch == 0


@final
@mypyc_attr(acyclic=True)
class Pending:
    """Messages first.. that are checked out to the consumer and not written yet."""

    def __init__(self, consumer: Consumer091, first: i64, count: i64, redelivered: bool) -> None:
        self.consumer = consumer
        self.first: i64 = first
        self.count: i64 = count
        self.redelivered = redelivered


@final
class Deliveries:
    """Consumers, waiting deliveries and outstanding tags of one channel."""

    def __init__(
        self, sink: SessionSink, connection: Connection, channel: i64, counts: Counts
    ) -> None:
        self._sink = sink
        self._counts = counts
        self._connection = connection
        self._channel: i64 = channel
        self.consumers: dict[int, Consumer091] = {}
        self.by_tag: dict[str, Consumer091] = {}
        self.hosts: dict[int, QueueHost] = {}  # every queue that holds something for the session
        self.unacked = Unacked()
        self.limit: i64 = 0  # of the whole channel (basic.qos global); 0: none
        self.prefetch: i64 = 0  # for consumers started from now on
        self.next_tag: i64 = 1
        self._next_number: i64 = 1
        self._pending: list[Pending] = []
        self._head: i64 = 0
        self._pending_counted: i64 = 0  # waiting messages that will count against the limit
        self._loading = False

    # Consumers

    def attach(
        self, tag: str, host: QueueHost, no_ack: bool, exclusive: bool, priority: i64
    ) -> Consumer091:
        """Start a consumer; the queue's answer comes to the channel."""
        number = self._next_number
        self._next_number += 1
        consumer = Consumer091(number, tag, host, no_ack, self.prefetch, exclusive)
        consumer.priority = priority
        self.consumers[number] = consumer
        self.by_tag[tag] = consumer
        self.hosts[host.uid] = host
        credit = WINDOW if consumer.windowed() else consumer.prefetch
        if self.limit > 0 and not no_ack:
            credit = max(min(credit, self._room()), 0)
            consumer.withdrawn = credit == 0
        consumer.granted = credit
        key = consumer_key(self._sink.session, number)
        auto_return = not consumer.windowed() and self.limit == 0
        host.command(self._sink, Attach(key, credit, auto_return, exclusive, priority))
        return consumer

    def forget(self, consumer: Consumer091) -> None:
        """The consumer is cancelled, refused, or its queue is gone; what it waits for goes back."""
        consumer.cancelled = True
        self.consumers.pop(consumer.number, None)
        if self.by_tag.get(consumer.tag) is consumer:
            del self.by_tag[consumer.tag]
        self._return_waiting(consumer)

    def cancel(self, consumer: Consumer091) -> None:
        """basic.cancel: no more deliveries; what was delivered may still be acknowledged."""
        self.forget(consumer)
        consumer.host.command(self._sink, Detach(self._key(consumer.number)))

    def _return_waiting(self, consumer: Consumer091) -> None:
        """Give back, unseen, what waits for this consumer."""
        kept: list[Pending] = []
        back: list[tuple[int, int]] = []
        for pending in self._pending[self._head :]:
            if pending.consumer is consumer:
                back.append((pending.first, pending.count))
                if not consumer.no_ack:
                    self._pending_counted -= pending.count
            else:
                kept.append(pending)
        self._pending = kept
        self._head = 0
        if len(back) > 0 and consumer.host.uid in self.hosts:
            settle = Settle(self._key(consumer.number), RETURN_UNSEEN, back)
            consumer.host.command(self._sink, settle)

    def queue_gone(self, uid: int) -> list[Consumer091]:
        """The queue is deleted; return the consumers that it had here."""
        self.hosts.pop(uid, None)
        gone = [consumer for consumer in self.consumers.values() if consumer.host.uid == uid]
        for consumer in gone:
            self.forget(consumer)
        return gone

    # From the queues

    def on_delivers(
        self, number: int, delivery_seq: i64, first: i64, count: i64, redelivered: bool
    ) -> bool:
        """Messages came for a consumer; return whether there is something to write."""
        consumer = self.consumers.get(number)
        if consumer is None:
            return False  # Cancelled meanwhile: Detach or EndSession is under way and frees them.
        consumer.delivered = delivery_seq + count - 1
        if self.limit > 0 and not consumer.no_ack:
            room = max(self._room(), 0)
            if count > room:
                back = Settle(self._key(number), RETURN_UNSEEN, [(first + room, count - room)])
                consumer.host.command(self._sink, back)
                self._withdraw(consumer)
                count = room
                if count == 0:
                    return False
        if not consumer.no_ack:
            self._pending_counted += count
            consumer.held += count
        self._pending.append(Pending(consumer, first, count, redelivered))
        return not self._loading

    def has_work(self) -> bool:
        """Whether `write` could write something now."""
        return len(self._pending) > self._head and not self._loading

    def on_loaded(self) -> bool:
        self._loading = False
        return len(self._pending) > self._head

    def write(self, budget: i64) -> i64:
        """Write waiting deliveries of about `budget` bytes; return how many bytes that were."""
        written: i64 = 0
        while self._head < len(self._pending) and written < budget:
            pending = self._pending[self._head]
            consumer = pending.consumer
            view = consumer.host.view(self._sink, pending.first, pending.count)
            if view is None:
                self._loading = True
                break
            chunk = view.chunk
            index: i64 = view.index
            count = messages_within(chunk, index, view.count, budget - written)
            written += self._write_run(pending, chunk, index, count)
            if count == pending.count:
                self._head += 1
            else:
                pending.first += count
                pending.count -= count
        if self._head == len(self._pending):
            self._pending = []
            self._head = 0
        elif self._head > HEAD_SLACK and self._head * 2 > len(self._pending):
            del self._pending[: self._head]
            self._head = 0
        return written

    def _write_run(self, pending: Pending, chunk: Chunk, index: i64, count: i64) -> i64:
        consumer = pending.consumer
        data = chunk.data
        assert data is not None
        tag = self.next_tag
        self.next_tag = tag + count
        write_deliveries(
            self._connection.writer,
            self._channel,
            consumer.prefix,
            tag,
            pending.redelivered,
            data,
            chunk.base,
            chunk.offsets,
            index,
            index + count,
            self._connection.frame_max,
        )
        consumer.written += count
        if pending.redelivered:
            self._counts.redelivered += count
        if consumer.no_ack:
            self._counts.delivered_no_ack += count
            settle = Settle(self._key(consumer.number), ACCEPT, [(pending.first, count)])
            consumer.host.command(self._sink, settle)
        else:
            self._counts.delivered += count
            self._pending_counted -= count
            self.unacked.add(tag, count, consumer.host.uid, consumer.number, pending.first)
        granted = consumer.windowed() and (consumer.no_ack or self.limit == 0)
        if granted and consumer.granted - consumer.written <= WINDOW // 2:
            self._grant(consumer, WINDOW)
        return chunk.bytes_between(index, index + count)

    # Credit

    def _key(self, number: i64) -> ConsumerKey:
        return consumer_key(self._sink.session, number)

    def _grant(self, consumer: Consumer091, credit: i64) -> None:
        """Let the queue send `credit` more than what the channel has written."""
        consumer.granted = consumer.written + credit
        auto_return = not consumer.windowed() and self.limit == 0
        command = Credit(self._key(consumer.number), consumer.written, credit, False, auto_return)
        consumer.host.command(self._sink, command)

    def _room(self) -> i64:
        """How many more messages the channel's limit allows."""
        return self.limit - self.unacked.count - self._pending_counted

    def _withdraw(self, consumer: Consumer091) -> None:
        consumer.withdrawn = True
        key = self._key(consumer.number)
        consumer.host.command(self._sink, Credit(key, 0, 0, False, False))

    def set_limit(self, limit: i64) -> None:
        """basic.qos with global=true: one limit for all consumers of the channel, old and new."""
        self.limit = limit
        for consumer in list(self.consumers.values()):
            consumer.withdrawn = True
        self._regrant()

    def _regrant(self) -> None:
        """Acknowledgements made room: give credit back to consumers that lost it."""
        room = self._room() if self.limit > 0 else 0
        if self.limit > 0 and room <= 0:
            return
        for consumer in list(self.consumers.values()):
            if consumer.no_ack or (self.limit == 0 and not consumer.withdrawn):
                continue
            credit = WINDOW if consumer.windowed() else max(consumer.prefetch - consumer.held, 0)
            if self.limit > 0:
                credit = min(credit, room)
            consumer.withdrawn = False
            consumer.granted = consumer.delivered + credit
            key = self._key(consumer.number)
            auto_return = not consumer.windowed() and self.limit == 0
            command = Credit(key, consumer.delivered, credit, False, auto_return)
            consumer.host.command(self._sink, command)

    # From the client

    def settle(self, event: Settles) -> None:
        """basic.ack, nack and reject; raise 406 for a tag that is not outstanding (C-08)."""
        runs: list[TagRun] = []
        unknown: i64 = 0
        if event.multiple and event.last == 0:
            runs = self.unacked.take_all()
        elif event.multiple:
            if not self.unacked.take_upto(event.last, runs):
                unknown = event.last
        else:
            unknown = self.unacked.take_each(event.first, event.last, runs)
        if event.kind == ACK:
            for run in runs:
                self._counts.acknowledged += run.count
            self._settle_runs(runs, ACCEPT)
        else:
            self._settle_runs(runs, RELEASE if event.requeue else REJECT)
        if unknown != 0 or (not event.multiple and event.last == 0):
            raise ProtocolError(ReplyCode.PRECONDITION_FAILED, f"unknown delivery tag {unknown}")

    def recover(self) -> None:
        """basic.recover: everything outstanding goes back to its queue, in order."""
        self._settle_runs(self.unacked.take_all(), RELEASE)

    def _settle_runs(self, runs: list[TagRun], outcome: i64) -> None:
        length: i64 = len(runs)
        i: i64 = 0
        while i < length:
            run = runs[i]
            settled = [(int(run.first), int(run.count))]
            i += 1
            while i < length and runs[i].uid == run.uid and runs[i].number == run.number:
                settled.append((runs[i].first, runs[i].count))
                i += 1
            consumer = self.consumers.get(run.number)
            if consumer is not None:
                for _, count in settled:
                    consumer.held -= count
            host = self.hosts.get(run.uid)
            if host is not None:  # A deleted queue has nothing left to settle.
                host.command(self._sink, Settle(self._key(run.number), outcome, settled))
        if self.limit > 0 and length > 0:
            self._regrant()

    def end(self) -> None:
        """The channel is over: what was never written goes back unseen (the rest by EndSession)."""
        for consumer in list(self.consumers.values()):
            self._return_waiting(consumer)
        self.consumers = {}
        self.by_tag = {}


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

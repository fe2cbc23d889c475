"""basic.get of one AMQP 0-9-1 channel, from the answer of the queue to get-ok. Compiled.

Told by the channel what it asked for and what the queue has handed out; writes get-ok when the body
is there, which may have to be read first. One is under way at a time, for the channel is busy until
then. What was handed out and not written goes back to its queue, as never seen, when the channel
ends.
"""

from typing import final

from mypy_extensions import i64

from node.amqp091.deliveries import Deliveries, with_counts
from node.amqp091.plans import Tracing
from node.amqp091.sent_times import with_sent_time
from node.oversized import OversizedHeaders
from queues.conversion.chunks import in_form_1
from queues.machine.commands import (
    ACCEPT,
    REJECT_TOO_LARGE,
    RETURN_UNSEEN,
    Get,
    Settle,
    consumer_key,
)
from queues.message import FORMAT_091
from queues.queue_host import QueueHost, SessionSink
from queues.sessions.counts import Counts
from warren.wire.amqp091 import methods
from warren.wire.amqp091.connection import Connection
from warren.wire.amqp091.deliver import header_frame_bytes, names_in


@final
class Getting:
    """Invariant: `_got` is what a queue has handed out and the client was not sent yet."""

    def __init__(
        self,
        sink: SessionSink,
        connection: Connection,
        number: i64,
        deliveries: Deliveries,
        counts: Counts,
        oversized: OversizedHeaders,
    ) -> None:
        self._sink = sink
        self._oversized = oversized
        self._connection = connection
        self._channel: i64 = number
        self._deliveries = deliveries
        self._counts = counts
        self._no_ack = False
        self._got: tuple[int, int, bool, int, int] | None = None
        self.got_count: i64 = 0
        self.got_no_ack_count: i64 = 0
        self.empty_count: i64 = 0
        self.trace: Tracing | None = None  # while messages of the vhost are traced

    @property
    def is_due(self) -> bool:
        """Whether get-ok is still to be written."""
        return self._got is not None

    def begin(self, no_ack: bool) -> None:
        """The queue is asked."""
        self._no_ack = no_ack

    def nothing(self) -> None:
        """The queue was empty."""
        self._counts.get_empty += 1
        self.empty_count += 1

    def got(self, uid: int, message: int, redelivered: bool, ready: int, attempts: int) -> None:
        self._got = (uid, message, redelivered, ready, attempts)

    def forget(self) -> None:
        """The queue is gone, with what it has handed out."""
        self._got = None

    def answer(self, host: QueueHost) -> bool:
        """Write get-ok if it is due and the body is there; whether it was."""
        got = self._got
        if got is None:
            return False
        uid, message, redelivered, ready, attempts = got
        view = host.view(self._sink, message, 1)
        if view is None:
            return False
        self._got = None
        chunk, index = view.chunk, view.index
        if chunk.format_tag != FORMAT_091:
            chunk, index = in_form_1(chunk, index, 1), 0
        start, end = chunk.span(index)
        data = chunk.data
        assert data is not None
        if attempts != 0:
            data = with_counts(data, start, end, attempts)
            start, end = 0, len(data)
        clock = self._deliveries.sent_clock
        if clock is not None:
            data = with_sent_time(data, start, end, clock())
            start, end = 0, len(data)
        header_bytes = header_frame_bytes(data, start)
        if header_bytes > self._connection.frame_max:
            self._pass_over(host, message, int(header_bytes))
            return False
        if self.trace is not None:
            self.trace.delivered(host, view.chunk, view.index, 1, redelivered)
        tag = self._deliveries.next_tag
        self._deliveries.next_tag = tag + 1
        exchange, routing_key = names_in(data, i64(start))
        method = methods.BasicGetOk(int(tag), redelivered, exchange, routing_key, ready)
        self._connection.send_content(int(self._channel), method, data, start, end)
        self._count(host, redelivered)
        if self._no_ack:
            key = consumer_key(self._sink.session, 0)
            host.command(self._sink, Settle(key, ACCEPT, [(message, 1)]))
        else:
            self._deliveries.unacked.add(tag, 1, uid, 0, message)
        return True

    def _pass_over(self, host: QueueHost, message: int, header_bytes: int) -> None:
        """Reject a message that the client cannot be sent, and ask for the next one."""
        self._oversized.note(host, header_bytes, int(self._connection.frame_max))
        key = consumer_key(self._sink.session, 0)
        host.command(self._sink, Settle(key, REJECT_TOO_LARGE, [(message, 1)]))
        host.command(self._sink, Get(self._sink.session))

    def _count(self, host: QueueHost, redelivered: bool) -> None:
        counts = self._counts
        if redelivered:
            counts.redelivered += 1
            self._deliveries.redelivered_count += 1
        if self._no_ack:
            counts.got_no_ack += 1
            self.got_no_ack_count += 1
        else:
            counts.got += 1
            self.got_count += 1
        if host.quorum:
            counts.quorum.get(redelivered, self._no_ack)

    def give_back(self) -> None:
        """The channel ends: what the client was not sent, it never saw."""
        got = self._got
        self._got = None
        host = None if got is None else self._deliveries.hosts.get(got[0])
        if got is not None and host is not None:
            key = consumer_key(self._sink.session, 0)
            host.command(self._sink, Settle(key, RETURN_UNSEEN, [(got[1], 1)]))

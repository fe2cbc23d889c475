"""A stream as the sessions of a node use it: publishes go to the leader, reading is local.

Publishes are numbered by a `QuorumProxy` and reach the leader, wherever it is, once each.
Consumers read what is committed from the member of the stream on this node, each at its own place:
from the tail in memory, or from segment files on reader threads. Nothing of that is replicated, and
no consumer holds back another one or a publisher. A consumer without a member here is refused by
the endpoint (`has_member`), as in RabbitMQ.

What consumers and publishers store by name is in the stream's replicated state; a `Tracker` reaches
it, wherever the leader is.

To a session a message has the number `offset + 1`. What it settles, whatever the outcome, gives
credit and nothing else.
"""

from collections import deque
from collections.abc import Callable
from typing import Final

from queues.hosts.host_interfaces import Steps
from queues.machine.commands import (
    Attach,
    Command,
    ConsumerKey,
    Credit,
    Detach,
    EndSession,
    Get,
    Identify,
    Inspect,
    Purge,
    Retire,
    SessionId,
    Settle,
    session_of,
)
from queues.machine.effects import IN_EXCLUSIVE_USE
from queues.message import Chunk
from queues.queue_host import CancelSink, SessionSink, View
from queues.remote.quorum_proxy import QuorumProxy
from queues.streams.group_consumer import GroupConsumer
from queues.streams.member import StreamMember
from queues.streams.offsets import OffsetSpec
from queues.streams.reader import StreamReader
from queues.streams.tracker import Answered, Tracker

STEP_BYTES: Final = 256 << 10  # delivered to one consumer in a turn
NUMBER_MASK: Final = 0xFFFFFFFF

FindMember = Callable[[int], StreamMember | None]

ConsumerStart = tuple[OffsetSpec, CancelSink]


class Delivered:
    """A run of messages that a consumer received; kept until all of them are settled."""

    __slots__ = ("chunk", "count", "first", "index", "unsettled")

    def __init__(self, first: int, count: int, chunk: Chunk, index: int) -> None:
        self.first = first  # as the session has it
        self.count = count
        self.chunk = chunk
        self.index = index
        self.unsettled = count


class StreamConsumer:
    """A consumer of a session of this node."""

    def __init__(
        self, sink: SessionSink, attach: Attach, start: ConsumerStart, member: StreamMember
    ) -> None:
        self.sink = sink
        self.spec, self.cancel_sink = start
        self.member = member
        self.number = int(attach.key) & NUMBER_MASK
        self.reader: StreamReader | None = None  # from its first turn on
        self.credit = int(attach.credit)
        self.auto_return = attach.auto_return
        self.drain = False
        self.delivery_count = 0
        self.delivered: deque[Delivered] = deque()

    def settle(self, runs: list[tuple[int, int]]) -> None:
        for first, count in runs:
            if self.auto_return:
                self.credit += count
            self._release(first, first + count)

    def _release(self, first: int, end: int) -> None:
        """Release the chunks of the runs that have no unsettled message but first..end-1."""
        is_done = False
        for each in self.delivered:
            if each.first >= end:
                break
            each.unsettled -= max(0, min(end, each.first + each.count) - max(first, each.first))
            is_done = is_done or each.unsettled == 0
        while self.delivered and self.delivered[0].unsettled == 0:
            self.delivered.popleft()
            is_done = False
        if is_done:
            self.delivered = deque(each for each in self.delivered if each.unsettled > 0)

    def grant(self, command: Credit) -> None:
        self.credit = max(0, int(command.delivery_count + command.credit) - self.delivery_count)
        self.auto_return = command.auto_return
        self.drain = command.drain

    def find(self, first: int, count: int) -> View | None:
        for each in self.delivered:
            skipped = first - each.first
            if 0 <= skipped < each.count:
                some = min(count, each.count - skipped)
                return View(each.chunk, each.index + skipped, first, some)
        return None


class StreamHost:
    """See the module. Keeps `QueueHost`."""

    def __init__(
        self,
        proxy: QuorumProxy,
        find_member: FindMember,
        turn: Steps,
        draw_session: Callable[[], SessionId],
    ) -> None:
        self._proxy = proxy
        self._find_member = find_member
        self._draw_session = draw_session
        self._own_tracker: Tracker | None = None  # from its first use on
        self._turn = turn
        self._consumers: dict[ConsumerKey, StreamConsumer] = {}
        self._by_session: dict[SessionId, list[StreamConsumer]] = {}
        self._starts: dict[ConsumerKey, ConsumerStart] = {}
        self._answers: list[Callable[[], None]] = []
        self._marked = False

    @property
    def uid(self) -> int:
        return self._proxy.uid

    @property
    def vhost(self) -> str:
        return self._proxy.vhost

    @property
    def name(self) -> str:
        return self._proxy.name

    @property
    def quorum(self) -> bool:
        return False

    @property
    def single_active(self) -> bool:
        return False

    @property
    def member(self) -> StreamMember | None:
        """The member on this node; None: it has none, and consumers cannot read here."""
        return self._find_member(self.uid)

    @property
    def has_member(self) -> bool:
        """Whether this node has a member, so that consumers can read here."""
        return self.member is not None

    @property
    def ready_count(self) -> int:
        member = self._find_member(self.uid)
        return self._proxy.ready_count if member is None else member.ready_count

    @property
    def checked_out_count(self) -> int:
        """Delivered to consumers of this node and not settled."""
        return sum(each.unsettled for one in self._consumers.values() for each in one.delivered)

    @property
    def consumer_count(self) -> int:
        return len(self._consumers)

    def available(self, key: ConsumerKey) -> int:
        """How many committed messages the consumer has not been sent."""
        consumer = self._consumers.get(key)
        if consumer is None or consumer.reader is None:
            return 0
        return consumer.reader.available

    @property
    def lag(self) -> int:
        """How many committed messages the slowest consumer of this node has not been sent."""
        readers = (each.reader for each in self._consumers.values())
        return max((each.available for each in readers if each is not None), default=0)

    # What the stream remembers by name

    @property
    def _tracker(self) -> Tracker:
        if self._own_tracker is None:
            self._own_tracker = Tracker(self._proxy, self._draw_session)
        return self._own_tracker

    def store_offset(self, name: bytes, offset: int) -> None:
        """Store the offset under the name of a consumer (1 to 255 bytes); a later one replaces it,
        also if it is lower."""
        self._tracker.store_offset(name, offset)

    def query_offset(self, name: bytes, done: Answered) -> None:
        """Call `done` with the stored offset, behind everything stored before on this node.

        None: there is none, or the stream is deleted meanwhile. Without a leader it waits.
        """
        self._tracker.query_offset(name, done)

    def query_publisher(self, name: bytes, done: Answered) -> None:
        """As `query_offset`, with the highest publishing id of the publisher of that name."""
        self._tracker.query_publisher(name, done)

    def publish_identified(
        self,
        sink: SessionSink,
        chunk: Chunk,
        first_seq: int,
        publisher: bytes,
        ids: list[tuple[int, int]],
    ) -> None:
        """Publish messages with publishing ids: (first id, count) runs in the messages' order.

        Messages whose id is not above the highest one of the publisher are confirmed and not
        appended. Ids are below 2^63, the name has 1 to 255 bytes.
        """
        assert sum(count for _, count in ids) == chunk.count()
        self.identify(sink, publisher, ids)
        self._proxy.publish(sink, chunk, first_seq)

    def identify(self, sink: SessionSink, publisher: bytes, ids: list[tuple[int, int]]) -> None:
        """The next chunk that the session publishes is of that publisher, with these publishing
        ids (`Identify`)."""
        self._proxy.command(sink, Identify(sink.session, publisher, ids))

    def join_group(
        self, name: bytes, partition: int, changed: Callable[[bool], None]
    ) -> GroupConsumer:
        """Have a consumer in the group of that name (1 to 255 bytes), of which one at a time is
        active; `partition`: of this stream in its super stream, or NO_PARTITION."""
        return GroupConsumer(self._proxy, self._draw_session, name, partition, changed)

    # QueueHost

    def publish(self, sink: SessionSink, chunk: Chunk, first_seq: int) -> None:
        """See QueueHost."""
        self._proxy.publish(sink, chunk, first_seq)

    def begin_at(self, key: ConsumerKey, spec: OffsetSpec, sink: CancelSink) -> None:
        """Where the consumer with that key begins, which is attached next; `sink` hears if this
        node's member leaves the stream."""
        self._starts[key] = spec, sink

    def command(self, sink: SessionSink, command: Command) -> None:
        """See QueueHost."""
        uid = self.uid
        if isinstance(command, Attach):
            self._attach(sink, command)
        elif isinstance(command, Credit):
            consumer = self._consumers.get(command.key)
            if consumer is not None:
                consumer.grant(command)
        elif isinstance(command, Settle):
            consumer = self._consumers.get(command.key)
            if consumer is not None:
                consumer.settle(command.runs)
        elif isinstance(command, Detach):
            self._detach(command.key)
            number = int(command.key) & NUMBER_MASK
            self._answers.append(lambda: sink.on_detached(uid, number, False))
        elif isinstance(command, EndSession):
            self._end_session(command.session)
            self._proxy.command(sink, command)
        elif isinstance(command, Get):
            self._answers.append(lambda: sink.on_got(uid, 0, False, 0, 0))
        elif isinstance(command, Purge):
            self._answers.append(lambda: sink.on_purged(uid, 0))
        elif isinstance(command, (Inspect, Retire)):
            counts = self.ready_count, self.consumer_count
            self._answers.append(lambda: sink.on_inspected(uid, *counts))
        self.mark()

    def view(self, sink: SessionSink, first: int, count: int) -> View | None:
        """See QueueHost."""
        for consumer in self._by_session.get(sink.session, ()):
            found = consumer.find(first, count)
            if found is not None:
                return found
        return None

    # Consumers

    def _attach(self, sink: SessionSink, command: Attach) -> None:
        start = self._starts.pop(command.key)
        member = self._find_member(self.uid)
        number = int(command.key) & NUMBER_MASK
        if member is None:
            self._answers.append(lambda: sink.on_attach_refused(self.uid, number, IN_EXCLUSIVE_USE))
            return
        self._consumers[command.key] = StreamConsumer(sink, command, start, member)
        self._by_session.setdefault(sink.session, []).append(self._consumers[command.key])
        member.consumer_count += 1
        if self.mark not in member.watchers:
            member.watchers.append(self.mark)

    def _detach(self, key: ConsumerKey) -> None:
        """No more deliveries; what was delivered may still be written."""
        consumer = self._consumers.pop(key, None)
        if consumer is None:
            return
        session = session_of(key)
        others = self._by_session[session]
        others.remove(consumer)
        if not others:
            del self._by_session[session]
        member = consumer.member
        member.consumer_count -= 1
        if not self._consumers and self.mark in member.watchers:
            member.watchers.remove(self.mark)

    def _end_session(self, session: SessionId) -> None:
        for key in [each for each in self._consumers if session_of(each) == session]:
            self._detach(key)

    # The turn

    def mark(self) -> None:
        """There may be something to deliver or to answer."""
        if not self._marked:
            self._marked = True
            self._turn.mark_host(self)

    def step(self, now_ms: int) -> None:
        self._marked = False
        answers, self._answers = self._answers, []
        for answer in answers:
            answer()
        for key, consumer in list(self._consumers.items()):
            if self._consumers.get(key) is consumer:
                self._serve(key, consumer, now_ms)

    def _serve(self, key: ConsumerKey, consumer: StreamConsumer, now_ms: int) -> None:
        if consumer.reader is None:
            consumer.sink.on_attached(self.uid, consumer.number)
        if consumer.member.is_gone:  # The stream lives on, on other nodes.
            self._detach(key)
            consumer.cancel_sink.on_cancelled(self.uid, key)
            return
        if consumer.reader is None:
            spec = consumer.spec.at(now_ms)
            consumer.reader = StreamReader(consumer.member, spec, self.mark)
        self._deliver(consumer, consumer.reader)

    def _deliver(self, consumer: StreamConsumer, reader: StreamReader) -> None:
        budget = STEP_BYTES
        while consumer.credit > 0 and budget > 0:
            found = reader.take(consumer.credit)
            if found is None:
                break
            offset, chunk, index, count = found
            budget -= int(chunk.bytes_between(index, index + count))
            self._tell(consumer, offset, chunk, index, count)
        if reader.error is not None:
            consumer.sink.on_unreadable(self.uid)
        elif consumer.credit > 0 and (budget <= 0 or reader.has_scanned):
            self._marked = True
            self._turn.mark_host_later(self)
        elif consumer.drain and (consumer.credit == 0 or reader.is_at_end):
            consumer.drain = False
            consumer.delivery_count += consumer.credit
            consumer.credit = 0
            consumer.sink.on_drained(self.uid, consumer.number, consumer.delivery_count)

    def _tell(
        self, consumer: StreamConsumer, offset: int, chunk: Chunk, index: int, count: int
    ) -> None:
        first = offset + 1
        number = consumer.delivery_count + 1
        consumer.delivery_count += count
        consumer.credit -= count
        consumer.member.delivered_count += count
        consumer.delivered.append(Delivered(first, count, chunk, index))
        consumer.sink.on_delivers(self.uid, consumer.number, number, first, count, False, 0)

    # The end

    def delete(self) -> None:
        """The stream is deleted: its consumers are cancelled."""
        sinks = {each.sink.session: each.sink for each in self._consumers.values()}
        self._consumers.clear()
        self._by_session.clear()
        known = self._proxy.sessions
        for session, sink in sinks.items():
            if session not in known:  # The proxy tells those that publish as well.
                sink.on_gone(self.uid)

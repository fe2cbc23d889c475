"""One publisher of a connection of the stream protocol: entries to its stream, confirms back.

It has a session of its own at the stream (its `SessionSink`). Every message is confirmed by the
publishing id that it came under once a majority of the stream's members has synced it. A publisher
with a reference is known to the stream by that name: what it sends again, under ids that are not
above its highest one, is confirmed and not appended.
"""

from collections import deque
from time import perf_counter
from typing import TYPE_CHECKING, Protocol

from node.streams.publish_frames import PublishRun
from queues.machine.commands import EndSession, SessionId
from queues.queue_host import PublishingOnly
from queues.sessions.credit import LINK, CreditActor
from queues.sessions.publishing import Held, Publisher, Targets
from queues.streams.host import StreamHost
from queues.streams.tracking import BATCH
from warren.wire.amqp10.codec.message import INFO_DURABLE
from warren.wire.amqp10.transfers import Transfers

if TYPE_CHECKING:
    from node.broker import Broker


class PublisherOwner(Protocol):
    """The connection."""

    @property
    def broker(self) -> "Broker": ...

    @property
    def name(self) -> str: ...

    @property
    def held(self) -> Held: ...

    def mark(self) -> None: ...

    def mark_publisher(self, publisher: "StreamPublisher") -> None:
        """It has confirms to send."""

    def stream_gone(self, host: StreamHost) -> None: ...


class StreamPublisher(PublishingOnly):
    """See the module. `_sent` has what is not decided, as runs of ids that count up with the tags:
    the last tag, the last id, how many."""

    def __init__(
        self, endpoint: PublisherOwner, number: int, host: StreamHost, reference: str
    ) -> None:
        self.endpoint = endpoint
        self.number = number
        self.host = host
        self.reference = reference
        self.published_count = 0
        self.refused_count = 0
        self._session = endpoint.broker.identity.new_session()
        name = f"{endpoint.name} publisher {number}"
        self._credit = CreditActor(name, endpoint.broker.channel_credit, None, LINK)
        self._publisher = Publisher(self, endpoint.broker.counts10, endpoint.held)
        self._publisher.confirming = True
        self._names = b"\x00" + bytes([len(host.name.encode())]) + host.name.encode()
        self._sent: deque[tuple[int, int, int]] = deque()
        endpoint.broker.named_targets.join(host.uid, self)

    @property
    def session(self) -> SessionId:
        return self._session

    @property
    def credit(self) -> CreditActor:
        return self._credit

    @property
    def confirmed_count(self) -> int:
        return int(self._publisher.confirmed_count)

    @property
    def unconfirmed_count(self) -> int:
        return sum(count for _, _, count in self._sent)

    def publish(self, run: PublishRun, targets: Targets) -> None:
        """Append the messages of a run, which are some, in their order."""
        self._note_sent(run.ids)
        if self.reference:
            self.host.identify(self, self.reference.encode(), run.ids)
        self.published_count += run.count
        self.endpoint.broker.counts10.received += run.count
        self.endpoint.broker.counts10.received_confirm += run.count
        transfers = Transfers(0, 0, 0, False, 0, run.data, run.offsets, [0], [INFO_DURABLE])
        self._publisher.now_s = perf_counter()
        if self._publisher.publish_transfers(transfers, targets, self._names):
            self.endpoint.mark_publisher(self)

    def _note_sent(self, runs: list[tuple[int, int]]) -> None:
        """Runs of single messages (first id, count), and batches (id, BATCH | count)."""
        tag = int(self._publisher.next_tag) - 1
        for first, count in runs:
            is_batch = count & BATCH != 0
            tag += count & ~BATCH
            ids = 1 if is_batch else count
            self._sent.append((tag, first + ids - 1, ids))

    def take_decided(self) -> tuple[list[tuple[int, int]], list[tuple[int, int]]]:
        """Runs (first, count) of publishing ids to confirm, and of those that were refused, since
        the last call."""
        confirmed: list[tuple[int, int]] = []
        refused: list[tuple[int, int]] = []
        self._publisher.now_s = perf_counter()
        for decided in self._publisher.take_outcomes():
            into = confirmed if decided.refused_by == 0 else refused
            while self._sent and self._sent[0][0] - self._sent[0][2] < decided.last:
                tag, last_id, count = self._sent.popleft()
                left = max(0, tag - int(decided.last))
                into.append((last_id - count + 1, count - left))
                if left:
                    self._sent.appendleft((tag, last_id, left))
        return confirmed, refused

    def end(self) -> None:
        """The publisher is over; what is under way goes on without a confirm."""
        self.endpoint.broker.named_targets.leave(self.host.uid, self)
        self._publisher.let_go()
        for outbox in self._publisher.outboxes.values():
            outbox.host.command(self, EndSession(self._session))
        self._credit.peer_down_everywhere()

    def target_deleted(self) -> None:
        """The stream was deleted: tell the client, after the confirms that are still to come."""
        if self.host.uid not in self._publisher.outboxes:
            self.endpoint.stream_gone(self.host)  # Else the stream answers with `on_gone`.

    # SessionSink

    def on_confirms(self, uid: int, upto_seq: int) -> None:
        if self._publisher.on_confirms(uid, upto_seq):
            self.endpoint.mark_publisher(self)
        else:
            self.endpoint.mark()

    def on_refused(self, uid: int, first_seq: int, count: int) -> None:
        self._publisher.on_refused(uid, first_seq, count)

    def on_gone(self, uid: int) -> None:
        if self._publisher.on_gone(uid):
            self.endpoint.mark_publisher(self)
        self.endpoint.stream_gone(self.host)


def expanded(runs: list[tuple[int, int]]) -> list[int]:
    """The publishing ids of runs (first, count)."""
    return [number for first, count in runs for number in range(first, first + count)]

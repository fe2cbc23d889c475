"""The numbers of a running broker that rates are made of (`node.management.rows.sampling.Tallies`).

Reads counters where they are counted, in the order of `rates.COLUMNS`. Exchanges alone have none
unless a client looks: the first look puts an `ExchangeTally` in its place, and it is taken away a
minute after the last one; its counts stay, and go on from there. What a channel publishes into an
exchange, and that to a queue, is counted while a client looks at one of them, and forgotten a
minute later. Owns that tally. Not compiled.
"""

from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from node.amqp091.endpoint import Endpoint091
from node.management.rows import rates
from node.management.rows.client_view import channel_key
from node.management.rows.sampling import Pair
from node.resources.process_facts import files_used
from node.views.client_listing import channel_stats, endpoint_of, session_stats
from node.views.queue_weights import STATS_COUNT, add_stats
from node.views.stream_view import stream_stats
from queues.hosts.queue_core import QueueCore
from queues.sessions.counts import ExchangeTally, PairTally

if TYPE_CHECKING:
    from node.broker import Broker
    from node.views.broker_view import LiveView

UNWATCHED_MS: Final = 60_000
VHOSTS_FRESH_MS: Final = 1_000  # sums over all queues hold for so long


class LiveTallies:
    """See the module."""

    def __init__(self, broker: "Broker", view: "LiveView") -> None:
        self._broker = broker
        self._view = view
        self._exchanges = ExchangeTally()
        self._exchanges_asked_ms = 0
        self._pairs_asked_ms = 0
        self._vhosts: dict[str, tuple[int, ...]] = {}
        self._vhosts_at_ms = 0
        self._readers: Mapping[str, Callable[[Hashable], Sequence[int] | None]] = {
            rates.NODE: self._node,
            rates.VHOST: self._vhost,
            rates.QUEUE: self._queue,
            rates.EXCHANGE: self._exchange,
            rates.CONNECTION: self._connection,
            rates.CHANNEL: self._channel,
            rates.PUBLISHED: self._published,
            rates.ROUTED: self._routed,
        }

    def read(self, kind: str, key: Hashable) -> Sequence[int] | None:
        """See Tallies."""
        return self._readers[kind](key)

    def _node(self, key: Hashable) -> Sequence[int]:
        broker = self._broker
        self._count_less()
        totals = self._view.totals()
        ready, held = totals.messages_ready, totals.messages_unacknowledged
        alarms = broker.alarms
        return (
            ready + held,
            ready,
            held,
            *self._messages(),
            broker.connections.opened_count,
            broker.connections.closed_count,
            broker.connections.channels_opened_count,
            broker.connections.channels_closed_count,
            broker.changes.churn.declared,
            broker.changes.churn.created,
            broker.changes.churn.deleted,
            alarms.memory_used_bytes,
            alarms.disk_free_bytes,
            files_used(),
            len(broker.connections.all),
        )

    def _count_less(self) -> None:
        """No client looks any more."""
        broker, now = self._broker, self._broker.now_ms()
        if now - self._pairs_asked_ms > UNWATCHED_MS:
            self._exchanges.pairs = None
        if now - max(self._exchanges_asked_ms, self._pairs_asked_ms) > UNWATCHED_MS:
            broker.counts.exchanges = broker.counts10.exchanges = None

    def pairs(self, kind: str, chosen: Sequence[str | None]) -> Sequence[Pair]:
        """See Tallies."""
        broker, tally = self._broker, self._exchanges
        self._pairs_asked_ms = broker.now_ms()
        broker.counts.exchanges = broker.counts10.exchanges = tally
        if tally.pairs is None:
            tally.pairs = PairTally()
        known = tally.pairs.published if kind == rates.PUBLISHED else tally.pairs.routed
        return [
            pair
            for pair in known
            if all(want in (None, part) for want, part in zip(chosen, pair, strict=True))
        ]

    def _published(self, key: Hashable) -> Sequence[int] | None:
        """None: also of a channel that is gone."""
        assert isinstance(key, tuple)
        found = channel_key(key[0])
        tally = self._exchanges.pairs
        if tally is None or found is None or self._channel(found) is None:
            return None
        return counted(tally.published, key)

    def _routed(self, key: Hashable) -> Sequence[int] | None:
        """None: also of a queue that is gone."""
        assert isinstance(key, tuple)
        tally = self._exchanges.pairs
        if tally is None or self._broker.definitions.queue(key[0], key[2]) is None:
            return None
        return counted(tally.routed, key)

    def _messages(self) -> Sequence[int]:
        """In the order of `rates.NODE_STATS_NAMES`, both protocols together."""
        one, other = self._broker.counts, self._broker.counts10
        delivered = int(one.delivered + other.delivered)
        automatic = int(one.delivered_no_ack + other.delivered_no_ack)
        got, got_no_ack = int(one.got + other.got), int(one.got_no_ack + other.got_no_ack)
        returned = int(one.unroutable_returned + other.unroutable_returned)
        return (
            int(one.received + other.received),
            int(one.confirmed + other.confirmed),
            returned,
            delivered,
            automatic,
            got,
            got_no_ack,
            delivered + automatic + got + got_no_ack,
            int(one.redelivered + other.redelivered),
            int(one.get_empty + other.get_empty),
            int(one.acknowledged + other.acknowledged),
            int(one.unroutable + other.unroutable) - returned,
        )

    def _vhost(self, key: Hashable) -> Sequence[int] | None:
        now = self._broker.now_ms()
        if now - self._vhosts_at_ms > VHOSTS_FRESH_MS:
            self._vhosts_at_ms = now
            self._vhosts = {
                each.name: (
                    each.messages_ready + each.messages_unacknowledged,
                    each.messages_ready,
                    each.messages_unacknowledged,
                    *each.stats,
                )
                for each in self._view.vhosts()
            }
        return self._vhosts.get(str(key))

    def _queue(self, key: Hashable) -> Sequence[int] | None:
        assert isinstance(key, tuple)
        queue = self._broker.definitions.queue(*key)
        if queue is None:
            return None
        stream = self._broker.quorum_queues.stream(queue.uid)
        if stream is not None:
            return stream_stats(stream)
        host = self._broker.queues.hosts.awake.get(queue.uid)
        return None if host is None else queue_stats(host)

    def _exchange(self, key: Hashable) -> Sequence[int] | None:
        assert isinstance(key, tuple)
        vhost, name = key
        broker = self._broker
        self._exchanges_asked_ms = broker.now_ms()
        broker.counts.exchanges = broker.counts10.exchanges = self._exchanges
        return (
            self._exchanges.of(vhost, name)
            if broker.definitions.has_exchange(vhost, name)
            else None
        )

    def _connection(self, key: Hashable) -> Sequence[int] | None:
        found = self._broker.connections.open_by_name.get(str(key))
        if found is None:
            return None
        core = endpoint_of(found).connection
        return int(core.bytes_received), int(core.bytes_sent)

    def _channel(self, key: Hashable) -> Sequence[int] | None:
        assert isinstance(key, tuple)
        found = self._broker.connections.open_by_name.get(key[0])
        if found is None:
            return None
        endpoint = endpoint_of(found)
        if isinstance(endpoint, Endpoint091):
            channel = endpoint.channels.get(key[1])
            return None if channel is None else channel_stats(channel)
        session = endpoint.sessions.get(key[1])
        return None if session is None else session_stats(session)


def counted(counts: Mapping[Pair, int], pair: Pair) -> Sequence[int] | None:
    count = counts.get(pair)
    return None if count is None else (count,)


def queue_stats(host: QueueCore) -> tuple[int, ...]:
    """In the order of the columns of a queue. Who acknowledges by itself a queue does not know."""
    ready, held = int(host.ready_count), int(host.checked_out_count)
    stats = [0] * STATS_COUNT
    add_stats(host, stats)
    return (ready + held, ready, held, *stats)

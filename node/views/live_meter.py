"""The running broker as the metrics read it (`node.management.metrics.view.MetricsView`).

Reads only. What it hands out is of this node: queues that it leads or has, members of log groups on
it, its connections. Imported with the management listener, not before.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from node.amqp091.endpoint import Endpoint091
from node.amqp10.endpoint import Endpoint10
from node.management.metrics.node_families import type_label
from node.management.metrics.view import (
    AddressView,
    ChannelSample,
    EdgeView,
    MemberSample,
    QueueSample,
    RaftView,
    TrafficView,
    WaitView,
)
from node.management.rows.view import HistogramView
from node.views.client_listing import endpoint_of
from node.views.live_flow import flow_edges
from node.views.queue_weights import unacknowledged_bytes
from node.views.stream_view import stream_sample
from queues.definitions.arguments import decode_arguments
from queues.definitions.broker_objects import Queue
from queues.definitions.queue_arguments import CLASSIC, QUORUM, queue_type
from queues.hosts.queue_core import QueueCore
from queues.sessions.counts import CONFIRM_BOUNDS_S, SIZE_BOUNDS, Histogram, Sizes

if TYPE_CHECKING:
    from node.amqp091.channel import Channel091
    from node.broker import Broker

RAFT_COUNTERS: Final = (
    "proposals", "commits", "elections", "leader_changes", "appended_bytes", "snapshots_sent",
    "snapshots_received", "suspicions", "strays", "held_back", "read_failures", "turns",
)  # fmt: skip


class LiveMeter:
    """Keeps `MetricsView`."""

    def __init__(self, broker: "Broker") -> None:
        self._broker = broker

    # Addresses

    def addresses(self, every: bool = False) -> Sequence[AddressView]:
        keeper = self._broker.addresses
        return [
            AddressView(
                *(account.vhost, account.kind, account.name, account.limits),
                account.is_full(),
                *(account.size_bytes, account.size_count, len(address.uids)),
                *(len(address.waiting), address.blocked_count),
                *(account.refused_count, account.dropped_count, account.over_bytes),
                *keeper.granted(place),
            )
            for address in (keeper.all_limited() if every else keeper.addresses.values())
            for account in (address.account,)
            for place in ((account.vhost, account.kind, account.name),)
        ]

    # Queues

    def queues(self, vhosts: frozenset[str] | None = None) -> Sequence[int]:
        operating = self._broker.operating
        found = self._definitions(vhosts)
        return [queue.uid for queue in found if operating.is_led_here(queue.uid)]

    def _definitions(self, vhosts: frozenset[str] | None) -> list[Queue]:
        known = self._broker.metadata.vhosts
        return [
            queue
            for name, vhost in known.items()
            if vhosts is None or name in vhosts
            for queue in vhost.queues.values()
        ]

    def queue(self, uid: int) -> QueueSample | None:
        broker = self._broker
        queue = broker.metadata.queue(uid)
        if queue is None:
            return None
        host = broker.queues.hosts.awake.get(uid)
        if host is not None:
            return self._in_use(queue, host)
        stream = broker.quorum_queues.stream(uid)
        if stream is not None:
            return stream_sample(queue, stream)
        kind = queue_type(decode_arguments(queue.arguments))
        return QueueSample(uid, queue.vhost, queue.name, kind)

    def _in_use(self, queue: Queue, host: QueueCore) -> QueueSample:
        ready, unacked = host.ready_count, host.checked_out_count
        held, held_bytes = ready + unacked, int(host.store.live_bytes)
        share, bytes_share = host.store.in_memory()
        ram, ram_bytes = round(held * share), round(held_bytes * bytes_share)
        return QueueSample(
            uid=queue.uid,
            vhost=queue.vhost,
            name=queue.name,
            type=QUORUM if host.quorum else CLASSIC,
            is_crashed=queue.uid in self._broker.queues.damages.hosts,
            ready=ready,
            unacked=unacked,
            bytes=held_bytes,
            unacked_bytes=unacknowledged_bytes(host),
            ram=ram,
            ram_bytes=ram_bytes,
            persistent=min(int(host.store.journaled_count), held),
            persistent_bytes=int(host.store.journaled_bytes),
            paged_out=held - ram,
            paged_out_bytes=held_bytes - ram_bytes,
            consumers=host.consumer_count,
            capacity=host.capacity.share(self._broker.now_ms()),
            published=int(host.published_count),
            delivered=int(host.delivered_count),
            redelivered=int(host.redelivered_count),
            acked=int(host.accepted_count),
            head_seq=head_of(host),
            next_seq=int(host.machine.next_seq),
        )

    # Log groups

    def members(self, vhosts: frozenset[str] | None = None) -> Sequence[int]:
        broker = self._broker
        here = broker.quorum_queues.members
        if vhosts is None:
            return list(here)
        return [queue.uid for queue in self._definitions(vhosts) if queue.uid in here]

    def member(self, uid: int) -> MemberSample | None:
        queue = self._broker.metadata.queue(uid)
        row = self._broker.operating.groups.row(uid)
        if queue is None or row is None:
            return None
        return MemberSample(
            vhost=queue.vhost,
            queue=queue.name,
            is_leader=row.is_leader,
            term=row.term,
            snapshot_index=row.snapshot_index,
            applied_index=row.applied_index,
            commit_index=row.commit_index,
            written_index=row.durable_index,
        )

    def raft(self) -> RaftView:
        host = self._broker.raft
        counters = {name: int(getattr(host.counters, name)) for name in RAFT_COUNTERS}
        traffic = self._broker.operating.traffic
        if traffic is not None:
            counters["leaders_advised"] = traffic.advised
            counters["leaders_moved_to_traffic"] = traffic.moved
        return RaftView(host.group_count, host.hibernating_count, counters)

    # Channels

    def channels(self) -> Sequence[ChannelSample]:
        found: list[ChannelSample] = []
        for endpoint in map(endpoint_of, list(self._broker.connections.open.values())):
            if isinstance(endpoint, Endpoint10):
                found += sessions_of(endpoint)
            elif isinstance(endpoint, Endpoint091):
                found += [
                    channel_sample(endpoint.name, each) for each in endpoint.channels.values()
                ]
        return found

    # The node

    def traffic(self) -> TrafficView:
        broker = self._broker
        one, other = broker.counts, broker.counts10
        away = sum(
            int(each.proxies.published_bytes) for each in broker.away.all_peer_queues.values()
        )
        away += int(broker.quorum_queues.quorum_proxies.published_bytes)
        delivered = sum(
            each.delivered + each.delivered_no_ack + each.got + each.got_no_ack
            for each in (one, other)
        )
        return TrafficView(
            handed_bytes=int(one.handed_bytes + other.handed_bytes),
            away_bytes=away,
            letters=int(broker.observers.publisher.published_count),
            letters_dropped=int(broker.observers.publisher.dropped_count),
            redelivered=int(one.redelivered + other.redelivered),
            delivered=int(delivered),
            sizes={"amqp091": sizes_view(one.sizes), "amqp10": sizes_view(other.sizes)},
            confirms={
                type_label(CLASSIC): added(one.confirm_seconds, other.confirm_seconds),
                type_label(QUORUM): added(one.quorum.confirm_seconds, other.quorum.confirm_seconds),
            },
        )

    def waits(self) -> Sequence[WaitView]:
        return [
            WaitView(held_back, by, seconds, times)
            for (held_back, by), seconds, times in self._broker.flow.totals()
        ]

    def edges(self) -> Sequence[EdgeView]:
        return flow_edges(self._broker)


def head_of(host: QueueCore) -> int:
    """The lowest number of its messages; 0: it has none."""
    machine = host.machine
    if host.ready_count + host.checked_out_count == 0:
        return 0
    than = machine.ready.oldest() or machine.next_seq
    return int(machine.roster.oldest_held(than))


def channel_sample(connection: str, channel: "Channel091") -> ChannelSample:
    deliveries = channel.deliveries
    return ChannelSample(
        connection=connection,
        channel=int(channel.number),
        protocol="amqp091",
        consumers=len(deliveries.consumers),
        prefetch=int(deliveries.limit),
        unacked=int(deliveries.unacked.count),
        unconfirmed=int(channel.publisher.unconfirmed_count()),
        published=int(channel.published_count),
        returned=int(channel.returned_count),
        got=int(channel.getting.got_count),
        got_no_ack=int(channel.getting.got_no_ack_count),
        get_empty=int(channel.getting.empty_count),
        delivered=int(deliveries.delivered_count),
        delivered_no_ack=int(deliveries.delivered_no_ack_count),
        redelivered=int(deliveries.redelivered_count),
        acked=int(deliveries.acknowledged_count),
    )


def sessions_of(endpoint: Endpoint10) -> list[ChannelSample]:
    return [
        ChannelSample(
            connection=endpoint.name,
            channel=int(number),
            protocol="amqp10",
            consumers=len(session.consuming),
            unacked=int(session.unacked.count),
            unconfirmed=sum(
                int(each.publisher.unconfirmed_count()) for each in session.publishing.values()
            ),
            published=int(session.published_count),
            delivered=int(session.delivered_count),
            delivered_no_ack=int(session.delivered_no_ack_count),
            redelivered=int(session.redelivered_count),
            acked=int(session.acknowledged_count),
        )
        for number, session in endpoint.sessions.items()
    ]


def sizes_view(sizes: Sizes) -> HistogramView:
    return HistogramView(bounds=SIZE_BOUNDS, counts=tuple(sizes.counts), total=float(sizes.bytes))


def added(*histograms: Histogram) -> HistogramView:
    """Those of CONFIRM_BOUNDS_S, together."""
    counts = tuple(map(sum, zip(*(each.counts for each in histograms), strict=True)))
    total = sum(each.total for each in histograms)
    return HistogramView(bounds=CONFIRM_BOUNDS_S, counts=counts, total=total)

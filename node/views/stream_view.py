"""A stream as listings and metrics show it, by its member on this node."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from msgspec.structs import replace

from node.management.metrics.view import QueueSample
from node.management.rows.view import QueueView, StreamsView, StreamTracking
from node.streams.endpoint import StreamEndpoint
from queues.definitions.broker_objects import Queue
from queues.definitions.queue_arguments import STREAM
from queues.streams.member import StreamMember

if TYPE_CHECKING:
    from node.broker import Broker

CRASHED = "crashed"
DAMAGED = "down"


def stream_in_use(view: QueueView, member: StreamMember, is_crashed: bool) -> QueueView:
    """The listing of a stream with the counts of this member. Messages are in files alone."""
    bytes_held = member.log.byte_count
    return replace(
        view,
        state=CRASHED if is_crashed else DAMAGED if member.fault else view.state,
        reason=member.fault,
        messages_ready=member.ready_count,
        messages_persistent=member.ready_count,
        message_bytes_persistent=member.log.byte_count,
        message_bytes_ready=bytes_held,
        messages_paged_out=member.ready_count,
        message_bytes_paged_out=bytes_held,
        consumers=member.consumer_count,
        consumer_capacity=1.0 if member.consumer_count else 0.0,
        published=member.published_count,
        delivered=member.delivered_count,
    )


def stream_stats(member: StreamMember) -> tuple[int, ...]:
    """What rates are made of, in the order of `node.management.rows.rates` for queues."""
    ready, delivered = member.ready_count, member.delivered_count
    deliveries = (delivered, 0, 0, 0, delivered, 0, delivered)
    return (ready, ready, 0, member.published_count, *deliveries)


def streams_view(broker: "Broker") -> StreamsView:
    """Sums of the streams of this node; what is in the store is counted where they are led."""
    members = broker.quorum_queues.streams()
    led = [each for each in members if each.is_leading]
    store = broker.quorum_queues.stream_store
    return StreamsView(
        segments=sum(len(each.log.segments) for each in members),
        segment_bytes=sum(each.log.local_byte_count for each in members),
        offloaded_segments=sum(len(each.log.offloaded) for each in led),
        offloaded_bytes=sum(each.log.offloaded_byte_count for each in led),
        uploaded=sum(each.offloader.status.uploaded_count for each in members),
        uploads_failed=sum(each.offloader.status.failed_count for each in members),
        consumer_lag=consumer_lag(broker),
        store_fault=store.fault,
    )


def consumer_lag(broker: "Broker") -> int:
    """Of the slowest consumer of this node, over any protocol."""
    lags = [host.lag for host in broker.quorum_queues.stream_hosts.values()]
    for endpoint in broker.connections.open.values():
        if isinstance(endpoint, StreamEndpoint):
            lags.extend(each.lag for each in endpoint.subscriptions.values() if each.is_active)
    return max(lags, default=0)


def tracking_of(member: StreamMember) -> StreamTracking | None:
    """None: another member leads, and knows better."""
    if not member.is_leading:
        return None
    tracking = member.machine.tracking
    return StreamTracking(_by_text(tracking.offsets), _by_text(tracking.publishers))


def _by_text(rows: Mapping[bytes, int]) -> dict[str, int]:
    return {name.decode("utf-8", "replace"): number for name, number in rows.items()}


def stream_sample(queue: Queue, member: StreamMember) -> QueueSample:
    """What metrics say of it."""
    return QueueSample(
        uid=queue.uid,
        vhost=queue.vhost,
        name=queue.name,
        type=STREAM,
        ready=member.ready_count,
        bytes=member.log.byte_count,
        persistent=member.ready_count,
        persistent_bytes=member.log.byte_count,
        paged_out=member.ready_count,
        paged_out_bytes=member.log.byte_count,
        consumers=member.consumer_count,
        published=member.published_count,
        delivered=member.delivered_count,
        next_seq=member.next_offset,
    )

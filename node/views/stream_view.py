"""A stream as listings and metrics show it, by its member on this node."""

from collections.abc import Mapping
from dataclasses import replace

from node.management.metrics.view import QueueSample
from node.management.rows.view import QueueView, StreamTracking
from queues.definitions.broker_objects import Queue
from queues.definitions.queue_arguments import STREAM
from queues.streams.member import StreamMember

DAMAGED = "down"


def stream_in_use(view: QueueView, member: StreamMember) -> QueueView:
    """The listing of a stream with the counts of this member. Messages are in files alone."""
    bytes_held = member.log.byte_count
    return replace(
        view,
        state=DAMAGED if member.fault else view.state,
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

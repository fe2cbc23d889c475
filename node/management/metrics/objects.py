"""Families with a sample for each queue, log group, connection or channel: names and what they are.

The names are RabbitMQ's without their prefix (`rabbitmq_`, or `rabbitmq_detailed_`); what RabbitMQ
tells of Erlang's processes is not there.
"""

from typing import Final

from node.management.metrics.columns import Column
from node.management.metrics.text import COUNTER, GAUGE, labels
from node.management.metrics.view import ChannelSample, MemberSample, QueueSample
from node.management.rows.view import ConnectionView

QueueColumns = tuple[Column[QueueSample], ...]

QUEUE_COARSE: Final[QueueColumns] = (
    Column("queue_messages_ready", GAUGE, "Messages ready", lambda q: q.ready),
    Column("queue_messages_unacked", GAUGE, "Messages not yet acknowledged", lambda q: q.unacked),
    Column("queue_messages", GAUGE, "Messages, all", lambda q: q.ready + q.unacked),
)
QUEUE_CONSUMERS: Final[QueueColumns] = (
    Column("queue_consumers", GAUGE, "Consumers on a queue", lambda q: q.consumers),
)
QUEUE_METRICS: Final[QueueColumns] = (
    *QUEUE_CONSUMERS,
    Column("queue_consumer_capacity", GAUGE, "Consumer capacity", lambda q: q.capacity, False),
    Column(
        "queue_consumer_utilisation", GAUGE, "Same as capacity", lambda q: q.capacity, in_sum=False
    ),
    Column("queue_messages_ram", GAUGE, "Messages in memory, about", lambda q: q.ram),
    Column("queue_messages_ram_bytes", GAUGE, "Bytes of them", lambda q: q.ram_bytes),
    Column("queue_messages_bytes", GAUGE, "Bytes of all messages", lambda q: q.bytes),
    Column("queue_messages_ready_bytes", GAUGE, "Bytes ready", lambda q: q.bytes - q.unacked_bytes),
    Column("queue_messages_unacked_bytes", GAUGE, "Bytes unacked", lambda q: q.unacked_bytes),
    Column("queue_messages_persistent", GAUGE, "Persistent messages", lambda q: q.persistent),
    Column("queue_messages_persistent_bytes", GAUGE, "Bytes", lambda q: q.persistent_bytes),
    Column("queue_messages_paged_out", GAUGE, "Messages on disk alone", lambda q: q.paged_out),
    Column("queue_messages_paged_out_bytes", GAUGE, "Bytes of them", lambda q: q.paged_out_bytes),
)
QUEUE_DELIVERY: Final[QueueColumns] = (
    Column("queue_messages_published_total", COUNTER, "Published to it", lambda q: q.published),
    Column("queue_messages_delivered_ack_total", COUNTER, "Delivered", lambda q: q.delivered),
    Column("queue_messages_redelivered_total", COUNTER, "Once more", lambda q: q.redelivered),
    Column("queue_messages_acked_total", COUNTER, "Acknowledged", lambda q: q.acked),
)

RAFT: Final[tuple[Column[MemberSample], ...]] = (
    Column("raft_term", GAUGE, "Term", lambda m: m.term),
    Column("raft_snapshot_index", GAUGE, "Index of the snapshot", lambda m: m.snapshot_index),
    Column("raft_last_applied", GAUGE, "Index applied last", lambda m: m.applied_index),
    Column("raft_commit_index", GAUGE, "Commit index", lambda m: m.commit_index),
    Column("raft_last_written_index", GAUGE, "Index written last", lambda m: m.written_index),
)
RAFT_OF_3: Final[tuple[Column[MemberSample], ...]] = (
    Column("raft_term_total", COUNTER, "Term", lambda m: m.term),
    Column("raft_log_snapshot_index", GAUGE, "Index of the snapshot", lambda m: m.snapshot_index),
    Column("raft_log_last_applied_index", GAUGE, "Index applied last", lambda m: m.applied_index),
    Column("raft_log_commit_index", GAUGE, "Commit index", lambda m: m.commit_index),
    Column("raft_log_last_written_index", GAUGE, "Index written last", lambda m: m.written_index),
)

CONNECTION_COARSE: Final[tuple[Column[ConnectionView], ...]] = (
    Column("connection_incoming_bytes_total", COUNTER, "Received", lambda c: c.received_bytes),
    Column("connection_outgoing_bytes_total", COUNTER, "Sent", lambda c: c.sent_bytes),
)
CONNECTION_METRICS: Final[tuple[Column[ConnectionView], ...]] = (
    Column("connection_incoming_packets_total", COUNTER, "Received", lambda c: c.received_packets),
    Column("connection_outgoing_packets_total", COUNTER, "Sent", lambda c: c.sent_packets),
    Column("connection_pending_packets", GAUGE, "Waiting to be sent", lambda c: c.pending_bytes),
    Column("connection_channels", GAUGE, "Channels on a connection", lambda c: c.channels),
)

ChannelColumns = tuple[Column[ChannelSample], ...]

CHANNEL_METRICS: Final[ChannelColumns] = (
    Column("channel_consumers", GAUGE, "Consumers on a channel", lambda c: c.consumers),
    Column("channel_messages_unacked", GAUGE, "Not yet acknowledged", lambda c: c.unacked),
    Column("channel_messages_unconfirmed", GAUGE, "Not yet confirmed", lambda c: c.unconfirmed),
    Column("channel_messages_uncommitted", GAUGE, "Not yet committed", lambda c: c.uncommitted),
    Column("channel_acks_uncommitted", GAUGE, "Acks not committed", lambda c: c.acks_uncommitted),
    Column("channel_prefetch", GAUGE, "Limit of the channel", lambda c: c.prefetch, False),
)
CHANNEL_EXCHANGE: Final[ChannelColumns] = (
    Column("channel_messages_published_total", COUNTER, "Published", lambda c: c.published),
    Column("channel_messages_confirmed_total", COUNTER, "Confirmed", lambda c: c.confirmed),
    Column("channel_messages_unroutable_returned_total", COUNTER, "Returned", lambda c: c.returned),
    Column("channel_messages_unroutable_dropped_total", COUNTER, "Dropped", lambda c: c.dropped),
)
CHANNEL_QUEUE: Final[ChannelColumns] = (
    Column("channel_get_ack_total", COUNTER, "Got", lambda c: c.got),
    Column("channel_get_total", COUNTER, "Got, acknowledged at once", lambda c: c.got_no_ack),
    Column("channel_messages_delivered_ack_total", COUNTER, "Delivered", lambda c: c.delivered),
    Column(
        "channel_messages_delivered_total",
        COUNTER,
        "Delivered, acknowledged at once",
        lambda c: c.delivered_no_ack,
    ),
    Column("channel_messages_redelivered_total", COUNTER, "Once more", lambda c: c.redelivered),
    Column("channel_messages_acked_total", COUNTER, "Acknowledged", lambda c: c.acked),
    Column("channel_get_empty_total", COUNTER, "Found nothing", lambda c: c.get_empty),
)


def of_queue(queue: QueueSample) -> str:
    return labels({"vhost": queue.vhost, "queue": queue.name})


def of_member(member: MemberSample) -> str:
    return labels({"vhost": member.vhost, "queue": member.queue})


def of_connection(connection: ConnectionView) -> str:
    return labels({"connection": connection.name, "vhost": connection.vhost})


def of_channel(channel: ChannelSample) -> str:
    return labels({"connection": channel.connection, "channel": str(channel.channel)})

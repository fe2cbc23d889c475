"""The columns of connections, channels and consumers, and of those of the stream protocol."""

from typing import Final

from node.management.rows.client_view import (
    ChannelView,
    ConsumerView,
    PeerOfRow,
    StreamPublisherView,
    SubscriptionView,
    channel_name,
)
from node.management.rows.columns import Column, Kind
from node.management.rows.columns import field_column as _of
from node.management.rows.rates import CHANNEL_STATS, Row
from node.management.rows.view import ConnectionView

SINGLE_ACTIVE: Final = "single_active"
WAITING: Final = "waiting"
UP: Final = "up"


def _stats(channel: ChannelView) -> dict[str, int]:
    return dict(zip(CHANNEL_STATS, channel.stats, strict=True))


def activity_status(consumer: ConsumerView | SubscriptionView) -> str:
    if not consumer.single_active:
        return UP
    return SINGLE_ACTIVE if consumer.active else WAITING


def _provided_name(connection: ConnectionView) -> object:
    return connection.client_properties.get("connection_name")


def connection_of(channel: ChannelView) -> Row:
    peer = channel.peer
    return {"name": peer.connection, "peer_host": peer.peer_host, "peer_port": peer.peer_port}


def stream_connection_of(client: SubscriptionView | StreamPublisherView) -> Row:
    peer = client.peer
    return {
        "name": peer.connection,
        "node": peer.node,
        "user": peer.user,
        "peer_host": peer.peer_host,
        "peer_port": peer.peer_port,
    }


def channel_details(peer: PeerOfRow) -> Row:
    return {
        "name": channel_name(peer.connection, peer.channel),
        "connection_name": peer.connection,
        "number": peer.channel,
        "node": peer.node,
        "user": peer.user,
        "peer_host": peer.peer_host,
        "peer_port": peer.peer_port,
    }


def _stream(client: SubscriptionView | StreamPublisherView) -> Row:
    return {"name": client.stream, "vhost": client.peer.vhost}


CONNECTION_COLUMNS: Final[tuple[Column[ConnectionView], ...]] = (
    _of("name", Kind.TEXT),
    Column("user_provided_name", Kind.TEXT_OR_NULL, _provided_name),
    _of("node", Kind.TEXT),
    Column("type", Kind.TEXT, lambda _: "network"),
    _of("user", Kind.TEXT),
    _of("user_who_performed_action", Kind.TEXT, "user"),
    _of("vhost", Kind.TEXT),
    _of("protocol", Kind.TEXT),
    _of("state", Kind.TEXT),
    _of("host", Kind.TEXT),
    _of("port", Kind.COUNT),
    _of("peer_host", Kind.TEXT),
    _of("peer_port", Kind.COUNT),
    _of("channels", Kind.COUNT),
    _of("channel_max", Kind.COUNT),
    _of("frame_max", Kind.COUNT),
    _of("timeout", Kind.COUNT, "heartbeat_s"),
    _of("auth_mechanism", Kind.TEXT, "mechanism"),
    _of("connected_at", Kind.COUNT, "connected_at_ms"),
    _of("client_properties", Kind.MAP),
    _of("recv_oct", Kind.COUNT, "received_bytes"),
    _of("recv_cnt", Kind.COUNT, "received_packets"),
    _of("send_oct", Kind.COUNT, "sent_bytes"),
    _of("send_cnt", Kind.COUNT, "sent_packets"),
    _of("send_pend", Kind.COUNT, "pending_bytes"),
)
CHANNEL_COLUMNS: Final[tuple[Column[ChannelView], ...]] = (
    Column("name", Kind.TEXT, lambda each: channel_name(each.peer.connection, each.peer.channel)),
    _of("number", Kind.COUNT, "peer.channel"),
    _of("node", Kind.TEXT, "peer.node"),
    _of("user", Kind.TEXT, "peer.user"),
    _of("user_who_performed_action", Kind.TEXT, "peer.user"),
    _of("vhost", Kind.TEXT, "peer.vhost"),
    _of("protocol", Kind.TEXT, "peer.protocol"),
    _of("state", Kind.TEXT),
    Column("connection_details", Kind.CONNECTION_DETAILS, connection_of),
    _of("prefetch_count", Kind.COUNT, "prefetch"),
    _of("global_prefetch_count", Kind.COUNT, "global_prefetch"),
    _of("transactional", Kind.FLAG),
    _of("confirm", Kind.FLAG),
    _of("consumer_count", Kind.COUNT, "consumers"),
    _of("messages_unacknowledged", Kind.COUNT, "unacknowledged"),
    _of("messages_unconfirmed", Kind.COUNT, "unconfirmed"),
    _of("messages_uncommitted", Kind.COUNT, "uncommitted"),
    _of("acks_uncommitted", Kind.COUNT),
    Column("message_stats", Kind.COUNTS_BY_NAME, _stats),
)
CONSUMER_COLUMNS: Final[tuple[Column[ConsumerView], ...]] = (
    _of("consumer_tag", Kind.TEXT, "tag"),
    Column("queue", Kind.QUEUE_NAME, lambda each: {"name": each.queue, "vhost": each.peer.vhost}),
    Column("channel_details", Kind.CHANNEL_DETAILS, lambda each: channel_details(each.peer)),
    Column("ack_required", Kind.FLAG, lambda each: not each.no_ack),
    _of("exclusive", Kind.FLAG),
    _of("prefetch_count", Kind.COUNT, "prefetch"),
    _of("active", Kind.FLAG),
    Column("activity_status", Kind.TEXT, activity_status),
    _of("priority", Kind.NUMBER),
    _of("arguments", Kind.MAP),
    _of("protocol", Kind.TEXT, "peer.protocol"),
    _of("delivered", Kind.COUNT),
    _of("messages_unacknowledged", Kind.COUNT, "held"),
    _of("consumer_timeout", Kind.COUNT, "timeout_ms"),
)
SUBSCRIPTION_COLUMNS: Final[tuple[Column[SubscriptionView], ...]] = (
    _of("subscription_id", Kind.COUNT, "number"),
    Column("queue", Kind.QUEUE_NAME, _stream),
    Column("connection_details", Kind.STREAM_CONNECTION_DETAILS, stream_connection_of),
    _of("user", Kind.TEXT, "peer.user"),
    _of("credits", Kind.COUNT, "credit"),
    _of("consumed", Kind.COUNT, "delivered"),
    Column("offset", Kind.COUNT, lambda each: max(0, each.offset)),
    _of("offset_lag", Kind.COUNT, "lag"),
    _of("active", Kind.FLAG),
    Column("activity_status", Kind.TEXT, activity_status),
    Column("properties", Kind.TEXTS_BY_NAME, lambda each: dict(each.properties)),
)
STREAM_PUBLISHER_COLUMNS: Final[tuple[Column[StreamPublisherView], ...]] = (
    _of("publisher_id", Kind.COUNT, "number"),
    Column("queue", Kind.QUEUE_NAME, _stream),
    Column("connection_details", Kind.STREAM_CONNECTION_DETAILS, stream_connection_of),
    _of("user", Kind.TEXT, "peer.user"),
    _of("reference", Kind.TEXT),
    _of("published", Kind.COUNT),
    _of("confirmed", Kind.COUNT),
    _of("errored", Kind.COUNT, "refused"),
)

"""Entries of `node.management.api.connections`, channels and consumers."""

from collections.abc import Iterable
from typing import Any, Final

from node.management.rows.client_columns import (
    CHANNEL_COLUMNS,
    CONNECTION_COLUMNS,
    CONSUMER_COLUMNS,
)
from node.management.rows.columns import Column, Kind
from node.management.schema.model import (
    ANY,
    BOOLEAN,
    COUNT,
    INTEGER,
    MAP,
    NUMBER,
    QUEUE_NAME,
    RANGES,
    STRING,
    TEXTS,
    Schema,
    deletes,
    listed,
    lists,
    or_null,
    reads,
    record,
    table,
)

PEER: Final = {"name": STRING, "peer_host": STRING, "peer_port": COUNT}
OF_STREAM: Final = {**PEER, "node": STRING, "user": STRING}
CHANNEL_DETAILS: Final = record(
    "ChannelDetails",
    {**PEER, "connection_name": STRING, "number": COUNT, "node": STRING, "user": STRING},
)
TYPES: Final = {
    Kind.TEXT: STRING,
    Kind.TEXT_OR_NULL: or_null(STRING),
    Kind.FLAG: BOOLEAN,
    Kind.MAP: MAP,
    Kind.TEXTS_BY_NAME: table(STRING),
    Kind.NUMBER: INTEGER,
    Kind.COUNT: COUNT,
    Kind.COUNT_OR_NULL: or_null(COUNT),
    Kind.SHARE_OR_NULL: or_null(NUMBER),
    Kind.COUNTS_BY_NAME: table(ANY),
    Kind.TEXTS: TEXTS,
    Kind.QUEUE_NAME: QUEUE_NAME,
    Kind.CONNECTION_DETAILS: record("ConnectionDetails", PEER),
    Kind.STREAM_CONNECTION_DETAILS: record("StreamConnectionDetails", OF_STREAM),
    Kind.CHANNEL_DETAILS: CHANNEL_DETAILS,
    Kind.VHOST_METADATA: record(
        "VhostMetadata", {"description": STRING, "tags": TEXTS, "default_queue_type": STRING}
    ),
}


def schemas_of(columns: Iterable[Column[Any]]) -> dict[str, Schema]:
    """The schema of each column of a table."""
    return {each.name: TYPES[each.kind] for each in columns}


CONNECTION: Final = record(
    "Connection",
    {**schemas_of(CONNECTION_COLUMNS), "ssl": BOOLEAN},
    # With TLS.
    dict.fromkeys(
        (
            *("ssl_protocol", "ssl_key_exchange", "ssl_cipher", "ssl_hash"),
            *("peer_cert_subject", "peer_cert_issuer", "peer_cert_validity"),
            "container_id",  # of AMQP 1.0
        ),
        or_null(STRING),
    ),
)
CONSUMER: Final = record("Consumer", schemas_of(CONSUMER_COLUMNS))
DELIVERIES: Final = listed(
    record(
        "Deliveries",
        {"stats": table(ANY)},
        {"queue": QUEUE_NAME, "channel_details": CHANNEL_DETAILS},
    )
)
CHANNEL: Final = record(
    "Channel",
    schemas_of(CHANNEL_COLUMNS),
    # Of one channel.
    {
        "consumer_details": listed(CONSUMER),
        "deliveries": DELIVERIES,
        "publishes": listed(MAP),
        "idle_since": STRING,
    },
)
LINK_COLUMNS: Final = {
    "handle": COUNT,
    "link_name": STRING,
    "max_message_size": COUNT,
    "delivery_count": COUNT,
    "credit": NUMBER,
}
SESSION: Final = record(
    "Session",
    {
        "channel_number": COUNT,
        "handle_max": COUNT,
        "next_incoming_id": COUNT,
        "incoming_window": NUMBER,
        "next_outgoing_id": COUNT,
        "remote_incoming_window": NUMBER,
        "remote_outgoing_window": NUMBER,
        "outgoing_unsettled_deliveries": COUNT,
        "incoming_links": listed(
            record(
                "IncomingLink",
                {
                    **LINK_COLUMNS,
                    "target_address": or_null(STRING),
                    "snd_settle_mode": STRING,
                    "unconfirmed_messages": COUNT,
                },
            )
        ),
        "outgoing_links": listed(
            record(
                "OutgoingLink",
                {
                    **LINK_COLUMNS,
                    "source_address": or_null(STRING),
                    "queue_name": STRING,
                    "send_settled": BOOLEAN,
                },
            )
        ),
    },
)
ONE: Final = "/api/connections/{name}"
CHANNELS: Final = "/api/channels"
OF_USER: Final = "/api/connections/username/{user}"

OPERATIONS: Final = (
    lists(
        "/api/connections",
        "Connections; one's own without the tag monitoring.",
        CONNECTION,
        more=RANGES,
    ),
    reads(ONE, "One connection.", CONNECTION, query=RANGES),
    deletes(ONE, "Close it; the header X-Reason says why."),
    reads(f"{ONE}/sessions", "The AMQP 1.0 sessions of a connection.", listed(SESSION)),
    lists(OF_USER, "The connections of a user.", CONNECTION),
    deletes(OF_USER, "Close the connections of a user."),
    lists("/api/vhosts/{vhost}/connections", "The connections to a vhost.", CONNECTION),
    lists(CHANNELS, "Channels and AMQP 1.0 sessions.", CHANNEL, more=RANGES),
    reads(f"{CHANNELS}/{{name}}", "One channel, with its consumers.", CHANNEL, query=RANGES),
    lists(f"{ONE}/channels", "The channels of a connection.", CHANNEL),
    lists("/api/vhosts/{vhost}/channels", "The channels in a vhost.", CHANNEL),
    lists("/api/consumers", "Consumers and AMQP 1.0 links that take from queues.", CONSUMER),
    lists("/api/consumers/{vhost}", "The consumers of a vhost.", CONSUMER),
)

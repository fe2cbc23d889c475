"""Entries of `node.management.api.connections`, channels and consumers."""

from typing import Final

from node.management.schema.model import (
    ANY,
    BOOLEAN,
    COUNT,
    INTEGER,
    MAP,
    NUMBER,
    RANGES,
    STRING,
    deletes,
    listed,
    lists,
    or_null,
    reads,
    record,
    table,
)
from node.management.schema.nodes import QUEUE_NAME

CONNECTION: Final = record(
    "Connection",
    {
        "name": STRING,
        "user_provided_name": or_null(STRING),
        "node": STRING,
        "type": STRING,
        "user": STRING,
        "user_who_performed_action": STRING,
        "vhost": STRING,
        "protocol": STRING,
        "state": STRING,
        "host": STRING,
        "port": COUNT,
        "peer_host": STRING,
        "peer_port": COUNT,
        "channels": COUNT,
        "channel_max": COUNT,
        "frame_max": COUNT,
        "timeout": COUNT,
        "auth_mechanism": STRING,
        "ssl": BOOLEAN,
        "connected_at": COUNT,
        "client_properties": MAP,
        "recv_oct": COUNT,
        "recv_cnt": COUNT,
        "send_oct": COUNT,
        "send_cnt": COUNT,
        "send_pend": COUNT,
    },
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
PEER: Final = {"name": STRING, "peer_host": STRING, "peer_port": COUNT}
CHANNEL_DETAILS: Final = record(
    "ChannelDetails",
    {**PEER, "connection_name": STRING, "number": COUNT, "node": STRING, "user": STRING},
)
CONSUMER: Final = record(
    "Consumer",
    {
        "consumer_tag": STRING,
        "queue": QUEUE_NAME,
        "channel_details": CHANNEL_DETAILS,
        "ack_required": BOOLEAN,
        "exclusive": BOOLEAN,
        "prefetch_count": COUNT,
        "active": BOOLEAN,
        "activity_status": STRING,
        "priority": INTEGER,
        "arguments": MAP,
        "protocol": STRING,
        "delivered": COUNT,
        "messages_unacknowledged": COUNT,
        "consumer_timeout": COUNT,
    },
)
DELIVERIES: Final = listed(
    record(
        "Deliveries",
        {"stats": table(ANY)},
        {"queue": QUEUE_NAME, "channel_details": CHANNEL_DETAILS},
    )
)
CHANNEL: Final = record(
    "Channel",
    {
        "name": STRING,
        "number": COUNT,
        "node": STRING,
        "user": STRING,
        "user_who_performed_action": STRING,
        "vhost": STRING,
        "protocol": STRING,
        "state": STRING,
        "connection_details": record("ConnectionDetails", PEER),
        "prefetch_count": COUNT,
        "global_prefetch_count": COUNT,
        "transactional": BOOLEAN,
        "confirm": BOOLEAN,
        "consumer_count": COUNT,
        "messages_unacknowledged": COUNT,
        "messages_unconfirmed": COUNT,
        "messages_uncommitted": COUNT,
        "acks_uncommitted": COUNT,
        "message_stats": table(ANY),
    },
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

"""What connections learn and may do when they open: limits of both protocols, and who we are.

Made of the configuration when the broker is, for all connections alike.
"""

import platform
from typing import TYPE_CHECKING, Final

from warren.wire.amqp091.connection import Limits
from warren.wire.amqp10.limits import Limits as Limits10

if TYPE_CHECKING:
    from node.config.settings import Config

PRODUCT: Final = "Warren"
VERSION: Final = "4.3.0"  # of RabbitMQ, whose behaviour clients may expect (0005)
CAPABILITIES: Final = (
    "publisher_confirms",
    "exchange_exchange_bindings",
    "basic.nack",
    "consumer_cancel_notify",
    "connection.blocked",
    "consumer_priorities",
    "authentication_failure_close",
    "per_consumer_qos",
    "direct_reply_to",
)


def wire_limits(config: "Config") -> Limits:
    """What a connection may ask for."""
    return Limits(
        config.limits.frame_max,
        config.limits.channel_max,
        config.limits.heartbeat_s,
        message_bytes_max=config.limits.max_message_size,
        handshake_ms=config.limits.handshake_timeout_ms,
    )


def wire_limits10(config: "Config") -> Limits10:
    """The same for AMQP 1.0: silence is borne for as long as there."""
    section = config.amqp10
    return Limits10(
        max_frame_size=config.limits.frame_max,
        channel_max=section.session_max - 1,
        handle_max=section.link_max - 1,
        idle_time_out_ms=config.limits.heartbeat_s * 500,
        max_incoming_window=section.max_incoming_window,
        max_link_credit=section.max_link_credit,
        container_id=config.node.name,
        max_queue_credit=section.max_queue_credit,
        message_bytes_max=config.limits.max_message_size,
        handshake_ms=config.limits.handshake_timeout_ms,
    )


def server_properties(node_name: str) -> dict[str, object]:
    """Of connection.start."""
    return {
        "product": PRODUCT,
        "version": VERSION,
        "cluster_name": node_name,
        "platform": f"Python {platform.python_version()}",
        "copyright": "Copyright (c) 2026 the Warren authors",
        "information": "Licensed under the Apache License 2.0",
        "node": node_name,
        "capabilities": dict.fromkeys(CAPABILITIES, True),
    }

"""What listings tell of a connection, whatever protocol it speaks."""

from collections.abc import Mapping

from msgspec import Struct


class ConnectionFacts(Struct, frozen=True):
    """As it is now."""

    protocol: str  # in RabbitMQ's words
    channels: int  # or sessions
    channel_max: int
    frame_max: int
    heartbeat_s: int
    client_properties: Mapping[str, object]
    received_bytes: int
    sent_bytes: int
    reads: int  # of the socket
    writes: int
    container_id: str = ""  # of a client of AMQP 1.0

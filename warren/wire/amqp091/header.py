"""The eight bytes that begin a connection: which protocol the client speaks.

`AMQP`, protocol id, major, minor, revision. A server that speaks none of it answers with the
header that it prefers and closes (AMQP 0-9-1 section 4.2.2).
"""

from enum import Enum
from typing import Final

HEADER_BYTES: Final = 8
HEADER_091: Final = b"AMQP\x00\x00\x09\x01"
HEADER_09: Final = b"AMQP\x01\x01\x00\x09"  # 0-9, which may be served as 0-9-1, as RabbitMQ does
HEADER_10: Final = b"AMQP\x00\x01\x00\x00"
HEADER_10_SASL: Final = b"AMQP\x03\x01\x00\x00"
HEADER_10_TLS: Final = b"AMQP\x02\x01\x00\x00"


class Protocol(Enum):
    """What to do with the connection."""

    UNDECIDED = "undecided"  # fewer than eight bytes, so far a header
    AMQP_091 = "amqp 0-9-1"
    AMQP_10 = "amqp 1.0"  # without SASL, or with TLS: answer with HEADER_10_SASL and close
    AMQP_10_SASL = "amqp 1.0 sasl"
    UNKNOWN = "unknown"  # answer with HEADER_091 and close


KNOWN: Final = {
    HEADER_091: Protocol.AMQP_091,
    HEADER_09: Protocol.AMQP_091,
    HEADER_10: Protocol.AMQP_10,
    HEADER_10_TLS: Protocol.AMQP_10,
    HEADER_10_SASL: Protocol.AMQP_10_SASL,
}


def negotiate(start: bytes) -> Protocol:
    """Decide by the first bytes of a connection; what follows the eighth belongs to the protocol.

    `UNKNOWN` is said as soon as no known header can come of it.
    """
    header = start[:HEADER_BYTES]
    if len(header) == HEADER_BYTES:
        return KNOWN.get(header, Protocol.UNKNOWN)
    if any(known.startswith(header) for known in KNOWN):
        return Protocol.UNDECIDED
    return Protocol.UNKNOWN

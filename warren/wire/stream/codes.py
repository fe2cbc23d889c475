"""Numbers of RabbitMQ's stream protocol: commands, answers, and where a subscription begins.

Source: PROTOCOL.adoc of RabbitMQ's plug-in rabbitmq_stream, version 4.1.
"""

from typing import Final

VERSION_1: Final = 1
VERSION_2: Final = 2
RESPONSE: Final = 0x8000  # bit of a key: the frame answers one of that key

DECLARE_PUBLISHER: Final = 1
PUBLISH: Final = 2
PUBLISH_CONFIRM: Final = 3
PUBLISH_ERROR: Final = 4
QUERY_PUBLISHER_SEQUENCE: Final = 5
DELETE_PUBLISHER: Final = 6
SUBSCRIBE: Final = 7
DELIVER: Final = 8
CREDIT: Final = 9
STORE_OFFSET: Final = 10
QUERY_OFFSET: Final = 11
UNSUBSCRIBE: Final = 12
CREATE: Final = 13
DELETE: Final = 14
METADATA: Final = 15
METADATA_UPDATE: Final = 16
PEER_PROPERTIES: Final = 17
SASL_HANDSHAKE: Final = 18
SASL_AUTHENTICATE: Final = 19
TUNE: Final = 20
OPEN: Final = 21
CLOSE: Final = 22
HEARTBEAT: Final = 23
ROUTE: Final = 24
PARTITIONS: Final = 25
CONSUMER_UPDATE: Final = 26
EXCHANGE_COMMAND_VERSIONS: Final = 27
STREAM_STATS: Final = 28
CREATE_SUPER_STREAM: Final = 29
DELETE_SUPER_STREAM: Final = 30

# (command, lowest version, highest version) that a node knows, as it tells clients.
VERSIONS: Final[tuple[tuple[int, int, int], ...]] = (
    (DECLARE_PUBLISHER, 1, 1),
    (PUBLISH, 1, 2),
    (PUBLISH_CONFIRM, 1, 1),
    (PUBLISH_ERROR, 1, 1),
    (QUERY_PUBLISHER_SEQUENCE, 1, 1),
    (DELETE_PUBLISHER, 1, 1),
    (SUBSCRIBE, 1, 1),
    (DELIVER, 1, 2),
    (CREDIT, 1, 1),
    (STORE_OFFSET, 1, 1),
    (QUERY_OFFSET, 1, 1),
    (UNSUBSCRIBE, 1, 1),
    (CREATE, 1, 1),
    (DELETE, 1, 1),
    (METADATA, 1, 1),
    (METADATA_UPDATE, 1, 1),
    (PEER_PROPERTIES, 1, 1),
    (SASL_HANDSHAKE, 1, 1),
    (SASL_AUTHENTICATE, 1, 1),
    (TUNE, 1, 1),
    (OPEN, 1, 1),
    (CLOSE, 1, 1),
    (HEARTBEAT, 1, 1),
    (ROUTE, 1, 1),
    (PARTITIONS, 1, 1),
    (CONSUMER_UPDATE, 1, 1),
    (EXCHANGE_COMMAND_VERSIONS, 1, 1),
    (STREAM_STATS, 1, 1),
    (CREATE_SUPER_STREAM, 1, 1),
    (DELETE_SUPER_STREAM, 1, 1),
)

OK: Final = 1
STREAM_DOES_NOT_EXIST: Final = 2
SUBSCRIPTION_ID_EXISTS: Final = 3
SUBSCRIPTION_ID_DOES_NOT_EXIST: Final = 4
STREAM_EXISTS: Final = 5
STREAM_NOT_AVAILABLE: Final = 6
SASL_MECHANISM_NOT_SUPPORTED: Final = 7
AUTHENTICATION_FAILURE: Final = 8
SASL_ERROR: Final = 9
SASL_CHALLENGE: Final = 10
AUTHENTICATION_FAILURE_LOOPBACK: Final = 11
VHOST_ACCESS_FAILURE: Final = 12
UNKNOWN_FRAME: Final = 13
FRAME_TOO_LARGE: Final = 14
INTERNAL_ERROR: Final = 15
ACCESS_REFUSED: Final = 16
PRECONDITION_FAILED: Final = 17
PUBLISHER_DOES_NOT_EXIST: Final = 18
NO_OFFSET: Final = 19

# Kinds of offset in Subscribe and ConsumerUpdate.
OFFSET_NONE: Final = 0
OFFSET_FIRST: Final = 1
OFFSET_LAST: Final = 2
OFFSET_NEXT: Final = 3
OFFSET_OFFSET: Final = 4
OFFSET_TIMESTAMP: Final = 5

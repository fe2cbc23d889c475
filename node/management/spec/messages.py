"""Entries of `node.management.messages`."""

from typing import Final

from node.management.spec.model import (
    BOOLEAN,
    COUNT,
    DIGITS,
    FLAG,
    MAP,
    NAME,
    STRING,
    either,
    listed,
    one_of,
    or_null,
    posts,
    record,
    table,
    wanted,
)

GOT: Final = record(
    "Got",
    {
        "payload_bytes": COUNT,
        "redelivered": BOOLEAN,
        "exchange": STRING,
        "routing_key": STRING,
        "message_count": COUNT,
        "properties": either(MAP, {"type": "array", "maxItems": 0}),
        "payload": STRING,
        "payload_encoding": one_of("string", "base64"),
    },
)

OPERATIONS: Final = (
    posts(
        "/api/exchanges/{vhost}/{exchange}/publish",
        "Publish a message; whether it was routed to a queue, and taken.",
        wanted(
            {
                "routing_key": NAME,
                "properties": or_null(MAP),
                "payload": STRING,
                "payload_encoding": one_of("string", "base64"),
            }
        ),
        record("Published", {"routed": BOOLEAN}),
    ),
    posts(
        "/api/queues/{vhost}/{queue}/get",
        "Take messages from a queue, and settle them or put them back.",
        wanted(
            {
                "ackmode": one_of(
                    "ack_requeue_true",
                    "ack_requeue_false",
                    "reject_requeue_true",
                    "reject_requeue_false",
                ),
                "count": DIGITS,
                "encoding": one_of("auto", "base64"),
            },
            {"truncate": DIGITS},
        ),
        listed(GOT),
    ),
    posts(
        "/api/queues/{vhost}/{queue}/redrive",
        "Move dead letters to the queue in which they first died, or to an exchange.",
        wanted(
            optional={
                "count": DIGITS,
                "exchange": NAME,
                "routing_key": NAME,
                "keep_deaths": FLAG,
            }
        ),
        record("Redriven", {"moved": COUNT, "kept": COUNT, "reasons": table(COUNT)}),
    ),
)

"""Entries of `node.management.api.messages` and `node.management.api.queue_messages`."""

from typing import Final

from node.management.schema.model import (
    BOOLEAN,
    COUNT,
    DIGITS,
    FLAG,
    MAP,
    NAME,
    STRING,
    Query,
    either,
    listed,
    one_of,
    or_null,
    posts,
    record,
    table,
    wanted,
)

PROPERTIES: Final = either(MAP, {"type": "array", "maxItems": 0})
GOT: Final = record(
    "Got",
    {
        "payload_bytes": COUNT,
        "redelivered": BOOLEAN,
        "exchange": STRING,
        "routing_key": STRING,
        "message_count": COUNT,
        "properties": PROPERTIES,
        "payload": STRING,
        "payload_encoding": one_of("string", "base64"),
    },
)

PEEKED: Final = record(
    "Peeked",
    {
        "position": COUNT,
        "readable": BOOLEAN,
        "redelivered": BOOLEAN,
        "failed_deliveries": COUNT,
        "exchange": STRING,
        "routing_key": STRING,
        "properties": PROPERTIES,
        "payload_bytes": COUNT,
        "payload": STRING,
        "payload_encoding": one_of("string", "base64"),
    },
)
FILTER: Final = wanted(
    optional={
        "exchange": STRING,
        "routing_key": STRING,
        "death_queue": STRING,
        "death_reason": STRING,
        "headers": MAP,
        "properties": table(STRING),
    }
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
        refusals=(503,),
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
                "filter": FILTER,
                "rate": DIGITS,
                "dry_run": FLAG,
            }
        ),
        record(
            "Redriven",
            {"moved": COUNT, "kept": COUNT, "reasons": table(COUNT)},
            {"status": one_of("ok")},  # in the last line of an answer that tells of its progress
        ),
        query=(Query("progress", one_of("true", "false"), "Whether to tell of each slice."),),
        refusals=(503,),
    ),
    posts(
        "/api/queues/{vhost}/{queue}/skip_unreadable",
        "Take what cannot be read of its first thousand ready messages out of a queue, for good.",
        answer=record("Skipped", {"skipped": COUNT, "messages": listed(COUNT)}),
        refusals=(503,),
    ),
    posts(
        "/api/queues/{vhost}/{queue}/peek",
        "Look at messages of a queue where they are, from a position on.",
        wanted(
            optional={
                "offset": DIGITS,
                "count": DIGITS,
                "encoding": one_of("auto", "base64"),
                "truncate": DIGITS,
                "filter": FILTER,
            }
        ),
        listed(PEEKED),
        refusals=(503,),
    ),
)

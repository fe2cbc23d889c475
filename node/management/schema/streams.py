"""Entries of `node.management.api.streams`."""

from typing import Final

from node.management.rows.client_columns import STREAM_PUBLISHER_COLUMNS, SUBSCRIPTION_COLUMNS
from node.management.schema.connections import CONNECTION, schemas_of
from node.management.schema.model import (
    ADMINISTRATOR,
    ANY,
    COUNT,
    STRING,
    Query,
    deletes,
    lists,
    posts,
    puts,
    reads,
    record,
    table,
    wanted,
)

CONSUMER: Final = record("StreamConsumer", schemas_of(SUBSCRIPTION_COLUMNS))
PUBLISHER: Final = record("StreamPublisher", schemas_of(STREAM_PUBLISHER_COLUMNS))
TRACKING: Final = record("StreamTracking", {}, {"offsets": table(COUNT), "writers": table(COUNT)})
KIND: Final = Query(
    "type", {"type": "string", "enum": ["offset", "writer"]}, "Only one of the two; without: both."
)
BASE: Final = "/api/stream"
ONE: Final = f"{BASE}/connections/{{vhost}}/{{name}}"

SUPER: Final = f"{BASE}/super-streams/{{vhost}}/{{name}}"
SUPER_STREAM: Final = record(
    "SuperStream",
    {},
    {"partitions": COUNT, "binding-keys": STRING, "arguments": table(ANY)},
)

OPERATIONS: Final = (
    puts(
        SUPER,
        "Make a super stream: so many `partitions`, or one for each of the `binding-keys` (with "
        "commas); `arguments` are those of a stream, such as `max-length-bytes`.",
        SUPER_STREAM,
    ),
    deletes(SUPER, "Delete a super stream, and its partitions."),
    lists(f"{BASE}/connections", "Connections of the stream protocol.", CONNECTION),
    lists(f"{BASE}/connections/{{vhost}}", "Those of a vhost.", CONNECTION),
    reads(ONE, "One connection of the stream protocol.", CONNECTION),
    deletes(ONE, "Close it; the header X-Reason says why."),
    lists(f"{ONE}/consumers", "The consumers of a connection.", CONSUMER),
    lists(f"{ONE}/publishers", "The publishers of a connection.", PUBLISHER),
    lists(f"{BASE}/consumers", "Consumers of the stream protocol.", CONSUMER),
    lists(f"{BASE}/consumers/{{vhost}}", "Those of a vhost.", CONSUMER),
    lists(f"{BASE}/publishers", "Publishers of the stream protocol.", PUBLISHER),
    lists(f"{BASE}/publishers/{{vhost}}", "Those of a vhost.", PUBLISHER),
    lists(f"{BASE}/publishers/{{vhost}}/{{queue}}", "Those of a stream.", PUBLISHER),
    reads(
        f"{BASE}/{{vhost}}/{{queue}}/tracking",
        "What a stream remembers by name: offsets of consumers, ids of publishers.",
        TRACKING,
        query=(KIND,),
        refusals=(503,),
    ),
    posts(
        f"{BASE}/{{vhost}}/{{queue}}/tracking/reset-offset",
        "Set the offset that a stream has stored for a consumer to 0.",
        wanted({"reference": STRING}),
        rights=ADMINISTRATOR,
        refusals=(503,),
    ),
)

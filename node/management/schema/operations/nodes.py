"""Entries of `node.management.api.operations.nodes`."""

from typing import Final

from node.management.rows.node_rows import ANSWERING_COLUMNS, NODE_COLUMNS
from node.management.schema.connections import schemas_of
from node.management.schema.model import (
    ADMINISTRATOR,
    ANY,
    BOOLEAN,
    COUNT,
    MONITORING,
    QUEUE_NAME,
    RANGES,
    STRING,
    TEXTS,
    Query,
    listed,
    or_null,
    puts,
    reads,
    record,
    table,
    wanted,
)
from node.management.schema.operations.overview import LISTENER

RECOVERY: Final = record(
    "Recovery",
    {
        "clean": BOOLEAN,
        "torn": or_null(record("TornFile", {"file": STRING, "offset": COUNT})),
        "corrupt": listed(
            record(
                "CorruptPlace",
                {
                    "file": STRING,
                    "offset": COUNT,
                    "record": STRING,
                    "reason": STRING,
                    "queues": listed(QUEUE_NAME),
                },
            )
        ),
    },
)
NODE: Final = record(
    "Node",
    {
        **schemas_of(NODE_COLUMNS),
        "listeners": listed(LISTENER),
    },
    {  # Only of a node that answers.
        **schemas_of(ANSWERING_COLUMNS),
        "queue_totals": table(ANY),
        "message_stats": table(ANY),
        "churn_rates": table(ANY),
        "rates_mode": STRING,
        "recovery": RECOVERY,
        # Only of a node that is in a cluster.
        "partitions": TEXTS,
        "member_id": COUNT,
        "host_id": STRING,
        "zone": STRING,
        "tags": table(STRING),
    },
)

LEVELS: Final = "/api/nodes/{node}/log-level"

OPERATIONS: Final = (
    reads("/api/nodes", "The nodes of the cluster.", listed(NODE), MONITORING, RANGES),
    reads("/api/nodes/{name}", "One node.", NODE, MONITORING, RANGES),
    reads(
        "/api/nodes/{name}/memory",
        "Where the memory of a node is.",
        record("NodeMemory", {"memory": table(ANY)}),
        MONITORING,
    ),
    reads(
        "/api/nodes/{node}/log",
        "The last lines of the log of a node.",
        record("NodeLog", {"lines": TEXTS}),
        ADMINISTRATOR,
        (Query("lines", COUNT, "How many: 50 unless given, 500 at most."),),
        refusals=(400, 503),
    ),
    reads(
        "/api/nodes/{node}/config",
        "The configuration of a node, without its secrets.",
        table(ANY),
        ADMINISTRATOR,
        refusals=(503,),
    ),
    reads(LEVELS, "What a node logs, by category.", table(ANY), ADMINISTRATOR),
    puts(
        LEVELS,
        "Log more or less, until the node restarts.",
        wanted({"level": STRING}, {"category": STRING}),
        ADMINISTRATOR,
        statuses=(204,),
    ),
)

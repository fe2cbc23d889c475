"""Entries of `node.management.api.queues`."""

from typing import Final

from node.management.rows.queue_columns import QUEUE_COLUMNS
from node.management.schema.connections import CONSUMER, DELIVERIES, schemas_of
from node.management.schema.model import (
    ADMINISTRATOR,
    ARGUMENTS,
    BOOLEAN,
    COLUMNS,
    COUNT,
    FLAG,
    IF_EMPTY,
    IF_UNUSED,
    INTEGER,
    MAP,
    RANGES,
    STATS,
    STRING,
    TEXTS,
    deletes,
    listed,
    lists,
    one_of,
    or_null,
    posts,
    puts,
    reads,
    record,
    wanted,
)

QUEUE: Final = record(
    "Queue",
    schemas_of(QUEUE_COLUMNS),
    {
        # Of quorum queues.
        "leader": STRING,
        "members": TEXTS,
        "online": TEXTS,
        "slave_nodes": TEXTS,
        "synchronised_slave_nodes": TEXTS,
        "recoverable_slaves": TEXTS,
        "mirror_nodes": TEXTS,
        "synchronised_mirror_nodes": TEXTS,
        "recoverable_mirrors": TEXTS,
        "sync_messages": COUNT,  # while the leader synchronises a mirror
        "warnings": TEXTS,  # of policies that have no effect
        # Of exclusive ones.
        "owner_pid_details": record("QueueOwner", {"name": STRING}),
        "idle_since": STRING,
        # Where one consumer at a time is served: of one queue, or asked for as a column.
        "single_active_consumer_tag": STRING,
        "single_active_consumer_pid": STRING,
        # Of one queue.
        "head_message_timestamp": or_null(INTEGER),
        "consumer_details": listed(CONSUMER),
        "deliveries": DELIVERIES,
        "incoming": listed(MAP),
    },
)
TOPOLOGY: Final = record(
    "Topology",
    {
        "leader": or_null(STRING),
        "leader_epoch": COUNT,
        "state": STRING,
        "local": BOOLEAN,
        "members": listed(
            record(
                "TopologyMember",
                {
                    "node": STRING,
                    "role": STRING,
                    "state": STRING,
                    "match_lag": or_null(COUNT),
                    "endpoints": TEXTS,
                    "zone": or_null(STRING),
                },
            )
        ),
        "suggestions": TEXTS,
    },
)
ONE: Final = "/api/queues/{vhost}/{queue}"
MORE: Final = (*RANGES, *STATS)

OPERATIONS: Final = (
    lists("/api/queues", "Queues of all vhosts that the user sees.", QUEUE, more=MORE),
    lists("/api/queues/{vhost}", "Queues of a vhost.", QUEUE, more=MORE),
    lists("/api/queues/detailed", "Queues with their consumers.", QUEUE, more=MORE),
    lists("/api/users/{user}/queues", "Exclusive queues of a user.", QUEUE, more=MORE),
    reads(ONE, "One queue.", QUEUE, query=(*COLUMNS, *MORE)),
    puts(
        ONE,
        "Declare a queue.",
        wanted(optional={"durable": FLAG, "auto_delete": FLAG, "arguments": ARGUMENTS}),
    ),
    deletes(ONE, "Delete a queue.", query=(IF_UNUSED, IF_EMPTY)),
    deletes(f"{ONE}/contents", "Purge a queue."),
    reads(f"{ONE}/topology", "Where it is led, who has it, and how to reach them.", TOPOLOGY),
    posts(
        f"{ONE}/actions",
        "Synchronise the mirrors of a queue, or cancel that; or put a crashed queue back into "
        "service with what could be read of it.",
        wanted({"action": one_of("sync", "cancel_sync", "accept_damage")}),
        rights=ADMINISTRATOR,
    ),
    posts(
        "/api/queues/actions",
        "Put all crashed queues of this node back into service, or those whose names match.",
        wanted(
            {"action": one_of("accept_damage")},
            {"vhost_pattern": STRING, "queue_pattern": STRING},
        ),
        listed(record("AcceptedDamage", {"vhost": STRING, "name": STRING, "result": STRING})),
        rights=ADMINISTRATOR,
    ),
)

"""Entries of `node.management.api.operations.cluster` and `placement`: nodes of a cluster."""

from typing import Final

from node.management.schema.model import (
    ADMINISTRATOR,
    ANY,
    BOOLEAN,
    COUNT,
    DIGITS,
    FLAG,
    MONITORING,
    STRING,
    TEXTS,
    Operation,
    Query,
    listed,
    one_of,
    or_null,
    posts,
    reads,
    record,
    table,
    wanted,
)

PLACE: Final = record(
    "ClusterNode",
    {
        "name": STRING,
        "member_id": COUNT,
        "running": BOOLEAN,
        "being_drained": BOOLEAN,
        "host_id": STRING,
        "zone": STRING,
        "tags": table(STRING),
        "address": STRING,
        "amqp": STRING,
        "amqps": STRING,
        "management": STRING,
        "leads": COUNT,
        "definitions_lag": COUNT,
    },
)
RESULTS: Final = listed(
    record("QueueResult", {"vhost": STRING, "name": STRING, "size": COUNT, "result": STRING})
)
LEADERS: Final = listed(
    record(
        "LeaderCounts",
        {
            "node": STRING,
            "number of classic queues": COUNT,
            "number of quorum queues": COUNT,
        },
    )
)
BEST: Final = record(
    "BestNode",
    {
        "node": STRING,
        "reason": STRING,
        "endpoints": TEXTS,
        "candidates": listed(
            record("CandidateNode", {"node": STRING, "endpoints": TEXTS, "zone": or_null(STRING)})
        ),
    },
)
PLAN: Final = record(
    "Plan",
    {
        "now": LEADERS,
        "moves": listed(
            record("PlannedMove", {"vhost": STRING, "name": STRING, "from": STRING, "to": STRING})
        ),
        "traffic": listed(
            record(
                "TrafficAdvice",
                {
                    "vhost": STRING,
                    "name": STRING,
                    "from": STRING,
                    "to": STRING,
                    "share_percent": COUNT,
                    "for_ms": COUNT,
                },
            )
        ),
    },
)
PATTERNS: Final = {"vhost_pattern": STRING, "queue_pattern": STRING}
CHOICE: Final = (
    Query("vhost_pattern", STRING, "Only of vhosts in whose name this expression is found."),
    Query("queue_pattern", STRING, "Only queues in whose name this expression is found."),
)
MEMBERSHIP: Final = {"membership": one_of("promotable", "voter")}
STRATEGY: Final = {"strategy": one_of("all", "even"), **PATTERNS}
FORCE: Final = Query("force", one_of("true", "false"), "Also while the node runs.")
QUORUM: Final = "/api/queues/quorum"
ONE: Final = f"{QUORUM}/{{vhost}}/{{queue}}"
NODE: Final = "/api/nodes/{node}"
BODY: Final = wanted({"node": STRING})
ADDED: Final = wanted({"node": STRING}, MEMBERSHIP)
WHETHER: Final = wanted(optional={"force": FLAG})

OPERATIONS: Final = (
    reads(
        "/api/nodes/best",
        "The node at which a client of the queue should connect; without a queue, any that runs.",
        BEST,
        query=(
            Query("queue", STRING, "Name of a queue."),
            Query("vhost", STRING, "Its vhost; `/` unless told."),
        ),
        refusals=(404, 503),
    ),
    reads(
        "/api/cluster",
        "Nodes, and how many queues each of them leads or has.",
        record("ClusterMap", {"nodes": listed(PLACE), "this_node": STRING}),
        MONITORING,
    ),
    posts(
        "/api/cluster/recover",
        "Unsafe: the cluster goes on with this node alone, and forgets the others, which are lost "
        "for ever. `confirm` is the name of this node.",
        wanted({"confirm": STRING}),
        record("RecoveredCluster", {"forgotten": TEXTS}),
        rights=ADMINISTRATOR,
    ),
    reads(
        "/api/cluster/plan",
        "What a rebalance would move, and which leaders should go to where their traffic is.",
        PLAN,
        MONITORING,
        query=CHOICE,
    ),
    reads(f"{ONE}/status", "The members of a quorum queue.", listed(table(ANY))),
    posts(f"{ONE}/replicas/add", "Add a member on a node.", ADDED, rights=ADMINISTRATOR),
    Operation(
        method="DELETE",
        path=f"{ONE}/replicas/delete",
        summary="Remove the member on a node.",
        rights=ADMINISTRATOR,
        body=BODY,
        answers={204: None},
    ),
    posts(f"{ONE}/leader", "Hand the leadership to a node.", BODY, rights=ADMINISTRATOR),
    posts(
        f"{ONE}/recover",
        "Unsafe: a queue whose majority is lost for ever goes on with the member of one node. What "
        "the others alone have is lost. `confirm` is the name of the queue.",
        wanted({"confirm": STRING}, {"node": STRING}),
        record(
            "RecoveredQueue",
            {"node": STRING, "term": COUNT, "last_index": COUNT, "members_lost": TEXTS},
        ),
        rights=ADMINISTRATOR,
    ),
    posts(
        f"{QUORUM}/recover",
        "Unsafe: queues without a leader, and of which no majority runs, go on with the member "
        "that has most of each; what the others alone have is lost. `confirm` is `all`.",
        wanted({"confirm": STRING}, PATTERNS),
        listed(
            record(
                "QueueRecovery",
                {
                    "vhost": STRING,
                    "name": STRING,
                    "node": STRING,
                    "members_lost": TEXTS,
                    "result": STRING,
                },
            )
        ),
        rights=ADMINISTRATOR,
    ),
    posts(
        f"{QUORUM}/replicas/on/{{node}}/grow",
        "Add a member on the node to many queues.",
        wanted(optional={**STRATEGY, **MEMBERSHIP, "errors_only": FLAG}),
        RESULTS,
        rights=ADMINISTRATOR,
    ),
    Operation(
        method="DELETE",
        path=f"{QUORUM}/replicas/on/{{node}}/shrink",
        summary="Remove all members on the node.",
        rights=ADMINISTRATOR,
        query=(Query("errors_only", one_of("true", "false"), "Only rows of what failed."),),
        answers={200: RESULTS},
    ),
    posts(
        f"{QUORUM}/replicas/grow-to-count",
        "Give many queues so many members.",
        wanted({"count": DIGITS}, STRATEGY),
        RESULTS,
        rights=ADMINISTRATOR,
    ),
    posts(
        "/api/rebalance/queues",
        "Spread leaders over the nodes.",
        wanted(optional={"type": one_of("all", "quorum", "classic"), **PATTERNS}),
        LEADERS,
        rights=ADMINISTRATOR,
    ),
    posts(
        f"{NODE}/drain",
        "Take a node out of service: clients and leaders move away.",
        WHETHER,
        record(
            "Drained",
            {
                "connections_closed": COUNT,
                "leaders_moved": COUNT,
                "still_led_here": TEXTS,
                "classic_queues_here": COUNT,
            },
        ),
        rights=ADMINISTRATOR,
    ),
    posts(f"{NODE}/revive", "Put a node back into service.", rights=ADMINISTRATOR),
    posts(
        f"{NODE}/reset",
        "Have a node leave the cluster and start empty.",
        WHETHER,
        rights=ADMINISTRATOR,
    ),
    Operation(
        method="DELETE",
        path=NODE,
        summary="Forget a node that is gone for good.",
        rights=ADMINISTRATOR,
        query=(FORCE,),
        answers={200: RESULTS},
    ),
)

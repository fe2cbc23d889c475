"""Entries of `node.management.api.definitions`."""

from typing import Final

from node.management.schema.model import (
    ADMINISTRATOR,
    ANY,
    MAP,
    POLICYMAKER,
    STRING,
    Operation,
    Query,
    Schema,
    listed,
    one_of,
    reads,
    record,
    table,
    wanted,
)

ROWS: Final = listed(MAP)
OF_VHOST: Final = ("parameters", "policies", "queues", "exchanges", "bindings")
OF_CLUSTER: Final = ("users", "vhosts", "permissions", "topic_permissions", "global_parameters")
HEAD: Final[dict[str, Schema]] = {
    "rabbit_version": STRING,
    "rabbitmq_version": STRING,
    "product_name": STRING,
    "product_version": STRING,
    "rabbitmq_definition_format": STRING,
    "original_cluster_name": STRING,
}
EXPORT: Final = record("Definitions", {**HEAD, **dict.fromkeys((*OF_CLUSTER, *OF_VHOST), ROWS)})
EXPORT_OF_VHOST: Final = record(
    "VhostDefinitions",
    {
        **HEAD,
        **dict.fromkeys(OF_VHOST, ROWS),
        "vhost": STRING,
        "description": STRING,
        "metadata": MAP,
        "limits": table(ANY),
    },
)
FLAGS: Final = (
    Query(
        "skip_if_unchanged",
        one_of("true", "false"),
        "Do nothing if the file that was imported last was the same.",
    ),
    Query(
        "progress",
        one_of("true", "false"),
        "Answer 200 with a line of JSON for each part: `done` and `total`, at last `status` or "
        "`error` and `reason`.",
    ),
)
ALL: Final = "/api/definitions"


def _import(path: str, summary: str, parts: tuple[str, ...]) -> Operation:
    return Operation(
        method="POST",
        path=path,
        summary=summary,
        rights=ADMINISTRATOR,
        query=FLAGS,
        body=wanted(optional=dict.fromkeys(parts, ROWS)),
        answers={204: None, 200: STRING},
        content_type="application/x-ndjson",
    )


OPERATIONS: Final = (
    reads(ALL, "All definitions, as RabbitMQ 4 exports them.", EXPORT, ADMINISTRATOR),
    _import(ALL, "Import definitions of RabbitMQ 3, 4 or Warren.", (*OF_CLUSTER, *OF_VHOST)),
    reads(f"{ALL}/{{vhost}}", "Definitions of a vhost.", EXPORT_OF_VHOST, POLICYMAKER),
    _import(f"{ALL}/{{vhost}}", "Import definitions into a vhost.", OF_VHOST),
)

"""Entries of `node.management.api.operations.health`: 200, or 503 with the reason."""

from typing import Final

from node.management.schema.model import (
    ANY,
    MANAGEMENT,
    STRING,
    Operation,
    Schema,
    one_of,
)

CHECKS: Final = "/api/health/checks"
LEADERLESS: Final = f"{CHECKS}/quorum-queues-without-elected-leaders"
HEALTHY: Final[Schema] = {
    "title": "Healthy",
    "type": "object",
    "properties": {"status": one_of("ok")},
    "required": ["status"],
    "additionalProperties": ANY,
}
FAILED: Final[Schema] = {
    "title": "Failed",
    "type": "object",
    "properties": {"status": one_of("failed"), "error": STRING, "reason": STRING},
    "required": ["reason"],
    "additionalProperties": ANY,
}


def _check(path: str, summary: str) -> Operation:
    return Operation(
        method="GET", path=path, summary=summary, rights=MANAGEMENT,
        answers={200: HEALTHY, 503: FAILED},
    )  # fmt: skip


OPERATIONS: Final = (
    _check(f"{CHECKS}/alarms", "No alarm in the cluster."),
    _check(f"{CHECKS}/local-alarms", "No alarm on this node."),
    _check(f"{CHECKS}/is-in-service", "The node is neither starting nor drained."),
    _check(f"{CHECKS}/ready-to-serve-clients", "It is in service and AMQP clients can connect."),
    _check(f"{CHECKS}/port-listener/{{port}}", "Something listens on the port."),
    _check(f"{CHECKS}/protocol-listener/{{protocol}}", "Something listens for the protocol."),
    _check(f"{CHECKS}/virtual-hosts", "All virtual hosts run."),
    _check(f"{CHECKS}/local-crashed-queues", "No queue of this node is damaged."),
    _check(f"{CHECKS}/below-node-connection-limit", "There is room for a connection."),
    _check(f"{CHECKS}/metadata-store/initialized", "The definitions are there."),
    _check(f"{CHECKS}/metadata-store/initialized/with-data", "They are there and not empty."),
    _check(f"{CHECKS}/node-is-quorum-critical", "Nothing hangs on this node alone."),
    _check(f"{CHECKS}/node-is-mirror-sync-critical", "No mirror lags behind; there are none."),
    _check(f"{LEADERLESS}/all-vhosts", "Every quorum queue has a leader."),
    _check(f"{LEADERLESS}/all-vhosts/pattern/{{pattern}}", "Those of these names have."),
    _check(f"{LEADERLESS}/vhost/{{vhost}}", "Those of a vhost have."),
    _check(f"{LEADERLESS}/vhost/{{vhost}}/pattern/{{pattern}}", "Those of a vhost and name have."),
    _check(f"{CHECKS}/reached-target-cluster-size", "All members of the cluster run."),
    _check("/api/healthchecks/node", "The node is in service and has no alarm."),
    _check("/api/healthchecks/node/{node}", "The same; of another node, whether it runs."),
    _check("/api/aliveness-test/{vhost}", "A message goes through a queue of the vhost."),
)

"""What a primary exports of a vhost for its standby, and what makes the standby the same.

Rows have the form of definition files. Of the vhost: exchanges, lasting queues that no consumer
deletes, bindings between them, policies, limits, permissions and the users who have them. Upstreams
and shovels stay where they are: their passwords are encrypted for that cluster, and a standby runs
none. Users are made and changed, and never deleted.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

import msgspec

from node.management.api.definitions import (
    binding_rows,
    exchange_rows,
    limit_rows,
    queue_rows,
    user_rows,
)
from node.management.api.permissions import permission_row, topic_permission_row
from node.management.api.policies import policy_row
from node.standby.feed import is_replicated
from queues.definitions.arguments import encode_arguments
from queues.definitions.broker_objects import Destination
from queues.definitions.metadata.commands import (
    ClearPermissions,
    ClearTopicPermissions,
    Command,
    DeleteExchange,
    DeleteParameter,
    DeletePolicy,
    DeleteQueue,
    Unbind,
)
from queues.definitions.metadata.machine import Metadata
from queues.definitions.metadata.vhost import VHost
from queues.definitions.vhost_limits import VHOST_LIMITS, VHOST_LIMITS_NAME

Row = dict[str, object]
Rows = Mapping[str, Sequence[Row]]
OPERATOR_POLICIES: Final = "operator_policies"  # a part of ours


def exported(metadata: Metadata, vhost: VHost) -> dict[str, list[Row]]:
    """All rows, by part."""
    name, access = vhost.name, metadata.access
    permissions = [each for each in access.permissions_by_key.values() if each.vhost == name]
    topics = [each for each in access.topic_permissions_by_key.values() if each.vhost == name]
    users = {each.user for each in permissions}
    copied = {each.name for each in vhost.queues.values() if is_replicated(each)}
    return {
        "users": [row for row in user_rows(metadata) if row["name"] in users],
        "permissions": [permission_row(each) for each in permissions],
        "topic_permissions": [topic_permission_row(each) for each in topics],
        "parameters": list(limit_rows(vhost)),
        "policies": [policy_row(each) for each in vhost.policies if not each.operator],
        OPERATOR_POLICIES: [policy_row(each) for each in vhost.policies if each.operator],
        "exchanges": list(exchange_rows(vhost)),
        "queues": [row for row in queue_rows(vhost) if row["name"] in copied],
        "bindings": [row for row in binding_rows(vhost) if _is_between(row, copied)],
    }


def _is_between(row: Row, queues: set[str]) -> bool:
    return row["destination_type"] != "queue" or row["destination"] in queues


def missing(wanted: Rows, there: Rows) -> dict[str, list[Row]]:
    """Rows of `wanted` that are not in `there`, for an import."""
    found: dict[str, list[Row]] = {}
    for part, rows in wanted.items():
        known = {_encoded(row) for row in there.get(part, ())}
        found[part] = [row for row in rows if _encoded(row) not in known]
    operators = found.pop(OPERATOR_POLICIES, [])
    found["parameters"] = [*found.get("parameters", []), *map(_as_parameter, operators)]
    return found


def _as_parameter(row: Row) -> Row:
    """An operator policy as definition files have it."""
    value = {key: row[key] for key in ("pattern", "apply-to", "definition", "priority")}
    return {"vhost": row["vhost"], "component": "operator_policy", "name": row["name"]} | {
        "value": value
    }


def deletions(wanted: Rows, there: Rows) -> Iterator[Command]:
    """What removes the rows of `there` that are not wanted, or not so: what cannot be changed is
    deleted and made again."""
    for part, command_of in DELETED.items():
        known = {_encoded(row) for row in wanted.get(part, ())}
        keys = {_key(part, row) for row in wanted.get(part, ())}
        for row in there.get(part, ()):
            is_changed = _encoded(row) not in known
            if is_changed and (part in REMADE or _key(part, row) not in keys):
                yield command_of(row)


def _encoded(row: Row) -> bytes:
    return msgspec.json.encode(row, order="deterministic")


def _key(part: str, row: Row) -> tuple[object, ...]:
    return tuple(str(row.get(each, "")) for each in KEYS.get(part, ("name",)))


def _unbind(row: Row) -> Command:
    is_queue = row["destination_type"] == "queue"
    arguments = row["arguments"]
    assert isinstance(arguments, dict)
    return Unbind(
        str(row["vhost"]),
        str(row["source"]),
        Destination.QUEUE if is_queue else Destination.EXCHANGE,
        str(row["destination"]),
        str(row["routing_key"]).encode(),
        encode_arguments(arguments),
    )


REMADE: Final = frozenset({"exchanges", "queues", "bindings"})  # no command changes them
KEYS: Final[Mapping[str, tuple[str, ...]]] = {
    "permissions": ("user",),
    "topic_permissions": ("user", "exchange"),
}
DELETED: Final[Mapping[str, Callable[[Row], Command]]] = {
    "bindings": _unbind,
    "queues": lambda row: DeleteQueue(str(row["vhost"]), str(row["name"])),
    "exchanges": lambda row: DeleteExchange(str(row["vhost"]), str(row["name"])),
    "policies": lambda row: DeletePolicy(str(row["vhost"]), str(row["name"]), False),
    OPERATOR_POLICIES: lambda row: DeletePolicy(str(row["vhost"]), str(row["name"]), True),
    "parameters": lambda row: DeleteParameter(str(row["vhost"]), VHOST_LIMITS, VHOST_LIMITS_NAME),
    "topic_permissions": lambda row: ClearTopicPermissions(
        str(row["user"]), str(row["vhost"]), str(row["exchange"])
    ),
    "permissions": lambda row: ClearPermissions(str(row["user"]), str(row["vhost"])),
}

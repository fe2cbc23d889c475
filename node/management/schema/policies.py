"""Entries of `node.management.api.policies`."""

from typing import Final

from node.management.schema.model import (
    ADMINISTRATOR,
    INTEGER,
    MAP,
    POLICYMAKER,
    STRING,
    TEXTS,
    Operation,
    deletes,
    lists,
    puts,
    reads,
    record,
    wanted,
)

POLICY: Final = record(
    "Policy",
    {
        "vhost": STRING,
        "name": STRING,
        "pattern": STRING,
        "apply-to": STRING,
        "definition": MAP,
        "priority": INTEGER,
    },
    {"warnings": TEXTS},
)
BODY: Final = wanted(
    {"pattern": STRING, "definition": MAP}, {"apply-to": STRING, "priority": INTEGER}
)


def _of(path: str, what: str, who: str) -> tuple[Operation, ...]:
    one = f"{path}/{{vhost}}/{{name}}"
    return (
        lists(path, f"All {what} of the vhosts that the user sees.", POLICY),
        lists(f"{path}/{{vhost}}", f"The {what} of a vhost.", POLICY),
        reads(one, f"One of the {what}.", POLICY, POLICYMAKER),
        puts(one, f"Set one of the {what}; it holds at once.", BODY, who),
        deletes(one, f"Clear one of the {what}.", who),
    )


OPERATIONS: Final = (
    *_of("/api/policies", "policies", POLICYMAKER),
    *_of("/api/operator-policies", "operator policies", ADMINISTRATOR),
)

"""Entries of `node.management.api.security`."""

from typing import Final

from node.management.schema.model import (
    ADMINISTRATOR,
    ANY,
    COUNT,
    MONITORING,
    STRING,
    Operation,
    deletes,
    listed,
    posts,
    reads,
    record,
    table,
    wanted,
)
from node.management.schema.operations.health import CHECKS, FAILED, HEALTHY
from node.management.schema.operations.overview import HASHED

COUNTED: Final = {
    "protocol": STRING,
    "auth_attempts": COUNT,
    "auth_attempts_failed": COUNT,
    "auth_attempts_succeeded": COUNT,
}
ATTEMPTS: Final = "/api/auth/attempts/{node}"
BY_SOURCE: Final = record(
    "AttemptsBySource", {"remote_address": STRING, "username": STRING, **COUNTED}
)

OPERATIONS: Final = (
    reads(ATTEMPTS, "Logins by protocol.", listed(record("Attempts", COUNTED)), MONITORING),
    reads(f"{ATTEMPTS}/source", "Logins by address and user.", listed(BY_SOURCE), MONITORING),
    deletes(ATTEMPTS, "Reset the counts of logins.", ADMINISTRATOR),
    deletes(f"{ATTEMPTS}/source", "Reset the counts of logins.", ADMINISTRATOR),
    posts(
        "/api/auth/hash_password",
        "The hash of a password, as it can stand in a definitions file.",
        wanted({"password": STRING}, {"hashing_algorithm": STRING}),
        HASHED,
    ),
    reads(
        "/api/config/effective",
        "The configuration of this node, without its secrets.",
        table(ANY),
        ADMINISTRATOR,
    ),
    Operation(
        method="GET",
        path=f"{CHECKS}/certificate-expiration/{{within}}/{{unit}}",
        summary="No certificate of a listener ends within so many days, weeks, months or years.",
        answers={200: HEALTHY, 503: FAILED},
    ),
)

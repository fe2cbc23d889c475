"""Entries of `node.management.api.users`."""

from typing import Final

from node.management.schema.model import (
    ADMINISTRATOR,
    INTEGER,
    MONITORING,
    STRING,
    TAGS,
    TEXTS,
    deletes,
    lists,
    posts,
    puts,
    reads,
    record,
    table,
    wanted,
)

USER: Final = record(
    "User",
    {"name": STRING, "tags": TEXTS, "limits": table(INTEGER)},
    {"password_hash": STRING, "hashing_algorithm": STRING},  # for administrators
)
ONE: Final = "/api/users/{user}"

OPERATIONS: Final = (
    lists("/api/users", "Users; administrators also see the hashes.", USER, MONITORING),
    lists("/api/users/without-permissions", "Users who may use no virtual host.", USER, MONITORING),
    posts(
        "/api/users/bulk-delete",
        "Delete users.",
        wanted({"users": TAGS}),
        rights=ADMINISTRATOR,
    ),
    reads(ONE, "One user.", USER, MONITORING),
    puts(
        ONE,
        "Make or change a user. Without a password or a hash login by password is not possible.",
        wanted(
            {"tags": TAGS},
            {"password": STRING, "password_hash": STRING, "hashing_algorithm": STRING},
        ),
        ADMINISTRATOR,
    ),
    deletes(ONE, "Delete a user.", ADMINISTRATOR),
)

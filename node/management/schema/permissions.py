"""Entries of `node.management.api.permissions`."""

from typing import Final

from node.management.schema.model import (
    ADMINISTRATOR,
    STRING,
    TEXTS,
    deletes,
    lists,
    puts,
    reads,
    record,
    wanted,
)

PERMISSION: Final = record(
    "Permission",
    {"user": STRING, "vhost": STRING, "configure": STRING, "write": STRING, "read": STRING},
    {"warnings": TEXTS},
)
TOPIC_PERMISSION: Final = record(
    "TopicPermission",
    {"user": STRING, "vhost": STRING, "exchange": STRING, "write": STRING, "read": STRING},
    {"warnings": TEXTS},
)
ONE: Final = "/api/permissions/{vhost}/{user}"
TOPIC: Final = "/api/topic-permissions/{vhost}/{user}"

OPERATIONS: Final = (
    lists("/api/permissions", "All permissions.", PERMISSION, ADMINISTRATOR),
    lists("/api/users/{user}/permissions", "Those of a user.", PERMISSION, ADMINISTRATOR),
    lists("/api/vhosts/{vhost}/permissions", "Those in a vhost.", PERMISSION, ADMINISTRATOR),
    reads(ONE, "Those of a user in a vhost.", PERMISSION, ADMINISTRATOR),
    puts(
        ONE,
        "Set what a user may do in a vhost: expressions for names.",
        wanted({"configure": STRING, "write": STRING, "read": STRING}),
        ADMINISTRATOR,
    ),
    deletes(ONE, "Take the permissions away.", ADMINISTRATOR),
    lists("/api/topic-permissions", "All topic permissions.", TOPIC_PERMISSION, ADMINISTRATOR),
    lists(
        "/api/users/{user}/topic-permissions", "Those of a user.", TOPIC_PERMISSION, ADMINISTRATOR
    ),
    lists(
        "/api/vhosts/{vhost}/topic-permissions",
        "Those in a vhost.",
        TOPIC_PERMISSION,
        ADMINISTRATOR,
    ),
    lists(TOPIC, "Those of a user in a vhost.", TOPIC_PERMISSION, ADMINISTRATOR),
    puts(
        TOPIC,
        "Set with which keys a user may use a topic exchange.",
        wanted({"exchange": STRING, "write": STRING, "read": STRING}),
        ADMINISTRATOR,
    ),
    deletes(TOPIC, "Take those of a user in a vhost away.", ADMINISTRATOR),
    deletes(f"{TOPIC}/{{exchange}}", "Take those for one exchange away.", ADMINISTRATOR),
)

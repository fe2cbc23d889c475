"""Entries of `node.management.api.vhosts`."""

from typing import Final

from node.management.rows.vhost_columns import VHOST_COLUMNS
from node.management.schema.connections import schemas_of
from node.management.schema.model import (
    ADMINISTRATOR,
    COLUMNS,
    FLAG,
    RANGES,
    STRING,
    TAGS,
    deletes,
    lists,
    or_null,
    posts,
    puts,
    reads,
    record,
    wanted,
)

VHOST: Final = record("Vhost", schemas_of(VHOST_COLUMNS))
ONE: Final = "/api/vhosts/{vhost}"
PROTECTION: Final = f"{ONE}/deletion/protection"

OPERATIONS: Final = (
    lists("/api/vhosts", "Virtual hosts that the user sees.", VHOST, more=RANGES),
    reads(ONE, "One virtual host.", VHOST, query=(*COLUMNS, *RANGES)),
    puts(
        ONE,
        "Make a virtual host, or change what is said of it.",
        wanted(
            optional={
                "description": STRING,
                "tags": TAGS,
                "default_queue_type": or_null(STRING),
                "tracing": FLAG,
                "protected_from_deletion": FLAG,
            }
        ),
        ADMINISTRATOR,
    ),
    deletes(ONE, "Delete it with all that is in it.", ADMINISTRATOR, refusals=(412,)),
    posts(f"{ONE}/start/{{node}}", "Start it on a node: they all run.", rights=ADMINISTRATOR),
    posts(PROTECTION, "Protect it from being deleted.", rights=ADMINISTRATOR),
    deletes(PROTECTION, "Let it be deleted again.", ADMINISTRATOR),
)

"""Entries of `node.management.api.limits`."""

from typing import Final

from node.management.schema.model import (
    ADMINISTRATOR,
    INTEGER,
    MONITORING,
    STRING,
    deletes,
    listed,
    puts,
    reads,
    record,
    table,
    wanted,
)

OF_VHOST: Final = record("VhostLimits", {"vhost": STRING, "value": table(INTEGER)})
OF_USER: Final = record("UserLimits", {"user": STRING, "value": table(INTEGER)})
VHOST: Final = "/api/vhost-limits"
USER: Final = "/api/user-limits"
VALUE: Final = wanted({"value": INTEGER})

OPERATIONS: Final = (
    reads(VHOST, "Limits of all vhosts that the user sees.", listed(OF_VHOST)),
    reads(f"{VHOST}/{{vhost}}", "Limits of a vhost.", listed(OF_VHOST)),
    puts(
        f"{VHOST}/{{vhost}}/{{limit}}",
        "Set a limit: max-connections or max-queues; negative for none.",
        VALUE,
        ADMINISTRATOR,
        statuses=(204,),
    ),
    deletes(f"{VHOST}/{{vhost}}/{{limit}}", "Clear a limit of a vhost.", ADMINISTRATOR),
    reads(USER, "Limits of all users.", listed(OF_USER), MONITORING),
    reads(f"{USER}/{{user}}", "Limits of a user.", listed(OF_USER), MONITORING),
    puts(
        f"{USER}/{{user}}/{{limit}}",
        "Set a limit: max-connections or max-channels; negative for none.",
        VALUE,
        ADMINISTRATOR,
        statuses=(204,),
    ),
    deletes(f"{USER}/{{user}}/{{limit}}", "Clear a limit of a user.", ADMINISTRATOR),
)

"""Entries of `node.management.api.standby`."""

from typing import Final

from node.management.schema.model import (
    ADMINISTRATOR,
    BOOLEAN,
    COUNT,
    MONITORING,
    NUMBER,
    STRING,
    Operation,
    lists,
    or_null,
    posts,
    record,
    wanted,
)

_ALWAYS: Final = {
    "vhost": STRING,
    "name": STRING,
    "state": STRING,
    "uri": STRING,
    "rpo_seconds": or_null(NUMBER),
    "synced_at": COUNT,
    "queues": COUNT,
    "messages": COUNT,
    "messages_copied": COUNT,
    "messages_settled": COUNT,
    "bytes_copied": COUNT,
}
_SOMETIMES: Final = {"error": STRING, "last_error": STRING}
STANDBY: Final = record("Standby", _ALWAYS, _SOMETIMES)
PROMOTED: Final = record("PromotedStandby", {**_ALWAYS, "forced": BOOLEAN}, _SOMETIMES)

OPERATIONS: Final = (
    lists("/api/standbys", "Warm standbys, and how far they are behind.", STANDBY, MONITORING),
    posts(
        "/api/standbys/{vhost}/promote",
        "Serve clients from a standby. Refused while its primary answers, unless forced.",
        wanted({}, {"force": BOOLEAN}),
        PROMOTED,
        ADMINISTRATOR,
        refusals=(409,),
    ),
    Operation(
        method="POST",
        path="/api/vhosts/{vhost}/standby-feed",
        summary="What a standby asks its primary, in MessagePack; of the same version only.",
        rights=ADMINISTRATOR,
        answers={200: None},
        refusals=(503,),
        content_type="application/msgpack",
    ),
)

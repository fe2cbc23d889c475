"""Entries of `node.management.api.federation_links`."""

from typing import Final

from node.management.schema.model import (
    INTEGER,
    MONITORING,
    NUMBER,
    POLICYMAKER,
    STRING,
    deletes,
    lists,
    puts,
    record,
)

LINK: Final = record(
    "FederationLink",
    {
        "node": STRING,
        "id": STRING,
        "type": STRING,
        "vhost": STRING,
        "upstream": STRING,
        "status": STRING,
        "uri": STRING,
        "timestamp": STRING,
        "messages_forwarded": INTEGER,
        "bytes_forwarded": INTEGER,
        "in_flight": INTEGER,
        "lag_messages": INTEGER,
        "lag_seconds": NUMBER,
    },
    {
        "exchange": STRING,
        "upstream_exchange": STRING,
        "queue": STRING,
        "upstream_queue": STRING,
        "consumer_tag": STRING,
        "blocked_status": STRING,
        "error": STRING,
        "last_forwarded": INTEGER,
        "last_error": STRING,
    },
)
ALL: Final = "/api/federation-links"
DOWN: Final = "`down`: every one but `running` and `starting`."
PAUSE: Final = f"{ALL}/vhost/{{vhost}}/{{link}}/pause"

OPERATIONS: Final = (
    lists(ALL, "Federation links and what they do.", LINK, MONITORING),
    lists(f"{ALL}/state/{{state}}", f"Those in a state. {DOWN}", LINK, MONITORING),
    lists(f"{ALL}/{{vhost}}", "Those of a vhost.", LINK, MONITORING),
    lists(f"{ALL}/{{vhost}}/state/{{state}}", "Those of a vhost in a state.", LINK, MONITORING),
    deletes(f"{ALL}/vhost/{{vhost}}/{{link}}/{{node}}/restart", "Restart a link.", POLICYMAKER),
    puts(PAUSE, "Pause a link.", record("Pause", {}), POLICYMAKER, (204,)),
    deletes(PAUSE, "Resume a link.", POLICYMAKER),
)

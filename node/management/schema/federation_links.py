"""Entries of `node.management.api.federation_links`."""

from typing import Final

from node.management.schema.model import (
    INTEGER,
    MONITORING,
    POLICYMAKER,
    STRING,
    deletes,
    lists,
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
    },
    {
        "exchange": STRING,
        "upstream_exchange": STRING,
        "queue": STRING,
        "upstream_queue": STRING,
        "consumer_tag": STRING,
        "error": STRING,
        "last_forwarded": INTEGER,
    },
)
ALL: Final = "/api/federation-links"

OPERATIONS: Final = (
    lists(ALL, "Federation links and what they do.", LINK, MONITORING),
    lists(f"{ALL}/state/{{state}}", "Those in a state.", LINK, MONITORING),
    lists(f"{ALL}/{{vhost}}", "Those of a vhost.", LINK, MONITORING),
    lists(f"{ALL}/{{vhost}}/{{state}}", "Those of a vhost in a state.", LINK, MONITORING),
    deletes(f"{ALL}/vhost/{{vhost}}/{{link}}/{{node}}/restart", "Restart a link.", POLICYMAKER),
)

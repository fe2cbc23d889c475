"""Entries of `node.management.api.shovels`."""

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
    reads,
    record,
)

SHOVEL: Final = record(
    "Shovel",
    {"vhost": STRING, "name": STRING, "type": STRING, "state": STRING},
    {
        "node": STRING,
        "timestamp": STRING,
        "reason": STRING,
        "blocked_status": STRING,
        "src_uri": STRING,
        "src_protocol": STRING,
        "src_queue": STRING,
        "src_address": STRING,
        "src_exchange": STRING,
        "src_exchange_key": STRING,
        "dest_uri": STRING,
        "dest_protocol": STRING,
        "dest_queue": STRING,
        "dest_address": STRING,
        "dest_exchange": STRING,
        "dest_exchange_key": STRING,
        "messages_forwarded": INTEGER,
        "bytes_forwarded": INTEGER,
        "in_flight": INTEGER,
        "last_forwarded": INTEGER,
        "last_error": STRING,
        "lag_messages": INTEGER,
        "lag_seconds": NUMBER,
    },
)
ALL: Final = "/api/shovels"
ONE: Final = "/api/shovels/vhost/{vhost}/{name}"

OPERATIONS: Final = (
    lists(ALL, "Shovels and what they do.", SHOVEL, MONITORING),
    lists(f"{ALL}/{{vhost}}", "Those of a vhost.", SHOVEL, MONITORING),
    reads(ONE, "One shovel.", SHOVEL, MONITORING),
    deletes(ONE, "Delete a shovel.", POLICYMAKER),
    deletes(f"{ONE}/restart", "Restart a shovel at once.", POLICYMAKER),
    puts(f"{ONE}/pause", "Pause a shovel.", record("Pause", {}), POLICYMAKER, (204,)),
    deletes(f"{ONE}/pause", "Resume a shovel.", POLICYMAKER),
)

"""Entries of `node.management.api.addresses`."""

from typing import Final

from node.management.schema.model import (
    BOOLEAN,
    COUNT,
    INTEGER,
    MONITORING,
    STRING,
    listed,
    one_of,
    reads,
    record,
)

ADDRESS: Final = record(
    "Address",
    {
        "vhost": STRING,
        "kind": one_of("exchange", "queue"),
        "name": STRING,
        "policy": one_of("PAGE", "BLOCK", "DROP", "FAIL"),
        "full": BOOLEAN,
        "bytes": COUNT,
        "messages": COUNT,
        "max_size_bytes": INTEGER,
        "max_size_messages": INTEGER,
        "refusing_above_bytes": INTEGER,
        "refusing_above_messages": INTEGER,
        "over_bytes_max": COUNT,
        "producer_max_rate": INTEGER,
        "producer_window_size": INTEGER,
        "amqp_credits": INTEGER,
        "amqp_low_credits": INTEGER,
        "queues": COUNT,
        "blocked_publishers": COUNT,
        "blocked_times": COUNT,
        "refused": COUNT,
        "dropped": COUNT,
        "granted_credit": COUNT,
        "granted_bytes": COUNT,
    },
)
ABOUT: Final = "Addresses with limits, what they hold, who waits."

OPERATIONS: Final = (
    reads("/api/addresses", ABOUT, listed(ADDRESS), MONITORING),
    reads("/api/addresses/{vhost}", f"{ABOUT[:-1]}, of a vhost.", listed(ADDRESS), MONITORING),
)

"""Entries of `node.management.api.leases`."""

from typing import Final

from node.management.schema.model import COUNT, STRING, deletes, listed, reads, record

LEASE: Final = record(
    "Lease",
    {
        "vhost": STRING,
        "queue": STRING,
        "name": STRING,
        "user": STRING,
        "node": STRING,
        "messages": COUNT,
        "message_bytes": COUNT,
        "batches": COUNT,
        "newest_batch": COUNT,
        "timeout_ms": COUNT,
        "expires_in_ms": COUNT,
    },
)
ALL: Final = "/api/leases"
OF_QUEUE: Final = f"{ALL}/{{vhost}}/{{queue}}"
ONE: Final = f"{OF_QUEUE}/{{lease}}"

OPERATIONS: Final = (
    reads(ALL, "Leases of queues: who holds which messages, until when.", listed(LEASE)),
    reads(f"{ALL}/{{vhost}}", "Those of a vhost.", listed(LEASE)),
    reads(OF_QUEUE, "Those of a queue.", listed(LEASE)),
    reads(ONE, "One of them.", LEASE),
    deletes(ONE, "End a lease: what it holds is ready again."),
)

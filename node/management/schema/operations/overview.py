"""Entries of `node.management.api.operations.overview`, `openapi` and the name of the cluster."""

from typing import Final

from node.management.schema.model import (
    ADMINISTRATOR,
    ANY,
    BOOLEAN,
    COUNT,
    RANGES,
    STRING,
    TEXTS,
    deletes,
    listed,
    one_of,
    posts,
    puts,
    reads,
    record,
    table,
    wanted,
)

LISTENER: Final = record(
    "Listener",
    {"node": STRING, "protocol": STRING, "ip_address": STRING, "port": COUNT},
)
OVERVIEW: Final = record(
    "Overview",
    {
        "product_name": STRING,
        "product_version": STRING,
        "management_version": STRING,
        "rabbitmq_version": STRING,
        "cluster_name": STRING,
        "node": STRING,
        "rates_mode": STRING,
        "statistics_db_event_queue": COUNT,
        "sample_retention_policies": table(ANY),
        "exchange_types": listed(table(ANY)),
        "queue_totals": table(ANY),
        "object_totals": table(COUNT),
        "message_stats": table(ANY),
        "churn_rates": table(ANY),
    },
    {"listeners": listed(LISTENER), "contexts": listed(table(ANY))},
)
WHOAMI: Final = record("Whoami", {"name": STRING, "tags": TEXTS, "is_internal_user": BOOLEAN})

HASHED: Final = record("Hashed", {"ok": STRING})

OPERATIONS: Final = (
    reads("/api/openapi.json", "This document.", table(ANY)),
    reads(
        "/api/overview",
        "Totals of the cluster; listeners for monitoring users.",
        OVERVIEW,
        query=RANGES,
    ),
    reads("/api/version", "The version of the broker.", STRING),
    deletes("/api/reset", "Reset the rates of all nodes.", ADMINISTRATOR),
    reads("/api/whoami", "Who asks.", WHOAMI),
    reads(
        "/api/auth",
        "How the web page is to log in.",
        record("LoginWays", {"oauth_enabled": BOOLEAN}),
    ),
    posts(
        "/api/login",
        "Try a login: `username` and `password` are fields of a form, not JSON.",
        answer=one_of("ok"),
    ),
    reads("/api/extensions", "Parts of the web page that plugins add.", listed(table(ANY))),
    reads(
        "/api/auth/hash_password/{password}",
        "The hash of a password, as it can stand in a definitions file.",
        HASHED,
    ),
    reads("/api/cluster-name", "The name of the cluster.", record("Named", {"name": STRING})),
    puts(
        "/api/cluster-name",
        "Name the cluster.",
        wanted({"name": STRING}),
        ADMINISTRATOR,
        statuses=(204,),
    ),
)

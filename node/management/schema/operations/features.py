"""Entries of `node.management.api.operations.features`."""

from typing import Final

from node.management.schema.model import (
    ADMINISTRATOR,
    MANAGEMENT,
    MONITORING,
    STRING,
    listed,
    one_of,
    puts,
    reads,
    record,
    wanted,
)

FLAG: Final = record(
    "FeatureFlag",
    {
        "name": STRING,
        "desc": STRING,
        "doc_url": STRING,
        "state": one_of("enabled", "disabled", "unsupported"),
        "stability": one_of("required", "stable", "experimental"),
        "provided_by": STRING,
    },
)
DEPRECATED: Final = record(
    "DeprecatedFeature",
    {
        "name": STRING,
        "desc": STRING,
        "deprecation_phase": STRING,
        "doc_url": STRING,
        "provided_by": STRING,
    },
)

OPERATIONS: Final = (
    reads("/api/feature-flags", "What RabbitMQ calls feature flags.", listed(FLAG), MANAGEMENT),
    puts(
        "/api/feature-flags/{name}/enable",
        "Enable one: all that there are already are.",
        wanted(),
        ADMINISTRATOR,
        statuses=(204,),
    ),
    reads("/api/deprecated-features", "There are none.", listed(DEPRECATED), MONITORING),
    reads("/api/deprecated-features/used", "There are none.", listed(DEPRECATED), MONITORING),
)

"""Entries of `node.management.api.parameters`."""

from typing import Final

from node.management.schema.model import (
    ANY,
    POLICYMAKER,
    STRING,
    TEXTS,
    deletes,
    lists,
    puts,
    reads,
    record,
    wanted,
)

PARAMETER: Final = record(
    "Parameter",
    {"vhost": STRING, "component": STRING, "name": STRING, "value": ANY},
    {"warnings": TEXTS},
)
GLOBAL: Final = record("GlobalParameter", {"name": STRING, "value": ANY})
ALL: Final = "/api/parameters"
ONE: Final = "/api/parameters/{component}/{vhost}/{name}"
GLOBALS: Final = "/api/global-parameters"
VALUE: Final = wanted({"value": ANY})

OPERATIONS: Final = (
    lists(ALL, "Runtime parameters of the vhosts that the user sees.", PARAMETER, POLICYMAKER),
    lists(f"{ALL}/{{component}}", "Those of a component.", PARAMETER, POLICYMAKER),
    lists(
        f"{ALL}/{{component}}/{{vhost}}", "Those of a component in a vhost.", PARAMETER, POLICYMAKER
    ),
    reads(ONE, "One runtime parameter.", PARAMETER, POLICYMAKER),
    puts(ONE, "Set a runtime parameter.", VALUE, POLICYMAKER),
    deletes(ONE, "Clear a runtime parameter.", POLICYMAKER),
    lists(GLOBALS, "Global parameters.", GLOBAL, POLICYMAKER),
    reads(f"{GLOBALS}/{{name}}", "One global parameter.", GLOBAL, POLICYMAKER),
    puts(f"{GLOBALS}/{{name}}", "Set a global parameter.", VALUE, POLICYMAKER),
    deletes(f"{GLOBALS}/{{name}}", "Clear a global parameter.", POLICYMAKER),
)

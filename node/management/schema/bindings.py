"""Entries of `node.management.api.bindings`."""

from typing import Final

from node.management.schema.model import (
    ARGUMENTS,
    MAP,
    NAME,
    STRING,
    Operation,
    deletes,
    lists,
    one_of,
    reads,
    record,
    wanted,
)

BINDING: Final = record(
    "Binding",
    {
        "source": STRING,
        "vhost": STRING,
        "destination": STRING,
        "destination_type": one_of("queue", "exchange"),
        "routing_key": STRING,
        "arguments": MAP,
        "properties_key": STRING,
    },
)
PAIR: Final = "/api/bindings/{vhost}/e/{source}/{kind}/{destination}"
ONE: Final = PAIR + "/{key}"

OPERATIONS: Final = (
    lists("/api/bindings", "Bindings of all vhosts that the user sees.", BINDING),
    lists("/api/bindings/{vhost}", "Bindings of a vhost.", BINDING),
    lists("/api/queues/{vhost}/{queue}/bindings", "Bindings that lead to a queue.", BINDING),
    lists(
        "/api/exchanges/{vhost}/{exchange}/bindings/{end}",
        "Bindings that leave an exchange (`source`) or lead to it (`destination`).",
        BINDING,
    ),
    lists(PAIR, "Bindings between two ends.", BINDING),
    Operation(
        method="POST",
        path=PAIR,
        summary="Bind them; the header Location names the binding.",
        body=wanted(optional={"routing_key": NAME, "arguments": ARGUMENTS}),
        answers={201: None},
    ),
    reads(ONE, "One binding.", BINDING),
    deletes(ONE, "Take a binding away."),
)

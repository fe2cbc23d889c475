"""Entries of `node.management.api.exchanges`."""

from typing import Final

from node.management.rows.exchange_columns import EXCHANGE_COLUMNS
from node.management.schema.connections import schemas_of
from node.management.schema.model import (
    ANY,
    ARGUMENTS,
    COLUMNS,
    FLAG,
    IF_UNUSED,
    MAP,
    RANGES,
    STRING,
    deletes,
    listed,
    lists,
    puts,
    reads,
    record,
    table,
    wanted,
)

EXCHANGE: Final = record(
    "Exchange",
    schemas_of(EXCHANGE_COLUMNS),
    {
        "message_stats": table(ANY),
        "user_who_performed_action": STRING,
        "incoming": listed(MAP),
        "outgoing": listed(MAP),
    },
)
ONE: Final = "/api/exchanges/{vhost}/{exchange}"

OPERATIONS: Final = (
    lists("/api/exchanges", "Exchanges of all vhosts that the user sees.", EXCHANGE, more=RANGES),
    lists("/api/exchanges/{vhost}", "Exchanges of a vhost.", EXCHANGE, more=RANGES),
    reads(ONE, "One exchange.", EXCHANGE, query=(*COLUMNS, *RANGES)),
    puts(
        ONE,
        "Declare an exchange.",
        wanted(
            optional={
                "type": STRING,
                "durable": FLAG,
                "auto_delete": FLAG,
                "internal": FLAG,
                "arguments": ARGUMENTS,
            }
        ),
    ),
    deletes(ONE, "Delete an exchange.", query=(IF_UNUSED,)),
)

"""Entries of `node.management.api.operations.flow`."""

from typing import Final

from node.management.schema.model import (
    ANY,
    BOOLEAN,
    MONITORING,
    TEXTS,
    listed,
    reads,
    record,
    table,
)

GRAPH: Final = record(
    "FlowGraph",
    {
        "nodes": listed(table(ANY)),
        "edges": listed(table(ANY)),
        "totals": listed(table(ANY)),
        "nodes_silent": TEXTS,
        "truncated": BOOLEAN,
    },
)

OPERATIONS: Final = (
    reads("/api/flow/graph", "Who is held back by whom, now and lately.", GRAPH, MONITORING),
)

"""Entries of `node.management.api.operations.controls`."""

from typing import Final

from node.management.schema.model import ADMINISTRATOR, INTEGER, MAP, one_of, posts, puts, wanted

NODE: Final = "/api/nodes/{node}"

OPERATIONS: Final = (
    puts(
        f"{NODE}/limits",
        "Set the limits of alarms, until the node restarts.",
        wanted(optional={"vm_memory_high_watermark": MAP, "disk_free_limit": MAP}),
        ADMINISTRATOR,
        statuses=(204,),
    ),
    posts(
        f"{NODE}/listeners",
        "Close the listener of clients, or open it again.",
        wanted({"action": one_of("suspend", "resume")}),
        rights=ADMINISTRATOR,
    ),
    puts(
        f"{NODE}/clock",
        "Advance the clock of a node that was started with testing.adjustable_clock.",
        wanted({"advance_ms": INTEGER}),
        ADMINISTRATOR,
        statuses=(204,),
    ),
)

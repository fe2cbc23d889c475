"""Which shovels and links an operator has paused: a hidden global parameter for each.

The definitions of the cluster hold it, so that a paused link stays paused when it moves to another
node or all nodes restart.
"""

from typing import TYPE_CHECKING, Final

from queues.definitions.metadata import Metadata
from queues.definitions.metadata_commands import DeleteParameter, PutParameter

if TYPE_CHECKING:
    from node.management.access import Context

PAUSED_LINKS: Final = "paused-links"  # component


def paused_keys(metadata: Metadata) -> frozenset[str]:
    return frozenset(name for component, name in metadata.parameters if component == PAUSED_LINKS)


async def forget_pause(context: "Context", vhost: str, shovel: str) -> None:
    """Resume a shovel that is being deleted: the next one of its name is not paused."""
    key = f"shovel/{vhost}/{shovel}"
    if key in paused_keys(context.operations.metadata):
        await context.operations.carry_out(pause_command(key, False))


def pause_command(key: str, is_paused: bool) -> PutParameter | DeleteParameter:
    if is_paused:
        return PutParameter("", PAUSED_LINKS, key, b"true")
    return DeleteParameter("", PAUSED_LINKS, key)

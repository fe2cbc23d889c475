"""Which shovels and links an operator has paused: a hidden global parameter for each.

The definitions of the cluster hold it, so that a paused link stays paused when it moves to another
node or all nodes restart.
"""

from typing import Final

from queues.definitions.metadata.commands import DeleteParameter, PutParameter
from queues.definitions.metadata.machine import Metadata

PAUSED_LINKS: Final = "paused-links"  # component


def paused_keys(metadata: Metadata) -> frozenset[str]:
    return frozenset(name for component, name in metadata.parameters if component == PAUSED_LINKS)


def pause_command(key: str, is_paused: bool) -> PutParameter | DeleteParameter:
    if is_paused:
        return PutParameter("", PAUSED_LINKS, key, b"true")
    return DeleteParameter("", PAUSED_LINKS, key)

"""Which vhosts are standbys: the runtime parameter `standby` of a vhost makes it one.

A standby gets its definitions and messages from another cluster and serves no client. Its queues
have no limits, lifetimes or dead letters of their own: the other cluster decides what leaves them.
"""

from typing import Final

from queues.definitions.broker_objects import Parameter
from queues.definitions.metadata.machine import Metadata

STANDBY: Final = "standby"  # component
KEPT: Final = (
    "x-queue-type",
    "x-max-priority",
    "x-queue-mode",
)  # arguments that count all the same


def standby_parameter(metadata: Metadata, vhost: str) -> Parameter | None:
    """None: the vhost is no standby."""
    found = metadata.vhosts.get(vhost)
    for parameter in () if found is None else found.parameters.values():
        if parameter.component == STANDBY:
            return parameter
    return None


def without_effects(arguments: dict[str, object]) -> dict[str, object]:
    """What counts of the arguments of a queue while its vhost is a standby."""
    return {name: each for name, each in arguments.items() if name in KEPT} | {
        "x-delivery-limit": -1
    }

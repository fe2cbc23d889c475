"""What flows tell of a link's queue: where its leader is (FEATURES B-70 to B-73). Pure.

Links with a fixed queue have it, consumers' and publishers' alike: in full with their first flow
and in answer to echo, in short with every other. On one node the leader is always here.
"""

from typing import Final

from node.amqp10.descriptions import LEADER_EPOCH
from queues.addresses import parse_target
from queues.definitions import Queue
from warren.wire.amqp10.values import Symbol, ULong

CAPABILITY: Final = "queue-locality:v1"
OFFERED: Final = [CAPABILITY, "leader-hints"]
ACTIVE: Final = "rabbitmq:active"
ALWAYS: Final = "always"
NEGOTIATED: Final = "negotiated"
OFF: Final = "off"

Hints = tuple[dict[str, object], dict[str, object]]


def hints_of(queue: Queue, here: str, urls: list[str]) -> Hints:
    """(in full, in short) of a queue, for a connection to node `here`."""
    local = queue.node == here
    short: dict[str, object] = {"local": local, "leader-epoch": ULong(LEADER_EPOCH)}
    full = short | {
        "local-replica": False,
        "leader": queue.node,
        "leader-endpoints": list(urls),
        "replicas": [queue.node],
        "state": Symbol("running"),
    }
    return full, short


def are_wanted(setting: str, desired: list[str] | None) -> bool:
    """Whether a connection is told; `desired` are the capabilities that its open asks for."""
    return setting == ALWAYS or (setting == NEGOTIATED and CAPABILITY in (desired or ()))


def queue_of_target(address: str | None) -> str | None:
    """The queue that a publisher's link names; None: an exchange, or none."""
    return None if address is None else parse_target(address).queue

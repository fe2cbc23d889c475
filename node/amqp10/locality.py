"""What flows tell of a link's queue: where its leader is. Pure.

Links with a fixed queue have it, consumers' and publishers' alike: in full with their first flow
and in answer to echo, in short with every other (`node.amqp10.hints` has them told of changes).
"""

from collections.abc import Callable, Sequence
from typing import Final

from node.cluster.services.whereis import ELECTING, MINORITY, Place
from queues.addresses.producer_window import LIMIT
from queues.conversion.addresses import parse_target
from warren.wire.amqp10.codec.values import Symbol, UInt, ULong

CAPABILITY: Final = "queue-locality:v1"
OFFERED: Final = [CAPABILITY, "leader-hints"]
ACTIVE: Final = "rabbitmq:active"
ALWAYS: Final = "always"
NEGOTIATED: Final = "negotiated"
OFF: Final = "off"

# When a client may look again, where there is no leader
RETRY_MS: Final = {ELECTING: 200, MINORITY: 1000}

Hints = tuple[dict[str, object], dict[str, object]]
UrlsOf = Callable[[str], Sequence[str]]  # of a node's listener, by its name


def hints_of(place: Place, here: str, urls_of: UrlsOf) -> Hints:
    """(in full, in short) of a queue, for a connection to node `here`."""
    leader = place.leader
    local = leader == here
    short: dict[str, object] = {"local": local, "leader-epoch": ULong(place.epoch)}
    full = short | {
        "local-replica": not local and here in place.replicas,
        "leader": leader,
        "leader-endpoints": [] if leader is None else list(urls_of(leader)),
        "replicas": list(place.replicas),
        "state": Symbol(place.state),
    }
    if place.state in RETRY_MS:
        full["retry-after-ms"] = UInt(RETRY_MS[place.state])
    return full, short


def beside(hints: dict[str, object], before: dict[str, object] | None) -> dict[str, object]:
    """The same, with what else the link told before: of a single active consumer, of a window."""
    kept = {key: before[key] for key in (ACTIVE, LIMIT) if key in before} if before else {}
    return hints | kept if kept else hints


def are_wanted(setting: str, desired: list[str] | None) -> bool:
    """Whether a connection gets it; `desired` are the capabilities that its open asks for."""
    return setting == ALWAYS or (setting == NEGOTIATED and CAPABILITY in (desired or ()))


def queue_of_target(address: str | None) -> str | None:
    """The queue that a publisher's link names; None: an exchange, or none."""
    return None if address is None else parse_target(address).queue

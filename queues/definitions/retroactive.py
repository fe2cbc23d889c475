"""Retroactive exchanges: they keep their newest messages for queues that are bound later.

The messages are in a ring, a quorum queue of the broker's own. Its name says whose it is:
`amq.retroactive.UID.NAME`, with the uid and the name of the exchange. An exchange that is deleted
and declared again has another uid, so it never gets the ring of the one before it.
"""

from collections.abc import Mapping
from typing import Final

from queues.definitions.broker_objects import DEFAULT_EXCHANGE, RESERVED_PREFIX, Exchange

RETROACTIVE: Final = "retroactive-message-count"
RETROACTIVE_ARGUMENT: Final = f"x-{RETROACTIVE}"
RING_PREFIX: Final = f"{RESERVED_PREFIX}retroactive."
RING_ARGUMENT: Final = "x-retroactive-ring"  # of such a queue: it has no levels of priority
COUNT_MAX: Final = 100_000
NAME_BYTES_MAX: Final = 255
TYPES: Final = ("direct", "fanout", "headers", "topic")
ALLOWED: Final = f"a number of messages from 0 to {COUNT_MAX}"


def ring_name(exchange: Exchange) -> str:
    """The name of its ring, cut where it would be too long for a queue."""
    name = f"{RING_PREFIX}{exchange.uid}.{exchange.name}".encode()
    return name[:NAME_BYTES_MAX].decode("utf-8", "ignore")


def exchange_of_ring(name: str) -> int:
    """The uid of the exchange whose ring has this name; 0: no ring has it."""
    if not name.startswith(RING_PREFIX):
        return 0
    number = name[len(RING_PREFIX) :].partition(".")[0]
    return int(number) if number.isascii() and number.isdigit() else 0


def is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= COUNT_MAX


def argument_fault(kind: str, arguments: Mapping[str, object]) -> str | None:
    """Why there can be no exchange of this type with these arguments."""
    if RETROACTIVE_ARGUMENT not in arguments:
        return None
    if not is_count(arguments[RETROACTIVE_ARGUMENT]):
        return f"expected {ALLOWED}"
    return None if kind in TYPES else f"exchanges of type {kind} keep no messages"


def policy_fault(definition: Mapping[str, object], apply_to: object) -> str | None:
    """Why a policy for these objects cannot have the key."""
    if RETROACTIVE not in definition or apply_to in ("all", "exchanges"):
        return None
    return f"{RETROACTIVE} applies to exchanges, not to {apply_to}"


def retroactive_count(
    exchange: Exchange, arguments: Mapping[str, object], policy: Mapping[str, object]
) -> int:
    """How many messages the exchange keeps; an argument has precedence over a policy."""
    if exchange.type not in TYPES or exchange.name == DEFAULT_EXCHANGE:
        return 0
    count = arguments.get(RETROACTIVE_ARGUMENT, policy.get(RETROACTIVE, 0))
    assert isinstance(count, int)
    return int(count)

"""From a queue's arguments to what its machine and its host do (Q-02).

The arguments have been found good (`queues.queue_arguments`). What the table allows and nothing
here reads has no effect on a single node: leader locators, group sizes, in-memory limits.
"""

from dataclasses import dataclass
from typing import Final

from queues.dead_letters import DeadLetterRule
from queues.options import DROP_HEAD, REJECT_PUBLISH, REJECT_PUBLISH_DLX, Options
from queues.queue_arguments import QUORUM, queue_type

EXPIRES: Final = "x-expires"
QUORUM_LEVELS: Final = 32
QUORUM_DEFAULT_LEVEL: Final = 4
QUORUM_DELIVERY_LIMIT: Final = 20

OVERFLOWS: Final = {
    "drop-head": DROP_HEAD,
    "reject-publish": REJECT_PUBLISH,
    "reject-publish-dlx": REJECT_PUBLISH_DLX,
}


@dataclass(frozen=True, slots=True)
class QueueDefaults:
    """What holds where a queue says nothing."""

    consumer_timeout_ms: int = 1_800_000
    drain_handover: bool = False  # C-16: the next consumer waits for the cancelled one


def options_of(arguments: dict[str, object], defaults: QueueDefaults) -> Options:
    """The options of a queue with these arguments."""
    quorum = queue_type(arguments) == QUORUM
    levels = QUORUM_LEVELS if quorum else _number(arguments, "x-max-priority", 0) + 1
    limit = _number(arguments, "x-delivery-limit", QUORUM_DELIVERY_LIMIT) if quorum else -1
    return Options(
        levels=levels,
        default_level=QUORUM_DEFAULT_LEVEL if quorum else 0,
        ttl_ms=_number(arguments, "x-message-ttl", -1),
        length_max=_number(arguments, "x-max-length", -1),
        bytes_max=_number(arguments, "x-max-length-bytes", -1),
        overflow=OVERFLOWS[str(arguments.get("x-overflow", "drop-head"))],
        single_active=arguments.get("x-single-active-consumer") is True,
        drain_handover=defaults.drain_handover,
        counts_deliveries=quorum,
        delivery_limit=limit if limit >= 0 else -1,
        consumer_timeout_ms=_number(arguments, "x-consumer-timeout", defaults.consumer_timeout_ms),
        expires_ms=_number(arguments, EXPIRES, -1),
        dead_letters=dead_letter_exchange(arguments) is not None,
    )


def dead_letter_exchange(arguments: dict[str, object]) -> str | None:
    exchange = arguments.get("x-dead-letter-exchange")
    return exchange if isinstance(exchange, str) else None


def dead_letter_rule(
    name: str, arguments: dict[str, object], trusts_clients: bool
) -> DeadLetterRule | None:
    """What the queue does with its dead; None: nothing."""
    exchange = dead_letter_exchange(arguments)
    if exchange is None:
        return None
    key = arguments.get("x-dead-letter-routing-key")
    routing_key = key.encode() if isinstance(key, str) else None
    return DeadLetterRule(name, exchange, routing_key, trusts_clients)


def is_lazy(arguments: dict[str, object]) -> bool:
    return arguments.get("x-queue-mode") == "lazy"


def _number(arguments: dict[str, object], name: str, absent: int) -> int:
    value = arguments.get(name, absent)
    assert isinstance(value, int)
    return int(value)

"""From a queue's arguments to what its machine and its host do.

The arguments have been found good (`queues.definitions.queue_arguments`). What the table allows and
nothing
here reads has no effect on a single node: leader locators, group sizes, in-memory limits.
"""

from typing import Final, final

from msgspec import Struct

from queues.dead_lettering.dead_letters import DeadLetterRule
from queues.definitions.address_keys import ATTEMPTS, COPIES, RING, address_settings
from queues.definitions.queue_arguments import QUORUM, queue_type
from queues.definitions.retroactive import RING_ARGUMENT
from queues.machine.options import (
    DELAY_ALL,
    DELAY_FAILED,
    DELAY_MS_MAX,
    DELAY_NONE,
    DELAY_RETURNED,
    DROP_HEAD,
    REJECT_PUBLISH,
    REJECT_PUBLISH_DLX,
    Options,
)

EXPIRES: Final = "x-expires"
RING_SIZE: Final = f"x-{RING}"
RETRY_MIN: Final = "x-delayed-retry-min"
RETRY_MAX: Final = "x-delayed-retry-max"
QUORUM_LEVELS: Final = 32
QUORUM_DEFAULT_LEVEL: Final = 4
QUORUM_DELIVERY_LIMIT: Final = 20
SHARED_MAX: Final = 256  # different options that are known, to be shared

OVERFLOWS: Final = {
    "drop-head": DROP_HEAD,
    "reject-publish": REJECT_PUBLISH,
    "reject-publish-dlx": REJECT_PUBLISH_DLX,
}
DELAY_TYPES: Final = {
    "disabled": DELAY_NONE,
    "all": DELAY_ALL,
    "failed": DELAY_FAILED,
    "returned": DELAY_RETURNED,
}


class QueueDefaults(Struct, frozen=True):
    """What holds where a queue says nothing."""

    consumer_timeout_ms: int = 1_800_000
    drain_handover: bool = False  # the next consumer waits for the cancelled one
    counts_returns: bool = False  # whether a requeue counts towards the delivery limit


@final
class SharedOptions:
    """One object for all queues with the same options, so that it stays in the processor's cache
    where thousands of queues take turns (0009)."""

    def __init__(self, limit: int = SHARED_MAX) -> None:
        self._limit = limit
        self._known: dict[Options, Options] = {}

    def of(self, options: Options) -> Options:
        if options not in self._known and len(self._known) >= self._limit:
            self._known.clear()
        return self._known.setdefault(options, options)


def options_of(arguments: dict[str, object], defaults: QueueDefaults) -> Options:
    """The options of a queue with these arguments."""
    quorum = queue_type(arguments) == QUORUM
    ranked = quorum and RING_ARGUMENT not in arguments
    levels = QUORUM_LEVELS if ranked else _number(arguments, "x-max-priority", 0) + 1
    attempts = _number(arguments, f"x-{ATTEMPTS}", -1)
    delay_type = delay_type_of(arguments) if quorum else DELAY_NONE
    is_late = delay_type != DELAY_NONE
    return Options(
        levels=levels,
        default_level=QUORUM_DEFAULT_LEVEL if ranked else 0,
        ttl_ms=_number(arguments, "x-message-ttl", -1),
        length_max=_length_max(arguments),
        bytes_max=_number(arguments, "x-max-length-bytes", -1),
        overflow=overflow_of(arguments),
        single_active=arguments.get("x-single-active-consumer") is True,
        drain_handover=defaults.drain_handover,
        counts_deliveries=quorum,
        delivery_limit=_delivery_limit(arguments, quorum, attempts),
        consumer_timeout_ms=_number(arguments, "x-consumer-timeout", defaults.consumer_timeout_ms),
        expires_ms=_number(arguments, EXPIRES, -1),
        dead_letters=dead_letter_exchange(arguments) is not None,
        keeps_dead=quorum and wants_at_least_once(arguments) and not at_least_once_fault(arguments),
        delays=quorum,
        delay_type=delay_type,
        delay_min_ms=_duration(arguments, RETRY_MIN, 0) if is_late else 0,
        delay_max_ms=_duration(arguments, RETRY_MAX, -1) if is_late else -1,
        counts_returns=attempts > 0 or (quorum and counts_returns(arguments, defaults)),
        address=address_settings(arguments),
    )


def disconnected_timeout_ms(arguments: dict[str, object], absent: int) -> int:
    """How long consumers of a quorum queue keep messages when their node cannot be reached."""
    return _number(arguments, "x-consumer-disconnected-timeout", absent)


def without_copies(arguments: dict[str, object]) -> dict[str, object]:
    """The arguments for a replicated queue that a non-destructive policy happens to match."""
    return {name: each for name, each in arguments.items() if name != f"x-{COPIES}"}


def counts_returns(arguments: dict[str, object], defaults: QueueDefaults) -> bool:
    """Whether a requeue by the client counts towards the delivery limit, as a failure does."""
    counts = arguments.get("x-delivery-limit-counts")
    return defaults.counts_returns if counts is None else counts == "returned"


def delay_type_of(arguments: dict[str, object]) -> int:
    """Which messages that are given back have to wait: none without a least delay."""
    if RETRY_MIN not in arguments:
        return DELAY_NONE
    return DELAY_TYPES[str(arguments.get("x-delayed-retry-type", "disabled"))]


def wants_at_least_once(arguments: dict[str, object]) -> bool:
    """Whether its dead letters are to arrive at least once."""
    is_sure = arguments.get("x-dead-letter-strategy") == "at-least-once"
    return is_sure and dead_letter_exchange(arguments) is not None


def at_least_once_fault(arguments: dict[str, object]) -> str:
    """Why they cannot be, and are sent at most once; nothing: they can."""
    overflow = "drop-head" if RING_SIZE in arguments else arguments.get("x-overflow", "drop-head")
    if OVERFLOWS[str(overflow)] == REJECT_PUBLISH:
        return ""
    return f"overflow is {overflow} and not reject-publish"


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


def can_refuse(arguments: dict[str, object]) -> bool:
    """Whether a queue refuses messages that would make it too long."""
    overflow = overflow_of(arguments)
    limits = (_number(arguments, key, -1) for key in ("x-max-length", "x-max-length-bytes"))
    return overflow != DROP_HEAD and any(limit >= 0 for limit in limits)


def overflow_of(arguments: dict[str, object]) -> int:
    """A ring drops the oldest messages, whatever else an argument or a policy says."""
    if RING_SIZE in arguments:
        return DROP_HEAD
    return OVERFLOWS[str(arguments.get("x-overflow", "drop-head"))]


def _delivery_limit(arguments: dict[str, object], quorum: bool, attempts: int) -> int:
    """Failed deliveries that a message survives, -1: any number. Of both settings the stricter one
    counts; the default of quorum queues is replaced by either."""
    absent = QUORUM_DELIVERY_LIMIT if quorum and attempts < 0 else -1
    limit = _number(arguments, "x-delivery-limit", absent) if quorum else -1
    limits = [each for each in (limit, attempts - 1) if each >= 0]
    return min(limits, default=-1)


def _length_max(arguments: dict[str, object]) -> int:
    limits = [_number(arguments, key, -1) for key in ("x-max-length", RING_SIZE)]
    return min((limit for limit in limits if limit >= 0), default=-1)


def _number(arguments: dict[str, object], name: str, absent: int) -> int:
    value = arguments.get(name, absent)
    assert isinstance(value, int)
    return int(value)


def _duration(arguments: dict[str, object], name: str, absent: int) -> int:
    return min(_number(arguments, name, absent), DELAY_MS_MAX)

"""Keys of the address settings of queues: one table for policies, queue arguments and options.

A key is a policy key `KEY` and a queue argument `x-KEY` of classic and quorum queues. Each row says
which setting of `queues.machine.address_settings` the key gives, what value is allowed, and what
the machine's number is for it.
"""

from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Final

from msgspec import Struct

from queues.machine.address_settings import MILLI, RATE_MAX, AddressSettings
from queues.machine.message_groups import BUCKETS_MAX

COPIES: Final = "non-destructive"
GROUPS: Final = "group-buckets"
IDS: Final = "id-cache-size"
WINDOW: Final = "consumer-window-size"
RATE: Final = "consumer-max-rate"
RING: Final = "ring-size"
ATTEMPTS: Final = "max-delivery-attempts"
ATTEMPTS_MAX: Final = 1_000_000
BYTES_MAX: Final = 1 << 40
MESSAGES_MAX: Final = 1 << 40
DURATION_MS_MAX: Final = 315_360_000_000  # ten years
CONSUMERS_MAX: Final = 100_000
IDS_MAX: Final = 1_000_000
NAME_BYTES_MAX: Final = 255
LIFETIME: Final = "milliseconds from 0 to ten years, or -1 for none"

# What a non-destructive queue cannot have as well.
COPIES_EXCLUDE: Final = {
    "slow-consumer-threshold": "its messages wait for consumers that have had them",
    "redelivery-delay": "nothing is redelivered",
    "ha-mode": "mirrored queues keep what each consumer holds",
    GROUPS: "each consumer gets the messages of all groups",
}

# The machine's number or text; None: the value is not allowed.
Convert = Callable[[object], int | str | None]


class AddressKey(Struct, frozen=True):
    """One key."""

    name: str
    setting: str  # a parameter of AddressSettings; empty: it is no setting of its own
    convert: Convert
    allowed: str  # as an error text says it
    what: str  # as the text of a policy fault says it


def _whole(low: int, high: int, absent: int | None = None) -> Callable[[object], int | None]:
    """A whole number, or `absent`."""

    def convert(value: object) -> int | None:
        if isinstance(value, bool) or not isinstance(value, int):
            return None
        return int(value) if low <= value <= high or value == absent else None

    return convert


def _fraction(low: int, high: int) -> Convert:
    """A number, as thousandths."""

    def convert(value: object) -> int | None:
        if isinstance(value, bool) or not isinstance(value, (int, float, Decimal)):
            return None
        return round(value * MILLI) if low <= value <= high else None

    return convert


def _seconds(high: int) -> Convert:
    """Whole seconds, as milliseconds."""

    def convert(value: object) -> int | None:
        seconds = _whole(1, high)(value)
        return None if seconds is None else 1000 * seconds

    return convert


def _word(*words: str) -> Convert:
    """One of the words, in any case, by its place."""

    def convert(value: object) -> int | None:
        if not isinstance(value, str) or value.lower() not in words:
            return None
        return words.index(value.lower())

    return convert


def _flag(value: object) -> int | None:
    return int(value) if isinstance(value, bool) else None


def _name(value: object) -> str | None:
    if (
        not isinstance(value, str)
        or not 0 < len(value.encode("utf-8", "replace")) <= NAME_BYTES_MAX
    ):
        return None
    return value


ADDRESS_KEYS: Final = (
    AddressKey(
        *(WINDOW, "window_bytes", _whole(-1, BYTES_MAX)),
        f"a whole number of bytes up to {BYTES_MAX}, 0 for one message, -1 for no limit",
        "consumer window in bytes",
    ),
    AddressKey(
        *(RATE, "rate_max", _whole(1, RATE_MAX, -1)),
        f"messages per second from 1 to {RATE_MAX}, or -1 for no limit",
        "consumer rate",
    ),
    AddressKey(
        *(ATTEMPTS, "", _whole(1, ATTEMPTS_MAX, -1)),
        f"a number of deliveries from 1 to {ATTEMPTS_MAX}, or -1 for no limit",
        "number of delivery attempts",
    ),
    AddressKey(
        *("redelivery-delay", "redelivery_ms", _whole(0, DURATION_MS_MAX)),
        *("milliseconds from 0 to ten years", "redelivery delay"),
    ),
    AddressKey(
        *("redelivery-delay-multiplier", "redelivery_multiplier", _fraction(1, 1000)),
        *("a number from 1 to 1000", "multiplier of redelivery delays"),
    ),
    AddressKey(
        *("redelivery-collision-avoidance-factor", "redelivery_collision", _fraction(0, 1)),
        *("a number from 0 to 1", "factor of collision avoidance"),
    ),
    AddressKey(
        *("max-redelivery-delay", "redelivery_max_ms", _whole(0, DURATION_MS_MAX, -1)),
        "milliseconds from 0 to ten years, or -1 for ten times the redelivery delay",
        "greatest redelivery delay",
    ),
    AddressKey(
        *("expiry-delay", "expiry_ms", _whole(0, DURATION_MS_MAX, -1)),
        *(LIFETIME, "lifetime of messages without an expiration"),
    ),
    AddressKey(
        *("min-expiry-delay", "expiry_min_ms", _whole(0, DURATION_MS_MAX, -1)),
        *(LIFETIME, "shortest lifetime of messages"),
    ),
    AddressKey(
        *("max-expiry-delay", "expiry_max_ms", _whole(0, DURATION_MS_MAX, -1)),
        *(LIFETIME, "longest lifetime of messages"),
    ),
    AddressKey(
        *("consumers-before-dispatch", "dispatch_consumers", _whole(0, CONSUMERS_MAX)),
        *(f"a number from 0 to {CONSUMERS_MAX}", "number of consumers before dispatch"),
    ),
    AddressKey(
        *("delay-before-dispatch", "dispatch_delay_ms", _whole(0, DURATION_MS_MAX, -1)),
        "milliseconds from 0 to ten years, or -1 for no delay",
        "delay before dispatch",
    ),
    AddressKey(
        *("slow-consumer-threshold", "slow_threshold", _whole(1, RATE_MAX, -1)),
        f"messages per second from 1 to {RATE_MAX}, or -1 for none",
        "threshold of slow consumers",
    ),
    AddressKey(
        *("slow-consumer-check-period", "slow_period_ms", _seconds(86_400)),
        *("seconds from 1 to 86400", "check period of slow consumers"),
    ),
    AddressKey(
        *("slow-consumer-policy", "slow_kills", _word("notify", "kill")),
        *("'notify' or 'kill'", "policy for slow consumers"),
    ),
    AddressKey(
        *(IDS, "id_cache_size", _whole(0, IDS_MAX)),
        *(f"a number of ids from 0 to {IDS_MAX}", "size of the cache of ids"),
    ),
    AddressKey(
        *("last-value-key", "last_value_key", _name),
        *(f"the name of a header, of 1 to {NAME_BYTES_MAX} bytes", "key of last values"),
    ),
    AddressKey(*(COPIES, "copies", _flag), *("true or false", "non-destructive setting")),
    AddressKey(
        *(GROUPS, "group_buckets", _whole(0, BUCKETS_MAX)),
        *(f"a number of buckets from 0 to {BUCKETS_MAX}, 0 for no groups", "number of buckets"),
    ),
    AddressKey(
        *(RING, "", _whole(1, MESSAGES_MAX)),
        f"a number of messages from 1 to {MESSAGES_MAX}",
        "ring size",
    ),
)
BY_NAME: Final[Mapping[str, AddressKey]] = {key.name: key for key in ADDRESS_KEYS}


def value_fault(name: str, value: object) -> str | None:
    """What a value of this key has to be, if it is not that."""
    key = BY_NAME[name]
    return None if key.convert(value) is not None else f"expected {key.allowed}"


def address_settings(arguments: dict[str, object]) -> AddressSettings | None:
    """The settings of a queue whose arguments are good; None: it has none of them."""
    given: dict[str, int] = {}
    last_value_key = ""
    for key in ADDRESS_KEYS:
        value = arguments.get(f"x-{key.name}")
        if value is not None and key.setting:
            number = key.convert(value)
            assert number is not None
            if isinstance(number, str):
                last_value_key = number
            else:
                given[key.setting] = number
    if not given and not last_value_key:
        return None
    return AddressSettings(**given, last_value_key=last_value_key)


def ring_fault(arguments: Mapping[str, object], prefix: str) -> str | None:
    """Why a queue with these arguments, or this policy, cannot be a ring."""
    overflow = arguments.get(f"{prefix}overflow", "drop-head")
    if f"{prefix}{RING}" not in arguments or overflow == "drop-head":
        return None
    return f"{RING} drops the oldest messages, which excludes the overflow {overflow}"


def copies_fault(arguments: Mapping[str, object], prefix: str) -> str | None:
    """Why a queue with these arguments, or this policy, cannot be non-destructive."""
    if arguments.get(f"{prefix}{COPIES}") is not True:
        return None
    for name, why in COPIES_EXCLUDE.items():
        if f"{prefix}{name}" in arguments:
            return f"{COPIES} excludes {name}: {why}"
    return None


def stream_fault(definition: Mapping[str, object], apply_to: object) -> str | None:
    """Why a policy for streams, or quorum queues, cannot have these keys."""
    if apply_to == "quorum_queues" and COPIES in definition:
        return f"{COPIES} does not apply to quorum queues, but to classic queues without mirrors"
    if apply_to != "streams":
        return None
    found = [key for key in definition if key in BY_NAME and key != IDS]
    if not found:
        return None
    return f"{found[0]} does not apply to streams: their consumers read a log at their own place"

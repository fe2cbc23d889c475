"""Arguments of queue.declare: what each may be, for which queue types, the refusals.

Arguments that are not in the table are taken and kept as they are.
"""

from collections.abc import Callable
from typing import Final

from msgspec import Struct

from queues.addresses.limits import KEYS as LIMIT_KEYS
from queues.addresses.limits import Key, together_fault
from queues.definitions.address_keys import (
    ADDRESS_KEYS,
    COPIES,
    IDS,
    AddressKey,
    copies_fault,
    ring_fault,
)
from queues.definitions.arguments import (
    cut,
    inequivalence,
    inequivalent,
    is_integer,
    shown,
    type_name,
)

QUEUE_TYPE: Final = "x-queue-type"
CLASSIC: Final = "classic"
QUORUM: Final = "quorum"
STREAM: Final = "stream"
QUEUE_TYPES: Final = (CLASSIC, QUORUM, STREAM)

PRIORITY_MAX: Final = 255
NAME_BYTES_MAX: Final = 255
DURATION_MS_MAX: Final = 315_360_000_000  # ten years, as RabbitMQ has it
SEGMENT_BYTES_MAX: Final = 3_000_000_000
FILTER_BYTES_MIN: Final = 16
FILTER_BYTES_MAX: Final = 255

Reason = str | None  # why a value is refused, as a term; None: it is fine
Check = Callable[[object, dict[str, object]], Reason]


class Rule(Struct, frozen=True):
    """One argument: the check of its value and the queue types that know it."""

    name: str
    check: Check
    types: tuple[str, ...]


def argument_fault(subject: str, arguments: dict[str, object]) -> Reason:
    """The sentence for the first bad argument; `subject` is like `queue 'Q' in vhost 'V'`."""
    kind = arguments.get(QUEUE_TYPE, CLASSIC)
    if not isinstance(kind, str):
        return _invalid(QUEUE_TYPE, subject, _unacceptable(kind))
    if kind not in QUEUE_TYPES:
        return _invalid(QUEUE_TYPE, subject, f"\"unsupported queue type '{kind}'\"")
    for rule in RULES:
        if rule.name not in arguments:
            continue
        reason = rule.check(arguments[rule.name], arguments)
        if reason is not None:
            return _invalid(rule.name, subject, reason)
        if kind not in rule.types:
            return f"invalid arg '{rule.name}' for {subject} of queue type rabbit_{kind}_queue"
    return None


def queue_type(arguments: dict[str, object]) -> str:
    """Type of a queue whose arguments were found good."""
    return str(arguments.get(QUEUE_TYPE, CLASSIC))


def redeclare_fault(
    subject: str, received: dict[str, object], current: dict[str, object]
) -> Reason:
    """The sentence for the first argument of the table that differs; None if all agree."""
    new_type, old_type = received.get(QUEUE_TYPE, CLASSIC), current.get(QUEUE_TYPE, CLASSIC)
    if new_type != old_type:
        return inequivalent(
            QUEUE_TYPE, subject, f"'{cut(shown(new_type))}'", f"'{cut(shown(old_type))}'"
        )
    for rule in RULES:
        fault = inequivalence(rule.name, subject, received, current)
        if fault is not None:
            return fault
    return None


def _invalid(key: str, subject: str, reason: str) -> str:
    return f"invalid arg '{key}' for {subject}: {reason}"


def _unacceptable(value: object) -> str:
    return f"{{unacceptable_type,{type_name(value)}}}"


def _integer(value: object, arguments: dict[str, object]) -> Reason:
    return None if is_integer(value) else _unacceptable(value)


def _not_negative(value: object, arguments: dict[str, object]) -> Reason:
    if not is_integer(value):
        return _unacceptable(value)
    number = _number(value)
    return f"{{value_negative,{number}}}" if number < 0 else None


def _duration(value: object, arguments: dict[str, object]) -> Reason:
    """Milliseconds, ten years at most."""
    reason = _not_negative(value, arguments)
    if reason is None and _number(value) > DURATION_MS_MAX:
        return f"{{value_too_large,{_number(value)}}}"
    return reason


def _positive(value: object, arguments: dict[str, object]) -> Reason:
    if is_integer(value) and _number(value) == 0:
        return "{value_zero,0}"
    return _not_negative(value, arguments)


def _positive_duration(value: object, arguments: dict[str, object]) -> Reason:
    return _positive(value, arguments) or _duration(value, arguments)


def _at_most(limit: int) -> Check:
    def check(value: object, arguments: dict[str, object]) -> Reason:
        reason = _not_negative(value, arguments)
        if reason is None and _number(value) > limit:
            return f"{{max_value_exceeded,{_number(value)}}}"
        return reason

    return check


def _filter_bytes(value: object, arguments: dict[str, object]) -> Reason:
    reason = _at_most(FILTER_BYTES_MAX)(value, arguments)
    if reason is None and _number(value) < FILTER_BYTES_MIN:
        return f"{{value_too_small,{_number(value)}}}"
    return reason


def _queue_version(value: object, arguments: dict[str, object]) -> Reason:
    reason = _not_negative(value, arguments)
    if reason is None and _number(value) not in (1, 2):
        return f"{{unsupported_queue_version,{_number(value)}}}"
    return reason


def _boolean(value: object, arguments: dict[str, object]) -> Reason:
    return None if isinstance(value, bool) else _unacceptable(value)


def _string(value: object, arguments: dict[str, object]) -> Reason:
    return None if isinstance(value, str) else _unacceptable(value)


def _one_of(words: tuple[str, ...], reason: str) -> Check:
    def check(value: object, arguments: dict[str, object]) -> Reason:
        if not isinstance(value, str):
            return _unacceptable(value)
        return None if value in words else reason.format(value)

    return check


def _dead_letter_routing_key(value: object, arguments: dict[str, object]) -> Reason:
    if isinstance(value, str) and "x-dead-letter-exchange" not in arguments:
        return "routing_key_but_no_dlx_defined"
    return _name(value, arguments)


def _name(value: object, arguments: dict[str, object]) -> Reason:
    """A string that fits where names are on the wire."""
    if not isinstance(value, str):
        return _unacceptable(value)
    size = len(value.encode("utf-8", "surrogateescape"))
    return f"{{max_value_exceeded,{size}}}" if size > NAME_BYTES_MAX else None


def _max_age(value: object, arguments: dict[str, object]) -> Reason:
    if not isinstance(value, str):
        return _unacceptable(value)
    number, unit = value[:-1], value[-1:]
    good = number.isascii() and number.isdigit() and unit in ("Y", "M", "D", "h", "m", "s")
    return None if good else "invalid_max_age"


def _setting(key: AddressKey) -> Check:
    def check(value: object, arguments: dict[str, object]) -> Reason:
        if key.convert(value) is None:
            return f'"expected {key.allowed}"'
        fault = ring_fault(arguments, "x-") or copies_fault(arguments, "x-")
        return None if fault is None else f'"{fault}"'

    return check


def _limit(key: Key) -> Check:
    def check(value: object, arguments: dict[str, object]) -> Reason:
        fault = f"expected {key.allowed}" if not key.allows(value) else _limits_fault(arguments)
        return None if fault is None else f'"{fault}"'

    return check


def _limits_fault(arguments: dict[str, object]) -> str | None:
    """Why the limits of an address cannot be given together, if each of them is good."""
    given = [key for key in LIMIT_KEYS if f"x-{key.name}" in arguments]
    if not all(key.allows(arguments[f"x-{key.name}"]) for key in given):
        return None  # A rule of its own says so.
    return together_fault(arguments, "x-")


def _number(value: object) -> int:
    assert isinstance(value, int)
    return value


_LOCATORS: Final = ("client-local", "balanced", "random", "least-leaders", "min-masters")
_OVERFLOWS: Final = ("drop-head", "reject-publish", "reject-publish-dlx")
_RETRY_TYPES: Final = ("disabled", "all", "failed", "returned")
_BOTH: Final = (CLASSIC, QUORUM)
_TYPES: Final = {COPIES: (CLASSIC,), IDS: QUEUE_TYPES}

RULES: Final = (
    Rule(
        "x-queue-mode", _one_of(("default", "lazy"), "\"unsupported queue mode '{}'\""), (CLASSIC,)
    ),
    Rule("x-queue-version", _queue_version, (CLASSIC,)),
    Rule("x-expires", _positive_duration, _BOTH),
    Rule("x-message-ttl", _duration, _BOTH),
    Rule("x-max-length", _not_negative, _BOTH),
    Rule("x-max-length-bytes", _not_negative, QUEUE_TYPES),
    Rule("x-overflow", _one_of(_OVERFLOWS, "invalid_overflow"), _BOTH),
    Rule("x-dead-letter-exchange", _name, _BOTH),
    Rule("x-dead-letter-routing-key", _dead_letter_routing_key, _BOTH),
    Rule(
        "x-dead-letter-strategy",
        _one_of(("at-most-once", "at-least-once"), "invalid_dlx_strategy"),
        (QUORUM,),
    ),
    Rule("x-max-priority", _at_most(PRIORITY_MAX), (CLASSIC,)),
    Rule("x-single-active-consumer", _boolean, _BOTH),
    Rule("x-consumer-timeout", _duration, _BOTH),
    Rule("x-consumer-disconnected-timeout", _duration, (QUORUM,)),
    Rule("x-delivery-limit", _integer, (QUORUM,)),
    Rule(
        "x-delivery-limit-counts",
        _one_of(("failed", "returned"), "invalid_delivery_limit_counts"),
        (QUORUM,),
    ),
    Rule("x-delayed-retry-type", _one_of(_RETRY_TYPES, "invalid_delayed_retry_type"), (QUORUM,)),
    Rule("x-delayed-retry-min", _not_negative, (QUORUM,)),
    Rule("x-delayed-retry-max", _not_negative, (QUORUM,)),
    Rule("x-quorum-initial-group-size", _positive, (QUORUM,)),
    Rule("x-initial-cluster-size", _positive, (STREAM,)),
    Rule("x-queue-leader-locator", _one_of(_LOCATORS, "invalid_queue_locator_arg"), QUEUE_TYPES),
    Rule("x-member-placement-tag", _string, (QUORUM, STREAM)),
    Rule("x-max-age", _max_age, (STREAM,)),
    Rule("x-stream-max-segment-size-bytes", _at_most(SEGMENT_BYTES_MAX), (STREAM,)),
    Rule("x-stream-filter-size-bytes", _filter_bytes, (STREAM,)),
    Rule("x-stream-offload", _boolean, (STREAM,)),
    Rule("x-stream-local-max-bytes", _not_negative, (STREAM,)),
    Rule("x-max-in-memory-length", _not_negative, (QUORUM,)),
    Rule("x-max-in-memory-length-bytes", _not_negative, (QUORUM,)),
    Rule("x-max-in-memory-bytes", _not_negative, (QUORUM,)),
    *(Rule(f"x-{key.name}", _setting(key), _TYPES.get(key.name, _BOTH)) for key in ADDRESS_KEYS),
    *(Rule(f"x-{key.name}", _limit(key), _BOTH) for key in LIMIT_KEYS),
)

"""Arguments of basic.consume, with RabbitMQ's texts for wrong ones. Pure."""

from typing import Final

from queues.definitions.arguments import is_integer, type_name
from queues.definitions.consumer_limits import BadLimit, own_limits
from queues.definitions.queue_arguments import DURATION_MS_MAX
from queues.machine.consuming.selections import SELECTIONS_MAX
from queues.machine.effects import TOO_MANY_SELECTORS
from queues.queue_host import QueueHost
from queues.selectors.message_fields import BadFilter
from queues.selectors.sql import BadExpression
from queues.selectors.terms import SQL, encode_terms, expression_of
from queues.streams.host import StreamHost
from warren.wire.errors import ProtocolError, ReplyCode

PRIORITY_MAX: Final = (1 << 31) - 1
SELECTOR: Final = "x-selector"
CANCEL_ON_FAILOVER: Final = "x-cancel-on-ha-failover"


def consumer_terms(arguments: dict[str, object], host: QueueHost) -> tuple[int, int, int, int]:
    """Return priority, timeout (ms, -1: none), byte window and rate of basic.consume; raise 406 for
    bad values."""
    priority = whole_number(arguments, "x-priority", 0, host)
    timeout_ms = whole_number(arguments, "x-consumer-timeout", -1, host)
    if timeout_ms < 0 and "x-consumer-timeout" in arguments:
        raise bad_argument("x-consumer-timeout", host, f"{{value_negative,{timeout_ms}}}")
    if timeout_ms > DURATION_MS_MAX:
        raise bad_argument("x-consumer-timeout", host, f"{{value_too_large,{timeout_ms}}}")
    try:
        window_bytes, rate_max = own_limits(arguments, "x-", isinstance(host, StreamHost))
    except BadLimit as fault:
        raise bad_argument(fault.key, host, f'"{fault.reason}"') from fault
    return max(-PRIORITY_MAX, min(priority, PRIORITY_MAX)), timeout_ms, window_bytes, rate_max


def selector_of_consumer(arguments: dict[str, object], host: QueueHost) -> bytes:
    """What the consumer selects by (`queues.selectors.terms`); empty: it wants every message. Raise
    406 for an expression that is wrong."""
    if SELECTOR not in arguments:
        return b""
    term = SQL, arguments[SELECTOR]
    try:
        expression_of(term)
        return encode_terms([term])
    except (BadFilter, BadExpression) as error:
        raise bad_argument(SELECTOR, host, str(error)) from error


def cancels_on_failover(arguments: dict[str, object], host: QueueHost) -> bool:
    """Whether the consumer is to be cancelled when another mirror leads; raise 406 for a value that
    is no boolean."""
    value = arguments.get(CANCEL_ON_FAILOVER, False)
    if not isinstance(value, bool):
        raise bad_argument(CANCEL_ON_FAILOVER, host, f"{{unacceptable_type,{type_name(value)}}}")
    return value


def refusal_text(host: QueueHost, reason: int) -> tuple[ReplyCode, str]:
    """Why a queue lets a consumer not in."""
    place = f"queue '{host.name}' in vhost '{host.vhost}'"
    if reason == TOO_MANY_SELECTORS:
        text = f"{place} has consumers with {SELECTIONS_MAX} selectors, and takes no other"
        return ReplyCode.PRECONDITION_FAILED, text
    return ReplyCode.ACCESS_REFUSED, f"{place} in exclusive use"


def timed_out_text(channel: int, timeout_ms: int) -> str:
    """Why a channel is closed whose client does not know basic.cancel from the broker."""
    if timeout_ms == 0:
        return f"a consumer on channel {channel} is slower than slow-consumer-threshold"
    return (
        f"delivery acknowledgement on channel {channel} timed out. Timeout value used: "
        f"{timeout_ms} ms. This timeout value can be configured, see consumers doc guide to "
        "learn more"
    )


def whole_number(arguments: dict[str, object], key: str, absent: int, host: QueueHost) -> int:
    """An argument of basic.consume; raise 406 for any other kind of value."""
    value = arguments.get(key, absent)
    if not is_integer(value) or not isinstance(value, int):  # In this order: see 0002.
        raise bad_argument(key, host, f'"expected integer, got {type_name(value)}"')
    return value


def bad_argument(key: str, host: QueueHost, reason: str) -> ProtocolError:
    text = f"invalid arg '{key}' for queue '{host.name}' in vhost '{host.vhost}': {reason}"
    return ProtocolError(ReplyCode.PRECONDITION_FAILED, text)

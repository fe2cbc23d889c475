"""Arguments of basic.consume, with RabbitMQ's texts for wrong ones. Pure."""

from typing import Final

from queues.definitions.arguments import is_integer, type_name
from queues.definitions.consumer_limits import BadLimit, own_limits
from queues.definitions.queue_arguments import DURATION_MS_MAX
from queues.queue_host import QueueHost
from queues.streams.host import StreamHost
from warren.wire.errors import ProtocolError, ReplyCode

PRIORITY_MAX: Final = (1 << 31) - 1
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


def cancels_on_failover(arguments: dict[str, object], host: QueueHost) -> bool:
    """Whether the consumer is to be cancelled when another mirror leads; raise 406 for a value that
    is no boolean."""
    value = arguments.get(CANCEL_ON_FAILOVER, False)
    if not isinstance(value, bool):
        raise bad_argument(CANCEL_ON_FAILOVER, host, f"{{unacceptable_type,{type_name(value)}}}")
    return value


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

"""What AMQP 0-9-1 clients may do with a stream, and what they see of it, as in RabbitMQ."""

from typing import Final

from node.clock import utc_ms
from queues.queue_host import QueueHost
from queues.selectors.terms import decode_terms, selector_in
from queues.streams.filtering import StreamFilter, parse_filter
from queues.streams.host import StreamHost
from queues.streams.offsets import NEXT, OffsetSpec, Start, parse_offset
from warren.wire.amqp091.methods import BasicConsume
from warren.wire.amqp091.values import Timestamp
from warren.wire.errors import ProtocolError, ReplyCode

OFFSET_ARGUMENT: Final = "x-stream-offset"
FILTER_ARGUMENT: Final = "x-stream-filter"
UNFILTERED_ARGUMENT: Final = "x-stream-match-unfiltered"


def place_of(host: QueueHost) -> str:
    return f"queue '{host.name}' in vhost '{host.vhost}'"


def start_of_consumer(
    host: QueueHost, method: BasicConsume, prefetch: int, limit: int, selector: bytes = b""
) -> OffsetSpec | None:
    """Where basic.consume wants to begin; raise 406 or 540 for what a stream does not do.

    None: the queue is no stream. `limit` is that of the whole channel, `selector` what was asked
    for by `x-selector`.
    """
    if not isinstance(host, StreamHost):
        return None
    place = place_of(host)
    if limit > 0:
        raise ProtocolError(ReplyCode.NOT_IMPLEMENTED, f"{place} does not support global qos")
    if prefetch == 0:
        text = f"consumer prefetch count is not set for stream {place}"
        raise ProtocolError(ReplyCode.PRECONDITION_FAILED, text)
    if method.no_ack:
        text = f"automatic acknowledgement not supported by stream {place}"
        raise ProtocolError(ReplyCode.NOT_IMPLEMENTED, text)
    spec = offset_argument(method.arguments.get(OFFSET_ARGUMENT))
    if spec is None:
        value = method.arguments[OFFSET_ARGUMENT]
        text = (
            f"invalid arg '{OFFSET_ARGUMENT}' for {place}: {value!r}; allowed are first, last, "
            "next, an offset, a timestamp, and an interval such as 1h (units Y, M, D, h, m, s)"
        )
        raise ProtocolError(ReplyCode.PRECONDITION_FAILED, text)
    spec = _filtered(spec, method.arguments, place)
    if selector:
        values = None if spec.filter is None else spec.filter.values
        wanted = StreamFilter(values, selector_in(decode_terms(selector), utc_ms))
        spec = OffsetSpec(spec.start, spec.value, wanted)
    if not host.has_member:
        text = f"stream {place} does not have a running replica on the local node"
        raise ProtocolError(ReplyCode.PRECONDITION_FAILED, text)
    return spec


def _filtered(spec: OffsetSpec, arguments: dict[str, object], place: str) -> OffsetSpec:
    """The same with the filter that the arguments ask for."""
    if FILTER_ARGUMENT not in arguments:
        return spec
    values = arguments[FILTER_ARGUMENT]
    found = parse_filter(values, arguments.get(UNFILTERED_ARGUMENT, False))
    if found is None:
        text = f"invalid arg '{FILTER_ARGUMENT}' for {place}: {values!r}; allowed are a string "
        text += "and a list of strings"
        raise ProtocolError(ReplyCode.PRECONDITION_FAILED, text)
    return OffsetSpec(spec.start, spec.value, found)


def offset_argument(value: object) -> OffsetSpec | None:
    """Parse the argument `x-stream-offset`; None: it is no offset."""
    if value is None:
        return NEXT
    if isinstance(value, Timestamp):
        return OffsetSpec(Start.TIMESTAMP, 1000 * int(value))
    return parse_offset(value)


def refuse_get(host: QueueHost) -> None:
    """Raise 540 for basic.get from a stream."""
    if isinstance(host, StreamHost):
        text = f"basic.get not supported by stream queues {place_of(host)}"
        raise ProtocolError(ReplyCode.NOT_IMPLEMENTED, text)


def refuse_purge(host: QueueHost) -> None:
    """Raise 540 for queue.purge of a stream."""
    if isinstance(host, StreamHost):
        text = f"queue.purge not supported by stream queues {place_of(host)}"
        raise ProtocolError(ReplyCode.NOT_IMPLEMENTED, text)

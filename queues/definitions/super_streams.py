"""Super streams in the definitions: exchanges with `x-super-stream` that streams are bound to."""

from typing import Final

from queues.definitions.arguments import decode_arguments
from queues.definitions.broker_objects import Binding
from queues.definitions.metadata.machine import Metadata

MARK: Final = "x-super-stream"
ORDER: Final = "x-stream-partition-order"  # of a binding
PARTITIONS_MAX: Final = 1000


def partition_bindings(metadata: Metadata, vhost: str, name: str) -> list[Binding] | None:
    """The bindings to the partitions, in their order; None: there is no such super stream."""
    known = metadata.vhosts.get(vhost)
    exchange = None if known is None else known.exchanges.get(name)
    if known is None or exchange is None:
        return None
    if decode_arguments(exchange.arguments).get(MARK) is not True:
        return None
    found = known.bindings_from(name)
    return sorted((each for each in found if each.target > 0), key=_place)


def _place(each: Binding) -> tuple[int, bytes]:
    order = decode_arguments(each.arguments).get(ORDER)
    return (order if isinstance(order, int) else PARTITIONS_MAX, bytes(each.binding_key))


def partition_names(metadata: Metadata, bindings: list[Binding]) -> list[str]:
    """The streams, each once."""
    queues = (metadata.queue(each.target) for each in bindings)
    return list(dict.fromkeys(queue.name for queue in queues if queue is not None))

"""The header x-delivery-id: the same for every delivery of a message of a quorum queue.

A consumer asks for it by the argument `x-delivery-ids`. Federation links do, to tell a message that
is delivered again from another one. Numbers of messages in a classic queue can be used again after
a crash, so its deliveries have no such header.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from queues.message import FORMAT_091, Chunk
from queues.queue_host import QueueHost
from warren.wire.amqp091.rewrite import raw_headers, rewrite, without_keys
from warren.wire.errors import ProtocolError

if TYPE_CHECKING:
    from queues.definitions.metadata.machine import Metadata

ARGUMENT: Final = "x-delivery-ids"
HEADER: Final = b"x-delivery-id"
LONG_STRING: Final = b"S"


class DeliveryIds:
    """Of the deliveries to one consumer."""

    def __init__(self, uid: int, metadata: Callable[[], "Metadata"]) -> None:
        self._uid = uid
        self._metadata = metadata

    def marked(self, chunk: Chunk, index: int, count: int, first_seq: int) -> Chunk:
        """`count` messages from `index` on, in stored form 1, each with the header."""
        prefix = self._prefix()
        data = chunk.data
        assert data is not None
        offsets, parts = [0], []
        for place in range(count):
            start, end = chunk.span(index + place)
            parts.append(with_id(data, start, end, prefix + b"%d" % (first_seq + place)))
            offsets.append(offsets[-1] + len(parts[-1]))
        encoded = b"".join(offset.to_bytes(4, "little") for offset in offsets)
        return Chunk(FORMAT_091, b"".join(parts), 0, encoded, chunk.info)

    def _prefix(self) -> bytes:
        """`reborn_term`: numbers are used again after an unsafe recovery of the queue."""
        metadata = self._metadata()
        queue = metadata.queue(self._uid)
        term = 0 if queue is None else int(queue.reborn_term)
        return b"%032x/%d/%d/" % (metadata.roster.cluster_id, self._uid, term)


def delivery_ids(
    arguments: dict[str, object], host: QueueHost, metadata: Callable[[], "Metadata"]
) -> DeliveryIds | None:
    """None: the consumer does not ask for ids, or the queue has none."""
    if arguments.get(ARGUMENT) is not True or not host.quorum:
        return None
    return DeliveryIds(host.uid, metadata)


def with_id(data: bytes, start: int, end: int, value: bytes) -> bytes:
    """The message with the header; one whose headers cannot be read is delivered as it is."""
    try:
        kept = without_keys(raw_headers(data, start), (HEADER,))
    except ProtocolError:
        return data[start:end]
    name = bytes([len(HEADER)]) + HEADER
    table = kept + name + LONG_STRING + len(value).to_bytes(4, "big") + value
    return rewrite(data, start, end, None, None, table, 0, None)

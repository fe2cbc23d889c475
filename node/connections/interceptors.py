"""What the settings `message_interceptors` make of messages: RabbitMQ's message interceptors.

Incoming: each set of target queues gets a function that marks messages for them, or none; so a
publish costs nothing where no setting asks for marks. Outgoing: channels and links get the clock by
which they tell when a delivery is sent, or none. Messages of the stream protocol, dead letters and
what the broker itself publishes are not marked.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING

from queues.conversion.incoming_marks import IncomingMarks
from queues.message import Chunk

if TYPE_CHECKING:
    from node.config.settings import Config


class Interceptors:
    """See the module."""

    def __init__(self, config: "Config", now_ms: Callable[[], int]) -> None:
        section = config.message_interceptors
        self._node_name = config.node.name
        self._now_ms = now_ms
        self._timestamp = section.incoming.set_header_timestamp.overwrite
        self._routing_node = section.incoming.set_header_routing_node.overwrite
        # Tells when deliveries are sent; None: they do not say so.
        self.sent_clock = now_ms if section.outgoing.timestamp.enabled else None

    def mark(self) -> Callable[[Chunk], Chunk] | None:
        """For the messages of one set of targets."""
        if self._timestamp is None and self._routing_node is None:
            return None
        marks = IncomingMarks(self._now_ms, self._node_name, self._timestamp, self._routing_node)
        return marks.mark

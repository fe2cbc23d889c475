"""What several commands of the stream protocol ask: a stream by name, this node's address."""

import logging

from node.streams.connection import StreamConnection
from queues.streams.host import StreamHost

log = logging.getLogger("warren.connection")


def stream_of(endpoint: StreamConnection, name: str) -> StreamHost | None:
    """None: no queue of that name is a stream."""
    queue = endpoint.broker.definitions.queue(endpoint.vhost, name)
    host = None if queue is None else endpoint.broker.queues.host(queue.uid)
    return host if isinstance(host, StreamHost) else None


def advertised(endpoint: StreamConnection) -> tuple[str, int]:
    """Where clients reach this node: as it is configured, or as this client did."""
    listeners = endpoint.broker.config.listeners
    is_tls = endpoint.tls is not None
    given = listeners.stream_tls_advertised if is_tls else listeners.stream_advertised
    return endpoint.here if given is None else (given.host, given.port)


def log_refusal(endpoint: StreamConnection, text: str) -> None:
    """The protocol answers with numbers alone: the reason is in the log of the node."""
    log.info("%s: refused: %s", endpoint.name, text, extra=endpoint.ids())

"""The firehose: copies of all messages of a vhost, to its exchange `amq.rabbitmq.trace`.

On while the vhost's definition says `tracing`, on every node. A message that is published is copied
with the key `publish.EXCHANGE`, one that is delivered with `deliver.QUEUE`; the body is the same,
the headers tell exchange, routing keys, properties, node, vhost, connection, channel and user, and
the routed queues or whether it is redelivered. Messages that came by the trace exchange itself are
not copied: so it ends. A message of AMQP 1.0 is copied as AMQP 0-9-1 would show it.

Off, it costs nothing per message: channels and links have no `ChannelTrace`, and plans of where
publishes go are as ever. On, plans say that each message needs a look (`RouteCache.is_traced`), and
every channel and link of the vhost has a `ChannelTrace`, which is asked per run. With nothing bound
to the exchange no copy is made. Copies wait and are dropped by `internal_publisher`: at most once.
"""

import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from node.amqp091.plans import Parted
from node.events.internal_publisher import InternalPublisher, Letter
from queues.conversion.chunks import in_form_1
from queues.conversion.values import INT64_MAX, text_to_10
from queues.message import FORMAT_091, FORMAT_10, Chunk
from queues.queue_host import QueueHost
from queues.routing.copies import copies_of
from queues.sessions.publishing import Targets
from warren.wire.amqp091.deliver import extract
from warren.wire.amqp091.properties import BasicProperties, readable_properties
from warren.wire.amqp091.values import Timestamp
from warren.wire.amqp10.errors import ProtocolError as Fault10
from warren.wire.amqp10.transfers import Transfers
from warren.wire.buffer import read_i32_le
from warren.wire.errors import ProtocolError

if TYPE_CHECKING:
    from node.connections.client_connection import ClientConnection
    from node.connections.connection_registry import ConnectionRegistry
    from queues.definitions.metadata.machine import Metadata

log = logging.getLogger("warren.firehose")

EXCHANGE: Final = "amq.rabbitmq.trace"
PROPERTIES: Final = (
    "content_type", "content_encoding", "headers", "delivery_mode", "priority", "correlation_id",
    "reply_to", "expiration", "message_id", "timestamp", "type", "user_id", "app_id", "cluster_id",
)  # fmt: skip


class ChannelTrace:
    """What one channel or session copies; keeps `node.amqp091.plans.Tracing`."""

    __slots__ = ("_about", "_firehose", "_vhost")

    def __init__(
        self, firehose: "Firehose", vhost: str, connection: str, number: int, user: str
    ) -> None:
        self._firehose = firehose
        self._vhost = vhost
        self._about: dict[str, object] = {
            "vhost": vhost,
            "connection": connection,
            "channel": number,
            "user": user,
        }

    def published(self, parted: Parted) -> None:
        """Messages of AMQP 0-9-1 that the client may publish, and where they go."""
        event = parted.event
        if event is None or not self._firehose.is_heard(self._vhost):
            return
        bounds = [*event.firsts[1:], event.count]
        for k, first in enumerate(event.firsts):
            for index in range(first, bounds[k]):
                start = int(read_i32_le(event.offsets, 4 * index))
                end = int(read_i32_le(event.offsets, 4 * index + 4))
                self.copy_published(event.data, start, end, parted.plans[k].hosts)

    def published_10(self, run: Transfers, targets: Targets, names: bytes) -> None:
        """The same for a run of AMQP 1.0 that goes one way."""
        if not names or not self._firehose.is_heard(self._vhost):
            return
        chunk = Chunk(FORMAT_10, run.data, 0, run.offsets, 0, names)
        for index in range(run.count):
            shown = shown_in_form_1(chunk, index)
            if shown is not None:
                self.copy_published(*shown, targets.hosts)

    def copy_published(self, data: bytes, start: int, end: int, hosts: Sequence[QueueHost]) -> None:
        """One message, wherever it came from."""
        queues = [host.name for host in hosts]
        self._copy("publish", "", data, start, end, {**self._about, "routed_queues": queues})

    def delivered(
        self, host: QueueHost, chunk: Chunk, first: int, count: int, redelivered: bool
    ) -> None:
        """Messages first.. of the chunk, whose bytes are there, go to the client."""
        if not self._firehose.is_heard(self._vhost):
            return
        more = {**self._about, "redelivered": int(redelivered)}
        for index in range(first, first + count):
            shown = shown_in_form_1(chunk, index)
            if shown is not None:
                self._copy("deliver", host.name, *shown, more)

    def _copy(
        self,
        what: str,
        name: str,
        data: bytes,
        start: int,
        end: int,
        more: dict[str, object],
    ) -> None:
        """`name`: of the queue; of what is published, the exchange is in the message."""
        exchange, key, raw, body = extract(data, start, end)
        if exchange == EXCHANGE:
            return
        properties = decoded(raw)
        headers = {
            "exchange_name": exchange,
            "routing_keys": [shown_key(each) for each in (key, *more_keys(data, start))],
            "properties": properties_table(properties),
            "node": self._firehose.node_name,
            **more,
        }
        suffix = exchange if what == "publish" else name
        self._firehose.offer(Letter(self._vhost, EXCHANGE, f"{what}.{suffix}", headers, body))


class Firehose:
    """Which vhosts are traced. Invariant: exactly the channels and links of these have a trace."""

    def __init__(
        self,
        node_name: str,
        metadata: "Metadata",
        connections: "ConnectionRegistry",
        publisher: InternalPublisher,
    ) -> None:
        self.node_name = node_name
        self._metadata = metadata
        self._connections = connections
        self._publisher = publisher
        self._vhosts: set[str] = set()

    def is_on(self, vhost: str) -> bool:
        return vhost in self._vhosts

    def is_heard(self, vhost: str) -> bool:
        """Whether anything is bound to the exchange of the vhost."""
        return self._publisher.is_heard(vhost, EXCHANGE)

    def offer(self, letter: Letter) -> None:
        self._publisher.offer(letter)

    def published_alone(
        self, vhost: str, user: str, data: bytes, hosts: Sequence[QueueHost]
    ) -> None:
        """One message that came by the management API."""
        if vhost in self._vhosts and self.is_heard(vhost):
            ChannelTrace(self, vhost, "", 0, user).copy_published(data, 0, len(data), hosts)

    def load(self) -> None:
        """The definitions are there; no client is."""
        vhosts = self._metadata.vhosts.values()
        self._vhosts = {vhost.name for vhost in vhosts if vhost.entry.tracing}

    def vhost_changed(self, name: str) -> None:
        """The vhost is new, has other contents, or is gone."""
        vhost = self._metadata.vhosts.get(name)
        is_on = vhost is not None and vhost.entry.tracing
        if is_on == (name in self._vhosts):
            return
        if is_on:
            self._vhosts.add(name)
        else:
            self._vhosts.discard(name)
        log.info("tracing of vhost '%s' is switched %s", name, "on" if is_on else "off")
        for endpoint in self._connections.open.values():
            if endpoint.vhost == name:
                endpoint.trace_changed()

    def trace_of(self, endpoint: "ClientConnection", number: int) -> "ChannelTrace | None":
        """For a channel or session of the connection; None: its vhost is not traced."""
        if endpoint.vhost not in self._vhosts:
            return None
        return ChannelTrace(self, endpoint.vhost, endpoint.name, number, endpoint.user)


def shown_in_form_1(chunk: Chunk, index: int) -> tuple[bytes, int, int] | None:
    """One message as AMQP 0-9-1 has it: bytes, begin, end. None: it cannot be shown so."""
    if chunk.format_tag == FORMAT_091:
        assert chunk.data is not None
        start, end = chunk.span(index)
        return chunk.data, start, end
    try:
        shown = in_form_1(chunk, index, 1)
    except (ProtocolError, Fault10, ValueError):
        return None
    assert shown.data is not None
    return shown.data, 0, len(shown.data)


def more_keys(data: bytes, start: int) -> Sequence[bytes]:
    """Of CC; BCC has been taken out before."""
    try:
        return copies_of(data, start).keys
    except ProtocolError:
        return ()


def shown_key(key: bytes) -> str:
    return key.decode("utf-8", "replace")


def decoded(raw: bytes) -> BasicProperties:
    return readable_properties(raw)


def properties_table(properties: BasicProperties) -> dict[str, object]:
    found = ((name, getattr(properties, name)) for name in PROPERTIES)
    return {name: _in_table(value) for name, value in found if value is not None}


def _in_table(value: object) -> object:
    """The value as a field table holds it: text that is not UTF-8 as its bytes."""
    if isinstance(value, str):
        return text_to_10(value)
    return Timestamp(value) if isinstance(value, int) and value > INT64_MAX else value

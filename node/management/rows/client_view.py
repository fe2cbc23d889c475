"""What the management listener reads of connections' channels and consumers. All on the loop.

Keys are handed out in whole, each object one by one (as `node.management.rows.view`). A key is the
name of the connection, the number of the channel (or session) and that of the consumer (link,
subscription, publisher of a stream); what does not apply is 0. Sessions of AMQP 1.0 are listed as
channels, links that consume as consumers.
"""

from collections.abc import Mapping, Sequence
from typing import Protocol, TypeAlias

from msgspec import Struct, field

Key: TypeAlias = tuple[str, int, int]


class Chosen(Struct, frozen=True):
    """Which of them; "": any. A queue is one of `vhost`."""

    vhost: str = ""
    user: str = ""
    connection: str = ""
    queue: str = ""
    protocol: str = ""


class PeerOfRow(Struct, frozen=True, kw_only=True):
    """Whose channel or consumer it is."""

    connection: str
    channel: int
    node: str
    user: str
    vhost: str
    peer_host: str
    peer_port: int
    protocol: str  # "AMQP 0-9-1" or "AMQP 1-0", after "Web " over WebSocket


class ChannelView(Struct, frozen=True, kw_only=True):
    """One channel, or session of AMQP 1.0. Counts are since it was opened."""

    peer: PeerOfRow
    state: str  # running or flow
    prefetch: int = 0  # for consumers to come
    global_prefetch: int = 0  # of the whole channel; 0: no limit
    transactional: bool = False
    confirm: bool = False
    consumers: int = 0
    unacknowledged: int = 0
    unconfirmed: int = 0  # from the oldest publish that waits for its confirm
    uncommitted: int = 0  # publishes in the open transaction
    acks_uncommitted: int = 0
    stats: tuple[int, ...] = ()  # in the order of `rates.CHANNEL_STATS`


class ConsumerView(Struct, frozen=True, kw_only=True):
    """One consumer, or link of AMQP 1.0 that consumes."""

    peer: PeerOfRow
    tag: str  # of AMQP 1.0: the number of the handle, as RabbitMQ has it
    queue: str
    no_ack: bool
    exclusive: bool
    prefetch: int  # 0: no limit, or credit
    active: bool
    single_active: bool  # the queue has one active consumer at a time
    priority: int = 0
    arguments: Mapping[str, object] = field(default_factory=dict)
    delivered: int = 0
    held: int = 0  # delivered, and not settled
    timeout_ms: int = 0  # in which a delivery is to be settled; 0: for ever


class SubscriptionView(Struct, frozen=True, kw_only=True):
    """One subscription of the stream protocol."""

    peer: PeerOfRow
    number: int
    stream: str
    credit: int  # chunks
    delivered: int
    offset: int  # of the last message that was sent; -1: none was
    lag: int  # committed messages behind it
    active: bool
    single_active: bool  # one of its group is active at a time
    properties: Mapping[str, str]


class StreamPublisherView(Struct, frozen=True, kw_only=True):
    """One publisher of the stream protocol."""

    peer: PeerOfRow
    number: int
    stream: str
    reference: str  # "": it has none
    published: int
    confirmed: int
    refused: int


class ClientsView(Protocol):
    """The clients of this node."""

    def keys(self, kind: str, chosen: Chosen) -> Sequence[Key]:
        """Of one kind (`rates.CONNECTION`, ...), in no order."""

    def channel(self, key: Key) -> ChannelView | None: ...

    def consumer(self, key: Key) -> ConsumerView | None: ...

    def subscription(self, key: Key) -> SubscriptionView | None: ...

    def stream_publisher(self, key: Key) -> StreamPublisherView | None: ...


def channel_name(connection: str, number: int) -> str:
    """As RabbitMQ writes it."""
    return f"{connection} ({number})"


def channel_key(name: str) -> Key | None:
    """The key of a channel by its name; None: no channel has such a name."""
    connection, found, rest = name.rpartition(" (")
    number = rest[:-1]
    is_number = number.isascii() and number.isdigit() and len(number) <= 5
    if not found or not rest.endswith(")") or not is_number:
        return None
    return connection, int(number), 0

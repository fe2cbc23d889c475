"""Connections, channels and consumers as the management API lists them. Reads only.

Keeps `node.management.rows.client_view.ClientsView` for a running broker. What is listed of a
channel or
a session was counted by it, a run at a time; nothing is counted here. Pseudo-queues of direct
reply-to are no queues, and their consumers are not listed. Not compiled.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Final, TypeAlias

from node.amqp091.channel import Channel091
from node.amqp091.deliveries import Consumer091
from node.amqp091.endpoint import Endpoint091
from node.amqp10.endpoint import Endpoint10
from node.amqp10.links.consuming import ConsumingLink
from node.amqp10.links.packed_link import PackedLink
from node.amqp10.sessions import Session10
from node.connections.direct_reply_to import ANSWERS_FROM
from node.management.rows.client_view import (
    ChannelView,
    Chosen,
    ConsumerView,
    Key,
    PeerOfRow,
    StreamPublisherView,
    SubscriptionView,
)
from node.management.rows.rates import (
    CHANNEL,
    CONNECTION,
    CONSUMER,
    STREAM_CONSUMER,
    STREAM_PUBLISHER,
)
from node.streams.endpoint import StreamEndpoint
from node.streams.publisher import StreamPublisher
from node.streams.subscription import Subscription

if TYPE_CHECKING:
    from node.broker import Broker
    from node.connections.client_connection import ClientConnection

Endpoint: TypeAlias = Endpoint091 | Endpoint10 | StreamEndpoint

PRIORITY: Final = "x-priority"
TIMEOUT: Final = "x-consumer-timeout"


class LiveClients:
    """See the module."""

    def __init__(self, broker: "Broker") -> None:
        self._broker = broker

    def keys(self, kind: str, chosen: Chosen) -> Sequence[Key]:
        """See ClientsView."""
        endpoints = self._endpoints(chosen)
        if kind == CONNECTION:
            return [(each.name, 0, 0) for each in endpoints]
        if kind == CHANNEL:
            return [(each.name, number, 0) for each in endpoints for number in _numbers(each)]
        return [key for each in endpoints for key in KEYS[kind](each, chosen.queue)]

    def _endpoints(self, chosen: Chosen) -> list[Endpoint]:
        broker = self._broker
        if chosen.connection:
            one = broker.connections.open_by_name.get(chosen.connection)
            found = [] if one is None else [endpoint_of(one)]
        else:
            found = [endpoint_of(each) for each in broker.connections.open.values()]
        return [
            each
            for each in found
            if chosen.vhost in ("", each.vhost)
            and chosen.user in ("", each.user)
            and chosen.protocol in ("", each.protocol)
        ]

    def channel(self, key: Key) -> ChannelView | None:
        found = self._broker.connections.open_by_name.get(key[0])
        if found is None:
            return None
        endpoint = endpoint_of(found)
        if isinstance(endpoint, Endpoint091):
            channel = endpoint.channels.get(key[1])
            return None if channel is None else channel_view(self._peer(endpoint, key[1]), channel)
        session = endpoint.sessions.get(key[1])
        return None if session is None else session_view(self._peer(endpoint, key[1]), session)

    def consumer(self, key: Key) -> ConsumerView | None:
        found = self._broker.connections.open_by_name.get(key[0])
        if found is None:
            return None
        endpoint = endpoint_of(found)
        peer = self._peer(endpoint, key[1])
        if isinstance(endpoint, StreamEndpoint):
            subscription = endpoint.subscriptions.get(key[2])
            return None if subscription is None else consumer_of_stream(peer, subscription)
        if isinstance(endpoint, Endpoint091):
            channel = endpoint.channels.get(key[1])
            consumer = None if channel is None else channel.deliveries.consumers.get(key[2])
            if consumer is None:
                return None
            asked = (consumer.arguments or {}).get(TIMEOUT, -1)
            return consumer_view(peer, consumer, self._timeout_ms(consumer.host.uid, asked))
        session = endpoint.sessions.get(key[1])
        if session is None:
            return None
        packed = session.browsing.get(key[2])
        if isinstance(packed, PackedLink):
            return packed_view(peer, packed)
        link = session.consuming.get(key[2])
        if link is None:
            return None
        return link_view(peer, link, self._timeout_ms(link.host.uid, int(link.asked.timeout_ms)))

    def subscription(self, key: Key) -> SubscriptionView | None:
        endpoint = self._stream_endpoint(key)
        found = None if endpoint is None else endpoint.subscriptions.get(key[2])
        if endpoint is None or found is None:
            return None
        return subscription_view(self._peer(endpoint, 0), found)

    def stream_publisher(self, key: Key) -> StreamPublisherView | None:
        endpoint = self._stream_endpoint(key)
        found = None if endpoint is None else endpoint.publishers.get(key[2])
        if endpoint is None or found is None:
            return None
        return stream_publisher_view(self._peer(endpoint, 0), found)

    def _stream_endpoint(self, key: Key) -> StreamEndpoint | None:
        found = self._broker.connections.open_by_name.get(key[0])
        return found if isinstance(found, StreamEndpoint) else None

    def _timeout_ms(self, uid: int, asked: object) -> int:
        """In which a consumer of the queue has to settle: what it asked for, or the queue's own."""
        if isinstance(asked, int) and asked >= 0:
            return int(asked)
        host = self._broker.queues.hosts.awake.get(uid)
        own = -1 if host is None else int(host.options.consumer_timeout_ms)
        return self._broker.config.consumer_timeout if own < 0 else own

    def _peer(self, endpoint: Endpoint, channel: int) -> PeerOfRow:
        return PeerOfRow(
            connection=endpoint.name,
            channel=channel,
            node=self._broker.node_name,
            user=endpoint.user,
            vhost=endpoint.vhost,
            peer_host=endpoint.peer[0],
            peer_port=endpoint.peer[1],
            protocol=endpoint.protocol,
        )


def endpoint_of(connection: "ClientConnection") -> Endpoint:
    """The connection with what only its protocol has."""
    assert isinstance(connection, (Endpoint091, Endpoint10, StreamEndpoint))
    return connection


def _numbers(endpoint: Endpoint) -> list[int]:
    return list(endpoint.channels if isinstance(endpoint, Endpoint091) else endpoint.sessions)


def consumer_keys(endpoint: Endpoint, queue: str) -> list[Key]:
    """Of all consumers of the connection, or of those of one queue."""
    name = endpoint.name
    if isinstance(endpoint, Endpoint091):
        return [
            (name, number, consumer)
            for number, channel in endpoint.channels.items()
            for consumer, each in channel.deliveries.consumers.items()
            if queue in ("", each.host.name) and each.host.uid < ANSWERS_FROM
        ]
    if isinstance(endpoint, StreamEndpoint):
        return subscription_keys(endpoint, queue)
    found: list[Key] = []
    for number, session in endpoint.sessions.items():
        queues = {uid: link.host.name for uid, link in session.consuming.items()}
        for uid, reading in session.browsing.items():
            if isinstance(reading, PackedLink):
                queues[uid] = reading.stream
        found += [(name, number, uid) for uid, each in queues.items() if queue in ("", each)]
    return found


def subscription_keys(endpoint: Endpoint, stream: str) -> list[Key]:
    if not isinstance(endpoint, StreamEndpoint):
        return []
    found = endpoint.subscriptions.items()
    return [(endpoint.name, 0, n) for n, each in found if stream in ("", each.host.name)]


def stream_publisher_keys(endpoint: Endpoint, stream: str) -> list[Key]:
    if not isinstance(endpoint, StreamEndpoint):
        return []
    found = endpoint.publishers.items()
    return [(endpoint.name, 0, n) for n, each in found if stream in ("", each.host.name)]


KEYS: Final[Mapping[str, Callable[[Endpoint, str], list[Key]]]] = {
    CONSUMER: consumer_keys,
    STREAM_CONSUMER: subscription_keys,
    STREAM_PUBLISHER: stream_publisher_keys,
}


def consumer_of_stream(peer: PeerOfRow, subscription: Subscription) -> ConsumerView:
    """A subscription of the stream protocol among all consumers, as RabbitMQ shows it."""
    return ConsumerView(
        peer=peer,
        tag=f"stream.subid-{subscription.number}",
        queue=subscription.host.name,
        no_ack=True,
        exclusive=False,
        prefetch=0,
        active=subscription.is_active,
        single_active=subscription.is_single,
        arguments=subscription.properties,
        delivered=subscription.delivered_count,
    )


def subscription_view(peer: PeerOfRow, subscription: Subscription) -> SubscriptionView:
    return SubscriptionView(
        peer=peer,
        number=subscription.number,
        stream=subscription.host.name,
        credit=subscription.credit,
        delivered=subscription.delivered_count,
        offset=subscription.last_offset,
        lag=subscription.lag,
        active=subscription.is_active,
        single_active=subscription.is_single,
        properties=subscription.properties,
    )


def stream_publisher_view(peer: PeerOfRow, publisher: StreamPublisher) -> StreamPublisherView:
    return StreamPublisherView(
        peer=peer,
        number=publisher.number,
        stream=publisher.host.name,
        reference=publisher.reference,
        published=publisher.published_count,
        confirmed=publisher.confirmed_count,
        refused=publisher.refused_count,
    )


def channel_view(peer: PeerOfRow, channel: Channel091) -> ChannelView:
    deliveries = channel.deliveries
    transaction = channel.transaction
    own = [each for each in deliveries.consumers.values() if each.host.uid < ANSWERS_FROM]
    in_transaction = 0 if transaction is None else sum(each.count for each in transaction.events)
    return ChannelView(
        peer=peer,
        state="flow" if channel.credit.is_blocked() else "running",
        prefetch=int(deliveries.prefetch),
        global_prefetch=int(deliveries.limit),
        transactional=transaction is not None,
        confirm=channel.publisher.confirming and transaction is None,
        consumers=len(own),
        unacknowledged=int(deliveries.unacked.count),
        unconfirmed=0 if transaction is not None else channel.publisher.unconfirmed_count(),
        uncommitted=in_transaction,
        acks_uncommitted=0 if transaction is None else int(transaction.settled_count),
        stats=channel_stats(channel),
    )


def channel_stats(channel: Channel091) -> tuple[int, ...]:
    """In the order of `rates.CHANNEL_STATS`."""
    deliveries = channel.deliveries
    delivered, automatic = int(deliveries.delivered_count), int(deliveries.delivered_no_ack_count)
    got, got_no_ack = int(channel.getting.got_count), int(channel.getting.got_no_ack_count)
    transactional = channel.transaction is not None
    return (
        int(channel.published_count),
        0 if transactional else int(channel.publisher.confirmed_count),
        int(channel.returned_count),
        delivered,
        automatic,
        got,
        got_no_ack,
        delivered + automatic + got + got_no_ack,
        int(deliveries.redelivered_count),
        int(channel.getting.empty_count),
        int(deliveries.acknowledged_count),
    )


def session_view(peer: PeerOfRow, session: Session10) -> ChannelView:
    publishers = [each.publisher for each in session.publishing.values()]
    return ChannelView(
        peer=peer,
        state="running",
        confirm=bool(publishers),
        consumers=len(session.consuming),
        unacknowledged=int(session.unacked.count),
        unconfirmed=sum(each.unconfirmed_count() for each in publishers),
        stats=session_stats(session),
    )


def session_stats(session: Session10) -> tuple[int, ...]:
    """The same of a session. What a link still hears after it has gone is not counted."""
    delivered, automatic = int(session.delivered_count), int(session.delivered_no_ack_count)
    confirmed = int(session.confirmed_count) + sum(
        int(each.publisher.confirmed_count) for each in session.publishing.values()
    )
    return (
        int(session.published_count),
        confirmed,
        0,
        delivered,
        automatic,
        0,
        0,
        delivered + automatic,
        int(session.redelivered_count),
        0,
        int(session.acknowledged_count),
    )


def consumer_view(peer: PeerOfRow, consumer: Consumer091, timeout_ms: int) -> ConsumerView:
    return ConsumerView(
        peer=peer,
        tag=consumer.tag,
        queue=consumer.host.name,
        no_ack=consumer.no_ack,
        exclusive=consumer.exclusive,
        prefetch=int(consumer.prefetch),
        active=consumer.active,
        single_active=consumer.host.single_active,
        priority=int(consumer.priority),
        arguments=consumer.arguments or {},
        delivered=int(consumer.written),
        held=int(consumer.held),
        timeout_ms=timeout_ms,
    )


def packed_view(peer: PeerOfRow, link: PackedLink) -> ConsumerView:
    """A link that reads a stream in runs."""
    return ConsumerView(
        peer=peer,
        tag=str(int(link.link.peer_handle)),
        queue=link.stream,
        no_ack=True,
        exclusive=False,
        prefetch=0,
        active=True,
        single_active=False,
        delivered=link.delivered_count,
    )


def link_view(peer: PeerOfRow, link: ConsumingLink, timeout_ms: int) -> ConsumerView:
    priority = int(link.asked.priority)
    return ConsumerView(
        peer=peer,
        tag=str(int(link.link.peer_handle)),
        queue=link.host.name,
        no_ack=link.settled,
        exclusive=False,
        prefetch=0,
        active=link.active,
        single_active=link.host.single_active,
        priority=priority,
        arguments={PRIORITY: priority} if priority else {},
        delivered=int(link.sent_count),
        timeout_ms=timeout_ms,
    )

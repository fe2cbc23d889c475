"""Channels and consumers in tables, and numbers that tests set (`Tallies`)."""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field

from node.management.rows.client_view import (
    ChannelView,
    Chosen,
    ConsumerView,
    Key,
    PeerOfRow,
    StreamPublisherView,
    SubscriptionView,
)
from node.management.rows.rates import CHANNEL, CHANNEL_STATS, CONNECTION
from node.management.rows.sampling import Pair


def peer_of(connection: str, channel: int, user: str = "root", vhost: str = "/") -> PeerOfRow:
    return PeerOfRow(
        connection=connection,
        channel=channel,
        node="warren@here",
        user=user,
        vhost=vhost,
        peer_host="127.0.0.1",
        peer_port=40000,
        protocol="AMQP 0-9-1",
    )


@dataclass(slots=True)
class FakeClients:
    """Keeps `ClientsView`."""

    connections: dict[str, PeerOfRow] = field(default_factory=dict)  # as the broker has them
    channels: dict[Key, ChannelView] = field(default_factory=dict)
    consumers: dict[Key, ConsumerView] = field(default_factory=dict)
    asked: list[Key] = field(default_factory=list)  # channels

    def add_channel(
        self, connection: str, number: int, user: str = "root", vhost: str = "/"
    ) -> None:
        peer = peer_of(connection, number, user, vhost)
        stats = tuple(range(len(CHANNEL_STATS)))
        self.channels[connection, number, 0] = ChannelView(
            peer=peer, state="running", prefetch=7, consumers=1, stats=stats
        )

    def add_consumer(self, connection: str, number: int, queue: str, *, held: int = 0) -> None:
        """On a channel that is there."""
        peer = self.channels[connection, number, 0].peer
        place = len(self.consumers) + 1
        self.consumers[connection, number, place] = ConsumerView(
            peer=peer,
            tag=f"tag-{place}",
            queue=queue,
            no_ack=place % 2 == 0,
            exclusive=False,
            prefetch=7,
            active=True,
            single_active=False,
            delivered=10 * place,
            held=held,
        )

    def keys(self, kind: str, chosen: Chosen) -> Sequence[Key]:
        if kind == CONNECTION:
            found = [(peer, (name, 0, 0), "") for name, peer in self.connections.items()]
        elif kind == CHANNEL:
            found = [(each.peer, key, "") for key, each in self.channels.items()]
        else:
            found = [(each.peer, key, each.queue) for key, each in self.consumers.items()]
        return [
            key
            for peer, key, queue in found
            if chosen.vhost in ("", peer.vhost)
            and chosen.user in ("", peer.user)
            and chosen.connection in ("", peer.connection)
            and chosen.queue in ("", queue)
        ]

    def channel(self, key: Key) -> ChannelView | None:
        self.asked.append(key)
        return self.channels.get(key)

    def consumer(self, key: Key) -> ConsumerView | None:
        return self.consumers.get(key)

    def subscription(self, key: Key) -> SubscriptionView | None:
        return None

    def stream_publisher(self, key: Key) -> StreamPublisherView | None:
        return None


@dataclass(slots=True)
class FakeTallies:
    """Keeps `Tallies`; counts how often it was asked."""

    numbers: dict[tuple[str, Hashable], Sequence[int]] = field(default_factory=dict)
    reads: int = 0

    def read(self, kind: str, key: Hashable) -> Sequence[int] | None:
        self.reads += 1
        return self.numbers.get((kind, key))

    def pairs(self, kind: str, chosen: Sequence[str | None]) -> Sequence[Pair]:
        found = [key for known, key in self.numbers if known == kind and isinstance(key, tuple)]
        return [
            key
            for key in found
            if all(want in (None, part) for want, part in zip(chosen, key, strict=True))
        ]

"""Rows of connections, channels and consumers, as the API shows them, with their rates."""

from collections.abc import Callable, Hashable, Mapping
from typing import Final

from node.auth.login_events import tls_properties
from node.management.rows.client_columns import (
    CHANNEL_COLUMNS,
    CONNECTION_COLUMNS,
    CONSUMER_COLUMNS,
    STREAM_PUBLISHER_COLUMNS,
    SUBSCRIPTION_COLUMNS,
)
from node.management.rows.client_view import ChannelView, ClientsView, Key, channel_name
from node.management.rows.columns import column_of, row_of
from node.management.rows.rates import (
    CHANNEL,
    COLUMNS,
    CONNECTION,
    CONSUMER,
    NO_RANGES,
    STREAM_CONSUMER,
    STREAM_PUBLISHER,
    Ranges,
    Row,
    path_of,
    with_idle,
)
from node.management.rows.sampling import Rates
from node.management.rows.view import BrokerView, ConnectionView, LinkView, SessionView

COUNT_PLACES: Final = {  # by kind and the path of a column in a row
    (kind, path_of(column)): place
    for kind in (CONNECTION, CHANNEL)
    for place, column in enumerate(COLUMNS[kind])
}
RATE_PLACES: Final = {
    (kind, f"{path}_details.rate"): place for (kind, path), place in COUNT_PLACES.items()
}


class ClientRows:
    """Rows of the clients of this node, by kind and key."""

    def __init__(self, view: BrokerView, rates: Rates) -> None:
        self._view = view
        self._rates = rates
        self._makers: Mapping[str, Callable[[Key, Ranges], Row | None]] = {
            CONNECTION: self._connection,
            CHANNEL: self._channel,
            CONSUMER: self._consumer,
            STREAM_CONSUMER: self._subscription,
            STREAM_PUBLISHER: self._stream_publisher,
        }

    @property
    def clients(self) -> ClientsView:
        return self._view.clients

    def row(self, kind: str, key: Key, ranges: Ranges = NO_RANGES) -> Row | None:
        """None: it is gone."""
        return self._makers[kind](key, ranges)

    def values_of(self, kind: str, sort: str) -> Callable[[Key], object]:
        """The values of a column, without rows for what pages are sorted by."""
        if sort == "name" and kind == CHANNEL:
            return lambda key: channel_name(key[0], key[1])
        if sort == "name" and kind == CONNECTION:
            return lambda key: key[0]
        rate_place, count_place = RATE_PLACES.get((kind, sort)), COUNT_PLACES.get((kind, sort))
        rates = self._rates
        if rate_place is not None:
            return lambda key: rates.rate(kind, tracked(kind, key), rate_place)
        if count_place is None or not rates.knows_counts:
            return column_of(lambda key: self.row(kind, key), sort.split("."))

        def count(key: Key) -> object:
            values = rates.values(kind, tracked(kind, key))
            return None if values is None else values[count_place]

        return count

    def _connection(self, key: Key, ranges: Ranges) -> Row | None:
        found = self._view.connection(key[0])
        if found is None:
            return None
        return self._rates.put(connection_row(found), CONNECTION, tracked(CONNECTION, key), ranges)

    def _channel(self, key: Key, ranges: Ranges) -> Row | None:
        found = self.clients.channel(key)
        return None if found is None else self._with_rates(found, key, ranges)

    def _with_rates(self, channel: ChannelView, key: Key, ranges: Ranges) -> Row:
        place = tracked(CHANNEL, key)
        row = self._rates.put(row_of(CHANNEL_COLUMNS, channel), CHANNEL, place, ranges)
        return with_idle(row, self._rates.idle_since_ms(CHANNEL, place))

    def _consumer(self, key: Key, ranges: Ranges) -> Row | None:
        found = self.clients.consumer(key)
        return None if found is None else row_of(CONSUMER_COLUMNS, found)

    def _subscription(self, key: Key, ranges: Ranges) -> Row | None:
        found = self.clients.subscription(key)
        return None if found is None else row_of(SUBSCRIPTION_COLUMNS, found)

    def _stream_publisher(self, key: Key, ranges: Ranges) -> Row | None:
        found = self.clients.stream_publisher(key)
        return None if found is None else row_of(STREAM_PUBLISHER_COLUMNS, found)


def tracked(kind: str, key: Key) -> Hashable:
    """The key by which rates know it."""
    return key[0] if kind == CONNECTION else key[:2]


def connection_row(connection: ConnectionView) -> Row:
    row = row_of(CONNECTION_COLUMNS, connection)
    row.update(tls_properties(connection.tls))
    if connection.container_id:
        row["container_id"] = connection.container_id
    return row


def deliveries_of(consumers: list[Row], by_queue: bool) -> list[Row]:
    """What went to these consumers: for a channel by queue, for a queue by channel."""
    found: dict[object, Row] = {}
    for row in consumers:
        shown = row["queue"] if by_queue else row["channel_details"]
        place = (row["queue"]["vhost"], row["queue"]["name"]) if by_queue else shown["name"]
        entry = found.get(place)
        if entry is None:
            stats = {"deliver": 0, "deliver_no_ack": 0, "deliver_get": 0}
            entry = {("queue" if by_queue else "channel_details"): shown, "stats": stats}
            found[place] = entry
        way = "deliver" if row["ack_required"] else "deliver_no_ack"
        entry["stats"][way] += row["delivered"]
        entry["stats"]["deliver_get"] += row["delivered"]
    return list(found.values())


def session_row(session: SessionView) -> dict[str, object]:
    return {
        "channel_number": session.channel,
        "handle_max": session.handle_max,
        "next_incoming_id": session.next_incoming_id,
        "incoming_window": session.incoming_window,
        "next_outgoing_id": session.next_outgoing_id,
        "remote_incoming_window": session.remote_incoming_window,
        "remote_outgoing_window": session.remote_outgoing_window,
        "outgoing_unsettled_deliveries": session.unsettled,
        "incoming_links": [incoming_row(each) for each in session.links if each.incoming],
        "outgoing_links": [outgoing_row(each) for each in session.links if not each.incoming],
    }


def incoming_row(link: LinkView) -> dict[str, object]:
    return {
        "handle": link.handle,
        "link_name": link.name,
        "target_address": link.address,
        "snd_settle_mode": link.settled,
        "max_message_size": link.message_bytes_max,
        "delivery_count": link.delivery_count,
        "credit": link.credit,
        "unconfirmed_messages": link.unconfirmed,
    }


def outgoing_row(link: LinkView) -> dict[str, object]:
    return {
        "handle": link.handle,
        "link_name": link.name,
        "source_address": link.address,
        "queue_name": link.queue,
        "send_settled": link.settled == "settled",
        "max_message_size": link.message_bytes_max,
        "delivery_count": link.delivery_count,
        "credit": link.credit,
    }

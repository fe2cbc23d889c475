"""What operators see of clients: channels, consumers, rates and details, with public clients."""

import asyncio
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

import aio_pika
import pika
import pytest

from tests.conformance.broker import Broker
from tests.waiting import eventually
from warren.client import Message, connect
from warren.testing import Node
from warren.testing.http_api import HttpApi, part

INTERVAL_MS = 200


@pytest.fixture(scope="module")
def node() -> Iterator[Node]:
    with Node(name="lists", settings={"management.rates_interval_ms": str(INTERVAL_MS)}) as running:
        yield running


@pytest.fixture
def api(node: Node) -> HttpApi:
    return HttpApi(node.management_url)


@pytest.fixture
def link(node: Node) -> Iterator[Any]:
    connection = Broker(node.host, node.port, node).connect()
    yield connection
    if connection.is_open:
        connection.close()


def own_channel(api: HttpApi, channel: Any) -> Any:
    """The row of a channel of pika, by its port."""
    return next((row for row in api.get("/channels") if is_of(row, channel)), None)


def is_of(row: Any, channel: Any) -> bool:
    port = channel.connection._impl._transport._sock.getsockname()[1]
    about = row["connection_details"]
    return bool(about["peer_port"] == port and row["number"] == channel.channel_number)


def test_a_channel_is_shown_as_its_client_has_set_it_up(api: HttpApi, link: Any) -> None:
    plain, confirming, transactional = link.channel(), link.channel(), link.channel()
    plain.basic_qos(prefetch_count=7)
    confirming.confirm_delivery()
    confirming.basic_qos(prefetch_count=9, global_qos=True)
    transactional.tx_select()
    transactional.basic_publish("", "nowhere", b"x")
    rows = [own_channel(api, each) for each in (plain, confirming, transactional)]
    assert [(row["confirm"], row["transactional"]) for row in rows] == [
        (False, False),
        (True, False),
        (False, True),
    ]
    assert (rows[0]["prefetch_count"], rows[1]["global_prefetch_count"]) == (7, 9)
    waiting = eventually(lambda: own_channel(api, transactional)["messages_uncommitted"])
    assert waiting == 1
    name = rows[0]["name"]
    assert name == f"{rows[0]['connection_details']['name']} ({plain.channel_number})"
    assert api.get("/channels/" + part(name))["prefetch_count"] == 7
    of_connection = api.get(f"/connections/{part(rows[0]['connection_details']['name'])}/channels")
    assert len(of_connection) == 3
    plain.close()
    assert api.refused("GET", "/channels/" + part(name))[0] == 404


def test_counts_of_channels_consumers_and_queues_agree(api: HttpApi, link: Any) -> None:
    channel = link.channel()
    queue = channel.queue_declare("", exclusive=True).method.queue
    channel.confirm_delivery()
    for _ in range(20):
        channel.basic_publish("", queue, b"x" * 10)
    taken: list[int] = []

    def take(channel: Any, method: Any, properties: Any, body: bytes) -> None:
        taken.append(method.delivery_tag)

    tag = channel.basic_consume(queue, take, arguments={"x-priority": 3}, exclusive=True)
    while len(taken) < 20:
        link.process_data_events(0.1)
    channel.basic_ack(taken[14], multiple=True)
    assert channel.basic_get(queue)[0] is None
    row = own_channel(api, channel)
    stats = row["message_stats"]
    assert (stats["publish"], stats["confirm"], stats["deliver"], stats["ack"]) == (20, 20, 20, 15)
    assert (stats["get_empty"], stats["deliver_get"]) == (1, 20)
    assert (row["messages_unacknowledged"], row["consumer_count"]) == (5, 1)
    consumer = next(each for each in api.get("/consumers/%2F") if each["consumer_tag"] == tag)
    assert (consumer["queue"]["name"], consumer["priority"]) == (queue, 3)
    assert (consumer["exclusive"], consumer["arguments"]) == (True, {"x-priority": 3})
    assert (consumer["activity_status"], consumer["ack_required"]) == ("up", True)
    shown = api.get(f"/queues/%2F/{part(queue)}")
    assert [each["consumer_tag"] for each in shown["consumer_details"]] == [tag]
    assert shown["deliveries"][0]["stats"]["deliver"] == 20
    assert shown["message_bytes_unacknowledged"] == shown["message_bytes"] > 0
    assert shown["message_bytes_ready"] == 0


def test_the_single_active_consumer_is_told_from_those_that_wait(api: HttpApi, link: Any) -> None:
    channel = link.channel()
    arguments = {"x-single-active-consumer": True}
    queue = channel.queue_declare("", exclusive=True, arguments=arguments).method.queue
    tags = [channel.basic_consume(queue, lambda *_: None) for _ in range(2)]

    def states() -> Any:
        rows = api.get(f"/queues/%2F/{part(queue)}")["consumer_details"]
        return {row["consumer_tag"]: (row["active"], row["activity_status"]) for row in rows}

    assert states() == {tags[0]: (True, "single_active"), tags[1]: (False, "waiting")}
    channel.basic_cancel(tags[0])
    eventually(lambda: states() == {tags[1]: (True, "single_active")})


def test_what_basic_get_took_is_told_from_deliveries(api: HttpApi, link: Any) -> None:
    channel = link.channel()
    queue = channel.queue_declare("", exclusive=True).method.queue
    properties = pika.BasicProperties(timestamp=1_600_000_000)
    for _ in range(3):
        channel.basic_publish("", queue, b"x", properties)
    assert channel.basic_get(queue, auto_ack=False)[0] is not None
    assert channel.basic_get(queue, auto_ack=True)[0] is not None
    stats = own_channel(api, channel)["message_stats"]
    assert (stats["get"], stats["get_no_ack"], stats["deliver"]) == (1, 1, 0)
    shown = api.get(f"/queues/%2F/{part(queue)}")
    assert (shown["message_stats"]["get"], shown["message_stats"]["deliver"]) == (2, 0)
    assert shown["head_message_timestamp"] == 1_600_000_000
    assert shown["message_bytes_unacknowledged"] == shown["message_bytes_ready"] > 0


def test_refused_publishes_are_not_counted_by_their_queue(api: HttpApi, link: Any) -> None:
    channel = link.channel()
    arguments = {"x-max-length": 2, "x-overflow": "reject-publish"}
    queue = channel.queue_declare("", exclusive=True, arguments=arguments).method.queue
    for _ in range(5):
        channel.basic_publish("", queue, b"x")
    shown = eventually(lambda: full(api, queue))
    assert shown["message_stats"]["publish"] == 2


def full(api: HttpApi, queue: str) -> Any:
    shown = api.get(f"/queues/%2F/{part(queue)}")
    return shown if shown["messages"] == 2 else None


def test_reads_and_writes_of_connections_are_counted(api: HttpApi, link: Any) -> None:
    channel = link.channel()
    queue = channel.queue_declare("", exclusive=True).method.queue

    def counts() -> list[tuple[int, int]]:
        return [(row["recv_cnt"], row["send_cnt"]) for row in api.get("/connections")]

    for _ in range(20):
        channel.queue_declare(queue, passive=True)  # one write and one read of each side
    eventually(lambda: any(min(pair) >= 20 for pair in counts()))


def test_rates_follow_the_traffic_and_fall_back_to_nothing(api: HttpApi, link: Any) -> None:
    channel = link.channel()
    queue = channel.queue_declare("", exclusive=True).method.queue
    place = f"/queues/%2F/{part(queue)}"
    assert "publish_details" not in api.get(place)["message_stats"]
    api.get("/overview")

    def publish_rate() -> float:
        for _ in range(10):
            channel.basic_publish("", queue, b"x")
        ranges = "lengths_age=60&lengths_incr=1&msg_rates_age=60&msg_rates_incr=1"
        shown = api.get(f"{place}?{ranges}")
        details = shown["message_stats"]["publish_details"]
        if "rate" not in details:
            return 0.0  # One sample so far.
        assert "samples" in details
        others = (api.get("/overview"), own_channel(api, channel))
        rates = [each["message_stats"].get("publish_details", {}).get("rate", 0) for each in others]
        return float(min(details["rate"], *rates))

    assert eventually(publish_rate) > 0
    eventually(lambda: api.get(place)["message_stats"]["publish_details"]["rate"] == 0.0)
    sort = "sort=message_stats.publish_details.rate&sort_reverse=true"
    assert api.get(f"/queues?page=1&page_size=500&{sort}")["item_count"] >= 1
    (node,) = api.get("/nodes")
    assert node["fd_used"] > 0 and "rate" in node["mem_used_details"]
    assert node["message_stats"]["publish"] >= 10


def test_exchanges_are_counted_while_somebody_looks(api: HttpApi, link: Any) -> None:
    channel = link.channel()
    channel.exchange_declare("counted", "fanout", auto_delete=True)
    queues = [channel.queue_declare("", exclusive=True).method.queue for _ in range(3)]
    for queue in queues:
        channel.queue_bind(queue, "counted")
    place = "/exchanges/%2F/counted"
    assert api.get(place)["message_stats"]["publish_in"] == 0
    for _ in range(4):
        channel.basic_publish("counted", "", b"x")
    stats = eventually(lambda: counted(api, place, 4))
    assert stats["publish_out"] == 12
    body = {"properties": {}, "routing_key": "", "payload": "x", "payload_encoding": "string"}
    before = api.get("/overview")["message_stats"]["publish"]
    assert api.post(f"{place}/publish", body) == {"routed": True}
    assert counted(api, place, 5)["publish_out"] == 15
    assert api.get("/overview")["message_stats"]["publish"] == before + 1


def counted(api: HttpApi, place: str, count: int) -> Any:
    stats = api.get(place)["message_stats"]
    return stats if stats["publish_in"] == count else None


def test_sessions_and_links_of_amqp_10_are_listed_too(node: Node, api: HttpApi) -> None:
    async def scenario() -> None:
        async with await connect(node.url, container_id="of-links") as connection:
            management = await connection.management()
            await management.declare_queue("of-links")
            publisher = await connection.publisher("/queues/of-links")
            await publisher.publish_many([Message(b"x")] * 6)
            consumer = await connection.consumer("/queues/of-links", credit=10)
            for _ in range(6):
                (await consumer.get(timeout_s=5)).accept()
            rows = await asyncio.to_thread(sessions)
            assert sum(row["message_stats"]["publish"] for row in rows) == 6
            assert sum(row["message_stats"]["deliver"] for row in rows) == 6
            shown = await asyncio.to_thread(api.get, "/queues/%2F/of-links")
            (link,) = shown["consumer_details"]
            assert (link["protocol"], link["delivered"]) == ("AMQP 1-0", 6)
            assert link["consumer_tag"].isdigit()
            names = await asyncio.to_thread(containers)
            assert names == ["of-links"]
            one = "/channels/" + part(link["channel_details"]["name"])
            row = await asyncio.to_thread(api.get, one)
            assert [each["consumer_tag"] for each in row["consumer_details"]] == [
                link["consumer_tag"]
            ]
            await management.delete_queue("of-links")

    def containers() -> Any:
        rows = api.get("/connections")
        return [row["container_id"] for row in rows if row["protocol"] == "AMQP 1-0"]

    def sessions() -> Any:
        return [row for row in api.get("/channels") if row["protocol"] == "AMQP 1-0"]

    asyncio.run(asyncio.wait_for(scenario(), 30))


def test_a_robust_client_of_many_channels_is_listed_page_by_page(node: Node, api: HttpApi) -> None:
    async def scenario() -> None:
        async with await aio_pika.connect_robust(Broker(node.host, node.port, node).url()) as link:
            channels = [await link.channel() for _ in range(25)]
            queue = await channels[0].declare_queue("", exclusive=True)
            for channel in channels:
                await (await channel.get_queue(queue.name)).consume(ignored, no_ack=True)
            found = await asyncio.to_thread(listed, queue.name)
            assert len(found) == 25

    def listed(queue: str) -> list[Any]:
        found: list[Any] = []
        page = api.get("/consumers?page=1&page_size=10")
        for number in range(1, page["page_count"] + 1):
            found += api.get(f"/consumers?page={number}&page_size=10")["items"]
        totals = api.get("/overview")["object_totals"]
        assert totals["channels"] == len(api.get("/channels"))
        assert totals["consumers"] == len(found)
        return [row for row in found if row["queue"]["name"] == queue]

    asyncio.run(asyncio.wait_for(scenario(), 30))


async def ignored(message: Any) -> None:
    """Takes a delivery."""


def test_connections_have_the_rates_of_their_bytes_and_memory_adds_up(
    api: HttpApi, link: Any
) -> None:
    link.channel()

    def have_rates() -> Any:
        rows = api.get("/connections")
        return rows if all("rate" in row.get("recv_oct_details", {}) for row in rows) else None

    rows = eventually(have_rates)
    name = quote(rows[0]["name"], safe="")
    ranges = "data_rates_age=60&data_rates_incr=1"
    assert "samples" in api.get(f"/connections/{name}?{ranges}")["send_oct_details"]
    (node,) = api.get("/nodes")
    parts = api.get(f"/nodes/{part(node['name'])}/memory")["memory"]
    sizes = [value for value in parts.values() if isinstance(value, int)]
    assert sum(sizes) == parts["total"]["rss"] > 0
    assert set(parts["estimated"]) <= set(parts)


def published_by(rows: Any, what: str) -> dict[str, int]:
    """Counts of `publishes`, `incoming` or `outgoing`, by the name of the other side."""
    return {row[what]["name"]: row["stats"]["publish"] for row in rows}


def test_who_looks_sees_what_goes_from_channel_to_exchange_to_queue(
    api: HttpApi, link: Any
) -> None:
    channel = link.channel()
    channel.queue_declare("pairs", durable=True)
    channel.queue_bind("pairs", "amq.fanout")
    name = eventually(lambda: own_channel(api, channel))["name"]
    exchange = "/exchanges/%2F/amq.fanout"
    assert api.get("/channels/" + part(name))["publishes"] == []  # From now on it is counted.
    for _ in range(3):
        channel.basic_publish("amq.fanout", "k", b"x")
    channel.basic_publish("", "pairs", b"x")
    channel.basic_publish("", "nowhere", b"x")
    eventually(lambda: api.get("/queues/%2F/pairs")["messages_ready"] == 4)

    def publishes() -> Any:
        return api.get("/channels/" + part(name))["publishes"]

    assert published_by(publishes(), "exchange") == {"amq.fanout": 3, "": 2}
    eventually(lambda: "rate" in publishes()[0]["stats"].get("publish_details", {}))
    assert published_by(api.get("/queues/%2F/pairs")["incoming"], "exchange") == {
        "amq.fanout": 3,
        "": 1,
    }
    assert published_by(api.get(exchange)["outgoing"], "queue") == {"pairs": 3}
    incoming = api.get(exchange)["incoming"]
    assert published_by(incoming, "channel_details") == {name: 3}
    assert incoming[0]["channel_details"]["number"] == channel.channel_number
    assert api.get("/vhosts/%2F")["message_stats"]["publish"] >= 4
    eventually(lambda: "rate" in api.get("/vhosts/%2F")["message_stats"].get("publish_details", {}))
    channel.close()
    eventually(lambda: api.get(exchange)["incoming"] == [])
    api.delete("/queues/%2F/pairs")
    assert api.get(exchange)["outgoing"] == []

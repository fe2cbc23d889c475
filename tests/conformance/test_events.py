"""Events and copies of messages as clients get them: event exchange, firehose, streams, logs."""

import asyncio
import base64
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import pika
import pytest

from tests.conformance.broker import (
    CONFIG,
    Broker,
    Delivered,
    Inbox,
    channel_closed,
    settle_down,
)
from warren.client import Message
from warren.client import connect as connect10
from warren.testing import Node
from warren.testing.http_api import HttpApi

SETTINGS = {"events.exchange": "true", "log.format": "json", "log.audit": "all"}
EVENTS = "amq.rabbitmq.event"
TRACE = "amq.rabbitmq.trace"
SECONDS = 60.0


@pytest.fixture(scope="module")
def node() -> Iterator[Node]:
    with Node(name="events", config=CONFIG, settings=SETTINGS) as running:
        yield running


@pytest.fixture
def api(node: Node) -> HttpApi:
    return HttpApi(node.management_url)


@pytest.fixture
def channel(node: Node) -> Iterator[Any]:
    connection = Broker(node.host, node.port, node).connect()
    yield connection.channel()
    connection.close()


def bound(channel: Any, exchange: str, *keys: str) -> Inbox:
    """Messages that come by the exchange with these keys."""
    queue = channel.queue_declare("", exclusive=True).method.queue
    for key in keys:
        channel.queue_bind(queue, exchange, key)
    return Inbox(channel, queue, auto_ack=True)


def keys_of(inbox: Inbox) -> list[str]:
    return [each.routing_key for each in inbox.messages]


def headers_of(inbox: Inbox, place: int = 0) -> dict[str, Any]:
    headers: dict[str, Any] = inbox.messages[place].properties.headers
    return headers


def told(inbox: Inbox, *names: str) -> list[Delivered]:
    """Those that are about objects of these names."""
    keys = ("name", "queue", "source_name", "connection")
    return [
        each
        for each in inbox.messages
        if any(each.properties.headers.get(key) in names for key in keys)
    ]


def wait_told(channel: Any, inbox: Inbox, count: int, *names: str) -> list[Delivered]:
    settle_down(channel, lambda: len(told(inbox, *names)) >= count)
    return told(inbox, *names)


# The event exchange


def test_what_a_client_does_comes_by_the_event_exchange(channel: Any) -> None:
    inbox = bound(channel, EVENTS, "queue.*", "binding.*", "consumer.*", "exchange.*")
    channel.queue_declare("ev q", durable=True, arguments={"x-max-length": 7})
    channel.exchange_declare("ev x", "topic")
    channel.queue_bind("ev q", "ev x", "k.*")
    tag = channel.basic_consume("ev q", lambda *_: None)
    channel.basic_cancel(tag)
    channel.exchange_delete("ev x")
    channel.queue_delete("ev q")
    about = wait_told(channel, inbox, 8, "ev q", "ev x")
    assert [each.routing_key for each in about] == [
        "queue.created", "exchange.created", "binding.created", "consumer.created",
        "consumer.deleted", "binding.deleted", "exchange.deleted", "queue.deleted",
    ]  # fmt: skip
    first = about[0]
    assert first.body == b""
    assert first.exchange == EVENTS
    assert first.properties.delivery_mode == 2
    headers = first.properties.headers
    assert headers["timestamp_in_ms"] // 1000 == first.properties.timestamp
    assert headers["vhost"] == "/"
    assert headers["arguments"] == {"x-max-length": 7}
    assert headers["user_who_performed_action"] == "guest"
    assert headers["node"] == "events"
    assert about[3].properties.headers["consumer_tag"] == tag


def test_connections_and_channels_are_told_when_they_come_and_go(channel: Any, node: Node) -> None:
    inbox = bound(channel, EVENTS, "connection.*", "channel.*")
    parameters = pika.URLParameters(node.url)
    parameters.client_properties = {"connection_name": "me"}
    other = pika.BlockingConnection(parameters)
    other.channel().close()
    other.close()

    def created() -> list[Delivered]:
        return [
            each
            for each in inbox.messages
            if each.properties.headers.get("user_provided_name") == "me"
        ]

    settle_down(channel, lambda: len(created()) == 1)
    headers = created()[0].properties.headers
    about = wait_told(channel, inbox, 4, headers["name"])
    assert [each.routing_key for each in about] == [
        "connection.created",
        "channel.created",
        "channel.closed",
        "connection.closed",
    ]
    assert (headers["user"], headers["vhost"], headers["protocol"]) == ("guest", "/", "AMQP 0-9-1")
    assert headers["client_properties"]["connection_name"] == "me"
    assert (headers["auth_mechanism"], headers["ssl"]) == ("PLAIN", False)
    assert (headers["host"], headers["port"]) == (node.host, node.port)
    peer = f"{headers['peer_host']}:{headers['peer_port']}"
    assert headers["name"] == f"{peer} -> {node.host}:{node.port}"


def test_what_operators_change_is_told_with_who_did_it(channel: Any, api: HttpApi) -> None:
    inbox = bound(channel, EVENTS, "user.*", "user.password.#", "policy.#", "vhost.#")
    api.put("/users/eve", {"password": "secret", "tags": "monitoring"})
    api.put("/policies/%2F/ev", {"pattern": "^none$", "definition": {"max-length": 3}})
    api.delete("/policies/%2F/ev")
    api.put("/vhosts/ev-v", {})
    api.delete("/vhosts/ev-v")
    api.delete("/users/eve")
    inbox.wait(6)
    found = [key for key in keys_of(inbox) if not key.startswith("permission")]
    assert found[0] == "user.created"
    assert [key for key in found if not key.startswith("user.tags")] == [
        "user.created", "policy.set", "policy.cleared", "vhost.created", "vhost.deleted",
        "user.deleted",
    ]  # fmt: skip
    assert {each.properties.headers["user_who_performed_action"] for each in inbox.messages} == {
        "guest"
    }
    assert "secret" not in repr([each.properties for each in inbox.messages])


def test_events_can_be_read_by_amqp_1_0(node: Node, channel: Any) -> None:
    channel.queue_declare("ev10", arguments={"x-queue-type": "quorum"}, durable=True)
    channel.queue_bind("ev10", EVENTS, "exchange.created")

    async def test() -> None:
        async with await connect10(node.url) as connection:
            consumer = await connection.consumer("/queues/ev10", credit=10)
            channel.exchange_declare("ev10 x", "fanout", auto_delete=False)
            message = (await consumer.get(timeout_s=SECONDS)).message
            assert message.application_properties is not None
            assert message.application_properties["name"] == "ev10 x"

    asyncio.run(asyncio.wait_for(test(), 20))
    channel.exchange_delete("ev10 x")
    channel.queue_delete("ev10")


def test_the_parameter_switches_events_off_and_on_again(channel: Any, api: HttpApi) -> None:
    inbox = bound(channel, EVENTS, "exchange.#")
    api.put("/global-parameters/event-exchange", {"value": {"enabled": False}})
    channel.exchange_declare("ev off", "fanout")
    api.delete("/global-parameters/event-exchange")
    channel.exchange_delete("ev off")
    inbox.wait(1)
    assert keys_of(inbox) == ["exchange.deleted"]


# The firehose


@pytest.fixture
def traced(api: HttpApi) -> Iterator[None]:
    api.put("/vhosts/%2F", {"tracing": True})
    yield
    api.put("/vhosts/%2F", {"tracing": False})


@pytest.mark.parametrize("kind", ["classic", "quorum"])
def test_the_firehose_copies_what_is_published_and_delivered(
    channel: Any, traced: None, kind: str
) -> None:
    copies = bound(channel, TRACE, "#")
    queue = f"fh {kind}"
    channel.queue_declare(queue, durable=True, arguments={"x-queue-type": kind})
    properties = pika.BasicProperties(
        content_type="text/plain", headers={"h": 1, "CC": ["other"]}, message_id="m1"
    )
    channel.basic_publish("", queue, b"body", properties)
    method, _, body = None, None, b""
    while method is None:
        method, _, body = channel.basic_get(queue)
    assert body == b"body"
    channel.basic_nack(method.delivery_tag)
    taken = Inbox(channel, queue)
    taken.wait(1)
    copies.wait(3)
    assert keys_of(copies) == ["publish.", f"deliver.{queue}", f"deliver.{queue}"]
    assert copies.bodies == [b"body"] * 3
    published, got, again = (headers_of(copies, place) for place in range(3))
    assert published["exchange_name"] == ""
    assert published["routing_keys"] == [queue, "other"]
    assert published["routed_queues"] == [queue]
    assert published["properties"]["content_type"] == "text/plain"
    assert published["properties"]["message_id"] == "m1"
    assert published["properties"]["headers"]["h"] == 1
    assert (published["node"], published["vhost"], published["user"]) == ("events", "/", "guest")
    assert published["channel"] == channel.channel_number
    assert "->" in published["connection"]
    assert (got["redelivered"], again["redelivered"]) == (0, 1)
    assert "routed_queues" not in got
    channel.queue_delete(queue)


def test_messages_of_the_trace_exchange_itself_are_not_copied(channel: Any, traced: None) -> None:
    copies = bound(channel, TRACE, "#")
    channel.queue_declare("fh once", exclusive=True)
    for number in range(20):
        channel.basic_publish("", "fh once", b"%d" % number)
    copies.wait(20)
    channel.queue_purge("fh once")  # Whatever copies of copies there were would come before.
    channel.connection.process_data_events(time_limit=0.1)
    assert len(copies.messages) == 20
    assert [each.routing_key for each in copies.messages] == ["publish."] * 20


def test_what_has_no_route_is_copied_and_returned_all_the_same(channel: Any, traced: None) -> None:
    copies = bound(channel, TRACE, "publish.amq.direct")
    returned: list[bytes] = []
    channel.add_on_return_callback(lambda _c, _m, _p, body: returned.append(body))
    channel.basic_publish("amq.direct", "nowhere", b"lost", mandatory=True)
    copies.wait(1)
    assert headers_of(copies)["routed_queues"] == []
    assert returned == [b"lost"]


def test_a_transaction_is_copied_when_it_is_committed(
    channel: Any, node: Node, traced: None
) -> None:
    copies = bound(channel, TRACE, "publish.#")
    connection = Broker(node.host, node.port, node).connect()
    other = connection.channel()
    other.tx_select()
    other.basic_publish("amq.fanout", "", b"rolled back")
    other.tx_rollback()
    other.basic_publish("amq.fanout", "", b"committed")
    other.tx_commit()
    copies.wait(1)
    connection.close()
    assert copies.bodies == [b"committed"]


def test_publishes_by_the_api_are_copied(channel: Any, api: HttpApi, traced: None) -> None:
    copies = bound(channel, TRACE, "publish.#")
    body = {"routing_key": "x", "properties": {}, "payload": "p", "payload_encoding": "string"}
    api.post("/exchanges/%2F/amq.fanout/publish", body)
    copies.wait(1)
    assert (keys_of(copies), copies.bodies) == (["publish.amq.fanout"], [b"p"])
    assert headers_of(copies)["user"] == "guest"


def test_the_firehose_copies_messages_of_amqp_1_0(channel: Any, node: Node, traced: None) -> None:
    copies = bound(channel, TRACE, "#")
    channel.queue_declare("fh10", durable=True)

    async def test() -> None:
        async with await connect10(node.url) as connection:
            publisher = await connection.publisher("/queues/fh10")
            await publisher.publish(Message(b"ten", application_properties={"n": 5}))
            consumer = await connection.consumer("/queues/fh10", credit=1)
            (await consumer.get(timeout_s=SECONDS)).accept()

    asyncio.run(asyncio.wait_for(test(), 20))
    copies.wait(2)
    assert keys_of(copies) == ["publish.", "deliver.fh10"]
    assert copies.bodies == [b"ten"] * 2
    assert headers_of(copies)["properties"]["headers"]["n"] == 5
    assert headers_of(copies)["routed_queues"] == ["fh10"]
    channel.queue_delete("fh10")


def test_switched_off_nothing_is_copied_and_channels_go_on(channel: Any, api: HttpApi) -> None:
    copies = bound(channel, TRACE, "#")
    api.put("/vhosts/%2F", {"tracing": True})
    channel.basic_publish("amq.fanout", "", b"one")
    copies.wait(1)
    api.put("/vhosts/%2F", {"tracing": False})
    channel.confirm_delivery()
    channel.basic_publish("amq.fanout", "", b"two")
    channel.connection.process_data_events(time_limit=0.05)
    assert copies.bodies == [b"one"]


# Streams of events


class Stream:
    """One open stream, as its lines come."""

    def __init__(self, reply: aiohttp.ClientResponse) -> None:
        self.reply = reply

    async def next(self) -> tuple[str, str, dict[str, Any]]:
        """Id, event and data of the next event; comments are passed over."""
        fields: dict[str, str] = {}
        async with asyncio.timeout(SECONDS):
            while True:
                line = (await self.reply.content.readline()).decode()
                assert line, "the stream has ended"
                if line == "\n" and "data" in fields:
                    data = json.loads(fields["data"])
                    return fields.get("id", ""), fields["event"], data
                name, colon, value = line.rstrip("\n").partition(": ")
                if colon and name:
                    fields[name] = value


def login_of(user: str) -> dict[str, str]:
    pair = base64.b64encode(f"{user}:{user}".encode()).decode()
    return {"Authorization": f"Basic {pair}"}


@asynccontextmanager
async def streaming(
    node: Node, query: str = "", last_id: str = "", user: str = "guest"
) -> AsyncIterator[Stream]:
    headers = login_of(user) | ({"Last-Event-ID": last_id} if last_id else {})
    async with (
        aiohttp.ClientSession() as session,
        session.get(f"{node.management_url}/api/events{query}", headers=headers) as reply,
    ):
        assert reply.status == 200, await reply.text()
        assert reply.content_type == "text/event-stream"
        yield Stream(reply)


def play(test: Callable[[], Awaitable[None]]) -> None:
    async def whole() -> None:
        async with asyncio.timeout(25):
            await test()

    asyncio.run(whole())


def test_a_stream_tells_what_happens_and_only_what_is_asked_for(node: Node, channel: Any) -> None:
    async def test() -> None:
        async with streaming(node, "?names=queue.*,vhost.created") as stream:
            channel.exchange_declare("sse x", "fanout", auto_delete=True)
            channel.queue_declare("sse q", exclusive=True)
            _, name, told = await stream.next()
            assert (name, told["name"], told["node"]) == ("queue.created", name, "events")
            assert told["properties"]["name"] == "sse q"
            assert told["timestamp"] > 1_600_000_000_000

    play(test)
    channel.exchange_delete("sse x")


def test_who_comes_back_with_the_last_id_gets_what_it_has_missed(node: Node, channel: Any) -> None:
    async def test() -> None:
        async with streaming(node, "?names=exchange.*") as stream:
            channel.exchange_declare("sse 1", "fanout")
            last_id, _, _ = await stream.next()
        channel.exchange_declare("sse 2", "fanout")
        channel.exchange_delete("sse 1")
        async with streaming(node, "?names=exchange.*", last_id) as stream:
            missed = [await stream.next() for _ in range(2)]
            assert [(name, told["properties"]["name"]) for _, name, told in missed] == [
                ("exchange.created", "sse 2"),
                ("exchange.deleted", "sse 1"),
            ]
        async with streaming(node, "", "0123-5") as stream:
            _, name, told = await stream.next()
            assert (name, told["properties"]) == ("events.lost", {"count": None})

    play(test)
    channel.exchange_delete("sse 2")


def test_streams_are_for_who_may_see_all(node: Node) -> None:
    async def test() -> None:
        async with aiohttp.ClientSession() as session:
            for user in ("limited", "absent"):
                login = login_of(user)
                async with session.get(f"{node.management_url}/api/events", headers=login) as reply:
                    assert reply.status == 401
            many = ",".join(["a"] * 33)
            address = f"{node.management_url}/api/events?names={many}"
            async with session.get(address, headers=login_of("guest")) as reply:
                assert reply.status == 400

    play(test)


def test_open_streams_do_not_hold_up_the_end_of_a_node() -> None:
    with Node(name="sse-end", config=CONFIG) as own:

        async def test() -> None:
            async with streaming(own):
                loop = asyncio.get_running_loop()
                begun_s = loop.time()
                await asyncio.to_thread(own.stop)
                assert loop.time() - begun_s < 20.0

        play(test)


# Logs


def lines_of(node: Node, logger: str) -> list[dict[str, Any]]:
    lines = [json.loads(line) for line in node.log().splitlines() if line.startswith("{")]
    return [line for line in lines if line["logger"] == logger]


def test_lines_about_a_connection_say_which_one(channel: Any, node: Node) -> None:
    with channel_closed(404, "NOT_FOUND - no queue 'nowhere' in vhost '/'"):
        channel.queue_declare("nowhere", passive=True)
    line = lines_of(node, "warren.connection")[-1]
    assert line["node"] == "events"
    assert (line["vhost"], line["user"]) == ("/", "guest")
    assert line["message"].startswith(line["connection"])


def test_the_audit_log_says_who_has_changed_what(node: Node, api: HttpApi, channel: Any) -> None:
    api.put("/users/audited", {"password": "topsecret", "tags": ""})
    api.delete("/users/audited")
    HttpApi(node.management_url, "guest").ask("DELETE", "/queues/%2F/none")
    channel.queue_declare("audited", durable=True)
    channel.queue_delete("audited")
    limited = Broker(node.host, node.port, node).connect("limited")
    other = limited.channel()
    with pytest.raises(pika.exceptions.ChannelClosedByBroker):
        other.queue_declare("audited")
    limited.close()
    found = [
        (line["user"], line["way"], line["action"], line["object"], line["outcome"][:10])
        for line in lines_of(node, "warren.audit")
        if "audited" in line["message"] or "none" in line["object"] or line["user"] == "limited"
    ]
    assert found == [
        ("guest", "http", "PUT", "/api/users/audited", "201"),
        ("guest", "http", "DELETE", "/api/users/audited", "204"),
        ("guest", "http", "DELETE", "/api/queues/%2F/none", "404 Not Fo"),
        ("guest", "amqp", "create", "queue 'audited' in vhost '/'", "ok"),
        ("guest", "amqp", "delete", "queue 'audited' in vhost '/'", "ok"),
        ("limited", "amqp", "queue.declare", "definitions", "refused: c"),
    ]
    assert "topsecret" not in node.log()


def test_the_log_level_is_changed_by_the_api(node: Node, api: HttpApi) -> None:
    path = "/nodes/events/log-level"
    assert api.put(path, {"level": "error", "category": "audit"}) == 204
    assert api.get(path) == {"default": "info", "audit": "error"}
    api.put("/users/unheard", {"password": "x", "tags": ""})
    assert api.put(path, {"level": "info", "category": "audit"}) == 204
    api.delete("/users/unheard")
    heard = [
        line["action"] for line in lines_of(node, "warren.audit") if "unheard" in line["object"]
    ]
    assert heard == ["DELETE"]
    assert api.refused("PUT", path, {"level": "loud"})[0] == 400
    assert api.ask("PUT", "/nodes/none/log-level", {"level": "info"})[0] == 404


def test_slow_consumer_is_reported(channel: Any) -> None:
    events = bound(channel, EVENTS, "consumer.slow")
    arguments = {"x-slow-consumer-threshold": 100, "x-slow-consumer-check-period": 1}
    channel.queue_declare("slow", durable=True, arguments=arguments)
    channel.basic_publish("", "slow", b"1")
    Inbox(channel, "slow").wait(1)
    headers = events.wait(1)[0].properties.headers
    assert (headers["vhost"], headers["queue"], headers["settled"]) == ("/", "slow", 0)
    assert (headers["number"], headers["period_ms"], headers["action"]) == (2, 1000, "notified")
    channel.queue_delete("slow")

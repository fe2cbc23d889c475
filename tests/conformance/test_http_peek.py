"""Messages of a queue looked at over HTTP: bad requests first, then that nothing changes."""

import asyncio
from collections.abc import Iterator
from types import MappingProxyType
from typing import Any

import pika
import pytest
import rabbitmq_amqp_python_client as rabbitmq

from tests.conformance.broker import Broker, publish_all, ready_count, take
from warren.client import RequestFailed, connect
from warren.testing import Node
from warren.testing.http_api import HttpApi

PLACE = "/queues/%2F/seen"
KINDS: dict[str, dict[str, Any]] = {
    "classic": {},
    "lazy": {"x-queue-mode": "lazy"},
    "quorum": {"x-queue-type": "quorum"},
}


@pytest.fixture(scope="module")
def node(broker: Broker) -> Node:
    if broker.node is None:
        pytest.skip("WARREN_TEST_URL: this broker is not ours")
    return broker.node


@pytest.fixture
def api(node: Node) -> Iterator[HttpApi]:
    shared = HttpApi(node.management_url)
    shared.ask("DELETE", PLACE)
    yield shared
    shared.ask("DELETE", PLACE)


@pytest.fixture
def channel(node: Node) -> Iterator[Any]:
    connection = Broker(node.host, node.port, node).connect()
    yield connection.channel()
    connection.close()


def declare(api: HttpApi, kind: str = "classic", more: Any = MappingProxyType({})) -> None:
    api.put(PLACE, {"durable": True, "arguments": {**KINDS[kind], **more}})


def peek(api: HttpApi, **body: Any) -> Any:
    return api.post(PLACE + "/peek", body)


@pytest.mark.parametrize(
    "body",
    [
        {"offset": -1}, {"offset": "x"}, {"count": 0}, {"count": 1001}, {"encoding": "hex"},
        {"truncate": -1}, {"filter": []}, {"filter": {"body": "x"}},
        {"filter": {"headers": 1}}, {"filter": {"properties": {"type": 1}}},
        {"filter": {"properties": {"priority": "1"}}}, {"filter": {"exchange": 1}},
    ],
)  # fmt: skip
def test_what_makes_no_sense_is_400(api: HttpApi, body: Any) -> None:
    declare(api)
    assert api.refused("POST", PLACE + "/peek", body)[0] == 400


def test_who_may_not_read_the_queue_may_not_look(api: HttpApi, node: Node) -> None:
    declare(api)
    assert api.refused("POST", "/queues/%2F/none/peek", {})[0] == 404
    api.put("/users/onlooker", {"password": "onlooker", "tags": "management"})
    rights = {"configure": ".*", "write": ".*", "read": "^other$"}
    api.put("/permissions/%2F/onlooker", rights)
    other = HttpApi(node.management_url, "onlooker")
    assert other.refused("POST", PLACE + "/peek", {})[0] == 401
    api.delete("/users/onlooker")


@pytest.mark.parametrize("kind", list(KINDS))
def test_messages_are_looked_at_and_stay_as_they_were(
    api: HttpApi, channel: Any, kind: str
) -> None:
    declare(api, kind)
    bodies = [b"%d" % number for number in range(30)]
    publish_all(channel, "seen", bodies, persistent=True)
    found = peek(api, offset=5, count=3)
    assert [(each["position"], each["payload"]) for each in found] == [(5, "5"), (6, "6"), (7, "7")]
    assert not any(each["redelivered"] for each in found)
    assert found[0]["properties"] == {"delivery_mode": 2} and found[0]["routing_key"] == "seen"
    assert peek(api, offset=29, count=5)[0]["payload"] == "29"
    assert peek(api, offset=30) == []
    assert ready_count(channel, "seen") == 30
    first = take(channel, "seen")
    assert (first.body, first.redelivered) == (b"0", False)
    assert peek(api)[0]["payload"] == "1"
    channel.basic_nack(first.delivery_tag)
    again = peek(api)[0]
    while again["payload"] != "0":  # It is on its way back.
        again = peek(api)[0]
    assert again["redelivered"]
    assert api.get(PLACE)["message_stats"]["get"] == 1


def test_payloads_are_cut_and_told_as_what_they_are(api: HttpApi, channel: Any) -> None:
    declare(api)
    publish_all(channel, "seen", [b"\xff\xfe", b"plain text"])
    binary, text = peek(api, count=2)
    assert (binary["payload"], binary["payload_encoding"]) == ("//4=", "base64")
    assert (text["payload"], text["payload_encoding"]) == ("plain text", "string")
    cut = peek(api, offset=1, truncate=5, encoding="base64")[0]
    assert (cut["payload"], cut["payload_bytes"]) == ("cGxhaW4=", 10)


def test_the_highest_priority_has_the_first_place(api: HttpApi, channel: Any) -> None:
    declare(api, more={"x-max-priority": 5})
    channel.confirm_delivery()
    for body, priority in ((b"low", 1), (b"high", 5), (b"mid", 3)):
        channel.basic_publish("", "seen", body, pika.BasicProperties(priority=priority))
    assert [each["payload"] for each in peek(api, count=9)] == ["high", "mid", "low"]


def test_a_filter_finds_messages_at_their_places(api: HttpApi, channel: Any) -> None:
    declare(api)
    channel.confirm_delivery()
    for number in range(250):
        headers = {"odd": bool(number % 2), "number": number}
        properties = pika.BasicProperties(headers=headers, type=f"t{number % 100}")
        channel.basic_publish("", "seen", b"%d" % number, properties)
    found = peek(api, count=4, filter={"headers": {"odd": True}, "properties": {"type": "t7"}})
    assert [each["position"] for each in found] == [7, 107, 207]
    assert peek(api, offset=8, count=1, filter={"headers": {"number": 249}})[0]["position"] == 249
    assert peek(api, filter={"death_reason": "rejected"}) == []
    assert peek(api, filter={"routing_key": "seen", "exchange": ""})[0]["position"] == 0


def test_a_message_of_amqp_1_0_is_shown_as_it_would_be_delivered(api: HttpApi, node: Node) -> None:
    declare(api)
    modern = rabbitmq.Environment(f"amqp://guest:guest@{node.host}:{node.port}/").connection()
    modern.dial()
    publisher = modern.publisher(rabbitmq.AddressHelper.queue_address("seen"))
    message: Any = rabbitmq.Message(body=b"ten")
    message.application_properties = {"a": 1}
    publisher.publish(message)
    modern.close()
    (found,) = peek(api)
    assert found["payload"] == "ten" and found["properties"]["headers"]["a"] == 1


@pytest.mark.parametrize("kind", list(KINDS))
def test_amqp_1_0_looks_at_messages_by_management(
    api: HttpApi, channel: Any, node: Node, kind: str
) -> None:
    declare(api, kind)
    channel.confirm_delivery()
    for number in range(3):
        properties = pika.BasicProperties(
            headers={"n": number}, delivery_mode=2, timestamp=1_700_000_000, priority=0
        )
        channel.basic_publish("", "seen", b"%d" % number, properties)

    async def run() -> tuple[Any, int]:
        async with await connect(node.url) as connection:
            management = await connection.management()
            asked = {"offset": 1, "count": 9}
            found = await management.request("POST", "/queues/seen/peek", asked)
            with pytest.raises(RequestFailed) as refused:
                await management.request("POST", "/queues/seen/peek", {"count": 1000})
            return found, refused.value.status

    found, refused = asyncio.run(run())
    assert refused == 400
    assert [(each["position"], each["payload"]) for each in found] == [(1, b"1"), (2, b"2")]
    assert found[0]["properties"]["headers"] == {"n": 1}
    assert not found[0]["redelivered"] and ready_count(channel, "seen") == 3

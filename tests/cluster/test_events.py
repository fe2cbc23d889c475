"""Events of a cluster of real nodes: any node tells what happens on all, each thing once."""

import asyncio
import base64
import json
import time
from collections.abc import Callable, Iterator
from typing import Any

import aiohttp
import pika
import pytest

from tests.conformance.broker import Inbox
from warren.testing import ClusterOfNodes
from warren.testing.http_api import HttpApi
from warren.testing.node import Node

pytestmark = [pytest.mark.timeout(240)]
LOGIN = "Basic " + base64.b64encode(b"guest:guest").decode()
SECONDS = 60.0

Open = Callable[[Node], Any]


def put(node: Node, path: str, body: object) -> None:
    HttpApi(node.management_url).put(f"/{path}", body)


@pytest.fixture
def channel_of() -> Iterator[Callable[[Node], Any]]:
    """Opens channels, each with a connection of its own, which are closed after the test."""
    opened: list[Any] = []

    def open_one(node: Node) -> Any:
        opened.append(pika.BlockingConnection(pika.URLParameters(node.url)))
        return opened[-1].channel()

    yield open_one
    for connection in opened:
        connection.close()


async def follow(
    node: Node, names: str, act: Callable[[], None], is_last: Callable[[dict[str, Any]], bool]
) -> list[dict[str, Any]]:
    """What a stream tells from before `act` until the last one that is waited for."""
    told: list[dict[str, Any]] = []
    async with (
        asyncio.timeout(SECONDS),
        aiohttp.ClientSession(headers={"Authorization": LOGIN}) as session,
        session.get(f"{node.management_url}/api/events?names={names}") as reply,
    ):
        await reply.content.readline()  # The stream stands.
        await asyncio.to_thread(act)
        while not told or not is_last(told[-1]):
            line = await reply.content.readline()
            assert line, "the stream has ended"
            if line.startswith(b"data: "):
                told.append(json.loads(line[6:]))
    return told


def named(told: list[dict[str, Any]], prefix: str) -> list[tuple[str, str, str]]:
    return [
        (each["name"], each["properties"]["name"], each["node"])
        for each in told
        if each["properties"].get("name", "").startswith(prefix)
    ]


def test_a_stream_of_any_node_tells_what_happens_on_all_of_them_once(
    proxied_cluster: ClusterOfNodes, channel_of: Open
) -> None:
    first, second, third = proxied_cluster.nodes
    channels = [channel_of(each) for each in (first, second, third)]

    def act() -> None:
        for number, channel in enumerate(channels, 1):
            channel.exchange_declare(f"ce-{number}", "fanout")
        for number, channel in enumerate(channels, 1):
            channel.exchange_delete(f"ce-{number}")
        channels[1].exchange_declare("ce-last", "fanout")

    told = asyncio.run(
        follow(first, "exchange.*", act, lambda each: each["properties"].get("name") == "ce-last")
    )
    for number, node in enumerate((first, second, third), 1):
        mine = [each for each in named(told, "ce-") if each[1] == f"ce-{number}"]
        if number != 3 or len(mine) == 2:  # Of the third, the last may come behind the last of all.
            assert mine == [
                ("exchange.created", f"ce-{number}", node.name),
                ("exchange.deleted", f"ce-{number}", node.name),
            ]
    channels[0].exchange_delete("ce-last")


def test_what_happens_behind_a_broken_link_is_told_when_it_stands_again(
    proxied_cluster: ClusterOfNodes, channel_of: Open
) -> None:
    first, second, _ = proxied_cluster.nodes
    channel = channel_of(second)

    def act() -> None:
        channel.exchange_declare("cl-before", "fanout")
        proxied_cluster.links.cut(1, 2)
        proxied_cluster.links.heal()
        channel.exchange_declare("cl-after", "fanout")

    told = asyncio.run(
        follow(first, "exchange.*", act, lambda each: each["properties"].get("name") == "cl-after")
    )
    assert named(told, "cl-") == [
        ("exchange.created", "cl-before", second.name),
        ("exchange.created", "cl-after", second.name),
    ]
    channel.exchange_delete("cl-before")
    channel.exchange_delete("cl-after")


def test_the_event_exchange_gets_each_event_once_from_whichever_node(
    proxied_cluster: ClusterOfNodes, channel_of: Open
) -> None:
    first, second, third = proxied_cluster.nodes
    put(first, "global-parameters/event-exchange", {"value": {"enabled": True}})
    listening = channel_of(third)
    queue = listening.queue_declare("", exclusive=True).method.queue
    listening.queue_bind(queue, "amq.rabbitmq.event", "queue.#")
    inbox = Inbox(listening, queue, auto_ack=True)
    for number, node in enumerate((first, second, third), 1):
        channel = channel_of(node)
        arguments = {"x-queue-type": "quorum"}
        channel.queue_declare(f"cx-{number}", durable=True, arguments=arguments)
        channel.queue_delete(f"cx-{number}")
    inbox.wait(6)
    put(first, "global-parameters/event-exchange", {"value": {"enabled": False}})
    listening.connection.process_data_events(time_limit=0.2)
    found = sorted(
        (each.properties.headers["name"], each.routing_key, each.properties.headers["node"])
        for each in inbox.messages
        if each.properties.headers["name"].startswith("cx-")
        and each.routing_key in ("queue.created", "queue.deleted")
    )
    assert found == [
        (f"cx-{number}", key, node.name)
        for number, node in enumerate((first, second, third), 1)
        for key in ("queue.created", "queue.deleted")
    ]


def test_another_leader_of_a_queue_is_told_by_that_node(
    proxied_cluster: ClusterOfNodes, channel_of: Open
) -> None:
    first, second, third = proxied_cluster.nodes
    channel = channel_of(first)
    channel.queue_declare("cq-led", durable=True, arguments={"x-queue-type": "quorum"})
    deadline_s = time.monotonic() + SECONDS

    def act() -> None:
        api = HttpApi(first.management_url)
        while True:
            row = api.get("/queues/%2F/cq-led")
            if row["leader"] and len(row["online"]) == 3:
                break
            assert time.monotonic() < deadline_s
        target = second if row["leader"] != second.name else third
        api.post("/queues/quorum/%2F/cq-led/leader", {"node": target.name})

    told = asyncio.run(
        follow(
            third,
            "queue.leader.changed",
            act,
            lambda each: each["properties"].get("name") == "cq-led",
        )
    )
    last = told[-1]
    assert last["node"] == last["properties"]["leader"]
    assert last["node"] in (second.name, third.name)
    channel.queue_delete("cq-led")


def test_tracing_is_switched_for_all_nodes(
    proxied_cluster: ClusterOfNodes, channel_of: Open
) -> None:
    first, second, third = proxied_cluster.nodes
    listening = channel_of(first)
    queue = listening.queue_declare("", exclusive=True).method.queue
    listening.queue_bind(queue, "amq.rabbitmq.trace", "publish.amq.topic")
    inbox = Inbox(listening, queue, auto_ack=True)
    publishing = channel_of(third)
    put(second, "vhosts/%2F", {"tracing": True})
    publishing.basic_publish("amq.topic", "k", b"traced")
    inbox.wait(1)
    put(second, "vhosts/%2F", {"tracing": False})
    assert inbox.bodies == [b"traced"]
    assert inbox.messages[0].properties.headers["node"] == third.name

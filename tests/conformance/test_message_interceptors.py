"""Nodes that mark messages as they take them, and deliveries as they send them."""

import asyncio
import time
from collections.abc import Iterator
from typing import Any

import pika
import pytest

from tests.conformance.broker import Inbox, wait_until_ready
from warren.client import Message, connect
from warren.testing import Node

INCOMING = "message_interceptors.incoming.set_header_{}.overwrite"
SENT = "x-opt-rabbitmq-sent-time"
RECEIVED = "x-opt-rabbitmq-received-time"


@pytest.fixture(scope="module")
def node() -> Iterator[Node]:
    settings = {
        INCOMING.format("timestamp"): "false",
        INCOMING.format("routing_node"): "true",
        "message_interceptors.outgoing.timestamp.enabled": "true",
    }
    with Node(name="marking", settings=settings) as started:
        yield started


@pytest.fixture
def channel(node: Node) -> Iterator[Any]:
    connection = pika.BlockingConnection(pika.URLParameters(node.url))
    yield connection.channel()
    connection.close()


def is_now(ms: object) -> bool:
    assert isinstance(ms, int)
    return abs(ms - 1000 * time.time()) < 60_000


@pytest.mark.parametrize("kind", ["classic", "quorum"])
def test_messages_of_amqp_0_9_1_are_marked(node: Node, channel: Any, kind: str) -> None:
    queue = f"marked-{kind}"
    channel.queue_declare(queue, durable=True, arguments={"x-queue-type": kind})
    own = {"timestamp_in_ms": 1000, "x-routed-by": "other"}
    channel.basic_publish("", queue, b"1")
    channel.basic_publish("", queue, b"2", pika.BasicProperties(headers=own, timestamp=1))
    wait_until_ready(channel, queue, 2)
    _, properties, _ = channel.basic_get(queue, auto_ack=True)
    assert is_now(properties.headers["timestamp_in_ms"]) and is_now(properties.timestamp * 1000)
    assert is_now(properties.headers[SENT])
    inbox = Inbox(channel, queue, auto_ack=True)
    (delivered,) = inbox.wait(1)
    headers = delivered.properties.headers
    assert (headers["timestamp_in_ms"], delivered.properties.timestamp) == (1000, 1)
    assert headers["x-routed-by"] == properties.headers["x-routed-by"] == "marking"
    assert is_now(headers[SENT])


def test_a_reply_is_marked(channel: Any) -> None:
    replies: list[Any] = []

    def take(_: Any, __: Any, properties: Any, ___: bytes) -> None:
        replies.append(properties)

    channel.basic_consume("amq.rabbitmq.reply-to", take, auto_ack=True)
    channel.queue_declare("asked")
    asking = pika.BasicProperties(reply_to="amq.rabbitmq.reply-to")
    channel.basic_publish("", "asked", b"?", asking)
    wait_until_ready(channel, "asked", 1)
    _, asked, _ = channel.basic_get("asked", auto_ack=True)
    channel.basic_publish("", asked.reply_to, b"!")
    while not replies:
        channel.connection.process_data_events(1)
    assert replies[0].headers["x-routed-by"] == "marking"


def test_messages_of_amqp_1_0_are_marked(node: Node, channel: Any) -> None:
    channel.queue_declare("marked10", durable=True)
    channel.basic_publish("", "marked10", b"of 0-9-1")
    wait_until_ready(channel, "marked10", 1)

    async def exchange() -> list[dict[Any, Any]]:
        async with asyncio.timeout(40), await connect(node.url) as connection:
            publisher = await connection.publisher("/queues/marked10")
            (outcome,) = await publisher.publish_many([Message(b"of 1.0")])
            assert outcome.is_accepted
            consumer = await connection.consumer("/queues/marked10", credit=2)
            found = []
            for _ in range(2):
                delivery = await consumer.get(timeout_s=5)
                found.append(dict(delivery.message.annotations))
                delivery.accept()
            await consumer.close()
            return found

    for annotations in asyncio.run(exchange()):
        assert is_now(annotations[RECEIVED]) and is_now(annotations[SENT])
        assert annotations["x-routed-by"] == "marking"
        assert annotations["x-routing-key"] == "marked10"

"""A shovel whose link breaks again and again, behind the real Toxiproxy: nothing is lost."""

from collections.abc import Iterator
from typing import Any

import pika
import pytest

from tests.cluster.toxiproxy import server_program
from tests.waiting import eventually
from warren.testing import Node, free_ports
from warren.testing.http_api import HttpApi
from warren.testing.toxiproxy import Proxy, Toxic, ToxiproxyServer

COUNT = 3_000
FAULTS = {
    "reset": Toxic("reset_peer", "downstream", {"timeout": 50}),
    "latency": Toxic("latency", "downstream", {"latency": 200, "jitter": 50}),
    "bandwidth": Toxic("bandwidth", "downstream", {"rate": 200}),
    "slicer": Toxic("slicer", "downstream", {"average_size": 700, "size_variation": 300}),
}

pytestmark = pytest.mark.timeout(240)


@pytest.fixture
def server() -> Iterator[ToxiproxyServer]:
    (port,) = free_ports(1)
    made = ToxiproxyServer(port, [], server_program())
    yield made
    made.stop()


def has_changed(row: dict[str, Any], before: dict[str, Any]) -> bool:
    """Whether messages were moved since then, or the link broke; or all had been moved before."""
    return row != before or row.get("messages_forwarded", 0) >= COUNT


@pytest.mark.parametrize("fault", ["down", *FAULTS])
def test_nothing_is_lost_by_a_link_that_breaks(server: ToxiproxyServer, fault: str) -> None:
    with Node(name="here") as here, Node(name="there") as there:
        (listen,) = free_ports(1)
        server.proxies["link"] = Proxy("link", listen, f"{there.host}:{there.port}")
        server.start()
        connection = pika.BlockingConnection(pika.URLParameters(there.url))
        channel = connection.channel()
        channel.queue_declare("q", durable=True)
        channel.confirm_delivery()
        for number in range(COUNT):
            channel.basic_publish("", "q", b"%05d" % number + bytes(250))
        connection.close()
        value = {
            "src-uri": f"amqp://guest:guest@127.0.0.1:{listen}?connection_timeout=3000",
            "src-queue": "q",
            "src-prefetch-count": 100,
            "dest-uri": "amqp:///%2F",
            "dest-queue": "q",
            "reconnect-delay": 0.1,
        }
        api = HttpApi(here.management_url)
        api.put("/parameters/shovel/%2F/s", {"value": value})
        place = "/shovels/vhost/%2F/s"
        for least in (200, 600, 1_000):
            eventually(lambda: api.get(place).get("messages_forwarded", 0) >= least)  # noqa: B023
            if fault == "down":
                server.down("link")
                eventually(lambda: api.get(place)["state"] != "running")
            else:
                server.add("link", FAULTS[fault])
                before = api.get(place)
                eventually(lambda: has_changed(api.get(place), before))  # noqa: B023
            server.heal()
        left = HttpApi(there.management_url)
        eventually(lambda: left.get("/queues/%2F/q")["messages"] == 0, seconds=40)
        assert len({body[:5] for body in everything(here)}) == COUNT


PREFETCH = 100
LOST_ACKS = Toxic("timeout", "upstream", {"timeout": 0})
TARGETS = {
    "amqp091": {"dest-uri": "amqp:///%2F", "dest-queue": "q"},
    "amqp10": {"dest-protocol": "amqp10", "dest-address": "/queues/q"},
}


@pytest.mark.parametrize("protocol", TARGETS)
def test_a_shovel_that_marks_ids_brings_nothing_twice(
    server: ToxiproxyServer, protocol: str
) -> None:
    """The source loses the acknowledgements of a whole prefetch, twice."""
    with Node(name="here") as here, Node(name="there") as there:
        (listen,) = free_ports(1)
        server.proxies["link"] = Proxy("link", listen, f"{there.host}:{there.port}")
        server.start()
        api, away = HttpApi(here.management_url), HttpApi(there.management_url)
        arguments = {"x-queue-type": "quorum", "x-id-cache-size": 1_000}
        api.put("/queues/%2F/q", {"durable": True, "arguments": arguments})
        away.put("/queues/%2F/q", {"durable": True, "arguments": {"x-queue-type": "quorum"}})
        value = {
            "src-uri": f"amqp://guest:guest@127.0.0.1:{listen}?connection_timeout=3000",
            "src-queue": "q",
            "src-prefetch-count": PREFETCH,
            "dest-uri": here.url,
            "reconnect-delay": 0.1,
            "federation-dedup": True,
            **TARGETS[protocol],
        }
        api.put("/parameters/shovel/%2F/s", {"value": value})
        place = "/shovels/vhost/%2F/s"
        for first in (0, 2 * PREFETCH):
            eventually(lambda: api.get(place)["state"] == "running")
            server.add("link", LOST_ACKS)
            half, end = first + PREFETCH, first + 2 * PREFETCH
            published(there, range(first, end))
            eventually(lambda: depth(here) == half, lambda: depth(here))  # noqa: B023
            server.down("link")
            eventually(lambda: api.get(place)["state"] != "running")
            server.heal()
            eventually(lambda: depth(here) >= end, lambda: depth(here))  # noqa: B023
            eventually(lambda: away.get("/queues/%2F/q")["messages"] == 0)
        found = sorted(int(body) for body in everything(here))
        assert found == list(range(4 * PREFETCH))


def published(node: Node, numbers: range) -> None:
    connection = pika.BlockingConnection(pika.URLParameters(node.url))
    channel = connection.channel()
    channel.confirm_delivery()
    for number in numbers:
        channel.basic_publish("", "q", b"%d" % number, pika.BasicProperties(delivery_mode=2))
    connection.close()


def depth(node: Node) -> int:
    connection = pika.BlockingConnection(pika.URLParameters(node.url))
    ready = connection.channel().queue_declare("q", passive=True).method.message_count
    connection.close()
    return int(ready)


def everything(node: Node) -> list[bytes]:
    """The bodies of all messages of the queue."""
    connection = pika.BlockingConnection(pika.URLParameters(node.url))
    channel = connection.channel()
    ready = channel.queue_declare("q", passive=True).method.message_count
    found = [channel.basic_get("q", auto_ack=True)[2] for _ in range(ready)]
    connection.close()
    return [bytes(each) for each in found]

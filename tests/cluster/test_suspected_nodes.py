"""Nodes that cannot be reached while their clients hold messages (0036)."""

import time
from collections.abc import Iterator
from typing import Any

import pika
import pytest

from tests.cluster.leaders import without_node
from tests.waiting import eventually
from warren.testing import ClusterOfNodes, Node
from warren.testing.http_api import HttpApi

SETTINGS = {
    "consumer_disconnected_timeout": "2000",
    "cluster.home_down_ms": "1000",
    "cluster.partition_handling": "ignore",
}
QUORUM = {"x-queue-type": "quorum", "x-quorum-initial-group-size": 1}


@pytest.fixture(scope="module")
def cluster() -> Iterator[ClusterOfNodes]:
    with ClusterOfNodes(2, settings=SETTINGS) as started:
        policy = {"pattern": "^tries", "definition": {"max-delivery-attempts": 5}}
        HttpApi(started.node(1).management_url).put("/policies/%2F/tries", policy)
        policy = {"pattern": "^brief", "definition": {"consumer-disconnected-timeout": 100}}
        HttpApi(started.node(1).management_url).put("/policies/%2F/brief", policy)
        yield started


def channel_on(cluster: ClusterOfNodes, number: int) -> Any:
    parameters = pika.URLParameters(cluster.node(number).url)
    parameters.heartbeat = 0
    return pika.BlockingConnection(parameters).channel()


def returned_after(
    cluster: ClusterOfNodes, name: str, arguments: dict[str, Any]
) -> tuple[float, dict[str, Any]]:
    """Seconds until what a consumer on a paused node held is ready again, and its headers."""
    near, far = channel_on(cluster, 1), channel_on(cluster, 2)
    near.queue_declare(name, durable=True, arguments=arguments)
    near.basic_publish("", name, b"held")
    eventually(lambda: far.basic_get(name)[0] is not None)
    with without_node(cluster, 2, Node.pause):
        began = time.monotonic()
        got = eventually(lambda: taken(near, name))
        return time.monotonic() - began, got.headers or {}


def taken(channel: Any, name: str) -> Any:
    return channel.basic_get(name)[1]


@pytest.mark.parametrize(
    ("name", "arguments", "least_s", "most_s"),
    [
        ("default", QUORUM, 2.0, 8.0),
        ("own", QUORUM | {"x-consumer-disconnected-timeout": 4000}, 4.0, 10.0),
        ("brief", QUORUM, 0.1, 2.0),
        ("tries-classic", {}, 0.5, 8.0),
    ],
)
def test_messages_held_on_a_paused_node_return_in_time_and_have_not_failed(
    cluster: ClusterOfNodes, name: str, arguments: dict[str, Any], least_s: float, most_s: float
) -> None:
    seconds, headers = returned_after(cluster, name, arguments)
    assert least_s <= seconds <= most_s
    assert (headers.get("x-acquired-count"), headers.get("x-delivery-count", 0)) == (1, 0)

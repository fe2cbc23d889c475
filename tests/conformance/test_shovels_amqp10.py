"""Shovels whose source or target speaks AMQP 1.0, or is the cluster itself."""

from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

import pytest

from tests.conformance.test_shovels import drained, fill, shovel, state
from tests.waiting import eventually
from warren.testing import Node
from warren.testing.http_api import HttpApi

COUNT = 700


@pytest.fixture(scope="module")
def here() -> Iterator[Node]:
    with Node(name="here") as node:
        yield node


@pytest.fixture(scope="module")
def there() -> Iterator[Node]:
    with Node(name="there") as node:
        yield node


def source(protocol: str, node: Node, queue: str) -> dict[str, Any]:
    if protocol == "amqp10":
        ends = {"src_address": f"/queues/{queue}"}
    else:
        ends = {"src_queue": queue}
    return {"src_protocol": protocol, "src_uri": node.url, "src_prefetch_count": 64, **ends}


def target(protocol: str, node: Node, queue: str) -> dict[str, Any]:
    if protocol == "amqp10":
        ends = {"dest_address": f"/queues/{queue}"}
    else:
        ends = {"dest_queue": queue}
    return {"dest_protocol": protocol, "dest_uri": node.url, **ends}


@pytest.mark.parametrize("mode", ["on-confirm", "on-publish"])
@pytest.mark.parametrize(
    "pair", [("amqp10", "amqp10"), ("amqp10", "amqp091"), ("amqp091", "amqp10")]
)
def test_all_messages_arrive_in_order_between_protocols(
    here: Node, there: Node, pair: tuple[str, str], mode: str
) -> None:
    name = "-".join(("p", *pair, mode))
    api = HttpApi(here.management_url)
    api.put(f"/queues/%2F/{name}", {"durable": True})
    fill(there, name, COUNT, headers={"n": 7, "x-own": "kept"}, message_id="m")
    shovel(
        here,
        name,
        **source(pair[0], there, name),
        **target(pair[1], here, name),
        ack_mode=mode,
        dest_add_forward_headers=True,
        dest_add_timestamp_header=True,
    )
    found = drained(here, name, COUNT)
    assert [int(body) for _, body in found] == list(range(COUNT))
    properties = found[0][0]
    assert (properties.message_id, properties.delivery_mode) == ("m", 2)
    assert (properties.headers["n"], properties.headers["x-own"]) == (7, "kept")
    if pair[1] == "amqp10":
        assert properties.headers["x-opt-shovel-name"] == name
        assert properties.headers["x-opt-shovelled-timestamp"] > 1e12
    else:
        assert properties.headers["x-shovelled"][0]["shovel-name"] == name
    away = HttpApi(there.management_url)
    eventually(lambda: away.get(f"/queues/%2F/{name}")["messages"] == 0)
    row = api.get(f"/shovels/vhost/%2F/{name}")
    assert (row["src_protocol"], row["dest_protocol"]) == pair
    assert row["messages_forwarded"] == COUNT
    api.delete(f"/parameters/shovel/%2F/{name}")


def test_amqp10_shovel_ends_after_its_number_of_messages(here: Node, there: Node) -> None:
    HttpApi(here.management_url).put("/queues/%2F/ten", {"durable": True})
    fill(there, "ten", 20)
    ends = source("amqp10", there, "ten") | target("amqp10", here, "ten")
    api = shovel(here, "ten", **ends, src_delete_after=10)
    eventually(lambda: api.ask("GET", "/parameters/shovel/%2F/ten")[0] == 404)
    eventually(lambda: HttpApi(there.management_url).get("/queues/%2F/ten")["messages_ready"] == 10)
    assert [int(body) for _, body in drained(here, "ten", 10)] == list(range(10))


def test_missing_address_is_shown_as_the_reason(here: Node, there: Node) -> None:
    ends = source("amqp10", there, "nowhere") | target("amqp10", here, "nowhere")
    api = shovel(here, "lost", **ends, reconnect_delay=0.2)
    eventually(lambda: state(api, "lost") == "terminated")
    assert "not-found" in api.get("/shovels/vhost/%2F/lost")["reason"]
    api.delete("/parameters/shovel/%2F/lost")


def test_refused_messages_stay_at_an_amqp10_source(here: Node, there: Node) -> None:
    api = HttpApi(here.management_url)
    arguments = {"x-max-length": 2, "x-overflow": "reject-publish"}
    api.put("/queues/%2F/narrow", {"durable": True, "arguments": arguments})
    fill(there, "narrow", 5)
    ends = source("amqp10", there, "narrow") | target("amqp10", here, "narrow")
    shovel(here, "narrow", **{**ends, "src_prefetch_count": 1}, reconnect_delay=0.1)
    eventually(lambda: state(api, "narrow") == "terminated")
    assert "did not take a message" in api.get("/shovels/vhost/%2F/narrow")["reason"]
    assert [int(body) for _, body in drained(here, "narrow", 5)] == list(range(5))
    api.delete("/parameters/shovel/%2F/narrow")


def test_local_shovel_moves_between_queues_of_its_cluster(here: Node) -> None:
    fill(here, "left", 300)
    uri = "amqp://no-such-host:1/%2F"
    api = shovel(
        here,
        "sideways",
        src_protocol="local",
        dest_protocol="local",
        src_uri=uri,
        dest_uri=uri,
        src_queue="left",
        dest_queue="right",
    )
    assert [int(body) for _, body in drained(here, "right", 300)] == list(range(300))
    assert api.get("/shovels/vhost/%2F/sideways")["src_protocol"] == "local"
    api.delete("/parameters/shovel/%2F/sideways")


def test_the_window_of_the_session_has_room_for_the_prefetch(here: Node, there: Node) -> None:
    """A smaller one is used up within a round trip of a slow line."""
    api, away = HttpApi(here.management_url), HttpApi(there.management_url)
    for each in (api, away):
        each.put("/queues/%2F/wide", {"durable": True})
    ends = source("amqp10", there, "wide") | target("amqp10", here, "wide")
    shovel(here, "wide", **{**ends, "src_prefetch_count": 3000})

    def sessions() -> list[dict[str, Any]]:
        names = [row["name"] for row in away.get("/connections") if "1-0" in row["protocol"]]
        return [one for name in names for one in away.get(f"/connections/{quote(name)}/sessions")]

    eventually(lambda: [each for each in sessions() if each["outgoing_links"]], sessions)
    (session,) = sessions()
    assert session["remote_incoming_window"] >= 3000, session
    api.delete("/parameters/shovel/%2F/wide")

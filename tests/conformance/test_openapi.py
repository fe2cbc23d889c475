"""The OpenAPI document against a real node: what it answers is what the document says."""

import asyncio
import json
import re
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

import pytest
import rabbitmq_amqp_python_client as rabbitmq

from tests.conformance.broker import Broker
from tests.conformance.openapi_judge import Judge
from warren.client import connect
from warren.testing import Node
from warren.testing.http_api import HttpApi

VHOST = "open/api"
# What stands for the names in paths: one of each kind that is there.
NAMES = {
    "vhost": VHOST,
    "queue": "quorum",
    "exchange": "topic",
    "source": "topic",
    "destination": "quorum",
    "kind": "q",
    "key": "a.%23",
    "end": "source",
    "user": "guest",
    "component": "shovel",
    "state": "running",
    "link": "00000000",
    "password": "secret",
    "protocol": "amqp",
    "pattern": "^q",
    "limit": "max-queues",
    "lease": "lease",
    "within": "1",
    "unit": "days",
}
# Of paths in which `name` is the name of something else than a policy.
NAMED = {
    "/api/parameters/{component}/{vhost}/{name}": "parameter",
    "/api/global-parameters/{name}": "global",
    "/api/shovels/vhost/{vhost}/{name}": "parameter",
    "/api/policies/{vhost}/{name}": "policy",
    "/api/operator-policies/{vhost}/{name}": "operator",
}
CLASSIC, MODERN = "AMQP 0-9-1", "AMQP 1-0"
# Answers that never end, and what needs a client of the stream protocol.
STREAMS = frozenset({"/api/events", "/api/stream/connections/{vhost}/{name}"})
TRACKING = "/api/stream/{vhost}/{queue}/tracking"


@pytest.fixture(scope="module")
def node(broker: Broker) -> Node:
    if broker.node is None:
        pytest.skip("WARREN_TEST_URL: this broker is not ours")
    return broker.node


@pytest.fixture(scope="module")
def api(node: Node) -> HttpApi:
    return HttpApi(node.management_url)


async def open_lease(node: Node) -> None:
    url = f"amqp://guest:guest@{node.host}:{node.port}/{quote(VHOST, safe='')}"
    async with await connect(url, follow=None) as connection:
        await (await connection.management()).request("PUT", "/leases/quorum/lease")


@pytest.fixture(scope="module")
def filled(node: Node, api: HttpApi) -> Iterator[HttpApi]:
    """A node with objects of all kinds, consumers and connections of both protocols."""
    vhost = quote(VHOST, safe="")
    api.put(f"/vhosts/{vhost}", {"description": "d", "tags": "a,b", "default_queue_type": "quorum"})
    api.put(f"/queues/{vhost}/quorum", {"durable": True, "arguments": {"x-max-length": 9}})
    classic = {"arguments": {"x-queue-type": "classic", "x-expires": 60_000}}
    api.put(f"/queues/{vhost}/classic", classic)
    log = {"durable": True, "arguments": {"x-queue-type": "stream"}}
    api.put(f"/queues/{vhost}/log", log)
    api.put(f"/exchanges/{vhost}/topic", {"type": "topic", "durable": True})
    api.ask("POST", f"/bindings/{vhost}/e/topic/q/quorum", {"routing_key": "a.#"})
    api.ask("POST", f"/bindings/{vhost}/e/topic/q/classic", {"arguments": {"x": [1, {"y": None}]}})
    policy = {"pattern": "^q", "definition": {"max-length": 5}, "priority": 2}
    api.put(f"/policies/{vhost}/policy", policy)
    api.put(f"/operator-policies/{vhost}/operator", policy)
    nowhere = "amqp://127.0.0.1:1"
    shovel = {"src-uri": nowhere, "src-queue": "q", "dest-uri": nowhere, "dest-queue": "q"}
    api.put(f"/parameters/shovel/{vhost}/parameter", {"value": shovel})
    api.put("/global-parameters/global", {"value": [1]})
    api.put(f"/vhost-limits/{vhost}/max-queues", {"value": 99})
    api.put("/user-limits/guest/max-channels", {"value": 99})
    topic = {"exchange": "topic", "write": ".*", "read": ".*"}
    api.put(f"/topic-permissions/{vhost}/guest", topic)
    message = {"routing_key": "a.b", "payload": "x", "payload_encoding": "string"}
    api.post(f"/exchanges/{vhost}/topic/publish", {**message, "properties": {"priority": 3}})
    connection = Broker(node.host, node.port, node).connect(vhost=VHOST)
    channel = connection.channel()
    channel.basic_consume("classic", lambda *_: None)
    channel.queue_declare("mine", exclusive=True, arguments={"x-queue-type": "classic"})
    modern = rabbitmq.Environment(f"amqp://guest:guest@{node.host}:{node.port}/").connection()
    modern.dial()
    asyncio.run(open_lease(node))
    yield api
    modern.close()
    connection.close()
    for path in (
        f"/vhosts/{vhost}",
        "/global-parameters/global",
        "/user-limits/guest/max-channels",
    ):
        api.delete(path)


@pytest.fixture(scope="module")
def document(api: HttpApi) -> Any:
    return api.get("/openapi.json")


def filled_in(path: str, node: Node, connections: dict[str, str]) -> str:
    """The path of an object that is there."""

    def name(hole: re.Match[str]) -> str:
        key = hole[1]
        if key == "name":
            if path in NAMED:
                found = NAMED[path]
            elif path.startswith("/api/nodes"):
                found = node_name
            elif path.startswith("/api/channels"):
                found = f"{connections[CLASSIC]} (1)"
            else:
                found = connections[MODERN if path.endswith("/sessions") else CLASSIC]
        elif path == TRACKING and key == "queue":
            found = "log"
        elif key == "node":
            found = node_name
        elif key == "port":
            found = str(node.port)
        else:
            found = NAMES[key]
        return quote(found, safe="")

    node_name = HttpApi(node.management_url).get("/overview")["node"]
    return re.sub(r"\{([^}]+)\}", name, path).removeprefix("/api")


def test_what_the_node_answers_is_what_the_document_says(
    node: Node, filled: HttpApi, document: Any
) -> None:
    judge = Judge(document, strict=True)
    connections = {each["protocol"]: each["name"] for each in filled.get("/connections")}
    wrong: dict[str, list[str]] = {}
    for path, methods in document["paths"].items():
        if "get" not in methods or path in STREAMS:
            continue
        asked = filled_in(path, node, connections)
        for query in ("", "?page=1&page_size=2") if has_pages(methods["get"]) else ("",):
            status, answer = filled.ask("GET", asked + query)
            faults = judge.faults("GET", path, status, answer)
            if status != 200:
                faults.insert(0, f"{status} {json.dumps(answer)[:200]}")
            if faults:
                wrong[asked + query] = faults
    assert wrong == {}, json.dumps(wrong, indent=1)


def has_pages(operation: Any) -> bool:
    return any(each["name"] == "page" for each in operation["parameters"])


def test_refusals_have_their_schema_too(filled: HttpApi, document: Any) -> None:
    judge = Judge(document, strict=True)
    for method, path, asked, body in (
        ("GET", "/api/queues/{vhost}/{queue}", "/queues/%2F/none", None),
        ("PUT", "/api/users/{user}", "/users/u", {}),
        ("POST", "/api/queues/{vhost}/{queue}/get", "/queues/%2F/none/get", {}),
        ("DELETE", "/api/vhosts/{vhost}", "/vhosts/none", None),
        ("GET", "/api/health/checks/port-listener/{port}", "/health/checks/port-listener/1", None),
    ):
        status, answer = filled.ask(method, asked, body)
        assert status >= 400
        assert judge.faults(method, path, status, answer) == [], (asked, answer)


def test_an_answer_that_the_document_does_not_know_would_be_found(document: Any) -> None:
    judge = Judge(document, strict=True)
    path = "/api/whoami"
    good = {"name": "a", "tags": [], "is_internal_user": True}
    assert judge.faults("GET", path, 200, good) == []
    assert judge.faults("GET", path, 200, {**good, "more": 1})
    assert judge.faults("GET", path, 200, {"name": "a", "tags": []})
    assert judge.faults("GET", path, 200, {**good, "tags": "a"})
    assert judge.faults("GET", path, 418, good)

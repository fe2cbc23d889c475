"""The HTTP API that writes: RabbitMQ's paths, bodies, statuses and texts, against a real node."""

import asyncio
import base64
import json
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pika
import pika.exceptions
import pytest

from node.build import installed_version
from node.cli.warrenctl import main
from tests.conformance.broker import CONFIG, Broker
from tests.conformance.raw10 import END, Raw10
from warren import client as warren_client
from warren.testing import Node
from warren.testing.http_api import HttpApi, part

USERS = """
[[users]]
name = "maker"
password = "maker"
tags = ["policymaker"]
permissions = [{ vhost = "/", configure = "^m", write = "^m", read = "^m" }]

[[users]]
name = "watch"
password = "watch"
tags = ["monitoring"]
"""
RIGHTS = {"configure": ".*", "write": ".*", "read": ".*"}
MESSAGE = {"routing_key": "q", "properties": {}, "payload": "a", "payload_encoding": "string"}
TAKE = {"ackmode": "ack_requeue_false", "count": 5, "encoding": "auto"}


@pytest.fixture(scope="module")
def node() -> Iterator[Node]:
    with Node(name="http-api", config=CONFIG + USERS) as running:
        yield running


@pytest.fixture(scope="module")
def shared(node: Node) -> HttpApi:
    return HttpApi(node.management_url)


@pytest.fixture
def api(shared: HttpApi) -> Iterator[HttpApi]:
    """With a vhost `v`, which goes after the test with all in it."""
    shared.put("/vhosts/v", {"description": "of a test"})
    yield shared
    shared.ask("DELETE", "/vhosts/v")


def user(node: Node, name: str, password: str | None = None) -> HttpApi:
    return HttpApi(node.management_url, name, password)


def connect(node: Node, name: str = "guest", vhost: str = "/") -> Any:
    return Broker(node.host, node.port, node).connect(name, vhost=vhost)


# Vhosts and users


def test_a_vhost_is_made_changed_protected_and_deleted(shared: HttpApi) -> None:
    path = "/vhosts/" + part("a/b %")
    assert shared.put(path, {"description": "d", "tags": "one, two"}) == 201
    assert shared.put(path, {"tracing": True}) == 204
    row = shared.get(path)
    assert (row["description"], row["tags"], row["tracing"]) == ("d", ["one", "two"], True)
    assert shared.post(path + "/deletion/protection", {}) is None
    status, reason = shared.refused("DELETE", path)
    assert status == 412 and "protected from deletion" in reason
    assert shared.delete(path + "/deletion/protection") == 204
    assert shared.delete(path) == 204
    assert shared.refused("DELETE", path)[0] == 404
    assert shared.refused("PUT", path, {"default_queue_type": "best"}) == (
        400,
        "Unsupported default queue type: best",
    )


def test_queues_get_the_default_type_of_their_vhost(api: HttpApi) -> None:
    api.put("/vhosts/v", {"default_queue_type": "quorum"})
    api.put("/queues/v/q", {"durable": True})
    assert api.get("/queues/v/q")["type"] == "quorum"
    assert api.get("/queues/v/q")["arguments"] == {"x-queue-type": "quorum"}


def test_deleting_a_vhost_closes_its_connections_and_deletes_very_many_queues(
    node: Node, shared: HttpApi
) -> None:
    shared.put("/vhosts/many", {})
    rows = [{"name": f"q{n}", "vhost": "many", "durable": True} for n in range(700)]
    shared.post("/definitions", {"queues": rows})
    connection = connect(node, vhost="many")
    assert shared.delete("/vhosts/many") == 204
    with pytest.raises(pika.exceptions.ConnectionClosedByBroker):
        connection.process_data_events(5)
    assert "many" not in [each["name"] for each in shared.get("/vhosts")]
    assert shared.get("/overview")["object_totals"]["queues"] == 0


def test_a_user_is_made_with_a_password_or_a_hash(node: Node, shared: HttpApi) -> None:
    hashed = shared.get("/auth/hash_password/s3cret")["ok"]
    assert shared.put("/users/u", {"password": "one", "tags": "management"}) == 201
    assert user(node, "u", "one").get("/whoami") == {
        "name": "u",
        "tags": ["management"],
        "is_internal_user": True,
    }
    assert shared.put("/users/u", {"password_hash": hashed, "tags": ["monitoring"]}) == 204
    assert user(node, "u", "s3cret").get("/whoami")["tags"] == ["monitoring"]
    assert user(node, "u", "one").refused("GET", "/whoami")[0] == 401
    assert "u" in [each["name"] for each in shared.get("/users/without-permissions")]
    shared.put("/users/u2", {"password_hash": "", "tags": []})
    shared.post("/users/bulk-delete", {"users": ["u", "u2"]})
    assert shared.refused("GET", "/users/u")[0] == 404


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ({"password": "p"}, "tags_not_present"),
        (
            {"password": "p", "password_hash": "", "tags": ""},
            "both_password_and_password_hash_are_provided",
        ),
        ({"password": 5, "tags": ""}, "password should be a string, actually was 5"),
        ({"password_hash": "x", "tags": ""}, ["not_base64", "x"]),
        (
            {"password_hash": "", "hashing_algorithm": "md5", "tags": ""},
            "unknown hashing_algorithm of user 'u': md5",
        ),
        ({"password": "p", "tags": 1}, "tags should be a list of strings, actually was 1"),
        (b"[1]", "not_json"),
        (b'{"a', "not_json"),
        (b'{"tags": "", "password": "\\ud800"}', "not_json"),
        (b"[" * 5000, "not_json"),
    ],
)
def test_what_is_no_user_is_refused(shared: HttpApi, body: object, reason: object) -> None:
    assert shared.refused("PUT", "/users/u", body) == (400, reason)


# Rights


def test_permissions_hold_at_once(node: Node, api: HttpApi) -> None:
    api.put("/users/u", {"password": "u", "tags": "management"})
    mine = user(node, "u")
    assert mine.refused("PUT", "/queues/v/q", {}) == (
        401,
        "User not authorised to access virtual host",
    )
    body = {"configure": "^a", "write": "", "read": ".*"}
    assert api.put("/permissions/v/u", body) == 201
    assert api.put("/permissions/v/u", body) == 204
    assert api.get("/permissions/v/u") == {"user": "u", "vhost": "v", **body}
    assert api.get("/users/u/permissions") == [{"user": "u", "vhost": "v", **body}]
    assert mine.put("/queues/v/a", {}) == 201
    assert mine.refused("PUT", "/queues/v/b", {})[0] == 401
    assert mine.refused("POST", "/exchanges/v/amq.default/publish", MESSAGE)[0] == 401
    assert api.delete("/permissions/v/u") == 204
    assert mine.refused("GET", "/queues/v")[0] == 401
    assert api.refused("PUT", "/permissions/v/u", {**body, "read": "("})[0] == 400
    unknown = (400, "vhost_or_user_not_found")
    assert api.refused("PUT", "/permissions/v/absent", body) == unknown
    assert api.refused("PUT", "/permissions/none/u", body) == unknown
    api.delete("/users/u")


def test_topic_permissions_are_set_and_cleared(api: HttpApi) -> None:
    body = {"exchange": "amq.topic", "write": "^a", "read": "^b"}
    assert api.put("/topic-permissions/v/guest", body) == 201
    assert api.get("/topic-permissions/v/guest") == [{"user": "guest", "vhost": "v", **body}]
    assert api.get("/vhosts/v/topic-permissions") == api.get("/topic-permissions/v/guest")
    assert api.delete("/topic-permissions/v/guest") == 204
    assert api.refused("GET", "/topic-permissions/v/guest")[0] == 404


def test_topic_permissions_hold_for_publishing_and_binding(node: Node, api: HttpApi) -> None:
    api.put("/queues/v/q", {})
    body = {"exchange": "amq.topic", "write": "^{username}.a$", "read": "^b"}
    api.put("/topic-permissions/v/guest", body)
    path = "/exchanges/v/amq.topic/publish"
    assert api.post(path, {**MESSAGE, "routing_key": "guest.a"}) == {"routed": False}
    refused = (401, "Access refused.")
    assert api.refused("POST", path, {**MESSAGE, "routing_key": "x"}) == refused
    pair = "/bindings/v/e/amq.topic/q/q"
    assert api.refused("POST", pair, {"routing_key": "a"})[0] == 401
    assert api.ask("POST", pair, {"routing_key": "b"})[0] == 201
    connection = connect(node, vhost="v")
    channel = connection.channel()
    channel.confirm_delivery()
    channel.basic_publish("amq.topic", "guest.a", b"")
    copied = pika.BasicProperties(headers={"CC": ["guest.a", "x"]})
    with pytest.raises(pika.exceptions.ChannelClosedByBroker, match="access to topic 'x'"):
        channel.basic_publish("amq.topic", "guest.a", b"", copied)
    properties = {"headers": {"CC": ["x"]}}
    more = {**MESSAGE, "routing_key": "guest.a", "properties": properties}
    assert api.refused("POST", path, more) == refused
    channel = connection.channel()
    channel.confirm_delivery()
    with pytest.raises(pika.exceptions.ChannelClosedByBroker, match="access to topic"):
        channel.basic_publish("amq.topic", "x", b"")
    connection.close()


ADMINISTRATORS_ALONE: list[tuple[str, str, object]] = [
    ("PUT", "/vhosts/w", {}),
    ("DELETE", "/vhosts/w", None),
    ("PUT", "/users/w", {"password": "", "tags": ""}),
    ("DELETE", "/users/guest", None),
    ("POST", "/users/bulk-delete", {"users": []}),
    ("GET", "/permissions", None),
    ("PUT", "/permissions/%2F/guest", RIGHTS),
    ("PUT", "/operator-policies/%2F/p", {"pattern": "", "definition": {"expires": 1}}),
    ("PUT", "/vhost-limits/%2F/max-queues", {"value": 1}),
    ("PUT", "/user-limits/guest/max-channels", {"value": 1}),
    ("GET", "/definitions", None),
    ("POST", "/definitions", {}),
    ("PUT", "/cluster-name", {"name": "n"}),
]


@pytest.mark.parametrize(("method", "path", "body"), ADMINISTRATORS_ALONE)
@pytest.mark.parametrize("name", ["maker", "watch"])
def test_what_is_the_administrators_is_refused_to_others(
    node: Node, name: str, method: str, path: str, body: object
) -> None:
    assert user(node, name).refused(method, path, body)[0] == 401


def test_policymakers_set_policies_and_parameters_in_their_vhosts(node: Node, api: HttpApi) -> None:
    maker = user(node, "maker")
    policy = {"pattern": "^none$", "definition": {"expires": 1000}}
    assert maker.put("/policies/%2F/m", policy) == 201
    assert maker.refused("PUT", "/policies/v/m", policy)[0] == 401
    assert user(node, "watch").refused("GET", "/policies/%2F/m")[0] == 401
    assert [each["name"] for each in user(node, "watch").get("/policies")] == ["m"]
    value: dict[str, object] = {"src-uri": "amqp://127.0.0.1:1", "dest-uri": "amqp://127.0.0.1:1"}
    status, reason = maker.refused("PUT", "/parameters/shovel/%2F/s", {"value": value})
    assert (status, "Must specify 'src-exchange'" in reason) == (400, True)
    value["src-queue"] = "q"
    assert maker.put("/parameters/shovel/%2F/s", {"value": value}) == 201
    assert maker.get("/parameters/shovel/%2F/s")["value"] == value
    assert maker.refused("PUT", "/parameters/nothing/%2F/s", {"value": 1})[0] == 400
    for path in ("/policies/%2F/m", "/parameters/shovel/%2F/s"):
        assert maker.delete(path) == 204


def test_global_parameters_and_the_name_of_the_cluster(shared: HttpApi) -> None:
    assert shared.put("/global-parameters/mine", {"value": [1, {"a": None}]}) == 201
    assert shared.get("/global-parameters/mine") == {"name": "mine", "value": [1, {"a": None}]}
    assert shared.put("/cluster-name", {"name": "ours"}) == 204
    assert shared.get("/cluster-name") == {"name": "ours"}
    assert shared.get("/overview")["cluster_name"] == "ours"
    for name in ("mine", "cluster_name"):
        shared.delete(f"/global-parameters/{name}")


def test_limits_of_vhosts_and_users_are_kept(node: Node, api: HttpApi) -> None:
    api.put("/vhost-limits/v/max-queues", {"value": 1})
    api.put("/vhost-limits/v/max-connections", {"value": 0})
    assert {"vhost": "v", "value": {"max-queues": 1, "max-connections": 0}} in api.get(
        "/vhost-limits"
    )
    api.put("/queues/v/q", {})
    text = "cannot declare queue 'r': queue limit in vhost 'v' (1) is reached"
    assert api.refused("PUT", "/queues/v/r", {}) == (400, text)
    with pytest.raises(pika.exceptions.ProbableAccessDeniedError, match="limit"):
        connect(node, vhost="v")
    api.delete("/vhost-limits/v/max-connections")
    connect(node, vhost="v").close()
    api.put("/user-limits/limited/max-connections", {"value": 0})
    with pytest.raises(pika.exceptions.ProbableAccessDeniedError, match="user connection limit"):
        connect(node, "limited")
    api.delete("/user-limits/limited/max-connections")
    api.put("/user-limits/limited/max-channels", {"value": 1})
    connection = connect(node, "limited")
    connection.channel()
    with pytest.raises(pika.exceptions.ConnectionClosedByBroker, match="number of channels"):
        connection.channel()
    with Raw10(node.host, node.port) as client:
        client.open("limited")
        client.begin(0)
        client.begin(1)
        assert client.expect(END).error == "amqp:resource-limit-exceeded"
    api.delete("/user-limits/limited/max-channels")
    assert api.get("/user-limits/limited") == []
    assert api.refused("PUT", "/vhost-limits/v/max-noise", {"value": 1})[0] == 400
    assert api.refused("PUT", "/vhost-limits/v/max-queues", {"value": "1"})[0] == 400


# Exchanges, queues, bindings


def test_exchanges_are_declared_and_deleted(api: HttpApi) -> None:
    body = {"type": "topic", "auto_delete": False, "arguments": {"alternate-exchange": "a"}}
    assert api.put("/exchanges/v/x", body) == 201
    assert api.put("/exchanges/v/x", body) == 204
    row = api.get("/exchanges/v/x?columns=type,durable,arguments")
    assert row == {"type": "topic", "durable": False, "arguments": body["arguments"]}
    text = "inequivalent arg 'type' for exchange 'x' in vhost 'v': received 'fanout' but current"
    assert api.refused("PUT", "/exchanges/v/x", {"type": "fanout"}) == (400, f"{text} is 'topic'")
    assert api.refused("PUT", "/exchanges/v/y", {"type": "none"})[0] == 400
    assert api.refused("PUT", "/exchanges/v/amq.mine", {"type": "fanout"})[0] == 401
    assert api.refused("DELETE", "/exchanges/v/none")[0] == 404
    assert api.delete("/exchanges/v/x") == 204


def test_queues_are_declared_purged_and_deleted(api: HttpApi) -> None:
    body = {"durable": True, "arguments": {"x-max-length": 9}}
    assert api.put("/queues/v/q", body) == 201
    assert api.put("/queues/v/q", body) == 204
    text = "inequivalent arg 'x-max-length' for queue 'q' in vhost 'v': received '8' but current"
    other = {"durable": True, "arguments": {"x-max-length": 8}}
    assert api.refused("PUT", "/queues/v/q", other) == (400, f"{text} is '9'")
    api.post("/exchanges/v/amq.default/publish", MESSAGE)
    assert api.refused("DELETE", "/queues/v/q?if-empty=true") == (
        400,
        "queue 'q' in vhost 'v' not empty",
    )
    assert api.refused("DELETE", "/queues/v/q?if-unused=true&if-empty=true")[0] == 400
    assert api.post("/exchanges/v/amq.default/publish", MESSAGE)["routed"], "it serves on"
    assert api.delete("/queues/v/q/contents") == 204
    assert api.delete("/queues/v/q?if-empty=true&if-unused=true") == 204
    assert api.refused("DELETE", "/queues/v/q")[0] == 404
    assert api.refused("DELETE", "/queues/v/q/contents")[0] == 404


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ({"durable": "maybe"}, ["not_boolean", "maybe"]),
        ({"arguments": [1]}, "arguments should be a map, actually was [{signedint,1}]"),
        (
            {"arguments": {"x-max-length": -1}},
            "invalid arg 'x-max-length' for queue 'q' in vhost 'v': {value_negative,-1}",
        ),
        (b"\xff", "not_json"),
    ],
)
def test_what_is_no_queue_is_refused(api: HttpApi, body: object, reason: object) -> None:
    assert api.refused("PUT", "/queues/v/q", body) == (400, reason)


def test_bindings_are_named_by_key_and_arguments(api: HttpApi) -> None:
    api.put("/queues/v/q", {})
    pair = "/bindings/v/e/amq.topic/q/q"
    for body in ({}, {"routing_key": "a.#/~ b"}, {"routing_key": "k", "arguments": {"z": 1}}):
        assert api.ask("POST", pair, body)[0] == 201
    rows = {each["routing_key"]: each for each in api.get(pair)}
    assert rows[""]["properties_key"] == "~"
    assert rows["a.#/~ b"]["properties_key"] == "a.%23%2F%7E+b"
    assert rows["k"]["properties_key"].startswith("k~")
    for row in rows.values():
        path = f"{pair}/{part(row['properties_key'])}"
        assert api.get(path) == row
        assert api.delete(path) == 204
    assert api.get(pair) == []
    assert [each["source"] for each in api.get("/queues/v/q/bindings")] == [""]
    api.put("/exchanges/v/x", {"type": "fanout"})
    assert api.ask("POST", "/bindings/v/e/amq.topic/e/x", {"routing_key": "k"})[0] == 201
    assert len(api.get("/exchanges/v/x/bindings/destination")) == 1
    assert len(api.get("/exchanges/v/amq.topic/bindings/source")) == 1
    assert api.refused("POST", "/bindings/v/e/amq.topic/q/none", {})[0] == 404
    assert api.refused("GET", pair + "/none")[0] == 404


# Messages


def test_messages_are_published_and_got_with_their_properties(api: HttpApi) -> None:
    api.put("/queues/v/q", {})
    properties = {"delivery_mode": 2, "headers": {"a": [1, "x"]}, "content_type": "text/plain"}
    sent = {**MESSAGE, "payload": "grüß", "properties": properties}
    assert api.post("/exchanges/v/amq.default/publish", sent) == {"routed": True}
    raw = base64.b64encode(b"\xff\x00").decode()
    api.post(
        "/exchanges/v/amq.default/publish",
        {**MESSAGE, "payload": raw, "payload_encoding": "base64"},
    )
    first, second = api.post("/queues/v/q/get", {**TAKE, "ackmode": "ack_requeue_true"})
    assert first == {
        "payload_bytes": 6,
        "redelivered": False,
        "exchange": "",
        "routing_key": "q",
        "message_count": 1,
        "properties": properties,
        "payload": "grüß",
        "payload_encoding": "string",
    }
    assert (second["payload"], second["payload_encoding"]) == (raw, "base64")
    assert second["properties"] == []
    (again,) = api.post("/queues/v/q/get", {**TAKE, "count": 1, "truncate": 2})
    assert (again["payload"], again["redelivered"], again["payload_bytes"]) == ("gr", True, 6)
    lost = {**MESSAGE, "routing_key": "nowhere"}
    assert api.post("/exchanges/v/amq.default/publish", lost) == {"routed": False}


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({}, 400),
        ({**MESSAGE, "payload_encoding": "none"}, 400),
        ({**MESSAGE, "payload": "%", "payload_encoding": "base64"}, 400),
        ({**MESSAGE, "properties": {"expiration": "soon"}}, 400),
        ({**MESSAGE, "properties": {"priority": 256}}, 400),
        ({**MESSAGE, "properties": {"user_id": "maker"}}, 400),
        ({**MESSAGE, "properties": {"headers": {"CC": 5}}}, 400),
        ({**MESSAGE, "properties": {"content_type": "x" * 256}}, 400),
        ({**MESSAGE, "routing_key": "k" * 256}, 400),
    ],
)
def test_what_is_no_message_is_refused(api: HttpApi, body: object, status: int) -> None:
    assert api.refused("POST", "/exchanges/v/amq.default/publish", body)[0] == status
    assert api.refused("POST", "/exchanges/v/none/publish", MESSAGE)[0] == 404


@pytest.mark.parametrize(
    ("mode", "left"),
    [
        ("ack_requeue_true", 1),
        ("ack_requeue_false", 0),
        ("reject_requeue_true", 1),
        ("reject_requeue_false", 0),
    ],
)
@pytest.mark.parametrize("kind", ["classic", "quorum"])
def test_what_becomes_of_a_message_that_was_got(
    api: HttpApi, kind: str, mode: str, left: int
) -> None:
    api.put("/queues/v/q", {"durable": True, "arguments": {"x-queue-type": kind}})
    api.post("/exchanges/v/amq.default/publish", MESSAGE)
    assert len(api.post("/queues/v/q/get", {**TAKE, "ackmode": mode})) == 1
    assert len(api.post("/queues/v/q/get", TAKE)) == left
    assert api.refused("POST", "/queues/v/q/get", {**TAKE, "ackmode": "keep"})[0] == 400
    assert api.refused("POST", "/queues/v/none/get", TAKE)[0] == 404


# Definitions


def test_what_is_exported_can_be_imported_again(node: Node, api: HttpApi) -> None:
    api.put("/queues/v/q", {"durable": True, "arguments": {"x-max-length": 5}})
    api.put("/queues/v/brief", {"durable": False})
    api.put("/exchanges/v/x", {"type": "headers", "durable": True})
    api.ask("POST", "/bindings/v/e/x/q/q", {"routing_key": "k", "arguments": {"x-match": "any"}})
    policy = {"pattern": "^q", "definition": {"max-length": 3}, "priority": 2}
    api.put("/policies/v/p", policy)
    api.put("/operator-policies/v/o", policy)
    api.put("/vhost-limits/v/max-queues", {"value": 7})
    api.put("/topic-permissions/v/guest", {"exchange": "amq.topic", "write": "a", "read": "b"})
    api.put("/users/u", {"password": "secret", "tags": "management"})
    api.put("/user-limits/u/max-channels", {"value": 4})
    whole = api.get("/definitions")
    of_vhost = api.get("/definitions/v")
    assert [each["name"] for each in of_vhost["queues"]] == ["q"]
    assert [each["component"] for each in of_vhost["parameters"]] == [
        "operator_policy",
        "vhost-limits",
    ]
    assert not [each for each in whole["exchanges"] if each["name"].startswith("amq.")]
    api.delete("/vhosts/v")
    api.delete("/users/u")
    api.post("/definitions", whole)
    assert api.get("/definitions") == whole
    api.post("/definitions", whole)
    assert user(node, "u", "secret").get("/whoami")["name"] == "u"
    api.delete("/vhosts/v")
    api.put("/vhosts/v", {})
    api.post("/definitions/v", of_vhost)
    again = api.get("/definitions/v")
    assert [again[key] for key in ("queues", "bindings", "policies", "parameters")] == [
        of_vhost[key] for key in ("queues", "bindings", "policies", "parameters")
    ]
    api.delete("/users/u")


def test_an_import_that_says_what_cannot_be_does_nothing(api: HttpApi) -> None:
    rows = [{"name": "q", "vhost": "v"}, {"vhost": "v"}]
    assert api.refused("POST", "/definitions", {"queues": rows}) == (400, "[{key_missing,name}]")
    assert api.refused("POST", "/definitions", {"queues": {}})[0] == 400
    assert api.get("/queues/v") == []
    missing = [{"name": "q", "vhost": "none"}]
    reason = 'Please create virtual host "none" prior to importing definitions.'
    assert api.refused("POST", "/definitions", {"queues": missing}) == (400, reason)


def test_what_rabbitmq_exports_is_imported(node: Node, shared: HttpApi) -> None:
    """An export of RabbitMQ 4.0.5, of the cluster and of one vhost."""
    folder = Path(__file__).parent / "definitions"
    whole = json.loads((folder / "rabbitmq-4.0.5.json").read_text())
    of_shop = json.loads((folder / "rabbitmq-4.0.5-shop.json").read_text())
    shared.post("/definitions", whole)
    shared.post("/definitions/shop", of_shop)
    assert user(node, "anna", "secret").get("/whoami")["tags"] == ["monitoring"]
    again = shared.get("/definitions")
    for part_of in ("queues", "exchanges", "policies", "parameters", "topic_permissions"):
        rows = [{**each, "type": None} for each in again[part_of]]
        assert all({**each, "type": None} in rows for each in whole[part_of])
    letters = shared.get("/queues/shop/letters")
    assert (letters["policy"], letters["type"]) == ("limit", "classic")
    assert shared.get("/queues/shop/orders")["type"] == "quorum"
    sent = {**MESSAGE, "routing_key": "order.new"}
    assert shared.post("/exchanges/shop/in/publish", sent) == {"routed": True}
    assert shared.get("/vhosts/shop")["tags"] == ["one", "two"]
    assert shared.get("/user-limits/anna") == [{"user": "anna", "value": {"max-channels": 10}}]
    assert letters["effective_policy_definition"]["max-length"] == 5
    assert letters["operator_policy"] == "ops"
    for path in ("/vhosts/shop", "/users/anna", "/global-parameters/cluster_name"):
        shared.delete(path)
    shared.put("/users/guest", {"password": "guest", "tags": "administrator"})


def test_an_export_of_rabbitmq_3_is_imported(node: Node, shared: HttpApi) -> None:
    hashed = shared.get("/auth/hash_password/old")["ok"]
    mirrors = {"ha-mode": "exactly", "ha-params": 2, "ha-sync-mode": "automatic"}
    limits = [{"name": "max-queues", "value": 5}]
    operator = {
        "pattern": "^q",
        "definition": {"expires": 9000},
        "priority": 1,
        "apply-to": "queues",
    }
    old = {
        "rabbit_version": "3.8.9",
        "users": [{"name": "old", "password_hash": hashed, "tags": "management,monitoring"}],
        "vhosts": [{"name": "old", "limits": limits, "default_queue_type": "undefined"}],
        "permissions": [{"user": "old", "vhost": "old", **RIGHTS}],
        "parameters": [
            {"vhost": "old", "component": "operator_policy", "name": "o", "value": operator}
        ],
        "policies": [
            {"vhost": "old", "name": "m", "pattern": "", "definition": mirrors, "priority": 0}
        ],
        "queues": [
            {"name": "q", "vhost": "old", "durable": True, "arguments": {"x-expires": 60000}}
        ],
        "exchanges": [{"name": "x", "vhost": "old", "type": "headers", "durable": True}],
        "bindings": [
            {
                "source": "x",
                "vhost": "old",
                "destination": "q",
                "destination_type": "queue",
                "routing_key": "",
                "arguments": {"x-match": "all", "n": 1},
            }
        ],
    }
    shared.post("/definitions", old)
    shown = user(node, "old", "old").get("/queues/old/q")
    assert (shown["policy"], shown["operator_policy"]) == ("m", "o")
    assert shared.get("/vhost-limits/old") == [{"vhost": "old", "value": {"max-queues": 5}}]
    assert len(shared.get("/bindings/old/e/x/q/q")) == 1
    for path in ("/vhosts/old", "/users/old"):
        shared.delete(path)


# Lists, connections, health


def test_lists_can_be_searched_by_an_expression(api: HttpApi) -> None:
    for name in ("ab", "bb", "cc"):
        api.put(f"/queues/v/{name}", {})
    page = api.get("/queues/v?page=1&use_regex=true&name=" + part("^[ab]b$") + "&columns=name")
    assert page["items"] == [{"name": "ab"}, {"name": "bb"}]
    assert api.refused("GET", "/queues/v?use_regex=true&name=(")[0] == 400


def test_connections_are_listed_and_closed_by_user_and_vhost(node: Node, api: HttpApi) -> None:
    connection = connect(node, vhost="v")
    (row,) = api.get("/vhosts/v/connections")
    assert [each["name"] for each in api.get("/connections/username/guest")] == [row["name"]]
    assert api.get("/connections/username/maker") == []
    assert user(node, "maker").refused("DELETE", "/connections/username/guest")[0] == 401
    assert api.delete("/connections/username/guest") == 204
    with pytest.raises(pika.exceptions.ConnectionClosedByBroker):
        connection.process_data_events(5)


def test_a_message_goes_through_for_the_aliveness_test(api: HttpApi) -> None:
    assert api.get("/aliveness-test/v") == {"status": "ok"}
    checks = "/health/checks"
    assert api.get(f"{checks}/below-node-connection-limit")["status"] == "ok"
    assert api.get(f"{checks}/metadata-store/initialized/with-data") == {"status": "ok"}


def test_everything_is_there_after_a_restart(node: Node, shared: HttpApi) -> None:
    shared.put("/vhosts/w", {"default_queue_type": "quorum", "description": "kept"})
    shared.put("/policies/w/p", {"pattern": "^q", "definition": {"max-length": 3}})
    shared.put("/global-parameters/mine", {"value": 1})
    before = shared.get("/definitions")
    for kill in (node.kill9, node.stop):
        kill()
        node.start()
        assert shared.get("/definitions") == before
    shared.delete("/vhosts/w")
    shared.delete("/global-parameters/mine")


def test_a_request_that_leaves_does_not_take_its_change_along(node: Node, shared: HttpApi) -> None:
    pair = base64.b64encode(b"guest:guest").decode()
    head = f"PUT /api/vhosts/left HTTP/1.1\r\nHost: x\r\nAuthorization: Basic {pair}\r\n"
    with socket.create_connection((node.host, node.management_port)) as line:
        line.sendall((head + "Content-Length: 2\r\n\r\n{}").encode())
    deadline = time.monotonic() + 5
    while "left" not in [each["name"] for each in shared.get("/vhosts")]:
        assert time.monotonic() < deadline
    shared.delete("/vhosts/left")


def test_the_old_health_check_of_a_node_and_the_contexts(node: Node, shared: HttpApi) -> None:
    overview = shared.get("/overview")
    assert shared.get("/healthchecks/node") == {"status": "ok"}
    assert shared.get(f"/healthchecks/node/{part(overview['node'])}") == {"status": "ok"}
    status, reason = shared.refused("GET", "/healthchecks/node/n9")
    assert (status, reason) == (404, "node 'n9' is not a member of this cluster")
    (context,) = overview["contexts"]
    assert node.management_url.endswith(":" + context["port"])
    assert (context["description"], context["path"]) == ("Warren Management", "/")


def test_both_protocols_the_api_and_the_tools_report_one_version(
    node: Node, shared: HttpApi, capsys: pytest.CaptureFixture[str]
) -> None:
    with pika.BlockingConnection(pika.ConnectionParameters(node.host, node.port)) as connection:
        said = connection._impl.server_properties

    async def said_10() -> dict[str, object]:
        async with await warren_client.connect(node.url) as connection:
            return connection.server_properties

    by_10 = asyncio.run(said_10())
    overview = shared.get("/overview")
    assert overview["rabbitmq_version"] == overview["management_version"] == said["version"]
    assert shared.get("/version") == shared.get("/definitions")["rabbit_version"] == "4.3.0"
    assert by_10["version"] == said["version"] == "4.3.0"
    assert overview["product_name"] == said["product"] == by_10["implementation"] == "Warren"
    assert main(["--node-url", node.management_url, "status"]) == 0
    assert "RabbitMQ version: 4.3.0" in capsys.readouterr().out
    assert main(["-q", "--node-url", node.management_url, "server_version"]) == 0
    assert capsys.readouterr().out.strip() == overview["product_version"] == installed_version()

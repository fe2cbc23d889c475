"""Policies set by the API, and what they do at once to queues and exchanges that are there."""

from collections.abc import Iterator

import pytest

from tests.conformance.broker import CONFIG
from tests.waiting import eventually
from warren.testing import Node
from warren.testing.http_api import HttpApi

BODY = {"routing_key": "", "properties": {}, "payload": "x", "payload_encoding": "string"}
TAKE = {"ackmode": "ack_requeue_false", "count": 50, "encoding": "auto"}


@pytest.fixture(scope="module")
def node() -> Iterator[Node]:
    with Node(name="policies", config=CONFIG) as running:
        yield running


@pytest.fixture(scope="module")
def shared(node: Node) -> HttpApi:
    return HttpApi(node.management_url)


@pytest.fixture
def api(shared: HttpApi) -> Iterator[HttpApi]:
    """Without policies before, and after the test without its queues."""
    shared.put("/vhosts/v", {})
    yield shared
    shared.delete("/vhosts/v")


def policy(api: HttpApi, name: str, pattern: str, /, **definition: object) -> int:
    said = {key.replace("_", "-"): value for key, value in definition.items()}
    return api.put(f"/policies/v/{name}", {"pattern": pattern, "definition": said})


def queue(api: HttpApi, name: str = "q", **arguments: object) -> None:
    said = {"x-" + key.replace("_", "-"): value for key, value in arguments.items()}
    api.put(f"/queues/v/{name}", {"durable": True, "arguments": said})


def publish(api: HttpApi, *payloads: str, key: str = "q", exchange: str = "amq.default") -> bool:
    routed = True
    for payload in payloads:
        body = {**BODY, "routing_key": key, "payload": payload, "properties": {"delivery_mode": 2}}
        routed = api.post(f"/exchanges/v/{exchange}/publish", body)["routed"]
    return routed


def take(api: HttpApi, name: str = "q") -> list[str]:
    return [each["payload"] for each in api.post(f"/queues/v/{name}/get", TAKE)]


def ready(api: HttpApi, name: str = "q") -> int:
    return int(api.get(f"/queues/v/{name}")["messages_ready"])


def test_a_policy_is_made_changed_listed_and_removed(api: HttpApi) -> None:
    assert policy(api, "p", "^q", max_length=5) == 201
    assert policy(api, "p", "^q", max_length=6) == 204
    row = {
        "vhost": "v",
        "name": "p",
        "pattern": "^q",
        "apply-to": "all",
        "definition": {"max-length": 6},
        "priority": 0,
    }
    assert api.get("/policies/v/p") == row
    assert api.get("/policies/v") == [row] and row in api.get("/policies")
    assert api.get("/operator-policies/v") == []
    assert api.delete("/policies/v/p") == 204
    assert api.refused("GET", "/policies/v/p") == (404, "Not Found")
    assert api.refused("DELETE", "/policies/v/p") == (404, "Not Found")


def test_what_is_no_policy_is_refused_in_rabbitmqs_words(api: HttpApi) -> None:
    path = "/policies/v/p"
    assert api.refused("PUT", path, {}) == (400, "[{key_missing,pattern},{key_missing,definition}]")
    assert api.refused("PUT", path, b"{") == (400, "not_json")
    wrong = {"pattern": "^q", "definition": {"nonsense": True}}
    text = 'Validation failed\n\n[{<<"nonsense">>,true}] are not recognised policy settings\n'
    assert api.refused("PUT", path, wrong) == (400, text)
    assert api.refused("PUT", "/policies/none/p", wrong)[0] == 404
    limit = {"pattern": "", "definition": {"dead-letter-exchange": "x"}}
    assert api.refused("PUT", "/operator-policies/v/p", limit)[0] == 400


@pytest.mark.parametrize("kind", ["classic", "quorum"])
def test_a_length_limit_holds_at_once_and_goes_with_its_policy(api: HttpApi, kind: str) -> None:
    queue(api, queue_type=kind)
    publish(api, "1", "2", "3")
    policy(api, "p", "^q$", max_length=2)
    eventually(lambda: ready(api) == 2)
    publish(api, "4")
    shown = api.get("/queues/v/q")
    assert (shown["policy"], shown["effective_policy_definition"]) == ("p", {"max-length": 2})
    api.delete("/policies/v/p")
    publish(api, "5")
    assert take(api) == ["3", "4", "5"]
    assert api.get("/queues/v/q")["policy"] is None


@pytest.mark.parametrize("kind", ["classic", "quorum"])
def test_a_limit_on_bytes_can_begin_with_messages_there(api: HttpApi, kind: str) -> None:
    queue(api, queue_type=kind)
    publish(api, *("x" * 100 for _ in range(5)))
    policy(api, "p", "^q$", max_length_bytes=250)
    eventually(lambda: ready(api) == 2)
    publish(api, "y" * 200)
    eventually(lambda: ready(api) == 1)
    assert take(api) == ["y" * 200]


def test_of_an_argument_and_policies_the_smallest_length_holds(api: HttpApi) -> None:
    queue(api, max_length=3)
    policy(api, "p", "^q$", max_length=9)
    publish(api, "1", "2", "3", "4")
    assert ready(api) == 3
    limit = {"pattern": "^q$", "definition": {"max-length": 1}, "apply-to": "queues"}
    api.put("/operator-policies/v/o", limit)
    eventually(lambda: ready(api) == 1)
    shown = api.get("/queues/v/q")
    assert (shown["policy"], shown["operator_policy"]) == ("p", "o")
    assert shown["effective_policy_definition"] == {"max-length": 1}


def test_what_expires_by_policy_is_dead_lettered_by_policy(api: HttpApi) -> None:
    queue(api, "dead")
    queue(api)
    publish(api, "late")
    policy(api, "p", "^q$", message_ttl=50, dead_letter_exchange="", dead_letter_routing_key="dead")
    eventually(lambda: ready(api, "dead") == 1)
    assert take(api, "dead") == ["late"]


def test_a_full_queue_refuses_by_policy(api: HttpApi) -> None:
    queue(api)
    policy(api, "p", "^q$", max_length=1, overflow="reject-publish")
    assert publish(api, "1") is True
    assert publish(api, "2") is False
    assert take(api) == ["1"]


def test_queues_expire_by_policy_also_those_at_rest(api: HttpApi) -> None:
    queue(api)
    queue(api, "other")
    policy(api, "p", "^q$", expires=50)
    eventually(lambda: [each["name"] for each in api.get("/queues/v")] == ["other"])


def test_a_delivery_limit_by_policy_holds_for_quorum_queues(api: HttpApi) -> None:
    queue(api, queue_type="quorum")
    policy(api, "p", "^q$", delivery_limit=1)
    shown = api.get("/queues/v/q")
    assert shown["effective_policy_definition"] == {"delivery-limit": 1}


@pytest.mark.parametrize(
    ("kind", "holds", "ignored"),
    [
        ("classic", {"message-ttl": 60_000}, {"delivery-limit": 3, "max-age": "1h"}),
        ("stream", {"max-length-bytes": 9_000}, {"ha-mode": "all", "message-ttl": 60_000}),
    ],
)
def test_keys_for_queues_of_other_types_are_listed_as_warnings(
    api: HttpApi, kind: str, holds: dict[str, object], ignored: dict[str, object]
) -> None:
    queue(api, queue_type=kind)
    api.put("/policies/v/p", {"pattern": "^q$", "definition": holds | ignored})
    shown = api.get("/queues/v/q")
    assert (shown["policy"], shown["effective_policy_definition"]) == ("p", holds)
    assert sorted(shown["warnings"]) == [
        f"'{key}' has no effect on {kind} queues" for key in sorted(ignored)
    ]


def test_an_exchange_gets_its_alternate_by_policy(api: HttpApi) -> None:
    api.put("/exchanges/v/x", {"type": "fanout"})
    api.put("/exchanges/v/aside", {"type": "fanout"})
    queue(api)
    api.post("/bindings/v/e/aside/q/q", {})
    assert publish(api, "lost", exchange="x") is False
    policy(api, "p", "^x$", alternate_exchange="aside")
    assert publish(api, "found", exchange="x") is True
    assert api.get("/exchanges/v/x")["policy"] == "p"
    api.delete("/policies/v/p")
    assert publish(api, "lost", exchange="x") is False
    assert take(api) == ["found"]


def test_policies_and_what_they_did_outlive_a_stop_and_a_crash(node: Node, shared: HttpApi) -> None:
    shared.put("/vhosts/v", {})
    for kind in ("classic", "quorum"):
        queue(shared, kind, queue_type=kind)
    policy(shared, "p", "^(classic|quorum)$", max_length=1)
    for kind in ("classic", "quorum"):
        publish(shared, "1", "2", key=kind)
    queue(shared, "before", queue_type="quorum")  # What it took before the policy, it has taken.
    publish(shared, "1", "2", key="before")
    shared.post("/queues/v/before/get", {**TAKE, "count": 1})
    policy(shared, "full", "^before$", max_length=1, overflow="reject-publish")
    node.restart()  # Now the policy is there before the log of the queue is read.
    assert take(shared, "before") == ["2"]
    node.kill9()
    node.start()
    for kind in ("classic", "quorum"):
        publish(shared, "3", key=kind)
        assert take(shared, kind) == ["3"]
    shared.delete("/vhosts/v")


def test_a_policy_reaches_very_many_queues(api: HttpApi) -> None:
    rows = [{"name": f"q{number}", "vhost": "v", "durable": True} for number in range(600)]
    api.post("/definitions", {"queues": rows})
    for number in (0, 599):
        publish(api, "1", "2", key=f"q{number}")
    policy(api, "p", "^q", max_length=1)
    assert [ready(api, name) for name in ("q0", "q599")] == [1, 1]

"""Definitions in and out: exports of RabbitMQ, files that are broken, unchanged or very long."""

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import pytest

from tests.conformance.broker import CONFIG
from warren.testing import Node
from warren.testing.http_api import HttpApi

FOLDER = Path(__file__).parent / "definitions"
QUEUE = {"vhost": "v", "durable": True}


@pytest.fixture(scope="module")
def node() -> Iterator[Node]:
    with Node(name="definitions", config=CONFIG) as running:
        yield running


@pytest.fixture(scope="module")
def shared(node: Node) -> HttpApi:
    return HttpApi(node.management_url)


@pytest.fixture
def api(shared: HttpApi) -> Iterator[HttpApi]:
    """With a vhost `v`, which goes after the test with all in it."""
    shared.put("/vhosts/v", {})
    yield shared
    shared.ask("DELETE", "/vhosts/v")


def rows(count: int, **more: Any) -> list[dict[str, Any]]:
    return [{"name": f"q{number}", **QUEUE, **more} for number in range(count)]


def lines(node: Node, path: str, body: object) -> list[Any]:
    """What a watched import says."""
    url = node.management_url + "/api" + path
    login = {"Authorization": "Basic Z3Vlc3Q6Z3Vlc3Q="}
    request = Request(url, data=json.dumps(body).encode(), headers=login, method="POST")
    with urlopen(request, timeout=30) as reply:
        assert reply.headers["Content-Type"] == "application/x-ndjson"
        return [json.loads(each) for each in reply.read().splitlines()]


# Of RabbitMQ 3.13, written after its documentation


def export_of_3_13(hashed: str) -> dict[str, Any]:
    """Its user clerk has the password of that hash."""
    text = (FOLDER / "rabbitmq-3.13.json").read_text().replace('"HASH"', json.dumps(hashed))
    file: dict[str, Any] = json.loads(text)
    if "argon2" in hashed:
        file["users"][0]["hashing_algorithm"] = "argon2id"
    return file


def test_an_export_of_rabbitmq_3_13_is_imported_whole_and_again(
    node: Node, shared: HttpApi
) -> None:
    file = export_of_3_13(shared.get("/auth/hash_password/ink")["ok"])
    assert shared.post("/definitions", file) is None, "nothing is without effect"
    first = shared.get("/definitions")
    assert shared.post("/definitions", file) is None
    (mirrors,) = shared.get("/policies/ledger")
    assert "ha-mode" in mirrors["definition"]
    assert shared.get("/definitions") == first
    clerk = HttpApi(node.management_url, "clerk", "ink")
    assert clerk.get("/whoami")["tags"] == ["management"]
    letters = clerk.get("/queues/ledger/old-letters")
    assert (letters["policy"], letters["operator_policy"]) == ("mirrors", "bounds")
    effective = letters["effective_policy_definition"]
    assert {"max-length": 100_000, "queue-mode": "lazy"}.items() <= effective.items()
    assert effective["ha-mode"] == mirrors["definition"]["ha-mode"]
    assert letters["slave_nodes"] == []
    assert clerk.get("/queues/ledger/invoices")["type"] == "quorum"
    assert shared.get("/vhosts/ledger")["tags"] == ["money"]
    assert shared.get("/vhost-limits/ledger") == [{"vhost": "ledger", "value": {"max-queues": 50}}]
    assert shared.get("/user-limits/clerk")[0]["value"] == {"max-connections": 7}
    assert len(shared.get("/bindings/ledger/e/entrance/e/billing")) == 1
    assert shared.get("/topic-permissions/ledger/clerk")[0]["write"] == "^invoice\\."
    exported = shared.get("/definitions")
    for part in ("queues", "exchanges", "bindings", "policies", "parameters"):
        assert all(each in exported[part] for each in file[part]), part
    for path in ("/vhosts/ledger", "/users/clerk", "/global-parameters/internal_cluster_id"):
        shared.delete(path)


def test_what_has_no_effect_is_told_in_the_answer_in_the_log_and_on_the_queue(
    node: Node, api: HttpApi
) -> None:
    policy = {"pattern": "^old$", "definition": {"max-length": 9, "queue-version": 2}}
    file = {
        "queues": [{"name": "old", **QUEUE}],
        "policies": [{"name": "versions", "vhost": "v", "apply-to": "queues", **policy}],
    }
    (told,) = api.post("/definitions", file)["warnings"]
    assert told.startswith("policy 'versions' in vhost 'v': 'queue-version' has no effect")
    assert told in node.log()
    assert api.get("/policies/v/versions")["warnings"] == [told]
    row = api.get("/queues/v/old")
    assert row["effective_policy_definition"] == {"max-length": 9}
    assert "'queue-version' has no effect" in str(row["warnings"])
    refusal = {**policy, "apply-to": "queues", "priority": 0}
    assert api.refused("PUT", "/policies/v/versions", refusal)[0] == 400


# Broken files


@pytest.mark.parametrize(
    ("part", "row", "reason"),
    [
        ("queues", {"name": "r", **QUEUE, "arguments": {"x-max-length": -1}}, "x-max-length"),
        ("queues", {"name": "r", **QUEUE, "arguments": {"x-queue-type": "none"}}, "x-queue-type"),
        ("queues", {"name": "x" * 256, **QUEUE}, "longer than 255"),
        ("exchanges", {"name": "x", "vhost": "v", "type": "none"}, "unknown exchange type 'none'"),
        (
            "bindings",
            {
                "source": "amq.topic",
                "vhost": "v",
                "destination": "none",
                "destination_type": "queue",
                "routing_key": "k",
                "arguments": {},
            },
            "bindings[0]: no queue 'none' in vhost 'v'",
        ),
        (
            "permissions",
            {"user": "absent", "vhost": "v", "configure": "", "write": "", "read": ""},
            "permissions[0]: no user 'absent'",
        ),
        ("policies", {"name": "p", "vhost": "v", "pattern": "(", "definition": {}}, "Validation"),
        ("queues", 5, "queues is not a list of objects"),
    ],
)
def test_a_file_with_one_thing_that_cannot_be_changes_nothing(
    api: HttpApi, part: str, row: Any, reason: str
) -> None:
    file: dict[str, list[Any]] = {"queues": rows(300)}
    file.setdefault(part, []).append(row)
    file["vhosts"] = [{"name": "v", "description": "changed"}]
    status, told = api.refused("POST", "/definitions", file)
    assert status in (400, 404) and reason in told, told
    assert api.get("/queues/v") == []
    assert api.get("/vhosts/v")["description"] == ""


def test_what_is_no_file_is_refused(api: HttpApi) -> None:
    for raw in (b"", b"{}", b"\xef\xbb\xbf{}"):
        assert api.ask("POST", "/definitions", raw)[0] == 204
    for raw in (b"[]", b'{"queues": [{}', b'{"queues": [{"a": }]}'):
        assert api.refused("POST", "/definitions", raw)[0] == 400


def test_bindings_find_what_the_same_file_declares(api: HttpApi) -> None:
    binding = {
        "source": "x",
        "vhost": "v",
        "destination": "q0",
        "destination_type": "queue",
        "routing_key": "k",
    }
    exchange = {"name": "x", "vhost": "v", "type": "direct"}
    api.post("/definitions", {"bindings": [binding], "queues": rows(1), "exchanges": [exchange]})
    assert len(api.get("/bindings/v/e/x/q/q0")) == 1


def test_a_limit_in_the_way_is_found_before_anything_is_done(api: HttpApi) -> None:
    api.put("/vhost-limits/v/max-queues", {"value": 5})
    status, told = api.refused("POST", "/definitions", {"queues": rows(9)})
    assert status == 400 and "queues[5]" in told and "nothing was imported" in told
    assert api.get("/queues/v") == []


# The same file again


def test_a_file_that_has_not_changed_is_skipped_if_one_asks_for_that(api: HttpApi) -> None:
    file = {"queues": rows(3)}
    api.post("/definitions?skip_if_unchanged=true", file)
    api.delete("/queues/v/q1")
    api.post("/definitions?skip_if_unchanged=true", file)
    assert [each["name"] for each in api.get("/queues/v")] == ["q0", "q2"]
    api.post("/definitions", file)
    assert len(api.get("/queues/v")) == 3
    api.post("/definitions?skip_if_unchanged=true", {"queues": rows(4)})
    assert len(api.get("/queues/v")) == 4
    names = [each["name"] for each in api.get("/global-parameters")]
    assert names == [each["name"] for each in api.get("/definitions")["global_parameters"]] == []
    assert api.refused("POST", "/definitions?skip_if_unchanged=perhaps", file)[0] == 400


def test_files_of_a_vhost_are_told_apart_from_those_of_the_cluster(api: HttpApi) -> None:
    of_vhost = {"queues": [{"name": "q", "durable": True}]}
    api.post("/definitions/v?skip_if_unchanged=true", of_vhost)
    api.post("/definitions?skip_if_unchanged=true", {"queues": rows(1)})
    api.delete("/queues/v/q")
    api.post("/definitions/v?skip_if_unchanged=true", of_vhost)
    assert [each["name"] for each in api.get("/queues/v")] == ["q0"]


# Long files


def test_a_long_import_tells_how_far_it_is_and_stops_nobody(node: Node, api: HttpApi) -> None:
    count = 3000
    told = lines(node, "/definitions?progress=true", {"queues": rows(count)})
    assert told[-1] == {"status": "ok"}
    assert [each["total"] for each in told[:-1]] == [count] * (len(told) - 1)
    done = [each["done"] for each in told[:-1]]
    assert done == sorted(done) and done[-1] == count and len(done) > 5
    page = api.get("/queues/v?page=1&page_size=1&columns=name")
    assert page["total_count"] == count


def test_a_watched_import_that_fails_says_so(node: Node, api: HttpApi) -> None:
    """What is found before anything is done is an error; lines come when it has begun."""
    bad = {"queues": [{"name": "r", **QUEUE, "arguments": {"x-max-length": -1}}]}
    assert api.refused("POST", "/definitions?progress=true", bad)[0] == 400


def test_what_was_imported_is_there_after_a_restart(node: Node, api: HttpApi) -> None:
    api.post("/definitions?skip_if_unchanged=true", {"queues": rows(300)})
    before = api.get("/definitions")
    node.kill9()
    node.start()
    assert api.get("/definitions") == before
    api.delete("/queues/v/q7")
    started = time.monotonic()
    api.post("/definitions?skip_if_unchanged=true", {"queues": rows(300)})
    assert len(api.get("/queues/v")) == 299
    assert time.monotonic() - started < 20

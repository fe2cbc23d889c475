"""Requests that schemathesis makes of the OpenAPI document, against a real node.

Whatever they say, the node answers as its document says, never with 500, and logs no fault of its
own. `WARREN_FUZZ=n` asks n times as much (`make fuzz-http`); WARREN_FUZZ_SEED makes other requests.
"""

import json
import os
from collections.abc import Iterator
from typing import Any

import hypothesis
import pytest
import requests
import schemathesis
from schemathesis import GenerationMode

from tests.conformance.broker import CONFIG
from tests.conformance.openapi_judge import Judge
from warren.testing import Node
from warren.testing.http_api import HttpApi

TIMES = int(os.environ.get("WARREN_FUZZ", "1"))
SEED = int(os.environ.get("WARREN_FUZZ_SEED", "9"))
ODD = ["a/b", "..", "%2F", "\x00", "é" * 127, "x" * 256, "amq.topic", "~", "{}", "q?#&="]
# Names in paths: what is there, what is not, and what is no name.
NAMES: dict[str, list[str]] = {
    "vhost": ["/", "/", "/", "v", "none"],
    "queue": ["q", "q", "quorum", "none"],
    "exchange": ["amq.topic", "x", "amq.default", "none"],
    "source": ["amq.topic", "x", "amq.default", "none"],
    "destination": ["q", "x", "none"],
    "kind": ["q", "e"],
    "user": ["victim", "none"],
    "node": ["none"],
    "name": ["p", "none"],
    "component": ["shovel", "none"],
    "limit": ["max-queues", "max-connections", "max-channels", "none"],
    "end": ["source", "destination", "none"],
}
MODES = (GenerationMode.NEGATIVE, GenerationMode.POSITIVE)  # in turn, if there is little time
ENDLESS = frozenset({"/api/events"})


@pytest.fixture(scope="module")
def node() -> Iterator[Node]:
    with Node(name="fuzz", config=CONFIG) as running:
        yield running


@pytest.fixture(scope="module")
def document(node: Node) -> Any:
    """Of a node with some objects."""
    api = HttpApi(node.management_url)
    api.put("/vhosts/v", {})
    api.put("/users/victim", {"password": "v", "tags": "management"})
    api.put("/permissions/%2F/victim", {"configure": ".*", "write": ".*", "read": ".*"})
    api.put("/queues/%2F/q", {})
    api.put("/queues/%2F/quorum", {"durable": True, "arguments": {"x-queue-type": "quorum"}})
    api.put("/exchanges/%2F/x", {"type": "headers"})
    api.ask("POST", "/bindings/%2F/e/x/q/q", {"arguments": {"x-match": "any", "a": 1}})
    api.put("/policies/%2F/p", {"pattern": "^q", "definition": {"max-length": 50}})
    nowhere = "amqp://127.0.0.1:1"
    shovel = {"src-uri": nowhere, "src-queue": "q", "dest-uri": nowhere, "dest-queue": "q"}
    api.put("/parameters/shovel/%2F/p", {"value": shovel})
    return api.get("/openapi.json")


def pointed(document: Any) -> Any:
    """The document with names in its paths that lead somewhere."""
    made = json.loads(json.dumps(document))
    for path, methods in made["paths"].items():
        for method, entry in methods.items():
            for parameter in entry["parameters"]:
                if parameter["in"] == "path":
                    known = NAMES.get(parameter["name"], ["none", "1"])
                    if (method, path) == ("delete", "/api/vhosts/{vhost}"):
                        known = ["v", "none"]
                    parameter["schema"] = {"enum": [*known, *ODD]}
        assert path.startswith("/api/")
    return made


def operations(document: Any, node: Node) -> list[Any]:
    schema = schemathesis.openapi.from_dict(pointed(document))
    schema.config.update(base_url=node.management_url)
    every: list[Any] = list(schema.get_all_operations())
    found = [each.ok() for each in every]
    # What is deleted is deleted last.
    found.sort(key=lambda each: each.method.upper() == "DELETE")
    return [each for each in found if each.path not in ENDLESS]


def cases(operation: Any, mode: GenerationMode, count: int) -> list[Any]:
    """Requests for it; where there is nothing that could be wrong, good ones."""
    made: list[Any] = []

    @hypothesis.seed(SEED)
    @hypothesis.settings(
        max_examples=count,
        database=None,
        deadline=None,
        phases=(hypothesis.Phase.generate,),
        suppress_health_check=list(hypothesis.HealthCheck),
    )
    @hypothesis.given(case=operation.as_strategy(generation_mode=mode))
    def draw(case: Any) -> None:
        made.append(case)

    try:
        draw()
    except hypothesis.errors.Unsatisfiable:
        return cases(operation, GenerationMode.POSITIVE, count) if mode != MODES[1] else []
    return made


def faults(judge: Judge, case: Any, reply: requests.Response) -> list[str]:
    """What is wrong with the answer."""
    status = reply.status_code
    if status >= 500 and status != 503:
        return [f"{status} {reply.text[:200]}"]
    try:
        answer = reply.json() if reply.content else None
    except ValueError:
        return [f"no JSON: {reply.text[:100]}"]
    is_refusal = status >= 400 and "/health/" not in case.path and "aliveness" not in case.path
    if is_refusal and set(answer or ()) != {"error", "reason"}:
        return [f"{status} without error and reason: {reply.text[:100]}"]
    if status in (404, 405) and case.operation.path != case.path:
        return []
    found = judge.faults(case.method, case.operation.path, status, answer)
    return [] if status in (404, 405) and found and "is not in" in found[0] else found


@pytest.mark.timeout(150 + 20 * TIMES)
def test_whatever_is_asked_the_node_answers_as_its_document_says(node: Node, document: Any) -> None:
    judge = Judge(document, strict=False)
    wrong: dict[str, list[str]] = {}
    asked = 0
    with requests.Session() as session:
        for place, operation in enumerate(operations(document, node)):
            for mode in MODES if TIMES > 1 else MODES[place % 2 :][:1]:
                for case in cases(operation, mode, TIMES):
                    reply = case.call(session=session, auth=("guest", "guest"), timeout=20)
                    asked += 1
                    found = faults(judge, case, reply)
                    if found:
                        wrong[case.as_curl_command()[:600]] = found
    assert wrong == {}, json.dumps(wrong, indent=1)
    assert asked > 100
    assert node.is_running() and "Traceback" not in node.log()
    assert HttpApi(node.management_url).get("/health/checks/alarms") == {"status": "ok"}

"""What is wrong with a request, and what the API says: never a 500, always `{error, reason}`."""

import base64
import gzip
import http.client
import json
from collections.abc import Iterator
from typing import Any

import pika
import pika.exceptions
import pytest

from tests.conformance.broker import CONFIG, Broker
from warren.testing import Node
from warren.testing.http_api import HttpApi

LOGIN = "Basic " + base64.b64encode(b"guest:guest").decode()
LONG = "x" * 256
DEEP = b'{"a":' * 65 + b"1" + b"}" * 65
FULL = '{"value": %s}'
HUGE = 10**30


@pytest.fixture(scope="module")
def node() -> Iterator[Node]:
    with Node(name="http-faults", config=CONFIG) as running:
        yield running


@pytest.fixture(scope="module")
def api(node: Node) -> HttpApi:
    shared = HttpApi(node.management_url)
    shared.put("/queues/%2F/q", {"durable": True})
    shared.put("/users/u", {"password": "u", "tags": ""})
    return shared


class Line:
    """Requests as they are written, whatever a library would make of them."""

    def __init__(self, node: Node) -> None:
        self._place = (node.host, node.management_port)

    def ask(
        self, method: str, target: str, body: bytes = b"", **headers: str
    ) -> tuple[int, Any, dict[str, str]]:
        """Status, answer, headers. Names of headers have `_` for `-`."""
        line = http.client.HTTPConnection(*self._place, timeout=20)
        named = {key.replace("_", "-"): value for key, value in headers.items()}
        line.putrequest(method, "/", skip_accept_encoding=True)
        # The library refuses some of the targets that are asked for here.
        line._buffer[0] = b"%s %s HTTP/1.1" % (  # type: ignore[attr-defined]
            method.encode(),
            target.encode("latin-1"),
        )
        if "Authorization" not in named:
            named["Authorization"] = LOGIN
        named.setdefault("Content-Length", str(len(body)))
        for name, value in named.items():
            line.putheader(name, value.encode("latin-1"))
        line.endheaders(body)
        with line.getresponse() as reply:
            raw = reply.read()
            told = {name.lower(): value for name, value in reply.getheaders()}
        line.close()
        is_json = told.get("content-type") == "application/json"
        return reply.status, json.loads(raw) if is_json and raw else None, told

    def refused(
        self, method: str, target: str, body: bytes = b"", **headers: str
    ) -> tuple[int, Any]:
        status, answer, _ = self.ask(method, target, body, **headers)
        assert status >= 400 and set(answer) == {"error", "reason"}, (status, answer)
        return status, answer["reason"]


@pytest.fixture(scope="module")
def line(node: Node, api: HttpApi) -> Line:
    return Line(node)


# Paths


@pytest.mark.parametrize(
    ("target", "status"),
    [
        ("/api/queues/%FF", 400),
        ("/api/queues/%2F/%C3%28", 400),
        ("/api/queues?name=%FF&page=1", 400),
        ("/api/queues/%ED%A0%80", 400),
        ("/api/queues/%2F/%00", 404),
        ("/api/queues/%2F/..", 404),
        ("/api/queues/%2F/../../../etc/passwd", 404),
        ("/api/queues/%2F/..%2F..%2Fetc%2Fpasswd", 404),
        ("/../pyproject.toml", 404),
        ("/%2e%2e/pyproject.toml", 404),
        ("/main.js%00.html", 404),
        ("/page/../main.py", 404),
        ("//api//queues", 404),
        ("/api//queues", 404),
        ("/api/queues//q", 404),
        ("/api/none", 404),
        ("/api/queues/%2F/" + "x" * 5000, 404),
        ("/api/queues/%2F/q/none", 404),
    ],
)
def test_a_path_that_names_nothing(line: Line, target: str, status: int) -> None:
    assert line.refused("GET", target)[0] == status


def test_what_is_no_http_is_400_without_more(line: Line) -> None:
    """Before there is a request that could be answered in JSON."""
    for target in ("/api/queues/\xff", "/api/queues\x01", "api", "http://[/"):
        assert line.ask("GET", target)[0] == 400
    assert line.ask("BREW", "/api/whoami")[0] == 400


def test_names_in_paths_are_taken_as_they_are_encoded(line: Line, api: HttpApi) -> None:
    for name in ("a%252Fb", "%2e%2e", "a%20b%3F%23%25", "%E2%82%AC%F0%9F%90%87", "%7B%7D%5C%22'"):
        assert line.ask("PUT", f"/api/queues/%2F/{name}", b"{}")[0] == 201
        status, row, _ = line.ask("GET", f"/api/queues/%2F/{name}")
        assert status == 200 and row["vhost"] == "/"
        assert line.ask("DELETE", f"/api/queues/%2F/{name}")[0] == 204
    assert [each["name"] for each in api.get("/queues")] == ["q"]


LONG_NAMES: list[tuple[str, object]] = [
    ("/queues/%2F/", {}),
    ("/exchanges/%2F/", {}),
    ("/vhosts/", {}),
    ("/users/", {"password": "", "tags": ""}),
    ("/policies/%2F/", {"pattern": "", "definition": {"max-length": 1}}),
    ("/operator-policies/%2F/", {"pattern": "", "definition": {"max-length": 1}}),
    ("/global-parameters/", {"value": 1}),
]


@pytest.mark.parametrize(("path", "body"), LONG_NAMES)
def test_no_name_is_longer_than_the_wire_allows(api: HttpApi, path: str, body: object) -> None:
    assert api.refused("PUT", path + LONG, body)[0] == 400
    assert api.refused("PUT", path + "%C3%A9" * 128, body)[0] == 400
    assert api.put(path + "x" * 255, body) == 201
    assert api.delete(path + "x" * 255) == 204


# Methods


@pytest.mark.parametrize(
    ("method", "target", "allowed"),
    [
        ("POST", "/api/queues", "GET, HEAD"),
        ("PATCH", "/api/queues/%2F/q", "DELETE, GET, HEAD, PUT"),
        ("GET", "/api/queues/%2F/q/get", "POST"),
        ("DELETE", "/api/overview", "GET, HEAD"),
    ],
)
def test_a_wrong_method_is_told_which_there_are(
    line: Line, method: str, target: str, allowed: str
) -> None:
    status, answer, headers = line.ask(method, target)
    assert (status, headers["allow"]) == (405, allowed)
    assert set(answer) == {"error", "reason"}


# Bodies


WRITES: list[tuple[str, str]] = [
    ("PUT", "/api/queues/%2F/q"),
    ("PUT", "/api/exchanges/%2F/x"),
    ("PUT", "/api/users/v"),
    ("PUT", "/api/vhosts/w"),
    ("PUT", "/api/policies/%2F/p"),
    ("PUT", "/api/parameters/shovel/%2F/s"),
    ("PUT", "/api/global-parameters/g"),
    ("PUT", "/api/cluster-name"),
    ("PUT", "/api/permissions/%2F/u"),
    ("PUT", "/api/topic-permissions/%2F/u"),
    ("PUT", "/api/vhost-limits/%2F/max-queues"),
    ("PUT", "/api/user-limits/u/max-channels"),
    ("POST", "/api/bindings/%2F/e/amq.topic/q/q"),
    ("POST", "/api/exchanges/%2F/amq.topic/publish"),
    ("POST", "/api/queues/%2F/q/get"),
    ("POST", "/api/queues/%2F/q/actions"),
    ("POST", "/api/definitions"),
    ("POST", "/api/definitions/%2F"),
    ("POST", "/api/users/bulk-delete"),
    ("POST", "/api/rebalance/queues"),
    ("POST", "/api/queues/quorum/replicas/grow-to-count"),
]
NO_OBJECTS = (
    b"[]",
    b"1",
    b'"a"',
    b"null",
    b"{",
    b"{'a': 1}",
    b"\xff",
    b'{"a": "\\ud800"}',
    b"{}{}",
)


@pytest.mark.parametrize(("method", "target"), WRITES)
def test_what_is_no_json_object_is_refused_everywhere(line: Line, method: str, target: str) -> None:
    for body in (*NO_OBJECTS, b"[" * 100_000, b'{"a":' * 2000):
        assert line.refused(method, target, body) == (400, "not_json"), body[:20]


@pytest.mark.parametrize(
    ("method", "target"), [each for each in WRITES if "definitions" not in each[1]]
)
def test_what_is_nested_too_deeply_is_refused_everywhere(
    line: Line, method: str, target: str
) -> None:
    assert line.refused(method, target, DEEP) == (400, "not_json")


def test_depth_is_bounded_in_rows_of_definitions_too(line: Line) -> None:
    raw = b'{"queues": [%s]}' % DEEP
    assert line.refused("POST", "/api/definitions", raw) == (400, "not_json")


def test_unknown_keys_are_passed_over(api: HttpApi) -> None:
    more = {"none": 1, "x": {"y": [None]}}
    assert api.put("/queues/%2F/q", {"durable": True, **more}) == 204
    assert api.put("/vhosts/w", more) == 201
    assert api.put("/users/v", {"password": "a", "tags": "", **more}) == 201
    assert api.post("/definitions", {"none": [1], "queues": []}) is None
    for path in ("/vhosts/w", "/users/v"):
        api.delete(path)


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/queues/%2F/r", {"durable": 1}),
        ("/queues/%2F/r", {"arguments": "none"}),
        ("/queues/%2F/r", {"arguments": {"x-max-length": HUGE}}),
        ("/queues/%2F/r", {"arguments": {"x" * 300: 1}}),
        ("/queues/%2F/r", {"arguments": {"x-queue-type": {"a": 1}}}),
        ("/exchanges/%2F/y", {"type": 5}),
        ("/exchanges/%2F/y", {"type": "x" * 300}),
        ("/exchanges/%2F/y", {"type": "fanout", "arguments": {"alternate-exchange": 1}}),
        ("/vhosts/w", {"description": 5}),
        ("/vhosts/w", {"tags": {"a": 1}}),
        ("/vhosts/w", {"default_queue_type": [1]}),
        ("/vhosts/w", {"tracing": "perhaps"}),
        ("/users/v", {"password": None, "tags": ""}),
        ("/users/v", {"password": "a", "tags": [["a"]]}),
        ("/users/v", {"password_hash": 5, "tags": ""}),
        ("/users/v", {"password_hash": "", "hashing_algorithm": {}, "tags": ""}),
        ("/policies/%2F/p", {"pattern": 5, "definition": {}}),
        ("/policies/%2F/p", {"pattern": "(", "definition": {"expires": 1}}),
        ("/policies/%2F/p", {"pattern": "", "definition": []}),
        ("/policies/%2F/p", {"pattern": "", "definition": {"expires": HUGE}}),
        ("/policies/%2F/p", {"pattern": "", "definition": {"none": 1}}),
        ("/policies/%2F/p", {"pattern": "", "definition": {"ha-params": HUGE}}),
        ("/policies/%2F/p", {"pattern": "", "definition": {"expires": 1}, "priority": 1.5}),
        ("/policies/%2F/p", {"pattern": "", "definition": {"expires": 1}, "apply-to": []}),
        ("/permissions/%2F/u", {"configure": 1, "write": "", "read": ""}),
        ("/permissions/%2F/u", {"configure": "(", "write": "", "read": ""}),
        ("/topic-permissions/%2F/u", {"exchange": 5, "write": "", "read": ""}),
        ("/vhost-limits/%2F/max-queues", {"value": HUGE}),
        ("/vhost-limits/%2F/max-queues", {"value": True}),
        ("/vhost-limits/%2F/none", {"value": 1}),
        ("/user-limits/u/max-channels", {"value": [1]}),
        ("/cluster-name", {"name": 5}),
        ("/cluster-name", {"name": LONG}),
    ],
)
def test_values_of_the_wrong_kind_are_refused(api: HttpApi, path: str, body: object) -> None:
    assert api.refused("PUT", path, body)[0] == 400


@pytest.mark.parametrize("value", ["1e999", "1" * 5000, str(HUGE), "-" + str(HUGE), "1e-999"])
def test_numbers_that_no_machine_word_holds(line: Line, api: HttpApi, value: str) -> None:
    """Taken or refused, and what was taken can be read again."""
    for path in (
        "/global-parameters/n",
        "/vhost-limits/%2F/max-queues",
    ):
        status, answer, _ = line.ask("PUT", "/api" + path, (FULL % value).encode())
        assert status in (201, 204, 400), answer
        if status != 400:
            assert api.ask("GET", path.replace("/max-queues", ""))[0] == 200
            api.delete(path)
    body = b'{"arguments": {"n": %s}}' % value.encode()
    status, answer, _ = line.ask("PUT", "/api/queues/%2F/number", body)
    assert status in (201, 400), answer
    if status == 201:
        api.delete("/queues/%2F/number")


def test_keys_of_bindings_and_messages_are_no_longer_than_the_wire_allows(api: HttpApi) -> None:
    pair = "/bindings/%2F/e/amq.topic/q/q"
    assert api.refused("POST", pair, {"routing_key": LONG})[0] == 400
    message = {"properties": {}, "payload": "", "payload_encoding": "string"}
    publish = "/exchanges/%2F/amq.topic/publish"
    assert api.refused("POST", publish, {**message, "routing_key": LONG})[0] == 400
    assert api.ask("POST", pair, {"routing_key": "k" * 255})[0] == 201
    (row,) = api.get(pair)
    assert api.delete(f"{pair}/{row['properties_key']}") == 204


@pytest.mark.parametrize(
    ("method", "path", "megabytes"),
    [("PUT", "/api/cluster-name", 1), ("POST", "/api/definitions", 20)],
)
def test_a_body_that_is_too_large_is_413(
    line: Line, method: str, path: str, megabytes: int
) -> None:
    body = b'{"name": "%s"}' % (b"x" * (megabytes * 1024 * 1024))
    status, answer, _ = line.ask(method, path, body)
    assert (status, answer["error"]) == (413, "payload_too_large")
    assert answer["reason"].startswith(f"the body is larger than {megabytes * 1024 * 1024:,} bytes")


def test_only_the_payload_of_a_message_may_be_large(line: Line, api: HttpApi) -> None:
    publish = "/exchanges/%2F/amq.fanout/publish"
    message = {"routing_key": "", "payload": "x" * 5_000_000, "payload_encoding": "string"}
    assert api.post(publish, {**message, "properties": {}}) == {"routed": False}
    status, reason = api.refused("POST", publish, {**message, "properties": {"a": [1] * 800_000}})
    assert (status, reason) == (413, "properties is larger than 1,048,576 bytes")


def test_a_row_of_definitions_that_is_too_large_is_refused(api: HttpApi) -> None:
    for part in ("users", "vhosts", "policies", "queues"):
        status, reason = api.refused("POST", "/definitions", {part: [{"name": "x" * 300_000}]})
        assert (status, reason) == (400, f"{part}: a row is larger than 262,144 bytes")


def test_a_small_body_that_unpacks_to_a_large_one_is_413(line: Line) -> None:
    bomb = gzip.compress(b" " * (64 * 1024 * 1024))
    assert len(bomb) < 100_000
    assert line.refused("PUT", "/api/cluster-name", bomb, Content_Encoding="gzip")[0] == 413


def test_a_packed_body_is_unpacked_and_a_broken_one_refused(line: Line) -> None:
    body = gzip.compress(b'{"value": 1}')
    target = "/api/global-parameters/packed"
    assert line.ask("PUT", target, body, Content_Encoding="gzip")[0] == 201
    assert line.ask("DELETE", target)[0] == 204
    for raw in (b"nothing", body[:12]):
        assert line.refused("PUT", target, raw, Content_Encoding="gzip")[0] == 400


@pytest.mark.parametrize("kind", ["text/plain", "application/json; charset=nothing", "\xff"])
def test_the_kind_of_a_body_does_not_matter(line: Line, kind: str) -> None:
    """RabbitMQ's tools leave it out, or say anything."""
    reply = line.ask("PUT", "/api/queues/%2F/q", b'{"durable": true}', Content_Type=kind)
    assert reply[0] == 204
    asked = line.refused("POST", "/api/queues/%2F/q/actions", b"{}", Content_Type=kind)
    assert asked == (400, "[{key_missing,action}]")


# Who asks


@pytest.mark.parametrize(
    "header",
    ["", "Basic", "Basic !", "Basic Zzz", "Bearer x", "Basic " + "A" * 8000, "Basic /w=="],
)
def test_a_login_that_is_none_is_401(line: Line, header: str) -> None:
    status, answer, headers = line.ask("GET", "/api/whoami", Authorization=header)
    assert (status, answer["error"]) == (401, "not_authorized")
    assert headers["www-authenticate"].startswith("Basic ")


# Lists


@pytest.mark.parametrize(
    "query",
    ["page=0", "page=-1", "page=x", "page=1&page_size=501", "page=99", "use_regex=true&name=*"],
)
def test_a_page_that_is_none_is_400(api: HttpApi, query: str) -> None:
    assert api.refused("GET", "/queues?" + query)[0] == 400


@pytest.mark.parametrize(
    "query",
    ["sort=none.none", "columns=,,a.b.c,..", "sort_reverse=perhaps", "sort=arguments&page=1"],
)
def test_odd_columns_are_passed_over(api: HttpApi, query: str) -> None:
    assert api.ask("GET", "/queues?" + query)[0] == 200


# Connections


@pytest.mark.parametrize("reason", ["\xff\xfe", "x" * 3000, "\xe2\x82\xac" * 200])
def test_a_connection_is_closed_whatever_the_reason_says(
    node: Node, line: Line, api: HttpApi, reason: str
) -> None:
    connection = Broker(node.host, node.port, node).connect()
    (row,) = api.get("/connections")
    target = "/api/connections/" + row["name"].replace(" ", "%20").replace(">", "%3E")
    assert line.ask("DELETE", target, X_Reason=reason)[0] == 204
    with pytest.raises(pika.exceptions.ConnectionClosedByBroker) as caught:
        connection.process_data_events(5)
    assert caught.value.reply_code == 320


def test_the_node_has_logged_no_fault_of_its_own(node: Node, line: Line) -> None:
    """The last test: nothing above was more than a refusal."""
    assert line.ask("GET", "/api/health/checks/alarms")[0] == 200
    assert "Traceback" not in node.log()


LENGTHY = 100_000 * "a"


@pytest.mark.parametrize(
    ("method", "target", "body"),
    [
        ("PUT", "/queues/%2F/new", {"durable": LENGTHY}),
        ("PUT", "/exchanges/%2F/new", {"type": LENGTHY}),
        ("PUT", "/policies/%2F/new", {"pattern": "", "definition": {"ha-mode": LENGTHY}}),
        ("PUT", "/policies/%2F/new", {"pattern": "", "definition": {LENGTHY: 1}}),
        ("PUT", "/parameters/federation-upstream/%2F/new", {"value": {"uri": LENGTHY}}),
        ("PUT", "/parameters/shovel/%2F/new", {"value": {"src-uri": LENGTHY}}),
        ("PUT", "/permissions/%2F/guest", {"configure": f"({LENGTHY}", "read": "", "write": ""}),
        ("PUT", "/vhosts/new", {"default_queue_type": LENGTHY}),
        ("PUT", "/vhost-limits/%2F/max-queues", {"value": LENGTHY}),
    ],
)
def test_an_answer_quotes_the_begin_of_a_long_value(
    api: HttpApi, method: str, target: str, body: dict[str, object]
) -> None:
    status, answer = api.ask(method, target, body)
    assert status == 400
    assert 100 * "a" in str(answer) and len(str(answer)) < 1_000


def test_a_redeclaration_quotes_the_begin_of_a_long_argument(api: HttpApi) -> None:
    arguments = {"x-dead-letter-exchange": "amq.fanout", "x-dead-letter-routing-key": "short"}
    declared = {"durable": True, "arguments": arguments}
    api.put("/queues/%2F/with-key", declared)
    arguments["x-dead-letter-routing-key"] = LENGTHY
    status, answer = api.ask("PUT", "/queues/%2F/with-key", declared)
    assert status == 400
    assert 100 * "a" in str(answer) and len(str(answer)) < 1_000

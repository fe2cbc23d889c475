"""The OpenAPI document: an entry for every route, a route for every entry, and nothing dangling."""

import json
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any, cast

import pytest

from node.auth.login import LoginRules
from node.auth.login_checks import LoginChecks
from node.events.event_feed import EventFeed, Watcher
from node.events.events import Events
from node.management.access import Context
from node.management.api.openapi import made, routes_of
from node.management.rows.cluster_view import ClusterView
from node.management.schema.document import all_operations, undescribed, unrouted
from node.management.server import make_app
from tests.unit.node.cluster.operating_world import OperatingWorld
from tests.unit.node.fake_access import FakeAccess
from tests.unit.node.fake_broker import FakeBroker
from tests.unit.node.fake_operations import FakeOperations
from tests.unit.node.fake_timers import FakeTimers


class NoNodes:
    """No other node sends events. Keeps `node.events.event_feed.Elsewhere`."""

    def watch(self, watcher: Watcher) -> None:
        watcher.ready()

    def unwatch(self) -> None:
        return


class Untouched:
    """Controls that are unused."""

    memory_total_bytes = 0

    def set_limits(self, memory_bytes: int | None, disk_bytes: int | None) -> None:
        """Nothing is set."""

    async def set_listening(self, is_open: bool) -> None:
        """Nothing listens."""

    def advance_clock(self, ms: int) -> None:
        """Time passes as it does."""


@pytest.fixture(scope="module")
def routes() -> list[tuple[str, str]]:
    """Those of a node that is in a cluster, which has all there are."""
    node = OperatingWorld(1).nodes[1]
    view = FakeBroker()
    access = FakeAccess(users={})
    harness = LoginChecks(access, LoginRules())
    cluster = ClusterView(view, node.operating, lambda vhost, user, reason: 0)
    feed = EventFeed(Events("n1", lambda: 5), NoNodes(), 1, FakeTimers().call_later)
    app = make_app(
        Context(
            *(view, access, harness, FakeOperations()),
            cluster=cluster,
            feed=feed,
            controls=Untouched(),
            # Their resources are only routed here.
            links=cast(Any, SimpleNamespace(standbys=object())),
            leases=cast(Any, object()),
        )
    )
    harness.close()
    return list(routes_of(app))


@pytest.fixture(scope="module")
def document(routes: list[tuple[str, str]]) -> Any:
    return json.loads(made(routes, "1.2.3"))


def inside(value: object) -> Iterator[dict[str, Any]]:
    """Every object in the document."""
    if isinstance(value, dict):
        yield value
        for each in value.values():
            yield from inside(each)
    elif isinstance(value, list):
        for each in value:
            yield from inside(each)


def test_every_route_has_an_entry(routes: list[tuple[str, str]]) -> None:
    """Write one into `node/management/schema/`; the form is in `model.py` there."""
    assert undescribed(routes) == []


def test_every_entry_has_a_route_and_none_has_two(routes: list[tuple[str, str]]) -> None:
    assert unrouted(routes) == []
    entries = [(each.method, each.path) for _, each in all_operations()]
    assert len(entries) == len(set(entries))


def test_a_route_without_an_entry_would_be_found(routes: list[tuple[str, str]]) -> None:
    assert undescribed([*routes, ("GET", "/api/new")]) == [("GET", "/api/new")]
    assert ("GET", "/api/overview") in unrouted([("GET", "/api/whoami")])


def test_references_lead_somewhere_and_names_are_unique(document: Any) -> None:
    assert document["openapi"] == "3.1.0" and document["info"]["version"] == "1.2.3"
    schemas = document["components"]["schemas"]
    asked = {each["$ref"].rpartition("/")[2] for each in inside(document) if "$ref" in each}
    assert asked == set(schemas)
    operations = [each for path in document["paths"].values() for each in path.values()]
    names = [each["operationId"] for each in operations]
    assert len(names) == len(set(names)) > 100


def test_every_operation_says_who_may_ask_and_how_it_refuses(document: Any) -> None:
    for path, methods in document["paths"].items():
        holes = path.count("{")
        for method, entry in methods.items():
            in_path = [each for each in entry["parameters"] if each["in"] == "path"]
            assert len(in_path) == holes and all(each["required"] for each in in_path)
            assert entry["summary"].endswith(".") and "tag `" in entry["description"]
            assert {"400", "401", "405"} <= set(entry["responses"]), (method, path)
            assert any(status < "300" for status in entry["responses"])
            assert ("404" in entry["responses"]) or not holes


def test_what_a_node_does_not_have_is_not_in_its_document() -> None:
    document = json.loads(made([("GET", "/api/overview")], "1"))
    assert list(document["paths"]) == ["/api/overview"]
    assert "Queue" not in document["components"]["schemas"]

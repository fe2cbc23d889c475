"""One node answers for the whole cluster: rows of others, and what becomes of those away."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import pytest
from aiohttp.test_utils import TestClient, TestServer
from msgspec.structs import replace
from msgspec.structs import replace as replace_struct

from node.auth.login import LoginRules
from node.auth.login_checks import LoginChecks
from node.auth.passwords import Hashing, hash_password
from node.management.access import Context
from node.management.api.operations.health import queue_named
from node.management.rows import cluster_view, queue_lists
from node.management.rows.client_view import Chosen
from node.management.rows.cluster_view import ClusterView
from node.management.rows.queue_rows import queue_values
from node.management.rows.rates import CHANNEL, CONNECTION, CONSUMER, EXCHANGE, NODE, QUEUE, unknown
from node.management.rows.sampling import Rates
from node.management.rows.view import ConnectionView, ExchangeView, VhostView
from node.management.server import make_app
from queues.definitions.metadata.commands import PutMember
from queues.definitions.metadata.machine import Metadata
from queues.definitions.metadata.outcomes import Refused as RefusedCommand
from tests.unit.node.cluster.operating_world import OperatingWorld
from tests.unit.node.fake_access import FakeAccess, FakeUser
from tests.unit.node.fake_broker import FakeBroker, connection_view, node_view, queue_view
from tests.unit.node.fake_clients import FakeTallies
from tests.unit.node.fake_operations import FakeOperations
from warren.wire.errors import ReplyCode

SHA256: Hashing = "rabbit_password_hashing_sha256"
LOGIN = {"Authorization": "Basic YWRhOnMzY3JldA=="}  # ada, s3cret
LOGS = ExchangeView(
    vhost="/",
    name="logs",
    type="fanout",
    durable=True,
    auto_delete=False,
    internal=False,
    arguments={},
)
Reply = tuple[int, Any]
Ask = Callable[..., Awaitable[Reply]]


class Site:
    """Three nodes with views of their own: queue `qN` and connection `cN` are on node N."""

    def __init__(self, world: OperatingWorld | None = None) -> None:
        self.world = world or OperatingWorld()
        self.views: dict[int, FakeBroker] = {}
        self.harnesses: dict[int, ClusterView] = {}
        self.tallies: dict[int, FakeTallies] = {}
        self.rates: dict[int, Rates] = {}
        self.now_ms = 1_700_000_000_000
        self.closed: list[tuple[int, str, str, str]] = []
        for number in self.world.nodes:
            self.world.queue(f"q{number}", (), node=f"n{number}")
        for number, node in self.world.nodes.items():
            view = FakeBroker(the_node=replace(node_view(), name=f"n{number}"))
            for home in self.world.nodes:
                ready = 10 * home if home == number else 0
                queue = queue_view("/", f"q{home}", ready=ready)
                view.queues["/", f"q{home}"] = replace(queue, node=f"n{home}")
            view.connections[f"c{number}"] = connection_of(number)
            stats = (3 if number == 3 else 0, *[0] * 7)
            vhost = VhostView(name="/", messages_ready=number, running=number != 3, stats=stats)
            view.the_vhosts = [vhost]
            self.views[number] = view
            self.tallies[number] = tallies = FakeTallies()
            self.rates[number] = rates = Rates(tallies, lambda: self.now_ms)
            self.harnesses[number] = ClusterView(view, node.operating, self.closing(number), rates)
            view.the_clients.add_channel(f"c{number}", 1, "ada" if number == 2 else "bo")
            view.the_clients.add_consumer(f"c{number}", 1, "q1")

    def closing(self, number: int) -> Callable[[str, str, str], int]:
        def close(vhost: str, user: str, reason: str) -> int:
            self.closed.append((number, vhost, user, reason))
            return 1

        return close

    def run(self, work: Any) -> Any:
        return self.world.run(work)

    def tell(self, kind: str, key: Any, *numbers: Sequence[int]) -> None:
        """What each node counts of an object, node 1 first."""
        for number, values in enumerate(numbers, 1):
            self.tallies[number].numbers[kind, key] = values

    async def sample(self) -> None:
        """Five seconds pass on all nodes."""
        self.now_ms += 5_000
        for rates in self.rates.values():
            await rates.sample()


def connection_of(number: int) -> ConnectionView:
    return replace(connection_view(f"c{number}", "ada" if number == 2 else "bo"), node=f"n{number}")


# Nodes


def test_all_nodes_are_listed_by_any_of_them() -> None:
    site = Site()
    for harness in site.harnesses.values():
        rows = site.run(harness.nodes())
        assert [(row["name"], row["running"], row["member_id"]) for row in rows] == [
            ("n1", True, 1),
            ("n2", True, 2),
            ("n3", True, 3),
        ]
        assert [row["partitions"] for row in rows] == [[], [], []]
        assert rows[0]["mem_used"] == 1000


def test_a_node_that_is_down_is_listed_as_not_running() -> None:
    site = Site()
    site.world.stop(3)
    rows = site.run(site.harnesses[1].nodes())
    assert [(row["name"], row["running"]) for row in rows] == [
        ("n1", True),
        ("n2", True),
        ("n3", False),
    ]
    assert [row["partitions"] for row in rows] == [[], [], []]
    assert "mem_used" not in rows[2]


def test_nodes_that_run_and_cannot_reach_each_other_say_so() -> None:
    site = Site()
    site.world.net.cut(2, 3)
    rows = site.run(site.harnesses[1].nodes())
    assert [row["partitions"] for row in rows] == [[], ["n3"], ["n2"]]


def test_one_node_is_shown_by_its_name() -> None:
    site = Site()
    assert site.run(site.harnesses[1].node("n2"))["name"] == "n2"
    assert site.run(site.harnesses[1].node("n1"))["running"] is True
    assert site.run(site.harnesses[1].node("n9")) is None


def test_alarms_of_all_nodes_are_told() -> None:
    site = Site()
    site.world.nodes[2].site.alarms.observe_memory(100)
    site.world.net.run()
    site.views[1].the_node = replace(site.views[1].the_node, disk_alarm=True)
    assert site.harnesses[1].alarms() == [
        {"node": "n1", "resource": "disk"},
        {"node": "n2", "resource": "memory"},
    ]


# Queues, vhosts, totals


KEYS = [("/", f"q{number}") for number in (1, 2, 3)]


@pytest.mark.parametrize("named_max", [500, 0])
def test_queues_of_other_nodes_have_the_counts_that_these_know(
    named_max: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cluster_view, "NAMED_MAX", named_max)
    site = Site()
    live = site.run(site.harnesses[1].live_queues(KEYS, ["/", "none"]))
    assert {key: view.messages_ready for key, view in live.items()} == {
        ("/", "q2"): 20,
        ("/", "q3"): 30,
    }
    assert live["/", "q2"].published == 21
    assert site.run(site.harnesses[1].live_queue("/", "q3")).messages_ready == 30
    assert site.run(site.harnesses[3].live_queue("/", "q3")).messages_ready == 30
    assert site.run(site.harnesses[1].live_queue("/", "none")) is None


def test_a_queue_whose_node_is_away_is_shown_as_this_node_knows_it() -> None:
    site = Site()
    site.world.stop(3)
    assert set(site.run(site.harnesses[1].live_queues(KEYS, ["/"]))) == {("/", "q2")}
    assert site.run(site.harnesses[1].live_queue("/", "q3")).messages_ready == 0


def test_a_queue_that_only_the_other_node_has_is_left_out() -> None:
    site = Site()
    del site.views[1].queues["/", "q2"]
    assert set(site.run(site.harnesses[1].live_queues(KEYS, ["/"]))) == {("/", "q3")}


def test_a_page_asks_for_its_own_queues_alone() -> None:
    site = Site()
    live = site.run(site.harnesses[1].live_queues(KEYS[2:], ["/"]))
    assert list(live) == [("/", "q3")]
    assert site.run(site.harnesses[1].live_queues([("/", "none"), ("none", "q2")], ["/"])) == {}


def test_vhosts_and_totals_are_those_of_all_nodes_that_answer() -> None:
    site = Site()
    assert site.run(site.harnesses[1].vhosts()) == {
        "/": {
            "n2": [2, 0, True, [None] * 11, [0] * 8],
            "n3": [3, 0, False, [None] * 11, [3, *[0] * 7]],
        }
    }
    totals = [
        each["queue_totals"]["messages_ready"] for each in site.run(site.harnesses[1].overviews())
    ]
    assert totals == [20, 30]
    site.world.stop(2)
    assert len(site.run(site.harnesses[1].overviews())) == 1


# Connections


def test_connections_of_other_nodes_are_found_and_closed_there() -> None:
    site = Site()
    harness = site.harnesses[1]
    rows = site.run(harness.clients.rows(CONNECTION, Chosen()))
    assert {row["name"]: row["node"] for row in rows} == {"c2": "n2", "c3": "n3"}
    places = site.run(harness.clients.keys(CONNECTION, Chosen(user="bo")))
    assert places == [(3, ("c3", 0, 0))]
    assert site.run(harness.clients.row(CONNECTION, ("c3", 0, 0)))["user"] == "bo"
    assert site.run(harness.clients.row(CONNECTION, ("none", 0, 0))) is None
    assert site.run(harness.sessions("c2")) == []
    assert site.run(harness.close_connection("c2", "why")) is True
    assert site.run(harness.close_connection("none", "why")) is False
    assert site.views[2].closed == [("c2", "why")]
    site.run(harness.close_connections_of("bo", "why"))
    assert sorted(site.closed) == [(2, "", "bo", "why"), (3, "", "bo", "why")]


# Over HTTP


def over_http(site: Site, test: Callable[[Ask], Awaitable[None]], number: int = 1) -> None:
    """Ask the API of one node, as its administrator."""

    async def run() -> None:
        stored = hash_password("s3cret", SHA256, b"salt")
        access = FakeAccess(users={"ada": FakeUser(stored, SHA256, ("administrator",))})
        harness = LoginChecks(access, LoginRules())
        operations = FakeOperations()
        operations.metadata = shared(site)
        context = Context(
            site.views[number],
            access,
            harness,
            operations,
            cluster=site.harnesses[number],
            rates=site.rates[number],
        )
        async with TestClient(TestServer(make_app(context))) as client:

            async def ask(method: str, path: str, body: Any = None) -> Reply:
                async with client.request(method, path, json=body, headers=LOGIN) as reply:
                    is_json = reply.content_type == "application/json"
                    return reply.status, await (reply.json() if is_json else reply.text())

            await test(ask)
        harness.close()

    site.run(run())


def shared(site: Site) -> Metadata:
    return site.world.machine


def test_lists_and_totals_over_http_are_those_of_the_cluster() -> None:
    async def test(ask: Ask) -> None:
        _, nodes = await ask("GET", "/api/nodes")
        assert [row["name"] for row in nodes] == ["n1", "n2", "n3"]
        _, queues = await ask("GET", "/api/queues")
        assert [row["messages_ready"] for row in queues] == [10, 20, 30]
        _, queue = await ask("GET", "/api/queues/%2F/q3")
        assert queue["messages_ready"] == 30
        _, overview = await ask("GET", "/api/overview")
        assert overview["queue_totals"]["messages_ready"] == 60
        assert overview["object_totals"]["connections"] == 3
        assert overview["object_totals"]["queues"] == 3
        assert overview["churn_rates"]["connection_created"] == 18
        assert {row["node"] for row in overview["listeners"]} == {"n1", "n2", "n3"}
        _, connections = await ask("GET", "/api/connections")
        assert [row["name"] for row in connections] == ["c1", "c2", "c3"]
        _, vhosts = await ask("GET", "/api/vhosts")
        assert vhosts[0]["messages_ready"] == 6
        assert vhosts[0]["message_stats"]["publish"] == 3
        assert vhosts[0]["cluster_state"] == {"n1": "running", "n2": "running", "n3": "stopped"}

    over_http(Site(), test)


def test_a_connection_of_another_node_is_closed_over_http() -> None:
    site = Site()

    async def test(ask: Ask) -> None:
        assert (await ask("GET", "/api/connections/c2"))[1]["node"] == "n2"
        assert (await ask("GET", "/api/connections/c2/sessions")) == (200, [])
        assert (await ask("DELETE", "/api/connections/c2"))[0] == 204
        assert (await ask("DELETE", "/api/connections/c2"))[0] == 404
        assert (await ask("DELETE", "/api/connections/username/bo"))[0] == 204

    over_http(site, test)
    assert len(site.views[2].closed) == 1
    assert [each[0] for each in site.closed] == [2, 3]


# Channels, consumers and rates


def test_channels_and_consumers_of_all_nodes_are_listed_by_any() -> None:
    async def test(ask: Ask) -> None:
        _, rows = await ask("GET", "/api/channels")
        assert [row["name"] for row in rows] == ["c1 (1)", "c2 (1)", "c3 (1)"]
        _, page = await ask("GET", "/api/channels?page=2&page_size=2")
        assert [row["name"] for row in page["items"]] == ["c3 (1)"]
        assert page["total_count"] == 3
        _, rows = await ask("GET", "/api/channels?sort=name&sort_reverse=true")
        assert [row["name"] for row in rows] == ["c3 (1)", "c2 (1)", "c1 (1)"]
        _, rows = await ask("GET", "/api/connections/c3/channels")
        assert [row["name"] for row in rows] == ["c3 (1)"]
        _, row = await ask("GET", "/api/channels/c2%20(1)")
        assert len(row["consumer_details"]) == 1
        _, rows = await ask("GET", "/api/consumers")
        assert [row["channel_details"]["name"] for row in rows] == ["c1 (1)", "c2 (1)", "c3 (1)"]
        _, queue = await ask("GET", "/api/queues/%2F/q1")
        assert len(queue["consumer_details"]) == 3

    over_http(Site(), test)


def test_a_page_asks_each_node_for_its_own_rows_alone() -> None:
    site = Site()
    asked = site.views[3].the_clients.asked

    async def test(ask: Ask) -> None:
        await ask("GET", "/api/channels?page=1&page_size=2")
        assert asked == []
        await ask("GET", "/api/channels?page=2&page_size=2")
        assert asked == [("c3", 1, 0)]

    over_http(site, test)


def test_values_to_sort_by_come_from_the_nodes_that_have_them() -> None:
    site = Site()
    for number, ready in ((1, 5), (2, 50), (3, 20)):
        site.tallies[number].numbers[QUEUE, ("/", f"q{number}")] = (ready, ready, *(0,) * 9)
        site.tallies[number].numbers[CONNECTION, f"c{number}"] = (100 * ready, 0)
    site.views[2].queues["/", "q2"] = replace(site.views[2].queues["/", "q2"], consumers=4)
    harness = site.harnesses[1]
    found = site.run(harness.queue_values(["/", "none"], "messages_ready"))
    assert found == {("/", "q2"): 50, ("/", "q3"): 20}
    assert site.run(harness.queue_values(["/"], "consumers"))["/", "q2"] == 4
    assert site.run(harness.queue_values(["/"], "arguments.x-max-length"))["/", "q3"] == 10
    found = site.run(harness.clients.values(CONNECTION, Chosen(), "recv_oct"))
    assert found == {(2, ("c2", 0, 0)): 5000, (3, ("c3", 0, 0)): 2000}
    found = site.run(harness.clients.values(CONNECTION, Chosen(user="bo"), "user"))
    assert found == {(3, ("c3", 0, 0)): "bo"}
    site.world.stop(3)
    assert set(site.run(harness.queue_values(["/"], "messages_ready"))) == {("/", "q2")}


def test_a_sorted_page_has_the_rows_of_all_nodes_in_one_order(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(queue_lists, "NAMED_MAX", 0)
    site = Site()
    for number, ready in ((1, 5), (2, 50), (3, 20)):
        site.tallies[number].numbers[QUEUE, ("/", f"q{number}")] = (ready, ready, *(0,) * 9)
        site.tallies[number].numbers[CONNECTION, f"c{number}"] = (100 * ready, 0)
    asked: list[str] = []
    site.views[3].on_queue = lambda vhost, name: asked.append(name)

    async def test(ask: Ask) -> None:
        sort = "sort=messages_ready&sort_reverse=true"
        _, page = await ask("GET", f"/api/queues?page=1&page_size=1&{sort}")
        assert [row["name"] for row in page["items"]] == ["q2"]
        assert asked == []  # Its queue is not on the page.
        _, page = await ask("GET", f"/api/queues?page=2&page_size=1&{sort}")
        assert [(row["name"], row["messages_ready"]) for row in page["items"]] == [("q3", 30)]
        _, rows = await ask("GET", "/api/connections?sort=recv_oct&columns=name")
        assert [row["name"] for row in rows] == ["c1", "c3", "c2"]
        _, rows = await ask("GET", "/api/channels?sort=name&sort_reverse=true&columns=name")
        assert [row["name"] for row in rows] == ["c3 (1)", "c2 (1)", "c1 (1)"]

    over_http(site, test)


def test_sorting_by_a_count_makes_no_view_of_a_queue_that_is_at_rest() -> None:
    site = Site()
    view = site.views[2]
    silent = replace(view.queues["/", "q2"], name="silent", counts_known=False)
    view.queues["/", "silent"] = silent
    looked: list[str] = []
    view.on_queue = lambda vhost, name: looked.append(name)
    value = queue_values(view, site.rates[2], "messages_ready")
    assert [value(("/", name)) for name in ("q2", "silent", "none")] == [0, None, None]
    assert looked == []


def test_clients_of_a_node_that_is_away_are_left_out() -> None:
    site = Site()
    site.world.stop(3)
    assert {place[0] for place in site.run(site.harnesses[1].clients.keys(CHANNEL, Chosen()))} == {
        2
    }
    assert site.run(site.harnesses[1].clients.rows_at(CHANNEL, [(3, ("c3", 1, 0))])) == {}
    assert len(site.run(site.harnesses[1].clients.rows(CONSUMER, Chosen(queue="q1")))) == 1


def test_rates_come_from_where_things_are_and_totals_are_sums() -> None:
    site = Site()
    width = len(unknown(NODE))

    def count(value: int) -> None:
        site.tell(NODE, None, *[(value * number,) * width for number in (1, 2, 3)])
        queue = [(0, 0, 0, value * number, *(0,) * 7) for number in (1, 2, 3)]
        for number in (1, 2, 3):
            site.tell(QUEUE, ("/", f"q{number}"), *queue)
        site.tallies[2].numbers[CHANNEL, ("c2", 1)] = (value, *(0,) * 10)
        site.tell(EXCHANGE, ("/", "logs"), *[(value, 2 * value)] * 3)

    count(0)
    for view in site.views.values():
        view.exchanges["/", "logs"] = LOGS

    async def test(ask: Ask) -> None:
        for path in ("overview", "queues", "channels", "exchanges", "nodes"):
            await ask("GET", f"/api/{path}")
        count(50)
        await site.sample()
        _, overview = await ask("GET", "/api/overview?lengths_age=60&lengths_incr=5")
        assert overview["message_stats"]["publish_details"] == {"rate": 60.0}
        detail = overview["queue_totals"]["messages_details"]
        assert [each["sample"] for each in detail["samples"]] == [300, 0]
        _, queues = await ask("GET", "/api/queues")
        rates = [row["message_stats"]["publish_details"]["rate"] for row in queues]
        assert rates == [10.0, 20.0, 30.0]
        _, queue = await ask("GET", "/api/queues/%2F/q3?msg_rates_age=60&msg_rates_incr=5")
        assert queue["message_stats"]["publish_details"]["samples"][0]["sample"] == 150
        sort = "sort=message_stats.publish_details.rate&sort_reverse=true&columns=name"
        _, page = await ask("GET", f"/api/queues?page=1&page_size=1&{sort}")
        assert page["items"] == [{"name": "q3"}]
        _, channels = await ask("GET", "/api/channels")
        assert channels[1]["message_stats"]["publish_details"] == {"rate": 10.0}
        _, exchange = await ask("GET", "/api/exchanges/%2F/logs")
        assert exchange["message_stats"]["publish_out"] == 300
        assert exchange["message_stats"]["publish_out_details"] == {"rate": 60.0}
        _, nodes = await ask("GET", "/api/nodes")
        rates = [row["message_stats"]["publish_details"]["rate"] for row in nodes]
        assert rates == [10.0, 20.0, 30.0]

    over_http(site, test)


def test_the_memory_of_another_node_is_asked_of_it_and_all_forget_their_samples() -> None:
    site = Site()

    async def test(ask: Ask) -> None:
        _, found = await ask("GET", "/api/nodes/n3/memory")
        assert found["memory"]["total"] == {"rss": 1000, "erlang": 1000}
        assert (await ask("GET", "/api/nodes/n9/memory"))[0] == 404
        site.tallies[3].numbers[QUEUE, ("/", "q3")] = (0,) * 11
        await ask("GET", "/api/queues/%2F/q3")
        assert site.rates[3].track_count == 1
        assert (await ask("DELETE", "/api/reset"))[0] == 204
        assert site.rates[3].track_count == 0
        site.world.stop(3)
        assert (await ask("GET", "/api/nodes/n3/memory"))[0] == 404

    over_http(site, test)


QUORUM = "/api/queues/quorum"


@pytest.mark.parametrize(
    ("method", "path", "body", "status"),
    [
        ("POST", f"{QUORUM}/%2F/none/replicas/add", {"node": "n3"}, 404),
        ("POST", f"{QUORUM}/none/quorum/replicas/add", {"node": "n3"}, 404),
        ("POST", f"{QUORUM}/%2F/classic/replicas/add", {"node": "n3"}, 400),
        ("POST", f"{QUORUM}/%2F/quorum/replicas/add", {}, 400),
        ("POST", f"{QUORUM}/%2F/quorum/replicas/add", {"node": 7}, 400),
        ("POST", f"{QUORUM}/%2F/quorum/replicas/add", {"node": "n9"}, 404),
        ("POST", f"{QUORUM}/%2F/quorum/replicas/add", {"node": "n2"}, 400),
        ("DELETE", f"{QUORUM}/%2F/quorum/replicas/delete", {"node": "n3"}, 400),
        ("POST", f"{QUORUM}/%2F/quorum/leader", {"node": "n3"}, 400),
        ("POST", f"{QUORUM}/replicas/on/n9/grow", {}, 404),
        ("POST", f"{QUORUM}/replicas/on/n3/grow", {"membership": "non_voter"}, 400),
        ("POST", f"{QUORUM}/replicas/on/n3/grow", {"errors_only": "some"}, 400),
        (
            "POST",
            f"{QUORUM}/%2F/quorum/replicas/add",
            {"node": "n3", "membership": "non_voter"},
            400,
        ),
        ("POST", f"{QUORUM}/replicas/on/n3/grow", {"strategy": "some"}, 400),
        ("POST", f"{QUORUM}/replicas/on/n3/grow", {"queue_pattern": "["}, 400),
        ("POST", f"{QUORUM}/replicas/on/n3/grow", {"vhost_pattern": "x" * 5000}, 400),
        ("POST", f"{QUORUM}/replicas/grow-to-count", {}, 400),
        ("POST", f"{QUORUM}/replicas/grow-to-count", {"count": 0}, 400),
        ("DELETE", f"{QUORUM}/replicas/on/n9/shrink", None, 404),
        ("POST", "/api/rebalance/queues", {"type": "streams"}, 400),
        ("DELETE", "/api/nodes/n9", None, 404),
        ("DELETE", "/api/nodes/n2", None, 400),
        ("POST", "/api/nodes/n2/drain", {}, 503),
        ("POST", "/api/nodes/n2/revive", {}, 503),
        ("POST", "/api/nodes/n2/reset", {}, 503),
    ],
)
def test_what_cannot_be_done_is_refused(method: str, path: str, body: Any, status: int) -> None:
    site = Site()
    site.world.queue("quorum", (1, 2), leader=1)
    site.world.queue("classic", ())

    async def test(ask: Ask) -> None:
        found, answer = await ask(method, path, body)
        assert found == status, answer
        assert answer["reason"]

    over_http(site, test)


def test_what_nobody_can_decide_now_is_503() -> None:
    site = Site()
    site.world.queue("quorum", (1, 2), leader=1)
    refusal = RefusedCommand(ReplyCode.INTERNAL_ERROR, "the operation timed out")
    site.world.nodes[1].definitions.refusal = refusal
    site.world.stop(3)

    async def test(ask: Ask) -> None:
        place = f"{QUORUM}/%2F/quorum/replicas"
        assert (await ask("DELETE", f"{place}/delete", {"node": "n2"}))[0] == 503
        assert (await ask("DELETE", "/api/nodes/n3"))[0] == 503
        status, rows = await ask("DELETE", f"{QUORUM}/replicas/on/n2/shrink")
        assert (status, rows[0]["result"]) == (200, "the operation timed out")

    over_http(site, test)


def test_members_and_leaders_are_changed_over_http() -> None:
    site = Site()
    queue = site.world.queue("quorum", (1, 2), leader=1)
    place = f"{QUORUM}/%2F/quorum"

    async def test(ask: Ask) -> None:
        assert (await ask("POST", f"{place}/replicas/add", {"node": "n3"}))[0] == 204
        assert site.world.members_of(queue) == (1, 2, 3)
        assert (await ask("POST", f"{place}/leader", {"node": "n2"}))[0] == 204
        assert site.world.leader_of(queue) == 2
        status, rows = await ask("GET", f"{place}/status")
        assert (status, [row["Raft State"] for row in rows]) == (
            200,
            ["follower", "leader", "follower"],
        )
        assert (await ask("DELETE", f"{place}/replicas/delete", {"node": "n3"}))[0] == 204
        grown = await ask("POST", f"{QUORUM}/replicas/on/n3/grow", {"strategy": "even"})
        assert grown == (200, [{"vhost": "/", "name": "quorum", "size": 3, "result": "ok"}])
        shrunk = await ask("DELETE", f"{QUORUM}/replicas/on/n3/shrink")
        assert shrunk == (200, [{"vhost": "/", "name": "quorum", "size": 2, "result": "ok"}])
        sized = await ask("POST", f"{QUORUM}/replicas/grow-to-count", {"count": "3"})
        assert sized == (200, [{"vhost": "/", "name": "quorum", "size": 3, "result": "ok"}])
        status, rows = await ask("POST", "/api/rebalance/queues", {})
        assert (status, len(rows)) == (200, 3)

    over_http(site, test)


def test_the_map_says_who_leads_how_many_queues() -> None:
    site = Site()
    site.world.queue("quorum", (1, 2, 3), leader=2)
    site.world.queue("classic", (), node="n3")
    site.world.stop(3)

    async def test(ask: Ask) -> None:
        _, found = await ask("GET", "/api/cluster")
        assert found["this_node"] == "n1"
        assert [(row["name"], row["running"], row["leads"]) for row in found["nodes"]] == [
            ("n1", True, 1),
            ("n2", True, 2),
            ("n3", False, 2),
        ]
        assert [row["definitions_lag"] for row in found["nodes"]] == [0, 7, 0]

    site.world.nodes[1].operating.definitions_lags = lambda: {2: 7}
    over_http(site, test)


def test_health_checks_know_the_cluster() -> None:
    site = Site()
    checks = "/api/health/checks"
    leaderless = f"{checks}/quorum-queues-without-elected-leaders"

    async def test(ask: Ask) -> None:
        for check in ("node-is-quorum-critical", "reached-target-cluster-size", "alarms"):
            assert (await ask("GET", f"{checks}/{check}"))[0] == 200, check
        assert (await ask("GET", f"{leaderless}/all-vhosts"))[0] == 200
        site.world.queue("lost", (1, 2, 3))
        status, answer = await ask("GET", f"{leaderless}/all-vhosts")
        assert (status, answer["queues"][0]["name"]) == (503, "lost")
        assert (await ask("GET", f"{leaderless}/vhost/%2F"))[0] == 503
        assert (await ask("GET", f"{leaderless}/vhost/none"))[0] == 404
        assert (await ask("GET", f"{leaderless}/vhost/%2F/pattern/%5Ex"))[0] == 200
        assert (await ask("GET", f"{leaderless}/all-vhosts/pattern/%5B"))[0] == 400
        site.world.stop(3)
        status, answer = await ask("GET", f"{checks}/node-is-quorum-critical")
        assert (status, answer["queues"], answer["definitions"]) == (
            503,
            [queue_named("/", "lost")],
            True,
        )
        site.world.stop(2)
        status, answer = await ask("GET", f"{checks}/node-is-quorum-critical")
        assert (status, answer["definitions"]) == (503, True)
        assert (await ask("GET", f"{checks}/reached-target-cluster-size"))[0] == 503

    over_http(site, test)


def test_a_forgotten_node_is_in_no_list_any_more() -> None:
    site = Site()
    site.world.stop(3)

    async def test(ask: Ask) -> None:
        assert await ask("DELETE", "/api/nodes/n3") == (200, [])
        _, nodes = await ask("GET", "/api/nodes")
        assert [row["name"] for row in nodes] == ["n1", "n2"]

    over_http(site, test)


# Where to go


def test_the_best_node_is_the_one_that_leads_the_queue_or_the_emptiest() -> None:
    site = Site()

    async def test(ask: Ask) -> None:
        _, best = await ask("GET", "/api/nodes/best?queue=q1")
        assert (best["node"], best["endpoints"]) == ("n2", ["amqp://n2:5672"])
        assert [each["node"] for each in best["candidates"]] == ["n2", "n1"]
        _, best = await ask("GET", "/api/nodes/best")
        assert (best["node"], best["reason"]) == ("n2", "has the fewest connections")
        assert [each["node"] for each in best["candidates"]] == ["n2", "n1", "n3"]
        assert (await ask("GET", "/api/nodes/best?queue=none"))[0] == 404
        assert (await ask("GET", "/api/nodes/best?queue=q1&vhost=none"))[0] == 404

    del site.views[2].connections["c2"]
    over_http(site, test)


def test_no_client_is_sent_to_a_node_that_is_down_or_drained() -> None:
    def one_left() -> Site:
        site = Site()
        site.world.stop(3)
        drained = site.world.machine.roster.members[2]
        site.world.do(PutMember(replace_struct(drained, draining=True)))
        return site

    async def test(ask: Ask) -> None:
        _, best = await ask("GET", "/api/nodes/best")
        assert [each["node"] for each in best["candidates"]] == ["n1"]

    over_http(one_left(), test)
    site = one_left()
    site.views[1].the_node = replace(site.views[1].the_node, in_service=False)

    async def nowhere(ask: Ask) -> None:
        assert (await ask("GET", "/api/nodes/best"))[0] == 503

    over_http(site, nowhere)


def test_a_plan_says_what_a_rebalance_would_move_and_moves_nothing() -> None:
    site = Site()
    queues = [site.world.queue(f"r{number}", (1, 2, 3), leader=1) for number in range(3)]

    async def test(ask: Ask) -> None:
        _, plan = await ask("GET", "/api/cluster/plan")
        assert {each["node"]: each["number of quorum queues"] for each in plan["now"]} == {
            "n1": 3,
            "n2": 0,
            "n3": 0,
        }
        assert {(each["from"], each["to"]) for each in plan["moves"]} == {
            ("n1", "n2"),
            ("n1", "n3"),
        }
        _, none = await ask("GET", "/api/cluster/plan?queue_pattern=none")
        assert none["moves"] == []
        assert (await ask("GET", "/api/cluster/plan?queue_pattern=("))[0] == 400

    over_http(site, test)
    assert [site.world.leader_of(each) for each in queues] == [1, 1, 1]

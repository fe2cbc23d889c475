"""The management listener over real HTTP: who gets in, what is refused, and RabbitMQ's shapes."""

import asyncio
import base64
import json
import logging
import socket
from collections.abc import Awaitable, Callable
from typing import Any
from urllib.parse import quote

import pytest
from aiohttp import ClientSession
from aiohttp.test_utils import TestClient, TestServer
from msgspec.structs import replace
from prometheus_client.parser import text_string_to_metric_families

from node.auth.login import LoginRules
from node.auth.login_checks import LoginChecks
from node.auth.passwords import Hashing, hash_password
from node.management.access import Context
from node.management.rows.view import BindingView, ExchangeView, UserView, VhostView
from node.management.server import ManagementServer, make_app
from tests.unit.node.fake_access import FakeAccess, FakeUser
from tests.unit.node.fake_broker import FakeBroker, connection_view, node_view, queue_view
from tests.unit.node.fake_operations import FakeOperations

SHA256: Hashing = "rabbit_password_hashing_sha256"
CHECKS = "/api/health/checks"
USERS = {
    "root": ("administrator",),
    "watch": ("monitoring",),
    "shop": ("management",),
    "app": (),
}
OK = {"status": "ok"}


def hashed(name: str) -> str:
    return hash_password(f"pw-{name}", SHA256, b"salt")


def access() -> FakeAccess:
    table = {name: FakeUser(hashed(name), SHA256, tags) for name, tags in USERS.items()}
    return FakeAccess(users=table, permitted={("shop", "shop"): (".*", ".*", ".*")})


def broker() -> FakeBroker:
    fake = FakeBroker(the_vhosts=[VhostView(name="/"), VhostView(name="shop")])
    for number in (3, 1, 2):
        fake.queues["/", f"q{number}"] = queue_view("/", f"q{number}", ready=10 * number)
    fake.queues["shop", "a/b %"] = queue_view("shop", "a/b %", owner="c-shop")
    for name, kind in (("", "direct"), ("amq.topic", "topic")):
        fake.exchanges["/", name] = ExchangeView(
            vhost="/",
            name=name,
            type=kind,
            durable=True,
            auto_delete=False,
            internal=False,
            arguments={},
        )
    fake.all_bindings = [
        BindingView(
            vhost="/",
            source="amq.topic",
            destination="q1",
            destination_is_queue=True,
            binding_key=b"a.#",
            arguments={"bytes": b"\xff"},
        )
    ]
    for user in ("root", "shop"):
        fake.connections[f"c-{user}"] = connection_view(f"c-{user}", user)
    fake.all_users = [
        UserView(name=name, tags=tags, password_hash=hashed(name), hashing=SHA256)
        for name, tags in USERS.items()
    ]
    return fake


Get = Callable[..., Awaitable[tuple[int, Any]]]


def with_api(
    test: Callable[[Get], Awaitable[None]],
    fake: FakeBroker | None = None,
    metrics_need_login: bool = False,
) -> None:
    """Run a test against the application on a free port of the loopback."""

    async def run() -> None:
        rights = access()
        harness = LoginChecks(rights, LoginRules(loopback_users=()))
        app = make_app(
            Context(fake or broker(), rights, harness, FakeOperations(), metrics_need_login)
        )
        async with TestClient(TestServer(app)) as client:

            async def get(
                path: str, user: str = "root", method: str = "GET", **headers: str
            ) -> tuple[int, Any]:
                if user:
                    pair = base64.b64encode(f"{user}:pw-{user}".encode()).decode()
                    headers["Authorization"] = f"Basic {pair}"
                async with client.request(method, path, headers=headers) as reply:
                    text = await reply.text()
                    is_json = reply.content_type == "application/json" and text
                    return reply.status, json.loads(text) if is_json else text

            await test(get)
            assert len(asyncio.all_tasks()) < 8  # The server's and this one; none per request.
        harness.close()

    asyncio.run(asyncio.wait_for(run(), 20))


@pytest.mark.parametrize("path", ["/api/overview", "/api/queues", "/api/none", f"{CHECKS}/alarms"])
def test_without_a_login_everything_is_401(path: str) -> None:
    refused = (401, {"error": "not_authorized", "reason": "Login failed"})

    async def test(get: Get) -> None:
        assert await get(path, user="") == refused
        assert await get(path, user="", Authorization="Basic cm9vdDp3cm9uZw==") == refused
        assert await get(path, user="", Authorization="Bearer x") == refused
        assert await get(path, user="absent") == refused

    with_api(test)


def test_a_refusal_asks_for_a_login() -> None:
    async def run() -> None:
        rights = access()
        harness = LoginChecks(rights, LoginRules())
        server = ManagementServer(Context(broker(), rights, harness, FakeOperations()))
        port = await server.start("127.0.0.1", 0)
        async with (
            ClientSession() as session,
            session.get(f"http://127.0.0.1:{port}/api/overview") as reply,
        ):
            assert reply.status == 401
            assert reply.headers["WWW-Authenticate"].startswith("Basic realm=")
        await server.stop()
        with pytest.raises(OSError):
            await asyncio.open_connection("127.0.0.1", port)
        harness.close()

    asyncio.run(asyncio.wait_for(run(), 20))


def test_a_user_without_a_tag_is_not_let_in() -> None:
    async def test(get: Get) -> None:
        status, body = await get("/api/overview", user="app")
        assert (status, body["reason"]) == (401, "Not management user")

    with_api(test)


def test_unknown_paths_objects_and_methods_are_json_errors() -> None:
    missing = (404, {"error": "Object Not Found", "reason": "Not Found"})

    async def test(get: Get) -> None:
        for path in (
            "/api/none",
            "/api/queues/none",
            "/api/queues/%2F/none",
            "/api/queues/%2F/q1/x",
            "/api/exchanges/%2F/none",
            "/api/connections/none",
            "/api/vhosts/none",
            "/api/users/none",
            "/api/nodes/none",
        ):
            assert await get(path) == missing, path
        status, body = await get("/api/overview", method="POST")
        assert (status, body["error"]) == (405, "method_not_allowed")

    with_api(test)


@pytest.mark.parametrize(
    "query",
    ["page=0", "page=-1", "page=x", "page=" + "9" * 5000, "page=1&page_size=501", "page_size=0",
     "page=2", "use_regex=true&name=(", "use_regex=true&name=a(?!b)"],
)  # fmt: skip
def test_a_bad_page_is_400(query: str) -> None:
    async def test(get: Get) -> None:
        status, body = await get(f"/api/queues?{query}")
        assert status == 400
        assert body["error"] in ("bad_request", "page_out_of_range")
        assert body["reason"]

    with_api(test)


def test_lists_are_ordered_paged_sorted_and_cut_to_columns() -> None:
    async def test(get: Get) -> None:
        _, rows = await get("/api/queues")
        assert [row["name"] for row in rows] == ["q1", "q2", "q3", "a/b %"]
        _, page = await get("/api/queues/%2F?page=2&page_size=2&name=q&columns=name")
        assert page == {
            "filtered_count": 3,
            "item_count": 1,
            "items": [{"name": "q3"}],
            "page": 2,
            "page_count": 2,
            "page_size": 2,
            "total_count": 3,
        }
        _, rows = await get("/api/queues?sort=messages&sort_reverse=true&columns=name,messages")
        assert rows[0] == {"name": "q3", "messages": 31}
        assert rows[-1] == {"name": "a/b %", "messages": 1}
        _, rows = await get("/api/queues?sort=message_stats.publish&columns=message_stats.publish")
        assert rows[0] == {"message_stats": {"publish": 1}}
        for columns in ("none", "name.x", "name,name.x", "message_stats.none"):
            status, rows = await get(f"/api/queues?sort=none.x&columns={columns}")
            assert (status, len(rows)) == (200, 4)
        _, page = await get("/api/queues?page=1&name=none")
        assert (page["items"], page["page_count"], page["total_count"]) == ([], 1, 4)

    with_api(test)


def test_names_in_paths_are_percent_encoded() -> None:
    async def test(get: Get) -> None:
        status, queue = await get(f"/api/queues/shop/{quote('a/b %', safe='')}")
        assert status == 200
        assert queue["name"] == "a/b %"
        assert queue["owner_pid_details"] == {"name": "c-shop"}

    with_api(test)


def test_a_queue_has_the_fields_of_rabbitmq() -> None:
    async def test(get: Get) -> None:
        _, queue = await get("/api/queues/%2F/q1")
        assert queue["messages"] == 11
        assert queue["messages_ready"] == 10
        assert queue["messages_unacknowledged"] == 1
        assert queue["arguments"] == {"x-max-length": 10}
        assert (queue["vhost"], queue["type"], queue["state"]) == ("/", "classic", "running")

    with_api(test)


def test_a_management_user_sees_its_own_vhosts_and_connections() -> None:
    async def test(get: Get) -> None:
        _, rows = await get("/api/queues", user="shop")
        assert [row["vhost"] for row in rows] == ["shop"]
        _, rows = await get("/api/vhosts", user="shop")
        assert [row["name"] for row in rows] == ["shop"]
        assert (await get("/api/queues/%2F/q1", user="shop"))[0] == 401
        assert (await get("/api/vhosts/%2F", user="shop"))[0] == 401
        _, page = await get("/api/connections?page=1", user="shop")
        assert [row["name"] for row in page["items"]] == ["c-shop"]
        assert page["total_count"] == 1
        assert (await get("/api/connections/c-root", user="shop"))[0] == 401
        assert (await get("/api/nodes", user="shop"))[0] == 401
        assert (await get("/api/users", user="shop"))[0] == 401
        assert "listeners" not in (await get("/api/overview", user="shop"))[1]

    with_api(test)


def test_hashes_are_shown_to_administrators_alone() -> None:
    async def test(get: Get) -> None:
        _, rows = await get("/api/users")
        assert {row["name"]: row["password_hash"] for row in rows}["app"] == hashed("app")
        _, rows = await get("/api/users", user="watch")
        assert all("password_hash" not in row for row in rows)
        _, row = await get("/api/users/root", user="watch")
        assert row == {"name": "root", "tags": ["administrator"], "limits": {}}

    with_api(test)


def test_a_connection_is_closed_with_the_reason_given() -> None:
    fake = broker()

    async def test(get: Get) -> None:
        assert (await get("/api/connections/c-root", user="watch", method="DELETE"))[0] == 401
        assert (await get("/api/connections/c-root", user="shop", method="DELETE"))[0] == 401
        _, row = await get("/api/connections/c-root")
        assert (row["user"], row["timeout"], row["channels"]) == ("root", 60, 2)
        assert row["user_provided_name"] == "orders"
        answer = await get("/api/connections/c-shop", user="shop", method="DELETE")
        assert answer == (204, "")
        reason = {"X-Reason": "moving"}
        assert (await get("/api/connections/c-root", method="DELETE", **reason))[0] == 204
        assert (await get("/api/connections/c-root", method="DELETE"))[0] == 404

    with_api(test, fake)
    assert fake.closed == [("c-shop", "Closed via management plugin"), ("c-root", "moving")]


def test_exchanges_and_bindings_include_the_default_exchange() -> None:
    async def test(get: Get) -> None:
        _, rows = await get("/api/exchanges/%2F")
        assert [row["name"] for row in rows] == ["", "amq.topic"]
        assert (await get("/api/exchanges/%2F/amq.default"))[1]["name"] == ""
        _, rows = await get("/api/bindings/%2F")
        assert [(row["source"], row["destination"], row["routing_key"]) for row in rows] == [
            ("", "q1", "q1"),
            ("", "q2", "q2"),
            ("", "q3", "q3"),
            ("amq.topic", "q1", "a.#"),
        ]
        assert rows[-1]["destination_type"] == "queue"
        assert rows[-1]["properties_key"] == "a.%23~FsAqr9y3WzL4"

    with_api(test)


def test_overview_nodes_vhosts_and_whoami_have_the_shapes_of_rabbitmq() -> None:
    async def test(get: Get) -> None:
        _, overview = await get("/api/overview")
        assert overview["queue_totals"]["messages_ready"] == 60
        assert overview["object_totals"]["queues"] == 4
        assert overview["message_stats"]["publish"] == 11
        assert overview["message_stats"]["deliver_get"] == 4
        assert overview["listeners"][0]["port"] == 5672
        _, (node,) = await get("/api/nodes", user="watch")
        assert (node["name"], node["running"], node["mem_alarm"]) == ("warren@here", True, False)
        assert (await get("/api/nodes/warren@here"))[1] == node
        assert node["alarm_details"] == []
        _, vhost = await get("/api/vhosts/shop")
        assert vhost["cluster_state"] == {"warren@here": "running"}
        assert (await get("/api/whoami", user="watch"))[1] == {
            "name": "watch",
            "tags": ["monitoring"],
            "is_internal_user": True,
        }

    with_api(test)


def test_health_checks_of_a_healthy_node_are_200() -> None:
    async def test(get: Get) -> None:
        for check in ("alarms", "local-alarms", "is-in-service", "ready-to-serve-clients",
                      "virtual-hosts", "local-crashed-queues"):  # fmt: skip
            assert await get(f"{CHECKS}/{check}", user="shop") == (200, OK)
        assert await get(f"{CHECKS}/port-listener/5672") == (200, {**OK, "port": 5672})
        for name in (
            *("amqp", "amqp091", "amqp0.9.1", "amqp0-9-1", "amqp0_9_1", "amqp-0-9-1"),
            *("amqp10", "amqp1.0", "amqp1-0", "amqp1_0", "amqp-1-0", "AMQP10"),
            *("http", "management", "http_api", "http1", "http1.1", "ui", "management_ui"),
        ):
            assert await get(f"{CHECKS}/protocol-listener/{name}") == (
                200,
                {**OK, "protocol": name},
            )

    with_api(test)


def test_crashed_queues_fail_their_check_by_name() -> None:
    fake = broker()
    fake.the_node = replace(fake.the_node, crashed_queues=(("/", "hit"),))

    async def test(get: Get) -> None:
        status, body = await get(f"{CHECKS}/local-crashed-queues")
        assert (status, body["queues"]) == (503, [{"vhost": "/", "name": "hit"}])

    with_api(test, fake)


def test_only_administrators_act_on_queues_and_only_as_they_can() -> None:
    async def test(get: Get) -> None:
        path = "/api/queues/%2F/q1/actions"
        assert (await get(path, user="shop", method="POST"))[0] == 401
        assert (await get(path, method="POST"))[0] == 400  # No JSON.
        assert (await get("/api/queues/%2F/none/actions", method="POST"))[0] == 404

    with_api(test)


def test_health_checks_of_a_sick_node_are_503_with_the_reason() -> None:
    fake = broker()
    fake.the_node = node_view(
        in_service=False, memory_alarm=True, clock_alarm=True, listeners=[("http", 15672)]
    )
    fake.the_vhosts.append(VhostView(name="sick", running=False))

    async def test(get: Get) -> None:
        status, body = await get(f"{CHECKS}/alarms")
        assert status == 503
        assert body == {
            "status": "failed",
            "reason": "There are alarms in effect in the cluster",
            "alarms": [
                {"node": "warren@here", "resource": "memory"},
                {"node": "warren@here", "resource": "clock"},
            ],
        }
        assert (await get(f"{CHECKS}/local-alarms"))[0] == 503
        assert (await get(f"{CHECKS}/is-in-service"))[0] == 503
        assert (await get(f"{CHECKS}/ready-to-serve-clients"))[0] == 503
        status, body = await get(f"{CHECKS}/port-listener/5672")
        assert (status, body["missing"], body["ports"]) == (503, 5672, [15672])
        status, body = await get(f"{CHECKS}/protocol-listener/amqp091")
        assert (status, body["missing"], body["protocols"]) == (503, "amqp091", ["http"])
        status, body = await get(f"{CHECKS}/virtual-hosts")
        assert (status, body["virtual-hosts"]) == (503, ["sick"])
        assert (await get(f"{CHECKS}/port-listener/x"))[0] == 400

    with_api(test, fake)


def test_a_node_in_service_without_amqp_is_not_ready_for_clients() -> None:
    fake = broker()
    fake.the_node = node_view(listeners=[("http", 15672)])

    async def test(get: Get) -> None:
        status, body = await get(f"{CHECKS}/ready-to-serve-clients")
        assert (status, body["missing"]) == (503, "amqp")

    with_api(test, fake)


def test_metrics_need_no_login_from_loopback_and_carry_rabbitmq_names() -> None:
    async def test(get: Get) -> None:
        status, text = await get("/metrics", user="")
        assert status == 200
        families = {each.name: each for each in text_string_to_metric_families(text)}
        values = {
            sample.name: sample.value for each in families.values() for sample in each.samples
        }
        assert values["rabbitmq_queue_messages"] == 64
        assert values["rabbitmq_queue_messages_ready"] == 60
        assert values["rabbitmq_queue_messages_unacked"] == 4
        assert values["rabbitmq_connections"] == 2
        assert values["rabbitmq_connections_opened_total"] == 6
        assert values["rabbitmq_global_messages_received_total"] == 11
        assert values["rabbitmq_global_messages_delivered_total"] == 4
        assert values["rabbitmq_global_publishers"] == 3
        assert values["warren_wal_pending_bytes"] == 9
        assert values["warren_bodies_in_memory_bytes"] == 70
        assert values["warren_page_files"] == 3
        assert values["warren_amqp10_locality_ratio"] == 0.75
        assert values["warren_peer_sent_bytes_total"] == 70
        assert values["warren_peer_connected"] == values["warren_peer_link_losses_total"] == 1
        assert values["warren_page_written_bytes_total"] == 800
        (received,) = families["rabbitmq_global_messages_acknowledged"].samples
        assert received.labels == {"protocol": "amqp091", "queue_type": "rabbit_classic_queue"}
        turns = {
            sample.labels.get("le"): sample.value
            for sample in families["warren_loop_turn_ms"].samples
            if sample.name.endswith("_bucket")
        }
        assert turns == {"1.0": 7, "5.0": 9, "+Inf": 10}
        assert values["warren_loop_turn_ms_sum"] == 30.5
        assert values["warren_loop_turn_ms_count"] == 10

    with_api(test)


def test_metrics_can_be_closed_to_loopback_too() -> None:
    async def test(get: Get) -> None:
        assert (await get("/metrics", user=""))[0] == 401
        assert (await get("/metrics", user="shop"))[0] == 401
        assert (await get("/metrics", user="watch"))[0] == 200

    with_api(test, metrics_need_login=True)


def test_the_topology_of_a_queue_says_where_its_leader_is_to_whoever_may_see_the_queue() -> None:
    async def test(get: Get) -> None:
        path = "/api/queues/shop/a%2Fb%20%25/topology"
        status, topology = await get(path, user="shop")
        assert (status, topology["leader"], topology["leader_epoch"]) == (200, "n2", 7)
        assert [each["role"] for each in topology["members"]] == ["follower", "leader"]
        assert topology["members"][1]["endpoints"] == ["amqp://n2:5672"]
        assert (await get("/api/queues/shop/none/topology"))[0] == 404
        assert (await get("/api/queues/%2F/q1/topology", user="shop"))[0] == 401

    with_api(test)


def test_a_long_list_is_made_in_slices_and_the_loop_turns_meanwhile() -> None:
    fake = broker()
    count = 20_000
    fake.queues = {("/", f"q{n}"): queue_view("/", f"q{n}", ready=n % 97) for n in range(count)}

    async def test(get: Get) -> None:
        turns = 0
        ended = False

        async def count_turns() -> None:
            nonlocal turns
            while not ended:
                turns += 1
                await asyncio.sleep(0)

        counting = asyncio.create_task(count_turns())
        _, rows = await get("/api/queues?sort=messages&columns=name,messages")
        ended = True
        await counting
        assert len(rows) == count
        assert [row["messages"] for row in rows] == sorted(row["messages"] for row in rows)
        assert turns > 4 * count / 250  # Names, rows, sorting, encoding: each in slices.

    with_api(test, fake)


async def ask_and_not_read(port: int, path: str = "/api/queues") -> asyncio.StreamWriter:
    """A client with a tiny buffer that asks for a long list and never reads of it."""
    plain = socket.socket()
    plain.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    plain.connect(("127.0.0.1", port))
    _, writer = await asyncio.open_connection(sock=plain, limit=1024)
    login = base64.b64encode(b"root:pw-root").decode()
    writer.write(f"GET {path} HTTP/1.1\r\nHost: h\r\nAuthorization: Basic {login}\r\n\r\n".encode())
    await writer.drain()
    return writer


@pytest.mark.parametrize("client_leaves", [True, False])
def test_a_client_that_leaves_or_never_reads_ends_its_request(
    client_leaves: bool, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(
        "node.management.rows.listing.WRITE_SECONDS", 10.0 if client_leaves else 0.2
    )
    fake = broker()
    fake.queues = {("/", f"q{n}"): queue_view("/", f"q{n}") for n in range(20_000)}
    made = 0

    def row_made(vhost: str, name: str) -> None:
        nonlocal made
        made += 1

    fake.on_queue = row_made

    async def run() -> None:
        rights = access()
        harness = LoginChecks(rights, LoginRules(loopback_users=()))
        server = ManagementServer(Context(fake, rights, harness, FakeOperations()))
        port = await server.start("127.0.0.1", 0)
        before = len(asyncio.all_tasks())
        writer = await ask_and_not_read(port)
        while made == 0:
            await asyncio.sleep(0)
        assert len(asyncio.all_tasks()) > before
        if client_leaves:
            writer.transport.abort()
        while len(asyncio.all_tasks()) > before:
            await asyncio.sleep(0.001)
        writer.transport.abort()
        await server.stop()
        harness.close()

    asyncio.run(asyncio.wait_for(run(), 8))
    assert made < 20_000
    assert [each for each in caplog.records if each.levelname == "ERROR"] == []


@pytest.mark.parametrize(
    "path", ["/metrics", "/metrics/per-object", "/metrics/detailed?family=queue_metrics"]
)
def test_a_client_that_leaves_during_metrics_makes_no_trace(
    path: str, caplog: pytest.LogCaptureFixture
) -> None:
    fake = broker()
    fake.queues = {("/", f"q{n}"): queue_view("/", f"q{n}") for n in range(3000)}
    faults: list[dict[str, Any]] = []

    async def run() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda loop, fault: faults.append(fault))
        rights = access()
        harness = LoginChecks(rights, LoginRules(loopback_users=()))
        server = ManagementServer(Context(fake, rights, harness, FakeOperations()))
        port = await server.start("127.0.0.1", 0)
        before = len(asyncio.all_tasks())
        for passes in (0, 1, 2, 4, 8, 16, 32):  # of the loop, before the client leaves
            writer = await ask_and_not_read(port, path)
            for _ in range(passes):
                await asyncio.sleep(0)
            writer.transport.abort()
            while len(asyncio.all_tasks()) > before:
                await asyncio.sleep(0.001)
        await server.stop()
        harness.close()

    asyncio.run(asyncio.wait_for(run(), 60))
    assert faults == []
    assert [each.getMessage() for each in caplog.records if each.levelno > logging.INFO] == []


def test_a_slash_at_the_end_of_a_path_makes_no_difference() -> None:
    async def test(get: Get) -> None:
        for path in ("/api/queues", "/api/queues/%2F", "/api/queues/%2F/q1", "/api/whoami"):
            assert await get(path + "/") == await get(path)
        assert (await get("/api/queues//"))[0] == 404

    with_api(test)


def test_a_node_without_a_majority_says_that_its_answers_may_be_stale() -> None:
    async def run(is_cut_off: bool) -> str | None:
        fake = broker()
        fake.is_cut_off = is_cut_off
        rights = access()
        harness = LoginChecks(rights, LoginRules())
        app = make_app(Context(fake, rights, harness, FakeOperations()))
        async with TestClient(TestServer(app)) as client:
            login = base64.b64encode(b"root:pw-root").decode()
            headers = {"Authorization": f"Basic {login}"}
            async with client.get("/api/vhosts", headers=headers) as reply:
                assert reply.status == 200
                return reply.headers.get("Warning")

    assert asyncio.run(run(False)) is None
    assert asyncio.run(run(True)) == '110 - "Response is Stale"'

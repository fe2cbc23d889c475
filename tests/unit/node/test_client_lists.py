"""Channels, consumers, rates and what else lists say, over HTTP: RabbitMQ's shapes, and rights."""

import asyncio
import base64
from collections.abc import Awaitable, Callable
from typing import Any
from urllib.parse import quote

import pytest
from aiohttp.test_utils import TestClient, TestServer

from node.auth.login import LoginRules
from node.auth.login_checks import LoginChecks
from node.auth.passwords import Hashing, hash_password
from node.management.access import Context
from node.management.rows.client_view import channel_key
from node.management.rows.rates import CHANNEL, CONNECTION, EXCHANGE, NODE, QUEUE, VHOST, unknown
from node.management.rows.sampling import Rates
from node.management.rows.view import ExchangeView, UserView, VhostView
from node.management.server import make_app
from tests.unit.node.fake_access import FakeAccess, FakeUser
from tests.unit.node.fake_broker import FakeBroker, connection_view, queue_view
from tests.unit.node.fake_clients import FakeTallies
from tests.unit.node.fake_operations import FakeOperations

SHA256: Hashing = "rabbit_password_hashing_sha256"
USERS = {"root": ("administrator",), "watch": ("monitoring",), "shop": ("management",)}
Ask = Callable[..., Awaitable[tuple[int, Any]]]


class World:
    """A broker in tables, with a clock that tests turn."""

    def __init__(self) -> None:
        self.now_ms = 1_700_000_000_000
        self.view = FakeBroker(the_vhosts=[VhostView(name="/"), VhostView(name="shop")])
        self.tallies = FakeTallies({(NODE, None): (0,) * len(unknown(NODE))})
        self.rates = Rates(self.tallies, lambda: self.now_ms, 5_000)
        for number in (1, 2, 3):
            name = f"q{number}"
            self.view.queues["/", name] = queue_view("/", name, ready=number)
            self.count(name, 0)
        for name, user, vhost in (("c-root", "root", "/"), ("c-shop", "shop", "shop")):
            self.view.connections[name] = connection_view(name, user)
            for number in (2, 1):
                self.view.the_clients.add_channel(name, number, user, vhost)
        self.view.the_clients.add_consumer("c-root", 1, "q1", held=3)
        self.view.the_clients.add_consumer("c-root", 2, "q1")
        self.view.the_clients.add_consumer("c-shop", 1, "goods")
        self.view.all_users = [
            UserView(name=name, tags=tags, password_hash="", hashing=SHA256)
            for name, tags in USERS.items()
        ]

    def count(self, queue: str, published: int) -> None:
        self.tallies.numbers[QUEUE, ("/", queue)] = (0, 0, 0, published, *(0,) * 7)

    async def sample(self) -> None:
        self.now_ms += 5_000
        await self.rates.sample()

    def test(self, test: Callable[[Ask], Awaitable[None]]) -> None:
        async def run() -> None:
            table = {
                name: FakeUser(hash_password(name, SHA256, b"salt"), SHA256, tags)
                for name, tags in USERS.items()
            }
            rights = FakeAccess(users=table, permitted={("shop", "shop"): (".*", ".*", ".*")})
            harness = LoginChecks(rights, LoginRules(loopback_users=()))
            context = Context(self.view, rights, harness, FakeOperations(), rates=self.rates)
            async with TestClient(TestServer(make_app(context))) as client:

                async def ask(
                    path: str, user: str = "root", method: str = "GET"
                ) -> tuple[int, Any]:
                    pair = base64.b64encode(f"{user}:{user}".encode()).decode()
                    headers = {"Authorization": f"Basic {pair}"}
                    async with client.request(method, "/api/" + path, headers=headers) as reply:
                        return reply.status, await reply.json() if reply.status != 204 else None

                await test(ask)
            harness.close()

        asyncio.run(asyncio.wait_for(run(), 20))


def test_channels_have_the_fields_of_rabbitmq_and_come_in_order() -> None:
    async def test(ask: Ask) -> None:
        status, rows = await ask("channels")
        assert status == 200
        names = ["c-root (1)", "c-root (2)", "c-shop (1)", "c-shop (2)"]
        assert [row["name"] for row in rows] == names
        row = rows[0]
        assert row["connection_details"] == {
            "name": "c-root",
            "peer_host": "127.0.0.1",
            "peer_port": 40000,
        }
        assert (row["number"], row["user"], row["vhost"]) == (1, "root", "/")
        assert (row["prefetch_count"], row["global_prefetch_count"]) == (7, 0)
        assert (row["confirm"], row["transactional"], row["state"]) == (False, False, "running")
        assert row["message_stats"]["publish"] == 0
        assert row["message_stats"]["ack"] == 10
        assert "publish_details" not in row["message_stats"]
        for name in ("unacknowledged", "unconfirmed", "uncommitted"):
            assert row[f"messages_{name}"] == 0

    World().test(test)


def test_channels_are_paged_named_sorted_and_cut_to_columns() -> None:
    async def test(ask: Ask) -> None:
        _, page = await ask("channels?page=1&page_size=3&name=c-root")
        assert [row["name"] for row in page["items"]] == ["c-root (1)", "c-root (2)"]
        assert (page["total_count"], page["filtered_count"]) == (4, 2)
        _, rows = await ask("channels?sort=number&sort_reverse=true&columns=number")
        assert rows == [{"number": 2}, {"number": 2}, {"number": 1}, {"number": 1}]
        assert (await ask("channels?page=0"))[0] == 400

    World().test(test)


def test_one_channel_has_its_consumers_and_what_went_to_them() -> None:
    async def test(ask: Ask) -> None:
        status, row = await ask("channels/" + quote("c-root (1)"))
        assert (status, row["name"]) == (200, "c-root (1)")
        assert [each["consumer_tag"] for each in row["consumer_details"]] == ["tag-1"]
        assert row["deliveries"] == [
            {
                "queue": {"name": "q1", "vhost": "/"},
                "stats": {"deliver": 10, "deliver_no_ack": 0, "deliver_get": 10},
            }
        ]
        assert row["publishes"] == []

    World().test(test)


@pytest.mark.parametrize("name", ["c-root (9)", "none (1)", "c-root", "c-root (x)", "(1", "c (1"])
def test_a_channel_that_is_not_there_is_404(name: str) -> None:
    async def test(ask: Ask) -> None:
        assert (await ask("channels/" + quote(name)))[0] == 404

    World().test(test)


def test_the_name_of_a_channel_is_read_from_its_end() -> None:
    assert channel_key("a (1) -> b (22)") == ("a (1) -> b", 22, 0)
    for name in ("", "a", "a ()", "a (-1)", "a (1)x", "a (123456)", "a (²)"):
        assert channel_key(name) is None


def test_channels_of_a_connection_and_of_a_vhost() -> None:
    async def test(ask: Ask) -> None:
        _, rows = await ask("connections/c-shop/channels")
        assert [row["name"] for row in rows] == ["c-shop (1)", "c-shop (2)"]
        _, rows = await ask("vhosts/%2F/channels")
        assert [row["name"] for row in rows] == ["c-root (1)", "c-root (2)"]
        assert (await ask("connections/none/channels"))[0] == 404
        assert (await ask("vhosts/none/channels"))[0] == 404

    World().test(test)


def test_consumers_have_the_fields_of_rabbitmq() -> None:
    async def test(ask: Ask) -> None:
        _, rows = await ask("consumers")
        assert [row["consumer_tag"] for row in rows] == ["tag-1", "tag-2", "tag-3"]
        row = rows[0]
        assert row["queue"] == {"name": "q1", "vhost": "/"}
        assert row["channel_details"] == {
            "name": "c-root (1)",
            "connection_name": "c-root",
            "number": 1,
            "node": "warren@here",
            "user": "root",
            "peer_host": "127.0.0.1",
            "peer_port": 40000,
        }
        assert (row["ack_required"], row["exclusive"], row["prefetch_count"]) == (True, False, 7)
        assert (row["active"], row["activity_status"], row["arguments"]) == (True, "up", {})
        assert [each["ack_required"] for each in rows] == [True, False, True]
        _, rows = await ask("consumers/shop")
        assert [row["consumer_tag"] for row in rows] == ["tag-3"]
        assert (await ask("consumers/none"))[0] == 404

    World().test(test)


def test_a_management_user_sees_its_own_channels_and_consumers_alone() -> None:
    async def test(ask: Ask) -> None:
        _, rows = await ask("channels", user="shop")
        assert [row["name"] for row in rows] == ["c-shop (1)", "c-shop (2)"]
        _, rows = await ask("consumers", user="shop")
        assert [row["consumer_tag"] for row in rows] == ["tag-3"]
        assert (await ask("channels/" + quote("c-root (1)"), user="shop"))[0] == 401
        assert (await ask("connections/c-root/channels", user="shop"))[0] == 401
        assert (await ask("vhosts/%2F/channels", user="shop"))[0] == 401
        assert (await ask("consumers/%2F", user="shop"))[0] == 401
        assert (await ask("channels", user="watch"))[0] == 200
        assert (await ask("connections/username/root", user="shop")) == (200, [])
        page = (await ask("channels?page=1", user="shop"))[1]
        assert page["total_count"] == 2

    World().test(test)


def test_a_queue_has_its_consumers_and_the_time_of_its_head() -> None:
    world = World()
    world.view.heads["/", "q1"] = 1_600_000_000

    async def test(ask: Ask) -> None:
        _, row = await ask("queues/%2F/q1")
        assert [each["consumer_tag"] for each in row["consumer_details"]] == ["tag-1", "tag-2"]
        assert [each["stats"]["deliver_get"] for each in row["deliveries"]] == [10, 20]
        assert row["deliveries"][0]["channel_details"]["name"] == "c-root (1)"
        assert (row["head_message_timestamp"], row["incoming"]) == (1_600_000_000, [])
        assert (await ask("queues/%2F/q2"))[1]["head_message_timestamp"] is None

    world.test(test)


def test_rates_of_queues_come_with_the_second_look_and_can_be_sorted_by() -> None:
    world = World()

    async def test(ask: Ask) -> None:
        _, rows = await ask("queues")
        assert "publish_details" not in rows[0]["message_stats"]
        world.count("q1", 100)
        world.count("q3", 500)
        await world.sample()
        sort = "sort=message_stats.publish_details.rate&sort_reverse=true"
        _, rows = await ask(f"queues?{sort}&columns=name,message_stats.publish_details")
        assert [row["name"] for row in rows] == ["q3", "q1", "q2"]
        assert rows[0]["message_stats"] == {"publish_details": {"rate": 100.0}}
        _, row = await ask("queues/%2F/q1?msg_rates_age=60&msg_rates_incr=5")
        assert row["message_stats"]["publish_details"]["samples"][0]["sample"] == 100
        assert row["messages_details"] == {"rate": 0.0}
        assert (await ask("queues?lengths_age=60&lengths_incr=no"))[0] == 400

    world.test(test)


@pytest.mark.parametrize(
    "sort", ["name", "vhost", "messages_ready", "messages", "consumers", "state", "message_bytes"]
)
def test_short_ways_of_sorting_say_the_same_as_the_rows(sort: str) -> None:
    world = World()
    for number in (1, 2, 3):
        depth = (number + 1, number, 1)
        world.tallies.numbers[QUEUE, ("/", f"q{number}")] = (*depth, *(0,) * 8)

    async def test(ask: Ask) -> None:
        _, rows = await ask(f"queues?sort={sort}&sort_reverse=true")
        values = [row[sort] for row in rows]
        assert values == sorted(values, reverse=True)

    world.test(test)


def test_a_list_without_stats_is_bare_and_makes_nobody_look() -> None:
    world = World()

    async def test(ask: Ask) -> None:
        _, rows = await ask("queues?disable_stats=true")
        assert "messages" not in rows[0] and "message_stats" not in rows[0]
        assert rows[0]["name"] == "q1" and rows[0]["arguments"] == {"x-max-length": 10}
        _, rows = await ask("queues?disable_stats=true&enable_queue_totals=true")
        assert rows[1]["messages"] == 3 and "message_stats" not in rows[1]
        assert world.rates.track_count == 0
        _, overview = await ask("overview?disable_stats=true")
        assert "message_stats" not in overview
        _, rows = await ask("queues/detailed")
        assert [row["name"] for row in rows] == ["q1", "q2", "q3"]
        assert world.rates.track_count == 3

    world.test(test)


def test_overview_nodes_and_vhosts_have_rates() -> None:
    world = World()
    world.tallies.numbers[VHOST, "/"] = (10, 5, 5, *(0,) * 8)

    async def test(ask: Ask) -> None:
        await ask("vhosts")
        await ask("overview")
        world.tallies.numbers[NODE, None] = (50,) * len(unknown(NODE))
        world.tallies.numbers[VHOST, "/"] = (60, 30, 30, *(0,) * 8)
        await world.sample()
        _, overview = await ask("overview?lengths_age=60&lengths_incr=5")
        assert overview["message_stats"]["publish_details"] == {"rate": 10.0}
        assert overview["churn_rates"]["queue_created_details"] == {"rate": 10.0}
        detail = overview["queue_totals"]["messages_details"]
        assert [each["sample"] for each in detail["samples"]] == [50, 0]
        assert detail["avg"] == 25.0
        _, (node,) = await ask("nodes")
        assert node["mem_used_details"] == {"rate": 10.0}
        assert node["message_stats"]["publish_details"] == {"rate": 10.0}
        assert node["queue_totals"]["messages_ready"] == 6
        _, vhosts = await ask("vhosts")
        assert vhosts[0]["messages_details"] == {"rate": 10.0}
        assert "messages_details" not in vhosts[1]

    world.test(test)


def test_exchanges_have_what_went_in_and_out() -> None:
    world = World()
    world.view.exchanges["/", "logs"] = ExchangeView(
        vhost="/",
        name="logs",
        type="fanout",
        durable=True,
        auto_delete=False,
        internal=False,
        arguments={},
    )
    world.tallies.numbers[EXCHANGE, ("/", "logs")] = (0, 0)

    async def test(ask: Ask) -> None:
        await ask("exchanges")
        world.tallies.numbers[EXCHANGE, ("/", "logs")] = (10, 30)
        await world.sample()
        for path in ("exchanges", "exchanges/%2F", "exchanges/%2F/logs"):
            _, found = await ask(path)
            row = found[0] if isinstance(found, list) else found
            assert row["message_stats"] == {
                "publish_in": 10,
                "publish_out": 30,
                "publish_in_details": {"rate": 2.0},
                "publish_out_details": {"rate": 6.0},
            }

    world.test(test)


def test_samples_are_forgotten_by_administrators_alone() -> None:
    world = World()

    async def test(ask: Ask) -> None:
        await ask("queues")
        assert (await ask("reset", user="watch", method="DELETE"))[0] == 401
        assert world.rates.track_count == 3
        assert (await ask("reset", method="DELETE"))[0] == 204
        assert world.rates.track_count == 0

    world.test(test)


def test_version_memory_and_the_queues_of_a_user() -> None:
    async def test(ask: Ask) -> None:
        assert (await ask("version"))[1].startswith("4.")
        _, found = await ask("nodes/warren@here/memory")
        assert found["memory"]["total"] == {"rss": 1000, "erlang": 1000}
        assert (await ask("nodes/none/memory"))[0] == 404
        assert (await ask("nodes/warren@here/memory", user="shop"))[0] == 401
        assert (await ask("users/shop/queues")) == (200, [])
        assert (await ask("users/none/queues"))[0] == 404

    World().test(test)


def test_connections_and_channels_are_sorted_by_what_is_counted_of_them() -> None:
    world = World()
    for name, received in (("c-root", 500), ("c-shop", 70)):
        world.tallies.numbers[CONNECTION, name] = (received, 0)
    world.tallies.numbers[CHANNEL, ("c-shop", 1)] = (9, *(0,) * 10)
    world.tallies.numbers[CHANNEL, ("c-root", 2)] = (5, *(0,) * 10)

    async def test(ask: Ask) -> None:
        _, rows = await ask("connections?sort=recv_oct&columns=name")
        assert [row["name"] for row in rows] == ["c-shop", "c-root"]
        _, page = await ask("connections?page=1&page_size=1&sort=name&sort_reverse=true")
        assert [row["name"] for row in page["items"]] == ["c-shop"]
        sort = "sort=message_stats.publish&sort_reverse=true&columns=name"
        _, page = await ask(f"channels?page=1&page_size=2&{sort}")
        assert [row["name"] for row in page["items"]] == ["c-shop (1)", "c-root (2)"]
        _, rows = await ask("consumers?sort=delivered&sort_reverse=true&columns=consumer_tag")
        assert [row["consumer_tag"] for row in rows] == ["tag-3", "tag-2", "tag-1"]
        world.tallies.numbers[CONNECTION, "c-shop"] = (5070, 0)
        await world.sample()
        _, rows = await ask("connections?sort=recv_oct_details.rate&columns=name")
        assert [row["name"] for row in rows] == ["c-root", "c-shop"]

    world.test(test)


def test_who_does_nothing_is_idle_since_it_last_did() -> None:
    world = World()
    world.tallies.numbers[CHANNEL, ("c-root", 1)] = (1, *(0,) * 10)

    async def idle(ask: Ask) -> list[str | None]:
        _, channels = await ask("channels")
        _, queues = await ask("queues")
        _, queue = await ask("queues/%2F/q1")
        assert queue.get("idle_since") == queues[0].get("idle_since")
        return [channels[0].get("idle_since"), queues[0].get("idle_since")]

    async def test(ask: Ask) -> None:
        assert await idle(ask) == [None, None]  # Not known yet.
        world.count("q1", 1)
        await world.sample()
        assert await idle(ask) == ["2023-11-14T22:13:20.000+00:00", None]
        await world.sample()
        await world.sample()
        assert (await idle(ask))[1] == "2023-11-14T22:13:25.000+00:00"
        world.tallies.numbers[CHANNEL, ("c-root", 1)] = (2, *(0,) * 10)
        await world.sample()
        assert (await idle(ask))[0] is None

    world.test(test)

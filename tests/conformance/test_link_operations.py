"""Pause, resume, limits, lag and events of shovels and federation links, on real nodes."""

from collections.abc import Iterator
from time import monotonic
from typing import Any

import pytest

from node.cli.warrenctl import main
from tests.conformance.federation_pair import Cluster
from tests.conformance.test_shovels import LOCAL, drained, fill, shovel, state
from tests.waiting import eventually
from warren.testing import Node
from warren.testing.http_api import HttpApi


@pytest.fixture(scope="module")
def here() -> Iterator[Node]:
    with Node(name="here", settings={"events.exchange": "true"}) as node:
        yield node


@pytest.fixture(scope="module")
def there() -> Iterator[Node]:
    with Node(name="there") as node:
        yield node


def ends(there: Node, queue: str) -> dict[str, Any]:
    return {
        "src_uri": there.url,
        "src_queue": queue,
        "dest_uri": LOCAL,
        "dest_queue": queue,
        "reconnect_delay": 0.2,
    }


def depth(node: Node, queue: str) -> int:
    status, row = HttpApi(node.management_url).ask("GET", f"/queues/%2F/{queue}")
    return int(row["messages"]) if status == 200 else 0


def test_paused_shovel_moves_nothing_until_it_is_resumed_even_after_a_crash(there: Node) -> None:
    with Node(name="home") as home:
        fill(there, "still", 10)
        api = shovel(home, "still", **ends(there, "still"))
        drained(home, "still", 10)
        away = HttpApi(there.management_url)
        assert main(["--node-url", home.management_url, "pause_shovel", "still"]) == 0
        eventually(lambda: away.get("/queues/%2F/still")["consumers"] == 0)
        assert state(api, "still") == "paused"
        fill(there, "still", 25)
        home.kill9()
        home.start()
        eventually(lambda: state(api, "still") == "paused")
        assert depth(there, "still") == 25
        assert "paused" not in str(api.get("/global-parameters"))
        assert main(["--node-url", home.management_url, "resume_shovel", "still"]) == 0
        assert [int(body) for _, body in drained(home, "still", 25)] == list(range(25))
        eventually(lambda: api.get("/shovels")[0]["messages_forwarded"] == 25)


def test_pause_waits_for_confirms_so_that_nothing_comes_twice(here: Node, there: Node) -> None:
    count = 4_000
    fill(there, "many", count)
    api = shovel(here, "many", **ends(there, "many"), max_messages_per_second=3_000)
    for least in (300, 900, 1_500):
        eventually(lambda: depth(here, "many") >= least)  # noqa: B023
        api.put("/shovels/vhost/%2F/many/pause", {})
        eventually(lambda: state(api, "many") == "paused")
        api.delete("/shovels/vhost/%2F/many/pause")
    eventually(lambda: depth(there, "many") == 0)
    assert [int(body) for _, body in drained(here, "many", count)] == list(range(count))
    assert depth(here, "many") == 0
    api.delete("/parameters/shovel/%2F/many")


@pytest.mark.parametrize(
    "limit", [{"max_messages_per_second": 100}, {"max_bytes_per_second": 100 * 1}]
)
def test_limit_holds_and_the_lag_is_shown(here: Node, there: Node, limit: dict[str, int]) -> None:
    fill(there, "slow", 250)
    begun = monotonic()
    api = shovel(here, "slow", **ends(there, "slow"), **limit)
    eventually(lambda: api.get("/shovels/vhost/%2F/slow").get("lag_messages", 0) > 0)
    eventually(lambda: depth(here, "slow") > 0)
    moved_at_once = depth(here, "slow")
    if "max_messages_per_second" in limit:
        eventually(lambda: depth(here, "slow") == 250)
        assert monotonic() - begun > 2.0
    else:
        assert moved_at_once < 250
    row = api.get("/shovels/vhost/%2F/slow")
    assert row["bytes_forwarded"] > 0
    api.delete("/parameters/shovel/%2F/slow")
    for node in (here, there):
        HttpApi(node.management_url).delete("/queues/%2F/slow")


def test_deleted_shovel_forgets_that_it_was_paused(here: Node, there: Node) -> None:
    api = shovel(here, "again", **ends(there, "again"))
    api.put("/shovels/vhost/%2F/again/pause", {})
    eventually(lambda: state(api, "again") == "paused")
    api.delete("/parameters/shovel/%2F/again")
    eventually(lambda: state(api, "again") == "")
    shovel(here, "again", **ends(there, "again"))
    eventually(lambda: state(api, "again") == "running")
    api.delete("/parameters/shovel/%2F/again")
    assert api.ask("PUT", "/shovels/vhost/%2F/again/pause", {})[0] == 404


def test_last_error_stays_when_the_shovel_runs_again(here: Node, there: Node) -> None:
    api = shovel(here, "once", **ends(there, "once"), src_predeclared=True)
    eventually(lambda: state(api, "once") == "terminated")
    fill(there, "once", 1)
    eventually(lambda: state(api, "once") == "running")
    row = api.get("/shovels/vhost/%2F/once")
    assert "no queue 'once'" in row["last_error"]
    assert "reason" not in row
    api.delete("/parameters/shovel/%2F/once")


def test_link_is_paused_and_resumed_and_its_states_are_events(here: Node, there: Node) -> None:
    down, up = Cluster(here), Cluster(there)
    channel = down.channel()
    queue = channel.queue_declare("", exclusive=True).method.queue
    channel.queue_bind(queue, "amq.rabbitmq.event", "federation.link.#")
    down.bound("fq", "fx", "#")
    down.upstream("up", up.url)
    down.federate("^fx$", "exchanges")
    (link,) = down.await_links()
    assert main(["--node-url", here.management_url, "pause_federation_link", link["id"]]) == 0
    eventually(lambda: [row["status"] for row in down.links()] == ["paused"])
    up.publish("fx", "k", 20)
    assert down.depth("fq") == 0
    assert main(["--node-url", here.management_url, "resume_federation_link", link["id"]]) == 0
    eventually(lambda: down.depth("fq") == 20)

    seen: list[str] = []

    def states() -> bool:
        while (one := channel.basic_get(queue, auto_ack=True))[0] is not None:
            seen.append(one[1].headers["status"])
        return seen == ["running", "paused", "starting", "running"]

    eventually(states, lambda: seen)
    assert main(["--node-url", here.management_url, "pause_federation_link", "nothing"]) == 65
    down.api.delete("/parameters/federation-upstream/%2F/up")
    down.close()
    up.close()

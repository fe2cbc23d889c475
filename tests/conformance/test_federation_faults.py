"""Federation links that break again and again: every message arrives, repeats are flagged."""

import os
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.cluster.toxiproxy import server_program
from tests.conformance.federation_pair import Cluster
from tests.conformance.test_shovel_faults import FAULTS
from tests.waiting import eventually
from warren.testing import Node, free_ports
from warren.testing.toxiproxy import Proxy, Toxic, ToxiproxyServer

COUNT = 1_200
STEPS = (200, 500, 800)  # messages that were forwarded when a fault begins

pytestmark = pytest.mark.timeout(240)


@pytest.fixture
def server() -> Iterator[ToxiproxyServer]:
    (port,) = free_ports(1)
    made = ToxiproxyServer(port, [], server_program())
    yield made
    made.stop()


@pytest.fixture
def up() -> Iterator[Cluster]:
    with Node(name="up") as node:
        yield Cluster(node)


@pytest.fixture
def down() -> Iterator[Cluster]:
    with Node(name="down") as node:
        yield Cluster(node)


def linked(kind: str, down: Cluster, up: Cluster, url: str) -> None:
    """Federate exchange `x`, or queue `q`, over the URL; messages end in queue `q` here."""
    limits = {"prefetch_count": 100, "reconnect_delay": 0.1, "max_messages_per_second": 400}
    down.bound("q", "x", "#")
    down.upstream("up", url, **limits)
    if kind == "exchange":
        down.federate("^x$", "exchanges")
    else:
        up.channel().queue_declare("q", durable=True)
        down.federate("^q$", "queues")
    down.await_links()
    down.close()


class Taken:
    """What a consumer of `q` got, while the link is broken and mended."""

    def __init__(self, down: Cluster) -> None:
        self.repeats_without_flag: list[bytes] = []
        self.seen: Counter[bytes] = Counter()
        self._down = down
        self._channel: Any = None

    def look(self) -> int:
        """Take what is there; how many different messages came so far."""
        if self._channel is None or not self._channel.is_open:
            self._channel = self._down.channel()
            self._channel.basic_qos(prefetch_count=200)
            self._channel.basic_consume("q", self._on)
        self._channel.connection.process_data_events(time_limit=0.05)
        return len(self.seen)

    def lost_connection(self) -> None:
        self._channel = None

    def _on(self, channel: Any, method: Any, properties: Any, body: bytes) -> None:
        hop = (properties.headers or {})["x-received-from"][0]
        if self.seen[body] and not (method.redelivered or hop["redelivered"]):
            self.repeats_without_flag.append(body)
        self.seen[body] += 1
        channel.basic_ack(method.delivery_tag)


def await_step(taken: Taken, step: int) -> None:
    """Wait until so many messages came."""
    eventually(lambda: taken.look() >= step, lambda: len(taken.seen))


def settled(taken: Taken) -> None:
    eventually(lambda: taken.look() == COUNT, lambda: len(taken.seen), seconds=60)
    assert set(taken.seen) == {b"%d" % number for number in range(COUNT)}
    assert taken.repeats_without_flag == []


EVERY = [(kind, fault) for kind in ("exchange", "queue") for fault in ("down", *FAULTS)]
LONG = os.environ.get("WARREN_LONG") == "1"  # Else each kind meets every second fault.


def await_change(down: Cluster, taken: Taken) -> None:
    """Until messages arrive over the link, or it breaks; or all had arrived before."""
    status, seen = down.links()[0]["status"], len(taken.seen)

    def is_another() -> bool:
        return taken.look() == COUNT or (down.links()[0]["status"], len(taken.seen)) != (
            status,
            seen,
        )

    eventually(is_another)


@pytest.mark.parametrize(("kind", "fault"), EVERY if LONG else EVERY[::2])
def test_every_message_arrives_over_a_link_that_breaks(
    server: ToxiproxyServer, up: Cluster, down: Cluster, kind: str, fault: str
) -> None:
    (listen,) = free_ports(1)
    server.proxies["link"] = Proxy("link", listen, f"{up.node.host}:{up.node.port}")
    server.start()
    linked(kind, down, up, f"amqp://guest:guest@127.0.0.1:{listen}?connection_timeout=3000")
    up.publish("x" if kind == "exchange" else "", "q", COUNT)
    taken = Taken(down)
    for step in STEPS:
        await_step(taken, step)
        if fault == "down":
            server.down("link")
            eventually(lambda: down.links()[0]["status"] != "running")
        else:
            server.add("link", FAULTS[fault])
            await_change(down, taken)
        server.heal()
    settled(taken)


@pytest.mark.parametrize("side", ["up", "down"])
@pytest.mark.parametrize("kind", ["exchange", "queue"])
def test_every_message_arrives_when_a_side_is_killed(
    up: Cluster, down: Cluster, kind: str, side: str
) -> None:
    linked(kind, down, up, up.url)
    up.publish("x" if kind == "exchange" else "", "q", COUNT)
    up.close()
    taken = Taken(down)
    for step in STEPS[:2]:
        await_step(taken, step)
        killed = up if side == "up" else down
        killed.node.kill9()
        killed.node.start()
        if side == "down":
            taken.lost_connection()
    settled(taken)


def changes(kind: str, down: Cluster, url: str) -> list[Callable[[], object]]:
    """Of what a running link is made of; each gives it another prefetch: 50, 60, 50."""
    limits = {"reconnect_delay": 0.1, "max_messages_per_second": 400}
    name = "x" if kind == "exchange" else "q"

    def another_prefetch() -> None:
        down.upstream("up", url, prefetch_count=50, **limits)

    def another_policy() -> None:
        """One of a higher priority, with a set in place of all upstreams."""
        value = {"value": [{"upstream": "up", "prefetch-count": 60}]}
        down.api.put("/parameters/federation-upstream-set/%2F/chosen", value)
        definition = {"federation-upstream-set": "chosen"}
        body = {"pattern": f"^{name}", "apply-to": f"{kind}s", "priority": 9}
        down.api.put("/policies/%2F/chosen", body | {"definition": definition})

    def no_policy() -> None:
        """The one of before holds again."""
        down.api.delete("/policies/%2F/chosen")

    return [another_prefetch, another_policy, no_policy]


@pytest.mark.parametrize("kind", ["exchange", "queue"])
def test_every_message_arrives_while_upstream_and_policies_are_changed(
    up: Cluster, down: Cluster, kind: str
) -> None:
    linked(kind, down, up, up.url)
    up.publish("x" if kind == "exchange" else "", "q", COUNT)
    up.close()
    taken = Taken(down)
    for step, change, prefetch in zip(
        STEPS, changes(kind, down, up.url), (50, 60, 50), strict=True
    ):
        await_step(taken, step)
        change()
        eventually(lambda: taken.look() and consumers_of(up) == [prefetch])  # noqa: B023
    settled(taken)
    assert len(down.links()) == 1


def consumers_of(up: Cluster) -> list[int]:
    """Prefetch of each consumer at the upstream: those of its links."""
    return [int(row["prefetch_count"]) for row in up.api.get("/consumers/%2F")]


PREFETCH = 100
LOST_ACKS = Toxic("timeout", "upstream", {"timeout": 0})


def upstream_row(up: Cluster) -> dict[str, Any]:
    """The queue that the link consumes."""
    rows = up.api.get("/queues/%2F")
    return next(row for row in rows if row["name"] == "q" or row["name"].startswith("federation"))


def is_stuck(up: Cluster, taken: Taken, published: int) -> bool:
    """Whether all that the link may get without acknowledging has arrived."""
    row = upstream_row(up)
    has_arrived = taken.look() == published - row["messages_ready"]
    return bool(has_arrived and row["messages_unacknowledged"] == PREFETCH)


@pytest.mark.parametrize("kind", ["exchange", "queue"])
def test_a_link_that_marks_ids_brings_nothing_twice(
    server: ToxiproxyServer, up: Cluster, down: Cluster, kind: str
) -> None:
    """The upstream loses its acknowledgements, three times for a whole prefetch."""
    (listen,) = free_ports(1)
    server.proxies["link"] = Proxy("link", listen, f"{up.node.host}:{up.node.port}")
    server.start()
    down.bound("q", "x", "#", queue_type="quorum", id_cache_size=2 * COUNT)
    url = f"amqp://guest:guest@127.0.0.1:{listen}?connection_timeout=3000"
    limits = {"prefetch_count": PREFETCH, "reconnect_delay": 0.1}
    down.upstream("up", url, federation_dedup=True, **limits)
    up.bound("q" if kind == "queue" else "other", "y", "#", queue_type="quorum")
    down.federate("^x$" if kind == "exchange" else "^q$", f"{kind}s")
    down.await_links()
    taken = Taken(down)
    taken.look()
    exchange = "x" if kind == "exchange" else ""
    for first in range(0, COUNT, COUNT // 3):
        end = first + COUNT // 3
        up.publish(exchange, "q", 1, first)
        eventually(lambda: taken.look() == first + 1)  # noqa: B023
        server.add("link", LOST_ACKS)
        up.publish(exchange, "q", end - first - 1, first + 1)
        eventually(lambda: is_stuck(up, taken, end))  # noqa: B023
        server.down("link")
        eventually(lambda: down.links()[0]["status"] != "running")
        server.heal()
        eventually(lambda: taken.look() == end)  # noqa: B023
        eventually(lambda: upstream_row(up)["messages"] == 0)
        down.await_links()
    taken.look()
    assert set(taken.seen) == {b"%d" % number for number in range(COUNT)}
    assert {body: count for body, count in taken.seen.items() if count > 1} == {}

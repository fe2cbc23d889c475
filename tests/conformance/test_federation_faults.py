"""Federation links that break again and again: every message arrives, repeats are flagged."""

import os
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from tests.cluster.toxiproxy import server_program
from tests.conformance.federation_pair import Cluster
from tests.conformance.test_shovel_faults import FAULTS
from tests.waiting import eventually
from warren.testing import Node, free_ports
from warren.testing.toxiproxy import Proxy, ToxiproxyServer

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


def forwarded(down: Cluster) -> int:
    return sum(int(row["messages_forwarded"]) for row in down.links())


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
        eventually(lambda: taken.look() >= step, lambda: len(taken.seen))  # noqa: B023
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
        eventually(lambda: taken.look() >= step, lambda: len(taken.seen))  # noqa: B023
        killed = up if side == "up" else down
        killed.node.kill9()
        killed.node.start()
        if side == "down":
            taken.lost_connection()
    settled(taken)

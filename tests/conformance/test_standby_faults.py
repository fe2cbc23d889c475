"""Warm standbys under load and behind a link that breaks: what is there after the promotion."""

import os
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field

import pika
import pytest

from tests.cluster.toxiproxy import server_program
from tests.conformance.standby_pair import Side, feed_uri
from tests.conformance.test_shovel_faults import FAULTS
from tests.waiting import eventually
from warren.testing import Node, free_ports
from warren.testing.toxiproxy import Proxy, ToxiproxyServer

LONG = os.environ.get("WARREN_LONG") == "1"
SETTLE_MS = 1_000  # a client's acknowledgement is on its way so long, on a busy machine
VHOST = "orders"
PASSED = 400  # messages that were confirmed when the primary is killed

pytestmark = pytest.mark.timeout(240)


@pytest.fixture
def primary() -> Iterator[Side]:
    with Node(name="primary") as node:
        side = Side(node, VHOST)
        side.add_vhost()
        yield side
        side.close()


@pytest.fixture
def standby() -> Iterator[Side]:
    with Node(name="standby") as node:
        side = Side(node, VHOST)
        side.add_vhost()
        yield side
        side.close()


def now_ms() -> int:
    return int(time.time() * 1000)


@dataclass
class Traffic:
    """A publisher and a consumer of one queue until the primary dies: times by message."""

    side: Side
    queue: str
    confirmed: dict[int, int] = field(default_factory=dict)
    settled: dict[int, int] = field(default_factory=dict)

    def has_settled_before(self, at_ms: int) -> bool:
        return next(iter(self.settled.values()), at_ms) < at_ms

    def start(self) -> list[threading.Thread]:
        threads = [threading.Thread(target=each) for each in (self._publish, self._consume)]
        for each in threads:
            each.start()
        return threads

    def _publish(self) -> None:
        with suppress(pika.exceptions.AMQPError):
            channel = Side(self.side.node, VHOST).channel()
            channel.confirm_delivery()
            for number in range(1_000_000):
                persistent = pika.BasicProperties(delivery_mode=2)
                channel.basic_publish("", self.queue, b"%d" % number, persistent)
                self.confirmed[number] = now_ms()

    def _consume(self) -> None:
        """Settle two of three messages, and keep the others."""
        with suppress(pika.exceptions.AMQPError):
            channel = Side(self.side.node, VHOST).channel()
            channel.basic_qos(prefetch_count=0)
            for method, _, body in channel.consume(self.queue):
                if int(body) % 3:
                    channel.basic_ack(method.delivery_tag)
                    channel.connection.process_data_events(time_limit=0)
                    self.settled[int(body)] = now_ms()


def test_the_recovery_point_holds_when_the_primary_is_killed_under_load(
    primary: Side, standby: Side
) -> None:
    channel = primary.channel()
    queues = {"classic": "one", "quorum": "two"}
    for kind, queue in queues.items():
        channel.queue_declare(queue, durable=True, arguments={"x-queue-type": kind})
    standby.follow(feed_uri(primary.node.management_url), interval=0.5)
    standby.synced_after(now_ms())
    flows = [Traffic(primary, queue) for queue in queues.values()]
    threads = [each for flow in flows for each in flow.start()]
    eventually(lambda: all(len(flow.confirmed) > PASSED for flow in flows), seconds=60)
    eventually(lambda: all(flow.has_settled_before(now_ms() - SETTLE_MS) for flow in flows))
    at_ms = now_ms()
    standby.synced_after(at_ms)
    primary.node.kill9()
    for each in threads:
        each.join()
    eventually(lambda: standby.row()["state"] == "error", standby.row)
    synced_ms = standby.row()["synced_at"]
    assert synced_ms > at_ms
    code, text = standby.promote()
    assert code == 0, text
    for flow in flows:
        rest = {int(body) for body in remaining(standby, flow.queue)}
        safe = {each for each, ms in flow.confirmed.items() if ms < synced_ms}
        assert safe - flow.settled.keys() <= rest, "confirmed before the recovery point, and lost"
        done = {each for each, ms in flow.settled.items() if ms < synced_ms - SETTLE_MS}
        assert done and not done & rest, "settled before the recovery point, and back"


def remaining(side: Side, queue: str) -> list[bytes]:
    """All messages of a promoted queue, once none are held; each must be there once, in order."""
    channel = side.channel()
    counts = f"/queues/{side.path}/{queue}"
    eventually(lambda: side.api.get(counts)["messages_unacknowledged"] == 0)
    ready = channel.queue_declare(queue, passive=True).method.message_count
    found = [bytes(channel.basic_get(queue)[2]).rstrip(b"\0") for _ in range(ready)]
    assert sorted(set(found), key=int) == found
    return found


@pytest.fixture
def server() -> Iterator[ToxiproxyServer]:
    (port,) = free_ports(1)
    made = ToxiproxyServer(port, [], server_program())
    yield made
    made.stop()


@pytest.mark.parametrize("fault", ["down", *FAULTS] if LONG else ["reset"])
def test_a_standby_is_the_same_after_its_link_has_broken(
    server: ToxiproxyServer, primary: Side, standby: Side, fault: str
) -> None:
    (listen,) = free_ports(1)
    place = primary.node.management_url.rpartition("/")[2]
    server.proxies["link"] = Proxy("link", listen, place)
    server.start()
    standby.follow(f"http://guest:guest@127.0.0.1:{listen}")
    channel = primary.channel()
    channel.queue_declare("q", durable=True)
    channel.confirm_delivery()
    expected: list[int] = []
    for step in range(3):
        if fault == "down":
            server.down("link")
        else:
            server.add("link", FAULTS[fault])
        for number in range(step * 300, step * 300 + 300):
            persistent = pika.BasicProperties(delivery_mode=2)
            channel.basic_publish("", "q", b"%d" % number + bytes(2000), persistent)
            expected.append(number)
        for _ in range(100):
            method, _, _ = channel.basic_get("q")
            channel.basic_ack(method.delivery_tag)
            expected.pop(0)
        has_failed(standby, fault)
        server.heal()
        standby.synced_after(now_ms())
        assert standby.row()["messages"] == len(expected)
    primary.node.kill9()
    code, text = standby.promote()
    assert code == 0, text
    assert [int(body) for body in remaining(standby, "q")] == expected


def has_failed(standby: Side, fault: str) -> None:
    """Wait until the standby has met the fault, where it cannot pass."""
    if fault in ("down", "reset"):
        eventually(lambda: standby.row()["state"] == "error", standby.row)
        assert standby.row()["error"]

"""Migrate with deploy/migrate.py from a real RabbitMQ, while its clients run."""

import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pika
import pytest

from tests.conformance.federation_pair import Cluster
from tests.conformance.rabbitmq import RELEASES, RabbitMq
from tests.waiting import eventually
from warren.testing import Node

pytestmark = [pytest.mark.source, pytest.mark.timeout(240)]
BACKLOG = 2000
QUEUES = ("orders", "bills")
SCRIPT = Path(__file__).parents[2] / "deploy" / "migrate.py"
QUIET_S = "6"  # RabbitMQ counts messages of quorum queues every 5 seconds


@pytest.fixture(params=RELEASES, ids=lambda release: release.version)
def sides(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[Cluster, Cluster]]:
    with RabbitMq(request.param, tmp_path / "node", "blue") as old, Node(name="green") as new:
        found = Cluster(old), Cluster(new)
        yield found
        for each in found:
            each.close()


def migrate(
    step: str, sides: tuple[Cluster, Cluster], *more: str
) -> subprocess.CompletedProcess[str]:
    """Run the script as its users do."""
    old, new = (each.node.management_url for each in sides)
    command = [sys.executable, str(SCRIPT), step, "--old", old, "--new", new, *more]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)


class Client(threading.Thread):
    """A publisher or consumer of one queue on one cluster, until `end`."""

    def __init__(self, cluster: Cluster, queue: str) -> None:
        super().__init__(daemon=True)
        self._url, self._queue = cluster.url, queue
        self._ended = threading.Event()
        self.start()

    def end(self) -> None:
        self._ended.set()
        self.join(30)
        assert not self.is_alive()


class Publisher(Client):
    """Publish numbers with confirms."""

    def __init__(self, cluster: Cluster, queue: str, first: int) -> None:
        self.next = first
        super().__init__(cluster, queue)

    def run(self) -> None:
        with pika.BlockingConnection(pika.URLParameters(self._url)) as connection:
            channel = connection.channel()
            channel.confirm_delivery()
            while not self._ended.is_set():
                made = pika.BasicProperties(delivery_mode=2)
                channel.basic_publish("work", self._queue, b"%d" % self.next, made, mandatory=True)
                self.next += 1
                connection.sleep(0.005)


class Consumer(Client):
    """Count each message that it has acknowledged."""

    def __init__(self, cluster: Cluster, queue: str, into: Counter[int]) -> None:
        self._into = into
        super().__init__(cluster, queue)

    def run(self) -> None:
        with pika.BlockingConnection(pika.URLParameters(self._url)) as connection:
            channel = connection.channel()
            channel.basic_qos(prefetch_count=20)
            for method, _, body in channel.consume(self._queue, inactivity_timeout=0.05):
                if method is not None:
                    self._into[int(body)] += 1
                    channel.basic_ack(method.delivery_tag)
                if self._ended.is_set():
                    channel.cancel()
                    return


def declare(old: Cluster) -> None:
    """Queues with a backlog, one of them under a policy that holds during the migration too."""
    channel = old.channel()
    channel.exchange_declare("work", "direct", durable=True)
    body = {"pattern": "^orders$", "apply-to": "all", "definition": {"max-length": 100_000}}
    old.api.put("/policies/%2F/limits", body)
    for queue, kind in zip(QUEUES, ("classic", "quorum"), strict=True):
        channel.queue_declare(queue, durable=True, arguments={"x-queue-type": kind})
        channel.queue_bind(queue, "work", queue)
        old.publish("work", queue, BACKLOG)


def policies(cluster: Cluster) -> set[str]:
    return {each["name"] for each in cluster.api.get("/policies")}


def left_in_finish(sides: tuple[Cluster, Cluster]) -> set[str]:
    """The queues because of which the migration does not end, as none has a new consumer."""
    refused = migrate("finish", sides, "--quiet", QUIET_S)
    assert refused.returncode == 1
    text = refused.stderr
    reason = "messages, no consumer in the new cluster"
    rows = [each for each in text.split("; ") if reason in each and " 0 " not in each]
    return {queue for queue in QUEUES if any(f"queue '{queue}'" in each for each in rows)}


def test_clients_move_while_they_run_and_each_message_is_consumed_once(
    sides: tuple[Cluster, Cluster],
) -> None:
    old, new = sides
    declare(old)
    publishers = [Publisher(old, queue, BACKLOG) for queue in QUEUES]
    seen: dict[str, Counter[int]] = {queue: Counter() for queue in QUEUES}
    consumers = [Consumer(old, queue, seen[queue]) for queue in QUEUES]
    upstream = ("--upstream", f"amqp://guest:guest@127.0.0.1:{old.node.port}")

    name = new.api.get("/cluster-name")
    new.api.put("/cluster-name", old.api.get("/cluster-name"))
    refused = migrate("check", sides)
    assert refused.returncode == 1
    assert "both clusters have the same name" in refused.stderr
    new.api.put("/cluster-name", name)
    assert migrate("start", sides, *upstream, "--dry-run").returncode == 0
    assert "orders" not in {each["name"] for each in new.api.get("/queues")}
    started = migrate("start", sides, *upstream)
    assert started.returncode == 0, started.stderr
    assert "guest:guest" not in started.stdout + started.stderr
    new.await_links(len(QUEUES))

    for consumer in consumers:
        consumer.end()
    eventually(lambda: left_in_finish(sides) == set(QUEUES))
    consumers = [Consumer(new, queue, seen[queue]) for queue in QUEUES]
    began = {queue: len(seen[queue]) for queue in QUEUES}
    eventually(lambda: all(len(seen[queue]) > began[queue] for queue in QUEUES))
    firsts = [publisher.next for publisher in publishers]
    eventually(lambda: all(p.next > first for p, first in zip(publishers, firsts, strict=True)))
    for publisher in publishers:
        publisher.end()
    publishers = [
        Publisher(new, queue, publisher.next)
        for queue, publisher in zip(QUEUES, publishers, strict=True)
    ]
    assert migrate("wait", sides, "--quiet", QUIET_S, "--timeout", "60").returncode == 0
    assert migrate("finish", sides, "--quiet", "1").returncode == 0
    for publisher in publishers:
        publisher.end()

    for queue, publisher in zip(QUEUES, publishers, strict=True):
        eventually(lambda: len(seen[queue]) >= publisher.next)  # noqa: B023
    for consumer in consumers:
        consumer.end()
    for queue, publisher in zip(QUEUES, publishers, strict=True):
        assert seen[queue] == Counter(range(publisher.next))
    assert policies(new) == {"limits"}
    assert new.links() == []
    assert new.api.get("/parameters/federation-upstream") == []

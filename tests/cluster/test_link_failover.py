"""Links in a cluster of three: each runs on one node, and moves when that node dies or drains."""

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pika
import pytest

from node.federating.local_side import DEMAND_TIMEOUT_S
from tests.cluster.toxiproxy import server_program
from tests.conformance.federation_pair import Cluster
from tests.waiting import crowding, eventually, within
from warren.testing import ClusterOfNodes, Node, free_ports
from warren.testing.http_api import HttpApi
from warren.testing.toxiproxy import Proxy, Toxic, ToxiproxyServer

MOVED_S = 2.0
LOCAL = "amqp:///%2F"
QUORUM = {"x-queue-type": "quorum"}
FIVE = 5

pytestmark = pytest.mark.timeout(240)


@pytest.fixture(scope="module")
def away() -> Iterator[Node]:
    with Node(name="away") as node:
        yield node


def fill(node: Node, queue: str, first: int, count: int) -> None:
    connection = pika.BlockingConnection(pika.URLParameters(node.url))
    channel = connection.channel()
    channel.queue_declare(queue, durable=True)
    channel.confirm_delivery()
    for number in range(first, first + count):
        channel.basic_publish("", queue, b"%d" % number, pika.BasicProperties(delivery_mode=2))
    connection.close()


def running_on(node: Node) -> str:
    """Name of the node that runs the only shovel, as that node knows it; "": none runs it."""
    rows: list[dict[str, Any]] = HttpApi(node.management_url).get("/shovels")
    assert len(rows) == 1, rows
    return str(rows[0]["node"]) if rows[0]["state"] == "running" else ""


def taken(node: Node, queue: str, count: int) -> list[int]:
    connection = pika.BlockingConnection(pika.URLParameters(node.url))
    channel = connection.channel()
    found: list[int] = []
    for _, _, body in channel.consume(queue, auto_ack=True, inactivity_timeout=20):
        assert body is not None, f"{len(found)} of {count} came"
        found.append(int(body))
        if len(set(found)) == count:
            break
    connection.close()
    return found


def ended(cluster: ClusterOfNodes, name: str, how: str) -> None:
    """Kill the node, or have it drained."""
    node = cluster.node(cluster.number_of(name))
    if how == "kill":
        node.kill9()
    else:
        HttpApi(node.management_url).post(f"/nodes/{name}/drain", {})


def returned(cluster: ClusterOfNodes, name: str, how: str) -> None:
    node = cluster.node(cluster.number_of(name))
    if how == "kill":
        node.start()
    else:
        HttpApi(node.management_url).post(f"/nodes/{name}/revive", {})


def shovelled(cluster: ClusterOfNodes, away: Node, queue: str) -> str:
    """Move the messages of a queue of the other node to the cluster; the node that does so."""
    value = {
        "src-uri": away.url,
        "src-queue": queue,
        "dest-uri": LOCAL,
        "dest-queue": queue,
        "dest-queue-args": QUORUM,
        "reconnect-delay": 0.1,
    }
    first = cluster.node(1)
    HttpApi(first.management_url).put("/parameters/shovel/%2F/moving", {"value": value})
    return eventually(lambda: running_on(first))


def pulled(cluster: ClusterOfNodes, away: Node, queue: str) -> str:
    """Federate the queue with that of the other node; the node that runs the link."""
    first = cluster.node(1)
    down = Cluster(first)
    down.channel().queue_declare(queue, durable=True, arguments=QUORUM)
    down.close()
    down.upstream("moving", away.url, reconnect_delay=0.1)
    down.federate(f"^{queue}$", "queues", **{"federation-upstream": "moving"})
    return eventually(lambda: linked_from(first))


@dataclass(frozen=True)
class Work:
    """A shovel or link of the cluster, the only one."""

    begin: Callable[[ClusterOfNodes, Node, str], str]
    where: Callable[[Node], str]
    component: str
    connection: str  # its name at the other node begins like this


WORK = {
    "shovel": Work(shovelled, lambda node: running_on(node), "shovel", "Shovel moving"),
    "link": Work(pulled, lambda node: linked_from(node), "federation-upstream", "Federation link"),
}


@pytest.fixture(scope="module")
def three() -> Iterator[ClusterOfNodes]:
    with ClusterOfNodes(3) as cluster:
        yield cluster


@pytest.mark.parametrize("how", ["kill", "drain"])
@pytest.mark.parametrize("what", ["shovel", "link"])
def test_it_runs_on_one_node_and_moves_within_two_seconds_when_that_ends(
    three: ClusterOfNodes, away: Node, what: str, how: str
) -> None:
    cluster, work, queue = three, WORK[what], f"{what}-{how}"
    fill(away, queue, 0, 100)
    name = work.begin(cluster, away, queue)
    eventually(lambda: {work.where(node) for node in cluster.nodes} == {name})
    begun = 100

    def move() -> float:
        nonlocal begun, name
        left = name
        other = cluster.node(cluster.number_of(left) % 3 + 1)
        begun_s = time.monotonic()
        ended(cluster, left, how)
        try:
            eventually(lambda: work.where(other) not in ("", left))
            took_s = time.monotonic() - begun_s
            name = work.where(other)
            fill(away, queue, begun, 100)
            begun += 100
        finally:
            returned(cluster, left, how)
        return took_s

    within(MOVED_S * crowding(), move)
    # A node that is back within ten seconds has its jobs again.
    name = eventually(lambda: agreed(cluster.nodes, work.where))
    source = HttpApi(away.management_url)
    eventually(lambda: connections_of(source, work) == 1)
    found = taken(cluster.node(cluster.number_of(name)), queue, begun)
    assert sorted(set(found)) == list(range(begun))
    eventually(lambda: source.get(f"/queues/%2F/{queue}")["messages"] == 0)
    first = HttpApi(cluster.node(1).management_url)
    first.delete(f"/parameters/{work.component}/%2F/moving")
    first.delete(f"/queues/%2F/{queue}")
    eventually(lambda: not first.get("/shovels") + first.get("/federation-links"))


def connections_of(source: HttpApi, work: Work) -> int:
    """How many connections at the other node are of such a shovel or link."""
    rows = source.get("/connections")
    names = [str(row["client_properties"].get("connection_name", "")) for row in rows]
    return sum(name.startswith(work.connection) for name in names)


def agreed(nodes: Sequence[Node], where: Callable[[Node], str]) -> str:
    """Name of the node that runs the only shovel or link, if all these say the same; else ""."""
    names = {where(each) for each in nodes}
    return names.pop() if len(names) == 1 else ""


def test_one_node_runs_the_shovel_after_its_node_was_halted(away: Node) -> None:
    """While it was halted, its consumer stayed and got every second message. It runs the shovel
    again if it is back before coordination has given its jobs away, which lasts ten seconds."""
    queue = "work-halted"
    source = HttpApi(away.management_url)
    with ClusterOfNodes(3) as cluster:
        fill(away, queue, 0, 100)
        halted = shovelled(cluster, away, queue)
        place = f"/queues/%2F/{queue}"
        eventually(lambda: source.get(place)["messages"] == 0)
        node = cluster.node(cluster.number_of(halted))
        other = cluster.node(cluster.number_of(halted) % 3 + 1)
        node.pause()
        eventually(lambda: running_on(other) not in ("", halted))
        fill(away, queue, 100, 100)
        node.resume()
        eventually(lambda: agreed(cluster.nodes, running_on))
        eventually(lambda: (row := source.get(place))["messages"] == 0 and row["consumers"] == 1)
        fill(away, queue, 200, 100)
        seen = Counter(taken(other, queue, 300))
        rows = HttpApi(other.management_url)
        eventually(lambda: rows.get(place)["messages_unacknowledged"] == 0)
        repeats = seen.total() - 300 + int(rows.get(place)["messages_ready"])
        assert sorted(seen) == list(range(300))
        assert repeats <= 50, "more than what the halted consumer got came twice"
        eventually(lambda: agreed(cluster.nodes, running_on))


PREFETCH = 100
LOST_ACKS = Toxic("timeout", "upstream", {"timeout": 0})


class Publishing(threading.Thread):
    """Publish numbers to queue `q` of the upstream with confirms, until `end`."""

    def __init__(self, up: Cluster) -> None:
        super().__init__(daemon=True)
        self._up = up
        self._ended = threading.Event()
        self.count = 0
        self.start()

    def run(self) -> None:
        connection = pika.BlockingConnection(pika.URLParameters(self._up.url))
        channel = connection.channel()
        channel.confirm_delivery()
        while not self._ended.is_set():
            made = pika.BasicProperties(delivery_mode=2)
            channel.basic_publish("", "q", b"%d" % self.count, made, mandatory=True)
            self.count += 1
            connection.sleep(0.002)
        connection.close()

    def end(self) -> int:
        self._ended.set()
        self.join(30)
        assert not self.is_alive()
        return self.count


class Taking:
    """A consumer of queue `q` in the cluster, always with demand for more. `new` counts deliveries
    that are not redeliveries of the cluster's own queue: those of a message that the link brought
    twice are among them."""

    def __init__(self) -> None:
        self.new: Counter[int] = Counter()
        self.seen: set[int] = set()
        self._channel: Any = None

    def at(self, node: Node) -> None:
        """Go on at that node."""
        if self._channel is not None and self._channel.is_open:
            self._channel.connection.close()
        self._channel = pika.BlockingConnection(pika.URLParameters(node.url)).channel()
        self._channel.basic_consume("q", self._on)

    def look(self) -> int:
        """Take what is there; how many different messages came so far."""
        self._channel.connection.process_data_events(time_limit=0.05)
        return len(self.seen)

    def _on(self, channel: Any, method: Any, properties: Any, body: bytes) -> None:
        self.seen.add(int(body))
        self.new[int(body)] += not method.redelivered
        channel.basic_ack(method.delivery_tag)


def linked_from(node: Node) -> str:
    """Name of the node that runs the only link; "": none runs it."""
    rows: list[dict[str, Any]] = HttpApi(node.management_url).get("/federation-links")
    is_running = len(rows) == 1 and rows[0]["status"] == "running"
    return str(rows[0]["node"]) if is_running else ""


def federated(up: Cluster, first: Node, url: str) -> None:
    """Have queue `q` of the cluster leave out what the link brings a second time."""
    down = Cluster(first)
    cached = {"x-id-cache-size": 100_000, "x-quorum-initial-group-size": FIVE}
    for side, more in ((up, {}), (down, cached)):
        side.channel().queue_declare("q", durable=True, arguments=QUORUM | more)
    limits = {"prefetch_count": PREFETCH, "reconnect_delay": 0.1}
    down.upstream("up", url, federation_dedup=True, **limits)
    down.federate("^q$", "queues")
    down.close()


def test_a_link_that_marks_ids_brings_nothing_twice_when_it_moves() -> None:
    """Its node is killed after the upstream has lost the acknowledgements of a whole prefetch,
    twice. No killed node comes back meanwhile: the link would move to it again at any moment."""
    api_port, port = free_ports(2)
    with Node(name="up") as upstream, ClusterOfNodes(FIVE) as cluster:
        address = f"{upstream.host}:{upstream.port}"
        server = ToxiproxyServer(api_port, [Proxy("link", port, address)], server_program())
        server.start()
        up = Cluster(upstream)
        federated(up, cluster.node(1), f"amqp://guest:guest@127.0.0.1:{port}")
        alive = cluster.nodes
        owner = eventually(lambda: agreed(alive, linked_from))
        taking, publishing = Taking(), Publishing(up)

        def upstream_row() -> dict[str, Any]:
            return dict(up.api.get("/queues/%2F/q"))

        def is_stuck() -> bool:
            taking.look()
            row = upstream_row()
            return bool(row["messages_unacknowledged"] == PREFETCH and row["messages_ready"])

        def moved() -> str:
            taking.look()
            found = agreed(alive, linked_from)
            return "" if found == owner else found

        try:
            for _ in range(2):
                killed = cluster.node(cluster.number_of(owner))
                alive = [each for each in alive if each is not killed]
                taking.at(alive[0])
                before = taking.look()
                eventually(lambda: taking.look() > before + PREFETCH)  # noqa: B023
                server.add("link", LOST_ACKS)
                eventually(is_stuck, upstream_row)
                killed.kill9()
                server.heal()
                owner = eventually(moved)
            count = publishing.end()
            eventually(lambda: taking.look() == count, lambda: (len(taking.seen), count))
            eventually(lambda: taking.look() and up.api.get("/queues/%2F/q")["messages"] == 0)
            taking.look()
            assert taking.seen == set(range(count))
            assert {number: n for number, n in taking.new.items() if n > 1} == {}
        finally:
            publishing.end()
            server.stop()
            up.close()


def test_a_link_goes_on_while_the_node_of_its_queue_is_late_to_answer(
    three: ClusterOfNodes, away: Node
) -> None:
    """A link that stops gives back what it has not passed on, and consumers wait for it again."""
    queue = "work-late"
    fill(away, queue, 0, 1)
    owner = three.number_of(pulled(three, away, queue))
    late = three.node(owner % 3 + 1)
    HttpApi(late.management_url).delete(f"/queues/%2F/{queue}")
    down = Cluster(late)
    channel = down.channel()
    channel.queue_declare(queue, durable=True)
    source = HttpApi(away.management_url)

    def consumers() -> int:
        return int(source.get(f"/queues/%2F/{queue}")["consumers"])

    channel.basic_consume(queue, lambda *_: None)
    eventually(lambda: consumers() == 1)
    late.pause()
    try:
        ended_s = time.monotonic() + 2 * DEMAND_TIMEOUT_S
        while time.monotonic() < ended_s:
            assert consumers() == 1
    finally:
        late.resume()
    down.close()
    eventually(lambda: consumers() == 0)

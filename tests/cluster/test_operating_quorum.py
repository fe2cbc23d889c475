"""Quorum queues of real nodes under operators' hands: members, leaders, drain, a lost disk."""

import json
import time
from collections.abc import Callable, Iterator
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pika
import pytest

from node.cli.warrenctl import main
from warren.testing.cluster import ClusterOfNodes
from warren.testing.node import Node

pytestmark = [pytest.mark.timeout(90)]
LOGIN = "Basic Z3Vlc3Q6Z3Vlc3Q="  # guest, guest
RECONCILIATION = "quorum_queue.continuous_membership_reconciliation"
PLACE = "queues/quorum/%2F/orders"


@pytest.fixture(scope="module")
def cluster() -> Iterator[ClusterOfNodes]:
    settings = {
        f"{RECONCILIATION}.trigger_interval": "500",
        f"{RECONCILIATION}.interval": "2000",
        "quorum_queue.auto_rebalance": "false",
    }
    with ClusterOfNodes(3, settings=settings) as started:
        for node in started.nodes:  # Each answers the questions of the others.
            url = node.management_url
            assert (
                main(["-q", "--node-url", url, "--timeout", "20", "await_online_nodes", "3"]) == 0
            )
        yield started


def ask(node: Node, path: str, method: str = "GET", body: Any = None) -> tuple[int, Any]:
    data = None if body is None else json.dumps(body).encode()
    headers = {"Authorization": LOGIN, "Content-Type": "application/json"}
    request = Request(f"{node.management_url}/api/{path}", data, headers, method=method)
    try:
        with urlopen(request, timeout=20) as answer:
            text = answer.read()
            return answer.status, json.loads(text) if text else None
    except HTTPError as error:
        return error.code, json.loads(error.read() or b"null")


def eventually(is_so: Callable[[], object], seconds: float = 15.0) -> None:
    deadline = time.monotonic() + seconds
    while not is_so():
        assert time.monotonic() < deadline, is_so
        time.sleep(0.05)


def states(node: Node, place: str = PLACE) -> dict[str, str]:
    """By node: state of the member, and whether it votes."""
    _, rows = ask(node, f"{place}/status")
    return {row["Node Name"]: f"{row['Raft State']} {row['Membership']}" for row in rows}


def row_of(node: Node, name: str = "orders") -> Any:
    return ask(node, f"queues/%2F/{name}")[1]


def connected(node: Node) -> Any:
    return pika.BlockingConnection(pika.URLParameters(node.url))


def test_a_quorum_queue_grows_and_shrinks_by_a_member(cluster: ClusterOfNodes) -> None:
    first = cluster.node(1)
    connection = connected(first)
    channel = connection.channel()
    channel.confirm_delivery()
    arguments = {"x-queue-type": "quorum", "x-quorum-initial-group-size": 1}
    channel.queue_declare("orders", durable=True, arguments=arguments)
    for _ in range(5):
        channel.basic_publish("", "orders", b"kept")
    assert row_of(cluster.node(2))["members"] == ["n1"]
    assert row_of(cluster.node(2))["messages"] == 5
    for name in ("n2", "n3"):
        assert ask(cluster.node(2), f"{PLACE}/replicas/add", "POST", {"node": name})[0] == 204
    voting = {"n1": "leader voter", "n2": "follower voter", "n3": "follower voter"}
    eventually(lambda: states(cluster.node(3)) == voting)
    body = {"node": "n3"}
    assert ask(first, f"{PLACE}/replicas/delete", "DELETE", body)[0] == 204
    eventually(lambda: states(first) == {"n1": "leader voter", "n2": "follower voter"})
    assert ask(first, f"{PLACE}/replicas/add", "POST", body)[0] == 204
    eventually(lambda: states(first) == voting)
    assert row_of(cluster.node(3))["messages"] == 5
    connection.close()


def test_a_leader_is_moved_and_leaders_are_spread(cluster: ClusterOfNodes) -> None:
    connection = connected(cluster.node(1))
    channel = connection.channel()
    for number in range(5):
        channel.queue_declare(f"q{number}", durable=True, arguments={"x-queue-type": "quorum"})
    url = cluster.node(2).management_url
    assert main(["--node-url", url, "transfer_leadership", "orders", "n3"]) == 0
    eventually(lambda: row_of(cluster.node(1))["leader"] == "n3")

    def counts() -> list[int]:
        rows = ask(cluster.node(2), "rebalance/queues", "POST", {})[1]
        return sorted(row["number of quorum queues"] for row in rows)

    eventually(lambda: counts() == [2, 2, 2])  # All of the new queues have a leader by then.
    for number in range(5):
        channel.queue_delete(f"q{number}")
    connection.close()


def test_a_drained_node_leads_nothing(cluster: ClusterOfNodes) -> None:
    first = cluster.node(1)
    leader = row_of(first)["leader"]
    other = next(each for each in cluster.nodes if each.name != leader)
    status, report = ask(other, f"nodes/{leader}/drain", "POST", {})
    assert (status, report["leaders_moved"], report["still_led_here"]) == (200, 1, [])
    eventually(lambda: row_of(other)["leader"] not in ("", leader))
    assert ask(other, f"nodes/{leader}/revive", "POST", {})[0] == 204
    assert row_of(other)["messages"] == 5


def test_a_queue_says_when_it_hangs_on_a_node_and_when_it_has_no_majority(
    cluster: ClusterOfNodes,
) -> None:
    first, third = cluster.node(1), cluster.node(3)
    third.pause()
    try:
        eventually(lambda: row_of(first)["online"] == ["n1", "n2"])
        critical = ask(first, "health/checks/node-is-quorum-critical")
        assert (critical[0], critical[1]["queues"]) == (503, [{"vhost": "/", "name": "orders"}])
        assert "majority" in ask(first, "nodes/n2/drain", "POST", {})[1]["reason"]
        eventually(lambda: row_of(first)["leader"] in ("n1", "n2"))
        rows = states(first)
        assert rows["n3"] == "nodedown "
    finally:
        third.resume()
    eventually(lambda: row_of(first)["online"] == ["n1", "n2", "n3"])


def test_a_queue_gets_the_member_back_that_was_lost_with_a_disk(cluster: ClusterOfNodes) -> None:
    first, third = cluster.node(1), cluster.node(3)
    place = "queues/quorum/%2F/kept"
    connection = connected(first)
    channel = connection.channel()
    channel.confirm_delivery()
    channel.queue_declare("kept", durable=True, arguments={"x-queue-type": "quorum"})
    for number in range(20):
        channel.basic_publish("", "kept", b"%d" % number)
    third.kill9()
    third.wipe()
    third.start()
    voting = {"n1": "leader voter", "n2": "follower voter", "n3": "follower voter"}
    eventually(lambda: states(first, place) == voting, 30)
    assert ask(first, f"{place}/leader", "POST", {"node": "n3"})[0] == 204
    assert channel.basic_get("kept", auto_ack=True)[2] == b"0"
    eventually(lambda: row_of(third, "kept")["messages"] == 19)
    connection.close()

"""Operating a cluster of real nodes: lists, alarms, maintenance, members and leaders of queues."""

import time
from collections.abc import Iterator
from functools import partial
from typing import Any
from urllib.parse import quote

import pika
import pytest

from node.cli.warrenctl import main
from tests.waiting import eventually
from warren.testing.cluster import ClusterOfNodes
from warren.testing.http_api import HttpApi
from warren.testing.node import Node

pytestmark = [pytest.mark.timeout(240)]
RECONCILIATION = "quorum_queue.continuous_membership_reconciliation"
PLACE = "queues/quorum/%2F/orders"


@pytest.fixture(scope="module")
def cluster() -> Iterator[ClusterOfNodes]:
    settings = {
        f"{RECONCILIATION}.trigger_interval": "500",
        f"{RECONCILIATION}.interval": "2000",
        "quorum_queue.auto_rebalance": "false",
        "quorum_queue.leader_follows_traffic.time": "1000",
        "management.rates_interval_ms": "200",
    }
    with ClusterOfNodes(3, settings=settings) as started:
        for node in started.nodes:  # Each answers the questions of the others.
            url = node.management_url
            assert (
                main(["-q", "--node-url", url, "--timeout", "20", "await_online_nodes", "3"]) == 0
            )
        yield started


def ask(node: Node, path: str, method: str = "GET", body: Any = None) -> tuple[int, Any]:
    """Status and answer; no request takes more than a few seconds."""
    return HttpApi(node.management_url).ask(method, f"/{path}", body)


def all_run(node: Node) -> bool:
    return running(node) == ["n1", "n2", "n3"]


def running(node: Node) -> list[str]:
    return [row["name"] for row in ask(node, "nodes")[1] if row["running"]]


def states(node: Node, place: str = PLACE) -> dict[str, str]:
    """By node: state of the member, and whether it votes."""
    _, rows = ask(node, f"{place}/status")
    return {row["Node Name"]: f"{row['Raft State']} {row['Membership']}" for row in rows}


def voters(node: Node, place: str = PLACE) -> list[str]:
    """Nodes of the members, if one of them leads and all vote; else none."""
    found = states(node, place)
    wanted = ["follower voter"] * (len(found) - 1) + ["leader voter"]
    return sorted(found) if sorted(found.values()) == wanted else []


def row_of(node: Node, name: str = "orders") -> Any:
    return ask(node, f"queues/%2F/{name}")[1]


def connected(node: Node) -> Any:
    return pika.BlockingConnection(pika.URLParameters(node.url))


def test_any_node_lists_all_of_them(cluster: ClusterOfNodes) -> None:
    for node in cluster.nodes:
        eventually(partial(all_run, node))
    assert {ask(node, "cluster-name")[1]["name"] for node in cluster.nodes} == {"n1"}
    status, row = ask(cluster.node(1), "nodes/n3")
    assert (status, row["name"], row["partitions"]) == (200, "n3", [])
    assert row["mem_used"] > 0
    _, found = ask(cluster.node(2), "cluster")
    assert [each["name"] for each in found["nodes"]] == ["n1", "n2", "n3"]


@pytest.mark.parametrize("kind", ["classic", "quorum"])
def test_messages_are_looked_at_from_any_node(cluster: ClusterOfNodes, kind: str) -> None:
    link = connected(cluster.node(2))
    channel = link.channel()
    name = f"seen-{kind}"
    channel.queue_declare(name, durable=True, arguments={"x-queue-type": kind})
    channel.confirm_delivery()
    for number in range(12):
        properties = pika.BasicProperties(headers={"odd": bool(number % 2)}, delivery_mode=2)
        channel.basic_publish("", name, b"%d" % number, properties)
    for node in cluster.nodes:
        status, rows = ask(node, f"queues/%2F/{name}/peek", "POST", {"offset": 10, "count": 5})
        assert (status, [row["payload"] for row in rows]) == (200, ["10", "11"])
        assert not any(row["redelivered"] for row in rows)
        order = {"exchange": "amq.default", "routing_key": name, "dry_run": True}
        chosen = {**order, "filter": {"headers": {"odd": True}}}
        _, done = ask(node, f"queues/%2F/{name}/redrive", "POST", chosen)
        assert (done["moved"], done["kept"]) == (6, 6)
    channel.queue_delete(name)
    link.close()


def test_channels_consumers_and_rates_of_all_nodes_come_from_any(cluster: ClusterOfNodes) -> None:
    links = [connected(node) for node in cluster.nodes]
    channels = [each.channel() for each in links]
    channels[0].queue_declare("shared", durable=True, arguments={"x-queue-type": "quorum"})
    channels[1].queue_declare("home", durable=True)
    for number, channel in enumerate(channels):
        channel.basic_qos(prefetch_count=10 + number)
        channel.basic_consume("shared", ignored, consumer_tag=f"tag-{number}", auto_ack=True)
    for node in cluster.nodes:
        eventually(partial(have_three_tags, node))
        _, rows = ask(node, "channels")
        assert {row["node"] for row in rows} == {"n1", "n2", "n3"}
        assert ask(node, "overview")[1]["object_totals"]["channels"] == len(rows) == 3
        shown = row_of(node, "shared")["consumer_details"]
        assert sorted(each["prefetch_count"] for each in shown) == [10, 11, 12]
        last = next(row for row in rows if row["node"] == "n3")
        assert ask(node, "channels/" + quote(last["name"]))[1]["consumer_count"] == 1

    def all_have_rates() -> bool:
        for link, channel in zip(links, channels, strict=True):
            for _ in range(5):
                channel.basic_publish("", "shared", b"x")
                channel.basic_publish("", "home", b"x")
            link.process_data_events(0)
        found = [rate for node in cluster.nodes for rate in publish_rates(node)]
        return len(found) == 9 and min(found) > 0

    eventually(all_have_rates)
    home = "queues/%2F/home?lengths_age=60&lengths_incr=1"
    eventually(lambda: ask(cluster.node(3), home)[1]["messages_details"]["samples"])
    assert row_of(cluster.node(3), "home")["node"] == "n2"
    _, nodes = ask(cluster.node(1), "nodes")
    assert all(row["message_stats"]["publish"] > 0 for row in nodes)
    assert ask(cluster.node(1), "nodes/n3/memory")[1]["memory"]["total"]["rss"] > 0
    channels[0].queue_delete("shared")
    channels[1].queue_delete("home")
    for link in links:
        link.close()


def ignored(*arguments: Any) -> None:
    """Takes a delivery."""


def have_three_tags(node: Node) -> bool:
    return sorted(row["consumer_tag"] for row in ask(node, "consumers")[1]) == [
        "tag-0",
        "tag-1",
        "tag-2",
    ]


def publish_rates(node: Node) -> list[float]:
    """Of both queues and of all together, as the node tells them."""
    _, queues = ask(node, "queues?columns=name,message_stats.publish_details")
    totals = [row["message_stats"] for row in queues]
    totals.append(ask(node, "overview")[1]["message_stats"])
    return [float((each.get("publish_details") or {}).get("rate", 0)) for each in totals]


def test_connections_and_totals_are_those_of_all_nodes(cluster: ClusterOfNodes) -> None:
    connections = [pika.BlockingConnection(pika.URLParameters(node.url)) for node in cluster.nodes]
    try:
        for node in cluster.nodes:
            rows = ask(node, "connections")[1]
            assert sorted(row["node"] for row in rows) == ["n1", "n2", "n3"]
            assert ask(node, "overview")[1]["object_totals"]["connections"] == 3
        name = next(row["name"] for row in rows if row["node"] == "n3").replace(" ", "%20")
        assert ask(cluster.node(1), f"connections/{name}", "DELETE")[0] == 204
        with pytest.raises(pika.exceptions.AMQPError):
            connections[2].process_data_events(time_limit=5)
    finally:
        for each in connections:
            if each.is_open:
                each.close()


def test_a_queue_shows_the_counts_of_its_node_on_all_nodes(cluster: ClusterOfNodes) -> None:
    connection = pika.BlockingConnection(pika.URLParameters(cluster.node(2).url))
    channel = connection.channel()
    channel.confirm_delivery()
    channel.queue_declare("counted", durable=True)
    for _ in range(3):
        channel.basic_publish("", "counted", b"x")
    for node in cluster.nodes:
        _, row = ask(node, "queues/%2F/counted")
        assert (row["messages"], row["node"]) == (3, "n2")
        _, rows = ask(node, "queues")
        assert next(each for each in rows if each["name"] == "counted")["messages"] == 3
        assert ask(node, "overview")[1]["queue_totals"]["messages"] == 3
    channel.queue_delete("counted")
    connection.close()


def test_a_drained_node_takes_no_clients_until_it_is_revived(cluster: ClusterOfNodes) -> None:
    there = pika.BlockingConnection(pika.URLParameters(cluster.node(3).url))
    status, report = ask(cluster.node(1), "nodes/n3/drain", "POST", {})
    assert (status, report["connections_closed"]) == (200, 1)
    with pytest.raises(pika.exceptions.ConnectionClosedByBroker, match="maintenance"):
        there.process_data_events(time_limit=5)
    with pytest.raises(pika.exceptions.AMQPConnectionError):
        pika.BlockingConnection(pika.URLParameters(cluster.node(3).url))
    drained = [row["name"] for row in ask(cluster.node(2), "nodes")[1] if row["being_drained"]]
    assert drained == ["n3"]
    assert ask(cluster.node(3), "health/checks/is-in-service")[0] == 503
    assert ask(cluster.node(2), "nodes/n3/revive", "POST", {})[0] == 204
    pika.BlockingConnection(pika.URLParameters(cluster.node(3).url)).close()
    assert ask(cluster.node(3), "health/checks/is-in-service")[0] == 200


def test_a_drain_counts_the_classic_queues_that_stay_and_waits_for_them(
    cluster: ClusterOfNodes, capsys: pytest.CaptureFixture[str]
) -> None:
    first, third = cluster.node(1), cluster.node(3)
    with connected(third) as connection:
        channel = connection.channel()
        channel.queue_declare("stays", durable=True)
        channel.basic_publish("", "stays", b"one")

    def call(*words: str) -> int:
        return main(["--node-url", first.management_url, *words])

    try:
        assert call("--timeout", "1", "drain", "n3", "--wait") == 69
        shown = capsys.readouterr()
        assert "1 classic queues stay on n3\n" in shown.out
        assert "classic queues of n3 still have messages" in shown.err
        with connected(first) as connection:
            assert connection.channel().basic_get("stays", auto_ack=True)[2] == b"one"
        assert call("drain", "n3", "--wait") == 0
        assert call("drain", "n3") == 0
        assert "1 classic queues stay on n3; --wait waits" in capsys.readouterr().out
    finally:
        assert call("revive", "n3") == 0
    with connected(third) as connection:
        connection.channel().queue_delete("stays")


def test_a_drain_that_would_cost_the_majority_is_refused(cluster: ClusterOfNodes) -> None:
    cluster.node(3).pause()
    try:
        eventually(lambda: running(cluster.node(1)) == ["n1", "n2"])
        status, answer = ask(cluster.node(1), "nodes/n2/drain", "POST", {})
        assert (status, "majority" in answer["reason"]) == (400, True)
        assert ask(cluster.node(1), "health/checks/node-is-quorum-critical")[0] == 503
    finally:
        cluster.node(3).resume()
    eventually(lambda: running(cluster.node(1)) == ["n1", "n2", "n3"])


def test_any_node_sets_limits_of_another_and_tells_who_waits_there(
    cluster: ClusterOfNodes,
) -> None:
    first, second = cluster.nodes[:2]
    place = f"nodes/{second.name}/limits"
    before = ask(second, f"nodes/{second.name}")[1]["mem_limit"]
    publisher = pika.BlockingConnection(pika.URLParameters(second.url))
    publisher.channel().basic_publish("", "nowhere", b"x")
    limit = {"vm_memory_high_watermark": {"absolute": 0}}
    assert ask(first, place, "PUT", limit)[0] == 204

    def edges() -> list[Any]:
        graph = ask(first, "flow/graph")[1]
        assert graph["nodes_silent"] == []
        found = [each for each in graph["edges"] if each["kinds"] == ["connection", "alarm"]]
        return [each for each in found if each["from"].startswith(f"{second.name}|")]

    eventually(edges)
    limit = {"vm_memory_high_watermark": {"absolute": before}}
    assert ask(first, place, "PUT", limit)[0] == 204
    eventually(lambda: not edges())
    publisher.close()
    assert ask(first, "nodes/none/limits", "PUT", limit)[0] == 404
    samples = first.metrics()
    assert "warren_raft_elections_total" in samples
    assert samples[f'warren_peer_connected{{peer="{second.name}"}}'] == 1


def test_a_paused_node_holds_up_no_list(cluster: ClusterOfNodes) -> None:
    cluster.node(2).pause()
    try:
        began = time.monotonic()
        assert running(cluster.node(1)) == ["n1", "n3"]
        for path in ("queues", "connections", "vhosts", "overview"):
            assert ask(cluster.node(1), path)[0] == 200
        assert time.monotonic() - began < 20
    finally:
        cluster.node(2).resume()
    eventually(lambda: running(cluster.node(1)) == ["n1", "n2", "n3"])


def test_the_commands_know_the_cluster(
    cluster: ClusterOfNodes, capsys: pytest.CaptureFixture[str]
) -> None:
    def call(*words: str) -> int:
        return main(["--node-url", cluster.node(2).management_url, *words])

    assert call("cluster_status") == 0
    assert "n3\trunning\tnot under maintenance" in capsys.readouterr().out
    assert call("await_online_nodes", "3") == 0
    assert call("check_if_node_is_quorum_critical") == 0
    assert call("forget_cluster_node", "n3") == 65


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
    eventually(lambda: voters(cluster.node(3)) == ["n1", "n2", "n3"])
    body = {"node": "n3"}
    assert ask(first, f"{PLACE}/replicas/delete", "DELETE", body)[0] == 204
    eventually(lambda: voters(first) == ["n1", "n2"])
    assert ask(first, f"{PLACE}/replicas/add", "POST", body)[0] == 204
    eventually(lambda: voters(first) == ["n1", "n2", "n3"])
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


def test_a_leader_goes_to_where_its_clients_are_if_a_policy_says_so(
    cluster: ClusterOfNodes,
) -> None:
    first, second = cluster.node(1), cluster.node(2)
    connection = connected(second)
    channel = connection.channel()
    channel.queue_declare("busy", durable=True, arguments={"x-queue-type": "quorum"})
    place = "queues/quorum/%2F/busy/leader"  # The first leader may not be elected yet.
    eventually(lambda: ask(first, place, "POST", {"node": "n1"})[0] == 204)

    def says(mode: str) -> int:
        definition = {"leader-follows-traffic": mode}
        return ask(
            first, "policies/%2F/busy", "PUT", {"pattern": "busy", "definition": definition}
        )[0]

    def advice() -> Any:
        for _ in range(20):
            channel.basic_publish("", "busy", bytes(1000))
        connection.process_data_events(0)
        return ask(cluster.node(3), "cluster/plan")[1]["traffic"]

    assert says("advise") == 201
    eventually(advice)
    (row,) = advice()
    assert (row["name"], row["from"], row["to"], row["share_percent"]) == ("busy", "n1", "n2", 100)
    assert row_of(first, "busy")["leader"] == "n1"
    assert says("auto") == 204
    eventually(lambda: not advice() and row_of(first, "busy")["leader"] == "n2")
    assert ask(first, "policies/%2F/busy", "DELETE")[0] == 204
    channel.queue_delete("busy")
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
        eventually(lambda: row_of(first).get("online") == ["n1", "n2"])
        critical = ask(first, "health/checks/node-is-quorum-critical")
        assert critical[0] == 503
        (queue,) = critical[1]["queues"]
        assert (queue["vhost"], queue["name"]) == ("/", "orders")
        assert "majority" in ask(first, "nodes/n2/drain", "POST", {})[1]["reason"]
        eventually(lambda: row_of(first)["leader"] in ("n1", "n2"))
        rows = states(first)
        assert rows["n3"] == "nodedown "
    finally:
        third.resume()
    eventually(lambda: row_of(first)["online"] == ["n1", "n2", "n3"])


def test_a_node_that_is_reset_comes_back_as_a_new_member_with_its_queues(
    cluster: ClusterOfNodes,
) -> None:
    first, third = cluster.node(1), cluster.node(3)
    place = "queues/quorum/%2F/kept"
    connection = connected(first)
    channel = connection.channel()
    channel.confirm_delivery()
    channel.queue_declare("kept", durable=True, arguments={"x-queue-type": "quorum"})
    for number in range(20):
        channel.basic_publish("", "kept", b"%d" % number)
    assert ask(first, "nodes/n9/reset", "POST", {})[0] == 404
    before = ask(first, "nodes/n3")[1]["member_id"]
    assert ask(third, "nodes/n3/reset", "POST", {}) == (204, None), "it answers before it stops"
    assert third.await_end(15) == 0
    eventually(lambda: [row["name"] for row in ask(first, "nodes")[1]] == ["n1", "n2"])
    third.start()
    assert "this node was reset" in third.log()
    eventually(partial(all_run, first))
    assert ask(first, "nodes/n3")[1]["member_id"] > before
    eventually(lambda: voters(first, place) == ["n1", "n2", "n3"], seconds=30)
    assert ask(first, f"{place}/leader", "POST", {"node": "n3"})[0] == 204
    assert channel.basic_get("kept", auto_ack=True)[2] == b"0"
    eventually(lambda: row_of(third, "kept")["messages"] == 19)
    connection.close()


def test_a_dead_node_is_forgotten_and_does_not_come_back(cluster: ClusterOfNodes) -> None:
    first = cluster.node(1)
    eventually(partial(all_run, first))
    assert ask(first, "nodes/n3", "DELETE")[0] == 400
    cluster.node(3).kill9()
    eventually(lambda: running(first) == ["n1", "n2"])
    assert ask(first, "nodes/n3", "DELETE") == (200, [])
    for node in (first, cluster.node(2)):
        assert [row["name"] for row in ask(node, "nodes")[1]] == ["n1", "n2"]
    cluster.node(3).begin()
    assert cluster.node(3).await_end(20) == 1
    assert "removed from the cluster" in cluster.node(3).log()


def test_an_alarm_of_one_node_stops_publishers_on_another(cluster: ClusterOfNodes) -> None:
    first, second = cluster.node(1), cluster.node(2)
    second.stop()
    second.settings["vm_memory_high_watermark.absolute"] = "0"
    second.start()
    eventually(lambda: ask(first, "health/checks/alarms")[0] == 503)
    _, answer = ask(first, "health/checks/alarms")
    assert answer["alarms"] == [{"node": "n2", "resource": "memory"}]
    assert ask(first, "health/checks/local-alarms")[0] == 200
    blocked: list[object] = []
    unblocked: list[object] = []
    connection = pika.BlockingConnection(pika.URLParameters(first.url))
    connection.add_on_connection_blocked_callback(lambda c, method: blocked.append(method))
    connection.add_on_connection_unblocked_callback(lambda c, method: unblocked.append(method))
    connection.channel().basic_publish("", "nowhere", b"x")
    eventually(lambda: connection.process_data_events(time_limit=0.05) or blocked)
    second.kill9()
    eventually(lambda: connection.process_data_events(time_limit=0.05) or unblocked)
    assert ask(first, "health/checks/alarms")[0] == 200
    connection.close()

"""Nodes that are cut off, under the strategies of cluster.partition_handling but the default one.

Each node of the cluster has another strategy; those of `pause_minority` are in `test_pausing`.
"""

import asyncio
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import pika
import pika.exceptions
import pytest

from tests.cluster.test_events import follow
from tests.cluster.test_pausing import DURABLE_QUORUM, POLICY, connection_on
from tests.cluster.toxiproxy import server_program
from tests.conformance.broker import channel_closed, drain, publish_all, settle_down
from tests.waiting import eventually
from warren.testing import ClusterOfNodes

PAUSES, STRATEGIES = 1, {1: "pause_if_all_down", 2: "autoheal", 3: "ignore"}
REASON = "cluster.partition_handling is pause_if_all_down and this node cannot reach n2, n3"
pytestmark = pytest.mark.timeout(120)


@pytest.fixture(scope="module")
def cluster() -> Iterator[ClusterOfNodes]:
    own = {number: {"cluster.partition_handling": each} for number, each in STRATEGIES.items()}
    own[PAUSES] |= {
        "cluster.pause_if_all_down.nodes": "n2,n3",
        "cluster.pause_if_all_down.recover": "ignore",
    }
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("WARREN_TOXIPROXY", server_program())
        with ClusterOfNodes(
            3, proxied=True, settings={"cluster.home_down_ms": "1000"}, node_settings=own
        ) as started:
            started.node(1).api("PUT", "/api/policies/%2F/ha", POLICY)
            yield started


@contextmanager
def cut_off(cluster: ClusterOfNodes, number: int) -> Iterator[None]:
    cluster.links.isolate(number)
    try:
        yield
    finally:
        cluster.links.heal()


def rows_of(cluster: ClusterOfNodes, number: int) -> dict[str, Any]:
    """The nodes by name, as that node lists them."""
    return {row["name"]: row for row in cluster.node(number).api("GET", "/api/nodes")}


def exchanges_of(cluster: ClusterOfNodes, number: int) -> set[str]:
    """The exchanges of the first virtual host, as that node knows them."""
    return {row["name"] for row in cluster.node(number).api("GET", "/api/exchanges/%2F")}


def is_paused(cluster: ClusterOfNodes, number: int) -> bool:
    node = cluster.node(number)

    def is_shown() -> bool:
        row = rows_of(cluster, number)[node.name]
        assert any(REASON in each for each in row["alarm_details"]) is row["paused"]
        return bool(row["paused"])

    before = is_shown()
    counted = bool(node.metrics()["warren_node_paused"])
    after = is_shown()
    assert counted in (before, after)
    return after


def are_lost(cluster: ClusterOfNodes, number: int) -> bool:
    """Whether that node takes the queues of all others for down."""
    log = cluster.node(number).log()
    others = [each for each in STRATEGIES if each != number]
    return all(f"node {each} cannot be reached: its" in log for each in others)


class Uses:
    """Queues that the node holds or leads, each used by a connection of its own."""

    def __init__(self, cluster: ClusterOfNodes, number: int) -> None:
        self.classic, self.mirrored = f"classic{number}", f"mirrored{number}"
        self.quorum = f"quorum{number}"
        self.channels: dict[str, Any] = {}
        for name in (self.classic, self.mirrored, self.quorum):
            channel = self.channels[name] = connection_on(cluster, number).channel()
            arguments = DURABLE_QUORUM if name == self.quorum else None
            channel.queue_declare(name, durable=True, arguments=arguments)
            publish_all(channel, name, [b"kept"], persistent=True)
        row = cluster.node(number).api("GET", f"/api/queues/%2F/{self.mirrored}")
        assert row["node"] == cluster.node(number).name

    def close(self) -> None:
        for channel in self.channels.values():
            if channel.connection.is_open:
                channel.connection.close()


def others_go_on(cluster: ClusterOfNodes, number: int, uses: Uses) -> None:
    """Nodes of the majority promote a mirror, and change definitions."""
    connection = connection_on(cluster, number % 3 + 1)
    channel = connection.channel()
    for name in (uses.mirrored, uses.quorum):
        publish_all(channel, name, [b"of the majority"], persistent=True)
    channel.exchange_declare(f"declared{number}", "fanout", durable=True)
    connection.close()


def publish_confirmed(channel: Any, queue: str, body: bytes) -> bool:
    """Whether it is confirmed; a client hears of nothing before the partition ends."""
    try:
        publish_all(channel, queue, [body], persistent=True)
    except (pika.exceptions.NackError, pika.exceptions.AMQPError):
        return False
    return True


def test_a_node_that_pauses_closes_users_of_classic_and_mirrored_queues_and_no_others(
    cluster: ClusterOfNodes,
) -> None:
    uses = Uses(cluster, PAUSES)
    with cut_off(cluster, PAUSES):
        for name in (uses.classic, uses.mirrored):
            with pytest.raises(pika.exceptions.ConnectionClosedByBroker) as closed:
                settle_down(uses.channels[name], lambda: False)
            assert (closed.value.reply_code, REASON in closed.value.reply_text) == (320, True)
        assert is_paused(cluster, PAUSES)
        late = connection_on(cluster, PAUSES)
        for name in (uses.classic, uses.mirrored):
            text = f"NOT_FOUND - queue '{name}' in vhost '/' is not served by this node: {REASON}"
            with channel_closed(404, text):
                late.channel().queue_declare(name, durable=True, passive=True)
        late.channel().exchange_declare("amq.direct", passive=True)
        others_go_on(cluster, PAUSES, uses)
        uses.channels[uses.quorum].connection.process_data_events(0)
    eventually(lambda: not is_paused(cluster, PAUSES))
    assert drain(late.channel(), uses.classic) == [b"kept"]
    for name in (uses.mirrored, uses.quorum):
        assert drain(late.channel(), name) == [b"kept", b"of the majority"]
    late.channel().exchange_declare(f"declared{PAUSES}", passive=True)
    late.close()
    uses.close()


@pytest.mark.parametrize("number", [2, 3], ids=STRATEGIES.get)
def test_a_node_that_goes_on_confirms_for_its_classic_queues_and_not_for_mirrored_ones(
    cluster: ClusterOfNodes, number: int
) -> None:
    uses = Uses(cluster, number)
    with ThreadPoolExecutor() as threads:
        with cut_off(cluster, number):
            channel = uses.channels[uses.mirrored]
            pending = threads.submit(publish_confirmed, channel, uses.mirrored, b"cut off")
            others_go_on(cluster, number, uses)
            eventually(lambda: are_lost(cluster, number))
            publish_all(uses.channels[uses.classic], uses.classic, [b"cut off"], persistent=True)
            assert not is_paused(cluster, number)
            uses.channels[uses.quorum].exchange_declare("amq.direct", passive=True)
            assert not pending.done()
        is_confirmed = pending.result(30)
    expected = {b"kept", b"of the majority"} | ({b"cut off"} if is_confirmed else set())
    channel = connection_on(cluster, number).channel()
    assert drain(channel, uses.classic) == [b"kept", b"cut off"]
    found = drain(channel, uses.mirrored)
    assert len(found) == len(set(found)) and expected <= set(found) <= expected | {b"cut off"}
    assert drain(channel, uses.quorum) == [b"kept", b"of the majority"]
    channel.connection.close()
    eventually(lambda: f"declared{number}" in exchanges_of(cluster, number))  # It catches up.
    uses.close()


def test_a_pause_is_told_by_events(cluster: ClusterOfNodes) -> None:
    def act() -> None:
        with cut_off(cluster, PAUSES):
            eventually(lambda: is_paused(cluster, PAUSES))
        eventually(lambda: not is_paused(cluster, PAUSES))

    names = "node.paused,node.resumed"
    told = asyncio.run(
        follow(cluster.node(PAUSES), names, act, lambda each: each["name"] == "node.resumed")
    )
    assert [each["name"] for each in told] == ["node.paused", "node.resumed"]
    assert told[0]["properties"] == {"name": "n1", "reason": REASON}


def test_two_nodes_that_do_not_reach_each_other_are_listed_and_serve_all_queues(
    cluster: ClusterOfNodes,
) -> None:
    def partitions() -> list[list[str]]:
        return [row["partitions"] for _, row in sorted(rows_of(cluster, 3).items())]

    def times_lost() -> int:
        """As often as the first node took the queues of the second one for down."""
        return cluster.node(1).log().count("node 2 cannot be reached: its")

    before = times_lost()
    cluster.links.cut(1, 2)
    try:
        eventually(lambda: partitions() == [["n2"], ["n1"], []], partitions)
        eventually(lambda: times_lost() > before)
        assert [is_paused(cluster, number) for number in STRATEGIES] == [False, False, False]
    finally:
        cluster.links.heal()
    eventually(lambda: partitions() == [[], [], []], partitions)

"""Quorum queues with three members, on real nodes: any node serves any client, and what is
confirmed survives the loss of one."""

from collections.abc import Iterator

import pytest

from tests.cluster.leaders import without_leader, without_node
from tests.cluster.queue_clients import WAIT_S, channel_to, consume, filled, publish
from tests.conformance.test_damage import damage
from tests.waiting import eventually
from warren.testing import ClusterOfNodes

ARGUMENTS: dict[str, object] = {"x-queue-type": "quorum"}
COUNT = 50
pytestmark = [pytest.mark.timeout(240)]


@pytest.fixture(scope="module")
def cluster() -> Iterator[ClusterOfNodes]:
    """One for all; who kills a node starts it again."""
    with ClusterOfNodes(3) as found:
        yield found


def test_what_is_published_on_one_node_is_consumed_on_another(cluster: ClusterOfNodes) -> None:
    bodies = filled(cluster, "across", COUNT, ARGUMENTS)
    assert consume(channel_to(cluster, 3), "across", COUNT) == bodies


def test_what_was_confirmed_survives_the_node_that_led_the_queue(cluster: ClusterOfNodes) -> None:
    bodies = filled(cluster, "led", COUNT, ARGUMENTS)
    with without_leader(cluster, "led") as lost:
        publish(channel_to(cluster, lost % 3 + 1), "led", [b"afterwards"])
    assert consume(channel_to(cluster, lost), "led", COUNT + 1) == [*bodies, b"afterwards"]


def test_messages_are_there_when_all_nodes_were_killed_at_once(cluster: ClusterOfNodes) -> None:
    bodies = filled(cluster, "dark", COUNT, ARGUMENTS)
    cluster.kill9()
    cluster.start()
    assert consume(channel_to(cluster, 2), "dark", COUNT) == bodies


def test_a_node_whose_disk_was_wiped_serves_what_was_there(cluster: ClusterOfNodes) -> None:
    bodies = filled(cluster, "wiped", COUNT, ARGUMENTS)
    with without_node(cluster, 3):
        cluster.node(3).wipe()
        publish(channel_to(cluster, 2), "wiped", [b"meanwhile"])
    assert consume(channel_to(cluster, 3), "wiped", COUNT + 1) == [*bodies, b"meanwhile"]


def test_what_dies_arrives_though_the_leader_is_killed(cluster: ClusterOfNodes) -> None:
    """Its letters go to a queue of another node, once that is there; they may come twice."""
    channel = channel_to(cluster, 1)
    sure = {"x-dead-letter-strategy": "at-least-once", "x-overflow": "reject-publish"}
    rule = {"x-dead-letter-exchange": "dlx", "x-queue-leader-locator": "client-local"}
    channel.queue_declare("mortal", durable=True, arguments=ARGUMENTS | sure | rule)
    bodies = [b"message %d" % number for number in range(COUNT)]
    publish(channel, "mortal", bodies)
    for _ in bodies:
        method, _, _ = channel.basic_get("mortal")
        assert method is not None
        channel.basic_reject(method.delivery_tag, requeue=False)
    channel.queue_declare("mortal", passive=True)  # Behind the last of them.
    with without_leader(cluster, "mortal") as lost:
        second = channel_to(cluster, lost % 3 + 1)
        second.exchange_declare("dlx", "fanout", durable=True)
        second.queue_declare("graves", durable=True)
        second.queue_bind("graves", "dlx", "")
        found: set[bytes] = set()
        for method, _, body in second.consume("graves", inactivity_timeout=WAIT_S):
            assert method is not None, f"nothing comes behind {len(found)} letters"
            found.add(body)
            if len(found) == COUNT:
                break
        assert sorted(found) == sorted(bodies)


def states(cluster: ClusterOfNodes, queue: str) -> dict[str, str]:
    """By node, as the first one sees the members."""
    rows = cluster.node(1).api("GET", f"/api/queues/quorum/%2F/{queue}/status")
    return {row["Node Name"]: row["Membership"] for row in rows}


@pytest.mark.timeout(240)
def test_a_member_whose_log_is_damaged_is_made_anew(cluster: ClusterOfNodes) -> None:
    channel_to(cluster, 1).queue_declare("hurt", durable=True, arguments=ARGUMENTS)
    bodies = [b"hurt-%d." % number for number in range(COUNT)]
    publish(channel_to(cluster, 2), "hurt", bodies)
    third = cluster.node(3)
    with without_node(cluster, 3):
        damage(third, b"hurt-7.")
    eventually(lambda: "the member that took no part has left" in third.log(), seconds=2 * WAIT_S)
    voting = {"n1": "voter", "n2": "voter", "n3": "voter"}
    eventually(lambda: states(cluster, "hurt") == voting, seconds=2 * WAIT_S)
    assert consume(channel_to(cluster, 3), "hurt", COUNT) == bodies

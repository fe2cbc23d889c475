"""Classic queues of a cluster, used from all nodes, while nodes die and come back."""

from pathlib import Path
from time import monotonic
from typing import Any

import pika
import pytest

from tests.cluster.suffering import check, plan, suffer
from tests.conformance.broker import Inbox, numbered, publish_all, settle_down, take
from warren.testing import ClusterOfNodes
from warren.testing.chaos.workload import CLASSIC

pytestmark = pytest.mark.timeout(240)


def test_clients_on_all_nodes_share_one_queue(
    proxied_cluster: ClusterOfNodes, tmp_path: Path
) -> None:
    verdict, _ = suffer(proxied_cluster, plan("calm-classic", CLASSIC), tmp_path, ())
    check(verdict)
    assert verdict.published == verdict.confirmed == verdict.taken


def test_nodes_that_are_killed_and_paused_lose_nothing_that_was_confirmed(
    proxied_cluster: ClusterOfNodes, tmp_path: Path
) -> None:
    verdict, _ = suffer(proxied_cluster, plan("shaken", CLASSIC), tmp_path, ("kill", "pause"))
    check(verdict)
    assert verdict.faults == 2


def test_what_another_node_was_given_during_a_clean_stop_comes_again_flagged(
    proxied_cluster: ClusterOfNodes,
) -> None:
    """Its consumer settles a message now and then, and gets another one, until the node ends."""
    queue, count = "stopped-classic", 1000
    node = proxied_cluster.node(1)
    home = channel_to(proxied_cluster, 1)
    home.queue_declare(queue, durable=True)
    publish_all(home, queue, numbered(count), persistent=True)
    away = channel_to(proxied_cluster, 2)
    away.basic_qos(prefetch_count=20)
    inbox = Inbox(away, queue)
    inbox.wait(20)
    settled = 0

    def settle_some() -> bool:
        """One every 30 ms, so that messages are left however long the stop takes."""
        nonlocal settled
        if settled < min(len(inbox.messages), (monotonic() - begun_s) / 0.03):
            away.basic_ack(inbox.tags[settled])
            settled += 1
        return not node.is_running()

    begun_s = monotonic()
    node.stop(wait=False)
    settle_down(away, settle_some)
    node.await_end()
    node.start()
    home = channel_to(proxied_cluster, 1)
    left = home.queue_declare(queue, passive=True).method.message_count
    seen = set(inbox.bodies)
    again = [each for each in (take(home, queue) for _ in range(left)) if each.body in seen]
    assert again
    assert all(each.redelivered for each in again)


def channel_to(cluster: ClusterOfNodes, number: int) -> Any:
    return pika.BlockingConnection(pika.URLParameters(cluster.node(number).url)).channel()

"""A node that is cut off from the majority pauses classic and mirrored queues (pause_minority)."""

import asyncio
from collections.abc import Iterator
from typing import Any

import pika
import pika.exceptions
import pytest

from tests.cluster.toxiproxy import server_program
from tests.conformance.broker import Inbox, channel_closed, drain, publish_all, settle_down
from tests.waiting import eventually
from warren.client import ClientError, Message, connect
from warren.testing import ClusterOfNodes

POLICY = {"pattern": "^mirrored", "apply-to": "queues", "definition": {"ha-mode": "all"}}
DURABLE_QUORUM = {"x-queue-type": "quorum"}
WITHHELD = (
    "NOT_FOUND - queue '{}' in vhost '/' is not served by this node: "
    "cluster.partition_handling is pause_minority and this node cannot reach n2, n3"
)
pytestmark = pytest.mark.timeout(240)


@pytest.fixture(scope="module")
def cluster() -> Iterator[ClusterOfNodes]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("WARREN_TOXIPROXY", server_program())
        with ClusterOfNodes(3, proxied=True, settings={"cluster.home_down_ms": "1000"}) as started:
            yield started


def connection_on(cluster: ClusterOfNodes, number: int) -> Any:
    return pika.BlockingConnection(pika.URLParameters(cluster.node(number).url))


def is_paused(cluster: ClusterOfNodes) -> bool:
    rows = cluster.node(1).api("GET", "/api/nodes")
    assert isinstance(rows, list)
    [row] = [each for each in rows if each["name"] == cluster.node(1).name]
    return bool(row["paused"])


def test_a_minority_closes_users_of_classic_and_mirrored_queues_and_no_others(
    cluster: ClusterOfNodes,
) -> None:
    cluster.node(1).api("PUT", "/api/policies/%2F/ha", POLICY)
    classic, mirrored, exclusive, quorum = (connection_on(cluster, 1) for _ in range(4))
    inbox = classic.channel()
    inbox.queue_declare("classic", durable=True)
    publish_all(inbox, "classic", [b"kept"], persistent=True)
    Inbox(inbox, "classic")
    mirror_channel = mirrored.channel()
    mirror_channel.queue_declare("mirrored", durable=True)
    publish_all(mirror_channel, "mirrored", [b"kept"], persistent=True)
    exclusive.channel().queue_declare("mine", exclusive=True)
    quorum_channel = quorum.channel()
    quorum_channel.queue_declare("quorum", durable=True, arguments=DURABLE_QUORUM)
    Inbox(quorum_channel, "quorum")
    cluster.links.isolate(1)
    try:
        for used in (inbox, mirror_channel):
            with pytest.raises(pika.exceptions.ConnectionClosedByBroker) as closed:
                settle_down(used, lambda: False)
            assert closed.value.reply_code == 320
            assert "cluster.partition_handling is pause_minority" in closed.value.reply_text
        assert is_paused(cluster)
        for unused in (exclusive, quorum):
            unused.process_data_events(0)
            assert unused.is_open
        late = connection_on(cluster, 1)
        for name in ("classic", "mirrored"):
            with channel_closed(404, WITHHELD.format(name)):
                late.channel().queue_declare(name, durable=True, passive=True)
        publishing = late.channel()
        publishing.confirm_delivery()
        for name in ("classic", "mirrored"):
            with pytest.raises(pika.exceptions.NackError):
                publishing.basic_publish("", name, b"refused")
        exclusive.channel().basic_publish("", "mine", b"taken")
    finally:
        cluster.links.heal()
    eventually(lambda: not is_paused(cluster))
    for name in ("classic", "mirrored"):
        publishing.basic_publish("", name, b"later")
        assert drain(late.channel(), name) == [b"kept", b"later"]
    for each in (late, exclusive, quorum):
        each.close()


def test_links_of_a_minority_are_closed_and_it_reports_why(cluster: ClusterOfNodes) -> None:
    async def story() -> None:
        async with await connect(cluster.node(1).url, follow=None) as connection:
            management = await connection.management()
            await management.declare_queue("classic10", arguments={"x-queue-type": "classic"})
            publisher = await connection.publisher("/queues/classic10")
            assert (await publisher.publish(Message(b"before"))).is_accepted
            await asyncio.to_thread(cluster.links.isolate, 1)
            with pytest.raises(ClientError, match="partition_handling is pause_minority"):
                async with asyncio.timeout(20):
                    while True:
                        await publisher.publish(Message(b"meanwhile"))

    try:
        asyncio.run(story())
        [row] = [
            each
            for each in cluster.node(1).api("GET", "/api/nodes")
            if each["name"] == cluster.node(1).name
        ]
        assert any("paused: classic and mirrored queues" in each for each in row["alarm_details"])
    finally:
        cluster.links.heal()

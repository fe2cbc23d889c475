"""Classic queues whose home node dies: what clients see, and that the queues serve again (0036)."""

import asyncio
import time
from collections.abc import Iterator
from typing import Any

import pika
import pika.exceptions
import pytest

from node.cli.warrenctl import main
from tests.cluster.leaders import without_node
from tests.conformance.broker import Inbox, channel_closed, drain, publish_all, settle_down
from tests.waiting import eventually
from warren.client import Message, PeerError, RequestFailed, connect
from warren.testing import ClusterOfNodes
from warren.testing.http_api import HttpApi

DOWN = "NOT_FOUND - home node 'n1' of durable queue 'q' in vhost '/' is down or inaccessible"
DOWN_COUNTED = "home node 'n1' of durable queue 'counted' in vhost '/' is down or inaccessible"


@pytest.fixture(scope="module")
def cluster() -> Iterator[ClusterOfNodes]:
    with ClusterOfNodes(3, settings={"cluster.home_down_ms": "1000"}) as started:
        yield started


def channel_on(cluster: ClusterOfNodes, number: int) -> Any:
    return pika.BlockingConnection(pika.URLParameters(cluster.node(number).url)).channel()


def test_a_home_that_is_killed_is_said_to_be_down_and_serves_again_when_it_is_back(
    cluster: ClusterOfNodes,
) -> None:
    channel_on(cluster, 1).queue_declare("q", durable=True)
    using, publishing = channel_on(cluster, 2), channel_on(cluster, 3)
    publish_all(using, "q", [b"kept"], persistent=True)
    cancelled: list[Any] = []
    using.add_on_cancel_callback(cancelled.append)
    Inbox(using, "q")
    publishing.confirm_delivery()
    with without_node(cluster, 1):
        with pytest.raises(pika.exceptions.NackError):
            publishing.basic_publish("", "q", b"lost")
        settle_down(using, lambda: bool(cancelled))
        with channel_closed(404, DOWN):
            channel_on(cluster, 2).queue_declare("q", durable=True)
        with channel_closed(404, DOWN):
            channel_on(cluster, 2).queue_declare("q", passive=True)
        with channel_closed(404, DOWN):
            channel_on(cluster, 2).basic_consume("q", print)
        with channel_closed(404, DOWN):
            channel_on(cluster, 2).basic_get("q")
    publish_when_it_is_back(publishing, b"again")
    assert drain(using, "q") == [b"kept", b"again"]


def test_counts_of_a_queue_whose_home_is_killed_are_unknown_and_not_zero(
    cluster: ClusterOfNodes, capsys: pytest.CaptureFixture[str]
) -> None:
    other = cluster.node(2)
    channel = channel_on(cluster, 1)
    channel.queue_declare("counted", durable=True)
    channel_on(cluster, 2).queue_declare("at-rest", durable=True)
    publish_all(channel, "counted", [b"one", b"two"], persistent=True)
    api = HttpApi(other.management_url)
    place = "/queues/%2F/counted"
    eventually(lambda: api.get(place)["messages"] == 2)
    assert api.get(place)["counts_known"] is True
    with without_node(cluster, 1):
        eventually(lambda: api.get(place)["state"] == "down")
        for sort in ("", "?sort=messages", "?sort=message_stats.publish", "?sort=consumers"):
            rows = {row["name"]: row for row in api.get(f"/queues{sort}")}
            assert_unknown(rows["counted"])
            assert (rows["at-rest"]["counts_known"], rows["at-rest"]["messages"]) == (True, 0)
        by_count = [row["name"] for row in api.get("/queues?sort=messages")]
        assert [each for each in by_count if each in ("counted", "at-rest")] == [
            "counted",
            "at-rest",
        ]
        assert_unknown(api.get(place))
        status, refusal = api.ask("DELETE", f"{place}/contents")
        assert (status, refusal["reason"]) == (404, DOWN_COUNTED)
        got = {"ackmode": "ack_requeue_true", "count": 1, "encoding": "auto"}
        assert api.ask("POST", f"{place}/get", got)[0] == 404
        assert api.ask("DELETE", f"{place}?if-empty=true")[0] == 400
        assert 'queue="counted"' not in "".join(other.metrics("/metrics/per-object"))
        wanted = ["name", "messages", "consumers", "state"]
        assert main(["-q", "--node-url", other.management_url, "list_queues", *wanted]) == 0
        lines = capsys.readouterr().out.splitlines()
        assert "counted\tunknown\tunknown\tdown" in lines
        assert "at-rest\t0\t0\trunning" in lines
    eventually(lambda: api.get(place)["messages"] == 2)
    channel_on(cluster, 2).queue_delete("counted")


def test_a_queue_is_counted_as_created_once_and_not_again_after_a_restart(
    cluster: ClusterOfNodes,
) -> None:
    before = [churn(cluster, number) for number in (1, 2, 3)]
    for number in (1, 2, 1):
        channel_on(cluster, number).queue_declare("once", durable=True)
    apis = [HttpApi(node.management_url) for node in cluster.nodes]
    eventually(lambda: all(api.ask("GET", "/queues/%2F/once")[0] == 200 for api in apis))
    first = (before[0][0] + 1, before[0][1])
    assert [churn(cluster, number) for number in (1, 2, 3)] == [first, *before[1:]]
    with without_node(cluster, 1):
        pass
    assert churn(cluster, 1) == (0, 0)
    channel_on(cluster, 3).queue_delete("once")
    eventually(lambda: churn(cluster, 1) == (0, 1))
    assert [churn(cluster, number) for number in (2, 3)] == before[1:]


def churn(cluster: ClusterOfNodes, number: int) -> tuple[int, int]:
    """Queues that a node counts as created and as deleted."""
    found = cluster.node(number).metrics()
    names = ("rabbitmq_queues_created_total", "rabbitmq_queues_deleted_total")
    created, deleted = (int(found[name]) for name in names)
    return created, deleted


def assert_unknown(row: dict[str, Any]) -> None:
    assert row["counts_known"] is False
    for name in ("messages", "messages_ready", "message_bytes", "consumers", "memory"):
        assert row[name] is None, name
    assert row["message_stats"] == {}


def publish_when_it_is_back(channel: Any, body: bytes) -> None:
    until = time.monotonic() + 10
    while True:
        try:
            channel.basic_publish("", "q", body)
            return
        except pika.exceptions.NackError:
            assert time.monotonic() < until
            channel.connection.sleep(0.05)


def test_links_to_a_queue_whose_home_is_killed_are_detached_and_publishes_rejected(
    cluster: ClusterOfNodes,
) -> None:
    async def test() -> None:
        async with await connect(cluster.urls[0], follow=None) as home:
            await (await home.management()).declare_queue("q")
        async with await connect(cluster.urls[1], follow=None) as away:
            publisher = await away.publisher("/queues/q")
            consumer = await away.consumer("/queues/q")
            with without_node(cluster, 1):
                with pytest.raises(PeerError) as detached:
                    await consumer.get(timeout_s=20)
                assert detached.value.condition == "amqp:illegal-state"
                outcome = await publisher.publish(Message(b"lost"))
                assert outcome.error is not None
                assert outcome.error.condition == "amqp:precondition-failed"
                with pytest.raises(RequestFailed, match="is down or inaccessible"):
                    await (await away.management()).queue("q")

    async def whole() -> None:
        async with asyncio.timeout(60):
            await test()

    asyncio.run(whole())


def test_a_queue_that_is_down_can_be_deleted_but_not_if_it_may_hold_messages(
    cluster: ClusterOfNodes,
) -> None:
    channel_on(cluster, 1).queue_declare("q", durable=True)
    text = "PRECONDITION_FAILED - queue 'q' in vhost '/' not empty"
    with without_node(cluster, 1):
        with channel_closed(404, DOWN):  # It is answered when the queue is down.
            channel_on(cluster, 2).queue_declare("q", passive=True)
        with channel_closed(406, text):
            channel_on(cluster, 2).queue_delete("q", if_empty=True)
        channel_on(cluster, 2).queue_delete("q", if_unused=True)
    with channel_closed(404, "NOT_FOUND - no queue 'q' in vhost '/'"):
        channel_on(cluster, 1).queue_declare("q", passive=True)


def test_a_home_that_comes_back_without_its_disk_serves_its_queues_empty(
    cluster: ClusterOfNodes,
) -> None:
    channel_on(cluster, 1).queue_declare("q", durable=True)
    using = channel_on(cluster, 2)
    publish_all(using, "q", [b"lost with the disk"], persistent=True)
    with without_node(cluster, 1):
        cluster.node(1).wipe()
    publish_when_it_is_back(using, b"again")
    assert drain(channel_on(cluster, 3), "q") == [b"again"]

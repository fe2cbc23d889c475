"""Mirrored classic queues on three real nodes: what is confirmed survives nodes that are killed."""

import asyncio
import time
from collections.abc import Callable, Iterator
from functools import partial
from itertools import islice
from typing import Any

import pika
import pytest
from pika.adapters.blocking_connection import BlockingChannel

from node.cli.warrenctl import main as warrenctl
from tests.cluster.leaders import (
    leader_and_others,
    leader_number,
    without_leader,
    without_node,
)
from tests.cluster.queue_clients import WAIT_S, channel_to, consume, filled, publish
from tests.cluster.test_events import follow
from tests.conformance.broker import channel_closed
from tests.conformance.test_http_definitions import export_of_3_13
from tests.waiting import eventually
from warren.testing import ClusterOfNodes, Node

COUNT = 50
LOSS = "queue.mirror.promoted.unsynchronised"
pytestmark = [pytest.mark.timeout(240)]


@pytest.fixture(scope="module")
def cluster() -> Iterator[ClusterOfNodes]:
    """One for all; who kills a node starts it again."""
    with ClusterOfNodes(3) as found:
        put_policy(found, "all", "^m-", {"ha-mode": "all", "ha-sync-mode": "automatic"})
        put_policy(found, "hand", "^hand-", {"ha-mode": "all", "ha-sync-mode": "manual"})
        put_policy(found, "two", "^two-", {"ha-mode": "exactly", "ha-params": 2})
        yield found


def put_policy(
    cluster: ClusterOfNodes, name: str, pattern: str, definition: dict[str, object]
) -> None:
    body = {"pattern": pattern, "definition": definition, "apply-to": "queues", "priority": 0}
    cluster.node(1).api("PUT", f"/api/policies/%2F/{name}", body)


def row(cluster: ClusterOfNodes, queue: str, number: int = 2) -> dict[str, Any]:
    found = cluster.node(number).api("GET", f"/api/queues/%2F/{queue}")
    assert isinstance(found, dict)
    return found


def synchronised(cluster: ClusterOfNodes, queue: str, count: int, number: int = 2) -> None:
    def is_so() -> bool:
        return len(row(cluster, queue, number).get("synchronised_slave_nodes", ())) == count

    eventually(is_so, seconds=WAIT_S)


def has_mirrors(cluster: ClusterOfNodes, queue: str, leader: int, *mirrors: int) -> None:
    """Wait until those nodes have its mirrors, as the node that leads it says."""
    names = [f"n{number}" for number in mirrors]
    eventually(lambda: sorted(row(cluster, queue, leader)["slave_nodes"]) == names)


def test_a_queue_declared_under_a_policy_has_mirrors_on_all_nodes(cluster: ClusterOfNodes) -> None:
    bodies = filled(cluster, "m-across", COUNT)
    _, *others = leader_and_others(cluster, "m-across")
    mirrors = [f"n{number}" for number in others]
    found = row(cluster, "m-across")
    assert found["type"] == "classic"
    assert sorted(found["slave_nodes"]) == mirrors
    assert sorted(found["synchronised_slave_nodes"]) == mirrors
    assert consume(channel_to(cluster, others[-1]), "m-across", COUNT) == bodies


def test_what_was_confirmed_survives_a_leader_that_is_killed(cluster: ClusterOfNodes) -> None:
    bodies = filled(cluster, "m-led", COUNT)
    with without_leader(cluster, "m-led") as lost:
        publish(channel_to(cluster, lost % 3 + 1), "m-led", [b"afterwards"])
    synchronised(cluster, "m-led", 2)
    assert consume(channel_to(cluster, lost), "m-led", COUNT + 1) == [*bodies, b"afterwards"]


def test_a_queue_of_an_export_of_rabbitmq_3_13_has_mirrors_and_survives_its_leader(
    cluster: ClusterOfNodes,
) -> None:
    hashed = cluster.node(1).api("GET", "/api/auth/hash_password/ink")["ok"]
    cluster.node(1).api("POST", "/api/definitions", export_of_3_13(hashed))

    def clerks(number: int) -> BlockingChannel:
        url = cluster.node(number).url.replace("guest:guest", "clerk:ink")
        parameters = pika.URLParameters(url.replace("%2F", "ledger"))
        channel = pika.BlockingConnection(parameters).channel()
        channel.confirm_delivery()
        return channel

    def letters() -> dict[str, Any]:
        found = cluster.node(1).api("GET", "/api/queues/ledger/old-letters")
        assert isinstance(found, dict)
        return found

    eventually(lambda: len(letters()["synchronised_slave_nodes"]) == 1, letters)
    bodies = [b"letter %d" % number for number in range(COUNT)]
    publish(clerks(2), "old-letters", bodies)
    with without_leader(cluster, "old-letters", vhost="ledger") as lost:
        assert consume(clerks(lost % 3 + 1), "old-letters", COUNT) == bodies
    cluster.node(1).api("DELETE", "/api/vhosts/ledger")
    cluster.node(1).api("DELETE", "/api/users/clerk")


def test_publishers_wait_less_than_two_seconds_when_the_leader_is_killed(
    cluster: ClusterOfNodes,
) -> None:
    channel_to(cluster, 1).queue_declare("m-waited", durable=True)
    leader, second, _ = leader_and_others(cluster, "m-waited")
    channel = channel_to(cluster, second)
    publish(channel, "m-waited", [b"before"])
    with without_leader(cluster, "m-waited", leader):
        began = time.monotonic()
        publish(channel, "m-waited", [b"after"])
        waited_s = time.monotonic() - began
    synchronised(cluster, "m-waited", 2)
    assert consume(channel_to(cluster, 3), "m-waited", 2) == [b"before", b"after"]
    assert waited_s < 2


def test_publishers_wait_less_than_two_seconds_while_the_leader_hangs(
    cluster: ClusterOfNodes,
) -> None:
    channel_to(cluster, 1).queue_declare("m-hanging", durable=True)
    leader, second, _ = leader_and_others(cluster, "m-hanging")
    channel = channel_to(cluster, second)
    publish(channel, "m-hanging", [b"before"])
    with without_leader(cluster, "m-hanging", leader, end=Node.pause):
        began = time.monotonic()
        publish(channel, "m-hanging", [b"after"])
        waited_s = time.monotonic() - began
    synchronised(cluster, "m-hanging", 2)
    assert consume(channel_to(cluster, leader), "m-hanging", 2) == [b"before", b"after"]
    assert waited_s < 2


def test_a_mirror_that_came_back_can_lead(cluster: ClusterOfNodes) -> None:
    bodies = filled(cluster, "m-back", COUNT)
    leader, *mirrors = leader_and_others(cluster, "m-back")
    for number in mirrors:
        with without_node(cluster, number):
            publish(channel_to(cluster, leader), "m-back", [b"without n%d" % number])
        synchronised(cluster, "m-back", 2, leader)
    with without_leader(cluster, "m-back", leader):
        publish(channel_to(cluster, mirrors[0]), "m-back", [b"without n%d" % leader])
    bodies += [b"without n%d" % number for number in (*mirrors, leader)]
    assert consume(channel_to(cluster, leader), "m-back", len(bodies)) == bodies


def test_messages_are_there_when_all_nodes_were_killed_at_once(cluster: ClusterOfNodes) -> None:
    bodies = filled(cluster, "m-dark", COUNT)
    cluster.kill9()
    cluster.start()
    assert consume(channel_to(cluster, 2), "m-dark", COUNT) == bodies


def test_a_queue_with_messages_gets_mirrors_and_loses_them(cluster: ClusterOfNodes) -> None:
    """Transient messages are kept as well."""
    channel = channel_to(cluster, 1)
    channel.queue_declare("later", durable=True)
    bodies = [b"message %d" % number for number in range(COUNT)]
    publish(channel, "later", bodies)
    channel.basic_publish("", "later", b"transient")
    put_policy(cluster, "later", "^later$", {"ha-mode": "all", "ha-sync-mode": "automatic"})
    synchronised(cluster, "later", 2)
    publish(channel, "later", [b"by an open channel"])
    with without_leader(cluster, "later") as lost:
        second = channel_to(cluster, lost % 3 + 1)
        publish(second, "later", [b"afterwards"])
    synchronised(cluster, "later", 2)
    cluster.node(2).api("DELETE", "/api/policies/%2F/later")
    is_plain(cluster, "later")
    publish(second, "later", [b"in a plain queue"])
    with without_node(cluster, leader_number(cluster, "later")):
        pass
    expected = [*bodies, b"transient", b"by an open channel", b"afterwards", b"in a plain queue"]
    assert consume(channel_to(cluster, 3), "later", len(expected)) == expected


@pytest.mark.parametrize("number", [1, 2])
def test_a_consumer_stays_when_its_queue_gets_mirrors_and_when_it_loses_them(
    cluster: ClusterOfNodes, number: int
) -> None:
    """On the node of the queue or on another one, nothing is cancelled, lost, doubled or marked as
    redelivered."""
    queue = f"in-use-{number}"
    channel_to(cluster, 1).queue_declare(queue, durable=True, auto_delete=True)
    channel = channel_to(cluster, number)
    publisher = channel_to(cluster, number)
    bodies = [b"message %d" % each for each in range(COUNT)]
    publish(publisher, queue, bodies)
    held: list[int] = []
    found: list[bytes] = []
    channel.add_on_cancel_callback(lambda frame: pytest.fail(f"cancelled: {frame}"))
    channel.basic_qos(prefetch_count=10)

    def take(_channel: Any, method: Any, _properties: Any, body: bytes) -> None:
        assert not method.redelivered
        held.append(method.delivery_tag)
        found.append(body)

    def settle(count: int) -> None:
        while held:
            channel.basic_ack(held.pop(0))
        eventually(lambda: taken(count), seconds=WAIT_S)

    def taken(count: int) -> bool:
        channel.connection.process_data_events(0.01)
        return len(found) >= count

    channel.basic_consume(queue, take)
    eventually(lambda: taken(10), seconds=WAIT_S)
    put_policy(cluster, queue, f"^{queue}$", {"ha-mode": "all", "ha-sync-mode": "automatic"})
    synchronised(cluster, queue, 2)
    settle(20)
    publish(publisher, queue, [b"behind"])
    with without_node(cluster, 3):
        settle(30)
        synchronised(cluster, queue, 1, number)
    synchronised(cluster, queue, 2)
    cluster.node(2).api("DELETE", f"/api/policies/%2F/{queue}")
    is_plain(cluster, queue)
    settle(40)
    publish(publisher, queue, [b"in a plain queue"])
    put_policy(cluster, queue, f"^{queue}$", {"ha-mode": "all", "ha-sync-mode": "automatic"})
    synchronised(cluster, queue, 2)
    settle(50)
    publish(publisher, queue, [b"in a mirrored queue again"])
    settle(53)
    assert found == [*bodies, b"behind", b"in a plain queue", b"in a mirrored queue again"]


def test_a_consumer_of_another_node_outlives_the_node_that_had_its_queue_before_the_mirrors(
    cluster: ClusterOfNodes,
) -> None:
    queue = "left-behind"
    channel_to(cluster, 1).queue_declare(queue, durable=True)
    channel, publisher = channel_to(cluster, 2), channel_to(cluster, 2)
    bodies = [b"message %d" % each for each in range(COUNT)]
    publish(publisher, queue, bodies)
    channel.basic_qos(prefetch_count=10)
    channel.add_on_cancel_callback(lambda frame: pytest.fail(f"cancelled: {frame}"))
    messages = channel.consume(queue, inactivity_timeout=WAIT_S)

    def take(count: int) -> list[bytes]:
        found = []
        for method, _, body in islice(messages, count):
            assert method is not None and not method.redelivered
            found.append(body)
            tags.append(method.delivery_tag)
        return found

    tags: list[int] = []
    found = take(10)
    put_policy(cluster, queue, f"^{queue}$", {"ha-mode": "all", "ha-sync-mode": "automatic"})
    synchronised(cluster, queue, 2)
    channel.basic_ack(tags[-1], multiple=True)
    found += take(10)  # By way of the leader: node 2 knows of the mirrors.
    publish(publisher, queue, [b"behind"])
    with without_leader(cluster, queue, 1):
        publish(publisher, queue, [b"after the loss"])
        channel.basic_ack(tags[-1], multiple=True)
        while len(found) < COUNT + 2:
            found += take(1)
            channel.basic_ack(tags[-1])
    assert found == [*bodies, b"behind", b"after the loss"]
    synchronised(cluster, queue, 2)
    assert row(cluster, queue)["messages"] == 0


@pytest.mark.parametrize("number", [1, 2])
def test_clients_that_came_to_a_mirrored_queue_stay_when_it_becomes_a_plain_one(
    cluster: ClusterOfNodes, number: int
) -> None:
    """On the node of its leader or on another one; those that come later are served beside them."""
    queue = f"came-{number}"
    put_policy(cluster, queue, f"^{queue}$", {"ha-mode": "all"})
    channel_to(cluster, 1).queue_declare(queue, durable=True)
    synchronised(cluster, queue, 2)
    channel, publisher = channel_to(cluster, number), channel_to(cluster, number)
    channel.add_on_cancel_callback(lambda frame: pytest.fail(f"cancelled: {frame}"))
    channel.basic_qos(prefetch_count=10)
    publish(publisher, queue, [b"message %d" % each for each in range(20)])
    tags: list[int] = []
    found: list[bytes] = []

    def take(_channel: Any, method: Any, _properties: Any, body: bytes) -> None:
        assert not method.redelivered
        tags.append(method.delivery_tag)
        found.append(body)

    def taken(count: int) -> bool:
        channel.connection.process_data_events(0.01)
        return len(found) >= count

    channel.basic_consume(queue, take)
    eventually(lambda: taken(10), seconds=WAIT_S)
    cluster.node(2).api("DELETE", f"/api/policies/%2F/{queue}")
    is_plain(cluster, queue)
    publish(publisher, queue, [b"by an older client"])
    publish(channel_to(cluster, number), queue, [b"by a newer client"])
    for count in (20, 22):
        while tags:
            channel.basic_ack(tags.pop(0))
        eventually(partial(taken, count), seconds=WAIT_S)
    expected = [b"message %d" % each for each in range(20)]
    assert found == [*expected, b"by an older client", b"by a newer client"]


def is_plain(cluster: ClusterOfNodes, queue: str) -> None:
    """Wait until a node has made a mirrored queue a plain one; the last time it was asked to."""
    text = f"queue '{queue}' in vhost '/': the queue has no mirrors any more"
    eventually(lambda: any(text in each.log() for each in cluster.nodes), seconds=WAIT_S)


def ctl(cluster: ClusterOfNodes, *words: str) -> None:
    assert warrenctl(["--node-url", cluster.node(2).management_url, *words]) == 0


def test_an_operator_synchronises_mirrors(
    cluster: ClusterOfNodes, capsys: pytest.CaptureFixture[str]
) -> None:
    bodies = filled(cluster, "hand-led", COUNT)
    leader, kept, lost = leader_and_others(cluster, "hand-led")
    with without_node(cluster, lost):
        publish(channel_to(cluster, kept), "hand-led", [b"without a mirror"])
        has_mirrors(cluster, "hand-led", leader, kept)
    has_mirrors(cluster, "hand-led", leader, kept, lost)
    publish(channel_to(cluster, lost), "hand-led", [b"with it"])
    assert row(cluster, "hand-led")["synchronised_slave_nodes"] == [f"n{kept}"]
    ctl(cluster, "sync_queue", "hand-led")
    synchronised(cluster, "hand-led", 2)
    capsys.readouterr()
    columns = ("name", "pid", "slave_pids", "synchronised_slave_pids")
    ctl(cluster, "-q", "list_queues", *columns)
    (line,) = [each for each in capsys.readouterr().out.splitlines() if "hand-led" in each]
    assert [line.count(f"n{number}") for number in (leader, kept, lost)] == [1, 2, 2]
    expected = [*bodies, b"without a mirror", b"with it"]
    assert consume(channel_to(cluster, 1), "hand-led", len(expected)) == expected


def test_a_mirror_is_synchronised_when_the_older_messages_are_gone(cluster: ClusterOfNodes) -> None:
    bodies = filled(cluster, "hand-drained", COUNT)
    leader, kept, lost = leader_and_others(cluster, "hand-drained")
    with without_node(cluster, lost):
        has_mirrors(cluster, "hand-drained", leader, kept)
    has_mirrors(cluster, "hand-drained", leader, kept, lost)
    publish(channel_to(cluster, kept), "hand-drained", [b"newer"])
    assert row(cluster, "hand-drained")["synchronised_slave_nodes"] == [f"n{kept}"]
    assert consume(channel_to(cluster, leader), "hand-drained", COUNT) == bodies
    synchronised(cluster, "hand-drained", 2)
    assert consume(channel_to(cluster, lost), "hand-drained", 1) == [b"newer"]


def test_unacknowledged_messages_stay_with_their_consumer_when_the_leader_is_killed(
    cluster: ClusterOfNodes,
) -> None:
    bodies = filled(cluster, "m-held", COUNT)
    leader, *others = leader_and_others(cluster, "m-held")
    second, third = (channel_to(cluster, number) for number in others)
    second.basic_qos(prefetch_count=10)
    held = []
    for method, _, _ in second.consume("m-held", inactivity_timeout=WAIT_S):
        assert method is not None
        held.append(method.delivery_tag)
        if len(held) == 10:
            break
    with without_leader(cluster, "m-held", leader):
        publish(third, "m-held", [b"afterwards"])
        for tag in held:
            second.basic_ack(tag)
        second.connection.close()
    expected = [*bodies[10:], b"afterwards"]
    assert consume(third, "m-held", len(expected)) == expected


def test_a_consumer_can_ask_to_be_cancelled_when_another_mirror_leads(
    cluster: ClusterOfNodes,
) -> None:
    bodies = filled(cluster, "m-cancelled", COUNT)
    synchronised(cluster, "m-cancelled", 2)
    leader, *readers = leader_and_others(cluster, "m-cancelled")
    channel, other = (channel_to(cluster, number) for number in readers)
    channel.basic_qos(prefetch_count=5)
    held: list[int] = []
    redelivered: list[bytes] = []
    cancelled: list[str] = []
    channel.add_on_cancel_callback(lambda frame: cancelled.append(frame.method.consumer_tag))
    channel.basic_consume(
        "m-cancelled",
        lambda _channel, method, _properties, _body: held.append(method.delivery_tag),
        consumer_tag="asked",
        arguments={"x-cancel-on-ha-failover": True},
    )
    kept: list[int] = []
    other.basic_qos(prefetch_count=1)
    other.basic_consume("m-cancelled", lambda _c, method, _p, _b: kept.append(method.delivery_tag))

    def serve(done: Callable[[], bool]) -> None:
        def served() -> bool:
            for each in (channel, other):
                each.connection.process_data_events(0.01)
            return done()

        eventually(served, seconds=WAIT_S)

    serve(lambda: len(held) == 5 and len(kept) == 1)
    with without_leader(cluster, "m-cancelled", leader):
        serve(lambda: cancelled == ["asked"])
        channel.basic_ack(held[0])  # The tag is of the old leader: it is ignored.
        assert len(kept) == 1

        def again(_channel: Any, method: Any, _properties: Any, body: bytes) -> None:
            channel.basic_ack(method.delivery_tag)
            redelivered.append(body)
            assert method.redelivered is (body in bodies[:5])

        channel.basic_consume("m-cancelled", again)
        serve(lambda: len(redelivered) == COUNT - 1)
        assert sorted(redelivered) == sorted(set(redelivered))


def test_the_argument_for_a_cancel_at_failover_is_a_boolean(cluster: ClusterOfNodes) -> None:
    channel = channel_to(cluster, 2)
    channel.queue_declare("m-boolean", durable=True)
    with channel_closed(
        406,
        "PRECONDITION_FAILED - invalid arg 'x-cancel-on-ha-failover' for queue 'm-boolean' in vhost"
        " '/': {unacceptable_type,longstr}",
    ):
        channel.basic_consume("m-boolean", print, arguments={"x-cancel-on-ha-failover": "yes"})


def test_a_policy_chooses_how_many_nodes_have_the_queue(cluster: ClusterOfNodes) -> None:
    bodies = filled(cluster, "two-copies", COUNT)
    synchronised(cluster, "two-copies", 1)
    (mirror,) = row(cluster, "two-copies")["slave_nodes"]
    reader = int(mirror[1]) % 3 + 1

    def mirrors() -> list[str]:
        found = row(cluster, "two-copies", reader)["slave_nodes"]
        assert isinstance(found, list)
        return found

    with without_node(cluster, int(mirror[1])):
        eventually(lambda: len(mirrors()) == 1 and mirror not in mirrors(), mirrors)
    put_policy(cluster, "two", "^two-", {"ha-mode": "nodes", "ha-params": [mirror]})
    eventually(lambda: mirror in mirrors(), mirrors)
    ctl(cluster, "sync_queue", "two-copies")
    eventually(lambda: row(cluster, "two-copies", 1)["node"] == mirror)
    eventually(lambda: mirrors() == [], mirrors)
    assert consume(channel_to(cluster, 1), "two-copies", COUNT) == bodies


def test_exclusive_and_transient_queues_have_no_mirrors(cluster: ClusterOfNodes) -> None:
    channel = channel_to(cluster, 1)
    channel.queue_declare("m-own", exclusive=True)
    channel.queue_declare("m-brief", durable=False, auto_delete=True)
    assert "slave_nodes" not in row(cluster, "m-own", 1)
    assert "slave_nodes" not in row(cluster, "m-brief", 1)


def test_a_node_that_stops_passes_its_queues_to_mirrors(cluster: ClusterOfNodes) -> None:
    bodies = filled(cluster, "m-passed", COUNT)
    with without_leader(cluster, "m-passed", end=Node.stop) as stopped:
        names = [row(cluster, "m-passed", number)["node"] for number in {1, 2, 3} - {stopped}]
        assert f"n{stopped}" not in names  # Before it has stopped, and not only some time later.
    assert consume(channel_to(cluster, stopped), "m-passed", COUNT) == bodies


def test_a_leader_that_stops_without_synchronised_mirrors_keeps_its_messages(
    cluster: ClusterOfNodes,
) -> None:
    bodies = filled(cluster, "unsynchronised", COUNT)
    put_policy(cluster, "late", "^unsynchronised$", {"ha-mode": "all", "ha-sync-mode": "manual"})
    eventually(lambda: len(row(cluster, "unsynchronised").get("slave_nodes", ())) == 2)
    later = [b"with mirrors %d" % number for number in range(COUNT)]
    publish(channel_to(cluster, 2), "unsynchronised", later)
    leader, _, third = leader_and_others(cluster, "unsynchronised")
    assert row(cluster, "unsynchronised")["synchronised_slave_nodes"] == []
    with without_node(cluster, leader, Node.stop):
        pass
    expected = [*bodies, *later]
    assert consume(channel_to(cluster, third), "unsynchronised", len(expected)) == expected


def metric(cluster: ClusterOfNodes, number: int, name: str) -> float:
    samples = cluster.node(number).metrics()
    return sum(value for key, value in samples.items() if key.startswith(name))


def test_a_promotion_without_synchronisation_reports_how_many_messages_are_lost() -> None:
    with ClusterOfNodes(3) as cluster:  # The metrics count the mirrors of all queues.
        bodies = filled(cluster, "lossy", COUNT)
        put_policy(cluster, "lossy", "^lossy$", {"ha-mode": "all", "ha-sync-mode": "manual"})
        eventually(lambda: len(row(cluster, "lossy").get("recoverable_slaves", ())) == 2)
        assert row(cluster, "lossy")["synchronised_slave_nodes"] == []
        publish(channel_to(cluster, 3), "lossy", [b"with mirrors"])
        lost, *mirrors = leader_and_others(cluster, "lossy")
        for number in mirrors:
            count = partial(metric, cluster, number, "warren_unsynchronised_mirrors")
            eventually(count, seconds=WAIT_S)
        kill = cluster.node(lost).kill9
        told = asyncio.run(follow(cluster.node(mirrors[0]), LOSS, kill, lambda _: True))
        leader = leader_number(cluster, "lossy")
        assert consume(channel_to(cluster, leader), "lossy", 1) == [b"with mirrors"]
        assert [each["properties"]["messages_lost"] for each in told] == [len(bodies)]
        assert metric(cluster, leader, "warren_mirror_lost_messages_total") == len(bodies)
        line = f"about {len(bodies)} messages are lost (ha-promote-on-failure"
        assert line in cluster.node(leader).log()

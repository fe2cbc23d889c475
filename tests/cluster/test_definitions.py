"""Definitions over processes: known everywhere when answered, gone with their node, no majority."""

import threading
import time
import urllib.error
import urllib.request
from base64 import b64encode
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

import pika
import pytest
from pika.exceptions import AMQPError, ConnectionClosedByBroker

from tests.waiting import eventually
from warren.testing.cluster import ClusterOfNodes
from warren.testing.http_api import HttpApi
from warren.testing.node import Node

DEADLINE_S = 60.0
QUICK = {"cluster.change_timeout_ms": "3000", "cluster.process_grace_ms": "4000"}


def open_to(node: Node) -> Any:
    return pika.BlockingConnection(pika.URLParameters(node.url))


def api(node: Node, method: str, path: str, body: object = None) -> tuple[int, Any]:
    return HttpApi(node.management_url).ask(method, path, body)


def queues(node: Node) -> set[str]:
    status, rows = api(node, "GET", "/queues")
    assert status == 200
    return {row["name"] for row in rows}


def is_declared(node: Node, queue: str) -> bool:
    try:
        with open_to(node) as connection:
            connection.channel().queue_declare(queue, durable=True)
    except AMQPError:
        return False
    return True


def warning_of(node: Node) -> str | None:
    login = b64encode(b"guest:guest").decode()
    headers = {"authorization": f"Basic {login}"}
    request = urllib.request.Request(f"{node.management_url}/api/vhosts", headers=headers)
    with urllib.request.urlopen(request, timeout=30) as answer:
        found: str | None = answer.headers["Warning"]
        return found


@pytest.fixture(scope="module")
def cluster() -> Iterator[ClusterOfNodes]:
    with ClusterOfNodes(3, settings=QUICK) as nodes:
        yield nodes


def test_what_one_node_answers_all_nodes_know(cluster: ClusterOfNodes) -> None:
    connections = [open_to(node) for node in cluster.nodes]
    channels = [connection.channel() for connection in connections]
    for number in range(12):
        one, other, third = (channels[(number + shift) % 3] for shift in range(3))
        one.exchange_declare(f"x{number}", "topic")
        other.queue_declare(f"q{number}", durable=True)
        third.queue_bind(f"q{number}", f"x{number}", "#")
        one.exchange_declare(f"x{number}", passive=True)
        other.exchange_delete(f"x{number}")
        third.queue_delete(f"q{number}")
    for connection in connections:
        connection.close()
    assert all(not queues(node) for node in cluster.nodes)


def test_clients_of_a_vhost_that_is_deleted_are_closed_on_every_node(
    cluster: ClusterOfNodes,
) -> None:
    assert api(cluster.node(1), "PUT", "/vhosts/shop", {})[0] == 201
    there = f"{cluster.node(2).url.rsplit('/', 1)[0]}/shop"
    client = pika.BlockingConnection(pika.URLParameters(there))
    assert api(cluster.node(1), "DELETE", "/vhosts/shop")[0] == 204
    with pytest.raises(ConnectionClosedByBroker) as closed:
        client.process_data_events(DEADLINE_S)
    assert closed.value.reply_text == "CONNECTION_FORCED - vhost 'shop' is deleted"


def test_exclusive_queues_go_with_the_process_of_their_node(cluster: ClusterOfNodes) -> None:
    lost = open_to(cluster.node(3))
    kept = open_to(cluster.node(1))
    channel = lost.channel()
    channel.queue_declare("of 3", exclusive=True)
    channel.queue_declare("transient of 3")
    kept.channel().queue_declare("of 1", exclusive=True)
    channel.queue_declare("durable of 3", durable=True)
    assert queues(cluster.node(2)) == {"of 3", "of 1", "transient of 3", "durable of 3"}
    cluster.kill9([3])
    cluster.start([3])
    eventually(lambda: queues(cluster.node(2)) == {"of 1", "durable of 3"})
    assert queues(cluster.node(3)) == {"of 1", "durable of 3"}
    kept.close()
    eventually(lambda: queues(cluster.node(3)) == {"durable of 3"})
    assert api(cluster.node(2), "DELETE", "/queues/%2F/durable%20of%203")[0] == 204


def test_a_node_that_stood_still_for_too_long_begins_anew(cluster: ClusterOfNodes) -> None:
    still = open_to(cluster.node(3))
    still.channel().queue_declare("of 3", exclusive=True)
    cluster.node(3).pause()
    try:
        eventually(lambda: not queues(cluster.node(1)))
    finally:
        cluster.node(3).resume()
    with pytest.raises(ConnectionClosedByBroker) as closed:
        still.process_data_events(DEADLINE_S)
    assert closed.value.reply_code == 320 and "cut off" in closed.value.reply_text
    reopened = open_to(cluster.node(3))
    reopened.channel().queue_declare("of 3", exclusive=True)
    assert queues(cluster.node(2)) == {"of 3"}
    reopened.close()
    eventually(lambda: not queues(cluster.node(1)))


def test_a_cluster_that_starts_anew_knows_what_was_declared(cluster: ClusterOfNodes) -> None:
    connection = open_to(cluster.node(2))
    for number in range(6):
        connection.channel().queue_declare(f"q{number}", durable=True)
    cluster.kill9()
    cluster.start()
    expected = {f"q{number}" for number in range(6)}
    assert all(queues(node) == expected for node in cluster.nodes)
    for number in range(6):
        assert api(cluster.node(1), "DELETE", f"/queues/%2F/q{number}")[0] == 204


def test_messages_of_a_queue_that_was_only_just_declared_survive(cluster: ClusterOfNodes) -> None:
    channel = open_to(cluster.node(3)).channel()
    channel.confirm_delivery()
    channel.queue_declare("young", durable=True)
    channel.queue_declare("deleted", durable=True)
    for number in range(10):
        for queue in ("young", "deleted"):
            body = b"%d" % number
            channel.basic_publish("", queue, body, pika.BasicProperties(delivery_mode=2))
    channel.queue_delete("deleted")
    cluster.kill9([1, 3])
    cluster.start([1, 3])
    assert queues(cluster.node(3)) == {"young"}
    with open_to(cluster.node(3)) as connection:
        channel = connection.channel()
        got = [channel.basic_get("young", auto_ack=True)[2] for _ in range(10)]
        assert got == [b"%d" % number for number in range(10)]
        channel.queue_delete("young")


def test_without_a_majority_a_client_that_deletes_a_queue_is_answered(
    cluster: ClusterOfNodes,
) -> None:
    node = cluster.node(1)
    with open_to(node) as connection, open_to(cluster.node(2)) as other:
        for name in ("here", "by HTTP"):
            connection.channel().queue_declare(name, durable=True)
        other.channel().queue_declare("elsewhere", durable=True)
    clients = {name: open_to(node) for name in ("here", "elsewhere")}
    channels = {name: client.channel() for name, client in clients.items()}
    answers: dict[str, Any] = {}

    def delete(name: str) -> None:
        try:
            answers[name] = channels[name].queue_delete(name)
        except AMQPError as error:
            answers[name] = error

    def delete_by_http() -> None:
        answers["by HTTP"] = api(node, "DELETE", "/queues/%2F/by%20HTTP")

    calls = [threading.Thread(target=delete, args=(name,), daemon=True) for name in channels]
    calls.append(threading.Thread(target=delete_by_http, daemon=True))
    for number in (2, 3):
        cluster.node(number).pause()
    try:
        for call in calls:
            call.start()
        eventually(lambda: answers.keys() == {"here", "elsewhere", "by HTTP"})
    finally:
        for number in (2, 3):
            cluster.node(number).resume()
    text = "failed to delete queue '{}' in vhost '/' because the operation timed out"
    assert answers["here"].reply_code == 541
    assert text.format("here") in answers["here"].reply_text
    assert answers["elsewhere"].reply_code in (404, 541)  # 404: its node was not yet known as down.
    status, body = answers["by HTTP"]
    assert (status, body["reason"]) == (503, text.format("by HTTP"))
    eventually(lambda: is_declared(node, "late"))
    for name in queues(node):
        assert api(node, "DELETE", f"/queues/%2F/{quote(name)}")[0] == 204


def test_without_a_majority_changes_time_out_and_reading_goes_on(cluster: ClusterOfNodes) -> None:
    node = cluster.node(1)
    connection = open_to(node)
    channel = connection.channel()
    channel.queue_declare("known", durable=True)
    answers: list[tuple[int, Any]] = []
    for number in (2, 3):
        cluster.node(number).pause()
    try:
        began = time.monotonic()
        put = threading.Thread(
            target=lambda: answers.append(api(node, "PUT", "/vhosts/late", {})), daemon=True
        )
        put.start()
        assert queues(node) == {"known"}
        eventually(lambda: warning_of(node) == '110 - "Response is Stale"')
        with pytest.raises(ConnectionClosedByBroker) as closed:
            channel.queue_declare("late", durable=True)
        put.join(20)
        assert 2.9 < time.monotonic() - began < 20
    finally:
        for number in (2, 3):
            cluster.node(number).resume()
    assert closed.value.reply_code == 541
    text = "failed to declare queue 'late' in vhost '/' because the operation timed out"
    assert closed.value.reply_text == f"INTERNAL_ERROR - {text}"
    status, body = answers[0]
    assert (status, body["reason"]) == (
        503,
        "failed to declare vhost 'late' because the operation timed out",
    )
    eventually(lambda: is_declared(node, "late"))  # Nothing says whether the first one was later.
    assert queues(node) >= {"known", "late"}
    assert api(node, "DELETE", "/queues/%2F/known")[0] == 204

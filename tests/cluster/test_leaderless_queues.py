"""Commands on a quorum queue whose majority is away: answered in time, not carried out later."""

import threading
from collections.abc import Callable, Iterator
from typing import Any

import pika
import pytest
from pika.exceptions import ChannelClosedByBroker

from tests.waiting import eventually
from warren.testing.cluster import ClusterOfNodes
from warren.testing.http_api import HttpApi

SETTINGS = {"cluster.change_timeout_ms": "3000"}
QUEUE = "orders"
NO_LEADER = f"queue '{QUEUE}' in vhost '/' has no leader that this node knows of"
ARGUMENTS = {"x-queue-type": "quorum"}


@pytest.fixture(scope="module")
def cluster() -> Iterator[ClusterOfNodes]:
    with ClusterOfNodes(3, settings=SETTINGS) as nodes:
        yield nodes


def declare_passively(channel: Any) -> object:
    return channel.queue_declare(QUEUE, passive=True).method.message_count


def redeclare(channel: Any) -> object:
    declared = channel.queue_declare(QUEUE, durable=True, arguments=ARGUMENTS)
    return declared.method.message_count


def exchange_of(channel: Any) -> object:
    return channel.exchange_declare("sales", "topic", durable=True).method.NAME


def commit(channel: Any) -> object:
    channel.tx_select()
    channel.basic_publish("", QUEUE, b"of a transaction")
    return channel.tx_commit()


CALLS: dict[str, Callable[[Any], object]] = {
    "get": lambda channel: channel.basic_get(QUEUE),
    "consume": lambda channel: channel.basic_consume(QUEUE, lambda *_: None),
    "purge": lambda channel: channel.queue_purge(QUEUE),
    "commit": commit,
    "declare": declare_passively,
    "redeclare": redeclare,
    "redeclare exchange": exchange_of,
}


def outcome(call: Callable[[Any], object], channel: Any) -> object:
    try:
        return call(channel)
    except ChannelClosedByBroker as error:
        return error.reply_code, error.reply_text


def test_commands_on_a_queue_without_a_leader_are_answered_and_do_nothing_later(
    cluster: ClusterOfNodes,
) -> None:
    node = cluster.node(1)
    api = HttpApi(node.management_url)
    message = {"properties": {}, "routing_key": QUEUE, "payload": "m", "payload_encoding": "string"}
    again = {"durable": True, "arguments": ARGUMENTS}
    take = {"count": 1, "ackmode": "ack_requeue_false", "encoding": "auto"}
    clients = {name: pika.BlockingConnection(pika.URLParameters(node.url)) for name in CALLS}
    channels = {name: client.channel() for name, client in clients.items()}
    channels["declare"].queue_declare(QUEUE, durable=True, arguments=ARGUMENTS)
    exchange_of(channels["declare"])
    channels["declare"].confirm_delivery()
    for number in range(3):
        channels["declare"].basic_publish("", QUEUE, b"%d" % number)
    eventually(lambda: api.ask("GET", f"/queues/%2F/{QUEUE}")[1].get("messages") == 3)
    answers: dict[str, Any] = {}

    def call(name: str) -> None:
        answers[name] = outcome(CALLS[name], channels[name])

    def ask(name: str, path: str, body: object) -> None:
        answers[name] = api.ask("PUT" if body is again else "POST", path, body)

    def is_leaderless() -> bool:
        path = "/health/checks/quorum-queues-without-elected-leaders/all-vhosts"
        return api.ask("GET", path)[0] == 503

    asked = {
        "HTTP get": (f"/queues/%2F/{QUEUE}/get", take),
        "HTTP redeclare": (f"/queues/%2F/{QUEUE}", again),
        "HTTP publish": ("/exchanges/%2F/amq.default/publish", message),
    }
    calls = [threading.Thread(target=call, args=(name,), daemon=True) for name in CALLS]
    calls += [threading.Thread(target=ask, args=(n, *a), daemon=True) for n, a in asked.items()]
    for number in (2, 3):
        cluster.node(number).pause()
    try:
        eventually(is_leaderless)
        for each in calls:
            each.start()
        eventually(lambda: answers.keys() == CALLS.keys() | asked.keys())
    finally:
        for number in (2, 3):
            cluster.node(number).resume()
    assert answers.pop("declare") == answers.pop("redeclare") == 3
    assert answers.pop("redeclare exchange") == "Exchange.DeclareOk"
    assert answers.pop("HTTP redeclare")[0] == 204
    for name in asked.keys() - {"HTTP redeclare"}:
        status, body = answers.pop(name)
        assert (name, status, body["reason"]) == (name, 503, NO_LEADER)
    for name, found in answers.items():
        assert (name, found) == (name, (541, f"INTERNAL_ERROR - {NO_LEADER}"))
    eventually(lambda: not is_leaderless())
    rest = pika.BlockingConnection(pika.URLParameters(node.url)).channel()
    found = {rest.basic_get(QUEUE, auto_ack=True)[2] for _ in range(3)}
    assert found == {b"0", b"1", b"2"}, "neither purged nor got"
    bodies = [rest.basic_get(QUEUE, auto_ack=True)[2] for _ in range(2)]
    assert b"m" not in bodies, "the message of the HTTP API was not published later"

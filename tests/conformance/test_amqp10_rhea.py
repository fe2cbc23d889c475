"""rhea, the AMQP 1.0 client of Node.js: one session does the usual things and reports them.

It does so over TCP and over WebSocket."""

import json
import subprocess
from pathlib import Path
from typing import Any, Final

import pika
import pytest

from tests.conformance.broker import Broker
from tests.conformance.programs import node_js, tools_folder

SCRIPT: Final = Path(__file__).resolve().parent / "rhea" / "session.js"
QUEUE: Final = "rhea-session"
COUNT: Final = 500


@pytest.fixture(scope="module", params=["tcp", "websocket"])
def report(broker: Broker, request: pytest.FixtureRequest) -> dict[str, Any]:
    node = node_js("rhea", "ws")
    if broker.node is None:
        pytest.skip("WARREN_TEST_URL: this broker is not ours")
    web = request.param == "websocket"
    host = f"ws://{broker.host}:{broker.node.management_port}/ws" if web else broker.host
    connection = broker.connect()
    channel = connection.channel()
    channel.queue_delete(QUEUE)
    channel.queue_declare(QUEUE, durable=True)
    channel.basic_publish("", QUEUE, b"first", pika.BasicProperties(message_id="pika"))
    done = subprocess.run(
        [node, str(SCRIPT), host, str(broker.port), QUEUE, str(COUNT)],
        cwd=tools_folder(),
        capture_output=True,
        text=True,
        timeout=25,
        check=False,
    )
    channel.queue_delete(QUEUE)
    connection.close()
    assert done.returncode == 0, done.stderr
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


def test_every_message_is_accepted(report: dict[str, Any]) -> None:
    assert report["accepted"] == COUNT


def test_a_message_that_has_no_way_is_released(report: dict[str, Any]) -> None:
    assert report["released"] == 1


def test_messages_arrive_in_order_as_they_were(report: dict[str, Any]) -> None:
    received = report["received"]
    assert received[0][0] == "pika"
    sent = [[number, {"list": [number, "two", True]}] for number in range(1, COUNT + 1)]
    assert received[1:] == sent


def test_a_drain_leaves_no_credit(report: dict[str, Any]) -> None:
    assert report["drained"] == 0


def test_a_queue_that_is_not_there_is_not_found(report: dict[str, Any]) -> None:
    assert report["missing"] == "amqp:not-found"


def test_a_reply_comes_to_a_queue_that_the_broker_made(report: dict[str, Any]) -> None:
    assert report["dynamic"].startswith("/queues/amq.gen-")
    assert report["reply"] == "reply"


def test_a_message_comes_again_with_what_was_said_of_it(report: dict[str, Any]) -> None:
    assert report["modified"] == "bad"

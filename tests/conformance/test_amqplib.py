"""amqplib, the AMQP client of Node.js: one session does the usual things and reports them."""

import json
import subprocess
from pathlib import Path
from typing import Any, Final

import pytest

from tests.conformance.broker import Broker
from tests.conformance.programs import missing, program, tools_folder

SCRIPTS: Final = Path(__file__).resolve().parent / "amqplib"
SESSIONS: Final = 20


def run(broker: Broker, script: str, queue: str, *arguments: str) -> dict[str, Any]:
    """The report of a script that uses this queue."""
    node = program("node", "nodejs")
    if not (tools_folder() / "node_modules" / "amqplib").is_dir():
        missing(f"amqplib is not there: npm install --prefix {tools_folder().name} amqplib")
    done = subprocess.run(
        [node, str(SCRIPTS / script), broker.url(), queue, *arguments],
        cwd=tools_folder(),
        capture_output=True,
        text=True,
        timeout=50,
        check=False,
    )
    connection = broker.connect()
    connection.channel().queue_delete(queue)
    connection.close()
    assert done.returncode == 0, done.stderr
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


@pytest.fixture(scope="module")
def report(broker: Broker) -> dict[str, Any]:
    return run(broker, "session.js", "amqplib-session")


def test_connections_close_with_publishes_under_way(broker: Broker) -> None:
    report = run(broker, "closing.js", "amqplib-closing", str(SESSIONS))
    assert report == {"closed": SESSIONS, "errors": []}


def test_confirmed_messages_are_in_the_queue(report: dict[str, Any]) -> None:
    assert report["confirmed"] == 500


def test_messages_arrive_in_order_with_their_headers(report: dict[str, Any]) -> None:
    assert report["inOrder"] is True
    assert report["headers"] == {"nested": {"list": [1, "two", True]}}


def test_a_return_comes_before_its_confirm(report: dict[str, Any]) -> None:
    assert report["order"] == ["return 312", "confirm"]


def test_errors_close_the_channel_with_code_and_text(report: dict[str, Any]) -> None:
    assert report["missing"] == 404
    expected = (
        "inequivalent arg 'durable' for queue 'amqplib-session' in vhost '/':"
        " received 'false' but current is 'true'"
    )
    assert expected in report["inequivalent"]


def test_a_nacked_message_comes_again_marked_redelivered(report: dict[str, Any]) -> None:
    assert report["seen"] == [["matches", False], ["matches", True]]


def test_getting_from_an_empty_queue_says_so(report: dict[str, Any]) -> None:
    assert report["getEmpty"] is False

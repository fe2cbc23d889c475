"""amqplib, the AMQP client of Node.js, with its options of queues, messages and consumers."""

import json
import subprocess
from pathlib import Path
from typing import Any, Final

import pytest

from tests.conformance.broker import Broker
from tests.conformance.programs import missing, program, tools_folder

SCRIPT: Final = Path(__file__).resolve().parent / "amqplib" / "options.js"


@pytest.fixture(scope="module")
def report(broker: Broker) -> dict[str, Any]:
    """What one run of the script saw."""
    node = program("node", "nodejs")
    if not (tools_folder() / "node_modules" / "amqplib").is_dir():
        missing(f"amqplib is not there: npm install --prefix {tools_folder().name} amqplib")
    done = subprocess.run(
        [node, str(SCRIPT), broker.url(), "amqplib-options"],
        cwd=tools_folder(),
        capture_output=True,
        text=True,
        timeout=25,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


def test_an_expired_message_tells_its_death(report: dict[str, Any]) -> None:
    assert report["expired"] == [True, "expired", 1, "50", 1]


def test_a_queue_that_is_too_long_dead_letters_its_oldest(report: dict[str, Any]) -> None:
    assert (report["dropped"], report["kept"]) == ("1", ["2", "3"])


def test_messages_and_consumers_are_served_by_priority(report: dict[str, Any]) -> None:
    assert report["byPriority"] == ["9", "5", "1"]
    assert report["served"] == ["high"]


def test_a_copy_goes_to_each_further_key(report: dict[str, Any]) -> None:
    assert report["copies"] == [["x"], ["x"]]


def test_a_direct_reply_arrives(report: dict[str, Any]) -> None:
    assert report["reply"] == ["answer to question", "c-1"]

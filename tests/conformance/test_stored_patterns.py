"""A node starts and serves with expressions in its data that it would refuse today."""

from collections.abc import Iterator
from pathlib import Path

import pika
import pika.exceptions
import pytest

from warren.testing import Node
from warren.testing.http_api import HttpApi

# Stands for a version that took any expression: loaded by Python before the node's own modules.
TAKES_ALL = """
from queues.definitions import expressions
expressions.expression_fault = lambda text: None
"""
SLOW = "^(a+)+$"
INVALID = r"(a)\1"
NAME = "a" * 60 + "!"

pytestmark = [pytest.mark.timeout(240)]


@pytest.fixture
def data_dir(tmp_path: Path) -> Iterator[Path]:
    patch = tmp_path / "patch"
    patch.mkdir()
    (patch / "sitecustomize.py").write_text(TAKES_ALL)
    root = Path(__file__).resolve().parent.parent.parent
    older = {"PYTHONPATH": f"{patch}:{root}"}
    with Node(name="patterns", data_dir=tmp_path / "data", environment=older) as node:
        api = HttpApi(node.management_url)
        for number, pattern in enumerate((SLOW, INVALID)):
            policy = {"pattern": pattern, "definition": {"max-length": 5}, "apply-to": "queues"}
            api.put(f"/policies/%2F/p{number}", policy)
            api.put(f"/users/u{number}", {"password": "secret", "tags": ""})
            rights = {"configure": pattern, "write": pattern, "read": pattern}
            api.put(f"/permissions/%2F/u{number}", rights)
            topics = {"exchange": "amq.topic", "write": pattern, "read": pattern}
            api.put(f"/topic-permissions/%2F/u{number}", topics)
        node.stop()
        yield tmp_path / "data"


def test_a_node_with_bad_stored_patterns_starts_and_serves(data_dir: Path) -> None:
    with Node(name="patterns", data_dir=data_dir) as node:
        channel = pika.BlockingConnection(pika.URLParameters(node.url)).channel()
        channel.queue_declare(NAME, durable=True)
        channel.basic_publish("", NAME, b"1")
        assert channel.basic_get(NAME, auto_ack=True)[2] == b"1"
        channel.connection.close()
        for user in ("u0", "u1"):
            url = node.url.replace("guest:guest@", f"{user}:secret@")
            channel = pika.BlockingConnection(pika.URLParameters(url)).channel()
            with pytest.raises(pika.exceptions.ChannelClosedByBroker, match="403"):
                channel.queue_declare(NAME + "?")

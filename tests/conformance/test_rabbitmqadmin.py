"""`rabbitmqadmin`, the script of RabbitMQ's management plugin, unchanged, against a real node."""

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.conformance.broker import CONFIG
from tests.conformance.programs import missing, tools_folder
from warren.testing import Node


@pytest.fixture(scope="module")
def script() -> str:
    """Where the script is: installed, or where `.ci/run` puts it."""
    found = shutil.which("rabbitmqadmin")
    if found is not None:
        return found
    taken = tools_folder() / "rabbitmqadmin"
    if not taken.exists():
        missing("rabbitmqadmin is not installed (Debian: in rabbitmq-server)")
    return str(taken)


@pytest.fixture(scope="module")
def node(script: str) -> Iterator[Node]:
    with Node(name="admin", config=CONFIG) as running:
        yield running


class Admin:
    """Runs the script."""

    def __init__(self, script: str, node: Node) -> None:
        port = str(node.management_port)
        self._head = [sys.executable, script, "-H", node.host, "-P", port, "-u", "guest"]
        self._head += ["-p", "guest"]

    def __call__(self, *words: str, code: int = 0) -> str:
        command = [*self._head, *words]
        done = subprocess.run(command, capture_output=True, timeout=20, check=False, text=True)
        assert done.returncode == code, done.stdout + done.stderr
        return done.stdout + done.stderr

    def rows(self, *words: str) -> Any:
        return json.loads(self("-f", "raw_json", *words))


@pytest.fixture
def admin(script: str, node: Node) -> Admin:
    return Admin(script, node)


def test_objects_are_declared_listed_and_deleted(admin: Admin) -> None:
    assert "queue declared" in admin("declare", "queue", "name=q", "durable=true")
    admin("declare", "exchange", "name=x", "type=topic")
    admin("declare", "binding", "source=x", "destination=q", "routing_key=a.#")
    assert [each["name"] for each in admin.rows("list", "queues")] == ["q"]
    assert "x" in [each["name"] for each in admin.rows("list", "exchanges")]
    (bound,) = [each for each in admin.rows("list", "bindings") if each["source"] == "x"]
    assert bound["properties_key"] == "a.%23"
    assert "Message published" in admin("publish", "routing_key=a.b", "exchange=x", "payload=hi")
    (got,) = admin.rows("get", "queue=q", "ackmode=ack_requeue_true")
    assert (got["payload"], got["routing_key"]) == ("hi", "a.b")
    assert "queue purged" in admin("purge", "queue", "name=q")
    admin(
        *("delete", "binding", "source=x", "destination_type=queue", "destination=q"),
        "properties_key=a.%23",
    )
    admin("delete", "exchange", "name=x")
    admin("delete", "queue", "name=q")
    assert "*** Not found" in admin("delete", "queue", "name=q", code=1)


def test_vhosts_users_rules_and_definitions(admin: Admin, tmp_path: Path) -> None:
    admin("declare", "vhost", "name=v")
    admin("declare", "user", "name=u", "password=p", "tags=monitoring")
    admin("declare", "permission", "vhost=v", "user=u", "configure=.*", "write=.*", "read=.*")
    definition = 'definition={"max-length":1}'
    admin("declare", "policy", "name=p", "pattern=^q", definition, "apply-to=queues")
    admin("declare", "operator_policy", "name=o", "pattern=^q", definition, "apply-to=queues")
    admin("declare", "vhost_limit", "vhost=v", "name=max-queues", "value=5")
    for kind, name in (("vhosts", "v"), ("users", "u"), ("policies", "p")):
        assert name in [each["name"] for each in admin.rows("list", kind)]
    assert "u" in [each["user"] for each in admin.rows("list", "permissions")]
    target = str(tmp_path / "all.json")
    admin("export", target)
    for words in (
        ("policy", "name=p"),
        ("operator_policy", "name=o"),
        ("permission", "vhost=v", "user=u"),
        ("user", "name=u"),
        ("vhost", "name=v"),
    ):
        admin("delete", *words)
    admin("import", target)
    assert [each["name"] for each in admin.rows("list", "policies")] == ["p"]
    assert "u" in [each["user"] for each in admin.rows("list", "permissions")]


def test_the_node_is_shown(admin: Admin) -> None:
    (shown,) = admin.rows("show", "overview")
    assert shown["rabbitmq_version"] and shown["node"]
    assert admin.rows("list", "nodes")[0]["running"] is True
    assert admin.rows("list", "connections") == []

"""Debian's amqp-tools (rabbitmq-c): its command-line programs against the broker."""

import subprocess
from pathlib import Path

import pytest

from tests.conformance.broker import Broker
from tests.conformance.programs import program


class Tools:
    """Runs the programs of amqp-tools against one broker."""

    def __init__(self, url: str) -> None:
        self.url = url

    def run(
        self, tool: str, *arguments: str, stdin: bytes = b""
    ) -> "subprocess.CompletedProcess[bytes]":
        command = [program(tool, "amqp-tools"), f"--url={self.url}", *arguments]
        return subprocess.run(command, input=stdin, capture_output=True, timeout=20, check=False)

    def ok(self, tool: str, *arguments: str, stdin: bytes = b"") -> bytes:
        done = self.run(tool, *arguments, stdin=stdin)
        assert done.returncode == 0, done.stderr.decode()
        return done.stdout


@pytest.fixture
def tools(broker: Broker) -> Tools:
    program("amqp-publish", "amqp-tools")
    return Tools(broker.url())


def test_declare_publish_get_and_delete(tools: Tools, name: str) -> None:
    assert tools.ok("amqp-declare-queue", "--queue", name, "--durable").strip() == name.encode()
    tools.ok("amqp-publish", "--routing-key", name, "--persistent", "--body", "first")
    tools.ok("amqp-publish", "--routing-key", name, stdin=b"second")
    assert tools.ok("amqp-get", "--queue", name) == b"first"
    assert tools.ok("amqp-delete-queue", "--queue", name).strip() == b"1"


def test_getting_from_an_empty_queue_exits_with_2(tools: Tools, queue: str) -> None:
    assert tools.run("amqp-get", "--queue", queue).returncode == 2


def test_publish_line_by_line_and_consume_with_a_command(
    tools: Tools, queue: str, tmp_path: Path
) -> None:
    lines = b"".join(b"line %d\n" % n for n in range(50))
    tools.ok("amqp-publish", "--routing-key", queue, "--line-buffered", stdin=lines)
    out = tmp_path / "out"
    script = tmp_path / "append"
    script.write_text(f"cat >> {out}; echo >> {out}")
    arguments = ["--queue", queue, "--count", "50", "--prefetch-count", "5"]
    tools.ok("amqp-consume", *arguments, "sh", str(script))
    assert out.read_bytes().split() == lines.split()
    assert tools.run("amqp-get", "--queue", queue).returncode == 2


def test_consume_from_an_exchange_by_a_queue_of_its_own(
    broker: Broker, tools: Tools, name: str
) -> None:
    command = [program("amqp-consume", "amqp-tools"), f"--url={broker.url()}"]
    command += ["--exchange", "amq.topic", "--routing-key", f"{name}.*", "--count", "1", "cat"]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as consuming:
        connection = broker.connect()
        channel = connection.channel()
        channel.confirm_delivery()
        while consuming.poll() is None:
            channel.basic_publish("amq.topic", f"{name}.key", b"routed")
            connection.process_data_events(time_limit=0.05)
        assert consuming.stdout is not None
        assert (consuming.stdout.read(), consuming.returncode) == (b"routed", 0)
        connection.close()


def test_an_error_of_the_broker_is_shown(tools: Tools, name: str) -> None:
    done = tools.run("amqp-get", "--queue", name)
    assert done.returncode != 0
    assert f"no queue '{name}' in vhost '/'" in done.stderr.decode()

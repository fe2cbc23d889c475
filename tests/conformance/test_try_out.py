"""`warren declare`, `publish`, `get` and `tail` as processes against a real node."""

import json
import subprocess
import sys
import uuid
from collections.abc import Iterator

import pika
import pytest

from warren.testing import Node, free_port


@pytest.fixture
def queue() -> str:
    return f"try-{uuid.uuid4().hex}"


class Shell:
    """Runs `warren` with the URL of the node."""

    def __init__(self, node: Node) -> None:
        self.node = node

    def begin(self, *words: str) -> subprocess.Popen[str]:
        command = [sys.executable, "-m", "node", *words, "--url", self.node.url]
        pipe = subprocess.PIPE
        return subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, text=True)

    def fail(self, *words: str, code: int = 1, given: str = "") -> str:
        out, err = (process := self.begin(*words)).communicate(given, timeout=60)
        assert process.returncode == code, (out, err)
        assert "Traceback" not in err
        return err.strip()

    def run(self, *words: str, given: str = "") -> str:
        out, err = (process := self.begin(*words)).communicate(given, timeout=60)
        assert (process.returncode, err) == (0, "")
        return out.strip()


@pytest.fixture(scope="module")
def shell(warren_shared_node: Node) -> Shell:
    return Shell(warren_shared_node)


@pytest.fixture
def channel(shell: Shell) -> Iterator[pika.adapters.blocking_connection.BlockingChannel]:
    connection = pika.BlockingConnection(pika.URLParameters(shell.node.url))
    yield connection.channel()
    connection.close()


def test_messages_are_published_and_got(shell: Shell, queue: str) -> None:
    words = ("--type", "quorum", "--argument", "x-max-length=5")
    assert shell.run("declare", "queue", queue, *words) == f"queue {queue}: quorum"
    assert shell.run("publish", queue, "one apple") == f"1 message accepted by /queues/{queue}"
    shell.run("publish", queue, given="two\nthree pears\n")
    assert shell.run("get", queue, "--count", "2", "--keep").splitlines() == ["one apple", "two"]
    taken = shell.run("get", queue, "--count", "9", "--wait", "0.2")
    assert taken.splitlines() == ["one apple", "two", "three pears"]
    assert shell.run("get", queue, "--wait", "0") == ""


def test_all_that_a_message_carries_is_shown_as_json(shell: Shell, queue: str) -> None:
    shell.run("declare", "queue", queue)
    shell.run(
        *("publish", queue, "{n} of 2", "--count", "2", "--header", "tries=3"),
        *("--header", "color=red", "--content-type", "text/plain", "--message-id", "m1"),
        *("--priority", "7", "--ttl", "60000", "--transient"),
    )
    first, second = map(json.loads, shell.run("get", queue, "--count", "2", "--json").splitlines())
    assert (first["body"], second["body"]) == ("1 of 2", "2 of 2")
    assert first["application_properties"] == {"tries": 3, "color": "red"}
    assert (first["content_type"], first["message_id"]) == ("text/plain", "m1")
    assert (first["priority"], first["ttl_ms"], first["durable"]) == (7, 60000, False)


def test_an_exchange_is_bound_published_to_and_followed(shell: Shell, queue: str) -> None:
    exchange = f"x-{queue}"
    shell.run("declare", "exchange", exchange, "--type", "topic")
    shell.run("declare", "queue", queue)
    shell.run("declare", "binding", exchange, queue, "--key", "orders.#")
    tail = shell.begin("tail", "--exchange", exchange, "--key", "*.new", "--count", "1")
    wait_for_consumer(shell.node, exchange)
    shell.run("publish", "--exchange", exchange, "--key", "orders.old", "an old one")
    shell.run("publish", "--exchange", exchange, "--key", "orders.new", "a new one")
    assert tail.communicate(timeout=60) == ("a new one\n", "")
    assert shell.run("get", queue, "--count", "2").splitlines() == ["an old one", "a new one"]


def wait_for_consumer(node: Node, exchange: str) -> None:
    """Until a queue of `warren tail` is bound to the exchange and consumed from."""
    while True:
        bound = node.api("GET", f"/api/exchanges/%2F/{exchange}/bindings/source")
        tails = [each["destination"] for each in bound if "warren.tail" in each["destination"]]
        consumed = {each["queue"]["name"] for each in node.api("GET", "/api/consumers")}
        if consumed.intersection(tails):
            return


def test_a_stream_is_read_without_taking_anything(shell: Shell, queue: str) -> None:
    shell.run("declare", "queue", queue, "--type", "stream")
    shell.run("publish", queue, "number {n}", "--count", "3")
    for _ in range(2):
        read = shell.run("tail", queue, "--offset", "first", "--count", "3")
        assert read.splitlines() == ["number 1", "number 2", "number 3"]
    assert shell.run("tail", queue, "--offset", "1", "--count", "1") == "number 2"
    assert "is a stream" in shell.fail("get", queue, code=64)


def test_messages_of_a_queue_are_followed_only_when_they_may_be_taken(
    shell: Shell, queue: str
) -> None:
    shell.run("declare", "queue", queue)
    shell.run("publish", queue, "kept")
    assert "--take" in shell.fail("tail", queue, "--count", "1", code=64)
    assert shell.run("tail", queue, "--take", "--count", "1") == "kept"


def test_bytes_that_are_no_text_are_escaped(
    shell: Shell, queue: str, channel: pika.adapters.blocking_connection.BlockingChannel
) -> None:
    channel.queue_declare(queue, durable=True)
    channel.basic_publish("", queue, b"\xff\x00 caf\xc3\xa9")
    assert shell.run("get", queue) == "\\xff\x00 café"


def test_what_the_broker_refuses_is_said(shell: Shell, queue: str) -> None:
    assert queue in shell.fail("publish", queue, "x")
    shell.run("declare", "exchange", f"x-{queue}")
    assert "no queue took it" in shell.fail("publish", "--exchange", f"x-{queue}", "x")
    shell.run("declare", "queue", queue)
    assert "409" in shell.fail("declare", "queue", queue, "--type", "quorum")


@pytest.mark.parametrize(
    "words",
    [
        ("publish",),
        ("publish", "q", "body", "--exchange", "e"),
        ("publish", "q", "body", "--header", "tries"),
        ("publish", "q", "body", "--count", "0"),
        ("tail",),
        ("tail", "q", "--exchange", "e"),
        ("get", "q", "--wait", "-1"),
        ("declare", "queue", "q", "--type", "mirrored"),
        ("get", "q", "--url", "http://127.0.0.1"),
    ],
)
def test_wrong_options_are_a_usage_error(words: tuple[str, ...]) -> None:
    command = [sys.executable, "-m", "node", *words]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout) == (64, "")
    assert "Traceback" not in done.stderr


def test_a_broker_that_is_not_there_and_a_wrong_password_are_told_apart(shell: Shell) -> None:
    port = free_port()
    command = [sys.executable, "-m", "node", "get", "q", "--url"]
    for url, code, words in (
        (f"amqp://u:secret@127.0.0.1:{port}", 69, f"no broker answers at 127.0.0.1:{port}"),
        (f"amqp://guest:wrong@127.0.0.1:{shell.node.port}", 1, "refused the login"),
    ):
        done = subprocess.run(
            [*command, url], capture_output=True, text=True, timeout=60, check=False
        )
        assert done.returncode == code
        assert done.stderr.count(words) == 1 and "secret" not in done.stderr

"""Messages that cannot be decoded: the node delivers what it can of them, and stays in service."""

from collections.abc import Iterator
from typing import Any, Final

import pika
import pytest
from proton import Described, symbol, ubyte, uint

from tests.conformance.broker import ready_count
from tests.conformance.raw import RawClient, body, content_header, publish_method
from tests.conformance.raw10 import (
    ATTACH,
    DETACH,
    DISPOSITION,
    MESSAGE,
    RECEIVER,
    SOURCE,
    TRANSFER,
    Raw10,
    described,
    target,
)
from tests.waiting import eventually
from warren.testing import Node

BAD_SUBJECT: Final = b"\x00\x53\x73\xc0\x0a\x04\x40\x40\x40\xa1\x04caf\xe9"
BAD_HEADER: Final = b"\x00\x53\x74\xc1\x0a\x02\xa1\x01k\xa1\x04caf\xe9"
# Accepted, for keys are not compared, and then refused by the strict decoder.
KEY_TWICE: Final = b"\x00\x53\x74\xc1\x0d\x04\xa1\x01k\xa1\x01a\xa1\x01k\xa1\x01b"
DURABLE: Final = b"\x00\x53\x70\xc0\x02\x01\x41"
BAD_TYPE: Final = b"\x00\x20\x04caf\xe9"

pytestmark = [pytest.mark.timeout(120)]


@pytest.fixture
def node() -> Iterator[Node]:
    with Node(name="damaged") as started:
        yield started


def channel_of(node: Node) -> Any:
    return pika.BlockingConnection(pika.URLParameters(node.url)).channel()


def send_10(node: Node, queue: str, sections: bytes) -> None:
    """Publish it, and hear that it was accepted."""
    with Raw10("127.0.0.1", node.port) as raw:
        raw.open()
        raw.begin()
        raw.attach_sender(f"/queues/{queue}")
        raw.read()
        raw.send(raw.transfer(payload=DURABLE + sections + MESSAGE))
        raw.expect(DISPOSITION)


@pytest.mark.parametrize("sections", [BAD_SUBJECT, BAD_HEADER], ids=["subject", "header"])
def test_a_message_that_cannot_be_decoded_ends_the_link(node: Node, sections: bytes) -> None:
    channel = channel_of(node)
    channel.queue_declare("q", durable=True)
    with Raw10("127.0.0.1", node.port) as raw:
        raw.open()
        raw.begin()
        raw.attach_sender("/queues/q")
        raw.read()
        raw.send(raw.transfer(payload=DURABLE + sections + MESSAGE))
        error = raw.expect(DETACH).fields[2]
    assert str(error.value[0]) == "amqp:decode-error"
    assert "of a message cannot be decoded" in error.value[1]
    assert ready_count(channel, "q") == 0


@pytest.mark.parametrize("kind", ["classic", "quorum"])
def test_a_message_that_is_decoded_in_part_is_got(node: Node, kind: str) -> None:
    channel = channel_of(node)
    channel.queue_declare("q", durable=True, arguments={"x-queue-type": kind})
    send_10(node, "q", KEY_TWICE)
    assert eventually(lambda: channel.basic_get("q", auto_ack=True)[2]) == b"m"
    assert node.is_running()


def test_it_is_dead_lettered_by_headers_and_survives_a_restart(node: Node) -> None:
    channel = channel_of(node)
    channel.exchange_declare("dlx", "headers", durable=True)
    channel.queue_declare("dead", durable=True)
    channel.queue_bind("dead", "dlx", "", {"x-match": "any-with-x", "x-first-death-queue": "q"})
    arguments = {"x-dead-letter-exchange": "dlx", "x-message-ttl": 300}
    channel.queue_declare("q", durable=True, arguments=arguments)
    send_10(node, "q", KEY_TWICE)
    eventually(lambda: ready_count(channel, "dead") == 1)
    node.restart()
    assert channel_of(node).basic_get("dead", auto_ack=True)[2] == b"m"


def test_a_selector_passes_over_what_it_cannot_read(node: Node) -> None:
    channel = channel_of(node)
    channel.queue_declare("q", durable=True)
    send_10(node, "q", KEY_TWICE)
    with Raw10("127.0.0.1", node.port) as raw:
        raw.open()
        raw.begin()
        wanted = Described(symbol("amqp:sql-filter"), "k = 'a'")
        told = {symbol("amqp:sql-filter"): wanted}
        chosen = described(SOURCE, "/queues/q", None, None, None, None, None, None, told)
        raw.call(ATTACH, "r", uint(0), RECEIVER, ubyte(1), ubyte(0), chosen, target(None))
        raw.attached()
        raw.credit(1)
        assert raw.until(TRANSFER).payload.endswith(MESSAGE)


def test_a_type_that_is_no_text_reaches_a_consumer_of_amqp_10(node: Node) -> None:
    channel_of(node).queue_declare("q", durable=True)
    with RawClient("127.0.0.1", node.port) as client:
        client.begin_channel()
        header = content_header(1, 1, BAD_TYPE)
        client.send(publish_method(1, "", "q"), header, body(1, b"m"))
        channel = channel_of(node)
        eventually(lambda: ready_count(channel, "q") == 1)
    with Raw10("127.0.0.1", node.port) as raw:
        raw.open()
        raw.begin()
        raw.attach_receiver("/queues/q")
        raw.credit(1)
        assert raw.until(TRANSFER).payload.endswith(MESSAGE)

"""Routing that is dear: bindings with many `#`, and a write with many routing keys."""

from collections.abc import Iterator
from itertools import product
from typing import Any

import pika
import pytest

from tests.conformance.broker import channel_closed
from tests.waiting import eventually
from warren.testing import Node


@pytest.fixture(scope="module")
def node() -> Iterator[Node]:
    with Node(name="routing", settings={"limits.topic_binding_hashes_max": "4"}) as started:
        yield started


@pytest.fixture
def channel(node: Node) -> Iterator[Any]:
    connection = pika.BlockingConnection(pika.URLParameters(node.url))
    yield connection.channel()
    connection.close()


def test_a_binding_key_with_too_many_hashes_is_refused(channel: Any) -> None:
    channel.exchange_declare("t", "topic")
    channel.exchange_declare("d", "direct")
    queue = channel.queue_declare("", exclusive=True).method.queue
    channel.queue_bind(queue, "t", "#.a.#.b.#.c.#")
    channel.queue_bind(queue, "d", "#.#.#.#.#")
    reason = (
        "PRECONDITION_FAILED - binding key '#.a.#.b.#.c.#.#' has 5 words '#'; "
        "allowed: at most 4 (limits.topic_binding_hashes_max)"
    )
    with channel_closed(406, reason):
        channel.queue_bind(queue, "t", "#.a.#.b.#.c.#.#")


def test_one_write_with_many_keys_among_many_hashes_arrives_whole_and_in_order(
    channel: Any,
) -> None:
    """Each key meets hundreds of nodes of the trie for each of its words."""
    channel.exchange_declare("t", "topic")
    queue = channel.queue_declare("", exclusive=True).method.queue
    channel.queue_bind(queue, "t", "k.#")
    for words in product(("a", "*", "#.a", "#.b"), repeat=4):
        channel.queue_bind(queue, "t", ".".join(words))
    bodies = [b"%d" % number for number in range(300)]
    for body in bodies:
        channel.basic_publish("t", "k." + "a.b." * 40 + body.decode(), body)
    got: list[bytes] = []

    def all_here() -> bool:
        _, _, body = channel.basic_get(queue, auto_ack=True)
        got.extend([] if body is None else [body])
        return len(got) == len(bodies)

    eventually(all_here, lambda: len(got), seconds=60)
    assert got == bodies

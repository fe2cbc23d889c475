"""Exchanges that hash or draw lots, with pika."""

from collections import Counter
from typing import Any

import pika
import pytest

from tests.conformance.broker import Broker, channel_closed, drain
from warren.testing import Node

HASH = "x-consistent-hash"
KEYS = [f"key-{number}" for number in range(400)]


@pytest.fixture
def confirming(channel: Any) -> Any:
    """A channel on which each publish returns when it is confirmed."""
    channel.confirm_delivery()
    return channel


def bound_queues(channel: Any, exchange: str, *binding_keys: str) -> list[str]:
    """A queue for each of these binding keys."""
    queues: list[str] = []
    for binding_key in binding_keys:
        queue: str = channel.queue_declare("", exclusive=True).method.queue
        channel.queue_bind(queue, exchange, binding_key)
        queues.append(queue)
    return queues


def publish_keys(channel: Any, exchange: str, keys: list[str]) -> None:
    """A message for each key, its body the key; mandatory, so that none may be lost."""
    for key in keys:
        channel.basic_publish(exchange, key, key.encode(), mandatory=True)


def contents(channel: Any, queues: list[str]) -> list[list[str]]:
    return [[body.decode() for body in drain(channel, queue)] for queue in queues]


@pytest.mark.parametrize("algorithm", [None, "ring", "jump"])
def test_consistent_hash_gives_each_key_to_one_queue_by_weight(
    confirming: Any, name: str, algorithm: str | None
) -> None:
    arguments = {} if algorithm is None else {"x-algorithm": algorithm}
    confirming.exchange_declare(name, HASH, arguments=arguments)
    queues = bound_queues(confirming, name, "1", "3")
    publish_keys(confirming, name, KEYS * 2)
    light, heavy = contents(confirming, queues)
    assert not set(light) & set(heavy)
    assert Counter(light + heavy) == Counter(KEYS * 2)
    assert 0.15 < len(light) / (2 * len(KEYS)) < 0.35


def test_a_queue_less_moves_only_its_own_keys(confirming: Any, name: str) -> None:
    confirming.exchange_declare(name, HASH)
    queues = bound_queues(confirming, name, *["5"] * 4)
    publish_keys(confirming, name, KEYS)
    before = contents(confirming, queues)
    confirming.queue_unbind(queues[2], name, "5")
    publish_keys(confirming, name, KEYS)
    after = contents(confirming, queues)
    assert after[2] == []
    for place in (0, 1, 3):
        assert set(before[place]) <= set(after[place])


def test_the_order_of_binding_does_not_matter(
    own_broker: Broker, confirming: Any, name: str
) -> None:
    queues = [confirming.queue_declare("", exclusive=True).method.queue for _ in range(5)]
    found: list[list[list[str]]] = []
    for order in (queues, queues[::-1]):
        confirming.exchange_declare(name, HASH)
        for queue in order:
            confirming.queue_bind(queue, name, "2")
        publish_keys(confirming, name, KEYS)
        found.append(contents(confirming, queues))
        confirming.exchange_delete(name)
    assert found[0] == found[1]


def test_keys_go_where_they_went_before_a_restart() -> None:
    queues = [f"q{number}" for number in range(5)]
    found: list[list[list[str]]] = []
    with Node(name="hashing") as node:
        channel = pika.BlockingConnection(pika.URLParameters(node.url)).channel()
        for kind in (HASH, "x-modulus-hash"):
            channel.exchange_declare(kind, kind, durable=True)
        for queue in queues:
            channel.queue_declare(queue, durable=True)
            channel.queue_bind(queue, HASH, "2")
            channel.queue_bind(queue, "x-modulus-hash", "2")
        for _ in range(2):
            channel.confirm_delivery()
            for kind in (HASH, "x-modulus-hash"):
                publish_keys(channel, kind, KEYS)
                found.append(contents(channel, queues))
            node.restart()
            channel = pika.BlockingConnection(pika.URLParameters(node.url)).channel()
    assert found[:2] == found[2:]


@pytest.mark.parametrize("argument", ["hash-header", "x-hash-on"])
def test_a_header_may_be_hashed(
    own_broker: Broker, confirming: Any, name: str, argument: str
) -> None:
    confirming.exchange_declare(name, HASH, arguments={argument: "who"})
    queues = bound_queues(confirming, name, *["1"] * 4)
    for key in KEYS:
        properties = pika.BasicProperties(headers={"who": "ann"})
        confirming.basic_publish(name, key, b"ann", properties)
        confirming.basic_publish(name, key, b"none", pika.BasicProperties(headers={"x": 1}))
        confirming.basic_publish(name, key, b"none")
    found = contents(confirming, queues)
    assert sorted(len(each) for each in found if "ann" in each or "none" in each) in (
        [len(KEYS), 2 * len(KEYS)],
        [3 * len(KEYS)],
    )


@pytest.mark.parametrize("text", ["message_id", "correlation_id", "timestamp"])
def test_a_property_may_be_hashed(confirming: Any, name: str, text: str) -> None:
    confirming.exchange_declare(name, HASH, arguments={"hash-property": text})
    queues = bound_queues(confirming, name, *["1"] * 4)
    for number in range(200):
        value: Any = number % 20 if text == "timestamp" else f"id {number % 20}"
        properties = pika.BasicProperties(**{text: value})
        confirming.basic_publish(name, f"{number}", b"%d" % (number % 20), properties)
    found = contents(confirming, queues)
    assert sum(len(each) for each in found) == 200
    assert sum(len(set(each)) for each in found) == 20
    assert sum(1 for each in found if each) > 1  # names are new each time: all four is not sure


def test_consistent_hash_leads_on_to_exchanges(confirming: Any, name: str) -> None:
    confirming.exchange_declare(name, HASH)
    confirming.exchange_bind("amq.topic", name, "1")
    queue: str = confirming.queue_declare("", exclusive=True).method.queue
    confirming.queue_bind(queue, "amq.topic", "key-1.#")
    confirming.basic_publish(name, "key-1.far", b"1", mandatory=True)
    assert contents(confirming, [queue]) == [["1"]]


def test_a_second_weight_for_a_queue_is_ignored(confirming: Any, name: str) -> None:
    confirming.exchange_declare(name, HASH)
    queues = bound_queues(confirming, name, "1", "1")
    publish_keys(confirming, name, KEYS)
    before = contents(confirming, queues)
    confirming.queue_bind(queues[0], name, "1000")
    publish_keys(confirming, name, KEYS)
    assert contents(confirming, queues) == before


@pytest.mark.parametrize(
    ("key", "text"),
    [
        ("0", "The binding key must be greater than 0"),
        ("-3", "The binding key must be greater than 0"),
        ("10001", "The binding key must not exceed 10000"),
        ("heavy", 'The binding key must be an integer: <<"heavy">>'),
        ("", "The binding key must be an integer: <<>>"),
    ],
)
def test_what_is_no_weight_is_refused(channel: Any, name: str, key: str, text: str) -> None:
    channel.exchange_declare(name, HASH)
    channel.queue_declare(name, exclusive=True)
    with channel_closed(406, f"PRECONDITION_FAILED - {text}"):
        channel.queue_bind(name, name, key)


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (
            {"hash-header": "h", "hash-property": "message_id"},
            "hash-header and hash-property are mutually exclusive",
        ),
        ({"hash-property": "app_id"}, "Unsupported property: app_id"),
    ],
)
def test_bad_arguments_of_a_hash_exchange_are_refused(
    channel: Any, name: str, arguments: dict[str, Any], text: str
) -> None:
    with channel_closed(406, f"PRECONDITION_FAILED - {text}"):
        channel.exchange_declare(name, HASH, arguments=arguments)


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"x-algorithm": "maglev"}, "Unsupported algorithm: maglev"),
        ({"x-algorithm": True}, "invalid type 'bool' for arg 'x-algorithm'"),
        (
            {"x-hash-on": "h", "hash-property": "message_id"},
            "hash-header and hash-property are mutually exclusive",
        ),
    ],
)
def test_bad_arguments_of_our_own_are_refused(
    own_broker: Broker, channel: Any, name: str, arguments: dict[str, Any], text: str
) -> None:
    with channel_closed(406, f"PRECONDITION_FAILED - {text}"):
        channel.exchange_declare(name, HASH, arguments=arguments)


def test_modulus_hash_gives_each_key_to_one_queue(confirming: Any, name: str) -> None:
    confirming.exchange_declare(name, "x-modulus-hash")
    queues = bound_queues(confirming, name, "", "any", "key")
    publish_keys(confirming, name, KEYS * 2)
    found = contents(confirming, queues)
    assert sum(len(set(each)) for each in found) == len(KEYS)
    assert all(0.23 < len(each) / (2 * len(KEYS)) < 0.43 for each in found)


@pytest.mark.parametrize("kind", ["x-random", "x-local-random"])
def test_lots_fall_on_one_queue_for_each_message(confirming: Any, name: str, kind: str) -> None:
    confirming.exchange_declare(name, kind)
    queues = bound_queues(confirming, name, "", "", "", "")
    publish_keys(confirming, name, ["same"] * 400)
    found = contents(confirming, queues)
    assert sum(len(each) for each in found) == 400
    assert all(60 < len(each) < 140 for each in found)


def test_lots_without_a_queue_return_what_is_mandatory(confirming: Any, name: str) -> None:
    for kind in (HASH, "x-modulus-hash", "x-random", "x-local-random"):
        confirming.exchange_declare(name, kind)
        with pytest.raises(pika.exceptions.UnroutableError):
            confirming.basic_publish(name, "k", b"1", mandatory=True)
        confirming.exchange_delete(name)


def test_a_local_random_exchange_takes_no_binding_key(channel: Any, name: str) -> None:
    channel.exchange_declare(name, "x-local-random")
    channel.queue_declare(name, exclusive=True)
    with channel_closed(406, "PRECONDITION_FAILED - Non empty binding 'k' key not permitted"):
        channel.queue_bind(name, name, "k")


def test_a_local_random_exchange_leads_to_no_exchange(channel: Any, name: str) -> None:
    channel.exchange_declare(name, "x-local-random")
    with channel_closed(406, "PRECONDITION_FAILED - Destination not found"):
        channel.exchange_bind("amq.fanout", name, "")

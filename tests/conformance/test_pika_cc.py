"""Sender-selected distribution with pika: headers CC and BCC."""

from collections.abc import Callable
from typing import Any

import pika
import pytest

from tests.conformance.broker import Broker, channel_closed, drain, settle_down, take

BAD_TYPES = [("a", "longstr"), (1, "signedint"), (True, "bool"), ({"a": "b"}, "table")]


@pytest.fixture
def confirming(channel: Any) -> Any:
    """A channel on which each publish returns when it is confirmed."""
    channel.confirm_delivery()
    return channel


def own_queues(channel: Any, count: int) -> list[str]:
    return [channel.queue_declare("", exclusive=True).method.queue for _ in range(count)]


def with_headers(**headers: Any) -> pika.BasicProperties:
    return pika.BasicProperties(headers=headers, message_id="m", delivery_mode=2)


def test_each_queue_named_gets_one_copy(confirming: Any) -> None:
    a, b, c, d = own_queues(confirming, 4)
    properties = with_headers(CC=[b, a, "absent"], BCC=[c, b])
    confirming.basic_publish("", a, b"1", properties)
    assert [drain(confirming, queue) for queue in (a, b, c, d)] == [[b"1"], [b"1"], [b"1"], []]


def test_cc_is_delivered_and_bcc_is_not(confirming: Any) -> None:
    a, b = own_queues(confirming, 2)
    body = bytes(range(256)) * 2000
    confirming.basic_publish("", a, body, with_headers(x=1, BCC=[b], CC=["absent"]))
    for queue in (a, b):
        delivered = take(confirming, queue)
        assert delivered.body == body and delivered.routing_key == a
        assert delivered.properties == with_headers(x=1, CC=["absent"])


def test_bcc_alone_leaves_no_header(confirming: Any) -> None:
    a, b = own_queues(confirming, 2)
    confirming.basic_publish("", a, b"1", with_headers(BCC=[b]))
    for queue in (a, b):
        assert not take(confirming, queue).properties.headers


@pytest.mark.parametrize("kind", ["direct", "topic"])
def test_copies_are_keys_for_the_same_exchange(confirming: Any, name: str, kind: str) -> None:
    confirming.exchange_declare(name, kind)
    a, b, c = own_queues(confirming, 3)
    for queue, key in ((a, "red"), (b, "blue"), (c, "green")):
        confirming.queue_bind(queue, name, key)
    confirming.basic_publish(name, "none", b"1", with_headers(CC=["blue"], BCC=["green"]))
    assert [drain(confirming, queue) for queue in (a, b, c)] == [[], [b"1"], [b"1"]]


def test_copies_go_on_through_exchanges_bound_to_exchanges(confirming: Any, name: str) -> None:
    confirming.exchange_declare(name, "topic")
    confirming.exchange_bind("amq.fanout", name, "far.#")
    (queue,) = own_queues(confirming, 1)
    confirming.queue_bind(queue, "amq.fanout", "")
    confirming.basic_publish(name, "near", b"1", with_headers(CC=["far.away", "far.off"]))
    assert drain(confirming, queue) == [b"1"]


def test_order_is_kept_among_messages_with_and_without_copies(confirming: Any) -> None:
    a, b = own_queues(confirming, 2)
    channel = confirming.connection.channel()
    bodies = [b"%d" % number for number in range(60)]
    for number, body in enumerate(bodies):
        properties = with_headers(BCC=[b]) if number % 3 == 0 else with_headers(x=number)
        channel.basic_publish("", a, body, properties)
    channel.basic_publish("", a, b"last")
    settle_down(channel, lambda: channel.queue_declare(a, passive=True).method.message_count == 61)
    assert drain(confirming, a) == [*bodies, b"last"]
    assert drain(confirming, b) == bodies[::3]


def test_a_mandatory_message_with_one_good_key_is_not_returned(confirming: Any) -> None:
    (queue,) = own_queues(confirming, 1)
    confirming.basic_publish("", "absent", b"1", with_headers(BCC=[queue]), mandatory=True)
    assert drain(confirming, queue) == [b"1"]


def test_a_mandatory_message_without_a_good_key_is_returned(
    confirming: Any,
) -> None:
    with pytest.raises(pika.exceptions.UnroutableError) as caught:
        properties = with_headers(CC=["none"], BCC=["nor this"], x=1)
        confirming.basic_publish("", "absent", b"1", properties, mandatory=True)
    [returned] = caught.value.messages
    assert returned.body == b"1" and returned.method.routing_key == "absent"
    assert returned.properties == with_headers(CC=["none"], x=1)


def test_what_is_no_text_in_the_arrays_is_no_key(confirming: Any) -> None:
    a, b = own_queues(confirming, 2)
    confirming.basic_publish("", a, b"1", with_headers(CC=[1, None, [b], True, b]))
    assert [drain(confirming, queue) for queue in (a, b)] == [[b"1"], [b"1"]]


@pytest.mark.parametrize("header", ["CC", "BCC"])
@pytest.mark.parametrize(("value", "kind"), BAD_TYPES)
def test_what_is_no_array_is_refused(channel: Any, header: str, value: Any, kind: str) -> None:
    (queue,) = own_queues(channel, 1)
    expected = (
        f'PRECONDITION_FAILED - invalid message: {{unacceptable_type_in_header,"{header}",{kind}}}'
    )
    with channel_closed(406, expected):
        channel.basic_publish("", queue, b"1", with_headers(**{header: value}))
        channel.queue_declare(queue, passive=True)


def test_a_copied_message_survives_a_consumer_that_gives_it_back(
    connect: Callable[..., Any], name: str
) -> None:
    channel = connect().channel()
    channel.confirm_delivery()
    channel.queue_declare(name, durable=True)
    (other,) = own_queues(channel, 1)
    channel.basic_publish("", other, b"1", with_headers(BCC=[name], y=2))
    got = take(channel, name)
    channel.basic_nack(got.delivery_tag)
    again = take(channel, name)
    assert again.redelivered and again.properties == with_headers(y=2)


def test_ordinary_headers_with_those_letters_are_left_alone(
    own_broker: Broker, confirming: Any
) -> None:
    a, b = own_queues(confirming, 2)
    headers = {"cc": [b], "ACC": "BCC", "nested": {"BCC": [b], "CC": 1}, "CCC": [b]}
    confirming.basic_publish("", a, b"1", pika.BasicProperties(headers=headers))
    assert take(confirming, a).properties.headers == headers
    assert drain(confirming, b) == []

"""Exchanges with pika: kinds, bindings, exchange to exchange, alternates, texts."""

from typing import Any

import pika
import pika.exceptions
import pytest

from tests.conformance.broker import Broker, channel_closed, drain

HeadersCase = tuple[dict[str, Any], dict[str, Any], bool]


def own_queue(channel: Any, *bindings: tuple[str, str]) -> str:
    """An exclusive queue with these (exchange, binding key) bindings."""
    queue: str = channel.queue_declare("", exclusive=True).method.queue
    for exchange, binding_key in bindings:
        channel.queue_bind(queue, exchange, binding_key)
    return queue


def inequivalent(key: str, exchange: str, was: str, current: str) -> str:
    return (
        f"PRECONDITION_FAILED - inequivalent arg '{key}' for exchange '{exchange}' in vhost '/':"
        f" received {was} but current is {current}"
    )


@pytest.fixture
def confirming(channel: Any) -> Any:
    """A channel on which each publish returns when it is confirmed."""
    channel.confirm_delivery()
    return channel


@pytest.mark.parametrize(
    ("exchange", "kind"),
    [
        ("amq.direct", "direct"),
        ("amq.fanout", "fanout"),
        ("amq.topic", "topic"),
        ("amq.headers", "headers"),
        ("amq.match", "headers"),
        ("amq.rabbitmq.trace", "topic"),
    ],
)
def test_the_standard_exchanges_are_there(channel: Any, exchange: str, kind: str) -> None:
    channel.exchange_declare(exchange, kind, passive=True)


def test_the_event_exchange_is_there(own_broker: Broker, channel: Any) -> None:
    channel.exchange_declare("amq.rabbitmq.event", "topic", passive=True)


def test_a_direct_exchange_compares_the_whole_key(confirming: Any, name: str) -> None:
    confirming.exchange_declare(name, "direct")
    queue = own_queue(confirming, (name, "red"), (name, "blue"))
    for key in ("red", "green", "re", "red.x", "blue", ""):
        confirming.basic_publish(name, key, key.encode())
    assert drain(confirming, queue) == [b"red", b"blue"]


def test_a_fanout_exchange_ignores_the_key(confirming: Any, name: str) -> None:
    confirming.exchange_declare(name, "fanout")
    queues = [own_queue(confirming, (name, "")), own_queue(confirming, (name, "key"))]
    confirming.basic_publish(name, "anything", b"1")
    assert [drain(confirming, queue) for queue in queues] == [[b"1"], [b"1"]]


@pytest.mark.parametrize(
    ("binding_key", "matching", "others"),
    [
        ("a.b", ["a.b"], ["a", "a.b.c", "", "A.b"]),
        ("a.*", ["a.b", "a."], ["a", "a.b.c", "b.a"]),
        ("*", ["a"], ["", "a.b"]),
        ("#", ["", "a", "a.b.c", "..."], []),
        ("a.#", ["a", "a.b", "a.b.c", "a."], ["b", "ab", ""]),
        ("#.c", ["c", "a.c", "a.b.c"], ["c.d", "ac"]),
        ("a.#.c", ["a.c", "a.b.c", "a.b.b.c"], ["a", "c", "a.b"]),
        ("*.#", ["a", "a.b"], []),
        ("a.*.c", ["a.b.c", "a..c"], ["a.c", "a.b.b.c"]),
        ("#.*.#", ["a", "a.b.c"], []),
        ("", [""], ["a"]),
        ("a..b", ["a..b"], ["a.b", "a.x.b"]),
    ],
)
def test_a_topic_exchange_matches_word_by_word(
    confirming: Any, name: str, binding_key: str, matching: list[str], others: list[str]
) -> None:
    confirming.exchange_declare(name, "topic")
    queue = own_queue(confirming, (name, binding_key))
    for key in matching + others:
        confirming.basic_publish(name, key, key.encode())
    assert drain(confirming, queue) == [key.encode() for key in matching]


HEADERS_CASES: list[HeadersCase] = [
    ({"x-match": "all", "a": 1, "b": "x"}, {"a": 1, "b": "x", "c": 0}, True),
    ({"x-match": "all", "a": 1, "b": "x"}, {"a": 1}, False),
    ({"a": 1, "b": "x"}, {"a": 1}, False),
    ({"a": 1}, {"a": 1}, True),
    ({"a": 1}, {"a": 2}, False),
    ({"x-match": "any", "a": 1, "b": "x"}, {"b": "x"}, True),
    ({"x-match": "any", "a": 1, "b": "x"}, {"b": "y"}, False),
    ({"x-match": "all", "a": None}, {"a": "whatever"}, True),
    ({"x-match": "all", "a": None}, {"b": 1}, False),
    ({"x-match": "all", "x-a": 1, "b": 1}, {"b": 1}, True),
    ({"x-match": "all-with-x", "x-a": 1, "b": 1}, {"b": 1}, False),
    ({"x-match": "all-with-x", "x-a": 1, "b": 1}, {"b": 1, "x-a": 1}, True),
    ({"x-match": "any", "x-a": 1}, {"x-a": 1}, False),
    ({"x-match": "any-with-x", "x-a": 1, "b": 2}, {"x-a": 1}, True),
    ({"x-match": "any-with-x", "x-a": 1, "b": 2}, {"c": 1}, False),
    ({}, {"anything": 1}, True),
]


@pytest.mark.parametrize(("arguments", "headers", "matches"), HEADERS_CASES)
def test_a_headers_exchange_compares_the_table(
    confirming: Any,
    name: str,
    arguments: dict[str, Any],
    headers: dict[str, Any],
    matches: bool,
) -> None:
    confirming.exchange_declare(name, "headers")
    queue = own_queue(confirming)
    confirming.queue_bind(queue, name, "", arguments)
    confirming.basic_publish(name, "", b"1", pika.BasicProperties(headers=headers))
    assert drain(confirming, queue) == ([b"1"] if matches else [])


def test_a_bad_x_match_is_refused(channel: Any, name: str) -> None:
    channel.exchange_declare(name, "headers")
    queue = own_queue(channel)
    with pytest.raises(pika.exceptions.ChannelClosedByBroker) as caught:
        channel.queue_bind(queue, name, "", {"x-match": "some"})
    assert caught.value.reply_code == 406


def test_a_queue_gets_one_copy_however_many_bindings_match(confirming: Any, name: str) -> None:
    confirming.exchange_declare(name, "topic")
    queue = own_queue(confirming, (name, "#"), (name, "a.*"), (name, "a.b"), (name, "*.b"))
    confirming.basic_publish(name, "a.b", b"once")
    assert drain(confirming, queue) == [b"once"]


def test_unbinding_removes_just_that_binding(confirming: Any, name: str) -> None:
    confirming.exchange_declare(name, "direct")
    queue = own_queue(confirming, (name, "a"), (name, "b"))
    confirming.queue_unbind(queue, name, "a")
    for key in ("a", "b"):
        confirming.basic_publish(name, key, key.encode())
    assert drain(confirming, queue) == [b"b"]


def test_the_same_binding_made_twice_is_one_binding(confirming: Any, name: str) -> None:
    confirming.exchange_declare(name, "fanout")
    queue = own_queue(confirming, (name, "k"), (name, "k"))
    confirming.queue_unbind(queue, name, "k")
    confirming.basic_publish(name, "k", b"1")
    assert drain(confirming, queue) == []


def test_bindings_that_differ_in_arguments_are_two(confirming: Any, name: str) -> None:
    confirming.exchange_declare(name, "direct")
    queue = own_queue(confirming)
    confirming.queue_bind(queue, name, "k", {"n": 1})
    confirming.queue_bind(queue, name, "k", {"n": 2})
    confirming.queue_unbind(queue, name, "k", {"n": 1})
    confirming.basic_publish(name, "k", b"still bound")
    assert drain(confirming, queue) == [b"still bound"]


def test_deleting_an_exchange_takes_its_bindings_along(confirming: Any, name: str) -> None:
    confirming.exchange_declare(name, "fanout")
    queue = own_queue(confirming, (name, ""))
    confirming.exchange_delete(name)
    confirming.exchange_declare(name, "fanout")
    confirming.basic_publish(name, "", b"1")
    assert drain(confirming, queue) == []


def test_an_exchange_passes_on_to_another(confirming: Any, name: str) -> None:
    inner = f"{name}-inner"
    confirming.exchange_declare(name, "topic")
    confirming.exchange_declare(inner, "fanout", auto_delete=True, internal=True)
    confirming.exchange_bind(destination=inner, source=name, routing_key="a.#")
    queue = own_queue(confirming, (inner, ""))
    for key in ("a.1", "b.1", "a.2"):
        confirming.basic_publish(name, key, key.encode())
    assert drain(confirming, queue) == [b"a.1", b"a.2"]
    confirming.exchange_unbind(destination=inner, source=name, routing_key="a.#")
    confirming.basic_publish(name, "a.3", b"a.3")
    assert drain(confirming, queue) == []


def test_exchanges_bound_in_a_circle_route_each_message_once(confirming: Any, name: str) -> None:
    other = f"{name}-other"
    confirming.exchange_declare(name, "fanout")
    confirming.exchange_declare(other, "fanout", auto_delete=True)
    confirming.exchange_bind(destination=other, source=name)
    confirming.exchange_bind(destination=name, source=other)
    queue = own_queue(confirming, (name, ""), (other, ""))
    confirming.basic_publish(name, "", b"1")
    confirming.basic_publish(other, "", b"2")
    assert drain(confirming, queue) == [b"1", b"2"]
    confirming.exchange_delete(other)


def test_an_alternate_exchange_takes_what_is_not_routed(confirming: Any, name: str) -> None:
    alternate = f"{name}-alternate"
    confirming.exchange_declare(alternate, "fanout")
    confirming.exchange_declare(name, "direct", arguments={"alternate-exchange": alternate})
    known, unknown = own_queue(confirming, (name, "known")), own_queue(confirming, (alternate, ""))
    for key in ("known", "unknown"):
        confirming.basic_publish(name, key, key.encode(), mandatory=True)
    assert drain(confirming, known) == [b"known"]
    assert drain(confirming, unknown) == [b"unknown"]
    confirming.exchange_delete(alternate)


def test_a_chain_of_alternates_is_followed_and_each_visited_once(
    confirming: Any, name: str
) -> None:
    names = [name, f"{name}-2", f"{name}-3"]
    for here, there in zip(names, [*names[1:], name], strict=True):
        confirming.exchange_declare(here, "direct", arguments={"alternate-exchange": there})
    queue = own_queue(confirming, (names[2], "k"))
    confirming.basic_publish(name, "k", b"1", mandatory=True)
    assert drain(confirming, queue) == [b"1"]
    with pytest.raises(pika.exceptions.UnroutableError):
        confirming.basic_publish(name, "absent", b"2", mandatory=True)
    for exchange in names[1:]:
        confirming.exchange_delete(exchange)


def test_a_missing_alternate_leaves_the_message_unroutable(confirming: Any, name: str) -> None:
    arguments = {"alternate-exchange": f"{name}-nowhere"}
    confirming.exchange_declare(name, "direct", arguments=arguments)
    with pytest.raises(pika.exceptions.UnroutableError):
        confirming.basic_publish(name, "k", b"1", mandatory=True)


@pytest.mark.parametrize(
    ("second", "key", "was", "current"),
    [
        ({"exchange_type": "fanout"}, "type", "'fanout'", "'direct'"),
        ({"durable": True}, "durable", "'true'", "'false'"),
        ({"auto_delete": True}, "auto_delete", "'true'", "'false'"),
        ({"internal": True}, "internal", "'true'", "'false'"),
        (
            {"arguments": {"alternate-exchange": "amq.fanout"}},
            "alternate-exchange",
            "the value 'amq.fanout' of type 'longstr'",
            "none",
        ),
    ],
)
def test_declaring_again_differently_names_the_difference(
    channel: Any, name: str, second: dict[str, Any], key: str, was: str, current: str
) -> None:
    channel.exchange_declare(name, "direct")
    channel.exchange_declare(name, "direct")
    with channel_closed(406, inequivalent(key, name, was, current)):
        channel.exchange_declare(name, **({"exchange_type": "direct"} | second))


def test_an_unknown_type_is_refused(own_broker: Broker, channel: Any, name: str) -> None:
    with channel_closed(406, "PRECONDITION_FAILED - unknown exchange type 'carousel'"):
        channel.exchange_declare(name, "carousel")


def test_a_passive_declare_of_a_missing_exchange_closes_the_channel(
    channel: Any, name: str
) -> None:
    with channel_closed(404, f"NOT_FOUND - no exchange '{name}' in vhost '/'"):
        channel.exchange_declare(name, passive=True)


def test_a_reserved_exchange_name_is_refused(channel: Any) -> None:
    text = "ACCESS_REFUSED - exchange name 'amq.mine' contains reserved prefix 'amq.*'"
    with channel_closed(403, text):
        channel.exchange_declare("amq.mine", "direct")


def test_the_default_exchange_may_not_be_touched(connection: Any, queue: str) -> None:
    text = "ACCESS_REFUSED - operation not permitted on the default exchange"
    with channel_closed(403, text):
        connection.channel().queue_bind(queue, "", "other")
    with channel_closed(403, text):
        connection.channel().queue_unbind(queue, "", queue)
    with channel_closed(403, text):
        connection.channel().exchange_delete("")
    with channel_closed(403, text):
        connection.channel().exchange_declare("", "direct")
    with channel_closed(403, text):
        connection.channel().exchange_bind(destination="amq.fanout", source="")


def test_deleting_a_missing_exchange_is_fine(channel: Any, name: str) -> None:
    channel.exchange_delete(name)


def test_delete_if_unused_refuses_an_exchange_with_bindings(channel: Any, name: str) -> None:
    channel.exchange_declare(name, "direct")
    own_queue(channel, (name, "k"))
    with channel_closed(406, f"PRECONDITION_FAILED - exchange '{name}' in vhost '/' in use"):
        channel.exchange_delete(name, if_unused=True)


def test_an_auto_delete_exchange_goes_with_its_last_binding(channel: Any, name: str) -> None:
    channel.exchange_declare(name, "direct", auto_delete=True)
    channel.exchange_declare(name, "direct", passive=True)
    queue = own_queue(channel, (name, "a"), (name, "b"))
    channel.queue_unbind(queue, name, "a")
    channel.exchange_declare(name, "direct", passive=True)
    channel.queue_unbind(queue, name, "b")
    with channel_closed(404, f"NOT_FOUND - no exchange '{name}' in vhost '/'"):
        channel.exchange_declare(name, "direct", passive=True)


def test_an_auto_delete_exchange_goes_when_its_queue_is_deleted(channel: Any, name: str) -> None:
    channel.exchange_declare(name, "fanout", auto_delete=True)
    channel.queue_delete(own_queue(channel, (name, "")))
    with channel_closed(404, f"NOT_FOUND - no exchange '{name}' in vhost '/'"):
        channel.exchange_declare(name, "fanout", passive=True)


def test_every_queue_is_bound_to_the_default_exchange_by_its_name(
    confirming: Any, queue: str
) -> None:
    confirming.basic_publish("", queue, b"1", mandatory=True)
    assert drain(confirming, queue) == [b"1"]


def test_line_ends_are_not_part_of_the_names_of_queues_and_exchanges(
    channel: Any, name: str
) -> None:
    channel.queue_declare(name, exclusive=True)  # pika waits for the name that it sent.
    channel.exchange_declare(f"\n{name}", "fanout", auto_delete=True)
    channel.exchange_declare(name, passive=True)
    channel.queue_bind(name, name)
    channel.exchange_delete(f"{name}\n")
    channel.queue_delete(f"{name}\r")
    with channel_closed(404, f"NOT_FOUND - no queue '{name}' in vhost '/'"):
        channel.queue_declare(name, passive=True)

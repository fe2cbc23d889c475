"""Addresses of AMQP 1.0 termini."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from queues.conversion.addresses import Target, parse_source, parse_target, queue_address
from warren.wire.amqp10.errors import Condition, ProtocolError, Scope


@pytest.mark.parametrize(
    "address",
    [
        None,
        7,
        b"/queues/q",
        "",
        "q",
        "queues/q",
        "/queue/q",
        "/queues",
        "/queues/",
        "/queues/a/b",
        "/queues/100%",
        "/queues/%4",
        "/queues/%zz",
        "/queues/%ff",
        "/exchanges/",
        "/exchanges//key",
        "/exchanges/amq.default/key",
        "/exchanges/x/a/b",
        "/exchanges/%ff",
        "/exchanges/x/%g0",
        "/topic/t",
    ],
)
def test_a_malformed_address_is_refused_for_its_link(address: object) -> None:
    with pytest.raises(ProtocolError) as caught:
        parse_target(address)
    assert caught.value.condition == Condition.INVALID_FIELD
    assert caught.value.scope == Scope.LINK


def test_messages_are_not_taken_from_exchanges() -> None:
    with pytest.raises(ProtocolError):
        parse_source("/exchanges/x/key")


@pytest.mark.parametrize(
    ("address", "target"),
    [
        ("/queues/q", Target("", b"q", "q")),
        ("/queues/a%2Fb%20%25", Target("", b"a/b %", "a/b %")),
        ("/queues/\u00fc", Target("", "\u00fc".encode(), "\u00fc")),
        ("/exchanges/x", Target("x", b"")),
        ("/exchanges/x/", Target("x", b"")),
        ("/exchanges/amq.topic/a.b%2Fc", Target("amq.topic", b"a.b/c")),
        ("/exchanges/x/%FF", Target("x", b"\xff")),
    ],
)
def test_a_target_is_an_exchange_with_a_key_or_a_queue(address: str, target: Target) -> None:
    assert parse_target(address) == target


@given(st.text(min_size=1))
def test_the_address_of_a_queue_names_it(name: str) -> None:
    assert parse_source(queue_address(name)) == name

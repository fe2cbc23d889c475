"""Arguments of queues that are of another type than they should be, with pika.

All of this is ours, in the form that RabbitMQ has for other arguments. RabbitMQ 4.0 says
`"expected integer, got longstr"` of numbers and `invalid type 'signedint' for arg 'A' in queue ..`
of the dead-letter exchange, and takes any `x-delivery-limit` and `x-consumer-timeout`.
"""

from typing import Any

import pytest

from tests.conformance.broker import Broker, channel_closed
from tests.conformance.options import both_kinds, declare

NUMBERS = [
    "x-message-ttl",
    "x-expires",
    "x-max-length",
    "x-max-length-bytes",
    "x-consumer-timeout",
]


def refusal(key: str, name: str, type_name: str) -> str:
    text = f"invalid arg '{key}' for queue '{name}' in vhost '/'"
    return f"PRECONDITION_FAILED - {text}: {{unacceptable_type,{type_name}}}"


@both_kinds
@pytest.mark.parametrize("key", NUMBERS)
@pytest.mark.parametrize(("value", "type_name"), [("10", "longstr"), (True, "bool")])
def test_a_number_must_be_a_number(
    own_broker: Broker, channel: Any, name: str, kind: str, key: str, value: object, type_name: str
) -> None:
    with channel_closed(406, refusal(key, name, type_name)):
        declare(channel, name, kind, {key: value})


def test_the_number_of_priorities_must_be_a_number(
    own_broker: Broker, channel: Any, name: str
) -> None:
    with channel_closed(406, refusal("x-max-priority", name, "longstr")):
        declare(channel, name, "classic", {"x-max-priority": "5"})


@pytest.mark.parametrize("key", ["x-delivery-limit", "x-quorum-initial-group-size"])
def test_numbers_of_quorum_queues_must_be_numbers(
    own_broker: Broker, channel: Any, name: str, key: str
) -> None:
    with channel_closed(406, refusal(key, name, "longstr")):
        declare(channel, name, "quorum", {key: "5"})


@both_kinds
def test_a_dead_letter_exchange_must_be_a_text(
    own_broker: Broker, channel: Any, name: str, kind: str
) -> None:
    with channel_closed(406, refusal("x-dead-letter-exchange", name, "signedint")):
        declare(channel, name, kind, {"x-dead-letter-exchange": 5})

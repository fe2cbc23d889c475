"""What a queue link publishes here for a message of the upstream queue."""

from typing import cast

import pytest

from federation.ends import Dialler
from federation.link import FEDERATED_KEY, Local, QueueSource, Upstream
from federation.upstreams import QUEUE, link_config, upstream_faults
from federation.uris import parse_uri
from queues.definitions.arguments import encode_arguments
from queues.routing.federation_upstream import RECEIVED_FROM
from tests.unit.wire.test_forward import delivery
from warren.client import amqp091
from warren.wire.amqp091.deliver import extract
from warren.wire.amqp091.properties import BasicProperties, decode_properties

BROKER_KEY = "a.key"  # of `delivery`


def published(
    properties: BasicProperties, name: str = "work", **more: object
) -> tuple[bytes, dict[str, object]]:
    """Routing key and headers."""
    value: dict[str, object] = {"uri": "amqp://up", "upstream": "up"}
    value |= {key.replace("_", "-"): each for key, each in more.items()}
    assert upstream_faults("up", {key: value[key] for key in value if key != "upstream"}) == []
    config = link_config(QUEUE, "/", name, value, "", True, False, encode_arguments({}))
    upstream = Upstream(config, parse_uri("amqp://up"), "amqp://up", cast(Dialler, None))
    source = QueueSource(upstream, cast(Local, None))
    content = delivery(properties, b"body")
    made = source.rewritten(amqp091.Delivery(cast(amqp091.Consumer, None), 0, 1, content, True))
    assert made is not None
    _, key, encoded, body = extract(made, 0, len(made))
    assert body == b"body"
    return key, dict(decode_properties(encoded).headers or {})


# Properties that are passed on byte for byte, and two that need a look at them.
SHAPES = pytest.mark.parametrize(
    "properties",
    [
        BasicProperties(),
        BasicProperties(headers={RECEIVED_FROM: []}),
        BasicProperties(user_id="guest"),
    ],
)


@SHAPES
def test_original_routing_key_is_kept_in_a_header(properties: BasicProperties) -> None:
    key, headers = published(properties)
    assert (key, headers[FEDERATED_KEY]) == (b"work", BROKER_KEY)
    assert RECEIVED_FROM in headers


@SHAPES
def test_key_that_is_the_name_of_the_queue_needs_no_header(properties: BasicProperties) -> None:
    key, headers = published(properties, BROKER_KEY)
    assert key == BROKER_KEY.encode()
    assert FEDERATED_KEY not in headers


@SHAPES
def test_option_of_the_upstream_leaves_the_header_out(properties: BasicProperties) -> None:
    _, headers = published(properties, federated_routing_key=False)
    assert FEDERATED_KEY not in headers


@pytest.mark.parametrize("more", [{}, {RECEIVED_FROM: []}])
def test_key_of_the_first_link_stays_over_further_links(more: dict[str, object]) -> None:
    _, headers = published(BasicProperties(headers={FEDERATED_KEY: "first", **more}))
    assert headers[FEDERATED_KEY] == "first"


def test_property_that_has_the_name_of_the_header_changes_nothing() -> None:
    _, headers = published(BasicProperties(message_id=FEDERATED_KEY))
    assert headers[FEDERATED_KEY] == BROKER_KEY

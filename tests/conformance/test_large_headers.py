"""Content headers that do not fit in a frame of AMQP 0-9-1: refused, or never delivered."""

from typing import Any

import pika
import pytest
from proton import Described, uint, ulong

from tests.conformance.broker import Broker, Inbox, ready_count, wait_until_ready
from tests.conformance.raw10 import (
    ACCEPTED,
    DISPOSITION,
    MESSAGE,
    REJECTED,
    TRANSFER,
    Raw10,
    encode,
)
from warren.testing.http_api import HttpApi

FRAME_MAX = 131_072
SMALL_FRAME_MAX = 8192
LARGE = pika.BasicProperties(headers={"large": "x" * 20_000})
PIECE_BYTES = 60_000  # of a message, in one transfer


@pytest.fixture
def small_channel(broker: Broker) -> Any:
    """A channel of a connection whose frames have at most 8 KiB."""
    parameters = pika.URLParameters(broker.url() + f"?frame_max={SMALL_FRAME_MAX}")
    connection = pika.BlockingConnection(parameters)
    yield connection.channel()
    connection.close()


@pytest.fixture(params=["classic", "quorum"])
def queues(request: pytest.FixtureRequest, channel: Any, name: str) -> Any:
    """A queue that dead-letters to the second, with a large header between two small ones."""
    dead = f"{name}-dead"
    channel.queue_declare(dead, durable=True)
    arguments = {
        "x-queue-type": request.param,
        "x-dead-letter-exchange": "",
        "x-dead-letter-routing-key": dead,
    }
    channel.queue_declare(name, durable=True, arguments=arguments)
    channel.confirm_delivery()
    channel.basic_publish("", name, b"first")
    channel.basic_publish("", name, b"large", LARGE)
    channel.basic_publish("", name, b"last")
    yield name, dead
    channel.queue_delete(dead)


def taken_dead(channel: Any, dead: str) -> tuple[bytes, str]:
    """Body and reason of the only dead letter."""
    wait_until_ready(channel, dead, 1)
    _, properties, body = channel.basic_get(dead, auto_ack=True)
    return body, properties.headers["x-death"][0]["reason"]


@pytest.mark.parametrize("auto_ack", [False, True])
def test_a_consumer_is_not_sent_a_header_larger_than_its_frame_max(
    small_channel: Any, channel: Any, queues: tuple[str, str], auto_ack: bool
) -> None:
    queue, dead = queues
    small_channel.basic_qos(prefetch_count=1)
    inbox = Inbox(small_channel, queue, auto_ack=auto_ack)
    inbox.wait(1)
    if not auto_ack:
        small_channel.basic_ack(inbox.tags[0])
    assert [each.body for each in inbox.wait(2)] == [b"first", b"last"]
    assert inbox.tags == [1, 2]
    if not auto_ack:
        small_channel.basic_ack(inbox.tags[1])
    assert taken_dead(channel, dead) == (b"large", "headers_too_large")
    assert small_channel.is_open
    small_channel.basic_cancel(inbox.consumer_tag)
    assert ready_count(channel, queue) == 0


@pytest.mark.parametrize("kind", ["classic", "quorum"])
def test_a_large_header_that_comes_back_to_the_same_consumer_is_dropped(
    small_channel: Any, channel: Any, name: str, kind: str
) -> None:
    """Two queues that dead-letter to each other, both with a consumer that cannot be sent it."""
    other = f"{name}-other"
    for queue, target in ((name, other), (other, name)):
        arguments = {
            "x-queue-type": kind,
            "x-dead-letter-exchange": "",
            "x-dead-letter-routing-key": target,
        }
        channel.queue_declare(queue, durable=True, arguments=arguments)
    inboxes = [Inbox(small_channel, queue) for queue in (name, other)]
    channel.confirm_delivery()
    channel.basic_publish("", name, b"large", LARGE)
    channel.basic_publish("", name, b"small")
    channel.basic_publish("", other, b"small")
    assert [inbox.wait(1)[0].body for inbox in inboxes] == [b"small", b"small"]
    for inbox in inboxes:
        small_channel.basic_ack(inbox.tags[0])
        small_channel.basic_cancel(inbox.consumer_tag)
    assert [ready_count(channel, queue) for queue in (name, other)] == [0, 0]
    channel.queue_delete(other)


def test_basic_get_passes_over_a_header_larger_than_its_frame_max(
    small_channel: Any, channel: Any, queues: tuple[str, str]
) -> None:
    queue, dead = queues
    found = [small_channel.basic_get(queue, auto_ack=True) for _ in range(3)]
    assert [body for _, _, body in found] == [b"first", b"last", None]
    assert taken_dead(channel, dead) == (b"large", "headers_too_large")


def test_a_consumer_with_a_larger_frame_max_gets_the_message(
    channel: Any, queues: tuple[str, str]
) -> None:
    inbox = Inbox(channel, queues[0])
    assert [each.body for each in inbox.wait(3)] == [b"first", b"large", b"last"]


def outcome_of(raw: Raw10, payload: bytes) -> tuple[int, list[Any]]:
    """Send the message in several transfers; return its outcome and the error's fields."""
    number = raw.next_id
    raw.next_id += 1
    for at in range(0, len(payload), PIECE_BYTES):
        more = at + PIECE_BYTES < len(payload)
        fields = (uint(0), uint(number), b"tag", uint(0), False, more)
        raw.send(raw.frame(TRANSFER, *fields, payload=payload[at : at + PIECE_BYTES]))
    state = raw.until(DISPOSITION).field(4)
    return int(state.descriptor), state.value[0].value if state.value else []


def message_with(properties_bytes: int, body: bytes) -> bytes:
    """A message of AMQP 1.0 with application properties of so many bytes, descriptor included."""
    rest = len(encode(Described(ulong(0x74), {"large": "x" * 1000}))) - 1000
    text = "x" * (properties_bytes - rest)
    encoded = encode(Described(ulong(0x74), {"large": text}))
    assert len(encoded) == properties_bytes
    data = encode(Described(ulong(0x75), body))
    return encoded + data


def test_amqp10_refuses_what_no_header_frame_can_hold(
    own_broker: Broker, channel: Any, queue: str
) -> None:
    with Raw10(own_broker.host, own_broker.port) as raw:
        raw.open()
        raw.begin()
        raw.attach_sender(f"/queues/{queue}")
        code, error = outcome_of(raw, message_with(FRAME_MAX + 1, b"refused"))
        assert (code, str(error[0])) == (REJECTED, "amqp:link:message-size-exceeded")
        assert f"{FRAME_MAX + 1} bytes" in error[1] and f"{FRAME_MAX}," in error[1]
        assert outcome_of(raw, message_with(10_000, b"x" * FRAME_MAX))[0] == ACCEPTED
        assert outcome_of(raw, MESSAGE)[0] == ACCEPTED
    assert ready_count(channel, queue) == 2


def test_a_message_whose_converted_header_is_too_large_is_not_delivered(
    own_broker: Broker, channel: Any, queue: str
) -> None:
    """The conversion adds to a message that is just small enough to be accepted."""
    with Raw10(own_broker.host, own_broker.port) as raw:
        raw.open()
        raw.begin()
        raw.attach_sender(f"/queues/{queue}")
        assert outcome_of(raw, message_with(FRAME_MAX, b"large"))[0] == ACCEPTED
        assert outcome_of(raw, message_with(1000, b"small"))[0] == ACCEPTED
    inbox = Inbox(channel, queue)
    assert [each.body for each in inbox.wait(1)] == [b"small"]
    assert own_broker.node is not None
    samples = own_broker.node.metrics().items()
    (counted,) = [
        value for key, value in samples if key.startswith("warren_headers_too_large_total")
    ]
    assert counted > 0


def test_http_publish_refuses_what_no_header_frame_can_hold(
    own_broker: Broker, channel: Any, queue: str
) -> None:
    assert own_broker.node is not None
    api = HttpApi(own_broker.node.management_url)
    message = {
        "routing_key": queue,
        "properties": {"headers": {"large": "x" * (FRAME_MAX - 20)}},
        "payload": "a",
        "payload_encoding": "string",
    }
    path = "/exchanges/%2F/amq.default/publish"
    status, reason = api.refused("POST", path, message)
    assert status == 400
    assert f"limits.frame_max allows {FRAME_MAX}" in reason
    message["properties"] = {"headers": {"large": "x" * (FRAME_MAX - 100)}}
    assert api.post(path, message) == {"routed": True}
    inbox = Inbox(channel, queue)
    assert [each.body for each in inbox.wait(1)] == [b"a"]

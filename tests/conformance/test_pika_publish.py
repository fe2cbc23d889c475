"""Publisher side with pika: what arrives, confirms, returns, and what is refused."""

import datetime
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pika
import pika.exceptions
import pytest

from tests.conformance.broker import (
    Inbox,
    channel_closed,
    connection_closed,
    drain,
    numbered,
    publish_all,
    ready_count,
    settle_down,
    take,
)

Connect = Callable[..., Any]

FRAME_PAYLOAD = 131_072 - 8


@pytest.mark.parametrize(
    "size", [0, 1, FRAME_PAYLOAD - 1, FRAME_PAYLOAD, FRAME_PAYLOAD + 1, 1_000_000]
)
def test_a_body_of_any_size_arrives_whole(channel: Any, queue: str, size: int) -> None:
    body = bytes(i * 7 % 251 for i in range(min(size, 4096))) * (size // 4096 + 1)
    publish_all(channel, queue, [body[:size]])
    assert take(channel, queue).body == body[:size]


def test_all_properties_and_header_types_arrive_as_they_were_sent(channel: Any, queue: str) -> None:
    headers = {
        "text": "żółw",
        "small": 5,
        "long": 2**40,
        "negative": -17,
        "yes": True,
        "no": False,
        "none": None,
        "decimal": Decimal("12.34"),
        "time": datetime.datetime(2024, 2, 29, 12, 0, 1, tzinfo=datetime.UTC),
        "table": {"inner": [1, "two", {"three": 3}]},
        "bytes": b"\x00\xff",
        "x" * 255: "longest name",
    }
    sent = pika.BasicProperties(
        content_type="text/plain",
        content_encoding="gzip",
        headers=headers,
        delivery_mode=2,
        priority=7,
        correlation_id="correlation",
        reply_to="reply",
        expiration="600000",
        message_id="message",
        timestamp=1_700_000_000,
        type="type",
        user_id="guest",
        app_id="app",
        cluster_id="cluster",
    )
    channel.basic_publish("", queue, b"", sent)
    received = take(channel, queue).properties
    assert vars(received) == vars(sent)


def test_a_message_without_properties_arrives_without(channel: Any, queue: str) -> None:
    channel.basic_publish("", queue, b"bare")
    assert all(value is None for value in vars(take(channel, queue).properties).values())


def test_confirm_select_may_be_repeated(channel: Any, queue: str) -> None:
    channel.confirm_delivery()
    channel._delivery_confirmation = False
    channel.confirm_delivery()
    publish_all(channel, queue, numbered(2))
    assert drain(channel, queue) == numbered(2)


@pytest.mark.parametrize("persistent", [False, True])
def test_a_routable_message_is_confirmed(channel: Any, queue: str, persistent: bool) -> None:
    publish_all(channel, queue, numbered(20), persistent)
    assert drain(channel, queue) == numbered(20)


def test_an_unroutable_message_is_confirmed_when_it_is_not_mandatory(
    channel: Any, name: str
) -> None:
    channel.confirm_delivery()
    channel.basic_publish("", name, b"without a consumer")


def test_an_unroutable_mandatory_message_comes_back(channel: Any, name: str) -> None:
    channel.confirm_delivery()
    properties = pika.BasicProperties(message_id="m-1", headers={"k": "v"})
    with pytest.raises(pika.exceptions.UnroutableError) as caught:
        channel.basic_publish("amq.direct", name, b"back", properties, mandatory=True)
    [returned] = caught.value.messages
    assert (returned.method.reply_code, returned.method.reply_text) == (312, "NO_ROUTE")
    assert (returned.method.exchange, returned.method.routing_key) == ("amq.direct", name)
    assert (returned.properties.message_id, returned.properties.headers) == ("m-1", {"k": "v"})
    assert returned.body == b"back"


def test_a_mandatory_message_comes_back_without_confirm_mode_too(channel: Any, name: str) -> None:
    returned: list[bytes] = []
    channel.add_on_return_callback(lambda _c, _m, _p, body: returned.append(body))
    channel.basic_publish("", name, b"back", mandatory=True)
    settle_down(channel, lambda: returned == [b"back"])


def test_a_mandatory_message_that_is_routed_does_not_come_back(channel: Any, queue: str) -> None:
    channel.confirm_delivery()
    channel.basic_publish("", queue, b"kept", mandatory=True)
    assert drain(channel, queue) == [b"kept"]


def test_a_message_to_ten_queues_is_confirmed_once_and_arrives_in_each(
    channel: Any, name: str
) -> None:
    channel.exchange_declare(name, "fanout")
    queues = [channel.queue_declare("", exclusive=True).method.queue for _ in range(10)]
    for queue in queues:
        channel.queue_bind(queue, name)
    channel.confirm_delivery()
    for body in numbered(20):
        channel.basic_publish(name, "", body, pika.BasicProperties(delivery_mode=2))
    assert [drain(channel, queue) for queue in queues] == [numbered(20)] * 10


def test_publishing_to_a_missing_exchange_closes_the_channel(channel: Any, name: str) -> None:
    channel.basic_publish(name, "key", b"")
    with channel_closed(404, f"NOT_FOUND - no exchange '{name}' in vhost '/'"):
        ready_count(channel, name)


def test_publishing_to_an_internal_exchange_is_refused(channel: Any, name: str) -> None:
    channel.exchange_declare(name, "fanout", internal=True)
    channel.basic_publish(name, "key", b"")
    text = f"ACCESS_REFUSED - cannot publish to internal exchange '{name}' in vhost '/'"
    with channel_closed(403, text):
        ready_count(channel, name)


def test_an_immediate_message_is_not_implemented(channel: Any, queue: str) -> None:
    method = pika.spec.Basic.Publish(exchange="", routing_key=queue, immediate=True)
    channel._impl._send_method(method, (pika.BasicProperties(), b"now"))
    with connection_closed(540, "NOT_IMPLEMENTED - immediate=true"):
        ready_count(channel, queue)


def test_a_prefetch_size_is_not_implemented(channel: Any, queue: str) -> None:
    with connection_closed(540, "NOT_IMPLEMENTED - prefetch_size!=0 (1024)"):
        channel.basic_qos(prefetch_size=1024)


def test_a_body_over_the_limit_closes_the_channel(channel: Any, queue: str) -> None:
    size = 16 * 1024 * 1024 + 1
    text = f"message size {size} is larger than configured max size {size - 1}"
    channel.confirm_delivery()
    with channel_closed(406, f"PRECONDITION_FAILED - {text}"):
        channel.basic_publish("", queue, bytes(size))


def test_a_body_at_the_limit_is_accepted(channel: Any, queue: str) -> None:
    publish_all(channel, queue, [bytes(16 * 1024 * 1024)])
    assert len(take(channel, queue).body) == 16 * 1024 * 1024


@pytest.mark.parametrize("text", ["soon", "-1", "1.5", ""])
def test_an_expiration_that_is_no_number_closes_the_channel(
    channel: Any, queue: str, text: str
) -> None:
    channel.confirm_delivery()
    with pytest.raises(pika.exceptions.ChannelClosedByBroker) as caught:
        channel.basic_publish("", queue, b"", pika.BasicProperties(expiration=text))
    assert caught.value.reply_code == 406
    assert caught.value.reply_text.startswith(
        f"PRECONDITION_FAILED - invalid expiration '{text}': "
    )


def test_a_user_id_of_somebody_else_closes_the_channel(channel: Any, queue: str) -> None:
    channel.basic_publish("", queue, b"", pika.BasicProperties(user_id="other"))
    text = "user_id property set to 'other' but authenticated user was 'guest'"
    with channel_closed(406, f"PRECONDITION_FAILED - {text}"):
        ready_count(channel, queue)


def test_a_message_to_a_queue_that_is_deleted_meanwhile_is_still_confirmed(
    channel: Any, connect: Connect, name: str
) -> None:
    other = connect().channel()
    channel.exchange_declare(name, "fanout")
    channel.confirm_delivery()
    for _ in range(20):
        other.queue_declare(name)
        other.queue_bind(name, name)
        channel.basic_publish(name, "", b"1")
        other.queue_delete(name)
        channel.basic_publish(name, "", b"2")


def test_a_consumer_on_the_publishing_channel_gets_its_own_messages(
    channel: Any, queue: str
) -> None:
    inbox = Inbox(channel, queue, auto_ack=True)
    publish_all(channel, queue, numbered(50))
    inbox.wait(50)
    assert inbox.bodies == numbered(50)


def test_order_is_kept_between_small_and_large_messages(channel: Any, queue: str) -> None:
    bodies = [bytes([i]) * (i * 3_000) for i in range(1, 100)]
    for body in bodies:
        channel.basic_publish("", queue, body)
    inbox = Inbox(channel, queue, auto_ack=True)
    inbox.wait(len(bodies))
    assert inbox.bodies == bodies

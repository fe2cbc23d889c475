"""Opening and closing with pika: negotiation, channels, logins, permissions and their texts."""

import struct
from collections.abc import Callable
from typing import Any

import pika
import pika.exceptions
import pytest

from tests.conformance.broker import (
    Broker,
    Inbox,
    channel_closed,
    drain,
    publish_all,
    ready_count,
    settle_down,
)

Connect = Callable[..., Any]


def refused(user: str, right: str, kind: str, name: str) -> str:
    what = f"{right} access to {kind} '{name}' in vhost '/' refused for user '{user}'"
    return f"ACCESS_REFUSED - {what}"


def test_the_server_says_what_it_is_and_can_do(connection: Any) -> None:
    properties = connection._impl.server_properties
    names = {"product", "version", "cluster_name", "platform", "copyright", "information"}
    assert names <= set(properties)
    assert all(properties["capabilities"].values())
    assert {
        "publisher_confirms",
        "exchange_exchange_bindings",
        "basic.nack",
        "consumer_cancel_notify",
        "connection.blocked",
        "consumer_priorities",
        "authentication_failure_close",
        "per_consumer_qos",
        "direct_reply_to",
    } <= set(properties["capabilities"])


def test_the_server_proposes_its_limits(connection: Any) -> None:
    parameters = connection._impl.params
    assert (parameters.channel_max, parameters.frame_max) == (2047, 131_072)
    assert parameters.heartbeat == 60


def test_lower_limits_of_the_client_are_kept(broker: Broker) -> None:
    parameters = pika.URLParameters(broker.url() + "?frame_max=8192&channel_max=2&heartbeat=7")
    connection = pika.BlockingConnection(parameters)
    agreed = connection._impl.params
    assert (agreed.frame_max, agreed.channel_max, agreed.heartbeat) == (8192, 2, 7)
    channel = connection.channel()
    queue = channel.queue_declare("", exclusive=True).method.queue
    publish_all(channel, queue, [bytes(50_000)])
    assert drain(channel, queue) == [bytes(50_000)]
    connection.close()


def test_a_channel_number_may_be_used_again(connection: Any, name: str) -> None:
    for _ in range(5):
        channel = connection.channel(7)
        channel.queue_declare(name, exclusive=True)
        channel.close()
    channel = connection.channel(7)
    with channel_closed(404, f"NOT_FOUND - no queue '{name}-2' in vhost '/'"):
        channel.queue_declare(f"{name}-2", passive=True)
    connection.channel(7).queue_declare(name, exclusive=True)


def test_a_thousand_channels_live_on_one_connection(connection: Any, name: str) -> None:
    connection.channel().queue_declare(name, exclusive=True)
    channels = [connection.channel() for _ in range(1_000)]
    assert ready_count(channels[-1], name) == 0
    assert ready_count(channels[0], name) == 0


def test_channel_flow_active_is_answered(channel: Any, name: str) -> None:
    answer: list[Any] = []
    channel._impl._rpc(pika.spec.Channel.Flow(True), answer.append, [pika.spec.Channel.FlowOk])
    settle_down(channel, lambda: bool(answer))
    assert answer[0].method.active is True


def test_stopping_the_flow_of_the_server_is_not_implemented(channel: Any, name: str) -> None:
    channel._impl._send_method(pika.spec.Channel.Flow(False))
    with pytest.raises(pika.exceptions.ConnectionClosedByBroker) as caught:
        ready_count(channel, name)
    assert (caught.value.reply_code, caught.value.reply_text) == (
        540,
        "NOT_IMPLEMENTED - active=false",
    )


def test_a_consumer_tag_may_not_be_used_twice(channel: Any, queue: str) -> None:
    Inbox(channel, queue, consumer_tag="mine")
    method = pika.spec.Basic.Consume(queue=queue, consumer_tag="mine")
    channel._impl._send_method(method)
    with pytest.raises(pika.exceptions.ConnectionClosedByBroker) as caught:
        ready_count(channel, queue)
    text = "NOT_ALLOWED - attempt to reuse consumer tag 'mine'"
    assert (caught.value.reply_code, caught.value.reply_text) == (530, text)


def test_the_same_consumer_tag_on_another_channel_is_fine(
    channel: Any, connection: Any, queue: str
) -> None:
    Inbox(channel, queue, consumer_tag="mine")
    Inbox(connection.channel(), queue, consumer_tag="mine")
    assert channel.queue_declare(queue, passive=True).method.consumer_count == 2


@pytest.mark.parametrize("mechanism", ["PLAIN", "AMQPLAIN"])
def test_a_wrong_password_is_told_apart_from_a_lost_connection(
    broker: Broker, mechanism: str
) -> None:
    parameters = pika.URLParameters(broker.url("guest", "wrong"))
    if mechanism == "AMQPLAIN":
        parameters.credentials = AmqPlain("guest", "wrong")
    text = (
        f"ACCESS_REFUSED - Login was refused using authentication mechanism {mechanism}."
        " For details see the broker logfile."
    )
    with pytest.raises(pika.exceptions.ProbableAuthenticationError) as caught:
        pika.BlockingConnection(parameters)
    assert text in str(caught.value)


def test_amqplain_logs_in(broker: Broker) -> None:
    parameters = pika.URLParameters(broker.url())
    parameters.credentials = AmqPlain("guest", "guest")
    pika.BlockingConnection(parameters).close()


class AmqPlain(pika.credentials.PlainCredentials):  # type: ignore[misc]
    """The older way of RabbitMQ clients to log in: a field table without its length."""

    TYPE = "AMQPLAIN"

    def response_for(self, start: Any) -> tuple[str, bytes]:
        fields = [(b"LOGIN", self.username.encode()), (b"PASSWORD", self.password.encode())]
        return self.TYPE, b"".join(
            struct.pack(">B", len(key)) + key + b"S" + struct.pack(">I", len(value)) + value
            for key, value in fields
        )


def test_an_unknown_user_is_refused(broker: Broker) -> None:
    with pytest.raises(pika.exceptions.ProbableAuthenticationError):
        broker.connect("absent")


@pytest.mark.parametrize(
    ("user", "vhost", "text"),
    [
        ("guest", "nowhere", "NOT_ALLOWED - vhost nowhere not found"),
        ("stranger", "/", "NOT_ALLOWED - access to vhost '/' refused for user 'stranger'"),
    ],
)
def test_a_vhost_that_is_missing_or_closed_to_the_user_is_refused(
    broker: Broker, user: str, vhost: str, text: str
) -> None:
    with pytest.raises(pika.exceptions.ProbableAccessDeniedError) as caught:
        broker.connect(user, vhost=vhost)
    assert text in str(caught.value)


def test_what_the_permissions_allow_is_done(connect: Connect, name: str) -> None:
    channel = connect("limited").channel()
    queue = f"open-{name}"
    channel.exchange_declare(queue, "fanout", auto_delete=True)
    channel.queue_declare(queue, exclusive=True)
    channel.queue_bind(queue, queue)
    channel.confirm_delivery()
    channel.basic_publish(queue, "", b"1")
    assert drain(channel, queue) == [b"1"]


def test_what_the_permissions_do_not_allow_is_refused(
    connect: Connect, channel: Any, queue: str
) -> None:
    limited = connect("limited")
    own = f"open-{queue}"
    limited.channel().queue_declare(own, exclusive=True)
    configure, write, read = (refused("limited", right, "queue", queue) for right in RIGHTS)
    attempts: list[tuple[str, Callable[[Any], object]]] = [
        (configure, lambda channel: channel.queue_declare(queue, durable=True)),
        (configure, lambda channel: channel.queue_delete(queue)),
        (read, lambda channel: channel.basic_get(queue)),
        (read, lambda channel: Inbox(channel, queue)),
        (read, lambda channel: channel.queue_purge(queue)),
        (write, lambda channel: channel.queue_bind(queue, "amq.fanout")),
        (
            refused("limited", "read", "exchange", "amq.fanout"),
            lambda channel: channel.queue_bind(own, "amq.fanout"),
        ),
        (
            refused("limited", "configure", "exchange", queue),
            lambda channel: channel.exchange_declare(queue, "fanout"),
        ),
        (
            refused("limited", "write", "exchange", "amq.direct"),
            lambda channel: publish_and_wait(channel, "amq.direct"),
        ),
        (
            refused("limited", "write", "exchange", "amq.default"),
            lambda channel: publish_and_wait(channel, ""),
        ),
    ]
    for text, attempt in attempts:
        with channel_closed(403, text):
            attempt(limited.channel())


RIGHTS = ("configure", "write", "read")


def publish_and_wait(channel: Any, exchange: str) -> None:
    channel.confirm_delivery()
    channel.basic_publish(exchange, "key", b"")


def test_a_refused_publish_leaves_other_channels_alone(connect: Connect, name: str) -> None:
    connection = connect("limited")
    channel = connection.channel()
    queue = f"open-{name}"
    channel.queue_declare(queue, exclusive=True)
    with channel_closed(403, refused("limited", "write", "exchange", "amq.direct")):
        publish_and_wait(connection.channel(), "amq.direct")
    assert ready_count(channel, queue) == 0

"""Options and events that meet: what each does alone is tested beside this."""

import socket
from typing import Any

import pika

from tests.conformance import raw
from tests.conformance.broker import Broker, Inbox, ready_count, wait_until_ready
from tests.conformance.options import both_kinds, declare, exclusive_queue, publish
from tests.conformance.raw import RawClient, method

PERSISTENT = b"\x10\x00\x02"  # properties: delivery mode 2
REPLY_TO = "amq.rabbitmq.reply-to"


def opened(broker: Broker, channels: int) -> RawClient:
    """A client with so many open channels."""
    client = RawClient(broker.host, broker.port)
    client.send(raw.HEADER).expect(raw.START)
    client.send(raw.start_ok()).expect(raw.TUNE)
    client.send(raw.tune_ok(), raw.open_vhost()).expect(raw.OPEN_OK)
    for channel in range(1, channels + 1):
        client.send(raw.channel_open(channel)).expect(raw.CHANNEL_OPEN_OK)
    return client


def get(channel: int, queue: str) -> bytes:
    return method(channel, raw.BASIC_GET, b"\x00\x00" + raw.short(queue) + b"\x01")


def persistent(channel: int, exchange: str, routing_key: str) -> bytes:
    """A whole persistent message."""
    head = raw.publish_method(channel, exchange, routing_key)
    return head + raw.content_header(channel, 1, PERSISTENT) + raw.body(channel, b"m")


@both_kinds
def test_a_client_may_go_while_its_purge_is_under_way(
    broker: Broker, channel: Any, name: str, kind: str
) -> None:
    declare(channel, name, kind)
    count = 40_000
    message = persistent(1, "", name)
    with opened(broker, 1) as client:
        client.send(message * count)
        wait_until_ready(channel, name, count)
        arguments = b"\x00\x00" + raw.short(name) + b"\x00"
        client.send(method(1, (50, 30), arguments), method(1, raw.CHANNEL_CLOSE, bytes(7)))
        client.send(raw.channel_open(2))
        while client.read().method != raw.CHANNEL_OPEN_OK:
            continue
    wait_until_ready(channel, name, 0)
    publish(channel, name, b"alive")
    assert ready_count(channel, name) == 1


def test_what_waits_behind_many_gets_is_published_to_all_queues_together(
    broker: Broker, channel: Any, name: str
) -> None:
    empty = exclusive_queue(channel)
    asked = declare(channel, f"{name}-asked")
    exchange = f"{name}-fanout"
    channel.exchange_declare(exchange, "fanout", auto_delete=True)
    queues = [declare(channel, f"{name}-{number}") for number in (1, 2)]
    for queue in queues:
        channel.queue_bind(queue, exchange)
    rounds = 12
    with opened(broker, 2) as client:
        for count in range(1, rounds + 1):
            gets = (get(1, asked) + get(2, asked)) * count
            client.send(gets, persistent(2, "", queues[0]), persistent(1, exchange, ""))
            for _ in range(2 * count):
                client.expect((60, 72))
        wait_until_ready(channel, queues[0], 2 * rounds)
        wait_until_ready(channel, queues[1], rounds)
    assert ready_count(channel, empty) == 0
    for queue in (asked, *queues):
        channel.queue_delete(queue)


def test_an_answer_whose_headers_have_the_letters_of_cc_in_them_arrives(
    connection: Any, channel: Any
) -> None:
    answers = Inbox(channel, REPLY_TO, auto_ack=True)
    requests = exclusive_queue(channel)
    publish(channel, requests, b"request", reply_to=REPLY_TO)
    _, properties, _ = channel.basic_get(requests, auto_ack=True)
    server = connection.channel()
    copies = exclusive_queue(server)
    for headers in ({"status": "SUCCESS"}, {"CC": [copies]}, {"BCC": [copies], "CC": []}):
        sent = pika.BasicProperties(headers=headers)
        server.basic_publish("", properties.reply_to, b"answer", sent)
    answers.wait(3)
    assert [each.properties.headers for each in answers.messages] == [
        {"status": "SUCCESS"},
        {"CC": [copies]},
        {"CC": []},
    ]
    wait_until_ready(channel, copies, 2)


def test_who_closes_the_socket_without_reading_holds_nothing_any_more(
    broker: Broker, channel: Any, name: str
) -> None:
    declare(channel, name)
    count = 400
    for _ in range(count):
        channel.basic_publish("", name, b"x" * 100_000)
    wait_until_ready(channel, name, count)
    with opened(broker, 1) as client:
        client.send(raw.consume(1, name, "deaf")).expect(raw.BASIC_CONSUME_OK)
        client.socket.shutdown(socket.SHUT_WR)
        wait_until_ready(channel, name, count)

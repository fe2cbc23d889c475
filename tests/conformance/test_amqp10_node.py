"""AMQP 1.0 on nodes of its own: a crash, an alarm, listings."""

from urllib.parse import quote

import pika
import proton
import pytest
from proton import uint

from tests.conformance.broker import Broker
from tests.conformance.proton10 import body_of, connect10, data_message, take10
from tests.conformance.raw10 import BEGIN, CLOSE, DISPOSITION, FLOW, TRANSFER, Raw10
from warren.testing import Node
from warren.testing.http_api import HttpApi

LARGE = bytes(100_000)


def test_confirmed_messages_outlive_a_crash_as_they_were() -> None:
    with Node(name="crash10") as node:
        channel = pika.BlockingConnection(pika.URLParameters(node.url)).channel()
        channel.queue_declare("q", durable=True)
        channel.queue_declare("big", durable=True, arguments={"x-queue-type": "quorum"})
        client = connect10(Broker(node.host, node.port, node))
        sent = {}
        for queue in ("q", "big"):
            sender = client.create_sender(f"/queues/{queue}")
            for number in range(3):
                body = b"%d" % number + LARGE
                message = data_message(body, properties={"n": number}, durable=True)
                assert sender.send(message).remote_state == proton.Delivery.ACCEPTED
        node.kill9()
        node.start()
        client = connect10(Broker(node.host, node.port, node))
        for queue in ("q", "big"):
            receiver = client.create_receiver(f"/queues/{queue}", credit=3)
            sent[queue] = take10(receiver, 3)
        client.close()
    for queue, messages in sent.items():
        assert [body_of(each) for each in messages] == [b"%d" % n + LARGE for n in range(3)]
        assert [each.properties for each in messages] == [{"n": n} for n in range(3)]
        route = {"x-exchange": "", "x-routing-key": queue}
        assert all(route.items() <= each.annotations.items() for each in messages)


def test_a_connection_over_the_limit_is_told_so_and_closed() -> None:
    with (
        Node(name="limit10", settings={"limits.connection_max": "0"}) as node,
        Raw10(node.host, node.port) as raw,
    ):
        raw.open()
        assert raw.expect(CLOSE).error == "amqp:resource-limit-exceeded"


def test_in_an_alarm_windows_are_closed_and_consuming_goes_on() -> None:
    with Node(name="alarm10") as node:
        channel = pika.BlockingConnection(pika.URLParameters(node.url)).channel()
        channel.queue_declare("q", durable=True)
        with Raw10(node.host, node.port) as raw:
            raw.open()
            raw.begin()
            raw.attach_sender("/queues/q")
            raw.expect(FLOW)
            raw.send(b"".join(raw.transfer() for _ in range(3)))
            raw.until(DISPOSITION)
            limit = {"vm_memory_high_watermark": {"absolute": 1}}
            HttpApi(node.management_url).put(f"/nodes/{node.name}/limits", limit)
            shut = raw.until(FLOW)
            assert (shut.field(1), shut.field(4)) == (0, None)
            raw.attach_receiver("/queues/q", handle=1)
            raw.credit(3, handle=1)
            assert [raw.until(TRANSFER).payload[-1:] for _ in range(3)] == [b"m"] * 3
            raw.call(BEGIN, None, *map(uint, (0, 10, 10)), channel=1)
            assert raw.until(BEGIN).field(2) == 0


def test_a_connection_is_listed_and_counted_by_its_protocol() -> None:
    with Node(name="list10") as node:
        channel = pika.BlockingConnection(pika.URLParameters(node.url)).channel()
        channel.queue_declare("q")
        client = connect10(Broker(node.host, node.port, node))
        client.create_sender("/queues/q").send(data_message(b"1"))
        receiver = client.create_receiver("/queues/q", credit=1)
        take10(receiver, 1)
        rows = node.api("GET", "/api/connections")
        mine = next(each for each in rows if each["protocol"] == "AMQP 1-0")
        assert (mine["user"], mine["vhost"], mine["auth_mechanism"]) == ("guest", "/", "PLAIN")
        assert (mine["channels"], mine["state"]) == (1, "running")
        (session,) = node.api("GET", f"/api/connections/{quote(mine['name'], safe='')}/sessions")
        (incoming,), (outgoing,) = session["incoming_links"], session["outgoing_links"]
        assert (incoming["target_address"], incoming["credit"]) == ("/queues/q", 169)
        assert (outgoing["queue_name"], outgoing["delivery_count"]) == ("q", 1)
        metrics = HttpApi(node.management_url).text("/metrics")
        assert 'rabbitmq_global_messages_received_total{protocol="amqp10"} 1' in metrics
        assert 'rabbitmq_global_consumers{protocol="amqp10"} 1' in metrics
        node.api("DELETE", f"/api/connections/{quote(mine['name'], safe='')}")
        with pytest.raises(proton.ProtonException, match="amqp:connection:forced"):
            receiver.receive(timeout=5)

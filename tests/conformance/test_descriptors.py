"""A node that runs out of file descriptors keeps serving, and serves new clients afterwards."""

import os
import resource
import socket
import ssl
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

import pika
import pytest

from tests.conformance.raw import HEARTBEAT, PeerClosed, RawClient, frame
from tests.unit.node.certificates import Authority
from tests.waiting import eventually
from warren.testing import Node
from warren.testing.http_api import HttpApi
from warren.testing.node import free_ports

FILES_MAX: Final = 200
IDLE: Final = 300
FREE: Final = 20  # descriptors that HTTP connections leave, at least

pytestmark = [pytest.mark.timeout(240)]


@pytest.fixture
def node() -> Iterator[Node]:
    with Node(name="descriptors") as started:
        resource.prlimit(started.pid, resource.RLIMIT_NOFILE, (FILES_MAX, FILES_MAX))
        yield started


def test_a_node_raises_its_limit_of_open_files_at_the_start() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (1024, hard))
    try:
        with Node(name="limit") as node:
            assert resource.prlimit(node.pid, resource.RLIMIT_NOFILE) == (hard, hard)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_idle_connections_take_no_descriptor_that_the_node_needs(node: Node) -> None:
    api = HttpApi(node.management_url)
    connection = pika.BlockingConnection(pika.URLParameters(node.url))
    channel = connection.channel()
    channel.confirm_delivery()
    channel.queue_declare("q", durable=True)
    idle = [socket.create_connection((node.host, node.port), 10) for _ in range(IDLE)]
    eventually(lambda: "the limit of open files" in node.log())
    with RawClient(node.host, node.port) as refused:
        refused.expect_end()
    channel.basic_publish("", "q", b"1", pika.BasicProperties(delivery_mode=2))
    limits = f"/nodes/{node.name}/limits"
    api.put(limits, {"vm_memory_high_watermark": {"absolute": 0}})
    assert api.get(f"/nodes/{node.name}")["mem_alarm"]
    api.put(limits, {"vm_memory_high_watermark": {"absolute": 1 << 40}})
    for each in idle:
        each.close()

    def connects() -> bool:
        try:
            with RawClient(node.host, node.port).begin(heartbeat=1) as client:
                client.send(frame(HEARTBEAT, 0, b"")).read_heartbeat()
            return True
        except (PeerClosed, OSError):
            return False

    eventually(connects)
    assert channel.basic_get("q", auto_ack=True)[2] == b"1"
    connection.close()


def test_idle_http_connections_take_no_descriptor_that_the_node_needs(node: Node) -> None:
    api = HttpApi(node.management_url)
    connection = pika.BlockingConnection(pika.URLParameters(node.url))
    channel = connection.channel()
    channel.confirm_delivery()
    channel.queue_declare("q", durable=True)
    port = urlsplit(node.management_url).port
    idle = [socket.create_connection((node.host, port), 10) for _ in range(IDLE)]
    eventually(lambda: "closing new HTTP connections" in node.log())
    eventually(lambda: len(os.listdir(f"/proc/{node.pid}/fd")) <= FILES_MAX - FREE)
    channel.basic_publish("", "q", b"1", pika.BasicProperties(delivery_mode=2))
    for each in idle:
        each.close()

    def answers() -> bool:
        try:
            return bool(api.get("/overview"))
        except OSError:
            return False

    eventually(answers)
    assert channel.basic_get("q", auto_ack=True)[2] == b"1"
    connection.close()


def test_idle_connections_before_tls_take_no_descriptor_that_the_node_needs(
    tmp_path: Path,
) -> None:
    authority = Authority(tmp_path)
    authority.issue("server")
    amqps, https = free_ports(2)
    settings = {
        "listeners.amqps": f"127.0.0.1:{amqps}",
        "listeners.management_tls": f"127.0.0.1:{https}",
        "tls.certfile": str(tmp_path / "server.pem"),
        "tls.keyfile": str(tmp_path / "server.key"),
        "tls.handshake_timeout_ms": "120000",
    }
    with Node(name="descriptors", settings=settings) as node:
        resource.prlimit(node.pid, resource.RLIMIT_NOFILE, (FILES_MAX, FILES_MAX))
        for port in (https, amqps):
            idle = [socket.create_connection((node.host, port), 10) for _ in range(IDLE)]
            with suppress(ConnectionResetError):
                assert idle[-1].recv(1) == b"", "the last one found no descriptor"
            eventually(lambda: len(os.listdir(f"/proc/{node.pid}/fd")) <= FILES_MAX - FREE)
            for each in idle:
                each.close()
            eventually(lambda: len(os.listdir(f"/proc/{node.pid}/fd")) < FILES_MAX // 2)
        context = ssl.create_default_context(cafile=authority.cafile)
        tls = pika.SSLOptions(context, "localhost")
        parameters = pika.ConnectionParameters("127.0.0.1", amqps, ssl_options=tls)
        connection = pika.BlockingConnection(parameters)
        assert connection.channel().queue_declare("", exclusive=True).method.queue
        connection.close()

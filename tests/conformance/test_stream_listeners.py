"""The stream protocol over TLS, behind an advertised address, and with heartbeats."""

import asyncio
import select
import ssl
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any, Final

import pytest
from rstream import AMQPMessage, Consumer, ConsumerOffsetSpecification, OffsetType, Producer
from rstream import amqp_decoder as decoder

from tests.conformance.broker import CONFIG
from tests.conformance.test_stream_frames import Client
from tests.unit.node.certificates import Authority
from tests.waiting import eventually
from warren.testing import free_port
from warren.testing.node import Node, free_ports
from warren.wire.stream import codes
from warren.wire.stream.frames import FrameWriter

HOST: Final = "127.0.0.1"
LOGIN: Final[dict[str, Any]] = {"username": "guest", "password": "guest"}
COUNT: Final = 50
HEARTBEAT_S: Final = 1


async def published_and_read(port: int, name: str, **options: Any) -> list[bytes]:
    """Bodies that rstream reads from a stream that it has filled, all by this port."""
    found: list[bytes] = []
    enough = asyncio.Event()

    async def take(message: AMQPMessage, context: Any) -> None:
        assert isinstance(message.body, bytes)
        found.append(message.body)
        if len(found) == COUNT:
            enough.set()

    async with asyncio.timeout(40):
        async with Producer(HOST, port, **LOGIN, **options) as producer:
            await producer.create_stream(name)
            batch = [AMQPMessage(body=b"%d" % number) for number in range(COUNT)]
            await producer.send_batch(name, batch)
            consumer = Consumer(HOST, port, **LOGIN, **options)
            await consumer.start()
            running = asyncio.create_task(consumer.run())
            first = ConsumerOffsetSpecification(OffsetType.FIRST)
            await consumer.subscribe(name, take, decoder=decoder, offset_specification=first)
            await enough.wait()
            await consumer.close()
            await running
            await producer.delete_stream(name)
    return found


# TLS


@pytest.fixture(scope="module")
def secure(
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[tuple[Node, int, ssl.SSLContext]]:
    """A node that has the stream protocol over TLS alone, its port, and how clients trust it."""
    authority = Authority(tmp_path_factory.mktemp("certificates"))
    certfile, keyfile = authority.issue("server")
    port = free_port()
    tls = f'[tls]\ncertfile = "{certfile}"\nkeyfile = "{keyfile}"\n'
    settings = {"listeners.stream_tls": f"{HOST}:{port}"}
    with Node(name="stream-tls", config=f"{CONFIG}\n{tls}", settings=settings) as node:
        yield node, port, ssl.create_default_context(cafile=authority.cafile)


def test_rstream_publishes_and_reads_over_tls(
    secure: tuple[Node, int, ssl.SSLContext],
) -> None:
    _, port, context = secure
    found = asyncio.run(published_and_read(port, "secure", ssl_context=context))
    assert found == [b"%d" % number for number in range(COUNT)]


def test_a_connection_over_tls_is_listed_as_such(
    secure: tuple[Node, int, ssl.SSLContext],
) -> None:
    node, port, context = secure

    async def listed() -> list[Any]:
        async with Producer(HOST, port, **LOGIN, ssl_context=context) as producer:
            await producer.create_stream("listed")
            await producer.send_wait("listed", AMQPMessage(body=b"x"))
            rows = await asyncio.to_thread(node.api, "GET", "/api/connections")
            await producer.delete_stream("listed")
            return [(each["protocol"], each["ssl"]) for each in rows]

    assert asyncio.run(listed()) == [("stream", True)]


def test_a_client_that_does_not_trust_the_node_is_not_served(
    secure: tuple[Node, int, ssl.SSLContext],
) -> None:
    _, port, _ = secure

    async def connect() -> None:
        async with asyncio.timeout(20):
            context = ssl.create_default_context()
            async with Producer(HOST, port, **LOGIN, ssl_context=context):
                pass

    with pytest.raises(ssl.SSLCertVerificationError):
        asyncio.run(connect())


# Advertised addresses


@asynccontextmanager
async def relay(port: int, target: int) -> AsyncIterator[list[int]]:
    """Pass what comes to `port` on to `target`; the list has an item for each connection."""
    served: list[int] = []

    async def copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(65_536):
            writer.write(data)
            await writer.drain()
        writer.close()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        served.append(port)
        far_reader, far_writer = await asyncio.open_connection(HOST, target)
        await asyncio.gather(copy(reader, far_writer), copy(far_reader, writer))

    async with await asyncio.start_server(serve, HOST, port):
        yield served


def test_clients_go_to_the_advertised_address() -> None:
    port, advertised = free_ports(2)
    settings = {
        "listeners.stream": f"{HOST}:{port}",
        "listeners.stream_advertised": f"{HOST}:{advertised}",
    }

    async def test() -> None:
        async with relay(advertised, port) as served:
            found = await published_and_read(port, "advertised")
        assert found == [b"%d" % number for number in range(COUNT)]
        assert len(served) == 2  # the publisher and the consumer

    with Node(name="advertised", config=CONFIG, settings=settings):
        asyncio.run(test())


# Heartbeats


@pytest.fixture(scope="module")
def beating() -> Iterator[tuple[Node, int]]:
    port = free_port()
    settings = {
        "listeners.stream": f"{HOST}:{port}",
        "limits.heartbeat_s": str(HEARTBEAT_S),
    }
    with Node(name="beating", config=CONFIG, settings=settings) as node:
        yield node, port


def opened(port: int) -> Client:
    client = Client(port)
    assert client.log_in() == codes.OK
    client.send(FrameWriter(codes.TUNE).u32(0).u32(HEARTBEAT_S))
    name = FrameWriter(0).string("/").end()[8:]
    assert client.ask(codes.OPEN, name).u16() == codes.OK
    return client


def test_a_silent_client_is_cut_and_one_that_sends_heartbeats_is_not(
    beating: tuple[Node, int],
) -> None:
    node, port = beating
    begun = time.monotonic()
    silent, lively = opened(port), opened(port)
    heard = {silent: 0, lively: 0}
    is_open = {silent: True, lively: True}
    while is_open[silent] and is_open[lively]:
        assert time.monotonic() - begun < 30, "the silent client is not cut"
        lively.send(FrameWriter(codes.HEARTBEAT))
        for client in select.select(list(is_open), [], [], HEARTBEAT_S / 2)[0]:
            frame = client.receive()
            is_open[client] = frame is not None
            heard[client] += frame is not None and frame.key == codes.HEARTBEAT
    assert is_open[lively]
    assert time.monotonic() - begun >= 2 * HEARTBEAT_S
    assert min(heard.values()) >= 2
    assert "missed heartbeats from client" in node.log()
    lively.close()
    silent.close()


def test_rstream_stays_connected_by_its_heartbeats(beating: tuple[Node, int]) -> None:
    node, port = beating

    async def test() -> None:
        async with Producer(HOST, port, **LOGIN, heartbeat=HEARTBEAT_S) as producer:
            await producer.create_stream("idle")
            await producer.send_wait("idle", AMQPMessage(body=b"x"))
            before = await asyncio.to_thread(node.api, "GET", "/api/connections")
            assert [each["timeout"] for each in before] == [HEARTBEAT_S]
            begun = time.monotonic()
            while time.monotonic() - begun < 3.5 * HEARTBEAT_S:  # It has nothing to say meanwhile.
                await asyncio.sleep(HEARTBEAT_S / 4)
            after = await asyncio.to_thread(node.api, "GET", "/api/connections")
            assert [each["name"] for each in after] == [each["name"] for each in before]
            await producer.send_wait("idle", AMQPMessage(body=b"y"))
            await producer.delete_stream("idle")

    asyncio.run(test())
    eventually(lambda: node.api("GET", "/api/connections") == [])

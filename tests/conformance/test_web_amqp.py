"""AMQP over WebSocket: clients whose frames are split anywhere, listings, and bad peers."""

import asyncio
import socket
import struct
from collections.abc import Awaitable, Callable, Iterator
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any, Final
from urllib.error import HTTPError
from urllib.request import urlopen

import aiohttp
import pika
import pytest

from tests.conformance import raw
from tests.conformance.broker import GUEST, Inbox, wait_until_ready
from tests.conformance.pages import open_browser
from tests.conformance.programs import missing, tools_folder
from tests.conformance.raw10 import SASL_HEADER, Raw10
from tests.conformance.web_relay import Relay
from tests.waiting import eventually
from warren.testing import Node
from warren.testing.http_api import HttpApi
from warren.testing.node import free_ports

QUEUE: Final = "web-amqp"
LIMIT: Final = 200_000  # bytes of one message
# Publishes through one link, receives by another, and gives what came.
IN_BROWSER: Final = """
  ([url, address]) => new Promise((resolve, reject) => {
    const client = rheaUmd.create_container();
    const connect = client.websocket_connect(WebSocket)(url, ["amqp"], {});
    const connection = client.connect(
      { connection_details: connect, username: "guest", password: "guest", reconnect: false });
    const bodies = [];
    connection.on("disconnected", (context) => reject(new Error(String(context.error))));
    connection.on("message", (context) => {
      bodies.push(context.message.body);
      if (bodies.length === 500) {
        connection.on("connection_close", () => resolve(bodies));
        connection.close();
      }
    });
    connection.open_receiver(address);
    const sender = connection.open_sender(address);
    let sent = 0;
    sender.on("sendable", () => {
      while (sent < 500 && sender.sendable()) {
        sender.send({ body: "from Chromium " + sent });
        sent += 1;
      }
    });
  })
"""
TEXT_REFUSED: Final = 1003
TOO_BIG: Final = 1009


@pytest.fixture(scope="module")
def own_port() -> int:
    """Of the listener for WebSocket alone."""
    return free_ports(1)[0]


class EmptyPage(SimpleHTTPRequestHandler):
    """Answers each request with a page that has nothing."""

    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.end_headers()
        self.wfile.write(b"<!doctype html>")

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""


@pytest.fixture(scope="module")
def page() -> Iterator[str]:
    """The origin of a page that is not the node's."""
    with ThreadingHTTPServer(("127.0.0.1", 0), EmptyPage) as server:
        thread = Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


@pytest.fixture(scope="module")
def node(own_port: int, page: str) -> Iterator[Node]:
    settings = {
        "listeners.web_amqp": f"127.0.0.1:{own_port}",
        "web_amqp.allowed_origins": page,
        "web_amqp.max_message_bytes": str(LIMIT),
    }
    with Node(name="web", config=GUEST, settings=settings) as node:
        yield node


@pytest.fixture(scope="module")
def url(node: Node) -> str:
    return f"{node.management_url}/ws"


@pytest.fixture
def api(node: Node) -> HttpApi:
    return HttpApi(node.management_url)


@pytest.fixture
def direct(node: Node) -> Iterator[Any]:
    """A channel of a client of TCP, with the queue of this module empty."""
    connection = pika.BlockingConnection(pika.URLParameters(node.url))
    channel = connection.channel()
    channel.queue_delete(QUEUE)
    channel.queue_declare(QUEUE, durable=True)
    yield channel
    channel.queue_delete(QUEUE)
    connection.close()


def run(url: str, work: Callable[[Any], Awaitable[None]], **options: Any) -> None:
    """Do the work with a WebSocket."""

    async def connected() -> None:
        async with (
            aiohttp.ClientSession() as session,
            session.ws_connect(url, **{"protocols": ["amqp"], **options}) as web,
        ):
            await work(web)

    asyncio.run(asyncio.wait_for(connected(), 20))


def refusal(url: str, **options: Any) -> int:
    """The status with which a handshake is refused; 101: it is not."""
    status = 101

    async def nothing(web: Any) -> None:
        return

    try:
        run(url, nothing, **options)
    except aiohttp.WSServerHandshakeError as error:
        status = error.status
    return status


async def read(web: Any, wanted: bytes) -> bytes:
    """What comes, until `wanted` has."""
    got = b""
    while wanted not in got:
        message = await web.receive()
        assert message.type is aiohttp.WSMsgType.BINARY, (message, got)
        got += message.data
    return got


def method_id(method: tuple[int, int]) -> bytes:
    return struct.pack(">HH", *method)


async def open_channel(web: Any) -> None:
    await web.send_bytes(raw.HEADER + raw.start_ok() + raw.tune_ok() + raw.open_vhost())
    await web.send_bytes(raw.channel_open(1))
    await read(web, method_id(raw.CHANNEL_OPEN_OK))


async def take_one(web: Any) -> None:
    """Hold the only message of the queue, unsettled."""
    await open_channel(web)
    await web.send_bytes(raw.consume(1, QUEUE, "tag"))
    await read(web, method_id(raw.BASIC_DELIVER))


def test_rhea_in_chromium_publishes_and_receives(url: str, page: str, direct: Any) -> None:
    bundle = tools_folder() / "node_modules" / "rhea" / "dist" / "rhea-umd.js"
    if not bundle.is_file():
        missing(f"rhea is not there: npm install --prefix {tools_folder().name} rhea")
    with open_browser() as pages, pages.tab(page, user=None) as tab:
        tab.goto(page)
        tab.add_script_tag(content=bundle.read_text("utf-8"))
        address = [url.replace("http", "ws"), f"/queues/{QUEUE}"]
        assert tab.evaluate(IN_BROWSER, address) == [f"from Chromium {n}" for n in range(500)]


@pytest.mark.parametrize("sizes", [(1, 40), (60_000, 190_000)], ids=["small", "large"])
def test_messages_of_any_size_carry_a_session_of_pika(
    url: str, direct: Any, sizes: tuple[int, int]
) -> None:
    bodies = [b"%d" % number for number in range(100)] + [bytes(300_000), b"last"]
    if sizes[1] > 1000:
        bodies += [bytes([number]) * 2_000_000 for number in range(5)]
    with Relay(url, sizes) as port:
        connection = pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", port))
        channel = connection.channel()
        channel.confirm_delivery()
        for body in bodies:
            channel.basic_publish("", QUEUE, body, mandatory=True)
        channel.basic_qos(prefetch_count=10)
        inbox = Inbox(channel, QUEUE, auto_ack=True)
        inbox.wait(len(bodies))
        connection.close()
    assert inbox.bodies == bodies


def test_listings_say_that_a_connection_is_over_websocket(url: str, api: HttpApi) -> None:
    with Relay(url, (1, 9)) as port, raw.RawClient("127.0.0.1", port) as old:
        old.begin()
        new = Raw10("127.0.0.1", port)
        new.open()

        def protocols() -> list[str]:
            rows = api.get("/connections")
            return sorted(row["protocol"] for row in rows)

        expected = ["Web AMQP 0-9-1", "Web AMQP 1-0"]
        eventually(lambda: protocols() == expected)
        (row, *_) = api.get("/connections")
        assert row["peer_host"] == "127.0.0.1"
        assert row["port"] == int(url.split(":")[2].split("/")[0])
        new.cut()
    eventually(lambda: api.get("/connections") == [])


def test_a_listener_of_its_own_serves_websocket_alone(own_port: int, api: HttpApi) -> None:
    place = f"http://127.0.0.1:{own_port}"

    async def greet(web: Any) -> None:
        await web.send_bytes(SASL_HEADER)
        assert (await read(web, b"PLAIN")).startswith(SASL_HEADER)

    run(f"{place}/ws", greet)
    assert refusal(f"{place}/api/overview") == 404
    listeners = api.get("/overview")["listeners"]
    assert ("http/web-amqp", own_port) in {(each["protocol"], each["port"]) for each in listeners}


def test_pages_of_other_origins_are_refused(node: Node, url: str, page: str) -> None:
    for origin in (page, node.management_url):
        assert refusal(url, headers={"Origin": origin}) == 101
    for origin in ("https://evil.example.com", "http://127.0.0.1", "null", ""):
        assert refusal(url, headers={"Origin": origin}) == 403


def test_only_the_subprotocol_amqp_is_spoken(url: str) -> None:
    assert refusal(url, protocols=["mqtt"]) == 400
    assert refusal(url, protocols=["mqtt", "amqp"]) == 101

    async def chosen(web: Any) -> None:
        assert web.protocol == "amqp"

    run(url, chosen, protocols=["binary", "AMQPWSB10", "amqp"])


def test_a_client_that_names_no_subprotocol_is_served(url: str) -> None:
    run(url, open_channel, protocols=[])


def test_messages_are_not_compressed(url: str) -> None:
    async def plain(web: Any) -> None:
        assert web.compress == 0

    run(url, plain, compress=15)


def test_a_request_that_is_no_handshake_is_answered_426(url: str) -> None:
    with pytest.raises(HTTPError, match="426"):
        urlopen(url, timeout=10)


def test_a_text_message_ends_the_connection(url: str, direct: Any) -> None:
    direct.basic_publish("", QUEUE, b"held")

    async def say(web: Any) -> None:
        await take_one(web)
        await web.send_str("AMQP")
        message = await web.receive()
        assert (message.type, message.data) == (aiohttp.WSMsgType.CLOSE, TEXT_REFUSED)

    run(url, say)
    wait_until_ready(direct, QUEUE, 1)


def test_a_message_over_the_limit_ends_the_connection(url: str) -> None:
    async def flood(web: Any) -> None:
        await open_channel(web)
        await web.send_bytes(raw.publish(1, "", QUEUE, bytes(LIMIT)))
        message = await web.receive()
        assert (message.type, message.data) == (aiohttp.WSMsgType.CLOSE, TOO_BIG)

    run(url, flood)


def test_a_close_within_a_frame_gives_back_what_was_held(url: str, direct: Any) -> None:
    direct.basic_publish("", QUEUE, b"held")

    async def stop(web: Any) -> None:
        await take_one(web)
        await web.send_bytes(raw.publish(1, "", QUEUE, b"half of a frame")[:-5])

    run(url, stop)
    wait_until_ready(direct, QUEUE, 1)
    assert direct.basic_get(QUEUE)[2] == b"held"


def test_a_cut_gives_back_what_was_held(url: str, direct: Any) -> None:
    direct.basic_publish("", QUEUE, b"held")

    async def cut(web: Any) -> None:
        await take_one(web)
        web._response.connection.transport.abort()

    run(url, cut)
    wait_until_ready(direct, QUEUE, 1)


def test_close_ok_comes_before_the_close_of_the_websocket(url: str) -> None:
    async def close(web: Any) -> None:
        await open_channel(web)
        await web.send_bytes(raw.method(0, raw.CLOSE, b"\x00\xc8\x00\x00\x00\x00\x00"))
        await read(web, method_id(raw.CLOSE_OK))
        message = await web.receive()
        assert (message.type, message.data) == (aiohttp.WSMsgType.CLOSE, 1000)

    run(url, close)


def test_what_is_no_amqp_is_answered_with_the_header_of_amqp(url: str) -> None:
    async def say(web: Any) -> None:
        await web.send_bytes(b"GET / HTTP/1.1\r\n\r\n")
        assert await read(web, b"AMQP") == raw.HEADER
        assert (await web.receive()).type is aiohttp.WSMsgType.CLOSE

    run(url, say)


def test_no_client_is_let_in_while_the_node_is_in_maintenance(
    node: Node, url: str, api: HttpApi
) -> None:
    api.post(f"/nodes/{node.name}/listeners", {"action": "suspend"})
    try:
        assert refusal(url) == 503
    finally:
        api.post(f"/nodes/{node.name}/listeners", {"action": "resume"})
    assert refusal(url) == 101


def test_the_stop_of_the_node_closes_amqp_and_then_the_websocket() -> None:
    with Node(name="stopped", config=GUEST) as own:

        async def stay(web: Any) -> None:
            await open_channel(web)
            stopping = asyncio.get_running_loop().run_in_executor(None, own.stop)
            assert b"shutdown" in await read(web, method_id(raw.CLOSE))
            await web.send_bytes(raw.method(0, raw.CLOSE_OK))
            message = await web.receive()
            assert (message.type, message.data) == (aiohttp.WSMsgType.CLOSE, 1000)
            await web.close()
            await stopping

        run(f"{own.management_url}/ws", stay, autoclose=False)
        assert "Traceback" not in own.log()


def test_a_client_that_ignores_the_stop_of_the_node_does_not_hold_it_up() -> None:
    with Node(name="stopped", config=GUEST) as own:
        web = socket.create_connection((own.host, own.management_port), 10)
        key = "Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\nSec-WebSocket-Version: 13"
        head = f"GET /ws HTTP/1.1\r\nHost: h\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n{key}"
        web.sendall(f"{head}\r\n\r\n".encode())
        assert web.recv(4096).startswith(b"HTTP/1.1 101")
        mask = bytes(4)  # Payloads stay as they are.
        sent = raw.HEADER + raw.start_ok() + raw.tune_ok() + raw.open_vhost()
        web.sendall(b"\x82\xfe" + len(sent).to_bytes(2, "big") + mask + sent)
        eventually(lambda: HttpApi(own.management_url).get("/connections"))
        own.stop(10)
        assert "Traceback" not in own.log()
        web.close()

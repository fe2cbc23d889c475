"""A node with TLS on all its ports: clients, certificates as logins, reloading, and bad peers."""

import asyncio
import json
import signal
import socket
import ssl
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import aio_pika
import pika
import pika.exceptions
import proton
import pytest
from proton.utils import BlockingConnection

import warren.client
import warren.client.amqp091
from federation import ends_amqp10
from federation.ends import Dialler
from federation.uris import parse_uri
from tests.conformance.broker import GUEST
from tests.conformance.raw import (
    CLOSE,
    CLOSE_OK,
    HEADER,
    START,
    Frame,
    RawClient,
    method,
    publish,
    short,
)
from tests.conformance.web_relay import Relay
from tests.unit.node.certificates import Authority
from tests.waiting import eventually
from warren.testing import Node
from warren.testing.node import NodeFailed, free_ports

HANDSHAKE_MS: Final = 1000
LOGIN: Final = "Basic Z3Vlc3Q6Z3Vlc3Q="  # guest, guest
LOOPBACK: Final = "127.0.0.1"
CONFIG: Final = (
    GUEST
    + """
[[users]]
name = "orders"
password = "s3cret"
permissions = [{ vhost = "/", configure = ".*", write = ".*", read = ".*" }]
[tls]
certfile = "CERTS/server.pem"
keyfile = "CERTS/server.key"
cacertfile = "CERTS/ca.pem"
verify = "verify_peer"
cert_login_from = "common_name"
[tls.management]
verify = "verify_none"
"""
)


@dataclass
class Place:
    """The node, its ports with TLS, and who issues certificates."""

    node: Node
    amqps: int
    https: int
    authority: Authority

    def context(self, name: str = "") -> ssl.SSLContext:
        """Of a client that trusts the node and shows the certificate of that name."""
        context = ssl.create_default_context(cafile=self.authority.cafile)
        if name:
            folder = self.authority.folder
            context.load_cert_chain(folder / f"{name}.pem", folder / f"{name}.key")
        return context

    def parameters(self, name: str = "", **options: Any) -> Any:
        options.setdefault("credentials", pika.PlainCredentials("guest", "guest"))
        tls = pika.SSLOptions(self.context(name), "localhost")
        return pika.ConnectionParameters(LOOPBACK, self.amqps, ssl_options=tls, **options)

    def connect(self, name: str = "", **options: Any) -> Any:
        return pika.BlockingConnection(self.parameters(name, **options))

    def external(self, name: str) -> Any:
        return self.connect(name, credentials=pika.credentials.ExternalCredentials())

    def ask(self, path: str) -> tuple[int, Any]:
        request = Request(f"https://localhost:{self.https}/api/{path}")
        request.add_header("Authorization", LOGIN)
        try:
            with urlopen(request, timeout=10, context=self.context()) as answer:
                return answer.status, json.loads(answer.read())
        except HTTPError as error:
            with error:
                return error.code, json.loads(error.read())

    def shown(self) -> bytes:
        """The certificate of the AMQP listener."""
        with self.raw() as over:
            der = over.getpeercert(binary_form=True)
        assert der is not None
        return der

    def raw(self, context: ssl.SSLContext | None = None) -> ssl.SSLSocket:
        plain = socket.create_connection((LOOPBACK, self.amqps), 10)
        return (context or self.context()).wrap_socket(plain, server_hostname="localhost")


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    folder = tmp_path_factory.mktemp("certificates")
    authority = Authority(folder)
    authority.issue("server")
    authority.issue("orders", common_name="orders")
    authority.issue("absent", common_name="absent")
    authority.issue("expired", common_name="orders", days=-1)
    Authority(folder, "stranger").issue("forged", common_name="orders")
    amqps, https = free_ports(2)
    settings = {
        "listeners.amqps": f"{LOOPBACK}:{amqps}",
        "listeners.management_tls": f"{LOOPBACK}:{https}",
        "tls.handshake_timeout_ms": str(HANDSHAKE_MS),
        "tls.reload_interval_ms": "0",
        "auth.failures_max": "0",
    }
    config = CONFIG.replace("CERTS", str(folder))
    with Node(name="tls", config=config, settings=settings) as node:
        yield Place(node, amqps, https, authority)


def test_the_ready_line_names_the_ports_with_tls(place: Place) -> None:
    assert f" amqps={LOOPBACK}:{place.amqps} " in place.node.ready_line
    assert f" management_tls={LOOPBACK}:{place.https} " in place.node.ready_line


def test_large_messages_pass_over_tls_both_ways(place: Place) -> None:
    bodies = [bytes([number]) * 300_000 for number in range(60)]
    with place.connect() as connection:
        channel = connection.channel()
        channel.queue_declare("large", auto_delete=True)
        channel.confirm_delivery()
        for body in bodies:
            channel.basic_publish("", "large", body, mandatory=True)
        got = []
        for _, _, body in channel.consume("large", auto_ack=True, inactivity_timeout=10):
            got.append(body)
            if len(got) == len(bodies):
                break
        assert got == bodies


def test_websockets_over_tls_carry_messages_and_are_listed(place: Place) -> None:
    url = f"wss://localhost:{place.https}/ws"
    with Relay(url, (1000, 70_000), place.context()) as port:
        connection = pika.BlockingConnection(pika.ConnectionParameters(LOOPBACK, port))
        channel = connection.channel()
        channel.queue_declare("web", exclusive=True)
        channel.basic_publish("", "web", bytes(500_000))
        (_, _, body) = next(channel.consume("web", auto_ack=True, inactivity_timeout=10))
        assert body == bytes(500_000)
        _, rows = place.ask("connections")
        (row,) = [each for each in rows if each["protocol"] == "Web AMQP 0-9-1"]
        assert row["ssl"] is True
        assert row["ssl_protocol"].startswith("tls")
        connection.close()


def test_a_consumer_that_stops_reading_does_not_lose_what_waits_for_it(place: Place) -> None:
    """Backlog behind TLS is bounded as without: deliveries wait in the queue, and come later."""
    with place.connect() as feeding, place.connect(heartbeat=0) as slow:
        feed, channel = feeding.channel(), slow.channel()
        feed.queue_declare("slow", auto_delete=True)
        got: list[int] = []
        channel.basic_consume("slow", lambda c, m, p, body: got.append(len(body)), auto_ack=True)
        feed.confirm_delivery()
        for _ in range(200):  # 40 MB: more than all the buffers in between.
            feed.basic_publish("", "slow", bytes(200_000))
        deadline = time.monotonic() + 15
        while len(got) < 200 and time.monotonic() < deadline:
            slow.process_data_events(time_limit=0.1)
        assert got == [200_000] * 200


def test_aio_pika_connects_by_an_amqps_address(place: Place) -> None:
    async def story() -> bytes:
        url = f"amqps://guest:guest@localhost:{place.amqps}/"
        async with await aio_pika.connect(url, ssl_context=place.context()) as connection:
            channel = await connection.channel()
            queue = await channel.declare_queue("aio", auto_delete=True)
            await channel.default_exchange.publish(aio_pika.Message(b"hello"), "aio")
            message = await queue.get(timeout=10)
            return message.body

    assert asyncio.run(story()) == b"hello"


def proton_url(place: Place) -> str:
    return f"amqps://localhost:{place.amqps}"


def proton_domain(place: Place, name: str = "") -> Any:
    domain = proton.SSLDomain(proton.SSLDomain.MODE_CLIENT)
    domain.set_trusted_ca_db(str(place.authority.cafile))
    domain.set_peer_authentication(proton.SSLDomain.VERIFY_PEER_NAME)
    folder = place.authority.folder
    if name:
        domain.set_credentials(str(folder / f"{name}.pem"), str(folder / f"{name}.key"), None)
    return domain


def test_a_client_that_still_sends_over_tls_reads_close_ok(place: Place) -> None:
    with RawClient(LOOPBACK, place.amqps) as client:
        client.socket = place.context().wrap_socket(client.socket, server_hostname="localhost")
        in_flight = publish(1, "", "nowhere", b"x" * 1000) * 2000
        bye = method(0, CLOSE, b"\x00\xc8" + short("bye") + b"\x00\x00\x00\x00")
        client.begin_channel().send(in_flight, bye, *[in_flight] * 3)
        client.expect(CLOSE_OK)
        client.send(*[in_flight] * 3)


def test_amqp_1_0_passes_over_tls_with_a_password_and_with_a_certificate(place: Place) -> None:
    with place.connect() as connection:
        connection.channel().queue_declare("ten")
    logins: tuple[dict[str, Any], ...] = (
        {"allowed_mechs": "PLAIN", "user": "guest", "password": "guest"},
        {"allowed_mechs": "EXTERNAL"},
    )
    for number, options in enumerate(logins):
        domain = proton_domain(place, "orders" if number else "")
        connection = BlockingConnection(proton_url(place), timeout=10, ssl_domain=domain, **options)
        connection.create_sender("/queues/ten").send(proton.Message(body=str(number)))
        receiver = connection.create_receiver("/queues/ten")
        assert receiver.receive(timeout=10).body == str(number)
        receiver.accept()
        user = "orders" if number else "guest"
        rows = place.ask("connections")[1]
        row = next(each for each in rows if each["protocol"] == "AMQP 1-0")
        assert (row["user"], row["ssl"]) == (user, True)
        connection.close()
        eventually(
            lambda: not any(r["protocol"] == "AMQP 1-0" for r in place.ask("connections")[1])
        )


def test_a_certificate_is_a_login_and_is_listed(place: Place) -> None:
    with place.external("orders") as connection:
        assert connection.channel().queue_declare("", exclusive=True)
        (row,) = [each for each in place.ask("connections")[1] if each["user"] == "orders"]
        assert row["auth_mechanism"] == "EXTERNAL"
        assert (row["ssl"], row["ssl_protocol"], row["ssl_key_exchange"]) == (
            True,
            "tlsv1.3",
            "any",
        )
        assert row["ssl_cipher"].startswith("aes_") and row["ssl_hash"] == "aead"
        assert row["peer_cert_subject"] == "CN=orders,OU=Shop,O=Example"
        assert row["peer_cert_issuer"].endswith("O=Example")
        assert row["peer_cert_validity"].count("Z") == 2


def test_a_connection_without_a_certificate_says_so(place: Place) -> None:
    with place.connect():
        (row,) = [each for each in place.ask("connections")[1] if each["user"] == "guest"]
        assert (row["ssl"], row["peer_cert_subject"]) == (True, None)


def test_external_is_offered_to_those_with_a_certificate_alone(place: Place) -> None:
    offered = []
    for name in ("", "orders"):
        with place.raw(place.context(name)) as over:
            over.sendall(HEADER)
            first = over.recv(4096)
            assert Frame(1, 0, first[7:]).method == START
            offered.append(b"EXTERNAL" in first)
    assert offered == [False, True]
    with pytest.raises(pika.exceptions.AMQPConnectionError):
        place.external("")


def test_our_client_logs_in_by_its_certificate_if_the_url_names_nobody(place: Place) -> None:
    url = f"amqps://localhost:{place.amqps}"

    async def users(name: str) -> list[str]:
        async with (
            await warren.client.connect(url, tls=place.context(name)),
            await warren.client.amqp091.connect(url, tls=place.context(name)),
        ):
            rows = await asyncio.to_thread(place.ask, "connections")
            return sorted(f"{row['user']} by {row['auth_mechanism']}" for row in rows[1])

    assert asyncio.run(users("orders")) == ["orders by EXTERNAL", "orders by EXTERNAL"]


def test_a_certificate_that_names_nobody_is_no_login(place: Place) -> None:
    with pytest.raises(pika.exceptions.ProbableAuthenticationError):
        place.external("absent")
    with place.connect("absent"):  # A password is a login still.
        assert "EXTERNAL login refused: user 'absent' is unknown" in place.node.log()


@pytest.mark.parametrize("name", ["expired", "forged"])
def test_a_certificate_that_is_not_good_ends_the_handshake(place: Place, name: str) -> None:
    with pytest.raises(pika.exceptions.AMQPConnectionError):
        place.connect(name)
    with place.connect():
        assert place.node.is_running()


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_old_versions_of_tls_and_no_tls_are_refused(place: Place) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    context.set_ciphers("ALL:@SECLEVEL=0")
    context.minimum_version = ssl.TLSVersion.TLSv1
    context.maximum_version = ssl.TLSVersion.TLSv1_1
    with pytest.raises((ssl.SSLError, ConnectionError)):
        place.raw(context)
    with socket.create_connection((LOOPBACK, place.amqps), 10) as plain:
        plain.sendall(HEADER)
        assert b"AMQP" not in _rest(plain)


def _rest(connection: socket.socket) -> bytes:
    received = b""
    try:
        while chunk := connection.recv(4096):
            received += chunk
    except ConnectionError:
        return received
    return received


def test_clients_that_say_nothing_are_gone_after_the_handshake_time(place: Place) -> None:
    silent = [socket.create_connection((LOOPBACK, place.amqps), 10) for _ in range(100)]
    began = time.monotonic()
    with place.connect() as connection:  # Others are served meanwhile.
        assert connection.is_open
    for each in silent:
        _rest(each)
        each.close()
    assert time.monotonic() - began < HANDSHAKE_MS / 1000 + 20


def test_certificates_are_replaced_without_a_restart(place: Place) -> None:
    with place.connect() as connection:
        before = place.shown()
        place.authority.issue("server")
        place.node.process.send_signal(signal.SIGHUP)  # type: ignore[union-attr]
        eventually(lambda: place.shown() != before)
        good = place.authority.folder / "server.pem"
        kept = good.read_bytes()
        good.write_bytes(kept[: len(kept) // 2])
        place.node.process.send_signal(signal.SIGHUP)  # type: ignore[union-attr]
        eventually(lambda: "new files are not used, the old ones hold" in place.node.log())
        assert place.shown() != before
        good.write_bytes(kept)
        assert connection.channel().is_open  # It began with the first of them.


def test_the_api_answers_over_tls_and_knows_when_certificates_end(place: Place) -> None:
    assert place.ask("whoami")[1]["name"] == "guest"
    assert place.ask("health/checks/certificate-expiration/1/weeks") == (200, {"status": "ok"})
    status, body = place.ask("health/checks/certificate-expiration/2/months")
    assert (status, body["status"], body["reason"]) == (503, "failed", "Certificates expiring")
    expired = {each["protocol"]: each for each in body["expired"]}
    assert set(expired) == {"amqp/ssl", "https"}
    assert expired["amqp/ssl"]["port"] == place.amqps
    assert len(expired["amqp/ssl"]["certfile_expires_on"]) == 1
    for wrong in ("x/days", "-1/days", "1/minutes", "9999999999/years"):
        assert place.ask(f"health/checks/certificate-expiration/{wrong}")[0] == 400
    protocols = {each["protocol"] for each in place.ask("overview")[1]["listeners"]}
    assert protocols == {"amqp", "amqp/ssl", "http", "https"}
    assert place.ask("health/checks/protocol-listener/amqps")[0] == 200


def test_a_node_can_listen_over_tls_alone(place: Place, tmp_path: Path) -> None:
    (amqps,) = free_ports(1)
    settings = {"listeners.plain": "false", "listeners.amqps": f"{LOOPBACK}:{amqps}"}
    config = CONFIG.replace("CERTS", str(place.authority.folder))
    with Node(name="only-tls", config=config, settings=settings) as node:
        assert node.ready_line.split()[2].startswith("amqps=")
        assert " amqp=" not in node.ready_line and " management=" not in node.ready_line
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection((LOOPBACK, node.port), 5)
        only = Place(node, amqps, 0, place.authority)
        with only.connect() as connection:
            assert connection.is_open


def test_files_that_cannot_be_used_end_the_start(place: Place) -> None:
    settings = {"listeners.amqps": f"{LOOPBACK}:0", "tls.keyfile": str(place.authority.cafile)}
    config = CONFIG.replace("CERTS", str(place.authority.folder))
    node = Node(name="bad-tls", config=config, settings=settings)
    try:
        with pytest.raises(NodeFailed, match=r"code 1 at start[\s\S]*with key .*ca.pem"):
            node.start()
    finally:
        node.close()


@pytest.mark.parametrize("protocol", ["0-9-1", "1.0"])
def test_link_logs_in_by_its_certificate_when_its_uri_says_so(place: Place, protocol: str) -> None:
    folder = place.authority.folder
    uri = parse_uri(
        f"amqps://guest:guest@{LOOPBACK}:{place.amqps}?cacertfile={place.authority.cafile}"
        f"&certfile={folder / 'orders.pem'}&keyfile={folder / 'orders.key'}"
        "&server_name_indication=localhost&auth_mechanism=external"
    )

    def no_local(is_internal: bool) -> Any:
        raise AssertionError("the URI names a host")

    async def story() -> None:
        connection: Any
        if protocol == "1.0":
            connection = await ends_amqp10.connect(uri, "/", "by-certificate", no_local)
        else:
            connection = await Dialler(no_local).connect(uri, "/", "by-certificate")
        status, rows = await asyncio.to_thread(place.ask, "connections")
        assert status == 200
        assert ("orders", "EXTERNAL") in [(row["user"], row["auth_mechanism"]) for row in rows]
        await connection.close()

    asyncio.run(story())

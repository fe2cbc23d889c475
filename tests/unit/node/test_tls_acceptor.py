"""Connections with a PROXY header or TLS before them, over real sockets on one loop."""

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import cast

import pytest
import uvloop

from node.tls.acceptor import Acceptor, bound_socket
from node.tls.contexts import TlsFault, TlsSettings, server_context
from node.tls.keeper import TlsKeeper
from node.tls.proxy_protocol import Forwarded, TrustedProxies
from tests.unit.node.certificates import Authority

LOOPBACK = "127.0.0.1"
PROXIES = TrustedProxies((LOOPBACK,))


class Echo(asyncio.Protocol):
    """Answers what it hears, behind where it comes from."""

    def __init__(self, forwarded: Forwarded | None) -> None:
        self.source = "direct" if forwarded is None else f"{forwarded.source[0]}"

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)
        self.transport.write(self.source.encode() + b"\n")

    def data_received(self, data: bytes) -> None:
        self.transport.write(data)


def run(story: Coroutine[object, object, None]) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(20):
            await story

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(bounded())


@asynccontextmanager
async def accepting(
    keeper: TlsKeeper | None,
    proxies: TrustedProxies | None = None,
    timeout_s: float = 5.0,
    is_short: Callable[[int], bool] = lambda descriptor: False,
) -> AsyncIterator[Acceptor]:
    bound = bound_socket(LOOPBACK, 0, 16)
    acceptor = Acceptor(bound, Echo, keeper, proxies, timeout_s, is_short)
    acceptor.start()
    try:
        yield acceptor
    finally:
        acceptor.close()


async def greeted(port: int, context: ssl.SSLContext | None, first: bytes = b"") -> str:
    """Connect, hear the greeting and an echo; the greeting."""
    reader, writer = await asyncio.open_connection(LOOPBACK, port, ssl=context)
    try:
        writer.write(first + b"hello")
        greeting = await reader.readline()
        assert await reader.readexactly(5) == b"hello"
        return greeting.decode().strip()
    finally:
        writer.close()


def trusting(authority: Authority) -> ssl.SSLContext:
    return ssl.create_default_context(cafile=authority.cafile)


def serial(port: int, context: ssl.SSLContext) -> bytes:
    """The certificate that the listener shows now."""
    with (
        socket.create_connection((LOOPBACK, port), 10) as plain,
        context.wrap_socket(plain, server_hostname="localhost") as over,
    ):
        shown = over.getpeercert(binary_form=True)
        assert shown is not None
        return shown


def test_new_connections_have_the_new_certificate_and_old_ones_go_on(tmp_path: Path) -> None:
    async def story() -> None:
        authority = Authority(tmp_path)
        keeper = TlsKeeper("t", authority.settings())
        context = trusting(authority)
        async with accepting(keeper) as acceptor:
            reader, writer = await asyncio.open_connection(LOOPBACK, acceptor.port, ssl=context)
            await reader.readline()
            before = await asyncio.to_thread(serial, acceptor.port, context)
            await keeper.look()
            assert keeper.reloads == 0
            authority.issue("server")
            await keeper.look()
            assert keeper.reloads == 1
            after = await asyncio.to_thread(serial, acceptor.port, context)
            assert before != after
            writer.write(b"still here")
            assert await reader.readexactly(10) == b"still here"
            writer.close()

    run(story())


def test_files_that_cannot_be_used_leave_the_old_ones_in_force(tmp_path: Path) -> None:
    async def story() -> None:
        authority = Authority(tmp_path)
        settings = authority.settings()
        keeper = TlsKeeper("t", settings)
        kept = keeper.server
        good = settings.certfile.read_bytes()
        for wrong in (b"", good[: len(good) // 2], b"\x00" * 5000):
            settings.certfile.write_bytes(wrong)
            await keeper.look()
            assert keeper.server is kept
            assert str(settings.certfile) in keeper.last_fault
        settings.certfile.unlink()
        await keeper.look()
        assert (keeper.server, keeper.reloads) == (kept, 0)
        authority.issue("server")
        await keeper.look()
        assert (keeper.reloads, keeper.last_fault) == (1, "")

    run(story())


def test_a_key_of_another_certificate_is_refused_at_start(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    certfile, keyfile = authority.issue("one")
    _, other = authority.issue("two")
    for settings in (
        TlsSettings(certfile, other),
        TlsSettings(certfile, tmp_path / "none"),
        TlsSettings(certfile, keyfile, keyfile),
        TlsSettings(certfile, keyfile, ciphers="no-such-cipher"),
    ):
        with pytest.raises(TlsFault):
            TlsKeeper("t", settings)


def test_silence_and_rubbish_in_the_handshake_end_that_connection_alone(tmp_path: Path) -> None:
    async def story() -> None:
        authority = Authority(tmp_path)
        async with accepting(TlsKeeper("t", authority.settings()), timeout_s=0.3) as acceptor:
            silent, _ = await asyncio.open_connection(LOOPBACK, acceptor.port)
            rude, writer = await asyncio.open_connection(LOOPBACK, acceptor.port)
            writer.write(b"AMQP\x00\x00\x09\x01")
            assert await greeted(acceptor.port, trusting(authority)) == "direct"
            for reader in (silent, rude):
                try:
                    await reader.read()
                except ConnectionError:
                    continue
            while acceptor.failed < 2:
                await asyncio.sleep(0.01)
            assert await greeted(acceptor.port, trusting(authority)) == "direct"

    run(story())


@pytest.mark.parametrize("is_tls", [False, True])
def test_a_trusted_proxy_says_who_the_client_is(tmp_path: Path, is_tls: bool) -> None:
    line = b"PROXY TCP4 203.0.113.7 10.0.0.2 40000 5672\r\n"

    async def story() -> None:
        authority = Authority(tmp_path)
        keeper = TlsKeeper("t", authority.settings()) if is_tls else None
        async with accepting(keeper, PROXIES, 1.0) as acceptor:
            if not is_tls:
                assert await greeted(acceptor.port, None, line) == "203.0.113.7"
                return
            loop = asyncio.get_running_loop()
            plain = socket.socket()
            plain.setblocking(False)
            await loop.sock_connect(plain, (LOOPBACK, acceptor.port))
            await loop.sock_sendall(plain, line)
            reader, writer = await asyncio.open_connection(
                sock=plain, ssl=trusting(authority), server_hostname="localhost"
            )
            assert await reader.readline() == b"203.0.113.7\n"
            writer.close()

    run(story())


def test_a_proxy_without_its_header_and_a_stranger_with_one_are_not_believed() -> None:
    async def story() -> None:
        async with accepting(None, PROXIES, 0.3) as acceptor:
            reader, writer = await asyncio.open_connection(LOOPBACK, acceptor.port)
            writer.write(b"hello, world")
            assert await reader.read() == b""
            quiet, _ = await asyncio.open_connection(LOOPBACK, acceptor.port)
            assert await quiet.read() == b""
            assert acceptor.failed == 2
        async with accepting(None, TrustedProxies(("10.0.0.0/8",))) as acceptor:
            assert await greeted(acceptor.port, None) == "direct"

    run(story())


def test_versions_below_what_is_allowed_are_refused(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    context = server_context(authority.settings(versions=("tlsv1.3",)))
    assert context.minimum_version is ssl.TLSVersion.TLSv1_3
    both = server_context(authority.settings())
    assert (both.minimum_version, both.verify_mode) == (ssl.TLSVersion.TLSv1_2, ssl.CERT_NONE)
    asking = server_context(authority.settings(verify=True))
    needing = server_context(authority.settings(verify=True, fail_if_no_peer_cert=True))
    assert (asking.verify_mode, needing.verify_mode) == (ssl.CERT_OPTIONAL, ssl.CERT_REQUIRED)


def test_connection_on_a_descriptor_that_the_node_keeps_is_closed_before_tls() -> None:
    async def story() -> None:
        is_short = True
        async with accepting(None, is_short=lambda descriptor: is_short) as acceptor:
            reader, _ = await asyncio.open_connection(LOOPBACK, acceptor.port)
            with suppress(ConnectionResetError):
                assert await reader.read() == b""
            is_short = False
            assert await greeted(acceptor.port, None) == "direct"

    run(story())

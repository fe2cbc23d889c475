"""The name that a link or shovel sends and verifies when it connects over TLS."""

import asyncio
import ssl
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Final

import pytest

from federation import ends_amqp10
from federation.ends import Dialler, SideFailed
from federation.uris import BadUri, Uri, parse_uri
from tests.unit.node.certificates import Authority
from warren.client.errors import ClientError
from warren.client.sockets import Dial

NAME: Final = "broker.test"


def no_local(is_internal: bool) -> Dial:
    raise AssertionError("the URI names a host")


async def over_091(uri: Uri) -> object:
    return await Dialler(no_local).connect(uri, "/", "test")


async def over_10(uri: Uri) -> object:
    return await ends_amqp10.connect(uri, "/", "test", no_local)


BOTH = pytest.mark.parametrize("connect", [over_091, over_10])
Connect = Callable[[Uri], Awaitable[object]]


def dialled(folder: Path, connect: Connect, options: str) -> tuple[list[str | None], Exception]:
    """Names that a TLS server for NAME heard, and how connecting to it by its address ended; the
    server closes each connection after the handshake."""
    authority = Authority(folder)
    certfile, keyfile = authority.issue("server", NAME)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certfile, keyfile)
    heard: list[str | None] = []
    context.sni_callback = lambda sock, name, context: heard.append(name)

    async def story() -> Exception:
        server = await asyncio.start_server(
            lambda reader, writer: writer.close(), "127.0.0.1", 0, ssl=context
        )
        port = server.sockets[0].getsockname()[1]
        text = f"amqps://u:p@127.0.0.1:{port}?cacertfile={authority.cafile}&{options}"
        try:
            async with asyncio.timeout(10):
                await connect(parse_uri(text))
        except (ClientError, OSError, SideFailed, BadUri) as error:
            return error
        finally:
            server.close()
        raise AssertionError("no broker was there")

    return heard, asyncio.run(story())


@BOTH
def test_name_of_the_option_is_sent_and_verified(tmp_path: Path, connect: Connect) -> None:
    options = f"verify=verify_peer&server_name_indication={NAME}"
    heard, error = dialled(tmp_path, connect, options)
    assert heard == [NAME]
    assert isinstance(error, ClientError), "the handshake failed"


@BOTH
def test_certificate_of_another_name_is_refused(tmp_path: Path, connect: Connect) -> None:
    _, error = dialled(tmp_path, connect, "server_name_indication=other.test")
    assert isinstance(error, ssl.SSLCertVerificationError)
    assert "other.test" in str(error)


@BOTH
def test_host_is_verified_without_the_option(tmp_path: Path, connect: Connect) -> None:
    _, error = dialled(tmp_path, connect, "verify=verify_peer")
    assert isinstance(error, ssl.SSLCertVerificationError)


@BOTH
def test_disable_sends_no_name_and_verifies_the_chain_alone(
    tmp_path: Path, connect: Connect
) -> None:
    heard, error = dialled(tmp_path, connect, "server_name_indication=disable")
    assert heard == [None]
    assert isinstance(error, ClientError), "the handshake failed"


@BOTH
def test_name_is_sent_also_when_nothing_is_verified(tmp_path: Path, connect: Connect) -> None:
    options = f"verify=verify_none&server_name_indication={NAME}"
    heard, _ = dialled(tmp_path, connect, options)
    assert heard == [NAME]


@BOTH
@pytest.mark.parametrize("option", ["server_name_indication=.bad", "auth_mechanism=nonsense"])
def test_option_without_sense_is_a_fault_of_the_uri(
    tmp_path: Path, connect: Connect, option: str
) -> None:
    _, error = dialled(tmp_path, connect, option)
    assert isinstance(error, BadUri)

"""A WebSocket as a transport: order, back-pressure in both directions, and how it ends."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Final

import pytest
from aiohttp import WSCloseCode, WSMessage, WSMsgType

from node.connections.web_amqp import is_allowed
from node.connections.web_socket import FRAME_BYTES, WebSocketTransport

KIB: Final = 1024


class Browser:
    """The client's end of a WebSocket; `reads` is False while it takes nothing."""

    def __init__(self) -> None:
        self.sent: asyncio.Queue[WSMessage] = asyncio.Queue()
        self.got: list[bytes] = []
        self.closes: list[tuple[int, bytes]] = []
        self.reads = asyncio.Event()
        self.reads.set()
        self.taken = 0  # of what it has sent

    def say(self, payload: bytes, kind: WSMsgType = WSMsgType.BINARY) -> None:
        self.sent.put_nowait(WSMessage(kind, payload, None))

    async def receive(self) -> WSMessage:
        message = await self.sent.get()
        self.taken += 1
        return message

    async def send_bytes(self, data: bytes) -> None:
        self.got.append(data)
        await self.reads.wait()

    async def close(self, *, code: int = WSCloseCode.OK, message: bytes = b"") -> bool:
        if self.closes:
            return False
        self.closes.append((code, message))
        self.say(b"", WSMsgType.CLOSED)
        return True


class Below(asyncio.Transport):
    """The socket under the WebSocket."""

    def __init__(self, browser: Browser) -> None:
        super().__init__({"peername": ("10.0.0.1", 5)})
        self._browser = browser
        self._is_closing = False

    def abort(self) -> None:
        self._is_closing = True
        self._browser.say(b"", WSMsgType.ERROR)

    def is_closing(self) -> bool:
        return self._is_closing

    def get_write_buffer_size(self) -> int:
        return 7


class Client(asyncio.Protocol):
    """What an endpoint hears."""

    def __init__(self) -> None:
        self.read = b""
        self.is_paused = False
        self.lost_count = 0

    def data_received(self, data: bytes) -> None:
        assert isinstance(data, bytes)
        self.read += data

    def pause_writing(self) -> None:
        self.is_paused = True

    def resume_writing(self) -> None:
        self.is_paused = False

    def connection_lost(self, error: Exception | None) -> None:
        self.lost_count += 1


class World:
    """One connection."""

    def __init__(self) -> None:
        self.browser = Browser()
        self.client = Client()
        self.transport = WebSocketTransport(self.browser, Below(self.browser), self.client)

    async def settle(self) -> None:
        """Let every task run until all wait."""
        for _ in range(50):
            await asyncio.sleep(0)


def play(story: Callable[[World], Awaitable[None]]) -> World:
    """Run the story beside the connection, and see that this ends."""

    async def main() -> World:
        world = World()
        running = asyncio.create_task(world.transport.run())
        await world.settle()
        await story(world)
        await asyncio.wait_for(running, 5)
        return world

    world = asyncio.run(main())
    assert world.client.lost_count == 1
    return world


def test_payloads_are_one_stream_of_bytes() -> None:
    async def story(world: World) -> None:
        for part in (b"AM", b"", b"QP", b"\x00"):
            world.browser.say(part)
        await world.settle()
        assert world.client.read == b"AMQP\x00"
        world.transport.close()

    play(story)


def test_nothing_is_taken_while_reading_is_paused() -> None:
    async def story(world: World) -> None:
        world.transport.pause_reading()
        await world.settle()
        for part in (b"1", b"2", b"3"):
            world.browser.say(part)
        await world.settle()
        assert world.browser.taken <= 1  # That for which it was waiting already.
        world.transport.resume_reading()
        await world.settle()
        assert world.client.read == b"123"
        world.transport.close()

    play(story)


def test_the_endpoint_pauses_while_the_client_does_not_read() -> None:
    async def story(world: World) -> None:
        world.transport.set_write_buffer_limits(high=256 * KIB)
        world.browser.reads.clear()
        world.transport.write(bytes(256 * KIB))
        assert not world.client.is_paused
        world.transport.write(b"x")
        assert world.client.is_paused
        await world.settle()
        assert len(world.browser.got) == 1  # The others wait here.
        assert world.transport.get_write_buffer_size() == 256 * KIB + 1 + 7
        world.browser.reads.set()
        await world.settle()
        assert not world.client.is_paused
        assert world.transport.get_write_buffer_size() == 7
        world.transport.close()

    play(story)


def test_what_is_written_leaves_in_order_in_frames_of_limited_size() -> None:
    expected = bytes(range(256)) * 1000

    async def story(world: World) -> None:
        world.transport.write(expected[:5])
        world.transport.writelines([expected[5:7], memoryview(expected)[7:200_000]])
        await world.settle()
        world.transport.write(expected[200_000:])
        world.transport.close()
        world.transport.write(b"after the close")

    world = play(story)
    assert b"".join(world.browser.got) == expected
    assert max(map(len, world.browser.got)) <= FRAME_BYTES
    assert world.browser.closes == [(WSCloseCode.OK, b"")]


def test_a_close_lets_nothing_more_in() -> None:
    async def story(world: World) -> None:
        world.transport.pause_reading()
        world.browser.say(b"late")
        world.transport.close()

    assert play(story).client.read == b""


def test_an_end_of_writing_still_reads() -> None:
    async def story(world: World) -> None:
        world.transport.write(b"bye")
        world.browser.say(b"late")
        world.transport.write_eof()

    world = play(story)
    assert (world.browser.got, world.client.read) == ([b"bye"], b"late")


def test_text_is_refused_with_code_1003() -> None:
    async def story(world: World) -> None:
        world.browser.say(b"AMQP", WSMsgType.TEXT)

    world = play(story)
    assert world.client.read == b""
    assert world.browser.closes[0][0] == WSCloseCode.UNSUPPORTED_DATA


@pytest.mark.parametrize("paused", [False, True])
def test_an_abort_ends_the_connection_also_while_it_is_not_read(paused: bool) -> None:
    async def story(world: World) -> None:
        if paused:
            world.transport.pause_reading()
            world.browser.say(b"the read under way")
            await world.settle()
        world.browser.reads.clear()
        world.transport.write(bytes(100 * KIB))
        await world.settle()
        world.transport.abort()
        assert world.client.lost_count == 0  # Not within the call.
        assert world.transport.is_closing()

    play(story)


def test_a_client_that_is_gone_ends_the_connection_while_it_is_not_read() -> None:
    async def story(world: World) -> None:
        world.transport.pause_reading()

        async def gone(data: bytes) -> None:
            raise ConnectionResetError

        browser: Any = world.browser
        browser.send_bytes = gone
        world.transport.write(b"x")

    play(story)


@pytest.mark.parametrize(
    ("origin", "host", "allowed", "expected"),
    [
        ("http://h:15672", "h:15672", (), True),
        ("https://H", "h:443", (), True),
        ("http://h", "h", (), True),
        ("http://h", "h:15672", (), False),
        ("http://h.evil.example", "h", (), False),
        ("null", "null", (), False),
        ("", "", (), False),
        ("https://a.example", "h", ("https://A.example/",), True),
        ("https://b.example", "h", ("https://a.example",), False),
        ("https://b.example", "h", ("*",), True),
    ],
)
def test_a_page_may_connect_to_its_own_host_and_if_it_is_named(
    origin: str, host: str, allowed: tuple[str, ...], expected: bool
) -> None:
    assert is_allowed(origin, host, allowed) is expected

"""Takes a client of TCP to a broker over WebSocket, in messages that end anywhere.

with Relay("ws://127.0.0.1:15672/ws", (1, 7)) as port:
    pika.BlockingConnection(pika.ConnectionParameters(port=port))
"""

import asyncio
import random
import threading
from typing import Any, Final

import aiohttp

SUBPROTOCOL: Final = "amqp"
READ_BYTES: Final = 64 * 1024


class Relay:
    """A listener in a thread of its own; each of its connections has a WebSocket."""

    def __init__(self, url: str, sizes: tuple[int, int], ssl: Any = True) -> None:
        """`sizes`: of the messages, at least and at most."""
        self._url = url
        self._sizes = sizes
        self._ssl = ssl
        self._random = random.Random(5)
        self._loop = asyncio.new_event_loop()
        self._ended = asyncio.Event()
        self._thread = threading.Thread(target=self._loop.run_until_complete, args=[self._serve()])
        self._is_ready = threading.Event()
        self._port = 0

    def __enter__(self) -> int:
        self._thread.start()
        assert self._is_ready.wait(10)
        return self._port

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._ended.set)
        self._thread.join(10)
        self._loop.close()

    async def _serve(self) -> None:
        async with aiohttp.ClientSession() as session:

            async def connected(reader: Any, writer: Any) -> None:
                await self._carry(session, reader, writer)

            server = await asyncio.start_server(connected, "127.0.0.1", 0)
            self._port = server.sockets[0].getsockname()[1]
            self._is_ready.set()
            await self._ended.wait()
            server.close()

    async def _carry(
        self, session: aiohttp.ClientSession, reader: asyncio.StreamReader, writer: Any
    ) -> None:
        async with session.ws_connect(
            self._url, protocols=[SUBPROTOCOL], max_msg_size=0, ssl=self._ssl
        ) as web:
            sending = asyncio.create_task(self._send(reader, web))
            async for message in web:
                writer.write(message.data)
                await writer.drain()
            sending.cancel()
        writer.close()

    async def _send(self, reader: asyncio.StreamReader, web: Any) -> None:
        while read := await reader.read(READ_BYTES):
            at = 0
            while at < len(read):
                size = self._random.randint(*self._sizes)
                await web.send_bytes(read[at : at + size])
                at += size
        await web.close()

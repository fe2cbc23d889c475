"""A WebSocket as an asyncio transport: the AMQP endpoints of TCP serve WebSocket clients as well.

    transport = WebSocketTransport(socket, below, Greeting(broker))
    await transport.run()     # until the connection is over

The payloads of binary frames are one stream of bytes in each direction: no frame of AMQP has to
begin or end with a frame of WebSocket. Back-pressure works in both directions. While the endpoint
pauses reading, nothing is taken from the WebSocket, whose own buffer then stops the socket below.
What the endpoint writes is sent by a task that waits while the client does not read; the endpoint
hears of it by `pause_writing`.
"""

import asyncio
from collections.abc import Iterable
from typing import Any, Final, Protocol

from aiohttp import WSCloseCode, WSMessage, WSMsgType

FRAME_BYTES: Final = 64 * 1024  # of one binary frame that is sent
HIGH_BYTES: Final = 1024 * 1024
LOW_SHARE: Final = 4  # of the high mark, below which the endpoint may write again
TEXT_REFUSED: Final = b"AMQP needs binary frames"


class Socket(Protocol):
    """What is used of `aiohttp.web.WebSocketResponse`."""

    async def receive(self) -> WSMessage: ...
    async def send_bytes(self, data: bytes) -> None: ...
    async def close(self, *, code: int = WSCloseCode.OK, message: bytes = b"") -> bool: ...


class WebSocketTransport(asyncio.Transport):
    """One connection; see the module. `below`: the transport of the TCP or TLS connection."""

    def __init__(
        self, socket: Socket, below: asyncio.Transport, protocol: asyncio.BaseProtocol
    ) -> None:
        super().__init__()
        self._socket = socket
        self._below = below
        self._protocol: Any = protocol
        self._parts: list[bytes] = []  # to be sent
        self._parts_bytes = 0
        self._high_bytes = HIGH_BYTES
        self._is_writing_paused = False
        self._is_ending = False  # a close frame follows what is still to be sent
        self._is_closing = False  # what comes is dropped
        self._wake = asyncio.Event()  # the task that sends
        self._may_read = asyncio.Event()
        self._may_read.set()

    async def run(self) -> None:
        """Serve the connection until it is over; then the protocol hears `connection_lost`."""
        self._protocol.connection_made(self)
        sending = asyncio.create_task(self._send())
        code, reason = WSCloseCode.OK, b""
        try:
            code, reason = await self._receive()
        finally:
            self._is_closing = True
            self._protocol.connection_lost(None)
            if not self._is_ending:
                sending.cancel()
            await asyncio.gather(sending, return_exceptions=True)
        await self._socket.close(code=code, message=reason)

    async def _receive(self) -> tuple[WSCloseCode, bytes]:
        """Hand over what comes; returns how the connection is to be closed."""
        while True:
            await self._may_read.wait()
            message = await self._socket.receive()
            if message.type is WSMsgType.TEXT:
                return WSCloseCode.UNSUPPORTED_DATA, TEXT_REFUSED
            if message.type is not WSMsgType.BINARY:
                return WSCloseCode.OK, b""
            if message.data and not self._is_closing:
                self._protocol.data_received(bytes(message.data))

    async def _send(self) -> None:
        """Send what is written, in order, as fast as the client reads it."""
        try:
            while True:
                await self._wake.wait()
                self._wake.clear()
                while self._parts:
                    await self._send_parts()
                if self._is_ending:
                    await self._socket.close()
                    return
        except ConnectionError:
            self.abort()

    async def _send_parts(self) -> None:
        view = memoryview(b"".join(self._parts))
        self._parts = []
        for start in range(0, len(view), FRAME_BYTES):
            part = view[start : start + FRAME_BYTES]
            await self._socket.send_bytes(bytes(part))
            self._parts_bytes -= len(part)
            if self._is_writing_paused and self._parts_bytes <= self._high_bytes // LOW_SHARE:
                self._is_writing_paused = False
                self._protocol.resume_writing()

    # asyncio.Transport

    def write(self, data: bytes | bytearray | memoryview) -> None:
        if self._is_ending or self._is_closing or not data:
            return
        self._parts.append(bytes(data))
        self._parts_bytes += len(data)
        self._wake.set()
        if self._parts_bytes > self._high_bytes and not self._is_writing_paused:
            self._is_writing_paused = True
            self._protocol.pause_writing()

    def writelines(self, list_of_data: Iterable[bytes | bytearray | memoryview]) -> None:
        self.write(b"".join(list_of_data))

    def can_write_eof(self) -> bool:
        return True

    def write_eof(self) -> None:
        """Send a close frame behind what was written; what the client still sends is read."""
        self._is_ending = True
        self._wake.set()

    def close(self) -> None:
        self._is_closing = True
        self._may_read.set()
        self.write_eof()

    def abort(self) -> None:
        self._is_closing = True
        self._may_read.set()
        self._below.abort()

    def is_closing(self) -> bool:
        return self._is_closing or self._below.is_closing()

    def pause_reading(self) -> None:
        self._may_read.clear()

    def resume_reading(self) -> None:
        self._may_read.set()

    def is_reading(self) -> bool:
        return self._may_read.is_set()

    def get_write_buffer_size(self) -> int:
        return self._parts_bytes + self._below.get_write_buffer_size()

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """`low` is a share of `high`."""
        self._high_bytes = HIGH_BYTES if high is None else high

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        self._protocol = protocol

    def get_protocol(self) -> asyncio.BaseProtocol:
        protocol: asyncio.BaseProtocol = self._protocol
        return protocol

    def get_extra_info(self, name: str, default: object = None) -> Any:
        return self._below.get_extra_info(name, default)

"""Sockets of connections that are over: half-closed, read on, and closed in the end."""

import asyncio
import socket

from node.connections.half_closed import Parting, Partings

MEGABYTE = b"x" * (1 << 20)


class Server:
    """One accepted connection of this loop, and the blocking socket of its client."""

    def __init__(self) -> None:
        self.lost = asyncio.Event()
        near, self.client = socket.socketpair()
        near.setblocking(False)
        self.client.settimeout(10)
        self.near = near
        self.transport: asyncio.Transport | None = None

    async def begin(self, partings: Partings, heartbeat_s: float) -> asyncio.Transport:
        loop = asyncio.get_running_loop()
        transport, _ = await loop.create_connection(asyncio.Protocol, sock=self.near)
        transport.write(b"close-ok")
        partings.begin(transport, heartbeat_s)
        return transport


async def ended(transport: asyncio.Transport) -> None:
    async with asyncio.timeout(10):
        while not transport.is_closing():
            await asyncio.sleep(0.01)


def test_the_client_reads_the_end_and_may_send_on_until_it_closes() -> None:
    async def story() -> None:
        partings, server = Partings(), Server()
        transport = await server.begin(partings, 0)
        assert await asyncio.to_thread(server.client.recv, 100) == b"close-ok"
        assert await asyncio.to_thread(server.client.recv, 100) == b""
        for _ in range(3):
            await asyncio.to_thread(server.client.sendall, MEGABYTE)
        assert not transport.is_closing()
        server.client.close()
        await ended(transport)

    asyncio.run(story())


def test_a_client_that_never_closes_is_cut_after_its_heartbeat() -> None:
    async def story() -> None:
        partings, server = Partings(), Server()
        transport = await server.begin(partings, 0.05)
        await ended(transport)
        server.client.close()

    asyncio.run(story())


def test_the_oldest_is_cut_where_too_many_wait_and_all_when_the_node_stops() -> None:
    async def story() -> None:
        partings = Partings(count_max=2)
        servers = [Server() for _ in range(3)]
        transports = [await server.begin(partings, 0) for server in servers]
        await ended(transports[0])
        assert not transports[1].is_closing()
        assert not transports[2].is_closing()
        partings.abort_all()
        for transport, server in zip(transports, servers, strict=True):
            await ended(transport)
            server.client.close()

    asyncio.run(story())


def test_a_socket_that_is_closing_already_is_left_alone() -> None:
    async def story() -> None:
        partings, server = Partings(), Server()
        loop = asyncio.get_running_loop()
        transport, protocol = await loop.create_connection(asyncio.Protocol, sock=server.near)
        transport.abort()
        partings.begin(transport, 0)
        assert not isinstance(transport.get_protocol(), Parting)
        assert protocol is transport.get_protocol()
        server.client.close()

    asyncio.run(story())

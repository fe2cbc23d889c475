"""Connections of the node to its own broker, for shovels and links: a pair of sockets, no port.

One end speaks as `warren.client`, the other is taken in as any AMQP connection, so that flow
control, confirms and queues of other nodes work as for every client.
"""

import asyncio
import itertools
import socket
from typing import TYPE_CHECKING, Final

from node.connections.listener import Greeting
from node.tls.proxy_protocol import Forwarded
from warren.client.sockets import Dial, Socket

if TYPE_CHECKING:
    from node.broker import Broker

LOOPBACK: Final = "127.0.0.1"
FIRST_NUMBER: Final = 65_536  # in place of a port: no TCP connection has it


class LocalDial:
    """Keeps `federation.ends.LocalDial`."""

    def __init__(self, broker: "Broker") -> None:
        self._broker = broker
        self._numbers = itertools.count(FIRST_NUMBER)

    def __call__(self, is_internal: bool) -> Dial:
        async def dial(client: Socket) -> None:
            ours, theirs = socket.socketpair()
            place = (LOOPBACK, next(self._numbers))
            greeting = Greeting(
                self._broker, Forwarded(place, (LOOPBACK, 0)), is_internal=is_internal
            )
            loop = asyncio.get_running_loop()
            try:
                await loop.create_connection(lambda: greeting, sock=theirs)
                await loop.create_connection(lambda: client, sock=ours)
            except BaseException:
                ours.close()
                theirs.close()
                raise

        return dial

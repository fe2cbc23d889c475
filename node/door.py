"""The AMQP listener as something that can be shut and opened again, for maintenance (N-07).

    door = AmqpDoor(broker, "0.0.0.0", 5672)
    await door.open()             # OSError: the port cannot be had; `door.port` is it
    door.close()                  # no new clients; those that are in stay

Opened again it has the port that it had at first, also where the system chose that.
"""

import asyncio
from typing import TYPE_CHECKING

from node.listener import listen

if TYPE_CHECKING:
    from node.broker import Broker


class AmqpDoor:
    """See the module."""

    def __init__(self, broker: "Broker", host: str, port: int) -> None:
        self._broker = broker
        self._server: asyncio.Server | None = None
        self.host = host
        self.port = port

    @property
    def is_open(self) -> bool:
        return self._server is not None

    async def open(self) -> None:
        """Take clients; nothing changes if it is open."""
        if self._server is None:
            self._server = await listen(self._broker, self.host, self.port)
            self.port = int(self._server.sockets[0].getsockname()[1])

    def close(self) -> None:
        server, self._server = self._server, None
        if server is not None:
            server.close()

"""How both clients come to a broker: the socket, and the waits between attempts."""

import asyncio
import random
import ssl
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final

from warren.client.url import BrokerUrl

TIMEOUT_S: Final = 10.0  # of every wait for the broker, unless told


@dataclass(frozen=True, slots=True)
class Backoff:
    """Before dialling again: `first_s`, then twice as long each time, up to `max_s`; a random
    part of it between a half and all.
    """

    first_s: float = 0.1
    max_s: float = 10.0

    def wait_s(self, attempt: int) -> float:
        return min(self.max_s, self.first_s * 2.0 ** min(attempt, 30)) * random.uniform(0.5, 1.0)


def socket_dial(
    url: BrokerUrl, tls: ssl.SSLContext | None
) -> Callable[[asyncio.Protocol], Awaitable[None]]:
    """The way to the broker at that address."""

    async def dial(line: asyncio.Protocol) -> None:
        context = (tls or ssl.create_default_context()) if url.tls else None
        loop = asyncio.get_running_loop()
        await loop.create_connection(lambda: line, url.host, url.port, ssl=context)

    return dial

"""How both clients come to a broker: the socket, and dialling again when a connection is lost."""

import asyncio
import random
import ssl
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from itertools import count
from typing import Final

from warren.client.errors import ClientError, LoginFailed
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


class Redial:
    """Has a lost connection dialled again, for as long as it takes.

    `dial` makes one attempt, and raises OSError or ClientError if that fails. A login that is
    refused ends it: `refused` is called. With `backoff` None nothing is dialled again.

    Invariant: one attempt at a time.
    """

    def __init__(
        self,
        backoff: Backoff | None,
        dial: Callable[[], Awaitable[None]],
        refused: Callable[[LoginFailed], None],
    ) -> None:
        self._backoff = backoff
        self._dial = dial
        self._refused = refused
        self._task: asyncio.Task[None] | None = None

    @property
    def is_off(self) -> bool:
        return self._backoff is None

    def begin(self) -> None:
        """The connection is lost."""
        if self._backoff is not None:
            self._task = asyncio.create_task(self._run(self._backoff))

    async def stop(self) -> None:
        """Dial no more; returns when no attempt is under way."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])

    async def _run(self, backoff: Backoff) -> None:
        for attempt in count():
            await asyncio.sleep(backoff.wait_s(attempt))
            try:
                await self._dial()
            except LoginFailed as error:
                self._refused(error)
            except (OSError, ClientError):
                continue  # TimeoutError is an OSError. The broker may come back yet.
            return


def socket_dial(
    url: BrokerUrl, tls: ssl.SSLContext | None, server_name: str | None = None
) -> Callable[[asyncio.Protocol], Awaitable[None]]:
    """The way to the broker at that address. `server_name` is sent and verified over TLS in place
    of the host; "": no name is sent, and `tls` must not check one."""

    async def dial(line: asyncio.Protocol) -> None:
        context = (tls or ssl.create_default_context()) if url.tls else None
        name = server_name if url.tls else None
        loop = asyncio.get_running_loop()
        await loop.create_connection(
            lambda: line, url.host, url.port, ssl=context, server_hostname=name
        )

    return dial

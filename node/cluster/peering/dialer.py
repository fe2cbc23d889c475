"""Dials one peer, over and over: a control connection, then the bulk connection beside it.

Takes from its `Dials` a new socket for each try; the outcome is sent to the sockets' owner by
the sockets themselves. Between tries it waits, longer each time and by chance, so that nodes that
lost each other together do not come back together. Tells the log why it cannot get through, once
per reason.
"""

import asyncio
import logging
from random import Random
from typing import Final, Protocol

from node.cluster.peering.link_settings import LinkSettings
from node.cluster.peering.link_socket import LinkSocket
from node.supervision import supervised
from node.tls.acceptor import Contexts
from warren.wire.peer.codes import BULK_ROLE, CONTROL_ROLE

log = logging.getLogger("warren.peers")

REFUSED: Final = "cannot connect: the port refuses connections"  # no process listens there
JITTER_MIN: Final = 0.5  # the share of a pause that is never left out


class Backoff:
    """How long to wait before the next try."""

    def __init__(self, min_ms: int, max_ms: int, random: Random) -> None:
        self._min_ms = min_ms
        self._max_ms = max_ms
        self._random = random
        self._next_ms = min_ms

    def reset(self) -> None:
        """It worked: start again."""
        self._next_ms = self._min_ms

    def next_s(self) -> float:
        """The next pause, in seconds."""
        share = JITTER_MIN + (1 - JITTER_MIN) * self._random.random()
        pause_ms = share * self._next_ms
        self._next_ms = min(2 * self._next_ms, self._max_ms)
        return pause_ms / 1000


class Dials(Protocol):
    """Who wants the peer dialed."""

    def draw_pair(self) -> int:
        """A number for a new link."""

    def dialed(self, member: int, role: int, pair: int) -> LinkSocket:
        """A socket that is not connected yet."""

    def unreachable(self, member: int, reason: str) -> None:
        """No link could be made, and this is a new reason."""


class Dialer:
    """The task that keeps a link to one peer. `cancel` ends it; the link is its owner's to end."""

    def __init__(
        self,
        dials: Dials,
        member: int,
        address: tuple[str, int],
        settings: LinkSettings,
        tls: Contexts | None,
        random: Random,
    ) -> None:
        self.last_error = ""
        self._dials = dials
        self._member = member
        self._address = settings.way_to(address)
        self._settings = settings
        self._tls = tls
        self._backoff = Backoff(settings.retry_ms_min, settings.retry_ms_max, random)
        self._hurried = asyncio.Event()
        name = f"peer link to node {member}"
        self.task = asyncio.get_running_loop().create_task(supervised(name, self._run))

    def cancel(self) -> None:
        self.task.cancel()

    def hurry(self) -> None:
        """The peer is said to be there: try now."""
        self._backoff.reset()
        self._hurried.set()

    async def _run(self) -> None:
        while True:
            reason = await self._try()
            if reason and reason != self.last_error:
                host, port = self._address
                log.warning("peer link to node %d at %s:%d: %s", self._member, host, port, reason)
                self._dials.unreachable(self._member, reason)
            self.last_error = reason
            await self._pause()

    async def _pause(self) -> None:
        try:
            async with asyncio.timeout(self._backoff.next_s()):
                await self._hurried.wait()
        except TimeoutError:
            return
        finally:
            self._hurried.clear()

    async def _try(self) -> str:
        """One link from its beginning to its end; why it did not come up, or ''."""
        pair = self._dials.draw_pair()
        control = self._dials.dialed(self._member, CONTROL_ROLE, pair)
        reason = await open_socket(control, self._address, self._settings, self._tls)
        if reason:
            return reason
        bulk = self._dials.dialed(self._member, BULK_ROLE, pair)
        reason = await open_socket(bulk, self._address, self._settings, self._tls)
        if reason:
            control.abort(f"the bulk connection failed: {reason}")
            return reason
        self.last_error = ""
        began = asyncio.get_running_loop().time()
        await control.ending
        lasted_ms = (asyncio.get_running_loop().time() - began) * 1000
        if lasted_ms > self._settings.retry_ms_max:
            self._backoff.reset()
        return ""


async def open_socket(
    socket: LinkSocket,
    address: tuple[str, int],
    settings: LinkSettings,
    tls: Contexts | None,
) -> str:
    """Connect, and let both sides prove who they are; '' or what went wrong."""
    loop = asyncio.get_running_loop()
    host, port = address
    handshake_s = settings.handshake_timeout_ms / 1000 if tls else None
    try:
        async with asyncio.timeout(settings.connect_timeout_ms / 1000):
            await loop.create_connection(
                lambda: socket,
                host,
                port,
                ssl=tls.client if tls else None,
                server_hostname=host if tls else None,
                ssl_handshake_timeout=handshake_s,
            )
        return await socket.opening
    except TimeoutError:
        reason = f"no connection within {settings.connect_timeout_ms} ms"
    except ConnectionRefusedError:
        reason = REFUSED
    except (OSError, UnicodeError) as error:  # The latter: a host name that cannot be one.
        reason = f"cannot connect: {getattr(error, 'strerror', None) or error}"
    except asyncio.CancelledError:
        socket.abort("dialing was stopped")
        raise
    socket.abort(reason)
    return reason

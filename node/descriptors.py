"""Keeps file descriptors for the node itself: the log, peers and operators.

The system gives the lowest free number to each new descriptor. The number of a new socket therefore
says how many are open, and costs no look at the process.
"""

import asyncio
import logging
import resource
from collections.abc import Callable
from time import monotonic
from typing import Final

log = logging.getLogger("warren.listener")

KEPT: Final = 128  # at most, and at most a quarter of the limit
LOG_S: Final = 60.0


def files_max() -> int:
    """The soft limit of open files."""
    return resource.getrlimit(resource.RLIMIT_NOFILE)[0]


class Descriptors:
    """Says whether one more client connection fits."""

    def __init__(
        self, files_max: Callable[[], int], now_s: Callable[[], float] = monotonic
    ) -> None:
        self._files_max = files_max
        self.refused_count = 0
        self._now_s = now_s
        self._logged_s = -LOG_S
        self._operators: list[asyncio.Transport] = []  # HTTP, on descriptors kept for the node

    def is_short(self, transport: asyncio.BaseTransport) -> bool:
        """Whether the socket takes a descriptor that is kept for the node; its owner closes it."""
        below = self._clients_below()
        if not is_from(transport, below):
            return False
        self._refuse("AMQP", below)
        return True

    def is_short_for_operator(self, transport: asyncio.Transport) -> bool:
        """The same of an HTTP connection. Together they may take half of what is kept, so that
        operators get in while AMQP clients have all the rest."""
        below = self._clients_below()
        if not is_from(transport, below):
            return False
        self._operators = [each for each in self._operators if not each.is_closing()]
        if len(self._operators) >= (self._files_max() - below) // 2:
            self._refuse("HTTP", below)
            return True
        self._operators.append(transport)
        return False

    def is_short_in_handshake(self, descriptor: int) -> bool:
        """The same of an AMQP connection that has not sent its first byte of AMQP yet."""
        below = self._clients_below()
        if descriptor >= below:
            self._refuse("AMQP", below)
        return descriptor >= below

    def is_short_in_operators_handshake(self, descriptor: int) -> bool:
        """The same of HTTPS: operators get in by half of what is kept."""
        below = self._clients_below()
        below += (self._files_max() - below) // 2
        if descriptor >= below:
            self._refuse("HTTP", below)
        return descriptor >= below

    def _clients_below(self) -> int:
        files_max = self._files_max()
        return files_max - min(KEPT, files_max // 4)

    def _refuse(self, protocol: str, below: int) -> None:
        self.refused_count += 1
        now_s = self._now_s()
        if now_s - self._logged_s >= LOG_S:
            self._logged_s = now_s
            log.error(
                "closing new %s connections: the limit of open files leaves room for clients up "
                "to descriptor %d; %d were closed so far; raise the limit (ulimit -n)",
                protocol,
                below,
                self.refused_count,
            )


def is_from(transport: asyncio.BaseTransport, least: int) -> bool:
    """Whether the socket has that descriptor or a higher one."""
    socket = transport.get_extra_info("socket")
    return socket is not None and socket.fileno() >= least

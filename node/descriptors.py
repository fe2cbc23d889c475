"""Keeps file descriptors for the node itself: the log, peers and operators.

The system gives the lowest free number to each new descriptor. The number of a new socket therefore
says how many are open, and costs no look at the process.
"""

import asyncio
import logging
from collections.abc import Callable
from time import monotonic
from typing import Final

log = logging.getLogger("warren.listener")

KEPT: Final = 128  # at most, and at most a quarter of the limit
LOG_S: Final = 60.0


class Descriptors:
    """Says whether one more client connection fits."""

    def __init__(
        self, files_max: Callable[[], int], now_s: Callable[[], float] = monotonic
    ) -> None:
        self._files_max = files_max
        self.refused_count = 0
        self._now_s = now_s
        self._logged_s = -LOG_S

    def is_short(self, transport: asyncio.BaseTransport) -> bool:
        """Whether the socket takes a descriptor that is kept for the node; its owner closes it."""
        socket = transport.get_extra_info("socket")
        files_max = self._files_max()
        clients_below = files_max - min(KEPT, files_max // 4)
        if socket is None or socket.fileno() < clients_below:
            return False
        self.refused_count += 1
        now_s = self._now_s()
        if now_s - self._logged_s >= LOG_S:
            self._logged_s = now_s
            log.error(
                "closing new AMQP connections: the limit of open files leaves room for clients up "
                "to descriptor %d; %d were closed so far; raise the limit (ulimit -n)",
                clients_below,
                self.refused_count,
            )
        return True

"""Keep tasks and timers running that must live as long as the node.

    task = loop.create_task(supervised("watch of memory", self._observe))
    ticks = Repeating("beats to peers", 0.5, self._beat, loop.call_later)

`Repeating` logs a call that raises and makes the next call in time. `tick_or_abort` closes a
connection whose timer fails.

A task that raises is logged with its traceback and started again after 1, 2, ... 16 s; one that ran
for a minute starts the row again. Cancelling the task ends it; a task that returns is done.
"""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from typing import Final, Protocol

from node.timers import CallLater, Handle, until_next

log = logging.getLogger("warren.node")

PAUSE_S_MIN: Final = 1.0
PAUSE_S_MAX: Final = 16.0
CALM_S: Final = 60.0  # a run as long as this was sound


async def supervised(
    name: str,
    work: Callable[[], Awaitable[None]],
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
) -> None:
    """Await `work()` until it returns; start it again when it raises."""
    loop = asyncio.get_running_loop()
    pause_s = PAUSE_S_MIN
    while True:
        begun_s = loop.time()
        try:
            await work()
        except Exception:
            if loop.time() - begun_s >= CALM_S:
                pause_s = PAUSE_S_MIN
            log.exception("the task '%s' failed and is restarted in %g s", name, pause_s)
        else:
            return
        await sleep(pause_s)
        pause_s = min(2 * pause_s, PAUSE_S_MAX)


class Repeating:
    """Calls `work` every `seconds`, at multiples of that (`until_next`), until `stop`."""

    def __init__(
        self,
        name: str,
        seconds: float,
        work: Callable[[], None],
        call_later: CallLater,
        clock_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self._name = name
        self._seconds = seconds
        self._work = work
        self._call_later = call_later
        self._clock_s = clock_s
        self._is_stopped = False
        self._is_working = False
        self._handle: Handle | None = None
        self._plan()

    def _plan(self) -> None:
        self._handle = self._call_later(until_next(self._seconds, self._clock_s()), self._run)

    def _run(self) -> None:
        self._handle = None
        self._is_working = True
        try:
            self._work()
        except Exception:
            log.exception("the timer '%s' failed and is called again", self._name)
        self._is_working = False
        if not self._is_stopped:
            self._plan()

    def every(self, seconds: float) -> None:
        """Call in another interval from now on."""
        is_sooner = seconds < self._seconds
        self._seconds = seconds
        if is_sooner and self._handle is not None and not self._is_working:
            self._handle.cancel()
            self._plan()

    def stop(self) -> None:
        """Make no further call."""
        self._is_stopped = True
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None


class Abortable(Protocol):
    """The transport of a connection."""

    def abort(self) -> None: ...


class Ticking(Protocol):
    """A connection."""

    @property
    def name(self) -> str: ...

    @property
    def transport(self) -> Abortable: ...

    def tick(self, now_ms: int) -> None: ...


def tick_or_abort(connection: Ticking, now_ms: int) -> bool:
    """Let a connection send its heartbeats. One that fails is logged and closed: False."""
    try:
        connection.tick(now_ms)
    except Exception:
        log.exception("%s: internal error in a timer, closing the connection", connection.name)
        connection.transport.abort()
        return False
    return True

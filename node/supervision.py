"""Keep tasks running that must live as long as the node.

    task = loop.create_task(supervised("watch of memory", self._observe))

A task that raises is logged with its traceback and started again after 1, 2, ... 16 s; one that ran
for a minute starts the row again. Cancelling the task ends it; a task that returns is done.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Final

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

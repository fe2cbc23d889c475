"""An object store in memory that outlives the nodes. Calls end at once, or fail as told."""

from collections.abc import AsyncIterator, Coroutine
from random import Random
from typing import Any, TypeVar

from warren.storage.objects.store import NoSuchObject, StoreUnavailable

T = TypeVar("T")


class SimObjects:
    """Keeps `warren.storage.objects.store.ObjectStore`."""

    def __init__(self, random: Random) -> None:
        self.objects: dict[str, bytes] = {}
        self.is_down = False
        self.fails = 0.0  # how often a call fails, before or after it has done its work
        self.tears = 0.0  # how often an object is not what was put
        self._random = random

    def _may_fail(self) -> None:
        if self.is_down or self._random.random() < self.fails:
            raise StoreUnavailable("the simulated store does not answer")

    async def put(self, key: str, parts: AsyncIterator[bytes]) -> None:
        content = b"".join([part async for part in parts])
        self._may_fail()
        if self._random.random() < self.tears:
            at = self._random.randrange(len(content))
            content = content[:at] + bytes([content[at] ^ 1]) + content[at + 1 :]
        self.objects[key] = content
        self._may_fail()

    async def get(self, key: str, start: int, length: int) -> bytes:
        self._may_fail()
        if key not in self.objects:
            raise NoSuchObject(key)
        return self.objects[key][start : start + length]

    async def keys(self, prefix: str) -> list[str]:
        self._may_fail()
        return sorted(key for key in self.objects if key.startswith(prefix))

    async def folders(self, prefix: str) -> list[str]:
        self._may_fail()
        rest = [key.removeprefix(prefix) for key in self.objects if key.startswith(prefix)]
        return sorted({each.partition("/")[0] for each in rest})

    async def delete(self, key: str) -> None:
        self._may_fail()
        self.objects.pop(key, None)
        self._may_fail()

    async def close(self) -> None:
        """Nothing is open."""


def run_at_once(work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine that waits for nothing."""
    try:
        work.send(None)
    except StopIteration as stop:
        found: T = stop.value
        return found
    work.close()
    raise AssertionError("the coroutine waits for something")


async def on_no_thread(work: Any, *arguments: Any) -> Any:
    return work(*arguments)

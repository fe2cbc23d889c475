"""An event loop whose clock jumps to the next timer instead of waiting."""

import asyncio
import selectors
from collections.abc import Coroutine
from typing import Any


class Skipping(selectors.DefaultSelector):
    """Advances the loop's clock instead of waiting."""

    now_s = 0.0

    def select(self, timeout: float | None = None) -> Any:
        found = super().select(0)
        if not found:
            assert timeout is not None, "the simulation waits for nothing"
            self.now_s += timeout
        return found


class Loop(asyncio.SelectorEventLoop):
    """Virtual time."""

    def __init__(self) -> None:
        self._skipping = Skipping()
        super().__init__(self._skipping)

    def time(self) -> float:
        return self._skipping.now_s


def played(work: Coroutine[Any, Any, None]) -> None:
    with asyncio.Runner(loop_factory=Loop) as runner:
        runner.run(work)

"""An event loop whose clock jumps to the next timer instead of waiting."""

import asyncio
import gc
import os
import selectors
import struct
import zlib
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from random import Random
from typing import Any
from unittest.mock import patch


class Skipping(selectors.DefaultSelector):
    """Advances the loop's clock instead of waiting. `trace` is a checksum of the time and the
    wait of each round of the loop."""

    now_s = 0.0
    trace = 0

    def select(self, timeout: float | None = None) -> Any:
        found = super().select(0)
        wait_s = -1.0 if timeout is None else timeout
        self.trace = zlib.crc32(struct.pack("<dd", self.now_s, wait_s), self.trace)
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

    @property
    def trace(self) -> int:
        return self._skipping.trace


@contextmanager
def sealed() -> Iterator[None]:
    """Keep out of a run what differs between processes.

    Ids of nodes and clusters are random numbers, and their lengths decide where log files end. The
    garbage collector wakes the loop when it ends an async generator. When it runs depends on all
    threads of the process.
    """
    was_on = gc.isenabled()
    gc.disable()
    try:
        with patch.object(os, "urandom", Random(0).randbytes):
            yield
    finally:
        if was_on:
            gc.enable()


def played(work: Coroutine[Any, Any, None]) -> int:
    """Run the simulation; its trace, which is another one if anything went another way."""
    loop = Loop()
    with sealed(), asyncio.Runner(loop_factory=lambda: loop) as runner:
        runner.run(work)
        return loop.trace

"""One chaos run: a workload on a cluster, one fault after the other, all of it written down.

Takes a target, where clients connect, a scenario, a plan of clients and a seed; the same seed gives
the same faults in the same order, though not at the same moments. A fault is recorded before it
begins and as healed when the cluster says that it is whole again: faults that follow each other
never overlap. At the end the queues are emptied, and the history says so.
"""

import asyncio
from collections.abc import Callable, Sequence
from random import Random

from warren.testing.chaos.faults import Target, make
from warren.testing.chaos.scenarios import Scenario
from warren.testing.chaos.workload import Depth, Plan, Workload
from warren.testing.history import Recorder

WARM_S = 2.0  # before the first fault
STEP_S = 0.2  # how often progress is reported

OnProgress = Callable[[str, float, Workload], None]  # what goes on, seconds so far, its counts


class Campaign:
    """Run it once."""

    def __init__(
        self,
        target: Target,
        urls: Sequence[str],
        scenario: Scenario,
        plan: Plan,
        recorder: Recorder,
        depth: Depth,
        seed: int = 0,
        on_progress: OnProgress | None = None,
    ) -> None:
        self.faults = 0
        self._target = target
        self._urls = urls
        self._scenario = scenario
        self._plan = plan
        self._recorder = recorder
        self._depth = depth
        self._drawn = Random(seed)
        self._on_progress = on_progress
        self._began = 0.0

    async def run(self, seconds: float, drain_s: float = 90.0) -> None:
        """Break things for so long, then let everything become whole and be taken."""
        async with Workload(self._urls, self._plan, self._recorder) as workload:
            self._began = asyncio.get_running_loop().time()
            await self._wait("warming up", min(WARM_S, seconds), workload)
            for name in self._scenario.order(self._drawn):
                lasts = self._scenario.lasts(self._drawn)
                if self._left(seconds) < lasts:
                    break
                await self._suffer(name, lasts, workload)
                rests = self._scenario.rests(self._drawn)
                await self._wait("resting", min(self._left(seconds), rests), workload)
            await self._wait("resting", self._left(seconds), workload)
            await self._conclude(workload, drain_s)

    async def run_each(self, drain_s: float = 90.0) -> None:
        """The same with each fault of the scenario once, however long that takes."""
        async with Workload(self._urls, self._plan, self._recorder) as workload:
            self._began = asyncio.get_running_loop().time()
            await self._wait("warming up", self._scenario.rests(self._drawn), workload)
            for name in self._scenario.faults:
                await self._suffer(name, self._scenario.lasts(self._drawn), workload)
                await self._wait("resting", self._scenario.rests(self._drawn), workload)
            await self._conclude(workload, drain_s)

    async def _conclude(self, workload: Workload, drain_s: float) -> None:
        self._tell("emptying the queues", workload)
        await workload.finish(self._depth, drain_s)

    async def _suffer(self, name: str, seconds: float, workload: Workload) -> None:
        """One fault, from its beginning to its end."""
        fault = make(name, self._target, self._drawn)
        doing = f"{fault.name} {fault.where}"
        self.faults += 1
        self._recorder.fault(fault.name, fault.where)
        try:
            await asyncio.to_thread(fault.begin)
            await self._wait(doing, seconds, workload)
        finally:
            self._tell(f"healing {doing}", workload)
            await asyncio.to_thread(fault.heal)
        self._recorder.healed(fault.name, fault.where)

    async def _wait(self, doing: str, seconds: float, workload: Workload) -> None:
        loop = asyncio.get_running_loop()
        until = loop.time() + seconds
        while (left := until - loop.time()) > 0:
            self._tell(doing, workload)
            await asyncio.sleep(min(STEP_S, left))  # So long it lasts.

    def _left(self, seconds: float) -> float:
        return seconds - (asyncio.get_running_loop().time() - self._began)

    def _tell(self, doing: str, workload: Workload) -> None:
        if self._on_progress is not None:
            passed = asyncio.get_running_loop().time() - self._began
            self._on_progress(doing, passed, workload)

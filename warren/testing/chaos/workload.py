"""Many clients on all nodes of a cluster: what publishes and consumes while things break.

    async with Workload(urls, Plan(queues=(QueuePlan("orders", QUORUM),)), recorder) as workload:
        ...                                    # faults; workload.counts tells how it goes
        await workload.finish(depth)           # publishers stop, queues are emptied, `drained`

Clients of one queue begin on different nodes and take turns between the protocols. `finish` stops
the publishers, waits until nothing more comes, and says in the history that the queue is drained:
`depth(queue)` is how many messages it still holds, ready or with a consumer, or None if no node can
say at the moment. A queue that does not get empty in time is drained all the same, and the
history says how much it has left: what it keeps from live consumers is stranded.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from types import TracebackType
from typing import Final, Self

from warren.client import ClientError
from warren.testing.chaos.clients import Consuming, Counts, Habits, Publishing
from warren.testing.chaos.lines import AMQP_091, PROTOCOLS, closed
from warren.testing.history import Recorder

CLASSIC: Final = "classic"
QUORUM: Final = "quorum"
QUIET_S: Final = 1.0  # nothing delivered for so long, and the queue says that it is empty
POLL_S: Final = 0.1
DECLARE_S: Final = 30.0

Depth = Callable[[str], Awaitable[int | None]]


class NotDeclared(Exception):
    """No node has declared the queue; the text says why."""


@dataclass(frozen=True, slots=True)
class QueuePlan:
    """One queue and its clients."""

    name: str
    type: str = QUORUM
    publishers: int = 3
    consumers: int = 3
    arguments: dict[str, object] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """All queues, the protocols in turn, and how clients behave."""

    queues: tuple[QueuePlan, ...]
    protocols: tuple[str, ...] = PROTOCOLS
    habits: Habits = field(default_factory=Habits)


class Workload:
    """Publishers and consumers that run from `__aenter__` to `__aexit__`.

    Invariant: each task in `_tasks` runs one client of `_publishers` or `_consumers`.
    """

    def __init__(self, urls: Sequence[str], plan: Plan, recorder: Recorder) -> None:
        self.counts = Counts()
        self._urls = list(urls)
        self._plan = plan
        self._recorder = recorder
        self._publishers: list[Publishing] = []
        self._consumers: list[Consuming] = []
        self._tasks: list[asyncio.Task[None]] = []
        self._publishing: list[asyncio.Task[None]] = []
        self._epochs: dict[str, int] = {}

    async def __aenter__(self) -> Self:
        for queue in self._plan.queues:
            await self._declare(queue)
        loop = asyncio.get_running_loop()
        self.counts.last_delivery_s = loop.time()
        for queue in self._plan.queues:
            self._make_clients(queue)
        self._publishing = [loop.create_task(each.run()) for each in self._publishers]
        self._tasks = self._publishing + [loop.create_task(each.run()) for each in self._consumers]
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for publisher in self._publishers:
            publisher.stop()
        for consumer in self._consumers:
            consumer.stop()
        patience_s = self._plan.habits.patience_s + 2 * self._plan.habits.timeout_s
        _, late = await asyncio.wait(self._tasks, timeout=patience_s)
        for task in late:
            task.cancel()
        failed = await asyncio.gather(*self._tasks, return_exceptions=True)
        if error is None:
            for each in failed:
                if isinstance(each, Exception):
                    raise each

    async def finish(self, depth: Depth, seconds: float = 60.0) -> None:
        """Publish no more, take all that is left, and write down that the queues are drained."""
        for client in self._publishers:
            client.stop()
        if self._publishing:
            await asyncio.wait(self._publishing, timeout=seconds)
        loop = asyncio.get_running_loop()
        deadline = loop.time() + seconds
        for queue in self._plan.queues:
            left: int | None = None
            while loop.time() < deadline:
                left = await depth(queue.name)
                if left == 0 and self._is_quiet(loop.time()):
                    break
                await asyncio.sleep(POLL_S)  # Nothing tells when a queue is empty.
            self._recorder.drained(queue.name, left or 0)

    def _is_quiet(self, now: float) -> bool:
        return now - self.counts.last_delivery_s > QUIET_S

    def _make_clients(self, queue: QueuePlan) -> None:
        plan, recorder, counts = self._plan, self._recorder, self.counts
        for _ in range(queue.publishers):
            number = len(self._publishers) + 1
            protocol = plan.protocols[number % len(plan.protocols)]
            self._publishers.append(
                Publishing(number, queue.name, self._urls, protocol, plan.habits, recorder, counts)
            )
        for _ in range(queue.consumers):
            number = len(self._consumers) + 1
            protocol = plan.protocols[(number + 1) % len(plan.protocols)]
            self._consumers.append(
                Consuming(
                    number,
                    queue.name,
                    self._urls,
                    protocol,
                    plan.habits,
                    recorder,
                    counts,
                    partial(self._led, queue.name),
                )
            )

    def _led(self, queue: str, leader: str, epoch: int) -> None:
        """A flow has told who leads the queue."""
        if epoch > self._epochs.get(queue, 0):
            self._epochs[queue] = epoch
            self._recorder.noted("leader", queue, leader)

    async def _declare(self, queue: QueuePlan) -> None:
        """Declare the queue; NotDeclared if no node answers in time."""
        arguments = {"x-queue-type": queue.type, **queue.arguments}
        habits = self._plan.habits
        home = habits.home(self._urls, AMQP_091, 1)
        reason: Exception | None = None
        try:
            async with asyncio.timeout(DECLARE_S):
                while True:
                    try:
                        line = await home.line()
                        try:
                            await line.declare(queue.name, arguments)
                            return
                        finally:
                            await closed(line.close(), habits.timeout_s)
                    except (OSError, ClientError) as error:
                        reason = error
                        await asyncio.sleep(POLL_S)  # A cluster without a leader has none soon.
        except TimeoutError:
            raise NotDeclared(f"queue {queue.name}: {reason}") from reason
        finally:
            await home.close()

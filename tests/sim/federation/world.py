"""A source, a target and the network between them and a shovel, by seed and in virtual time.

The shovel is the real `Runner` with its rules; the two brokers keep the interfaces `Source` and
`Target` of `federation.running`. Sessions break at random moments: the source then gives its
unacknowledged messages again, marked as redelivered, and the target keeps what it has stored,
whether or not its confirm arrived.
"""

import asyncio
import random
from collections.abc import Sequence
from typing import cast

from federation.ends import AnyDelivery, SideFailed
from federation.forwarding import Forwarding
from federation.pacing import NO_RATES
from federation.running import Runner
from warren.client.outcome import ACCEPTED_OUTCOME, Outcome


class Sent:
    """One delivery of the source."""

    def __init__(self, number: int, redelivered: bool) -> None:
        self.number = number
        self.redelivered = redelivered


class World:
    """Both brokers. Invariant: a message is ready, unacknowledged or gone at the source."""

    def __init__(self, seed: int, count: int) -> None:
        self.dice = random.Random(seed)
        self.count = count
        self.ready = [Sent(number, False) for number in range(count)]
        self.stored: list[Sent] = []  # at the target, in order
        self.acknowledged: set[int] = set()
        self.sessions = 0
        self.breaks = True
        self.faults: list[str] = []  # found in callbacks, whose errors the loop only logs

    async def travel(self) -> None:
        await asyncio.sleep(self.dice.choice((0.0, 0.001, 0.01, 0.2)))

    def sides(self, on_blocked: object) -> tuple["SimSource", "SimTarget"]:
        self.sessions += 1
        broken: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        return SimSource(self, broken), SimTarget(self, broken)

    def check(self) -> None:
        """What must hold at any moment."""
        stored = {each.number for each in self.stored}
        lost = self.acknowledged - stored
        assert not lost, f"acknowledged and not at the target: {sorted(lost)[:5]}"
        seen: set[int] = set()
        for each in self.stored:
            repeated = each.number in seen
            assert each.redelivered or not repeated, f"{each.number} came twice without a flag"
            seen.add(each.number)


class SimSource:
    def __init__(self, world: World, broken: "asyncio.Future[None]") -> None:
        self._world = world
        self._broken = broken
        self._unacknowledged: list[Sent] = []
        self._prefetch = 0
        self._is_open = False
        self._changed = asyncio.Event()

    async def open(self) -> int:
        await self._world.travel()
        if self._world.breaks and self._world.dice.random() < 0.2:
            raise SideFailed("the source cannot be reached")
        self._is_open = True
        return len(self._world.ready)

    async def consume(self, prefetch: int) -> None:
        self._prefetch = prefetch

    async def ready(self) -> int:
        return len(self._world.ready)

    async def take(self, limit: int) -> Sequence[AnyDelivery]:
        world = self._world
        await world.travel()
        while not world.ready or len(self._unacknowledged) >= self._prefetch:
            self._changed.clear()
            await self._changed.wait()
        room = min(limit, self._prefetch - len(self._unacknowledged))
        count = world.dice.randint(1, room)
        taken, world.ready = world.ready[:count], world.ready[count:]
        self._unacknowledged += taken
        return cast(Sequence[AnyDelivery], taken)

    def accept(self, deliveries: Sequence[AnyDelivery]) -> None:
        numbers = {each.number for each in cast(Sequence[Sent], deliveries)}
        if not self._is_open:
            self._world.faults.append("acknowledged on a session that is over")
        self._world.acknowledged |= numbers
        lost = numbers - {each.number for each in self._world.stored}
        if lost:
            self._world.faults.append(f"acknowledged and not at the target: {sorted(lost)[:5]}")
        self._unacknowledged = [each for each in self._unacknowledged if each.number not in numbers]
        self._changed.set()

    async def watch(self) -> None:
        await self._broken

    async def close(self) -> None:
        again = [Sent(each.number, True) for each in self._unacknowledged]
        self._world.ready = again + self._world.ready
        self._unacknowledged = []
        self._is_open = False


class SimTarget:
    def __init__(self, world: World, broken: "asyncio.Future[None]") -> None:
        self._world = world
        self._broken = broken
        self._work: list[asyncio.Task[None]] = []
        self.bytes = 0

    async def open(self) -> None:
        await self._world.travel()

    async def publish(self, deliveries: Sequence[AnyDelivery]) -> "asyncio.Future[list[Outcome]]":
        future: asyncio.Future[list[Outcome]] = asyncio.get_running_loop().create_future()
        sent = cast(Sequence[Sent], deliveries)
        self._work.append(asyncio.ensure_future(self._take(sent, future)))
        return future

    async def _take(self, sent: Sequence[Sent], future: "asyncio.Future[list[Outcome]]") -> None:
        """Store the messages and confirm them, unless the session breaks in between."""
        world, roll = self._world, self._world.dice.random()
        await world.travel()
        if world.breaks and roll < 0.1:
            return self._break()
        if world.breaks and roll < 0.2:
            future.set_result([Outcome("rejected")] * len(sent))
            return None
        world.stored += sent
        await asyncio.sleep(world.dice.choice((0.0, 0.01, 0.2, 5.0)))  # or after its session
        if world.breaks and roll < 0.3:
            return self._break()
        if not future.done():
            future.set_result([ACCEPTED_OUTCOME] * len(sent))
        return None

    def _break(self) -> None:
        if not self._broken.done():
            self._broken.set_result(None)

    async def watch(self) -> None:
        await asyncio.shield(self._broken)

    async def close(self) -> None:
        """Confirms that are on their way may still arrive."""


def runner_of(world: World, delete_after: int | str, states: list[str]) -> Runner:
    return Runner(
        "shovel 's'",
        Forwarding(0.5, delete_after),
        world.dice.choice((1, 7, 50)),
        world.sides,
        NO_RATES,
        lambda state, reason: states.append(state),
    )

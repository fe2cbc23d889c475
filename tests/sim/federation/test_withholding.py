"""Acknowledgements of a queue link wait while the queue here needs nothing."""

import asyncio
from collections.abc import Sequence
from typing import cast

from federation.ends import AnyDelivery
from federation.withholding import TICK_S, Withholding
from tests.sim.federation.virtual_time import played


class Story:
    """Deliveries are numbers here: nothing looks into them."""

    def __init__(self, demand: bool | None, is_sure: bool = True) -> None:
        self.demand = demand
        self.settled: list[int] = []
        self.link = Withholding(lambda: self.demand, self._settle, is_sure)

    def _settle(self, deliveries: Sequence[AnyDelivery]) -> None:
        self.settled += cast(Sequence[int], deliveries)

    def accept(self, *numbers: int) -> list[int]:
        self.link.accept(cast(Sequence[AnyDelivery], numbers))
        return self.settled


def test_demand_lets_acknowledgements_pass_at_once() -> None:
    async def story() -> None:
        told = Story(True)
        assert told.accept(1, 2) == [1, 2]
        assert told.link.count == 0

    played(story())


def test_acknowledgements_wait_until_there_is_demand() -> None:
    async def story() -> None:
        told = Story(False)
        told.accept(1)
        await asyncio.sleep(100 * TICK_S)
        assert told.accept(2) == []
        told.demand = True
        await asyncio.sleep(2 * TICK_S)
        assert told.settled == [1, 2]

    played(story())


def test_messages_on_their_way_are_not_taken_for_demand() -> None:
    async def story() -> None:
        told = Story(True, is_sure=False)
        assert told.accept(1) == []
        told.demand = False
        await asyncio.sleep(2 * TICK_S)
        assert told.settled == []

    played(story())


def test_demand_of_another_node_is_used_once_per_answer() -> None:
    async def story() -> None:
        told = Story(None)
        told.accept(1)
        await asyncio.sleep(100 * TICK_S)
        told.link.look(False)
        assert told.settled == []
        told.link.look(True)
        assert told.accept(2) == [1]

    played(story())


def test_link_that_has_stopped_acknowledges_everything() -> None:
    async def story() -> None:
        told = Story(False)
        told.accept(1)
        told.link.is_open = True
        told.link.release()
        assert told.accept(2) == [1, 2]

    played(story())

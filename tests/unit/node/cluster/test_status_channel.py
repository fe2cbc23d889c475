"""Questions to other nodes: answers in parts, and every way to get none."""

import asyncio
from collections.abc import AsyncIterator, Awaitable
from typing import Any

import pytest

from node.cluster.cluster_interfaces import STATUS
from node.cluster.services import status_channel as status_part
from node.cluster.services.status_channel import NoAnswer, StatusChannel, Unanswerable
from tests.unit.node.peer_net import PeerNet
from warren.wire.peer.codes import PeerFault


class Kept(int):
    """A number that keeps its kind, as in field tables."""


class World:
    """Three nodes; each answers what is asked of it in the tests below."""

    def __init__(self) -> None:
        self.net = PeerNet()
        self.parts: dict[int, StatusChannel] = {}
        self.is_held = asyncio.Event()
        self.begun = 0
        self.ended = 0
        for member in (1, 2, 3):
            peers = self.net.add(member)
            part = StatusChannel(peers)
            peers.attach(STATUS, part)
            part.serve("count", self.count)
            part.serve("hold", self.hold)
            part.serve("refuse", self.refuse)
            part.serve("fail", self.fail)
            self.parts[member] = part
        self.net.join_all()

    async def count(self, asker: int, about: Any) -> AsyncIterator[object]:
        for number in range(about):
            yield {"number": Kept(number), "asker": asker}

    async def hold(self, asker: int, about: Any) -> AsyncIterator[object]:
        self.begun += 1
        try:
            yield "first"
            await self.is_held.wait()
            yield "second"
        finally:
            self.ended += 1

    async def refuse(self, asker: int, about: Any) -> AsyncIterator[object]:
        raise Unanswerable(f"not for {about}")
        yield

    async def fail(self, asker: int, about: Any) -> AsyncIterator[object]:
        raise RuntimeError("a fault of ours")
        yield

    async def during(self, asking: Awaitable[Any]) -> Any:
        """Deliver frames until the question is answered."""
        task = asyncio.ensure_future(asking)
        while not task.done():
            self.net.run()
            await asyncio.sleep(0.001)
        return await task


def test_an_answer_comes_in_parts() -> None:
    async def run() -> None:
        world = World()
        parts = await world.during(world.parts[1].ask(2, "count", 3))
        assert parts == [{"number": number, "asker": 1} for number in range(3)]
        assert await world.during(world.parts[1].ask(2, "count", 0)) == []

    asyncio.run(run())


def test_a_node_asks_itself_without_a_link() -> None:
    async def run() -> None:
        world = World()
        assert await world.parts[2].ask(2, "count", 1) == [{"number": 0, "asker": 2}]
        with pytest.raises(NoAnswer, match="unknown question"):
            await world.parts[2].ask(2, "what")
        with pytest.raises(NoAnswer, match="not for you"):
            await world.parts[2].ask(2, "refuse", "you")
        assert not any(world.net.under_way.values())

    asyncio.run(run())


def test_all_others_are_asked_at_the_same_time_and_who_is_away_is_none() -> None:
    async def run() -> None:
        world = World()
        world.net.cut(1, 3)
        found = await world.during(world.parts[1].ask_others("count", 1))
        assert found == {2: [{"number": 0, "asker": 1}], 3: None}

    asyncio.run(run())


@pytest.mark.parametrize(
    ("question", "reason"),
    [("what", "unknown question: what"), ("refuse", "not for None"), ("fail", "failed to answer")],
)
def test_what_cannot_be_answered_says_why(question: str, reason: str) -> None:
    async def run() -> None:
        world = World()
        with pytest.raises(NoAnswer, match=reason):
            await world.during(world.parts[1].ask(2, question))
        assert await world.during(world.parts[1].ask(2, "count", 1)) != []

    asyncio.run(run())


def test_a_silent_node_is_waited_for_no_longer_than_was_said() -> None:
    async def run() -> None:
        world = World()
        with pytest.raises(NoAnswer, match=r"no answer within 0\.02 s"):
            await world.during(world.parts[1].ask(2, "hold", timeout_s=0.02))
        world.is_held.set()
        await asyncio.sleep(0.01)
        world.net.run()
        assert await world.during(world.parts[1].ask(2, "count", 1)) != []

    asyncio.run(run())


def test_a_lost_link_ends_questions_at_once_on_both_sides() -> None:
    async def run() -> None:
        world = World()
        task = asyncio.ensure_future(world.parts[1].ask(2, "hold", timeout_s=60))
        while not world.begun:
            await asyncio.sleep(0)
            world.net.run()
        world.net.cut(1, 2)
        with pytest.raises(NoAnswer, match="is lost"):
            await task
        while not world.ended:
            await asyncio.sleep(0)
        with pytest.raises(NoAnswer, match="is not connected"):
            await world.parts[1].ask(2, "count", 1)

    asyncio.run(run())


def test_a_peer_has_so_many_questions_at_a_time_and_no_more(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(status_part, "ASKED_MAX", 2)

    async def run() -> None:
        world = World()
        asking = [world.parts[1].ask(2, "hold") for _ in range(2)]
        tasks = [asyncio.ensure_future(each) for each in asking]
        while world.begun < 2:
            await asyncio.sleep(0)
            world.net.run()
        with pytest.raises(NoAnswer, match="too many questions"):
            await world.during(world.parts[1].ask(2, "count", 1))
        assert await world.during(world.parts[3].ask(2, "count", 1)) != []
        world.is_held.set()
        assert await world.during(tasks[0]) == ["first", "second"]
        assert await world.during(tasks[1]) == ["first", "second"]
        assert await world.during(world.parts[1].ask(2, "count", 1)) != []

    asyncio.run(run())


def test_an_answer_that_is_too_long_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(status_part, "ANSWER_BYTES_MAX", 100)

    async def run() -> None:
        world = World()
        with pytest.raises(NoAnswer, match="too long"):
            await world.during(world.parts[1].ask(2, "count", 10))

    asyncio.run(run())


def test_an_answer_that_comes_from_another_node_or_too_late_is_passed_over() -> None:
    async def run() -> None:
        world = World()
        world.parts[1].peer_received(2, memoryview(b"\x01\x03" + bytes(8)))
        asking = asyncio.ensure_future(world.parts[1].ask(2, "count", 1))
        await asyncio.sleep(0)
        world.parts[1].peer_received(3, memoryview(b"\x01\x03" + (1).to_bytes(8, "little")))
        assert await world.during(asking) == [{"number": 0, "asker": 1}]

    asyncio.run(run())


@pytest.mark.parametrize(
    "payload",
    [
        b"",
        b"\x01\x01",
        b"\x02\x01" + bytes(8) + b"\x92\xa1a\xc0",
        b"\x01\x05" + bytes(8),
        b"\x01\x01" + bytes(8),
        b"\x01\x01" + bytes(8) + b"\xc0",
        b"\x01\x01" + bytes(8) + b"\x92\x01\xc0",
    ],
)
def test_a_frame_that_makes_no_sense_ends_the_link(payload: bytes) -> None:
    async def run() -> None:
        world = World()
        with pytest.raises(PeerFault):
            world.parts[1].peer_received(2, memoryview(payload))

    asyncio.run(run())


def test_a_part_that_is_no_value_ends_the_link() -> None:
    async def run() -> None:
        world = World()
        asking = asyncio.ensure_future(world.parts[1].ask(2, "hold", timeout_s=0.05))
        await asyncio.sleep(0)
        with pytest.raises(PeerFault):
            world.parts[1].peer_received(2, memoryview(b"\x01\x02" + (1).to_bytes(8, "little")))
        with pytest.raises(NoAnswer):
            await asking

    asyncio.run(run())

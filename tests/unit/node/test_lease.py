"""One lease over a queue that answers as the test says."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, cast

import pytest

from node.leases import lease as module
from node.leases.batches import Batch, Room
from node.leases.handover import batch_of
from node.leases.lease import Lease, LeaseFault
from queues.definitions.broker_objects import Queue, Uid
from queues.machine.commands import Attach, Command, Credit, EndSession, SessionId, Settle
from queues.message import FORMAT_10, Chunk
from queues.queue_host import QueueHost, View

ROOM = Room(1_000_000, 1 << 30)
UID = 7


class FakeHost:
    """Has `ready` messages of `size` bytes each; with `mute` it delivers and says no more."""

    uid = UID

    def __init__(self, ready: int, size: int = 100) -> None:
        self.ready = ready
        self.size = size
        self.next = 1
        self.mute = False
        self.mute_after = -1  # so many questions
        self.settled: list[tuple[int, int]] = []
        self.ended = False
        self.lease: Lease | None = None

    def command(self, sink: Lease, command: Command) -> None:
        if isinstance(command, Attach):
            sink.on_attached(UID, 1)
        elif isinstance(command, Credit):
            self._deliver(sink, int(command.delivery_count), int(command.credit))
        elif isinstance(command, Settle):
            self.settled += command.runs
        elif isinstance(command, EndSession):
            self.ended = True

    def _deliver(self, sink: Lease, delivered: int, credit: int) -> None:
        self.mute = self.mute or self.mute_after == 0
        self.mute_after -= 1
        count = min(self.ready, credit)
        if count:
            sink.on_delivers(UID, 1, delivered + 1, self.next, count, False, 0)
            self.next += count
            self.ready -= count
        if not self.mute:
            sink.on_drained(UID, 1, delivered + credit)

    def view(self, sink: Lease, first: int, count: int) -> View:
        offsets = b"".join((n * self.size).to_bytes(4, "little") for n in range(count + 1))
        return View(Chunk(FORMAT_10, bytes(self.size * count), 0, offsets, 0, b""), 0, first, count)


def play(host: FakeHost, test: Callable[[Lease], Awaitable[None]], limits: Room = ROOM) -> None:
    queue = Queue(Uid(UID), "/", "q", True, "", False, b"", "n1")
    session = SessionId(1 << 64 | 1)

    async def whole() -> None:
        made = Lease(queue, "spark", "u", cast(QueueHost, host), session, limits, lambda: None)
        await made.open()
        async with asyncio.timeout(20):
            await test(made)

    asyncio.run(whole())


def numbers(batch: Batch) -> list[int]:
    return [n for run in batch.runs for n in range(run.first, run.first + run.count)]


def test_a_fetch_that_is_given_up_leaves_its_messages_to_the_next() -> None:
    host = FakeHost(10)

    async def test(lease: Lease) -> None:
        host.mute = True
        fetching = asyncio.create_task(lease.fetch(1, Room(5, 1 << 20)))
        await asyncio.sleep(0)
        fetching.cancel()
        with pytest.raises(asyncio.CancelledError):
            await fetching
        assert lease.count == 5 and not lease.batches.held
        host.mute = False
        assert numbers(await lease.fetch(2, Room(8, 1 << 20))) == list(range(1, 9))
        assert lease.commit(2) == 8 and sum(count for _, count in host.settled) == 8

    play(host, test)


def test_a_fetch_that_is_given_up_half_way_loses_nothing() -> None:
    """The queue has answered the first question of the fetch, and not the second."""
    host = FakeHost(300)

    async def test(lease: Lease) -> None:
        host.mute_after = 1
        fetching = asyncio.create_task(lease.fetch(1, Room(300, 1 << 20)))
        await asyncio.sleep(0)
        fetching.cancel()
        with pytest.raises(asyncio.CancelledError):
            await fetching
        assert lease.count == 300
        host.mute = False
        assert numbers(await lease.fetch(1, Room(300, 1 << 20))) == list(range(1, 301))

    play(host, test)


def test_a_queue_that_says_nothing_fails_the_fetch_in_time(monkeypatch: Any) -> None:
    monkeypatch.setattr(module, "PATIENCE_S", 0.01)
    host = FakeHost(300, 1000)

    async def test(lease: Lease) -> None:
        host.mute = True
        with pytest.raises(LeaseFault, match="queue 'q' does not answer lease 'spark'"):
            await lease.fetch(1, Room(300, 1 << 20))
        assert lease.count == 256  # It asks for a sample first.
        host.mute = False
        assert len(numbers(await lease.fetch(1, Room(300, 1 << 20)))) == 300

    play(host, test)


def test_bytes_bound_a_batch_by_the_size_of_samples() -> None:
    host = FakeHost(10_000, 1000)

    async def test(lease: Lease) -> None:
        batch = await lease.fetch(1, Room(10_000, 2_000_000))
        assert (batch.count, batch.size_bytes) == (2000, 2_000_000)

    play(host, test)


def test_a_full_lease_says_what_to_do() -> None:
    async def test(lease: Lease) -> None:
        for number, count in ((1, 50), (2, 50)):
            assert (await lease.fetch(number, Room(1000, 1 << 20))).count == count
        with pytest.raises(LeaseFault, match=r"holds 100 messages .* commit a batch first") as full:
            await lease.fetch(3, Room(1, 1))
        assert full.value.status == 507
        lease.commit(1)
        assert (await lease.fetch(3, Room(1000, 1 << 20))).count == 50

    play(FakeHost(1000), test, Room(100, 1 << 20))


def test_a_lease_that_is_over_answers_nothing() -> None:
    host = FakeHost(10)

    async def test(lease: Lease) -> None:
        await lease.fetch(1, Room(5, 1 << 20))
        lease.end("it was released")
        lease.end("twice")
        assert host.ended
        for ask in (lambda: lease.commit(1), lease.check):
            with pytest.raises(LeaseFault, match="lease 'spark' of queue 'q' is over: it was rel"):
                ask()
        with pytest.raises(LeaseFault):
            await lease.fetch(1, Room(5, 1 << 20))

    play(host, test)


def test_a_deleted_queue_ends_the_lease_that_waits_for_it() -> None:
    host = FakeHost(0)

    async def test(lease: Lease) -> None:
        host.mute = True
        fetching = asyncio.create_task(lease.fetch(1, Room(5, 1 << 20)))
        await asyncio.sleep(0)
        lease.on_gone(UID)
        with pytest.raises(LeaseFault, match="the queue was deleted, or its node is down"):
            await fetching
        assert not host.ended, "there is no queue to be told"

    play(host, test)


HELD = [(4, 10, [[1, 100, 0]]), (6, 20, [[141, 20, 0], [101, 40, 1]])]


@pytest.mark.parametrize(
    ("first", "held", "newest", "left"),
    [
        (1, {4: [*range(1, 101)], 6: [*range(141, 161), *range(101, 141)]}, 7, []),
        (101, {6: [*range(141, 161), *range(101, 141)]}, 7, [*range(161, 261)]),  # 4 was settled
        (51, {}, 0, [*range(51, 211)]),  # another consumer has some messages of batch 4
        (500, {}, 7, [*range(500, 660)]),  # all was settled
    ],
)
def test_a_lease_that_comes_from_another_node_has_its_batches_or_none(
    first: int, held: dict[int, list[int]], newest: int, left: list[int]
) -> None:
    host = FakeHost(1000)
    host.next = first

    async def test(lease: Lease) -> None:
        is_whole = await lease.restore([batch_of(*each) for each in HELD], 7)
        assert is_whole == (newest == 7)
        assert {number: numbers(each) for number, each in lease.batches.held.items()} == held
        assert lease.batches.newest == newest and lease.count == 160
        assert all(run.is_redelivered for each in lease.batches.held.values() for run in each.runs)
        found = numbers(await lease.fetch(8, Room(max(1, len(left)), 1 << 20)))
        assert found == (left or [161])
        assert lease.commit(8) == len(found) + sum(map(len, held.values()))

    play(host, test)

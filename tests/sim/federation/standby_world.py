"""A primary and its warm standby, whole nodes on simulated disks, by seed and in virtual time.

The standby runs the real `Replica`; its primary answers by the real `Feed`, over a link that loses
questions and answers. Both nodes crash; the disk of the primary may have stood still for a while
before that. A message is known by its identity (`standby_load`).
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from random import Random
from typing import Any, Protocol, cast

from federation.standby_parameter import StandbyConfig
from node.operations.body_access import BodyReads
from node.standby.feed import Feed, FeedFailed
from node.standby.primary_client import PrimaryClient, PrimaryFailed
from node.standby.replica import Replica
from node.standby.stored_runs import StoredRun, live_runs, stored_runs
from node.standby.stream_runs import stream_range, stream_runs
from queues.definitions.arguments import encode_arguments
from queues.definitions.metadata.commands import DeclareQueue
from queues.hosts.queue_core import QueueCore
from queues.streams.host import StreamHost
from tests.sim.federation.standby_load import Load, Truth
from tests.sim.federation.standby_passes import Passes
from tests.sim.federation.standby_stream import CONSUMER, NOTHING, StreamLoad, StreamTruth
from tests.sim.queues.node import NODE, SimNode
from tests.sim.storage.sim_disk import SimDisk
from warren.wire.amqp091.deliver import body_bytes

QUEUES = {"classic": "classic", "quorum": "quorum"}
LOG = "log"  # the stream
TYPES = {**QUEUES, LOG: "stream"}
STEP_S = 0.001
CONFIG = StandbyConfig("/", "primary", ("http://a:b@primary",), 0.1, 0.1)


class Side:
    """One node over all its lives."""

    def __init__(self, random: Random) -> None:
        self._random = random
        self._disk = SimDisk()
        self._now_ms = 1_000_000
        self.is_up = True
        self.is_stalled = False  # its disk does nothing
        self.has_alarm = False
        self.node = self._boot()

    def _boot(self) -> SimNode:
        node = SimNode(self._disk, self._random, self._now_ms)
        node.begin()
        self.feed = Feed(node.broker)
        self.feed.serve(node.broker.operating.status)
        node.broker.alarms.observe_cluster(self.has_alarm, False)
        return node

    def set_alarm(self, is_on: bool) -> None:
        """Of a resource, until it is cleared; it outlives the node's restarts."""
        self.has_alarm = is_on
        self.node.broker.alarms.observe_cluster(is_on, False)

    def crash(self) -> None:
        """What was not synced may be lost."""
        self._now_ms = self.node.time_ms
        self._disk = self._disk.crash(self._random)
        self.is_up = False
        self.is_stalled = False

    def start(self) -> None:
        self.node = self._boot()
        self.is_up = True

    def step(self) -> None:
        """A little work of the loop and of the log's threads."""
        if self.is_up:
            for _ in range(0 if self.is_stalled else self._random.randint(1, 12)):
                self.node.runner.step(self._random)
            self.node.run_loop()
            self.node.advance(1)

    def declare(self, name: str) -> None:
        """Returns when the definition is committed."""
        arguments = encode_arguments({"x-queue-type": TYPES[name]})
        done: list[object] = []
        command = DeclareQueue("/", name, durable=True, arguments=arguments, node=NODE)
        self.node.turn.begin()
        self.node.broker.definitions.propose(command, done.append)
        self.node.run_until(lambda: bool(done))

    def core(self, name: str) -> QueueCore | None:
        """None: the queue has no messages and no clients, or is not declared."""
        queue = self.node.broker.definitions.queue("/", name)
        return None if queue is None else self.node.broker.queues.hosts.awake.get(queue.uid)

    def stream(self) -> StreamHost | None:
        queue = self.node.broker.definitions.queue("/", LOG)
        host = None if queue is None else self.node.broker.queues.host(queue.uid)
        return host if isinstance(host, StreamHost) else None


@dataclass(slots=True)
class Mark:
    """What the primary had at a moment, by queue."""

    confirmed: dict[str, set[int]]  # and not settled
    live: dict[str, set[int]]  # then or later
    stream: tuple[set[int], int]


class World:
    """Both sides."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.primary, self.standby = Side(self.random), Side(self.random)
        self.truths = {name: Truth() for name in QUEUES}
        self.loads: dict[str, Load] = {}
        self.stream_truth = StreamTruth()
        self.stream_load: StreamLoad | None = None
        self.breaks = True
        self.passes: Passes[Mark] = Passes()
        self._copied_count = 0  # when the standby had no alarm
        for name in TYPES:
            self.primary.declare(name)
        self.attach()
        self.replica: Replica
        self._task: asyncio.Task[None]

    def attach(self) -> None:
        """Clients come to the primary, which is up."""
        self.primary.node.run_loop()
        hosts = self.primary.node.broker.queues
        for name, truth in self.truths.items():
            queue = self.primary.node.broker.definitions.queue("/", name)
            assert queue is not None
            self.loads[name] = Load(self.primary.node, hosts.host(queue.uid), truth)
        stream = self.primary.stream()
        assert stream is not None
        self.stream_load = StreamLoad(self.primary.node, stream, self.stream_truth)

    def live(self, name: str) -> set[int]:
        """What the primary's queue has now."""
        core = self.primary.core(name)
        return self.truths[name].live([] if core is None else numbers_in(core))

    # The standby

    def follow(self) -> None:
        broker = self.standby.node.broker
        link = cast(PrimaryClient, Link(self))
        self.replica = Replica(
            broker,
            CONFIG,
            self._copy_definitions,
            lambda config: link,
            asyncio.get_running_loop().time,
            self.random.random,
        )
        self._task = asyncio.ensure_future(self.replica.run())

    async def _copy_definitions(self, vhost: str, wanted: dict[str, Any]) -> None:
        for name in wanted["queues"]:
            if self.standby.node.broker.definitions.queue("/", name) is None:
                self.standby.declare(name)

    async def _stop(self) -> None:
        self._task.cancel()
        with suppress(asyncio.CancelledError):
            await self._task

    @property
    def _is_running(self) -> bool:
        return self.replica.row()["state"] == "running"

    def pass_is_seen_whole(self) -> bool:
        return self.passes.is_seen_whole(self._is_running)

    def pass_begins(self) -> None:
        confirmed = {name: each.confirmed - each.settled for name, each in self.truths.items()}
        live = {name: self.live(name) for name in self.truths}
        self.passes.begins(self._is_running, Mark(confirmed, live, self.stream_truth.mark()))

    def appears(self, name: str, identities: set[int]) -> None:
        """The primary has these messages from now on, also if it had settled them."""
        for known in self.passes.known():
            known.live[name].update(identities)

    # What happens

    async def step(self) -> None:
        self.primary.step()
        self.standby.step()
        self._hear()
        await asyncio.sleep(STEP_S)
        self._check_alarm()

    def _check_alarm(self) -> None:
        copied = int(str(self.replica.row()["messages_copied"]))
        if self.standby.has_alarm:
            assert copied <= self._copied_count, "messages were copied in spite of an alarm"
        self._copied_count = copied

    def _hear(self) -> None:
        for load in self.loads.values():
            load.hear()
        if self.stream_load is not None:
            self.stream_load.hear()

    def _stream_traffic(self) -> None:
        load = self.stream_load
        if load is None or not self.primary.is_up:
            return
        if self.random.random() < 0.6:
            load.publish([self.random.choice((12, 300))] * self.random.choice((1, 3, 20)))
        else:
            load.store_offset()

    def traffic(self) -> None:
        """Publish to a queue, or settle some of what its consumer holds; the same for the
        stream."""
        if self.random.random() < 0.4:
            self._stream_traffic()
            return
        name = self.random.choice(list(QUEUES))
        core, load = self.primary.core(name), self.loads[name]
        if not self.primary.is_up or core is None:
            return
        if self.random.random() < 0.6:
            lengths = [self.random.choice((12, 12, 300, 3_000))] * self.random.choice((1, 3, 20))
            before = self.truths[name].published
            load.publish(lengths)
            self.appears(name, set(range(before + 1, self.truths[name].published + 1)))
        elif load.held:
            some = self.random.sample(load.held, self.random.randint(1, len(load.held)))
            load.settle(some)

    async def crash_primary(self) -> None:
        self.primary.is_stalled = self.random.random() < 0.5
        for _ in range(self.random.randint(0, 150) if self.primary.is_stalled else 0):
            await self.step()
            if self.random.random() < 0.15:
                self.traffic()
        self.primary.crash()
        self._hear()  # What was on the way to clients arrives.
        self.loads, self.stream_load = {}, None
        for _ in range(self.random.randint(0, 400)):
            await self.step()
        self.primary.start()
        self.primary.node.runner.settle()
        for name, truth in self.truths.items():
            core = self.primary.core(name)
            truth.restarted([] if core is None else numbers_in(core))
            self.appears(name, self.live(name))
        self.attach()

    async def crash_standby(self) -> None:
        """It does not know of the last pass whether it was whole; the promise before it stays. What
        it had settled and not synced is there again."""
        self.pass_is_seen_whole()
        self.standby.crash()
        await self._stop()
        self.passes.begun = None
        for _ in range(self.random.randint(0, 100)):
            await self.step()
        self.standby.start()
        if (promised := self.passes.promised) is not None:
            for name in QUEUES:
                promised.live[name] |= {identity_in(each) for each in await contents(self, name)}
        self.follow()

    # The end

    async def promote(self) -> None:
        self.pass_is_seen_whole()
        self.primary.crash()
        await self._stop()
        self.replica.release(True)
        self.standby.node.runner.settle()
        self.standby.node.run_loop()
        promised = self.passes.promised
        if promised is None:
            return
        for name, confirmed in promised.confirmed.items():
            found = [identity_in(each) for each in await released(self, name)]
            lost = confirmed - self.truths[name].settled - set(found)
            assert not lost, f"lost beyond the recovery point in {name}: {sorted(lost)[:9]}"
            back = set(found) - promised.live[name]
            assert not back, f"settled before the recovery point in {name}: {sorted(back)[:9]}"
            assert len(found) == len(set(found)), f"twice in {name}"
            # One that was settled comes after newer ones if a crash has undone that.
            unsettled = [each for each in found if each not in self.truths[name].settled]
            assert unsettled == sorted(unsettled), f"out of order in {name}"
        await self._check_stream(*promised.stream)

    async def _check_stream(self, confirmed: set[int], stored: int) -> None:
        host = self.standby.stream()
        if host is None or host.member is None:
            assert not confirmed, "the stream is not there"
            return
        found: list[int] = []
        async with working(self):
            member = host.member
            async for run in stream_runs(member, stream_range(member), 1 << 62):
                found += [identity_in(each) for each in run.messages()]
        lost = confirmed - set(found)
        assert not lost, f"lost beyond the recovery point in the stream: {sorted(lost)[:9]}"
        assert len(found) == len(set(found)), "twice in the stream"
        assert found == sorted(found), "out of order in the stream"
        offset = member.machine.tracking.offsets.get(CONSUMER, NOTHING)
        assert stored <= offset <= self.stream_truth.given, f"offset {offset} and not {stored}"


class Stepping(Protocol):
    """A world with a standby."""

    @property
    def standby(self) -> Side: ...

    async def step(self) -> None: ...


async def contents(world: Stepping, name: str) -> list[bytes]:
    """Messages of a queue of the standby, as they are stored."""
    core = world.standby.core(name)
    if core is None:
        return []
    reads, found = BodyReads(world.standby.node.broker), list[bytes]()
    async with working(world):
        async for run in stored_runs(reads, core, live_runs(core), 1 << 62):
            found += run.messages()
    return found


async def released(world: Stepping, name: str) -> list[bytes]:
    """The same of a queue that nothing holds."""
    core = world.standby.core(name)
    held = 0 if core is None else core.machine.length() - core.ready_count
    assert held == 0, f"{name} has messages that are not ready"
    return await contents(world, name)


@asynccontextmanager
async def working(world: Stepping) -> AsyncIterator[None]:
    """The standby's disk works meanwhile."""

    async def work() -> None:
        while True:
            await world.step()

    task = asyncio.ensure_future(work())
    try:
        yield
    finally:
        task.cancel()


def numbers_in(core: QueueCore) -> list[int]:
    return [each for first, count in live_runs(core) for each in range(first, first + count)]


def identity_in(message: bytes) -> int:
    return int(body_bytes(message, 0, len(message)).partition(b".")[0])


class Link:
    """Keeps the methods of `PrimaryClient`: each question and answer may be late, or lost."""

    shown = "http://primary"

    def __init__(self, world: World) -> None:
        self._world = world

    async def definitions(self, known: bytes) -> tuple[bytes, dict[str, Any] | None]:
        digest = b"1"
        await self._asked(nothing)
        return digest, None if known == digest else {"queues": list(TYPES)}

    async def state(self, known: dict[str, bytes]) -> list[Any]:
        self._world.pass_begins()
        vhosts = self._world.primary.node.broker.metadata.vhosts
        return list(await self._asked(lambda feed: feed.state(vhosts["/"], known)))

    async def messages(self, uid: int, runs: list[tuple[int, int]]) -> list[StoredRun]:
        queue = self._world.primary.node.broker.metadata.queue(uid)
        if queue is None:
            raise PrimaryFailed("the queue was deleted")
        rows = await self._asked(lambda feed: feed.messages(queue, runs))
        return [StoredRun(*each) for each in rows]

    async def digests(self, uid: int, runs: list[tuple[int, int]]) -> dict[int, bytes]:
        queue = self._world.primary.node.broker.metadata.queue(uid)
        if queue is None:
            raise PrimaryFailed("the queue was deleted")
        return dict(await self._asked(lambda feed: feed.digests(queue, runs)))

    async def close(self) -> None:
        return

    async def _asked(self, ask: "Callable[[Feed], Awaitable[Any]]") -> Any:
        world = self._world
        node = world.primary.node
        await self._travel()
        if not world.primary.is_up or node is not world.primary.node:
            raise PrimaryFailed("the primary is down")
        feed = world.primary.feed
        try:
            found = await self._unless_it_goes_down(node, asyncio.ensure_future(ask(feed)))
        except FeedFailed as error:
            raise PrimaryFailed(str(error)) from error
        await self._travel()
        if node is not world.primary.node or not world.primary.is_up:
            raise PrimaryFailed("the primary went down")
        return found

    async def _unless_it_goes_down(self, node: object, answer: "asyncio.Future[Any]") -> Any:
        """What was asked, or PrimaryFailed: a node that has crashed never answers."""
        while not answer.done():
            await asyncio.wait([answer], timeout=STEP_S)
            if node is not self._world.primary.node or not self._world.primary.is_up:
                answer.cancel()
                raise PrimaryFailed("the primary went down")
        return answer.result()

    async def _travel(self) -> None:
        dice = self._world.random
        await asyncio.sleep(dice.choice((0.0, 0.0, 0.002, 0.05)))
        if self._world.breaks and dice.random() < 0.03:
            raise PrimaryFailed("the link is broken")


async def nothing(feed: Feed) -> None:
    """The link carries the question and its answer."""

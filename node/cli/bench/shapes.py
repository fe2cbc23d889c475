"""The two loads of `warren bench`, on one connection each.

`two-senders`: a publisher to a fast queue and one to a slow queue, both as fast as their queue
confirms. `one-sender-one-receiver`: a consumer of a fast queue that was filled before, and a
publisher to a slow queue that sends a batch, waits for all of its confirms, and sends the next.
Each link counts for itself; `run` looks at the counts when the time is over.
"""

import asyncio
import time
from collections import deque
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Final

from msgspec import Struct, field

from node.cli.bench.arguments import ONE_SENDER_ONE_RECEIVER, TWO_SENDERS
from node.cli.bench.links import Consumer, Publisher, Side
from warren.client import Outcome

FLOOD_BATCH: Final = 100  # messages put in at once
FLOOD_BATCHES: Final = 20  # of them open at a time: well above a broker's grants
FILL_BATCH: Final = 1_000
LOOK_S: Final = 0.25  # between two looks at the counts


class Load(Struct, frozen=True):
    """What to run, on each side."""

    shape: str
    seconds: float
    size: int
    fast: str  # type of the fast queue
    slow: str
    messages: int  # put into the fast queue before it is consumed
    credit: int
    batch: int
    parts: tuple[str, ...] = ("fast", "slow")  # which of the two links


class Link(Struct):
    """One link, and what went over it."""

    protocol: str
    queue: str
    type: str
    role: str  # `publish` or `consume`
    count: Callable[[], int]
    until_s: Callable[[], float] = time.monotonic  # when it had no more to do, else now
    begun: int = 0  # count when the time began
    messages: int = 0
    per_s: float = 0.0
    series: list[int] = field(default_factory=list)  # counts at each look


class Measured(Struct, frozen=True):
    """What all links did in the same time."""

    links: list[Link]
    client_cpu: float  # share of a core that the client took


Work = Callable[[], Coroutine[None, None, None]]
OnProgress = Callable[[str, float, float], None]  # what is done, how much of it, of how much


def queue_name(protocol: str, part: str) -> str:
    """`warren-bench-fast-10`, ..."""
    return f"warren-bench-{part}-{protocol.replace('.', '')}"


async def run(sides: list[Side], load: Load, progress: OnProgress) -> Measured:
    """Run the load on all sides at once. ClientError, OSError: a broker refused or went away."""
    links: list[Link] = []
    works: list[Work] = []
    stop = asyncio.Event()
    for side in sides:
        for part in load.parts:
            link, work = await _prepare(side, load, part, stop, progress)
            links.append(link)
            works.append(work)
    async with asyncio.TaskGroup() as group:
        begun, used = time.monotonic(), time.process_time()
        for link in links:
            link.begun = link.count()
        for work in works:
            group.create_task(work())
        await _watch(links, load.seconds, begun, progress)
        took = time.monotonic() - begun
        cpu = (time.process_time() - used) / took
        for link in links:
            link.messages = link.count() - link.begun
            link.per_s = link.messages / max(link.until_s() - begun, LOOK_S)
        stop.set()
    return Measured(links, round(cpu, 2))


async def clean(sides: list[Side], load: Load) -> None:
    """Delete the queues."""
    for side in sides:
        for part in load.parts:
            await side.delete(queue_name(side.protocol, part))


async def _watch(links: list[Link], seconds: float, begun: float, progress: OnProgress) -> None:
    """Until the time is over."""
    while (passed := time.monotonic() - begun) < seconds:
        progress("measuring", passed, seconds)
        await asyncio.sleep(min(LOOK_S, seconds - passed))
        for link in links:
            link.series.append(link.count() - link.begun)
    progress("measuring", seconds, seconds)


async def _prepare(
    side: Side, load: Load, part: str, stop: asyncio.Event, progress: OnProgress
) -> tuple[Link, Work]:
    """The link for the fast or the slow queue, attached, and what is to be done on it."""
    type_ = load.fast if part == "fast" else load.slow
    queue = queue_name(side.protocol, part)
    await side.declare(queue, type_)
    publisher, message = await side.publisher(queue, load.size)
    if part == "fast" and load.shape == ONE_SENDER_ONE_RECEIVER:
        await fill(publisher, message, load.messages, progress)
        consumer = await side.consumer(queue, load.credit)
        tally = Tally()
        link = Link(side.protocol, queue, type_, "consume", lambda: tally.count)
        link.until_s = lambda: tally.last_s if tally.count >= load.messages else time.monotonic()
        return link, partial(drink, consumer, tally, stop)
    link = Link(side.protocol, queue, type_, "publish", lambda: publisher.accepted)
    if load.shape == TWO_SENDERS:
        return link, partial(flood, publisher, [message] * FLOOD_BATCH, FLOOD_BATCHES, stop)
    return link, partial(flood, publisher, [message] * load.batch, 1, stop)


class Tally:
    """Counts what a consumer has accepted."""

    def __init__(self) -> None:
        self.count = 0
        self.last_s = 0.0  # when it last did, by the monotonic clock


async def fill(publisher: Publisher, message: bytes, count: int, progress: OnProgress) -> None:
    """Put so many messages into the queue, confirmed."""
    batch = [message] * FILL_BATCH
    waiting: deque[asyncio.Future[list[Outcome]]] = deque()
    begun, left = publisher.accepted, count
    try:
        while left:
            await publisher.ready()
            batch = batch if left >= FILL_BATCH else batch[:left]
            waiting.append(publisher.send_encoded(batch))
            left -= len(batch)
            if len(waiting) >= FLOOD_BATCHES:
                await waiting[0]
                waiting.popleft()
                progress("filling", publisher.accepted - begun, count)
        while waiting:
            await waiting[0]
            waiting.popleft()
    finally:
        give_up(waiting)
    progress("filling", count, count)


async def flood(
    publisher: Publisher, batch: list[bytes], open_max: int, stop: asyncio.Event
) -> None:
    """Publish until told to stop, with `open_max` batches that are not confirmed at a time."""
    waiting: deque[asyncio.Future[list[Outcome]]] = deque()
    ending = asyncio.ensure_future(stop.wait())
    try:
        while not stop.is_set():
            await publisher.ready()
            waiting.append(publisher.send_encoded(batch))
            while len(waiting) >= open_max and not stop.is_set():
                await asyncio.wait((waiting[0], ending), return_when=asyncio.FIRST_COMPLETED)
                if waiting[0].done():
                    waiting.popleft().result()
    finally:
        ending.cancel()
        give_up(waiting)


def give_up(waiting: deque[asyncio.Future[list[Outcome]]]) -> None:
    """Discard these outcomes."""
    for each in waiting:
        if not each.cancel() and not each.cancelled():
            each.exception()  # Looked at, so that asyncio logs no warning.


async def drink(consumer: Consumer, tally: Tally, stop: asyncio.Event) -> None:
    """Consume and accept each message, until told to stop."""
    while not stop.is_set():
        try:
            deliveries = await consumer.get_many(timeout_s=LOOK_S)
        except TimeoutError:
            continue  # The queue is empty, or its connection is held up: look whether to stop.
        for delivery in deliveries:
            delivery.accept()
        tally.count += len(deliveries)
        tally.last_s = time.monotonic()

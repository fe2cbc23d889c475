"""Run the shapes of `warren bench` without a LOAD, one after the other.

Each shape has a queue of its own and runs for the same time: publishers with 2,000 unconfirmed
messages, with and without a consumer, and one message at a time for latency.
"""

import asyncio
import time
from collections.abc import Callable
from functools import partial
from typing import Final

from msgspec import Struct

from node.cli.bench.arguments import AMQP_091, AMQP_10
from node.cli.bench.links import Publisher, Side
from node.cli.bench.shapes import (
    FLOOD_BATCH,
    FLOOD_BATCHES,
    LOOK_S,
    OnProgress,
    Tally,
    drink,
    flood,
)

CREDIT: Final = 1_000
QUEUE: Final = "warren-bench-overview"


class Shape(Struct, frozen=True):
    """One row of the table."""

    name: str
    protocol: str
    queue_type: str
    durable: bool = True  # of the messages
    consume: bool = False
    one_in_flight: bool = False


SHAPES: Final = (
    Shape("transient, publish and consume", AMQP_091, "classic", durable=False, consume=True),
    Shape("durable, publish with confirms", AMQP_091, "classic"),
    Shape("durable, publish and consume", AMQP_091, "classic", consume=True),
    Shape("durable, publish and consume", AMQP_10, "classic", consume=True),
    Shape("quorum, publish and consume", AMQP_091, "quorum", consume=True),
    Shape("durable, one in flight", AMQP_091, "classic", one_in_flight=True),
    Shape("quorum, one in flight", AMQP_091, "quorum", one_in_flight=True),
)
COLUMNS: Final = (
    "shape",
    "protocol",
    "queue",
    "published_per_s",
    "consumed_per_s",
    "confirm_ms",
    "confirm_p99_ms",
)


class Figures(Struct, frozen=True):
    """What one shape reached."""

    shape: Shape
    published_per_s: float  # confirmed messages
    consumed_per_s: float | None
    confirm_ms: list[float]  # sorted; of one message in flight

    def quantile_ms(self, part: float) -> float | None:
        """The latency of a confirm that `part` of all confirms do not exceed."""
        if not self.confirm_ms:
            return None
        return round(self.confirm_ms[int(part * (len(self.confirm_ms) - 1))], 2)

    def json(self) -> dict[str, object]:
        """Its object in the JSON answer."""
        consumed = self.consumed_per_s
        return {
            "shape": self.shape.name,
            "protocol": self.shape.protocol,
            "queue": self.shape.queue_type,
            "published_per_s": round(self.published_per_s),
            "consumed_per_s": None if consumed is None else round(consumed),
            "confirm_ms": self.quantile_ms(0.5),
            "confirm_p99_ms": self.quantile_ms(0.99),
        }


async def run_shape(
    side: Side, shape: Shape, seconds: float, size: int, progress: OnProgress
) -> Figures:
    """Run one shape on an open connection, and delete its queue."""
    await side.declare(QUEUE, shape.queue_type)
    try:
        publisher, message = await side.publisher(QUEUE, size, shape.durable)
        stop, tally = asyncio.Event(), Tally()
        latencies: list[float] = []
        async with asyncio.TaskGroup() as group:
            if shape.consume:
                consumer = await side.consumer(QUEUE, CREDIT)
                group.create_task(drink(consumer, tally, stop))
            if shape.one_in_flight:
                group.create_task(one_at_a_time(publisher, message, latencies, stop))
            else:
                batch = [message] * FLOOD_BATCH
                group.create_task(flood(publisher, batch, FLOOD_BATCHES, stop))
            begun = time.monotonic()
            await _wait(seconds, partial(progress, shape_label(shape)))
            took = time.monotonic() - begun
            published, consumed = publisher.accepted / took, tally.count / took
            stop.set()
    finally:
        await side.delete(QUEUE)
    return Figures(shape, published, consumed if shape.consume else None, sorted(latencies))


def shape_label(shape: Shape) -> str:
    """What a progress bar shows."""
    return f"{shape.name} (AMQP {shape.protocol})"


async def one_at_a_time(
    publisher: Publisher, message: bytes, latencies: list[float], stop: asyncio.Event
) -> None:
    """Publish the next message when the last one is confirmed; note the milliseconds of each."""
    while not stop.is_set():
        await publisher.ready()
        begun = time.perf_counter()
        await publisher.send_encoded([message])
        latencies.append((time.perf_counter() - begun) * 1000)


async def _wait(seconds: float, progress: Callable[[float, float], None]) -> None:
    begun = time.monotonic()
    while (passed := time.monotonic() - begun) < seconds:
        progress(passed, seconds)
        await asyncio.sleep(min(LOOK_S, seconds - passed))
    progress(seconds, seconds)

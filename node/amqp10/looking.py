"""Peeks at queues for one connection, by `/management` (`node.operations.peeking`). Not compiled.

Takes what a request asks and answers by callback, once the leader of the queue has told: a task for
each, at most TASKS_MAX, which `close` ends. A reply is one message, so its size is limited:
PEEKED_MAX messages and PAYLOAD_MAX bytes of each; clients that want more use the HTTP API.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Final, Protocol

from node.amqp10.requests import Reply, RequestError
from queues.conversion.values import map_of
from queues.definitions.broker_objects import Queue
from warren.wire.amqp10.codec.values import UInt, ULong

if TYPE_CHECKING:
    from node.operations.peeking import Peeked

Done = Callable[[Reply], None]
Numbers = dict[str, int]

TASKS_MAX: Final = 8
PEEKED_MAX: Final = 64
PAYLOAD_MAX: Final = 65_536
LIMITS: Final = {  # of each field: the least, the most, and what holds without it
    "offset": (0, 1 << 62, 0),
    "count": (1, PEEKED_MAX, 1),
    "truncate": (0, PAYLOAD_MAX, 4096),
}


class Broker(Protocol):
    """The broker, as this module asks it."""

    def peek(
        self, queue: Queue, offset: int, count: int, payload_bytes: int
    ) -> "Awaitable[Sequence[Peeked]]":
        """Messages from a position on; LookupError: no node can answer, and why."""


class Looking:
    """See the module."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._tasks: set[asyncio.Task[None]] = set()

    def peek(self, queue: Queue, asked: Numbers, done: Done) -> None:
        if len(self._tasks) >= TASKS_MAX:
            raise RequestError(503, f"{TASKS_MAX} peeks are under way")
        task = asyncio.get_running_loop().create_task(self._peek(queue, asked, done))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _peek(self, queue: Queue, asked: Numbers, done: Done) -> None:
        try:
            found = await self._broker.peek(
                queue, asked["offset"], asked["count"], asked["truncate"]
            )
        except LookupError as error:
            done(Reply(503, str(error)))
        else:
            done(Reply(200, [peeked_description(each) for each in found]))

    def close(self) -> None:
        """What is under way is not answered."""
        for task in self._tasks:
            task.cancel()


def decode_peek(body: object) -> Numbers:
    """What is asked of a peek; RequestError for what cannot be."""
    if body is None:
        body = {}
    if not isinstance(body, dict):
        raise RequestError(400, "the body must be a map")
    found = {name: default for name, (_, _, default) in LIMITS.items()}
    for name, value in body.items():
        low, high, _ = LIMITS.get(name, (1, 0, 0)) if isinstance(name, str) else (1, 0, 0)
        is_number = isinstance(value, int) and not isinstance(value, bool)
        if not is_number or not low <= value <= high:
            raise RequestError(400, f"bad peek property {name!r}: {value!r}"[:500])
        found[str(name)] = int(value)
    return found


def peeked_description(peeked: "Peeked") -> dict[object, object]:
    from node.management.operations import shown_properties
    from warren.wire.amqp091.properties import BasicProperties, readable_properties

    encoded = peeked.properties
    properties = readable_properties(encoded) if encoded else BasicProperties()
    return {
        "position": ULong(peeked.position),
        "readable": peeked.is_readable,
        "redelivered": peeked.redelivered,
        "failed_deliveries": UInt(peeked.failures),
        "exchange": peeked.exchange,
        "routing_key": peeked.routing_key.decode("utf-8", "replace"),
        "properties": map_of(shown_properties(properties)),
        "payload": peeked.payload,
        "payload_bytes": ULong(peeked.payload_bytes),
    }

"""Messages of the simulation in stored form, and the publish events that bring them."""

from dataclasses import dataclass

from queues.message import Chunk
from tests.unit.queues.messages import table
from tests.unit.wire.frames import message
from warren.wire.amqp091.deliver import body_bytes
from warren.wire.amqp091.events import (
    INFO_EXPIRATION,
    INFO_PERSISTENT,
    INFO_PRIORITY,
    Publishes,
)
from warren.wire.amqp091.properties import BasicProperties


@dataclass(frozen=True, slots=True)
class Letter:
    """What a client publishes. Payloads are never used twice."""

    payload: bytes
    persistent: bool
    priority: int | None = None
    ttl_ms: int | None = None

    def stored(self) -> bytes:
        properties = BasicProperties(
            delivery_mode=2 if self.persistent else 1,
            priority=self.priority,
            expiration=None if self.ttl_ms is None else str(self.ttl_ms),
        )
        return message(1, self.payload, b"key", properties)

    def info(self) -> int:
        info = INFO_PERSISTENT if self.persistent else 0
        info |= INFO_PRIORITY if self.priority is not None else 0
        return info | (INFO_EXPIRATION if self.ttl_ms is not None else 0)


def event_of(runs: list[list[Letter]]) -> Publishes:
    """One socket read full of publishes; the letters of a run are all persistent or none is."""
    firsts: list[int] = []
    stored: list[bytes] = []
    infos: list[int] = []
    for letters in runs:
        firsts.append(len(stored))
        stored += [letter.stored() for letter in letters]
        info = 0
        for letter in letters:
            info |= letter.info()
        infos.append(info)
    keys = [b"key"] * len(runs)
    return Publishes(1, b"".join(stored), table(stored, 0), firsts, keys, infos)


def payload_of(chunk: Chunk, index: int) -> bytes:
    """The payload of a message whose chunk is in memory."""
    assert chunk.data is not None
    start, end = chunk.span(index)
    return body_bytes(chunk.data, start, end)

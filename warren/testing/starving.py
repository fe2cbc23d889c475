"""Consumers that get nothing for long, although others do and nothing is broken.

Takes the events of a history in order (`take`), of consumers that have told that they are to get
their share (`attached`); gives `Starved` when such a consumer gets something at last, ends, or the
history does. Time counts only while no fault is there, and only of consumers that hold nothing:
who has not settled what came may have no credit left.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

CALM_NS: Final = 20_000_000_000  # without a fault, that a consumer may get nothing
PASSED_MIN: Final = 500  # messages of its queue, confirmed or given to others meanwhile


@dataclass(frozen=True, slots=True)
class Starved:
    """`since_line`: of the last thing that the consumer got, or of its beginning."""

    consumer: str
    queue: str
    since_line: int
    calm_s: float
    passed: int


@dataclass(slots=True)
class _Consumer:
    queue: str
    since_line: int
    calm_ns: int  # on the clock of times without a fault
    passed: int  # of its queue, in all
    held: int = 0  # deliveries that it has not settled


class Starving:
    """See the module."""

    def __init__(self) -> None:
        self._consumers: dict[str, _Consumer] = {}
        self._queues: dict[str, str] = {}  # of messages that are not confirmed
        self._passed: dict[str, int] = {}  # by queue
        self._faults = 0
        self._calm_ns = 0
        self._last_ns: int | None = None

    def take(self, event: dict[str, Any], line: int) -> Starved | None:
        """The next event."""
        self._pass_time(event.get("at_ns", self._last_ns or 0))
        match event["event"]:
            case "attached":
                self._begin(event["consumer"], event["queue"], line)
            case "published":
                self._queues[event["id"]] = event["queue"]
            case "confirmed":
                queue = self._queues.pop(event["id"], None)
                if queue is not None:
                    self._passed[queue] = self._passed.get(queue, 0) + 1
            case "delivered":
                return self._delivered(event["consumer"], event["queue"], line)
            case "settled":
                consumer = self._consumers.get(event["consumer"])
                if consumer is not None:
                    consumer.held -= 1
            case "ended":
                return self._look(event["consumer"], self._consumers.pop(event["consumer"], None))
            case "fault":
                self._faults += 1
            case "healed":
                self._faults -= 1
        return None

    def finish(self) -> Iterable[Starved]:
        """The history ends: those that starve to the end."""
        for name, consumer in self._consumers.items():
            starved = self._look(name, consumer)
            if starved is not None:
                yield starved

    def _pass_time(self, at_ns: int) -> None:
        if self._last_ns is not None and self._faults == 0:
            self._calm_ns += max(at_ns - self._last_ns, 0)
        self._last_ns = at_ns

    def _begin(self, name: str, queue: str, line: int) -> None:
        self._consumers[name] = _Consumer(queue, line, self._calm_ns, self._passed.get(queue, 0))

    def _delivered(self, name: str, queue: str, line: int) -> Starved | None:
        self._passed[queue] = self._passed.get(queue, 0) + 1
        consumer = self._consumers.get(name)
        starved = self._look(name, consumer)
        if consumer is not None:
            consumer.since_line = line
            consumer.calm_ns = self._calm_ns
            consumer.passed = self._passed[queue]
            consumer.held += 1
        return starved

    def _look(self, name: str, consumer: _Consumer | None) -> Starved | None:
        if consumer is None or consumer.held > 0:
            return None
        calm_ns = self._calm_ns - consumer.calm_ns
        passed = self._passed.get(consumer.queue, 0) - consumer.passed
        if calm_ns < CALM_NS or passed < PASSED_MIN:
            return None
        return Starved(name, consumer.queue, consumer.since_line, calm_ns / 1e9, passed)

"""What a history looks like over time: rates, latencies, faults, leaders, and the longest silences.

Takes the events of a history (`warren.testing.history.read`); gives a `Timeline` of slots of equal
width. A latency is from publish to confirm, in the slot of the confirm. A silence is a time in
which messages were published, and none was confirmed; it belongs to the first fault of that time,
or else to the last that had ended no more than `AFTERMATH_S` before. Memory: a number for each
message.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Final

NS: Final = 1_000_000_000
AFTERMATH_S: Final = 3.0
SILENCE_S: Final = 0.05  # shorter ones are none
QUIET: Final = "no fault"


@dataclass(frozen=True, slots=True)
class Span:
    """A fault, in seconds since the beginning."""

    name: str
    where: str
    begin_s: float
    end_s: float


@dataclass(frozen=True, slots=True)
class Mark:
    """A new leader."""

    at_s: float
    queue: str
    leader: str


@dataclass(frozen=True, slots=True)
class Silence:
    """No confirm for so long, and what was wrong then."""

    begin_s: float
    seconds: float
    fault: str


@dataclass(slots=True)
class Slot:
    """What happened in one stretch of time."""

    published: int = 0
    confirmed: int = 0
    delivered: int = 0
    latencies_ms: list[float] = field(default_factory=list)

    def latency_ms(self, share: float) -> float | None:
        """That percentile, or None where nothing was confirmed."""
        if not self.latencies_ms:
            return None
        ordered = sorted(self.latencies_ms)
        return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


@dataclass(slots=True)
class Timeline:
    """A history by time."""

    width_s: float
    seconds: float = 0.0
    slots: list[Slot] = field(default_factory=list)
    faults: list[Span] = field(default_factory=list)
    leaders: list[Mark] = field(default_factory=list)
    silences: list[Silence] = field(default_factory=list)

    def longest_silences(self) -> dict[str, float]:
        """By name of fault, the longest time without a confirm, in seconds."""
        longest: dict[str, float] = {}
        for silence in self.silences:
            longest[silence.fault] = max(longest.get(silence.fault, 0.0), silence.seconds)
        return dict(sorted(longest.items(), key=lambda each: -each[1]))


def timeline(events: Iterable[dict[str, Any]], width_s: float = 1.0) -> Timeline:
    """Go through a history once."""
    builder = _Builder(width_s)
    for event in events:
        builder.take(event)
    return builder.finish()


class _Builder:
    """The timeline up to an event."""

    def __init__(self, width_s: float) -> None:
        self._made = Timeline(width_s)
        self._first_ns: int | None = None
        self._published_ns: dict[str, int] = {}  # of messages without an outcome
        self._open: dict[tuple[str, str], float] = {}  # faults and when they began
        self._confirm_s = 0.0  # the last confirm
        self._waiting_since: float | None = None  # the first publish since then

    def take(self, event: dict[str, Any]) -> None:
        at_ns = event["at_ns"]
        if self._first_ns is None:
            self._first_ns = at_ns
        at_s = (at_ns - self._first_ns) / NS
        self._made.seconds = max(self._made.seconds, at_s)
        match event["event"]:
            case "published":
                self._slot(at_s).published += 1
                self._published_ns[event["id"]] = at_ns
                if self._waiting_since is None:
                    self._waiting_since = at_s
            case "confirmed":
                self._confirmed(event["id"], at_ns, at_s)
            case "refused":
                self._published_ns.pop(event["id"], None)
            case "delivered":
                self._slot(at_s).delivered += 1
            case "fault":
                self._open[event["name"], event["target"]] = at_s
            case "healed":
                began = self._open.pop((event["name"], event["target"]), at_s)
                self._made.faults.append(Span(event["name"], event["target"], began, at_s))
            case "noted" if event["what"] == "leader":
                self._made.leaders.append(Mark(at_s, event["target"], event["text"]))

    def finish(self) -> Timeline:
        made = self._made
        for (name, where), began in self._open.items():
            made.faults.append(Span(name, where, began, made.seconds))
        return made

    def _confirmed(self, message: str, at_ns: int, at_s: float) -> None:
        slot = self._slot(at_s)
        slot.confirmed += 1
        published = self._published_ns.pop(message, None)
        if published is not None:
            slot.latencies_ms.append((at_ns - published) / 1e6)
        since = self._confirm_s if self._waiting_since is None else self._waiting_since
        silent_s = at_s - max(self._confirm_s, since)
        if silent_s >= SILENCE_S:
            began = at_s - silent_s
            self._made.silences.append(Silence(began, silent_s, self._fault_at(began, at_s)))
        self._confirm_s = at_s
        self._waiting_since = None

    def _fault_at(self, begin_s: float, end_s: float) -> str:
        """Which fault a silence is to be put down to: the first that was there in its time, or else
        the last that had ended before it."""
        faults = [(span.begin_s, span.end_s, span.name) for span in self._made.faults]
        faults += [(began, end_s, name) for (name, _), began in self._open.items()]
        during = [each for each in faults if each[0] <= end_s and each[1] >= begin_s]
        if during:
            return min(during)[2]
        before = [(ended, name) for _, ended, name in faults if begin_s - ended < AFTERMATH_S]
        return max(before)[1] if before else QUIET

    def _slot(self, at_s: float) -> Slot:
        slots = self._made.slots
        place = int(at_s / self._made.width_s)
        while len(slots) <= place:
            slots.append(Slot())
        return slots[place]

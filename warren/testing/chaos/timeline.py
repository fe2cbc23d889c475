"""What a history looks like over time: rates, latencies, faults, leaders, and the longest silences.

Takes the events of a history (`warren.testing.history.read`); gives a `Timeline` of slots of equal
width. A latency is from publish to confirm, in the slot of the confirm. A silence is a time in
which messages were published, and none was confirmed; it belongs to the first fault of that time,
or else to the last that had ended no more than `AFTERMATH_S` before. One that lasts until no client
publishes any more ends with the last publish. Memory: a number for each message.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from math import inf
from typing import Any, Final

NS: Final = 1_000_000_000
AFTERMATH_S: Final = 3.0
SILENCE_S: Final = 0.05  # shorter ones are none
QUIET: Final = "no fault"
NO_LINE: Final = 1 << 62  # of a fault that was never healed


@dataclass(slots=True)
class Span:
    """A fault, in seconds since the beginning and in lines of the history.

    It goes on until the history says that it is healed, or ends.
    """

    name: str
    where: str
    begin_s: float
    end_s: float = inf
    begin_line: int = 0
    end_line: int = NO_LINE
    confirmed: int = 0  # messages, while it was there
    longest_silence_s: float = 0.0  # of those that are put down to it


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
    """A history by time; `faults` in the order in which they began."""

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
    """The timeline up to an event.

    Invariant: `_open` are those of the timeline's faults that have not ended.
    """

    def __init__(self, width_s: float) -> None:
        self._made = Timeline(width_s)
        self._first_ns: int | None = None
        self._published_ns: dict[str, int] = {}  # of messages without an outcome
        self._open: dict[tuple[str, str], Span] = {}
        self._published_s = 0.0  # the last publish
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
                self._published_s = at_s
                if self._waiting_since is None:
                    self._waiting_since = at_s
            case "confirmed":
                self._confirmed(event["id"], at_ns, at_s)
            case "refused":
                self._published_ns.pop(event["id"], None)
            case "delivered":
                self._slot(at_s).delivered += 1
            case "fault":
                span = Span(event["name"], event["target"], at_s, begin_line=event.get("line", 0))
                self._open[span.name, span.where] = span
                self._made.faults.append(span)
            case "healed":
                self._healed(event, at_s)
            case "noted" if event["what"] == "leader":
                self._made.leaders.append(Mark(at_s, event["target"], event["text"]))

    def finish(self) -> Timeline:
        made = self._made
        if self._waiting_since is not None:
            self._silent_until(self._published_s)
        for span in self._open.values():
            span.end_s = made.seconds
        return made

    def _healed(self, event: dict[str, Any], at_s: float) -> None:
        span = self._open.pop((event["name"], event["target"]), None)
        if span is not None:
            span.end_s = at_s
            span.end_line = event.get("line", NO_LINE)

    def _confirmed(self, message: str, at_ns: int, at_s: float) -> None:
        slot = self._slot(at_s)
        slot.confirmed += 1
        for span in self._open.values():
            span.confirmed += 1
        published = self._published_ns.pop(message, None)
        if published is not None:
            slot.latencies_ms.append((at_ns - published) / 1e6)
        self._silent_until(at_s)
        self._confirm_s = at_s
        self._waiting_since = None

    def _silent_until(self, at_s: float) -> None:
        """Nothing was confirmed since the last confirm, or the first publish after it."""
        since = self._confirm_s if self._waiting_since is None else self._waiting_since
        silent_s = at_s - max(self._confirm_s, since)
        if silent_s < SILENCE_S:
            return
        began = at_s - silent_s
        span = self._fault_at(began, at_s)
        name = QUIET
        if span is not None:
            name = span.name
            span.longest_silence_s = max(span.longest_silence_s, silent_s)
        self._made.silences.append(Silence(began, silent_s, name))

    def _fault_at(self, begin_s: float, end_s: float) -> Span | None:
        """Which fault a silence is to be put down to: the first that was there in its time, or else
        the last that had ended before it."""
        last: Span | None = None
        for span in self._made.faults:  # In the order of their beginnings.
            if span.begin_s <= end_s and span.end_s >= begin_s:
                return span
            is_near = span.end_s < begin_s and begin_s - span.end_s < AFTERMATH_S
            if is_near and (last is None or span.end_s > last.end_s):
                last = span
        return last

    def _slot(self, at_s: float) -> Slot:
        slots = self._made.slots
        place = int(at_s / self._made.width_s)
        while len(slots) <= place:
            slots.append(Slot())
        return slots[place]

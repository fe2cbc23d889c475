"""Samples of counters, and the rates that come of them, in RabbitMQ's form. Pure.

Takes the values of an object's columns at times (ms since 1970, that never go back); gives what
`X_details` says: the rate over the last interval and, for a range that was asked (an age and a step
in seconds), samples, newest first, with their average. A rate takes two samples, and is left out
before there are two. What is known of an object is a `Track`: its last two samples, or a `History`
besides, of SPANS. A track of 11 columns takes about 600 bytes, a history of as many about 17 KB, or
27 KB with `LONG_SPANS`. A counter that fell restarted: its rate is 0 for that interval. Not
compiled: used a few times a second, for the objects that are looked at.
"""

from array import array
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final, TypeAlias

from msgspec import Struct

LENGTHS: Final = "lengths"  # what one range of a request is for
MSG_RATES: Final = "msg_rates"
DATA_RATES: Final = "data_rates"
NODE_STATS: Final = "node_stats"
FAMILIES: Final = (LENGTHS, MSG_RATES, DATA_RATES, NODE_STATS)
SAMPLES_MAX: Final = 500  # in one answer of one column

SPANS: Final = ((5_000, 121), (60_000, 61))  # ms between samples, how many are kept
LONG_SPANS: Final = (*SPANS, (600_000, 49), (1_800_000, 49))

Ranges: TypeAlias = Mapping[str, Sequence[int]]  # by family: age and step, in seconds
Detail: TypeAlias = dict[str, Any]  # one X_details
Measured: TypeAlias = "float | Detail | None"  # a rate alone, with samples, or not known yet
Row: TypeAlias = dict[str, Any]

NO_RANGES: Final[Ranges] = {}


class Column(Struct, frozen=True):
    """One number of an object. `inside`: where the row has it; "": at its top."""

    name: str
    inside: str = "message_stats"
    family: str = MSG_RATES
    is_gauge: bool = False  # goes down as well


def path_of(column: Column) -> str:
    """As requests name it."""
    return f"{column.inside}.{column.name}" if column.inside else column.name


def _gauges(names: Sequence[str], inside: str, family: str) -> tuple[Column, ...]:
    return tuple(Column(name, inside, family, True) for name in names)


def _counters(
    names: Sequence[str], inside: str = "message_stats", family: str = MSG_RATES
) -> tuple[Column, ...]:
    return tuple(Column(name, inside, family) for name in names)


DEPTHS: Final = ("messages", "messages_ready", "messages_unacknowledged")
DELIVERED: Final = ("deliver", "deliver_no_ack", "get", "get_no_ack", "deliver_get", "redeliver")
CHANNEL_STATS: Final = (
    "publish", "confirm", "return_unroutable", *DELIVERED, "get_empty", "ack",
)  # fmt: skip
QUEUE_STATS: Final = ("publish", *DELIVERED, "ack")
NODE_STATS_NAMES: Final = (*CHANNEL_STATS, "drop_unroutable")
CHURN: Final = (
    "connection_created", "connection_closed", "channel_created", "channel_closed",
    "queue_declared", "queue_created", "queue_deleted",
)  # fmt: skip
NODE_GAUGES: Final = ("mem_used", "disk_free", "fd_used", "sockets_used")

NODE: Final = "node"
VHOST: Final = "vhost"
QUEUE: Final = "queue"
EXCHANGE: Final = "exchange"
CONNECTION: Final = "connection"
CHANNEL: Final = "channel"
CONSUMER: Final = "consumer"  # this and what follows is listed, and never sampled
STREAM_CONSUMER: Final = "stream consumer"  # subscriptions of the stream protocol
STREAM_PUBLISHER: Final = "stream publisher"
PUBLISHED: Final = "published"  # by (channel, vhost, exchange)
ROUTED: Final = "routed"  # by (vhost, exchange, queue)

COLUMNS: Final[Mapping[str, tuple[Column, ...]]] = {
    NODE: (
        *_gauges(DEPTHS, "queue_totals", LENGTHS),
        *_counters(NODE_STATS_NAMES),
        *_counters(CHURN, "churn_rates"),
        *_gauges(NODE_GAUGES, "", NODE_STATS),
    ),
    VHOST: (*_gauges(DEPTHS, "", LENGTHS), *_counters(QUEUE_STATS)),
    QUEUE: (*_gauges(DEPTHS, "", LENGTHS), *_counters(QUEUE_STATS)),
    EXCHANGE: _counters(("publish_in", "publish_out")),
    CONNECTION: _counters(("recv_oct", "send_oct"), "", DATA_RATES),
    CHANNEL: _counters(CHANNEL_STATS),
    PUBLISHED: _counters(("publish",), "stats"),
    ROUTED: _counters(("publish",), "stats"),
}


class Ring:
    """The newest samples, the first of each `interval_ms`; times ascend."""

    __slots__ = ("_first", "_interval_ms", "_room", "_times", "_values", "_width")

    def __init__(self, interval_ms: int, room: int, width: int) -> None:
        self._interval_ms = interval_ms
        self._room = room
        self._width = width
        self._first = 0  # place of the oldest, once there is no room
        self._times = array("q")
        self._values = array("q")

    def add(self, now_ms: int, values: Sequence[int]) -> None:
        count = len(self._times)
        if count and now_ms // self._interval_ms <= self._time(count - 1) // self._interval_ms:
            return
        if count < self._room:
            self._times.append(now_ms)
            self._values.extend(values)
            return
        at = self._first
        self._times[at] = now_ms
        self._values[at * self._width : (at + 1) * self._width] = array("q", values)
        self._first = (at + 1) % self._room

    def reach_ms(self) -> int:
        """How far it can look back."""
        return self._interval_ms * (self._room - 1)

    def samples(self, column: int, age_ms: int, step_ms: int) -> list[tuple[int, int]]:
        """(time, value) at each whole step from the newest back, as far as is known."""
        place = len(self._times) - 1
        if place < 0:
            return []
        newest = self._time(place)
        at = newest - newest % step_ms
        oldest = at - age_ms
        found: list[tuple[int, int]] = []
        while at >= oldest and len(found) < SAMPLES_MAX:
            while place >= 0 and self._time(place) > at:
                place -= 1
            if place < 0:
                break
            found.append((at, self._value(place, column)))
            at -= step_ms
        return found

    def _time(self, place: int) -> int:
        return self._times[(self._first + place) % self._room]

    def _value(self, place: int, column: int) -> int:
        return self._values[(self._first + place) % self._room * self._width + column]


class History:
    """Samples of one object, in rings of growing steps."""

    __slots__ = ("rings",)

    def __init__(self, spans: Sequence[tuple[int, int]], width: int) -> None:
        self.rings = [Ring(interval_ms, room, width) for interval_ms, room in spans]

    def add(self, now_ms: int, values: Sequence[int]) -> None:
        for ring in self.rings:
            ring.add(now_ms, values)

    def samples(self, column: int, age_s: int, step_s: int) -> list[tuple[int, int]]:
        """From the finest ring that looks back as far as that."""
        age_ms, step_ms = age_s * 1000, max(1, step_s) * 1000
        needed_ms = max(age_ms, step_ms)
        fit = next((each for each in self.rings if each.reach_ms() >= needed_ms), self.rings[-1])
        return fit.samples(column, age_ms, step_ms)


class Track:
    """What is known of one object. Invariant: `before_ms` < `last_ms`, or 0: one sample so far."""

    __slots__ = ("asked_ms", "before", "before_ms", "changed_ms", "history", "last", "last_ms")

    def __init__(self, now_ms: int, values: Sequence[int]) -> None:
        self.asked_ms = now_ms
        self.last = array("q", values)
        self.last_ms = now_ms
        self.before = self.last
        self.before_ms = 0
        self.changed_ms = now_ms  # when a sample was last another one than that before
        self.history: History | None = None

    def keep_history(self, spans: Sequence[tuple[int, int]] = SPANS) -> None:
        """From now on, with the samples that there are."""
        if self.history is None:
            self.history = History(spans, len(self.last))
            if self.before_ms:
                self.history.add(self.before_ms, self.before)
            self.history.add(self.last_ms, self.last)

    def observe(self, now_ms: int, values: Sequence[int], least_ms: int) -> None:
        """Values of now; left out if `least_ms` have not passed since those before."""
        if now_ms - self.last_ms < least_ms:
            return
        self.before, self.before_ms = self.last, self.last_ms
        self.last, self.last_ms = array("q", values), now_ms
        if self.last != self.before:
            self.changed_ms = now_ms
        if self.history is not None:
            self.history.add(now_ms, self.last)

    def rate(self, place: int, column: Column) -> float | None:
        """A second, over the last interval; None: there is one sample so far."""
        if self.before_ms == 0:
            return None
        grown = self.last[place] - self.before[place]
        if grown < 0 and not column.is_gauge:
            return 0.0
        return round(grown * 1000 / (self.last_ms - self.before_ms), 2)

    def idle_since_ms(self) -> int | None:
        """Since when nothing is counted of it, as far as is known; None: something is."""
        return self.changed_ms if self.last_ms > self.changed_ms else None

    def details(self, columns: Sequence[Column], ranges: Ranges) -> "list[Measured]":
        """For each column its rate, or, where a range is asked of it, all that it says."""
        found: list[Measured] = []
        for place, column in enumerate(columns):
            rate = self.rate(place, column)
            asked = ranges.get(column.family)
            if asked is None or self.history is None:
                found.append(rate)
            else:
                samples = self.history.samples(place, asked[0], asked[1])
                found.append(with_samples(rate, samples))
        return found


def with_samples(rate: float | None, samples: Sequence[tuple[int, int]]) -> Detail:
    """`samples`: time and value, newest first. What is not known yet is left out."""
    detail: Detail = {
        "samples": [{"sample": value, "timestamp": at} for at, value in samples],
    }
    if rate is not None:
        detail["rate"] = rate
    if samples:
        detail["avg"] = round(sum(value for _, value in samples) / len(samples), 2)
        (newest_at, newest), (oldest_at, oldest) = samples[0], samples[-1]
        if newest_at > oldest_at:
            detail["avg_rate"] = round((newest - oldest) * 1000 / (newest_at - oldest_at), 2)
    return detail


def summed(parts: Sequence[Measured]) -> Measured:
    """The same column of several nodes together; a sample counts where its node has one."""
    rates = [rate for rate in map(_rate_of, parts) if rate is not None]
    rate = round(sum(rates), 2) if rates else None
    if not any(isinstance(part, dict) for part in parts):
        return rate
    total: dict[int, int] = {}
    for part in parts:
        for sample in part["samples"] if isinstance(part, dict) else ():
            at = sample["timestamp"]
            total[at] = total.get(at, 0) + sample["sample"]
    return with_samples(rate, sorted(total.items(), reverse=True))


def _rate_of(part: Measured) -> float | None:
    return part.get("rate") if isinstance(part, dict) else part


def put_details(row: Row, kind: str, details: Sequence[Measured]) -> Row:
    """The row with `X_details` beside each X; `details` are in the order of the kind's columns."""
    for column, detail in zip(COLUMNS[kind], details, strict=False):
        place = row.setdefault(column.inside, {}) if column.inside else row
        put_detail(place, column.name, detail)
    return row


def put_detail(row: Row, name: str, detail: Measured) -> None:
    """`NAME_details`, if anything is known of it."""
    if detail is not None:
        row[f"{name}_details"] = detail if isinstance(detail, dict) else {"rate": detail}


def with_idle(row: Row, idle_since_ms: int | None) -> Row:
    """The row with the time since when it is idle, if it is."""
    if idle_since_ms is not None:
        moment = datetime.fromtimestamp(idle_since_ms / 1000, UTC)
        row["idle_since"] = moment.isoformat(timespec="milliseconds")
    return row


def unknown(kind: str) -> tuple[None, ...]:
    """Details of an object of which there are no samples."""
    return (None,) * len(COLUMNS[kind])

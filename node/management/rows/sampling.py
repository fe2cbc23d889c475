"""Who is looked at, and the samples of those: rates of a node. Runs on the loop, in slices.

    rates = Rates(tallies, broker.now_ms, interval_ms)
    rates.start()                                       # until `await rates.stop()`
    details = rates.of(QUEUE, ("/", "orders"), ranges)  # looked at from now on, for a minute

The node itself is sampled always, every other object only while a client looks at it: the first
look gives no rate. Samples are taken at whole multiples of the interval, so that those of several
nodes can be added up. At most TRACKS_MAX objects are followed (about 12 MB), HISTORIES_MAX of them
with samples for charts (17 KB each; the one asked for longest ago is dropped). What is beyond that
has no rate. Objects that cannot be read any more are forgotten. Not compiled.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Hashable, Sequence
from time import time_ns
from typing import TYPE_CHECKING, Final, Protocol, TypeAlias

from node.management.replies import ApiError
from node.management.rows.rates import (
    COLUMNS,
    FAMILIES,
    LONG_SPANS,
    NO_RANGES,
    NODE,
    Measured,
    Ranges,
    Row,
    Track,
    put_details,
    unknown,
)
from node.supervision import supervised

if TYPE_CHECKING:
    from multidict import MultiMapping

Key: TypeAlias = Hashable
Pair: TypeAlias = tuple[str, str, str]  # the key of what two objects have to do with each other

INTERVAL_MS: Final = 5_000
LOOKED_AT_MS: Final = 60_000
TRACKS_MAX: Final = 20_000
HISTORIES_MAX: Final = 64
SLICE: Final = 250
AGE_S_MAX: Final = 31 * 24 * 3600


class Tallies(Protocol):
    """Who knows the numbers."""

    def read(self, kind: str, key: Key) -> Sequence[int] | None:
        """Of the object's columns, in the order of COLUMNS; None: it is gone, or at rest."""

    def pairs(self, kind: str, chosen: Sequence[str | None]) -> Sequence[Pair]:
        """PUBLISHED or ROUTED: what was counted of them; None: any. They are, for a minute."""


class NoTallies:
    """Nothing is known of anything."""

    def read(self, kind: str, key: Key) -> Sequence[int] | None:
        return None

    def pairs(self, kind: str, chosen: Sequence[str | None]) -> Sequence[Pair]:
        return ()


def now_ms() -> int:
    return time_ns() // 1_000_000


class Rates:
    """Invariant: every history belongs to a track in `_tracks`."""

    def __init__(
        self,
        tallies: Tallies | None = None,
        clock: Callable[[], int] = now_ms,
        interval_ms: int = INTERVAL_MS,
    ) -> None:
        self._tallies = NoTallies() if tallies is None else tallies
        self._now_ms = clock
        self._interval_ms = interval_ms
        self._tracks: dict[tuple[str, Key], Track] = {}
        self._charted: OrderedDict[tuple[str, Key], Track] = OrderedDict()
        self._node: Track | None = None
        self._task: asyncio.Task[None] | None = None

    @property
    def track_count(self) -> int:
        return len(self._tracks)

    @property
    def knows_counts(self) -> bool:
        """Whether a source reports the numbers of objects: what it does not know of is at rest."""
        return not isinstance(self._tallies, NoTallies)

    # Looking

    def of(self, kind: str, key: Key, ranges: Ranges = NO_RANGES) -> Sequence[Measured]:
        """Details of the columns of an object."""
        track = self._node_track() if kind == NODE else self._track(kind, key)
        if track is None:
            return unknown(kind)
        columns = COLUMNS[kind]
        if kind != NODE and any(each.family in ranges for each in columns):
            self._chart(kind, key, track)
        return track.details(columns, ranges)

    def values(self, kind: str, key: Key) -> Sequence[int] | None:
        """The numbers of now; None: the object is gone, or at rest."""
        return self._tallies.read(kind, key)

    def pairs(
        self, kind: str, chosen: Sequence[str | None], ranges: Ranges = NO_RANGES
    ) -> list[tuple[Pair, int, Measured]]:
        """Those of a kind whose parts are as chosen, with their counts and details."""
        found: list[tuple[Pair, int, Measured]] = []
        for pair in self._tallies.pairs(kind, chosen):
            values = self._tallies.read(kind, pair)
            if values is not None:
                found.append((pair, values[0], self.of(kind, pair, ranges)[0]))
        return found

    def rate(self, kind: str, key: Key, place: int) -> float | None:
        """Of one column of an object; None: it is not known."""
        track = self._track(kind, key)
        return None if track is None else track.rate(place, COLUMNS[kind][place])

    def idle_since_ms(self, kind: str, key: Key) -> int | None:
        """Of an object that is looked at; None: it is in use, or not known yet."""
        track = self._tracks.get((kind, key))
        return None if track is None else track.idle_since_ms()

    def put(self, row: Row, kind: str, key: Key, ranges: Ranges = NO_RANGES) -> Row:
        """The row of the object with its details."""
        return put_details(row, kind, self.of(kind, key, ranges))

    def reset(self) -> None:
        """Start again: forget all samples."""
        self._tracks.clear()
        self._charted.clear()
        self._node = None

    def _node_track(self) -> Track | None:
        if self._node is None:
            values = self._tallies.read(NODE, None)
            if values is None:
                return None
            self._node = Track(self._now_ms(), values)
            self._node.keep_history(LONG_SPANS)
        return self._node

    def _track(self, kind: str, key: Key) -> Track | None:
        place = (kind, key)
        track = self._tracks.get(place)
        if track is not None:
            track.asked_ms = self._now_ms()
            return track
        if len(self._tracks) >= TRACKS_MAX:
            return None
        values = self._tallies.read(kind, key)
        if values is None:
            return None
        track = Track(self._now_ms(), values)
        self._tracks[place] = track
        return track

    def _chart(self, kind: str, key: Key, track: Track) -> None:
        """A client draws it: keep its samples."""
        place = (kind, key)
        if place not in self._charted and len(self._charted) >= HISTORIES_MAX:
            _, oldest = self._charted.popitem(last=False)
            oldest.history = None
        track.keep_history()
        self._charted[place] = track
        self._charted.move_to_end(place)

    # Sampling

    def start(self) -> None:
        """Sample from now on."""
        self._task = asyncio.get_running_loop().create_task(supervised("statistics", self.run))

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def run(self) -> None:
        interval = self._interval_ms
        while True:
            due = (self._now_ms() // interval + 1) * interval
            while (left := due - self._now_ms()) > 0:  # A timer may be early by a millisecond.
                await asyncio.sleep(left / 1000)
            await self.sample()

    async def sample(self) -> None:
        """One round: the node, then who is looked at, a slice at a time."""
        at = self._now_ms()
        at -= at % self._interval_ms
        node = self._node_track()
        values = self._tallies.read(NODE, None)
        if node is not None and values is not None:
            node.observe(at, values, self._interval_ms // 2)
        places = list(self._tracks)
        for start in range(0, len(places), SLICE):
            for place in places[start : start + SLICE]:
                self._sample_one(place, at)
            await asyncio.sleep(0)

    def _sample_one(self, place: tuple[str, Key], at: int) -> None:
        track = self._tracks.get(place)
        if track is None:
            return  # Forgotten meanwhile.
        values = None
        if at - track.asked_ms <= LOOKED_AT_MS:
            values = self._tallies.read(*place)
        if values is None:
            del self._tracks[place]
            self._charted.pop(place, None)
            return
        track.observe(at, values, self._interval_ms // 2)


def parse_ranges(query: "MultiMapping[str]") -> Ranges:
    """`X_age` and `X_incr` of each family, in seconds; ApiError 400 for what is no such thing."""
    found: dict[str, Sequence[int]] = {}
    for family in FAMILIES:
        age, step = query.get(f"{family}_age"), query.get(f"{family}_incr")
        if age is not None and step is not None:
            found[family] = (_seconds(f"{family}_age", age), _seconds(f"{family}_incr", step))
    return found or NO_RANGES


def _seconds(name: str, text: str) -> int:
    is_number = text.isascii() and text.isdigit() and len(text) <= 8
    if not is_number or not 1 <= int(text) <= AGE_S_MAX:
        raise ApiError.bad_request(f"{name} must be a whole number from 1 to {AGE_S_MAX}")
    return int(text)

"""The events of the whole cluster in one numbered row, for those who follow it on this node.

    feed = EventFeed(broker.events, part, incarnation)
    follower = feed.join(wants, last_id)         # FeedFull
    await feed.begun(2.0)
    entries = await follower.take(15.0)          # Entry(number, event), or Lost(count, node)
    feed.leave(follower)

Events of this node come from its `Events`, those of others from `Elsewhere` (in a cluster,
`node.cluster.services.events_channel`), which is asked for them only while a client follows, and
for LINGER_S
after that, so that who comes back finds what it has missed. Numbers are given here as events come
in: of one node they are in order, of several as they arrived. An id is `PROCESS-NUMBER`; one of
another process or node, or from before the ring begins, means that something is lost.

Limits: RING_MAX events are kept for those who come back; FOLLOWERS_MAX follow at a time; of each,
WAITING_MAX events wait, and when there are more, it is cut: it hears how many were lost, and ends.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from typing import Final, Protocol

from msgspec import Struct

from node.events.events import Event, Events
from node.timers import CallLater, Handle

RING_MAX: Final = 1024
WAITING_MAX: Final = 1024
FOLLOWERS_MAX: Final = 64
LINGER_S: Final = 60.0


class Entry(Struct, frozen=True):
    """An event with its number in the feed."""

    number: int  # 1-based
    event: Event


class Lost(Struct, frozen=True):
    """Events that are lost to clients of this node. `count` 0: unknown how many."""

    count: int
    node: str = ""  # whose; "": of several, or of this node


class FeedFull(Exception):
    """FOLLOWERS_MAX follow already."""


class Watcher(Struct, frozen=True):
    """Who has the events of the other nodes."""

    heard: Callable[[Event], None]
    lost: Callable[[Lost], None]
    ready: Callable[[], None]  # from all nodes that can be reached, from now on


class Elsewhere(Protocol):
    """Events of the other nodes."""

    def watch(self, watcher: Watcher) -> None:
        """Let it have them, until `unwatch`."""

    def unwatch(self) -> None: ...


class Follower:
    """One who follows. Invariant: `_woken` is set while there is something to take."""

    def __init__(self, wants: Callable[[str], bool]) -> None:
        self._wants = wants
        self._waiting: deque[Entry | Lost] = deque()
        self._lost_count = 0  # once it is cut
        self._is_over = False
        self._woken = asyncio.Event()

    @property
    def is_cut(self) -> bool:
        return self._lost_count > 0

    def put(self, entry: Entry | Lost) -> None:
        """One more for it, if it wants that."""
        if isinstance(entry, Entry) and not self._wants(entry.event.name):
            return
        if self.is_cut or len(self._waiting) >= WAITING_MAX:
            self._lost_count += 1
        else:
            self._waiting.append(entry)
        self._woken.set()

    def end(self) -> None:
        """Nothing more will come: what waits is the last of it."""
        self._is_over = True
        self._woken.set()

    async def take(self, seconds: float) -> list[Entry | Lost] | None:
        """What has come, once something has; nothing after so long; None: it is over, or cut, and
        the last event of that was sent."""
        if not self._waiting and not self._is_over and not self.is_cut:
            try:
                async with asyncio.timeout(seconds):
                    await self._woken.wait()
            except TimeoutError:
                return []
        taken = list(self._waiting)
        self._waiting.clear()
        self._woken.clear()
        if not taken and (self.is_cut or self._is_over):
            return None
        if self.is_cut:
            taken.append(Lost(self._lost_count))
        return taken


class EventFeed:
    """See the module. Invariant: this hears of events exactly while `_leave` is set."""

    def __init__(
        self, events: Events, elsewhere: Elsewhere, process: int, call_later: CallLater
    ) -> None:
        self._events = events
        self._elsewhere = elsewhere
        self._process = f"{process:016x}"
        self._call_later = call_later
        self._followers: list[Follower] = []
        self._ring: deque[Entry] = deque(maxlen=RING_MAX)
        self._number = 0
        self._begun = 0  # nothing is known of what came before this number
        self._leave: Callable[[], None] | None = None
        self._ready = asyncio.Event()  # all nodes tell what happens from now on
        self._lingering: Handle | None = None

    @property
    def follower_count(self) -> int:
        return len(self._followers)

    def id_of(self, number: int) -> str:
        return f"{self._process}-{number}"

    def join(self, wants: Callable[[str], bool], last_id: str = "") -> Follower:
        """Follow from now on, or from behind an id that was sent before. FeedFull."""
        if len(self._followers) >= FOLLOWERS_MAX:
            raise FeedFull(f"{FOLLOWERS_MAX} streams of events are open")
        self._begin()
        follower = Follower(wants)
        for entry in self._behind(last_id) if last_id else ():
            follower.put(entry)
        self._followers.append(follower)
        return follower

    async def begun(self, seconds: float) -> None:
        """Wait until nothing that happens on another node is missed, but no longer than this."""
        try:
            async with asyncio.timeout(seconds):
                await self._ready.wait()
        except TimeoutError:
            return  # Some node does not answer; what it tells comes when it does.

    def leave(self, follower: Follower) -> None:
        """It does not follow any more."""
        if follower in self._followers:
            self._followers.remove(follower)
        if not self._followers and self._lingering is None:
            self._lingering = self._call_later(LINGER_S, self._end)

    def _behind(self, last_id: str) -> Sequence[Entry | Lost]:
        process, _, digits = last_id.rpartition("-")
        is_known = process == self._process and digits.isascii() and digits.isdigit()
        if not is_known or len(digits) > 18 or int(digits) > self._number:
            return [Lost(0)]
        number = int(digits)
        if number < self._begun:
            return [Lost(0), *self._ring]
        first = self._ring[0].number if self._ring else self._number + 1
        found: list[Entry | Lost] = [Lost(first - number - 1)] if first > number + 1 else []
        return [*found, *(entry for entry in self._ring if entry.number > number)]

    def _begin(self) -> None:
        if self._lingering is not None:
            self._lingering.cancel()
            self._lingering = None
        if self._leave is None:
            self._leave = self._events.subscribe(self._heard)
            self._ready.clear()
            self._elsewhere.watch(Watcher(self._heard, self._lost, self._ready.set))

    def _end(self) -> None:
        """No client has followed for a while: what others have is not asked for any more. Who comes
        back with an id of before hears that something is lost."""
        self._lingering = None
        if self._leave is not None and not self._followers:
            self._leave()
            self._leave = None
            self._elsewhere.unwatch()
            self._ring.clear()
            self._number += 1
            self._begun = self._number

    def _heard(self, event: Event) -> None:
        self._number += 1
        entry = Entry(self._number, event)
        self._ring.append(entry)
        for follower in self._followers:
            follower.put(entry)

    def _lost(self, lost: Lost) -> None:
        for follower in self._followers:
            follower.put(lost)

    def close(self) -> None:
        """The node stops: all streams end."""
        for follower in self._followers:
            follower.end()
        if self._lingering is not None:
            self._lingering.cancel()
            self._lingering = None

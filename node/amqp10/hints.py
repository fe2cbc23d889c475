"""The links of one connection that tell where their queue is, kept true.

`LinkHints` hears of each link with a queue when it is attached (`join`) and when it is over
(`leave`). It gives the link its properties, in full and in short, and when the queue's place has
changed has them pushed in a flow that leaves the link's credit as it is: at once for a leader of a
higher epoch, else no more than once in PUSH_MS for each queue, then with what is so by that time.
An epoch below one already sent is ignored. Limits: one entry per queue and link of the
connection. No I/O: clock and timer are its owner's. Not compiled: seldom busy.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Final, Protocol

from msgspec import Struct

from node.amqp10.locality import Hints, beside, hints_of
from node.cluster.services.whereis import Place, WhereIs
from queues.definitions.broker_objects import Queue
from warren.wire.amqp10.link import Link
from warren.wire.amqp10.session import Session

RESOLVED_QUEUE: Final = "resolved-queue"
PUSH_MS: Final = 250  # between two pushes that tell of no higher epoch


class Timer(Protocol):
    def cancel(self) -> None: ...


class HintCounts(Struct):
    """Of the whole node, for the metrics."""

    local: int = 0  # links whose queue is led by this node, now
    remote: int = 0  # and those whose queue is not
    pushes: int = 0  # flows that told of a change


class HintOwner(Protocol):
    """The endpoint, and through it the node."""

    @property
    def whereis(self) -> WhereIs: ...

    @property
    def hint_counts(self) -> HintCounts: ...

    def urls_of(self, node: str) -> list[str]:
        """Where a client reaches that node as it reached this one."""

    def hints_wanted(self) -> bool: ...

    def monotonic_ms(self) -> int: ...

    def call_later(self, ms: int, call: Callable[[], None]) -> Timer:
        """`call` comes within a turn."""

    def mark(self) -> None: ...


class QueueHints:
    """One queue of the connection, and the links that have it.

    Invariant: `place.epoch` is the highest that was known, and all links have `_hints`.
    """

    def __init__(self, owner: HintOwner, queue: Queue) -> None:
        self.links: dict[Link, Session] = {}
        self._resolved: set[Link] = set()  # those that name an exchange
        self._owner = owner
        self._queue = queue
        self._place = owner.whereis.place(queue)
        self._hints = self._made()
        self._pushed_ms = -PUSH_MS
        self._timer: Timer | None = None
        owner.whereis.watch(queue.uid, self.changed)

    def end(self) -> None:
        """No link has the queue any more."""
        self._owner.whereis.unwatch(self._queue.uid, self.changed)
        if self._timer is not None:
            self._timer.cancel()

    def join(self, link: Link, session: Session, is_resolved: bool) -> None:
        self.links[link] = session
        if is_resolved:
            self._resolved.add(link)
        self._count(1)
        self._give(link)

    def leave(self, link: Link) -> None:
        del self.links[link]
        self._resolved.discard(link)
        self._count(-1)

    def changed(self) -> None:
        """The queue may be led by another node."""
        place = self._known(self._owner.whereis.place(self._queue))
        wait_ms = self._pushed_ms + PUSH_MS - self._owner.monotonic_ms()
        if place == self._place:
            return
        if place.epoch > self._place.epoch or wait_ms <= 0:
            self._push(place)
        elif self._timer is None:  # Else it is looked at again by then.
            self._timer = self._owner.call_later(wait_ms, self._waited)

    def _waited(self) -> None:
        self._timer = None
        place = self._known(self._owner.whereis.place(self._queue))
        if place != self._place:
            self._push(place)

    def _known(self, place: Place) -> Place:
        """What is so now, without going back behind an epoch already sent."""
        if place.epoch >= self._place.epoch:
            return place
        if place.leader is None:
            return replace(place, epoch=self._place.epoch)
        return self._place

    def _push(self, place: Place) -> None:
        self._count(-len(self.links))
        self._place = place
        self._count(len(self.links))
        self._hints = self._made()
        self._pushed_ms = self._owner.monotonic_ms()
        for link, session in self.links.items():
            self._give(link)
            if not link.full_due:
                session.push_flow(link)
                self._owner.hint_counts.pushes += 1
        self._owner.mark()

    def _made(self) -> Hints:
        return hints_of(self._place, self._owner.whereis.here, self._owner.urls_of)

    def _give(self, link: Link) -> None:
        full, short = self._hints
        if link in self._resolved:
            full = full | {RESOLVED_QUEUE: self._queue.name}
        link.properties = beside(full, link.properties)
        link.properties_short = beside(short, link.properties_short)

    def _count(self, more: int) -> None:
        counts = self._owner.hint_counts
        if self._place.leader == self._owner.whereis.here:
            counts.local += more
        else:
            counts.remote += more


class LinkHints:
    """See the module. Invariant: a queue is watched while a link of the connection has it."""

    def __init__(self, owner: HintOwner) -> None:
        self._owner = owner
        self._queues: dict[int, QueueHints] = {}  # by uid
        self._of: dict[Link, int] = {}  # uid of its queue

    def join(
        self, link: Link, session: Session, queue: Queue | None, is_resolved: bool = False
    ) -> None:
        """The link has this queue; its first flow tells where that is. None: it has none.

        `is_resolved`: it names an exchange, which leads to this queue alone.
        """
        if queue is None or not self._owner.hints_wanted():
            return
        hints = self._queues.get(queue.uid)
        if hints is None:
            hints = QueueHints(self._owner, queue)
            self._queues[queue.uid] = hints
        self._of[link] = queue.uid
        hints.join(link, session, is_resolved)

    def resolve(self, link: Link, session: Session, queue: Queue | None) -> None:
        """The exchange that the link names leads to this queue alone now; None: to others, too."""
        before = self._of.get(link)
        if before == (None if queue is None else queue.uid):
            return
        self.leave(link)
        link.properties = beside({}, link.properties) or None
        link.properties_short = beside({}, link.properties_short) or None
        self.join(link, session, queue, True)
        if link in self._of and not link.full_due:
            session.push_flow(link)
            self._owner.mark()

    def leave(self, link: Link) -> None:
        """The link is over; it may never have joined."""
        uid = self._of.pop(link, None)
        if uid is None:
            return
        hints = self._queues[uid]
        hints.leave(link)
        if not hints.links:
            hints.end()
            del self._queues[uid]

    def end(self) -> None:
        """The connection is over."""
        for link in list(self._of):
            self.leave(link)

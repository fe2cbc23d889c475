"""Purges and counts of queues for one connection: the session that asks, and who waits for which.

A queue answers either in order; when it goes first, `on_gone` is the answer. What else queues tell
sessions is about publishes and consumers, of which this session has none.
"""

from collections import deque
from collections.abc import Callable
from typing import Final

from msgspec import Struct

from node.events.consumerless import Consumerless, unasked
from queues.machine.commands import EndSession, Inspect, Purge, SessionId
from queues.queue_host import QueueHost
from queues.sessions.credit import CreditActor, CreditSpec

CREDIT: Final = CreditSpec(1, 1)  # it sends no messages

Purged = Callable[[int | None], None]


class Standing(Struct, frozen=True):
    """How a queue stands, as it has told itself (`queues.queue_host.Counts`)."""

    ready_count: int
    consumer_count: int
    checked_out_count: int = 0  # not told


Looked = Callable[[Standing | None], None]


class _Waiting:
    """What one queue has to answer, the oldest first."""

    __slots__ = ("asked", "host", "looks")

    def __init__(self, host: QueueHost) -> None:
        self.host = host
        self.asked: deque[Purged] = deque()
        self.looks: deque[Looked] = deque()


class Purges(Consumerless):
    """Keeps `queues.queue_host.SessionSink`. Invariant: a queue knows the session while it has
    asked."""

    def __init__(self, session: SessionId) -> None:
        self._session = session
        self._credit = CreditActor("management", CREDIT)
        self._waiting: dict[int, _Waiting] = {}  # by uid of the queue

    @property
    def session(self) -> SessionId:
        return self._session

    @property
    def credit(self) -> CreditActor:
        return self._credit

    def purge(self, host: QueueHost, done: Purged) -> None:
        """Purge the queue; `done` hears how many messages went, or None: the queue did."""
        waiting = self._waiting.setdefault(host.uid, _Waiting(host))
        waiting.asked.append(done)
        host.command(self, Purge(self._session))

    def look(self, host: QueueHost, done: Looked) -> None:
        """Ask the queue how it stands; `done` hears its counts, or None: it went."""
        waiting = self._waiting.setdefault(host.uid, _Waiting(host))
        waiting.looks.append(done)
        host.command(self, Inspect(self._session))

    def close(self) -> None:
        """The caller no longer waits."""
        for waiting in self._waiting.values():
            waiting.host.command(self, EndSession(self._session))
        self._waiting = {}

    def on_purged(self, uid: int, count: int) -> None:
        waiting = self._waiting.get(uid)
        if waiting is None:
            return  # Closed meanwhile.
        done = waiting.asked.popleft()
        self._leave(uid, waiting)
        done(count)

    def on_inspected(self, uid: int, ready: int, consumer_count: int) -> None:
        waiting = self._waiting.get(uid)
        if waiting is None:
            return  # Closed meanwhile.
        done = waiting.looks.popleft()
        self._leave(uid, waiting)
        done(Standing(ready, consumer_count))

    def _leave(self, uid: int, waiting: _Waiting) -> None:
        """The queue has answered; whether that was all."""
        if not waiting.asked and not waiting.looks:
            del self._waiting[uid]
            waiting.host.command(self, EndSession(self._session))

    def on_gone(self, uid: int) -> None:
        waiting = self._waiting.pop(uid, None)
        if waiting is None:
            return
        for purged in waiting.asked:
            purged(None)
        for looked in waiting.looks:
            looked(None)

    # What concerns publishes and messages that were got

    def on_confirms(self, uid: int, upto_seq: int) -> None:
        unasked()

    def on_refused(self, uid: int, first_seq: int, count: int) -> None:
        unasked()

    def on_got(self, uid: int, message: int, redelivered: bool, ready: int, attempts: int) -> None:
        unasked()

    def on_timed_out(self, uid: int, number: int, timeout_ms: int) -> None:
        unasked()

    def on_loaded(self, uid: int) -> None:
        unasked()

    def on_unreadable(self, uid: int) -> None:
        unasked()

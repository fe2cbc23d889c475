"""Stores and queries what a stream remembers by name, on behalf of one node.

A `Tracker` is a session of its own at the stream. Offsets that are stored while a command is under
way wait in one table, so a name that is stored often costs one command at a time. Queries get their
answer from the stream's leader behind everything that was stored before them on this node.
"""

from collections import deque
from collections.abc import Callable
from typing import Final

from msgspec import Struct

from queues.machine.commands import (
    NAME_BYTES_MAX,
    TRACKED_OFFSET,
    TRACKED_PUBLISHER,
    Command,
    QueryTracking,
    SessionId,
    StoreOffsets,
)
from queues.queue_host import PublishingOnly
from queues.remote.quorum_proxy import QuorumProxy
from queues.sessions.credit import CreditActor, CreditSpec

CREDIT: Final = CreditSpec(1, 1)
Answered = Callable[
    [int | None], None
]  # the number; None: nothing is stored, or the stream is gone


class Query(Struct):
    subject: int
    name: bytes
    done: Answered


class Tracker(PublishingOnly):
    """See the module. Keeps `SessionSink`."""

    def __init__(self, proxy: QuorumProxy, draw_session: Callable[[], SessionId]) -> None:
        self._proxy = proxy
        self._draw_session = draw_session
        self._session = draw_session()
        self._credit = CreditActor("offset tracking", CREDIT)
        self._waiting: deque[dict[bytes, int] | Query] = deque()
        self._sent: dict[bytes, int] | Query | None = None  # not answered yet

    @property
    def session(self) -> SessionId:
        return self._session

    @property
    def credit(self) -> CreditActor:
        return self._credit

    def store_offset(self, name: bytes, offset: int) -> None:
        assert 0 < len(name) <= NAME_BYTES_MAX, f"a name of {len(name)} bytes"
        last = self._waiting[-1] if self._waiting else None
        if isinstance(last, dict):
            last[name] = offset
        else:
            self._waiting.append({name: offset})
        self._go_on()

    def query_offset(self, name: bytes, done: Answered) -> None:
        """Ask for the offset that was stored last under the name of a consumer."""
        self._query(Query(TRACKED_OFFSET, name, done))

    def query_publisher(self, name: bytes, done: Answered) -> None:
        """Ask for the highest publishing id of a publisher."""
        self._query(Query(TRACKED_PUBLISHER, name, done))

    def _query(self, query: Query) -> None:
        assert len(query.name) <= NAME_BYTES_MAX, f"a name of {len(query.name)} bytes"
        self._waiting.append(query)
        self._go_on()

    def _go_on(self) -> None:
        if self._sent is None and self._waiting:
            self._sent = self._waiting.popleft()
            self._proxy.command(self, self._command(self._sent))

    def _command(self, work: dict[bytes, int] | Query) -> Command:
        if isinstance(work, Query):
            return QueryTracking(self._session, work.subject, work.name)
        return StoreOffsets(self._session, list(work.items()))

    # From the stream

    def on_confirms(self, uid: int, upto_seq: int) -> None:
        raise AssertionError("a tracker publishes nothing")

    def on_refused(self, uid: int, first_seq: int, count: int) -> None:
        raise AssertionError("a tracker publishes nothing")

    def on_inspected(self, uid: int, ready: int, consumer_count: int) -> None:
        """Take the answer to what was sent: one more than the number, or 0."""
        work, self._sent = self._sent, None
        if isinstance(work, Query):
            work.done(ready - 1 if ready > 0 else None)
        self._go_on()

    def on_gone(self, uid: int) -> None:
        """The stream is deleted, or the cluster has ended the session, which is sent again then."""
        work, self._sent = self._sent, None
        if work is not None:
            self._waiting.appendleft(work)
        if not self._proxy.is_gone:
            self._session = self._draw_session()
            self._go_on()
            return
        waiting, self._waiting = self._waiting, deque()
        for each in waiting:
            if isinstance(each, Query):
                each.done(None)

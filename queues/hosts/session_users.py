"""The sessions that use a queue on this node: their sinks, and what of theirs is journaled.

Most queues have one session that publishes and one that consumes. Those that did so last are kept
apart, so that a message needs no lookup: numbers of sessions are long, and a table of each queue's
own is out of the processor's cache when thousands of queues take turns (0009). Compiled.
"""

from typing import final

from mypy_extensions import i64

from queues.machine.commands import ConsumerKey, SessionId, session_of
from queues.queue_host import SessionSink


@final
class Users:
    """Invariant: whom it knows apart is among all the others too, with the same sink."""

    def __init__(self) -> None:
        self._sinks: dict[SessionId, SessionSink] = {}
        self._receipts: dict[SessionId, int] = {}  # of all but `_publisher`
        self._publisher: SessionSink | None = None  # who has published last,
        self._publishing = SessionId(0)  # its session,
        self._receipt: i64 = 0  # and its last receipt in the journal
        self._commander: SessionSink | None = None  # who has given a command last
        self._served: SessionSink | None = None  # who was served last,
        self._served_key = ConsumerKey(0)  # and as which consumer

    def publishes(self, sink: SessionSink) -> SessionId:
        """The session is about to publish; its number."""
        if sink is not self._publisher:
            self._change_publisher(sink)
        return self._publishing

    def _change_publisher(self, sink: SessionSink) -> None:
        session = sink.session
        self.adopt(sink)
        if self._publisher is not None:
            self._receipts[self._publishing] = self._receipt
        self._publisher = sink
        self._publishing = session
        self._receipt = self._receipts.pop(session, 0)

    def commands(self, sink: SessionSink) -> None:
        """The session is about to give a command."""
        if sink is not self._commander:
            self.adopt(sink)
            self._commander = sink

    def adopt(self, sink: SessionSink) -> None:
        """The session is about to use the queue; this sink stands for it from now on."""
        session = sink.session
        self._sinks[session] = sink
        self._commander = None
        self._served = None
        if self._publisher is not None and self._publishing == session:
            self._publisher = sink

    def get(self, session: SessionId) -> SessionSink | None:
        return self._sinks.get(session)

    def all(self) -> list[SessionSink]:
        return list(self._sinks.values())

    def publisher(self, session: SessionId) -> SessionSink:
        """The sink of a session that has published."""
        publisher = self._publisher
        if publisher is not None and self._publishing == session:
            return publisher
        return self._sinks[session]

    def served(self, key: ConsumerKey) -> SessionSink:
        """The sink of a consumer."""
        served = self._served
        if served is None or self._served_key != key:
            served = self._sinks[session_of(key)]
            self._served = served
            self._served_key = key
        return served

    def note_receipt(self, session: SessionId, receipt: i64) -> None:
        """What the session has published is behind this receipt of the journal."""
        if self._publisher is not None and self._publishing == session:
            self._receipt = receipt
        else:
            self._receipts[session] = receipt

    def receipt_of(self, session: SessionId) -> i64:
        """0: it has none."""
        if self._publisher is not None and self._publishing == session:
            return self._receipt
        return self._receipts.get(session, 0)

    def end(self, session: SessionId) -> None:
        """No sink stands here for the session any more."""
        self._sinks.pop(session, None)
        self._receipts.pop(session, None)
        self._commander = None
        self._served = None
        if self._publisher is not None and self._publishing == session:
            self._publisher = None
            self._publishing = SessionId(0)
            self._receipt = 0

    def clear(self) -> None:
        self._sinks = {}
        self._receipts = {}
        self._publisher = None
        self._publishing = SessionId(0)
        self._receipt = 0
        self._commander = None
        self._served = None

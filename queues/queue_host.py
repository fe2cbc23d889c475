"""The seam between sessions (channels, links) and queues, whatever kind of host a queue has.

A session hands batches down and gets effects back later, in the same turn or after a sync or a
round trip; never a synchronous result. Local, remote, Raft and mirrored hosts look the same.
"""

from typing import Protocol

from mypy_extensions import mypyc_attr

from queues.machine.commands import Command, ConsumerKey, SessionId
from queues.message import Chunk
from queues.sessions.credit import CreditActor


class SessionSink(Protocol):
    """What a session gets from the queues that it uses; `uid` is the queue's."""

    @property
    def session(self) -> SessionId: ...

    @property
    def credit(self) -> CreditActor:
        """The session's credit account."""

    def on_confirms(self, uid: int, upto_seq: int) -> None:
        """Publishes of this session to the queue are decided, up to and with this number: safe,
        or refused before.
        """

    def on_refused(self, uid: int, first_seq: int, count: int) -> None:
        """The queue is full and did not take these; `on_confirms` for them is still to come."""

    def on_delivers(
        self,
        uid: int,
        number: int,
        delivery_seq: int,
        first: int,
        count: int,
        redelivered: bool,
        attempts: int,
    ) -> None:
        """Messages first.. are checked out to consumer `number` of this session.

        `attempts`: of each of them, times acquired << 32 | failed deliveries, before this one.
        """

    def on_got(self, uid: int, message: int, redelivered: bool, ready: int, attempts: int) -> None:
        """Answer to Get; message 0: nothing was ready."""

    def on_attached(self, uid: int, number: int) -> None: ...

    def on_attach_refused(self, uid: int, number: int, reason: int) -> None:
        """See `queues.machine.effects` for reasons."""

    def on_detached(self, uid: int, number: int, goes: bool) -> None:
        """Answer to Detach; `goes`: that was the last one, and the queue is being deleted."""

    def on_activated(self, uid: int, number: int, active: bool) -> None:
        """The consumer is the queue's single active one now, or no longer."""

    def on_timed_out(self, uid: int, number: int, timeout_ms: int) -> None:
        """The consumer kept a delivery for too long: it is out, and holds nothing any more."""

    def on_drained(self, uid: int, number: int, delivery_count: int) -> None: ...

    def on_purged(self, uid: int, count: int) -> None: ...

    def on_inspected(self, uid: int, ready: int, consumer_count: int) -> None: ...

    def on_loaded(self, uid: int) -> None:
        """Bodies that `view` could not give are in memory now."""

    def on_unreadable(self, uid: int) -> None:
        """Bodies that `view` could not give cannot be read; the queue itself lives on."""

    def on_gone(self, uid: int) -> None:
        """The queue is deleted; its consumers are cancelled."""


class CancelSink(Protocol):
    """A session with consumers that their queue may cancel."""

    def on_cancelled(self, uid: int, key: ConsumerKey) -> None:
        """Another node leads the queue (`x-cancel-on-ha-failover`), or this node has no member of
        the stream any more. Called once."""


class LeaderlessSink(Protocol):
    """A session that does not wait for ever for the answer of a queue without a leader."""

    def on_leaderless(self, uid: int) -> None:
        """The queue has had no leader for too long. What was asked is not answered any more, and is
        not carried out later, unless a leader had got it."""


@mypyc_attr(allow_interpreted_subclasses=True)
class PublishingOnly:
    """The part of a `SessionSink` that a session which consumes nothing is never told."""

    def on_delivers(
        self,
        uid: int,
        number: int,
        delivery_seq: int,
        first: int,
        count: int,
        redelivered: bool,
        attempts: int,
    ) -> None:
        return

    def on_got(self, uid: int, message: int, redelivered: bool, ready: int, attempts: int) -> None:
        return

    def on_attached(self, uid: int, number: int) -> None:
        return

    def on_attach_refused(self, uid: int, number: int, reason: int) -> None:
        return

    def on_detached(self, uid: int, number: int, goes: bool) -> None:
        return

    def on_activated(self, uid: int, number: int, active: bool) -> None:
        return

    def on_timed_out(self, uid: int, number: int, timeout_ms: int) -> None:
        return

    def on_drained(self, uid: int, number: int, delivery_count: int) -> None:
        return

    def on_purged(self, uid: int, count: int) -> None:
        return

    def on_inspected(self, uid: int, ready: int, consumer_count: int) -> None:
        return

    def on_loaded(self, uid: int) -> None:
        return

    def on_unreadable(self, uid: int) -> None:
        return


class View:
    """Messages of one chunk: message_seqs first..first+count-1 are chunk messages index.."""

    __slots__ = ("chunk", "count", "first", "index")

    def __init__(self, chunk: Chunk, index: int, first: int, count: int) -> None:
        self.chunk = chunk
        self.index = index
        self.first = first
        self.count = count


class Counts(Protocol):
    """What listings and metrics read of a queue."""

    @property
    def ready_count(self) -> int: ...

    @property
    def checked_out_count(self) -> int: ...

    @property
    def consumer_count(self) -> int: ...


class QueueHost(Counts, Protocol):
    """A queue as sessions see it."""

    @property
    def uid(self) -> int: ...

    @property
    def vhost(self) -> str: ...

    @property
    def name(self) -> str: ...

    @property
    def quorum(self) -> bool:
        """A quorum queue, for the rules that clients see."""

    @property
    def single_active(self) -> bool: ...

    def publish(self, sink: SessionSink, chunk: Chunk, first_seq: int) -> None:
        """Enqueue all messages of the chunk as the session's numbers first_seq.."""

    def command(self, sink: SessionSink, command: Command) -> None:
        """Apply in this turn, after what was handed down before."""

    def view(self, sink: SessionSink, first: int, count: int) -> View | None:
        """The head of these messages with their bytes; None: they are being loaded.

        After None the sink hears `on_loaded`. The messages must be checked out to that session.
        """

"""One request of the management API as a session of queues: a publish, a purge, or a few gets.

Made for one request and ended with it (`end`), so that what it still holds goes back. It answers
later than it is asked, as every session: `publish`, `purge`, `retire` and `get` wait for the
queues. Keeps `queues.queue_host.SessionSink`; whatever queues tell consumers it never hears.
"""

import asyncio
from collections.abc import Sequence
from typing import Final, Protocol

from node.definitions.definition_changes import leaderless_error
from node.events.consumerless import Consumerless
from queues.machine.commands import (
    EndSession,
    Get,
    Inspect,
    Purge,
    Retire,
    SessionId,
    Settle,
    consumer_key,
)
from queues.message import Chunk
from queues.queue_host import QueueHost, View
from queues.remote.quorum_proxy import QuorumProxy
from queues.routing.pace import RoutingPace
from queues.sessions.credit import CreditActor, CreditSpec

CREDIT: Final = CreditSpec(1 << 20, 1 << 19)  # a request publishes one message


class Turns(Protocol):
    """The turn of the node (`node.turn.Turn`)."""

    def begin(self) -> None: ...

    @property
    def routing(self) -> RoutingPace: ...


class QueueGone(Exception):
    """The queue was deleted, or its message cannot be read back."""


class OperatorSession(Consumerless):
    """Invariant: `_waiting` are the queues that have to answer before `_answered` is set.

    `waits_for_leaders`: for as long as it takes; else a queue that has no leader for too long is an
    error (ProtocolError), whatever is asked of it.
    """

    def __init__(self, session: SessionId, waits_for_leaders: bool = True) -> None:
        self._session = session
        self._waits_for_leaders = waits_for_leaders
        self._credit = CreditActor("management", CREDIT)
        self._waiting: set[int] = set()
        self._used: dict[int, QueueHost] = {}
        self._answered = asyncio.Event()
        self._leaderless: QueueHost | None = None
        self._refused = False
        self._unreadable = False
        self._purged = 0
        self._counts = (0, 0)  # ready, consumers
        self._got: tuple[int, bool, int] = (0, False, 0)  # message, redelivered, still ready

    @property
    def session(self) -> SessionId:
        return self._session

    @property
    def credit(self) -> CreditActor:
        return self._credit

    async def publish(self, hosts: Sequence[QueueHost], chunk: Chunk, turn: Turns) -> bool:
        """Whether all of the queues, at least one, took the message. Very many get it in several
        turns; the queues of each share a chunk, because the journal writes a chunk once."""
        room = turn.routing.hand_overs
        at = 0
        while at < len(hosts):
            if at > 0:
                await asyncio.sleep(0)  # Behind the end of this turn.
            turn.begin()
            some = int(room.take(len(hosts) - at))
            shared = chunk.twin()
            for host in hosts[at : at + some]:
                self._ask(host)
                host.publish(self, shared, 1)
            at += some
        await self._wait(awaits_confirms=True)
        return not self._refused

    async def purge(self, host: QueueHost) -> int:
        """How many messages were removed. QueueGone: the queue is gone, or cannot be reached."""
        self._ask(host)
        host.command(self, Purge(self._session))
        await self._wait()
        if not self.is_served(host):
            raise QueueGone
        return self._purged

    async def retire(self, host: QueueHost, if_empty: bool, if_unused: bool) -> tuple[int, int]:
        """How many messages are ready, and how many consume. If that is as asked, the queue takes
        no publish from now on, until this session ends. QueueGone: as for `purge`."""
        self._ask(host)
        host.command(self, Retire(self._session, False, if_empty, if_unused))
        await self._wait()
        if not self.is_served(host):
            raise QueueGone
        return self._counts

    async def get(self, host: QueueHost) -> tuple[int, bool, int]:
        """The next message (0: there is none), whether it was delivered before, how many wait."""
        self._got = (0, False, 0)
        self._ask(host)
        host.command(self, Get(self._session))
        await self._wait()
        return self._got

    async def inspect(self, host: QueueHost) -> tuple[int, int]:
        """How many messages are ready, and how many consume, once the queue has done all that it
        got before. QueueGone: there is none."""
        self._ask(host)
        host.command(self, Inspect(self._session))
        await self._wait()
        if not self.is_served(host):
            raise QueueGone
        return self._counts

    def is_served(self, host: QueueHost) -> bool:
        """Whether the queue that was asked has not gone since, by deletion or with its node."""
        return host.uid in self._used

    async def view(self, host: QueueHost, message: int) -> View:
        """The message that was got. QueueGone: it is not to be had."""
        while True:
            if host.uid not in self._used or self._unreadable:
                raise QueueGone
            view = host.view(self, message, 1)
            if view is not None:
                return view
            self._ask(host)
            await self._wait()

    def settle(self, host: QueueHost, messages: list[int], outcome: int) -> None:
        if messages and host.uid in self._used:
            runs = [(message, 1) for message in messages]
            host.command(self, Settle(consumer_key(self._session, 0), outcome, runs))

    def end(self) -> None:
        """The request is over: queues forget it."""
        for host in self._used.values():
            host.command(self, EndSession(self._session))
        self._used = {}

    def _ask(self, host: QueueHost) -> None:
        self._answered.clear()
        self._waiting.add(host.uid)
        self._used[host.uid] = host

    async def _wait(self, awaits_confirms: bool = False) -> None:
        """Until all have answered."""
        for uid in self._waiting:
            host = self._used.get(uid)
            if isinstance(host, QuorumProxy) and not self._waits_for_leaders:
                host.watch_leader(self._session, self, 0, awaits_confirms)
        await self._answered.wait()
        if self._leaderless is not None:
            raise leaderless_error(self._leaderless)

    def on_leaderless(self, uid: int) -> None:
        """See LeaderlessSink. A message that no leader has got is not published later."""
        host = self._used.get(uid)
        if isinstance(host, QuorumProxy):
            host.withdraw_publishes(self._session)
            self._leaderless = host
            self._answered.set()

    def _answer(self, uid: int) -> None:
        self._waiting.discard(uid)
        if not self._waiting:
            self._answered.set()

    # What queues tell

    def on_confirms(self, uid: int, upto_seq: int) -> None:
        self._answer(uid)

    def on_refused(self, uid: int, first_seq: int, count: int) -> None:
        self._refused = True

    def on_got(self, uid: int, message: int, redelivered: bool, ready: int, attempts: int) -> None:
        self._got = (message, redelivered, ready)
        self._answer(uid)

    def on_purged(self, uid: int, count: int) -> None:
        self._purged = count
        self._answer(uid)

    def on_loaded(self, uid: int) -> None:
        self._answer(uid)

    def on_unreadable(self, uid: int) -> None:
        self._unreadable = True
        self._answer(uid)

    def on_gone(self, uid: int) -> None:
        self._used.pop(uid, None)
        self._refused = True
        self._got = (0, False, 0)
        self._answer(uid)

    def on_timed_out(self, uid: int, number: int, timeout_ms: int) -> None:
        self._used.pop(uid, None)  # What it has got is ready again.

    def on_inspected(self, uid: int, ready: int, consumer_count: int) -> None:
        self._counts = (ready, consumer_count)
        self._answer(uid)

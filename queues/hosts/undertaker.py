"""Where the dead letters of one queue go: to its dead-letter exchange (D-03, D-07).

Takes messages of a chunk that died for one reason; makes dead letters of them
(`queues.dead_letters`) and publishes them run by run to the queues that the exchange routes them
to. It is a session of its own to those queues: it waits for no confirm and hears of nothing. What
has no exchange, no route, or would go round in a circle for ever (D-06) is dropped; the first of a
kind in a while is logged. Where letters are to arrive at least once, somebody else publishes them
(`queues.hosts.sexton`), and asks here for each letter and where it is to go. Compiled.
"""

import logging
from collections.abc import Callable
from typing import Final, final

from mypy_extensions import i64

from queues.commands import EndSession, SessionId
from queues.counts import Counts
from queues.credit import CreditActor
from queues.dead_letters import (
    DeadLetterRule,
    DeadRun,
    dead_letter,
    dead_letters,
    info_of_dead,
    is_cycle,
)
from queues.dead_letters10 import dead_letter_10
from queues.host import PublishingOnly, QueueHost
from queues.hosts.seams import Addressed
from queues.message import FORMAT_091, FORMAT_10, Chunk
from queues.routing.content import Content091
from queues.routing.content10 import Content10
from queues.routing.router import Route, Router
from warren.wire.buffer import read_i32_le

log = logging.getLogger("warren.dead_letters")

SILENCE_MS: Final = 60_000  # between two lines about one queue
DROPPED: Final = "messages are dropped"
KEPT: Final = "messages are kept, and tried again"


@final
class QueueUndertaker(PublishingOnly):
    """The dead letters of one queue."""

    def __init__(
        self,
        rule: DeadLetterRule,
        router: Router,
        host_of: Callable[[int], QueueHost],
        now_ms: Callable[[], int],
        new_session: Callable[[], SessionId],
        credit: CreditActor,
        counts: Counts,
        queue_type: str,
    ) -> None:
        self.rule = rule
        self._router = router
        self._host_of = host_of
        self._now_ms = now_ms
        self._new_session = new_session
        self._session = new_session()
        self._credit = credit
        self._counts = counts
        self._queue_type = queue_type
        self._exchange = rule.exchange.decode("utf-8", "surrogateescape")
        self._next_seqs: dict[int, int] = {}  # by uid of the queue published to
        self._quiet_until_ms = 0

    @property
    def session(self) -> SessionId:
        return self._session

    @property
    def credit(self) -> CreditActor:
        return self._credit

    def bury(self, chunk: Chunk, index: int, count: int, reason: str) -> None:
        """See `queues.hosts.classic.Undertaker`."""
        data = chunk.data
        assert data is not None
        self._counts.dead_letter(self._queue_type, reason, count)
        now_s = self._now_ms() // 1000
        last = index + count
        info = info_of_dead(chunk.info)
        if chunk.format_tag == FORMAT_10:
            for place in range(index, last):
                self._publish_10(chunk, place, info, reason)
            return
        for run in dead_letters(
            self.rule, data, chunk.base, chunk.offsets, index, last, reason, now_s
        ):
            self._publish(run, info, reason)

    def _publish(self, run: DeadRun, info: i64, reason: str) -> None:
        keys = run.routing_keys
        more = tuple(keys[1:])
        content = Content091(run.data, 0)
        route = self._router.route(self._exchange, keys[0], content, more)
        if not route.exchange_found:
            self._warn(f"dead-letter exchange '{self._exchange}' does not exist", DROPPED)
            return
        if not route.per_message or run.count() == 1:
            whole = Chunk(FORMAT_091, run.data, 0, run.offsets, info)
            self._send(whole, route.queues, run.deaths, reason)
            return
        for i in range(run.count()):
            start = read_i32_le(run.offsets, 4 * i)
            offsets = run.offsets[4 * i : 4 * i + 8]
            data = run.data[start : read_i32_le(run.offsets, 4 * i + 4)]
            found = self._router.route(self._exchange, keys[0], Content091(data, 0), more)
            one = Chunk(FORMAT_091, data, int(start), offsets, info)
            self._send(one, found.queues, run.deaths, reason)

    def _publish_10(self, chunk: Chunk, index: int, info: i64, reason: str) -> None:
        letter = dead_letter_10(self.rule, chunk, index, reason, self._now_ms(), int(info))
        made = letter.chunk
        data = made.data
        assert data is not None
        keys = letter.routing_keys
        content = Content10(data, 0, len(data))
        route = self._router.route(self._exchange, keys[0], content, tuple(keys[1:]))
        if not route.exchange_found:
            self._warn(f"dead-letter exchange '{self._exchange}' does not exist", DROPPED)
            return
        self._send(made, route.queues, letter.deaths, reason)

    def _send(
        self, chunk: Chunk, uids: tuple[int, ...], deaths: list[tuple[str, str]], reason: str
    ) -> None:
        """Each queue gets a chunk of its own, with the same bytes: from within a step of the turn,
        nobody knows whether all will journal it in this turn, or some in the next.
        """
        count = chunk.count()
        for host in self._open(uids, deaths, reason):
            uid = host.uid
            seq: i64 = self._next_seqs.get(uid, 1)
            self._next_seqs[uid] = seq + count
            one = Chunk(
                chunk.format_tag, chunk.data, chunk.base, chunk.offsets, chunk.info, chunk.names
            )
            host.publish(self, one, seq)

    def _open(
        self, uids: tuple[int, ...], deaths: list[tuple[str, str]], reason: str
    ) -> list[QueueHost]:
        """Those of the queues to which the letter does not go in a circle."""
        hosts: list[QueueHost] = []
        for uid in uids:
            host = self._host_of(uid)
            if is_cycle(host.name, deaths, reason):
                way = " <- ".join(queue for queue, _ in deaths)
                self._warn(f"dead letters to queue '{host.name}' go in a circle: {way}", DROPPED)
            else:
                hosts.append(host)
        return hosts

    # At least once

    def new_session(self) -> SessionId:
        return self._new_session()

    def address(self, chunk: Chunk, index: int, reason: str) -> Addressed:
        """See `queues.hosts.seams.Undertaker`. Who asks again hears of what is bound by then."""
        data = chunk.data
        assert data is not None
        info = info_of_dead(chunk.info)
        now_ms = self._now_ms()
        if chunk.format_tag == FORMAT_10:
            letter = dead_letter_10(self.rule, chunk, index, reason, now_ms, int(info))
            made = letter.chunk
            deaths = letter.deaths
            assert made.data is not None
            content10 = Content10(made.data, 0, len(made.data))
            keys = letter.routing_keys
            route = self._router.route(self._exchange, keys[0], content10, tuple(keys[1:]))
        else:
            start, end = chunk.span(index)
            run = dead_letter(self.rule, data, start, end, reason, now_ms // 1000)
            made = Chunk(FORMAT_091, run.data, 0, run.offsets, info)
            deaths = run.deaths
            keys = run.routing_keys
            content = Content091(run.data, 0)
            route = self._router.route(self._exchange, keys[0], content, tuple(keys[1:]))
        hosts = self._open(route.queues, deaths, reason)
        self._warn_of_kept(route, keys[0])
        return Addressed(made, hosts, len(hosts) < len(route.queues))

    def _warn_of_kept(self, route: Route, routing_key: bytes) -> None:
        if not route.exchange_found:
            self._warn(f"dead-letter exchange '{self._exchange}' does not exist", KEPT)
        elif len(route.queues) == 0:
            key = routing_key.decode("utf-8", "replace")
            self._warn(f"dead-letter exchange '{self._exchange}' has no queue for '{key}'", KEPT)

    def note_dying(self, reason: str, count: int) -> None:
        self._counts.dead_letter_surely(reason, count)

    def note_confirmed(self, count: int) -> None:
        self._counts.dead_letters_confirmed += count

    def _warn(self, text: str, fate: str) -> None:
        now_ms = self._now_ms()
        if now_ms >= self._quiet_until_ms:
            self._quiet_until_ms = now_ms + SILENCE_MS
            log.warning(
                "queue '%s' in vhost '%s': %s; %s",
                self.rule.queue,
                self._router.vhost,
                text,
                fate,
                extra={"ids": {"queue": self.rule.queue, "vhost": self._router.vhost}},
            )

    def follows(self, rule: DeadLetterRule) -> bool:
        """Whether it does what the rule says."""
        mine = self.rule
        return mine.exchange == rule.exchange and mine.routing_key == rule.routing_key

    def close(self) -> None:
        """The queue is gone, or has another undertaker now."""
        for uid in self._next_seqs:
            self._host_of(uid).command(self, EndSession(self._session))
        self._next_seqs = {}
        self._credit.peer_down_everywhere()

    # Effects: no confirm is awaited

    def on_gone(self, uid: int) -> None:
        self._next_seqs.pop(uid, None)

    def on_confirms(self, uid: int, upto_seq: int) -> None:
        return

    def on_refused(self, uid: int, first_seq: int, count: int) -> None:
        return

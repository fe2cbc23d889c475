"""Where the dead letters of one queue go: to its dead-letter exchange.

Takes messages of a chunk that died for one reason; makes dead letters of them
(`queues.dead_lettering.dead_letters`) and publishes them run by run to the queues that the exchange
routes them
to. It is a session of its own to those queues: it waits for no confirm and hears of nothing. What
has no exchange, no route, or would go round in a circle for ever is dropped; the first of a
kind in a while is logged. With the strategy at-least-once another part publishes them
(`queues.dead_lettering.at_least_once_worker`), and asks here for each letter and where it is to go.
Compiled.
"""

import logging
from collections.abc import Callable
from typing import Final, final

from mypy_extensions import i64

from queues.dead_lettering.dead_letter_limits import DeadLetterLimits, cost_of, hops_of
from queues.dead_lettering.dead_letters import (
    DeadLetterRule,
    DeadRun,
    dead_letter,
    dead_letters,
    info_of_dead,
    is_cycle,
)
from queues.dead_lettering.dead_letters10 import dead_letter_10
from queues.hosts.host_interfaces import HELD, Addressed
from queues.machine.commands import EndSession, SessionId
from queues.message import FORMAT_091, FORMAT_10, Chunk
from queues.queue_host import PublishingOnly, QueueHost
from queues.routing.content import Content, Content091
from queues.routing.content10 import Content10
from queues.routing.router import Route, Router
from queues.sessions.counts import Counts
from queues.sessions.credit import CreditActor
from warren.wire.amqp091.events import INFO_PERSISTENT
from warren.wire.buffer import read_i32_le

log = logging.getLogger("warren.dead_letters")

SILENCE_MS: Final = 60_000  # between two lines about one queue
COST_UNKNOWN: Final = 64  # of one letter, assumed until the first is routed
DROPPED: Final = "messages are dropped"
KEPT: Final = "messages are kept, and tried again"


@final
class QueueDeadLetterPublisher(PublishingOnly):
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
        limits: DeadLetterLimits,
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
        self._limits = limits
        self._cost: i64 = COST_UNKNOWN  # of one letter, as of the last run
        self._is_unfinished = False  # the last letter has keys for which the turn had no time

    @property
    def session(self) -> SessionId:
        return self._session

    @property
    def credit(self) -> CreditActor:
        return self._credit

    def bury(self, chunk: Chunk, index: int, count: int, reason: str) -> int:
        """See `queues.hosts.host_interfaces.DeadLetterPublisher`."""
        count = min(count, int(self._limits.messages(self._cost)))
        if count == 0:
            return 0
        self._is_unfinished = False
        if chunk.format_tag == FORMAT_10:
            taken = self._bury_10(chunk, index, count, reason)
        else:
            taken = self._bury_091(chunk, index, count, reason)
        self._counts.dead_letter(self._queue_type, reason, int(taken))
        return HELD if taken == 0 and not self._is_unfinished else int(taken)

    def _bury_091(self, chunk: Chunk, index: i64, count: i64, reason: str) -> i64:
        """How many of these messages were not held."""
        data = chunk.data
        assert data is not None
        info = info_of_dead(chunk.info)
        now_s = self._now_ms() // 1000
        last = index + count
        taken: i64 = 0
        for run in dead_letters(
            self.rule, data, chunk.base, chunk.offsets, index, last, reason, now_s
        ):
            some = self._publish(run, info, reason)
            taken += some
            if some < run.count() or self._limits.is_late() or self.is_spent():
                break
        return taken

    def _route(self, key: bytes, content: Content, more_keys: tuple[bytes, ...]) -> Route | None:
        """None: this turn has no time for all keys."""
        pace = self._limits.routing
        route = pace.route_some(self._router, self._exchange, key, content, more_keys)
        self._is_unfinished = route is None
        return route

    def is_spent(self) -> bool:
        """Whether this turn has no time left for routing."""
        return self._limits.routing.is_spent()

    def _publish(self, run: DeadRun, info: i64, reason: str) -> i64:
        """How many letters of the run were not held."""
        keys = run.routing_keys
        more = tuple(keys[1:])
        content = Content091(run.data, 0)
        route = self._route(keys[0], content, more)
        if route is None:
            return 0
        count = run.count()
        if not route.exchange_found:
            self._warn(f"dead-letter exchange '{self._exchange}' does not exist", DROPPED)
            return count
        if not route.per_message or count == 1:
            whole = Chunk(FORMAT_091, run.data, 0, run.offsets, info)
            return count if self._send(whole, route.queues, run.deaths, reason) else 0
        for i in range(count):
            start = read_i32_le(run.offsets, 4 * i)
            offsets = run.offsets[4 * i : 4 * i + 8]
            data = run.data[start : read_i32_le(run.offsets, 4 * i + 4)]
            found = self._route(keys[0], Content091(data, 0), more)
            if found is None:
                return i
            one = Chunk(FORMAT_091, data, int(start), offsets, info)
            if not self._send(one, found.queues, run.deaths, reason):
                return i
            if self.is_spent():
                return i + 1
        return count

    def _bury_10(self, chunk: Chunk, index: i64, count: i64, reason: str) -> i64:
        """How many of these messages were not held."""
        info = int(info_of_dead(chunk.info))
        for i in range(count):
            letter = dead_letter_10(self.rule, chunk, int(index + i), reason, self._now_ms(), info)
            made = letter.chunk
            data = made.data
            assert data is not None
            keys = letter.routing_keys
            content = Content10(data, 0, len(data))
            route = self._route(keys[0], content, tuple(keys[1:]))
            if route is None:
                return i
            if not route.exchange_found:
                self._warn(f"dead-letter exchange '{self._exchange}' does not exist", DROPPED)
            elif not self._send(made, route.queues, letter.deaths, reason):
                return i
            if self.is_spent():
                return i + 1
        return count

    def _send(
        self, chunk: Chunk, uids: tuple[int, ...], deaths: list[tuple[str, str]], reason: str
    ) -> bool:
        """Publish the letters to these queues; False if they are held by an alarm.

        Each queue gets a chunk of its own, with the same bytes: the queues may be stepped, and
        their chunks journaled, in different turns.
        """
        hosts = self._open(uids, deaths, reason, chunk.count())
        if self._holds(chunk, hosts):
            return False
        count = chunk.count()
        cost = cost_of(count, len(hosts))
        self._cost = (cost + count - 1) // count
        self._limits.spend(cost)
        for host in hosts:
            uid = host.uid
            seq: i64 = self._next_seqs.get(uid, 1)
            self._next_seqs[uid] = seq + count
            one = Chunk(
                chunk.format_tag, chunk.data, chunk.base, chunk.offsets, chunk.info, chunk.names
            )
            host.publish(self, one, seq)
        return True

    def _holds(self, chunk: Chunk, hosts: list[QueueHost]) -> bool:
        return self._limits.holds((chunk.info & INFO_PERSISTENT) != 0, len(hosts))

    def _open(
        self, uids: tuple[int, ...], deaths: list[tuple[str, str]], reason: str, count: i64
    ) -> list[QueueHost]:
        """Return those of the queues to which `count` letters with these deaths may go."""
        hosts: list[QueueHost] = []
        if len(uids) > 0 and hops_of(deaths) > self._limits.hops_max:
            self._counts.dead_letters_dropped_hops += count
            text = f"a message was dead-lettered more than {self._limits.hops_max} times in a row"
            self._warn(text, f"{DROPPED} (limits.dead_letter_hops_max)")
            return hosts
        for uid in uids:
            host = self._host_of(uid)
            if is_cycle(host.name, deaths, reason):
                way = " <- ".join(queue for queue, _ in deaths)
                self._counts.dead_letters_dropped_cycle += count
                self._warn(f"dead letters to queue '{host.name}' go in a circle: {way}", DROPPED)
            else:
                hosts.append(host)
        return hosts

    # At least once

    def new_session(self) -> SessionId:
        return self._new_session()

    def address(self, chunk: Chunk, index: int, reason: str) -> Addressed | None:
        """See `queues.hosts.host_interfaces.DeadLetterPublisher`. Who asks again hears of what is
        bound by then."""
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
            route = self._route(keys[0], content10, tuple(keys[1:]))
        else:
            start, end = chunk.span(index)
            run = dead_letter(self.rule, data, start, end, reason, now_ms // 1000)
            made = Chunk(FORMAT_091, run.data, 0, run.offsets, info)
            deaths = run.deaths
            keys = run.routing_keys
            content = Content091(run.data, 0)
            route = self._route(keys[0], content, tuple(keys[1:]))
        if route is None:
            return None
        hosts = self._open(route.queues, deaths, reason, 1)
        self._warn_of_kept(route, keys[0])
        return Addressed(made, hosts, len(hosts) < len(route.queues), self._holds(made, hosts))

    def _warn_of_kept(self, route: Route, routing_key: bytes) -> None:
        if not route.exchange_found:
            self._warn(f"dead-letter exchange '{self._exchange}' does not exist", KEPT)
        elif len(route.queues) == 0:
            key = routing_key.decode("utf-8", "replace")
            self._warn(f"dead-letter exchange '{self._exchange}' has no queue for '{key}'", KEPT)

    def note_pending_dead_letters(self, reason: str, count: int) -> None:
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
        """The queue is gone, or has another dead-letter publisher now."""
        for uid in self._next_seqs:
            try:
                host = self._host_of(uid)
            except KeyError:
                continue  # It was deleted before, as all queues of a vhost are, one by one.
            host.command(self, EndSession(self._session))
        self._next_seqs = {}
        self._credit.peer_down_everywhere()

    # Effects: no confirm is awaited

    def on_gone(self, uid: int) -> None:
        self._next_seqs.pop(uid, None)

    def on_confirms(self, uid: int, upto_seq: int) -> None:
        return

    def on_refused(self, uid: int, first_seq: int, count: int) -> None:
        return

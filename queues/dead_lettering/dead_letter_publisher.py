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
from queues.routing.pace import NewHosts
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
QUEUES_AT_ONCE: Final = 64  # get letters for many queues before the next look at the clock


@final
class WideLetters:
    """Letters for very many queues; those of `uids` from `at` on have not got them yet."""

    def __init__(
        self, chunk: Chunk, uids: tuple[int, ...], deaths: list[tuple[str, str]], first: i64
    ) -> None:
        self.chunk = chunk
        self.uids = uids
        self.deaths = deaths
        self.at: i64 = 0
        self.first: i64 = first  # number of the dead message, and of
        self.count: i64 = chunk.count()  # messages from it on


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
        self._is_unfinished = False  # the last letter has keys or queues left for the next turn
        self._wide: WideLetters | None = None  # letters that not all of their queues have
        self._new_hosts = NewHosts(host_of)

    @property
    def session(self) -> SessionId:
        return self._session

    @property
    def credit(self) -> CreditActor:
        return self._credit

    def bury(self, chunk: Chunk, index: int, count: int, reason: str, first: int) -> int:
        """See `queues.hosts.host_interfaces.DeadLetterPublisher`."""
        room = self._limits.messages(self._cost)
        if room == 0:
            return 0
        self._is_unfinished = False
        wide = self._wide
        if wide is not None and wide.first == first:
            taken = self._go_on(wide, count, reason)
        else:
            self._wide = None
            taken = self._bury(chunk, index, min(count, int(room)), reason, first)
        self._counts.dead_letter(self._queue_type, reason, int(taken))
        return HELD if taken == 0 and not self._is_unfinished else int(taken)

    def _bury(self, chunk: Chunk, index: i64, count: i64, reason: str, first: i64) -> i64:
        if chunk.format_tag == FORMAT_10:
            return self._bury_10(chunk, index, count, reason, first)
        return self._bury_091(chunk, index, count, reason, first)

    def _bury_091(self, chunk: Chunk, index: i64, count: i64, reason: str, first: i64) -> i64:
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
            some = self._publish(run, info, reason, first + taken)
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

    def _publish(self, run: DeadRun, info: i64, reason: str, first: i64) -> i64:
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
            return count if self._send(whole, route.queues, run.deaths, reason, first) else 0
        for i in range(count):
            start = read_i32_le(run.offsets, 4 * i)
            offsets = run.offsets[4 * i : 4 * i + 8]
            data = run.data[start : read_i32_le(run.offsets, 4 * i + 4)]
            found = self._route(keys[0], Content091(data, 0), more)
            if found is None:
                return i
            one = Chunk(FORMAT_091, data, int(start), offsets, info)
            if not self._send(one, found.queues, run.deaths, reason, first + i):
                return i
            if self.is_spent():
                return i + 1
        return count

    def _bury_10(self, chunk: Chunk, index: i64, count: i64, reason: str, first: i64) -> i64:
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
            elif not self._send(made, route.queues, letter.deaths, reason, first + i):
                return i
            if self.is_spent():
                return i + 1
        return count

    def _send(
        self,
        chunk: Chunk,
        uids: tuple[int, ...],
        deaths: list[tuple[str, str]],
        reason: str,
        first: i64,
    ) -> bool:
        """Publish the letters of messages first.. to these queues. False: they are held by an
        alarm, or some queues get them in later turns."""
        count = chunk.count()
        if len(uids) > 0 and self._has_too_many_hops(deaths, count):
            uids = ()
        if self._limits.is_wide(len(uids)):
            self._wide = WideLetters(chunk, uids, deaths, first)
            taken = self._go_on(self._wide, count, reason)
            return taken == count
        hosts = self._open(uids, deaths, reason, count)
        if self._holds(chunk, len(hosts)):
            return False
        self._hand_to(hosts, chunk)
        self._cost = (cost_of(count, len(hosts)) + count - 1) // count
        return True

    def _go_on(self, wide: WideLetters, count: i64, reason: str) -> i64:
        """Hand the letters to as many queues as this turn has time for, and to some at least.

        Return how many of the messages, at most `count`, are done with: none before all queues
        have all of these letters.
        """
        limits = self._limits
        if self._holds(wide.chunk, len(wide.uids)):
            if wide.at == 0:
                self._wide = None  # It is routed again, by what is bound then.
            return 0
        message_count = wide.chunk.count()
        pace = limits.routing
        pace.begin()
        upto = wide.at + limits.queues(message_count, len(wide.uids) - wide.at)
        while wide.at < upto:
            end = min(wide.at + QUEUES_AT_ONCE, upto)
            uids = wide.uids[wide.at : end]
            limits.spend_wide(end - wide.at)
            wide.at = end
            self._hand_to(self._open(uids, wide.deaths, reason, message_count), wide.chunk)
            if pace.lap():
                break
        self._cost = (cost_of(message_count, len(wide.uids)) + message_count - 1) // message_count
        if wide.at < len(wide.uids):
            self._is_unfinished = True
            return 0
        taken = min(count, wide.count)
        wide.first += taken
        wide.count -= taken
        if wide.count == 0:
            self._wide = None
        return taken

    def _hand_to(self, hosts: list[QueueHost], chunk: Chunk) -> None:
        """Each queue gets a chunk of its own, with the same bytes: the queues may be stepped, and
        their chunks journaled, in different turns.
        """
        count = chunk.count()
        self._limits.spend(cost_of(count, len(hosts)))
        for host in hosts:
            uid = host.uid
            seq: i64 = self._next_seqs.get(uid, 1)
            self._next_seqs[uid] = seq + count
            one = Chunk(
                chunk.format_tag, chunk.data, chunk.base, chunk.offsets, chunk.info, chunk.names
            )
            host.publish(self, one, seq)

    def _holds(self, chunk: Chunk, queue_count: i64) -> bool:
        return self._limits.holds((chunk.info & INFO_PERSISTENT) != 0, queue_count)

    def _has_too_many_hops(self, deaths: list[tuple[str, str]], count: i64) -> bool:
        """Whether these letters go no further."""
        hops_max = self._limits.hops_max
        if hops_of(deaths) <= hops_max:
            return False
        self._counts.dead_letters_dropped_hops += count
        text = f"a message was dead-lettered more than {hops_max} times in a row"
        self._warn(text, f"{DROPPED} (limits.dead_letter_hops_max)")
        return True

    def _open(
        self, uids: tuple[int, ...], deaths: list[tuple[str, str]], reason: str, count: i64
    ) -> list[QueueHost]:
        """Return those of the queues to which `count` letters with these deaths may go."""
        hosts: list[QueueHost] = []
        for uid in uids:
            try:
                host = self._host_of(uid)
            except KeyError:
                continue  # It was deleted since the letter was routed, some turns ago.
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
        if route is None or not self._have_hosts(route.queues):
            return None
        uids = route.queues
        if len(uids) > 0 and self._has_too_many_hops(deaths, 1):
            uids = ()
        hosts = self._open(uids, deaths, reason, 1)
        self._warn_of_kept(route, keys[0])
        is_held = self._holds(made, len(hosts))
        return Addressed(made, hosts, len(hosts) < len(route.queues), is_held)

    def _have_hosts(self, uids: tuple[int, ...]) -> bool:
        """False: this turn has no time to make the hosts of all."""
        pace = self._limits.routing
        pace.begin()
        have = self._new_hosts.have(uids, pace.lap)
        pace.end()
        return have

    def queues_now(self, width: int) -> int:
        """See `queues.hosts.host_interfaces.DeadLetterPublisher`."""
        if not self._limits.is_wide(width):
            return width
        some = self._limits.queues(1, width)
        self._limits.spend_wide(some)
        return int(some)

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
        self._wide = None
        self._credit.peer_down_everywhere()

    # Effects: no confirm is awaited

    def on_gone(self, uid: int) -> None:
        self._next_seqs.pop(uid, None)

    def on_confirms(self, uid: int, upto_seq: int) -> None:
        return

    def on_refused(self, uid: int, first_seq: int, count: int) -> None:
        return

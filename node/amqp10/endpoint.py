"""The node's end of one AMQP 1.0 connection: socket, codec core, login, sessions. Compiled.

Owns its `Connection` core, its sessions and the task of its login. What the codec or a session
finds wrong is sent by them; here that is logged, and what belongs to it is ended. While an alarm is
set, upkeep is behind or too much is in flight, the windows of all sessions are closed: the client
may not publish, and all else goes on. The socket is read no more only while a login is being
checked, the client does not take its answers, or twice as much is in flight.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from node.amqp091.plans import Tracing
from node.amqp091.publish_plans import RouteCache
from node.amqp10.dynamic import Dynamics
from node.amqp10.hints import HintCounts, LinkHints, Timer
from node.amqp10.links.consuming import ConsumingLink
from node.amqp10.links.publishing import PublishingLink
from node.amqp10.locality import OFF, OFFERED, are_wanted
from node.amqp10.management import Management
from node.amqp10.sessions import Session10
from node.auth.asked_access import Undecided
from node.auth.permissions import PermissionCache, vhost_refusal
from node.auth.sasl import UNASKED, offered
from node.cluster.services.whereis import WhereIs, url_of, urls_told
from node.connections.client_endpoint import AmqpEndpoint
from node.connections.connection_facts import ConnectionFacts
from node.connections.socket_reading import ANSWER_BYTES_MAX, Reading, Transport
from node.events.event_sources import tell_channel, tell_consumer_created, tell_consumer_deleted
from queues.routing.pace import RoutingShare
from queues.sessions.counts import Counts
from queues.sessions.credit import CreditSpec
from warren.wire.amqp10.arrivals import Received
from warren.wire.amqp10.codec.performatives import Open
from warren.wire.amqp10.connection import Connection
from warren.wire.amqp10.errors import Condition, ProtocolError
from warren.wire.amqp10.events import (
    AttachRequested,
    Closed,
    Ended,
    Event,
    Failed,
    Flowed,
    LinkDetached,
    LinkFailed,
    LoginRequested,
    OpenRequested,
    Responded,
    SessionBegun,
    SessionEnded,
    SessionFailed,
    Settled,
    Withdrawn,
)
from warren.wire.amqp10.link import Link
from warren.wire.amqp10.session import Session

if TYPE_CHECKING:
    from node.broker import Broker
    from node.tls.certificate import TlsPeer

log = logging.getLogger("warren.connection")

WRITE_BYTES: Final = 256 * 1024  # of deliveries, per session and turn
OUTPUT_BYTES_MAX: Final = 1024 * 1024  # of one turn, above which sessions wait for the next
VHOST_PREFIX: Final = "vhost:"
CAPABILITIES: Final = ["LINK_PAIR_V1_0", "ANONYMOUS-RELAY"]  # only what there is (0005)
QUICK_MS: Final = 4_000  # an idle-time-out below needs more ticks than the node gives


class Endpoint10(AmqpEndpoint):
    """One connection. `closing` once a close is under way."""

    def __init__(
        self,
        broker: "Broker",
        transport: Transport,
        peer: tuple[str, int],
        here: tuple[str, int],
        tls: "TlsPeer | None" = None,
        is_web: bool = False,
    ) -> None:
        # RabbitMQ's words; over WebSocket
        protocol = "Web AMQP 1-0" if is_web else "AMQP 1-0"
        super().__init__(broker, transport, peer, here, tls, protocol)
        self.is_web = is_web
        self.sessions: dict[int, Session10] = {}  # by our channel
        self._parting_count = 0  # of sessions that the client has ended
        self.is_amqp10 = True
        self.dynamics = Dynamics(self)
        self.hints = LinkHints(self)
        self.connection = Connection(
            broker.wire_limits10,
            broker.monotonic_ms(),
            offered(broker.config.auth.offered, tls),
        )
        self.reading = Reading(broker.turn, transport, self.connection, broker.monotonic_ms)
        self._plans: RouteCache | None = None
        self._work: list[PublishingLink] = []  # links with outcomes to tell
        self._first_to_write = 0  # the session that is served first
        self._management: Management | None = None
        self._share = RoutingShare()
        self._waiting: deque[Event] = deque()  # behind messages that are still to be routed
        self._is_stepping_later = False

    # The socket

    def start(self) -> None:
        """The codec reads the protocol header itself."""
        self.mark()

    def _take(self, data: bytes) -> None:
        """Let the core have the bytes, and handle what they mean."""
        try:
            if data or not self._waiting:
                self._waiting.extend(self.connection.receive(data, self.broker.monotonic_ms()))
            self._work_off()
            self._grant()
        except Exception:  # A fault of ours: this connection ends, the others go on.
            log.exception("%s: internal error", self.name, extra=self.ids())
            self._fail(ProtocolError(Condition.INTERNAL_ERROR, "internal error"))

    def connection_lost(self, error: Exception | None = None) -> None:
        self._waiting.clear()
        super().connection_lost(error)

    def resume_writing(self) -> None:
        self._writing_paused = False
        self.mark()

    def _tick_core(self, now_ms: int) -> bool:
        overdue = self.connection.tick(now_ms)
        for event in overdue:
            self._handle(event)
        return len(overdue) > 0

    # Events of the core

    def _work_off(self) -> None:
        """Handle events in order, up to messages that this turn has no time to route."""
        waiting = self._waiting
        while waiting and not self._is_stepping_later:
            event = waiting.popleft()
            if isinstance(event, Received):
                self._receive(event)
            else:
                self._handle(event)

    def _receive(self, event: Received) -> None:
        session = self.sessions.get(int(event.link.channel))
        rest = None if session is None else session.take(event)
        if rest is not None:
            self._waiting.appendleft(Received(event.link, rest))
            self._is_stepping_later = True
            undecided = self.plans().take_undecided()
            if undecided is not None:
                self.when(undecided, lambda: self.step(0))
                return
            self.broker.turn.mark_host_later(self)
            self.broker.turn.begin()

    def step(self, now_ms: int) -> None:
        """Go on with messages for which the last turn had no time (`Steppable`), or that waited for
        a permission."""
        self._is_stepping_later = False
        self._share.waited()
        self.broker.turn.between_steps(self._go_on)

    def _handle(self, event: Event) -> None:
        if isinstance(event, Settled):
            mine = event.session.owner
            if isinstance(mine, Session10):
                mine.settled(event)
        elif isinstance(event, Flowed):
            session = self._session_of(event.link)
            if session is not None:
                session.flowed(event.link)
        elif isinstance(event, Withdrawn):
            session = self._session_of(event.link)
            if session is not None:
                session.withdrawn(event)
        else:
            self._handle_seldom(event)

    def _handle_seldom(self, event: Event) -> None:
        if isinstance(event, LoginRequested):
            self.mechanism = event.mechanism
            if event.response is None and event.mechanism not in UNASKED:
                self.connection.challenge(b"")
            else:
                self._check_login("amqp10", event.response or b"")
        elif isinstance(event, Responded):
            self._check_login("amqp10", event.response)
        elif isinstance(event, OpenRequested):
            self._open(event.open)
        elif isinstance(event, SessionBegun):
            self._begin_session(event.session)
        elif isinstance(event, SessionEnded):
            self._part(event.session)
        elif isinstance(event, SessionFailed):
            number = int(event.session.channel)
            log.info("%s session %d: %s", self.name, number, event.error, extra=self.ids())
            self._session_over(event.session)
        elif isinstance(event, AttachRequested):
            session = self._session_of(event.link)
            if session is not None:
                session.attach(event)
        elif isinstance(event, LinkDetached):
            self._link_over(event.link, event.closed)
        elif isinstance(event, LinkFailed):
            name = event.link.name
            log.info("%s link %s: %s", self.name, name, event.error, extra=self.ids())
            self._link_over(event.link)
        elif isinstance(event, Failed):
            log.warning("%s: %s", self.name, event.error, extra=self.ids())
            self._end_all()
            self._closing = True
        elif isinstance(event, Closed):
            self._end_all()
            self._closing = True
        elif isinstance(event, Ended):
            self._end_all()
            self._end_in_order()

    def _begin_session(self, core: Session) -> None:
        refusal = self.broker.client_limits.channel_refusal(self.user)
        if refusal is not None:
            text = "%s session %d: %s"
            log.info(text, self.name, int(core.channel), refusal, extra=self.ids())
            core.end(ProtocolError(Condition.RESOURCE_LIMIT_EXCEEDED, refusal.text))
            self.mark()
            return
        mine = Session10(self, core)
        core.owner = mine
        core.end_waits = True
        self.sessions[int(core.channel)] = mine
        self.broker.connections.channels_opened_count += 1
        tell_channel(self.broker.events, "created", self, int(core.channel))

    def _session_of(self, link: Link) -> Session10 | None:
        session = self.sessions.get(int(link.channel))
        return session if session is not None and link in session.core.links.all else None

    def _link_over(self, link: Link, closed: bool = False) -> None:
        session = self.sessions.get(int(link.channel))
        if session is not None:
            session.detached(link, closed)

    def _part(self, core: Session) -> None:
        """The client has ended the session: answer once its queues have their messages back."""
        mine = core.owner
        if isinstance(mine, Session10):
            mine.part()
            self._parting_count += 1
            self.mark()

    def _answer_ends(self) -> None:
        for session in list(self.sessions.values()):
            if session.is_parting and session.has_parted():
                self._parting_count -= 1
                self._session_over(session.core)
                self.connection.answer_end(session.core)

    def _session_over(self, core: Session) -> None:
        mine = core.owner
        if isinstance(mine, Session10):
            mine.end()
            core.owner = None
            if self.sessions.get(int(core.channel)) is mine:
                del self.sessions[int(core.channel)]
            self.broker.connections.channels_closed_count += 1
            tell_channel(self.broker.events, "closed", self, int(core.channel))

    def _end_all(self) -> None:
        for session in list(self.sessions.values()):
            self._session_over(session.core)
        self._work = []
        if self._management is not None:
            self._management.close()
            self._management = None

    # Login and vhost

    def _accept_login(self) -> None:
        self.connection.accept_login()
        self._go_on()

    def _refuse_login(self, text: str, is_refused: bool) -> None:
        self.connection.refuse_login()
        self._closing = True
        self._close_when_sent()

    def _open(self, asked: Open) -> None:
        broker = self.broker
        vhost = vhost_of(asked.hostname, broker.config.default_vhost)
        known, is_standby = (
            broker.definitions.has_vhost(vhost),
            broker.definitions.is_standby(vhost),
        )
        try:
            refusal = vhost_refusal(self.access, self.user, vhost, known, is_standby)
        except Undecided as undecided:
            self._is_opening = True  # Reading stops.
            self.when(undecided, lambda: self._open(asked))
            return
        self._is_opening = False
        condition = Condition.NOT_ALLOWED
        if refusal is not None and known and not is_standby:
            condition = Condition.UNAUTHORIZED_ACCESS
        if refusal is None:
            refusal = broker.client_limits.connection_refusal(self.user, vhost)
            condition = Condition.RESOURCE_LIMIT_EXCEEDED
        if refusal is not None:
            self._fail(ProtocolError(condition, refusal.text))
            return
        self.vhost = vhost
        self.permissions = PermissionCache(self.access, self.user, vhost)
        is_impersonator = "impersonator" in self.tags
        self._plans = broker.route_caches.cache(vhost, self.user, is_impersonator, self.access)
        self.connection.accept_open(self._open_answer())
        broker.connections.opened(self)
        idle_ms = asked.idle_time_out or 0
        if 0 < idle_ms < QUICK_MS:
            self._tick_quickly(idle_ms / 4000)
        self._go_on()

    def _open_answer(self) -> Open:
        """Capabilities: only for what there is.

        RabbitMQ's own clients go on only if this `product` is theirs; who we are is in another.
        """
        hints = OFF if self.is_web else self.broker.config.amqp10.locality_hints
        properties = dict(self.broker.server_properties)
        del properties["capabilities"]
        properties["implementation"] = properties["product"]
        properties["product"] = "RabbitMQ"
        return Open(
            container_id=self.broker.node_name,
            offered_capabilities=CAPABILITIES + ([] if hints == OFF else OFFERED),
            properties=properties,
        )

    # The end

    def _fail(self, error: ProtocolError) -> None:
        if self._closing:
            return
        log.warning("%s: %s", self.name, error, extra=self.ids())
        self._end_all()
        self.connection.close(error)
        self._closing = True
        self.mark()

    def close(self, reason: str) -> None:
        """An operator or the end of the node closes the connection."""
        self._fail(ProtocolError(Condition.CONNECTION_FORCED, reason))

    def _rest_to_send(self) -> bytes:
        return self.connection.data_to_send()

    def _heartbeat_s(self) -> float:
        return int(self.connection.limits.idle_time_out_ms) / 1000

    # What sessions and links ask (node.amqp10.owner.Owner10)

    @property
    def counts(self) -> Counts:
        return self.broker.counts10

    def management(self) -> Management:
        """Carries out requests to `/management`."""
        if self._management is None:
            self._management = Management(self)
        return self._management

    @property
    def whereis(self) -> WhereIs:
        return self.broker.whereis

    @property
    def hint_counts(self) -> HintCounts:
        return self.broker.hint_counts

    def urls_of(self, node: str) -> list[str]:
        """Of a node's listener; of this one as this client reached it, unless another is given.

        Unknown names have none.
        """
        place = self.broker.whereis.node(node)
        is_tls = self.tls is not None
        told = [] if place is None else urls_told(place.amqp, place.amqps, is_tls)
        if told:
            return told
        host, port = self.here
        return [url_of(host, port, is_tls)] if node == self.broker.node_name else []

    def hints_wanted(self) -> bool:
        """Whether flows of this connection tell where queues are.

        Over WebSocket they do not: the addresses that they give are those of TCP listeners."""
        if self.is_web:
            return False
        opened = self.connection.peer_open
        desired = None if opened is None else opened.desired_capabilities
        return are_wanted(self.broker.config.amqp10.locality_hints, desired)

    def container_id(self) -> str:
        """Of the client."""
        opened = self.connection.peer_open
        return "" if opened is None else opened.container_id

    def monotonic_ms(self) -> int:
        return self.broker.monotonic_ms()

    def call_later(self, ms: int, call: Callable[[], None]) -> Timer:
        """`call` comes within a turn."""
        return asyncio.get_running_loop().call_later(ms / 1000, self._in_turn, call)

    def _in_turn(self, call: Callable[[], None]) -> None:
        self.broker.turn.begin()
        call()

    @property
    def frame_max(self) -> int:
        return self.broker.wire_limits.frame_max

    def is_impersonator(self) -> bool:
        return "impersonator" in self.tags

    def credit_spec(self) -> CreditSpec:
        return self.broker.channel_credit

    def plans(self) -> RouteCache:
        assert self._plans is not None
        return self._plans

    def must_wait(self) -> bool:
        return self._share.must_wait(self.plans().is_spent())

    def mark_link(self, link: PublishingLink) -> None:
        if not link.in_work:
            link.in_work = True
            self._work.append(link)
        self.mark()

    def count_published(self, count: int) -> None:
        if not self.is_publishing:
            self.has_published = True
            self.broker.hold.begins_to_publish(self)

    # Output and back-pressure

    def flush(self) -> None:
        """Send what the turn produced; judge whether to go on reading."""
        self._marked = False
        if self._lost or self._output_held:
            return
        more = self.reading.begin_turn()
        if len(more) > 0 and not self._closing:
            self._take(more)
        if self.connection.has_more and not self._waiting and not self._closing:
            self._take(b"")
            self.mark()
        work = self._work
        self._work = []
        for link in work:
            link.in_work = False
            link.flush()
        self._judge_windows()
        if self._parting_count > 0:
            self._answer_ends()
        if not self._writing_paused:
            self._write()
        self._grant()
        if self.reading.has_backlog() and not self._closing:
            self.mark()
        self.reading.judge(self._should_stop())

    def _write(self) -> None:
        sessions = list(self.sessions.values())
        first = self._first_to_write
        for place in range(len(sessions)):
            if self.connection.output.pending_bytes() >= OUTPUT_BYTES_MAX:
                self._first_to_write = (first + place) % len(sessions)
                self.mark()
                break
            if sessions[(first + place) % len(sessions)].write(WRITE_BYTES):
                self.mark()
        if self.connection.output.has_parts():
            self.transport.writelines(self.connection.parts_to_send())
            return
        data = self.connection.data_to_send()
        if data:
            self.transport.write(data)

    def _grant(self) -> None:
        """Tell the queues what the clients allow."""
        for session in self.sessions.values():
            session.grant()

    def _judge_windows(self) -> None:
        """While nothing is to be published the windows are closed."""
        shut = self._is_held_up()
        if shut != self.connection.in_alarm:
            self.connection.set_alarm(shut)

    def _is_held_up(self) -> bool:
        if self.broker.alarms.is_set() or self.reader.is_blocked():
            return True
        return self.held.in_flight_bytes >= self.broker.in_flight_bytes_max

    def _should_stop(self) -> bool:
        if self._closing:
            return False
        if self._login.is_running or self._is_opening:
            return True
        if self._writing_paused and self.connection.output.pending_bytes() >= ANSWER_BYTES_MAX:
            return True  # A client that asks and never reads.
        if self.reading.has_backlog() or self.connection.has_more or self._waiting:
            return True
        return self.held.in_flight_bytes >= 2 * self.broker.in_flight_bytes_max

    def trace_of(self, channel: int) -> Tracing | None:
        """For the links of a session; None: nothing is traced."""
        return self.broker.observers.firehose.trace_of(self, channel)

    def trace_changed(self) -> None:
        """Messages of the vhost are traced from now on, or no longer."""
        for number, session in self.sessions.items():
            session.set_trace(self.trace_of(number))

    def consumer_created(self, channel: int, link: ConsumingLink) -> None:
        tell_consumer_created(
            self.broker.events,
            self,
            channel,
            link.link.name,
            link.host,
            exclusive=False,
            no_ack=link.settled,
            prefetch=0,
        )

    def consumer_deleted(self, channel: int, link: ConsumingLink) -> None:
        tell_consumer_deleted(self.broker.events, self, channel, link.link.name, link.host)

    def channel_count(self) -> int:
        return len(self.sessions)

    def consumer_count(self) -> int:
        return sum(len(session.consuming) for session in self.sessions.values())

    def queue_uids(self) -> set[int]:
        """See `ClientConnection`."""
        uids: set[int] = set()
        for session in self.sessions.values():
            uids.update(session.queue_uids())
        return uids

    def facts(self) -> ConnectionFacts:
        """For the management API, as `state`."""
        core = self.connection
        opened = core.peer_open
        properties: dict[str, object] = {}
        if opened is not None:
            properties = dict(opened.properties or {})
            properties.setdefault("connection_name", opened.container_id)
        return ConnectionFacts(
            self.protocol,
            len(self.sessions),
            int(core.channel_max),
            int(core.output.max_frame_size),
            core.limits.idle_time_out_ms // 500,
            properties,
            int(core.bytes_received),
            int(core.bytes_sent),
            self.reading.read_count,
            int(core.write_count),
            "" if opened is None else opened.container_id,
        )

    def state(self) -> str:
        """As the management API shows it."""
        if self.has_published and self.broker.alarms.is_set():
            return "blocked"
        if self.broker.alarms.is_set():
            return "blocking"  # The next publish blocks the connection.
        return "flow" if self._is_held_up() else "running"


def vhost_of(hostname: str | None, default: str) -> str:
    """What `hostname` of an open chooses."""
    if hostname is not None and hostname.startswith(VHOST_PREFIX):
        return hostname[len(VHOST_PREFIX) :]
    return default

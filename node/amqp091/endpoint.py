"""The node's end of one AMQP 0-9-1 connection: socket, codec core, login, channels.

Owns its `Connection` core, its channels and the tasks it starts; a wrong peer is settled in one
place, `dispatch`, which closes the channel or the connection. Reading stops while internal flow
control says so (credit, bytes in flight, events that wait, a publish during an alarm, a peer that
does not read).
"""

import asyncio
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from node.amqp091.channel import Channel091
from node.amqp091.definition_methods import call_definition, queue_for_read
from node.amqp091.deliveries import Consumer091
from node.amqp091.plans import Parted, PlanCache
from node.amqp091.publish_plans import RouteCache
from node.auth.access import FULL_ACCESS, INTERNAL_USER
from node.auth.asked_access import Undecided
from node.auth.login import Accepted, LoginOutcome, login_refused_text
from node.auth.login import Refused as LoginRefused
from node.auth.permissions import PermissionCache, vhost_refusal
from node.auth.sasl import offered
from node.auth.token_scopes import TokenAccess
from node.connections.client_endpoint import AmqpEndpoint
from node.connections.connection_facts import ConnectionFacts
from node.connections.socket_reading import ANSWER_BYTES_MAX, Reading, Transport
from node.definitions.definition_changes import new_name
from node.events.event_sources import tell_channel, tell_consumer_created, tell_consumer_deleted
from node.oversized import OversizedHeaders
from queues.addresses.rate import rate_after
from queues.hosts.host_interfaces import Steppable
from queues.queue_host import QueueHost
from queues.sessions.counts import Counts
from queues.sessions.credit import CreditActor, CreditSpec
from queues.sessions.publishing import Targets
from warren.wire.amqp091 import methods
from warren.wire.amqp091.connection import Connection
from warren.wire.amqp091.events import (
    Called,
    ChannelFailed,
    Ended,
    Event,
    Failed,
    LoginRequested,
    OpenRequested,
    Publishes,
    Settles,
)
from warren.wire.errors import ProtocolError, ReplyCode, Scope

if TYPE_CHECKING:
    from node.broker import Broker
    from node.tls.certificate import TlsPeer
    from queues.definitions.metadata.machine import Metadata

log = logging.getLogger("warren.connection")

QUICK_S: Final = 10  # a heartbeat interval below needs more ticks than the node gives
STASH_BYTES_MAX: Final = 1024 * 1024  # of events that wait behind an answer, per connection
READABLE_MAX: Final = 1024  # names of queues in a connection's cache
WRITE_HIGH_BYTES: Final = 1024 * 1024  # in the socket's buffer, above which nothing is added


class Endpoint091(AmqpEndpoint):
    """One connection. States follow the core's; `closing` once a close is under way."""

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
        protocol = "Web AMQP 0-9-1" if is_web else "AMQP 0-9-1"
        super().__init__(broker, transport, peer, here, tls, protocol)
        self.channels: dict[int, Channel091] = {}
        self.is_amqp10 = False
        self.is_internal = False  # of the node itself (`node.connections.local_dial`)
        self.connection = Connection(
            broker.wire_limits,
            broker.server_properties,
            " ".join(offered(broker.config.auth.offered, tls)),
            broker.monotonic_ms(),
        )
        self.reading = Reading(broker.turn, transport, self.connection, broker.monotonic_ms)
        self.is_held_by_address = False  # an address that it publishes to is full
        self._plans: RouteCache | None = None
        self._readable: dict[str, QueueHost] = {}  # queues that the user may read, by name
        self._readable_version = -1
        self._work: list[Channel091] = []  # channels with confirms or deliveries
        self._blocked_told = False

    # The socket

    def start(self) -> None:
        """The protocol header was read: begin the handshake."""
        self.connection.holds_publishes = self.broker.alarms.is_set()
        self.connection.start()
        self.mark()

    def _take(self, data: bytes) -> None:
        """Let the core have the bytes, and handle what they mean."""
        try:
            for event in self.connection.receive(data, self.broker.monotonic_ms()):
                self._handle(event)
        except Exception:  # A fault of ours: this connection ends, the others go on.
            log.exception("%s: internal error", self.name, extra=self.ids())
            error = ProtocolError(ReplyCode.INTERNAL_ERROR, "internal error", Scope.CONNECTION)
            self._fail_connection(error)

    def connection_lost(self, error: Exception | None = None) -> None:
        if self.is_held_by_address and not self._lost:
            self.broker.addresses.gone(self)
        super().connection_lost(error)

    def resume_writing(self) -> None:
        self._writing_paused = False
        for channel in list(self.channels.values()):
            channel.on_writable()
            if channel.deliveries.has_work():
                self.mark_channel(channel)
        self.mark()

    def _tick_core(self, now_ms: int) -> bool:
        overdue = self.connection.tick(now_ms)
        for event in overdue:
            self._handle(event)
        return len(overdue) > 0

    # Events of the core

    def _handle(self, event: Event) -> None:
        if isinstance(event, (Publishes, Settles)):
            channel = self.channels.get(event.channel)
            if channel is not None:
                self.dispatch(channel, event)
        elif isinstance(event, Called):
            self._called(event)
        elif isinstance(event, LoginRequested):
            self._begin_login(event)
        elif isinstance(event, OpenRequested):
            self._open(event.vhost)
        elif isinstance(event, ChannelFailed):
            self._channel_failed(event.channel, event.error)
        elif isinstance(event, Failed):
            self._failed(event.error)
        elif isinstance(event, Ended):
            self._end_all()
            self._end_in_order()

    def _called(self, event: Called) -> None:
        method = event.method
        if isinstance(method, methods.ChannelOpen):
            self._open_channel(event.channel)
        elif event.channel == 0:
            self._called_connection(method)
        else:
            channel = self.channels.get(event.channel)
            if channel is not None:
                self.dispatch(channel, event)
            elif isinstance(method, methods.ChannelClose):
                # Refused in the same read as this: the client must hear its close-ok.
                self.connection.send(event.channel, methods.ChannelCloseOk())

    def _called_connection(self, method: methods.Method) -> None:
        if isinstance(method, methods.ConnectionUpdateSecret):
            if not isinstance(self.access, TokenAccess):  # The login that was made stays good.
                self.connection.send(0, methods.ConnectionUpdateSecretOk())
                self.mark()
                return
            self._login.renew(method.new_secret, self.user, self._renewed)  # Reading stops.

    def _renewed(self, outcome: LoginOutcome) -> None:
        if self._closing:
            return
        access = self.access
        if isinstance(outcome, Accepted) and isinstance(outcome.access, TokenAccess):
            assert isinstance(access, TokenAccess)
            access.renew(outcome.access)
            self.broker.connections.logged_in(self, outcome.expires_at_ms)
            self.connection.send(0, methods.ConnectionUpdateSecretOk())
        elif isinstance(outcome, LoginRefused):
            log.warning("%s: %s", self.name, outcome.text, extra=self.ids())
            text = "New secret was refused by one of the backends"
            self._fail_connection(ProtocolError(ReplyCode.NOT_ALLOWED, text))
        self.mark()

    def _open_channel(self, number: int) -> None:
        error = self.broker.client_limits.channel_refusal(self.user)
        if error is not None:
            self._fail_connection(error)
            return
        session = self.broker.identity.new_session()
        channel = Channel091(self, self.connection, number, session, self.held)
        self.channels[number] = channel
        channel.set_trace(self.broker.observers.firehose.trace_of(self, number))
        self.broker.connections.channels_opened_count += 1
        tell_channel(self.broker.events, "created", self, number)
        channel.send(methods.ChannelOpenOk())

    def _channel_over(self, number: int) -> None:
        self.broker.connections.channels_closed_count += 1
        tell_channel(self.broker.events, "closed", self, number)

    # Login and vhost

    def _begin_login(self, event: LoginRequested) -> None:
        self.mechanism = event.mechanism
        if self.is_internal:
            self._logged_in(Accepted(INTERNAL_USER, ("impersonator",)))
            return
        self._check_login("amqp091", event.response)

    def _accept_login(self) -> None:
        self.connection.accept_login()
        self._go_on()

    def _refuse_login(self, text: str, is_refused: bool) -> None:
        self.connection.refuse_login(login_refused_text(self.mechanism))
        self._closing = True

    def _open(self, vhost: str) -> None:
        broker = self.broker
        access = FULL_ACCESS if self.is_internal else self.access
        known, is_standby = (
            broker.definitions.has_vhost(vhost),
            broker.definitions.is_standby(vhost),
        )
        try:
            error = vhost_refusal(access, self.user, vhost, known, is_standby)
        except Undecided as undecided:
            self._is_opening = True  # Reading stops.
            self.when(undecided, lambda: self._open(vhost))
            return
        self._is_opening = False
        if error is None and not self.is_internal:
            error = broker.client_limits.connection_refusal(self.user, vhost)
        if error is not None:
            self._fail_connection(error)
            return
        self.vhost = vhost
        self.permissions = PermissionCache(access, self.user, vhost)
        is_impersonator = "impersonator" in self.tags
        own = None if self.is_internal else self.access
        self._plans = broker.route_caches.cache(vhost, self.user, is_impersonator, own)
        self.connection.accept_open()
        broker.connections.opened(self)
        interval_s = self.connection.heartbeat_s
        if 0 < interval_s < QUICK_S:
            self._tick_quickly(interval_s / 4)
        self._go_on()

    # Errors

    def dispatch(self, channel: Channel091, event: Publishes | Settles | Called) -> None:
        """Let the channel handle the event; settle its ProtocolError, if any."""
        try:
            channel.handle(event)
        except Undecided as undecided:
            channel.put_off(event)
            self.step_when(undecided, channel)
        except ProtocolError as error:
            if error.class_id == 0 and isinstance(event, Called):
                error.class_id = event.method.identity >> 16
                error.method_id = event.method.identity & 0xFFFF
            self.fail(channel, error)

    def guard(self, channel: Channel091, call: Callable[[], None]) -> None:
        """Call something for the channel; settle its ProtocolError, if any."""
        try:
            call()
        except ProtocolError as error:
            self.fail(channel, error)

    def retry(self, channel: Channel091, call: Callable[[], None]) -> None:
        """Call something for the channel, which waits; again, when a permission is known."""
        try:
            call()
        except Undecided as undecided:
            channel.wait(0)
            self.when(undecided, lambda: self._retry(channel, call))

    def _retry(self, channel: Channel091, call: Callable[[], None]) -> None:
        if not channel.ended:
            self.guard(channel, lambda: self.retry(channel, call))

    def step_when(self, undecided: Undecided, channel: Channel091) -> None:
        self.when(undecided, lambda: channel.step(0))

    def answer(
        self, channel: Channel091, callback: Callable[[int, int], None], first: int, second: int
    ) -> None:
        """Call back with a queue's answer; then the channel goes on, unless it waits again."""
        try:
            callback(first, second)
        except ProtocolError as error:
            self.fail(channel, error)
            return
        if not channel.waits_again():
            channel.resume()

    def fail(self, channel: Channel091, error: ProtocolError) -> None:
        """Close the channel or the connection for this error."""
        if error.scope is Scope.CONNECTION:
            self._fail_connection(error)
            return
        if channel.ended:
            return
        log.info("%s channel %d: %s", self.name, channel.number, error, extra=self.ids())
        self.broker.observers.audit.refused(self.author(), error)
        channel.end()
        self.channels.pop(int(channel.number), None)
        self._channel_over(int(channel.number))
        self.connection.close_channel(int(channel.number), error)
        self.mark()

    def _channel_failed(self, number: int, error: ProtocolError) -> None:
        """The core closed the channel by itself."""
        channel = self.channels.pop(number, None)
        if channel is not None:
            log.info("%s channel %d: %s", self.name, number, error, extra=self.ids())
            channel.end()
            self._channel_over(number)

    def _fail_connection(self, error: ProtocolError) -> None:
        if self._closing:
            return
        log.warning("%s: %s", self.name, error, extra=self.ids())
        self._end_all()
        self.connection.fail(error)
        self._closing = True
        self.mark()

    def _failed(self, error: ProtocolError) -> None:
        """The core found the peer wrong and has said so."""
        log.warning("%s: %s", self.name, error, extra=self.ids())
        self._end_all()
        self._closing = True
        if self.connection.state_name == "closed":
            self._close_when_sent()
        else:
            self.mark()

    def close(self, reason: str) -> None:
        """An operator or the end of the node closes the connection (320)."""
        self._fail_connection(ProtocolError(ReplyCode.CONNECTION_FORCED, reason, Scope.CONNECTION))

    def _rest_to_send(self) -> bytes:
        return self.connection.data_to_send()

    def _heartbeat_s(self) -> float:
        return float(self.connection.heartbeat_s)

    def _end_all(self) -> None:
        for channel in list(self.channels.values()):
            channel.end()
            self._channel_over(int(channel.number))
        self.channels = {}
        self._work = []

    # What channels ask (node.amqp091.channel_owner.Owner)

    def credit_spec(self) -> CreditSpec:
        return self.broker.channel_credit

    def quorum_global_qos(self) -> bool:
        return self.broker.config.quorum_queue.global_qos

    @property
    def sent_clock(self) -> Callable[[], int] | None:
        return self.broker.interceptors.sent_clock

    @property
    def counts(self) -> Counts:
        return self.broker.counts

    @property
    def oversized(self) -> OversizedHeaders:
        return self.broker.oversized

    def plan_cache(self) -> PlanCache:
        assert self._plans is not None
        return self._plans

    def part(self, event: Publishes) -> Parted:
        assert self._plans is not None
        return self._plans.part(event)

    def is_clogged(self) -> bool:
        return self._writing_paused

    def mark_channel(self, channel: Channel091) -> None:
        if not channel.in_work:
            channel.in_work = True
            self._work.append(channel)
        self.mark()

    def between_steps(self, call: Callable[[], None]) -> None:
        self.broker.turn.between_steps(call)

    def step_later(self, work: Steppable) -> None:
        self.broker.turn.mark_host_later(work)
        self.broker.turn.begin()

    def step_after(self, work: Steppable, wait_ms: int) -> None:
        asyncio.get_running_loop().call_later(wait_ms / 1000, self.step_later, work)

    def weigh_gate(self, channel: Channel091, count: int) -> None:
        publisher = channel.publisher
        gate, publisher.gate = publisher.gate, None
        assert gate is not None
        channel.rate = rate_after(gate, channel.rate, count, publisher.now_s)
        if self.broker.addresses.hold(self, gate):
            self.is_held_by_address = True
            self.connection.holds_publishes = True
            self.mark()

    @property
    def credit_source(self) -> CreditActor:
        return self.reader

    def address_has_room(self) -> None:
        self.is_held_by_address = self.broker.addresses.is_waiting(self)
        self.mark()

    def count_published(self, channel: Channel091, count: int) -> None:
        self.reader.send(channel.credit, count)
        channel.credit.ack(self.reader, count)
        if not self.is_publishing:
            self.has_published = True
            self.broker.hold.begins_to_publish(self)

    def count_by_exchange(self, number: int, event: Publishes, plans: list[Targets]) -> None:
        tally = self.broker.counts.exchanges
        if tally is None:
            return
        vhost, keys, firsts, count = self.vhost, event.keys, event.firsts, int(event.count)
        tally.count(vhost, keys, firsts, count, [len(each.hosts) for each in plans])
        if tally.pairs is not None:
            channel = f"{self.name} ({number})"
            names = [each.names() for each in plans]
            tally.pairs.count(channel, vhost, keys, firsts, count, names)

    def channel_closed(self, channel: Channel091) -> None:
        self.channels.pop(int(channel.number), None)
        self._channel_over(int(channel.number))

    def consumer_created(self, channel: Channel091, consumer: Consumer091) -> None:
        tell_consumer_created(
            self.broker.events,
            self,
            int(channel.number),
            consumer.tag,
            consumer.host,
            exclusive=consumer.exclusive,
            no_ack=consumer.no_ack,
            prefetch=int(consumer.prefetch),
            arguments=consumer.arguments,
        )

    def consumer_deleted(self, channel: Channel091, consumer: Consumer091) -> None:
        number = int(channel.number)
        tell_consumer_deleted(self.broker.events, self, number, consumer.tag, consumer.host)

    def queue_for_read(self, channel: Channel091, name: str) -> QueueHost:
        """The queue to consume or get from; raise 404, 403 or 405. What was found holds as long as
        no definition and no permission changes, and no node goes down or comes back."""
        version = self.broker.queues.version() + self.access.version
        if version != self._readable_version or len(self._readable) >= READABLE_MAX:
            self._readable_version = version
            self._readable = {}
        host = self._readable.get(name)
        if host is None:
            host = self.broker.queues.host(queue_for_read(self, channel, name).uid)
            if name != "":
                self._readable[name] = host
        return host

    def metadata(self) -> "Metadata":
        return self.broker.metadata

    def gone_error(self, host: QueueHost) -> ProtocolError:
        return self.broker.queues.gone_error(host)

    def open_answers(self, channel: Channel091) -> QueueHost:
        return self.broker.answers.open(self.vhost)

    def new_name(self, prefix: str) -> str:
        """`prefix` and 22 base64url characters."""
        return new_name(prefix)

    def define(self, channel: Channel091, method: methods.Method) -> None:
        call_definition(self, channel, method)

    # Output and back-pressure

    def flush(self) -> None:
        """Send what the turn produced; judge whether to go on reading."""
        self._marked = False
        if self._lost or self._output_held:
            return
        more = self.reading.begin_turn()
        if len(more) > 0 and not self._closing:
            self._take(more)
        if self.reading.has_backlog() and not self._closing:
            self.mark()
        if self.connection.has_more and not self._closing and self.held.waiting_bytes == 0:
            self._take(b"")
            self.mark()
        self._judge_publishes()
        work = self._work
        self._work = []
        for channel in work:
            channel.in_work = False
            if (
                not channel.ended
                and channel.flush(self._writing_paused)
                and not (self._writing_paused)
            ):
                self.mark_channel(channel)
        if not self._writing_paused:
            connection = self.connection
            if len(connection.parts) > 0:
                self.transport.writelines(connection.take_parts())
            else:
                data = connection.data_to_send()
                if data:
                    self.transport.write(data)
        self.reading.judge(self._should_stop())

    def _judge_publishes(self) -> None:
        """During an alarm, input is read up to the next publish, as RabbitMQ does.

        Clients that acknowledge and consume therefore go on and drain what caused the alarm.
        """
        connection = self.connection
        alarmed = self.broker.alarms.is_set()
        held = alarmed or self.is_held_by_address
        connection.holds_publishes = held
        if connection.publish_held and not held and not self._closing:
            self._take(b"")
            self.mark()
        blocked = alarmed and (self.has_published or connection.publish_held)
        if blocked != self._blocked_told:
            self._tell_blocked(blocked)

    def _should_stop(self) -> bool:
        if self._closing:
            return False
        if self._login.is_running or self._is_opening:
            return True
        if self.reader.is_blocked():
            return True
        if self._is_flooded():
            return True
        if self.connection.publish_held:
            return True
        if self.reading.has_backlog() or self.connection.has_more:
            return True
        if self.held.waiting_bytes >= STASH_BYTES_MAX:
            return True
        return self.held.in_flight_bytes >= self.broker.in_flight_bytes_max

    def _is_flooded(self) -> bool:
        """A client that asks and never reads: its answers wait in one piece, and are bounded."""
        return self._writing_paused and self.connection.pending_bytes() >= ANSWER_BYTES_MAX

    def _tell_blocked(self, alarmed: bool) -> None:
        """connection.blocked and unblocked, to clients that know them."""
        self._blocked_told = alarmed
        if not self.connection.connection_blocked:
            return
        if alarmed:
            reason = self.broker.alarms.reason()
            self.connection.send(0, methods.ConnectionBlocked(reason))
        else:
            self.connection.send(0, methods.ConnectionUnblocked())
        self.mark()

    def trace_changed(self) -> None:
        """Messages of the vhost are traced from now on, or no longer."""
        firehose = self.broker.observers.firehose
        for number, channel in self.channels.items():
            channel.set_trace(firehose.trace_of(self, number))

    def channel_count(self) -> int:
        return len(self.channels)

    def consumer_count(self) -> int:
        """Of AMQP 1.0 alone: for the metrics."""
        return 0

    def queue_uids(self) -> set[int]:
        """See `ClientConnection`."""
        uids: set[int] = set()
        for channel in self.channels.values():
            uids.update(channel.deliveries.hosts)
            uids.update(channel.publisher.outboxes)
        return uids

    def facts(self) -> ConnectionFacts:
        """For the management API, as `state`."""
        core = self.connection
        return ConnectionFacts(
            self.protocol,
            len(self.channels),
            core.channel_max,
            core.frame_max,
            core.heartbeat_s,
            core.client_properties,
            core.bytes_received,
            core.bytes_sent,
            self.reading.read_count,
            int(core.write_count),
        )

    def state(self) -> str:
        """As the management API shows it."""
        if self.connection.publish_held:
            return "blocked"
        if self.broker.alarms.is_set():
            return "blocking"  # The next publish blocks the connection.
        return "flow" if self.reader.is_blocked() else "running"

"""The node's end of one connection of RabbitMQ's stream protocol: socket, login, frames.

Owns its publishers and subscriptions and the task of its login; what single commands do is in
`node.streams.commands`. A frame that cannot be read, or comes before its time, closes the
connection. Publish is carried out in slices of MESSAGES_PER_TURN messages, so that no frame holds
the loop; while an alarm is set, or too much is in flight, the connection stops at its next Publish,
and one that only consumes goes on.
"""

import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from node.auth.asked_access import Undecided
from node.auth.login import LoginOutcome
from node.auth.permissions import PermissionCache
from node.auth.sasl import offered
from node.connections.client_endpoint import ClientEndpoint
from node.connections.connection_facts import ConnectionFacts
from node.connections.socket_reading import ANSWER_BYTES_MAX, Reading, Transport
from node.streams.commands import COMMANDS, COMMANDS_BEFORE_OPEN, publish
from node.streams.publish_frames import PublishRun, PublishScanner, confirm_frame
from node.streams.publisher import StreamPublisher, expanded
from node.streams.single_active import ANSWER_MS, Updates
from node.streams.subscription import Subscription
from queues.streams.host import StreamHost
from warren.wire.stream import codes
from warren.wire.stream.frames import BadFrame, Fields, FrameBuffer, FrameWriter

if TYPE_CHECKING:
    from node.amqp091.publish_plans import RouteCache
    from node.amqp10.sessions import Session10
    from node.broker import Broker
    from node.tls.certificate import TlsPeer

log = logging.getLogger("warren.connection")

PROTOCOL: Final = "stream"
FRAME_MAX: Final = 1 << 20
HANDSHAKE_FRAME_MAX: Final = 64 << 10  # until a vhost is open: clients need no login for that
FRAMES_PER_TURN: Final = 512
MESSAGES_PER_TURN: Final = 4096  # published by one connection
BYTES_PER_TURN: Final = 1 << 20
OUTPUT_BYTES_MAX: Final = 512 << 10  # of chunks in one turn
CLOSE_WAIT_MS: Final = 10_000
QUICK_S: Final = 10  # a heartbeat interval below needs more ticks than the node gives


class Traffic:
    """Counts of the socket, and what `Reading` tells of its pauses."""

    def __init__(self) -> None:
        self.bytes_received = 0
        self.bytes_sent = 0
        self.write_count = 0
        self.is_paused = False

    def pause_reading(self) -> None:
        self.is_paused = True

    def resume_reading(self, now_ms: int) -> None:
        self.is_paused = False


class PutOff:
    """What waits for a permission that is being asked for."""

    def __init__(self) -> None:
        self.is_asking = False
        self.frame: bytes | None = None
        self.run: PublishRun | None = None


class StreamEndpoint(ClientEndpoint):
    """See the module. Keeps `ClientConnection`; `sessions` are those of AMQP: there are none."""

    def __init__(
        self,
        broker: "Broker",
        transport: Transport,
        peer: tuple[str, int],
        here: tuple[str, int],
        tls: "TlsPeer | None" = None,
        is_web: bool = False,
    ) -> None:
        """`is_web`: never so; all endpoints are made alike."""
        assert not is_web
        super().__init__(broker, transport, peer, here, tls, PROTOCOL)
        self.is_amqp10 = False
        self.is_open = False  # a vhost is
        self.sessions: Mapping[int, Session10] = {}
        self.connection = Traffic()
        self.mechanisms = offered(broker.config.auth.offered, tls)
        self.client_properties: dict[str, str] = {}
        self.deliver_version = codes.VERSION_1
        self.publishers: dict[int, StreamPublisher] = {}
        self.subscriptions: dict[int, Subscription] = {}
        self.updates = Updates()
        self.frame_max = FRAME_MAX
        self.heartbeat_s = broker.config.limits.heartbeat_s
        self._frames = FrameBuffer(HANDSHAKE_FRAME_MAX)
        self._reading = Reading(broker.turn, transport, self.connection, broker.monotonic_ms)
        self._scanner = PublishScanner()  # of the Publish that is carried out, maybe in slices
        self._login_correlation = 0
        self._put_off = PutOff()
        self._output: list[bytes] = []
        self._work: list[StreamPublisher] = []  # with confirms to send
        self._first_to_write = 0  # the subscription that is served first
        self._last_read_ms = self._last_written_ms = broker.monotonic_ms()
        self._begun_ms = self._last_read_ms
        self._handshake_ms = broker.config.limits.handshake_timeout_ms
        self._closing_at_ms = 0  # when our Close was sent, to which there is no answer so far
        self._is_stepping_later = False
        self._plans: RouteCache | None = None

    # The socket

    def start(self) -> None:
        self.mark()

    def data_received(self, data: bytes) -> None:
        turn = self.broker.turn
        turn.begin()
        self.connection.bytes_received += len(data)
        self._last_read_ms = self.broker.monotonic_ms()
        now = self._reading.receive(data)
        if now and not self._lost:
            self._frames.add(now)
            self._work_off()
        self.mark()
        turn.end_if_long()

    def eof_received(self) -> bool:
        self._end()
        self.transport.abort()
        return False

    def connection_lost(self, error: Exception | None = None) -> None:
        if self._lost:
            return
        self._lost = True
        self._end()
        self._login.cancel()
        if self._ticker is not None:
            self._ticker.cancel()
        self.reader.peer_down_everywhere()
        self.broker.connections.closed(self)

    def resume_writing(self) -> None:
        self._writing_paused = False
        self.mark()

    def tick(self, now_ms: int) -> None:
        """Heartbeats and deadlines; called about once a second."""
        if self._closing_at_ms and now_ms - self._closing_at_ms >= CLOSE_WAIT_MS:
            self.transport.abort()
            return
        if not self.is_open and now_ms - self._begun_ms >= self._handshake_ms:
            self.transport.abort()
            return
        if self.updates.is_late(now_ms):
            text = f"the client has not answered a ConsumerUpdate for {ANSWER_MS // 1000} s"
            self.fail(codes.PRECONDITION_FAILED, text)
            return
        if self.heartbeat_s > 0 and self.is_open:
            limit_ms = 1000 * self.heartbeat_s
            if now_ms - self._last_read_ms > 2 * limit_ms and not self._reading.is_paused:
                log.warning(
                    "%s: missed heartbeats from client, timeout: %ds",
                    *(self.name, self.heartbeat_s),
                    extra=self.ids(),
                )
                self.transport.abort()
                return
            if 2 * (now_ms - self._last_written_ms) >= limit_ms:
                self.send(FrameWriter(codes.HEARTBEAT))
        self.mark()

    # Frames

    def _work_off(self) -> None:
        """Carry out frames, as many as fit in a turn."""
        if self._put_off.is_asking:
            return
        try:
            try:
                self._carry_out_frames()
            finally:
                self._publish_gathered()
        except BadFrame as error:
            code = codes.FRAME_TOO_LARGE if error.is_too_large else codes.UNKNOWN_FRAME
            self.fail(code, str(error))
        except Undecided as undecided:
            self._put_off.is_asking = True
            undecided.then(self._decided)
        except Exception:  # A fault of ours: this connection ends, the others go on.
            log.exception("%s: internal error", self.name, extra=self.ids())
            self.fail(codes.INTERNAL_ERROR, "internal error")

    def _decided(self) -> None:
        """Go on with what waited for a permission."""
        self._put_off.is_asking = False
        if not self._lost:
            self.broker.turn.begin()
            self._work_off()
            self.mark()

    def _carry_out_frames(self) -> None:
        if self._put_off.run is not None:
            self._publish_gathered()
        for _ in range(FRAMES_PER_TURN):
            if self._closing or self._login.is_running:
                return
            if self._put_off.frame is not None:
                body, self._put_off.frame = self._put_off.frame, None
                self._handle(body)
                continue
            if self._scanner.left > 0 and not self._go_on_publishing():
                return
            taken = self._frames.take()
            if taken is None:
                return
            self._handle(taken)
        self._step_later()

    def _go_on_publishing(self) -> bool:
        """Take a slice of the Publish that is being carried out, unless it has to wait; return
        whether there is room for more in this turn."""
        if self._must_wait_to_publish():
            return False  # `flush` asks again.
        if self._scanner.scan(MESSAGES_PER_TURN, BYTES_PER_TURN):
            self._step_later()
            return False
        return True

    def _publish_gathered(self) -> None:
        """Publish what came in Publish frames so far."""
        if self._put_off.run is None and self._scanner.count > 0:
            self._put_off.run = self._scanner.take()
        if self._put_off.run is not None:
            if not self._closing:
                publish(self, self._put_off.run)
            self._put_off.run = None

    def _handle(self, body: bytes) -> None:
        try:
            self._carry_out(body)
        except Undecided:
            self._put_off.frame = body
            raise

    def _carry_out(self, body: bytes) -> None:
        fields = Fields(body)
        if fields.key == codes.PUBLISH and self.is_open:
            if not self._scanner.suits(body):
                self._publish_gathered()
            self._scanner.begin(body)
            return
        self._publish_gathered()
        known = COMMANDS if self.is_open else COMMANDS_BEFORE_OPEN
        command = known.get(fields.key)
        if command is None:
            text = f"command {fields.key} is unknown" if self.is_open else "the vhost is not open"
            raise BadFrame(f"{text}: it cannot be carried out")
        command(self, fields)

    def _step_later(self) -> None:
        if not self._is_stepping_later:
            self._is_stepping_later = True
            self.broker.turn.mark_host_later(self)
            self.broker.turn.begin()

    def step(self, now_ms: int) -> None:
        """Go on with what the last turn had no time for (`Steppable`)."""
        self._is_stepping_later = False
        if not self._lost:
            self.broker.turn.between_steps(self._work_off)
            self.mark()

    def _must_wait_to_publish(self) -> bool:
        if self.broker.alarms.is_set() or self.reader.is_blocked():
            return True
        return self.held.in_flight_bytes >= self.broker.in_flight_bytes_max

    # Login

    def begin_login(self, correlation: int, mechanism: str, response: bytes) -> None:
        self._login_correlation = correlation
        self.mechanism = mechanism
        self._check_login("stream", response)

    def _login_decided(self, outcome: LoginOutcome) -> None:
        super()._login_decided(outcome)
        if not self._lost:
            self._work_off()

    def _accept_login(self) -> None:
        self.send(self._login_answer(codes.OK))
        self.send(FrameWriter(codes.TUNE).u32(self.frame_max).u32(self.heartbeat_s))

    def _refuse_login(self, text: str, is_refused: bool) -> None:
        code = codes.AUTHENTICATION_FAILURE if is_refused else codes.SASL_ERROR
        if is_refused and text.endswith("via localhost"):
            code = codes.AUTHENTICATION_FAILURE_LOOPBACK
        self.send(self._login_answer(code))
        self.close_when_sent()

    def _login_answer(self, code: int) -> FrameWriter:
        answer = FrameWriter(codes.SASL_AUTHENTICATE | codes.RESPONSE)
        return answer.u32(self._login_correlation).u16(code)

    def opened(self, vhost: str) -> None:
        """The client may use the vhost from now on."""
        self.vhost = vhost
        self.permissions = PermissionCache(self.access, self.user, vhost)
        is_impersonator = "impersonator" in self.tags
        self._plans = self.broker.route_caches.cache(vhost, self.user, is_impersonator, self.access)
        self.is_open = True
        self._frames.frame_max = FRAME_MAX
        self.broker.connections.opened(self)
        if 0 < self.heartbeat_s < QUICK_S:
            self._tick_quickly(self.heartbeat_s / 4)

    def tuned(self, frame_max: int, heartbeat_s: int) -> None:
        """What the client says to our Tune; 0: no limit, no heartbeats."""
        if 0 < frame_max < self.frame_max:
            self.frame_max = frame_max
        self.heartbeat_s = heartbeat_s

    def plans(self) -> "RouteCache":
        assert self._plans is not None
        self._plans.refresh()
        return self._plans

    # Streams

    def stream_gone(self, host: StreamHost) -> None:
        """The stream was deleted: tell the client once, and let go of what uses it."""
        publishers = [number for number, each in self.publishers.items() if each.host is host]
        readers = [number for number, each in self.subscriptions.items() if each.host is host]
        if not publishers and not readers:
            return
        for number in publishers:
            publisher = self.publishers.pop(number)
            self.flush_publisher(publisher)
            publisher.end()
        for number in readers:
            self.subscriptions.pop(number).end()
        update = FrameWriter(codes.METADATA_UPDATE).u16(codes.STREAM_NOT_AVAILABLE)
        self.send(update.string(host.name))
        self.mark()

    def count_published(self) -> None:
        if not self.is_publishing:
            self.has_published = True
            self.broker.hold.begins_to_publish(self)

    # Output

    def send(self, frame: FrameWriter) -> None:
        self._output.append(frame.end())
        self.mark()

    def mark_publisher(self, publisher: StreamPublisher) -> None:
        if publisher not in self._work:
            self._work.append(publisher)
        self.mark()

    def add_publisher(self, number: int, host: StreamHost, reference: str) -> None:
        self.publishers[number] = StreamPublisher(self, number, host, reference)

    def flush_publisher(self, publisher: StreamPublisher) -> None:
        """Send the confirms that are due."""
        confirmed, refused = publisher.take_decided()
        if confirmed:
            self._output.append(confirm_frame(publisher.number, confirmed))
            self.mark()
        self.refuse(publisher.number, expanded(refused), codes.STREAM_NOT_AVAILABLE)

    def refuse(self, publisher: int, ids: list[int], code: int) -> None:
        """Send PublishError for messages; there may be none."""
        if not ids:
            return
        known = self.publishers.get(publisher)
        if known is not None:
            known.refused_count += len(ids)
        frame = FrameWriter(codes.PUBLISH_ERROR).u8(publisher).u32(len(ids))
        for number in ids:
            frame.u64(number).u16(code)
        self.send(frame)

    def flush(self) -> None:
        """Send what the turn produced; judge whether to go on reading."""
        self._marked = False
        if self._lost:
            return
        more = self._reading.begin_turn()
        if more:
            self._frames.add(more)
        if (more or self._scanner.left > 0) and not self._is_stepping_later:
            self._work_off()
        work, self._work = self._work, []
        for publisher in work:
            if self.publishers.get(publisher.number) is publisher:
                self.flush_publisher(publisher)
        if not self._writing_paused and not self._closing:
            self._deliver()
        self._write()
        self._marked = False
        if self._reading.has_backlog():
            self.mark()
        self._reading.judge(self._should_stop())

    def _deliver(self) -> None:
        """Chunks of subscriptions in turn, up to what a turn may write."""
        subscriptions = list(self.subscriptions.values())
        now_ms = self.broker.now_ms()
        size, idle, place = 0, 0, self._first_to_write
        while subscriptions and idle < len(subscriptions):
            if size >= OUTPUT_BYTES_MAX:
                self._step_later()
                break
            subscription = subscriptions[place % len(subscriptions)]
            place += 1
            frame = subscription.take_frame(self.deliver_version, now_ms)
            if not frame:
                idle += 1
                self._look_after(subscription)
                continue
            idle = 0
            size += sum(map(len, frame))
            self._output += frame
        self._first_to_write = place

    def _look_after(self, subscription: Subscription) -> None:
        """It has nothing to send now."""
        if subscription.has_scanned():
            self._step_later()
        if subscription.error is not None:
            log.error(
                "%s: stream '%s' cannot be read: %s",
                *(self.name, subscription.host.name, subscription.error),
                extra=self.ids(),
            )
            self.stream_gone(subscription.host)
        elif subscription.is_gone:
            self.stream_gone(subscription.host)

    def _write(self) -> None:
        if not self._output:
            return
        output, self._output = self._output, []
        self.connection.bytes_sent += sum(map(len, output))
        self.connection.write_count += 1
        self._last_written_ms = self.broker.monotonic_ms()
        self.transport.writelines(output)

    def _should_stop(self) -> bool:
        if self._closing:
            return False
        if self._login.is_running or self._put_off.is_asking:
            return True
        if self._scanner.left > 0 or self._is_stepping_later:
            return True
        is_full = self.transport.get_write_buffer_size() >= ANSWER_BYTES_MAX
        return is_full or self._reading.has_backlog()

    # The end

    def fail(self, code: int, text: str) -> None:
        """Close the connection for what its client did, or for our own fault."""
        if self._closing:
            return
        log.warning("%s: %s", self.name, text, extra=self.ids())
        self._say_close(code, text)

    def close(self, reason: str) -> None:
        """An operator or the end of the node closes the connection."""
        if not self._closing:
            self._say_close(codes.OK, reason)

    def _say_close(self, code: int, text: str) -> None:
        self._end()
        self._closing = True
        self._closing_at_ms = self.broker.monotonic_ms()
        self.send(FrameWriter(codes.CLOSE).u32(0).u16(code).string(text))
        self.close_when_sent()

    def close_when_sent(self) -> None:
        """Write what is to be said, and wait for the client to close the socket."""
        if self._lost:
            return
        self._closing = True
        self._end()
        self._write()
        self.broker.connections.half_closed.begin(self.transport, CLOSE_WAIT_MS / 1000)
        self.connection_lost()

    def _end(self) -> None:
        """Publishers and subscriptions are over."""
        self._closing = True
        for publisher in self.publishers.values():
            publisher.end()
        for subscription in self.subscriptions.values():
            subscription.end()
        self.publishers.clear()
        self.subscriptions.clear()
        self._scanner.end()

    # Listings

    def channel_count(self) -> int:
        return 0

    def consumer_count(self) -> int:
        return len(self.subscriptions)

    def queue_uids(self) -> set[int]:
        """See `ClientConnection`."""
        written = {each.host.uid for each in self.publishers.values()}
        return written | {each.host.uid for each in self.subscriptions.values()}

    def trace_changed(self) -> None:
        """Streams are not traced."""

    def facts(self) -> ConnectionFacts:
        properties: dict[str, object] = dict(self.client_properties)
        return ConnectionFacts(
            PROTOCOL,
            *(0, 0, self.frame_max, self.heartbeat_s, properties),
            *(self.connection.bytes_received, self.connection.bytes_sent),
            *(self._reading.read_count, self.connection.write_count),
        )

    def state(self) -> str:
        """As the management API shows it."""
        if self.broker.alarms.is_set():
            return "blocked" if self.has_published else "blocking"
        return "flow" if self._scanner.left > 0 else "running"

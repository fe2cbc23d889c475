"""Server side of one AMQP 0-9-1 connection, without I/O. Compiled.

It begins behind the protocol header (`header`). Bytes go in by `receive`, time by `tick`; events
come out of both, in the order of arrival, and bytes to send gather in `writer`.

The endpoint must know two things about the events of one `receive`. They may contain frames behind
one that it refuses: after `close_channel` it drops the rest of that channel's events, except that
it answers `Called(ChannelClose)` with close-ok as always; after `fail` it drops all. And replies go
out in the order in which it calls `send`.

A login and an open take their time. Until the endpoint has accepted them, what came behind waits
here; then it calls `receive` with no bytes. The same if `has_more`: one `receive` gives no more
than EVENTS_MAX events or so, that a flood of small frames does not hold up the loop.
"""

from typing import Final, final

from mypy_extensions import i64

from warren.wire.amqp091.deliver import Buffer, write_content, write_method
from warren.wire.amqp091.events import (
    Called,
    ChannelFailed,
    Ended,
    Event,
    Failed,
    LoginRequested,
    OpenRequested,
    Publishes,
)
from warren.wire.amqp091.fields import binary_term
from warren.wire.amqp091.lane import (
    FRAME_BODY,
    FRAME_HEADER,
    FRAME_HEARTBEAT,
    FRAME_METHOD,
    LANE_CLOSING,
    LANE_OPEN,
    LANE_PEER_CLOSING,
    Lane,
)
from warren.wire.amqp091.methods import (
    TO_SERVER,
    BasicAck,
    BasicCancelOk,
    BasicNack,
    BasicReject,
    ChannelClose,
    ChannelCloseOk,
    ChannelFlow,
    ChannelFlowOk,
    ChannelOpen,
    ConnectionClose,
    ConnectionCloseOk,
    ConnectionOpen,
    ConnectionOpenOk,
    ConnectionStart,
    ConnectionStartOk,
    ConnectionTune,
    ConnectionTuneOk,
    ConnectionUpdateSecret,
    Method,
    decode_method,
)
from warren.wire.amqp091.scanner import (
    FRAME_END,
    FRAME_OVERHEAD,
    STOP_SHORT,
    PublishScanner,
    scan_settles,
    settles,
)
from warren.wire.buffer import BytesWriter, read_i16_be, read_i32_be
from warren.wire.errors import ProtocolError, ReplyCode, Scope

EVENTS_MAX: Final = 512  # of one `receive`: many small frames are taken in slices
FRAME_HEAD: Final = 7  # kind, channel and size
FRAME_MAX_MIN: Final = 4096  # AMQP 0-9-1: frame-min-size
CLOSING_MS_MAX: Final = 10_000  # for the peer's close-ok
SILENCE_MS: Final = 3_000  # before the socket of a refused or garbled peer is closed
RESCAN_BYTES_MAX: Final = 65_536  # with less missing a message waits, to be scanned again whole
TAIL_PARTS_MAX: Final = 1024  # reads kept apart while a frame is not whole
WRITER_BYTES_KEPT: Final = 65_536  # a writer that grew larger is not used again
TAG_MAX: Final = (1 << 63) - 1

STARTING: Final = 0
SECURING: Final = 1
TUNING: Final = 2
OPENING: Final = 3
RUNNING: Final = 4
CLOSING: Final = 5  # connection.close sent
CLOSED: Final = 6
STATE_NAMES: Final = ("starting", "securing", "tuning", "opening", "running", "closing", "closed")

PUBLISH: Final = 0x003C0028
SETTLE_METHODS: Final = (0x003C0050, 0x003C005A, 0x003C0078)
CLOSE_FRAME: Final = 0x000A0032  # connection.close
CLOSE_OK_FRAME: Final = 0x000A0033
HEARTBEAT_FRAME: Final = b"\x08\x00\x00\x00\x00\x00\x00\xce"


class Limits:
    """What this server allows a connection."""

    def __init__(
        self,
        frame_max: int = 131_072,
        channel_max: int = 2_047,
        heartbeat_s: int = 60,
        initial_frame_max: int = 8_192,
        message_bytes_max: int = 16 * 1024 * 1024,
        held_bytes_max: int = 64 * 1024 * 1024,
        handshake_ms: int = 10_000,
    ) -> None:
        assert frame_max >= FRAME_MAX_MIN
        assert 0 < channel_max <= 65_535
        self.frame_max = frame_max  # bytes of a frame, all of them
        self.channel_max = channel_max  # open channels at a time, whatever their numbers
        self.heartbeat_s = heartbeat_s  # proposed; 0: none
        self.initial_frame_max = initial_frame_max  # until tune-ok
        self.message_bytes_max = message_bytes_max
        self.handshake_ms = handshake_ms  # until the vhost is open
        self.held_bytes_max = held_bytes_max  # in unfinished contents of all channels together


@final
class Connection:
    """Invariant: in state `closed` nothing is read or written any more."""

    def __init__(
        self, limits: Limits, server_properties: dict[str, object], mechanisms: str, now_ms: i64
    ) -> None:
        self.limits = limits
        self.server_properties = server_properties
        self.mechanisms = mechanisms  # separated by spaces
        self.writer = BytesWriter()
        self.parts: list[Buffer] = []  # of the output, before what is in the writer
        self.state: i64 = STARTING
        self.frame_max: i64 = limits.initial_frame_max
        self.channel_max: i64 = limits.channel_max
        self.heartbeat_s: i64 = limits.heartbeat_s
        self.bytes_received: i64 = 0
        self.bytes_sent: i64 = 0
        self.write_count: i64 = 0  # outputs that were taken
        self.mechanism = ""
        self.client_properties: dict[str, object] = {}
        self.consumer_cancel_notify = False
        self.connection_blocked = False
        self.authentication_failure_close = False
        self.basic_nack = False
        self.publisher_confirms = False
        self._now_ms: i64 = now_ms
        self._deadline_ms: i64 = now_ms + limits.handshake_ms  # of the handshake, or of closing
        self._read_ms: i64 = now_ms
        self._written_ms: i64 = now_ms
        self._written_bytes: i64 = 0  # when `_written_ms` was set
        self._paused = False
        self._deaf = False  # the input is out of step: nothing in it can be believed
        self._opened = False  # connection.open received
        self._lanes: dict[int, Lane] = {}
        self._held_bytes: i64 = 0
        self._tail: list[bytes] = []
        self._tail_bytes: i64 = 0
        self._need: i64 = 0  # bytes of tail and read together before it is worth looking
        self._next: i64 = 0  # behind the frame that is being taken
        self.has_more = False  # the last `receive` stopped at EVENTS_MAX
        self.holds_publishes = False  # an alarm: input ends before the next basic.publish
        self.publish_held = False  # the last `receive` stopped there; the tail begins with it
        self._held = False  # the endpoint decides on login or open; what came after waits
        self._scanner = PublishScanner(limits.initial_frame_max, limits.message_bytes_max)
        self._events: list[Event] = []

    @property
    def state_name(self) -> str:
        return STATE_NAMES[self.state]

    @property
    def channel_count(self) -> int:
        return len(self._lanes)

    def channel_is_open(self, channel: int) -> bool:
        """Whether methods may be sent on it."""
        lane = self._lanes.get(channel)
        return lane is not None and lane.status == LANE_OPEN

    # --- What the endpoint asks for ---------------------------------------------------------

    def start(self) -> None:
        """Send connection.start: the first thing, once the protocol header was seen."""
        start = ConnectionStart(
            version_major=0,
            version_minor=9,
            server_properties=self.server_properties,
            mechanisms=self.mechanisms.encode("utf-8"),
            locales=b"en_US",
        )
        write_method(self.writer, 0, start.encode())

    def accept_login(self) -> None:
        """Answer to LoginRequested: send tune."""
        if self.state != SECURING:
            return
        self._held = False
        self.state = TUNING
        limits = self.limits
        tune = ConnectionTune(limits.channel_max, limits.frame_max, limits.heartbeat_s)
        write_method(self.writer, 0, tune.encode())

    def refuse_login(self, text: str = "") -> None:
        """Answer to LoginRequested: 403 if the client can take it, else silence and then `Ended`.

        `text` stands in for RabbitMQ's sentence, which does not say why.
        """
        if self.state != SECURING:
            return
        if not self.authentication_failure_close:
            self._close_in(SILENCE_MS)
            self.state = CLOSING
            self._deaf = True
            return
        if text == "":
            text = (
                f"Login was refused using authentication mechanism {self.mechanism}. "
                "For details see the broker logfile."
            )
        self.fail(ProtocolError(ReplyCode.ACCESS_REFUSED, text, Scope.CONNECTION))

    def accept_open(self) -> None:
        """Answer to OpenRequested: the connection is usable."""
        if self.state != OPENING:
            return
        self._held = False
        self.state = RUNNING
        write_method(self.writer, 0, ConnectionOpenOk().encode())

    def fail(self, error: ProtocolError) -> None:
        """Send connection.close; from now on only the peer's close or close-ok counts."""
        if self.state >= CLOSING:
            return
        close = ConnectionClose(error.code, error.reply_text, error.class_id, error.method_id)
        write_method(self.writer, 0, close.encode())
        self.state = CLOSING
        self._held = False
        self._forget_contents()
        self._close_in(CLOSING_MS_MAX)

    def close_channel(self, channel: int, error: ProtocolError) -> None:
        """Send channel.close and drop the channel's input up to close-ok."""
        lane = self._lanes.get(channel)
        if lane is None or lane.status == LANE_CLOSING or self.state >= CLOSING:
            return
        close = ChannelClose(error.code, error.reply_text, error.class_id, error.method_id)
        write_method(self.writer, channel, close.encode())
        self._drop_content(lane)
        lane.status = LANE_CLOSING

    def send(self, channel: int, method: Method) -> None:
        """Send a method without content. On a channel that is closed or closing it is dropped."""
        if self.state >= CLOSING:
            return
        if channel != 0:
            lane = self._lanes.get(channel)
            if lane is None:
                return
            if isinstance(method, ChannelCloseOk):
                if lane.status == LANE_PEER_CLOSING:
                    del self._lanes[channel]
            elif lane.status == LANE_CLOSING:
                return
        write_method(self.writer, channel, method.encode())

    def send_content(self, channel: int, method: Method, data: bytes, start: i64, end: i64) -> None:
        """Send basic.return or basic.get-ok with the content of `data[start:end]` (form 1)."""
        if self.state >= CLOSING or not self.channel_is_open(channel):
            return
        write_method(self.writer, channel, method.encode())
        write_content(self.writer, channel, data, start, end, self.frame_max)

    def data_to_send(self) -> bytes:
        """Take the pending output. `writer` may be another object afterwards."""
        if len(self.parts) > 0:
            return b"".join(self.take_parts())
        size: i64 = len(self.writer)
        if size == 0:
            return b""
        taken = self.writer.getvalue()
        self.bytes_sent += size
        self.write_count += 1
        if size > WRITER_BYTES_KEPT:
            self.writer = BytesWriter()
        else:
            self.writer.truncate(0)
        return taken

    def take_parts(self) -> list[Buffer]:
        """Take the pending output, some of which is as it lies in memory."""
        parts = self.parts
        self.bytes_sent += self.pending_bytes()
        self.write_count += 1
        self.parts = []
        if len(self.writer) > 0:
            parts.append(self.writer.getvalue())
            self.writer.truncate(0)
        return parts

    def pending_bytes(self) -> int:
        """Of the pending output."""
        size: i64 = len(self.writer)
        for part in self.parts:
            size += len(part)
        return size

    def pause_reading(self) -> None:
        """The endpoint has stopped reading: silence is not the peer's fault."""
        self._paused = True

    def resume_reading(self, now_ms: i64) -> None:
        self._paused = False
        self._read_ms = now_ms

    # --- Time -------------------------------------------------------------------------------

    def tick(self, now_ms: i64) -> list[Event]:
        """Heartbeats and deadlines; to be called about once a second."""
        self._now_ms = now_ms
        events: list[Event] = []
        if self.state == CLOSED:
            return events
        if self.state != RUNNING and now_ms >= self._deadline_ms:
            if self.state == CLOSING:
                events.append(Ended())
            else:
                text = f"handshake timeout in state {self.state_name}"
                events.append(Failed(ProtocolError(ReplyCode.CONNECTION_FORCED, text)))
            self._close()
        elif self.state == RUNNING and self.heartbeat_s > 0:
            self._beat(now_ms, events)
        return events

    def _beat(self, now_ms: i64, events: list[Event]) -> None:
        interval_ms = self.heartbeat_s * 1000
        written: i64 = self.bytes_sent + self.pending_bytes()
        if written != self._written_bytes:
            self._written_bytes = written
            self._written_ms = now_ms
        elif (now_ms - self._written_ms) * 2 >= interval_ms:
            self.writer.write(HEARTBEAT_FRAME)
            self._written_bytes = written + 8
            self._written_ms = now_ms
        if not self._paused and now_ms - self._read_ms >= 2 * interval_ms:
            text = f"missed heartbeats from client, timeout: {self.heartbeat_s}s"
            events.append(Failed(ProtocolError(ReplyCode.CONNECTION_FORCED, text)))
            self._close()

    def _close_in(self, milliseconds: i64) -> None:
        self._deadline_ms = self._now_ms + milliseconds

    def _close(self) -> None:
        self.state = CLOSED
        self._forget_contents()
        self._tail = []
        self._tail_bytes = 0

    # --- Input ------------------------------------------------------------------------------

    def receive(self, data: bytes, now_ms: i64) -> list[Event]:
        """Take what one read brought; return what it means."""
        size: i64 = len(data)
        self._now_ms = now_ms
        self._read_ms = now_ms
        self.bytes_received += size
        self.has_more = False
        self.publish_held = False
        if self.state == CLOSED or self._deaf:
            return []
        if self._tail_bytes > 0:
            self._tail.append(data)
            self._tail_bytes += size
            if self._tail_bytes < self._need:
                self._squeeze_tail()
                return []
            data = b"".join(self._tail)
            self._tail = []
            self._tail_bytes = 0
        self._events = []
        while not self._scan_safely(data):
            data = data[self._next :]
        events = self._events
        self._events = []
        return events

    def _scan_safely(self, data: bytes) -> bool:
        """Scan, settle an error of the connection; False: what is behind `_next` is left."""
        try:
            self._scan(data)
        except ProtocolError as error:
            if self.state < CLOSING:
                self.fail(error)
                self._events.append(Failed(error))
            if not self._deaf:
                return False
            self._close_in(SILENCE_MS)
        return True

    def _squeeze_tail(self) -> None:
        """Many small reads would cost more by their number than by their bytes."""
        if len(self._tail) > TAIL_PARTS_MAX:
            self._tail = [b"".join(self._tail)]

    def _keep_tail(self, data: bytes, pos: i64, need: i64) -> None:
        """Look at data[pos:] again when there are `need` bytes of it."""
        rest = data[pos:]
        self._tail = [rest]
        self._tail_bytes = len(rest)
        self._need = need

    def _scan(self, data: bytes) -> None:
        size: i64 = len(data)
        pos: i64 = 0
        while pos < size:
            if self.state == CLOSED or self._deaf:
                return
            if self._held or len(self._events) >= EVENTS_MAX:
                self.has_more = not self._held
                self._keep_tail(data, pos, 0)
                return
            if size - pos < FRAME_HEAD:
                self._keep_tail(data, pos, FRAME_HEAD)
                return
            channel = i64(read_i16_be(data, pos + 1)) & 0xFFFF
            after = self._scan_run(data, pos, channel)
            if after > pos:
                pos = after
                continue
            if after < 0:
                return
            end = self._frame_end(data, pos, channel)
            if end > size:
                self._keep_tail(data, pos, end - pos)
                return
            if data[end - 1] != FRAME_END:
                self._lose_step(data, pos, end)
            self._next = end
            self._take_frame(data, pos, end, channel)
            pos = end

    def _scan_run(self, data: bytes, pos: i64, channel: i64) -> i64:
        """Take a run of publishes or settlements at `pos`; return where it ends.

        `pos`: there is none, this frame goes alone; -1: the rest of the read waits as tail.
        """
        size: i64 = len(data)
        if channel == 0 or data[pos] != FRAME_METHOD or size - pos < 12 or self.state >= CLOSING:
            return pos
        lane = self._lanes.get(channel)
        if lane is None or lane.status != LANE_OPEN or lane.expected != FRAME_METHOD:
            return pos
        method = read_i32_be(data, pos + 7)
        if method != PUBLISH:
            if method in SETTLE_METHODS:
                return scan_settles(data, pos, channel, self._events)
            return pos
        if self.holds_publishes:
            self.publish_held = True
            self._keep_tail(data, pos, 0)
            return -1
        scanner = self._scanner
        run = scanner.scan(data, pos, channel)
        if run is not None:
            self._events.append(run)
        end = scanner.end
        if scanner.stop != STOP_SHORT:
            return end
        if not scanner.cut and scanner.missing < RESCAN_BYTES_MAX:
            if end < size:
                self._keep_tail(data, end, scanner.need - end)
            return -1
        return end

    def _frame_end(self, data: bytes, pos: i64, channel: i64) -> i64:
        """Where the frame at `pos` will end; its kind and size are looked at before it is whole."""
        kind: i64 = data[pos]
        payload = i64(read_i32_be(data, pos + 3)) & 0xFFFFFFFF
        if kind not in (FRAME_METHOD, FRAME_HEADER, FRAME_BODY, FRAME_HEARTBEAT):
            self._deaf = True
            raise _frame_error(kind, b"", "unknown_frame")
        if payload > self.frame_max:  # RabbitMQ, too, lets the eight octets around it pass.
            self._deaf = True
            reason = f"{{frame_too_large,{payload},{self.frame_max - FRAME_OVERHEAD}}}"
            raise _frame_error(kind, b"", reason)
        return pos + FRAME_OVERHEAD + payload

    def _lose_step(self, data: bytes, pos: i64, end: i64) -> None:
        self._deaf = True
        reason = f"{{invalid_frame_end_marker,{data[end - 1]}}}"
        raise _frame_error(data[pos], data[pos + 7 : end - 1], reason)

    def _take_frame(self, data: bytes, pos: i64, end: i64, channel: i64) -> None:
        """One whole frame. Errors of the channel are settled here, others raised."""
        kind: i64 = data[pos]
        if self.state == CLOSING:
            self._take_while_closing(data, pos, end, channel)
        elif kind == FRAME_HEARTBEAT:
            if channel != 0:
                raise _unexpected_frame(kind, data[pos + 7 : end - 1])
        elif channel == 0:
            if kind != FRAME_METHOD:
                code = ReplyCode.COMMAND_INVALID
                raise ProtocolError(code, _frame_text(kind, data[pos + 7 : end - 1]))
            self._take_connection_method(decode_method(data[pos + 7 : end - 1]))
        elif not self._opened:
            raise _unexpected_frame(kind, data[pos + 7 : end - 1])
        else:
            try:
                self._take_channel_frame(data[pos:end], kind, channel)
            except ProtocolError as error:
                if error.scope != Scope.CHANNEL:
                    raise
                self.close_channel(channel, error)
                self._events.append(ChannelFailed(channel, error))

    def _take_while_closing(self, data: bytes, pos: i64, end: i64, channel: i64) -> None:
        if channel != 0 or data[pos] != FRAME_METHOD or end - pos < 12:
            return
        method = read_i32_be(data, pos + 7)
        if method == CLOSE_FRAME:
            write_method(self.writer, 0, ConnectionCloseOk().encode())
        if method in (CLOSE_FRAME, CLOSE_OK_FRAME):
            self._close()
            self._events.append(Ended())

    # --- Channel 0 --------------------------------------------------------------------------

    def _take_connection_method(self, method: Method) -> None:
        if isinstance(method, ConnectionClose):
            write_method(self.writer, 0, ConnectionCloseOk().encode())
            self._close()
            self._events.append(Ended())
        elif self.state == STARTING and isinstance(method, ConnectionStartOk):
            self._take_start_ok(method)
        elif self.state == TUNING and isinstance(method, ConnectionTuneOk):
            self._take_tune_ok(method)
        elif self.state == OPENING and not self._opened and isinstance(method, ConnectionOpen):
            self._opened = True
            self._held = True
            self._events.append(OpenRequested(method.virtual_host))
        elif self.state == RUNNING and isinstance(method, ConnectionUpdateSecret):
            self._events.append(Called(0, method))
        else:
            text = f"unexpected method in connection state {self.state_name}"
            raise _of_method(method, ReplyCode.CHANNEL_ERROR, text)

    def _take_start_ok(self, method: ConnectionStartOk) -> None:
        if method.mechanism not in self.mechanisms.split(" "):
            text = f"unknown authentication mechanism '{method.mechanism}'"
            raise _of_method(method, ReplyCode.COMMAND_INVALID, text)
        self.mechanism = method.mechanism
        self.client_properties = method.client_properties
        capabilities = method.client_properties.get("capabilities")
        if isinstance(capabilities, dict):
            self.consumer_cancel_notify = capabilities.get("consumer_cancel_notify") is True
            self.connection_blocked = capabilities.get("connection.blocked") is True
            self.authentication_failure_close = (
                capabilities.get("authentication_failure_close") is True
            )
            self.basic_nack = capabilities.get("basic.nack") is True
            self.publisher_confirms = capabilities.get("publisher_confirms") is True
        self.state = SECURING
        self._held = True
        self._events.append(
            LoginRequested(method.mechanism, method.response, method.client_properties)
        )

    def _take_tune_ok(self, method: ConnectionTuneOk) -> None:
        limits = self.limits
        self.frame_max = _negotiated(
            method, "frame_max", FRAME_MAX_MIN, method.frame_max, limits.frame_max
        )
        self.channel_max = _negotiated(
            method, "channel_max", 1, method.channel_max, limits.channel_max
        )
        self.heartbeat_s = method.heartbeat  # The client decides, 0 for none, as in RabbitMQ.
        self._scanner.payload_max = self.frame_max
        self.state = OPENING

    # --- Other channels ---------------------------------------------------------------------

    def _take_channel_frame(self, frame: bytes, kind: i64, channel: i64) -> None:
        lane = self._lanes.get(channel)
        if lane is None:
            self._take_first(frame, kind, channel)
        elif lane.status == LANE_CLOSING:
            self._take_on_closing_channel(frame, kind, lane)
        elif kind != lane.expected:
            raise lane.unexpected()
        elif kind == FRAME_METHOD:
            self._take_method(frame, lane)
        else:
            self._take_content(frame, kind, lane)

    def _take_first(self, frame: bytes, kind: i64, channel: i64) -> None:
        """A frame on a channel that is not open: it must open it."""
        if kind != FRAME_METHOD:
            text = "expected method frame, got non method frame instead"
            raise ProtocolError(ReplyCode.UNEXPECTED_FRAME, text)
        method = decode_method(frame[7 : len(frame) - 1])
        if len(self._lanes) >= self.channel_max:
            text = (
                f"number of channels opened ({len(self._lanes)}) has reached "
                f"the negotiated channel_max ({self.channel_max})"
            )
            raise ProtocolError(ReplyCode.NOT_ALLOWED, text)
        if not isinstance(method, ChannelOpen):
            raise _of_method(method, ReplyCode.CHANNEL_ERROR, "expected 'channel.open'")
        self._lanes[channel] = Lane(channel)
        self._events.append(Called(channel, method))

    def _take_on_closing_channel(self, frame: bytes, kind: i64, lane: Lane) -> None:
        """Our channel.close is under way; the peer's may have crossed it."""
        if kind != FRAME_METHOD:
            return
        identity = read_i32_be(frame, 7) if len(frame) >= 12 else 0
        if identity == ChannelCloseOk.identity:
            del self._lanes[lane.channel]
        elif identity == ChannelClose.identity:
            write_method(self.writer, lane.channel, ChannelCloseOk().encode())

    def _take_method(self, frame: bytes, lane: Lane) -> None:
        is_publish = len(frame) >= 12 and read_i32_be(frame, 7) == PUBLISH
        if is_publish and lane.status == LANE_OPEN:
            lane.begin(frame)
            self._count_held(lane.held_bytes)
            return
        method = decode_method(frame[7 : len(frame) - 1])
        channel = lane.channel
        if isinstance(method, ChannelOpen):
            raise _of_method(method, ReplyCode.CHANNEL_ERROR, "second 'channel.open' seen")
        if lane.status == LANE_PEER_CLOSING:
            raise _of_method(method, ReplyCode.CHANNEL_ERROR, "expected 'channel.open'")
        if method.identity not in TO_SERVER or method.identity >> 16 == 10:
            raise _of_method(method, ReplyCode.COMMAND_INVALID, "unimplemented method")
        if isinstance(method, BasicAck):
            self._settle(channel, method, method.delivery_tag, 1 if method.multiple else 0)
        elif isinstance(method, BasicReject):
            self._settle(channel, method, method.delivery_tag, 1 if method.requeue else 0)
        elif isinstance(method, BasicNack):
            bits = (1 if method.multiple else 0) | (2 if method.requeue else 0)
            self._settle(channel, method, method.delivery_tag, bits)
        elif isinstance(method, ChannelFlow):
            self._take_flow(channel, method)
        elif isinstance(method, (ChannelFlowOk, ChannelCloseOk, BasicCancelOk)):
            return  # Answers to what the server did; they change nothing.
        else:
            if isinstance(method, ChannelClose):
                lane.status = LANE_PEER_CLOSING
            self._events.append(Called(channel, method))

    def _settle(self, channel: i64, method: Method, tag: int, bits: i64) -> None:
        if tag > TAG_MAX:
            code = ReplyCode.PRECONDITION_FAILED
            raise _of_method(method, code, f"unknown delivery tag {tag}")
        kind: i64 = method.identity & 0xFFFF
        self._events.append(settles(channel, kind, tag, tag, bits))

    def _take_flow(self, channel: i64, method: ChannelFlow) -> None:
        if not method.active:
            raise _of_method(method, ReplyCode.NOT_IMPLEMENTED, "active=false")
        self.send(channel, ChannelFlowOk(True))

    def _take_content(self, frame: bytes, kind: i64, lane: Lane) -> None:
        before = lane.held_bytes
        run: Publishes | None
        if kind == FRAME_HEADER:
            run = lane.add_header(frame, self.limits.message_bytes_max)
        else:
            run = lane.add_body(frame)
        self._count_held(lane.held_bytes - before)
        if run is not None:
            self._events.append(run)

    def _count_held(self, more: i64) -> None:
        self._held_bytes += more
        if self._held_bytes > self.limits.held_bytes_max:
            text = f"unfinished messages hold more than {self.limits.held_bytes_max} bytes"
            raise ProtocolError(ReplyCode.RESOURCE_ERROR, text)

    def _drop_content(self, lane: Lane) -> None:
        self._held_bytes -= lane.held_bytes
        lane.drop_content()

    def _forget_contents(self) -> None:
        for lane in self._lanes.values():
            self._drop_content(lane)


def _negotiated(method: Method, field: str, allowed_min: int, asked: int, allowed_max: int) -> int:
    """A value of tune-ok; 0 leaves the choice to the server."""
    if asked == 0:
        return allowed_max
    if asked < allowed_min:
        text = f"negotiated {field} = {asked} is lower than the minimum allowed value"
        raise _of_method(method, ReplyCode.NOT_ALLOWED, f"{text} ({allowed_min})")
    if asked > allowed_max:
        text = f"negotiated {field} = {asked} is higher than the maximum allowed value"
        raise _of_method(method, ReplyCode.NOT_ALLOWED, f"{text} ({allowed_max})")
    return asked


def _of_method(method: Method, code: ReplyCode, text: str) -> ProtocolError:
    identity = method.identity
    return ProtocolError(code, text, None, identity >> 16, identity & 0xFFFF)


def _frame_text(kind: i64, payload: bytes) -> str:
    part = "all" if len(payload) <= 16 else "first 16"
    return f"type {kind}, {part} octets = {binary_term(payload[:16])}"


def _frame_error(kind: i64, payload: bytes, reason: str) -> ProtocolError:
    return ProtocolError(ReplyCode.FRAME_ERROR, f"{_frame_text(kind, payload)}: {reason}")


def _unexpected_frame(kind: i64, payload: bytes) -> ProtocolError:
    return ProtocolError(ReplyCode.UNEXPECTED_FRAME, _frame_text(kind, payload))

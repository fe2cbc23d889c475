"""Client side of one AMQP 0-9-1 connection, without I/O. Compiled.

Bytes go in by `receive`, time by `tick`; events (`client_events`) come out of both, in the order of
arrival, and bytes to send gather in `writer`, the protocol header first. After `StartRequested` the
host calls `login`; after `Opened` it may open channels. Replies come as `Called`, in the order in
which the requests of that channel were sent; the host knows what it asked.

A broker that breaks the protocol ends the connection: `Failed`, with connection.close in the
output, then `Ended`. What it may send at all is bounded by `ClientLimits`.
"""

from typing import Final, final

from mypy_extensions import i64, u8

from warren.wire.amqp091.client_events import (
    Arrived,
    ChannelClosed,
    ClientEvent,
    Closed,
    Opened,
    StartRequested,
)
from warren.wire.amqp091.contents import Assembly, ContentScanner, has_content
from warren.wire.amqp091.deliver import write_ack, write_content, write_method, write_nack
from warren.wire.amqp091.events import ACK as ACK_METHOD
from warren.wire.amqp091.events import NACK as NACK_METHOD
from warren.wire.amqp091.events import Called, Ended, Event, Failed, Settles
from warren.wire.amqp091.header import HEADER_091
from warren.wire.amqp091.methods import (
    TO_SERVER,
    BasicReject,
    ChannelClose,
    ChannelCloseOk,
    ChannelFlow,
    ChannelFlowOk,
    ChannelOpen,
    ConnectionBlocked,
    ConnectionClose,
    ConnectionCloseOk,
    ConnectionOpen,
    ConnectionOpenOk,
    ConnectionStart,
    ConnectionStartOk,
    ConnectionTune,
    ConnectionTuneOk,
    ConnectionUnblocked,
    Method,
    decode_method,
)
from warren.wire.amqp091.scanner import FRAME_END, FRAME_OVERHEAD, scan_settles
from warren.wire.buffer import BytesWriter, read_i16_be, read_i32_be
from warren.wire.errors import ProtocolError, ReplyCode, Scope
from warren.wire.inplace import copy_words

FRAME_HEAD: Final = 7  # kind, channel and size
FRAME_METHOD: Final = 1
FRAME_HEADER: Final = 2
FRAME_BODY: Final = 3
FRAME_HEARTBEAT: Final = 8
FRAME_MAX_MIN: Final = 4096  # AMQP 0-9-1: frame-min-size
HANDSHAKE_MS_MAX: Final = 30_000
CLOSING_MS_MAX: Final = 10_000  # for the broker's close-ok
RESCAN_BYTES_MAX: Final = 65_536  # with less missing a content waits, to be scanned again whole
TAIL_PARTS_MAX: Final = 1024  # reads kept apart while a frame is not whole
WRITER_BYTES_KEPT: Final = 65_536  # a writer that grew larger is not used again
HEARTBEAT_FRAME: Final = b"\x08\x00\x00\x00\x00\x00\x00\xce"

ACK: Final = 0x003C0050
NACK: Final = 0x003C0078
SHARED_METHODS: Final = frozenset({0x003C001E, 0x003C001F, ACK, NACK})  # cancel, cancel-ok, ...

STARTING: Final = 0
LOGGING_IN: Final = 1  # start came, start-ok is up to the host or sent
OPENING: Final = 2
RUNNING: Final = 3
CLOSING: Final = 4  # connection.close sent
CLOSED: Final = 5
STATE_NAMES: Final = ("starting", "logging in", "opening", "running", "closing", "closed")

CHANNEL_OPEN: Final = 0
CHANNEL_CLOSING: Final = 1  # channel.close sent: input is dropped up to close-ok


class ClientLimits:
    """What this client proposes to a broker, and how much it takes of it."""

    def __init__(
        self,
        frame_max: int = 131_072,
        channel_max: int = 2_047,
        heartbeat_s: int = 60,
        message_bytes_max: int = 512 * 1024 * 1024,
        held_bytes_max: int = 1024 * 1024 * 1024,
    ) -> None:
        assert frame_max >= FRAME_MAX_MIN
        assert 0 < channel_max <= 65_535
        self.frame_max = frame_max  # bytes of a frame, all of them
        self.channel_max = channel_max  # highest channel number
        self.heartbeat_s = heartbeat_s  # 0: none
        self.message_bytes_max = message_bytes_max  # of a body
        self.held_bytes_max = held_bytes_max  # in unfinished contents of all channels together


@final
class ClientChannel:
    """One channel as the core knows it."""

    def __init__(self) -> None:
        self.status: i64 = CHANNEL_OPEN
        self.assembly = Assembly()


@final
class ClientConnection:
    """Invariant: in state `closed` nothing is read or written any more."""

    def __init__(self, limits: ClientLimits, now_ms: i64) -> None:
        self.limits = limits
        self.writer = BytesWriter()
        self.writer.write(HEADER_091)
        self.state: i64 = STARTING
        self.frame_max: i64 = limits.frame_max
        self.channel_max: i64 = limits.channel_max
        self.heartbeat_s: i64 = 0
        self._vhost = ""
        self._now_ms: i64 = now_ms
        self._deadline_ms: i64 = now_ms + HANDSHAKE_MS_MAX  # of the handshake, or of closing
        self._read_ms: i64 = now_ms
        self._written_ms: i64 = now_ms
        self._sent_bytes: i64 = 0
        self._written_bytes: i64 = 0  # when `_written_ms` was set
        self._paused = False
        self._deaf = False  # the input is out of step: nothing in it can be believed
        self._channels: dict[int, ClientChannel] = {}
        self._last_channel: i64 = 0
        self._held_bytes: i64 = 0
        self._tail: list[bytes] = []
        self._tail_bytes: i64 = 0
        self._need: i64 = 0  # bytes of tail and read together before it is worth looking
        self._scanner = ContentScanner(limits.frame_max, limits.message_bytes_max)
        self._events: list[ClientEvent] = []

    @property
    def state_name(self) -> str:
        return STATE_NAMES[self.state]

    @property
    def channel_count(self) -> int:
        return len(self._channels)

    # --- What the host asks for ---------------------------------------------------------------

    def login(
        self, mechanism: str, response: bytes, vhost: str, client_properties: dict[str, object]
    ) -> None:
        """Answer to StartRequested; the vhost is opened as soon as the broker lets us in."""
        if self.state != LOGGING_IN:
            return
        self._vhost = vhost
        answer = ConnectionStartOk(client_properties, mechanism, response, "en_US")
        write_method(self.writer, 0, answer.encode())

    def open_channel(self) -> int:
        """Send channel.open on a free channel; its number. ProtocolError: none is free."""
        if self.state != RUNNING:
            text = f"the connection is {self.state_name}"
            raise ProtocolError(ReplyCode.CHANNEL_ERROR, text, Scope.CHANNEL)
        if len(self._channels) >= self.channel_max:
            text = f"all {self.channel_max} channels of the connection are in use"
            raise ProtocolError(ReplyCode.NOT_ALLOWED, text, Scope.CHANNEL)
        channel = self._last_channel
        while True:
            channel = channel + 1 if channel < self.channel_max else 1
            if channel not in self._channels:
                break
        self._last_channel = channel
        self._channels[channel] = ClientChannel()
        write_method(self.writer, channel, ChannelOpen().encode())
        return channel

    def close_channel(self, channel: int) -> None:
        """Send channel.close; the answer comes as `Called`, and nothing before it."""
        known = self._channels.get(channel)
        if known is None or known.status == CHANNEL_CLOSING or self.state != RUNNING:
            return
        known.status = CHANNEL_CLOSING
        self._held_bytes -= known.assembly.held_bytes
        known.assembly.drop()
        write_method(self.writer, channel, ChannelClose(200, "Goodbye").encode())

    def send(self, channel: int, method: Method) -> None:
        """Send a method without content. On a channel that is not open it is dropped."""
        if self.state == RUNNING and (channel == 0 or self.is_open(channel)):
            write_method(self.writer, channel, method.encode())

    def publish(self, channel: int, messages: list[bytes]) -> None:
        """Send messages in stored form 1 (`deliver.build`), on an open channel."""
        if self.state != RUNNING or not self.is_open(channel):
            return
        writer = self.writer
        number: i64 = channel
        for data in messages:
            at: i64 = len(writer)
            method_bytes = FRAME_OVERHEAD + i64(read_i32_be(data, 3))
            copy_words(writer, data, 0, method_bytes)
            writer[at + 1] = u8(number >> 8)
            writer[at + 2] = u8(number & 255)
            write_content(writer, number, data, 0, len(data), self.frame_max)

    def settle(self, channel: int, kind: int, tag: int, multiple: bool, requeue: bool) -> None:
        """Send basic.ack, nack or reject (`events.ACK`, ...), on an open channel."""
        if self.state != RUNNING or not self.is_open(channel):
            return
        if kind == ACK_METHOD:
            write_ack(self.writer, channel, tag, multiple)
        elif kind == NACK_METHOD:
            write_nack(self.writer, channel, tag, multiple, requeue)
        else:
            write_method(self.writer, channel, BasicReject(tag, requeue).encode())

    def pause_reading(self) -> None:
        """The host has stopped reading: silence is not the broker's fault."""
        self._paused = True

    def resume_reading(self, now_ms: i64) -> None:
        self._paused = False
        self._read_ms = now_ms

    def is_open(self, channel: int) -> bool:
        known = self._channels.get(channel)
        return known is not None and known.status == CHANNEL_OPEN

    def close(self, code: int = 200, text: str = "Goodbye") -> None:
        """Send connection.close; `Ended` comes with the answer, or when it takes too long."""
        if self.state >= CLOSING:
            return
        if self.state < OPENING:  # The broker would not understand it yet.
            self._close()
            return
        write_method(self.writer, 0, ConnectionClose(code, text, 0, 0).encode())
        self.state = CLOSING
        self._deadline_ms = self._now_ms + CLOSING_MS_MAX

    def data_to_send(self) -> bytes:
        """Take the pending output. `writer` may be another object afterwards."""
        size: i64 = len(self.writer)
        if size == 0:
            return b""
        taken = self.writer.getvalue()
        self._sent_bytes += size
        if size > WRITER_BYTES_KEPT:
            self.writer = BytesWriter()
        else:
            self.writer.truncate(0)
        return taken

    # --- Time ---------------------------------------------------------------------------------

    def tick(self, now_ms: i64) -> list[ClientEvent]:
        """Heartbeats and deadlines; to be called about once a second."""
        self._now_ms = now_ms
        events: list[ClientEvent] = []
        if self.state == CLOSED:
            return events
        if self.state != RUNNING and now_ms >= self._deadline_ms:
            if self.state != CLOSING:
                text = f"the broker did not answer in time while {self.state_name}"
                events.append(Failed(ProtocolError(ReplyCode.CONNECTION_FORCED, text)))
            self._close()
            events.append(Ended())
        elif self.state == RUNNING and self.heartbeat_s > 0:
            self._beat(now_ms, events)
        return events

    def _beat(self, now_ms: i64, events: list[ClientEvent]) -> None:
        interval_ms = self.heartbeat_s * 1000
        written: i64 = self._sent_bytes + len(self.writer)
        if written != self._written_bytes:
            self._written_bytes = written
            self._written_ms = now_ms
        elif (now_ms - self._written_ms) * 2 >= interval_ms:
            self.writer.write(HEARTBEAT_FRAME)
            self._written_bytes = written + 8
            self._written_ms = now_ms
        if not self._paused and now_ms - self._read_ms >= 2 * interval_ms:
            text = f"missed heartbeats from the broker, timeout: {self.heartbeat_s}s"
            events.append(Failed(ProtocolError(ReplyCode.CONNECTION_FORCED, text)))
            self._close()
            events.append(Ended())

    def _close(self) -> None:
        self.state = CLOSED
        self._channels = {}
        self._held_bytes = 0
        self._tail = []
        self._tail_bytes = 0

    # --- Input --------------------------------------------------------------------------------

    def receive(self, data: bytes, now_ms: i64) -> list[ClientEvent]:
        """Take what one read brought; return what it means."""
        size: i64 = len(data)
        self._now_ms = now_ms
        self._read_ms = now_ms
        if self.state == CLOSED or self._deaf:
            return []
        if self._tail_bytes > 0:
            self._tail.append(data)
            self._tail_bytes += size
            if self._tail_bytes < self._need:
                if len(self._tail) > TAIL_PARTS_MAX:
                    self._tail = [b"".join(self._tail)]
                return []
            data = b"".join(self._tail)
            self._tail = []
            self._tail_bytes = 0
        self._events = []
        try:
            self._scan(data)
        except ProtocolError as error:
            self._fail(error)
        events = self._events
        self._events = []
        return events

    def _fail(self, error: ProtocolError) -> None:
        """The broker is wrong: say so if it can hear it, and take no more input."""
        self._events.append(Failed(error))
        self._deaf = True
        if OPENING <= self.state < CLOSING:
            close = ConnectionClose(error.code, error.reply_text, error.class_id, error.method_id)
            write_method(self.writer, 0, close.encode())
        self._close()
        self._events.append(Ended())

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
            if self.state == CLOSED:
                return
            if size - pos < FRAME_HEAD:
                self._keep_tail(data, pos, FRAME_HEAD)
                return
            channel = i64(read_i16_be(data, pos + 1)) & 0xFFFF
            after = self._scan_run(data, pos, channel)
            if after < 0:
                return
            if after > pos:
                pos = after
                continue
            end = self._frame_end(data, pos)
            if end > size:
                self._keep_tail(data, pos, end - pos)
                return
            if data[end - 1] != FRAME_END:
                text = f"a frame ends in octet {data[end - 1]}"
                raise ProtocolError(ReplyCode.FRAME_ERROR, text)
            self._take_frame(data, pos, end, channel)
            pos = end

    def _scan_run(self, data: bytes, pos: i64, channel: i64) -> i64:
        """Take a run of contents or confirms at `pos`; return where it ends.

        `pos`: there is none, this frame goes alone; -1: the rest of the read waits as tail.
        """
        size: i64 = len(data)
        if channel == 0 or data[pos] != FRAME_METHOD or size - pos < 12 or self.state != RUNNING:
            return pos
        known = self._channels.get(channel)
        if known is None or known.status != CHANNEL_OPEN:
            return pos
        if known.assembly.expected != FRAME_METHOD:
            return pos
        method = i64(read_i32_be(data, pos + 7))
        if method in (ACK, NACK):
            return self._take_settles(data, pos, channel)
        if not has_content(method):
            return pos
        scanner = self._scanner
        offsets = scanner.scan(data, pos, channel)
        if len(offsets) > 0:
            self._events.append(Arrived(channel, data, offsets))
        end = scanner.end
        if scanner.short and scanner.missing < RESCAN_BYTES_MAX:
            if end < size:
                self._keep_tail(data, end, scanner.need - end)
            return -1
        return end

    def _take_settles(self, data: bytes, pos: i64, channel: i64) -> i64:
        found: list[Event] = []
        end = scan_settles(data, pos, channel, found)
        for each in found:
            assert isinstance(each, Settles)
            self._events.append(each)
        return end

    def _frame_end(self, data: bytes, pos: i64) -> i64:
        """Where the frame at `pos` will end; its kind and size are looked at before it is whole."""
        kind: i64 = data[pos]
        payload = i64(read_i32_be(data, pos + 3)) & 0xFFFFFFFF
        if kind not in (FRAME_METHOD, FRAME_HEADER, FRAME_BODY, FRAME_HEARTBEAT):
            if self.state == STARTING and data[pos : pos + 4] == b"AMQP":
                text = "the broker does not speak AMQP 0-9-1 here"
                raise ProtocolError(ReplyCode.NOT_IMPLEMENTED, text)
            raise ProtocolError(ReplyCode.FRAME_ERROR, f"a frame of kind {kind}")
        if payload > self.frame_max:
            text = f"a frame of {payload} bytes where {self.frame_max} are allowed"
            raise ProtocolError(ReplyCode.FRAME_ERROR, text)
        return pos + FRAME_OVERHEAD + payload

    def _take_frame(self, data: bytes, pos: i64, end: i64, channel: i64) -> None:
        """One whole frame."""
        kind: i64 = data[pos]
        if kind == FRAME_HEARTBEAT:
            return
        if channel == 0:
            if kind != FRAME_METHOD:
                raise ProtocolError(ReplyCode.UNEXPECTED_FRAME, "a content on channel 0")
            self._take_connection_method(decode_method(data[pos + 7 : end - 1]))
            return
        if self.state == CLOSING:
            return
        known = self._channels.get(channel)
        if known is None or self.state != RUNNING:
            raise ProtocolError(
                ReplyCode.CHANNEL_ERROR, f"channel {channel} is not open", Scope.CONNECTION
            )
        if known.status == CHANNEL_CLOSING:
            self._take_while_closing(data, pos, end, channel)
        elif kind == FRAME_METHOD and known.assembly.expected == FRAME_METHOD:
            self._take_method(data[pos:end], channel, known)
        else:
            self._take_content(data[pos:end], kind, channel, known)

    def _take_while_closing(self, data: bytes, pos: i64, end: i64, channel: i64) -> None:
        """Our channel.close is under way; the broker's may have crossed it."""
        if data[pos] != FRAME_METHOD or end - pos < 12:
            return
        method = i64(read_i32_be(data, pos + 7))
        if method == ChannelClose.identity:
            write_method(self.writer, channel, ChannelCloseOk().encode())
        elif method == ChannelCloseOk.identity:
            del self._channels[channel]
            self._events.append(Called(channel, ChannelCloseOk()))

    def _take_method(self, frame: bytes, channel: i64, known: ClientChannel) -> None:
        if len(frame) >= 12 and has_content(i64(read_i32_be(frame, 7))):
            known.assembly.begin(frame)
            self._count_held(known.assembly.held_bytes)
            return
        method = decode_method(frame[7 : len(frame) - 1])
        if isinstance(method, ChannelClose):
            del self._channels[channel]
            write_method(self.writer, channel, ChannelCloseOk().encode())
            self._events.append(
                ChannelClosed(
                    channel,
                    method.reply_code,
                    method.reply_text,
                    method.class_id,
                    method.method_id,
                )
            )
        elif isinstance(method, ChannelFlow):
            self.send(channel, ChannelFlowOk(method.active))
            self._events.append(Called(channel, method))
        elif method.identity in TO_SERVER and method.identity not in SHARED_METHODS:
            raise _unexpected(method, f"{method.name} from a broker")
        else:
            self._events.append(Called(channel, method))

    def _take_content(self, frame: bytes, kind: i64, channel: i64, known: ClientChannel) -> None:
        assembly = known.assembly
        before = assembly.held_bytes
        if assembly.expected == FRAME_METHOD:
            text = f"a frame of kind {kind} without a method before it"
            raise ProtocolError(ReplyCode.UNEXPECTED_FRAME, text)
        whole = assembly.add(frame, kind, self.limits.message_bytes_max)
        self._count_held(assembly.held_bytes - before)
        if len(whole) > 0:
            offsets = b"\x00\x00\x00\x00" + len(whole).to_bytes(4, "little")
            self._events.append(Arrived(channel, whole, offsets))

    def _count_held(self, more: i64) -> None:
        self._held_bytes += more
        if self._held_bytes > self.limits.held_bytes_max:
            text = f"unfinished messages hold more than {self.limits.held_bytes_max} bytes"
            raise ProtocolError(ReplyCode.RESOURCE_ERROR, text)

    # --- Channel 0 ----------------------------------------------------------------------------

    def _take_connection_method(self, method: Method) -> None:
        if isinstance(method, ConnectionClose):
            write_method(self.writer, 0, ConnectionCloseOk().encode())
            self._close()
            self._events.append(Closed(method.reply_code, method.reply_text))
            self._events.append(Ended())
        elif isinstance(method, ConnectionCloseOk) and self.state == CLOSING:
            self._close()
            self._events.append(Ended())
        elif self.state == CLOSING:
            return
        elif isinstance(method, ConnectionStart) and self.state == STARTING:
            self.state = LOGGING_IN
            mechanisms = method.mechanisms.decode("utf-8", "replace").split()
            self._events.append(StartRequested(mechanisms, method.server_properties))
        elif isinstance(method, ConnectionTune) and self.state == LOGGING_IN:
            self._take_tune(method)
        elif isinstance(method, ConnectionOpenOk) and self.state == OPENING:
            self.state = RUNNING
            self._events.append(Opened())
        elif isinstance(method, (ConnectionBlocked, ConnectionUnblocked)):
            self._events.append(Called(0, method))
        else:
            raise _unexpected(method, f"{method.name} while {self.state_name}")

    def _take_tune(self, method: ConnectionTune) -> None:
        """Both sides' smaller limits hold; 0 is none."""
        limits = self.limits
        frame_max = method.frame_max
        if 0 < frame_max < FRAME_MAX_MIN:
            raise _unexpected(method, f"frame_max {frame_max} is below {FRAME_MAX_MIN}")
        self.frame_max = _smaller(limits.frame_max, frame_max)
        self.channel_max = _smaller(limits.channel_max, method.channel_max)
        if limits.heartbeat_s > 0:
            self.heartbeat_s = _smaller(limits.heartbeat_s, method.heartbeat)
        self._scanner.payload_max = self.frame_max
        answer = ConnectionTuneOk(self.channel_max, self.frame_max, self.heartbeat_s)
        write_method(self.writer, 0, answer.encode())
        write_method(self.writer, 0, ConnectionOpen(self._vhost).encode())
        self.state = OPENING


def _smaller(ours: int, theirs: int) -> int:
    return ours if theirs == 0 else min(ours, theirs)


def _unexpected(method: Method, text: str) -> ProtocolError:
    identity = method.identity
    code = ReplyCode.COMMAND_INVALID
    return ProtocolError(code, text, Scope.CONNECTION, identity >> 16, identity & 0xFFFF)

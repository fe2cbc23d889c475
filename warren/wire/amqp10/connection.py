"""One AMQP 1.0 connection, without I/O: the broker's side, and, roles turned, a client's. Compiled.

Bytes go in by `receive`, from the first protocol header on, and time by `tick`; events come out of
both in the order of arrival. `data_to_send` takes the output, after writing what the turn has
gathered in the sessions. The host answers the events that ask (login, open, attach) by methods.

What the host must know about the events of one `receive`: they may contain events of a link or
session behind the one by which that has ended; after `Failed` or `Closed` only `Ended` counts.

A login and an open take their time: until the host has accepted them, what came behind waits here;
then it calls `receive` with no bytes. The same if `has_more`: one `receive` gives no more than
EVENTS_MAX events or so, that a flood of small frames does not hold up the loop.

Errors of a link or session are settled below (`session`) and told; errors of the connection end it:
close is written, `Failed` told, and nothing counts any more but the peer's close.
"""

from typing import Final, final

from mypy_extensions import i64

from warren.wire.amqp10.arrivals import Held
from warren.wire.amqp10.codec.descriptors import DISPOSITION, TRANSFER
from warren.wire.amqp10.codec.frames import AMQP, FRAME_HEAD, SASL, FrameScanner
from warren.wire.amqp10.codec.performatives import (
    Begin,
    Close,
    End,
    Open,
    Performative,
    read_performative,
    read_sasl_frame,
)
from warren.wire.amqp10.codec.reader import Reader
from warren.wire.amqp10.dispositions import DispositionScanner
from warren.wire.amqp10.errors import Condition, ProtocolError, Scope
from warren.wire.amqp10.events import (
    Closed,
    Ended,
    Event,
    Failed,
    Opened,
    OpenRequested,
    SessionBegun,
    SessionEnded,
    SessionFailed,
)
from warren.wire.amqp10.gather import TransferGatherer
from warren.wire.amqp10.handshake import (
    DECIDING,
    DONE,
    HEADER_BYTES,
    REFUSED,
    SASL_AUTH,
    WANT_FRAME,
    Handshake,
)
from warren.wire.amqp10.limits import FRAME_SIZE_MIN, IDLE_MS_MIN, Limits
from warren.wire.amqp10.output import Buffer, Output, error_of
from warren.wire.amqp10.session import BEGINNING, ENDED, ENDING, MAPPED, Session
from warren.wire.amqp10.transfers import STOP_SHORT, TransferScanner
from warren.wire.buffer import read_i16_be

EVENTS_MAX: Final = 512  # of one `receive`: many small frames are taken in slices
CLOSING_MS_MAX: Final = 10_000  # for the peer's close
SILENCE_MS: Final = 3_000  # before the socket of a garbled peer is closed
RUN_HEAD: Final = 16  # no transfer frame is shorter
TAIL_PARTS_MAX: Final = 1024  # reads kept apart while a frame is not whole
HEARTBEAT_FRAME: Final = b"\x00\x00\x00\x08\x02\x00\x00\x00"

STARTING: Final = 0  # headers and SASL
OPENING: Final = 1  # the peer's open is to come
DECIDING_OPEN: Final = 2  # it has come, and the host decides
RUNNING: Final = 3
CLOSING: Final = 4  # our close is sent
CLOSED: Final = 5
STATE_NAMES: Final = ("starting", "opening", "opening", "running", "closing", "closed")


@final
class Connection:
    """Invariant: in state `closed` nothing is read or written any more."""

    def __init__(
        self,
        limits: Limits,
        now_ms: i64,
        mechanisms: list[str] | None = None,
        client_open: Open | None = None,
    ) -> None:
        """A server offers `mechanisms`; a client has the open that it will send."""
        assert (mechanisms is None) != (client_open is None)
        self.limits = limits
        self.output = Output()
        self.state: i64 = STARTING
        self.peer_open: Open | None = None
        self.channel_max: i64 = limits.channel_max
        self.bytes_received: i64 = 0
        self.bytes_sent: i64 = 0
        self.write_count: i64 = 0  # outputs that were taken
        self.has_more = False  # the last `receive` stopped at EVENTS_MAX
        self.sessions: dict[int, Session] = {}  # by our channel
        self.held = Held(limits.held_bytes_max)
        self.in_alarm = False
        self._by_channel: dict[int, Session] = {}  # by the peer's channel
        self._open = client_open
        offered: list[str] = [] if mechanisms is None else mechanisms
        self._handshake = Handshake(client_open is None, offered, self.output)
        self._frames = FrameScanner(limits.initial_frame_size)
        self._runs = TransferScanner(limits.max_frame_size)
        self._turns = TransferGatherer(limits.max_frame_size)
        self._settles = DispositionScanner(limits.max_frame_size)
        self._now_ms: i64 = now_ms
        self._deadline_ms: i64 = now_ms + limits.handshake_ms  # of the handshake, or of closing
        self._read_ms: i64 = now_ms
        self._written_ms: i64 = now_ms
        self._written_bytes: i64 = 0  # when `_written_ms` was set
        self._beat_ms: i64 = 0  # we write that often at least; 0: no need
        self._paused = False
        self._deaf = False  # the input is out of step: nothing in it can be believed
        self._tail: list[bytes] = []
        self._tail_bytes: i64 = 0
        self._need: i64 = 0  # bytes of tail and read together before it is worth looking
        self._next: i64 = 0  # behind the frame that is being taken
        self._alone_to: i64 = 0  # transfers of this read up to there do not go together
        self._events: list[Event] = []
        self._handshake.start()

    @property
    def state_name(self) -> str:
        return STATE_NAMES[self.state]

    @property
    def is_running(self) -> bool:
        """Whether sessions may begin: it is open, and neither end has closed it."""
        return self.state == RUNNING

    # --- What the host asks for -------------------------------------------------------------

    def login(
        self, mechanism: str, response: bytes | None = None, hostname: str | None = None
    ) -> None:
        """Client: answer to MechanismsOffered."""
        if self._handshake.status == DECIDING:
            self._handshake.login(mechanism, response, hostname)

    def respond(self, response: bytes) -> None:
        """Client: answer to Challenged."""
        if self._handshake.status == DECIDING:
            self._handshake.respond(response)

    def challenge(self, challenge: bytes) -> None:
        """Server: answer to LoginRequested or Responded, where the mechanism has another step."""
        if self._handshake.status == DECIDING:
            self._handshake.challenge(challenge)

    def accept_login(self) -> None:
        """Server: answer to LoginRequested or Responded."""
        if self._handshake.status == DECIDING:
            self._handshake.accept()

    def refuse_login(self, code: int = SASL_AUTH) -> None:
        """Server: the same; 1 for bad credentials, 2 for an error of the system. That is the end:

        the next `tick` gives `Ended`, and nothing is read any more.
        """
        if self._handshake.status == DECIDING:
            self._handshake.refuse(code)
            self._stop_hearing()

    def accept_open(self, answer: Open) -> None:
        """Server: answer to OpenRequested. Sizes, channels and times are those of `limits`."""
        if self.state == DECIDING_OPEN:
            self._write_open(answer)
            self.state = RUNNING

    def close(self, error: ProtocolError | None = None) -> None:
        """Close the connection; from now on only the peer's close counts."""
        if self.state >= CLOSING:
            return
        if self.state <= DECIDING_OPEN:
            if self._handshake.status != DONE:
                self._stop_hearing()
                return
            if self._handshake.is_server:
                self._write_open(Open(container_id=self.limits.container_id))
        for session in self.sessions.values():
            session.flush()
        self.output.ending(0, Close(error=None if error is None else error_of(error)))
        self.state = CLOSING
        self._forget_sessions()
        self._deadline_ms = self._now_ms + CLOSING_MS_MAX

    def begin(self) -> Session:
        """Client: begin a session. `SessionBegun` tells when it is there; links may not wait."""
        assert self.state == RUNNING
        session = self._new_session(self._free_channel(0))
        session.status = BEGINNING
        self.output.frame(session.channel, session.begin_frame())
        return session

    def set_alarm(self, in_alarm: bool) -> None:
        """While in alarm the windows of all sessions, and of new ones, are closed."""
        self.in_alarm = in_alarm
        for session in self.sessions.values():
            if in_alarm:
                session.close_window()
            else:
                session.open_window()

    def data_to_send(self) -> bytes:
        """Take the pending output, with all that this turn has gathered."""
        self._gather()
        return self.output.take()

    def parts_to_send(self) -> list[Buffer]:
        """The same; large payloads are parts of their own, as they lie in memory."""
        self._gather()
        return self.output.take_parts()

    def _gather(self) -> None:
        if self.state == RUNNING:
            for session in self.sessions.values():
                session.flush()
        size = self.output.pending_bytes()
        if size > 0:
            self.bytes_sent += size
            self.write_count += 1

    def pause_reading(self) -> None:
        """The host has stopped reading: silence is not the peer's fault."""
        self._paused = True

    def resume_reading(self, now_ms: i64) -> None:
        self._paused = False
        self._read_ms = now_ms

    # --- Time -------------------------------------------------------------------------------

    def tick(self, now_ms: i64) -> list[Event]:
        """Heartbeats and deadlines; to be called at least twice per IDLE_MS_MIN."""
        self._now_ms = now_ms
        events: list[Event] = []
        if self.state == CLOSED:
            return events
        if self.state != RUNNING and now_ms >= self._deadline_ms:
            if self.state != CLOSING:
                text = f"handshake timeout in state {self.state_name}"
                events.append(Failed(ProtocolError(Condition.RESOURCE_LIMIT_EXCEEDED, text)))
            events.append(Ended())
            self._end()
        elif self.state == RUNNING:
            self._beat(now_ms, events)
        return events

    def _beat(self, now_ms: i64, events: list[Event]) -> None:
        written: i64 = self.bytes_sent + self.output.pending_bytes()
        if written != self._written_bytes:
            self._written_bytes = written
            self._written_ms = now_ms
        elif self._beat_ms > 0 and now_ms - self._written_ms >= self._beat_ms:
            self.output.writer.write(HEARTBEAT_FRAME)
            self._written_bytes = written + FRAME_HEAD
            self._written_ms = now_ms
        patience_ms: i64 = 2 * self.limits.idle_time_out_ms
        if patience_ms > 0 and not self._paused and now_ms - self._read_ms >= patience_ms:
            text = f"nothing came for {patience_ms} ms, idle-time-out is {patience_ms // 2}"
            error = ProtocolError(Condition.RESOURCE_LIMIT_EXCEEDED, text)
            self.close(error)
            events.append(Failed(error))

    def _stop_hearing(self) -> None:
        """Without a close: the end is reported by the next `tick`."""
        self._deaf = True
        self.state = CLOSING
        self._deadline_ms = self._now_ms

    def _end(self) -> None:
        self.state = CLOSED
        self._forget_sessions()
        self._tail = []
        self._tail_bytes = 0

    def _forget_sessions(self) -> None:
        for session in self.sessions.values():
            session.lost()
        self.sessions = {}
        self._by_channel = {}

    # --- Input ------------------------------------------------------------------------------

    def receive(self, data: bytes, now_ms: i64) -> list[Event]:
        """Take what one read brought; return what it means."""
        size: i64 = len(data)
        self._now_ms = now_ms
        self._read_ms = now_ms
        self.bytes_received += size
        self.has_more = False
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
                self.close(error)
                self._events.append(Failed(error))
            return self._deaf
        return True

    def _scan(self, data: bytes) -> None:
        self._alone_to = 0
        size: i64 = len(data)
        pos: i64 = 0
        while pos < size and self.state != CLOSED and not self._deaf:
            handshake = self._handshake
            held = handshake.status == DECIDING or self.state == DECIDING_OPEN
            if held or len(self._events) >= EVENTS_MAX:
                self.has_more = not held
                self._keep_tail(data, pos, 0)
                return
            if size - pos < FRAME_HEAD:
                self._keep_tail(data, pos, FRAME_HEAD)
                return
            if handshake.wants_header():
                self._next = pos + HEADER_BYTES
                self._take_header(data[pos : pos + HEADER_BYTES])
                pos += HEADER_BYTES
                continue
            after = self._scan_run(data, pos)
            if after == pos:
                after = self._scan_frame(data, pos)
            if after < 0:
                return
            pos = after

    def _scan_frame(self, data: bytes, pos: i64) -> i64:
        """Take the frame at `pos`; return where it ends, or -1: it waits as tail."""
        frames = self._frames
        try:
            whole = frames.scan(data, pos)
            if frames.kind != (SASL if self._handshake.status == WANT_FRAME else AMQP):
                text = f"unexpected frame of type {frames.kind}"
                raise ProtocolError(Condition.FRAMING_ERROR, text)
        except ProtocolError as error:
            self._lose_step(error)
            return -1
        if not whole:
            self._keep_tail(data, pos, frames.end - pos)
            return -1
        self._next = frames.end
        self._take_frame(data, frames.body_at, frames.end, frames.channel)
        return self._next

    def _lose_step(self, error: ProtocolError) -> None:
        """Nothing that comes can be believed any more: an answer to our close neither."""
        if self.state < CLOSING:
            self.close(error)
            self._events.append(Failed(error))
        self._deaf = True
        self._deadline_ms = min(self._deadline_ms, self._now_ms + SILENCE_MS)

    def _scan_run(self, data: bytes, pos: i64) -> i64:
        """Take a run of transfers or dispositions at `pos`; return where it ends.

        `pos`: there is none, this frame goes alone; -1: the rest of the read waits as tail.
        """
        size: i64 = len(data)
        if self.state != RUNNING or size - pos < RUN_HEAD:
            return pos
        descriptor: i64 = data[pos + 10]
        if descriptor != TRANSFER and descriptor != DISPOSITION:
            return pos
        channel = i64(read_i16_be(data, pos + 6)) & 0xFFFF
        session = self._by_channel.get(channel)
        if session is None or session.status != MAPPED:
            return pos
        if descriptor == DISPOSITION:
            return self._scan_dispositions(session, data, pos, channel)
        return self._scan_transfers(session, data, pos, channel)

    def _scan_dispositions(self, session: Session, data: bytes, pos: i64, channel: i64) -> i64:
        run = self._settles.scan(data, pos, channel)
        if run is None:
            return pos
        session.take_dispositions(run, self._events)
        return self._settles.end

    def _scan_transfers(self, session: Session, data: bytes, pos: i64, channel: i64) -> i64:
        if session.arrivals.partial_count > 0:
            return pos
        size: i64 = len(data)
        scanner = self._runs
        run = scanner.scan(data, pos, channel)
        if run is None:
            return pos
        if scanner.mixed and pos >= self._alone_to:
            after = self._gather_transfers(data, pos)
            if after > pos:
                return after
        end = scanner.end
        self._next = end
        try:
            session.take_run(run, self._events)
        except ProtocolError as error:
            self._settle_error(session, error)
        if scanner.stop == STOP_SHORT:
            if end < size:
                self._keep_tail(data, end, scanner.need - end)
            return -1
        return end

    def _gather_transfers(self, data: bytes, pos: i64) -> i64:
        """Take transfers of links that take turns; return where they end. `pos`: they go alone."""
        parts = self._turns.scan(data, pos)
        for part in parts:
            session = self._by_channel.get(part.channel)
            if session is None or not session.fits(part):
                self._alone_to = self._turns.end
                return pos
        self._next = self._turns.end
        for part in parts:
            self._by_channel[part.channel].take_gathered(part, self._events)
        return self._turns.end

    def _keep_tail(self, data: bytes, pos: i64, need: i64) -> None:
        """Look at data[pos:] again when there are `need` bytes of it."""
        rest = data[pos:]
        self._tail = [rest]
        self._tail_bytes = len(rest)
        self._need = need

    def _take_header(self, header: bytes) -> None:
        try:
            self._handshake.take_header(header)
        except ProtocolError as error:
            self._events.append(Failed(error))
            self._stop_hearing()
        if self._handshake.status == DONE:
            self.state = OPENING
            if self._open is not None:
                self._write_open(self._open)

    def _take_frame(self, data: bytes, start: i64, end: i64, channel: i64) -> None:
        if self._handshake.status == WANT_FRAME:
            self._take_sasl(data, start, end)
            return
        if start == end:
            return  # A heartbeat.
        reader = Reader(data, start, end)
        frame = read_performative(reader)
        if reader.pos < end and frame.descriptor != TRANSFER:
            text = f"{end - reader.pos} bytes behind the {frame.type_name}"
            raise ProtocolError(Condition.DECODE_ERROR, text)
        if isinstance(frame, Close):
            self._take_close(frame)
        elif self.state == OPENING:
            self._take_open(frame)
        elif self.state == RUNNING:
            if channel > self.limits.channel_max:
                text = f"channel {channel} is above the channel-max of {self.limits.channel_max}"
                raise ProtocolError(Condition.FRAMING_ERROR, text)
            self._take_on_channel(frame, channel, data, reader.pos, end)

    def _take_sasl(self, data: bytes, start: i64, end: i64) -> None:
        try:
            reader = Reader(data, start, end)
            frame = read_sasl_frame(reader)
            reader.finish()
            self._handshake.take(frame, self._events)
        except ProtocolError as error:
            self._events.append(Failed(error))
            self._stop_hearing()
        if self._handshake.status == REFUSED:
            self._stop_hearing()

    def _take_close(self, close: Close) -> None:
        if self.state < CLOSING:
            if self.state == OPENING:
                raise ProtocolError(Condition.ILLEGAL_STATE, "close before open")
            for session in self.sessions.values():
                session.flush()
            self.output.frame(0, Close())
            self._events.append(Closed(close))
        self._events.append(Ended())
        self._end()

    # --- Open -------------------------------------------------------------------------------

    def _take_open(self, frame: Performative) -> None:
        if not isinstance(frame, Open):
            raise ProtocolError(Condition.ILLEGAL_STATE, f"{frame.type_name} before open")
        idle_ms = frame.idle_time_out or 0
        if 0 < idle_ms < IDLE_MS_MIN:
            text = f"idle-time-out of {idle_ms} ms is less than {IDLE_MS_MIN} ms"
            raise ProtocolError(Condition.NOT_ALLOWED, text)
        if frame.max_frame_size < FRAME_SIZE_MIN:
            text = f"max-frame-size {frame.max_frame_size} is less than {FRAME_SIZE_MIN}"
            raise ProtocolError(Condition.FRAME_SIZE_TOO_SMALL, text)
        self.peer_open = frame
        self._beat_ms = idle_ms // 2
        self.output.max_frame_size = min(frame.max_frame_size, self.limits.max_frame_size)
        self.channel_max = min(frame.channel_max, self.limits.channel_max)
        self._frames.frame_bytes_max = self.limits.max_frame_size
        if self._handshake.is_server:
            self.state = DECIDING_OPEN
            self._events.append(OpenRequested(frame))
        else:
            self.state = RUNNING
            self._events.append(Opened(frame))

    def _write_open(self, frame: Open) -> None:
        limits = self.limits
        frame.max_frame_size = limits.max_frame_size
        frame.channel_max = limits.channel_max
        frame.idle_time_out = limits.idle_time_out_ms if limits.idle_time_out_ms > 0 else None
        self._shorten(frame)
        self.output.frame(0, frame)

    def _shorten(self, frame: Open) -> None:
        """Let properties go, the longest first, until the peer can take the frame."""
        while frame.properties and not self.output.fits(frame):
            kept = dict(frame.properties)
            del kept[max(kept, key=lambda name: len(str(kept[name])))]
            frame.properties = kept

    # --- Sessions ---------------------------------------------------------------------------

    def _take_on_channel(
        self, frame: Performative, channel: i64, data: bytes, start: i64, end: i64
    ) -> None:
        session = self._by_channel.get(channel)
        if isinstance(frame, Begin):
            self._take_begin(frame, channel, session)
        elif session is None:
            text = f"{frame.type_name} on channel {channel}, on which there is no session"
            raise ProtocolError(Condition.ILLEGAL_STATE, text)
        elif isinstance(frame, End):
            del self._by_channel[channel]
            if session.ended():
                del self.sessions[session.channel]
            self._events.append(SessionEnded(session, frame.error))
        elif session.status == MAPPED:
            try:
                session.take(frame, data, start, end, self._events)
            except ProtocolError as error:
                self._settle_error(session, error)

    def _settle_error(self, session: Session, error: ProtocolError) -> None:
        """The peer is wrong: what is of the session is settled here."""
        if error.scope is Scope.CONNECTION:
            raise error
        session.end(error)
        self._events.append(SessionFailed(session, error))

    def _take_begin(self, begin: Begin, channel: i64, session: Session | None) -> None:
        if session is not None:
            if session.status == ENDING:
                return
            text = f"begin on channel {channel}, on which there is a session"
            raise ProtocolError(Condition.ILLEGAL_STATE, text)
        if begin.remote_channel is None:
            session = self._new_session(self._free_channel(channel))
            session.begun(begin, channel)
            self.output.frame(session.channel, session.begin_frame())
        else:
            session = self.sessions.get(begin.remote_channel)
            if session is None or session.peer_channel >= 0:
                text = f"begin in answer to channel {begin.remote_channel}, which did not begin"
                raise ProtocolError(Condition.ILLEGAL_STATE, text)
            session.begun(begin, channel)
            if session.status == BEGINNING:
                session.status = MAPPED
        self._by_channel[channel] = session
        self._events.append(SessionBegun(session, begin))

    def _new_session(self, channel: i64) -> Session:
        session = Session(channel, self.output, self.limits, self.held, not self.in_alarm)
        self.sessions[channel] = session
        return session

    def answer_end(self, session: Session) -> None:
        """Answer the peer's end of a session with `end_waits`; nothing, once that was done."""
        if session.status == ENDED and self.sessions.get(session.channel) is session:
            del self.sessions[session.channel]
            self.output.frame(session.channel, End())

    def _free_channel(self, wanted: i64) -> i64:
        """A channel for our side: the peer's number if it is free, else the lowest."""
        channel = wanted
        if channel > self.channel_max or channel in self.sessions:
            channel = 0
            while channel in self.sessions:
                channel += 1
        if channel > self.channel_max:
            text = f"no channel is left: channel-max is {self.channel_max}"
            raise ProtocolError(Condition.RESOURCE_LIMIT_EXCEEDED, text)
        return channel

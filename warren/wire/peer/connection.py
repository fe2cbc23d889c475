"""One connection of a peer link, either end: handshake, then frames and beats. No I/O, no clock.

Takes what was read and the time, gives events in order; takes messages, gives bytes to write. The
host draws the nonce, decides about a claim that was proven (`Proven`), and keeps the deadlines.
Nothing is parsed before the proof but the handshake's fixed layout, nor anything behind a fault.
Beats and their answers go before all that waits. An answer goes with what is sent next, a beat at
the latest, so that an idle link has one write in an interval; one in TIMED_APART goes at once, and
tells how long a round trip takes. Compiled.
"""

from collections.abc import Sequence
from typing import Final, final

from mypy_extensions import i64

from warren.wire.peer.codes import ACCEPTED, BEAT, BEAT_ANSWER, CONTROL_LANE, PeerFault
from warren.wire.peer.frames import BEAT_BYTES, HEAD, Frame, FrameReader
from warren.wire.peer.handshake import Claim, Handshake
from warren.wire.peer.lanes import Lanes

PEER_BYTES_MAX: Final = 64 * 1024 * 1024  # that wait for one connection
MESSAGE_BYTES_MAX: Final = 1024 * 1024 * 1024
BEATS_KEPT: Final = 64  # of which the answer is still timed
TIMED_APART: Final = 10  # beats
RTT_WEIGHT: Final = 8  # a new round trip counts 1/8 in the average

# States
_SHAKING: Final = 0
_JUDGED: Final = 1  # it has proven who it is, and the host decides
_OPEN: Final = 2
_ENDED: Final = 3


@final
class Proven:
    """The other side has proven its claim: `accept` or `refuse`, then `receive` once more."""

    __slots__ = ("claim",)

    def __init__(self, claim: Claim) -> None:
        self.claim = claim


@final
class Answered:
    """The other side has answered a beat: both directions work."""

    __slots__ = ("rtt_ns",)

    def __init__(self, rtt_ns: i64) -> None:
        self.rtt_ns: i64 = rtt_ns


@final
class Failed:
    """The other side is wrong, or refuses. Send what is there to send, and close.

    `code` is that of a refusal, whichever side it came from, or 0.
    """

    __slots__ = ("code", "text")

    def __init__(self, text: str, code: int) -> None:
        self.text = text
        self.code = code


Event = Proven | Frame | Answered | Failed


@final
class PeerConnection:
    """One end. Invariant: in `_OPEN` the other side's proof was right and both sides accepted."""

    def __init__(
        self,
        handshake: Handshake,
        peer_bytes_max: i64 = PEER_BYTES_MAX,
        message_bytes_max: i64 = MESSAGE_BYTES_MAX,
    ) -> None:
        self._handshake = handshake
        self._state: i64 = _SHAKING
        self._begun = b""  # of the handshake, or behind it until the host has decided
        self._message_bytes_max: i64 = message_bytes_max
        self._reader: FrameReader | None = None
        self._beat_seq: i64 = 0
        self._beats_ns: list[int] = [0] * BEATS_KEPT
        self._is_urgent = False
        self.lanes = Lanes(peer_bytes_max)
        self.rtt_ns: i64 = 0  # average; 0: not known yet
        self.messages_sent: i64 = 0
        self.messages_received: i64 = 0
        if handshake.is_dialer:
            handshake.start()
            self._send_handshake()

    def is_open(self) -> bool:
        return self._state == _OPEN

    def claim(self) -> Claim:
        """What the other side has proven."""
        claim = self._handshake.claim
        assert claim is not None
        return claim

    def version(self) -> int:
        """Of the peer link, that both sides speak."""
        return int(self._handshake.version)

    # In

    def receive(self, data: bytes, now_ns: i64) -> list[Event]:
        """Take in what was read; what it means."""
        events: list[Event] = []
        if self._state == _ENDED:
            return events
        try:
            if self._state != _OPEN or len(self._begun) > 0:
                self._begun += data
                data = self._shake(events)
            if len(data) > 0:
                self._receive_frames(data, now_ns, events)
        except PeerFault as fault:
            self._state = _ENDED
            self._begun = b""
            self._send_handshake()
            events.append(Failed(fault.text, fault.code))
        return events

    def _shake(self, events: list[Event]) -> bytes:
        """Go on with the handshake; what came behind it, if it is through."""
        handshake = self._handshake
        while self._state == _SHAKING:
            needed: i64 = handshake.needed(self._begun)
            if len(self._begun) < needed:
                return b""
            message = self._begun[:needed]
            self._begun = self._begun[needed:]
            handshake.take(message)
            self._send_handshake()
            claim = handshake.claim
            if claim is not None:
                self._state = _JUDGED
                events.append(Proven(claim))
        if self._state == _JUDGED:
            return b""
        rest = self._begun
        self._begun = b""
        return rest

    def _receive_frames(self, data: bytes, now_ns: i64, events: list[Event]) -> None:
        reader = self._reader
        assert reader is not None
        frames: list[Frame] = []
        fault: PeerFault | None = None
        try:
            reader.receive(data, frames)
        except PeerFault as found:
            fault = found
        for frame in frames:  # Also those before the fault: they came as they were sent.
            if frame.kind == BEAT:
                self._answer(frame.payload)
            elif frame.kind == BEAT_ANSWER:
                events.append(Answered(self._answered(frame.payload, now_ns)))
            else:
                self.messages_received += 1
                events.append(frame)
        if fault is not None:
            raise fault

    def _answer(self, payload: memoryview) -> None:
        """Answer a beat, unless so many answers wait that the peer does not read them."""
        if self.lanes.first_count() < BEATS_KEPT:
            head = HEAD.pack(BEAT_BYTES, BEAT_ANSWER, CONTROL_LANE, 0, 0)
            self.lanes.put_first(head + bytes(payload))
        if int.from_bytes(payload, "little") % TIMED_APART == 1:
            self._is_urgent = True

    def _answered(self, payload: memoryview, now_ns: i64) -> i64:
        """How long the round took; 0: not known."""
        seq = int.from_bytes(payload, "little")
        if not 1 <= seq <= int(self._beat_seq):
            raise PeerFault("the answer to a beat that was not sent")
        if seq % TIMED_APART != 1 or self._beat_seq - seq >= BEATS_KEPT:
            return 0
        took: i64 = now_ns - self._beats_ns[seq % BEATS_KEPT]
        if self.rtt_ns == 0:
            self.rtt_ns = took
        else:
            self.rtt_ns += (took - self.rtt_ns) // RTT_WEIGHT
        return took

    # The host's word on a claim

    def accept(self) -> None:
        """The other side may come in. What it has sent since is taken in by the next `receive`."""
        assert self._state == _JUDGED
        if not self._handshake.is_dialer:
            self._handshake.accept()
            self._send_handshake()
        self._reader = FrameReader(self.claim().role, self._message_bytes_max)
        self._state = _OPEN

    def refuse(self, code: int) -> None:
        """Refuse the peer; a dialer that is refused gets the reason."""
        assert self._state == _JUDGED
        assert code != ACCEPTED
        if not self._handshake.is_dialer:
            self._handshake.refuse(code)
            self._send_handshake()
        self._state = _ENDED
        self._begun = b""

    # Out

    def send(self, kind: int, lane: int, parts: Sequence[bytes]) -> bool:
        """Add a message; False: so much waits that there is no room for it."""
        assert self._state == _OPEN
        if not self.lanes.put(kind, lane, parts):
            return False
        self.messages_sent += 1
        return True

    def pop_urgent(self) -> bool:
        """Whether what came in wants to be answered now; asked once."""
        is_urgent = self._is_urgent
        self._is_urgent = False
        return is_urgent

    def beat(self, now_ns: i64) -> None:
        """Ask whether the other side is there."""
        assert self._state == _OPEN
        self._beat_seq += 1
        seq = self._beat_seq
        self._beats_ns[seq % BEATS_KEPT] = now_ns
        head = HEAD.pack(BEAT_BYTES, BEAT, CONTROL_LANE, 0, 0)
        self.lanes.put_first(head + int(seq).to_bytes(BEAT_BYTES, "little"))

    def _send_handshake(self) -> None:
        for message in self._handshake.output:
            self.lanes.put_first(message)
        self._handshake.output = []
        self._is_urgent = True

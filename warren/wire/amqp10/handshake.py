"""Protocol headers and SASL of one AMQP 1.0 connection, either side. Compiled.

SASL is obligatory: each side sends the SASL header, the server its mechanisms, the
client its choice; challenges and responses if the mechanism has them; the outcome; and the AMQP
header from both. A header that is not the expected one is answered with the one that is, and the
connection is over. The connection feeds headers and decoded SASL frames, and writes what its host
decides through `accept`, `refuse`, `challenge`, `login`, `respond`.
"""

from typing import Final, NoReturn, final

from mypy_extensions import i64

from warren.wire.amqp10.codec.performatives import (
    SaslChallenge,
    SaslFrame,
    SaslInit,
    SaslMechanisms,
    SaslOutcome,
    SaslResponse,
)
from warren.wire.amqp10.errors import Condition, ProtocolError
from warren.wire.amqp10.events import (
    Challenged,
    Event,
    LoginRefused,
    LoginRequested,
    MechanismsOffered,
    Responded,
)
from warren.wire.amqp10.output import Output

HEADER_BYTES: Final = 8
SASL_HEADER: Final = b"AMQP\x03\x01\x00\x00"
AMQP_HEADER: Final = b"AMQP\x00\x01\x00\x00"

SASL_OK: Final = 0  # codes of the outcome
SASL_AUTH: Final = 1  # bad credentials
SASL_SYS: Final = 2  # system error

WANT_SASL_HEADER: Final = 0
WANT_FRAME: Final = 1
DECIDING: Final = 2  # the host of this side decides; what comes behind waits
WANT_AMQP_HEADER: Final = 3
DONE: Final = 4
REFUSED: Final = 5


@final
class Handshake:
    def __init__(self, is_server: bool, mechanisms: list[str], output: Output) -> None:
        self.is_server = is_server
        self.mechanisms = mechanisms  # a client keeps what it was offered
        self.status: i64 = WANT_SASL_HEADER
        self._output = output
        self._begun = False  # a client has chosen its mechanism

    def start(self) -> None:
        """A client speaks first."""
        if not self.is_server:
            self._output.writer.write(SASL_HEADER)

    def wants_header(self) -> bool:
        return self.status == WANT_SASL_HEADER or self.status == WANT_AMQP_HEADER

    def take_header(self, header: bytes) -> None:
        """The next 8 bytes; an unexpected header ends the connection without a close."""
        writer = self._output.writer
        if self.status == WANT_SASL_HEADER:
            if self.is_server:
                writer.write(SASL_HEADER)
            if header != SASL_HEADER:
                self._fail_header(header)
            self.status = WANT_FRAME
            if self.is_server:
                self._output.sasl(SaslMechanisms(sasl_server_mechanisms=self.mechanisms))
        else:
            if self.is_server:
                writer.write(AMQP_HEADER)
            if header != AMQP_HEADER:
                self._fail_header(header)
            self.status = DONE

    def _fail_header(self, header: bytes) -> NoReturn:
        self.status = REFUSED
        raise ProtocolError(Condition.FRAMING_ERROR, f"unexpected protocol header {header.hex()}")

    def take(self, frame: SaslFrame, events: list[Event]) -> None:
        if self.is_server:
            self._take_from_client(frame, events)
        else:
            self._take_from_server(frame, events)

    def _take_from_client(self, frame: SaslFrame, events: list[Event]) -> None:
        if isinstance(frame, SaslInit) and not self._begun:
            self._begun = True
            self.status = DECIDING
            events.append(LoginRequested(frame.mechanism, frame.initial_response, frame.hostname))
        elif isinstance(frame, SaslResponse) and self._begun:
            self.status = DECIDING
            events.append(Responded(frame.response))
        else:
            self._fail_frame(frame)

    def _take_from_server(self, frame: SaslFrame, events: list[Event]) -> None:
        if isinstance(frame, SaslMechanisms) and not self._begun:
            self.mechanisms = frame.sasl_server_mechanisms
            self.status = DECIDING
            events.append(MechanismsOffered(frame.sasl_server_mechanisms))
        elif isinstance(frame, SaslChallenge) and self._begun:
            self.status = DECIDING
            events.append(Challenged(frame.challenge))
        elif isinstance(frame, SaslOutcome) and self._begun:
            if frame.code == SASL_OK:
                self.status = WANT_AMQP_HEADER
                self._output.writer.write(AMQP_HEADER)
            else:
                self.status = REFUSED
                events.append(LoginRefused(frame.code))
        else:
            self._fail_frame(frame)

    def _fail_frame(self, frame: SaslFrame) -> NoReturn:
        self.status = REFUSED
        raise ProtocolError(Condition.ILLEGAL_STATE, f"unexpected {frame.type_name}")

    # What the host decides

    def accept(self) -> None:
        self._output.sasl(SaslOutcome(code=SASL_OK))
        self.status = WANT_AMQP_HEADER

    def refuse(self, code: int) -> None:
        self._output.sasl(SaslOutcome(code=code))
        self.status = REFUSED

    def challenge(self, challenge: bytes) -> None:
        self._output.sasl(SaslChallenge(challenge=challenge))
        self.status = WANT_FRAME

    def login(self, mechanism: str, response: bytes | None, hostname: str | None) -> None:
        init = SaslInit(mechanism=mechanism, initial_response=response, hostname=hostname)
        self._output.sasl(init)
        self._begun = True
        self.status = WANT_FRAME

    def respond(self, response: bytes) -> None:
        self._output.sasl(SaslResponse(response=response))
        self.status = WANT_FRAME

"""What the AMQP 1.0 connection core tells its host, in the order of arrival. Compiled.

One event stands for a run of frames wherever the protocol allows: nothing is made per message or
per disposition of a run. Hot ones (`Received`, `Settled`) are plain typed classes. Links and
sessions are named by their objects, which stay the same from attach to detach: a handle may
already belong to another link when the host comes to read the event.
"""

from typing import TYPE_CHECKING, final

from mypy_extensions import i64

from warren.wire.amqp10.arrivals import Received
from warren.wire.amqp10.codec.performatives import (
    Attach,
    Begin,
    Close,
    DeliveryState,
    Error,
    Flow,
    Open,
)
from warren.wire.amqp10.codec.serial import plus
from warren.wire.amqp10.errors import ProtocolError

if TYPE_CHECKING:
    from warren.wire.amqp10.link import Link
    from warren.wire.amqp10.session import Session


@final
class Settled:
    """The peer's word on deliveries first..last (delivery-ids, which wrap) of a session.

    `sent`: they are ours, and the peer their receiver; else the other way. Ids that were never
    used are cut off; the range may name deliveries that are settled already.
    """

    def __init__(
        self,
        session: "Session",
        sent: bool,
        first: i64,
        last: i64,
        settled: bool,
        outcome: i64,
        state: DeliveryState | None,
    ) -> None:
        self.session = session
        self.sent = sent
        self.first: i64 = first
        self.last: i64 = last
        self.settled = settled
        self.outcome: i64 = outcome
        self.state = state  # where the outcome has more to say: rejected, modified, received, other


@final
class Flowed:
    """A flow of the peer for this link; what it changes in the core is done.

    A sender's host now looks at `Session.take_queue_credits`, and may set `available` and the
    properties before the answer is written at the end of the turn.
    """

    def __init__(self, link: "Link", flow: Flow) -> None:
        self.link = link
        self.flow = flow


@final
class Withdrawn:
    """The receiver took credit back: these messages were not sent and go back to their queue.

    Each is (number, first, count) of a `Run`.
    """

    def __init__(self, link: "Link", runs: list[tuple[int, int, int]]) -> None:
        self.link = link
        self.runs = runs


@final
class Writable:
    """The peer's window is open again, and there are deliveries that wait for it."""

    def __init__(self, session: "Session") -> None:
        self.session = session


@final
class MechanismsOffered:
    """Client: answer with `login`."""

    def __init__(self, mechanisms: list[str]) -> None:
        self.mechanisms = mechanisms


@final
class LoginRequested:
    """Server: answer with `accept_login`, `refuse_login` or `challenge`."""

    def __init__(self, mechanism: str, response: bytes | None, hostname: str | None) -> None:
        self.mechanism = mechanism
        self.response = response  # None: absent, which is not the same as empty
        self.hostname = hostname


@final
class Challenged:
    """Client: the server wants to know more; answer with `respond`."""

    def __init__(self, challenge: bytes) -> None:
        self.challenge = challenge


@final
class Responded:
    """Server: the answer to a challenge; decide as for `LoginRequested`."""

    def __init__(self, response: bytes) -> None:
        self.response = response


@final
class LoginRefused:
    """Client: `code` of the SASL outcome (1 bad credentials, 2-4 system errors)."""

    def __init__(self, code: int) -> None:
        self.code = code


@final
class OpenRequested:
    """Server: answer with `accept_open`, or with `close` and an error."""

    def __init__(self, open_frame: Open) -> None:
        self.open = open_frame


@final
class Opened:
    """Client: the server's open."""

    def __init__(self, open_frame: Open) -> None:
        self.open = open_frame


@final
class SessionBegun:
    """A session of the peer's, which is answered already, or the answer to one of ours."""

    def __init__(self, session: "Session", begin: Begin) -> None:
        self.session = session
        self.begin = begin


@final
class SessionEnded:
    """The peer ended the session (`error`: why), or answered to our end. All its links are over.

    The end is answered already, unless the session has `end_waits`: then the host calls
    `Connection.answer_end`.
    """

    def __init__(self, session: "Session", error: Error | None) -> None:
        self.session = session
        self.error = error


@final
class SessionFailed:
    """The peer broke a rule of the session, and the core has ended it. All its links are over."""

    def __init__(self, session: "Session", error: ProtocolError) -> None:
        self.session = session
        self.error = error


@final
class AttachRequested:
    """The peer wants a link; answer with `accept`, `refuse`, or `Session.end`."""

    def __init__(self, link: "Link", attach: Attach) -> None:
        self.link = link
        self.attach = attach


@final
class LinkAttached:
    """The peer accepted a link of ours. A refused one is detached at once (`LinkDetached`)."""

    def __init__(self, link: "Link", attach: Attach) -> None:
        self.link = link
        self.attach = attach


@final
class LinkDetached:
    """The peer detached the link, or answered to our detach; the core has answered, unless the link
    has `detach_waits`: then the host answers with `Session.answer_detach`.

    What waits to be sent is in `link.sender.take_waiting()`. `ours`: it answers to our detach.
    `closed`: the terminus is to end, too.
    """

    def __init__(self, link: "Link", error: Error | None, ours: bool, closed: bool) -> None:
        self.link = link
        self.error = error
        self.ours = ours
        self.closed = closed


@final
class LinkFailed:
    """The peer broke a rule of the link, and the core has detached it."""

    def __init__(self, link: "Link", error: ProtocolError) -> None:
        self.link = link
        self.error = error


@final
class Closed:
    """The peer closed the connection, and the core has answered; `Ended` follows."""

    def __init__(self, close: Close) -> None:
        self.error = close.error


@final
class Failed:
    """The peer broke the protocol. The last event, but for an `Ended` later on.

    close (where the protocol allows one) is in the output already; the core takes no other input
    than the peer's close, for a limited time.
    """

    def __init__(self, error: ProtocolError) -> None:
        self.error = error


@final
class Ended:
    """Nothing is to come any more: the socket may be closed once the output is written."""


Event = (
    Received
    | Settled
    | Flowed
    | Withdrawn
    | Writable
    | MechanismsOffered
    | LoginRequested
    | Challenged
    | Responded
    | LoginRefused
    | OpenRequested
    | Opened
    | SessionBegun
    | SessionEnded
    | SessionFailed
    | AttachRequested
    | LinkAttached
    | LinkDetached
    | LinkFailed
    | Closed
    | Failed
    | Ended
)


def report(settled: Settled, events: list[Event]) -> None:
    """Add the event, or make the one before it longer."""
    size = len(events)
    if size > 0 and settled.state is None:
        before = events[size - 1]
        if (
            isinstance(before, Settled)
            and before.session is settled.session
            and before.state is None
            and before.outcome == settled.outcome
            and before.settled == settled.settled
            and before.sent == settled.sent
            and plus(before.last, 1) == settled.first
        ):
            before.last = settled.last
            return
    events.append(settled)

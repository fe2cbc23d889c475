"""One link of a session: who it is, and the core of the direction that it carries. Compiled.

A link is one-way: this side is its receiver (`receiver`; for the broker, a publisher's link) or its
sender (`sender`; a consumer's). Each side numbers the link with a handle of its own. The session
moves the status; hosts read, and keep their own object in `owner`.
"""

from typing import Final, final

from mypy_extensions import i64

from warren.wire.amqp10.codec.serial import MASK
from warren.wire.amqp10.receiver import Receiver
from warren.wire.amqp10.sender import Sender

REQUESTED: Final = 0  # the peer's attach has come; the host decides
ATTACHING: Final = 1  # ours has been sent; the peer decides
ATTACHED: Final = 2
DETACHING: Final = 3  # our detach is sent, or due; input is dropped until the peer's comes
GONE: Final = 4  # nothing of it comes or goes any more

SENDER_UNSETTLED: Final = 0  # snd-settle-mode
SENDER_SETTLED: Final = 1
SENDER_MIXED: Final = 2
RECEIVER_FIRST: Final = 0  # rcv-settle-mode
RECEIVER_SECOND: Final = 1

NO_HANDLE: Final = MASK + 1


@final
class Link:
    """Invariant: exactly one of `receiver` and `sender` is there."""

    def __init__(
        self, name: str, channel: i64, receiver: Receiver | None, sender: Sender | None
    ) -> None:
        assert (receiver is None) != (sender is None)
        self.name = name
        self.channel: i64 = channel  # of the session, for logs and listings
        self.receiver = receiver
        self.sender = sender
        self.status: i64 = REQUESTED
        self.handle: i64 = NO_HANDLE  # ours: in frames that we send
        self.peer_handle: i64 = NO_HANDLE  # the peer's: in frames that come
        self.snd_settle_mode: i64 = SENDER_MIXED
        self.rcv_settle_mode: i64 = RECEIVER_FIRST
        self.peer_message_bytes_max: int = 0  # that the peer takes; 0: any
        self.owner: object = None  # the host's
        # Properties of flows: in full on the first one and in answer to echo, else in short.
        self.properties: dict[str, object] | None = None
        self.properties_short: dict[str, object] | None = None
        self.full_due = True
        self.flow_listed = False  # the session will look at it when it writes flows
        # The host answers the peer's detach (`Session.answer_detach`), once its queue is ready.
        self.detach_waits = False
        self.touched = False  # the session will look at its queue credit

    @property
    def is_receiver(self) -> bool:
        return self.receiver is not None

    def is_up(self) -> bool:
        """Whether frames that come for it count."""
        return self.status == ATTACHED or self.status == REQUESTED

"""What became of a published message."""

from dataclasses import dataclass
from typing import Final

from warren.client.errors import PeerError, peer_error
from warren.wire.amqp10.codec.performatives import Rejected
from warren.wire.amqp10.events import Settled
from warren.wire.amqp10.settling import (
    ACCEPTED,
    MODIFIED,
    REJECTED,
    RELEASED,
)

NAMES: Final = {
    ACCEPTED: "accepted",
    REJECTED: "rejected",
    RELEASED: "released",
    MODIFIED: "modified",
}


@dataclass(frozen=True, slots=True)
class Outcome:
    """`kind` is `accepted` (safe with all queues), `released` (no queue took it), `rejected`
    (`error` says why) or `modified`; `sent` for a message that was sent settled.
    """

    kind: str
    error: PeerError | None = None

    @property
    def is_accepted(self) -> bool:
        return self.kind in ("accepted", "sent")


ACCEPTED_OUTCOME: Final = Outcome("accepted")
SENT: Final = Outcome("sent")


def outcome_of(event: Settled) -> Outcome | None:
    """The outcome in a disposition of the broker's; None: it has not decided yet."""
    if event.outcome == ACCEPTED:
        return ACCEPTED_OUTCOME
    kind = NAMES.get(int(event.outcome))
    if kind is None:
        return Outcome("released") if event.settled else None
    error = None
    if isinstance(event.state, Rejected):
        error = peer_error(event.state.error, "amqp:rejected")
    return Outcome(kind, error)

"""What the peer says of deliveries: delivery states as outcomes, and reports joined. Compiled.

Pure functions; they raise nothing, for the states have been decoded.
"""

from typing import Final

from mypy_extensions import i64

from warren.wire.amqp10 import descriptors
from warren.wire.amqp10.events import (
    ACCEPTED,
    MODIFIED,
    OTHER,
    RECEIVED,
    REJECTED,
    RELEASED,
    UNDECIDED,
    Event,
    Settled,
)
from warren.wire.amqp10.performatives import Accepted, DeliveryState, Modified, Rejected, Released
from warren.wire.amqp10.performatives import Received as ReceivedState
from warren.wire.amqp10.serial import plus

OUTCOMES: Final[list[int]] = [ACCEPTED, REJECTED, RELEASED, MODIFIED]  # by descriptor


def outcome_of(state: DeliveryState | None) -> i64:
    """What a delivery state means, as the events name it."""
    if state is None:
        return UNDECIDED
    if isinstance(state, Accepted):
        return ACCEPTED
    if isinstance(state, Rejected):
        return REJECTED
    if isinstance(state, Released):
        return RELEASED
    if isinstance(state, Modified):
        return MODIFIED
    if isinstance(state, ReceivedState):
        return RECEIVED
    return OTHER


def outcome_of_descriptor(descriptor: i64) -> i64:
    """The same for a state without fields, by its descriptor; 0: there is none."""
    return UNDECIDED if descriptor == 0 else OUTCOMES[descriptor - descriptors.ACCEPTED]


def says_more(state: DeliveryState | None) -> bool:
    """Whether an outcome has fields that matter."""
    if isinstance(state, Rejected):
        return state.error is not None
    if isinstance(state, Modified):
        failed, elsewhere = state.delivery_failed, state.undeliverable_here
        return failed is not None or elsewhere is not None or state.message_annotations is not None
    return False


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

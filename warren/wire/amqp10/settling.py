"""Delivery states as kinds of outcomes. Compiled.

Pure functions; they raise nothing, for the states have been decoded.
"""

from typing import Final

from mypy_extensions import i64

from warren.wire.amqp10.codec import descriptors
from warren.wire.amqp10.codec.performatives import (
    Accepted,
    DeliveryState,
    Modified,
    Rejected,
    Released,
)
from warren.wire.amqp10.codec.performatives import Received as ReceivedState

# Outcomes, in the order in which one turn's dispositions are written.
REJECTED: Final = 0
ACCEPTED: Final = 1
RELEASED: Final = 2
MODIFIED: Final = 3
RECEIVED: Final = 4  # not an outcome: so far
UNDECIDED: Final = 5  # no state at all
OTHER: Final = 6  # a state of transactions

OUTCOMES: Final[list[int]] = [ACCEPTED, REJECTED, RELEASED, MODIFIED]  # by descriptor


def outcome_of(state: DeliveryState | None) -> i64:
    """What a delivery state means."""
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

"""Outcomes that are to be told to the peer, gathered over a turn and written as ranges. Compiled.

Takes ranges of delivery-ids in any order; gives one disposition per run of ids that are next to
each other and have the same outcome: first all rejected, then accepted, released, modified.
Outcomes with more to say (an error, annotations) are joined only if they were
given as the same object. A rejection or modification without such is bare.
"""

from typing import Final, final

from mypy_extensions import i64, mypyc_attr

from warren.wire.amqp10.codec import descriptors
from warren.wire.amqp10.codec.performatives import DeliveryState, Disposition, Modified, Rejected
from warren.wire.amqp10.codec.serial import ahead, plus
from warren.wire.amqp10.dispositions import write_disposition
from warren.wire.amqp10.output import Output, shortened
from warren.wire.amqp10.settling import MODIFIED

KINDS: Final = MODIFIED + 1
STATES: Final[list[int]] = [
    descriptors.REJECTED,
    descriptors.ACCEPTED,
    descriptors.RELEASED,
    descriptors.MODIFIED,
]  # by kind


@final
@mypyc_attr(acyclic=True)
class Range:
    """Delivery-ids first..last, which have the same outcome."""

    def __init__(self, first: i64, last: i64, settled: bool, state: DeliveryState | None) -> None:
        self.first: i64 = first
        self.last: i64 = last
        self.settled = settled
        self.state = state


@final
class Outcomes:
    """What one session tells of the deliveries in one direction."""

    def __init__(self, as_receiver: bool) -> None:
        self.as_receiver = as_receiver
        self.is_empty = True
        self._ranges: list[list[Range]] = [[], [], [], []]

    def add(
        self, kind: i64, first: i64, count: i64, settled: bool, state: DeliveryState | None
    ) -> None:
        """Deliveries first.. have this outcome; `state` where it says more than its kind."""
        assert 0 <= kind < KINDS
        assert count > 0
        ranges = self._ranges[kind]
        self.is_empty = False
        size = len(ranges)
        if size > 0:
            before = ranges[size - 1]
            if plus(before.last, 1) == first and _alike(before, settled, state):
                before.last = plus(before.last, count)
                return
        ranges.append(Range(first, plus(first, count - 1), settled, state))

    def write(self, output: Output, channel: i64) -> None:
        """Write the dispositions that are due."""
        if self.is_empty:
            return
        self.is_empty = True
        kind: i64 = 0
        while kind < KINDS:
            ranges = self._ranges[kind]
            if len(ranges) > 0:
                self._ranges[kind] = []
                for each in joined(ranges):
                    self._write(output, channel, kind, each)
            kind += 1

    def _write(self, output: Output, channel: i64, kind: i64, told: Range) -> None:
        if told.state is None:
            writer, state = output.writer, STATES[kind]
            first, last = told.first, told.last
            write_disposition(writer, channel, self.as_receiver, first, last, told.settled, state)
            return
        frame = Disposition(
            role=self.as_receiver,
            first=told.first,
            last=None if told.last == told.first else int(told.last),
            settled=told.settled,
            state=told.state,
        )
        if not output.frame_if_fits(channel, frame):
            frame.state = _shortened(told.state)
            output.frame(channel, frame)


def _shortened(state: DeliveryState) -> DeliveryState:
    """What of an outcome fits into any frame."""
    if isinstance(state, Rejected):
        return Rejected(error=shortened(state.error))
    if isinstance(state, Modified):
        failed, elsewhere = state.delivery_failed, state.undeliverable_here
        return Modified(delivery_failed=failed, undeliverable_here=elsewhere)
    return state


def _alike(told: Range, settled: bool, state: DeliveryState | None) -> bool:
    return told.settled == settled and told.state is state


def joined(ranges: list[Range]) -> list[Range]:
    """The ranges in order, those that touch made one. They span less than half of all ids."""
    if len(ranges) == 1:
        return ranges
    base = ranges[0].first
    ranges.sort(key=lambda each: int(ahead(each.first, base)))
    kept: list[Range] = [ranges[0]]
    for place in range(1, len(ranges)):
        each = ranges[place]
        before = kept[len(kept) - 1]
        if plus(before.last, 1) == each.first and _alike(before, each.settled, each.state):
            before.last = each.last
        else:
            kept.append(each)
    return kept

"""The clients of a simulated primary's stream, and what they know: a publisher and a consumer.

A message is known by its identity, a number that is in its body; a standby must have all that were
confirmed, in their order, once. Offsets are stored in ascending order, so that a standby must have
one between the last that was stored before a pass and the last that was ever given.
"""

from dataclasses import dataclass, field

from queues.streams.host import StreamHost
from tests.sim.queues.letters import Letter
from tests.sim.queues.node import SimNode
from tests.unit.queues.fake_sink import FakeSink
from tests.unit.queues.messages import chunk_of

CONSUMER = b"consumer"
NOTHING = -1


@dataclass(slots=True)
class StreamTruth:
    """Over all restarts of the primary."""

    published: int = 0
    confirmed: set[int] = field(default_factory=set)
    given: int = NOTHING  # the highest offset that a client has given to be stored
    stored: int = NOTHING  # the highest one that the stream has answered for

    def mark(self) -> tuple[set[int], int]:
        """What a pass that begins now has to bring."""
        return set(self.confirmed), self.stored


class StreamLoad:
    """Clients of one life of the primary."""

    def __init__(self, node: SimNode, host: StreamHost, truth: StreamTruth) -> None:
        self._sink = FakeSink(session=node.broker.identity.new_session())
        self._node = node
        self._host = host
        self._truth = truth
        self._sent: list[int] = []

    def publish(self, lengths: list[int]) -> None:
        truth = self._truth
        made = range(truth.published + 1, truth.published + 1 + len(lengths))
        truth.published += len(lengths)
        bodies = [
            Letter((b"%d." % identity).ljust(length, b"x"), True).stored()
            for identity, length in zip(made, lengths, strict=True)
        ]
        self._node.turn.begin()
        self._host.publish(self._sink, chunk_of(bodies), len(self._sent) + 1)
        self._sent += made

    def store_offset(self) -> None:
        """The consumer has taken some more messages."""
        truth = self._truth
        if len(truth.confirmed) <= truth.given + 1:
            return
        offset = truth.given = truth.given + 1

        def stored(found: int | None) -> None:
            if found is not None:
                truth.stored = max(truth.stored, offset)

        self._node.turn.begin()
        self._host.store_offset(CONSUMER, offset)
        self._host.query_offset(CONSUMER, stored)

    def hear(self) -> None:
        """Take in what the stream has told."""
        self._sink.take()
        confirmed = self._sink.confirmed.get(self._host.uid, 0)
        self._truth.confirmed.update(self._sent[:confirmed])

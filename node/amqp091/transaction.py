"""What a transactional channel keeps until tx.commit: publishes and settlements. Pure, compiled.

Takes events that were looked at and found good, and runs of tags that were taken out of
`queues.sessions.unacked`; gives them back, in order, at commit or rollback. Owns the tags it was
given.
Every channel of a connection counts its bytes in the connection's `Held`: the limit is there, and
at the limit the channel is closed, for to wait for a commit without reading would be for ever.
"""

from typing import Final, final

from mypy_extensions import i64

from queues.sessions.publishing import Held
from queues.sessions.unacked import VOID, TagRun
from warren.wire.amqp091.events import Publishes
from warren.wire.errors import ProtocolError, ReplyCode

BYTES_MAX: Final = 64 * 1024 * 1024  # of all open transactions of a connection
RUN_BYTES: Final = 128  # what a run of tags is counted as


@final
class Transaction:
    """Invariant: `bytes` is what is kept here, and is counted in `held`."""

    def __init__(self, held: Held) -> None:
        self._held = held
        self.events: list[Publishes] = []
        self.settled: list[tuple[int, list[TagRun]]] = []  # (outcome, runs), as they came
        self.settled_count: i64 = 0  # tags in `settled` that their queues still count
        self.bytes: i64 = 0
        self.version = 0  # of the definitions by which the commit under way routes
        self.tries = 0  # of that commit to route

    def publish(self, event: Publishes) -> None:
        """Keep the event; raise 406 if that is too much."""
        self.events.append(event)
        self.count(len(event.data) + len(event.offsets))

    def settle(self, runs: list[TagRun], outcome: i64) -> None:
        """Keep the runs, which are outstanding no more; raise 406 if that is too much."""
        for run in runs:
            if run.uid != VOID:
                self.settled_count += run.count
        self.settled.append((outcome, runs))
        self.count(RUN_BYTES * (1 + len(runs)))

    def count(self, size: i64) -> None:
        """So many bytes more are kept; raise 406 if that is too much."""
        self.bytes += size
        self._held.transaction_bytes += size
        if self._held.transaction_bytes > BYTES_MAX:
            text = f"transactions of the connection are larger than {BYTES_MAX} bytes"
            raise ProtocolError(ReplyCode.PRECONDITION_FAILED, text)

    def void(self, uid: i64, number: i64) -> None:
        """The queue has taken back what this consumer held."""
        for _, runs in self.settled:
            for run in runs:
                if run.uid == uid and run.number == number:
                    run.uid = VOID
                    self.settled_count -= run.count

    def take_settled(self) -> list[tuple[int, list[TagRun]]]:
        settled = self.settled
        self.settled = []
        self.settled_count = 0
        return settled

    def let_go(self) -> None:
        """What was kept is handed on or dropped: it counts no more."""
        self._held.transaction_bytes -= self.bytes
        self.bytes = 0
        self.tries = 0
        self.events = []
        self.settled = []
        self.settled_count = 0

"""One link that reads messages of a lease: a receiver whose attach names them. Not compiled.

Properties of the attach: `warren:lease` (the name of a lease of the queue), `warren:lease-batch`
(the number of a batch that it holds), `warren:lease-first` (a place in it, 0-based) and
`warren:lease-count`. The client gets these messages in their order, settled, as far as its credit
goes, and can read them again as long as the lease holds the batch. The link then waits for its
detach. Messages are named when there is credit; their bytes are fetched when they are sent.
"""

import logging
from collections import deque
from typing import Final, final

from node.amqp10.forms import Forms
from node.amqp10.owner import Owner10
from node.amqp10.termini import error_of
from node.definitions.definition_changes import readable_queue
from node.leases.batches import HeldRun
from node.leases.lease import Lease, LeaseFault
from queues.conversion.addresses import malformed, parse_source
from queues.machine.delays import FAILED_MASK
from queues.machine.effects import ACQUIRED_SHIFT
from warren.wire.amqp10.codec.performatives import Attach, Source
from warren.wire.amqp10.errors import Condition, ProtocolError, Scope
from warren.wire.amqp10.link import SENDER_SETTLED, Link
from warren.wire.amqp10.sender import QueueCredit, Run
from warren.wire.amqp10.session import Session
from warren.wire.errors import ProtocolError as Refusal

log = logging.getLogger("warren.connection")

NAME: Final = "warren:lease"
BATCH: Final = "warren:lease-batch"
FIRST: Final = "warren:lease-first"
COUNT: Final = "warren:lease-count"
NUMBER: Final = 1  # of the runs that are offered; it means nothing here


def is_leased(attach: Attach) -> bool:
    return NAME in (attach.properties or {})


@final
class LeaseLink:
    """Invariant: `_left` are the messages that are still to be offered, in their order."""

    def __init__(self, owner: Owner10, core: Session, link: Link, uid: int, attach: Attach) -> None:
        """ProtocolError: the attach names no messages that a lease holds."""
        self.uid = uid  # of the link, in its session
        self.link = link
        self.ended = False
        self._owner = owner
        self._core = core
        self._lease, self.batch_number, self._left = _named(owner, attach)
        self._is_settled = link.snd_settle_mode == SENDER_SETTLED
        if not self._is_settled:
            raise _invalid("snd-settle-mode of a link that reads a lease must be settled")
        self._forms = Forms(owner.broker.interceptors.sent_clock)
        self._limit = 0  # messages that may be offered, counted from the beginning of the link
        self._is_draining = False

    def start(self) -> None:
        """The link is up."""
        self._lease.readers.add(self)

    def end(self) -> None:
        """The link is over."""
        self.ended = True
        self._lease.readers.discard(self)

    # What the client does

    def grant(self, credit: QueueCredit) -> None:
        """The client takes so many messages."""
        self._limit = int(credit.arrived + credit.credit)
        self._is_draining = credit.drain
        self._go_on()

    def flowed(self) -> None:
        """The client has sent a flow; what it has credit for is offered already."""

    def withdrawn(self, runs: list[tuple[int, int, int]]) -> None:
        """The client took credit back: what was not sent is to be offered again."""
        for _, first, count in runs:
            self._left.appendleft(HeldRun(first, count, False, 0))

    def _go_on(self) -> None:
        sender = self.link.sender
        assert sender is not None
        while self._left and not self.ended and int(sender.arrived) < self._limit:
            held = self._left[0]
            count = min(held.count, self._limit - int(sender.arrived))
            taken = int(self._core.offer(self.link, self._run_of(held, count)))
            self._left.popleft()
            if taken < held.count:
                rest = held.count - taken
                self._left.appendleft(
                    HeldRun(held.first + taken, rest, held.is_redelivered, held.attempts)
                )
            if taken < count:
                break
        if self._is_draining and not self._left:
            self._is_draining = False
            self._core.drained(self.link, self._limit)
        self._owner.mark()

    def _run_of(self, held: HeldRun, count: int) -> Run:
        run = Run(NUMBER, held.first, count, True, held.attempts)
        run.delivery_count = held.attempts & FAILED_MASK
        run.acquired = held.is_redelivered or held.attempts >> ACQUIRED_SHIFT > 0
        return run

    # Sending (`warren.wire.amqp10.departures.Bodies`)

    def fetch(self, run: Run) -> bool:
        """Put the bytes of the run's first messages into it; False: they are being loaded."""
        if self._lease.over:
            return False
        view = self._lease.view(int(run.first), int(run.count))
        if view is None:
            return False
        self._forms.put(run, view)
        return True

    # What the lease tells

    def on_loaded(self) -> None:
        self._core.loaded(self.link)
        self._owner.mark()

    def on_lease_over(self, text: str) -> None:
        """The lease has ended, the batch was committed, or a message cannot be read."""
        if self.ended:
            return
        log.info("link %s: %s", self.link.name, text, extra=self._owner.ids())
        self.end()
        self._core.detach(self.link, ProtocolError(Condition.ILLEGAL_STATE, text, Scope.LINK))
        self._owner.mark()


def _named(owner: Owner10, attach: Attach) -> tuple[Lease, int, deque[HeldRun]]:
    source = attach.source
    if not isinstance(source, Source):
        raise malformed(None)
    properties = attach.properties or {}
    number, first, count = (_number(properties, each) for each in (BATCH, FIRST, COUNT))
    try:
        queue = readable_queue(owner, parse_source(source.address))
        lease = owner.broker.leases.find(queue, str(properties[NAME]))
    except Refusal as refusal:
        raise error_of(refusal) from refusal
    except LeaseFault as fault:
        raise ProtocolError(Condition.NOT_FOUND, fault.text, Scope.LINK) from fault
    batch = lease.batches.held.get(number)
    if batch is None:
        text = f"lease '{lease.name}' of queue '{queue.name}' holds no batch {number}"
        raise ProtocolError(Condition.NOT_FOUND, text, Scope.LINK)
    if first + count > batch.count:
        text = f"{FIRST} {first} and {COUNT} {count}: batch {number} has {batch.count} messages"
        raise _invalid(text)
    return lease, number, deque(batch.part(first, count))


def _number(properties: dict[str, object], name: str) -> int:
    value = properties.get(name)
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise _invalid(f"{name} is {value!r}; allowed: a whole number from 0 on")
    return int(value)


def _invalid(text: str) -> ProtocolError:
    return ProtocolError(Condition.INVALID_FIELD, text, Scope.LINK)

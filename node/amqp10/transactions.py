"""Local transactions of one AMQP 1.0 session (part 4 of the standard). Not compiled.

A client attaches a sender to a coordinator, declares transactions, names them in transfers
(posting) and dispositions (retirement), and discharges them. Until then posted messages are kept
here, and retired ones stay checked out to their consumer.

Commit routes all posted messages, which may take several turns. Then it hands all of them down in
one turn, as tx.commit of AMQP 0-9-1 does, and applies the
retirements once every queue has confirmed; then the discharge is accepted. If a queue refuses, the
retired messages go back and the discharge is rejected with `amqp:transaction:rollback`. A crash in
between may leave messages published that are delivered again; none is lost.

Rollback forgets the posted messages. Retired ones go back to their queue as failed deliveries; if
the client did not settle them, they stay unsettled with it. The end of the coordinator link or of
the session rolls back, and so does the first use of a transaction after MS_MAX, counted from the
first work in it (a JMS session declares one long before it has anything to do).

Limits: OPEN_MAX transactions of a session; the bytes are those of `node.amqp091.transaction`.
"""

import logging
from collections import deque
from collections.abc import Callable
from typing import Final, Protocol

from msgspec import Struct, field

from node.amqp091.transaction import RUN_BYTES, Transaction
from node.amqp10.committing import Commit
from node.amqp10.hints import Timer
from node.amqp10.links.consuming import ConsumingLink
from node.amqp10.links.publishing import PublishingLink
from node.amqp10.owner import Owner10
from node.amqp10.special import Special, look, part, rest_of
from queues.machine.commands import FAIL
from queues.sessions.unacked import TagRun, Unacked
from warren.wire.amqp10.codec.descriptors import AMQP_VALUE
from warren.wire.amqp10.codec.message import Sections
from warren.wire.amqp10.codec.performatives import (
    Accepted,
    Attach,
    Coordinator,
    Declare,
    Declared,
    DeliveryState,
    Discharge,
    Rejected,
    TransactionalState,
)
from warren.wire.amqp10.codec.reader import decode_value
from warren.wire.amqp10.codec.values import Described
from warren.wire.amqp10.errors import Condition, ProtocolError, Scope
from warren.wire.amqp10.events import Settled
from warren.wire.amqp10.link import Link
from warren.wire.amqp10.output import error_of
from warren.wire.amqp10.session import Session
from warren.wire.amqp10.settling import (
    ACCEPTED,
    REJECTED,
)
from warren.wire.amqp10.transfers import Transfers, payload_at
from warren.wire.buffer import read_i32_le
from warren.wire.errors import ProtocolError as Refusal

log = logging.getLogger("warren.connection")

OPEN_MAX: Final = 64
MS_MAX: Final = 600_000
ROUTE_TRIES: Final = 3  # in slices
LOCAL: Final = "amqp:local-transactions"  # the capability of the coordinator
VALUE_NAMES: Final = (AMQP_VALUE, "amqp:amqp-value:*")
DECLARE_NAMES: Final = (Declare.descriptor, "amqp:declare:list")
DISCHARGE_NAMES: Final = (Discharge.descriptor, "amqp:discharge:list")
REQUEST_NAMES: Final = (*DECLARE_NAMES, *DISCHARGE_NAMES)


class Posted(Struct, frozen=True):
    """A message to publish at commit."""

    run: Transfers
    names: bytes | None  # of the link: exchange and routing key; None: the anonymous terminus


class Retired(Struct, frozen=True):
    """Deliveries to settle at commit."""

    said: Settled  # with the outcome that the transactional state holds
    outcome: int  # for the queue
    words: bytes
    runs: list[TagRun]
    renewals: dict[int, int]  # of each consumer, by uid of its link, at that time


class LocalTransaction(Struct):
    """`is_over`: rolled back because of its age; the client has not discharged it yet."""

    id: bytes
    coordinator: Link
    kept: Transaction  # counts the bytes
    posted: list[Posted] = field(default_factory=list)
    retired: list[Retired] = field(default_factory=list)
    routed: list[Special] = field(default_factory=list)  # of `posted`, at commit
    to_route: deque[Posted] = field(default_factory=deque)
    version: int = -1  # of the definitions by which `routed` was made
    tries: int = 0
    timer: Timer | None = None
    is_over: bool = False


class Deliveries(Protocol):
    """The session that owns the transactions, as far as they settle deliveries of it."""

    consuming: dict[int, ConsumingLink]
    unacked: Unacked

    def settle_runs(self, runs: list[TagRun], outcome: int, words: bytes) -> None:
        """Tell the queues."""

    def tell_settled(self, runs: list[TagRun], said: Settled) -> None:
        """Tell the client, which waits for us to settle."""


class Transactions:
    """Those of one session."""

    def __init__(self, owner: Owner10, core: Session, deliveries: Deliveries) -> None:
        self._owner = owner
        self._core = core
        self._deliveries = deliveries
        self._open: dict[bytes, LocalTransaction] = {}
        self._commits: list[Commit] = []
        self._declared_count = 0

    # Coordinator links

    def attach(self, link: Link, attach: Attach) -> None:
        link.owner = self
        self._core.accept(link, attach.source, Coordinator(capabilities=[LOCAL]))

    def leave(self, link: Link) -> None:
        """The coordinator link is over: its transactions are rolled back."""
        for each in list(self._open.values()):
            if each.coordinator is link:
                self._roll_back(each)
                self._forget(each)

    def end(self) -> None:
        """The session is over; its consumers give back all that they hold."""
        for each in list(self._open.values()):
            self._forget(each)
        for commit in self._commits:
            commit.end()
        self._commits = []

    # Requests

    def received(self, link: Link, run: Transfers) -> Transfers | None:
        """Handle declares and discharges; return those that wait for the next turn, because the
        first of them is a commit that is still being routed. ProtocolError: the link ends.
        """
        place = 0
        while place < run.count:
            start = int(read_i32_le(run.offsets, 4 * place))
            end = int(read_i32_le(run.offsets, 4 * place + 4))
            request = request_in(run.data, payload_at(run.data, start), end)
            if not self._handle(link, run, int(run.id_at(place)), request):
                return part(run, place, run.count)
            place += 1
        return None

    def _handle(self, link: Link, run: Transfers, delivery_id: int, request: Described) -> bool:
        """Return whether the request needs no further turn."""

        def answer(error: ProtocolError | None, state: DeliveryState | None = None) -> None:
            if error is not None:
                log.info("link %s: %s", link.name, error, extra=self._owner.ids())
                state = Rejected(error=error_of(error))
            if not run.settled:
                kind = ACCEPTED if error is None else REJECTED
                self._core.settle(delivery_id, 1, kind, state)
            self._core.confirm(link, 1)
            self._owner.mark()

        fields = request.value
        assert isinstance(fields, list)
        if request.descriptor in DECLARE_NAMES:
            self._declare(link, answer)
            return True
        txn_id = fields[0] if fields else None
        is_failed = len(fields) > 1 and fields[1] is True
        found = self._open.get(txn_id) if isinstance(txn_id, bytes) else None
        if found is None:
            answer(unknown(txn_id))
        elif found.is_over:
            self._forget(found)
            answer(late(found))
        elif is_failed:
            self._roll_back(found)
            self._forget(found)
            answer(None)
        elif not self.route_posted(found):
            return False
        else:
            self._commit(found, answer)
        return True

    def _declare(
        self, link: Link, answer: Callable[[ProtocolError | None, DeliveryState | None], None]
    ) -> None:
        if len(self._open) >= OPEN_MAX:
            text = f"a session has at most {OPEN_MAX} open transactions"
            answer(ProtocolError(Condition.RESOURCE_LIMIT_EXCEEDED, text, Scope.LINK), None)
            return
        self._declared_count += 1
        txn_id = self._declared_count.to_bytes(8)
        self._open[txn_id] = LocalTransaction(txn_id, link, Transaction(self._owner.held))
        answer(None, Declared(txn_id=txn_id))

    # Work

    def post(self, link: PublishingLink, run: Transfers) -> Transfers | None:
        """Keep messages for the commit; return those that wait for the next turn, as
        `PublishingLink.take`. ProtocolError: the link ends.
        """
        found = self._of(run.transaction, Scope.LINK)
        if self._owner.must_wait():
            return run
        ways = self._ways(run, link.names)
        for special in ways:
            if special.error is not None or len(special.targets.hosts) == 0:
                link.take(special.run)  # The outcome is known now: there is nothing to keep.
                continue
            self._count(found, len(special.run.data))
            found.posted.append(Posted(special.run, link.names))
            state = TransactionalState(txn_id=found.id, outcome=Accepted())
            link.keep(special.run, state)
        return rest_of(run, ways)

    def retire(
        self, txn_id: bytes, runs: list[TagRun], said: Settled, outcome: int, words: bytes
    ) -> None:
        """Keep outcomes for the commit. ProtocolError: the session ends."""
        found = self._of(txn_id, Scope.SESSION)
        renewals: dict[int, int] = {}
        for run in runs:
            mine = self._deliveries.consuming.get(int(run.uid))
            renewals[int(run.uid)] = 0 if mine is None else mine.renewal()
        self._count(found, RUN_BYTES * (1 + len(runs)))
        found.retired.append(Retired(said, outcome, words, runs, renewals))

    def _of(self, txn_id: bytes, scope: Scope) -> LocalTransaction:
        found = self._open.get(txn_id)
        error = unknown(txn_id) if found is None else late(found) if found.is_over else None
        if found is None or error is not None:
            assert error is not None
            raise ProtocolError(error.condition, error.text, scope)
        if found.timer is None:
            found.timer = self._owner.call_later(MS_MAX, lambda: self._time_out(found))
        return found

    def _count(self, found: LocalTransaction, size: int) -> None:
        try:
            found.kept.count(size)
        except Refusal as refusal:
            condition = Condition.RESOURCE_LIMIT_EXCEEDED
            raise ProtocolError(condition, refusal.text, Scope.SESSION) from refusal

    def _time_out(self, found: LocalTransaction) -> None:
        log.info("%s: %s", self._owner.name, late(found).text, extra=self._owner.ids())
        self._roll_back(found)
        found.kept.let_go()
        found.is_over = True
        self._owner.mark()

    # Ends

    def route_posted(self, found: LocalTransaction) -> bool:
        """Go on with the routes of a commit; return whether they are complete.

        If definitions change before they are, start again; after ROUTE_TRIES finish in one turn.
        """
        if not found.posted:
            return True
        plans = self._owner.plans()
        plans.refresh()
        if found.version != plans.version:
            found.version = plans.version
            found.tries += 1
            found.routed = []
            found.to_route = deque(found.posted)
        while found.to_route:
            if self._owner.must_wait() and found.tries <= ROUTE_TRIES:
                return False
            posted = found.to_route.popleft()
            ways = self._ways(posted.run, posted.names)
            found.routed += ways
            rest = rest_of(posted.run, ways)
            if rest is not None:
                found.to_route.appendleft(Posted(rest, posted.names))
        return True

    def _commit(
        self, found: LocalTransaction, answer: Callable[[ProtocolError | None], None]
    ) -> None:
        messages = found.routed
        failure = self._lost_retirement(found)
        for each in messages:
            if each.error is not None:
                failure = each.error.text
        self._forget(found)
        if failure:
            self._roll_back(found)
            answer(rolled_back(failure))
            return

        def done(is_accepted: bool) -> None:
            self._commits = [each for each in self._commits if each is not commit]
            failure = "partial tx completion" if not is_accepted else self._lost_retirement(found)
            if failure:
                self._roll_back(found)
                answer(rolled_back(failure))
                return
            for each in found.retired:
                self._deliveries.settle_runs(each.runs, each.outcome, each.words)
                if not each.said.settled:
                    self._deliveries.tell_settled(each.runs, each.said)
            answer(None)

        commit = Commit(self._owner, f"{self._owner.name} transaction", done)
        self._commits.append(commit)
        commit.publish(messages)

    def _lost_retirement(self, found: LocalTransaction) -> str:
        """Why retired deliveries cannot be settled; empty: they can."""
        for each in found.retired:
            for uid, renewals in each.renewals.items():
                if not self._is_held(uid, renewals):
                    return "a link whose deliveries the transaction retires is over"
        return ""

    def _is_held(self, uid: int, renewals: int) -> bool:
        """Whether the queue still counts on the consumer for deliveries of that time."""
        mine = self._deliveries.consuming.get(uid)
        return mine is not None and not mine.ended and mine.renewal() == renewals

    def _roll_back(self, found: LocalTransaction) -> None:
        """Posted messages are forgotten; retired ones go back."""
        retired, found.retired, found.posted = found.retired, [], []
        for each in retired:
            kept: list[TagRun] = []
            for run in each.runs:
                if self._is_held(int(run.uid), each.renewals[int(run.uid)]):
                    kept.append(run)
            if each.said.settled:
                self._deliveries.settle_runs(kept, FAIL, b"")
            else:
                self._deliveries.unacked.restore(kept)

    def _forget(self, found: LocalTransaction) -> None:
        """It is discharged, or can no longer be discharged."""
        self._open.pop(found.id, None)
        found.kept.let_go()
        if found.timer is not None:
            found.timer.cancel()

    def _ways(self, run: Transfers, names: bytes | None) -> list[Special]:
        plans = self._owner.plans()
        plans.refresh()
        plan = None
        if names is not None:
            plan = plans.get(names + b"\x00") or plans.make(names + b"\x00")
        return look(self._owner, run, names, plan)


def request_in(data: bytes, start: int, end: int) -> Described:
    """The declare or discharge in a message. ProtocolError: there is none."""
    sections = Sections()
    value: object = None
    if sections.walk(data, start, end) and sections.body_at < sections.footer_at:
        value = decode_value(data, sections.body_at, sections.footer_at)
    if isinstance(value, Described) and value.descriptor in VALUE_NAMES:
        request = value.value
        is_list = isinstance(request, Described) and isinstance(request.value, list)
        if isinstance(request, Described) and is_list and request.descriptor in REQUEST_NAMES:
            return request
    text = "a message to a coordinator must hold one declare or discharge as its value"
    raise ProtocolError(Condition.INVALID_FIELD, text, Scope.LINK)


def unknown(txn_id: object) -> ProtocolError:
    shown = txn_id.hex() if isinstance(txn_id, bytes) else repr(txn_id)
    text = f"the session has no transaction with the id {shown}"
    return ProtocolError(Condition.UNKNOWN_TRANSACTION, text, Scope.LINK)


def late(found: LocalTransaction) -> ProtocolError:
    text = f"transaction {found.id.hex()} was rolled back after {MS_MAX} ms"
    return ProtocolError(Condition.TRANSACTION_TIMEOUT, text, Scope.LINK)


def rolled_back(reason: str) -> ProtocolError:
    return ProtocolError(Condition.TRANSACTION_ROLLBACK, reason, Scope.LINK)

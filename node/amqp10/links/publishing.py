"""One publisher's link: runs of messages to queues, and outcomes back. Compiled.

The session that its queues know (their `SessionSink`). A link with an address has one plan of where
its messages go, so a run goes down whole; messages that need a look of their own (the anonymous
terminus, an exchange that routes by content, user-id, x-cc) are looked at one by one and go down in
runs with the same targets.

Credit: the codec grants again while fewer than 170 messages are unanswered. A message counts as
answered when every queue has taken it: a classic queue as soon as its flow control has room, a
quorum queue when it is committed. The outcome always waits for that which makes the message safe.
"""

from time import perf_counter
from typing import Final, Protocol, final

from mypy_extensions import i64

from node.amqp091.plans import Plan, Tracing
from node.amqp10.dynamic import Made
from node.amqp10.locality import queue_of_target
from node.amqp10.owner import Owner10
from node.amqp10.special import Special, is_special, look, rest_of
from queues.addresses.producer_window import LIMIT, SIZE_MIN, ProducerWindow
from queues.addresses.rate import BURST_S, ProducerRate, rate_after
from queues.machine.commands import EndSession, SessionId
from queues.queue_host import PublishingOnly
from queues.sessions.credit import LINK, CreditActor
from queues.sessions.publishing import Decided, Gate, Publisher, Targets
from queues.sessions.unacked import TagRun, Unacked
from warren.wire.amqp10.codec.performatives import DeliveryState, Error, Rejected
from warren.wire.amqp10.codec.serial import MASK
from warren.wire.amqp10.codec.values import ULong
from warren.wire.amqp10.errors import Condition, ProtocolError, Scope
from warren.wire.amqp10.link import Link
from warren.wire.amqp10.session import Session
from warren.wire.amqp10.settling import (
    ACCEPTED,
    REJECTED,
    RELEASED,
)
from warren.wire.amqp10.transfers import Transfers
from warren.wire.errors import ProtocolError as Refusal

OUT: Final = 1  # what stands for the link in the list of messages that are not decided
SETTLED: Final = 1  # bits of each: the client wants no outcome
TAKEN: Final = 2  # and new credit was granted for it

# Why a queue refuses: condition, text, reason.
FULL: Final = ("amqp:resource-limit-exceeded", "queue '{}' exceeded maximum length", "maxlen")
UNAVAILABLE: Final = ("amqp:precondition-failed", "queue '{}' is unavailable", "unavailable")


class PublishingOwner(Owner10, Protocol):
    """The endpoint of publishing links."""

    def mark_link(self, link: "PublishingLink") -> None:
        """The link has outcomes to send at the end of this turn."""


@final
class PublishingLink(PublishingOnly):
    """Messages that are on their way have tags in `publisher`; `_sent` has their delivery-ids."""

    def __init__(
        self,
        owner: PublishingOwner,
        core: Session,
        link: Link,
        uid: i64,
        names: bytes | None,
        address: str | None,
        window_bytes: int,
        made: Made | None = None,
    ) -> None:
        """`window_bytes`: that the client asks for; -1: it does not count bytes."""
        self.owner = owner
        self.core = core
        self.link = link
        self.uid: i64 = uid  # of the link, in its session
        self.address = address
        self.made = made  # the queue, if it was made for this link
        self.queue = queue_of_target(address)  # that the address names
        self.names = names  # None: the anonymous terminus
        self.ended = False  # takes nothing more
        self._queue_uid = 0  # of `queue`; 0: not attached yet, or no queue is named
        self._is_target_deleted = False
        self.is_over = False  # and tells nothing more
        self.in_work = False  # stands in the endpoint's list of links to flush
        self.published_count: i64 = 0
        self._session = owner.broker.identity.new_session()
        name = f"{owner.name} {link.name}"
        self._credit = CreditActor(name, owner.credit_spec(), None, LINK)
        self.plans = owner.plans()
        self.publisher = Publisher(self, owner.counts, owner.held, self.plans.hand_overs)
        self._is_handing_over = False  # of a publish for very many queues, some are left
        self.publisher.confirming = True
        self._key = b"" if names is None else names + b"\x00"
        self._plan: Plan | None = None  # of an exchange; what flows tell of it
        self.trace: Tracing | None = None  # while messages of the vhost are traced
        self.rate: ProducerRate | None = None  # of its publishes, if their address has one
        self._scheme = (0, 0)  # credit of the link while it is not held; 0: the node's own
        self._asked_bytes = window_bytes
        self.window: ProducerWindow | None = None  # of bytes, if it has one
        self._gate: Gate | None = None  # that its last messages passed, if it has a window
        self._is_held = False  # by a full address, or by its rate: no credit is granted
        self._sent = Unacked()
        self._full: dict[int, Rejected] = {}  # by queue that refused
        self._down: dict[int, Rejected] = {}  # the same of queues that cannot take anything
        self._why: dict[int, Rejected] = {}  # the last refusal of each queue

    @property
    def session(self) -> SessionId:
        return self._session

    @property
    def credit(self) -> CreditActor:
        return self._credit

    def start(self) -> None:
        """The link is up."""
        if self.queue is not None:
            owner = self.owner
            owner.dynamics.join(self.queue)
            queue = owner.broker.definitions.queue(owner.vhost, self.queue)
            owner.hints.join(self.link, self.core, queue)
            if queue is not None:
                self._queue_uid = queue.uid
                owner.broker.named_targets.join(queue.uid, self)
        elif self.names is not None:
            self.plans.refresh()
            self._resolve(self.plans.get(self._key) or self.plans.make(self._key))
        self._set_scheme()

    def _set_scheme(self) -> None:
        """Grant credit as the address wants it, and no more at once than its rate allows."""
        receiver = self.link.receiver
        assert receiver is not None
        credit, low = receiver.credit_max, receiver.credit_low
        addresses = self.owner.broker.addresses
        window_bytes = self._asked_bytes
        for limits in addresses.joined(self, self.owner.vhost, exchange_in(self.names), self.queue):
            if limits.window_bytes > 0:
                is_less = window_bytes < 0 or limits.window_bytes < window_bytes
                window_bytes = limits.window_bytes if is_less else window_bytes
            if limits.blocking_bytes >= 0:
                window_bytes = min(window_bytes, max(limits.blocking_bytes, SIZE_MIN))
            if limits.credits > 0:
                credit, low = limits.credits, limits.credits_low
            if limits.rate_max > 0:
                credit = min(credit, max(1, int(limits.rate_max * BURST_S)))
                low = min(low, credit // 2)
        self._scheme = (int(credit), int(low))
        if window_bytes > 0:
            self.window = ProducerWindow(window_bytes, self._asked_bytes > 0)
            self._tell_limit(self.window)
        self._grant()

    def _grant(self) -> None:
        """Grant credit by the scheme, unless the link is held: then none."""
        credit, low = self._scheme
        if self._is_held:
            low = -1
        elif self.window is not None:
            credit = self.window.credit(credit)
            low = min(low, credit // 2)
        self.core.set_scheme(self.link, credit, low)

    def _confirm(self, count: i64) -> None:
        """The broker has answered for so many messages: the client may send as many again."""
        self.core.confirm(self.link, count)
        if self.window is not None:
            self.window.answered(int(count))
            self._advance(self.window)

    def _advance(self, window: ProducerWindow) -> None:
        if self._is_held or self.ended:
            return
        if self._gate is not None and self.owner.broker.addresses.hold(self, self._gate):
            self._hold()  # The address became full after this link had published.
        elif not window.is_obeyed:
            self._grant()
        elif window.advance(None if self._gate is None else self._gate.room_bytes(window.size)):
            self._tell_limit(window)
            self.core.want_flow(self.link)

    def _tell_limit(self, window: ProducerWindow) -> None:
        """With the next flow, to a client that asked."""
        if window.is_obeyed:
            told: dict[str, object] = {LIMIT: ULong(window.limit)}
            link = self.link
            link.properties = (link.properties or {}) | told
            link.properties_short = (link.properties_short or {}) | told

    def _weigh_gate(self, count: i64) -> None:
        """It has published to an address with limits: grant no credit while it has to wait."""
        publisher = self.publisher
        gate = publisher.gate
        assert gate is not None
        publisher.gate = None
        self.rate = rate_after(gate, self.rate, int(count), publisher.now_s)
        must_wait = self.owner.broker.addresses.hold(self, gate)
        if self.rate is not None and self.rate.allowed(publisher.now_s) == 0:
            must_wait = True
            if not self._is_held:
                self.owner.call_later(self.rate.wait_ms(), self.address_has_room)
        if self.window is not None:
            self._gate = gate
        if must_wait:
            self._hold()

    def _hold(self) -> None:
        if not self._is_held:
            self._is_held = True
            self._grant()
            if self.window is not None and self.window.is_obeyed:
                # With credit it would send a message alone, as one that is larger than its window.
                self.core.grant(self.link, 0)

    @property
    def granted_messages(self) -> int:
        receiver = self.link.receiver
        return 0 if receiver is None else int(receiver.credit)

    @property
    def credit_source(self) -> CreditActor:
        return self._credit

    def address_has_room(self) -> None:
        """An address, or the rate, lets it go on."""
        if self.ended or self.owner.broker.addresses.is_waiting(self):
            return
        self._is_held = False
        self._grant()
        if self.window is not None:
            self._advance(self.window)
        self.owner.mark()

    def _resolve(self, plan: Plan) -> None:
        """Where the plan of an exchange leads to one queue alone, flows tell of that."""
        self._plan = plan
        owner = self.owner
        hosts = plan.targets.hosts
        queue = None
        if (plan.plain or plan.traced) and len(hosts) == 1:
            queue = owner.broker.definitions.queue(owner.vhost, hosts[0].name)
        owner.hints.resolve(self.link, self.core, queue)

    def leave(self) -> None:
        """The client has detached the link: it takes nothing more, but what it has sent is still
        answered, as long as its session lives.
        """
        if not self.ended:
            self._part()
            self.flush()

    def end(self) -> None:
        """All is over; publishes under way continue without an outcome."""
        if not self.ended:
            self._part()
        if self.is_over:
            return
        self.is_over = True
        if self._is_held:
            self.owner.broker.addresses.gone(self)
        if not self._is_handing_over:
            self._leave_queues()

    def _handed_over(self) -> None:
        """All queues have what was published."""
        self._is_handing_over = False
        if self.is_over:
            self._leave_queues()

    def _leave_queues(self) -> None:
        """Behind all that was published."""
        self.publisher.let_go()
        for outbox in self.publisher.outboxes.values():
            outbox.host.command(self, EndSession(self._session))
        self._credit.peer_down_everywhere()

    def _part(self) -> None:
        self.ended = True
        self.owner.broker.addresses.left(self)
        if self.queue is not None:
            self.owner.dynamics.leave(self.queue, self.made)
            self.owner.broker.named_targets.leave(self._queue_uid, self)
        self.owner.hints.leave(self.link)

    # Down

    def take(self, run: Transfers) -> Transfers | None:
        """Publish messages; return those for which this turn has no time. The caller gives these
        again, before anything that came later.

        ProtocolError: the link, or more, ends.
        """
        plans = self.plans
        plans.refresh()
        names = self.names
        if names is None:
            return self._take_special(run, None)
        plan = plans.get(self._key)
        if plan is None:
            plan = None if self.owner.must_wait() else plans.make_some(self._key)
            if plan is None:
                return run
        if plan is not self._plan and self.queue is None:
            self._resolve(plan)
        if plan.plain and not is_special(run, self.owner.frame_max):
            self._publish(run, plan.targets, names)
            return None
        return self._take_special(run, plan)

    def _take_special(self, run: Transfers, plan: Plan | None) -> Transfers | None:
        if self.owner.must_wait():
            return run
        looked_at = look(self.owner, run, self.names, plan)
        for special in looked_at:
            if special.error is None:
                if self.trace is not None:
                    self.trace.published_10(special.run, special.targets, special.names)
                self._publish(special.run, special.targets, special.names)
            else:
                self._reject(special, special.error)
        return rest_of(run, looked_at)

    def _reject(self, special: Special, error: ProtocolError) -> None:
        """Refuse messages with `rejected`, or by an error of the link.

        The link ends if its target is what refuses them, and if the client wants no outcome.
        """
        is_about_message = error.condition == Condition.MESSAGE_SIZE_EXCEEDED
        if special.run.settled or (self.names is not None and not is_about_message):
            raise error
        reason = Error(condition=error.condition.value, description=error.text)
        if self.window is not None:
            self.window.came(int(special.run.count), int(special.run.payload_total()))
        self._answer(special.run, REJECTED, Rejected(error=reason))

    def _publish(self, run: Transfers, targets: Targets, names: bytes) -> None:
        count = run.count
        if self.window is not None:
            self.window.came(int(count), int(run.payload_total()))
        counts = self.owner.counts
        self.published_count += count
        counts.received += count
        if not run.settled:
            counts.received_confirm += count
        if len(targets.hosts) == 0:
            counts.unroutable += count
            if not run.settled:
                counts.unroutable_returned += count
            self._tally(names, count, targets)
            self._answer(run, RELEASED, None)
            return
        self.owner.count_published(count)
        self._tally(names, count, targets)
        publisher = self.publisher
        publisher.now_s = perf_counter()
        tag = publisher.next_tag
        if publisher.publish_transfers(run, targets, names):
            self.owner.mark_link(self)
        if publisher.is_behind and not self._is_handing_over:
            self._is_handing_over = True
            self.owner.hand_over(publisher, self._handed_over)
        if publisher.gate is not None:
            self._weigh_gate(count)
        kind: i64 = SETTLED if run.settled else 0
        if not self._credit.is_blocked() and is_classic(targets):
            kind |= TAKEN
            self._confirm(count)
        for first, length in run.id_runs(0, count):
            self._sent.add(tag, length, OUT, kind, first)
            tag += length

    def _tally(self, names: bytes, count: i64, targets: Targets) -> None:
        """For who looks at exchanges."""
        tally = self.owner.counts.exchanges
        if tally is None:
            return
        vhost, keys, number = self.owner.vhost, [names], int(count)
        tally.count(vhost, keys, [0], number, [len(targets.hosts)])
        if tally.pairs is not None:
            channel = f"{self.owner.name} ({int(self.core.channel)})"
            tally.pairs.count(channel, vhost, keys, [0], number, [targets.names()])

    def _answer(self, run: Transfers, outcome: i64, state: Rejected | None) -> None:
        """The outcome is known at once."""
        if not run.settled:
            for first, length in run.id_runs(0, run.count):
                self.core.settle(first, length, outcome, state)
        self._confirm(run.count)
        self.owner.mark()

    def keep(self, run: Transfers, state: DeliveryState) -> None:
        """A transaction keeps the run: tell the client this state, and grant new credit."""
        self.published_count += run.count
        if not run.settled:
            self.core.settle(run.delivery_id, run.count, ACCEPTED, state)
        if self.window is not None:
            self.window.came(int(run.count), int(run.payload_total()))
        self._confirm(run.count)

    # Up

    def flush(self) -> None:
        """Tell what is decided."""
        if self.is_over:
            return
        publisher = self.publisher
        publisher.now_s = perf_counter()
        for decided in publisher.take_outcomes():
            self._decide(decided)
        if self.ended and publisher.all_decided():
            self.end()

    def _decide(self, decided: Decided) -> None:
        runs: list[TagRun] = []
        self._sent.take_within(decided.first, decided.last, runs)
        for run in runs:
            if run.number & SETTLED == 0:
                if decided.refused_by == 0:
                    self.core.settle(run.first & MASK, run.count, ACCEPTED)
                else:
                    state = self._refusal(int(decided.refused_by))
                    self.core.settle(run.first & MASK, run.count, REJECTED, state)
            if run.number & TAKEN == 0 and not self.ended:
                self._confirm(run.count)

    def _refusal(self, by: int) -> Rejected:
        """Why a queue, or the address with the number -`by`, refused a message."""
        if by > 0:
            return self._why[by]
        text = self.owner.broker.addresses.refusal_text(-by)
        return Rejected(error=Error(condition=FULL[0], description=text, info={"reason": "full"}))

    def _refusal_of(self, uid: int) -> Rejected:
        """Why a queue took no more; the same object each time, so that outcomes are joined."""
        outbox = self.publisher.outboxes.get(uid)
        name = "" if outbox is None else outbox.host.name
        is_full = self._can_be_full(name)
        reasons = self._full if is_full else self._down
        state = reasons.get(uid)
        if state is None:
            condition, text, reason = FULL if is_full else UNAVAILABLE
            error = Error(
                condition=condition,
                description=text.format(name),
                info={"queue": name, "reason": reason},
            )
            state = Rejected(error=error)
            if outbox is not None:
                reasons[uid] = state
        return state

    def _can_be_full(self, name: str) -> bool:
        """Whether its length may be why the queue refuses: not one that the log does not hold whole
        (0015), whose home is down or lags behind, or that is about to be deleted."""
        broker = self.owner.broker
        queue = broker.definitions.queue(self.owner.vhost, name)
        if queue is None:
            return False
        try:
            broker.queues.check_served(queue)
        except Refusal:
            return False
        return broker.rules.can_refuse(queue)

    def on_confirms(self, uid: int, upto_seq: int) -> None:
        if self.publisher.on_confirms(uid, upto_seq):
            self.owner.mark_link(self)
        else:
            self.owner.mark()

    def on_refused(self, uid: int, first_seq: int, count: int) -> None:
        self._why[uid] = self._refusal_of(uid)
        self.publisher.on_refused(uid, first_seq, count)

    def on_gone(self, uid: int) -> None:
        if self.publisher.on_gone(uid):
            self.owner.mark_link(self)
        if self._is_target_deleted and uid == self._queue_uid:
            self._detach_deleted()

    def target_deleted(self) -> None:
        """The queue that the target names was deleted: detach, after the outcomes."""
        self._is_target_deleted = True
        if self._queue_uid not in self.publisher.outboxes:
            self._detach_deleted()  # Else the queue answers with `on_gone`.

    def _detach_deleted(self) -> None:
        if self.ended:
            return
        text = f"queue '{self.queue}' in vhost '{self.owner.vhost}' was deleted"
        self.leave()
        self.core.detach(self.link, ProtocolError(Condition.RESOURCE_DELETED, text, Scope.LINK))
        self.owner.mark()


def is_classic(targets: Targets) -> bool:
    """Whether none of them waits for other nodes to take a message."""
    return not any(host.quorum for host in targets.hosts)


def exchange_in(names: bytes | None) -> str:
    """The exchange in what a chunk has of names."""
    return "" if names is None else names[1 : 1 + names[0]].decode("utf-8", "replace")

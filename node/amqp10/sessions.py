"""The node's side of one AMQP 1.0 session: its links, and the deliveries that they sent. Compiled.

Takes the codec's events for its links and outcomes; a wrong peer is settled in `take`, `attach` and
`settled`, which end the link or the session. Deliveries of all its consumers stand in one list by
delivery-id, extended to 64 bits (the tag): a disposition of a thousand costs as much as one.
"""

import logging
from collections.abc import Callable
from typing import Final, Protocol, final

from mypy_extensions import i64

from node.amqp091.plans import Tracing
from node.amqp10.dynamic import Made
from node.amqp10.link_pair import LinkPair, ManagementLinks, is_management
from node.amqp10.links.browsing import BrowsingLink, is_browser
from node.amqp10.links.consuming import ConsumingLink, ConsumingOwner
from node.amqp10.links.lease_link import LeaseLink, is_leased
from node.amqp10.links.packed_link import PackedLink, is_packed
from node.amqp10.links.publishing import PublishingLink, PublishingOwner
from node.amqp10.subscriptions import is_subscription, subscribe
from node.amqp10.termini import (
    Consumption,
    check_expiry,
    consumption,
    error_of,
    publication,
    retried,
    window_asked,
)
from node.amqp10.transactions import Transactions
from node.auth.asked_access import Undecided
from queues.conversion.annotated import words_of
from queues.machine.annotations import WORDS_BYTES_MAX
from queues.machine.commands import ACCEPT, FAIL, REJECT, RELEASE
from queues.sessions.unacked import TagRun, Unacked
from warren.wire.amqp10 import settling
from warren.wire.amqp10.arrivals import Received
from warren.wire.amqp10.codec.performatives import (
    AnyTarget,
    Coordinator,
    Modified,
    Source,
    Target,
    TransactionalState,
)
from warren.wire.amqp10.codec.serial import MASK, ahead
from warren.wire.amqp10.errors import Condition, ProtocolError, Scope
from warren.wire.amqp10.events import (
    AttachRequested,
    Settled,
    Withdrawn,
)
from warren.wire.amqp10.link import REQUESTED, Link
from warren.wire.amqp10.sender import Run
from warren.wire.amqp10.session import Session
from warren.wire.amqp10.settling import outcome_of, says_more
from warren.wire.amqp10.transfers import Transfers
from warren.wire.errors import ProtocolError as Refusal

log = logging.getLogger("warren.connection")

ReadingLink = BrowsingLink | LeaseLink | PackedLink
FIRST_TAG: Final = 1 << 32  # so that tags are positive, and their low half the delivery-id


class SessionOwner(PublishingOwner, ConsumingOwner, Protocol):
    """The endpoint of a session."""


@final
class Session10:
    """Invariant: `core.owner` and the `owner` of each of its links point here while they live."""

    def __init__(self, owner: SessionOwner, core: Session) -> None:
        self.owner = owner
        self.core = core
        self.consuming: dict[int, ConsumingLink] = {}  # by uid
        self.browsing: dict[int, ReadingLink] = {}
        self.publishing: dict[int, PublishingLink] = {}
        self._parting: list[ConsumingLink] = []  # detached, until their queue has let go
        self._leaving: list[PublishingLink] = []  # detached, with outcomes still to be told
        self.ended = False
        self.is_parting = False  # the client's end waits for queues
        self._management: ManagementLinks | None = None
        self._transactions: Transactions | None = None
        self.unacked = Unacked()  # `uid` of a run is that of the link
        self._next_uid: i64 = 1  # of links; never used twice in a session
        self._next_tag: i64 = FIRST_TAG | core.departures.next_id
        self.published_count: i64 = 0
        self.delivered_count: i64 = 0  # to links that settle
        self.delivered_no_ack_count: i64 = 0
        self.redelivered_count: i64 = 0
        self.acknowledged_count: i64 = 0
        self.confirmed_count: i64 = 0  # by links that are gone, until they went

    def end(self) -> None:
        """The session is over, and so are its links."""
        self.ended = True
        if self._transactions is not None:
            self._transactions.end()
        for consuming in [*self.consuming.values(), *self._parting]:
            consuming.end()
        self._parting = []
        for publishing in [*self.publishing.values(), *self._leaving]:
            publishing.end()
        self._leaving = []
        for browsing in self.browsing.values():
            browsing.end()
        self.browsing = {}
        self.consuming = {}
        self.publishing = {}
        if self._management is not None:
            self._management.end()

    def queue_uids(self) -> set[int]:
        """The queues that its links use, without those that only browse."""
        uids = {each.host.uid for each in self.consuming.values()}
        for publishing in self.publishing.values():
            uids.update(publishing.publisher.outboxes)
        return uids

    def part(self) -> None:
        """The client has ended the session: have the queues take back what it holds."""
        self.is_parting = True
        if self._transactions is not None:
            self._transactions.end()
        for consuming in list(self.consuming.values()):
            self.detached(consuming.link)

    def has_parted(self) -> bool:
        """Whether every queue has taken back what the session's consumers held."""
        return all(each.is_over for each in self._parting)

    def set_trace(self, trace: Tracing | None) -> None:
        """From now on messages are copied, or no longer."""
        for consuming in self.consuming.values():
            consuming.trace = trace
        for publishing in self.publishing.values():
            publishing.trace = trace

    def fail(self, error: ProtocolError) -> None:
        """End the session for this error."""
        log.info("session %d: %s", self.core.channel, error, extra=self.owner.ids())
        # The links first: what waits to be sent is theirs.
        self.end()
        self.core.end(error)
        self.owner.mark()

    # Links

    def attach(self, event: AttachRequested) -> None:
        """The client wants a link."""
        link = event.link
        try:
            if is_management(event.attach):
                self._pairs().attach(link, event.attach)
            elif isinstance(event.attach.target, Coordinator) and link.receiver is not None:
                self._begin_transactions().attach(link, event.attach)
            elif link.receiver is not None:
                self._attach_publisher(event)
            else:
                self._attach_consumer(event)
        except Undecided as undecided:
            self.owner.when(undecided, lambda: self._attach_again(event))
        except ProtocolError as error:
            self._refuse(link, error)
        self.owner.mark()

    def _attach_again(self, event: AttachRequested) -> None:
        """A permission that it needs is known."""
        if not self.ended and event.link.status == REQUESTED:
            self.attach(event)

    def _begin_transactions(self) -> Transactions:
        if self._transactions is None:
            self._transactions = Transactions(self.owner, self.core, self)
        return self._transactions

    def _pairs(self) -> ManagementLinks:
        if self._management is None:
            limit = self.core.limits.max_frame_size
            management = self.owner.management()
            self._management = ManagementLinks(self.core, management, self.owner.mark, limit)
        return self._management

    def _attach_publisher(self, event: AttachRequested, made: Made | None = None) -> None:
        link = event.link
        asked = event.attach.target
        if made is None and isinstance(asked, Target) and asked.dynamic:
            self._make_queue(event, asked, self._attach_publisher)
            return
        names, target = publication(self.owner, event.attach, made)
        uid = self._next_uid
        window_bytes = window_asked(event.attach)
        mine = PublishingLink(
            self.owner, self.core, link, uid, names, target.address, window_bytes, made
        )
        self._next_uid += 1
        if self.core.accept(link, event.attach.source, target):
            mine.trace = self.owner.trace_of(int(self.core.channel))
            link.owner = mine
            self.publishing[int(mine.uid)] = mine
            mine.start()

    def _attach_consumer(self, event: AttachRequested, made: Made | None = None) -> None:
        link = event.link
        source = event.attach.source
        if made is None and source is not None and source.dynamic:
            self._make_queue(event, source, self._attach_consumer)
        elif is_leased(event.attach):
            mine = LeaseLink(self.owner, self.core, link, int(self._next_uid), event.attach)
            self._browse(mine, source, event.attach.target)
        elif made is None and is_subscription(event.attach):
            self._subscribe(event)
        else:
            asked = consumption(self.owner, event.attach, made)
            if is_browser(source):
                self._attach_browser(link, asked)
            elif is_packed(asked.source):
                packed = PackedLink(self.owner, self.core, link, int(self._next_uid), asked)
                self._browse(packed, asked.source, asked.target)
            else:
                self._consume(link, asked)

    def _consume(self, link: Link, asked: Consumption) -> None:
        mine = ConsumingLink(self.owner, self.core, link, self._next_uid, asked, self.unacked)
        self._next_uid += 1
        mine.trace = self.owner.trace_of(int(self.core.channel))
        link.owner = mine
        self.consuming[int(mine.uid)] = mine
        mine.start()

    def _subscribe(self, event: AttachRequested) -> None:
        """Attach a consumer to the queue of a subscription, once that is there."""
        link = event.link

        def consume(queue: str, made: Made | None) -> None:
            if self.ended or link.status != REQUESTED:
                if made is not None:
                    self.owner.dynamics.give_up(made)
                return
            self._consume(link, consumption(self.owner, event.attach, made, queue))
            self.owner.mark()

        def opened(queue: str, made: Made | None) -> None:
            retried(self.owner, lambda: consume(queue, made), refused)

        def refused(error: ProtocolError) -> None:
            if not self.ended and link.status == REQUESTED:
                self._refuse(link, error)
                self.owner.mark()

        try:
            subscribe(self.owner, event.attach, opened, refused)
        except Refusal as refusal:
            raise error_of(refusal) from refusal

    def _attach_browser(self, link: Link, asked: Consumption) -> None:
        queue = self.owner.broker.definitions.queue(asked.host.vhost, asked.host.name)
        assert queue is not None
        mine = BrowsingLink(self.owner, self.core, link, int(self._next_uid), queue, asked.selector)
        self._browse(mine, asked.source, asked.target)

    def _browse(self, mine: ReadingLink, source: Source | None, target: AnyTarget | None) -> None:
        self._next_uid += 1
        if self.core.accept(mine.link, source, target):
            mine.link.owner = mine
            self.browsing[mine.uid] = mine
            mine.start()

    def _make_queue(
        self,
        event: AttachRequested,
        terminus: Source | Target,
        attach: Callable[[AttachRequested, Made], None],
    ) -> None:
        """Attach the link once there is a queue of its own."""
        link = event.link
        dynamics = self.owner.dynamics

        def attach_to(queue: Made) -> None:
            if self.ended or link.status != REQUESTED:
                dynamics.give_up(queue)
                return
            attach(event, queue)
            self.owner.mark()

        def made(queue: Made) -> None:
            def give_up(error: ProtocolError) -> None:
                dynamics.give_up(queue)
                refused(error)

            retried(self.owner, lambda: attach_to(queue), give_up)

        def refused(error: ProtocolError) -> None:
            if not self.ended and link.status == REQUESTED:
                self._refuse(link, error)
                self.owner.mark()

        check_expiry(terminus.expiry_policy)
        wanted = dynamics.wanted(terminus)
        retried(self.owner, lambda: dynamics.make(wanted, made, refused), refused)

    def _refuse(self, link: Link, error: ProtocolError) -> None:
        if error.scope is Scope.LINK:
            log.info("link %s: %s", link.name, error, extra=self.owner.ids())
            self.core.refuse(link, error)
        else:
            self.fail(error)

    def detached(self, link: Link, closed: bool = False) -> None:
        """The link is over: the client detached it, or was wrong."""
        mine = link.owner
        if isinstance(mine, ConsumingLink):
            held = self.unacked.take_of(mine.uid)
            if closed and mine.asked.is_durable and not mine.ended:
                self._unsubscribe(mine, held)
            else:
                mine.leave(held)
            self.consuming.pop(int(mine.uid), None)
            self._parting = [each for each in self._parting if not each.is_over]
            if not mine.is_over:
                self._parting.append(mine)
        elif isinstance(mine, PublishingLink):
            mine.leave()
            self.publishing.pop(int(mine.uid), None)
            self._leaving = [each for each in self._leaving if not each.is_over]
            if not mine.is_over:
                self._leaving.append(mine)
            self.confirmed_count += mine.publisher.confirmed_count
        elif isinstance(mine, (BrowsingLink, LeaseLink, PackedLink)):
            mine.end()
            self.browsing.pop(mine.uid, None)
            self.unacked.forget(mine.uid)
        elif isinstance(mine, (LinkPair, Transactions)):
            mine.leave(link)
        link.owner = None
        self.owner.mark()

    def _unsubscribe(self, mine: ConsumingLink, held: list[TagRun]) -> None:
        try:
            mine.unsubscribe()
        except Refusal as refusal:
            text = "link %s: the subscription stays: %s"
            log.info(text, mine.link.name, refusal, extra=self.owner.ids())
            mine.leave(held)

    # What the client sends

    def take(self, event: Received) -> Transfers | None:
        """Messages of a publisher, or requests; return those that wait for the next turn."""
        mine = event.link.owner
        run = event.transfers
        if isinstance(mine, LinkPair):
            mine.received(run)
            return None
        if isinstance(mine, Transactions):
            return self._coordinate(event.link, mine, run)
        if not isinstance(mine, PublishingLink) or mine.ended:
            return None
        self.published_count += run.count
        rest: Transfers | None = None
        try:
            if len(run.transaction) > 0:
                rest = self._begin_transactions().post(mine, run)
            else:
                rest = mine.take(run)
            if rest is not None:
                self.published_count -= rest.count
        except ProtocolError as error:
            if error.scope is Scope.LINK:
                log.info("link %s: %s", mine.link.name, error, extra=self.owner.ids())
                mine.leave()
                self.core.detach(mine.link, error)
            else:
                self.fail(error)
        self.owner.mark()
        return rest

    def _coordinate(self, link: Link, mine: Transactions, run: Transfers) -> Transfers | None:
        """Handle declares and discharges; return those that wait for the next turn."""
        rest: Transfers | None = None
        try:
            rest = mine.received(link, run)
        except ProtocolError as error:
            log.info("link %s: %s", link.name, error, extra=self.owner.ids())
            mine.leave(link)
            self.core.detach(link, error)
        self.owner.mark()
        return rest

    def withdrawn(self, event: Withdrawn) -> None:
        mine = event.link.owner
        if isinstance(mine, ConsumingLink) and not mine.ended:
            mine.give_back([(first, count) for _, first, count in event.runs])
        elif isinstance(mine, (LinkPair, BrowsingLink, LeaseLink, PackedLink)):
            mine.withdrawn(event.runs)

    def flowed(self, link: Link) -> None:
        mine = link.owner
        if isinstance(mine, ConsumingLink) and not mine.ended:
            mine.see_available()
        elif isinstance(mine, (LinkPair, BrowsingLink, LeaseLink, PackedLink)):
            mine.flowed()

    def settled(self, event: Settled) -> None:
        """The client's word on deliveries first..last."""
        outcome = event.outcome
        if not event.sent or outcome == settling.RECEIVED:
            return
        if outcome == settling.UNDECIDED and not event.settled:
            return
        transaction = b""
        if outcome == settling.OTHER:
            if not isinstance(event.state, TransactionalState):
                text = "a disposition of deliveries with the state of a coordinator"
                self.fail(ProtocolError(Condition.NOT_ALLOWED, text, Scope.SESSION))
                return
            transaction = event.state.txn_id
            event = within(event, event.state)
        words = b""
        if isinstance(event.state, Modified) and event.state.message_annotations:
            try:
                words = checked_words(event.state.message_annotations)
            except ProtocolError as error:
                self.fail(error)
                return
        first = self._next_tag + ahead(event.first, self._next_tag & MASK)
        last = first + ahead(event.last, event.first)
        taken: list[TagRun] = []
        self.unacked.take_within(first, last, taken)
        if len(transaction) > 0:
            try:
                kept = int(queue_outcome(event))
                self._begin_transactions().retire(transaction, taken, event, kept, words)
            except ProtocolError as error:
                self.fail(error)
            return
        self.settle_runs(taken, queue_outcome(event), words)
        if not event.settled:
            self.tell_settled(taken, event)

    def tell_settled(self, runs: list[TagRun], event: Settled) -> None:
        """The client waits for us to settle, too."""
        outcome: i64 = settling.RELEASED if event.outcome == settling.UNDECIDED else event.outcome
        for run in runs:
            self.core.settle_sent(run.tag & MASK, run.count, outcome, event.state)
        self.owner.mark()

    def settle_runs(self, runs: list[TagRun], outcome: i64, words: bytes) -> None:
        """Tell the queues, once for what is of one link."""
        length = len(runs)
        i = 0
        while i < length:
            uid = runs[i].uid
            settled: list[tuple[int, int]] = []
            total: i64 = 0
            while i < length and runs[i].uid == uid:
                settled.append((int(runs[i].first), int(runs[i].count)))
                total += runs[i].count
                i += 1
            mine = self.consuming.get(int(uid))
            if mine is None:
                continue  # A browsing link, or one that is over.
            if outcome == ACCEPT:
                self.owner.counts.acknowledged += total
                self.acknowledged_count += total
                if mine.host.quorum:
                    self.owner.counts.quorum.acknowledged += total
            if not mine.ended:
                mine.settle(outcome, settled, words)

    # Sending

    def write(self, budget: i64) -> bool:
        """Write deliveries of about `budget` bytes; return whether more could be written."""
        if self.core.has_work():
            self.core.write(self, budget)
        return self.core.has_work()

    def grant(self) -> None:
        """Tell the queues what the clients allow."""
        for link, credit in self.core.take_queue_credits():
            mine = link.owner
            if isinstance(mine, (ConsumingLink, BrowsingLink, LeaseLink, PackedLink)):
                mine.grant(credit)

    def fetch(self, link: Link, run: Run) -> bool:
        mine = link.owner
        if isinstance(mine, ConsumingLink):
            return mine.fetch(run)
        assert isinstance(mine, LeaseLink)
        return mine.fetch(run)

    def sent(self, link: Link, run: Run, delivery_id: int, count: int) -> None:
        mine = link.owner
        tag = self._next_tag
        assert tag & MASK == delivery_id
        self._next_tag = tag + count
        if not isinstance(mine, ConsumingLink):
            if isinstance(mine, LinkPair):
                mine.sent(run)
            elif isinstance(mine, BrowsingLink):
                if not run.settled:
                    self.unacked.add(tag, count, mine.uid, 1, run.first)
                mine.sent()
            elif isinstance(mine, PackedLink):
                mine.sent()
            return
        if run.acquired:
            self.redelivered_count += count
        if run.settled:
            self.delivered_no_ack_count += count
        else:
            self.delivered_count += count
            self.unacked.add(tag, count, mine.uid, 1, run.first)
        mine.sent(run, count)


def within(event: Settled, state: TransactionalState) -> Settled:
    """The event with the outcome that the transactional state holds; without one: accepted."""
    inner = state.outcome
    outcome: i64 = settling.ACCEPTED if inner is None else outcome_of(inner)
    kept = inner if says_more(inner) else None
    return Settled(event.session, event.sent, event.first, event.last, event.settled, outcome, kept)


def queue_outcome(event: Settled) -> i64:
    """What an outcome means to the queue."""
    if event.outcome == settling.ACCEPTED:
        return ACCEPT
    if event.outcome == settling.REJECTED:
        return REJECT
    state = event.state
    if event.outcome == settling.MODIFIED and isinstance(state, Modified):
        if state.undeliverable_here:
            return REJECT
        if state.delivery_failed:
            return FAIL
    return RELEASE


def checked_words(annotations: dict[str, object]) -> bytes:
    """What `modified` says of a message, for the queue. ProtocolError: that is not allowed."""
    try:
        words = words_of(annotations)
    except ValueError as error:
        raise ProtocolError(Condition.INVALID_FIELD, str(error), Scope.SESSION) from error
    if len(words) > WORDS_BYTES_MAX:
        text = f"message-annotations of {len(words)} bytes, the limit is {WORDS_BYTES_MAX}"
        raise ProtocolError(Condition.RESOURCE_LIMIT_EXCEEDED, text, Scope.SESSION)
    return words

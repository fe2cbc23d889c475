"""One AMQP 0-9-1 channel: what the client asks, in order, and what the queues answer. Compiled.

Takes the events of the codec for its channel number and the effects of the queues (it is their
`SessionSink`). Publishing is in `queues.sessions.publishing`, consuming in `deliveries`, basic.get
in `basic_get`, definitions in `definition_methods`, the content of a transaction in `transaction`.
While the channel waits for an answer (a declare for the log, a commit for its confirms) it is
*busy*: its later events wait in `_stash`, in order, and the endpoint stops reading if they grow.
"""

from collections import deque
from collections.abc import Callable
from time import perf_counter
from typing import Final, final

from mypy_extensions import i64

from node.amqp091.basic_get import Getting
from node.amqp091.channel_owner import Owner
from node.amqp091.consumer_arguments import (
    cancels_on_failover,
    consumer_terms,
    refusal_text,
    selector_of_consumer,
    timed_out_text,
)
from node.amqp091.deliveries import Consumer091, Deliveries
from node.amqp091.delivery_ids import delivery_ids
from node.amqp091.plans import Parted, PlanCache, Tracing
from node.amqp091.stream_rules import refuse_get, start_of_consumer
from node.amqp091.transaction import Transaction
from node.connections.direct_reply_to import REPLY_TO, REPLY_TO_BYTES, name_answers
from node.connections.session_cleanup import SessionCleanup
from node.definitions.definition_changes import leaderless_error
from queues.addresses.rate import ProducerRate
from queues.hosts.effect_dispatch import number_of
from queues.machine.commands import (
    Command,
    ConsumerKey,
    Get,
    Inspect,
    Purge,
    Retire,
    SessionId,
)
from queues.queue_host import QueueHost
from queues.remote.quorum_proxy import QuorumProxy
from queues.routing.pace import RoutingShare
from queues.sessions.counts import Counts
from queues.sessions.credit import CHANNEL, CreditActor
from queues.sessions.publishing import Held, Publisher, Targets
from queues.sessions.unacked import TagRun
from warren.wire.amqp091 import methods
from warren.wire.amqp091.connection import Connection
from warren.wire.amqp091.deliver import write_ack, write_nack
from warren.wire.amqp091.events import (
    INFO_EXPIRATION,
    INFO_HEADERS,
    INFO_REPLY_TO,
    INFO_USER_ID,
    Called,
    Publishes,
    Settles,
)
from warren.wire.errors import ProtocolError, ReplyCode, Scope

SPECIAL_INFO: Final = INFO_EXPIRATION | INFO_USER_ID  # each message needs a look
ODD_INFO: Final = SPECIAL_INFO | INFO_HEADERS | INFO_REPLY_TO  # the event may need one
TX_COMMIT: Final = (90, 20)
COMMIT_TRIES: Final = 3  # that are routed in slices; then a commit is routed in one turn
SMALL_EVENT_BYTES: Final = 256
WRITE_BYTES: Final = 256 * 1024  # of deliveries, per channel and turn


@final
class Channel091:
    """State of one open channel; also the session that its queues know."""

    def __init__(
        self, owner: Owner, connection: Connection, number: i64, session: SessionId, held: Held
    ) -> None:
        self.owner = owner
        self.connection = connection
        self.number: i64 = number
        self._session = session
        name = f"{owner.name} ({number})"
        self._credit = CreditActor(name, owner.credit_spec(), self._on_unblocked, CHANNEL)
        self.counts: Counts = owner.counts
        self._held = held
        self.deliveries = Deliveries(
            *(self, self, connection, number, self.counts, owner.oversized), owner.sent_clock
        )
        self.deliveries.spans_quorum = owner.quorum_global_qos()
        self.getting = Getting(
            self, connection, number, self.deliveries, self.counts, owner.oversized
        )
        self.rate: ProducerRate | None = None  # of its publishes, if their address has one
        self.plans: PlanCache = owner.plan_cache()
        self.publisher = Publisher(self, self.counts, held, self.plans.hand_overs)
        self.current_queue = ""  # queue.declare remembers the last name
        self.flow_active = True
        self.ended = False
        self.in_work = False  # stands in the endpoint's list of channels to flush
        self._busy = False
        self._share = RoutingShare()
        self._resuming = False
        self._is_handing_over = False  # of a publish for very many queues, some are left
        self._stash: deque[Publishes | Settles | Called] = deque()
        self.stash_bytes: i64 = 0
        self._awaited: Callable[[int, int], None] | None = None
        self._takes_known_counts = False  # in place of the answer of a queue without a leader
        self._proposed = False  # waits for a definition to be committed
        self._awaiting_uid: i64 = 0  # the queue whose answer is awaited
        self._cancelling: methods.BasicCancel | None = None
        self._attaching: dict[int, bool] = {}  # consumer number -> no-wait
        self._answers: Consumer091 | None = None  # of direct reply-to
        self._deleting: i64 = 0  # the queue that this channel deletes
        self._cancelled_by_it: list[Consumer091] = []  # told behind its answer
        self._leaving: list[
            Consumer091
        ] = []  # of the ended channel, until they are reported as gone
        self._transaction: Transaction | None = None
        self._keeping = False  # publishes go to the transaction
        self._refused = False  # in the commit under way, some publish was
        self._routed: list[Parted] | None = None  # by the commit under way, to be handed down
        self.published_count: i64 = 0
        self.returned_count: i64 = 0
        self.trace: Tracing | None = None

    @property
    def session(self) -> SessionId:
        return self._session

    @property
    def credit(self) -> CreditActor:
        return self._credit

    @property
    def transaction(self) -> Transaction | None:
        """What it keeps until commit, if it is transactional."""
        return self._transaction

    def set_trace(self, trace: Tracing | None) -> None:
        """From now on messages are copied, or no longer."""
        self.trace = trace
        self.deliveries.trace = trace
        self.getting.trace = trace

    def _on_unblocked(self) -> None:
        self.owner.mark()

    # Events of the client

    def handle(self, event: Publishes | Settles | Called) -> None:
        """One event, now or after what is awaited; raise ProtocolError if the client is wrong."""
        if self._busy:
            self._stash.append(event)
            self._count_stash(held_bytes(event))
            return
        if isinstance(event, Publishes):
            self._publish(event)
        elif isinstance(event, Settles):
            self.deliveries.settle(event)
        else:
            self._call(event.method)

    def wait(self, uid: i64) -> None:
        """From now on events wait until `resume`; `uid` is the queue that will answer, or 0."""
        self._busy = True
        self._awaiting_uid = uid
        self._proposed = uid == 0

    def resume(self) -> None:
        """What was awaited has come: go on with what waits, in order."""
        self._busy = False
        self._awaiting_uid = 0
        self._proposed = False
        if len(self._stash) > 0 and not self._resuming:
            self._resuming = True
            self.owner.between_steps(self._work_off)

    def _work_off(self) -> None:
        """Handle what waits, up to the next event that has to be answered first."""
        stash = self._stash
        while len(stash) > 0 and not self._busy and not self.ended:
            event = stash.popleft()
            self._count_stash(-held_bytes(event))
            self.owner.dispatch(self, event)
        self._resuming = False
        self.owner.mark()  # More may wait in the connection until nothing waits here.

    def _count_stash(self, size: i64) -> None:
        self.stash_bytes += size
        self._held.waiting_bytes += size

    def put_off(self, event: Publishes | Settles | Called) -> None:
        """Handle the event again in the next `step`, and what comes behind it later."""
        self._stash.appendleft(event)
        self._count_stash(held_bytes(event))
        self._busy = True

    def waits_again(self) -> bool:
        """Whether the answer just handled led to another question (an inspection)."""
        return self._awaited is not None or self._proposed

    def send(self, method: methods.Method) -> None:
        if self.ended:
            return
        self.connection.send(int(self.number), method)
        self.owner.mark()

    # Publishing

    def _publish(self, event: Publishes) -> None:
        rate = self.rate
        if rate is not None:
            allowed: i64 = rate.allowed(perf_counter())
            if event.count > allowed:
                wait_ms = rate.wait_ms()
                if allowed == 0:
                    self._publish_later(event, wait_ms)
                    return
                event, rest = event.split(allowed)
                self._publish_later(rest, wait_ms)
        cache = self.plans
        cache.refresh()
        plans: list[Targets] = []
        keys = event.keys
        infos = event.infos
        plain = True
        seen: i64 = 0
        for k in range(len(keys)):
            plan = cache.get(keys[k])
            if plan is None:
                plan = None if self._must_wait() else cache.make_some(keys[k])
                if plan is None:
                    first = event.firsts[k]
                    if first == 0:
                        self._publish_later(event)
                        return
                    event, rest = event.split(first)
                    self._publish_later(rest)
                    break
            if not plan.plain:
                plain = False
            seen |= i64(infos[k])
            plans.append(plan.targets)
        if plain and (seen & ODD_INFO) == 0 and not self._keeping:
            self._hand_down(event, plans)
        else:
            self._publish_odd(event, plans, plain, seen)

    def _must_wait(self) -> bool:
        """Return whether routing goes on in the next turn, or when a permission is known."""
        if self.plans.is_undecided():
            return True
        transaction = self._transaction
        if transaction is not None and not self._keeping and transaction.tries > COMMIT_TRIES:
            return False
        return self._share.must_wait(self.plans.is_spent())

    def _publish_later(self, event: Publishes, wait_ms: i64 = 0) -> None:
        """Go on with these messages, and what comes behind them, in the next turn, or later."""
        self.put_off(event)
        undecided = self.plans.take_undecided()
        if undecided is not None:
            self.owner.step_when(undecided, self)
        elif wait_ms > 0:
            self.owner.step_after(self, int(wait_ms))
        else:
            self.owner.step_later(self)

    def step(self, now_ms: i64) -> None:
        """Go on with publishes for which the last turn had no time (`Steppable`), or with an event
        that waited for a permission."""
        if not self.ended and not self._is_handing_over:
            self._share.waited()
            self.resume()

    def _handed_over(self) -> None:
        """All queues have what was published."""
        self._is_handing_over = False
        if self.ended:
            self._leave_queues()
        elif not self._proposed and self._awaiting_uid == 0:  # Else an answer is to come first.
            self._share.waited()
            self.resume()

    def _publish_odd(self, event: Publishes, plans: list[Targets], plain: bool, seen: i64) -> None:
        """Something about the event is not as usual; find out what, as cheaply as can be."""
        if (seen & INFO_REPLY_TO) != 0 and REPLY_TO_BYTES in event.data:
            answers = self._answers
            name = None if answers is None else answers.host.name.encode()
            named, complete = name_answers(event, name)
            if not complete:
                if named is not None:
                    self._publish_special(named)
                text = "fast reply consumer does not exist"
                raise ProtocolError(ReplyCode.PRECONDITION_FAILED, text, None, 60, 40)
            assert named is not None
            event = named
        special = not plain or (seen & SPECIAL_INFO) != 0
        if (seen & INFO_HEADERS) != 0 and not special:
            special = self.plans.needs_look(event)
        if self._keeping:
            self._keep(event, special)
        elif special:
            self._publish_special(event)
        else:
            self._hand_down(event, plans)

    def _keep(self, event: Publishes, special: bool) -> None:
        """Until the commit; what is wrong with the event is said now."""
        assert self._transaction is not None
        if special:
            if self._must_wait():
                self._publish_later(event)
                return
            parted = self.owner.part(event)
            if parted.error is not None:
                raise parted.error
            rest = parted.rest
            if rest is event:
                self._publish_later(event)
                return
            if rest is not None:
                event, rest = event.split(event.count - rest.count)
                self._publish_later(rest)
        self._transaction.publish(event)

    def _hand_down(self, event: Publishes, plans: list[Targets]) -> None:
        if self._routed is not None:
            routed = Parted()
            routed.event, routed.plans = event, plans
            self._routed.append(routed)
            return
        count: i64 = event.count
        self.published_count += count
        self.counts.received += count
        if self.publisher.confirming:
            self.counts.received_confirm += count
        if self.counts.exchanges is not None:
            self.owner.count_by_exchange(int(self.number), event, plans)
        self.owner.count_published(self, count)
        self.publisher.now_s = perf_counter()
        if self.publisher.publish(event, plans):
            self.owner.mark_channel(self)
        if self.publisher.is_behind and not self._is_handing_over:
            self._is_handing_over = True
            self._busy = True
            self.owner.hand_over(self.publisher, self._handed_over)
        if self.publisher.gate is not None:
            self.owner.weigh_gate(self, int(count))

    def _publish_special(self, event: Publishes) -> None:
        """Some message needs a look of its own: headers routing, return, refusal."""
        rest: Publishes | None = event
        while rest is not None:
            if self._must_wait():
                self._publish_later(rest)
                return
            parted = self.owner.part(rest)
            if self._routed is None or parted.error is not None:
                self._publish_looked_at(parted)
            else:
                self._routed.append(parted)
            rest = parted.rest

    def _publish_looked_at(self, parted: Parted) -> None:
        if parted.event is not None:
            if self.trace is not None:
                self.trace.published(parted)
            for start, end, exchange, routing_key in parted.returns:
                code = int(ReplyCode.NO_ROUTE)
                returned = methods.BasicReturn(code, "NO_ROUTE", exchange, routing_key)
                data = parted.event.data
                self.connection.send_content(int(self.number), returned, data, start, end)
                self.returned_count += 1
                self.counts.unroutable_returned += 1
                self.owner.mark()
            self._hand_down(parted.event, parted.plans)
        if parted.error is not None:
            raise parted.error

    # Other methods

    def _call(self, method: methods.Method) -> None:
        if isinstance(method, methods.BasicConsume):
            self._consume(method)
        elif isinstance(method, methods.BasicCancel):
            self._cancel(method)
        elif isinstance(method, methods.BasicGet):
            self._get(method)
        elif isinstance(method, methods.BasicQos):
            self._qos(method)
        elif isinstance(method, (methods.BasicRecover, methods.BasicRecoverAsync)):
            if not method.requeue:
                raise ProtocolError(ReplyCode.NOT_IMPLEMENTED, "requeue=false")
            self.deliveries.recover()
            if isinstance(method, methods.BasicRecover):
                self.send(methods.BasicRecoverOk())
        elif isinstance(method, methods.ConfirmSelect):
            self._select_confirms(method)
        elif isinstance(method, methods.TxSelect):
            self._select_transactions()
        elif isinstance(method, methods.TxCommit):
            self._commit()
        elif isinstance(method, methods.TxRollback):
            self._roll_back()
        elif isinstance(method, methods.ChannelFlow):
            self.send(methods.ChannelFlowOk(active=True))
        elif isinstance(method, methods.ChannelClose):
            self.end()
            self.owner.channel_closed(self)
            self.connection.send(int(self.number), methods.ChannelCloseOk())
        elif isinstance(method, (methods.ChannelCloseOk, methods.ChannelFlowOk)):
            return
        else:
            self.owner.define(self, method)

    def _qos(self, method: methods.BasicQos) -> None:
        if method.prefetch_size != 0:
            text = f"prefetch_size!=0 ({method.prefetch_size})"
            raise ProtocolError(ReplyCode.NOT_IMPLEMENTED, text)
        if method.global_:
            self.deliveries.set_limit(method.prefetch_count)
        else:
            self.deliveries.prefetch = method.prefetch_count
        self.send(methods.BasicQosOk())

    def _consume(self, method: methods.BasicConsume) -> None:
        tag = method.consumer_tag
        if tag != "" and tag in self.deliveries.by_tag:
            text = f"attempt to reuse consumer tag '{tag}'"
            raise ProtocolError(ReplyCode.NOT_ALLOWED, text)
        answers = method.queue == REPLY_TO
        host = self._answer_host(method) if answers else self._host_to_consume(method)
        if tag == "":
            tag = self.owner.new_name("amq.ctag-")
        arguments = method.arguments
        priority, timeout_ms, window_bytes, rate_max = consumer_terms(arguments, host)
        watches = cancels_on_failover(arguments, host)
        exclusive = method.exclusive and not answers
        deliveries = self.deliveries
        selector = selector_of_consumer(arguments, host)
        limit = deliveries.limit
        start = start_of_consumer(host, method, deliveries.prefetch, limit, selector)
        consumer = deliveries.attach(
            tag,
            host,
            method.no_ack,
            exclusive,
            priority,
            timeout_ms,
            start,
            window_bytes,
            rate_max,
            selector,
        )
        if len(arguments) > 0:
            consumer.arguments = arguments
            consumer.ids = delivery_ids(arguments, host, self.owner.metadata)
        if watches and isinstance(host, QuorumProxy) and not host.quorum:
            host.watch_failover(consumer.key, self)
        if answers:
            self._answers = consumer
        self._attaching[consumer.number] = method.no_wait
        self.wait_for(host)

    def _host_to_consume(self, method: methods.BasicConsume) -> QueueHost:
        host = self.owner.queue_for_read(self, method.queue)
        if host.quorum and self.deliveries.limit > 0 and not self.owner.quorum_global_qos():
            text = f"queue '{host.name}' in vhost '{host.vhost}' does not support global qos"
            raise ProtocolError(ReplyCode.NOT_IMPLEMENTED, text)
        return host

    def _answer_host(self, method: methods.BasicConsume) -> QueueHost:
        """A pseudo-queue for the answers to this channel's requests."""
        text = ""
        if not method.no_ack:
            text = "reply consumer cannot acknowledge"
        elif self._answers is not None:
            text = "reply consumer already set"
        if text != "":
            raise ProtocolError(ReplyCode.PRECONDITION_FAILED, text)
        return self.owner.open_answers(self)

    def _cancel(self, method: methods.BasicCancel) -> None:
        consumer = self.deliveries.by_tag.get(method.consumer_tag)
        if consumer is None:
            if not method.no_wait:
                self.send(methods.BasicCancelOk(method.consumer_tag))
            return
        self._cancelling = method
        self.wait_for(consumer.host)
        if consumer is self._answers:
            self._answers = None
        self.deliveries.cancel(consumer)
        self._consumer_over(consumer)

    def _cancelled(self) -> None:
        """The queue has let the consumer go (and is gone itself, if that was its last)."""
        method = self._cancelling
        self._cancelling = None
        if method is not None and not method.no_wait:
            self.send(methods.BasicCancelOk(method.consumer_tag))
        self.resume()

    def _get(self, method: methods.BasicGet) -> None:
        host = self.owner.queue_for_read(self, method.queue)
        if host.quorum and host.single_active:
            text = (
                f"cannot obtain access to locked queue '{host.name}' in vhost '{host.vhost}'. "
                "basic.get operations are not supported by quorum queues with single active "
                "consumer"
            )
            raise ProtocolError(ReplyCode.RESOURCE_LOCKED, text)
        refuse_get(host)
        self.deliveries.hosts[host.uid] = host
        self.getting.begin(method.no_ack)
        host.command(self, Get(self._session))
        self.wait_for(host)

    def inspect(
        self, host: QueueHost, answer: Callable[[int, int], None], patience_ms: int = 0
    ) -> None:
        """Ask the queue for its counts; `answer(ready, consumers)` comes later, after `patience_ms`
        without a leader with the counts that were known last; 0: such a queue is an error."""
        self._takes_known_counts = patience_ms > 0
        self._ask(host, Inspect(self._session), answer, patience_ms)

    def retire(
        self,
        host: QueueHost,
        if_empty: bool,
        if_unused: bool,
        answer: Callable[[int, int], None],
    ) -> None:
        """As `inspect`; if the queue is as asked by the counts that it answers, it takes no publish
        from then on, until this channel ends."""
        self._ask(host, Retire(self._session, False, if_empty, if_unused), answer)

    def _ask(
        self,
        host: QueueHost,
        command: Command,
        answer: Callable[[int, int], None],
        patience_ms: int = 0,
    ) -> None:
        self.deliveries.hosts[host.uid] = host
        self._awaited = answer
        host.command(self, command)
        self.wait_for(host, patience_ms)

    def wait_for(self, host: QueueHost, patience_ms: int = 0) -> None:
        """`wait` for what the queue was just asked, not for ever if it has no leader."""
        self.wait(host.uid)
        if isinstance(host, QuorumProxy):
            host.watch_leader(self._session, self, patience_ms, False)

    def on_leaderless(self, uid: int) -> None:
        """See LeaderlessSink."""
        host = self.deliveries.hosts.get(uid)
        outbox = self.publisher.outboxes.get(uid)
        if host is None and outbox is not None:
            host = outbox.host
        if self.ended or host is None:
            return
        if self._awaiting_uid == uid and self._takes_known_counts:
            self._answered(host.ready_count, host.consumer_count)
        elif self._awaiting_uid == uid or self._is_committing():
            self._awaited = None
            self._cancelling = None
            self.getting.forget()
            self._attaching = {}
            self.owner.fail(self, leaderless_error(host))

    def purge(self, host: QueueHost, answer: Callable[[int, int], None]) -> None:
        """As `inspect`: how many messages were removed."""
        self._ask(host, Purge(self._session), answer)

    # Modes of publishing

    def _select_confirms(self, method: methods.ConfirmSelect) -> None:
        if self._transaction is not None:
            text = "cannot switch from tx to confirm mode"
            raise ProtocolError(ReplyCode.PRECONDITION_FAILED, text)
        self.publisher.confirming = True
        if not method.no_wait:
            self.send(methods.ConfirmSelectOk())

    def _select_transactions(self) -> None:
        if self._transaction is None:
            if self.publisher.confirming:
                text = "cannot switch from confirm to tx mode"
                raise ProtocolError(ReplyCode.PRECONDITION_FAILED, text)
            self.publisher.confirming = True  # The commit waits for these confirms itself.
            self._transaction = Transaction(self._held)
            self.deliveries.transaction = self._transaction
            self._keeping = True
        self.send(methods.TxSelectOk())

    def _open_transaction(self) -> Transaction:
        if self._transaction is None:
            text = "channel is not transactional"
            raise ProtocolError(ReplyCode.PRECONDITION_FAILED, text)
        return self._transaction

    def _commit(self) -> None:
        """Route all publishes, which may take several turns, and hand them down in one turn;
        tx.commit-ok follows when every queue has confirmed.

        If definitions change while publishes are routed, the routes do not hold: try again.
        """
        transaction = self._open_transaction()
        cache = self.plans
        cache.refresh()
        if self._routed is None:
            self._keeping = False
            self._refused = False
        elif transaction.version == cache.version:
            routed = self._routed
            self._routed = None
            self._hand_down_commit(transaction, routed)
            return
        transaction.version = cache.version
        transaction.tries += 1
        self._routed = []
        again: list[Publishes | Settles | Called] = [*transaction.events]
        again.append(Called(int(self.number), methods.TxCommit()))
        for event in reversed(again):
            self._stash.appendleft(event)
            self._count_stash(held_bytes(event))
        if not self._resuming:
            self._resuming = True
            self._work_off()

    def _hand_down_commit(self, transaction: Transaction, routed: list[Parted]) -> None:
        for parted in routed:
            self._publish_looked_at(parted)
        for outcome, runs in transaction.take_settled():
            self.deliveries.settle_runs(runs, outcome)
        transaction.let_go()
        self.wait(0)
        for outbox in self.publisher.outboxes.values():
            if isinstance(outbox.host, QuorumProxy):
                outbox.host.watch_leader(self._session, self, 0, True)
        self.owner.mark_channel(self)

    def _is_committing(self) -> bool:
        """Whether tx.commit-ok waits for confirms."""
        return self._transaction is not None and not self._keeping and self._routed is None

    def _weigh_commit(self) -> None:
        """In a transaction, confirms are for us; the last one ends the commit."""
        for _, _, accepted in self.publisher.take_confirms():
            if not accepted:
                self._refused = True
        if not self._is_committing() or not self.publisher.all_decided():
            return
        self._keeping = True
        if self._refused:
            text = "partial tx completion"
            error = ProtocolError(ReplyCode.PRECONDITION_FAILED, text, None, *TX_COMMIT)
            self.owner.fail(self, error)
            return
        self.send(methods.TxCommitOk())
        self.resume()

    def _roll_back(self) -> None:
        """Publishes are forgotten, and what was settled is outstanding as before."""
        transaction = self._open_transaction()
        restored: list[TagRun] = []
        for _, runs in transaction.take_settled():
            restored.extend(runs)
        self.deliveries.unacked.restore(restored)
        transaction.let_go()
        self.send(methods.TxRollbackOk())

    # Effects of the queues

    def on_confirms(self, uid: int, upto_seq: int) -> None:
        if self.publisher.on_confirms(uid, upto_seq):
            self.owner.mark_channel(self)
        else:
            self.owner.mark()

    def on_refused(self, uid: int, first_seq: int, count: int) -> None:
        self.publisher.on_refused(uid, first_seq, count)

    def on_delivers(
        self,
        uid: int,
        number: int,
        delivery_seq: int,
        first: int,
        count: int,
        redelivered: bool,
        attempts: int,
    ) -> None:
        if self.ended:
            return  # The end of its session frees them.
        if self.deliveries.on_delivers(
            uid, number, delivery_seq, first, count, redelivered, attempts
        ):
            self.owner.mark_channel(self)

    def on_got(self, uid: int, message: int, redelivered: bool, ready: int, attempts: int) -> None:
        if self.ended:
            return
        if message == 0:
            self.getting.nothing()
            self.send(methods.BasicGetEmpty())
            self.resume()
            return
        self.getting.got(uid, message, redelivered, ready, attempts)
        self._answer_get()

    def _answer_get(self) -> None:
        """get-ok, now if the body is in memory, else when it has been read."""
        if not self.getting.is_due:
            return
        host = self.deliveries.hosts.get(int(self._awaiting_uid))
        if host is None or self.owner.is_clogged():
            return
        if self.getting.answer(host):
            self.owner.mark()
            self.resume()

    def on_writable(self) -> None:
        """The peer reads again."""
        self._answer_get()

    def on_attached(self, uid: int, number: int) -> None:
        nowait = self._attaching.pop(number, True)
        if self.ended:
            return
        consumer = self.deliveries.consumers.get(number)
        if consumer is not None:
            consumer.attached = True
            self.owner.consumer_created(self, consumer)
            if not nowait:
                self.send(methods.BasicConsumeOk(consumer.tag))
        self.resume()

    def on_attach_refused(self, uid: int, number: int, reason: int) -> None:
        self._attaching.pop(number, None)
        consumer = self.deliveries.consumers.get(number)
        if self.ended or consumer is None:
            return
        self.deliveries.forget(consumer)
        host = consumer.host
        code, text = refusal_text(host, reason)
        error = ProtocolError(code, text, Scope.CHANNEL, 60, 20)
        self.owner.fail(self, error)

    def on_detached(self, uid: int, number: int, goes: bool) -> None:
        if self._cancelling is not None and not goes and not self.ended:
            self._cancelled()

    def on_activated(self, uid: int, number: int, active: bool) -> None:
        """0-9-1 has no word for it; listings show it."""
        consumer = self.deliveries.consumers.get(number)
        if consumer is not None:
            consumer.active = active

    def on_timed_out(self, uid: int, number: int, timeout_ms: int) -> None:
        """The queue took back what was not acknowledged in time."""
        if self.ended:
            return
        consumer = self.deliveries.time_out(uid, number)
        if consumer is not None:
            self._consumer_over(consumer)
        if self.connection.consumer_cancel_notify and number > 0:
            if consumer is not None:
                self._notify_cancel(consumer)
            return
        text = timed_out_text(int(self.number), timeout_ms)
        self.owner.fail(self, ProtocolError(ReplyCode.PRECONDITION_FAILED, text))

    def on_drained(self, uid: int, number: int, delivery_count: int) -> None:
        if not self.ended:
            self.deliveries.on_drained(number, delivery_count)

    def on_purged(self, uid: int, count: int) -> None:
        self._answered(count, 0)

    def on_inspected(self, uid: int, ready: int, consumer_count: int) -> None:
        self._answered(ready, consumer_count)

    def _answered(self, first: int, second: int) -> None:
        answer = self._awaited
        self._awaited = None
        self._takes_known_counts = False
        if self.ended:
            return
        assert answer is not None
        self.owner.answer(self, answer, first, second)

    def on_loaded(self, uid: int) -> None:
        self._answer_get()
        if self.deliveries.on_loaded():
            self.owner.mark_channel(self)

    def on_unreadable(self, uid: int) -> None:
        """The disk is wrong: the channel ends, and what it held goes back to its queues."""
        host = self.deliveries.hosts.get(uid)
        if host is None:
            return
        text = f"messages of queue '{host.name}' in vhost '{host.vhost}' cannot be read"
        self.owner.fail(self, ProtocolError(ReplyCode.INTERNAL_ERROR, text, Scope.CHANNEL))

    def on_gone(self, uid: int) -> None:
        if self.publisher.on_gone(uid):
            self.owner.mark_channel(self)
        host = self.deliveries.hosts.get(uid)
        if self.ended:
            return
        for consumer in self.deliveries.queue_gone(uid):
            if uid == self._deleting:
                self._cancelled_by_it.append(consumer)
            else:
                self._notify_cancel(consumer)
            self._consumer_over(consumer)
        if self._awaiting_uid != uid or host is None:
            return
        if self._cancelling is not None:
            self._cancelled()
            return
        self._awaiting_uid = 0
        self._awaited = None
        self.getting.forget()
        self._attaching = {}
        self.owner.fail(self, self.owner.gone_error(host))

    def begin_deletion(self, uid: i64) -> None:
        """The client deletes this queue: it hears of its consumers behind the answer to that."""
        self._deleting = uid

    def end_deletion(self) -> None:
        """The answer is sent."""
        self._deleting = 0
        cancelled = self._cancelled_by_it
        self._cancelled_by_it = []
        for consumer in cancelled:
            self._notify_cancel(consumer)

    def on_cancelled(self, uid: int, key: ConsumerKey) -> None:
        """See SessionSink."""
        consumer = None if self.ended else self.deliveries.take_cancelled(number_of(key))
        if consumer is not None:
            self._notify_cancel(consumer)
            self._consumer_over(consumer)
            self.owner.mark_channel(self)

    def _consumer_over(self, consumer: Consumer091) -> None:
        """Said once, of those that their queues have taken."""
        host = consumer.host
        if isinstance(host, QuorumProxy):
            host.unwatch_failover(consumer.key)
        if consumer.attached:
            consumer.attached = False
            self.owner.consumer_deleted(self, consumer)

    def _notify_cancel(self, consumer: Consumer091) -> None:
        """Tell clients that asked for it that their consumer is gone."""
        if self.connection.consumer_cancel_notify and consumer.number not in self._attaching:
            self.send(methods.BasicCancel(consumer.tag, True))

    # Output

    def flush(self, paused: bool) -> bool:
        """Put confirms and deliveries into the output; return whether deliveries are left."""
        self.publisher.now_s = perf_counter()
        if self._transaction is None:
            for tag, multiple, accepted in self.publisher.take_confirms():
                if accepted:
                    write_ack(self.connection.writer, self.number, tag, multiple)
                else:
                    write_nack(self.connection.writer, self.number, tag, multiple)
        else:
            self._weigh_commit()
        if paused or not self.deliveries.has_work():
            return self.deliveries.has_work()
        self.deliveries.write(WRITE_BYTES)
        return self.deliveries.has_work()

    def end(self) -> None:
        """The channel is closed or its connection is gone: everything held goes back."""
        if self.ended:
            return
        self.ended = True
        self._stash = deque()
        self._count_stash(-self.stash_bytes)
        if self._transaction is not None:
            self._transaction.let_go()
        self.getting.give_back()
        self._leaving = list(self.deliveries.consumers.values())
        self.deliveries.end()
        if not self._is_handing_over:
            self._leave_queues()

    def _leave_queues(self) -> None:
        """Behind all that was published."""
        self.publisher.let_go()
        hosts: dict[int, QueueHost] = dict(self.deliveries.hosts)
        for uid, outbox in self.publisher.outboxes.items():
            hosts[uid] = outbox.host
        session_cleanup = SessionCleanup(
            self,
            list(hosts.values()),
            self.owner.step_later,
            len(self._leaving),
            self._tell_leaving,
        )
        session_cleanup.step(0)
        self._credit.peer_down_everywhere()

    def _tell_leaving(self, begin: int, end: int) -> None:
        for consumer in self._leaving[begin:end]:
            self._consumer_over(consumer)
        if end == len(self._leaving):
            self._leaving = []


def held_bytes(event: Publishes | Settles | Called) -> i64:
    """What an event that waits is counted as."""
    return len(event.data) if isinstance(event, Publishes) else SMALL_EVENT_BYTES

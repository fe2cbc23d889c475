"""One consumer's link: messages of a queue out, as far as the client's credit goes. Compiled.

The session that the queue knows (its `SessionSink`), with one consumer; another one follows it when
it has timed out. What the queue hands over is offered to the codec's link by name (`Run`); the
bytes are fetched when the socket and the session's window have room. Messages that were never sent
go back unseen; what the client holds when the link ends goes back by EndSession. Outcomes come from
`node.amqp10.sessions`.
"""

import logging
from typing import Final, Protocol, final

from msgspec.structs import replace
from mypy_extensions import i64

from node.amqp091.plans import Tracing
from node.amqp10.forms import Forms
from node.amqp10.hints import Timer
from node.amqp10.links.stream_source import with_offsets
from node.amqp10.locality import ACTIVE
from node.amqp10.owner import Owner10
from node.amqp10.termini import Consumption
from node.definitions.definition_changes import queue_deletion
from queues.machine.commands import (
    ACCEPT,
    FAIL,
    RETURN_UNSEEN,
    Attach,
    ConsumerKey,
    Credit,
    Detach,
    EndSession,
    SessionId,
    Settle,
    consumer_key,
)
from queues.machine.consuming.selections import SELECTIONS_MAX
from queues.machine.effects import ACQUIRED_SHIFT, TOO_MANY_SELECTORS
from queues.queue_host import QueueHost
from queues.sessions.credit import LINK, CreditActor
from queues.sessions.unacked import TagRun, Unacked
from queues.streams.host import StreamHost
from warren.wire.amqp10.codec.serial import MASK
from warren.wire.amqp10.errors import Condition, ProtocolError, Scope
from warren.wire.amqp10.link import SENDER_SETTLED, Link
from warren.wire.amqp10.sender import QueueCredit, Run
from warren.wire.amqp10.session import Session
from warren.wire.amqp10.settling import RELEASED

log = logging.getLogger("warren.connection")

FAILED_MASK: Final = 0xFFFFFFFF
DETACH_MS_MAX: Final = 5_000  # that a detach waits for a queue that does not answer


class ConsumingOwner(Owner10, Protocol):
    """The endpoint of consuming links."""

    def consumer_created(self, channel: int, link: "ConsumingLink") -> None:
        """The queue of the link has taken its consumer."""

    def consumer_deleted(self, channel: int, link: "ConsumingLink") -> None:
        """A consumer that its queue had taken is over."""


@final
class ConsumingLink:
    """Invariant: the queue has a consumer of this session from `start` until `end` or `on_gone`."""

    def __init__(
        self,
        owner: ConsumingOwner,
        core: Session,
        link: Link,
        uid: i64,
        asked: Consumption,
        unacked: Unacked,
    ) -> None:
        self.owner = owner
        self.core = core
        self.link = link
        self.uid: i64 = uid  # of the link, in its session
        self.asked = asked
        self.host: QueueHost = asked.host
        self.ended = False  # takes nothing more
        self.is_over = False  # and the queue has taken all back
        self._patience: Timer | None = None  # for the queue that is to let go
        self._returned_late = False  # messages came after the queue was asked to let go
        self.settled = link.snd_settle_mode == SENDER_SETTLED
        self.active = not asked.host.single_active  # or the single active one
        self.sent_count: i64 = 0
        self.forms = Forms(owner.broker.interceptors.sent_clock)
        self.trace: Tracing | None = None  # while messages of the vhost are traced
        self._attached = False  # the queue has taken the consumer, and it is not over
        self._session = owner.broker.identity.new_session()
        name = f"{owner.name} {link.name}"
        self._credit = CreditActor(name, owner.credit_spec(), None, LINK)
        self._unacked = unacked  # the session's deliveries, by delivery-id; ours have our uid
        self._number: i64 = 1  # of the consumer, one higher each time that it has timed out
        self._key = consumer_key(self._session, 1)
        self._base: i64 = 0  # messages that earlier consumers of this link got

    @property
    def session(self) -> SessionId:
        return self._session

    @property
    def credit(self) -> CreditActor:
        return self._credit

    def start(self) -> None:
        """Ask the queue; it answers in this turn."""
        owner = self.owner
        owner.dynamics.join(self.host.name)
        queue = owner.broker.definitions.queue(owner.vhost, self.host.name)
        owner.hints.join(self.link, self.core, queue)
        self._ask()

    def _ask(self) -> None:
        asked = self.asked
        if self.host.single_active:
            self._tell_active(False)
        self.link.detach_waits = True
        host = self.host
        if self.asked.start is not None and isinstance(host, StreamHost):
            host.begin_at(self._key, self.asked.start, self)
        attach = Attach(
            self._key,
            0,
            False,
            False,
            asked.priority,
            asked.timeout_ms,
            asked.window_bytes,
            asked.rate_max,
            asked.selector,
        )
        self.host.command(self, attach)

    def leave(self, held: list[TagRun]) -> None:
        """The client has detached the link: its detach is answered once the queue has taken back
        what was not sent and what the client `held`, so that the queue's counts are right then.
        """
        if self.ended or not self._attached:
            self.end()
            return
        self._part()
        self.settle(FAIL, [(int(run.first), int(run.count)) for run in held])
        self.host.command(self, Detach(self._key))
        self._patience = self.owner.call_later(DETACH_MS_MAX, self.end)

    def unsubscribe(self) -> None:
        """The client has closed a durable subscription: its detach is answered once the queue is
        deleted. Refusal: the user may not delete it."""
        owner = self.owner
        command = queue_deletion(owner, self.host.name)
        if not self.ended:
            self._part()
        if command is None:
            self.end()
            return
        kept = replace(command, connection="")  # Deleted in the end, though no majority is there.
        owner.broker.definitions.propose(kept, lambda _: self.end(), owner.author())
        self._patience = owner.call_later(DETACH_MS_MAX, self.end)

    def end(self) -> None:
        """The link is over: what was not sent goes back unseen, and the rest is released."""
        if self.is_over:
            return
        if not self.ended:
            self._part()
        self.is_over = True
        if self._patience is not None:
            self._patience.cancel()
        self.host.command(self, EndSession(self._session))
        self._credit.peer_down_everywhere()
        self.owner.dynamics.leave(self.host.name, self.asked.made)
        self.owner.hints.leave(self.link)
        self.core.answer_detach(self.link)
        self.owner.mark()

    def _part(self) -> None:
        """Take nothing more; what waits to be sent goes back."""
        self.ended = True
        if self._attached:
            self.owner.consumer_deleted(int(self.core.channel), self)
        sender = self.link.sender
        assert sender is not None
        self.give_back([(first, count) for _, first, count in sender.take_waiting()])

    def give_back(self, runs: list[tuple[int, int]]) -> None:
        """Messages that the client never saw."""
        self.settle(RETURN_UNSEEN, runs)

    def settle(self, outcome: i64, runs: list[tuple[int, int]], words: bytes = b"") -> None:
        """`words`: annotations for the messages (`queues.machine.annotations`)."""
        if len(runs) > 0:
            self.host.command(self, Settle(self._key, outcome, runs, words))

    def grant(self, credit: QueueCredit) -> None:
        """The codec asks the queue for messages."""
        if not self.ended:
            arrived = credit.arrived - self._base
            command = Credit(self._key, arrived, credit.credit, credit.drain, False)
            self.host.command(self, command)

    def see_available(self) -> None:
        """A flow may go out: say what the queue has."""
        sender = self.link.sender
        if sender is not None:
            host = self.host
            if isinstance(host, StreamHost):
                sender.available = host.available(self._key)
            else:
                sender.available = host.ready_count

    def renewal(self) -> int:
        """Another number once the queue has taken back what the client held."""
        return int(self._number)

    # Sending (`warren.wire.amqp10.departures.Bodies`)

    def fetch(self, run: Run) -> bool:
        """Put the bytes of the run's first messages into it; False: they are being loaded."""
        view = self.host.view(self, run.first, run.count)
        if view is None:
            return False
        if self.asked.start is None:
            self.forms.put(run, view)
        else:
            self.forms.put(run, with_offsets(view, self.forms))
            run.cost = self.forms.cost
        return True

    def sent(self, run: Run, count: i64) -> None:
        """The run's first messages leave."""
        self.sent_count += count
        if self.trace is not None:
            self._copy(run, count, self.trace)
        counts = self.owner.counts
        if run.acquired:
            counts.redelivered += count
        if run.settled:
            counts.delivered_no_ack += count
            self.settle(ACCEPT, [(int(run.first), int(count))])
        else:
            counts.delivered += count
        if self.host.quorum:
            counts.quorum.deliver(count, run.acquired, run.settled)

    def _copy(self, run: Run, count: i64, trace: Tracing) -> None:
        """Have the messages that leave copied, those of which the bytes are there."""
        first = run.first
        last = first + count
        while first < last:
            view = self.host.view(self, first, last - first)
            if view is None:
                return
            trace.delivered(self.host, view.chunk, view.index, view.count, run.acquired)
            first += view.count

    # Effects of the queue

    def on_delivers(
        self,
        uid: int,
        number: int,
        delivery_seq: i64,
        first: i64,
        count: i64,
        redelivered: bool,
        attempts: i64,
    ) -> None:
        if self.ended:
            self._return_late(first, count)
            return
        self.see_available()
        run = Run(number, first, count, self.settled, attempts)
        run.delivery_count = attempts & FAILED_MASK
        run.acquired = redelivered or attempts >> ACQUIRED_SHIFT > 0
        taken = self.core.offer(self.link, run)
        if taken < count:
            self.give_back([(int(first + taken), int(count - taken))])
        self.owner.mark()

    def _return_late(self, first: i64, count: i64) -> None:
        """Messages that were on their way here when the client detached the link."""
        if not self.is_over:
            self._returned_late = True
            self.give_back([(int(first), int(count))])

    def on_detached(self, uid: int, number: int, goes: bool) -> None:
        if self.is_over:
            return
        if self._returned_late:
            self._returned_late = False
            self.host.command(self, Detach(self._key))
        else:
            self.end()

    def on_drained(self, uid: int, number: int, delivery_count: int) -> None:
        if not self.ended:
            self.see_available()
            self.core.drained(self.link, self._base + delivery_count)
            self.owner.mark()

    def on_loaded(self, uid: int) -> None:
        if not self.ended:
            self.core.loaded(self.link)
            self.owner.mark()

    def on_attached(self, uid: int, number: int) -> None:
        if self.ended:
            return
        if self._number == 1 and not self.core.accept(
            self.link, self.asked.source, self.asked.target
        ):
            self._over()  # The answer was too large for the client.
        elif not self._attached:
            self._attached = True
            self.owner.consumer_created(int(self.core.channel), self)
        self.owner.mark()

    def on_attach_refused(self, uid: int, number: int, reason: int) -> None:
        host = self.host
        place = f"queue '{host.name}' in vhost '{host.vhost}'"
        if reason == TOO_MANY_SELECTORS:
            text = f"{place} has consumers with {SELECTIONS_MAX} selectors, and takes no other"
            self._fail(Condition.RESOURCE_LIMIT_EXCEEDED, text)
        else:
            self._fail(Condition.RESOURCE_LOCKED, f"{place} in exclusive use")

    def on_activated(self, uid: int, number: int, active: bool) -> None:
        """Of a queue with a single active consumer: this link is it now, or is no longer."""
        if not self.ended:
            self._tell_active(active)
            self.owner.mark()

    def _tell_active(self, active: bool) -> None:
        """With the first flow, or at once if that has gone."""
        self.active = active
        link = self.link
        properties = dict(link.properties or {})
        properties[ACTIVE] = active
        link.properties = properties
        if not link.full_due:
            self.core.push_flow(link)

    def on_gone(self, uid: int) -> None:
        if self.ended:
            self.end()
            return
        host = self.host
        if self.owner.broker.queues.is_lost(uid):
            text = f"the home node of queue '{host.name}' in vhost '{host.vhost}' is down"
            self._fail(Condition.ILLEGAL_STATE, text)
            return
        text = f"queue '{host.name}' in vhost '{host.vhost}' was deleted"
        self._fail(Condition.RESOURCE_DELETED, text)

    def on_unreadable(self, uid: int) -> None:
        host = self.host
        text = f"messages of queue '{host.name}' in vhost '{host.vhost}' cannot be read"
        self._fail(Condition.INTERNAL_ERROR, text)

    def on_cancelled(self, uid: int, key: ConsumerKey) -> None:
        host = self.host
        text = f"this node has no replica of stream '{host.name}' in vhost '{host.vhost}' any more"
        self._fail(Condition.ILLEGAL_STATE, text)

    def on_timed_out(self, uid: int, number: int, timeout_ms: int) -> None:
        """The queue took back all that was not settled: the client learns that it was released,
        and the link goes on with what credit it has.
        """
        if self.ended:
            return
        if timeout_ms == 0:
            text = "the consumer is slower than slow-consumer-threshold"
            self._fail(Condition.RESOURCE_LIMIT_EXCEEDED, text)
            return
        text = f"delivery acknowledgement timed out. Timeout value used: {timeout_ms} ms"
        sender = self.link.sender
        assert sender is not None
        if not self.core.renew(self.link):  # In the middle of a message, with no window left.
            self._fail(Condition.RESOURCE_LIMIT_EXCEEDED, text)
            return
        log.info("link %s: %s", self.link.name, text, extra=self.owner.ids())
        for run in self._unacked.take_of(self.uid):
            self.core.settle_sent(run.tag & MASK, run.count, RELEASED)
        self._base = sender.arrived
        self._number += 1
        self._key = consumer_key(self._session, int(self._number))
        self._ask()
        self.owner.mark()

    def _fail(self, condition: Condition, text: str) -> None:
        if self.ended:
            return
        error = ProtocolError(condition, text, Scope.LINK)
        self.core.refuse(self.link, error)
        self.core.detach(self.link, error)
        self._over()

    def _over(self) -> None:
        self.end()
        self.owner.mark()

    # What a consumer is not told of

    def on_confirms(self, uid: int, upto_seq: int) -> None:
        return

    def on_refused(self, uid: int, first_seq: int, count: int) -> None:
        return

    def on_got(self, uid: int, message: int, redelivered: bool, ready: int, attempts: int) -> None:
        return

    def on_purged(self, uid: int, count: int) -> None:
        return

    def on_inspected(self, uid: int, ready: int, consumer_count: int) -> None:
        return

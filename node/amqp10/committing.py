"""The publishes of one transaction on their way to queues, after its commit. Compiled.

The session that the queues know (their `SessionSink`) lives as long as the commit. All messages are
handed down in one turn, or several if one is for very many queues; `done` is called once every
queue has confirmed or refused its own.
"""

from collections.abc import Callable
from time import perf_counter
from typing import final

from mypy_extensions import i64

from node.amqp10.owner import Owner10
from node.amqp10.special import Special
from queues.machine.commands import EndSession, SessionId
from queues.queue_host import PublishingOnly
from queues.sessions.credit import LINK, CreditActor
from queues.sessions.publishing import Publisher


@final
class Commit(PublishingOnly):
    """Invariant: `done` is called exactly once, unless `end` comes first."""

    def __init__(self, owner: Owner10, name: str, done: Callable[[bool], None]) -> None:
        self._owner = owner
        self._done: Callable[[bool], None] | None = done
        self._session = owner.broker.identity.new_session()
        self._credit = CreditActor(name, owner.credit_spec(), None, LINK)
        self._publisher = Publisher(self, owner.counts, owner.held, owner.plans().hand_overs)
        self._publisher.confirming = True
        self._is_refused = False
        self._is_handing_over = False

    @property
    def session(self) -> SessionId:
        return self._session

    @property
    def credit(self) -> CreditActor:
        return self._credit

    def publish(self, messages: list[Special]) -> None:
        """Hand all messages down."""
        counts = self._owner.counts
        publisher = self._publisher
        publisher.now_s = perf_counter()
        for each in messages:
            count: i64 = each.run.count
            counts.received += count
            counts.received_confirm += count
            if len(each.targets.hosts) == 0:
                counts.unroutable += count
            else:
                self._owner.count_published(int(count))
                publisher.publish_transfers(each.run, each.targets, each.names)
        if publisher.is_behind:
            self._is_handing_over = True
            self._owner.hand_over(publisher, self._handed_over)
        self._judge()

    def _handed_over(self) -> None:
        """All queues have what was published."""
        self._is_handing_over = False
        if self._done is None:
            self._leave_queues()

    def end(self) -> None:
        """No caller waits for the outcome: what is on its way goes on."""
        if self._done is None:
            return
        self._done = None
        if not self._is_handing_over:
            self._leave_queues()

    def _leave_queues(self) -> None:
        """Behind all that was published."""
        self._publisher.let_go()
        for outbox in self._publisher.outboxes.values():
            outbox.host.command(self, EndSession(self._session))
        self._credit.peer_down_everywhere()

    def _judge(self) -> None:
        publisher = self._publisher
        publisher.now_s = perf_counter()
        for decided in publisher.take_outcomes():
            if decided.refused_by != 0:
                self._is_refused = True
        done = self._done
        if done is not None and publisher.all_decided():
            self.end()
            done(not self._is_refused)
            self._owner.mark()

    def on_confirms(self, uid: int, upto_seq: int) -> None:
        if self._publisher.on_confirms(uid, upto_seq):
            self._judge()

    def on_refused(self, uid: int, first_seq: int, count: int) -> None:
        self._publisher.on_refused(uid, first_seq, count)

    def on_gone(self, uid: int) -> None:
        if self._publisher.on_gone(uid):
            self._judge()

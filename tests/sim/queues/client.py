"""One session of a simulated client: publishes with confirms, consumes, settles.

It keeps the books that a client could keep (what it published, was confirmed, holds), and checks
every delivery against the `Ledger` of what was ever published.
"""

from queues.machine.commands import (
    ACCEPT,
    REJECT,
    RETURN_UNSEEN,
    Attach,
    ConsumerKey,
    Detach,
    EndSession,
    Get,
    Purge,
    SessionId,
    Settle,
    consumer_key,
)
from queues.queue_host import QueueHost
from queues.sessions.counts import Counts
from queues.sessions.credit import CreditActor, CreditSpec
from queues.sessions.publishing import Publisher, Targets
from tests.sim.queues.ledger import Ledger, Message
from tests.sim.queues.letters import Letter, event_of, payload_of
from tests.sim.queues.node import SimNode
from tests.unit.queues.runs import runs_of

Held = tuple[int, int, int]  # uid, number of the consumer, message_seq


class Client:
    """A session (`queues.queue_host.SessionSink`) that is flushed at the end of the turn."""

    def __init__(self, node: SimNode, ledger: Ledger) -> None:
        self._node = node
        self._ledger = ledger
        self._session = node.broker.identity.new_session()
        self._credit = CreditActor("client", CreditSpec(400, 200))
        self.publisher = Publisher(self, Counts())
        self.publisher.confirming = True
        self._tags: dict[int, list[Message]] = {}  # not confirmed yet
        self._sent: dict[int, list[Message]] = {}  # by uid, in the order of the session's numbers
        self.consumers: dict[int, QueueHost] = {}  # attached ones, by number
        self._numbers = 0
        self._counts: dict[int, int] = {}  # deliveries so far, by number
        self.waiting: dict[Held, bool] = {}  # checked out, not fetched; the redelivered flag
        self.held: dict[Held, Message] = {}
        self.order: dict[int, list[int]] = {}  # message_seqs by uid, as they were delivered
        self.purge_heard: int | None = None
        self._marked = False
        self._ended = False

    @property
    def session(self) -> SessionId:
        return self._session

    @property
    def credit(self) -> CreditActor:
        return self._credit

    def _key(self, number: int) -> ConsumerKey:
        return consumer_key(self._session, number)

    def _mark(self) -> None:
        if not self._marked:
            self._marked = True
            self._node.turn.mark_endpoint(self)

    # What it does

    def publish(self, runs: list[tuple[list[QueueHost], list[Letter]]]) -> None:
        """One socket read full of publishes, with the queues that each run goes to."""
        plans = [Targets([*hosts]) for hosts, _ in runs]
        tag = self.publisher.next_tag
        for hosts, letters in runs:
            for letter in letters:
                self._tags[tag] = [self._note(host.uid, letter) for host in hosts]
                tag += 1
        if self.publisher.publish(event_of([letters for _, letters in runs]), plans):
            self._mark()

    def _note(self, uid: int, letter: Letter) -> Message:
        message = self._ledger.publish(
            uid, letter.payload, letter.persistent, letter.priority, letter.ttl_ms is not None
        )
        self._sent.setdefault(uid, []).append(message)
        return message

    def attach(self, host: QueueHost, credit: int) -> None:
        self._numbers += 1
        self.consumers[self._numbers] = host
        host.command(self, Attach(self._key(self._numbers), credit, True, False, 0))

    def cancel(self, number: int) -> None:
        """What was not fetched goes back unseen; what is held stays held."""
        host = self.consumers.pop(number)
        back = [held for held in self.waiting if held[:2] == (host.uid, number)]
        for held in back:
            del self.waiting[held]
        if back:
            runs = runs_of([seq for _, _, seq in back])
            host.command(self, Settle(self._key(number), RETURN_UNSEEN, runs))
        host.command(self, Detach(self._key(number)))

    def get(self, host: QueueHost) -> None:
        host.command(self, Get(self._session))

    def purge(self, host: QueueHost) -> None:
        host.command(self, Purge(self._session))

    def settle(self, chosen: list[Held], outcome: int) -> None:
        """Accept, reject or release what it holds."""
        for uid, number in sorted({held[:2] for held in chosen}):
            seqs = [seq for u, n, seq in chosen if (u, n) == (uid, number)]
            for seq in seqs:
                message = self.held.pop((uid, number, seq))
                if outcome == ACCEPT:
                    self._ledger.settle(message)
                elif outcome == REJECT:
                    self._ledger.reject(message)
                else:
                    self._ledger.gave_back(uid, seq)
            host = self._node.broker.queues.host(uid)
            host.command(self, Settle(self._key(number), outcome, runs_of(seqs)))

    def end(self) -> None:
        self._ended = True
        self.gone(self._ledger)
        for uid in list(self._node.broker.queues.hosts.awake):
            self._node.broker.queues.host(uid).command(self, EndSession(self._session))
        self._credit.peer_down_everywhere()
        self.consumers.clear()
        self.waiting.clear()
        self.held.clear()

    def gone(self, ledger: Ledger) -> None:
        """The client, or its node, is no more: what it holds goes back."""
        for uid, _, seq in (*self.held, *self.waiting):
            ledger.gave_back(uid, seq)

    # The end of the turn

    def flush(self) -> None:
        """Take the confirms, fetch what was delivered."""
        self._marked = False
        for tag, multiple, accepted in self.publisher.take_confirms():
            tags = [each for each in self._tags if each <= tag] if multiple else [tag]
            for each in tags:
                self._decided(self._tags.pop(each), accepted)
        for held in list(self.waiting):
            self._fetch(held)

    def _decided(self, messages: list[Message], accepted: bool) -> None:
        """A nack means that some queue has refused it; those that did have told."""
        assert accepted != any(message.refusing for message in messages)
        for message in messages:
            if message.refusing:
                self._ledger.refuse(message)
            else:
                self._ledger.confirm(message)

    def _fetch(self, held: Held) -> None:
        uid, _, seq = held
        host = self._node.broker.queues.host(uid)
        view = host.view(self, seq, 1)
        if view is None:
            return  # `on_loaded` will mark this session.
        redelivered = self.waiting.pop(held)
        payload = payload_of(view.chunk, view.index)
        self.held[held] = self._ledger.delivered(uid, seq, payload, redelivered)

    # Effects of the queues

    def on_confirms(self, uid: int, upto_seq: int) -> None:
        if self.publisher.on_confirms(uid, upto_seq):
            self._mark()

    def on_refused(self, uid: int, first_seq: int, count: int) -> None:
        sent = self._sent[uid]
        for message in sent[first_seq - 1 : first_seq - 1 + count]:
            message.refusing = True
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
        assert delivery_seq == self._counts.get(number, 0) + 1
        self._counts[number] = delivery_seq + count - 1
        for seq in range(first, first + count):
            self._ledger.checked_out(uid, seq, redelivered, attempts)
        if self._ended:
            return
        if number not in self.consumers:  # The queue had not heard of the cancel yet.
            host = self._node.broker.queues.host(uid)
            host.command(self, Settle(self._key(number), RETURN_UNSEEN, [(first, count)]))
            return
        for seq in range(first, first + count):
            self._wait_for((uid, number, seq), redelivered)
            self.order.setdefault(uid, []).append(seq)

    def _wait_for(self, held: Held, redelivered: bool) -> None:
        self.waiting[held] = redelivered
        self._mark()

    def on_got(self, uid: int, message: int, redelivered: bool, ready: int, attempts: int) -> None:
        if message > 0:
            self._ledger.checked_out(uid, message, redelivered, attempts)
            self._wait_for((uid, 0, message), redelivered)
        if self._ended:
            self.gone(self._ledger)
            self.waiting.clear()

    def on_activated(self, uid: int, number: int, active: bool) -> None:
        raise AssertionError("no queue has a single active consumer")

    def on_timed_out(self, uid: int, number: int, timeout_ms: int) -> None:
        raise AssertionError("no delivery is kept for half an hour")

    def on_attached(self, uid: int, number: int) -> None:
        assert self._ended or number in range(1, self._numbers + 1)

    def on_attach_refused(self, uid: int, number: int, reason: int) -> None:
        raise AssertionError("no client asked for exclusive use")

    def on_detached(self, uid: int, number: int, goes: bool) -> None:
        assert number not in self.consumers

    def on_drained(self, uid: int, number: int, delivery_count: int) -> None:
        raise AssertionError("no client asked for a drain")

    def on_purged(self, uid: int, count: int) -> None:
        self.purge_heard = count

    def on_inspected(self, uid: int, ready: int, consumer_count: int) -> None:
        raise AssertionError("no client asked for an inspection")

    def on_loaded(self, uid: int) -> None:
        self._mark()

    def on_unreadable(self, uid: int) -> None:
        raise AssertionError(f"the simulated disk reads everything; queue {uid} is not readable")

    def on_gone(self, uid: int) -> None:
        if self.publisher.on_gone(uid):
            self._mark()
        self.consumers = {n: host for n, host in self.consumers.items() if host.uid != uid}
        self.waiting = {held: flag for held, flag in self.waiting.items() if held[0] != uid}
        self.held = {held: message for held, message in self.held.items() if held[0] != uid}

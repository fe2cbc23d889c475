"""A session that uses a quorum queue through its node's proxy, and holds it to its word.

Publishes bodies that say who they are, looks at the deliveries, settles them, asks for things and
counts the answers. What it receives must be what the truth (the machine that applies each committed
entry once, `roaming_world.Truth`) says: no delivery twice, none out of order, no flag made up.
"""

from collections import deque
from random import Random

from queues.machine.commands import (
    ACCEPT,
    RELEASE,
    Attach,
    Command,
    Credit,
    Detach,
    EndSession,
    Get,
    Inspect,
    Purge,
    SessionId,
    Settle,
    consumer_key,
)
from queues.machine.options import Options
from queues.machine.traits import ABSENT
from queues.queue_host import QueueHost
from queues.sessions.credit import CreditActor, CreditSpec
from tests.unit.queues.messages import body_of, chunk_of

WINDOW = 6  # credit of a consumer


class Truth:
    """What happened, by the committed entries alone."""

    def __init__(self) -> None:
        self.bodies: dict[int, bytes] = {}  # by message_seq
        self.publishes: dict[tuple[SessionId, int], int] = {}  # the message_seq of each
        self.refused: set[tuple[SessionId, int]] = set()
        self.deliveries: dict[tuple[int, int], tuple[int, bool]] = {}  # key, delivery_seq
        self.activations: set[tuple[int, bool]] = set()  # key, whether it became the active one


class Client:
    """See the module (`queues.queue_host.SessionSink`)."""

    def __init__(
        self, session: SessionId, host: QueueHost, lots: Random, truth: Truth, options: Options
    ) -> None:
        self._session = session
        self._credit = CreditActor(f"client {session & 0xFFFF}", CreditSpec(40, 20))
        self._host = host
        self._lots = lots
        self._truth = truth
        self._options = options
        self.active: set[int] = set()  # consumers that were made the active one
        self.published = 0
        self.confirmed = 0
        self.refused: set[int] = set()
        self.consumers: dict[int, int] = {}  # the last delivery_seq by number
        self._next_number = 1
        self._unseen: deque[tuple[int, int]] = deque()  # consumer, message_seq
        self._seen: deque[tuple[int, int]] = deque()
        self._expected: deque[tuple[str, int]] = deque()  # answers to come: kind, consumer or 0
        self.is_over = False
        self.quiet = False  # takes and accepts all, and does nothing else
        self.is_given_up = False  # the cluster takes its process for gone: what it receives is late

    @property
    def session(self) -> SessionId:
        return self._session

    @property
    def uid(self) -> int:
        """Of its queue."""
        return self._host.uid

    @property
    def credit(self) -> CreditActor:
        return self._credit

    def use(self, host: QueueHost) -> None:
        """The queue has mirrors now: this is the way to it."""
        self._host = host

    @property
    def is_settled(self) -> bool:
        """It waits for nothing. What a cancelled consumer had may be taken back without a word
        while its process is suspended; what is still held keeps the queue from its rest."""
        unseen = [seq for number, seq in self._unseen if number in self.consumers]
        waits = unseen or self._seen or self._expected
        return self.confirmed == self.published and not waits

    def state(self) -> str:
        return (
            f"confirmed {self.confirmed} of {self.published}, {len(self._unseen)} unseen, "
            f"{len(self._seen)} unsettled, waits for {list(self._expected)}"
        )

    # What it does

    def act(self) -> None:
        if self.is_over:
            return
        self._look()
        draw = self._lots.random()
        if self.quiet:
            self._settle(len(self._seen))
        elif draw < 0.3 and not self._credit.is_blocked():
            self._publish()
        elif draw < 0.6:
            self._settle(self._lots.randrange(1, 5))
        elif self._options.single_active and draw < 0.75:
            self._come_or_go()
        elif draw < 0.68 and len(self.consumers) < 3:
            self.attach(self._lots.randrange(1, WINDOW))
        elif draw < 0.9:
            self._seldom()

    def _publish(self) -> None:
        count = self._lots.randrange(1, 4)
        first = self.published + 1
        self.published += count
        bodies = [self._body(first + place) for place in range(count)]
        chunk = chunk_of(bodies, base=self._lots.randrange(9))
        self._host.publish(self, chunk, first)

    def _body(self, seq: int) -> bytes:
        """Its name, and what is wished for it: a priority, a lifetime; -1: none."""
        priority = self._lots.randrange(-1, 4) if self._options.levels > 1 else ABSENT
        lives = self._lots.random() < 0.2 and self._options.ttl_ms >= 0
        ttl_ms = self._lots.choice((0, 5, 40)) if lives else ABSENT
        return b"%d/%d/%d/%d" % (self._session, seq, priority, ttl_ms)

    def attach(self, credit: int) -> None:
        number = self._next_number
        self._next_number += 1
        self._expected.append(("attached", number))
        self.consumers[number] = 0
        priority = 0 if self.quiet else self._lots.choice((0, 0, 1))
        self._give(Attach(consumer_key(self._session, number), credit, True, False, priority))

    def _come_or_go(self) -> None:
        """So that often another one is the active consumer."""
        if len(self.consumers) < 3 and self._lots.random() < 0.5:
            self.attach(self._lots.randrange(1, WINDOW))
        elif self.consumers:
            self._detach(self._lots.choice(list(self.consumers)))

    def _detach(self, number: int) -> None:
        del self.consumers[number]
        self._ask("detached", Detach(consumer_key(self._session, number)))

    def _seldom(self) -> None:
        kind = self._lots.choice(("get", "get", "inspect", "purge", "detach", "drain"))
        number = self._lots.choice(list(self.consumers)) if self.consumers else 0
        key = consumer_key(self._session, number)
        if kind == "get":
            self._ask("got", Get(self._session))
        elif kind == "inspect":
            self._ask("inspected", Inspect(self._session))
        elif kind == "purge" and self._lots.random() < 0.1:
            self._ask("purged", Purge(self._session))
        elif kind == "detach" and number and self._lots.random() < 0.3:
            self._detach(number)
        elif kind == "drain" and number:
            self._ask("drained", Credit(key, self.consumers[number], 3, True, True), number)
            self._give(Credit(key, self.consumers[number], WINDOW, False, True))

    def _ask(self, answer: str, command: Command, number: int = 0) -> None:
        self._expected.append((answer, number))
        self._give(command)

    def _give(self, command: Command) -> None:
        self._host.command(self, command)

    def _look(self) -> None:
        """At its deliveries, in order, as far as the bodies are there."""
        while self._unseen:
            seq = self._unseen[0][1]
            view = self._host.view(self, seq, 1)
            if view is None:
                return
            assert view.first == seq
            body = body_of(view.chunk, view.index)
            assert body == self._truth.bodies[seq], f"message {seq} is {body!r}"
            self._seen.append(self._unseen.popleft())

    def _settle(self, count: int) -> None:
        for _ in range(min(count, len(self._seen))):
            number, seq = self._seen.popleft()
            releases = not self.quiet and self._lots.random() < 0.15
            key = consumer_key(self._session, number)
            self._give(Settle(key, RELEASE if releases else ACCEPT, [(seq, 1)]))

    def end(self) -> None:
        self.is_over = True
        self._give(EndSession(self._session))

    def die(self) -> None:
        """Its node is gone."""
        self.is_over = True

    # What it receives

    def _answer(self, kind: str) -> None:
        assert not self.is_over, f"{kind} after the end"
        assert self._expected, f"{kind}, and nothing was asked"
        assert self._expected[0][0] == kind, f"{kind} where {self._expected[0]} was asked"
        self._expected.popleft()

    def on_confirms(self, uid: int, upto_seq: int) -> None:
        assert not self.is_over
        assert self.confirmed < upto_seq <= self.published, "confirmed twice, or never published"
        for seq in range(self.confirmed + 1, upto_seq + 1 if not self.is_given_up else 0):
            name = (self._session, seq)
            assert name in self._truth.publishes, f"publish {seq} is confirmed and not committed"
            assert (seq in self.refused) == (name in self._truth.refused), f"publish {seq} refused?"
        self.confirmed = upto_seq

    def on_refused(self, uid: int, first_seq: int, count: int) -> None:
        assert first_seq > self.confirmed, "refused after it was confirmed"
        refused = range(first_seq, first_seq + count)
        assert self.refused.isdisjoint(refused), "refused twice"
        self.refused.update(refused)

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
        assert not self.is_over
        key = consumer_key(self._session, number)
        for place in range(count):
            wanted = self._truth.deliveries[key, delivery_seq + place]
            assert wanted == (first + place, redelivered), "another delivery than was made"
            self._unseen.append((number, first + place))
        last = self.consumers.get(number, 0)
        assert delivery_seq > last, "a delivery twice, or out of order"
        if number in self.consumers:
            self.consumers[number] = delivery_seq + count - 1

    def on_got(self, uid: int, message: int, redelivered: bool, ready: int, attempts: int) -> None:
        self._answer("got")
        if message > 0:  # Its body is at hand.
            view = self._host.view(self, message, 1)
            assert view is not None, "got, and not there"
            assert body_of(view.chunk, view.index) == self._truth.bodies[message]
            self._seen.append((0, message))

    def on_attached(self, uid: int, number: int) -> None:
        self._answer("attached")

    def on_attach_refused(self, uid: int, number: int, reason: int) -> None:
        raise AssertionError("no client is exclusive here")

    def on_detached(self, uid: int, number: int, goes: bool) -> None:
        self._answer("detached")
        self.active.discard(number)

    def on_activated(self, uid: int, number: int, active: bool) -> None:
        assert self._options.single_active, "no client is the single active one here"
        assert active != (number in self.active), "reported twice"
        key = consumer_key(self._session, number)
        assert (key, active) in self._truth.activations, "told of what never was"
        if active:
            self.active.add(number)
        else:
            self.active.discard(number)

    def on_timed_out(self, uid: int, number: int, timeout_ms: int) -> None:
        assert not self.is_over
        self.consumers.pop(number, None)
        self.active.discard(number)
        kept = [each for each in self._expected if each != ("drained", number)]
        self._expected = deque(kept)
        self._unseen = deque([each for each in self._unseen if each[0] != number])
        self._seen = deque([each for each in self._seen if each[0] != number])

    def on_drained(self, uid: int, number: int, delivery_count: int) -> None:
        self._answer("drained")
        if number in self.consumers:
            assert delivery_count >= self.consumers[number]
            self.consumers[number] = delivery_count

    def on_purged(self, uid: int, count: int) -> None:
        self._answer("purged")

    def on_inspected(self, uid: int, ready: int, consumer_count: int) -> None:
        self._answer("inspected")

    def on_loaded(self, uid: int) -> None:
        assert not self.is_over

    def on_unreadable(self, uid: int) -> None:
        raise AssertionError("every body can be read here")

    def on_gone(self, uid: int) -> None:
        assert self.is_given_up, "the queue is gone for a session that lives"
        self.consumers.clear()
        self.active.clear()
        for waiting in (self._unseen, self._seen, self._expected):
            waiting.clear()

"""Internal flow control: who may hand how much to whom (RabbitMQ's credit_flow). Pure, compiled.

Actors are the reader of a socket, a channel, a queue host, the journal. A sender starts with
`initial` credit towards a receiver; each message takes one. The receiver gives `more_after` back
each time it has dealt with that many. An actor without credit is *blocked*, but goes on handing
down what it has, so its credit may go below zero; what it withholds are the grants to its own
senders. So pressure travels up, and only the source, the socket reader, really stops. The graph
of actors has no cycle. Counted per batch.

A `FlowLedger` is called whenever an actor begins and ends to be blocked by another, and of nothing
else, so that a broker without waiting actors pays nothing for it. It knows the edges that there are
now, what pairs of names have lost so far (the last PAST_MAX of them), and sums by kinds of actors.
"""

from collections.abc import Callable
from typing import Final, final

from mypy_extensions import i64

PAST_MAX: Final = 1024  # pairs of actors whose lost time is kept

# Kinds of actors of which there are many; others are their own kind.
CONNECTION: Final = "connection"  # the reader of its socket
CHANNEL: Final = "channel"
LINK: Final = "link"
QUEUE: Final = "queue"
DEAD_LETTERS: Final = "dead letters"
ADDRESS: Final = "address"


@final
class Wait:
    """How long, and how often, one was held back by another."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self.times: i64 = 0


@final
class FlowLedger:
    """See the module. `clock_s` is of a clock that does not jump."""

    def __init__(self, clock_s: Callable[[], float]) -> None:
        self._clock_s = clock_s
        self._since: dict[tuple[CreditActor, CreditActor], float] = {}  # held back, by whom
        self._by_kind: dict[tuple[str, str], Wait] = {}
        self._past: dict[tuple[str, str, str, str], Wait] = {}  # as `Pair`; the latest come last

    def began(self, sender: "CreditActor", receiver: "CreditActor") -> None:
        """`receiver` blocks `sender` from now on."""
        self._since[(sender, receiver)] = self._clock_s()

    def ended(self, sender: "CreditActor", receiver: "CreditActor") -> None:
        """It does no more."""
        since = self._since.pop((sender, receiver), -1.0)
        if since < 0.0:
            return
        took_s = self._clock_s() - since
        kinds = (sender.kind, receiver.kind)
        wait = self._by_kind.get(kinds)
        if wait is None:
            wait = Wait()
            self._by_kind[kinds] = wait
        wait.seconds += took_s
        wait.times += 1
        pair = (sender.kind, sender.name, receiver.kind, receiver.name)
        past = self._past.pop(pair, None)
        if past is None:
            past = Wait()
            if len(self._past) >= PAST_MAX:
                del self._past[next(iter(self._past))]
        past.seconds += took_s
        past.times += 1
        self._past[pair] = past

    def edges(self) -> list[tuple["CreditActor", "CreditActor", float]]:
        """Who is held back by whom now, and for how many seconds."""
        now_s = self._clock_s()
        return [(one, other, now_s - since) for (one, other), since in self._since.items()]

    def past(self) -> list[tuple[tuple[str, str, str, str], float, int]]:
        """(kind and name of who was held back, kind and name of by whom), seconds and times of what
        has ended; the latest last."""
        return [(pair, wait.seconds, int(wait.times)) for pair, wait in self._past.items()]

    def totals(self) -> list[tuple[tuple[str, str], float, int]]:
        """(kind of who was held back, kind of by whom), seconds and times, with what goes on."""
        seconds: dict[tuple[str, str], float] = {}
        times: dict[tuple[str, str], int] = {}
        for kinds, wait in self._by_kind.items():
            seconds[kinds] = wait.seconds
            times[kinds] = int(wait.times)
        for one, other, so_far in self.edges():
            kinds = (one.kind, other.kind)
            seconds[kinds] = seconds.get(kinds, 0.0) + so_far
            times[kinds] = times.get(kinds, 0) + 1
        return [(kinds, seconds[kinds], times[kinds]) for kinds in seconds]


@final
class CreditSpec:
    """(InitialCredit, MoreCreditAfter) of the edges into one kind of receiver."""

    def __init__(self, initial: i64, more_after: i64, ledger: FlowLedger | None = None) -> None:
        assert 0 < more_after <= initial
        self.initial: i64 = initial
        self.more_after: i64 = more_after
        self.ledger = ledger  # gets the actors with this rule, and of whom they hold back


@final
class Edge:
    """What is between a sender and a receiver, until each of them has forgotten the other."""

    def __init__(self, sender: "CreditActor", receiver: "CreditActor") -> None:
        self.sender = sender
        self.receiver = receiver
        self.credit: i64 = receiver.spec.initial  # what the sender may still send
        self.owed: i64 = 0  # dealt with by the receiver since the last grant
        self.sender_knows = True
        self.receiver_knows = True


@final
class CreditActor:
    """One actor: what it may send, what it owes its senders, who blocks it.

    Invariant: `blocked_by` holds exactly the receivers towards which the credit is zero or less;
    `_deferred` is empty while `blocked_by` is. `_last_to` and `_last_from` are None or among the
    edges that the actor knows.
    """

    def __init__(
        self,
        name: str,
        spec: CreditSpec,
        on_unblocked: Callable[[], None] | None = None,
        kind: str = "",
    ) -> None:
        self.name = name
        self.kind = kind if kind else name  # of few; names may be many
        self.spec = spec  # of the edges into this actor
        self.blocked_by: list[CreditActor] = []
        self.blocked_count = 0  # times that it became blocked
        self._on_unblocked = on_unblocked
        self._to: dict[CreditActor, Edge] = {}  # by receiver
        self._from: dict[CreditActor, Edge] = {}  # by sender
        # Of both, the edge that was used last: most queues have one publisher, all one journal.
        self._last_to: Edge | None = None
        self._last_from: Edge | None = None
        self._deferred: dict[CreditActor, int] = {}  # sender -> grants held back

    def is_blocked(self) -> bool:
        return len(self.blocked_by) > 0

    def send(self, receiver: "CreditActor", count: i64) -> None:
        """I hand `count` messages to `receiver`."""
        edge = self._last_to
        if edge is None or edge.receiver is not receiver:
            edge = receiver._last_from
            if edge is None or edge.sender is not self or not edge.sender_knows:
                edge = self._edge_to(receiver)
        before = edge.credit
        after = before - count
        edge.credit = after
        if before > 0 and after <= 0:
            self.blocked_by.append(receiver)
            self.blocked_count += 1
            ledger = self._ledger_with(receiver)
            if ledger is not None:
                ledger.began(self, receiver)

    def _edge_to(self, receiver: "CreditActor") -> Edge:
        edge = self._to.get(receiver)
        if edge is None:
            edge = Edge(self, receiver)
            self._to[receiver] = edge
            receiver._from[self] = edge
        self._last_to = edge
        if edge.receiver_knows:
            receiver._last_from = edge
        return edge

    def _ledger_with(self, receiver: "CreditActor") -> FlowLedger | None:
        """Where the edge between us is kept."""
        ledger = self.spec.ledger
        return receiver.spec.ledger if ledger is None else ledger

    def ack(self, sender: "CreditActor", count: i64) -> None:
        """I have dealt with `count` messages of `sender`."""
        edge = self._last_from
        if edge is None or edge.sender is not sender:
            edge = sender._last_to
            if edge is None or edge.receiver is not self or not edge.receiver_knows:
                edge = self._from.get(sender)
                if edge is None:
                    return  # The sender went (peer_down) while this was under way.
        owed = edge.owed + count
        more_after = self.spec.more_after
        if owed < more_after:
            edge.owed = owed
            return
        grant = owed - owed % more_after
        edge.owed = owed - grant
        if len(self.blocked_by) > 0:
            self._deferred[sender] = i64(self._deferred.get(sender, 0)) + grant
        else:
            sender._granted(self, grant)

    def _granted(self, receiver: "CreditActor", count: i64) -> None:
        edge = self._to.get(receiver)
        if edge is None:
            return  # The edge went (peer_down) while the grant was held back.
        before = edge.credit
        after = before + count
        edge.credit = after
        if before <= 0 and after > 0:
            self._unblock(receiver)

    def _unblock(self, receiver: "CreditActor") -> None:
        self.blocked_by.remove(receiver)
        ledger = self._ledger_with(receiver)
        if ledger is not None:
            ledger.ended(self, receiver)
        if len(self.blocked_by) > 0:
            return
        deferred = self._deferred
        self._deferred = {}
        for sender, count in deferred.items():
            sender._granted(self, count)
        if self._on_unblocked is not None:
            self._on_unblocked()

    def peer_down(self, peer: "CreditActor") -> None:
        """`peer` is gone: what was between us is forgotten, and it blocks me no more."""
        self._deferred.pop(peer, None)
        edge = self._from.pop(peer, None)
        if edge is not None:
            edge.receiver_knows = False
            if self._last_from is edge:
                self._last_from = None
        edge = self._to.pop(peer, None)
        if edge is not None:
            edge.sender_knows = False
            if self._last_to is edge:
                self._last_to = None
            if edge.credit <= 0:
                self._unblock(peer)

    def peer_down_everywhere(self) -> None:
        """I am going: all my senders and receivers forget me."""
        for sender in list(self._from):
            sender.peer_down(self)
        for receiver in list(self._to):
            receiver.peer_down(self)
        for receiver in self.blocked_by:
            ledger = self._ledger_with(receiver)
            if ledger is not None:
                ledger.ended(self, receiver)
        for edge in self._from.values():
            edge.receiver_knows = False
        for edge in self._to.values():
            edge.sender_knows = False
        self._to = {}
        self._from = {}
        self._last_to = None
        self._last_from = None
        self._deferred = {}
        self.blocked_by = []

    def credit_towards(self, receiver: "CreditActor") -> int:
        """What I may still send to `receiver`; zero or less: it blocks me."""
        edge = self._to.get(receiver)
        return receiver.spec.initial if edge is None else edge.credit

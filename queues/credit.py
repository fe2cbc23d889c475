"""Internal flow control: who may hand how much to whom (RabbitMQ's credit_flow). Pure, compiled.

Actors are the reader of a socket, a channel, a queue host, the journal. A sender starts with
`initial` credit towards a receiver; each message takes one. The receiver gives `more_after` back
each time it has dealt with that many. An actor without credit is *blocked*, but goes on handing
down what it has, so its credit may go below zero; what it withholds are the grants to its own
senders. So pressure travels up, and only the source, the socket reader, really stops. The graph
of actors has no cycle. Counted per batch. Source: FEATURES.md section 10.2 (G-10 to G-13).

A `FlowLedger` is told whenever an actor begins and ends to be blocked by another, and of nothing
else, so that a broker in which nobody waits pays nothing for it. It knows the edges that there are
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
        self.ledger = ledger  # is told of the actors with this rule, and of whom they hold back


@final
class CreditActor:
    """One actor: what it may send, what it owes its senders, who blocks it.

    Invariant: `blocked_by` holds exactly the receivers towards which the credit is zero or less;
    `_deferred` is empty while `blocked_by` is.
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
        self._from: dict[CreditActor, int] = {}  # receiver -> what I may still send
        self._owed: dict[CreditActor, int] = {}  # sender -> dealt with since the last grant
        self._deferred: dict[CreditActor, int] = {}  # sender -> grants held back

    def is_blocked(self) -> bool:
        return len(self.blocked_by) > 0

    def send(self, receiver: "CreditActor", count: i64) -> None:
        """I hand `count` messages to `receiver`."""
        known = self._from.get(receiver)
        if known is None:
            known = receiver.spec.initial
            receiver._owed[self] = 0
        before: i64 = known
        after = before - count
        self._from[receiver] = after
        if before > 0 and after <= 0:
            self.blocked_by.append(receiver)
            self.blocked_count += 1
            ledger = self._ledger_with(receiver)
            if ledger is not None:
                ledger.began(self, receiver)

    def _ledger_with(self, receiver: "CreditActor") -> FlowLedger | None:
        """Where the edge between us is kept."""
        ledger = self.spec.ledger
        return receiver.spec.ledger if ledger is None else ledger

    def ack(self, sender: "CreditActor", count: i64) -> None:
        """I have dealt with `count` messages of `sender`."""
        known = self._owed.get(sender)
        if known is None:
            return  # The sender went (peer_down) while this was under way.
        owed: i64 = known + count
        more_after = self.spec.more_after
        grant = owed - owed % more_after
        self._owed[sender] = owed - grant
        if grant == 0:
            return
        if len(self.blocked_by) > 0:
            self._deferred[sender] = i64(self._deferred.get(sender, 0)) + grant
        else:
            sender._granted(self, grant)

    def _granted(self, receiver: "CreditActor", count: i64) -> None:
        if receiver not in self._from:
            return  # The edge went (peer_down) while the grant was held back.
        before: i64 = self._from[receiver]
        after = before + count
        self._from[receiver] = after
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
        self._owed.pop(peer, None)
        self._deferred.pop(peer, None)
        credit = self._from.pop(peer, None)
        if credit is not None and credit <= 0:
            self._unblock(peer)

    def peer_down_everywhere(self) -> None:
        """I am going: all my senders and receivers forget me."""
        for sender in list(self._owed):
            sender.peer_down(self)
        for receiver in list(self._from):
            receiver.peer_down(self)
        for receiver in self.blocked_by:
            ledger = self._ledger_with(receiver)
            if ledger is not None:
                ledger.ended(self, receiver)
        self._owed = {}
        self._from = {}
        self._deferred = {}
        self.blocked_by = []

    def credit_towards(self, receiver: "CreditActor") -> int:
        """What I may still send to `receiver`; zero or less: it blocks me."""
        return self._from.get(receiver, receiver.spec.initial)

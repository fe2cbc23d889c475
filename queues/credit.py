"""Internal flow control: who may hand how much to whom (RabbitMQ's credit_flow). Pure, compiled.

Actors are the reader of a socket, a channel, a queue host, the journal. A sender starts with
`initial` credit towards a receiver; each message takes one. The receiver gives `more_after` back
each time it has dealt with that many. An actor without credit is *blocked*, but goes on handing
down what it has, so its credit may go below zero; what it withholds are the grants to its own
senders. So pressure travels up, and only the source, the socket reader, really stops. The graph
of actors has no cycle. Counted per batch. Source: FEATURES.md section 10.2 (G-10 to G-13).
"""

from collections.abc import Callable
from typing import final

from mypy_extensions import i64


@final
class CreditSpec:
    """(InitialCredit, MoreCreditAfter) of the edges into one kind of receiver."""

    def __init__(self, initial: i64, more_after: i64) -> None:
        assert 0 < more_after <= initial
        self.initial: i64 = initial
        self.more_after: i64 = more_after


@final
class CreditActor:
    """One actor: what it may send, what it owes its senders, who blocks it.

    Invariant: `blocked_by` holds exactly the receivers towards which the credit is zero or less;
    `_deferred` is empty while `blocked_by` is.
    """

    def __init__(
        self, name: str, spec: CreditSpec, on_unblocked: Callable[[], None] | None = None
    ) -> None:
        self.name = name
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
        self._owed = {}
        self._from = {}
        self._deferred = {}
        self.blocked_by = []

    def credit_towards(self, receiver: "CreditActor") -> int:
        """What I may still send to `receiver`; zero or less: it blocks me."""
        return self._from.get(receiver, receiver.spec.initial)

"""Transactions of a session: their age, and the bytes that they keep."""

from collections.abc import Callable
from typing import Any

import pytest

from node.amqp091.transaction import BYTES_MAX, RUN_BYTES
from node.amqp10.transactions import MS_MAX, Transactions
from queues.machine.commands import ACCEPT, FAIL
from queues.sessions.publishing import Held
from queues.sessions.unacked import TagRun, Unacked
from tests.unit.wire.amqp10.peers import Raw, only
from warren.wire.amqp10.arrivals import Received
from warren.wire.amqp10.codec.performatives import (
    Accepted,
    Attach,
    Coordinator,
    Declare,
    Declared,
    Discharge,
    Disposition,
    Rejected,
)
from warren.wire.amqp10.codec.values import Described, ULong
from warren.wire.amqp10.codec.writer import encode_value
from warren.wire.amqp10.errors import Condition, ProtocolError, Scope
from warren.wire.amqp10.events import (
    AttachRequested,
    Settled,
)
from warren.wire.amqp10.settling import ACCEPTED


class Alarm:
    def __init__(self, call: Callable[[], None]) -> None:
        self.call = call
        self.is_cancelled = False

    def cancel(self) -> None:
        self.is_cancelled = True


class Owner:
    """The part of the endpoint that declares and retirements need."""

    name = "client"

    def __init__(self) -> None:
        self.held = Held()
        self.alarms: list[tuple[int, Alarm]] = []

    def call_later(self, ms: int, call: Callable[[], None]) -> Alarm:
        self.alarms.append((ms, Alarm(call)))
        return self.alarms[-1][1]

    def mark(self) -> None: ...

    def ids(self) -> Any:
        return {}


class Room:
    """A session whose consumers are `consuming`, and a coordinator link on handle 0."""

    def __init__(self) -> None:
        self.raw = Raw()
        self.raw.open()
        self.core = self.raw.begin()
        self.owner = Owner()
        self.consuming: dict[int, Any] = {}
        self.unacked = Unacked()
        self.settled: list[tuple[int, int]] = []  # outcome, messages
        owner: Any = self.owner
        self.transactions = Transactions(owner, self.core, self)
        asked = Attach(name="t", handle=0, role=False, initial_delivery_count=0)
        asked.target = Coordinator()
        event = only(self.raw.send(asked), AttachRequested)[0]
        self.transactions.attach(event.link, event.attach)
        self.raw.bytes_out()
        self._asked = 0

    def settle_runs(self, runs: list[TagRun], outcome: int, words: bytes) -> None:
        self.settled.append((outcome, sum(int(run.count) for run in runs)))

    def tell_settled(self, runs: list[TagRun], said: Settled) -> None: ...

    def ask(self, request: Declare | Discharge) -> Any:
        fields = [] if isinstance(request, Declare) else [request.txn_id, request.fail]
        value = Described(ULong(0x77), Described(ULong(request.descriptor), fields))
        event = only(self.raw.transfer(0, self._asked, payload=encode_value(value)), Received)[0]
        self._asked += 1
        self.transactions.received(event.link, event.transfers)
        told = [each for _, each, _ in self.raw.frames() if isinstance(each, Disposition)]
        return told[0].state

    def declare(self) -> bytes:
        state = self.ask(Declare())
        assert isinstance(state, Declared)
        return state.txn_id

    def retire(self, txn_id: bytes, count: int) -> None:
        said = Settled(self.core, True, 0, count - 1, True, ACCEPTED, None)
        run = TagRun(1, count, 7, 1, 1)
        self.transactions.retire(txn_id, [run], said, ACCEPT, b"")


class Consumer:
    ended = False

    def renewal(self) -> int:
        return 1


def test_transaction_without_work_never_times_out() -> None:
    room = Room()
    room.declare()
    assert room.owner.alarms == []


def test_transaction_that_is_too_old_is_rolled_back_and_says_so() -> None:
    room = Room()
    room.consuming[7] = Consumer()
    txn_id = room.declare()
    room.retire(txn_id, 3)
    room.retire(txn_id, 2)
    [(ms, alarm)] = room.owner.alarms
    assert ms == MS_MAX
    alarm.call()
    assert room.settled == [(FAIL, 3), (FAIL, 2)]
    assert room.owner.held.transaction_bytes == 0
    with pytest.raises(ProtocolError) as caught:
        room.retire(txn_id, 1)
    assert (caught.value.condition, caught.value.scope) == (
        Condition.TRANSACTION_TIMEOUT,
        Scope.SESSION,
    )
    state = room.ask(Discharge(txn_id=txn_id))
    assert isinstance(state, Rejected)
    assert state.error is not None
    assert state.error.condition == Condition.TRANSACTION_TIMEOUT.value
    state = room.ask(Discharge(txn_id=txn_id))
    assert state.error.condition == Condition.UNKNOWN_TRANSACTION.value


def test_bytes_of_transactions_are_limited_and_given_back() -> None:
    room = Room()
    room.consuming[7] = Consumer()
    txn_id = room.declare()
    room.retire(txn_id, 1)
    kept = 2 * RUN_BYTES
    assert room.owner.held.transaction_bytes == kept
    room.owner.held.transaction_bytes = BYTES_MAX
    with pytest.raises(ProtocolError) as caught:
        room.retire(txn_id, 1)
    assert caught.value.condition == Condition.RESOURCE_LIMIT_EXCEEDED
    assert isinstance(room.ask(Discharge(txn_id=txn_id, fail=True)), Accepted)
    assert room.owner.held.transaction_bytes == BYTES_MAX - kept
    assert room.owner.alarms[0][1].is_cancelled

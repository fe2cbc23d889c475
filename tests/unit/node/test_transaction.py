"""What a transactional channel keeps: in order, counted, and let go once."""

import pytest

from node.amqp091.transaction import BYTES_MAX, Transaction
from queues.machine.commands import ACCEPT, REJECT
from queues.sessions.publishing import Held
from queues.sessions.unacked import VOID, TagRun
from tests.unit.queues.messages import event_of
from warren.wire.amqp091.events import Publishes
from warren.wire.errors import ProtocolError, ReplyCode, Scope


def event(body: bytes) -> Publishes:
    return event_of([(b"key", True, [body])])


def test_it_gives_back_what_it_was_given_in_order() -> None:
    transaction = Transaction(Held())
    events = [event(b"a"), event(b"b")]
    first, second = TagRun(1, 2, 7, 1, 10), TagRun(5, 1, 7, 1, 15)
    for each in events:
        transaction.publish(each)
    transaction.settle([first], ACCEPT)
    transaction.settle([second], REJECT)
    assert transaction.events == events
    assert transaction.take_settled() == [(ACCEPT, [first]), (REJECT, [second])]
    assert transaction.take_settled() == []


def test_tags_of_a_consumer_that_timed_out_are_void_and_count_no_more() -> None:
    transaction = Transaction(Held())
    runs = [TagRun(1, 2, 7, 1, 10), TagRun(3, 1, 8, 1, 4), TagRun(4, 1, VOID, 0, 0)]
    transaction.settle(runs, ACCEPT)
    assert transaction.settled_count == 3
    transaction.void(7, 1)
    assert transaction.settled_count == 1
    assert [run.uid for run in runs] == [VOID, 8, VOID]
    transaction.void(7, 1)
    assert transaction.settled_count == 1


def test_the_connection_counts_what_its_transactions_keep_until_they_let_go() -> None:
    held = Held()
    one, other = Transaction(held), Transaction(held)
    one.publish(event(b"x" * 1000))
    other.settle([TagRun(1, 2, 7, 1, 10)], ACCEPT)
    assert held.transaction_bytes == one.bytes + other.bytes
    assert one.bytes > 1000
    one.let_go()
    assert held.transaction_bytes == other.bytes > 0
    one.let_go()
    other.let_go()
    assert held.transaction_bytes == 0
    assert one.events == []


def test_too_much_of_it_closes_the_channel_for_waiting_would_be_for_ever() -> None:
    held = Held()
    full = Transaction(held)
    held.transaction_bytes = BYTES_MAX
    with pytest.raises(ProtocolError, match="transactions of the connection are larger") as caught:
        full.publish(event(b"x"))
    assert (caught.value.code, caught.value.scope) == (
        ReplyCode.PRECONDITION_FAILED,
        Scope.CHANNEL,
    )
    with pytest.raises(ProtocolError):
        full.settle([], ACCEPT)
    full.let_go()
    assert held.transaction_bytes == BYTES_MAX

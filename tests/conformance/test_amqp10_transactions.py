"""Local transactions of AMQP 1.0, frame by frame: coordinator, posting, retirement, discharge."""

from collections.abc import Iterator
from typing import Any

import pytest
from proton import symbol, ubyte, uint

from node.amqp10 import transactions
from tests.conformance.broker import (
    Broker,
    drain,
    numbered,
    publish_all,
    ready_count,
    take,
    wait_until_ready,
)
from tests.conformance.raw10 import (
    ACCEPTED,
    ATTACH,
    DETACH,
    DISPOSITION,
    DURABLE_MESSAGE,
    END,
    FLOW,
    RECEIVER,
    REJECTED,
    RELEASED,
    SENDER,
    TRANSFER,
    Frame,
    Raw10,
    described,
    encode,
    source,
)

COORDINATOR, DECLARE, DISCHARGE, DECLARED, TRANSACTIONAL = 0x30, 0x31, 0x32, 0x33, 0x34
QUORUM = {"x-queue-type": "quorum"}
LINK = 5  # handle of the coordinator link


@pytest.fixture
def session(own_broker: Broker) -> Iterator[Raw10]:
    """With a coordinator link."""
    with Raw10(own_broker.host, own_broker.port) as client:
        client.open()
        client.begin()
        attach_coordinator(client)
        yield client


@pytest.fixture(params=[{}, QUORUM], ids=["classic", "quorum"])
def filled(request: pytest.FixtureRequest, channel: Any, name: str) -> str:
    """A queue with four messages."""
    channel.queue_declare(name, durable=True, arguments=request.param)
    publish_all(channel, name, numbered(4))
    return name


def attach_coordinator(raw: Raw10) -> Frame:
    local = described(COORDINATOR, symbol("amqp:local-transactions"))
    modes = (ubyte(0), ubyte(0))
    rest = (source(None), local, None, None, uint(0))
    raw.call(ATTACH, "txn", uint(LINK), SENDER, *modes, *rest)
    answer = raw.expect(ATTACH)
    raw.expect(FLOW)
    return answer


def ask(raw: Raw10, request: Any) -> Any:
    """The delivery state that answers a request to the coordinator."""
    value = b"\x00\x53\x77" + encode(request)
    delivery_id = raw.next_id
    raw.send(raw.transfer(LINK, payload=value))
    while True:
        frame = raw.until(DISPOSITION)
        if frame.field(0) == RECEIVER and int(frame.field(1)) == delivery_id:
            assert frame.field(3) is True
            return frame.field(4)


def declare(raw: Raw10) -> bytes:
    state = ask(raw, described(DECLARE, None))
    assert state.descriptor == DECLARED
    return bytes(state.value[0])


def discharge(raw: Raw10, txn_id: bytes, fail: bool = False) -> Any:
    return ask(raw, described(DISCHARGE, txn_id, fail))


def error_of(state: Any) -> str:
    assert state.descriptor == REJECTED
    return str(state.value[0].value[0])


def post(raw: Raw10, txn_id: bytes, handle: int = 0, settled: bool = False) -> None:
    delivery_id = uint(raw.next_id)
    raw.next_id += 1
    tag = raw.next_id.to_bytes(4)
    state = described(TRANSACTIONAL, txn_id)
    fields = (uint(handle), delivery_id, tag, uint(0), settled, False, None, state)
    raw.send(raw.frame(TRANSFER, *fields, payload=DURABLE_MESSAGE))


def retire(raw: Raw10, txn_id: bytes, first: int, last: int, settled: bool = True) -> None:
    state = described(TRANSACTIONAL, txn_id, described(ACCEPTED))
    raw.call(DISPOSITION, RECEIVER, uint(first), uint(last), settled, state)


def receive(raw: Raw10, queue: str, count: int, handle: int = 1) -> None:
    raw.attach_receiver(f"/queues/{queue}", handle)
    raw.credit(count, handle=handle)
    for _ in range(count):
        raw.until(TRANSFER)


def test_coordinator_offers_local_transactions(own_broker: Broker) -> None:
    with Raw10(own_broker.host, own_broker.port) as raw:
        raw.open()
        raw.begin()
        target = attach_coordinator(raw).field(6)
    assert target.descriptor == COORDINATOR
    assert "amqp:local-transactions" in str(target.value[0])


@pytest.mark.parametrize("is_commit", [True, False])
@pytest.mark.parametrize("settled", [True, False])
def test_posted_messages_arrive_with_the_commit_alone(
    session: Raw10, channel: Any, filled: str, is_commit: bool, settled: bool
) -> None:
    session.attach_sender(f"/queues/{filled}")
    txn_id = declare(session)
    for _ in range(3):
        post(session, txn_id, settled=settled)
        if not settled:
            state = session.until(DISPOSITION).field(4)
            assert (state.descriptor, bytes(state.value[0])) == (TRANSACTIONAL, txn_id)
            assert state.value[1].descriptor == ACCEPTED
    assert ready_count(channel, filled) == 4
    assert discharge(session, txn_id, not is_commit).descriptor == ACCEPTED
    assert ready_count(channel, filled) == (7 if is_commit else 4)


@pytest.mark.parametrize("is_commit", [True, False])
def test_retired_messages_leave_with_the_commit_and_come_back_without(
    session: Raw10, channel: Any, filled: str, is_commit: bool
) -> None:
    receive(session, filled, 3)
    txn_id = declare(session)
    retire(session, txn_id, 0, 1)
    retire(session, txn_id, 2, 2)
    assert discharge(session, txn_id, not is_commit).descriptor == ACCEPTED
    if is_commit:
        session.call(DETACH, uint(1), True)
        session.until(DETACH)
        assert drain(channel, filled) == [b"4"]
        return
    wait_until_ready(channel, filled, 4)
    first = take(channel, filled)
    assert (first.body, first.redelivered) == (b"1", True)


def test_unsettled_retirement_is_settled_by_the_commit(
    session: Raw10, channel: Any, filled: str
) -> None:
    receive(session, filled, 2)
    undone = declare(session)
    retire(session, undone, 0, 1, settled=False)
    assert discharge(session, undone, True).descriptor == ACCEPTED
    txn_id = declare(session)
    retire(session, txn_id, 0, 1, settled=False)
    session.send(
        session.transfer(LINK, payload=b"\x00\x53\x77" + encode(described(DISCHARGE, txn_id)))
    )
    told = [session.until(DISPOSITION) for _ in range(2)]
    assert {frame.field(0) for frame in told} == {SENDER, RECEIVER}
    assert all(frame.field(3) is True for frame in told)
    assert drain(channel, filled) == [b"3", b"4"]


def test_message_moves_from_queue_to_queue_in_one_transaction(
    session: Raw10, channel: Any, filled: str, name: str
) -> None:
    other = f"{name}-other"
    channel.queue_declare(other, exclusive=True)
    session.attach_sender(f"/queues/{other}")
    receive(session, filled, 4)
    txn_id = declare(session)
    post(session, txn_id)
    retire(session, txn_id, 0, 3)
    assert discharge(session, txn_id).descriptor == ACCEPTED
    assert (ready_count(channel, other), ready_count(channel, filled)) == (1, 0)


def test_commit_to_a_full_queue_is_rolled_back(
    session: Raw10, channel: Any, filled: str, name: str
) -> None:
    full = f"{name}-full"
    arguments = {"x-max-length": 1, "x-overflow": "reject-publish"}
    channel.queue_declare(full, exclusive=True, arguments=arguments)
    publish_all(channel, full, [b"x"])
    session.attach_sender(f"/queues/{full}")
    receive(session, filled, 4)
    txn_id = declare(session)
    post(session, txn_id)
    retire(session, txn_id, 0, 3)
    assert error_of(discharge(session, txn_id)) == "amqp:transaction:rollback"
    wait_until_ready(channel, filled, 4)


def test_unknown_transaction_is_refused_wherever_it_is_named(
    session: Raw10, channel: Any, filled: str
) -> None:
    assert error_of(discharge(session, b"none")) == "amqp:transaction:unknown-id"
    txn_id = declare(session)
    assert discharge(session, txn_id).descriptor == ACCEPTED
    assert error_of(discharge(session, txn_id)) == "amqp:transaction:unknown-id"
    session.attach_sender(f"/queues/{filled}")
    post(session, txn_id)
    assert session.until(DETACH).error == "amqp:transaction:unknown-id"
    receive(session, filled, 1)
    retire(session, txn_id, 0, 0)
    assert session.until(END).error == "amqp:transaction:unknown-id"
    wait_until_ready(channel, filled, 4)


@pytest.mark.parametrize("end", ["detach", "end", "cut"])
def test_end_of_the_coordinator_rolls_back(
    session: Raw10, channel: Any, filled: str, end: str
) -> None:
    session.attach_sender(f"/queues/{filled}")
    receive(session, filled, 4)
    txn_id = declare(session)
    post(session, txn_id)
    session.until(DISPOSITION)
    retire(session, txn_id, 0, 3)
    if end == "detach":
        session.call(DETACH, uint(LINK), True)
        session.until(DETACH)
    elif end == "end":
        session.call(END)
        session.until(END)
    else:
        session.cut()
    for _ in range(200):
        if ready_count(channel, filled) == 4:
            break
    assert drain(channel, filled) == numbered(4)


def test_lost_link_makes_the_commit_fail(session: Raw10, channel: Any, filled: str) -> None:
    receive(session, filled, 1)
    session.attach_sender(f"/queues/{filled}")
    txn_id = declare(session)
    post(session, txn_id)
    retire(session, txn_id, 0, 0)
    session.call(DETACH, uint(1), True)
    session.until(DETACH)
    assert error_of(discharge(session, txn_id)) == "amqp:transaction:rollback"
    assert drain(channel, filled) == numbered(4)


def test_open_transactions_of_a_session_are_limited(session: Raw10) -> None:
    for _ in range(transactions.OPEN_MAX):
        declare(session)
    assert error_of(ask(session, described(DECLARE))) == "amqp:resource-limit-exceeded"


def test_unroutable_message_is_released_at_once(session: Raw10) -> None:
    session.attach_sender("/exchanges/amq.direct/nowhere")
    txn_id = declare(session)
    post(session, txn_id)
    assert session.until(DISPOSITION).field(4).descriptor == RELEASED
    assert discharge(session, txn_id).descriptor == ACCEPTED


def test_message_that_is_no_request_detaches_the_coordinator(session: Raw10) -> None:
    session.send(session.transfer(LINK))
    assert session.until(DETACH).error == "amqp:invalid-field"

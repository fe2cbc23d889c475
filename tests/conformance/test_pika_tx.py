"""Transactions with pika: tx.select, commit and rollback of publishes and of acks."""

from typing import Any

import pytest

from tests.conformance.broker import (
    Inbox,
    channel_closed,
    drain,
    numbered,
    publish_all,
    ready_count,
    settle_down,
    take,
    wait_until_ready,
)
from tests.conformance.options import both_kinds, declare, exclusive_queue, onward, publish


@pytest.fixture
def tx(connection: Any) -> Any:
    """A transactional channel beside `channel`, on the same connection."""
    transactional = connection.channel()
    transactional.tx_select()
    return transactional


@both_kinds
def test_publishes_arrive_with_the_commit_and_in_their_order(
    channel: Any, tx: Any, name: str, kind: str
) -> None:
    declare(channel, name, kind)
    for body in numbered(10):
        tx.basic_publish("", name, body)
    assert ready_count(tx, name) == 0
    tx.tx_commit()
    wait_until_ready(channel, name, 10)
    assert drain(channel, name) == numbered(10)


@both_kinds
def test_publishes_that_are_rolled_back_never_arrive(
    channel: Any, tx: Any, name: str, kind: str
) -> None:
    declare(channel, name, kind)
    for body in numbered(10):
        tx.basic_publish("", name, body)
    tx.tx_rollback()
    tx.basic_publish("", name, b"11")
    tx.tx_commit()
    wait_until_ready(channel, name, 1)
    assert drain(channel, name) == [b"11"]


@both_kinds
def test_publishes_without_commit_are_lost_with_the_channel(
    channel: Any, tx: Any, name: str, kind: str
) -> None:
    declare(channel, name, kind)
    tx.basic_publish("", name, b"1")
    tx.close()
    publish(channel, name, b"2")
    assert drain(channel, name) == [b"2"]


@both_kinds
def test_acks_hold_with_the_commit(
    channel: Any, tx: Any, connection: Any, name: str, kind: str
) -> None:
    declare(channel, name, kind)
    publish_all(channel, name, numbered(3))
    tags = [take(tx, name).delivery_tag for _ in range(3)]
    tx.basic_ack(tags[1], multiple=True)
    tx.tx_commit()
    tx.basic_ack(tags[2])
    tx.close()
    wait_until_ready(channel, name, 1)
    assert drain(channel, name) == [b"3"]


@both_kinds
def test_acks_that_are_rolled_back_may_be_given_again(
    channel: Any, tx: Any, name: str, kind: str
) -> None:
    declare(channel, name, kind)
    publish_all(channel, name, numbered(2))
    tags = [take(tx, name).delivery_tag for _ in range(2)]
    tx.basic_ack(tags[0])
    tx.tx_rollback()
    tx.basic_ack(tags[0])
    tx.tx_commit()
    tx.close()
    wait_until_ready(channel, name, 1)
    assert drain(channel, name) == [b"2"]


@both_kinds
def test_rejections_wait_for_the_commit(channel: Any, tx: Any, name: str, kind: str) -> None:
    graves = exclusive_queue(channel)
    declare(channel, name, kind, onward(graves))
    publish_all(channel, name, numbered(2))
    tags = [take(tx, name).delivery_tag for _ in range(2)]
    tx.basic_reject(tags[0], requeue=False)
    tx.basic_nack(tags[1], requeue=True)
    assert (ready_count(tx, graves), ready_count(tx, name)) == (0, 0)
    tx.tx_commit()
    wait_until_ready(channel, graves, 1)
    wait_until_ready(channel, name, 1)
    assert (drain(channel, graves), drain(channel, name)) == ([b"1"], [b"2"])


def test_acks_free_credit_with_the_commit(channel: Any, tx: Any, queue: str) -> None:
    publish_all(channel, queue, numbered(3))
    tx.basic_qos(prefetch_count=1)
    inbox = Inbox(tx, queue)
    inbox.wait(1)
    tx.basic_ack(inbox.tags[0])
    tx.tx_commit()
    inbox.wait(2)
    assert inbox.bodies == [b"1", b"2"]


def test_one_commit_covers_acks_and_publishes(channel: Any, tx: Any, queue: str) -> None:
    other = exclusive_queue(channel)
    publish(channel, queue, b"work")
    taken = take(tx, queue)
    tx.basic_publish("", other, b"result")
    tx.basic_ack(taken.delivery_tag)
    assert (ready_count(tx, queue), ready_count(tx, other)) == (0, 0)
    tx.tx_commit()
    wait_until_ready(channel, other, 1)
    tx.close()
    assert (drain(channel, queue), drain(channel, other)) == ([], [b"result"])


def test_many_commits_follow_each_other(channel: Any, tx: Any, queue: str) -> None:
    for body in numbered(30):
        tx.basic_publish("", queue, body)
        tx.tx_commit()
    tx.tx_commit()
    wait_until_ready(channel, queue, 30)
    assert drain(channel, queue) == numbered(30)


def test_unroutable_messages_come_back_by_the_commit(channel: Any, tx: Any, name: str) -> None:
    returned: list[bytes] = []
    tx.add_on_return_callback(lambda _c, _m, _p, body: returned.append(body))
    tx.basic_publish("", name, b"back", mandatory=True)
    tx.tx_commit()
    settle_down(tx, lambda: returned == [b"back"])


def test_the_mode_may_be_selected_twice(tx: Any, queue: str) -> None:
    tx.basic_publish("", queue, b"1")
    tx.tx_select()
    tx.tx_commit()
    wait_until_ready(tx, queue, 1)


@pytest.mark.parametrize("ask", ["tx_commit", "tx_rollback"])
def test_a_channel_that_is_not_transactional_can_neither_commit_nor_roll_back(
    channel: Any, ask: str
) -> None:
    with channel_closed(406, "PRECONDITION_FAILED - channel is not transactional"):
        getattr(channel, ask)()


def test_transactions_and_confirms_do_not_mix(connection: Any) -> None:
    channel = connection.channel()
    channel.tx_select()
    with channel_closed(406, "PRECONDITION_FAILED - cannot switch from tx to confirm mode"):
        channel.confirm_delivery()
    channel = connection.channel()
    channel.confirm_delivery()
    with channel_closed(406, "PRECONDITION_FAILED - cannot switch from confirm to tx mode"):
        channel.tx_select()


def test_an_ack_of_an_unknown_tag_fails_at_once(tx: Any, queue: str) -> None:
    tx.basic_ack(5)
    with channel_closed(406, "PRECONDITION_FAILED - unknown delivery tag 5"):
        ready_count(tx, queue)


def test_a_second_ack_of_one_tag_fails_before_the_commit(channel: Any, tx: Any, queue: str) -> None:
    publish(channel, queue, b"1")
    tag = take(tx, queue).delivery_tag
    tx.basic_ack(tag)
    tx.basic_ack(tag)
    with channel_closed(406, f"PRECONDITION_FAILED - unknown delivery tag {tag}"):
        ready_count(tx, queue)


def test_a_missing_exchange_fails_at_once(tx: Any, name: str) -> None:
    tx.basic_publish(name, "", b"1")
    with channel_closed(404, f"NOT_FOUND - no exchange '{name}' in vhost '/'"):
        ready_count(tx, name)


def test_a_commit_that_a_full_queue_refuses_fails(channel: Any, tx: Any, name: str) -> None:
    declare(channel, name, arguments={"x-max-length": 1, "x-overflow": "reject-publish"})
    for body in numbered(3):
        tx.basic_publish("", name, body)
    with channel_closed(406, "PRECONDITION_FAILED - partial tx completion"):
        tx.tx_commit()
    assert ready_count(channel, name) <= 1

"""Browsing links of AMQP 1.0: a source with the distribution mode `copy`."""

from collections.abc import Iterator
from typing import Any

import pika
import pytest
from proton import uint

from tests.conformance.broker import Broker, drain, numbered, publish_all, ready_count, take
from tests.conformance.raw10 import (
    ACCEPTED,
    DETACH,
    DISPOSITION,
    FLOW,
    SENDER,
    TRANSFER,
    Raw10,
    attach_browser,
    body_of,
    browse,
)

QUORUM = {"x-queue-type": "quorum"}


@pytest.fixture
def session(own_broker: Broker) -> Iterator[Raw10]:
    """With a session on channel 0."""
    with Raw10(own_broker.host, own_broker.port) as client:
        client.open()
        client.begin()
        yield client


@pytest.mark.parametrize("arguments", [{}, {"x-queue-mode": "lazy"}, QUORUM])
@pytest.mark.parametrize("settled", [0, 1])
def test_browser_gets_every_message_once_in_order_and_takes_none(
    session: Raw10, channel: Any, name: str, arguments: Any, settled: int
) -> None:
    channel.queue_declare(name, durable=True, arguments=arguments)
    bodies = numbered(150)
    publish_all(channel, name, bodies)
    attach = attach_browser(session, name, settled)
    assert str(attach.field(5).value[6]) == "copy"
    found, end = browse(session, 200)
    assert (found, end) == (bodies, 200)
    publish_all(channel, name, [b"later"])
    assert browse(session, 10, 200) == ([b"later"], 210)
    session.call(DETACH, uint(0), True)
    session.until(DETACH)
    assert ready_count(channel, name) == 151
    assert not take(channel, name).redelivered
    channel.basic_recover(requeue=True)
    assert drain(channel, name) == [*bodies, b"later"]


def test_browser_sees_higher_priorities_first(session: Raw10, channel: Any, name: str) -> None:
    channel.queue_declare(name, arguments={"x-max-priority": 5})
    for body, priority in ((b"a", 1), (b"b", 5), (b"c", 1), (b"d", 3)):
        channel.basic_publish("", name, body, pika.BasicProperties(priority=priority))
    assert ready_count(channel, name) == 4
    attach_browser(session, name)
    assert browse(session, 100)[0] == [b"b", b"d", b"a", b"c"]


def test_browser_goes_on_after_messages_that_others_took(
    session: Raw10, channel: Any, queue: str
) -> None:
    publish_all(channel, queue, numbered(6))
    attach_browser(session, queue)
    assert browse(session, 2)[0] == [b"1", b"2"]
    assert [take(channel, queue).body for _ in range(4)] == numbered(4)
    assert browse(session, 10, 2)[0] == [b"5", b"6"]


def test_outcomes_of_a_browser_change_nothing(session: Raw10, channel: Any, queue: str) -> None:
    publish_all(channel, queue, numbered(2))
    attach_browser(session, queue, rcv_settle_mode=1)
    session.credit(2)
    first = int(session.until(TRANSFER).field(1))
    session.until(TRANSFER)
    session.settle(first, first + 1, ACCEPTED, settled=False)
    answer = session.until(DISPOSITION)
    assert (answer.field(0), answer.field(3)) == (SENDER, True)
    assert drain(channel, queue) == numbered(2)


def test_browser_whose_queue_is_deleted_is_detached(
    session: Raw10, channel: Any, name: str
) -> None:
    channel.queue_declare(name)
    attach_browser(session, name)
    assert browse(session, 5)[0] == []
    channel.queue_delete(name)
    assert session.until(DETACH).error == "amqp:resource-deleted"


def test_credit_that_is_taken_back_leaves_no_gap(session: Raw10, channel: Any, queue: str) -> None:
    """With a window of one transfer, most of what was read waits when the credit goes."""
    publish_all(channel, queue, numbered(20))
    attach_browser(session, queue)
    window = (uint(0), uint(1), uint(0), uint(1000))
    session.call(FLOW, *window, uint(0), uint(0), uint(20))
    session.until(TRANSFER)
    window = (uint(1), uint(0), uint(0), uint(1000))
    session.call(FLOW, *window, uint(0), uint(1), uint(0), None, False, True)
    session.until(FLOW)
    window = (uint(1), uint(1000), uint(0), uint(1000))
    session.call(FLOW, *window, uint(0), uint(1), uint(100), None, True)
    bodies = [body_of(session.until(TRANSFER)) for _ in range(19)]
    assert bodies == numbered(19, 2)

"""Single active consumer with pika: who is served, and how the service is handed over."""

from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

import pika
import pytest

from node.cli.warrenctl import main
from tests.conformance.broker import (
    Broker,
    Inbox,
    channel_closed,
    numbered,
    publish_all,
    ready_count,
    settle_down,
    take,
    wait_until_ready,
)
from tests.conformance.options import both_kinds, declare, publish
from tests.waiting import eventually
from warren.testing import Node
from warren.testing.http_api import HttpApi

ACTIVE = {"x-single-active-consumer": True}


@both_kinds
def test_only_the_first_consumer_is_served(
    channel: Any, connection: Any, name: str, kind: str
) -> None:
    declare(channel, name, kind, ACTIVE)
    first = Inbox(connection.channel(), name)
    second = Inbox(connection.channel(), name)
    publish_all(channel, name, numbered(20))
    first.wait(20)
    assert (first.bodies, second.bodies) == (numbered(20), [])


@both_kinds
def test_a_second_consumer_waits_even_when_the_first_has_no_credit(
    channel: Any, connection: Any, name: str, kind: str
) -> None:
    declare(channel, name, kind, ACTIVE)
    slow = connection.channel()
    slow.basic_qos(prefetch_count=1)
    first, second = Inbox(slow, name), Inbox(connection.channel(), name)
    publish_all(channel, name, numbered(3))
    first.wait(1)
    wait_until_ready(channel, name, 2)
    slow.basic_ack(first.tags[0])
    first.wait(2)
    assert (first.bodies, second.bodies) == ([b"1", b"2"], [])


@both_kinds
def test_a_cancel_hands_over_to_the_next_in_line(
    channel: Any, connection: Any, name: str, kind: str
) -> None:
    declare(channel, name, kind, ACTIVE)
    channels = [connection.channel() for _ in range(3)]
    inboxes = [Inbox(each, name, auto_ack=True) for each in channels]
    publish(channel, name, b"1")
    inboxes[0].wait(1)
    channels[0].basic_cancel(inboxes[0].consumer_tag)
    publish(channel, name, b"2")
    inboxes[1].wait(1)
    channels[1].basic_cancel(inboxes[1].consumer_tag)
    publish(channel, name, b"3")
    inboxes[2].wait(1)
    assert [inbox.bodies for inbox in inboxes] == [[b"1"], [b"2"], [b"3"]]


@both_kinds
def test_a_waiting_consumer_that_is_cancelled_changes_nothing(
    channel: Any, connection: Any, name: str, kind: str
) -> None:
    declare(channel, name, kind, ACTIVE)
    first = Inbox(connection.channel(), name, auto_ack=True)
    waiting = Inbox(channel, name, auto_ack=True)
    channel.basic_cancel(waiting.consumer_tag)
    publish_all(channel, name, numbered(3))
    first.wait(3)
    assert waiting.bodies == []


@both_kinds
def test_a_cancelled_consumer_may_settle_what_it_holds_while_the_next_is_served(
    channel: Any, connection: Any, name: str, kind: str
) -> None:
    declare(channel, name, kind, ACTIVE)
    old, new = connection.channel(), connection.channel()
    old.basic_qos(prefetch_count=2)
    first, second = Inbox(old, name), Inbox(new, name)
    publish_all(channel, name, numbered(4))
    first.wait(2)
    old.basic_cancel(first.consumer_tag)
    second.wait(2)
    assert second.bodies == [b"3", b"4"]
    old.basic_ack(first.tags[-1], multiple=True)
    new.basic_ack(second.tags[-1], multiple=True)
    for each in (old, new):
        each.close()
    assert ready_count(channel, name) == 0


@both_kinds
def test_closing_the_channel_hands_all_it_held_to_the_next_in_order(
    channel: Any, connection: Any, name: str, kind: str
) -> None:
    declare(channel, name, kind, ACTIVE)
    old = connection.channel()
    first, second = Inbox(old, name), Inbox(connection.channel(), name)
    publish_all(channel, name, numbered(6))
    first.wait(6)
    old.basic_ack(first.tags[1], multiple=True)
    old.close()
    second.wait(4)
    assert second.bodies == [b"3", b"4", b"5", b"6"]
    assert all(message.redelivered for message in second.messages)


def hand_over_five_times(channel: Any, connection: Any, name: str, kind: str) -> list[bytes]:
    """Fifty messages to consumers that settle ten of twenty and leave; what they settled."""
    declare(channel, name, kind, ACTIVE)
    publish_all(channel, name, numbered(50))
    settled: list[bytes] = []
    for _ in range(5):
        each = connection.channel()
        each.basic_qos(prefetch_count=20)
        inbox = Inbox(each, name)
        inbox.wait(min(20, 50 - len(settled)))
        each.basic_ack(inbox.tags[9], multiple=True)
        settled += inbox.bodies[:10]
        each.close()
    return settled


def test_order_is_kept_over_many_hand_overs(channel: Any, connection: Any, name: str) -> None:
    assert hand_over_five_times(channel, connection, name, "classic") == numbered(50)


def test_a_quorum_queue_keeps_order_over_many_hand_overs(
    own_broker: Broker, channel: Any, connection: Any, name: str
) -> None:
    # RabbitMQ 4.0 serves what was returned first, wherever it came from.
    assert hand_over_five_times(channel, connection, name, "quorum") == numbered(50)


@both_kinds
def test_a_queue_with_no_consumer_left_serves_who_comes_next(
    channel: Any, connection: Any, name: str, kind: str
) -> None:
    declare(channel, name, kind, ACTIVE)
    gone = Inbox(channel, name)
    channel.basic_cancel(gone.consumer_tag)
    publish(channel, name, b"1")
    newcomer = Inbox(connection.channel(), name)
    newcomer.wait(1)
    assert newcomer.bodies == [b"1"]


def test_a_classic_queue_refuses_exclusive_consumers(channel: Any, name: str) -> None:
    declare(channel, name, arguments=ACTIVE)
    with channel_closed(403, f"ACCESS_REFUSED - queue '{name}' in vhost '/' in exclusive use"):
        Inbox(channel, name, exclusive=True)


def test_a_quorum_queue_refuses_exclusive_consumers(
    own_broker: Broker, channel: Any, name: str
) -> None:
    # RabbitMQ lets an exclusive consumer in and takes no notice of the word.
    declare(channel, name, "quorum", ACTIVE)
    with channel_closed(403, f"ACCESS_REFUSED - queue '{name}' in vhost '/' in exclusive use"):
        Inbox(channel, name, exclusive=True)


def test_a_get_is_refused_by_a_quorum_queue(channel: Any, name: str) -> None:
    declare(channel, name, "quorum", ACTIVE)
    text = (
        f"RESOURCE_LOCKED - cannot obtain access to locked queue '{name}' in vhost '/'. basic.get"
        " operations are not supported by quorum queues with single active consumer"
    )
    with channel_closed(405, text):
        channel.basic_get(name)


def test_a_classic_queue_may_be_asked_for_one_message(channel: Any, name: str) -> None:
    declare(channel, name, arguments=ACTIVE)
    publish_all(channel, name, numbered(2))
    assert [take(channel, name).body for _ in range(2)] == numbered(2)


@both_kinds
@pytest.mark.parametrize(("value", "kind_name"), [("yes", "longstr"), (1, "signedint")])
def test_the_argument_must_be_yes_or_no(
    channel: Any, name: str, kind: str, value: object, kind_name: str
) -> None:
    text = f"invalid arg 'x-single-active-consumer' for queue '{name}' in vhost '/'"
    with channel_closed(406, f"PRECONDITION_FAILED - {text}: {{unacceptable_type,{kind_name}}}"):
        declare(channel, name, kind, {"x-single-active-consumer": value})


@both_kinds
def test_the_argument_must_be_the_same_when_the_queue_is_declared_again(
    connection: Any, name: str, kind: str
) -> None:
    declare(connection.channel(), name, kind, ACTIVE)
    text = f"inequivalent arg 'x-single-active-consumer' for queue '{name}' in vhost '/'"
    why = "received none but current is the value 'true' of type 'bool'"
    with channel_closed(406, f"PRECONDITION_FAILED - {text}: {why}"):
        declare(connection.channel(), name, kind)


def test_no_is_as_if_the_argument_were_not_there(channel: Any, connection: Any, name: str) -> None:
    declare(channel, name, arguments={"x-single-active-consumer": False})
    inboxes = [Inbox(connection.channel(), name, auto_ack=True) for _ in range(2)]
    publish_all(channel, name, numbered(10))
    settle_down(channel, lambda: sum(len(inbox.messages) for inbox in inboxes) == 10)
    assert [len(inbox.messages) for inbox in inboxes] == [5, 5]


def test_a_newcomer_of_higher_priority_takes_over_once_the_active_has_settled(
    channel: Any, connection: Any, name: str
) -> None:
    declare(channel, name, "quorum", ACTIVE)
    low, high = connection.channel(), connection.channel()
    low.basic_qos(prefetch_count=2)
    first = Inbox(low, name)
    publish_all(channel, name, numbered(4))
    first.wait(2)
    second = Inbox(high, name, arguments={"x-priority": 5})
    low.basic_ack(first.tags[0])
    assert ready_count(channel, name) == 2
    assert second.bodies == []
    low.basic_ack(first.tags[1])
    second.wait(2)
    assert (first.bodies, second.bodies) == ([b"1", b"2"], [b"3", b"4"])


def test_a_newcomer_of_the_same_priority_waits(channel: Any, connection: Any, name: str) -> None:
    declare(channel, name, "quorum", ACTIVE)
    first = Inbox(connection.channel(), name, auto_ack=True, arguments={"x-priority": 5})
    second = Inbox(connection.channel(), name, auto_ack=True, arguments={"x-priority": 5})
    publish_all(channel, name, numbered(5))
    first.wait(5)
    assert second.bodies == []


@both_kinds
def test_the_waiting_consumer_of_the_highest_priority_is_next(
    channel: Any, connection: Any, name: str, kind: str
) -> None:
    declare(channel, name, kind, ACTIVE)
    active = connection.channel()
    priorities = {"x-priority": 10}
    first = Inbox(active, name, auto_ack=True, arguments=priorities)
    low = Inbox(connection.channel(), name, auto_ack=True, arguments={"x-priority": 1})
    high = Inbox(connection.channel(), name, auto_ack=True, arguments={"x-priority": 9})
    active.basic_cancel(first.consumer_tag)
    publish_all(channel, name, numbered(3))
    high.wait(3)
    assert (high.bodies, low.bodies) == (numbered(3), [])


@pytest.fixture
def draining_node() -> Iterator[Node]:
    """A node that hands over only when the old consumer has settled all it held."""
    with Node(name="draining", settings={"sac_handover": "drain"}) as started:
        yield started


def test_a_hand_over_that_drains_waits_for_what_the_old_consumer_holds(
    draining_node: Node,
) -> None:
    connection = pika.BlockingConnection(pika.URLParameters(draining_node.url))
    old, new = connection.channel(), connection.channel()
    for kind in ("classic", "quorum"):
        declare(old, kind, kind, ACTIVE)
        old.basic_qos(prefetch_count=2)
        first, second = Inbox(old, kind), Inbox(new, kind)
        publish_all(connection.channel(), kind, numbered(3))
        first.wait(2)
        old.basic_cancel(first.consumer_tag)
        old.basic_ack(first.tags[0])
        wait_until_ready(old, kind, 1)
        assert second.bodies == []
        old.basic_ack(first.tags[1])
        second.wait(1)
        assert second.bodies == [b"3"]
    connection.close()


@both_kinds
def test_the_api_and_list_queues_name_the_active_consumer(
    broker: Broker, channel: Any, connection: Any, name: str, kind: str, capsys: Any
) -> None:
    if broker.node is None:
        pytest.skip("the broker has no API of ours")
    declare(channel, name, kind, ACTIVE)
    api = HttpApi(broker.node.management_url)
    place = f"/queues/%2F/{quote(name, safe='')}"
    tag, channel_name = "single_active_consumer_tag", "single_active_consumer_pid"
    assert (api.get(place)[tag], api.get(place)[channel_name]) == ("", "")
    first, second = connection.channel(), connection.channel()
    first.basic_consume(name, print, consumer_tag="one")
    second.basic_consume(name, print, consumer_tag="two")
    eventually(lambda: api.get(place)[tag] == "one")
    assert api.get(place)[channel_name].endswith(f" ({first.channel_number})")
    url = broker.node.management_url
    assert main(["-q", "--node-url", url, "list_queues", "name", tag]) == 0
    assert f"{name}\tone" in capsys.readouterr().out.splitlines()
    first.basic_cancel("one")
    eventually(lambda: api.get(place)[tag] == "two")
    channel.queue_delete(name)

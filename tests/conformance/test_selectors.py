"""Consumers that select messages of classic, lazy and quorum queues: proton, pika, rhea."""

import json
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import pika
import proton
import pytest
from pika.exceptions import ChannelClosedByBroker
from proton.reactor import Copy, Filter, Selector
from proton.utils import LinkDetached

from queues.machine.consuming.selections import SELECTIONS_MAX
from tests.conformance.broker import PATIENCE_SECONDS, Broker, Inbox, drain, ready_count, take
from tests.conformance.programs import node_js, tools_folder
from tests.conformance.proton10 import body_of, connect10, data_message, take10
from warren.testing import Node

SCRIPT: Final = Path(__file__).resolve().parent / "rhea" / "selector.js"
QUORUM: Final = {"x-queue-type": "quorum"}
TYPES: Final = pytest.mark.parametrize(
    "arguments", [{}, {"x-queue-mode": "lazy"}, QUORUM], ids=["classic", "lazy", "quorum"]
)
COUNT: Final = 60


@pytest.fixture
def open10(own_broker: Broker, name: str) -> Iterator[Callable[..., Any]]:
    """Opens connections that are closed before `name` is cleaned up."""
    opened: list[Any] = []

    def open_one(**options: Any) -> Any:
        opened.append(connect10(own_broker, **options))
        return opened[-1]

    yield open_one
    for connection in opened:
        connection.close()


def send10(client: Any, queue: str, first: int = 1, count: int = COUNT) -> None:
    """Messages whose application property `n` is their number."""
    sender = client.create_sender(f"/queues/{queue}")
    for number in range(first, first + count):
        properties = {"n": number, "kind": "odd" if number % 2 else "even"}
        sender.send(data_message(b"%d" % number, properties=properties, durable=True))
    sender.close()


def receiver(client: Any, queue: str, selector: str, credit: int = 10) -> Any:
    address, options = f"/queues/{queue}", Selector(selector)
    return client.create_receiver(address, credit=credit, name=selector, options=options)


def bodies(messages: list[Any]) -> list[bytes]:
    return [body_of(each) for each in messages]


def numbers(*found: int) -> list[bytes]:
    return [b"%d" % number for number in found]


@TYPES
@pytest.mark.parametrize("is_backlog", [False, True], ids=["arriving", "backlog"])
def test_consumers_get_what_they_select_and_the_rest_stays_in_order(
    open10: Callable[..., Any], channel: Any, name: str, arguments: Any, is_backlog: bool
) -> None:
    channel.queue_declare(name, durable=True, arguments=arguments)
    client, other = open10(), open10()
    if is_backlog:
        send10(other, name)
    thirds = receiver(client, name, "n % 3 = 0")
    sevens = receiver(client, name, "n % 7 = 0 AND kind = 'odd' AND n % 3 <> 0")
    if not is_backlog:
        send10(other, name)
    assert bodies(take10(thirds, 20)) == numbers(*range(3, 61, 3))
    assert bodies(take10(sevens, 3)) == numbers(7, 35, 49)
    client.close()
    rest = [n for n in range(1, 61) if n % 3 and not (n % 7 == 0 and n % 2)]
    assert drain(channel, name) == numbers(*rest)


@TYPES
def test_a_released_message_comes_back_to_its_place(
    open10: Callable[..., Any], channel: Any, name: str, arguments: Any
) -> None:
    channel.queue_declare(name, durable=True, arguments=arguments)
    client = open10()
    send10(client, name, 1, 10)
    evens = receiver(client, name, "kind = 'even'", credit=1)
    assert body_of(evens.receive(timeout=PATIENCE_SECONDS)) == b"2"
    evens.release(delivered=False)
    found = bodies(take10(evens, 5))  # The client may have given credit before it released.
    assert b"2" in found[:2]
    assert sorted(found, key=int) == numbers(2, 4, 6, 8, 10)
    evens.close()
    assert drain(channel, name) == numbers(1, 3, 5, 7, 9)


@TYPES
def test_pika_consumer_selects_by_an_argument(channel: Any, name: str, arguments: Any) -> None:
    channel.queue_declare(name, durable=True, arguments=arguments)
    for number in range(1, 21):
        properties = pika.BasicProperties(headers={"n": number}, content_type=f"t{number % 4}")
        channel.basic_publish("", name, b"%d" % number, properties)
    channel.basic_qos(prefetch_count=2)
    selector = {"x-selector": "n BETWEEN 5 AND 16 AND p.content_type = 't3'"}
    inbox = Inbox(channel, name, arguments=selector)
    inbox.wait(2)
    assert inbox.bodies == numbers(7, 11)
    channel.basic_nack(inbox.tags[0], requeue=True)
    inbox.wait(3)
    assert inbox.messages[2].body == b"7"
    assert inbox.messages[2].redelivered
    channel.basic_ack(inbox.tags[2], multiple=True)
    inbox.wait(4)
    assert inbox.messages[3].body == b"15"
    channel.basic_cancel(inbox.consumer_tag)
    channel.basic_ack(inbox.tags[3])
    rest = [n for n in range(1, 21) if n not in (7, 11, 15)]
    assert drain(channel, name) == numbers(*rest)


@pytest.mark.parametrize(
    ("name_of", "value", "wanted"),
    [
        ("amqp:properties-filter", {proton.symbol("subject"): "&p:s-2"}, numbers(2, 20, 21)),
        ("amqp:application-properties-filter", {"n": 7}, numbers(7)),
        ("amqp:sql-filter", "p.subject LIKE 's-1_' AND n <= 12", numbers(10, 11, 12)),
    ],
)
def test_all_filters_of_streams_are_selectors_of_queues(
    open10: Callable[..., Any], channel: Any, name: str, name_of: str, value: Any, wanted: Any
) -> None:
    channel.queue_declare(name, durable=True)
    client = open10()
    sender = client.create_sender(f"/queues/{name}")
    for number in range(1, 22):
        properties = {"n": number}
        sender.send(data_message(b"%d" % number, subject=f"s-{number}", properties=properties))
    mine = {proton.symbol("mine"): proton.Described(proton.symbol(name_of), value)}
    found = client.create_receiver(f"/queues/{name}", credit=5, options=Filter(mine))
    assert bodies(take10(found, len(wanted))) == wanted


def test_a_wrong_selector_is_refused_with_position_and_reason(
    open10: Callable[..., Any], connect: Callable[..., Any], channel: Any, name: str
) -> None:
    channel.queue_declare(name, durable=True)
    with pytest.raises(LinkDetached, match="position 9: found the end") as refused:
        receiver(open10(), name, "n > 1 AND")
    assert refused.value.condition == "amqp:invalid-field"
    other = connect().channel()
    with pytest.raises(ChannelClosedByBroker, match=r"x-selector.*position 3: found the end"):
        other.basic_consume(name, lambda *_: None, arguments={"x-selector": "n > "})
    other = connect().channel()
    with pytest.raises(ChannelClosedByBroker, match=r"x-selector.*allowed is a string"):
        other.basic_consume(name, lambda *_: None, arguments={"x-selector": 7})


def test_a_queue_takes_a_bounded_number_of_selectors(
    connect: Callable[..., Any], channel: Any, name: str
) -> None:
    channel.queue_declare(name, durable=True)
    for number in range(SELECTIONS_MAX):
        Inbox(channel, name, arguments={"x-selector": f"n = {number}"})
    Inbox(channel, name, arguments={"x-selector": "n = 1"})
    other = connect().channel()
    with pytest.raises(ChannelClosedByBroker, match=f"{SELECTIONS_MAX} selectors") as refused:
        other.basic_consume(name, lambda *_: None, arguments={"x-selector": "n = 64"})
    assert refused.value.reply_code == 406


def test_a_browser_sees_what_it_selects_and_takes_none(
    open10: Callable[..., Any], channel: Any, name: str
) -> None:
    channel.queue_declare(name, durable=True)
    client = open10()
    send10(client, name, 1, 40)
    browser = client.create_receiver(
        f"/queues/{name}", credit=10, options=[Selector("n % 10 = 1"), Copy()]
    )
    found = [browser.receive(timeout=PATIENCE_SECONDS) for _ in range(4)]
    assert bodies(found) == numbers(1, 11, 21, 31)
    assert ready_count(channel, name) == 40


@pytest.mark.parametrize("arguments", [{}, QUORUM], ids=["classic", "quorum"])
def test_rejected_messages_are_dead_lettered_and_counts_are_right(
    open10: Callable[..., Any], channel: Any, name: str, arguments: Any
) -> None:
    dead = f"{name}-dead"
    channel.queue_declare(dead, durable=True)
    dead_letters = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": dead}
    channel.queue_declare(name, durable=True, arguments={**arguments, **dead_letters})
    client = open10()
    evens = receiver(client, name, "kind = 'even'")
    send10(client, name, 1, 6)
    for _ in range(3):
        evens.receive(timeout=PATIENCE_SECONDS)
        evens.reject()
    evens.close()
    deadline = time.monotonic() + PATIENCE_SECONDS
    while ready_count(channel, dead) < 3 and time.monotonic() < deadline:
        channel.connection.process_data_events(time_limit=0.05)
    assert ready_count(channel, name) == 3
    assert [take(channel, dead).body for _ in range(3)] == numbers(2, 4, 6)
    channel.queue_delete(dead)


def test_a_single_active_consumer_with_a_selector_holds_the_others_back(
    open10: Callable[..., Any], channel: Any, name: str
) -> None:
    channel.queue_declare(name, durable=True, arguments={"x-single-active-consumer": True})
    client = open10()
    evens = receiver(client, name, "kind = 'even'")
    every = open10().create_receiver(f"/queues/{name}", credit=10)
    send10(client, name, 1, 6)
    assert bodies(take10(evens, 3)) == numbers(2, 4, 6)
    evens.close()
    assert bodies(take10(every, 3)) == numbers(1, 3, 5)


def test_priorities_hold_among_messages_that_match(
    open10: Callable[..., Any], channel: Any, name: str
) -> None:
    channel.queue_declare(name, durable=True, arguments={"x-max-priority": 5})
    client = open10()
    sender = client.create_sender(f"/queues/{name}")
    for number in range(1, 9):
        sender.send(data_message(b"%d" % number, priority=number % 3, properties={"n": number}))
    found = receiver(client, name, "n % 2 = 0")
    assert bodies(take10(found, 4)) == numbers(2, 8, 4, 6)


@pytest.mark.parametrize("arguments", [{}, QUORUM], ids=["classic", "quorum"])
def test_a_backlog_on_disk_is_selected_after_a_restart(arguments: Any) -> None:
    with Node() as node:
        channel = pika.BlockingConnection(pika.URLParameters(node.url)).channel()
        channel.queue_declare("backlog", durable=True, arguments=arguments)
        channel.confirm_delivery()
        for number in range(1, 3001):
            properties = pika.BasicProperties(headers={"n": number}, delivery_mode=2)
            channel.basic_publish("", "backlog", bytes(200), properties)
        node.kill9()
        node.start()
        channel = pika.BlockingConnection(pika.URLParameters(node.url)).channel()
        inbox = Inbox(channel, "backlog", arguments={"x-selector": "n % 1000 = 999"})
        found = [each.properties.headers["n"] for each in inbox.wait(3)]
        assert found == [999, 1999, 2999]


def test_rhea_selects_and_drains(own_broker: Broker, channel: Any, name: str) -> None:
    program = node_js("rhea")
    channel.queue_declare(name, durable=True)
    done = subprocess.run(
        [program, str(SCRIPT), own_broker.host, str(own_broker.port), name],
        cwd=tools_folder(),
        capture_output=True,
        text=True,
        timeout=25,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == {"selected": [3, 6, 9], "drained": True}
    assert ready_count(channel, name) == 7

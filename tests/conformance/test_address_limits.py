"""Limits of addresses with real clients: what happens to publishers when an address is full.

Statements about producers in the manual of Apache ActiveMQ Artemis (flow control), one test each.
"""

import json
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import pika
import pika.exceptions
import proton
import pytest
from proton.handlers import MessagingHandler
from proton.reactor import Container, SenderOption

from tests.conformance.broker import CONFIG, Broker, drain, ready_count
from tests.conformance.programs import node_js, tools_folder
from tests.conformance.proton10 import ACCEPTED, REJECTED, connect10, data_message, outcome_of
from tests.waiting import eventually
from warren.testing import Node
from warren.testing.http_api import HttpApi

KINDS: Final = pytest.mark.parametrize("kind", ["classic", "quorum"])
BODY: Final = b"x" * 1000
CREDIT: Final = Path(__file__).resolve().parent / "rhea" / "credit.js"
SAFE: Final = pika.BasicProperties(delivery_mode=2)


@pytest.fixture(scope="module")
def node() -> Iterator[Node]:
    with Node(name="addresses", config=CONFIG) as running:
        yield running


@pytest.fixture
def broker(node: Node) -> Broker:
    """In place of the shared one: policies here match every name."""
    return Broker(node.host, node.port, node)


@pytest.fixture
def api(node: Node) -> HttpApi:
    return HttpApi(node.management_url)


@pytest.fixture
def policy(api: HttpApi, name: str) -> Iterator[Callable[..., None]]:
    """Sets the policy of this test's queue and exchange."""

    def put(apply_to: str = "queues", **definition: object) -> None:
        said = {key.replace("_", "-"): value for key, value in definition.items()}
        body = {"pattern": f"^{name}$", "apply-to": apply_to, "definition": said}
        api.put("/policies/%2F/limits", body)

    yield put
    api.delete("/policies/%2F/limits")


def declare(channel: Any, name: str, kind: str, **arguments: object) -> None:
    said = {"x-" + key.replace("_", "-"): value for key, value in arguments.items()}
    channel.queue_declare(name, durable=True, arguments={"x-queue-type": kind, **said})


def is_accepted(channel: Any, queue: str, body: bytes = BODY) -> bool:
    try:
        channel.basic_publish("", queue, body, SAFE, mandatory=False)
    except pika.exceptions.NackError:
        return False
    return True


class Publishing(threading.Thread):
    """A connection that publishes as fast as it may."""

    def __init__(
        self,
        broker: Broker,
        queue: str,
        count: int,
        exchange: str = "",
        body: bytes = BODY,
        confirms: bool = True,
    ) -> None:
        super().__init__(daemon=True)
        self._connection = broker.connect()
        self._body = body
        self._confirms = confirms
        self._queue = queue
        self._exchange = exchange
        self._count = count
        self.sent = 0

    def run(self) -> None:
        channel = self._connection.channel()
        if self._confirms:
            channel.confirm_delivery()
        for _ in range(self._count):
            channel.basic_publish(self._exchange, self._queue, self._body, SAFE)
            self.sent += 1
        self._connection.close()


# FAIL


@KINDS
def test_fail_nacks_what_exceeds_the_limit(channel: Any, name: str, kind: str) -> None:
    declare(channel, name, kind, max_size_messages=3, address_full_policy="FAIL")
    channel.confirm_delivery()
    assert [is_accepted(channel, name) for _ in range(5)] == [True] * 3 + [False] * 2
    assert len(drain(channel, name)) == 3
    assert is_accepted(channel, name)


@KINDS
def test_fail_rejects_with_resource_limit_exceeded(
    broker: Broker, channel: Any, name: str, kind: str
) -> None:
    declare(channel, name, kind, max_size_messages=2, address_full_policy="FAIL")
    client = connect10(broker)
    sender = client.create_sender(f"/queues/{name}")
    outcomes = [outcome_of(sender, data_message(BODY, durable=True)) for _ in range(3)]
    assert outcomes == [ACCEPTED, ACCEPTED, REJECTED]
    delivery = sender.link.send(data_message(BODY, durable=True))
    client.wait(lambda: delivery.settled)
    assert delivery.remote.condition.name == "amqp:resource-limit-exceeded"
    assert f"queue '{name}'" in delivery.remote.condition.description
    client.close()


def test_fail_without_confirms_drops_and_counts(channel: Any, api: HttpApi, name: str) -> None:
    declare(channel, name, "classic", max_size_messages=2, address_full_policy="FAIL")
    for _ in range(5):
        channel.basic_publish("", name, BODY)
    eventually(lambda: address_row(api, name)["refused"] == 3)
    assert channel.is_open
    assert ready_count(channel, name) == 2


def address_row(api: HttpApi, name: str) -> Any:
    rows = [row for row in api.get("/addresses") if row["name"] == name]
    assert len(rows) == 1, rows
    return rows[0]


# DROP


@KINDS
def test_drop_confirms_and_counts_what_exceeds_the_limit(
    channel: Any, api: HttpApi, name: str, kind: str
) -> None:
    declare(channel, name, kind, max_size_messages=3, address_full_policy="DROP")
    channel.confirm_delivery()
    for _ in range(7):
        assert is_accepted(channel, name)
    assert address_row(api, name)["dropped"] == 4
    assert len(drain(channel, name)) == 3


@KINDS
def test_drop_accepts_what_exceeds_the_limit(
    broker: Broker, channel: Any, api: HttpApi, name: str, kind: str
) -> None:
    declare(channel, name, kind, max_size_messages=3, address_full_policy="DROP")
    client = connect10(broker)
    sender = client.create_sender(f"/queues/{name}")
    assert [outcome_of(sender, data_message(BODY)) for _ in range(7)] == [ACCEPTED] * 7
    client.close()
    assert address_row(api, name)["dropped"] == 4
    assert len(drain(channel, name)) == 3


def test_dropped_messages_are_logged_once(channel: Any, node: Node, name: str) -> None:
    declare(channel, name, "classic", max_size_messages=1, address_full_policy="DROP")
    for _ in range(50):
        channel.basic_publish("", name, BODY)
    line = f"address queue '{name}' in vhost '/' is full"
    eventually(lambda: line in node.log())
    assert node.log().count(line) == 1


# BLOCK


@KINDS
def test_block_holds_a_publisher_until_messages_are_consumed(
    broker: Broker, channel: Any, name: str, kind: str
) -> None:
    declare(channel, name, kind, max_size_messages=10, address_full_policy="BLOCK")
    publisher = Publishing(broker, name, 30)
    publisher.start()
    taken = 0
    most = 0
    while taken < 30:
        most = max(most, ready_count(channel, name))
        taken += channel.basic_get(name, auto_ack=True)[0] is not None
    publisher.join(20)
    assert publisher.sent == 30
    assert most <= 11


@KINDS
def test_a_client_that_asks_for_no_confirms_is_held_by_its_socket(
    broker: Broker, channel: Any, api: HttpApi, name: str, kind: str
) -> None:
    """A connection is read up to its next publish, 512 KiB at once; the rest waits in sockets."""
    limit, size, count = 500_000, 10_000, 2_000
    declare(channel, name, kind, max_size_bytes=limit, address_full_policy="BLOCK")
    publisher = Publishing(broker, name, count, body=bytes(size), confirms=False)
    publisher.start()
    looks: list[int] = []

    def is_stopped() -> bool:
        """Whether it has been held and has sent nothing for 25 looks."""
        looks.append(publisher.sent if address_row(api, name)["blocked_publishers"] else -1)
        return looks[-1] > 0 and looks[-25:] == [looks[-1]] * 25

    eventually(is_stopped)
    held = ready_count(channel, name)
    assert limit // (size + 100) <= held <= (limit + 2 * (512 << 10)) // size
    assert held < publisher.sent < count
    channel.basic_qos(prefetch_count=10)
    for taken, (method, _, _) in enumerate(channel.consume(name, inactivity_timeout=60), 1):
        assert method is not None, f"{taken - 1} of {count} came"
        channel.basic_ack(method.delivery_tag)
        if taken == count:
            break
    publisher.join(60)
    assert publisher.sent == count


@KINDS
@pytest.mark.parametrize("policy", ["FAIL", "BLOCK", "DROP"])
def test_publishes_over_http_meet_the_limit(
    channel: Any, api: HttpApi, name: str, kind: str, policy: str
) -> None:
    declare(channel, name, kind, max_size_messages=3, address_full_policy=policy)
    place = "/exchanges/%2F/amq.default/publish"
    body = {"properties": {}, "routing_key": name, "payload": "x", "payload_encoding": "string"}
    for _ in range(3):
        assert api.post(place, body) == {"routed": True}
    if policy == "DROP":
        assert api.post(place, body) == {"routed": True}
    else:
        status, reason = api.refused("POST", place, body)
        assert status == 503
        assert f"address queue '{name}' in vhost '/' is full: 3 messages, the limit is 3" in reason
    assert ready_count(channel, name) == 3
    channel.basic_get(name, auto_ack=True)
    eventually(lambda: ready_count(channel, name) == 2)

    def is_taken() -> bool:
        return api.ask("POST", place, body)[0] == 200 and ready_count(channel, name) == 3

    eventually(is_taken)


def test_the_limit_counts_all_queues_bound_to_the_address(
    broker: Broker, channel: Any, policy: Callable[..., None], name: str
) -> None:
    policy("exchanges", max_size_messages=10, address_full_policy="BLOCK")
    channel.exchange_declare(name, "fanout")
    queues = [channel.queue_declare("", exclusive=True).method.queue for _ in range(2)]
    for queue in queues:
        channel.queue_bind(queue, name)
    publisher = Publishing(broker, "", 12, name)
    publisher.start()
    eventually(lambda: sum(ready_count(channel, queue) for queue in queues) >= 10)
    held = publisher.sent
    assert held <= 6
    for queue in queues:
        channel.queue_purge(queue)
    eventually(lambda: publisher.sent > held)
    while publisher.is_alive():
        for queue in queues:
            channel.queue_purge(queue)
        publisher.join(0.02)
    assert publisher.sent == 12


@pytest.mark.parametrize("producers", [8, 100])
def test_several_producers_together_exceed_the_limit_by_a_bounded_amount(
    broker: Broker, channel: Any, api: HttpApi, name: str, producers: int
) -> None:
    """All of them go on when there is room."""
    declare(channel, name, "classic", max_size_bytes=50_000, address_full_policy="BLOCK")
    total = 40 * producers
    publishers = [Publishing(broker, name, 40) for _ in range(producers)]
    for each in publishers:
        each.start()
    eventually(lambda: address_row(api, name)["blocked_publishers"] == producers)
    assert address_row(api, name)["bytes"] <= 50_000 + producers * 2_000
    channel.basic_qos(prefetch_count=10)
    for taken, (method, _, _) in enumerate(channel.consume(name, inactivity_timeout=20), 1):
        assert method is not None, f"{taken - 1} of {total} came"
        channel.basic_ack(method.delivery_tag)
        if taken == total:
            break
    for each in publishers:
        each.join(20)
    assert sum(each.sent for each in publishers) == total


class Window(SenderOption):
    """Asks for credits in bytes."""

    def __init__(self, window_bytes: int) -> None:
        self._window_bytes = window_bytes

    def apply(self, sender: Any) -> None:
        sender.properties = {proton.symbol("warren:producer-window-bytes"): self._window_bytes}


class Sending(MessagingHandler):
    """Sends whenever it has credit; counts what it sent and what credit it ever had."""

    def __init__(
        self, url: str, address: str, count: int, window_bytes: int | None, body: bytes
    ) -> None:
        super().__init__()
        self._url, self._address, self._count, self._body = url, address, count, body
        self._options = None if window_bytes is None else Window(window_bytes)
        self.sent = self.answered = self.rejected = 0
        self.first_credit = 0
        self.sender: Any = None

    def on_start(self, event: Any) -> None:
        connection = event.container.connect(self._url, allowed_mechs="PLAIN")
        self.sender = event.container.create_sender(
            connection, self._address, options=self._options
        )

    def on_sendable(self, event: Any) -> None:
        self.first_credit = self.first_credit or event.sender.credit
        while event.sender.credit > 0 and self.sent < self._count:
            event.sender.send(data_message(self._body, durable=True))
            self.sent += 1

    def on_accepted(self, event: Any) -> None:
        self._one(event)

    def on_rejected(self, event: Any) -> None:
        self.rejected += 1
        self._one(event)

    def _one(self, event: Any) -> None:
        self.answered += 1
        if self.answered == self._count:
            event.connection.close()


@pytest.fixture
def sending(broker: Broker, name: str) -> Callable[..., Sending]:
    def begin(count: int, window_bytes: int | None = None, body: bytes = BODY) -> Sending:
        url = f"amqp://guest:guest@{broker.host}:{broker.port}"
        handler = Sending(url, f"/queues/{name}", count, window_bytes, body)
        threading.Thread(target=Container(handler).run, daemon=True).start()
        return handler

    return begin


def test_credit_is_100_and_stops_when_the_address_is_full(
    channel: Any, sending: Callable[[int], Sending], name: str
) -> None:
    declare(
        *(channel, name, "classic"),
        max_size_messages=20,
        address_full_policy="BLOCK",
        amqp_credits=100,
        amqp_low_credits=30,
    )
    handler = sending(300)
    eventually(lambda: handler.sent >= 100)
    assert handler.first_credit == 100
    eventually(lambda: ready_count(channel, name) == 100)
    assert handler.sent == 100
    taken = 0
    while taken < 300:
        taken += channel.basic_get(name, auto_ack=True)[0] is not None
    eventually(lambda: handler.answered == 300)


def test_credit_of_amqp_counts_messages_whatever_their_size(
    channel: Any, api: HttpApi, sending: Callable[..., Sending], name: str
) -> None:
    """So large messages exceed the limit of an address many times over."""
    declare(
        *(channel, name, "classic"),
        max_size_bytes=10_000,
        address_full_policy="BLOCK",
        amqp_credits=100,
        amqp_low_credits=30,
    )
    handler = sending(150, body=bytes(5_000))
    eventually(lambda: ready_count(channel, name) == 100)
    eventually(lambda: is_stopped(address_row(api, name)))
    assert handler.sent == 100
    assert address_row(api, name)["bytes"] >= 500_000
    eventually(lambda: channel.queue_purge(name) is not None and handler.answered == 150)


def test_credit_is_granted_again_when_30_are_left_and_100_may_exceed_the_limit(
    broker: Broker, channel: Any, api: HttpApi, name: str
) -> None:
    """With rhea. Without a threshold nothing is rejected."""
    declare(
        *(channel, name, "classic"),
        max_size_messages=200,
        address_full_policy="BLOCK",
        amqp_credits=100,
        amqp_low_credits=30,
    )
    arguments = [broker.host, str(broker.port), name, "100", "30", "1000"]
    client = subprocess.Popen(
        [node_js("rhea"), str(CREDIT), *arguments], cwd=tools_folder(), stdout=subprocess.PIPE
    )
    try:
        eventually(lambda: is_stopped(address_row(api, name)), client.poll)
        assert 200 <= ready_count(channel, name) <= 300
        numbers = [str(number).encode() for number in range(1, 1001)]
        found: list[bytes] = []
        for _, _, body in channel.consume(name, auto_ack=True, inactivity_timeout=60):
            assert body is not None, f"{len(found)} of 1,000 came"
            found.append(body)
            if len(found) == len(numbers):
                break
        report = json.loads(client.communicate(timeout=60)[0])
    finally:
        client.kill()
        client.communicate()
    assert report == {"granted": 100, "left": 31, "again": 100, "accepted": 1000}
    assert found == numbers


def is_stopped(row: Any) -> bool:
    """Whether the only publisher of the address is held and has no credit."""
    return bool(row["blocked_publishers"] == 1 and row["granted_credit"] == 0)


@pytest.mark.parametrize("window_bytes", [None, 16 << 10])
def test_messages_above_the_reject_threshold_are_rejected(
    channel: Any, sending: Callable[..., Sending], name: str, window_bytes: int | None
) -> None:
    """Also those of a client that asks for credits in bytes and ignores them."""
    declare(
        *(channel, name, "classic"),
        max_size_bytes=10_000,
        max_size_bytes_reject_threshold=30_000,
        address_full_policy="BLOCK",
    )
    handler = sending(100, window_bytes)
    eventually(lambda: handler.answered == 100)
    assert 65 <= handler.rejected <= 75
    assert ready_count(channel, name) == 100 - handler.rejected


# PAGE


@KINDS
def test_page_never_holds_a_publisher_and_keeps_the_order(
    channel: Any, api: HttpApi, name: str, kind: str
) -> None:
    declare(channel, name, kind, max_size_bytes=10_000, address_full_policy="PAGE")
    channel.confirm_delivery()
    bodies = [b"%06d" % number * 200 for number in range(300)]
    for body in bodies:
        assert is_accepted(channel, name, body)
    if kind == "classic":
        eventually(lambda: api.get(f"/queues/%2F/{name}")["message_bytes_ram"] < 100_000)
    assert drain(channel, name) == bodies


def test_page_limits_refuse_what_exceeds_them(channel: Any, name: str) -> None:
    declare(
        *(channel, name, "classic"),
        max_size_messages=3,
        page_limit_messages=2,
        page_full_policy="FAIL",
    )
    channel.confirm_delivery()
    assert [is_accepted(channel, name) for _ in range(7)] == [True] * 5 + [False] * 2


def test_page_limits_reject_what_exceeds_them(broker: Broker, channel: Any, name: str) -> None:
    declare(
        *(channel, name, "quorum"),
        max_size_messages=3,
        page_limit_messages=2,
        page_full_policy="FAIL",
    )
    client = connect10(broker)
    sender = client.create_sender(f"/queues/{name}")
    outcomes = [outcome_of(sender, data_message(BODY)) for _ in range(7)]
    client.close()
    assert outcomes == [ACCEPTED] * 5 + [REJECTED] * 2


def test_an_address_without_settings_holds_no_publisher_at_10_mib(
    broker: Broker, channel: Any, name: str
) -> None:
    """Not Artemis' default: what blocks publishers in Warren is configured, or an alarm."""
    declare(channel, name, "classic")
    publisher = Publishing(broker, name, 120, body=bytes(100_000))
    publisher.start()
    publisher.join(60)
    assert publisher.sent == 120
    assert ready_count(channel, name) == 120


# Rates


def test_a_producer_never_exceeds_its_rate(broker: Broker, channel: Any, name: str) -> None:
    declare(channel, name, "classic", producer_max_rate=200)
    begun = time.monotonic()
    publisher = Publishing(broker, name, 400)
    publisher.start()
    publisher.join(20)
    took = time.monotonic() - begun
    assert publisher.sent == 400
    assert took >= 400 / 200 * 0.94  # The burst is a twentieth of a second's worth.


def test_producer_rate_of_minus_1_disables_it(
    broker: Broker, channel: Any, policy: Callable[..., None], name: str
) -> None:
    """It does so for one queue of a policy, whose rate would hold the publisher for 2 minutes."""
    policy(producer_max_rate=1)
    declare(channel, name, "classic", producer_max_rate=-1)
    publisher = Publishing(broker, name, 120)
    publisher.start()
    publisher.join(60)
    assert publisher.sent == 120


def test_a_link_never_exceeds_its_rate(
    channel: Any, sending: Callable[[int], Sending], name: str
) -> None:
    declare(channel, name, "classic", producer_max_rate=200)
    begun = time.monotonic()
    handler = sending(400)
    eventually(lambda: handler.answered == 400)
    assert time.monotonic() - begun >= 400 / 200 * 0.9


# Settings


@pytest.mark.parametrize(
    ("key", "value", "allowed"),
    [
        ("address-full-policy", "BLOK", "PAGE, BLOCK, DROP or FAIL"),
        ("max-size-bytes", -2, "a whole number, 0 or more"),
        ("producer-max-rate", 0, "messages per second from 1"),
        ("max-size-bytes-reject-threshold", 10, "needs address-full-policy BLOCK, not PAGE"),
    ],
)
def test_a_wrong_setting_is_refused_with_what_is_allowed(
    broker: Broker, api: HttpApi, name: str, key: str, value: object, allowed: str
) -> None:
    body = {"pattern": "x", "definition": {key: value}}
    status, said = api.refused("PUT", "/policies/%2F/wrong", body)
    assert status == 400
    assert allowed in said
    for declare_one in ("queue_declare", "exchange_declare"):
        channel = broker.connect().channel()
        with pytest.raises(pika.exceptions.ChannelClosedByBroker) as closed:
            getattr(channel, declare_one)(name, arguments={f"x-{key}": value})
        assert allowed.replace("needs address", "needs x-address") in closed.value.reply_text
        channel.connection.close()


def test_a_policy_that_ends_lets_its_publishers_go_on(
    broker: Broker, channel: Any, api: HttpApi, policy: Callable[..., None], name: str
) -> None:
    policy(max_size_messages=2, address_full_policy="BLOCK")
    declare(channel, name, "classic")
    publisher = Publishing(broker, name, 10)
    publisher.start()
    eventually(lambda: address_row(api, name)["blocked_publishers"] == 1)
    policy(max_length=1000)
    publisher.join(20)
    assert publisher.sent == 10


def test_a_higher_limit_lets_its_publishers_go_on(
    broker: Broker, channel: Any, api: HttpApi, policy: Callable[..., None], name: str
) -> None:
    policy(max_size_messages=2, address_full_policy="BLOCK")
    declare(channel, name, "classic")
    publisher = Publishing(broker, name, 10)
    publisher.start()
    eventually(lambda: address_row(api, name)["blocked_publishers"] == 1)
    policy(max_size_messages=100, address_full_policy="BLOCK")
    publisher.join(20)
    assert publisher.sent == 10


def test_a_limit_without_the_policy_block_holds_no_publisher(
    broker: Broker, channel: Any, api: HttpApi, name: str
) -> None:
    declare(channel, name, "classic", max_size_messages=2)
    publisher = Publishing(broker, name, 10)
    publisher.start()
    publisher.join(20)
    assert publisher.sent == 10
    assert address_row(api, name)["blocked_publishers"] == 0


def test_the_flow_graph_shows_which_connection_an_address_holds(
    broker: Broker, channel: Any, api: HttpApi, name: str
) -> None:
    declare(channel, name, "classic", max_size_messages=2, address_full_policy="BLOCK")
    publisher = Publishing(broker, name, 5)
    publisher.start()
    eventually(lambda: len(held_by(api, name)) == 1)
    (held,) = held_by(api, name)
    assert held["kind"] == "connection"
    channel.queue_purge(name)
    eventually(lambda: ready_count(channel, name) == 2)
    channel.queue_delete(name)
    publisher.join(20)
    eventually(lambda: held_by(api, name) == [])


def held_by(api: HttpApi, name: str) -> list[Any]:
    """What the address holds back now, by the flow graph."""
    graph = api.get("/flow/graph")
    nodes = {row["id"]: row for row in graph["nodes"]}
    return [
        nodes[edge["from"]]
        for edge in graph["edges"]
        if edge["since"] is not None
        and nodes[edge["to"]]["kind"] == "address"
        and f"'{name}'" in nodes[edge["to"]]["name"]
    ]


# All queues of the node together


@pytest.fixture(scope="module")
def small_node() -> Iterator[Node]:
    with Node(
        name="small", config=CONFIG, settings={"addresses.global_max_size": "20kB"}
    ) as running:
        yield running


def test_global_max_size_has_each_address_apply_its_policy(small_node: Node, name: str) -> None:
    broker = Broker(small_node.host, small_node.port, small_node)
    channel = broker.connect().channel()
    channel.confirm_delivery()
    blocked, failed, free = f"{name}-block", f"{name}-fail", f"{name}-none"
    declare(channel, failed, "classic", address_full_policy="FAIL")
    declare(channel, blocked, "quorum", address_full_policy="BLOCK")
    declare(channel, free, "classic")
    publishing = Publishing(broker, blocked, 8)
    publishing.start()
    publishing.join(20)
    assert not publishing.is_alive()
    eventually(lambda: ready_count(channel, blocked) == 8)
    taken = [is_accepted(channel, failed) for _ in range(30)]
    assert 8 <= taken.count(True) <= 12  # 1,000 bytes and properties each.
    assert taken == sorted(taken, reverse=True)
    assert is_accepted(channel, free)  # It has no settings: its bodies leave memory.
    waiting = Publishing(broker, blocked, 3)
    waiting.start()
    rows = HttpApi(small_node.management_url)
    eventually(
        lambda: any(row["blocked_publishers"] for row in rows.get("/addresses")),
    )
    assert waiting.sent < 3  # What was read before is taken.
    channel.queue_purge(failed)
    waiting.join(20)
    assert waiting.sent == 3
    eventually(lambda: is_accepted(channel, failed))

"""What users may, asked of a service over HTTP (`http:http`), with unchanged clients of each
protocol. None of its users is in the definitions."""

import asyncio
import select
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote

import pika
import pika.exceptions
import pytest
from proton.utils import BlockingConnection
from rstream import Producer, exceptions

from tests.conformance.broker import GUEST
from tests.conformance.password_services import Fields, HttpService
from tests.conformance.proton10 import body_of, data_message
from tests.conformance.test_password_services import connected
from tests.conformance.test_stream_frames import Client, number, text
from tests.waiting import eventually
from warren.client import ClientError, Message, connect
from warren.testing import Node, free_port
from warren.testing.http_api import HttpApi
from warren.wire.stream import codes
from warren.wire.stream.frames import FrameWriter

TTL_MS = 1000
REFUSED = pika.exceptions.ChannelClosedByBroker


@dataclass
class Rules:
    """What the service says: names that begin with the user's are the user's."""

    service: HttpService
    gate: threading.Event = field(default_factory=threading.Event)  # closed: no answers
    revoked: set[str] = field(default_factory=set)  # names
    is_broken: bool = False

    def reset(self) -> None:
        self.gate.set()
        self.revoked.clear()
        self.is_broken = False
        self.service.questions.clear()
        self.service.answer = lambda fields: (200, f"allow {fields['username']} management")
        self.service.answers_of = {
            "vhost": lambda fields: self._said(fields["vhost"] in ("/", "own")),
            "resource": self._resource,
            "topic": lambda fields: self._said(fields["routing_key"].startswith("eu.")),
        }

    def _said(self, is_allowed: bool) -> tuple[int, str]:
        assert self.gate.wait(30)
        return (500, "out of order") if self.is_broken else (200, ("deny", "allow")[is_allowed])

    def _resource(self, fields: Fields) -> tuple[int, str]:
        name, user = fields["name"], fields["username"]
        is_own = name.startswith((user, "amq.")) and name not in self.revoked
        return self._said(is_own and (fields["resource"], name) != ("exchange", f"{user}.queue"))

    def asked(self, **wanted: str) -> int:
        """How many questions had these fields."""
        found = [each for _, each in self.service.questions if wanted.items() <= each.items()]
        return len(found)


@dataclass
class Place:
    node: Node
    stream_port: int


@pytest.fixture(scope="module")
def service() -> Iterator[HttpService]:
    made = HttpService(lambda fields: (200, "deny"))
    yield made
    made.close()


@pytest.fixture(scope="module")
def place(service: HttpService) -> Iterator[Place]:
    port, base = free_port(), service.url.removesuffix("user")
    config = f"""auth_backends = ["internal", "http:http"]
{GUEST}
[listeners]
stream = "127.0.0.1:{port}"
[auth_http]
user_path = "{base}user"
vhost_path = "{base}vhost"
resource_path = "{base}resource"
topic_path = "{base}topic"
request_timeout = 20000
[auth_cache]
cache_ttl = {TTL_MS}
"""
    with Node(name="asking", config=config) as node:
        api = HttpApi(node.management_url)
        api.put("/vhosts/foreign", {})
        api.put("/queues/%2F/bob.orders", {"durable": True})
        yield Place(node, port)


@pytest.fixture
def rules(service: HttpService, place: Place) -> Rules:
    """The service answers; nothing of an earlier test is remembered that matters to the next: each
    test has names of its own."""
    made = Rules(service)
    made.reset()
    return made


def publishes(exchange: str, key: str, **headers: object) -> Callable[[Any], None]:
    def publish(channel: Any) -> None:
        channel.confirm_delivery()
        channel.basic_publish(exchange, key, b"x", pika.BasicProperties(headers=headers))

    return publish


@pytest.mark.parametrize(
    "refused",
    [
        lambda channel: channel.queue_declare("bob.orders"),
        lambda channel: channel.queue_declare("bob.orders", passive=True),
        lambda channel: channel.exchange_declare("bob.exchange"),
        lambda channel: channel.exchange_declare("ada.queue"),  # a name for queues alone
        lambda channel: channel.queue_bind("ada.orders", "ada.topics", "us.#"),
        lambda channel: channel.basic_get("bob.orders"),
        lambda channel: channel.queue_declare(
            "ada.dead", arguments={"x-dead-letter-exchange": "bob.exchange"}
        ),
        publishes("ada.topics", "us.new"),
        publishes("ada.topics", "eu.new", CC=["eu.old", "us.new"]),
        publishes("bob.exchange", ""),
    ],
)
def test_what_the_service_denies_is_refused(
    place: Place, rules: Rules, refused: Callable[[Any], None]
) -> None:
    with connected(place.node, "ada", "x") as connection:
        channel = connection.channel()
        channel.exchange_declare("ada.topics", "topic")
        channel.queue_declare("ada.orders")
        with pytest.raises(REFUSED, match="ACCESS_REFUSED"):
            refused(channel)


def test_what_the_service_allows_is_carried_out(place: Place, rules: Rules) -> None:
    with connected(place.node, "sam", "x") as connection:
        channel = connection.channel()
        channel.confirm_delivery()
        channel.queue_declare("sam.many", arguments={"x-dead-letter-exchange": "sam.topics"})
        for _ in range(100):
            channel.basic_publish("", "sam.many", b"an order", mandatory=True)
        assert channel.basic_get("sam.many", auto_ack=True)[2] == b"an order"
        channel.queue_declare("sam.many", passive=True)
        channel.queue_declare("sam.queue")
        channel.exchange_declare("sam.topics", "topic")
        named = channel.queue_declare("", exclusive=True).method.queue
        assert named.startswith("amq.gen-")
        channel.queue_bind(named, "sam.topics", "eu.#")
        more = pika.BasicProperties(headers={"CC": ["eu.old"]})
        channel.basic_publish("sam.topics", "eu.new", b"1", more, mandatory=True)
        got = next(channel.consume(named, auto_ack=True, inactivity_timeout=20))
        assert got[2] == b"1"
    assert rules.asked(name="amq.default", permission="write") <= 3, "100 publishes"
    place_ = {"username": "sam", "vhost": "/", "tags": "sam management"}
    queue = {"resource": "queue", "name": "sam.many", "permission": "configure"}
    topic = {"resource": "topic", "name": "sam.topics", "permission": "write"}
    for question in (
        ("vhost", place_ | {"ip": "127.0.0.1"}),
        ("resource", place_ | queue),
        ("topic", place_ | topic | {"routing_key": "eu.new"}),
    ):
        assert question in rules.service.questions


def test_a_vhost_may_be_denied(place: Place, rules: Rules) -> None:
    with pytest.raises(pika.exceptions.ProbableAccessDeniedError, match="'foreign' refused"):
        login = pika.PlainCredentials("ada", "x")
        here = place.node.host, place.node.port
        pika.BlockingConnection(pika.ConnectionParameters(*here, "foreign", login))


def test_a_transaction_waits_for_its_permissions(place: Place, rules: Rules) -> None:
    with connected(place.node, "eve", "x") as connection:
        channel = connection.channel()
        channel.queue_declare("eve.orders")
        channel.exchange_declare("eve.topics", "topic")
        channel.queue_bind("eve.orders", "eve.topics", "eu.#")
        channel.tx_select()
        channel.basic_publish("", "eve.orders", b"1")
        channel.basic_publish("eve.topics", "eu.new", b"2")
        channel.tx_commit()
        bodies = [channel.basic_get("eve.orders", auto_ack=True)[2] for _ in range(2)]
        assert bodies == [b"1", b"2"]


def test_amqp_1_0_asks_too(place: Place, rules: Rules) -> None:
    async def play() -> None:
        url = f"amqp://cid:x@{place.node.host}:{place.node.port}"
        async with await connect(url) as connection:
            management = await connection.management()
            await management.declare_queue("cid.orders")
            await management.declare_exchange("cid.topics", "topic")
            await management.bind("cid.topics", queue="cid.orders", key="eu.#")
            with pytest.raises(ClientError, match="403"):
                await management.declare_queue("bob.orders")
            with pytest.raises(ClientError, match="403"):
                await management.bind("cid.topics", queue="cid.orders", key="us.#")
            publisher = await connection.publisher("/exchanges/cid.topics/eu.new")
            assert (await publisher.publish(Message(b"1"))).is_accepted
            anonymous = await connection.publisher(None)
            for key, is_accepted in (("eu.a", True), ("us.b", False), ("eu.c", True)):
                message = Message(key.encode(), to=f"/exchanges/cid.topics/{key}")
                assert (await anonymous.publish(message)).is_accepted == is_accepted
            consumer = await connection.consumer("/queues/cid.orders", credit=0)
            found = await consumer.receive(3, timeout_s=20)
            assert [each.message.body for each in found] == [b"1", b"eu.a", b"eu.c"]
        for address in ("/exchanges/bob.exchange", "/exchanges/cid.topics/us"):
            async with await connect(url) as connection:
                with pytest.raises(ClientError, match="refused for user 'cid'"):
                    await connection.publisher(address)
        async with await connect(url) as connection:
            with pytest.raises(ClientError, match="refused for user 'cid'"):
                await connection.consumer("/queues/bob.orders")
        with pytest.raises(ClientError, match="vhost 'foreign' refused"):
            async with await connect(url + "/foreign") as connection:
                await connection.management()

    asyncio.run(play())


def test_queues_that_a_link_gets_of_its_own_are_asked_for(place: Place, rules: Rules) -> None:
    """A dynamic queue, and one for a subscription; both have names that the node makes."""
    node = place.node
    connection = BlockingConnection(f"amqp://{node.host}:{node.port}", user="dan", password="x")
    receiver = connection.create_receiver(None, dynamic=True)
    sender = connection.create_sender(receiver.link.remote_source.address)
    sender.send(data_message(b"1"))
    assert body_of(receiver.receive(20)) == b"1"
    with connected(node, "dan", "x") as other:
        other.channel().exchange_declare("dan.topics", "topic")
        subscriber = connection.create_receiver("/exchanges/dan.topics/eu.%23")
        publishes("dan.topics", "eu.new")(other.channel())
        assert body_of(subscriber.receive(20)) == b"x"
    connection.close()


def test_the_stream_protocol_asks_too(place: Place, rules: Rules) -> None:
    async def play() -> None:
        async with Producer(
            "127.0.0.1", place.stream_port, username="sue", password="x"
        ) as producer:
            await producer.create_stream("sue.log")
            await producer.send_wait("sue.log", b"1")
            assert await producer.stream_exists("sue.log")
            with pytest.raises(exceptions.AccessRefused):
                await producer.create_stream("bob.log")
            await producer.delete_stream("sue.log")

    asyncio.run(play())


def test_messages_for_a_stream_wait_for_the_service_and_frames_stay_in_order(
    place: Place, rules: Rules
) -> None:
    client = Client(place.stream_port)
    client.open("tim", "x")
    assert client.ask(codes.CREATE, text("tim.log"), number(0, 4)).u16() == codes.OK
    declare = number(1, 1) + text("") + text("tim.log")
    assert client.ask(codes.DECLARE_PUBLISHER, declare).u16() == codes.OK
    rules.gate.clear()
    sent = 0

    def publish() -> bytes:
        nonlocal sent
        sent += 1
        entry = number(sent, 8) + number(1, 4) + b"x"
        return FrameWriter(codes.PUBLISH).u8(1).u32(1).raw(entry).end()

    def confirmed() -> list[int]:
        told = client.receive()
        assert told is not None and (told.key, told.u8()) == (codes.PUBLISH_CONFIRM, 1)
        return [told.u64() for _ in range(told.u32())]

    def waits() -> bool:
        """Whether the permission that was known has expired."""
        client.socket.sendall(publish())
        if not select.select([client.socket], [], [], 0.2)[0]:
            return True
        assert confirmed() == [sent]
        return False

    eventually(waits)
    first = sent
    client.socket.sendall(publish() + publish())
    rules.gate.set()
    found: list[int] = []
    while len(found) < sent - first + 1:
        found += confirmed()
    assert found == list(range(first, sent + 1))
    rules.gate.clear()
    eventually(waits)
    client.socket.sendall(publish() + number(1 << 30, 4))
    rules.gate.set()
    assert client.code_of_close() == codes.FRAME_TOO_LARGE
    client.close()
    rows = HttpApi(place.node.management_url)
    eventually(lambda: rows.get("/queues/%2F/tim.log")["messages"] == sent)


def test_the_http_api_asks_too(place: Place, rules: Rules) -> None:
    api = HttpApi(place.node.management_url, "hal", "x")
    assert [each["name"] for each in api.get("/vhosts")] == ["/"]
    api.put("/queues/%2F/hal.orders", {"durable": True})
    api.put("/exchanges/%2F/hal.topics", {"type": "topic"})
    assert api.ask("PUT", "/queues/%2F/bob.orders", {})[0] == 401
    assert api.ask("GET", "/queues/foreign")[0] == 401
    said = {"properties": {}, "payload": "1", "payload_encoding": "string"}
    path = "/exchanges/%2F/hal.topics/publish"
    assert api.ask("POST", path, said | {"routing_key": "eu.a"})[0] == 200
    assert api.ask("POST", path, said | {"routing_key": "us.a"})[0] == 401


def test_nobody_else_waits_for_the_service_and_commands_stay_in_order(
    place: Place, rules: Rules
) -> None:
    with (
        connected(place.node, "ann", "x") as connection,
        connected(place.node, "guest", "guest") as other,
    ):
        channel = connection.channel()
        channel.queue_declare("ann.orders")
        channel.exchange_declare("ann.direct")
        channel.queue_bind("ann.orders", "ann.direct", "ann.orders")
        rules.gate.clear()
        for number in range(3):  # Neither exchange is known to be permitted.
            channel.basic_publish("ann.direct" if number == 1 else "", "ann.orders", b"%d" % number)
        free = other.channel()
        free.confirm_delivery()
        free.queue_declare("of guest")
        for _ in range(20):
            free.basic_publish("", "of guest", b"x", mandatory=True)
        assert free.queue_declare("ann.orders", passive=True).method.message_count == 0
        rules.gate.set()
        bodies = [channel.basic_get("ann.orders", auto_ack=True)[2] for _ in range(3)]
        assert bodies == [b"0", b"1", b"2"]
        free.queue_delete("of guest")


def test_a_revocation_takes_effect_on_open_connections(place: Place, rules: Rules) -> None:
    with connected(place.node, "kim", "x") as connection:
        channel = connection.channel()
        channel.confirm_delivery()
        channel.queue_declare("kim.orders")
        channel.basic_publish("", "kim.orders", b"1")
        rules.revoked.add("amq.default")

        def is_refused() -> bool:
            try:
                channel.basic_publish("", "kim.orders", b"1")
            except REFUSED:
                return True
            return False

        began_s = time.monotonic()
        eventually(is_refused)
        assert time.monotonic() - began_s < TTL_MS / 1000 + 10


def test_a_service_that_is_out_of_order_allows_nothing(place: Place, rules: Rules) -> None:
    with connected(place.node, "lea", "x") as connection:
        rules.is_broken = True
        with pytest.raises(REFUSED, match="ACCESS_REFUSED"):
            connection.channel().queue_declare("lea.orders")
        assert "the back end 'http' cannot be asked" in place.node.log()
        rules.is_broken = False

        def is_allowed() -> bool:
            try:
                connection.channel().queue_declare("lea.orders")
            except REFUSED:
                return False
            return True

        eventually(is_allowed)


def test_a_client_that_leaves_while_the_service_is_asked_leaves_nothing(
    place: Place, rules: Rules
) -> None:
    connection = connected(place.node, "may", "x")
    channel = connection.channel()
    rules.gate.clear()
    channel.basic_publish("", "may.orders", b"1")
    connection.process_data_events(0)
    eventually(lambda: rules.asked(username="may", name="amq.default") == 1)
    api = HttpApi(place.node.management_url)
    [own] = [each for each in api.get("/connections") if each["user"] == "may"]
    api.delete(f"/connections/{quote(own['name'])}")
    with pytest.raises(pika.exceptions.ConnectionClosedByBroker):
        connection.process_data_events(20)
    rules.gate.set()
    eventually(lambda: [each for each in api.get("/connections") if each["user"] == "may"] == [])
    assert "internal error" not in place.node.log() and "Traceback" not in place.node.log()

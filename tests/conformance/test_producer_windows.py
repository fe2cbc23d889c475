"""Byte windows of publishers over AMQP 1.0: clients that count bytes, and others.

Statements about producers with windows in the manual of Apache ActiveMQ Artemis (flow control).
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import pytest
from proton.handlers import MessagingHandler
from proton.reactor import Container

from node.cli.warrenctl import main
from tests.conformance.broker import CONFIG
from tests.conformance.proton10 import data_message
from tests.waiting import until
from warren.client import Connection, Message, PeerError, connect
from warren.testing import Node
from warren.testing.http_api import HttpApi

WINDOW = 16 << 10
BODY = b"x" * 1000
KINDS = pytest.mark.parametrize("kind", ["classic", "quorum"])


@pytest.fixture(scope="module")
def node() -> Iterator[Node]:
    with Node(name="windows", config=CONFIG) as running:
        yield running


@pytest.fixture
def api(node: Node) -> HttpApi:
    return HttpApi(node.management_url)


def play(node: Node, test: Callable[[Connection], Awaitable[None]]) -> None:
    async def whole() -> None:
        async with asyncio.timeout(40), await connect(node.url) as connection:
            await test(connection)

    asyncio.run(whole())


def row(api: HttpApi, name: str) -> dict[str, Any]:
    [found] = [each for each in api.get("/addresses/%2F") if each["name"] == name]
    return dict(found)


async def declared(connection: Connection, name: str, kind: str, **arguments: object) -> str:
    management = await connection.management()
    said: dict[str, object] = {f"x-{key.replace('_', '-')}": arguments[key] for key in arguments}
    await management.declare_queue(name, arguments={"x-queue-type": kind} | said)
    return f"/queues/{name}"


@KINDS
def test_a_publisher_with_a_window_gets_all_its_messages_accepted(
    node: Node, name: str, kind: str
) -> None:
    """Also those that are larger than the window, one at a time."""

    async def test(connection: Connection) -> None:
        address = await declared(connection, name, kind)
        publisher = await connection.publisher(address, window_bytes=WINDOW)
        bodies = [BODY * (40 if n % 10 == 0 else 1) for n in range(300)]
        outcomes = await publisher.publish_many([Message(each) for each in bodies])
        assert all(each.is_accepted for each in outcomes)
        assert publisher.state.limit_bytes is not None
        consumer = await connection.consumer(address)
        for body in bodies:
            delivery = await consumer.get(timeout_s=5)
            assert delivery.message.body == body
            delivery.accept()

    play(node, test)


@KINDS
def test_publishers_exceed_the_limit_of_an_address_by_no_more_than_their_windows(
    node: Node, api: HttpApi, name: str, kind: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """The window is that of the address where it is smaller than what the client asks for."""
    limit, count = 100_000, 5

    async def test(connection: Connection) -> None:
        address = await declared(
            connection,
            name,
            kind,
            max_size_bytes=limit,
            address_full_policy="BLOCK",
            producer_window_size=WINDOW,
        )
        publishers = [await connection.publisher(address, window_bytes=1 << 20) for _ in "12345"]
        sent = [
            asyncio.ensure_future(each.publish_many([Message(BODY)] * 100)) for each in publishers
        ]
        # Publishers also wait for the answers that bring them more of a window. What is on its way
        # to a quorum queue counts twice until it is committed.
        await until(
            lambda: (
                row(api, name)["blocked_publishers"] == count
                and all(each.unconfirmed == each.waiting for each in publishers)
                and row(api, name)["bytes"] >= limit
            )
        )
        stopped = [each.waiting for each in publishers]
        found = row(api, name)
        assert found["producer_window_size"] == WINDOW
        assert limit <= found["bytes"] <= limit + count * WINDOW
        assert found["granted_bytes"] <= count * WINDOW
        assert found["granted_credit"] == 0
        assert [each.waiting for each in publishers] == stopped
        await until(lambda: metrics_agree(node, api))
        assert node.metrics()["warren_address_over_limit_bytes"] >= found["bytes"] - limit
        shown = listed(node, capsys, "name", "full", "blocked_publishers", "max_size_bytes")
        assert [name, "true", str(count), str(limit)] in shown
        consumer = await connection.consumer(address)
        for _ in range(100 * count):
            (await consumer.get(timeout_s=5)).accept()
        for future in sent:
            assert all(each.is_accepted for each in await future)

    play(node, test)


@KINDS
def test_a_first_window_is_not_granted_twice_while_there_is_less_room(
    node: Node, api: HttpApi, name: str, kind: str
) -> None:
    """Its first messages fill the address: what is left of the window is all it may send."""
    limit, part, first = 50_000, BODY * 5, BODY * 12

    async def test(connection: Connection) -> None:
        address = await declared(
            connection, name, kind, max_size_bytes=limit, address_full_policy="BLOCK"
        )
        other = await connection.publisher(address)
        assert all(each.is_accepted for each in await other.publish_many([Message(part)] * 8))
        publisher = await connection.publisher(address, window_bytes=1 << 20)
        assert (await publisher.publish_many([Message(first)]))[0].is_accepted
        await until(lambda: row(api, name)["blocked_publishers"] == 1)
        consumer = await connection.consumer(address)
        (await consumer.get(timeout_s=5)).accept()
        await until(lambda: row(api, name)["blocked_publishers"] == 0)
        found = row(api, name)
        assert found["granted_bytes"] <= limit - len(first)

    play(node, test)


@KINDS
def test_a_producer_is_never_granted_more_at_once_than_the_size_of_its_address(
    node: Node, api: HttpApi, name: str, kind: str
) -> None:
    """However large the window is that it asks for. Alone it exceeds the limit by one such window
    at most, and by what queues store beside each message: 5 % here."""
    limit = 50_000

    async def test(connection: Connection) -> None:
        address = await declared(
            connection, name, kind, max_size_bytes=limit, address_full_policy="BLOCK"
        )
        publisher = await connection.publisher(address, window_bytes=1 << 20)
        sent = asyncio.ensure_future(publisher.publish_many([Message(BODY)] * 300))
        await until(lambda: row(api, name)["blocked_publishers"] == 1)
        found = row(api, name)
        assert limit <= found["bytes"] <= 2 * limit * 1.05 + len(BODY)
        assert found["granted_bytes"] <= limit
        consumer = await connection.consumer(address)
        for _ in range(300):
            (await consumer.get(timeout_s=5)).accept()
        assert all(each.is_accepted for each in await sent)

    play(node, test)


def test_the_window_is_the_most_bytes_that_are_in_flight(node: Node, name: str) -> None:
    """The producer asks for more as its credit decreases."""

    async def test(connection: Connection) -> None:
        address = await declared(connection, name, "classic")
        publisher = await connection.publisher(address, window_bytes=WINDOW)
        limits: list[int] = []
        for sent in range(1, 101):
            assert (await publisher.publish(Message(BODY))).is_accepted
            limits.append(publisher.state.limit_bytes or 0)
            assert limits[-1] <= sent * (len(BODY) + 100) + WINDOW
        assert limits == sorted(limits)
        assert limits[-1] > 5 * WINDOW

    play(node, test)


def metrics_agree(node: Node, api: HttpApi) -> bool:
    """Whether metrics show the same as the rows of all addresses."""
    metrics, rows = node.metrics(), api.get("/addresses")
    return all(
        metrics[metric] == together(each[column] for each in rows)
        for metric, column, together in (
            ("warren_addresses_full", "full", sum),
            ("warren_address_blocked_publishers", "blocked_publishers", sum),
            ("warren_address_granted_messages", "granted_credit", sum),
            ("warren_address_granted_bytes", "granted_bytes", sum),
            ("warren_address_over_limit_bytes", "over_bytes_max", max),
        )
    )


def listed(node: Node, capsys: pytest.CaptureFixture[str], *columns: str) -> list[list[str]]:
    """Rows of `warrenctl list_addresses`."""
    command = ["-q", "--no-table-headers", "--node-url", node.management_url, "list_addresses"]
    assert main([*command, *columns]) == 0
    return [line.split("\t") for line in capsys.readouterr().out.splitlines()]


class Filling(MessagingHandler):
    """A client that counts no bytes: it sends while it has credit."""

    def __init__(self, url: str, address: str) -> None:
        super().__init__()
        self._url, self._address = url, address
        self.credits: list[int] = []
        self.sent = self.accepted = 0

    def on_start(self, event: Any) -> None:
        connection = event.container.connect(self._url, allowed_mechs="PLAIN")
        event.container.create_sender(connection, self._address)

    def on_sendable(self, event: Any) -> None:
        if event.sender.credit:
            self.credits.append(event.sender.credit)
        while event.sender.credit and self.sent < 400:
            event.sender.send(data_message(BODY * 4))
            self.sent += 1

    def on_accepted(self, event: Any) -> None:
        self.accepted += 1
        if self.accepted == 400:
            event.connection.close()


def test_a_client_that_counts_no_bytes_gets_credit_for_as_many_messages_as_fit(
    node: Node, name: str
) -> None:
    async def declare(connection: Connection) -> None:
        await declared(connection, name, "classic", producer_window_size=WINDOW)

    play(node, declare)
    url = f"amqp://guest:guest@{node.host}:{node.port}"
    filling = Filling(url, f"/queues/{name}")
    Container(filling).run()
    assert filling.accepted == 400
    assert filling.credits[0] == WINDOW >> 10  # Before the broker knows how large messages are.
    assert max(filling.credits[4:]) <= WINDOW // 4000


def test_a_window_that_is_none_is_refused(node: Node, name: str) -> None:
    async def test(connection: Connection) -> None:
        address = await declared(connection, name, "classic")
        with pytest.raises(PeerError, match="warren:producer-window-bytes: expected a number"):
            await connection.publisher(address, window_bytes=1)

    play(node, test)


def test_a_consumer_of_the_client_asks_for_a_window(node: Node, name: str) -> None:
    async def test(connection: Connection) -> None:
        address = await declared(connection, name, "classic")
        publisher = await connection.publisher(address)
        await publisher.publish_many([Message(b"%d" % n) for n in range(3)])
        slow = await connection.consumer(address, window_bytes=0)
        held = await slow.get(timeout_s=5)
        fast = await connection.consumer(address)
        others = [await fast.get(timeout_s=5) for _ in range(2)]
        assert [each.message.body for each in (held, *others)] == [b"0", b"1", b"2"]

    play(node, test)

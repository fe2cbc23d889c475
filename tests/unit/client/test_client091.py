"""The 0-9-1 client over an in-memory pipe to the server's core: what goes wrong, limits, coming
back."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from tests.unit.client.pipe091 import Server
from warren.client.amqp091 import (
    ClientError,
    Connection,
    ConnectionLost,
    LoginFailed,
    Message,
    PublisherFull,
    ReplyError,
    RequestFailed,
    connect,
)
from warren.client.dialling import Backoff
from warren.wire.amqp091.deliver import body_bytes, write_ack, write_nack
from warren.wire.amqp091.events import ACK, NACK, REJECT
from warren.wire.amqp091.methods import QueuePurgeOk

URL = "amqp://guest:guest@somewhere/%2F"
QUICK = Backoff(0.001, 0.002)


def play(test: Callable[[Server, Connection], Awaitable[None]], **options: Any) -> Server:
    """Run a test that has a server with the queue `q`, and a connection to it."""
    server = Server(**options.pop("limits", {}))
    server.put("q")

    async def whole() -> None:
        async with asyncio.timeout(10):
            options.setdefault("timeout_s", 2.0)
            connection = await connect(URL, dial=server.dial, **options)
            async with connection:
                await test(server, connection)

    asyncio.run(whole())
    return server


async def turns(count: int = 20) -> None:
    """Let everything that can happen now happen."""
    for _ in range(count):
        await asyncio.sleep(0)


def bodies_in(server: Server, queue: str = "q") -> list[bytes]:
    return [body_bytes(each, 0, len(each)) for each in server.queues[queue]]


def numbered(count: int) -> list[bytes]:
    return [b"%d" % number for number in range(count)]


# Connecting


def test_the_broker_hears_who_connects_and_to_which_vhost() -> None:
    server = Server()

    async def test() -> None:
        async with await connect("amqp://guest:guest@x/a%2Fb", dial=server.dial, name="me") as one:
            assert one.server_properties == {"product": "pipe"}
        assert one.error is not None

    asyncio.run(test())
    assert server.opened == ["a/b"]
    assert server.properties[0]["connection_name"] == "me"


def test_a_wrong_password_is_told() -> None:
    server = Server()
    with pytest.raises(LoginFailed, match="Login was refused"):
        asyncio.run(connect("amqp://guest:wrong@here", dial=server.dial))


def test_a_socket_that_closes_at_the_login_is_a_refused_login() -> None:
    server = Server()
    server.answers_logins = False

    async def test() -> None:
        dialling = asyncio.ensure_future(connect(URL, dial=server.dial))
        while not server.peers:
            await asyncio.sleep(0)
        await turns()
        server.cut()
        await dialling

    with pytest.raises(LoginFailed, match="closed the socket after the login"):
        asyncio.run(test())


def test_nobody_there_is_an_os_error() -> None:
    server = Server()
    server.reachable = False
    with pytest.raises(OSError, match="no listener"):
        asyncio.run(connect(URL, dial=server.dial, reconnect=True))


def test_more_channels_than_there_are_is_an_error_of_that_call_alone() -> None:
    async def test(server: Server, connection: Connection) -> None:
        publisher = await connection.publisher("", "q")
        with pytest.raises(ClientError, match="too many channels"):
            await connection.management()
        assert (await publisher.publish(Message(b"a"))).is_accepted
        await publisher.close()
        await connection.management()

    play(test, limits={"channel_max": 1})


# What goes wrong


def test_a_refused_consumer_tells_the_reply_code_and_hurts_no_other() -> None:
    async def test(server: Server, connection: Connection) -> None:
        publisher = await connection.publisher("", "q")
        with pytest.raises(ReplyError, match="404 NOT_FOUND: no queue 'none'") as caught:
            await connection.consumer("none")
        assert caught.value.code == 404
        assert (await publisher.publish(Message(b"a"))).is_accepted

    play(test)


def test_a_refused_request_leaves_management_usable() -> None:
    async def test(server: Server, connection: Connection) -> None:
        management = await connection.management()
        asked = [management.queue("none"), management.queue("q"), management.queue("none")]
        one, two, three = await asyncio.gather(*asked, return_exceptions=True)
        for error in (one, three):
            assert isinstance(error, RequestFailed) and error.status == 404
        assert not isinstance(two, BaseException) and two.name == "q"
        with pytest.raises(ValueError, match="a queue or an exchange"):
            await management.bind("x")
        await management.bind("x", exchange="y", key="k")

    play(test)


def test_an_answer_that_nobody_asked_for_ends_the_connection() -> None:
    async def test(server: Server, connection: Connection) -> None:
        publisher = await connection.publisher("", "q")
        server.peer.core.send(1, QueuePurgeOk(1))
        server.peer.flush()
        await turns()
        with pytest.raises(ReplyError, match=r"505 .* answers no request"):
            publisher.send(Message(b""))

    play(test)


def test_without_reconnect_everything_ends_with_the_connection() -> None:
    async def test(server: Server, connection: Connection) -> None:
        publisher = await connection.publisher("", "q")
        consumer = await connection.consumer("q")
        management = await connection.management()
        server.answers = False
        future = publisher.send(Message(b"a"))
        await turns()
        server.cut()
        with pytest.raises(ConnectionLost):
            await future
        assert [each async for each in consumer] == []
        with pytest.raises(ConnectionLost):
            await management.queue("q")
        with pytest.raises(ConnectionLost):
            await connection.publisher()

    play(test)


def test_closing_while_dialling_again_takes_no_time() -> None:
    server = Server()
    again = asyncio.Event()

    async def dial(line: Any) -> None:
        if server.peers:
            again.set()
            await asyncio.Event().wait()
        await server.dial(line)

    async def test() -> None:
        connection = await connect(URL, dial=dial, reconnect=True, backoff=QUICK, timeout_s=5)
        server.cut()
        async with asyncio.timeout(2):
            await again.wait()
            await connection.close()

    asyncio.run(test())


# Publishing


def test_many_messages_are_confirmed_in_order_within_the_window() -> None:
    async def test(server: Server, connection: Connection) -> None:
        publisher = await connection.publisher("", "q", window=7, waiting_max=50)
        outcomes = await publisher.publish_many(Message(each) for each in numbered(500))
        assert len(outcomes) == 500 and all(each.is_accepted for each in outcomes)
        assert (publisher.unconfirmed, publisher.accepted) == (0, 500)
        assert bodies_in(server) == numbered(500)

    play(test)


def test_a_window_without_confirms_is_the_end_and_what_waits_is_limited() -> None:
    async def test(server: Server, connection: Connection) -> None:
        server.answers = False
        publisher = await connection.publisher("", "q", window=2, waiting_max=3)
        futures = [publisher.send(Message(each)) for each in numbered(2)]
        await turns()
        futures += [publisher.send(Message(each)) for each in (b"2", b"3", b"4")]
        with pytest.raises(PublisherFull):
            publisher.send(Message(b"5"))
        with pytest.raises(TimeoutError):
            await publisher.publish(Message(b"5"), timeout_s=0.01)
        assert (publisher.waiting, publisher.unconfirmed) == (3, 5)
        assert bodies_in(server) == numbered(2)
        futures[3].cancel()
        server.answers = True
        server.peer.confirm(1)
        server.peer.flush()
        await asyncio.gather(futures[2], futures[4])
        assert bodies_in(server) == [b"0", b"1", b"2", b"4"]

    play(test)


def test_a_nack_is_rejected_and_confirms_may_come_one_by_one() -> None:
    async def test(server: Server, connection: Connection) -> None:
        server.answers = False
        publisher = await connection.publisher("", "q")
        futures = [publisher.send(Message(each)) for each in numbered(4)]
        await turns()
        writer = server.peer.core.writer
        write_nack(writer, 1, 3, False)
        write_ack(writer, 1, 2, False)
        write_ack(writer, 1, 99, False)  # Never published: says nothing.
        write_ack(writer, 1, 0, True)  # All that is left.
        server.peer.flush()
        kinds = [(await each).kind for each in futures]
        assert kinds == ["accepted", "accepted", "rejected", "accepted"]

    play(test)


def test_what_no_queue_takes_comes_back_to_the_message_it_was() -> None:
    returned: list[tuple[bytes, int]] = []

    async def test(server: Server, connection: Connection) -> None:
        publisher = await connection.publisher(
            on_returned=lambda message, error: returned.append((message.body, error.code))
        )
        futures = [
            publisher.send(Message(b"same", headers={"n": 1}), routing_key="nowhere"),
            publisher.send(Message(b"same"), routing_key="q"),
            publisher.send(Message(b"other"), routing_key="nowhere"),
            publisher.send(Message(b"same", headers={"n": 2}), routing_key="nowhere"),
        ]
        outcomes = [await each for each in futures]
        assert [each.kind for each in outcomes] == ["released", "accepted", "released", "released"]
        error = outcomes[0].error
        assert isinstance(error, ReplyError) and error.code == 312
        assert publisher.unconfirmed == 0

    play(test)
    assert returned == [(b"same", 312), (b"other", 312), (b"same", 312)]


def test_of_two_messages_that_differ_in_headers_alone_the_right_one_is_released() -> None:
    async def test(server: Server, connection: Connection) -> None:
        publisher = await connection.publisher("picky", "q")
        server.answers = False
        taken = publisher.send(Message(b"same", headers={"n": 1}))
        back = publisher.send(Message(b"same"))
        await turns()
        server.peer.confirm(1)
        server.peer.flush()
        assert ((await taken).kind, (await back).kind) == ("accepted", "released")

    play(test)


def test_without_mandatory_what_no_queue_takes_is_accepted_and_gone() -> None:
    async def test(server: Server, connection: Connection) -> None:
        publisher = await connection.publisher("", "nowhere", mandatory=False)
        assert (await publisher.publish(Message(b"x"))).kind == "accepted"
        quiet = await connection.publisher("", "q", settled=True)
        assert (await quiet.publish(Message(b"x"))).kind == "sent"
        await turns()
        assert bodies_in(server) == [b"x"]

    play(test)


def test_while_the_broker_is_blocked_messages_wait() -> None:
    told: list[str | None] = []

    async def test(server: Server, connection: Connection) -> None:
        publisher = await connection.publisher("", "q")
        server.peer.block("low on memory")
        await turns()
        assert connection.blocked == "low on memory"
        future = publisher.send(Message(b"x"))
        await turns()
        assert bodies_in(server) == [] and not future.done()
        server.peer.block(None)
        assert (await future).is_accepted
        server.peer.set_flow(1, False)
        await turns()
        future = publisher.send(Message(b"y"))
        await turns()
        assert bodies_in(server) == [b"x"]
        server.peer.set_flow(1, True)
        assert (await future).is_accepted

    play(test, on_blocked=told.append)
    assert told == ["low on memory", None]


def test_a_full_socket_holds_messages_back() -> None:
    async def test(server: Server, connection: Connection) -> None:
        publisher = await connection.publisher("", "q")
        server.peer.pipe.fill()
        future = publisher.send(Message(b"x"))
        await turns()
        assert bodies_in(server) == []
        server.peer.pipe.drain()
        assert (await future).is_accepted

    play(test)


# Consuming


def test_no_more_than_the_credit_comes_and_all_is_taken_in_order() -> None:
    async def test(server: Server, connection: Connection) -> None:
        server.put("q", *numbered(50))
        consumer = await connection.consumer("q", credit=4)
        await turns()
        assert (consumer.waiting, consumer.unsettled) == (4, 4)
        came: list[bytes] = []
        while len(came) < 50:
            for delivery in await consumer.get_many(timeout_s=1):
                came.append(delivery.message.body)
                delivery.accept()
                delivery.reject()  # Only the first word counts.
        await turns()
        assert came == numbered(50)
        assert [tag for kind, tag, _ in server.settled if kind == ACK] == list(range(1, 51))
        assert consumer.unsettled == 0

    play(test)


def test_outcomes_are_the_methods_of_the_protocol() -> None:
    async def test(server: Server, connection: Connection) -> None:
        server.put("q", *numbered(6))
        consumer = await connection.consumer("q", credit=6)
        deliveries = [await consumer.get(timeout_s=1) for _ in range(6)]
        assert (deliveries[0].routing_key, deliveries[0].exchange) == ("q", "")
        assert deliveries[0].redelivered is False
        deliveries[1].reject()
        deliveries[0].accept()  # With the one before it that was rejected: up to 1 alone.
        deliveries[3].accept()  # 3 is open: by itself.
        await turns()
        deliveries[2].accept()
        deliveries[4].accept()
        await turns()
        deliveries[5].release()
        again = await consumer.get(timeout_s=1)
        assert (again.delivery_tag, again.message.body) == (7, b"5")

    server = play(test)
    assert server.settled == [
        (REJECT, 2, False),
        (ACK, 1, True),
        (ACK, 4, False),
        (ACK, 3, True),
        (ACK, 5, True),
        (NACK, 6, False),
    ]


def test_pause_stops_and_resume_goes_on() -> None:
    async def test(server: Server, connection: Connection) -> None:
        server.put("q", *numbered(2))
        consumer = await connection.consumer("q", credit=10)
        await consumer.pause()
        server.put("q", b"2")
        await turns()
        assert consumer.waiting == 2
        await consumer.pause()
        consumer.resume()
        consumer.resume()
        came = [await consumer.get(timeout_s=1) for _ in range(3)]
        assert [each.message.body for each in came] == numbered(3)

    play(test)


def test_receive_takes_what_comes_in_time_and_nothing_after() -> None:
    async def test(server: Server, connection: Connection) -> None:
        server.put("q", *numbered(5))
        consumer = await connection.consumer("q", credit=0)
        two = await consumer.receive(2, timeout_s=1)
        assert [each.message.body for each in two] == numbered(2)
        assert len(bodies_in(server)) == 3
        rest = await consumer.receive(10, timeout_s=0.02)
        assert [each.message.body for each in rest] == [b"2", b"3", b"4"]
        server.put("q", b"5")
        await turns()
        assert (consumer.waiting, bodies_in(server)) == (0, [b"5"])
        for each in [*two, *rest]:
            each.accept()
        with pytest.raises(ValueError, match="allowed: 1 to"):
            await consumer.receive(0)
        fetched = await consumer.fetch()
        assert fetched is not None and fetched.message.body == b"5"
        fetched.accept()
        assert await consumer.fetch() is None

    server = play(test)
    assert [tag for _, tag, _ in server.settled] == [1, 2, 3, 4, 5, 6]


def test_receive_and_credit_do_not_mix_and_credit_has_a_limit() -> None:
    async def test(server: Server, connection: Connection) -> None:
        consumer = await connection.consumer("q", credit=1)
        with pytest.raises(ClientError, match="credit 0"):
            await consumer.receive()
        with pytest.raises(ValueError, match="allowed: 0 to 65535"):
            await connection.consumer("q", credit=65_536)

    play(test)


def test_deliveries_that_need_no_settlement_stop_the_reading_instead() -> None:
    async def test(server: Server, connection: Connection) -> None:
        consumer = await connection.consumer("q", settled=True)
        server.put("q", *numbered(10_001))
        await turns()
        assert server.peer.pipe.is_paused
        for _ in range(5_002):
            delivery = await consumer.get(timeout_s=1)
            delivery.accept()
        assert not server.peer.pipe.is_paused

    assert play(test).settled == []


def test_a_consumer_whose_queue_is_deleted_ends() -> None:
    async def test(server: Server, connection: Connection) -> None:
        management = await connection.management()
        consumer = await connection.consumer("q")
        await management.delete_queue("q")
        assert [each async for each in consumer] == []
        with pytest.raises(ReplyError, match="cancelled the consumer of queue 'q'"):
            await consumer.get()

    play(test)


def test_acknowledgements_of_the_last_turn_go_out_before_the_end() -> None:
    async def test(server: Server, connection: Connection) -> None:
        server.put("q", *numbered(2))
        consumer = await connection.consumer("q")
        (await consumer.get(timeout_s=1)).accept()
        await consumer.close()
        assert len(bodies_in(server)) == 1
        consumer = await connection.consumer("q")
        (await consumer.get(timeout_s=1)).accept()

    assert bodies_in(play(test)) == []


# Coming back


def test_after_a_loss_everything_goes_on() -> None:
    async def test(server: Server, connection: Connection) -> None:
        paused = await connection.consumer("q", credit=2)
        await paused.pause()
        server.put("q", *numbered(3))
        publisher = await connection.publisher("", "p")
        consumer = await connection.consumer("q", credit=2)
        management = await connection.management()
        await management.declare_queue("p")
        held = await consumer.get(timeout_s=1)
        server.answers = False
        sent = publisher.send(Message(b"sent"))
        await turns()
        server.cut()
        await turns(3)
        waiting = publisher.send(Message(b"waiting"))
        server.answers = True
        with pytest.raises(ConnectionLost):
            await sent
        assert (await waiting).is_accepted
        assert bodies_in(server, "p") == [b"sent", b"waiting"]
        held.accept()  # Of the channel that was lost: says nothing.
        came = [await consumer.get(timeout_s=1) for _ in range(2)]
        assert [each.message.body for each in came] == numbered(2)
        assert paused.waiting == 0
        assert (await management.queue("p")).message_count == 2

    server = play(test, reconnect=True, backoff=QUICK)
    assert len(server.peers) == 2 and server.settled == []


def test_it_dials_until_somebody_is_there() -> None:
    async def test(server: Server, connection: Connection) -> None:
        publisher = await connection.publisher("", "q")
        server.reachable = False
        server.cut()
        await asyncio.sleep(0.02)
        assert not connection.is_open
        server.reachable = True
        assert (await publisher.publish(Message(b"x"))).is_accepted

    play(test, reconnect=True, backoff=QUICK)


def test_a_login_that_is_refused_later_is_the_end() -> None:
    async def test(server: Server, connection: Connection) -> None:
        consumer = await connection.consumer("q")
        connection.url = connection.url.__class__("h", 1, False, "guest", "changed", "")
        server.cut()
        assert [each async for each in consumer] == []
        assert isinstance(connection.error, LoginFailed)

    play(test, reconnect=True, backoff=QUICK)

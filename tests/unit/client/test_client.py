"""The client over an in-memory pipe to the server's core: what goes wrong, credit, reconnecting."""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from tests.unit.client.pipe import Server
from tests.unit.wire.amqp10.peers import data_section
from warren.client import (
    ClientError,
    Connection,
    ConnectionLost,
    Consumer,
    LinkState,
    LoginFailed,
    Message,
    PeerError,
    PublisherFull,
    RequestFailed,
    connect,
)
from warren.client.dialling import Backoff
from warren.client.message import decode_message
from warren.wire.amqp10.codec.performatives import Error, Modified, Rejected
from warren.wire.amqp10.errors import Condition, ProtocolError
from warren.wire.amqp10.limits import Limits
from warren.wire.amqp10.settling import (
    ACCEPTED,
    MODIFIED,
    REJECTED,
    RELEASED,
)

URL = "amqp://guest:guest@somewhere/%2F"
Q = "/queues/q"
QUICK = Backoff(0.001, 0.002)


def play(test: Callable[[Server, Connection], Awaitable[None]], **options: Any) -> Server:
    """Run a test that has a server and a connection to it."""
    server = Server(**options.pop("limits", {}))

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


def bodies_of(deliveries: list[Any]) -> list[object]:
    return [each.message.body for each in deliveries]


def numbered(count: int) -> list[bytes]:
    return [data_section(b"%d" % number) for number in range(count)]


# What goes wrong


@pytest.mark.parametrize("url", ["http://here", "somewhere", "amqp://here:port"])
def test_what_is_no_url_is_refused(url: str) -> None:
    with pytest.raises(ValueError, match=r"scheme|[Pp]ort"):
        asyncio.run(connect(url))


def test_a_wrong_password_is_told() -> None:
    server = Server()
    with pytest.raises(LoginFailed, match="refused the login"):
        asyncio.run(connect("amqp://guest:wrong@here", dial=server.dial))


def test_nobody_there_is_an_os_error() -> None:
    server = Server()
    server.reachable = False
    with pytest.raises(OSError, match="no listener"):
        asyncio.run(connect(URL, dial=server.dial, reconnect=True))


def test_a_refused_link_tells_its_reason_and_hurts_no_other() -> None:
    async def test(server: Server, connection: Connection) -> None:
        server.refused.add("/queues/none")
        publisher = await connection.publisher(Q)
        for attach in (connection.publisher, connection.consumer):
            with pytest.raises(PeerError, match="no /queues/none") as caught:
                await attach("/queues/none")
            assert caught.value.condition == "amqp:not-found"
        assert (await publisher.publish(Message(b"a"))).is_accepted

    play(test)


def test_an_attach_larger_than_the_brokers_frames_is_an_error_and_hurts_no_other() -> None:
    async def test(server: Server, connection: Connection) -> None:
        publisher = await connection.publisher(Q)
        for _ in range(70):  # Nothing is left of them, no session either.
            with pytest.raises(ClientError, match="larger than the peer's max-frame-size"):
                await connection.consumer("/queues/" + "q" * 600)
            await turns(2)
        assert (await publisher.publish(Message(b"a"))).is_accepted

    play(test, limits={"max_frame_size": 512})


def test_a_link_that_the_broker_ends_fails_what_waits_and_ends_the_loop() -> None:
    async def test(server: Server, connection: Connection) -> None:
        publisher = await connection.publisher(Q)
        consumer = await connection.consumer(Q)
        server.answers = False
        future = publisher.send(Message(b"a"))
        await turns()
        peer = server.peers[0]
        for link in peer.links:
            error = ProtocolError(Condition.RESOURCE_DELETED, "the queue was deleted")
            peer.core.sessions[link.channel].detach(link, error)
        peer.flush()
        with pytest.raises(PeerError, match="the queue was deleted"):
            await future
        with pytest.raises(PeerError, match="resource-deleted"):
            publisher.send(Message(b"b"))
        assert [each async for each in consumer] == []
        with pytest.raises(PeerError):
            await consumer.get()
        assert (await (await connection.publisher(Q)).publish_many([])) == []

    play(test)


def test_without_reconnect_everything_ends_with_the_connection() -> None:
    async def test(server: Server, connection: Connection) -> None:
        publisher = await connection.publisher(Q)
        consumer = await connection.consumer(Q)
        management = await connection.management()
        server.answers = False
        future = publisher.send(Message(b"a"))
        await turns()
        server.cut()
        with pytest.raises(ConnectionLost):
            await future
        assert [each async for each in consumer] == []
        with pytest.raises(ConnectionLost):
            await management.nodes()
        with pytest.raises(ConnectionLost):
            await connection.publisher(Q)

    play(test)


def test_a_link_that_is_never_answered_times_out() -> None:
    async def test(server: Server, connection: Connection) -> None:
        server.cut()
        await turns()
        with pytest.raises(TimeoutError):
            await connection.publisher(Q)

    play(test, reconnect=True, backoff=Backoff(5, 5), timeout_s=0.05)


# Publishing


def test_more_messages_than_credit_are_all_confirmed_in_order() -> None:
    async def test(server: Server, connection: Connection) -> None:
        publisher = await connection.publisher(Q)
        outcomes = await publisher.publish_many(Message(b"%d" % n) for n in range(500))
        assert len(outcomes) == 500 and all(each.is_accepted for each in outcomes)
        assert publisher.unconfirmed == 0
        came = [decode_message(each, 0, len(each)).body for each in server.queues[Q]]
        assert came == [b"%d" % n for n in range(500)]

    play(test, limits={"max_link_credit": 7})


def test_without_credit_a_publish_waits_and_can_be_given_up() -> None:
    async def test(server: Server, connection: Connection) -> None:
        server.answers = False
        publisher = await connection.publisher(Q)
        futures = [publisher.send(Message(b"x")) for _ in range(5)]
        await turns()
        assert (len(server.queues[Q]), publisher.credit, publisher.unconfirmed) == (2, 0, 5)
        with pytest.raises(TimeoutError):
            await publisher.publish(Message(b"y"), timeout_s=0.01)
        assert not any(each.done() for each in futures)
        server.answers = True
        server.peers[0].confirm_all()
        futures[2].cancel()
        await asyncio.gather(futures[3], futures[4])
        came = [decode_message(each, 0, len(each)).body for each in server.queues[Q]]
        assert came == [b"x"] * 4  # Neither what was cancelled, nor what timed out.

    play(test, limits={"max_link_credit": 2})


def test_no_more_messages_wait_for_credit_than_the_publisher_takes() -> None:
    async def test(server: Server, connection: Connection) -> None:
        server.answers = False
        publisher = await connection.publisher(Q, waiting_max=3)
        sent = publisher.send_encoded([Message(b"x").encode()] * 2)
        await turns()
        waiting = publisher.send_encoded([Message(b"x").encode()] * 3)
        with pytest.raises(PublisherFull, match="over the limit of 3"):
            publisher.send(Message(b"y"))
        with pytest.raises(TimeoutError):
            await publisher.publish(Message(b"y"), timeout_s=0.01)
        assert (publisher.waiting, publisher.unconfirmed, publisher.accepted) == (3, 5, 0)
        server.answers = True
        server.peers[0].confirm_all()
        assert await publisher.ready() == 2
        assert (await publisher.publish(Message(b"y"))).is_accepted
        assert len(await sent + await waiting) == 5 and publisher.accepted == 6

    play(test, limits={"max_link_credit": 2})


def test_outcomes_are_told_as_they_are() -> None:
    async def test(server: Server, connection: Connection) -> None:
        publisher = await connection.publisher(Q)
        server.outcome = REJECTED
        server.state = Rejected(
            error=Error(condition="amqp:resource-limit-exceeded", info={"reason": "maxlen"})
        )
        rejected = await publisher.publish(Message(b"a"))
        assert rejected.kind == "rejected" and not rejected.is_accepted
        assert rejected.error is not None and rejected.error.info == {"reason": "maxlen"}
        server.outcome, server.state = RELEASED, None
        assert (await publisher.publish(Message(b"a"))).kind == "released"

    play(test)


def test_settled_messages_are_done_when_they_are_sent() -> None:
    async def test(server: Server, connection: Connection) -> None:
        publisher = await connection.publisher(Q, settled=True)
        assert (await publisher.publish(Message(b"a"))).kind == "sent"
        await turns()
        assert len(server.queues[Q]) == 1

    play(test)


# Consuming


def test_no_more_wait_here_than_the_credit_allows() -> None:
    async def test(server: Server, connection: Connection) -> None:
        server.queues[Q] = deque(numbered(50))
        consumer = await connection.consumer(Q, credit=10)
        await turns()
        assert (consumer.waiting, len(server.queues[Q])) == (10, 40)
        came = [await consumer.get() for _ in range(4)]
        await turns()
        assert (consumer.waiting, len(server.queues[Q])) == (6, 40)
        came += [await consumer.get(timeout_s=1) for _ in range(46)]
        assert bodies_of(came) == [b"%d" % number for number in range(50)]
        assert consumer.unsettled == 50
        for each in came:
            each.accept()
            each.release()  # Only the first word counts.
        await turns()
        assert server.settled == [ACCEPTED] * 50 and consumer.unsettled == 0

    play(test)


@pytest.mark.parametrize(("credit", "renewed"), [(1, 1), (10, 5), (101, 32), (1600, 100)])
def test_credit_is_filled_up_when_a_part_of_it_is_used(credit: int, renewed: int) -> None:
    """A small part of a large credit, for what is missing of it leaves a slow line idle."""

    async def test(server: Server, connection: Connection) -> None:
        consumer = await connection.consumer(Q, credit=credit)
        await turns()
        (link,) = server.peers[0].links
        assert link.sender is not None
        server.put(Q, *numbered(renewed - 1))
        await turns()
        for _ in range(renewed - 1):
            await consumer.get()
        await turns()
        assert link.sender.credit == credit - renewed + 1
        server.put(Q, *numbered(1))
        await consumer.get(timeout_s=1)
        await turns()
        assert link.sender.credit == credit

    play(test)


def test_each_outcome_is_sent_with_what_it_says() -> None:
    async def test(server: Server, connection: Connection) -> None:
        consumer = await connection.consumer(Q)
        server.put(Q, *numbered(3))
        first, second, third = [await consumer.get() for _ in range(3)]
        first.reject("amqp:not-allowed", "bad")
        await turns()
        second.modify(undeliverable_here=True, annotations={"x-opt-why": "no"})
        await turns()
        third.release()
        await turns()
        assert server.settled == [REJECTED, MODIFIED, RELEASED]
        rejected, modified, _ = server.states
        assert isinstance(rejected, Rejected) and rejected.error is not None
        assert isinstance(modified, Modified) and modified.undeliverable_here
        assert modified.message_annotations == {"x-opt-why": "no"}

    play(test)


def test_after_pause_nothing_comes_until_resume() -> None:
    async def test(server: Server, connection: Connection) -> None:
        consumer = await connection.consumer(Q, credit=10)
        server.put(Q, *numbered(3))
        await turns()
        await consumer.pause()
        server.put(Q, *numbered(20))
        await turns()
        assert consumer.waiting == 3
        consumer.resume()
        await turns()
        assert consumer.waiting == 10

    play(test)


def test_receive_takes_what_comes_in_time_and_leaves_the_rest_in_the_queue() -> None:
    async def test(server: Server, connection: Connection) -> None:
        consumer = await connection.consumer(Q, credit=0)
        assert await consumer.receive(timeout_s=0.01) == []
        server.put(Q, *numbered(5))
        await turns()
        assert consumer.waiting == 0
        assert bodies_of(await consumer.receive(2)) == [b"0", b"1"]
        assert bodies_of(await consumer.receive(9, timeout_s=0.01)) == [b"2", b"3", b"4"]
        waiting = asyncio.create_task(consumer.receive(1, timeout_s=1.0))
        await turns()
        server.put(Q, *numbered(2))
        assert bodies_of(await waiting) == [b"0"]
        assert len(server.queues[Q]) == 1
        greedy: Consumer = await connection.consumer(Q)
        with pytest.raises(ClientError, match="credit 0"):
            await greedy.receive()

    play(test)


def test_what_the_broker_says_of_a_link_is_told() -> None:
    async def test(server: Server, connection: Connection) -> None:
        told: list[LinkState] = []
        server.properties = {"local": True, "leader": "n1", "leader-epoch": 3, "state": "running"}
        publisher = await connection.publisher(Q, on_link_state=told.append)
        await turns()
        assert told[-1].local is True and publisher.state.leader == "n1"
        link, peer = server.peers[-1].links[-1], server.peers[-1]
        link.properties = {"local": False, "leader": None, "leader-epoch": 4, "state": "electing"}
        peer.core.sessions[link.channel].push_flow(link)
        peer.flush()
        await turns()
        assert (told[-1].local, told[-1].leader, told[-1].leader_epoch) == (False, None, 4)
        link.properties = {"local": True, "leader-epoch": 3, "rabbitmq:active": True}
        peer.core.sessions[link.channel].push_flow(link)
        peer.flush()
        await turns()
        assert (told[-1].local, told[-1].leader_epoch, told[-1].active) == (False, 4, True)

    play(test)


# Reconnecting and closing


def test_a_lost_connection_is_made_anew_with_its_links() -> None:
    async def test(server: Server, connection: Connection) -> None:
        publisher = await connection.publisher(Q)
        consumer = await connection.consumer("/queues/r", credit=10)
        server.put("/queues/r", *numbered(1))
        old = await consumer.get()
        server.answers = False
        lost = [publisher.send(Message(b"sent")) for _ in range(2)]
        await turns()
        kept = publisher.send(Message(b"kept"))
        server.reachable = False
        server.cut()
        await asyncio.sleep(0.02)
        for each in lost:
            with pytest.raises(ConnectionLost):
                await each
        assert not kept.done() and connection.error is None
        server.answers = server.reachable = True
        assert (await kept).is_accepted
        server.put("/queues/r", *numbered(2))
        assert (await consumer.get(timeout_s=1)).message.body == b"0"
        old.accept()
        await turns()
        assert server.settled == [] and len(server.peers) == 2
        assert consumer.unsettled == 2  # Those of this connection.

    play(test, reconnect=True, backoff=QUICK, limits={"max_link_credit": 2})


def test_a_link_that_is_gone_when_the_connection_comes_back_is_over_alone() -> None:
    async def test(server: Server, connection: Connection) -> None:
        publisher = await connection.publisher(Q)
        consumer = await connection.consumer("/queues/gone")
        server.refused.add("/queues/gone")
        server.cut()
        with pytest.raises(PeerError, match="no /queues/gone"):
            await consumer.get(timeout_s=1)
        assert (await publisher.publish(Message(b"a"))).is_accepted

    play(test, reconnect=True, backoff=QUICK)


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


@pytest.mark.parametrize("waited", range(6))
def test_a_connection_that_the_broker_closes_takes_no_links(waited: int) -> None:
    async def test(server: Server, connection: Connection) -> None:
        peer = server.peers[-1]
        peer.core.close()
        peer.flush()
        await turns(waited)
        with pytest.raises(ClientError):
            await connection.management()

    play(test, reconnect=False)


def test_a_closed_link_gives_its_session_back() -> None:
    async def test(server: Server, connection: Connection) -> None:
        for _ in range(5):
            publisher = await connection.publisher(Q)
            await publisher.close()
            await turns()
            with pytest.raises(PeerError):
                publisher.send(Message(b"a"))
        with pytest.raises(ClientError, match="too many links"):
            for _ in range(5):
                await connection.publisher(Q)

    play(test, limits={"channel_max": 2})


# Management


def test_a_request_that_is_given_up_before_it_is_sent_is_not_sent_later() -> None:
    async def test(server: Server, connection: Connection) -> None:
        management = await connection.management()
        await management.declare_queue("q")
        server.cut()
        await turns(3)
        server.reachable = False
        with pytest.raises(TimeoutError):
            await management.request("DELETE", "/queues/q", timeout_s=0.05)
        server.reachable = True
        assert (await management.queue("q"))["name"] == "q"

    play(test, reconnect=True, backoff=Backoff(0.02, 0.02))


def test_requests_are_answered_each_with_its_own() -> None:
    async def test(server: Server, connection: Connection) -> None:
        management = await connection.management()
        made = await asyncio.gather(*(management.declare_queue(f"q{n}/ü") for n in range(20)))
        assert [each["name"] for each in made] == [f"q{n}/ü" for n in range(20)]
        await management.declare_exchange("x", "topic")
        await management.bind("x", queue="q1/ü", key="a b", arguments={"n": 1})
        await management.bind("x", queue="q1/ü", key="a b")
        await management.unbind("x", queue="q1/ü", key="a b")
        [left] = await management.bindings("x", queue="q1/ü", key="a b")
        assert left["arguments"] == {"n": 1}
        assert await management.delete_queue("q2/ü") == 0
        assert (await management.topology("q1/ü"))["local"] is True
        with pytest.raises(RequestFailed, match="404 queue 'none'"):
            await management.queue("none")
        with pytest.raises(RequestFailed) as caught:
            await management.declare_queue("q1/ü", auto_delete=True)
        assert caught.value.status == 409
        await management.close()
        with pytest.raises(PeerError):
            await management.nodes()

    play(test)


def test_all_that_is_here_is_taken_at_once_and_credit_comes_back() -> None:
    async def test(server: Server, connection: Connection) -> None:
        consumer = await connection.consumer(Q, credit=4)
        server.put(Q, *numbered(10))
        came: list[object] = []
        while len(came) < 10:
            some = await consumer.get_many(timeout_s=1)
            assert 0 < len(some) <= 4
            came += bodies_of(some)
            for delivery in some:
                delivery.accept()
        assert came == [b"%d" % number for number in range(10)]
        with pytest.raises(TimeoutError):
            await consumer.get_many(timeout_s=0.01)

    play(test)


def test_a_link_that_the_next_connection_has_no_room_for_is_over_alone() -> None:
    async def test(server: Server, connection: Connection) -> None:
        publisher = await connection.publisher(Q)
        consumer = await connection.consumer(Q)
        server.limits = Limits(channel_max=0)
        server.cut()
        with pytest.raises(ClientError, match="too many links"):
            await consumer.get()
        assert (await publisher.publish(Message(b"a"))).is_accepted
        assert len(server.peers) == 2

    play(test, reconnect=True, backoff=QUICK)

"""Questions between nodes without a link, on real sockets: bounded in every way, secret first."""

import asyncio

import pytest

from node.cluster.peering import asking
from node.cluster.peering.asking import AskFailed, Reply
from node.cluster.peering.link_settings import LinkSettings
from tests.cluster.peer_nodes import LOOPBACK, QUICK, Member, identity, run
from warren.wire.peer.frames import FRAME_BYTES_MAX


def echo(content: memoryview, reply: Reply) -> None:
    reply(b"you said " + bytes(content))


async def failure(asker: Member, port: int, question: bytes = b"?") -> str:
    with pytest.raises(AskFailed) as caught:
        await asker.links.ask(LOOPBACK, port, question)
    return str(caught.value)


def test_a_stranger_is_answered_by_address_alone() -> None:
    async def test() -> None:
        async with Member(identity(1)) as one, Member(identity(2, cluster_id=bytes(16))) as two:
            one.links.take_questions(echo)
            assert await two.links.ask(LOOPBACK, one.port, b"hello") == b"you said hello"
            assert await two.links.ask(LOOPBACK, one.port, b"") == b"you said "
            assert one.user.events == two.user.events == []

    run(test())


def test_the_largest_question_goes_through() -> None:
    async def test() -> None:
        async with Member(identity(1)) as one, Member(identity(2)) as two:
            one.links.take_questions(lambda content, reply: reply(b"%d" % len(content)))
            question = bytes(FRAME_BYTES_MAX)
            assert await two.links.ask(LOOPBACK, one.port, question) == b"%d" % FRAME_BYTES_MAX

    run(test())


def test_who_does_not_know_the_secret_is_not_heard() -> None:
    async def test() -> None:
        asked: list[bytes] = []
        other = identity(2, secret=b"another secret of these tests")
        async with Member(identity(1)) as one, Member(other) as two:
            one.links.take_questions(lambda content, reply: asked.append(bytes(content)))
            assert "do not have the same cluster secret" in await failure(two, one.port)
            assert asked == []

    run(test())


def test_nobody_takes_questions_before_it_can_answer() -> None:
    async def test() -> None:
        async with Member(identity(1)) as one, Member(identity(2)) as two:
            assert "refused" in await failure(two, one.port)
            assert "refused" in await failure(two, two.port)  # Both ends are the same node.

    run(test())


def test_an_answer_that_does_not_come_is_not_waited_for_for_ever(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(asking, "ANSWER_S", 0.05)

    async def test() -> None:
        replies: list[Reply] = []
        async with Member(identity(1)) as one, Member(identity(2)) as two:
            one.links.take_questions(lambda content, reply: replies.append(reply))
            text = await failure(two, one.port)
            assert "no answer within" in text or "closed" in text  # Who is late first.
            replies[0](b"too late")  # The asker is gone.

    run(test())


def test_so_many_questions_are_answered_at_once_and_no_more(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(asking, "ASKERS_MAX", 3)

    async def test() -> None:
        replies: list[Reply] = []
        came = asyncio.Event()

        def keep(content: memoryview, reply: Reply) -> None:
            replies.append(reply)
            came.set()

        async with Member(identity(1)) as one, Member(identity(2)) as two:
            one.links.take_questions(keep)
            asked = [asyncio.create_task(two.links.ask(LOOPBACK, one.port, b"?")) for _ in range(3)]
            while len(replies) < 3:
                came.clear()
                await came.wait()
            assert "refused" in await failure(two, one.port)
            for number, reply in enumerate(replies):
                reply(b"%d" % number)
            assert sorted(await asyncio.gather(*asked)) == [b"0", b"1", b"2"]

    run(test())


def test_a_node_that_stops_ends_the_questions_that_are_open() -> None:
    async def test() -> None:
        came = asyncio.Event()
        async with Member(identity(1)) as one, Member(identity(2)) as two:
            one.links.take_questions(lambda content, reply: came.set())
            asked = asyncio.create_task(failure(two, one.port))
            await came.wait()
            await one.links.close()
            assert "closed" in await asked or "lost" in await asked

    run(test())


def test_questions_take_the_way_that_tests_put_in_place_of_an_address() -> None:
    async def test() -> None:
        async with Member(identity(1)) as one:
            one.links.take_questions(echo)
            routes = {("far.example", 9): (LOOPBACK, one.port)}
            settings = LinkSettings(
                retry_ms_min=QUICK.retry_ms_min, retry_ms_max=QUICK.retry_ms_max, routes=routes
            )
            async with Member(identity(2), settings) as two:
                assert await two.links.ask("far.example", 9, b"x") == b"you said x"

    run(test())


def test_a_peer_that_says_that_it_is_there_is_dialed_at_once() -> None:
    slow = LinkSettings(retry_ms_min=60_000, retry_ms_max=60_000)

    async def test() -> None:
        async with Member(identity(1), slow) as one, Member(identity(2)) as two:
            one.links.add_peer(2, LOOPBACK, two.port)  # Which does not know it, and refuses.
            await one.user.until_unreachable(2, "not known")
            two.links.add_peer(1, LOOPBACK, one.port)
            one.links.hurry(2)
            await one.user.until_count("connected", 1)
            one.links.hurry(2)  # A link that stands is left alone.
            one.links.hurry(3)
            assert one.user.count("lost") == 0

    run(test())

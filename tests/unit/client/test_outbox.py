"""Messages of a publisher on their way: order, limits, outcomes in any order, ids that wrap."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from warren.client.errors import ConnectionLost, PublisherFull
from warren.client.outbox import Outbox
from warren.client.outcome import ACCEPTED_OUTCOME, Outcome

MASK = 0xFFFFFFFF
REJECTED = Outcome("rejected")


def play(test: Callable[[], Awaitable[None]]) -> None:
    async def whole() -> None:
        async with asyncio.timeout(5):
            await test()

    asyncio.run(whole())


def bodies(first: int, last: int) -> list[bytes]:
    return [b"%d" % number for number in range(first, last)]


def test_messages_leave_as_far_as_their_bytes_fit() -> None:
    async def test() -> None:
        outbox = Outbox(100, MASK)
        outbox.put([b"four", b"four", b"eighteen"]).cancel()
        outbox.put([b"four"])
        outbox.put([b"four", b"eighteen", b"x"])
        assert outbox.take(9, 8) == [b"four", b"four"]
        assert outbox.take(9, 7) == []
        outbox.sent(1, 2, False)
        outbox.settled(1, 2, ACCEPTED_OUTCOME)
        assert outbox.take(9, 7) == [b"eighteen"]  # Nothing is on its way.
        assert outbox.take(9, 0) == []
        assert outbox.withdrawn(1) == 8
        assert outbox.take(9, 9) == [b"eighteen", b"x"]

    play(test)


def test_messages_leave_in_order_whatever_the_room() -> None:
    async def test() -> None:
        outbox = Outbox(100, MASK)
        one = outbox.put_one(b"0")
        many = outbox.put(bodies(1, 8))
        assert await outbox.put([]) == []
        assert outbox.take(0) == []
        assert outbox.take(3) == bodies(0, 3)
        assert (outbox.waiting_count, outbox.unconfirmed) == (5, 8)
        outbox.sent(10, 3, False)
        outbox.settled(10, 11, ACCEPTED_OUTCOME)
        assert (await one).kind == "accepted" and not many.done()
        assert outbox.take(100) == bodies(3, 8)
        outbox.sent(13, 5, False)
        outbox.settled(14, 14, REJECTED)
        outbox.settled(12, 17, ACCEPTED_OUTCOME)
        kinds = [each.kind for each in await many]
        assert kinds == ["accepted"] * 3 + ["rejected"] + ["accepted"] * 3
        assert (outbox.unconfirmed, outbox.accepted_count) == (0, 7)

    play(test)


def test_what_was_taken_back_leaves_again_in_order() -> None:
    async def test() -> None:
        outbox = Outbox(100, MASK)
        first, second = outbox.put(bodies(0, 3)), outbox.put(bodies(3, 6))
        assert outbox.take(5) == bodies(0, 5)
        outbox.sent(0, 1, True)
        outbox.withdrawn(3)
        assert (outbox.waiting_count, outbox.unconfirmed) == (4, 5)
        outbox.sent(1, 1, True)
        assert outbox.take(9) == bodies(2, 6)
        outbox.sent(2, 4, True)
        assert [each.kind for each in await first + await second] == ["sent"] * 6

    play(test)


def test_more_than_may_wait_are_refused_until_there_is_room() -> None:
    async def test() -> None:
        outbox = Outbox(3, MASK)
        outbox.put(bodies(0, 2))
        with pytest.raises(PublisherFull, match=r"2 messages wait .* 2 more .* limit of 3"):
            outbox.put(bodies(2, 4))
        outbox.put_one(b"2")
        with pytest.raises(PublisherFull):
            outbox.put_one(b"3")
        waiter = asyncio.ensure_future(outbox.wait_room())
        await asyncio.sleep(0)
        assert not waiter.done()
        outbox.take(2)
        assert await waiter == 2

    play(test)


def test_what_was_given_up_is_not_sent_and_makes_room() -> None:
    async def test() -> None:
        outbox = Outbox(3, MASK)
        futures = [outbox.put_one(each) for each in bodies(0, 3)]
        futures[0].cancel()
        futures[2].cancel()
        assert outbox.take(5) == [b"1"]
        assert outbox.waiting_count == 0

    play(test)


def test_a_loss_fails_what_was_sent_and_keeps_the_rest() -> None:
    async def test() -> None:
        outbox = Outbox(100, MASK)
        sent, half, offered, waiting = (outbox.put(bodies(n, n + 2)) for n in (0, 2, 4, 6))
        outbox.take(6)
        outbox.sent(0, 3, False)
        outbox.lost(ConnectionLost("gone"), False)
        for future in (sent, half):
            with pytest.raises(ConnectionLost):
                await future
        assert not offered.done() and not waiting.done()
        assert outbox.take(9) == bodies(4, 8)  # What failed in half is not sent in half.
        outbox.sent(0, 4, False)
        outbox.lost(ConnectionLost("gone for good"), True)
        with pytest.raises(ConnectionLost, match="for good"):
            await waiting
        assert outbox.unconfirmed == 0

    play(test)


def test_the_end_for_good_wakes_who_waits_for_room() -> None:
    async def test() -> None:
        outbox = Outbox(1, MASK)
        future = outbox.put_one(b"")
        waiter = asyncio.ensure_future(outbox.wait_room())
        await asyncio.sleep(0)
        outbox.lost(ConnectionLost("over"), True)
        assert await waiter == 1
        with pytest.raises(ConnectionLost):
            await future

    play(test)


@given(
    st.integers(0, MASK),
    st.lists(st.integers(1, 4), min_size=1, max_size=8),
    st.lists(st.tuples(st.integers(0, 31), st.integers(0, 31), st.booleans()), max_size=40),
)
@settings(max_examples=100, deadline=None, database=None)
def test_outcomes_in_any_order_reach_their_messages_although_ids_wrap(
    first_id: int, sizes: list[int], answers: list[tuple[int, int, bool]]
) -> None:
    async def test() -> None:
        outbox = Outbox(1000, MASK)
        futures = [outbox.put([b""] * size) for size in sizes]
        count = sum(sizes)
        assert len(outbox.take(1000)) == count
        outbox.sent(first_id, count, False)
        wanted: dict[int, str] = {}
        for one, other, good in [*answers, (0, count - 1, True)]:
            low, high = min(one, other), min(max(one, other), count - 1)
            if low > high:
                continue
            outcome = ACCEPTED_OUTCOME if good else REJECTED
            outbox.settled((first_id + low) & MASK, (first_id + high) & MASK, outcome)
            for place in range(low, high + 1):
                wanted.setdefault(place, outcome.kind)
        found = [outcome.kind for future in futures for outcome in await future]
        assert found == [wanted[place] for place in range(count)]
        assert outbox.accepted_count == found.count("accepted")

    play(test)

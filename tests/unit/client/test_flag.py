"""The flag that clients wait for, in place of `asyncio.Event`."""

import asyncio

from warren.client.flag import Flag


def test_all_that_wait_are_woken_also_if_the_flag_is_cleared_at_once() -> None:
    async def played() -> None:
        flag = Flag()
        waiting = [asyncio.ensure_future(flag.wait()) for _ in range(3)]
        await asyncio.sleep(0)
        flag.set()
        flag.clear()
        async with asyncio.timeout(1):
            await asyncio.gather(*waiting)
        assert not flag.is_set()

    asyncio.run(played())


def test_a_set_flag_does_not_wait_and_a_cancelled_task_is_forgotten() -> None:
    async def played() -> None:
        flag = Flag()
        cancelled = asyncio.ensure_future(flag.wait())
        stays = asyncio.ensure_future(flag.wait())
        await asyncio.sleep(0)
        cancelled.cancel()
        await asyncio.wait((cancelled,))
        flag.set()
        async with asyncio.timeout(1):
            await stays
            await flag.wait()
        assert cancelled.cancelled()

    asyncio.run(played())

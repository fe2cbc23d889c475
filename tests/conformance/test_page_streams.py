"""The web page shows the clients of the stream protocol."""

import asyncio
from collections.abc import Iterator

import pytest
from rstream import AMQPMessage

from tests.conformance.pages import open_browser, show
from tests.conformance.test_stream_protocol import Grouped, StreamNode, stream
from tests.waiting import until

pytestmark = [pytest.mark.timeout(120), pytest.mark.source]


@pytest.fixture(scope="module")
def node() -> Iterator[StreamNode]:
    with StreamNode() as started:
        yield started


def shown(base: str) -> list[list[str]]:
    """The rows of consumers and of publishers, without those of locators."""
    with open_browser() as pages, pages.tab(base) as tab:
        show(tab, base, "#/streams", "Stream clients")
        found = []
        for table in ("stream consumers", "stream publishers"):
            row = tab.get_by_role("table", name=table).get_by_role("row", name="orders")
            row.wait_for()
            found.append(row.get_by_role("cell").all_inner_texts())
        return found


def test_clients_of_streams_are_shown(node: StreamNode) -> None:
    async def test() -> None:
        async with stream(node, "orders") as producer:
            await producer.send_wait("orders", AMQPMessage(body=b"1"), publisher_name="web")
            consumer = Grouped(node, "orders")
            await consumer.begin()
            await until(lambda: len(consumer.found) == 1)
            base = f"{node.management_url}/"
            consumers, publishers = await asyncio.get_running_loop().run_in_executor(
                None, shown, base
            )
            assert (consumers[0], consumers[4], consumers[5]) == ("orders", "shop", "single active")
            assert consumers[7:] == ["1", "0", "0"]
            assert publishers[4:] == ["web", "1", "1", "0"]
            await consumer.close()

    asyncio.run(asyncio.wait_for(test(), 100))

"""Old segments of a stream in an object store, on three real nodes: every node and every protocol
reads across the border, whatever is killed, and nothing is removed before it is stored."""

import asyncio
import os
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tests.cluster.leaders import leader_and_others, without_leader
from tests.cluster.queue_clients import channel_to
from tests.cluster.test_streams import declare, read
from tests.conformance.test_amqp10_streams import begin, take
from tests.waiting import eventually
from warren.client import connect
from warren.storage.objects.directory import UNFINISHED
from warren.testing import ClusterOfNodes, Node
from warren.testing.http_api import HttpApi
from warren.wire.amqp10.codec.values import ULong

COUNT = 400
WAIT_S = 60.0
BODY = b"." * 30_000  # more than the newest 4 MiB, which members have in memory
pytestmark = [pytest.mark.timeout(300)]


class Shared:
    """A cluster and the directory that all its nodes have for segments."""

    def __init__(self, cluster: ClusterOfNodes, folder: Path) -> None:
        self.cluster = cluster
        self.folder = folder

    def objects(self) -> list[Path]:
        return sorted(each for each in self.folder.rglob("*") if each.is_file())

    def unfinished(self) -> list[Path]:
        """Those that a node has not uploaded to the end."""
        return [each for each in self.objects() if each.suffix == UNFINISHED]

    def segments(self, stream: str) -> dict[str, dict[str, Any]]:
        """What each member says of its segments."""
        rows = self.cluster.node(1).api("GET", f"/api/queues/quorum/%2F/{stream}/status")
        return {row["Node Name"]: row for row in rows}

    def is_offloaded(self, stream: str, at_least: int = 3) -> bool:
        """On all members, and their files are gone but for the last one or two."""
        rows = self.segments(stream).values()
        return len(rows) == 3 and all(
            row.get("Stream Segments Offloaded", 0) >= at_least and row["Stream Segments"] <= 2
            for row in rows
        )


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shared]:
    folder = tmp_path_factory.mktemp("objects")
    settings = {"streams.offload_store": f"file://{folder}", "listeners.stream": "127.0.0.1:0"}
    with ClusterOfNodes(3, settings=settings) as cluster:
        yield Shared(cluster, folder)


def offloading(shared: Shared, stream: str, **arguments: Any) -> None:
    declare(
        shared.cluster,
        stream,
        x_stream_offload=True,
        x_stream_max_segment_size_bytes=1_000_000,
        **arguments,
    )


def fill(shared: Shared, stream: str, first: int = 0, count: int = COUNT, *, by: int = 2) -> None:
    channel = channel_to(shared.cluster, by)
    for number in range(first, first + count):
        channel.basic_publish("", stream, b"message %d" % number + BODY, mandatory=True)
    channel.connection.close()


def bodies(first: int, count: int) -> list[tuple[int, bytes]]:
    return [(at, b"message %d" % at + BODY) for at in range(first, first + count)]


def test_every_node_and_protocol_reads_what_only_the_store_has(shared: Shared) -> None:
    offloading(shared, "long")
    fill(shared, "long")
    eventually(lambda: shared.is_offloaded("long"), seconds=WAIT_S)
    for number in (1, 2, 3):
        assert read(shared.cluster, number, "long", COUNT) == bodies(0, COUNT)
    node = shared.cluster.node(3)

    async def modern() -> list[tuple[object, bytes]]:
        async with await connect(node.url) as connection:
            consumer = await connection.consumer("/queues/long", filters=begin(ULong(7)))
            return await take(consumer, 5)

    assert asyncio.run(modern()) == bodies(7, 5)


def test_kill_9_of_the_leader_while_it_uploads_loses_nothing(shared: Shared) -> None:
    offloading(shared, "killed")
    leader, other, _ = leader_and_others(shared.cluster, "killed")

    def kill(node: Node) -> None:
        """With an object that is not whole: each is there for some milliseconds."""
        give_up_s = time.monotonic() + WAIT_S
        while not node.is_paused:
            assert time.monotonic() < give_up_s
            if shared.unfinished():
                node.pause()
                if not shared.unfinished():
                    node.resume()
        node.kill9()

    with ThreadPoolExecutor() as threads:
        filling = threads.submit(fill, shared, "killed", count=COUNT + 100, by=other)
        with without_leader(shared.cluster, "killed", leader, end=kill):
            filling.result(WAIT_S)
    eventually(lambda: shared.is_offloaded("killed", 12), seconds=WAIT_S)
    for number in (1, 2, 3):
        assert read(shared.cluster, number, "killed", COUNT + 100) == bodies(0, COUNT + 100)

    def is_swept() -> bool:
        """Nothing is in the store that the stream does not name."""
        row = next(iter(shared.segments("killed").values()))
        uid = max(shared.objects(), key=lambda each: each.stat().st_mtime).parent.name
        mine = [each for each in shared.objects() if each.parent.name == uid]
        return len(mine) == int(row["Stream Segments Offloaded"])

    eventually(is_swept, seconds=WAIT_S)


def test_a_store_that_is_away_costs_no_message(shared: Shared) -> None:
    """Files stay, consumers of older messages wait, and all goes on when it is back."""
    offloading(shared, "away-store")
    fill(shared, "away-store")
    eventually(lambda: shared.is_offloaded("away-store"), seconds=WAIT_S)
    hidden = shared.folder.with_name("hidden")
    os.rename(shared.folder, hidden)
    try:
        fill(shared, "away-store", COUNT)

        def is_told() -> bool:
            rows = shared.segments("away-store").values()
            return any("no such directory" in row["Stream Offload Error"] for row in rows)

        eventually(is_told, seconds=WAIT_S)
        kept = [row["Stream Segments"] for row in shared.segments("away-store").values()]
        assert min(kept) > 5
        assert "warren_stream_store_failed 1" in metrics(shared)
        assert not shared.folder.exists()
        reader = channel_to(shared.cluster, 3)
        reader.basic_qos(prefetch_count=50)
        got: list[bytes] = []
        reader.basic_consume(
            "away-store",
            lambda channel, method, properties, body: got.append(body),
            arguments={"x-stream-offset": "first"},
        )
        reader.connection.process_data_events(2)
        assert got == [] and reader.is_open
    finally:
        os.rename(hidden, shared.folder)

    def has_come() -> bool:
        reader.connection.process_data_events(0.2)
        return bool(got)

    eventually(has_come, seconds=WAIT_S)
    reader.connection.close()
    eventually(lambda: shared.is_offloaded("away-store", 20), seconds=WAIT_S)
    assert read(shared.cluster, 1, "away-store", 2 * COUNT) == bodies(0, 2 * COUNT)


def metrics(shared: Shared) -> str:
    """Of all nodes."""
    found = ""
    for number in (1, 2, 3):
        found += HttpApi(shared.cluster.node(number).management_url).text("/metrics")
    return found


def size_of(path: Path) -> int:
    """0 if it was removed meanwhile."""
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0


def test_retention_and_deletion_remove_objects(shared: Shared) -> None:
    offloading(shared, "short", x_max_length_bytes=5_000_000)
    before = set(shared.objects())
    fill(shared, "short")

    def is_cut() -> bool:
        rows = shared.segments("short").values()
        return len({row["Stream First Offset"] for row in rows}) == 1 and all(
            row["Stream First Offset"] > 0
            and row["Stream Bytes Offloaded"] + row["Stream Bytes"] < 7_000_000
            for row in rows
        )

    eventually(is_cut, seconds=WAIT_S)
    first = next(iter(shared.segments("short").values()))["Stream First Offset"]
    found = read(shared.cluster, 2, "short", COUNT - first)
    assert found == bodies(first, COUNT - first)
    new = set(shared.objects()) - before
    assert sum(size_of(each) for each in new) < 8_000_000
    channel_to(shared.cluster, 1).queue_delete("short")
    eventually(lambda: not new & set(shared.objects()), seconds=WAIT_S)

"""`warren bench` against a real node: figures for every link, and one slow queue slows no other."""

import asyncio
import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from node.__main__ import main
from node.cli.bench import bench as command
from node.cli.bench.overview import SHAPES
from node.cli.bench.shapes import queue_name
from warren.client import Message, amqp091, connect
from warren.testing.node import Node, free_port

SLOW_MS = 50
SLOW = ("slow q", queue_name("1.0", "slow"), queue_name("0.9.1", "slow"))


@pytest.fixture(scope="module")
def node() -> Iterator[Node]:
    settings = {"testing.slow_queues": ",".join(SLOW), "testing.slow_ms": str(SLOW_MS)}
    with Node(settings=settings) as started:
        yield started


def bench(node: Node, capsys: pytest.CaptureFixture[str], load: str, *more: str) -> Any:
    arguments = ["bench", load, "--host", node.host, "--port", str(node.port), "--json", *more]
    assert main(arguments) == 0
    return json.loads(capsys.readouterr().out)


@pytest.mark.parametrize("protocol", ["0.9.1", "1.0"])
def test_two_senders_are_counted_each_for_itself(
    node: Node, capsys: pytest.CaptureFixture[str], protocol: str
) -> None:
    answer = bench(node, capsys, "two-senders", "--seconds", "0.5", "--protocol", protocol)
    [result] = answer["results"]
    assert result["broker"] == f"{node.host}:{node.port}" and result["product"]
    fast, slow = result["links"]
    assert (fast["role"], slow["role"]) == ("publish", "publish")
    assert (fast["type"], slow["type"]) == ("classic", "quorum")
    assert fast["messages"] > 0 and slow["messages"] > 0
    assert sorted(fast["series"]) == fast["series"]


def test_a_slow_queue_leaves_the_fast_one_its_rate_in_amqp_10(
    node: Node, capsys: pytest.CaptureFixture[str]
) -> None:
    """Rates are the business of the benchmark: here it is that only one of them is held back."""
    more = ("--seconds", "1", "--protocol", "1.0", "--alone")
    [result] = bench(node, capsys, "two-senders", *more)["results"]
    fast, slow = result["links"]
    assert slow["messages"] <= 170 * (1000 / SLOW_MS) * 1.5
    assert fast["messages"] > slow["messages"]
    assert fast["share_of_alone"] > 0 and slow["share_of_alone"] is None


def test_a_slow_queue_leaves_a_consumer_its_rate_in_amqp_10(
    node: Node, capsys: pytest.CaptureFixture[str]
) -> None:
    more = ("--seconds", "0.5", "--protocol", "1.0", "--messages", "20000", "--batch", "1000")
    [result] = bench(node, capsys, "one-sender-one-receiver", *more)["results"]
    fast, slow = result["links"]
    assert (fast["role"], slow["role"]) == ("consume", "publish")
    assert 0 < slow["messages"] <= 170 * (500 / SLOW_MS) * 1.5
    assert fast["messages"] > slow["messages"]


def test_both_protocols_together_print_a_table(
    node: Node, capsys: pytest.CaptureFixture[str]
) -> None:
    where = ["--host", node.host, "--port", str(node.port), "--seconds", "0.3", "--messages", "500"]
    assert main(["bench", "one-sender-one-receiver", "--together", *where]) == 0
    lines = [line.split("\t") for line in capsys.readouterr().out.splitlines()]
    assert lines[0][:4] == ["broker", "protocol", "link", "queue"]
    assert [(line[1], line[2]) for line in lines[1:]] == [
        ("0.9.1", "consume"),
        ("0.9.1", "publish"),
        ("1.0", "consume"),
        ("1.0", "publish"),
    ]


def test_a_broker_that_is_not_there_is_69(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "two-senders", "--port", "1", "--seconds", "1"]) == 69
    assert "no AMQP 0.9.1 at 127.0.0.1:1" in capsys.readouterr().err


def test_queues_that_are_to_be_slow_confirm_late_and_others_do_not(node: Node) -> None:
    async def timed(publisher: amqp091.Publisher) -> float:
        begun = time.monotonic()
        assert (await publisher.publish(amqp091.Message(b"x"), timeout_s=10)).is_accepted
        return time.monotonic() - begun

    async def test() -> None:
        async with await amqp091.connect(node.url) as connection:
            management = await connection.management()
            for queue in ("slow q", "other q"):
                await management.declare_queue(queue, arguments={"x-queue-type": "quorum"})
            slow = await connection.publisher("", "slow q")
            other = await connection.publisher("", "other q")
            times = [await timed(slow) for _ in range(3)]
            assert min(times) >= SLOW_MS / 1000 - 0.002  # Timers count in ms.
            assert min([await timed(other) for _ in range(10)]) < SLOW_MS / 1000
            async with await connect(node.url) as newer:
                consumer = await newer.consumer("/queues/slow%20q", credit=0)
                assert len(await consumer.receive(3, timeout_s=5)) == 3
                publisher = await newer.publisher("/queues/slow%20q")
                assert (await publisher.publish(Message(b"y"))).is_accepted

    asyncio.run(test())


def test_a_load_names_the_broker_before_it_begins(
    node: Node, capsys: pytest.CaptureFixture[str]
) -> None:
    where = ["--port", str(node.port), "--seconds", "0.2", "--protocol", "0.9.1"]
    assert main(["bench", *where[:2], "two-senders", *where[2:]]) == 0
    said = capsys.readouterr().err
    named = f"node {node.name}, cluster {node.name}, at {node.host}:{node.port}, vhost /"
    assert said.startswith("warren: loading Warren ") and named in said


def test_without_a_load_a_table_of_shapes_is_printed(
    node: Node, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["bench", "--port", str(node.port), "--seconds", "0.3", "--json"]) == 0
    shapes = json.loads(capsys.readouterr().out)["shapes"]
    assert [each["shape"] for each in shapes] == [shape.name for shape in SHAPES]
    assert all(each["published_per_s"] > 0 for each in shapes)
    for shape, figures in zip(SHAPES, shapes, strict=True):
        assert bool(figures["consumed_per_s"]) == shape.consume
        assert bool(figures["confirm_p99_ms"]) == shape.one_in_flight


def test_without_a_load_and_a_broker_a_temporary_node_is_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(command, "PORT", free_port())
    monkeypatch.chdir(tmp_path)
    assert main(["bench", "--seconds", "0.2"]) == 0
    written = capsys.readouterr()
    assert "starting a temporary node" in written.err
    assert "loading Warren" in written.err and "node bench" in written.err
    assert len(written.out.splitlines()) == 1 + len(SHAPES)
    assert list(tmp_path.iterdir()) == []

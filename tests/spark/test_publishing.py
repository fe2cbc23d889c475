"""What the sink publishes, with a real node and without Spark."""

import asyncio
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

pytest.importorskip("pyspark")

from warren.client import Message, connect
from warren.spark.options import OptionError, WriteOptions, write_options
from warren.spark.publishing import Counts, RowIds, WriteError, check_target, publish
from warren.wire.amqp10.codec.values import Described, Symbol

OFFSET = Symbol("rabbitmq:stream-offset-spec")


def declare(url: str, name: str, **arguments: object) -> None:
    async def work() -> None:
        async with await connect(url) as connection:
            management = await connection.management()
            said = {f"x-{key.replace('_', '-')}": value for key, value in arguments.items()}
            await management.declare_queue(name, arguments=said)

    asyncio.run(work())


def taken(url: str, queue: str, count: int) -> list[Message]:
    """All messages; it fails if there are more than `count`."""

    async def work() -> list[Message]:
        async with await connect(url) as connection:
            management = await connection.management()
            assert (await management.queue(queue))["message_count"] == count
            from_first: dict[object, object] = {
                OFFSET: Described(OFFSET, "first")
            }  # Of a queue it means nothing.
            consumer = await connection.consumer(f"/queues/{queue}", credit=0, filters=from_first)
            return [each.message for each in await consumer.receive(count, timeout_s=10)]

    return asyncio.run(work())


class Line:
    """A row as Spark gives it."""

    def __init__(self, **columns: object) -> None:
        self._columns = columns

    def asDict(self) -> dict[str, object]:
        return self._columns


def rows(count: int, fails_at: int = -1) -> Iterator[Line]:
    """Every fifth row is like one before it."""
    for number in range(count):
        if number == fails_at:
            raise RuntimeError("the executor was lost")
        yield Line(body=b"%d" % (number - number % 5), headers={"k": "v"})


def options(url: str, **more: str) -> WriteOptions:
    return write_options({"url": url, **more})


@pytest.mark.parametrize("kind", ["classic", "quorum", "stream"])
def test_a_task_that_is_repeated_leaves_each_row_once(url: str, kind: str) -> None:
    declare(url, "out", queue_type=kind, id_cache_size=10_000)
    given = options(url, queue="out", publisherId="orders")
    check_target(given)
    with pytest.raises(RuntimeError, match="executor was lost"):
        publish(given, rows(4000, fails_at=2500), "batch 7/0")
    assert publish(given, rows(4000), "batch 7/0") == Counts(4000, 0)
    assert publish(given, reversed(list(rows(4000))), "batch 7/0") == Counts(4000, 0)
    assert publish(given, rows(10), "batch 7/1") == Counts(10, 0)
    assert publish(given, rows(10), "batch 8/0") == Counts(10, 0)
    found = Counter(bytes(each.body) for each in taken(url, "out", 4020))  # type: ignore[call-overload]
    assert found == Counter(b"%d" % (n - n % 5) for n in [*range(4000), *range(10), *range(10)])


def test_rows_are_known_by_all_that_they_say() -> None:
    said: list[dict[str, Any]] = [
        {"body": b"a"},
        {"body": b"b"},
        {"body": b"a", "to": "/exchanges/e"},
        {"body": b"a", "message_id": "m"},
        {"body": b"a", "correlation_id": "m"},
        {"body": b"a", "content_type": "m"},
        {"body": b"a", "application_properties": {"k": "v"}},
        {"body": b"a"},
    ]
    ids = RowIds("p/1/0")
    first = [ids.id_of(Message(**each)) for each in said]
    assert len(set(first)) == len(said)
    again = RowIds("p/1/0")
    assert {again.id_of(Message(**each)) for each in reversed(said)} == set(first)
    assert RowIds("p/1/1").id_of(Message(b"a")) not in first


def test_refused_rows_go_to_their_queue_with_the_reason(url: str) -> None:
    declare(url, "small", max_length=10, overflow="reject-publish")
    declare(url, "refused")
    given = options(url, queue="small", rejectedQueue="refused")
    assert publish(given, rows(30), "b/0") == Counts(10, 20)
    found = taken(url, "refused", 20)
    reason = str(found[0].application_properties["x-rejected-reason"])
    assert reason.startswith("queue 'small': row 10 of this task was rejected: ")
    assert found[0].application_properties["k"] == "v"
    with pytest.raises(WriteError, match="queue 'small': row 0 of this task was rejected"):
        publish(options(url, queue="small"), rows(1), "b/0")


def test_a_wrong_password_is_refused_and_not_shown(url: str) -> None:
    given = options(url.replace("guest:guest", "guest:wrong"), queue="out")
    with pytest.raises(WriteError, match=r"(?is)queue 'out': .*(refused|unauthorized)") as failed:
        publish(given, rows(1), "b/0")
    assert "wrong" not in str(failed.value)


def test_a_target_that_keeps_no_ids_is_named(url: str, caplog: pytest.LogCaptureFixture) -> None:
    declare(url, "log", queue_type="stream")
    declare(url, "plain")
    check_target(options(url, queue="log", publisherId="p"))
    assert "queue 'log' has no argument x-id-cache-size" in caplog.text
    with pytest.raises(WriteError, match="queue 'absent'"):
        check_target(options(url, queue="absent", publisherId="p"))
    check_target(options(url, queue="plain", publisherId="p"))
    assert "queue 'plain' has no argument x-id-cache-size" in caplog.text


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"publisherId": "p" * 129}, "'publisherId' has more than 128 characters"),
        ({"rejectedQueue": "out"}, "'rejectedQueue' needs the name of another queue"),
        ({"rejectedQueue": ""}, "'rejectedQueue' needs the name of another queue"),
    ],
)
def test_wrong_options_are_named(given: dict[str, str], text: str) -> None:
    with pytest.raises(OptionError, match=text):
        options("amqp://localhost", queue="out", **given)

"""Reconciliation of copies of the firehose: as plain Python does it, and with a real node."""

import json
import random
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark")

from pyspark.sql import SparkSession

from tests.spark.test_jobs import ran, said
from tests.spark.test_spark import run_with, taken
from tests.waiting import eventually
from warren.client import Message
from warren.spark.jobs.messages import messages_of
from warren.spark.jobs.reconciling import reconcile, reconciliation_reference
from warren.testing import Broker
from warren.testing.http_api import HttpApi

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

SCHEMA = """exchange string, routing_key string, headers map<string,string>,
    annotations map<string,string>, body binary"""


def copies(seed: int, count: int) -> list[dict[str, Any]]:
    """Of messages of which some are not delivered, delivered twice, dead-lettered or unroutable."""
    chance = random.Random(seed)
    found: list[dict[str, Any]] = []
    for number in range(count):
        vhost, queues = f"v{number % 2}", chance.sample(["a", "b", "c.d"], chance.randrange(4))
        properties: dict[str, Any] = {"message_id": f"m{number}"} if number % 3 else {}
        body = b"%d" % (number // 5)

        def copy(key: str, annotations: dict[str, object], **headers: str) -> None:
            texts = {f"x-{name}": json.dumps(each) for name, each in annotations.items()}
            found.append(
                {
                    "exchange": "amq.rabbitmq.trace",
                    "routing_key": key,
                    "headers": {"vhost": vhost, **headers},  # noqa: B023
                    "annotations": texts,
                    "body": body,  # noqa: B023
                }
            )

        about: dict[str, object] = {"properties": properties, "routed-queues": queues}
        copy("publish.orders", about if chance.random() < 0.9 else about | {"properties": {}})
        for queue in queues:
            for _ in range(chance.choice([0, 1, 1, 1, 1, 2])):
                copy(f"deliver.{queue}", {"properties": properties}, redelivered="0")
            if chance.random() < 0.1:
                copy(f"deliver.{queue}", {"properties": properties}, redelivered="1")
            if chance.random() < 0.1:
                died = {**properties, "headers": {"x-first-death-queue": queue}}
                copy("deliver.dead", {"properties": died}, redelivered=chance.choice("01"))
    found.append({**found[0], "exchange": "other"})
    chance.shuffle(found)
    return found


def test_the_job_finds_what_plain_python_finds(spark: SparkSession, tmp_path: Path) -> None:
    rows = copies(1, 400)
    spark.createDataFrame(rows, SCHEMA).write.parquet(str(tmp_path / "messages"))
    found, wanted = reconcile(spark, str(tmp_path)), reconciliation_reference(rows)
    assert said(found) == said(wanted) and list(found.summary) == list(wanted.summary)
    assert found.title == wanted.title and found.is_bad and wanted.is_bad
    assert {row[:2] for row in said(found)} >= {("v0", "a"), ("v1", "c.d")}
    assert all(sum(row[place] for row in said(found)) > 0 for place in range(2, 8))  # type: ignore[misc]


def test_what_a_node_has_not_delivered_is_missing(
    spark: SparkSession, url: str, tmp_path: Path, warren_broker: Broker
) -> None:
    """Copies go through a stream of AMQP 1.0, with their tables and arrays."""
    vhost, node = url.rpartition("/")[2], HttpApi(warren_broker.management_url)

    async def work(connection: Any, management: Any) -> None:
        await management.declare_queue("copies", arguments={"x-queue-type": "stream"})
        await management.bind("amq.rabbitmq.trace", queue="copies", key="#")
        dead = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"}
        await management.declare_queue("short", arguments=dead | {"x-max-length": 1})
        for name in ("all", "some", "dead"):
            await management.declare_queue(name)
        node.put(f"/vhosts/{vhost}", {"tracing": True})
        for queue, count in (("all", 5), ("some", 5), ("short", 3)):
            publisher = await connection.publisher(f"/queues/{queue}")
            sent = [Message(b"x", message_id=f"{queue}{n}") for n in range(count)]
            assert all(each.is_accepted for each in await publisher.publish_many(sent))
        nowhere = await connection.publisher("/exchanges/amq.direct/nowhere")
        assert not (await nowhere.publish(Message(b"y"))).is_accepted

    run_with(url, work)
    for queue, count in (("all", 5), ("some", 2), ("some", 1), ("dead", 2), ("short", 1)):
        assert len(taken(url, queue, count)) == count
    eventually(lambda: node.get(f"/queues/{vhost}/copies").get("messages") == 14 + 11)
    ran("lake", "--url", url, "--stream", "copies", tmp_path)
    rows = [each.asDict(recursive=True) for each in messages_of(spark, str(tmp_path)).collect()]
    status, found = ran("reconcile", tmp_path)
    assert status == 1 and found["title"] == "13 published, 3 missing"
    counts = {row["queue"]: list(row.values())[2:] for row in found["rows"]}
    assert counts == {  # published, delivered, redelivered, dead-lettered, missing, surplus
        "all": [5, 5, 0, 0, 0, 0],
        "some": [5, 2, 1, 0, 3, 0],
        "short": [3, 1, 0, 2, 0, 0],
    }
    assert found["summary"] == [
        "1 messages were published and routed to no queue",
        *(f"missing: 'some{n}' in queue 'some' of '{vhost}'" for n in (2, 3, 4)),
    ]
    assert said(reconcile(spark, str(tmp_path))) == said(reconciliation_reference(rows))

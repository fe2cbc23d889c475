"""Jobs on samples of the HTTP API: their results are those of plain Python."""

import random
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark")

from pyspark.sql import SparkSession

from tests.spark.test_jobs import ran, said
from tests.spark.test_spark import declare, publish, taken
from warren.spark.jobs.capacity import capacity, capacity_reference
from warren.spark.jobs.loads import (
    hot_queues,
    hot_reference,
    placement,
    placement_reference,
    tenant_reference,
    tenants,
)
from warren.spark.jobs.messages import JobFailed
from warren.spark.jobs.metrics import TABLES, keep, sample, series
from warren.testing import Broker

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

NODES = ("n1", "n2", "n3")
Rows = list[dict[str, Any]]


class Cluster:
    """Answers of an API that counts: queues come, counters fall, consumers move."""

    def __init__(self, seed: int) -> None:
        self._chance = random.Random(seed)
        self._counters: dict[tuple[str, ...], int] = {}

    def _count(self, *key: str) -> int:
        chance = self._chance
        before = 0 if chance.random() < 0.4 else self._counters.get(key, 0)
        self._counters[key] = before + chance.choice([0, 1, 700, 1 << 40])
        return self._counters[key]

    def listed(self, number: int) -> dict[str, Rows]:
        chance = self._chance
        names = [("/", f"q{n}") for n in range(2 + number)] + [("a=b c", "é 'x'")]
        leaders = {name: chance.choice(NODES) for name in names}
        return {
            "queues": [self._queue(vhost, name, leaders[vhost, name]) for vhost, name in names],
            "nodes": [{"name": node, "running": True, **self._node()} for node in NODES]
            + [{"name": "n4", "running": False}],
            "connections": [
                {
                    "vhost": vhost,
                    "user": user,
                    "name": f"{user}{vhost}",
                    "node": "n1",
                    **{each: self._count(each, vhost, user) for each in ("recv_oct", "send_oct")},
                }
                for vhost in ("/", "a=b c")
                for user in ("ann", "bob")
                if chance.random() < 0.8
            ]
            + [{"name": "opening", "vhost": None}],
            "consumers": [
                {
                    "consumer_tag": tag,
                    "queue": {"vhost": vhost, "name": name},
                    "channel_details": {"name": "c (1)", "node": node},
                    "delivered": self._count("consumer", vhost, name, tag, node),
                }
                for vhost, name in names
                for tag, node in (("t1", chance.choice(NODES)), ("t2", leaders[vhost, name]))
            ],
        }

    def _queue(self, vhost: str, name: str, leader: str) -> dict[str, Any]:
        counts = {each: self._count(each, vhost, name) for each in ("publish", "deliver_get")}
        return {
            "vhost": vhost,
            "name": name,
            "node": leader,
            "message_stats": counts,
            "type": self._chance.choice(["quorum", "quorum", "classic"]),
            "online": list(NODES),
            "messages": self._chance.randrange(99),
        }

    def _node(self) -> dict[str, int]:
        chance = self._chance
        return {
            "mem_used": chance.randrange(1 << 40),
            "mem_limit": 1 << 40,
            "disk_free": chance.randrange(1 << 50),
            "disk_free_limit": 1 << 30,
            "fd_used": 100,
            "fd_total": 100,
        }


def recorded(spark: SparkSession, folder: Path, seed: int, count: int) -> dict[str, Rows]:
    """Keep samples around midnight; what was kept, as rows."""
    cluster = Cluster(seed)
    kept: dict[str, Rows] = {name: [] for name in TABLES}
    for number in range(count):
        at_ms = 1_795_564_795_000 + number * 10_007
        for name, rows in cluster.listed(number).items():
            able = [each for each in rows if each.get("running", True)]
            keep(spark, str(folder), name, at_ms, able)
            names = [each.split()[0] for each in TABLES[name].schema.split(",")]
            for row in able:
                values = dict(zip(names, TABLES[name].row_of(row), strict=True))
                kept[name].append({"at_ms": at_ms, **values})
    return kept


def test_results_are_those_of_plain_python(spark: SparkSession, tmp_path: Path) -> None:
    kept = recorded(spark, tmp_path, 5, 3)
    folder = str(tmp_path)
    assert {each.name for each in (tmp_path / "nodes").glob("day=*")} == {
        *("day=2026-11-24", "day=2026-11-25")
    }
    pairs = [
        (hot_queues(spark, folder, 5), hot_reference(kept["queues"], kept["nodes"], 5)),
        (tenants(spark, folder), tenant_reference(kept["connections"], kept["nodes"])),
        (
            placement(spark, folder, 30.0),
            placement_reference(kept["queues"], kept["consumers"], 30.0),
        ),
        (capacity(spark, folder), capacity_reference(kept["nodes"])),
    ]
    for found, wanted in pairs:
        assert said(found) == said(wanted) and found.summary == wanted.summary
        assert found.rows and "<svg" in found.html()


def test_a_counter_that_falls_or_comes_counts_from_zero() -> None:
    rows = [
        {"at_ms": 1, "of": "a", "n": 100},
        {"at_ms": 2, "of": "a", "n": 130},
        {"at_ms": 2, "of": "b", "n": 7},
        {"at_ms": 3, "of": "a", "n": 20},
        {"at_ms": 3, "of": "b", "n": 7},
    ]
    found = [(name, count) for (name,), count in series(rows, ("of",), "n")]
    assert found == [("a", 0), ("a", 30), ("b", 7), ("a", 20), ("b", 0)]


def node(at_ms: int, **numbers: int) -> dict[str, Any]:
    fixed = dict.fromkeys(("mem_used", "disk_free", "fd_used"), 10)
    limits = {"mem_limit": 100, "disk_free_limit": 5, "fd_total": 10}
    return {"at_ms": at_ms, "node": "n1", **fixed, **limits, **numbers}


def test_a_limit_is_reached_when_the_line_says_so() -> None:
    hour = 3_600_000
    rows = [node(0, mem_used=10), node(hour, mem_used=20), node(2 * hour, mem_used=30)]
    found = {row[1]: row[4:6] for row in capacity_reference(rows).rows}
    assert found == {"memory": (10.0, 7.0), "disk": (0.0, None), "descriptors": (0.0, 0.0)}
    rows = [node(0, disk_free=9), node(hour, disk_free=7, mem_used=9)]
    found = {row[1]: row[4:6] for row in capacity_reference(rows).rows}
    assert found["disk"] == (-2.0, 1.0) and found["memory"] == (-1.0, None)
    over = {row[1]: row[5] for row in capacity_reference([node(0, mem_used=101)]).rows}
    assert over["memory"] == 0.0 and capacity_reference([]).rows == []


def test_a_leader_moves_to_most_of_its_consumers() -> None:
    def queue(name: str, kind: str, online: list[str]) -> dict[str, Any]:
        return {
            "at_ms": 1,
            "vhost": "/",
            "queue": name,
            "type": kind,
            "leader": "n1",
            "online": online,
        }

    def consumer(at_ms: int, name: str, node: str, count: int) -> dict[str, Any]:
        return {
            "at_ms": at_ms,
            "vhost": "/",
            "queue": name,
            "consumer": "c",
            "node": node,
            "delivered": count,
        }

    every = list(NODES)
    queues = [
        *(queue("far", "quorum", every), queue("even", "quorum", every)),
        *(queue("old", "classic", every), queue("gone", "quorum", ["n1", "n3"])),
    ]
    consumers = [consumer(1, name, node, 0) for name in ("far", "even") for node in ("n1", "n2")]
    for name, node, count in (
        *(("far", "n1", 10), ("far", "n2", 90), ("even", "n1", 50), ("even", "n2", 50)),
        *(("old", "n2", 50), ("gone", "n2", 50)),
    ):
        consumers.append(consumer(2, name, node, count))
    found = placement_reference(queues, consumers, 60.0)
    (row,) = found.rows
    assert row[:7] == ("/", "far", "n1", "n2", 100, 10.0, 90.0)
    assert row[7] == "warrenctl transfer_leadership --vhost / far n2"
    assert found.summary == [
        "20.0 % of 300 deliveries are local, 46.7 % after 1 moves",
    ]


def test_samples_of_a_node_are_kept(
    spark: SparkSession, warren_broker: Broker, tmp_path: Path
) -> None:
    url, name = warren_broker.url, f"hot-{tmp_path.name}"
    login = warren_broker.management_url.replace("://", "://guest:guest@")
    declare(url, name, "quorum")
    metrics = ("metrics", "--api", login, "--every", "0")
    ran(*metrics, tmp_path)
    publish(url, name, 0, 500)
    assert len(taken(url, name, 200)) == 200
    ran(*metrics, "--count", "2", tmp_path)
    _, found = ran("hot-queues", "--top", "1", tmp_path)
    (row,) = found["rows"]
    assert row["queue"] == name and row["backlog change"] > 0
    assert row["published/s"] > row["delivered/s"] > 0
    _, found = ran("capacity", tmp_path)
    assert {row["resource"] for row in found["rows"]} == {"memory", "disk", "descriptors"}


@pytest.mark.parametrize(
    ("url", "text"),
    [
        ("amqp://localhost", "--api: expected http://USER:PASSWORD@HOST:PORT"),
        ("http://guest:secret@127.0.0.1:1", "http://127.0.0.1:1/api/queues: "),
    ],
)
def test_an_api_that_does_not_answer_is_named(
    spark: SparkSession, tmp_path: Path, url: str, text: str
) -> None:
    with pytest.raises(JobFailed, match=text) as failed:
        sample(spark, url, str(tmp_path), 1, 0)
    assert "secret" not in str(failed.value)
    with pytest.raises(JobFailed, match="the job 'metrics' has kept nothing there"):
        capacity(spark, str(tmp_path))

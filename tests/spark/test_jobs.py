"""Jobs on Spark: their results are those of plain Python."""

import json
import random
from collections import Counter
from collections.abc import Mapping
from datetime import date, datetime
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote

import pytest

pytest.importorskip("pyspark")

from pyspark.sql import SparkSession

from tests.spark.test_spark import run_with, taken
from tests.waiting import eventually
from warren.client import Message
from warren.spark.jobs.command import parser
from warren.spark.jobs.histories import (
    judge_report,
    judge_table,
    judged,
    kept_reference,
    latency_reference,
    latency_report,
)
from warren.spark.jobs.messages import (
    dead_letter_reference,
    dead_letters,
    lake_reference,
    lake_table,
    messages_of,
    replay_reference,
    replay_table,
)
from warren.spark.jobs.report import Report
from warren.testing.history import BadHistory, Recorder, read

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

TEXTS: Final = ("message_id", "correlation_id", "content_type")
Row = dict[str, Any]
Runs = list[tuple[date, list[Row]]]


class Ticks:
    """A clock that goes on by itself."""

    def __init__(self, chance: random.Random) -> None:
        self._chance = chance
        self._now_ns = 0

    def __call__(self) -> int:
        self._now_ns += self._chance.randrange(1, 5_000_000)
        return self._now_ns


def record(path: Path, seed: int, count: int) -> None:
    """A history of three queues in which now and then something goes wrong."""
    chance = random.Random(seed)
    with Recorder(path, Ticks(chance)) as recorder:
        held: list[tuple[str, str, str]] = []
        for number in range(count):
            queue = f"q{number % 3}"
            name = f"p{queue}:{number}"
            recorder.published(queue, name, f"p{queue}")
            if chance.random() < 0.95:
                recorder.confirmed(name)
            if chance.random() < 0.97:
                consumer = f"c{chance.randrange(2)}"
                recorder.delivered(queue, name, consumer, redelivered=False)
                held.append((queue, name, consumer))
            while held and chance.random() < 0.6:
                of, taken_, by = held.pop(chance.randrange(len(held)))
                recorder.settled(taken_, by, chance.choice(["accept", "accept", "release"]))
                if chance.random() < 0.1:
                    recorder.delivered(of, taken_, by, redelivered=chance.random() < 0.5)
            if chance.random() < 0.01:
                recorder.fault("kill", "n1")
                recorder.ended("c1", clean=False)
                recorder.healed("kill", "n1")
            if chance.random() < 0.005:
                recorder.delivered(queue, f"other:{number}", "c0", redelivered=False)
        for queue in ("q0", "q1", "q2"):
            recorder.drained(queue)


def said(report: Report) -> list[tuple[object, ...]]:
    return [tuple(each) for each in report.rows]


def test_histories_are_judged_as_plain_python_does(spark: SparkSession, tmp_path: Path) -> None:
    """Also one whose recorder was killed while it wrote a line, and one without faults."""
    for seed in range(3):
        record(tmp_path / f"{seed}.jsonl", seed, 600)
    with (tmp_path / "2.jsonl").open("a") as file:
        file.write('{"event":"published","id":"cut')
    with Recorder(tmp_path / "3.jsonl") as recorder:
        recorder.published("q0", "p:1", "p")
        recorder.confirmed("p:1")
        recorder.delivered("q0", "p:1", "c", redelivered=False)
        recorder.settled("p:1", "c", "accept")
        recorder.drained("q0")
    found = judge_report(spark, str(tmp_path))
    wanted = []
    for each in sorted(tmp_path.iterdir()):
        wanted += [(str(each), *row) for row in judged(read(each), True)]
    assert said(found) == said(judge_table(wanted)) and found.summary == judge_table(wanted).summary
    assert {row[0] for row in found.rows} == {"0.jsonl", "1.jsonl", "2.jsonl"}
    assert found.title == "4 histories judged, 3 with faults" and found.is_bad


def test_latencies_are_those_of_plain_python(spark: SparkSession, tmp_path: Path) -> None:
    record(tmp_path / "one.jsonl", 7, 800)
    found = latency_report(spark, str(tmp_path / "one.jsonl"))
    assert said(found) == said(latency_reference(read(tmp_path / "one.jsonl")))
    assert [row[0] for row in found.rows] == ["q0", "q1", "q2"]


def test_histories_are_kept_once(spark: SparkSession, tmp_path: Path) -> None:
    runs, lake = tmp_path / "runs", tmp_path / "lake"
    runs.mkdir()
    keep = ("histories", "--vhost", "a b", runs, lake)
    for seed in range(2):
        record(runs / f"{seed}.jsonl", seed, 100)
        _, found = ran(*keep)
        wanted = kept_reference({f"{runs}/{seed}.jsonl": read(runs / f"{seed}.jsonl")})
        assert found == json.loads(wanted.json()) and found["rows"]
    _, found = ran(*keep)
    assert found["rows"] == []
    rows = spark.read.parquet(str(lake / "histories")).orderBy("file", "line").collect()
    assert {row.vhost for row in rows} == {"a b"}
    events = [event for seed in range(2) for event in read(runs / f"{seed}.jsonl")]
    again = [
        {name: row[name] for name in ("at_ns", "event", "queue", "id") if row[name] is not None}
        | json.loads(row.details)
        for row in rows
    ]
    assert again == events


@pytest.mark.parametrize("content", ["[]\n", "nonsense\n", '{"event":"confirmed","id":"a:1"}\n'])
def test_what_is_no_history_is_named(spark: SparkSession, tmp_path: Path, content: str) -> None:
    path = tmp_path / "bad.jsonl"
    path.write_text(content)
    with pytest.raises(BadHistory, match=r"bad\.jsonl: line 1: "):
        judge_report(spark, str(path))
    with pytest.raises(BadHistory, match=r"absent: there are no histories"):
        latency_report(spark, str(tmp_path / "absent"))


def ran(*arguments: object) -> tuple[int, Any]:
    """What the command does, in the session of the tests."""
    session = SparkSession.getActiveSession()
    assert session is not None
    options = parser().parse_args([str(each) for each in arguments])
    report: Report = options.job(session, options)
    assert ("<svg" in report.html()) == bool(report.rows) and report.title in report.text()
    return int(report.is_bad), json.loads(report.json())


def recorded(seed: int, stream: str, first: int) -> list[Row]:
    """Messages as rows of the source; some without a time, a routing key, headers or an id."""
    chance = random.Random(seed)
    return [
        {
            "queue": stream,
            "offset": offset,
            "routing_key": chance.choice(["eu.new", "us.old", ""]),
            "message_id": chance.choice([f"{stream}{offset}", None]),
            "correlation_id": chance.choice(["c", None]),
            "content_type": chance.choice(["text/plain", None]),
            "headers": chance.choice([{"n": str(offset), "é": "'"}, None]),
            "timestamp": chance.choice(
                [datetime.fromtimestamp(1_795_564_795 + chance.randrange(10**6)), None]
            ),
            "body": b"%d" % offset,
        }
        for offset in range(first, first + 200)
    ]


def sent_as(row: Row) -> Message:
    at = row["timestamp"]
    return Message(
        row["body"],
        to=f"/exchanges/{row['queue']}" + f"/{row['routing_key']}" * bool(row["routing_key"]),
        creation_time=None if at is None else int(at.timestamp()) * 1000,
        application_properties=dict(row["headers"] or {}),
        **{name: row[name] for name in TEXTS},
    )


def table_of(stream: str, folder: Path, vhost: str, runs: Runs) -> Any:
    """What `lake` says after the last of these runs, which has added all of its messages."""
    rows = [row for row in lake_reference(vhost, runs) if row["queue"] == stream]
    by_day = Counter((row["vhost"], str(row["day"])) for row in rows)
    return json.loads(lake_table(stream, str(folder), by_day, len(runs[-1][1])).json())


def test_streams_are_kept_and_published_again_as_plain_python_does(
    spark: SparkSession, url: str, tmp_path: Path
) -> None:
    """Two runs for one stream, one for another; then what a condition chooses of both."""

    async def declared(connection: Any, management: Any) -> None:
        for name, kind in (("a", "stream"), ("b", "stream"), ("again", "quorum")):
            await management.declare_queue(name, arguments={"x-queue-type": kind})
            await management.declare_exchange(name, "fanout")
            await management.bind(name, queue=name)

    run_with(url, declared)
    vhost = unquote(url.rpartition("/")[2])
    begun: Runs = []
    ended: Runs = []
    for stream, seed, first in (("a", 1, 0), ("a", 2, 200), ("b", 3, 0)):
        rows = recorded(seed, stream, first)

        async def published(connection: Any, management: Any, rows: list[Row] = rows) -> None:
            publisher = await connection.publisher(None)
            sent = await publisher.publish_many([sent_as(row) for row in rows])
            assert all(each.is_accepted for each in sent)

        run_with(url, published)
        begun.append((date.today(), rows))
        _, found = ran("lake", "--url", url, "--stream", stream, tmp_path)
        ended.append((date.today(), rows))
        # The day changes at most once meanwhile.
        tables = [table_of(stream, tmp_path, vhost, runs) for runs in (begun, ended)]
        assert found in tables and len(found["rows"]) > 3
    kept = [each.asDict(recursive=True) for each in messages_of(spark, str(tmp_path)).collect()]
    kept = [{name: row[name] for name in (*rows[0], "vhost", "day")} for row in kept]
    kept.sort(key=lambda row: (row["queue"], row["offset"]))
    assert kept in (lake_reference(vhost, begun), lake_reference(vhost, ended))
    condition = "routing_key LIKE 'eu.%' AND offset % 3 < 2 OR queue = 'b' AND message_id IS NULL"

    def is_chosen(row: Mapping[str, Any]) -> bool:
        is_part = row["routing_key"].startswith("eu.") and row["offset"] % 3 < 2
        return is_part or (row["queue"] == "b" and row["message_id"] is None)

    again = replay_reference([row for _, rows in ended for row in rows], is_chosen)
    replay = ("replay", "--url", url, "--exchange", "again", "--where", condition)
    by_queue = Counter(row["queue"] for _, rows in ended for row in rows if is_chosen(row))
    _, found = ran(*replay, "--dry-run", tmp_path)
    assert found == json.loads(replay_table("again", by_queue, True).json())
    _, found = ran(*replay, "--rate", "1000", tmp_path)
    assert found == json.loads(replay_table("again", by_queue, False).json())
    messages = [
        {
            "body": each.body,
            **{name: getattr(each, name) for name in TEXTS},
            "headers": each.application_properties or None,
            "routing_key": each.annotations["x-routing-key"],
        }
        for each in taken(url, "again", len(again))
    ]
    assert messages == again and 200 < len(again) < 500


def test_dead_letters_are_counted_by_queue_reason_and_ladder(
    spark: SparkSession, url: str, tmp_path: Path
) -> None:
    """Messages of `old` come by way of `retry`."""

    def dead_to(queue: str) -> dict[str, object]:
        return {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": queue}

    async def work(connection: Any, management: Any) -> None:
        for name, arguments in {
            "letters": {"x-queue-type": "stream"},
            "retry": dead_to("letters") | {"x-message-ttl": 1},
            "short": dead_to("letters") | {"x-max-length": 2},
            "old": dead_to("retry") | {"x-message-ttl": 1},
        }.items():
            await management.declare_queue(name, arguments=arguments)
        for queue, count in (("short", 7), ("old", 3)):
            publisher = await connection.publisher(f"/queues/{queue}")
            await publisher.publish_many([Message(b"x")] * count)

    run_with(url, work)

    async def count(connection: Any, management: Any) -> object:
        return (await management.queue("letters"))["message_count"]

    eventually(lambda: run_with(url, count) == 8)
    ran("lake", "--url", url, "--stream", "letters", tmp_path)
    found = dead_letters(spark, str(tmp_path))
    rows = [each.asDict(recursive=True) for each in messages_of(spark, str(tmp_path)).collect()]
    assert said(found) == said(dead_letter_reference(rows))
    assert said(found) == [
        ("short", "maxlen", "short maxlen x1", "letters", 5),
        ("old", "expired", "old expired x1, retry expired x1", "letters", 3),
    ]
    assert found.summary == ["expired: 3 messages", "maxlen: 5 messages"]


def test_reports_are_text_json_and_a_page() -> None:
    rows = [("<a>", 1200, 0.5), ("b", None, 2.0)]
    report = Report("R & D", ("name", "count", "ms"), rows, "ms", ("name",), ["one"])
    assert report.text().splitlines() == [
        *("R & D", "one", ""),
        *("name  count     ms", "<a>   1,200  0.500", "b            2.000"),
    ]
    assert json.loads(report.json())["rows"][1] == {"name": "b", "count": None, "ms": 2.0}
    page = report.html()
    assert "&lt;a&gt;" in page and "<a>" not in page and "R &amp; D" in page
    assert page.count("<rect") == 2 and "http" not in page
    assert "<svg" not in Report("none", ("a",), [], "a").html()

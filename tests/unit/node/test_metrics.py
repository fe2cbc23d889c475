"""/metrics and what is below it: names, groups, sums, and text that Prometheus can read."""

import asyncio
import re
import time
from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from node.management.metrics.columns import SLICE, Column, Columns, look
from node.management.metrics.scrape import GROUPS
from node.management.metrics.text import GAUGE, Family, histogram_rows, labels, number, texts
from node.management.metrics.view import (
    ChannelSample,
    MemberSample,
    QueueSample,
    RaftView,
    TrafficView,
    WaitView,
)
from node.management.rows.view import HistogramView, VhostView
from tests.unit.node.fake_broker import FakeBroker, connection_view
from tests.unit.node.fake_meter import FakeMeter
from tests.unit.node.metered_api import Call, with_meter

DECLARED = re.compile(r"^# (HELP|TYPE) (\S+) (.*)$", re.MULTILINE)


def queue(uid: int, vhost: str = "/", kind: str = "classic", ready: int = 1) -> QueueSample:
    return QueueSample(
        uid, vhost, f"q{uid}", kind, ready=ready, unacked=1, bytes=10, unacked_bytes=4,
        persistent=1, consumers=2, capacity=0.5, published=7, delivered=3, head_seq=1, next_seq=9,
    )  # fmt: skip


def meter() -> FakeMeter:
    odd = QueueSample(4, "v", 'a"b\\c\nd', "classic", ready=3)
    return FakeMeter(
        all_queues={1: queue(1), 2: queue(2, kind="quorum", ready=5), 3: queue(3, "v"), 4: odd},
        all_members={2: MemberSample("/", "q2", True, 7, 10, 21, 22, 23)},
        all_channels=[ChannelSample("c-root", 1, "amqp091", consumers=3, published=9)],
        the_traffic=TrafficView(
            handed_bytes=100,
            away_bytes=25,
            letters=6,
            letters_dropped=2,
            redelivered=1,
            delivered=4,
            sizes={"amqp091": HistogramView(bounds=(100.0,), counts=(2, 1), total=500.0)},
            confirms={
                "rabbit_quorum_queue": HistogramView(bounds=(0.1,), counts=(4, 0), total=2.0)
            },
        ),
        the_raft=RaftView(3, 2, {"elections": 5}),
        the_waits=[WaitView("channel", "queue", 1.5, 4)],
    )


class Unseen(FakeMeter):
    """Its queues must not be read."""

    def queues(self, vhosts: frozenset[str] | None = None) -> Sequence[int]:
        raise AssertionError("a look at the queues")


def read(text: str) -> dict[str, Any]:
    """The families by name; each is declared once, with words and a kind, before its samples."""
    kinds = [name for kind, name, _ in DECLARED.findall(text) if kind == "TYPE"]
    helps = [name for kind, name, words in DECLARED.findall(text) if kind == "HELP" and words]
    assert kinds == helps
    assert len(kinds) == len(set(kinds)), sorted(each for each in kinds if kinds.count(each) > 1)
    families = list(text_string_to_metric_families(text))
    for family in families:
        places = [(sample.name, tuple(sorted(sample.labels.items()))) for sample in family.samples]
        assert len(places) == len(set(places)), family.name
    for kind, name, words in DECLARED.findall(text):
        if kind == "TYPE":
            assert name.endswith("_total") == (words == "counter"), name
    return {family.name: family for family in families}


def values(text: str) -> dict[str, float]:
    """By the name and labels as they are written."""
    lines = [line.rpartition(" ") for line in text.splitlines() if line and line[0] != "#"]
    return {name: float(value) for name, _, value in lines}


def test_sums_are_told_under_rabbitmqs_names() -> None:
    async def test(call: Call) -> None:
        status, text = await call("/metrics", user="")
        assert status == 200
        read(text)
        found = values(text)
        assert found["rabbitmq_queue_consumers"] == 6
        assert found["rabbitmq_queue_messages_ready_bytes"] == 18
        assert found["rabbitmq_queue_messages_unacked_bytes"] == 12
        assert found["rabbitmq_queue_messages_persistent"] == 3
        assert found["rabbitmq_queue_messages_published_total"] == 21
        assert found["rabbitmq_raft_term"] == found["rabbitmq_raft_term_total"] == 7
        assert found["rabbitmq_raft_log_last_applied_index"] == 21
        assert found["rabbitmq_raft_entry_commit_latency_seconds"] == 0.5
        assert found['warren_queues{queue_type="classic"}'] == 3
        assert found['warren_queue_messages_ready{queue_type="quorum"}'] == 5
        assert found["warren_locality_ratio"] == 0.75
        assert found["warren_redelivery_ratio"] == 0.25
        assert found["warren_internal_published_total"] == 6
        assert found["warren_internal_dropped_total"] == 2
        assert found["warren_raft_elections_total"] == 5
        assert found['warren_flow_blocked_seconds_total{held_back="channel",by="queue"}'] == 1.5
        bucket = 'rabbitmq_message_size_bytes_bucket{protocol="amqp091",le="100.0"}'
        assert found[bucket] == 2
        assert found['warren_confirm_seconds_sum{queue_type="rabbit_quorum_queue"}'] == 2.0
        assert "queue_consumer_capacity" not in text, "a sum of shares means nothing"

    with_meter(test, meter())


def test_the_oldest_message_ages_from_scrape_to_scrape() -> None:
    async def test(call: Call) -> None:
        assert values((await call("/metrics"))[1])["warren_oldest_message_age_seconds"] == 0
        await asyncio.sleep(0.01)
        assert values((await call("/metrics"))[1])["warren_oldest_message_age_seconds"] >= 0.01

    with_meter(test, meter())


def test_per_object_has_a_sample_for_each_object_in_place_of_the_sum() -> None:
    fake = FakeBroker(the_vhosts=[VhostView(name="/")])
    fake.connections["c-root"] = connection_view("c-root", "root")

    async def test(call: Call) -> None:
        status, text = await call("/metrics/per-object")
        assert status == 200
        families = read(text)
        found = values(text)
        assert found['rabbitmq_queue_messages_ready{vhost="/",queue="q2"}'] == 5
        assert "rabbitmq_queue_messages_ready" not in found
        assert found['rabbitmq_raft_commit_index{vhost="/",queue="q2"}'] == 22
        assert found['rabbitmq_channel_consumers{connection="c-root",channel="1"}'] == 3
        (name,) = {
            sample.labels["queue"]
            for sample in families["rabbitmq_queue_messages"].samples
            if sample.labels["queue"] not in ("q1", "q2", "q3")
        }
        assert name == 'a"b\\c\nd'
        assert any(each.startswith("rabbitmq_connection_incoming_bytes_total{") for each in found)

    with_meter(test, meter(), fake)


def test_detailed_gives_the_groups_that_are_asked_for_under_their_own_prefix() -> None:
    async def test(call: Call) -> None:
        path = "/metrics/detailed?family=queue_coarse_metrics&family=queue_consumer_count"
        status, text = await call(path)
        assert status == 200
        assert set(read(text)) == {
            "rabbitmq_detailed_queue_messages_ready",
            "rabbitmq_detailed_queue_messages_unacked",
            "rabbitmq_detailed_queue_messages",
            "rabbitmq_detailed_queue_consumers",
        }
        text = (await call(f"{path}&vhost=/"))[1]
        assert values(text)['rabbitmq_detailed_queue_messages{vhost="/",queue="q1"}'] == 2
        assert 'vhost="v"' not in text
        assert (await call("/metrics/detailed"))[1] == ""

    with_meter(test, meter())


def test_the_log_is_told_without_a_look_at_a_queue() -> None:
    unseen = Unseen(all_queues={1: queue(1)})

    async def test(call: Call) -> None:
        status, text = await call("/metrics/detailed?family=warren_log_metrics")
        assert status == 200
        names = set(read(text))
        assert {"warren_wal_bytes", "warren_wal_live_record_bytes", "warren_loop_turn_ms"} <= names
        assert not any(name.startswith("rabbitmq_detailed") for name in names)

    with_meter(test, unseen)


def test_groups_that_overlap_give_each_family_once() -> None:
    async def test(call: Call) -> None:
        everything = "&".join(f"family={group}" for group in sorted(GROUPS))
        status, text = await call(f"/metrics/detailed?{everything}")
        assert status == 200
        names = set(read(text))
        assert "rabbitmq_detailed_queue_consumers" in names
        assert "rabbitmq_cluster_vhost_status" in names
        assert "rabbitmq_detailed_io_sync_ops" in names
        assert "warren_queue_head_age_seconds" in names

    with_meter(test, meter())


def test_a_group_that_is_not_known_is_refused() -> None:
    async def test(call: Call) -> None:
        status, body = await call("/metrics/detailed?family=queue_metrics&family=nonsense")
        assert (status, body["error"]) == (400, "bad_request")
        assert body["reason"].startswith("unknown family: nonsense; known: auth_attempt")

    with_meter(test, meter())


def test_the_memory_is_told_by_part() -> None:
    async def test(call: Call) -> None:
        text = (await call("/metrics/memory-breakdown"))[1]
        read(text)
        assert values(text)["rabbitmq_memory_total_bytes"] > 0

    with_meter(test, meter())


@pytest.mark.parametrize(
    "path", ["/metrics/per-object", "/metrics/detailed", "/metrics/memory-breakdown"]
)
def test_only_get_is_known(path: str) -> None:
    async def test(call: Call) -> None:
        assert (await call(path, method="POST"))[0] == 405

    with_meter(test, meter())


# The parts


def test_text_is_made_in_parts_of_so_many_samples() -> None:
    rows = [(labels({"n": str(n)}), float(n)) for n in range(25)]
    parts = list(texts([Family("a", GAUGE, "A", rows), Family("b", GAUGE, "B", [("", 1)])], 10))
    assert [part.count("\na{") + part.startswith("a{") for part in parts] == [10, 10, 5]
    assert "".join(parts).splitlines()[-3:] == ["# HELP b B", "# TYPE b gauge", "b 1"]


@pytest.mark.parametrize(
    ("value", "text"), [(True, "1"), (3, "3"), (3.0, "3"), (0.25, "0.25"), (1e300, "1e+300")]
)
def test_numbers_are_written_so_that_go_reads_them(value: float, text: str) -> None:
    assert number(value) == text


def test_buckets_add_up() -> None:
    rows = histogram_rows((1.0, 2.5), (3, 0, 4), 9.5, {"a": "x"})
    assert rows == [
        ('_bucket{a="x",le="1.0"}', 3),
        ('_bucket{a="x",le="2.5"}', 3),
        ('_bucket{a="x",le="+Inf"}', 7),
        ('_sum{a="x"}', 9.5),
        ('_count{a="x"}', 7),
    ]


def test_looking_at_many_objects_lets_the_loop_turn_and_passes_over_what_is_gone() -> None:
    seen: list[int] = []
    turns = 0

    async def run() -> None:
        nonlocal turns

        async def count_turns() -> None:
            nonlocal turns
            while True:
                turns += 1
                await asyncio.sleep(0)

        other = asyncio.get_running_loop().create_task(count_turns())
        await look(range(5 * SLICE), lambda key: key if key % 2 else None, (seen.append,))
        other.cancel()

    asyncio.run(run())
    assert turns >= 5
    assert seen == list(range(1, 5 * SLICE, 2))


def test_ten_thousand_queues_hold_up_no_turn() -> None:
    many = meter()
    many.all_queues = {uid: queue(uid) for uid in range(1, 10_001)}
    longest_s = 0.0

    async def test(call: Call) -> None:
        nonlocal longest_s

        async def watch() -> None:
            nonlocal longest_s
            while True:
                before = time.process_time()
                await asyncio.sleep(0)
                longest_s = max(longest_s, time.process_time() - before)

        watcher = asyncio.get_running_loop().create_task(watch())
        status, text = await call("/metrics/per-object")
        watcher.cancel()
        assert status == 200
        assert text.count("rabbitmq_queue_messages{") == 10_000

    with_meter(test, many)
    assert longest_s < 0.5  # Of CPU: 20 ms; all in one piece would be a second.


def numbers_of(columns: Columns[int]) -> Iterator[float]:
    return (value for family in columns.families("") for _, value in family.rows)


def test_columns_keep_each_object_or_the_sum() -> None:
    plain: tuple[Column[int], ...] = (
        Column("n", GAUGE, "N", float),
        Column("s", GAUGE, "S", float, False),
    )
    columns = Columns(plain, lambda n: labels({"n": str(n)}))
    for n in (1, 2):
        columns.see(n)
    assert list(numbers_of(columns)) == [1.0, 2.0, 1.0, 2.0]
    assert [(each.name, list(each.rows)) for each in columns.sums("x_")] == [("x_n", [("", 3.0)])]

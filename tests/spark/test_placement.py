"""Placement advice that `warrenctl cluster_plan` takes, with a cluster. With WARREN_LONG=1."""

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pika
import pytest

pytest.importorskip("pyspark")

from pyspark.sql import SparkSession

from node.cli.warrenctl import main
from tests.spark.test_jobs import ran
from tests.waiting import eventually
from warren.testing import ClusterOfNodes
from warren.testing.http_api import HttpApi

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(300),
    pytest.mark.skipif(
        os.environ.get("WARREN_LONG") != "1", reason="test_metrics.py has the advice"
    ),
]


def test_leaders_move_to_their_consumers_by_the_advice_of_the_job(
    spark: SparkSession,
    tmp_path: Path,
    cluster: Callable[..., ClusterOfNodes],
    capsys: pytest.CaptureFixture[str],
) -> None:
    nodes = cluster(3)
    first, second = nodes.node(1), nodes.node(2)
    api = HttpApi(first.management_url)

    def leader() -> object:
        return api.get("/queues/%2F/busy")["leader"]

    def delivered() -> int:
        return sum(each.get("delivered", 0) for each in api.get("/consumers"))

    def plan(*words: str) -> list[Any]:
        call = ["-q", "--node-url", second.management_url, "--formatter", "json"]
        assert main([*call, "cluster_plan", *words]) == 0
        found: list[Any] = json.loads(capsys.readouterr().out)
        return found

    with pika.BlockingConnection(pika.URLParameters(second.url)) as connection:
        channel = connection.channel()
        channel.queue_declare("busy", durable=True, arguments={"x-queue-type": "quorum"})
        eventually(leader)
        if leader() != "n1":
            place = "/queues/quorum/%2F/busy/leader"
            eventually(lambda: api.ask("POST", place, {"node": "n1"})[0] == 204)
            eventually(lambda: leader() == "n1")
        channel.basic_consume("busy", lambda *_: None, auto_ack=True)
        metrics = ("metrics", "--api", first.management_url.replace("://", "://guest:guest@"))
        ran(*metrics, tmp_path / "samples")
        for _ in range(50):
            channel.basic_publish("", "busy", b"x")

        def consumed() -> bool:
            connection.process_data_events(0)
            return delivered() >= 50

        eventually(consumed)
        ran(*metrics, tmp_path / "samples")
        _, found = ran("placement", tmp_path / "samples")
        (row,) = found["rows"]
        assert (row["queue"], row["leader"], row["move to"]) == ("busy", "n1", "n2")
        advice = tmp_path / "advice.json"
        found["rows"].append({**row, "queue": "absent"})
        advice.write_text(json.dumps(found))
        results = [each["result"] for each in plan("--advice", str(advice))]
        assert results == ["to be moved", "no such queue"] and leader() == "n1"
        (moved, _) = plan("--advice", str(advice), "--apply")
        assert (moved["name"], moved["to"], moved["result"]) == ("busy", "n2", "moved")
        eventually(lambda: leader() == "n2")
        assert plan("--advice", str(advice))[0]["result"] == "leads already"
        assert plan() == []
    advice.write_text("[]")
    assert main(["--node-url", second.management_url, "cluster_plan", "--advice", str(advice)]) != 0
    assert "not the JSON of the job 'placement'" in capsys.readouterr().err

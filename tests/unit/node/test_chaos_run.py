"""What `warren chaos run` keeps and says of a run, whoever has run it."""

import argparse
import io
import json
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from node.cli.chaos_arguments import add_arguments
from node.cli.chaos_run import (
    EXIT_FAILED,
    HISTORY,
    TABLE,
    chosen_scenario,
    conclude,
    give_up,
    plan_of,
)
from warren.testing import NodeFailed
from warren.testing.history import Recorder


def options(folder: Path, *words: str) -> argparse.Namespace:
    """As the command line has them."""
    parser = argparse.ArgumentParser()
    add_arguments(parser.add_subparsers(dest="command"))
    return parser.parse_args(["chaos", "run", "all", "--out", str(folder), *words])


def record(folder: Path, taken: bool) -> None:
    """A run with one fault and one message, which somebody has taken or not."""
    with Recorder(folder / HISTORY) as recorder:
        recorder.fault("kill", "n1")
        recorder.published("q", "p:1", "p")
        recorder.confirmed("p:1")
        recorder.healed("kill", "n1")
        if taken:
            recorder.delivered("q", "p:1", "c", False)
            recorder.settled("p:1", "c", "accept")
        recorder.drained("q")


@pytest.mark.parametrize("taken", [True, False])
def test_a_run_leaves_its_verdict_a_table_and_a_picture(tmp_path: Path, taken: bool) -> None:
    record(tmp_path, taken)
    said = io.StringIO()
    assert conclude(tmp_path, options(tmp_path), said) == (0 if taken else 1)
    verdict = json.loads((tmp_path / "verdict.json").read_text())
    assert verdict["clean"] is taken
    by_fault = {row["fault"]: row for row in verdict["by_fault"]}
    assert by_fault["kill"]["lost"] == (0 if taken else 1)
    assert by_fault["all"]["confirmed"] == 1
    table = (tmp_path / TABLE).read_text()
    assert table.startswith("all, 3 nodes, quorum queues, seed 0, 0.0 min")
    assert "\n| kill " in table
    assert table in said.getvalue()
    ET.parse(tmp_path / "timeline.svg")


def test_a_run_that_failed_is_judged_up_to_there_and_counts_as_failed(tmp_path: Path) -> None:
    record(tmp_path, taken=False)
    said, complained = io.StringIO(), io.StringIO()
    error = NodeFailed("n2 is gone")
    assert give_up(error, tmp_path, options(tmp_path), said, complained) == EXIT_FAILED
    assert "lost 1" in said.getvalue()
    assert "n2 is gone" in complained.getvalue()


def test_a_run_that_failed_before_it_began_has_nothing_to_judge(tmp_path: Path) -> None:
    said, complained = io.StringIO(), io.StringIO()
    assert give_up(NodeFailed("x"), tmp_path, options(tmp_path), said, complained) == EXIT_FAILED
    assert said.getvalue() == ""
    assert list(tmp_path.iterdir()) == []


def test_each_sets_the_pace_of_a_scenario(tmp_path: Path) -> None:
    assert chosen_scenario(options(tmp_path)).lasts_s == (3.0, 10.0)
    assert chosen_scenario(options(tmp_path, "--each", "2")).lasts_s[0] == 2.0


def test_the_rate_is_shared_by_all_publishers(tmp_path: Path) -> None:
    plan = plan_of(options(tmp_path, "--nodes", "5", "--queues", "2", "--rate", "1000"))
    publishers = sum(queue.publishers for queue in plan.queues)
    assert publishers * plan.habits.rate == pytest.approx(1000)

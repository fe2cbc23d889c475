"""What `warren chaos run` keeps and says of a run, whatever started it."""

import argparse
import io
import json
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from node.__main__ import main
from node.cli.chaos.arguments import add_arguments
from node.cli.chaos.run import (
    EXIT_CANNOT_CREATE,
    EXIT_FAILED,
    EXIT_UNREACHABLE,
    EXIT_USAGE,
    HISTORY,
    TABLE,
    chosen_scenario,
    conclude,
    give_up,
    plan_of,
    prepare,
)
from warren.testing import NodeFailed
from warren.testing.history import Recorder


def options(folder: Path, *words: str) -> argparse.Namespace:
    """As the command line has them."""
    parser = argparse.ArgumentParser()
    add_arguments(parser.add_subparsers(dest="command"))
    return parser.parse_args(["chaos", "run", "all", "--out", str(folder), *words])


def record(folder: Path, taken: bool) -> None:
    """A run with one fault and one message, which a consumer has taken or not."""
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


def test_mirrored_queues_are_declared_as_classic_ones_and_named_in_the_table(
    tmp_path: Path,
) -> None:
    record(tmp_path, taken=True)
    given = options(tmp_path, "--queue-type", "mirrored")
    assert [each.type for each in plan_of(given).queues] == ["classic"]
    assert conclude(tmp_path, given, io.StringIO()) == 0
    assert (tmp_path / TABLE).read_text().startswith("all, 3 nodes, mirrored queues")


def test_a_run_that_failed_is_judged_up_to_there_and_counts_as_failed(tmp_path: Path) -> None:
    record(tmp_path, taken=False)
    said, complained = io.StringIO(), io.StringIO()
    error = NodeFailed("n2 is gone")
    assert give_up(error, tmp_path, options(tmp_path), said, complained) == EXIT_FAILED
    assert "lost 1" in said.getvalue()
    assert "n2 is gone" in complained.getvalue()


def test_a_run_that_failed_before_it_began_has_nothing_to_judge(tmp_path: Path) -> None:
    said, complained = io.StringIO(), io.StringIO()
    given = options(tmp_path)
    folder = prepare(given, chosen_scenario(given), "any")
    assert give_up(NodeFailed("x"), folder, given, said, complained) == EXIT_FAILED
    assert said.getvalue() == ""
    assert [path.name for path in tmp_path.iterdir()] == [HISTORY]


def test_a_run_in_which_nothing_was_confirmed_shows_nothing_and_counts_as_failed(
    tmp_path: Path,
) -> None:
    with Recorder(tmp_path / HISTORY) as recorder:
        recorder.fault("kill", "n1")
        recorder.published("q", "p:1", "p")
        recorder.drained("q")
    said = io.StringIO()
    assert conclude(tmp_path, options(tmp_path), said) == EXIT_FAILED
    assert "nothing was confirmed" in said.getvalue()


def told(capsys: pytest.CaptureFixture[str], code: int, *words: str) -> str:
    """What `warren chaos run` complains of before it begins, in one line."""
    assert main(["chaos", "run", *words]) == code
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("warren: ")
    return line


def test_the_history_of_another_run_is_not_written_over(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    record(tmp_path, taken=True)
    before = (tmp_path / HISTORY).read_bytes()
    line = told(capsys, EXIT_CANNOT_CREATE, "kill", "--out", str(tmp_path))
    assert f"{tmp_path}: has the history of another run" in line
    assert (tmp_path / HISTORY).read_bytes() == before


def test_a_folder_that_cannot_be_made_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").touch()
    for name in ("file", "file/folder"):
        line = told(capsys, EXIT_CANNOT_CREATE, "kill", "--out", str(tmp_path / name))
        assert str(tmp_path / name) in line


def test_a_run_that_has_no_time_for_a_fault_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    line = told(capsys, EXIT_USAGE, "kill", "--minutes", "0.1", "--out", str(tmp_path / "out"))
    assert "--minutes 0.1: no fault of kill ends in that time, which takes 0.20" in line
    assert not (tmp_path / "out").exists()


def test_links_are_not_broken_without_toxiproxy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("WARREN_TOXIPROXY", str(tmp_path / "none"))
    line = told(capsys, EXIT_UNREACHABLE, "network", "--out", str(tmp_path / "out"))
    assert "network breaks links: toxiproxy-server is not there: make tools" in line
    assert not (tmp_path / "out").exists()


def test_each_sets_the_pace_of_a_scenario(tmp_path: Path) -> None:
    assert chosen_scenario(options(tmp_path)).lasts_s == (3.0, 10.0)
    assert chosen_scenario(options(tmp_path, "--each", "2")).lasts_s[0] == 2.0


def test_the_rate_is_shared_by_all_publishers(tmp_path: Path) -> None:
    plan = plan_of(options(tmp_path, "--nodes", "5", "--queues", "2", "--rate", "1000"))
    publishers = sum(queue.publishers for queue in plan.queues)
    assert publishers * plan.habits.rate == pytest.approx(1000)

"""`warren chaos check`: the exit code says whether a history is clean, the text what is wrong."""

import json
from pathlib import Path

import pytest

from node.__main__ import main
from warren.testing.history import Recorder


def lost_one(path: Path) -> None:
    with Recorder(path) as recorder:
        recorder.published("q", "p:1", "p")
        recorder.confirmed("p:1")
        recorder.drained("q")


def test_a_clean_history_exits_with_nothing(tmp_path: Path) -> None:
    path = tmp_path / "history.jsonl"
    path.write_text("")
    assert main(["chaos", "check", str(path)]) == 0


def test_a_lost_message_is_named_with_its_rule(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "history.jsonl"
    lost_one(path)
    assert main(["chaos", "check", str(path)]) == 1
    told = capsys.readouterr().out
    assert "lost 1" in told
    assert "p:1" in told


def test_the_same_as_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "history.jsonl"
    lost_one(path)
    assert main(["chaos", "check", str(path), "--formatter", "json"]) == 1
    told = json.loads(capsys.readouterr().out)
    assert told["clean"] is False
    assert told["findings"] == [
        {"rule": "lost", "message": "p:1", "line": 1, "detail": "never delivered"}
    ]


def test_what_is_no_history_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "history.jsonl"
    path.write_text("what\n")
    assert main(["chaos", "check", str(path)]) == 65
    assert "line 1" in capsys.readouterr().err


def test_a_file_that_is_not_there_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["chaos", "check", str(tmp_path / "none")]) == 66
    assert "No such file" in capsys.readouterr().err

"""`warren chaos check`: the exit code says whether a history is clean, the text what is wrong."""

import json
from collections.abc import Callable
from itertools import count
from pathlib import Path

import pytest

from node.__main__ import main
from warren.testing.history import Kind, Recorder

EVENT_NS = 50_000_000  # between two events of a history that is made here
Story = Callable[[Recorder], None]


def publish(recorder: Recorder, *numbers: int) -> None:
    for number in numbers:
        recorder.published("q", f"p:{number}", "p")
        recorder.confirmed(f"p:{number}")


def take(recorder: Recorder, number: int, consumer: str = "c", again: bool = False) -> None:
    recorder.delivered("q", f"p:{number}", consumer, again)
    recorder.settled(f"p:{number}", consumer, "accept")


def lost(recorder: Recorder) -> None:
    publish(recorder, 1)
    recorder.drained("q")


def stranded(recorder: Recorder) -> None:
    publish(recorder, 1)
    recorder.drained("q", left=1)


def settled_by_one_that_had_lost_it(recorder: Recorder) -> None:
    publish(recorder, 1)
    recorder.delivered("q", "p:1", "c", False)
    recorder.ended("c", clean=False)
    recorder.settled("p:1", "c", "accept")
    recorder.drained("q")


def phantom(recorder: Recorder) -> None:
    recorder.delivered("q", "p:1", "c", False)


def doubled(recorder: Recorder) -> None:
    publish(recorder, 1)
    take(recorder, 1)
    recorder.answered("p:1", "c")
    take(recorder, 1, "c2", again=True)


def repeated(recorder: Recorder) -> None:
    publish(recorder, 1)
    take(recorder, 1)
    take(recorder, 1, again=True)


def unflagged(recorder: Recorder) -> None:
    publish(recorder, 1)
    recorder.delivered("q", "p:1", "c", False)
    recorder.ended("c", clean=True)
    take(recorder, 1, "c2")


def reordered(recorder: Recorder) -> None:
    publish(recorder, 1, 2)
    take(recorder, 2)
    take(recorder, 1)


def from_another_queue(recorder: Recorder) -> None:
    publish(recorder, 1)
    recorder.delivered("other", "p:1", "c", False)


def refused_and_delivered(recorder: Recorder) -> None:
    recorder.published("q", "p:1", "p")
    recorder.refused("p:1")
    take(recorder, 1)


def starved(recorder: Recorder) -> None:
    recorder.attached("q", "hungry")
    for number in range(1, 501):
        publish(recorder, number)
        take(recorder, number)


PLANTED: dict[Kind, Story] = {
    Kind.LOST: lost,
    Kind.STRANDED: stranded,
    Kind.STALE_ACK: settled_by_one_that_had_lost_it,
    Kind.PHANTOM: phantom,
    Kind.DOUBLED: doubled,
    Kind.REPEATED: repeated,
    Kind.UNFLAGGED: unflagged,
    Kind.REORDERED: reordered,
    Kind.WRONG_QUEUE: from_another_queue,
    Kind.UNREFUSED: refused_and_delivered,
    Kind.STARVED: starved,
}


def written(folder: Path, story: Story) -> str:
    """The path of a history of that story."""
    path = folder / "history.jsonl"
    with Recorder(path, count(0, EVENT_NS).__next__) as recorder:
        story(recorder)
    return str(path)


def test_a_clean_history_exits_with_nothing(tmp_path: Path) -> None:
    assert main(["chaos", "check", written(tmp_path, lambda recorder: None)]) == 0


@pytest.mark.parametrize("kind", list(Kind))
def test_each_kind_of_wrong_is_told_with_its_rule_and_its_message(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], kind: Kind
) -> None:
    assert main(["chaos", "check", written(tmp_path, PLANTED[kind])]) == 1
    told = capsys.readouterr().out.splitlines()
    (rule,) = [place for place, line in enumerate(told) if line.startswith(kind.name.lower())]
    assert told[rule] == f"{kind.name.lower()} 1: {kind.value}"
    assert ("hungry" if kind is Kind.STARVED else "p:1") in told[rule + 1]


def test_the_same_as_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["chaos", "check", written(tmp_path, lost), "--formatter", "json"]) == 1
    told = json.loads(capsys.readouterr().out)
    assert told["clean"] is False
    assert told["findings"] == [
        {"rule": "lost", "message": "p:1", "line": 1, "detail": "never delivered"}
    ]


def test_the_same_as_a_table_by_kind_of_fault(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def story(recorder: Recorder) -> None:
        recorder.fault("kill", "n1")
        publish(recorder, 1)
        recorder.healed("kill", "n1")
        recorder.drained("q")

    assert main(["chaos", "check", written(tmp_path, story), "--formatter", "markdown"]) == 1
    kill = capsys.readouterr().out.splitlines()[2]
    assert [cell.strip() for cell in kill.split("|")[1:5]] == ["kill", "1", "1", "1"]


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

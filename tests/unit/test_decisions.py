"""The decisions in `docs/decisions`: few, listed in their index, named by numbers that exist."""

import re
import subprocess
from pathlib import Path
from typing import Final

import pytest

ROOT: Final = Path(__file__).resolve().parent.parent.parent
DECISIONS: Final = ROOT / "docs/decisions"
DECISIONS_MAX: Final = 35
REFERENCE: Final = re.compile(r"(?:\(|, |\[|see |decisions?[ \n/])(0\d{3})(?=[),.;\]-])")

pytestmark = pytest.mark.source


def pages() -> dict[str, Path]:
    return {path.name[:4]: path for path in sorted(DECISIONS.glob("0*.md"))}


def test_the_index_lists_each_decision_by_its_title() -> None:
    rows = [
        f"| [{number}]({path.name}) | {path.read_text('utf-8').splitlines()[0][7:]} |"
        for number, path in pages().items()
    ]
    listed = (DECISIONS / "README.md").read_text("utf-8").splitlines()
    assert [line for line in listed if line.startswith("| [")] == rows


def test_decisions_are_few_and_their_numbers_unique() -> None:
    numbers = [path.name[:4] for path in DECISIONS.glob("0*.md")]
    assert len(numbers) == len(set(numbers))
    assert len(numbers) <= DECISIONS_MAX, "write into the page of the same subject"


def test_every_named_decision_exists() -> None:
    listed = subprocess.run(
        ["git", "ls-files", "*.py", "*.md"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    texts = {name: (ROOT / name).read_text("utf-8") for name in listed.stdout.split()}
    named = [(name, each) for name, text in texts.items() for each in REFERENCE.findall(text)]
    assert len(named) > 50, "the pattern finds no references"
    assert [(name, number) for name, number in named if number not in pages()] == []

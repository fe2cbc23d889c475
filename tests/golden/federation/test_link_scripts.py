"""Stories of links and shovels, each with what both brokers saw when they were recorded.

`python -m tests.golden.federation.test_link_scripts --rewrite` records them again; review the diff.
"""

import sys
from pathlib import Path

import pytest

from tests.golden.federation.link_script import run_script

STORIES = sorted(Path(__file__).parent.glob("*.txt"))


@pytest.mark.parametrize("path", STORIES, ids=lambda path: path.stem)
def test_both_brokers_see_what_was_recorded(path: Path) -> None:
    recorded = path.read_text("utf-8")
    assert run_script(recorded) == recorded


def test_there_are_stories_to_run() -> None:
    assert len(STORIES) >= 14


def rewrite() -> None:
    for path in STORIES:
        path.write_text(run_script(path.read_text("utf-8")), "utf-8")


if __name__ == "__main__":
    if sys.argv[1:] != ["--rewrite"]:
        sys.exit(__doc__)
    rewrite()

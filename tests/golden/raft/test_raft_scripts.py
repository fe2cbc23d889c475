"""The stories of groups, each with the course that it took when they were recorded.

`python -m tests.golden.raft.test_raft_scripts --rewrite` records them again; review the diff.
"""

from pathlib import Path

import pytest

from tests.golden.raft.raft_script import run_script
from tests.golden.stories import rewrite, stories_beside

STORIES = stories_beside(__file__)


@pytest.mark.parametrize("path", STORIES, ids=lambda path: path.stem)
def test_a_group_goes_the_way_that_was_recorded(path: Path) -> None:
    recorded = path.read_text("utf-8")
    assert run_script(recorded) == recorded


def test_there_are_stories_to_run() -> None:
    assert len(STORIES) >= 10


if __name__ == "__main__":
    rewrite(STORIES, run_script, __doc__)

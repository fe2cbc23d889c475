"""The stories of the queue machine, each with the answers that it gave when they were recorded.

`python -m tests.golden.queues.test_fifo_scripts --rewrite` records them again; review the diff.
"""

from pathlib import Path

import pytest

from tests.golden.queues.fifo_script import run_script
from tests.golden.stories import rewrite, stories_beside

STORIES = stories_beside(__file__)


@pytest.mark.parametrize("path", STORIES, ids=lambda path: path.stem)
def test_the_machine_answers_as_recorded(path: Path) -> None:
    recorded = path.read_text("utf-8")
    assert run_script(recorded) == recorded


def test_there_are_stories_to_run() -> None:
    assert len(STORIES) >= 8


if __name__ == "__main__":
    rewrite(STORIES, run_script, __doc__)

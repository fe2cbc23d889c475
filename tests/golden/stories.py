"""Stories with the answers that were recorded: texts that a script runs and gives back."""

import sys
from collections.abc import Callable
from pathlib import Path


def stories_beside(module: str) -> list[Path]:
    return sorted(Path(module).parent.glob("*.txt"))


def rewrite(stories: list[Path], run_script: Callable[[str], str], usage: str | None) -> None:
    """Record all of them again, as the arguments of the program say."""
    if sys.argv[1:] != ["--rewrite"]:
        sys.exit(usage)
    for path in stories:
        path.write_text(run_script(path.read_text("utf-8")), "utf-8")

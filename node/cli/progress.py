"""A bar on the terminal while a long call is under way. `rich` is imported for a bar alone.

    answer = shown_while(lambda: api.post(...), lambda: Progress(7, 20), "Growing", options)

The call runs in this thread, the looking in another one, every LOOK_S; without a terminal, or where
the output is for a program, no progress is shown. A look that fails is passed over:
what counts is the answer of the call.
"""

import sys
import threading
from collections.abc import Callable
from typing import Final, TextIO, TypeVar

from msgspec import Struct

from node.cli.api import ApiFailure
from node.cli.tables import TABLES
from node.cli.verbs import Options

T = TypeVar("T")

LOOK_S: Final = 0.5


class Progress(Struct, frozen=True):
    """How far it is; `total` 0: unknown."""

    done: int
    total: int


def wants_bar(options: Options, out: TextIO) -> bool:
    """Whether a person looks at the terminal."""
    return out.isatty() and not options.quiet and options.formatter in TABLES


def shown_while(
    work: Callable[[], T],
    look: Callable[[], Progress],
    title: str,
    options: Options,
    out: TextIO = sys.stderr,
) -> T:
    """Do the work; its answer."""
    if not wants_bar(options, out):
        return work()
    bar = Bar(title, out)
    over = threading.Event()
    watcher = threading.Thread(target=_watch, args=(look, bar, over), daemon=True)
    watcher.start()
    try:
        return work()
    finally:
        over.set()
        watcher.join()
        bar.end()


def _watch(look: Callable[[], Progress], bar: "Bar", over: threading.Event) -> None:
    while not over.wait(LOOK_S):
        try:
            bar.show(look())
        except ApiFailure:
            continue


class Bar:
    """One line that is drawn again and again."""

    def __init__(self, title: str, out: TextIO) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
        from rich.progress import Progress as RichProgress

        self._rich = RichProgress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            console=Console(file=out),
        )
        self._task = self._rich.add_task(title, total=None)
        self._rich.start()

    def show(self, progress: Progress) -> None:
        total = progress.total or None
        self._rich.update(self._task, completed=progress.done, total=total)

    def end(self) -> None:
        self._rich.stop()

"""Quorum queues that hear late that their log is durable: for tests and benchmarks alone.

`testing.slow_queues` names them (in any vhost), `testing.slow_ms` says by how much. It stands in
for a slow disk, or for members far away, under these queues and no others: what they have written
is durable as soon as ever, but it is committed, and so confirmed and delivered, that much later.
"""

from collections.abc import Callable
from typing import Protocol

from raft.one_member import Commits


class Loop(Protocol):
    """What it needs of the event loop."""

    def call_later(self, delay: float, callback: Callable[[], None], /) -> object: ...


class SlowCommits:
    """The notices for `commits`, each of them `delay_s` late. They stay in order."""

    def __init__(
        self, loop: Loop, delay_s: float, in_turn: Callable[[Callable[[], None]], None]
    ) -> None:
        self.commits = Commits()
        self._loop = loop
        self._delay_s = delay_s
        self._in_turn = in_turn  # runs what commits do within a turn of the node

    def on_durable(self, lsn: int) -> None:
        """The log up to `lsn` is durable."""
        self._loop.call_later(
            self._delay_s, lambda: self._in_turn(lambda: self.commits.on_durable(lsn))
        )

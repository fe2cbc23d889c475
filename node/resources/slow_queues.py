"""Quorum queues whose entries are applied late: for tests and benchmarks only.

`testing.slow_queues` names them (in any vhost), `testing.slow_ms` is the delay. It stands in for a
slow disk, or for distant members, under these queues and no others: their entries are committed as
soon as ever, but applied, and so confirmed and delivered, that much later.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Protocol

from raft.entries import Config, Entry, SnapshotPoint
from raft.log_group import GroupOwner
from raft.messages import SnapshotSlice
from raft.ready import Lead


class CallLater(Protocol):
    """`call_later` of the event loop."""

    def __call__(self, delay: float, callback: Callable[[], None], /) -> object: ...


class SlowOwner:
    """A `GroupOwner` that passes to `owner` what is applied `delay_s` late, in the same order."""

    def __init__(
        self,
        owner: GroupOwner,
        delay_s: float,
        call_later: CallLater,
        begin_turn: Callable[[], None],
    ) -> None:
        self._owner = owner
        self._delay_s = delay_s
        self._call_later = call_later
        self._begin_turn = begin_turn

    def _later(self, call: Callable[[], None]) -> None:
        def due() -> None:
            self._begin_turn()
            call()

        self._call_later(self._delay_s, due)

    def store(self, entry: Entry) -> None:
        self._owner.store(entry)

    def truncated(self, index: int) -> None:
        self._later(partial(self._owner.truncated, index))

    def apply(self, entries: Sequence[Entry]) -> None:
        self._later(partial(self._owner.apply, entries))

    def outcome(self, first: int, last: int, term: int, outcome: int) -> None:
        self._later(partial(self._owner.outcome, first, last, term, outcome))

    def lead(self, lead: Lead) -> None:
        self._later(partial(self._owner.lead, lead))

    def configured(self, config: Config) -> None:
        self._later(partial(self._owner.configured, config))

    def reattach(self, entries: Sequence[Entry], done: Callable[[Sequence[Entry]], None]) -> None:
        self._owner.reattach(entries, done)

    def read_slice(
        self, index: int, number: int, done: Callable[[Sequence[bytes] | None, bool], None]
    ) -> None:
        self._owner.read_slice(index, number, done)

    def stage(
        self, piece: SnapshotSlice, point: SnapshotPoint | None, done: Callable[[], None]
    ) -> None:
        self._owner.stage(piece, point, done)

    def drop_staged(self) -> None:
        self._owner.drop_staged()

"""Bytes that each process of the cluster gives to a quorum queue and gets of it, at its leader.

Counted for queues alone whose leader is to follow its traffic: `Bodies` has a `Traffic`
then, which counts each run of messages that comes in or goes out, and asked what it has counted
since it was asked last. A delivery counts as many bytes as messages of the queue have had here on
the average; before the first publish here that is GUESS_BYTES, for then only the shares of the
consumers matter. Compiled.
"""

from typing import Final, final

from mypy_extensions import i64

from queues.hosts.effect_dispatch import session_in
from queues.machine.commands import SessionId, process_of
from queues.machine.effects import Delivers, Effect, Got

GUESS_BYTES: Final = 1024


@final
class Traffic:
    """See the module."""

    __slots__ = ("_by_process", "_published_bytes", "_published_count")

    def __init__(self) -> None:
        self._by_process: dict[int, int] = {}
        self._published_bytes: i64 = 0
        self._published_count: i64 = 0

    def published(self, session: SessionId, byte_count: i64, count: i64) -> None:
        """So many messages of that size together came in."""
        self._published_bytes += byte_count
        self._published_count += count
        self._add(session, byte_count)

    def told(self, effect: Effect) -> None:
        """The session that it is about hears of it."""
        if isinstance(effect, Delivers):
            self._add(session_in(effect), effect.count * self._average())
        elif isinstance(effect, Got) and effect.message > 0:
            self._add(effect.session, self._average())

    def _average(self) -> i64:
        if self._published_count == 0:
            return GUESS_BYTES
        return self._published_bytes // self._published_count

    def _add(self, session: SessionId, byte_count: i64) -> None:
        process = process_of(session)
        self._by_process[process] = self._by_process.get(process, 0) + int(byte_count)

    def take(self) -> dict[int, int]:
        """Bytes by process, since the last time."""
        found = self._by_process
        self._by_process = {}
        return found

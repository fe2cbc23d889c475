"""How far each session has published to a queue: its highest number. Compiled.

The one that has published last is kept apart, so that a queue with one publisher needs no lookup
(0009). Sessions stay in the order in which they came, which all members of a group share.
"""

from collections.abc import Iterable
from typing import final

from mypy_extensions import i64, mypyc_attr

from queues.machine.commands import SessionId


@final
@mypyc_attr(acyclic=True)
class Numbers:
    """Invariant: `_known` has every session; for the one kept apart, an old number."""

    def __init__(self, known: Iterable[tuple[SessionId, int]] = ()) -> None:
        self._known: dict[SessionId, int] = dict(known)
        self._apart = False  # a session is kept apart:
        self._session = SessionId(0)
        self._seq: i64 = 0

    def of(self, session: SessionId) -> i64:
        """0: it has published nothing."""
        if self._apart and self._session == session:
            return self._seq
        return self._known.get(session, 0)

    def put(self, session: SessionId, seq: i64) -> None:
        if not self._apart or self._session != session:
            self._tidy()
            self._known[session] = seq
            self._session = session
            self._apart = True
        self._seq = seq

    def end(self, session: SessionId) -> None:
        self._tidy()
        self._known.pop(session, None)

    def all(self) -> dict[SessionId, int]:
        """By session, in the order in which they came; not to be changed."""
        self._tidy()
        return self._known

    def _tidy(self) -> None:
        """No session is kept apart."""
        if self._apart:
            self._known[self._session] = self._seq
            self._apart = False

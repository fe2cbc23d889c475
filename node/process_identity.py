"""What tells this process of the node from earlier ones: ids of sessions and connections."""

import os

from queues.machine.commands import SessionId


class ProcessIdentity:
    """The incarnation of the process, and ids that no other incarnation gives."""

    def __init__(self) -> None:
        self._incarnation = _draw()
        self._session_count = 0
        self._connection_count = 0

    @property
    def incarnation(self) -> int:
        """A random number of 64 bits."""
        return self._incarnation

    def renew(self) -> None:
        """Draw another incarnation, because the cluster has declared this one dead."""
        self._incarnation = _draw()

    def new_session(self) -> SessionId:
        self._session_count += 1
        return SessionId(self._incarnation << 64 | self._session_count)

    def new_connection_id(self) -> str:
        """Return an id that no connection of this or an earlier run of the node has had."""
        self._connection_count += 1
        return f"{self._incarnation:016x}.{self._connection_count}"


def _draw() -> int:
    return int.from_bytes(os.urandom(8), "big")

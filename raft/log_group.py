"""What a replicated machine sees of its log: propose, be told what is committed, snapshot.

A machine is written against `LogGroup` and does not know whether its group has one member on the
node's own log or several on several nodes.
"""

from collections.abc import Callable, Sequence
from typing import Final, Protocol

METADATA_OWNER: Final = 1  # uid of the group that holds the definitions


class LogGroup(Protocol):
    """An ordered log of entries. Indexes are 1-based and ascending, without holes."""

    def propose(self, parts: Sequence[bytes]) -> int:
        """Append an entry, given in parts that are not joined; its index, if it gets committed.

        It is not durable and not applied on return; `on_committed` tells of both.
        """

    def barrier(self, callback: Callable[[], None]) -> None:
        """Call back when all that was proposed before is committed and was handed over."""

    def snapshot(self, index: int, state: Sequence[bytes]) -> None:
        """The state of the machine after applying `index`: the log up to there may go."""

"""Processes that queues led here are to hold suspended: their nodes cannot be reached.

Takes who cannot be reached (`reach`), which queue has come to be led here (`led`) and whose process
is gone (`ended`), and orders what follows from that: `Suspend`, `Unsuspend`, `EndProcess`. What a
machine holds suspended was ordered by the leader of that time, perhaps another node or an earlier
leadership of this one, of which the next order was lost: so who begins to lead compares the machine
with what this node sees, in both directions. All three commands may be given once too often.

Looks at queues only where something has changed. Not compiled.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Final, Protocol

from queues.machine.commands import Command, EndProcess, Suspend, Unsuspend

DISCONNECTED_MS: Final = 60_000  # what consumers of a quorum queue hold is then returned


class LedQueue(Protocol):
    """A queue that may be led here (`queues.hosts.quorum_member.QuorumMember`)."""

    @property
    def is_leading(self) -> bool: ...

    def processes(self) -> set[int]:
        """Of all sessions that the machine knows of."""

    def suspended(self) -> set[int]:
        """Those that the machine holds suspended, with sessions or without."""

    def order(self, command: Command) -> bool: ...


Patience = Callable[[LedQueue], int]


class Suspending:
    """See the module. Invariant: queues led here hold `_cut_off` suspended and no other, or an
    order that makes it so is on its way."""

    def __init__(
        self,
        queues: Mapping[int, LedQueue],
        is_known: Callable[[int], bool],
        patience_ms: Patience,
    ) -> None:
        """`is_known`: whether there is such a process, as far as this node has heard.
        `patience_ms`: how long consumers that cannot be reached keep messages of a queue."""
        self._queues = queues
        self._is_known = is_known
        self._patience_ms = patience_ms
        self._cut_off: set[int] = set()

    def reach(self, cut_off: set[int]) -> None:
        """These cannot be reached, all others can."""
        changed = cut_off ^ self._cut_off
        self._cut_off = cut_off
        if changed:
            # Whatever the machine has: the order before may still be on its way to it.
            for queue in self._queues.values():
                if queue.is_leading:
                    self._settle(queue, changed & (queue.processes() | queue.suspended()))

    def led(self, queue: LedQueue) -> None:
        """It is led here from now on, and knows all that was committed before."""
        suspended = queue.suspended()
        there = queue.processes() | suspended
        ended = {process for process in there if not self._is_known(process)}
        for process in sorted(ended):
            queue.order(EndProcess(process))
        wrong = suspended ^ (there & self._cut_off)
        self._settle(queue, wrong - ended)

    def ended(self, process: int) -> None:
        """There is no such process any more."""
        self._cut_off.discard(process)
        for queue in self._queues.values():
            if queue.is_leading and process in queue.processes() | queue.suspended():
                queue.order(EndProcess(process))

    def _settle(self, queue: LedQueue, processes: Iterable[int]) -> None:
        for process in sorted(processes):
            if process in self._cut_off:
                queue.order(Suspend(process, self._patience_ms(queue)))
            else:
                queue.order(Unsuspend(process))

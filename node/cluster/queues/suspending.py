"""Suspend the sessions of processes that this node cannot reach, in queues that it leads.

Takes which processes cannot be reached (`reach`), which queue this node begins to lead (`led`) and
which process has ended (`ended`), and orders `Suspend`, `Unsuspend` and `EndProcess`. The machine
may have suspended processes by order of an earlier leader whose next order was lost. A node that
begins to lead a queue therefore compares the machine with what it sees itself, in both directions.
The machine ignores a second order of the same kind.

Looks at queues only when something has changed. Not compiled.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, Protocol

from queues.machine.commands import Command, EndProcess, Suspend, Unsuspend

GIVEN_UP_MAX: Final = 1024  # processes that are remembered as given up
ENDED_MS: Final = 500  # of a mirrored queue, if the connection to their node has ended


class LedQueue(Protocol):
    """A queue that may be led here (`queues.hosts.quorum_member.QuorumMember`)."""

    @property
    def is_leading(self) -> bool: ...

    def processes(self) -> set[int]:
        """Of all sessions that the machine knows of."""

    def suspended(self) -> set[int]:
        """Those that the machine holds suspended, with sessions or without."""

    def order(self, command: Command) -> bool: ...


Patience = Callable[[LedQueue, bool], int]  # of a queue; whether the connection has ended


class Suspending:
    """See the module. Invariant: queues led here hold `_cut_off` suspended and no other, or an
    order that makes it so is on its way."""

    def __init__(
        self,
        queues: Sequence[Mapping[int, LedQueue]],
        is_known: Callable[[int], bool],
        patience_ms: Patience,
    ) -> None:
        """`queues`: by uid, of each kind.
        `is_known`: whether there is such a process, as far as this node has heard.
        `patience_ms`: how long consumers that cannot be reached keep messages of a queue. The
        machine keeps the first one that it was given."""
        self._queues = queues
        self._is_known = is_known
        self._patience_ms = patience_ms
        self._cut_off: set[int] = set()
        self._ended: set[int] = set()
        self._given_up: dict[int, None] = {}  # the oldest first

    def reach(self, cut_off: set[int], ended: set[int]) -> None:
        """These cannot be reached, all others can. `ended`: those whose connection has ended."""
        changed = cut_off ^ self._cut_off
        self._cut_off = cut_off
        self._ended = ended
        if changed:
            # Whatever the machine has: the order before may still be on its way to it.
            for queue in self._all():
                if queue.is_leading:
                    self._settle(queue, changed & (queue.processes() | queue.suspended()))

    def _all(self) -> Iterable[LedQueue]:
        for some in self._queues:
            yield from some.values()

    def led(self, queue: LedQueue) -> None:
        """It is led here from now on, and knows all that was committed before."""
        suspended = queue.suspended()
        there = queue.processes() | suspended
        ended = {process for process in there if not self._is_known(process)}
        for process in sorted(ended):
            queue.order(EndProcess(process, process in self._given_up))
        wrong = suspended ^ (there & self._cut_off)
        self._settle(queue, wrong - ended)

    def ended(self, process: int, is_given_up: bool = False) -> None:
        """There is no such process any more. `is_given_up`: it may live, but could not be reached
        for too long, which is no failed delivery of what its consumers held."""
        self._cut_off.discard(process)
        if is_given_up:
            self._given_up[process] = None
            if len(self._given_up) > GIVEN_UP_MAX:
                del self._given_up[next(iter(self._given_up))]
        for queue in self._all():
            if queue.is_leading and process in queue.processes() | queue.suspended():
                queue.order(EndProcess(process, is_given_up))

    def _settle(self, queue: LedQueue, processes: Iterable[int]) -> None:
        for process in sorted(processes):
            if process in self._cut_off:
                queue.order(Suspend(process, self._patience_ms(queue, process in self._ended)))
            else:
                queue.order(Unsuspend(process))

"""A mirror ring that has one member left becomes a classic queue of its node.

    disbanding = Disbanding(member, first_seq, turn, forget, done)
    disbanding.begin()     # `done` with the host that takes over

The log has the bodies of a mirrored queue under the numbers that a classic queue gives them, but
what is dead of them may be known to the machine alone: a mirror that joined again does not settle
what an earlier one had. So, once the member has applied everything (`QuorumMember.retire`), all
numbers below the next one are settled in the log that the queue does not have; they are not used
again. The delivered mark follows. When that is durable the snapshots of the group go (`forget`),
and with that the queue is a classic one: a start finds either a member of the ring, which has
taken nothing since, or a queue without one.
"""

from collections.abc import Callable
from typing import Final

from queues.hosts.classic import ClassicHost
from queues.hosts.host_interfaces import Steps
from queues.hosts.quorum_member import QuorumMember

SETTLED_MAX: Final = 4096  # ranges that are written in one turn
LOOK_MS: Final = 5  # between two looks at a member that has something to apply


class Disbanding:
    """See the module. `first_seq`: of the first message that the classic queue gets, unless the
    member has given that number itself, leading alone since it has restarted."""

    def __init__(
        self,
        member: QuorumMember,
        first_seq: int,
        turn: Steps,
        forget: Callable[[Callable[[], None]], None],
        done: Callable[[ClassicHost], None],
    ) -> None:
        self._member = member
        self._core = member.core
        self._first_seq = first_seq
        self._turn = turn
        self._forget = forget
        self._done = done
        self._host: ClassicHost | None = None  # once the member has applied everything
        self._dead: list[tuple[int, int]] = []  # to be settled, descending
        self._is_marked = False

    def begin(self) -> None:
        self._turn.mark_host_later(self)

    def step(self, now_ms: int) -> None:
        if self._core.is_gone or self._is_marked:
            return
        if self._host is None:
            if not self._member.retire():
                self._turn.wake_host(self, now_ms + LOOK_MS)
                return
            self._host = ClassicHost(self._core)
            self._find_dead()
        uid = int(self._core.uid)
        for first, count in self._dead[-SETTLED_MAX:]:
            self._core.journal.settle(uid, first, count)
        del self._dead[-SETTLED_MAX:]
        if not self._dead:
            self._is_marked = True
            self._core.journal.mark(uid, int(self._core.machine.delivered_high), self._host)
            self._core.journal.when_durable(self._written)
        self._turn.mark_host_later(self)  # A turn has to end for it.

    def _find_dead(self) -> None:
        """All numbers that no message of the queue has; no message waits for its entry any more."""
        core = self._core
        promises = core.promises
        assert promises is not None
        next_seq = max(self._first_seq, int(core.machine.next_seq))
        for first, count in promises.split_below(next_seq).runs():
            core.release_found(first, count)
        core.machine.next_seq = next_seq
        at = 1
        for first, count in core.live_ranges(1, next_seq - 1):
            if first > at:
                self._dead.append((at, first - at))
            at = first + count
        if next_seq > at:
            self._dead.append((at, next_seq - at))
        self._dead.reverse()

    def _written(self) -> None:
        if not self._core.is_gone:
            self._forget(self._forgotten)

    def _forgotten(self) -> None:
        host = self._host
        assert host is not None
        if not self._core.is_gone:
            self._done(host)

    @property
    def is_gone(self) -> bool:
        return self._core.is_gone

    def on_timer(self) -> None:
        self._turn.mark_host(self)

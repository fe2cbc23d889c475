"""Which mirrors are slow to sync what their left neighbour sends: publishers wait for them.

The node of the left neighbour notes the index of its newest entry, and how long the mirror takes to
acknowledge it. A mirror is slow when that takes SLOW_MS, and for QUIET_MS after the last such time.
Gets the time; no I/O.
"""

import logging
from collections.abc import Iterable
from typing import Final

from msgspec import Struct, field

from node.events.logs import ids_of
from queues.definitions.broker_objects import Queue

log = logging.getLogger("warren.mirroring")

SLOW_MS: Final = 500
QUIET_MS: Final = 5000


class _Wait(Struct):
    """For a mirror to acknowledge an entry; `member`: its node."""

    member: int
    index: int
    since_ms: int


class Lag(Struct, frozen=True):
    """How long an acknowledgement took, or has taken so far, and when that was seen."""

    lag_ms: int
    seen_ms: int


class SlowNode(Struct):
    """Mirrors of one node that are slow, by the uid of the queue."""

    queue: str  # one of them, for the operator
    lags: dict[int, Lag] = field(default_factory=dict)

    @property
    def lag_ms(self) -> int:
        return max((each.lag_ms for each in self.lags.values()), default=0)


class MirrorLags:
    """See the module."""

    def __init__(self) -> None:
        self.slow: dict[int, SlowNode] = {}  # by member
        self._waits: dict[int, _Wait] = {}  # by uid

    def look(
        self, queue: Queue, member: int, node: str, acked: int, last: int, now_ms: int
    ) -> None:
        """The mirror on that node has acknowledged the entries up to `acked` of `last`."""
        uid = int(queue.uid)
        if any(uid in slow.lags for other, slow in self.slow.items() if other != member):
            self.forget(uid)
        wait = self._waits.get(uid)
        if wait is not None and wait.member == member:
            lag = Lag(now_ms - wait.since_ms, now_ms)
            if lag.lag_ms >= SLOW_MS:
                self._begin(queue, member, node, lag)
            if acked < wait.index:
                return
            del self._waits[uid]
        if acked < last:
            self._waits[uid] = _Wait(member, last, now_ms)
        slow = self.slow.get(member)
        known = None if slow is None else slow.lags.get(uid)
        if known is not None and now_ms - known.seen_ms >= QUIET_MS:
            self._end(uid, member)
            if member not in self.slow:
                log.info("node %s: its mirrors of queues keep up again", node)

    def uids(self) -> Iterable[int]:
        """Of queues whose mirrors have something to acknowledge, or are slow."""
        return {*self._waits, *(uid for slow in self.slow.values() for uid in slow.lags)}

    def forget(self, uid: int) -> None:
        """This node has no mirror of the queue to the right any more, or another one."""
        self._waits.pop(uid, None)
        for member in [m for m, slow in self.slow.items() if uid in slow.lags]:
            self._end(uid, member)

    def _begin(self, queue: Queue, member: int, node: str, lag: Lag) -> None:
        slow = self.slow.get(member)
        if slow is None:
            slow = self.slow[member] = SlowNode(f"'{queue.name}' in vhost '{queue.vhost}'")
            log.warning(
                "queue '%s' in vhost '%s': the mirror on node %s has not synced messages for %d "
                "ms; publishers to mirrored queues wait for it; check the disk and the network of "
                "that node",
                *(queue.name, queue.vhost, node, lag.lag_ms),
                extra=ids_of(queue=queue.name, vhost=queue.vhost),
            )
        slow.lags[int(queue.uid)] = lag

    def _end(self, uid: int, member: int) -> None:
        slow = self.slow[member]
        del slow.lags[uid]
        if not slow.lags:
            del self.slow[member]

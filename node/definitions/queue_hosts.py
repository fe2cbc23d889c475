"""The queue hosts of this node, each made when it is first needed.

A host takes 12 KB, its queue's definition a tenth of that, and of very many queues most are at
rest: unused since they were declared, or since the start, and the log has no message
of theirs. Such a queue has no host. `hosts[uid]` gives it one, with the numbers that the log knew
of it; so its message_seqs go on where they were. Readers of counts alone use `awake`.
"""

from collections.abc import Callable

from queues.definitions.broker_objects import Queue
from queues.hosts.classic import ClassicHost

FindQueue = Callable[[int], Queue | None]
MakeHost = Callable[[Queue], ClassicHost]


class QueueHosts:
    """Invariant: `awake` and `_numbers` have no uid in common once the recovery is over."""

    def __init__(self, find: FindQueue, make: MakeHost) -> None:
        self.awake: dict[int, ClassicHost] = {}  # by uid of the queue
        self.find = find
        self._make = make
        self._numbers: dict[int, tuple[int, int]] = {}  # of those at rest: last message_seq, mark
        self._recovering = True

    def __contains__(self, uid: int) -> bool:
        return uid in self.awake or self.find(uid) is not None

    def __getitem__(self, uid: int) -> ClassicHost:
        return self.awake.get(uid) or self.wake(uid)

    def wake(self, uid: int) -> ClassicHost:
        """Give the queue a host. KeyError: there is no such queue."""
        queue = self.find(uid)
        if queue is None:
            raise KeyError(uid)
        return self.add(queue)

    def add(self, queue: Queue) -> ClassicHost:
        """Give the queue a host now."""
        host = self.awake[queue.uid] = self._make(queue)
        if not self._recovering and not host.quorum:
            self._begin(host)
        return host

    def _begin(self, host: ClassicHost) -> None:
        numbers = self._numbers.pop(host.uid, None)
        if numbers is None:
            host.begin()
        else:
            last_seq, mark = numbers
            host.recovered(last_seq, max(mark, 0), last_seq)  # It holds no message.

    def rest(self, last: dict[int, tuple[int, int]]) -> None:
        """The recovery is over; `last` is message_seq and mark (-1: none) by owner in the log."""
        self._numbers = {uid: found for uid, found in last.items() if uid not in self.awake}
        self._recovering = False

    def mark(self, uid: int) -> int:
        """The highest message_seq that was ever delivered."""
        host = self.awake.get(uid)
        if host is not None:
            return host.machine.delivered_high
        return max(0, self._numbers.get(uid, (0, 0))[1])

    def remove(self, queue: Queue) -> int:
        """The definition is gone; how many messages were ready."""
        host = self.awake.pop(queue.uid, None)
        if host is None:
            if self._numbers.pop(queue.uid, None) is None and not self._recovering:
                return 0  # The log knows nothing of it.
            host = self._make(queue)
        return host.delete()

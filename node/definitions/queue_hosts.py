"""The queues of this node that are in use: their cores, and the hosts of the classic ones.

A queue in use takes 12 KB, its definition a tenth of that, and of very many queues most are at
rest: unused since they were declared, or since the start, and the log has no message of theirs.
Such a queue has no core. `hosts[uid]` gives a classic queue one and a host, with the numbers that
the log knew of it; so its message_seqs go on where they were. Readers of counts use `awake` alone.
The hosts of replicated queues belong to the channel that keeps their groups.
"""

from collections.abc import Callable

from queues.definitions.broker_objects import Queue
from queues.hosts.classic import ClassicHost
from queues.hosts.queue_core import QueueCore

FindQueue = Callable[[int], Queue | None]
MakeCore = Callable[[Queue], QueueCore]


class QueueHosts:
    """Invariant: `awake` and `_numbers` have no uid in common once the recovery is over; `classic`
    has the classic queues of `awake`."""

    def __init__(self, find: FindQueue, make: MakeCore) -> None:
        self.awake: dict[int, QueueCore] = {}  # by uid of the queue, whatever its type
        self.classic: dict[int, ClassicHost] = {}
        self.find = find
        self._make = make
        self._numbers: dict[int, tuple[int, int]] = {}  # of those at rest: last message_seq, mark
        self._recovering = True

    def __contains__(self, uid: int) -> bool:
        return uid in self.awake or self.find(uid) is not None

    def __getitem__(self, uid: int) -> ClassicHost:
        return self.classic.get(uid) or self.wake(uid)

    def core(self, uid: int) -> QueueCore:
        """The core of a queue; a classic one is given a host now. KeyError: no such queue."""
        return self.awake.get(uid) or self.wake(uid).core

    def wake(self, uid: int) -> ClassicHost:
        """Give the classic queue a host. KeyError: there is no such queue."""
        queue = self.find(uid)
        if queue is None:
            raise KeyError(uid)
        return self.add(queue)

    def add(self, queue: Queue) -> ClassicHost:
        """Give the classic queue a host now."""
        host = self.classic[queue.uid] = ClassicHost(self.add_core(queue))
        if not self._recovering:
            self._begin(host)
        return host

    def add_core(self, queue: Queue) -> QueueCore:
        """Give the queue a core; the caller makes the host around it.

        A new member begins without messages: what a start found of the queue here, as of a mirror
        that had left, goes.
        """
        before = self.awake.pop(queue.uid, None)
        if before is not None:
            self.classic.pop(queue.uid, None)
            before.delete([], False)
        core = self.awake[queue.uid] = self._make(queue)
        return core

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
        core = self.awake.get(uid)
        if core is not None:
            return core.machine.delivered_high
        return max(0, self._numbers.get(uid, (0, 0))[1])

    def is_used(self, uid: int) -> bool:
        """Whether a classic queue has a host, or the log has given numbers to its messages."""
        return uid in self.classic or uid in self._numbers

    def give_core(self, uid: int) -> QueueCore:
        """Take the core from the host of a classic queue: another host has it from now on."""
        del self.classic[uid]
        return self.awake[uid]

    def take_core(self, host: ClassicHost) -> None:
        """The core of a mirrored queue has this host from now on."""
        assert self.awake[host.uid] is host.core
        self.classic[host.uid] = host

    def remove(self, queue: Queue) -> int:
        """The definition is gone; how many messages were ready."""
        core = self.awake.pop(queue.uid, None)
        host = self.classic.pop(queue.uid, None)
        if host is not None:
            return host.delete()
        if core is None:
            if self._numbers.pop(queue.uid, None) is None and not self._recovering:
                return 0  # The log knows nothing of it.
            core = self._make(queue)
        return core.delete([], True)

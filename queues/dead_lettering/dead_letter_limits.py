"""What bounds dead-lettering on a node: letters of a turn, hops of a message, resource alarms.

Pure, compiled.

A queue that expires into a fanout exchange copies each message to all queues of that exchange. If
these do the same, one message becomes millions of copies before the cycle rule ends each chain.
So the work of one turn of the loop is bounded, and letters wait in their queue while an alarm is
set and they would make it worse:

- low on memory: letters that go to two queues or more. A letter to one queue replaces its message.
- low on disk: also persistent letters to one queue, for each of them is written to the log again.
  Letters of messages that are not persistent are held last.

Letters without a queue to go to are never held; dropping them frees space.
"""

from collections.abc import Callable
from typing import Final, final

from mypy_extensions import i64

from queues.dead_lettering.dead_letters import REJECTED, Death
from queues.routing.pace import RoutingPace

WORK_PER_TURN: Final = 8192  # of `cost_of`
CHUNK_COST: Final = 7  # of a chunk for one queue, besides 1 for each message in it
HOPS_MAX: Final = 32  # NServiceBus sends a delayed message through up to 28 queues


def _never() -> bool:
    return False


def _no_time() -> float:
    return 0.0


@final
class DeadLetterLimits:
    """One object per node. The turn calls `begin_turn`; alarms set the two flags."""

    def __init__(
        self,
        work_per_turn: int = WORK_PER_TURN,
        hops_max: int = HOPS_MAX,
        is_late: Callable[[], bool] = _never,
        routing: RoutingPace | None = None,
    ) -> None:
        self.routing = routing or RoutingPace(_no_time)
        self.is_late = is_late  # the turn takes long already, for instance by routing letters
        self.hops_max = hops_max
        self.low_memory = False
        self.low_disk = False
        self._work_per_turn: i64 = work_per_turn
        self._room: i64 = work_per_turn

    def begin_turn(self) -> None:
        self._room = self._work_per_turn

    def messages(self, cost: i64) -> i64:
        """How many messages may still be published in this turn, each at this cost."""
        if self._room <= 0 or self.routing.is_spent():
            return 0
        return 1 if self.is_late() else max(self._room // cost, 1)

    def is_wide(self, queue_count: i64) -> bool:
        """Whether letters to so many queues are handed over in several turns."""
        return queue_count > self.routing.hand_overs.narrow

    def queues(self, message_count: i64, width: i64) -> i64:
        """To how many of `width` queues a chunk of so many letters may go now."""
        some = max(self._room // cost_of(message_count, 1), 1)
        return min(some, self.routing.hand_overs.offer(width))

    def spend(self, cost: i64) -> None:
        self._room -= cost

    def spend_wide(self, queue_count: i64) -> None:
        """So many queues got letters that `is_wide` is true of."""
        self.routing.hand_overs.left -= queue_count

    def holds(self, is_persistent: bool, queue_count: i64) -> bool:
        """Whether a letter to so many queues waits until an alarm is over."""
        if queue_count > 1:
            return self.low_memory or self.low_disk
        return queue_count == 1 and is_persistent and self.low_disk


def cost_of(message_count: i64, queue_count: i64) -> i64:
    """The cost of publishing a chunk of so many letters to so many queues; no queue costs too."""
    return max(queue_count, 1) * (message_count + CHUNK_COST)


def hops_of(deaths: list[Death]) -> int:
    """Count the dead-letter hops since a client last rejected the message; newest death first.

    Like the cycle rule, this leaves retry loops alone in which a consumer rejects the message.
    """
    hops = 0
    for _, reason in deaths:
        if reason == REJECTED:
            break
        hops += 1
    return hops

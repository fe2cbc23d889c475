"""A session that is gone takes leave of its queues, some of them in each turn.

A channel may have used tens of thousands of queues, and each has something to do when it goes: what
it held there goes back, and its consumers are counted out. No more than QUEUES_MAX learn it in one
turn, and no more of its consumers are reported as gone. Until its turn comes a queue may go on
delivering to the session, which lets that fall; all of it goes back with the rest. A queue that is
gone itself by then does not mind.
"""

from collections.abc import Callable
from typing import Final

from queues.hosts.host_interfaces import Steppable
from queues.machine.commands import EndSession
from queues.queue_host import QueueHost, SessionSink

QUEUES_MAX: Final = 512


class SessionCleanup:
    """See the module; it is stepped as a queue is."""

    def __init__(
        self,
        sink: SessionSink,
        hosts: list[QueueHost],
        step_later: Callable[[Steppable], None],
        consumer_count: int = 0,
        tell_consumers: Callable[[int, int], None] | None = None,
    ) -> None:
        """`tell_consumers` hears of consumers begin..end-1, until all of them were reported."""
        self._sink = sink
        self._hosts = hosts
        self._step_later = step_later
        self._consumer_count = consumer_count
        self._tell_consumers = tell_consumers
        self._told = 0

    def step(self, now_ms: int) -> None:
        begin = self._told
        self._told = begin + QUEUES_MAX
        for host in self._hosts[begin : self._told]:
            host.command(self._sink, EndSession(self._sink.session))
        if self._tell_consumers is not None and begin < self._consumer_count:
            self._tell_consumers(begin, min(self._told, self._consumer_count))
        if self._told < max(len(self._hosts), self._consumer_count):
            self._step_later(self)

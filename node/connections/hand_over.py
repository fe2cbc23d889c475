"""A message for very many queues is handed to some of them in each turn.

`start_hand_over` is called when a `Publisher` is behind after a publish. Messages that the
publisher takes meanwhile are handed over after it, so that each queue gets them in their order.
"""

from collections.abc import Callable
from typing import Protocol

from queues.hosts.host_interfaces import Steppable
from queues.sessions.publishing import Publisher


class Turns(Protocol):
    """The turn of the node (`node.turn.Turn`)."""

    def begin(self) -> None: ...

    def mark_host_later(self, host: Steppable) -> None: ...

    def between_steps(self, call: Callable[[], None]) -> None: ...


class HandOver:
    """See the module; it is stepped as a queue is."""

    def __init__(self, publisher: Publisher, turn: Turns, done: Callable[[], None]) -> None:
        self._publisher = publisher
        self._turn = turn
        self._done = done

    def step(self, now_ms: int) -> None:
        self._turn.between_steps(self._go_on)

    def _go_on(self) -> None:
        self._publisher.hand_on()
        if self._publisher.is_behind:
            self.wait()
        else:
            self._done()

    def wait(self) -> None:
        self._turn.mark_host_later(self)
        self._turn.begin()


def start_hand_over(publisher: Publisher, turn: Turns, done: Callable[[], None]) -> None:
    """Hand over the rest in the turns that follow, then call `done`. Once for each publisher until
    then."""
    HandOver(publisher, turn, done).wait()

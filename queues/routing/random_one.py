"""Exchange kinds `x-random` and `x-local-random`: one destination at random. Compiled.

Each destination is as likely as any other, however many bindings lead there. The local one draws
among queues with their leader on this node; if there is none, it finds nothing.
"""

from typing import Final, final

from queues.definitions.broker_objects import Binding, Destination
from queues.routing.content import Content
from queues.routing.outside import Outside


@final
class RandomOne:
    """Targets, each with the number of bindings that lead there. Invariant: no number is 0."""

    per_message: Final = True
    by_key: Final = False

    def __init__(self, outside: Outside, local: bool) -> None:
        self._outside = outside
        self._local = local
        self._targets: dict[int, int] = {}
        self._order: list[int] = []  # the same targets; empty after a change

    def add(self, binding: Binding) -> str:
        target = binding.target
        self._targets[target] = self._targets.get(target, 0) + 1
        self._order = []
        return ""

    def remove(self, binding: Binding) -> None:
        target = binding.target
        self._targets[target] -= 1
        if self._targets[target] == 0:
            del self._targets[target]
            self._order = []

    def match(self, key: bytes, content: Content, found: set[int]) -> None:
        if not self._order:
            self._order = list(self._targets)
        order = self._order
        if self._local:
            order = [each for each in order if self._outside.locality.is_local(each)]
        if order:
            found.add(order[self._outside.lots.randrange(len(order))])

    def is_empty(self) -> bool:
        return not self._targets


def local_binding_fault(kind: Destination, key: bytes) -> str | None:
    """Why a local random exchange takes no such binding; None if it does."""
    if key:
        shown = key.decode("utf-8", "replace")
        return f"Non empty binding '{shown}' key not permitted"
    return None if kind is Destination.QUEUE else "Destination not found"

"""Exchange kind `fanout`: every binding, whatever the routing key. Compiled."""

from typing import Final, final

from queues.definitions.broker_objects import Binding
from queues.routing.content import Content


@final
class Fanout:
    """Targets, each with the number of bindings that lead there. Invariant: no number is 0."""

    per_message: Final = False
    by_key: Final = False

    def __init__(self) -> None:
        self._targets: dict[int, int] = {}

    def add(self, binding: Binding) -> str:
        target = binding.target
        self._targets[target] = self._targets.get(target, 0) + 1
        return ""

    def remove(self, binding: Binding) -> None:
        target = binding.target
        self._targets[target] -= 1
        if self._targets[target] == 0:
            del self._targets[target]

    def match(self, key: bytes, content: Content, found: set[int]) -> None:
        found.update(self._targets)

    def is_empty(self) -> bool:
        return not self._targets

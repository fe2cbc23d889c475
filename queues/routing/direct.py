"""Exchange kind `direct`: bindings whose key equals the routing key. Compiled."""

from typing import Final, final

from queues.definitions.broker_objects import Binding
from queues.routing.content import Content

Targets = int | dict[int, int]


@final
class Direct:
    """Targets by binding key: one that is bound once, as most are, or else how often each is.

    Invariant: no inner dict is empty, no number is 0.
    """

    per_message: Final = False
    by_key: Final = True

    def __init__(self) -> None:
        self._targets: dict[bytes, Targets] = {}

    def add(self, binding: Binding) -> str:
        self.add_target(binding.binding_key, binding.target)
        return ""

    def remove(self, binding: Binding) -> None:
        self.remove_target(binding.binding_key, binding.target)

    def add_target(self, key: bytes, target: int) -> None:
        targets = self._targets.get(key)
        if targets is None:
            self._targets[key] = target
            return
        if not isinstance(targets, dict):
            targets = self._targets[key] = {targets: 1}
        targets[target] = targets.get(target, 0) + 1

    def remove_target(self, key: bytes, target: int) -> None:
        targets = self._targets[key]
        if not isinstance(targets, dict):
            del self._targets[key]
            return
        targets[target] -= 1
        if targets[target] == 0:
            del targets[target]
            if not targets:
                del self._targets[key]

    def match(self, key: bytes, content: Content, found: set[int]) -> None:
        targets = self._targets.get(key)
        if targets is None:
            return
        if isinstance(targets, dict):
            found.update(targets)
        else:
            found.add(targets)

    def is_empty(self) -> bool:
        return not self._targets

"""Exchange kind `direct`: bindings whose key equals the routing key (E-10). Compiled."""

from typing import Final, final

from queues.definitions import Binding
from queues.routing.content import Content


@final
class Direct:
    """Targets by binding key; the number says how many bindings lead there.

    Invariant: no inner dict is empty, no number is 0.
    """

    per_message: Final = False
    by_key: Final = True

    def __init__(self) -> None:
        self._targets: dict[bytes, dict[int, int]] = {}

    def add(self, binding: Binding) -> str:
        self.add_target(binding.binding_key, binding.target)
        return ""

    def remove(self, binding: Binding) -> None:
        self.remove_target(binding.binding_key, binding.target)

    def add_target(self, key: bytes, target: int) -> None:
        targets = self._targets.setdefault(key, {})
        targets[target] = targets.get(target, 0) + 1

    def remove_target(self, key: bytes, target: int) -> None:
        targets = self._targets[key]
        targets[target] -= 1
        if targets[target] == 0:
            del targets[target]
            if not targets:
                del self._targets[key]

    def match(self, key: bytes, content: Content, found: set[int]) -> None:
        targets = self._targets.get(key)
        if targets is not None:
            found.update(targets)

    def is_empty(self) -> bool:
        return not self._targets

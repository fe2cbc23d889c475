"""Exchange kind `x-modulus-hash`: the routing key's hash, modulo the number of bindings.

Bindings count in the order of their destinations' names, so that a key goes to the same one after
a restart and on every node; when a binding comes or goes, most keys move. Compiled.
"""

from typing import Final, final

from queues.definitions.broker_objects import Binding
from queues.routing.consistent_hash import label
from queues.routing.content import Content
from queues.routing.hashing import key_hash


@final
class ModulusHash:
    """Invariant: `_order` is empty, or holds the targets of all bindings in their order."""

    per_message: Final = False
    by_key: Final = False

    def __init__(self) -> None:
        self._bindings: dict[int, tuple[bytes, int]] = {}  # by uid: destination and target
        self._order: list[int] = []

    def add(self, binding: Binding) -> str:
        self._bindings[binding.uid] = (label(binding), binding.target)
        self._order = []
        return ""

    def remove(self, binding: Binding) -> None:
        del self._bindings[binding.uid]
        self._order = []

    def match(self, key: bytes, content: Content, found: set[int]) -> None:
        if not self._bindings:
            return
        if not self._order:
            self._order = [target for _, target in sorted(self._bindings.values())]
        found.add(self._order[key_hash(key) % len(self._order)])

    def is_empty(self) -> bool:
        return not self._bindings

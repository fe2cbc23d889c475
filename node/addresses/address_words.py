"""What one node says of an address to the others, and what all of them say together."""

from collections.abc import Sequence
from typing import Final

import msgspec

WORDS_MAX: Final = 4096  # in one frame; addresses beyond that count for other nodes as empty

NO_SUMS: Final = (0, 0, 0, 0)

Place = tuple[str, str, str]  # vhost, kind, name


class AddressWord(msgspec.Struct, frozen=True, array_like=True):
    """`held`: by queues that the node leads. `due`: on its way to queues of other nodes."""

    vhost: str
    kind: str
    name: str
    held_bytes: int
    held_count: int
    due_bytes: int
    due_count: int
    is_active: bool  # publishers of the node use the address
    is_node_full: bool = False  # the node has some of its queues, and its global size is reached

    @property
    def place(self) -> Place:
        return self.vhost, self.kind, self.name

    def is_wrong(self) -> bool:
        return min(self.held_bytes, self.held_count, self.due_bytes, self.due_count) < 0


class Heard:
    """Invariant: `_sums` has bytes, messages, publishing and full nodes of all words in
    `_words`."""

    def __init__(self) -> None:
        self._words: dict[int, dict[Place, AddressWord]] = {}  # by member
        self._sums: dict[Place, tuple[int, int, int, int]] = {}

    def hear(self, member: int, words: Sequence[AddressWord]) -> None:
        """All that the member says now."""
        if words:
            self._words[member] = {each.place: each for each in words}
        else:
            self._words.pop(member, None)
        self._sums = {}
        for those in self._words.values():
            for place, each in those.items():
                size, count, active, full = self._sums.get(place, NO_SUMS)
                self._sums[place] = (
                    size + each.held_bytes + each.due_bytes,
                    count + each.held_count + each.due_count,
                    active + each.is_active,
                    full + each.is_node_full,
                )

    def places(self) -> list[Place]:
        """Of which another node has spoken."""
        return list(self._sums)

    def size_of(self, place: Place) -> tuple[int, int]:
        """Bytes and messages."""
        return self._sums.get(place, NO_SUMS)[:2]

    def active_count(self, place: Place) -> int:
        """How many other nodes have publishers that use the address."""
        return self._sums.get(place, NO_SUMS)[2]

    def is_node_full(self, place: Place) -> bool:
        """Whether a node that has queues of the address holds as much as it may."""
        return self._sums.get(place, NO_SUMS)[3] > 0

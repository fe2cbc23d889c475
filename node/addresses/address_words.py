"""What one node says of an address to the others, and what all of them say together."""

from collections.abc import Sequence
from typing import Final

import msgspec

WORDS_MAX: Final = 4096  # in one frame; addresses beyond that count for other nodes as empty

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

    @property
    def place(self) -> Place:
        return self.vhost, self.kind, self.name

    def is_wrong(self) -> bool:
        return min(self.held_bytes, self.held_count, self.due_bytes, self.due_count) < 0


class Heard:
    """Invariant: `_sums` has bytes, messages and publishing nodes of all words in `_words`."""

    def __init__(self) -> None:
        self._words: dict[int, dict[Place, AddressWord]] = {}  # by member
        self._sums: dict[Place, tuple[int, int, int]] = {}

    def hear(self, member: int, words: Sequence[AddressWord]) -> None:
        """All that the member says now."""
        if words:
            self._words[member] = {each.place: each for each in words}
        else:
            self._words.pop(member, None)
        self._sums = {}
        for those in self._words.values():
            for place, each in those.items():
                size, count, active = self._sums.get(place, (0, 0, 0))
                self._sums[place] = (
                    size + each.held_bytes + each.due_bytes,
                    count + each.held_count + each.due_count,
                    active + each.is_active,
                )

    def places(self) -> list[Place]:
        """Of which another node has spoken."""
        return list(self._sums)

    def size_of(self, place: Place) -> tuple[int, int]:
        """Bytes and messages."""
        size, count, _ = self._sums.get(place, (0, 0, 0))
        return size, count

    def active_count(self, place: Place) -> int:
        """How many other nodes have publishers that use the address."""
        return self._sums.get(place, (0, 0, 0))[2]

"""How much one node's publishers may add to an address between two rounds of words. Pure.

Every node hears ten times a second what queues of the address hold on other nodes, and what is
under way to them. Until it hears again, it may use a part of the room that it knows of, so that a
message needs no round trip. With `others` nodes that publish to the address as well, the part is
one of `3 * (others + 1)`: words are up to two rounds old, so each node may use up its part three
times before the others hear of it, and all of them together use the room and no more. A node that
begins to publish is unknown to the others for as long: until then its part is at most a slice, a
sixteenth of the limit. The address exceeds its limit by at most ROUNDS slices for each node that
begins to publish, and the last batch of each publisher.
"""

from typing import Final, final

ROUNDS: Final = 3  # that pass until all nodes have surely heard
IDLE_ROUNDS: Final = 10  # without a publish; then the node counts as one that does not publish
SLICES: Final = 16
UNLIMITED: Final = 1 << 62


@final
class Share:
    """Invariant: `told_rounds` counts rounds in which the others got a word that we publish."""

    def __init__(self) -> None:
        self.bytes_left = UNLIMITED
        self.count_left = UNLIMITED
        self.told_rounds = 0
        self._idle_rounds = IDLE_ROUNDS

    @property
    def is_active(self) -> bool:
        """Whether publishers of this node have added something lately."""
        return self._idle_rounds < IDLE_ROUNDS

    def spend(self, size: int, count: int) -> None:
        """Publishers of this node have added so much."""
        self._idle_rounds = 0
        self.bytes_left -= size
        self.count_left -= count

    def is_spent(self) -> bool:
        return self.bytes_left <= 0 or self.count_left <= 0

    def begin_round(
        self, limits: tuple[int, int], room: tuple[int, int], others: int, peers: int
    ) -> None:
        """Words were sent and received. `limits`, `room`: bytes and messages, a negative limit is
        none. `others`: other nodes that publish to the address; `peers`: all that are reachable."""
        if self.is_active:
            self.told_rounds += 1
            self._idle_rounds += 1
        else:
            self.told_rounds = 0
        # What the last batches took beyond the part is not given again.
        self.bytes_left = self._part(limits[0], room[0], others, peers) + min(self.bytes_left, 0)
        self.count_left = self._part(limits[1], room[1], others, peers) + min(self.count_left, 0)

    def _part(self, limit: int, room: int, others: int, peers: int) -> int:
        if limit < 0 or peers == 0:
            return UNLIMITED
        is_known = self.told_rounds >= ROUNDS
        if is_known and others == 0:
            return UNLIMITED  # The size alone decides.
        part = -(-max(room, 0) // (ROUNDS * (others + 1)))
        return part if is_known else min(part, max(1, limit // SLICES))

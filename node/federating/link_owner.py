"""Which shovels and links this node runs: each of them on one node of the cluster.

Links are spread over SLOTS by a hash of their names, and a slot is a job of coordination: the node
that holds it runs its links. A slot without holder is claimed by the node that a hash of slot and
member chooses among those that are alive and not draining. When a holder dies, that node does not
wait until coordination takes the job away, which lasts up to ten seconds: it runs the links at
once. Two nodes may run a link for a moment; that costs duplicates at most.

Without coordination the leader of the definitions runs all links. While coordination has no
quorum, links stay where they are.
"""

import hashlib
from collections.abc import Callable, Iterable, Sequence
from typing import Final

from msgspec import Struct

from node.cluster.coordination.coordination_interface import Coordination

SLOTS: Final = 64
JOB: Final = "links/{}"


class Members(Struct, frozen=True):
    """The cluster as this node sees it."""

    here: int
    members: Sequence[int]
    eligible: frozenset[int]  # alive and not draining
    leads_definitions: bool


def slot_of(link: str) -> int:
    return hashlib.blake2b(link.encode(), digest_size=2).digest()[0] % SLOTS


def chosen(slot: int, eligible: Iterable[int]) -> int:
    """The member that the slot falls to; 0: there is none."""

    def weight(member: int) -> bytes:
        return hashlib.blake2b(f"{slot}/{member}".encode(), digest_size=8).digest()

    return max(eligible, key=weight, default=0)


class LinkOwner:
    """Invariant: `_claimed` are the slots that this node has claimed and not released."""

    def __init__(self, coordination: Coordination, look: Callable[[], Members]) -> None:
        self._coordination = coordination
        self._look = look
        self._claimed: set[int] = set()
        self._fencing: dict[int, int] = {}
        self._was_running = False
        self._here: frozenset[int] = frozenset()  # slots as decided last

    def fencing(self, slot: int) -> int:
        """The number of this node's hold; 0: it has none."""
        return self._fencing.get(slot, 0)

    def decide(self, slots: Iterable[int]) -> frozenset[int]:
        """Those of the slots, which have links, that this node runs now."""
        wanted = frozenset(slots)
        self._was_running = self._was_running or self._coordination.is_running
        if not wanted and not self._claimed:  # As in most clusters, several times a second.
            self._here = wanted
            return wanted
        view = self._look()
        if view.here not in view.eligible:
            found: frozenset[int] = frozenset()
        elif len(view.members) <= 1:
            found = wanted
        elif self._coordination.is_running:
            found = frozenset(each for each in wanted if self._is_here(each, view))
        elif self._was_running:
            found = wanted & self._here
        else:
            found = wanted if view.leads_definitions else frozenset()
        self._claim(wanted, found, view)
        self._here = found
        return found

    def stop(self) -> None:
        for slot in self._claimed:
            self._coordination.release(JOB.format(slot))
        self._claimed = set()
        self._here = frozenset()

    def _is_here(self, slot: int, view: Members) -> bool:
        holding = self._coordination.holder(JOB.format(slot))
        if holding is None:
            return False  # Claimed below; it is this node's with the next beat.
        if holding.member in view.eligible:
            return holding.member == view.here
        return chosen(slot, view.eligible) == view.here

    def _claim(self, wanted: frozenset[int], found: frozenset[int], view: Members) -> None:
        is_eligible = view.here in view.eligible
        claimed = {
            each
            for each in wanted
            if is_eligible and (each in found or self._falls_here(each, view))
        }
        for slot in self._claimed - claimed:
            self._fencing.pop(slot, None)
            self._coordination.release(JOB.format(slot))
        for slot in claimed - self._claimed:
            self._coordination.claim(JOB.format(slot), self._teller(slot))
        self._claimed = claimed

    def _falls_here(self, slot: int, view: Members) -> bool:
        holding = self._coordination.holder(JOB.format(slot))
        is_free = holding is None or holding.member not in view.eligible
        return is_free and chosen(slot, view.eligible) == view.here

    def _teller(self, slot: int) -> Callable[[int | None], None]:
        def told(fencing: int | None) -> None:
            if fencing is None:
                self._fencing.pop(slot, None)
            else:
                self._fencing[slot] = fencing

        return told

"""What can be said of the members of one group, all together."""

from collections.abc import Iterable, Mapping, Sequence

from raft.status import LEADER
from tests.sim.raft.member import Member
from tests.sim.raft.truth import Truth


def up(members: Iterable[Member]) -> list[Member]:
    return [member for member in members if member.core is not None]


def leaders(members: Iterable[Member]) -> list[Member]:
    return [m for m in members if m.core is not None and m.core.role == LEADER]


def leader(members: Iterable[Member]) -> Member | None:
    """Of the highest term."""
    found = leaders(members)
    return max(found, key=lambda m: m.core.term if m.core else 0) if found else None


def is_settled(members: Mapping[int, Member], truth: Truth) -> bool:
    """All members have the same, know it, and may be left alone."""
    first = leader(members.values())
    if first is None or first.core is None:
        return False
    last = truth.commit_index
    for number in first.core.config.members():
        member = members.get(number)
        core = None if member is None else member.core  # None: it is still to be made.
        if member is None or core is None or not core.is_idle or member.machine.index != last:
            return False
        if core.last_index != last or core.leader != first.number:
            return False
    return not first.core.config.joining


def check_alike(members: Mapping[int, Member]) -> None:
    """They are settled: all have applied the same, and have what is alive."""
    first = leader(members.values())
    assert first is not None and first.core is not None
    for number in first.core.config.members():
        member = members[number]
        assert member.state == first.state, f"{number} and {first.number} differ"
        member.check_bodies()


def propose(
    members: Mapping[int, Member], parts: Sequence[bytes], attached: Sequence[bytes]
) -> bool:
    """Of the leader, if there is one, and it takes it."""
    first = leader(members.values())
    if first is None or first.core is None:
        return False
    taken = first.propose(parts, attached)
    first.act()
    return taken is not None


def describe(members: Mapping[int, Member]) -> list[str]:
    """A line for each."""
    lines = []
    for number, member in members.items():
        core = member.core
        lines.append(
            f"  {number} down"
            if core is None
            else f"  {number} role {core.role} term {core.term} leader {core.leader}"
            f" commit {core.commit_index} applied {core.applied_index} last {core.last_index}"
            f" durable {core.durable_index} {core.config} idle {core.is_idle}"
        )
    return lines


class Heard:
    """When what a leader sent, and its members have got, left it: for reads."""

    def __init__(self) -> None:
        self._sent: dict[tuple[int, int, int], int] = {}  # leader, term, who heard: sent when

    def note(self, leader: int, term: int, member: int, sent_at: int) -> None:
        key = (leader, term, member)
        self._sent[key] = max(sent_at, self._sent.get(key, 0))

    def by_majority(self, leader: int, term: int, since: int, voters: Sequence[int]) -> bool:
        """Whether a majority got what the leader sent since then, and still was of its term."""
        count = 0
        for voter in voters:
            count += voter == leader or self._sent.get((leader, term, voter), -1) >= since
        return 2 * count > len(voters)

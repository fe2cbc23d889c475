"""Where the members of a quorum queue and the home of a classic queue are put.

Takes the nodes of the cluster as `Candidate`s, with how much each of them bears; gives member ids.
Members are spread over distinct machines (`host_id`) first, then over zones, then over the nodes
that bear the fewest. A queue may name a tag of the nodes (`x-member-placement-tag`): its members
are spread over distinct values of that before anything else; nodes without it share one value.
The leader begins where the client is (`client-local`), or on the node that leads the fewest queues
(`balanced`, and its older names); above QUEUES_COUNTED_MAX queues in the cluster that is a node by
lot, for there the counts even out by themselves. A node that is being drained gets nothing new.
Nodes that are down get members where there are too few others, as long as those that run are a
majority: such a member begins when its node is back.

Pure: lots are drawn from the `Lots` that are handed in. Not compiled: asked once for a declare.
"""

from collections.abc import Sequence
from typing import Any, Final, Protocol, TypeVar

from msgspec import Struct

from queues.definitions.members import Member

T = TypeVar("T")

CLIENT_LOCAL: Final = "client-local"
QUEUES_COUNTED_MAX: Final = 1000
GROUP_SIZE_DEFAULT: Final = 3


class Lots(Protocol):
    """What is needed of `random.Random`."""

    def choice(self, seq: Sequence[T], /) -> T: ...

    def shuffle(self, x: list[Any], /) -> None: ...


class Candidate(Struct, frozen=True):
    """One node, as placement sees it."""

    member: Member
    is_running: bool = True  # the failure detector trusts it
    member_count: int = 0  # members of quorum queues that it has
    leader_count: int = 0  # leaders that it has, and homes of classic queues

    @property
    def id(self) -> int:
        return self.member.id

    @property
    def is_eligible(self) -> bool:
        """Whether it may lead something new."""
        return self.is_running and not self.member.draining


class Choice(Struct, frozen=True):
    """Members of a new quorum queue. The leader begins on the first one."""

    members: tuple[int, ...]
    warning: str = ""  # what falls short, for the log and for operators; "": nothing does


def choose_members(
    candidates: Sequence[Candidate],
    size: int,
    here: int,
    locator: str,
    queue_count: int,
    random: Lots,
    tag: str = "",
) -> Choice:
    """Members of a new queue of that size, declared on node `here`. Never empty: a cluster in which
    no node may take anything new has it on `here` alone. `tag`: see the module; "": none."""
    assert size > 0
    leader = choose_home(candidates, here, locator, queue_count, random)
    by_id = {each.id: each for each in candidates}
    chosen = [by_id[leader]] if leader in by_id else []
    if not chosen:
        return Choice((leader,), _shortage(1, size))
    running = [each for each in candidates if each.is_eligible and each.id != leader]
    _spread(chosen, running, size, random, tag)
    missing = size - len(chosen)
    down = [each for each in candidates if not each.is_running and not each.member.draining]
    _spread(chosen, down, len(chosen) + min(missing, len(chosen) - 1), random, tag)
    members = tuple(each.id for each in chosen)
    warning = spread_warning([each.member for each in chosen], candidates, size, tag)
    return Choice(members, warning)


def choose_home(
    candidates: Sequence[Candidate], here: int, locator: str, queue_count: int, random: Lots
) -> int:
    """Where a classic queue lives that is declared on `here`, or where a quorum queue is led."""
    eligible = [each for each in candidates if each.is_eligible]
    if not eligible:
        return here
    if locator == CLIENT_LOCAL and any(each.id == here for each in eligible):
        return here
    if queue_count > QUEUES_COUNTED_MAX:
        return random.choice(eligible).id
    least = min(each.leader_count for each in eligible)
    fewest = [each.id for each in eligible if each.leader_count == least]
    return here if here in fewest else random.choice(fewest)


def add_member(
    candidates: Sequence[Candidate], members: Sequence[int], random: Lots, tag: str = ""
) -> int | None:
    """The node on which one more member of a queue is best; None: there is none that runs."""
    by_id = {each.id: each for each in candidates}
    chosen = [by_id[member] for member in members if member in by_id]
    free = [each for each in candidates if each.is_eligible and each.id not in members]
    if not free:
        return None
    _spread(chosen, free, len(chosen) + 1, random, tag)
    return chosen[-1].id


def _spread(
    chosen: list[Candidate], pool: Sequence[Candidate], size: int, random: Lots, tag: str
) -> None:
    """Add to `chosen` from the pool, each time the one that shares least, up to that size."""
    left = list(pool)
    random.shuffle(left)
    while left and len(chosen) < size:
        best = min(left, key=lambda each: _rank(each, chosen, tag))
        left.remove(best)
        chosen.append(best)


def _rank(candidate: Candidate, chosen: Sequence[Candidate], tag: str) -> tuple[int, int, int, int]:
    """How much it would share with those that are chosen; less is better."""
    host, zone = host_of(candidate.member), candidate.member.zone
    value = tag_of(candidate.member, tag)
    return (
        sum(tag_of(each.member, tag) == value for each in chosen) if tag else 0,
        sum(host_of(each.member) == host for each in chosen),
        sum(each.member.zone == zone for each in chosen),
        candidate.member_count,
    )


def host_of(member: Member) -> str:
    """The machine of a node; one that says nothing of it is taken to have one of its own."""
    return member.host_id or f"\0{member.id}"


def tag_of(member: Member, key: str) -> str:
    """What the node says of itself under that key; its machine and zone are tags, too."""
    found = dict(member.tags).get(key)
    if found is None and key == "host_id":
        return host_of(member)
    return (member.zone if key == "zone" else "") if found is None else found


def spread_warning(
    members: Sequence[Member], candidates: Sequence[Candidate], size: int, tag: str = ""
) -> str:
    """What is wrong with the places of a queue's members, in one line; "": nothing."""
    if len(members) < size:
        return _shortage(len(members), size)
    if tag:
        values = [tag_of(each, tag) for each in members]
        if len(set(values)) < len(values):
            shared = max(set(values), key=values.count)
            return f"{values.count(shared)} of {len(values)} members share the {tag} '{shared}'"
    hosts = [host_of(each) for each in members]
    if len(set(hosts)) < len(hosts):
        shared = max(set(hosts), key=hosts.count)
        return f"{hosts.count(shared)} of {len(hosts)} members share the host '{shared}'"
    zones = [each.zone for each in members]
    known = {each.member.zone for each in candidates}
    shared = max(set(zones), key=zones.count)
    if len(known) > 1 and len(zones) > 1 and 2 * zones.count(shared) > len(zones):
        return f"{zones.count(shared)} of {len(zones)} members share the zone '{shared}'"
    return ""


def _shortage(count: int, size: int) -> str:
    return f"{count} of {size} members: no other node may take one"

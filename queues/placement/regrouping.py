"""Plans for members and leaders of quorum queues: grow, shrink, rebalance, reconcile.

Takes the groups as they are (`GroupView`) and the nodes (`placement.Candidate`); gives steps. One
step changes the members of one queue by one, or moves one leader; the caller that carries it out
asks again when it is done. No plan gives a step after which fewer members than a majority of the
queue would be on nodes that run, two members on one node, or a leader on a node that is drained or
down.

Pure, and not compiled: asked by operators, and once in a while for all queues together. What
`rebalance` takes grows with the number of queues; 10,000 are 60 ms, so it is called in a thread or
with a part of them.
"""

from collections import deque
from collections.abc import Sequence
from itertools import pairwise
from typing import Final

from msgspec import Struct

from queues.placement.queue_placement import Candidate, Lots, add_member, host_of

LAST_MEMBER: Final = "the queue has no other member"
NO_MAJORITY: Final = "without it fewer members than a majority would be on nodes that run"
NOT_A_MEMBER: Final = "the node is no member of the queue"
IS_MEMBER: Final = "the node is a member of the queue already"
NOT_RUNNING: Final = "the node is not running"
DRAINING: Final = "the node is in maintenance"


class GroupView(Struct, frozen=True):
    """One quorum queue. `online`: those of its members whose node runs."""

    uid: int
    vhost: str
    name: str
    members: tuple[int, ...]
    online: frozenset[int]
    leader: int = 0  # 0: unknown

    @property
    def has_majority(self) -> bool:
        return is_majority(self.online, self.members)


class Move(Struct, frozen=True):
    """The leader of a queue is to be another member."""

    uid: int
    source: int
    target: int


class Step(Struct, frozen=True):
    """The queue is to have these members; one more or one less than before."""

    uid: int
    members: tuple[int, ...]


class Refusal(Struct, frozen=True):
    """Nothing is to be done, and why."""

    reason: str


def is_majority(online: frozenset[int], members: Sequence[int]) -> bool:
    return 2 * sum(member in online for member in members) > len(members)


def is_critical(group: GroupView, member: int) -> bool:
    """Whether a member that runs is needed for a majority, or for one that is lost already."""
    needed = group.online & set(group.members)
    return member in needed and not is_majority(needed - {member}, group.members)


# Members


def grown(group: GroupView, node: Candidate) -> Step | Refusal:
    """One more member, on that node."""
    if node.id in group.members:
        return Refusal(IS_MEMBER)
    if not node.is_running:
        return Refusal(NOT_RUNNING)
    if node.member.draining:
        return Refusal(DRAINING)
    return Step(group.uid, (*group.members, node.id))


def shrunk(group: GroupView, member: int) -> Step | Refusal:
    """The queue without that member."""
    if member not in group.members:
        return Refusal(NOT_A_MEMBER)
    left = without(group.members, member)
    if not left:
        return Refusal(LAST_MEMBER)
    if group.has_majority and not is_majority(group.online, left):
        return Refusal(NO_MAJORITY)
    return Step(group.uid, left)


def reconciled(
    group: GroupView,
    target: int,
    candidates: Sequence[Candidate],
    gone: frozenset[int],
    random: Lots,
    tag: str = "",
) -> Step | None:
    """What brings the queue nearer to `target` members that are not `gone`; None: nothing does.

    `gone` are nodes that are taken for dead: a member there is replaced where there is another node
    for it, first added and then removed, and stays where there is none. Members whose node is out
    of the cluster go with the first step, for the definitions know them no more; the log group
    keeps them until the new one is in. A queue without a majority is left alone: it could carry
    nothing out.
    """
    if not group.has_majority:
        return None
    known = {each.id for each in candidates}
    members = tuple(each for each in group.members if each in known)
    staying = [each for each in members if each not in gone]
    if len(staying) < target:
        usable = [each for each in candidates if each.id not in gone]
        added = add_member(usable, members, random, tag)
        if added is not None and is_majority(group.online | {added}, (*members, added)):
            return Step(group.uid, (*members, added))
    left = members
    if len(staying) >= target:
        left = next((without(members, each) for each in members if each in gone), members)
    if left == group.members or not is_majority(group.online, left):
        return None
    return Step(group.uid, left)


def without(members: Sequence[int], member: int) -> tuple[int, ...]:
    return tuple(each for each in members if each != member)


# Leaders


class _Leads:
    """Who could lead what: the graph that `rebalance` looks for paths in.

    Invariant: `counts[node]` is the number of leaders there, of queues that can be moved or not;
    `queues[a][b]` are the queues led on `a` that `b` could lead.
    """

    def __init__(self, groups: Sequence[GroupView], candidates: Sequence[Candidate]) -> None:
        self.able = {each.id for each in candidates if each.is_eligible}
        running = {each.id for each in candidates if each.is_running}
        self.counts = dict.fromkeys(sorted(running), 0)
        self.groups: dict[int, GroupView] = {}
        self.leaders: dict[int, int] = {}
        self.queues: dict[int, dict[int, dict[int, None]]] = {each: {} for each in self.counts}
        for group in groups:
            if group.leader in self.counts and group.leader in group.members:
                self.counts[group.leader] += 1
                self.groups[group.uid] = group
                self._enter(group, group.leader)

    def _enter(self, group: GroupView, leader: int) -> None:
        self.leaders[group.uid] = leader
        for member in group.members:
            if member != leader and member in self.able and member in group.online:
                self.queues[leader].setdefault(member, {})[group.uid] = None

    def move(self, uid: int, target: int) -> Move:
        group = self.groups[uid]
        source = self.leaders[uid]
        for queues in self.queues[source].values():
            queues.pop(uid, None)
        self.counts[source] -= 1
        self.counts[target] += 1
        self._enter(group, target)
        return Move(uid, source, target)

    def path(self, source: int) -> list[int]:
        """Nodes from `source` to one that leads two fewer at least, each handing one queue to the
        next; [] if there is none. The shortest one, to the node with the fewest."""
        came_from: dict[int, int] = {source: 0}
        waiting = deque([source])
        best = 0
        while waiting:
            node = waiting.popleft()
            if node != source and (best == 0 or self.counts[node] < self.counts[best]):
                best = node
            for target, queues in self.queues[node].items():
                if queues and target not in came_from:
                    came_from[target] = node
                    waiting.append(target)
        if best == 0 or self.counts[best] > self.counts[source] - 2:
            return []
        nodes = [best]
        while nodes[0] != source:
            nodes.insert(0, came_from[nodes[0]])
        return nodes

    def first_of(self, source: int, target: int) -> int:
        """The queue that is moved between these."""
        return next(iter(self.queues[source][target]))


def rebalance(
    groups: Sequence[GroupView], candidates: Sequence[Candidate], moves_max: int
) -> list[Move]:
    """Moves in the order in which they are to be made, `moves_max` of them at most. After the last
    of them no node leads two queues more than another that could take one from it."""
    leads = _Leads(groups, candidates)
    moves: list[Move] = []
    while len(moves) < moves_max:
        path = _steepest(leads)
        if not path or len(moves) + len(path) - 1 > moves_max:
            break
        for source, target in reversed(list(pairwise(path))):
            moves.append(leads.move(leads.first_of(source, target), target))
    return moves


def _steepest(leads: _Leads) -> list[int]:
    """From the node with the most leaders that has a path at all."""
    for source in sorted(leads.counts, key=lambda node: (-leads.counts[node], node)):
        path = leads.path(source)
        if path:
            return path
    return []


def moved_off(
    groups: Sequence[GroupView], candidates: Sequence[Candidate], node: int
) -> tuple[list[Move], list[int]]:
    """Moves of all leaders off a node that is to be drained, and the queues that must stay there:
    no other member of theirs runs. Each goes where the fewest are led by then, on another machine
    than the one that is drained if that makes no difference in number."""
    leads = _Leads(groups, candidates)
    hosts = {each.id: host_of(each.member) for each in candidates}
    moves: list[Move] = []
    stuck: list[int] = []
    for uid in sorted(leads.groups):
        if leads.leaders[uid] != node:
            continue
        targets = [target for target, queues in leads.queues[node].items() if uid in queues]
        if not targets:
            stuck.append(uid)
            continue
        best = min(targets, key=lambda each: (leads.counts[each], hosts[each] == hosts[node], each))
        moves.append(leads.move(uid, best))
    return moves, stuck

"""Where queues are, in a cluster: the definitions, the table of leaders and the detector together.

Takes what the node knows anyway, and keeps nothing but who watches. A quorum queue is led by whom
the table of leaders names; without one there is an election, or, where this node cannot see a
majority of the members, nothing to wait for but the others. A classic queue is led by its home as
long as that is known to be there. Nothing waits; what is not known is reported as such. No I/O.
"""

from collections.abc import Callable, Mapping
from typing import Protocol

from node.cluster.coordination.coordination_interface import Load
from node.cluster.services.whereis import ELECTING, MINORITY, RUNNING, NodePlace, Place, Told
from queues.definitions.broker_objects import Queue
from queues.definitions.members import Member

OnLeader = Callable[[tuple[int, int] | None], None]


class LeaderTable(Protocol):
    """Who leads which group (`node.cluster.queues.leader_table`)."""

    def leader_of(self, uid: int) -> tuple[int, int] | None:
        """(member, term); of a classic queue its home."""

    def watch(self, uid: int, told: OnLeader) -> None:
        """`told` hears of each change."""

    def unwatch(self, uid: int, told: OnLeader) -> None: ...


class Trust(Protocol):
    """`node.cluster.cluster_interfaces.Peers`, as far as it is asked here."""

    @property
    def member(self) -> int: ...

    def is_trusted(self, member: int) -> bool: ...


class Watchers:
    """Who watches one queue."""

    def __init__(self) -> None:
        self.told: list[Told] = []

    def changed(self, leader: tuple[int, int] | None = None) -> None:
        for told in list(self.told):
            told()


class ClusterPlaces:
    """Keeps `WhereIs`.

    `queue_of` is the queue as it is defined now, by uid; `members` all members of the cluster;
    `lags_of` how far members are behind, by member, of queues that are led here.
    """

    def __init__(
        self,
        here: str,
        peers: Trust,
        leaders: LeaderTable,
        members: Callable[[], list[Member]],
        queue_of: Callable[[int], Queue | None],
        lags_of: Callable[[int], Mapping[int, int]],
        loads: Callable[[], Mapping[int, Load]],
    ) -> None:
        self._here = here
        self._peers = peers
        self._leaders = leaders
        self._members = members
        self._queue_of = queue_of
        self._lags_of = lags_of
        self._loads = loads
        self._watchers: dict[int, Watchers] = {}  # by uid

    @property
    def here(self) -> str:
        return self._here

    def place(self, queue: Queue) -> Place:
        queue = self._queue_of(queue.uid) or queue
        names = {each.id: each.name for each in self._members()}
        found = self._leaders.leader_of(queue.uid)
        leader = None if found is None else names.get(found[0])
        epoch = 0 if found is None else found[1]
        if not queue.holders:
            state = MINORITY if leader is None else RUNNING
            return Place(leader, epoch, (queue.node,), state)
        replicas = tuple(names[each] for each in queue.holders if each in names)
        lags = {
            names[each]: lag
            for each, lag in self._lags_of(queue.uid).items()
            if each in names and each in queue.holders
        }
        if leader is None and replicas == (self._here,):
            leader = self._here  # The only member of a new queue, about to elect itself.
        state = RUNNING if leader is not None else self._state_without(queue.holders)
        return Place(leader, epoch, replicas, state, lags)

    def _state_without(self, members: tuple[int, ...]) -> str:
        """Of a queue without a leader."""
        seen = sum(self._peers.is_trusted(each) for each in members)
        return ELECTING if 2 * seen > len(members) else MINORITY

    def node(self, name: str) -> NodePlace | None:
        for each in self._members():
            if each.name == name:
                return self._node_place(each)
        return None

    def nodes(self) -> list[NodePlace]:
        named = [each for each in self._members() if each.name]  # Others have not come so far.
        return [self._node_place(each) for each in sorted(named, key=lambda each: each.name)]

    def _node_place(self, member: Member) -> NodePlace:
        running = self._peers.is_trusted(member.id)
        load = self._loads().get(member.id)
        zone = member.zone or None
        addresses = member.amqps, member.stream, member.stream_tls
        return NodePlace(member.name, member.amqp, zone, running, load, *addresses)

    def watch(self, uid: int, told: Told) -> None:
        watchers = self._watchers.get(uid)
        if watchers is None:
            watchers = self._watchers[uid] = Watchers()
            self._leaders.watch(uid, watchers.changed)
        watchers.told.append(told)

    def unwatch(self, uid: int, told: Told) -> None:
        watchers = self._watchers.get(uid)
        if watchers is not None and told in watchers.told:
            watchers.told.remove(told)
            if not watchers.told:
                del self._watchers[uid]
                self._leaders.unwatch(uid, watchers.changed)

    # What else may change a place

    def queue_changed(self, uid: int) -> None:
        """Its definition is another one: members came or went."""
        watchers = self._watchers.get(uid)
        if watchers is not None:
            watchers.changed()

    def nodes_changed(self) -> None:
        """Members of the cluster, or which of them are trusted."""
        for uid in list(self._watchers):
            self.queue_changed(uid)

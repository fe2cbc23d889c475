"""The definitions of a mirrored queue in the simulation of its nodes: who decides views, who hears.

One view follows the other, made by the rules of `queues.definitions.mirror_views` from what the
leader reports and from which nodes are down, or are wrongly thought to be. Nodes hear of views
late; one that starts may hear of an old one first.
"""

from collections.abc import Mapping, Sequence
from random import Random
from typing import Final

from queues.definitions.mirror_policy import Wanted
from queues.definitions.mirror_views import LeaderReport, next_view
from raft.ring_view import RingView
from tests.sim.queues.group_node import UID, GroupNode

LOOK: Final = 0.2  # how often, each time that time passes
WRONG: Final = 0.01  # how often a node that is up is thought to be down
HEARS: Final = 0.3


class MirrorViews:
    """See the module."""

    def __init__(self, members: Sequence[int], random: Random) -> None:
        ones = [1] * len(members)
        self._random = random
        self.views = [RingView(1, 1, tuple(members), ones, tuple(members))]
        self.promotes_always = False  # `ha-promote-on-failure`
        self.synchronises = True
        self.blocks = False  # `ha-sync-nonblocking: false`
        self._heard: dict[GroupNode, int] = {}  # the epoch that each has heard of

    @property
    def view(self) -> RingView:
        return self.views[-1]

    def heard(self) -> RingView:
        """What a node that starts hears."""
        return self._random.choice(self.views[-2:])

    def tell(self, nodes: Sequence[GroupNode]) -> None:
        for node in nodes:
            ring = node.ring()
            group = node.raft.group(UID)
            if group is not None and ring is not None and ring.copies != self.synchronises:
                node.turn.begin()
                group.synchronise(self.synchronises)
            if group is not None and ring is not None:
                group.block(self.blocks and self.synchronises)
            is_new = self._heard.get(node, 0) < self.view.epoch
            is_late = ring is not None and ring.view is None  # It has just joined.
            if (is_new or is_late) and self._random.random() < HEARS:
                self._heard[node] = int(self.view.epoch)
                node.take_view(self.view)

    def look(
        self, nodes: Mapping[int, GroupNode | None], wanted: Sequence[int], is_calm: bool
    ) -> None:
        if self._random.random() > LOOK:
            return
        view = self.view
        gone = {member for member in view.members if nodes.get(member) is None}
        if not is_calm and not gone and self._random.random() < WRONG:
            gone = {self._random.choice(view.members)}
        mirrors = [each for each in wanted if each != view.leader]
        leader = view.leader if view.leader in wanted or not mirrors else mirrors[0]
        mirrors = [each for each in wanted if each != leader and nodes.get(each) is not None]
        report = self._report(nodes.get(view.leader), view)
        found = next_view(view, gone, Wanted(leader, tuple(mirrors)), self.promotes_always, report)
        if found is not None:
            self.views.append(found)

    def _report(self, node: GroupNode | None, view: RingView) -> LeaderReport | None:
        ring = None if node is None else node.ring()
        if ring is None or ring.view != view:
            return None
        return LeaderReport(ring.next_synchronised, ring.next_partial, ring.needs_term)

    def move_leader(self) -> None:
        view = self.view
        others = [each for each in view.synchronised if each != view.leader]
        if others and view.leader in view.synchronised:
            self.views.append(view.led_by(self._random.choice(others), (), view.epoch + 1))

    def is_whole(self, wanted: Sequence[int]) -> bool:
        return set(wanted) == set(self.view.members) == set(self.view.synchronised)

"""Whether a node stops serving classic and mirrored queues, because it cannot reach other nodes.

The setting `cluster.partition_handling` has the strategies of RabbitMQ. Pure: it is given who the
members of the cluster are and which of them this node can reach.
"""

from collections.abc import Collection
from typing import Final, Literal

from msgspec import Struct

Strategy = Literal["pause_minority", "pause_if_all_down", "autoheal", "ignore"]
PAUSE_MINORITY: Final = "pause_minority"
PAUSE_IF_ALL_DOWN: Final = "pause_if_all_down"


class PartitionRule(Struct, frozen=True):
    """`listed`: names of the nodes of `pause_if_all_down`."""

    strategy: Strategy
    listed: tuple[str, ...] = ()

    def must_pause(self, members: Collection[str], reachable: Collection[str]) -> bool:
        """`reachable`: names of members that this node can reach, itself among them.

        As in RabbitMQ, exactly half of the members is a minority. A listed node reaches itself, so
        it never pauses; names that are no members count as unreachable.
        """
        if self.strategy == PAUSE_MINORITY:
            return 2 * len(reachable) <= len(members)
        if self.strategy == PAUSE_IF_ALL_DOWN:
            return not any(name in reachable for name in self.listed)
        return False

"""This node pauses when it reaches too few members (`partition_rule`), and resumes when it can.

While it pauses it serves no classic and no mirrored queue: it closes the connections that use one,
and refuses new uses. Quorum queues, streams, exclusive queues and definitions are not concerned.
Log groups go on as well, so that mirrors follow the majority as soon as it is reached.

`tick` looks about once a second. A member counts as unreachable when its queues count as down
(`cluster.home_down_ms`). No I/O.
"""

import logging
from collections.abc import Callable, Sequence
from typing import Protocol

from node.cluster.services.partition_rule import PartitionRule

log = logging.getLogger("warren.cluster")


class Membership(Protocol):
    """`node.cluster.cluster_node.Cluster`."""

    @property
    def member(self) -> int: ...

    def members(self) -> list[int]: ...


class Site(Protocol):
    """`node.broker.Broker`."""

    def set_paused(self, reason: str) -> int:
        """Serve no classic and no mirrored queue, or all again if there is no reason; how many
        connections were closed."""


class Pausing:
    """See the module."""

    def __init__(
        self,
        rule: PartitionRule,
        membership: Membership,
        site: Site,
        is_down: Callable[[int], bool],
        name_of: Callable[[int], str],
    ) -> None:
        self._rule = rule
        self._membership = membership
        self._site = site
        self._is_down = is_down
        self._name_of = name_of
        self._is_paused = False

    def tick(self) -> None:
        here = self._membership.member
        members = self._membership.members()
        down = [each for each in members if each != here and self._is_down(each)]
        names = [self._name_of(each) for each in members]
        unreachable = [self._name_of(each) for each in down]
        reachable = [self._name_of(each) for each in members if each not in down]
        must_pause = self._rule.must_pause(names, reachable)
        if must_pause and not self._is_paused:
            self._is_paused = True
            self._pause(unreachable)
        elif self._is_paused and not must_pause:
            self._is_paused = False
            self._site.set_paused("")
            log.warning(
                "the node serves classic and mirrored queues again: it reaches %s",
                ", ".join(reachable),
            )

    def _pause(self, unreachable: Sequence[str]) -> None:
        reason = (
            f"cluster.partition_handling is {self._rule.strategy} and this node cannot reach "
            f"{', '.join(unreachable)}"
        )
        closed = self._site.set_paused(reason)
        log.error(
            "the node pauses classic and mirrored queues, because %s: %d connections that use them "
            "are closed; it resumes when it reaches enough nodes",
            reason,
            closed,
        )

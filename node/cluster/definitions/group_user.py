"""The broker as the group of the definitions sees it (`definitions_group.DefinitionsUser`).

Takes the changes of each committed entry to routers and hosts, gives the group its place in the
turn, and closes what clients have on this node when the others have given its process up.
"""

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Final, Protocol

from node.cluster.node_interface import Node
from node.events.authors import Author
from node.events.logs import ids_of
from queues.definitions.broker_objects import Queue
from queues.definitions.metadata.machine import Metadata
from queues.definitions.metadata.outcomes import Change, Outcome
from queues.hosts.host_interfaces import Steppable

log = logging.getLogger("warren.cluster")

GIVEN_UP: Final = "this node was cut off from its cluster for too long: connect again"


class Changes(Protocol):
    """See `node.definitions.change_follower`."""

    def carry(self, changes: Sequence[Change]) -> Mapping[int, int]: ...

    def answer_proposal(
        self, done: Callable[[Outcome], None], outcome: Outcome, ready: Mapping[int, int]
    ) -> None: ...

    def remove_unborn(self, queue: Queue) -> None: ...


class DefinedNode(Node, Protocol):
    @property
    def changes(self) -> Changes: ...


class GroupUser:
    """See the module."""

    def __init__(self, broker: DefinedNode) -> None:
        self._broker = broker

    @property
    def metadata(self) -> Metadata:
        return self._broker.metadata

    @property
    def node_name(self) -> str:
        return self._broker.node_name

    @property
    def incarnation(self) -> int:
        return self._broker.identity.incarnation

    def mark_definitions(self, group: Steppable, is_later: bool) -> None:
        turn = self._broker.turn
        if is_later:
            turn.mark_host_later(group)
        else:
            turn.mark_host(group)

    def carry(self, changes: Sequence[Change]) -> Mapping[int, int]:
        return self._broker.changes.carry(changes)

    def carried(self) -> None:
        self._broker.queues.forget_lookups()

    def answer(
        self, done: Callable[[Outcome], None], outcome: Outcome, ready: Mapping[int, int]
    ) -> None:
        self._broker.changes.answer_proposal(done, outcome, ready)

    def proposal_applied(self, outcome: Outcome, author: Author) -> None:
        self._broker.observers.proposal_applied(outcome, author)

    def is_born_here(self, queue: Queue) -> bool:
        return queue.outlives_restart and self._broker.queues.is_home(queue)

    def unborn(self, queue: Queue) -> None:
        log.warning(
            "queue '%s' in vhost '%s' was never declared for good, or is deleted: its messages go",
            queue.name,
            queue.vhost,
            extra=ids_of(queue=queue.name, vhost=queue.vhost),
        )
        self._broker.changes.remove_unborn(queue)

    def given_up(self) -> None:
        broker = self._broker
        log.warning("the cluster has given this node up: connections of clients are closed")
        broker.connections.close_all(GIVEN_UP)
        broker.identity.renew()

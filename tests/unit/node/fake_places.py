"""Places of queues for tests that have one node (`node.cluster.services.whereis.WhereIs`)."""

from node.cluster.services.whereis import RUNNING, NodePlace, Place, Told
from queues.definitions.broker_objects import Queue


class OneNode:
    """The node leads every queue and is its only member."""

    def __init__(self, here: str) -> None:
        self._here = here

    @property
    def here(self) -> str:
        return self._here

    def place(self, queue: Queue) -> Place:
        return Place(queue.node, 1, (queue.node,), RUNNING, {queue.node: 0})

    def node(self, name: str) -> NodePlace | None:
        return NodePlace(name) if name == self._here else None

    def nodes(self) -> list[NodePlace]:
        return [NodePlace(self._here)]

    def watch(self, uid: int, told: Told) -> None:
        """Nothing ever changes."""

    def unwatch(self, uid: int, told: Told) -> None:
        """No node watches."""

    def queue_changed(self, uid: int) -> None:
        """Its place does not."""

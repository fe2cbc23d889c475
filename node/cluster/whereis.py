"""Where queues are, as this node knows it: the seam behind all that tells clients of leaders.

Flows of links (FEATURES B-71 to B-73), `GET /queues/:queue/topology` and the HTTP API ask it. A
node that is in no cluster answers with `Alone`; in a cluster `node.cluster.places` puts together
what `Leaders` and the definitions say. Nothing here waits or asks another node. No I/O.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Protocol

from queues.definitions import Queue

# What the leadership of a queue is doing (B-71)
RUNNING: Final = "running"
ELECTING: Final = "electing"  # there is no leader, and there will be one
MINORITY: Final = "minority"  # this node cannot see enough members for there to be one
MIGRATING: Final = "migrating"

ALONE_EPOCH: Final = 1  # of a queue that never has another leader


@dataclass(frozen=True, slots=True)
class Place:
    """Of one queue. `epoch` never goes down: the term of the leader, or the last one known."""

    leader: str | None  # name of the node; None: nobody leads
    epoch: int
    replicas: tuple[str, ...]  # names of all members, the leader too
    state: str = RUNNING


@dataclass(frozen=True, slots=True)
class NodePlace:
    """Of one node, as clients are told it."""

    name: str
    amqp: str = ""  # host:port of its AMQP listener; "": where the client reached it, or unknown
    zone: str | None = None
    is_running: bool = True


Told = Callable[[], None]


class WhereIs(Protocol):
    """What this node knows. Called on the loop thread; `Told` is called within a turn."""

    @property
    def here(self) -> str:
        """Name of this node."""

    def place(self, queue: Queue) -> Place: ...

    def node(self, name: str) -> NodePlace | None:
        """None: there is none of that name any more."""

    def nodes(self) -> list[NodePlace]:
        """All nodes of the cluster, this one too, by name."""

    def watch(self, uid: int, told: Told) -> None:
        """Call `told` whenever `place` of that queue may have changed, until `unwatch`."""

    def unwatch(self, uid: int, told: Told) -> None: ...


class Alone:
    """A node that is in no cluster: it leads everything, for ever."""

    def __init__(self, here: str) -> None:
        self._here = here

    @property
    def here(self) -> str:
        return self._here

    def place(self, queue: Queue) -> Place:
        return Place(queue.node, ALONE_EPOCH, (queue.node,))

    def node(self, name: str) -> NodePlace | None:
        return NodePlace(name) if name == self._here else None

    def nodes(self) -> list[NodePlace]:
        return [NodePlace(self._here)]

    def watch(self, uid: int, told: Told) -> None:
        """Nothing ever changes."""

    def unwatch(self, uid: int, told: Told) -> None:
        """Nobody watches."""

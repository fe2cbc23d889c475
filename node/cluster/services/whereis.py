"""Where queues are, as this node knows it: the seam behind all that tells clients of leaders.

Flows of links, `GET /queues/:queue/topology` and the HTTP API ask it. `node.cluster.queues.places`
derives the answers from `Leaders` and the definitions. Nothing here waits or asks another node. No
I/O.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final, Protocol

from msgspec import Struct

from node.cluster.coordination.coordination_interface import Load
from queues.definitions.broker_objects import Queue

# What the leadership of a queue is doing
RUNNING: Final = "running"
ELECTING: Final = "electing"  # there is no leader, and there will be one
MINORITY: Final = "minority"  # this node cannot see enough members for there to be one
MIGRATING: Final = "migrating"


@dataclass(frozen=True, slots=True)
class Place:
    """Of one queue. `epoch` is the term of its leader; where that is not known, it may be 0."""

    leader: str | None  # name of the node; None: no leader
    epoch: int
    replicas: tuple[str, ...]  # names of all members, the leader too
    state: str = RUNNING
    # How many entries members have still to get, by name, as far as this node knows.
    lags: Mapping[str, int] = field(default_factory=dict, compare=False)


class NodePlace(Struct, frozen=True):
    """Of one node, as clients see it."""

    name: str
    amqp: str = ""  # host:port of its AMQP listener; "": where the client reached it, or unknown
    zone: str | None = None
    is_running: bool = True
    load: Load | None = None  # as it told it last
    amqps: str = ""  # as `amqp`, of the one over TLS
    stream: str = ""  # as `amqp`, of the one for the stream protocol
    stream_tls: str = ""


Told = Callable[[], None]


def urls_told(amqp: str, amqps: str, tls_first: bool = False) -> list[str]:
    """Of the listeners that a node tells of, those of the client's own kind first."""
    told = [f"amqp://{amqp}"] if amqp else []
    if amqps:
        told.insert(0 if tls_first else len(told), f"amqps://{amqps}")
    return told


def url_of(host: str, port: int, is_tls: bool = False) -> str:
    """Of a listener; IPv6 addresses stand in brackets."""
    scheme = "amqps" if is_tls else "amqp"
    return f"{scheme}://[{host}]:{port}" if ":" in host else f"{scheme}://{host}:{port}"


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

    def queue_changed(self, uid: int) -> None:
        """The definition of the queue is another one: members came or went."""

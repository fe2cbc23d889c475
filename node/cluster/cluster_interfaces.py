"""What the parts of a node that speak to their like on other nodes need of the cluster.

A part takes a kind of frames for itself (`KINDS` below), tells `Peers.attach` who takes what comes
with that kind, and sends by member id. A link comes and goes as a whole: what is sent while there
is none is lost, and a part that cannot bear that has numbers of its own (`warren.wire.peer.stream`,
the numbers of batches). Each lane keeps its order. No I/O here.
"""

from typing import Final, Protocol

# Kinds of frames on the peer link, beside that of the log groups (`warren.wire.peer.codes.RAFT`)
QUEUES: Final = 128  # frames of `queues.remote.peer_queues`
DEFINITIONS: Final = 129  # forwarded commands, their answers, applied indexes
LEADERS: Final = 130  # who leads which group
ALARMS: Final = 131  # resource alarms of other nodes
COORDINATION: Final = 132  # pysyncobj's messages
STATUS: Final = 133  # questions of the management API to another node, and their answers
USAGE: Final = 134  # connections and channels that count towards limits
EVENTS: Final = 135  # what happens on another node
ADDRESSES: Final = 136  # what addresses with limits hold

# Lanes beside those of the log groups
CONTROL_LANE: Final = 0  # on the control connection: small, and others wait for it
QUEUES_LANE: Final = 2  # on the bulk connection
OTHER_LANE: Final = 3  # on the bulk connection


class PeerChannel(Protocol):
    """One part of the node, told by the cluster about peers and what they send. Called in a turn
    that has begun (`Turn.begin`), so that what it marks is worked off."""

    def peer_connected(self, member: int) -> None:
        """A link stands; nothing of an older one comes any more."""

    def peer_lost(self, member: int) -> None:
        """The link is gone, with all that was under way on it. The node may live."""

    def peer_removed(self, member: int) -> None:
        """That member is none any more, or has come with a new data directory: it never returns."""

    def peer_received(self, member: int, payload: memoryview) -> None:
        """A frame of the part's kind. PeerFault: it makes no sense, and the link is ended."""


class Peers(Protocol):
    """The cluster as its parts see it."""

    @property
    def member(self) -> int:
        """Member id of this node."""

    def attach(self, kind: int, part: PeerChannel) -> None:
        """Before the links begin; one part for each kind."""

    def send(self, member: int, kind: int, lane: int, parts: list[bytes]) -> bool:
        """Send a frame; False: there is no link or no room, and it is lost."""

    def is_full(self, member: int) -> bool:
        """Whether the bulk connection takes nothing now, or there is none: what is sent is lost."""

    def is_connected(self, member: int) -> bool:
        """Whether a link stands."""

    def version(self, member: int) -> int:
        """Of the peer link, that the newest process of the node speaks; 0: not known."""

    def is_trusted(self, member: int) -> bool:
        """Whether the failure detector takes the node for alive. True for this node."""

    def members(self) -> list[int]:
        """All members of the cluster by the definitions that are applied here, this one too."""

"""The broker's objects as the metadata machine holds them, and what every vhost starts with.

Every object bears a 64-bit uid that is given once and never again; a queue's is also its owner id
in the log. Arguments are kept in one canonical form of bytes (see `arguments`), so that they
compare, hash and are stored without being decoded.
"""

from enum import IntEnum
from typing import Final, NewType

import msgspec

from queues.definitions.members import Member, Process

Uid = NewType("Uid", int)

METADATA_UID: Final = Uid(1)  # owner id of the metadata group itself
FIRST_UID: Final = Uid(16)  # those below are set aside for the broker's own groups

DEFAULT_VHOST: Final = "/"
DEFAULT_EXCHANGE: Final = ""
RESERVED_PREFIX: Final = "amq."
NO_ARGUMENTS: Final = b""

# Name, type, internal.
PREDECLARED: Final = (
    (DEFAULT_EXCHANGE, "direct", False),
    ("amq.direct", "direct", False),
    ("amq.fanout", "fanout", False),
    ("amq.topic", "topic", False),
    ("amq.headers", "headers", False),
    ("amq.match", "headers", False),
    ("amq.rabbitmq.trace", "topic", True),
    ("amq.rabbitmq.event", "topic", True),
)


class Destination(IntEnum):
    """What a binding leads to."""

    QUEUE = 0
    EXCHANGE = 1


class Exchange(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """`auto_delete`: goes when its last binding goes, not before it has had one."""

    uid: Uid
    vhost: str
    name: str
    type: str
    durable: bool
    auto_delete: bool
    internal: bool  # takes messages from other exchanges only
    arguments: bytes


class MirrorView(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """The view of a mirrored queue (`raft.ring_view.RingView`). Without members the queue is a
    plain one; the epoch stays, so that a later view has a higher one. `leader_stopped`: the node of
    the leader has stopped in good order, and no synchronised mirror could lead in its place."""

    epoch: int
    term: int = 0
    members: tuple[int, ...] = ()
    joined: tuple[int, ...] = ()
    synchronised: tuple[int, ...] = ()
    partial: tuple[int, ...] = ()
    leader_stopped: bool = False


class Queue(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """`auto_delete`: goes when its last consumer goes; the host sees that and deletes it."""

    uid: Uid
    vhost: str
    name: str
    durable: bool
    exclusive_owner: str  # id of the connection that alone may use it; "" for none
    auto_delete: bool
    arguments: bytes
    node: str  # where its leader was placed at first
    members: tuple[int, ...] = ()  # who has it, if it is a quorum queue in a cluster
    process: int = 0  # it goes when this process of a node has ended; 0: there is none such
    reborn_term: int = 0  # its group restarted in this term (0054); 0: it never did
    reborn_on: int = 0  # with what this member had, and no other
    mirrors: MirrorView | None = None  # of a classic queue that has or had mirrors

    @property
    def holders(self) -> tuple[int, ...]:
        """The nodes that have a member of its log group: of a quorum queue or stream in a cluster,
        or of a mirrored queue. Empty: a queue that one node has alone."""
        if self.members or self.mirrors is None:
            return self.members
        return self.mirrors.members

    @property
    def exclusive(self) -> bool:
        return self.exclusive_owner != ""

    @property
    def outlives_restart(self) -> bool:
        """Whether the queue is still there when its node comes back."""
        return self.durable and not self.exclusive_owner


class Binding(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Known by source, destination, binding key and arguments together."""

    uid: Uid
    vhost: str
    source: str
    destination_kind: Destination
    destination: str
    binding_key: bytes
    arguments: bytes
    target: int  # uid of the destination queue, or minus the uid of the destination exchange


class User(msgspec.Struct, frozen=True, array_like=True):
    uid: Uid
    name: str
    password_hash: str  # "" for a user who cannot log in with a password
    hashing: str
    tags: tuple[str, ...]


class Permission(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Regular expressions over names; what the user may do in that vhost."""

    uid: Uid
    user: str
    vhost: str
    configure: str
    write: str
    read: str


class VhostEntry(msgspec.Struct, frozen=True, array_like=True):
    """The vhost itself, apart from what is in it."""

    uid: Uid
    name: str
    description: str
    tags: tuple[str, ...]
    default_queue_type: str = ""  # "": the node's
    tracing: bool = False
    protected: bool = False  # is not deleted before that is taken back


class Policy(msgspec.Struct, frozen=True, array_like=True):
    """What holds for all queues or exchanges whose names match. `queues.definitions.policies` reads
    it.

    `operator`: an operator policy, which has names of its own.
    """

    uid: Uid
    vhost: str
    name: str
    operator: bool
    pattern: str
    apply_to: str
    priority: int
    definition: bytes  # JSON: an object, its keys in order


class Parameter(msgspec.Struct, frozen=True, array_like=True):
    """A runtime parameter. Vhost "": a global one, then the component is "", or says whose
    limits these are (`queues.definitions.vhost_limits`).
    """

    uid: Uid
    vhost: str
    component: str
    name: str
    value: bytes  # JSON


class TopicPermission(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Which routing keys of a topic exchange the user may write, which binding keys read."""

    uid: Uid
    user: str
    vhost: str
    exchange: str
    write: str
    read: str


Definition = (
    VhostEntry
    | User
    | Permission
    | TopicPermission
    | Policy
    | Parameter
    | Exchange
    | Queue
    | Binding
    | Member
    | Process
)

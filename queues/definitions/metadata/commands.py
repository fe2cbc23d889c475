"""Commands of the metadata machine, and their bytes (docs/formats/metadata.md).

The first byte is the version of the layout; the rest is one MessagePack array whose first element
is the kind. A later version of the same kind may have more elements at its end, with defaults.
A command carries all that the machine needs: it asks for no clock and no other state.

`connection` is the id of the connection that asks, "" for an operator: exclusive queues are
locked to all connections but their owner, never to an operator.
"""

from typing import Final

import msgspec

from queues.definitions.broker_objects import NO_ARGUMENTS, Destination, MirrorView, Uid
from queues.definitions.members import Member

FORMAT_VERSION: Final = 1
_HEAD: Final = bytes((FORMAT_VERSION,))


class BadCommand(Exception):
    """Bytes that are no command of a version that this node knows."""


class DeclareVhost(msgspec.Struct, frozen=True, array_like=True, tag_field="kind", tag=1):
    name: str
    description: str = ""
    tags: tuple[str, ...] = ()
    default_queue_type: str = ""
    tracing: bool = False
    protected: bool = False


class DeleteVhost(msgspec.Struct, frozen=True, array_like=True, tag_field="kind", tag=2):
    name: str


class PutUser(msgspec.Struct, frozen=True, array_like=True, tag_field="kind", tag=3):
    name: str
    password_hash: str
    hashing: str
    tags: tuple[str, ...] = ()


class DeleteUser(msgspec.Struct, frozen=True, array_like=True, tag_field="kind", tag=4):
    name: str


class SetPermissions(msgspec.Struct, frozen=True, array_like=True, tag_field="kind", tag=5):
    user: str
    vhost: str
    configure: str
    write: str
    read: str


class ClearPermissions(msgspec.Struct, frozen=True, array_like=True, tag_field="kind", tag=6):
    user: str
    vhost: str


class DeclareExchange(msgspec.Struct, frozen=True, array_like=True, tag_field="kind", tag=7):
    vhost: str
    name: str
    type: str
    durable: bool = False
    auto_delete: bool = False
    internal: bool = False
    arguments: bytes = NO_ARGUMENTS


class DeleteExchange(msgspec.Struct, frozen=True, array_like=True, tag_field="kind", tag=8):
    vhost: str
    name: str
    if_unused: bool = False


class DeclareQueue(msgspec.Struct, frozen=True, array_like=True, tag_field="kind", tag=9):
    vhost: str
    name: str
    durable: bool = False
    exclusive_owner: str = ""  # the asking connection, if the queue is to be exclusive
    auto_delete: bool = False
    arguments: bytes = NO_ARGUMENTS
    node: str = ""
    server_named: bool = False  # the broker made the name: `amq.` is allowed
    members: tuple[int, ...] = ()  # of a quorum queue in a cluster; the first is to lead at first
    mirrors: MirrorView | None = None  # the first view of a mirrored queue


class DeleteQueue(msgspec.Struct, frozen=True, array_like=True, tag_field="kind", tag=10):
    """By name; where `uid` is not 0, only if the queue of that name still is that one."""

    vhost: str
    name: str
    uid: Uid = Uid(0)
    connection: str = ""


class Bind(msgspec.Struct, frozen=True, array_like=True, tag_field="kind", tag=11):
    vhost: str
    source: str
    destination_kind: Destination
    destination: str
    binding_key: bytes
    arguments: bytes = NO_ARGUMENTS
    connection: str = ""


class Unbind(msgspec.Struct, frozen=True, array_like=True, tag_field="kind", tag=12):
    vhost: str
    source: str
    destination_kind: Destination
    destination: str
    binding_key: bytes
    arguments: bytes = NO_ARGUMENTS
    connection: str = ""


class DeleteByOwner(msgspec.Struct, frozen=True, array_like=True, tag_field="kind", tag=13):
    """The connection is gone: so are its exclusive queues, or the first `queue_max` of them."""

    connection: str
    queue_max: int = 0  # 0: all


class Batch(msgspec.Struct, frozen=True, array_like=True, tag_field="kind", tag=15):
    """Commands of one turn; each is applied as if it came alone."""

    commands: tuple["Command", ...]


class PutPolicy(msgspec.Struct, frozen=True, array_like=True, tag_field="kind", tag=16):
    """Found good by `queues.definitions.policy_keys` before; `definition` is JSON, its keys in
    order."""

    vhost: str
    name: str
    operator: bool
    pattern: str
    apply_to: str
    priority: int
    definition: bytes


class DeletePolicy(msgspec.Struct, frozen=True, array_like=True, tag_field="kind", tag=17):
    vhost: str
    name: str
    operator: bool


class PutParameter(msgspec.Struct, frozen=True, array_like=True, tag_field="kind", tag=18):
    """Vhost "": a global one, or limits of a user; see
    `queues.definitions.broker_objects.Parameter`."""

    vhost: str
    component: str
    name: str
    value: bytes


class DeleteParameter(msgspec.Struct, frozen=True, array_like=True, tag_field="kind", tag=19):
    vhost: str
    component: str
    name: str


class SetTopicPermissions(msgspec.Struct, frozen=True, array_like=True, tag_field="kind", tag=20):
    user: str
    vhost: str
    exchange: str
    write: str
    read: str


class ClearTopicPermissions(msgspec.Struct, frozen=True, array_like=True, tag_field="kind", tag=21):
    """Of one exchange, or, where it is "", of all."""

    user: str
    vhost: str
    exchange: str = ""


class Found(msgspec.Struct, frozen=True, array_like=True, tag_field="kind", tag=22):
    """The cluster begins with these members, one for each place of the founding list. Those of
    which no node has heard so far have no name and the incarnation 0."""

    cluster_id: int
    members: tuple[Member, ...]


class AddMember(msgspec.Struct, frozen=True, array_like=True, tag_field="kind", tag=23):
    """Take in the node, give it an id. Answered Created or Exists with the `Member`.

    A known name with another incarnation has lost its data directory: what it was is removed. A
    founding place without a name is taken by who comes from its address. A removed incarnation is
    refused.
    """

    name: str
    incarnation: int
    cluster_host: str
    cluster_port: int
    host_id: str = ""
    zone: str = ""
    amqp: str = ""
    management: str = ""
    amqps: str = ""
    tags: tuple[tuple[str, str], ...] = ()
    stream: str = ""
    stream_tls: str = ""


class RemoveMember(msgspec.Struct, frozen=True, array_like=True, tag_field="kind", tag=24):
    """That node is forgotten; it never returns with this data directory."""

    member: int


class PutMember(msgspec.Struct, frozen=True, array_like=True, tag_field="kind", tag=25):
    """Addresses, host, zone, tags, draining. Id, name and incarnation must be as they are."""

    member: Member


class SetQueueMembers(msgspec.Struct, frozen=True, array_like=True, tag_field="kind", tag=26):
    """Who has the quorum queue, ascending or not; the first one is to lead at first."""

    uid: Uid
    members: tuple[int, ...]


class RecoverQueue(msgspec.Struct, frozen=True, array_like=True, tag_field="kind", tag=31):
    """The majority of the quorum queue is lost for ever: its group restarts, in that term, with
    this member alone. What the others had and this one has not is lost (0054)."""

    uid: Uid
    member: int
    term: int


class SetMirrorView(msgspec.Struct, frozen=True, array_like=True, tag_field="kind", tag=32):
    """The next view of a mirrored queue: its epoch is one above that of the present view, else
    another request came first. Without members: the queue is a plain one."""

    uid: Uid
    view: MirrorView


class NodeUp(msgspec.Struct, frozen=True, array_like=True, tag_field="kind", tag=27):
    """A process of the node begins: the first command of each. The one before it has ended."""

    node: str
    member: int
    process: int  # its incarnation: `ProcessIdentity.incarnation`


class NodeDown(msgspec.Struct, frozen=True, array_like=True, tag_field="kind", tag=28):
    """That process has ended, or is given up: exclusive queues of its connections and what was
    transient on it go, at most `queue_max` queues at once. Deleted, with what went."""

    node: str
    process: int
    queue_max: int


class DeleteByNode(msgspec.Struct, frozen=True, array_like=True, tag_field="kind", tag=29):
    """Queues of a node that is no member any more, at most `queue_max` at once. Deleted."""

    node: str
    queue_max: int


class Numbered(msgspec.Struct, frozen=True, array_like=True, tag_field="kind", tag=30):
    """A batch of one process, counted from 1. One that was applied before changes nothing.

    `answered`: outcomes of batches up to this one are not needed any more.
    """

    process: int
    number: int
    answered: int
    commands: tuple["Command", ...]


Command = (
    DeclareVhost
    | DeleteVhost
    | PutUser
    | DeleteUser
    | SetPermissions
    | ClearPermissions
    | DeclareExchange
    | DeleteExchange
    | DeclareQueue
    | DeleteQueue
    | Bind
    | Unbind
    | DeleteByOwner
    | Batch
    | PutPolicy
    | DeletePolicy
    | PutParameter
    | DeleteParameter
    | SetTopicPermissions
    | ClearTopicPermissions
    | Found
    | AddMember
    | RemoveMember
    | PutMember
    | SetQueueMembers
    | RecoverQueue
    | SetMirrorView
    | NodeUp
    | NodeDown
    | DeleteByNode
    | Numbered
)

# Commands that a node takes while its disk has no room for the log's reserve: deletes, and what the
# cluster needs to go on. All others may add to the definitions and are refused then.
ON_FULL_DISK: Final = (
    DeleteVhost, DeleteUser, ClearPermissions, ClearTopicPermissions, DeleteExchange, DeleteQueue,
    Unbind, DeleteByOwner, DeletePolicy, DeleteParameter, DeleteByNode,
    Found, AddMember, RemoveMember, PutMember, SetQueueMembers, RecoverQueue, SetMirrorView,
    NodeUp, NodeDown,
)  # fmt: skip


def default_types_in(batch: Batch) -> dict[str, str]:
    """Default queue types of the vhosts that the batch declares, by name."""
    return {
        each.name: each.default_queue_type
        for each in batch.commands
        if isinstance(each, DeclareVhost)
    }


def may_grow(command: Command) -> bool:
    """Whether the command, or one of its batch, may add to the definitions."""
    if isinstance(command, (Batch, Numbered)):
        return any(may_grow(part) for part in command.commands)
    return not isinstance(command, ON_FULL_DISK)


_ENCODER: Final = msgspec.msgpack.Encoder()
_DECODER: Final[msgspec.msgpack.Decoder[Command]] = msgspec.msgpack.Decoder(Command)


def encode(command: Command) -> bytes:
    """The bytes of one command."""
    return _HEAD + _ENCODER.encode(command)


def decode(data: bytes) -> Command:
    """The command in `data`; raise BadCommand unless the bytes are one known command."""
    if data[:1] != _HEAD:
        raise BadCommand(f"unknown version of metadata command: {data[:1].hex()!r}")
    try:
        return _DECODER.decode(memoryview(data)[1:])
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise BadCommand(f"no metadata command: {error}") from error

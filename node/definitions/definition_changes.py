"""What changes a definition, whatever protocol asks for it: rights, locks, and the command.

Each function takes the `Actor` that asks and plain values, raises ProtocolError as RabbitMQ does
(403, 404, 405) and gives the command for the metadata machine, which refuses the rest when it is
committed. Proposing it and answering is the caller's: channels (`definitions091`), and what else
manages definitions.
"""

import base64
import os
from collections.abc import Callable
from typing import Final, Protocol

from node.auth.permissions import CONFIGURE, READ, WRITE, PermissionCache
from node.events.authors import BROKER, Author
from queues.definitions.arguments import decode_arguments, encode_arguments
from queues.definitions.broker_objects import Destination, Exchange, Queue
from queues.definitions.metadata.commands import (
    Bind,
    Command,
    DeclareExchange,
    DeclareQueue,
    DeleteQueue,
    Unbind,
)
from queues.definitions.metadata.outcomes import Outcome
from queues.queue_host import QueueHost
from warren.wire.errors import ProtocolError, ReplyCode, Scope

UNKNOWN_COUNT: Final = 1  # of messages in a queue that is down: it may not be empty


class ServedQueues(Protocol):
    """See `node.definitions.queue_registry`."""

    def check_served(self, queue: Queue) -> None:
        """Raise 404 for a queue that the log does not hold whole."""


class Definitions(Protocol):
    """See `node.definitions.broker_definitions`."""

    def queue(self, vhost: str, name: str) -> Queue | None: ...

    def exchange(self, vhost: str, name: str) -> Exchange | None: ...

    def is_topic(self, vhost: str, exchange: str) -> bool:
        """Whether its keys are under topic permissions."""


class ChangedDefinitions(Definitions, Protocol):
    """The same, for those who propose changes."""

    def has_exchange(self, vhost: str, name: str) -> bool: ...

    def propose(
        self, command: Command, done: Callable[[Outcome], None], author: Author = BROKER
    ) -> None: ...


class DefiningBroker(Protocol):
    """The broker, as this module asks it."""

    @property
    def queues(self) -> ServedQueues: ...

    @property
    def definitions(self) -> Definitions: ...

    @property
    def node_name(self) -> str: ...

    @property
    def topic_hashes_max(self) -> int:
        """How many words `#` a binding key of a topic exchange may have; 0: any number."""


class Actor(Protocol):
    """A connection, in the name of its user in its vhost. `id` owns exclusive queues."""

    @property
    def id(self) -> str: ...

    @property
    def vhost(self) -> str: ...

    @property
    def permissions(self) -> PermissionCache: ...

    @property
    def broker(self) -> DefiningBroker: ...


def new_name(prefix: str) -> str:
    """`prefix` and 22 base64url characters: a name that is not in use."""
    return prefix + base64.urlsafe_b64encode(os.urandom(16)).rstrip(b"=").decode()


def find_queue(actor: Actor, name: str) -> Queue:
    """Raise 404 if there is none."""
    queue = actor.broker.definitions.queue(actor.vhost, name)
    if queue is None:
        text = f"no queue '{name}' in vhost '{actor.vhost}'"
        raise ProtocolError(ReplyCode.NOT_FOUND, text)
    actor.broker.queues.check_served(queue)
    return queue


def check_lock(actor: Actor, queue: Queue) -> None:
    """Raise 405 for another connection's exclusive queue."""
    if queue.exclusive_owner not in ("", actor.id):
        raise ProtocolError(
            ReplyCode.RESOURCE_LOCKED,
            f"cannot obtain exclusive access to locked queue '{queue.name}' in vhost "
            f"'{queue.vhost}'. It could be originally declared on another connection or the "
            "exclusive property value does not match that of the original declaration.",
        )


def readable_queue(actor: Actor, name: str) -> Queue:
    """The queue to take messages from; raise 403, 404 or 405, in this order."""
    actor.permissions.require(READ, "queue", name)
    queue = find_queue(actor, name)
    check_lock(actor, queue)
    return queue


def leaderless_error(host: QueueHost) -> ProtocolError:
    """Why a queue has not answered in time."""
    place = f"queue '{host.name}' in vhost '{host.vhost}'"
    text = f"{place} has no leader that this node knows of"
    return ProtocolError(ReplyCode.INTERNAL_ERROR, text, Scope.CHANNEL)


def queue_declaration(
    actor: Actor,
    name: str,
    *,
    durable: bool,
    exclusive: bool,
    auto_delete: bool,
    arguments: dict[str, object],
    server_named: bool = False,
) -> DeclareQueue:
    """Dead-lettering needs read on a new queue and write on its exchange."""
    actor.permissions.require(CONFIGURE, "queue", name)
    target = arguments.get("x-dead-letter-exchange")
    found = actor.broker.definitions.queue(actor.vhost, name)
    if isinstance(target, str) and not _names(found, "x-dead-letter-exchange", target):
        actor.permissions.require(READ, "queue", name)
        actor.permissions.require(WRITE, "exchange", target)
    return DeclareQueue(
        actor.vhost,
        name,
        durable,
        actor.id if exclusive else "",
        auto_delete,
        encode_arguments(arguments),
        actor.broker.node_name,
        server_named,
    )


def queue_deletion(actor: Actor, name: str) -> DeleteQueue | None:
    """None if there is no such queue, which is no error."""
    actor.permissions.require(CONFIGURE, "queue", name)
    queue = actor.broker.definitions.queue(actor.vhost, name)
    if queue is None:
        return None
    check_lock(actor, queue)
    return DeleteQueue(actor.vhost, name, queue.uid, actor.id)


def exchange_declaration(
    actor: Actor,
    name: str,
    kind: str,
    *,
    durable: bool,
    auto_delete: bool,
    internal: bool,
    arguments: dict[str, object],
) -> DeclareExchange:
    """An alternate exchange needs read on a new one and write on the alternate."""
    actor.permissions.require(CONFIGURE, "exchange", name)
    alternate = arguments.get("alternate-exchange")
    found = actor.broker.definitions.exchange(actor.vhost, name)
    if isinstance(alternate, str) and not _names(found, "alternate-exchange", alternate):
        actor.permissions.require(READ, "exchange", name)
        actor.permissions.require(WRITE, "exchange", alternate)
    return DeclareExchange(
        actor.vhost, name, kind, durable, auto_delete, internal, encode_arguments(arguments)
    )


def _names(found: Queue | Exchange | None, argument: str, exchange: str) -> bool:
    """Whether it is there and sends messages on to this exchange already."""
    return found is not None and decode_arguments(found.arguments).get(argument) == exchange


def _check_hashes(key: bytes, allowed: int) -> None:
    """Refuse a binding key with more `#` than the node allows (0: any number)."""
    count = key.split(b".").count(b"#")
    if 0 < allowed < count:
        shown = key.decode("utf-8", "replace")
        text = (
            f"binding key '{shown}' has {count} words '#'; "
            f"allowed: at most {allowed} (limits.topic_binding_hashes_max)"
        )
        raise ProtocolError(ReplyCode.PRECONDITION_FAILED, text)


def binding(
    actor: Actor,
    command: type[Bind] | type[Unbind],
    source: str,
    kind: Destination,
    destination: str,
    key: bytes,
    arguments: dict[str, object],
) -> Bind | Unbind:
    """Write on the destination, read on the source, and on its key."""
    what = "queue" if kind is Destination.QUEUE else "exchange"
    actor.permissions.require(WRITE, what, destination)
    actor.permissions.require(READ, "exchange", source)
    if command is Bind and actor.broker.definitions.is_topic(actor.vhost, source):
        refused = actor.permissions.topic_refusal(READ, source, key)
        if refused is not None:
            raise refused
        _check_hashes(key, actor.broker.topic_hashes_max)
    encoded = encode_arguments(arguments)
    return command(actor.vhost, source, kind, destination, key, encoded, actor.id)

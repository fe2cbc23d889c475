"""Subscriptions: receivers whose source is the address of an exchange. Not compiled: seldom busy.

The link consumes from a queue of its own, bound to the exchange with the key of the address. With
the expiry policy `never` the subscription is durable: its queue has a name made of container-id and
link name, outlives link and connection, and is found again by the next attach with the same names.
A detach with `closed` deletes it. An attach with another address replaces it. Any other expiry
policy gives an exclusive queue that is deleted with the link.

An attach without a source finds a durable subscription (`amqp:not-found` if there is none); JMS
clients do so to unsubscribe. Queue and binding need the same permissions as if the client declared
them by the name of the queue.
"""

from collections.abc import Callable
from typing import Final, Protocol
from urllib.parse import quote

from node.amqp10.dynamic import Dynamics, Made
from node.amqp10.owner import Definitions
from node.amqp10.termini import NEVER, retried
from node.auth.asked_access import Undecided
from node.definitions.definition_changes import (
    Actor,
    DefiningBroker,
    binding,
    queue_declaration,
    queue_deletion,
)
from node.events.authors import Author
from queues.conversion.addresses import EXCHANGES, parse_target
from queues.definitions.broker_objects import Destination
from queues.definitions.metadata.commands import Bind, Command
from queues.definitions.metadata.outcomes import Outcome, Refused
from warren.wire.amqp10.codec.performatives import Attach, Source
from warren.wire.amqp10.errors import Condition, ProtocolError, Scope

PREFIX: Final = "amq.subscription."
NAME_BYTES_MAX: Final = 255

Opened = Callable[[str, Made | None], None]  # name of the queue; what was made for the link alone


class Broker(DefiningBroker, Protocol):
    @property
    def definitions(self) -> Definitions: ...


class Owner(Actor, Protocol):
    """The connection."""

    @property
    def broker(self) -> Broker: ...

    @property
    def dynamics(self) -> Dynamics: ...

    def container_id(self) -> str:
        """Of the client."""

    def when(self, undecided: Undecided, call: Callable[[], None]) -> None:
        """See `Waiting`."""

    def author(self) -> Author: ...


def is_subscription(attach: Attach) -> bool:
    """Whether a receiver wants one, or looks for one."""
    source = attach.source
    if source is None:
        return True
    return isinstance(source.address, str) and source.address.startswith(EXCHANGES)


def queue_name(owner: Owner, link_name: str) -> str:
    """Of a durable subscription."""
    name = f"{PREFIX}{quote(owner.container_id(), safe='')}:{quote(link_name, safe='')}"
    if len(name) > NAME_BYTES_MAX:
        text = f"container-id and link name make a queue name of more than {NAME_BYTES_MAX} bytes"
        raise ProtocolError(Condition.INVALID_FIELD, text, Scope.LINK)
    return name


def subscribe(
    owner: Owner, attach: Attach, opened: Opened, refused: Callable[[ProtocolError], None]
) -> None:
    """Find or make the queue of a subscription; one of the callbacks is called.

    ProtocolError, or a refusal of AMQP 0-9-1: it cannot be.
    """
    source = attach.source
    if source is None:
        name = queue_name(owner, attach.name)
        if owner.broker.definitions.queue(owner.vhost, name) is None:
            text = f"container '{owner.container_id()}' has no subscription '{attach.name}'"
            raise ProtocolError(Condition.NOT_FOUND, text, Scope.LINK)
        opened(name, None)
        return
    asked = parse_target(source.address)
    if owner.broker.definitions.exchange(owner.vhost, asked.exchange) is None:
        text = f"no exchange '{asked.exchange}' in vhost '{owner.vhost}'"
        raise ProtocolError(Condition.NOT_FOUND, text, Scope.LINK)
    if source.expiry_policy != NEVER:
        _subscribe_for_link(owner, asked.exchange, asked.routing_key, opened, refused)
        return
    name = queue_name(owner, attach.name)
    commands: list[Command] = []
    if owner.broker.definitions.queue(owner.vhost, name) is not None:
        bound = owner.broker.definitions.bindings_to_queue(owner.vhost, name)
        wanted = (asked.exchange, asked.routing_key)
        if [(each.source, each.binding_key) for each in bound if each.source] == [wanted]:
            opened(name, None)
            return
        deletion = queue_deletion(owner, name)
        if deletion is not None:
            commands.append(deletion)
    settings: dict[str, bool] = {"durable": True, "exclusive": False, "auto_delete": False}
    commands.append(queue_declaration(owner, name, arguments={}, server_named=True, **settings))
    commands.append(_binding(owner, asked.exchange, name, asked.routing_key))
    _propose_all(owner, commands, lambda: opened(name, None), refused)


def _subscribe_for_link(
    owner: Owner,
    exchange: str,
    key: bytes,
    opened: Opened,
    refused: Callable[[ProtocolError], None],
) -> None:
    def made(queue: Made) -> None:
        def bind() -> None:
            command = _binding(owner, exchange, queue.name, key)
            _propose_all(owner, [command], lambda: opened(queue.name, queue), refused)

        def give_up(error: ProtocolError) -> None:
            owner.dynamics.give_up(queue)
            refused(error)

        retried(owner, bind, give_up)

    wanted = owner.dynamics.wanted(Source(dynamic=True))
    retried(owner, lambda: owner.dynamics.make(wanted, made, refused), refused)


def _binding(owner: Owner, exchange: str, queue: str, key: bytes) -> Command:
    return binding(owner, Bind, exchange, Destination.QUEUE, queue, key, {})


def _propose_all(
    owner: Owner,
    commands: list[Command],
    then: Callable[[], None],
    refused: Callable[[ProtocolError], None],
) -> None:
    """One after the other, up to the first that is refused."""
    first, rest = commands[0], commands[1:]

    def done(outcome: Outcome) -> None:
        if isinstance(outcome, Refused):
            refused(ProtocolError(Condition.PRECONDITION_FAILED, outcome.text, Scope.LINK))
        elif rest:
            _propose_all(owner, rest, then, refused)
        else:
            then()

    owner.broker.definitions.propose(first, done, owner.author())

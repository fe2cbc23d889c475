"""Dynamic termini: queues that the broker makes for a link of AMQP 1.0.

A source or target with `dynamic` gets a transient queue of its connection's own (exclusive), under
a name that the broker makes; our attach says its address. With the capability
`rabbitmq:volatile-queue` that is a reply queue, for which no permission is asked, as for direct
reply-to of AMQP 0-9-1; else it is as if the client had declared it.

The lifetime policy says when it is deleted, at the latest with the connection. Looked at are the
moments at which a link of this connection that names the queue ends:

| Policy | Deleted when |
|---|---|
| delete-on-close, or none | the link ends for which it was made |
| delete-on-no-links | that was the last one |
| delete-on-no-messages | the queue holds no message |
| delete-on-no-links-or-messages | that was the last one, and the queue holds no message |

One `Dynamics` for each connection owns what it knows of them; it hears of links by `join` and
`leave`. A queue that was deleted meanwhile is forgotten when its next link ends.
"""

from collections.abc import Callable
from typing import Final, Protocol

from msgspec import Struct

from node.definitions.definition_changes import (
    Actor,
    ChangedDefinitions,
    DefiningBroker,
    ServedQueues,
    new_name,
    queue_declaration,
)
from node.definitions.queue_churn import QueueChanges
from node.events.authors import Author
from queues.conversion.addresses import queue_address
from queues.definitions.arguments import encode_arguments
from queues.definitions.metadata.commands import DeclareQueue, DeleteQueue
from queues.definitions.metadata.outcomes import Outcome
from queues.definitions.metadata.outcomes import Refused as RefusedOutcome
from queues.queue_host import Counts
from warren.wire.amqp10.codec import descriptors
from warren.wire.amqp10.codec.performatives import (
    Composite,
    DeleteOnClose,
    DeleteOnNoLinks,
    DeleteOnNoLinksOrMessages,
    DeleteOnNoMessages,
    Source,
    Target,
)
from warren.wire.amqp10.codec.values import Described, ULong
from warren.wire.amqp10.errors import Condition, ProtocolError, Scope
from warren.wire.errors import ReplyCode

TEMPORARY: Final = "temporary-queue"  # capabilities
VOLATILE: Final = "rabbitmq:volatile-queue"
ANSWERS_PREFIX: Final = "amq.rabbitmq.reply-to."  # of volatile queues, as in RabbitMQ 4.2
LIFETIME_POLICY: Final = "lifetime-policy"
POLICIES: Final[tuple[type[Composite], ...]] = (
    DeleteOnClose,
    DeleteOnNoLinks,
    DeleteOnNoMessages,
    DeleteOnNoLinksOrMessages,
)


class Wish(Struct, frozen=True):
    """What the client asks for."""

    volatile: bool
    policy: int  # descriptor of the lifetime policy


class Made(Struct):
    """A queue that was made for a link."""

    name: str
    wish: Wish
    uid: int = 0
    links: int = 0  # of this connection that name it

    @property
    def address(self) -> str:
        return queue_address(self.name)

    @property
    def capabilities(self) -> list[str]:
        return [VOLATILE if self.wish.volatile else TEMPORARY]

    @property
    def properties(self) -> dict[str, object]:
        """Of the node, as our attach tells them."""
        return {LIFETIME_POLICY: Described(ULong(self.wish.policy), [])}


class Queues(ServedQueues, Protocol):
    """See `node.definitions.queue_registry`."""

    def host(self, uid: int) -> Counts: ...

    def is_at_rest(self, uid: int) -> bool:
        """Whether the queue is unused and it has no message."""


class Broker(DefiningBroker, Protocol):
    """The broker, as this module asks it."""

    @property
    def queues(self) -> Queues: ...

    @property
    def definitions(self) -> ChangedDefinitions: ...

    @property
    def changes(self) -> QueueChanges: ...


class Owner(Actor, Protocol):
    """The connection."""

    owns_queues: bool  # set before an exclusive queue is declared

    @property
    def broker(self) -> Broker: ...

    def author(self) -> Author:
        """Of what it has changed."""


class Dynamics:
    """Those of one connection, by name."""

    def __init__(self, owner: Owner) -> None:
        self._owner = owner
        self._made: dict[str, Made] = {}

    def wanted(self, terminus: Source | Target) -> Made:
        """A queue for the terminus, which has a name and is not there yet.

        ProtocolError: the terminus asks for what there is not.
        """
        wish = wish_of(terminus)
        return Made(new_name(ANSWERS_PREFIX if wish.volatile else "amq.gen-"), wish)

    def make(
        self,
        made: Made,
        then: Callable[[Made], None],
        refuse: Callable[[ProtocolError], None],
    ) -> None:
        """Make that queue; one of both is called once that is decided.

        Refusal: the user has no right. Undecided: it is not known.
        """
        owner = self._owner

        def declared(outcome: Outcome) -> None:
            queue = owner.broker.definitions.queue(owner.vhost, made.name)
            if isinstance(outcome, RefusedOutcome) or queue is None:
                refuse(_fault_of(outcome))
                return
            owner.broker.changes.churn.count_declared()
            made.uid = queue.uid
            self._made[made.name] = made
            then(made)

        command = self._declaration(made)
        owner.owns_queues = True  # Also if it is gone when this is committed.
        owner.broker.definitions.propose(command, declared, owner.author())

    def _declaration(self, made: Made) -> DeclareQueue:
        owner = self._owner
        if made.wish.volatile:
            nothing = encode_arguments({})
            node = owner.broker.node_name
            return DeclareQueue(owner.vhost, made.name, False, owner.id, False, nothing, node, True)
        return queue_declaration(
            owner,
            made.name,
            durable=False,
            exclusive=True,
            auto_delete=False,
            arguments={},
            server_named=True,
        )

    def give_up(self, made: Made) -> None:
        """The link went before its queue was there."""
        self._delete(made)

    def join(self, name: str) -> None:
        """A link names this queue."""
        made = self._made.get(name)
        if made is not None:
            made.links += 1

    def leave(self, name: str, its_own: Made | None = None) -> None:
        """The link is over; `its_own` if the queue was made for it."""
        made = self._made.get(name)
        if made is None:
            return
        made.links -= 1
        if self._is_over(made, its_own is made):
            self._delete(made)

    def _is_over(self, made: Made, was_its_own: bool) -> bool:
        match made.wish.policy:
            case descriptors.DELETE_ON_CLOSE:
                return was_its_own
            case descriptors.DELETE_ON_NO_LINKS:
                return made.links == 0
            case descriptors.DELETE_ON_NO_MESSAGES:
                return self._is_empty(made)
            case _:
                return made.links == 0 and self._is_empty(made)

    def _is_empty(self, made: Made) -> bool:
        broker = self._owner.broker
        if broker.queues.is_at_rest(made.uid):
            return True
        host = broker.queues.host(made.uid)
        return host.ready_count + host.checked_out_count == 0

    def _delete(self, made: Made) -> None:
        self._made.pop(made.name, None)
        broker = self._owner.broker
        queue = broker.definitions.queue(self._owner.vhost, made.name)
        if queue is not None and queue.uid == made.uid:
            command = DeleteQueue(queue.vhost, queue.name, queue.uid)
            broker.definitions.propose(command, told_to_nobody, self._owner.author())


def told_to_nobody(outcome: Outcome) -> None:
    """The receiver of the report has gone."""


def wish_of(terminus: Source | Target) -> Wish:
    """ProtocolError: an address beside `dynamic`, or a lifetime policy that there is not."""
    if terminus.address is not None:
        raise _invalid("a dynamic terminus has no address")
    volatile = VOLATILE in (terminus.capabilities or ())
    policy = (terminus.dynamic_node_properties or {}).get(LIFETIME_POLICY)
    if policy is None:
        return Wish(volatile, descriptors.DELETE_ON_CLOSE)
    if isinstance(policy, Described):
        for known in POLICIES:
            if policy.descriptor in (known.descriptor, f"amqp:{known.type_name}:list"):
                return Wish(volatile, known.descriptor)
    raise _invalid("unknown lifetime policy")


def _invalid(text: str) -> ProtocolError:
    return ProtocolError(Condition.INVALID_FIELD, text, Scope.LINK)


def _fault_of(outcome: Outcome) -> ProtocolError:
    """Why there is no queue for the link."""
    condition, text = Condition.RESOURCE_LIMIT_EXCEEDED, "it is gone again"
    if isinstance(outcome, RefusedOutcome):
        text = outcome.text
        if outcome.code is ReplyCode.INTERNAL_ERROR:  # No majority of the cluster answers.
            condition = Condition.INTERNAL_ERROR
    return ProtocolError(condition, text, Scope.LINK)

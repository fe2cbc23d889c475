"""What sessions and links of AMQP 1.0 need of the endpoint that owns them."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Protocol

from node.amqp091.plans import PlanCache, Tracing
from node.auth.asked_access import Undecided
from node.auth.permissions import PermissionCache
from node.definitions.definition_changes import ChangedDefinitions, DefiningBroker, ServedQueues
from node.events.authors import Author
from node.events.logs import Ids
from node.process_identity import ProcessIdentity
from queues.definitions.broker_objects import Binding, Queue
from queues.queue_host import QueueHost
from queues.routing.content import Content
from queues.sessions.counts import Counts
from queues.sessions.credit import CreditSpec
from queues.sessions.publishing import Held, Publisher, Targets
from warren.wire.errors import ProtocolError

if TYPE_CHECKING:
    from node.addresses.address_keeper import AddressKeeper
    from node.amqp10.dynamic import Dynamics
    from node.amqp10.hints import LinkHints, Timer
    from node.amqp10.management import Management
    from node.amqp10.named_targets import NamedTargets
    from node.connections.interceptors import Interceptors
    from node.leases.leases import Leases
    from node.operations.peeking import Browsed
    from queues.routing.router import Route


class Plans(PlanCache, Protocol):
    """Plans, and routes that differ by message."""

    def targets(self, uids: tuple[int, ...], exchange: str) -> Targets: ...

    def route(
        self, exchange: str, key: bytes, content: Content, more_keys: tuple[bytes, ...]
    ) -> "Route | None":
        """Route one message by its content or by several keys; nothing is remembered.

        None: this turn has no time for all keys, or for hosts of all queues; call it again for the
        same message.
        """

    def keys_refusal(self, exchange: str, keys: Sequence[bytes]) -> ProtocolError | None:
        """Why the user may not publish with these keys beside the message's own. Undecided."""

    def put_off(self, undecided: Undecided) -> None:
        """A look at single messages ends here."""


class Queues(ServedQueues, Protocol):
    """See `node.definitions.queue_registry`."""

    def host(self, uid: int) -> QueueHost: ...

    def is_lost(self, uid: int) -> bool:
        """Whether the queue is one of a node that is down."""


class Rules(Protocol):
    """What holds for queues (`node.definitions.effective_rules`)."""

    def can_refuse(self, queue: Queue) -> bool:
        """Whether it refuses messages because of its length, now and then."""


class Definitions(ChangedDefinitions, Protocol):
    """See `node.definitions.broker_definitions`."""

    def bindings_to_queue(self, vhost: str, name: str) -> list[Binding]: ...


class Node(DefiningBroker, Protocol):
    """The broker, as links ask it."""

    @property
    def queues(self) -> Queues: ...

    @property
    def definitions(self) -> Definitions: ...

    @property
    def identity(self) -> ProcessIdentity: ...

    @property
    def rules(self) -> Rules: ...

    @property
    def addresses(self) -> "AddressKeeper":
        """The limits of addresses."""

    async def browse(self, queue: Queue, level: int, seq: int, count: int) -> "Sequence[Browsed]":
        """Messages behind a cursor (`node.operations.peeking`)."""

    @property
    def interceptors(self) -> "Interceptors": ...

    @property
    def leases(self) -> "Leases": ...

    @property
    def named_targets(self) -> "NamedTargets":
        """The publishing links of the node whose target is a queue."""


class Owner10(Protocol):
    """The endpoint."""

    @property
    def dynamics(self) -> "Dynamics":
        """The queues that were made for its links."""

    @property
    def id(self) -> str: ...

    @property
    def name(self) -> str:
        """Of the connection."""

    @property
    def vhost(self) -> str: ...

    @property
    def user(self) -> str: ...

    @property
    def permissions(self) -> PermissionCache: ...

    @property
    def broker(self) -> Node: ...

    @property
    def counts(self) -> Counts:
        """The node's counters of this protocol."""

    @property
    def held(self) -> Held:
        """Bytes that all links of the connection have in flight."""

    @property
    def hints(self) -> "LinkHints":
        """What flows of its links tell of their queues."""

    def management(self) -> "Management":
        """Carries out requests to `/management`."""

    @property
    def frame_max(self) -> int:
        """Bytes of the largest frame that clients of AMQP 0-9-1 may negotiate."""

    def is_impersonator(self) -> bool:
        """Whether the user may publish under another user's name."""

    def call_later(self, ms: int, call: Callable[[], None]) -> "Timer":
        """`call` comes within a turn."""

    def hand_over(self, publisher: Publisher, done: Callable[[], None]) -> None:
        """Hand the rest of a publish to its queues in the turns that follow; then `done`."""

    def when(self, undecided: Undecided, call: Callable[[], None]) -> None:
        """Call in a turn in which that is decided, if the connection is still there."""

    def container_id(self) -> str:
        """Of the client."""

    def credit_spec(self) -> CreditSpec: ...

    def plans(self) -> Plans: ...

    def must_wait(self) -> bool:
        """Return whether messages that need routing wait for the next turn."""

    def mark(self) -> None:
        """There is something to send at the end of this turn."""

    def count_published(self, count: int) -> None:
        """For flow control."""

    def trace_of(self, channel: int) -> Tracing | None:
        """For the links of a session; None: nothing is traced."""

    def ids(self) -> Ids:
        """For its lines in the log."""

    def author(self) -> Author:
        """Of the definitions that its client changes."""

"""Where the publishes of a channel go, and who copies its messages."""

from typing import TYPE_CHECKING, Protocol

from node.auth.asked_access import Undecided
from queues.queue_host import QueueHost
from queues.sessions.publishing import HandOverRoom, Targets
from warren.wire.amqp091.events import Publishes
from warren.wire.errors import ProtocolError

if TYPE_CHECKING:
    from queues.message import Chunk
    from warren.wire.amqp10.transfers import Transfers


class Plan:
    """Where publishes with one key go. `plain` means: nothing but that needs to be looked at.

    `traced`: it would be plain, but copies are made of all messages (`node.events.firehose`).
    `returned`: they come back, because they are mandatory and no queue gets them.
    """

    __slots__ = (
        "error",
        "exchange",
        "mandatory",
        "per_message",
        "plain",
        "returned",
        "routing_key",
        "targets",
        "traced",
    )

    def __init__(
        self,
        exchange: str,
        routing_key: bytes,
        targets: Targets,
        mandatory: bool,
        per_message: bool,
        error: ProtocolError | None,
    ) -> None:
        self.exchange = exchange
        self.routing_key = routing_key
        self.targets = targets
        self.mandatory = mandatory
        self.per_message = per_message
        self.error = error
        self.returned = mandatory and len(targets.hosts) == 0
        self.plain = error is None and not per_message and not self.returned
        self.traced = False

    def trace(self) -> None:
        """Copies are made of what goes this way: each message needs a look."""
        self.traced = self.plain
        self.plain = False


class PlanCache(Protocol):
    """Plans of one user in one vhost, by publish key, as long as no definition changes."""

    def get(self, key: bytes) -> Plan | None: ...

    def make(self, key: bytes) -> Plan:
        """Route and check afresh, and remember."""

    def make_some(self, key: bytes) -> Plan | None:
        """`make`, if this turn has time for all of it. None: call it again in the next turn, or
        when what `take_undecided` gives is decided."""

    def take_undecided(self) -> Undecided | None:
        """What the last `make_some`, or look at single messages, ended at."""

    def is_undecided(self) -> bool:
        """Whether `take_undecided` has something."""

    def refresh(self) -> None:
        """Forget everything if a definition has changed since."""

    @property
    def version(self) -> int:
        """Of the definitions that plans are made of, as of the last `refresh`."""

    @property
    def hand_overs(self) -> HandOverRoom:
        """What this turn has left for messages that go to many queues."""

    def is_spent(self) -> bool:
        """Whether this turn has no time left for `make`, or to look at single messages."""

    def needs_look(self, event: Publishes) -> bool:
        """Whether messages with headers need a look of their own, whatever their plans say."""


class Parted:
    """An event whose messages needed a look of their own, cut at the first that is refused.

    The bytes of `event` may be others than those that came in. `rest` holds the messages for which
    the turn had no time.
    """

    __slots__ = ("error", "event", "plans", "rest", "returns")

    def __init__(self) -> None:
        self.event: Publishes | None = None
        self.plans: list[Targets] = []
        self.returns: list[tuple[int, int, str, bytes]] = []  # start, end, exchange, routing key
        self.error: ProtocolError | None = None
        self.rest: Publishes | None = None


class Tracing(Protocol):
    """Copies of messages of one channel or session (`node.events.firehose`)."""

    def published(self, parted: Parted) -> None: ...

    def published_10(self, run: "Transfers", targets: Targets, names: bytes) -> None: ...

    def delivered(
        self, host: QueueHost, chunk: "Chunk", first: int, count: int, redelivered: bool
    ) -> None:
        """Messages first.. of the chunk go to the client."""

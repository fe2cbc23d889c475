"""What a channel needs of the endpoint that owns it (declared by the channel, its user)."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from queues.hosts.host_interfaces import Steppable
from queues.queue_host import QueueHost
from queues.sessions.counts import Counts
from queues.sessions.credit import CreditSpec
from queues.sessions.publishing import Targets
from warren.wire.amqp091.events import Called, Publishes, Settles
from warren.wire.amqp091.methods import Method
from warren.wire.errors import ProtocolError

if TYPE_CHECKING:
    from node.amqp091.channel import Channel091
    from node.amqp091.deliveries import Consumer091
    from node.oversized import OversizedHeaders
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

    def refresh(self) -> None:
        """Forget everything if a definition has changed since."""

    @property
    def version(self) -> int:
        """Of the definitions that plans are made of, as of the last `refresh`."""

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


class Owner(Protocol):
    """The endpoint."""

    @property
    def name(self) -> str:
        """Of the connection."""

    def credit_spec(self) -> CreditSpec: ...

    def quorum_global_qos(self) -> bool:
        """Whether a limit of the whole channel may span quorum queues."""

    @property
    def counts(self) -> Counts:
        """The node's counters."""

    @property
    def oversized(self) -> "OversizedHeaders":
        """Counts and logs the messages that a client cannot be sent."""

    def plan_cache(self) -> PlanCache: ...

    def part(self, event: Publishes) -> Parted:
        """Look at each message of the event that needs it."""

    def is_clogged(self) -> bool:
        """Whether the peer does not take what was sent."""

    def mark(self) -> None:
        """There is something to send at the end of this turn."""

    def mark_channel(self, channel: "Channel091") -> None:
        """The same, and the channel has confirms or deliveries to add."""

    def count_published(self, channel: "Channel091", count: int) -> None:
        """For flow control and metrics."""

    def count_by_exchange(self, number: int, event: Publishes, plans: list[Targets]) -> None:
        """A client looks at exchanges: count what goes into each, and how many queues get it."""

    def between_steps(self, call: Callable[[], None]) -> None:
        """Call now, or when no queue is in the midst of a step (`node.turn`)."""

    def step_later(self, work: Steppable) -> None:
        """Step it in the next turn."""

    def dispatch(self, channel: "Channel091", event: Publishes | Settles | Called) -> None:
        """Let the channel handle the event; settle its ProtocolError, if any."""

    def fail(self, channel: "Channel091", error: ProtocolError) -> None:
        """Close the channel or the connection for this error."""

    def answer(
        self, channel: "Channel091", callback: Callable[[int, int], None], first: int, second: int
    ) -> None:
        """Call back, settle a ProtocolError, else let the channel go on."""

    def channel_closed(self, channel: "Channel091") -> None:
        """The client closed the channel."""

    def consumer_created(self, channel: "Channel091", consumer: "Consumer091") -> None:
        """Its queue has taken the consumer."""

    def consumer_deleted(self, channel: "Channel091", consumer: "Consumer091") -> None:
        """A consumer that its queue had taken is over."""

    def queue_for_read(self, channel: "Channel091", name: str) -> QueueHost:
        """The named (or current) queue; raise 404, 405 or 403."""

    def gone_error(self, host: QueueHost) -> ProtocolError:
        """Why a queue cannot be used that was gone before it has answered."""

    def open_answers(self, channel: "Channel091") -> QueueHost:
        """A pseudo-queue for the answers to the channel's requests
        (`node.connections.direct_reply_to`)."""

    def new_name(self, prefix: str) -> str:
        """A name that is not in use."""

    def define(self, channel: "Channel091", method: Method) -> None:
        """exchange.*, queue.* and what else concerns definitions."""

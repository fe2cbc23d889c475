"""What a channel needs of the endpoint that owns it (declared by the channel, its user)."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from node.amqp091.plans import Parted, PlanCache
from node.auth.asked_access import Undecided
from queues.hosts.host_interfaces import Steppable
from queues.queue_host import QueueHost
from queues.sessions.counts import Counts
from queues.sessions.credit import CreditSpec
from queues.sessions.publishing import Publisher, Targets
from warren.wire.amqp091.events import Called, Publishes, Settles
from warren.wire.amqp091.methods import Method
from warren.wire.errors import ProtocolError

if TYPE_CHECKING:
    from node.amqp091.channel import Channel091
    from node.amqp091.deliveries import Consumer091
    from node.oversized import OversizedHeaders
    from queues.definitions.metadata.machine import Metadata


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

    @property
    def sent_clock(self) -> Callable[[], int] | None:
        """By which deliveries say when they are sent; None: they do not."""

    def plan_cache(self) -> PlanCache: ...

    def part(self, event: Publishes) -> Parted:
        """Look at each message of the event that needs it."""

    def is_clogged(self) -> bool:
        """Whether the peer does not take what was sent."""

    def hand_over(self, publisher: Publisher, done: Callable[[], None]) -> None:
        """Hand the rest of a publish to its queues in the turns that follow; then `done`."""

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

    def step_after(self, work: Steppable, wait_ms: int) -> None:
        """Step it in a turn after so many milliseconds."""

    def step_when(self, undecided: Undecided, channel: "Channel091") -> None:
        """Step it in a turn in which that is decided."""

    def weigh_gate(self, channel: "Channel091", count: int) -> None:
        """The channel has published to an address with limits: hold it if it has to wait."""

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

    def metadata(self) -> "Metadata":
        """The definitions as they are now."""

    def gone_error(self, host: QueueHost) -> ProtocolError:
        """Why a queue cannot be used that was gone before it has answered."""

    def open_answers(self, channel: "Channel091") -> QueueHost:
        """A pseudo-queue for the answers to the channel's requests
        (`node.connections.direct_reply_to`)."""

    def new_name(self, prefix: str) -> str:
        """A name that is not in use."""

    def define(self, channel: "Channel091", method: Method) -> None:
        """exchange.*, queue.* and what else concerns definitions."""

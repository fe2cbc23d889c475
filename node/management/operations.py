"""What the management listener may have the broker do, and the definitions that it reads.

Everything is called on the loop; what takes a while is awaited, and done when it returns.
"""

from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from typing import Final, Protocol

from msgspec import Struct

from node.definitions.definition_changes import DefiningBroker
from node.operations.peeking import Peeked
from node.operations.redriving import Order, Permit, Redriven, Told
from queues.definitions.broker_objects import Queue
from queues.definitions.metadata.commands import Command
from queues.definitions.metadata.machine import Metadata
from queues.definitions.metadata.outcomes import Outcome
from warren.wire.amqp091.properties import BasicProperties

PROPERTIES: Final = (
    "content_type", "content_encoding", "headers", "delivery_mode", "priority", "correlation_id",
    "reply_to", "expiration", "message_id", "timestamp", "type", "user_id", "app_id", "cluster_id",
)  # fmt: skip


class PublishersBlocked(Exception):
    """A resource alarm or a full address holds publishers; the text says which."""


class Got(Struct, frozen=True, kw_only=True):
    """A message that was taken from a queue."""

    exchange: str
    routing_key: str
    redelivered: bool
    remaining: int  # ready in the queue after this one
    properties: dict[str, object]
    payload: bytes


def shown_properties(properties: BasicProperties) -> dict[str, object]:
    """Those that the message has."""
    found = {name: getattr(properties, name) for name in PROPERTIES}
    return {name: _text_shown(value) for name, value in found.items() if value is not None}


def _text_shown(value: object) -> object:
    """The value as JSON can say it: names and short strings need not be UTF-8."""
    if isinstance(value, str):
        return value.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
    if isinstance(value, list):
        return [_text_shown(each) for each in value]
    if isinstance(value, dict):
        return {_text_shown(name): _text_shown(each) for name, each in value.items()}
    return value


class Operations(Protocol):
    """The broker, as it is changed by operators."""

    @property
    def metadata(self) -> Metadata:
        """All definitions, to be read alone."""

    @property
    def broker(self) -> DefiningBroker: ...

    async def carry_out(self, command: Command) -> Outcome:
        """Have the command committed; what it changes is in force when this returns."""

    async def delete_vhost(self, name: str) -> None:
        """Delete the vhost with all that is in it, its queues some at a time."""

    async def purge(self, queue: Queue) -> int:
        """How many messages went."""

    async def reset_offset(self, queue: Queue, reference: bytes) -> bool:
        """Set the offset that a stream has stored for a consumer to 0; False: it has stored none.
        TimeoutError: the stream has no leader."""

    def retired(
        self, queue: Queue, *, if_empty: bool, if_unused: bool
    ) -> AbstractAsyncContextManager[tuple[int, int]]:
        """How many messages are ready, and how many consume; while that is as asked, the queue
        takes no publish until the end of the block, in which it may be deleted. TimeoutError:
        no node serves it."""

    async def publish(
        self, vhost: str, exchange: str, routing_key: bytes, properties: bytes, payload: bytes
    ) -> bool:
        """Whether the message was routed to a queue, and taken by all of them.

        LookupError: there is no such exchange. ValueError: what it says cannot be published.
        PublishersBlocked: a resource alarm is set, or an address is full.
        """

    async def get(self, queue: Queue, count: int, outcome: int) -> Sequence[Got]:
        """Take up to so many messages, and settle all of them with this outcome."""

    async def peek(
        self, queue: Queue, offset: int, count: int, payload_bytes: int
    ) -> Sequence[Peeked]:
        """Messages from a position on, as they are; PeekFailed if no node can answer.

        Fewer than asked for at the end of the queue, or where they are large.
        """

    async def skip_unreadable(self, queue: Queue) -> Sequence[int]:
        """Take out what cannot be read of the first ready messages; their numbers. PeekFailed."""

    async def redrive(
        self, queue: Queue, order: Order, permit: Permit, told: Told | None = None
    ) -> Redriven:
        """Move dead letters back to where they died, or elsewhere; none is lost.

        `told` hears how far it is. QueueGone, PeekFailed: there is no queue to take them from.
        PublishersBlocked: a resource alarm is set.
        """

    def close_connections(self, vhost: str, user: str, reason: str) -> int:
        """Close those of the vhost, or of the user ("": any); how many there were."""


NOT_ADJUSTABLE: Final = "the clock of this node is not adjustable: set testing.adjustable_clock"


class NodeControls(Protocol):
    """What operators set on this node while it runs."""

    def set_limits(self, memory_bytes: int | None, disk_bytes: int | None) -> None:
        """None: as it is."""

    @property
    def memory_total_bytes(self) -> int: ...

    async def set_listening(self, is_open: bool) -> None:
        """OSError: the port cannot be had."""

    def advance_clock(self, ms: int) -> None:
        """Move the node's clock forward. OSError: `testing.adjustable_clock` is not set."""

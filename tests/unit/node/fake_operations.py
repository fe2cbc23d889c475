"""Operations on a metadata machine alone: keeps `node.management.operations.Operations`."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from node.management.operations import Got
from node.operations.peeking import Peeked
from node.operations.redriving import Order, Permit, Redriven, Told
from queues.definitions.broker_objects import Exchange, Queue
from queues.definitions.metadata.commands import Command, DeleteVhost
from queues.definitions.metadata.machine import Metadata
from queues.definitions.metadata.outcomes import Outcome


class FakeOperations:
    """Commands are applied at once; there are no messages and no connections."""

    node_name = "warren@here"

    def __init__(self) -> None:
        self.metadata = Metadata()

    @property
    def broker(self) -> "FakeOperations":
        return self

    @property
    def definitions(self) -> "FakeOperations":
        return self

    def queue(self, vhost: str, name: str) -> Queue | None:
        found = self.metadata.vhosts.get(vhost)
        return None if found is None else found.queues.get(name)

    def exchange(self, vhost: str, name: str) -> Exchange | None:
        found = self.metadata.vhosts.get(vhost)
        return None if found is None else found.exchanges.get(name)

    topic_hashes_max = 0

    def is_topic(self, vhost: str, exchange: str) -> bool:
        return False

    @property
    def queues(self) -> "FakeOperations":
        return self

    def check_served(self, queue: Queue) -> None:
        return

    async def carry_out(self, command: Command) -> Outcome:
        return self.metadata.apply(self.metadata.applied_index + 1, command)

    async def delete_vhost(self, name: str) -> None:
        await self.carry_out(DeleteVhost(name))

    async def reset_offset(self, queue: Queue, reference: bytes) -> bool:
        raise NotImplementedError

    async def purge(self, queue: Queue) -> int:
        return 0

    @asynccontextmanager
    async def retired(
        self, queue: Queue, *, if_empty: bool, if_unused: bool
    ) -> AsyncIterator[tuple[int, int]]:
        yield 0, 0

    async def publish(
        self, vhost: str, exchange: str, routing_key: bytes, properties: bytes, payload: bytes
    ) -> bool:
        return False

    async def get(self, queue: Queue, count: int, outcome: int) -> Sequence[Got]:
        return ()

    async def peek(
        self, queue: Queue, offset: int, count: int, payload_bytes: int
    ) -> Sequence[Peeked]:
        return ()

    async def skip_unreadable(self, queue: Queue) -> Sequence[int]:
        return ()

    async def redrive(
        self, queue: Queue, order: Order, permit: Permit, told: Told | None = None
    ) -> Redriven:
        return Redriven()

    def close_connections(self, vhost: str, user: str, reason: str) -> int:
        return 0

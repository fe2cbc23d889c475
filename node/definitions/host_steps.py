"""What the hosts of queues ask of their node: steps, timers, bodies (`Steps` of their interfaces).

Marks hosts for a turn of the loop, wakes them by timers, reads bodies back for them, deletes queues
that are unused, and tells operators of slow consumers. At a start it holds the hosts until the
definitions are known: those that were saved may be older than the log has them, and by older
policies messages would be dropped, or die without the exchange that is to get them.
"""

import asyncio
from collections.abc import Callable
from typing import Protocol, final

from node.events.event_sources import tell_slow_consumer
from node.events.events import Events
from node.recovery.unreadable import Unreadable
from node.timers import Timers
from node.turn import Turn
from queues.bodies.store import BodyBudget
from queues.definitions.metadata.commands import Command, DeleteQueue
from queues.definitions.metadata.machine import Metadata
from queues.hosts.host_interfaces import BodyOwner, Steppable, Waking
from queues.machine.effects import SlowConsumer
from queues.message import Chunk
from warren.storage.tally import DiskUse, Tally


class BodyLog(Protocol):
    """Reads message bodies back (`warren.storage.wal.Wal`)."""

    def read(
        self, file_id: int, offset: int, length: int, done: Callable[[bytes | Exception], None]
    ) -> None: ...

    def is_rewriting(self, file_id: int) -> bool: ...

    @property
    def sync_counts(self) -> list[int]: ...

    @property
    def sync_total_s(self) -> float: ...

    @property
    def tally(self) -> Tally: ...

    def disk_use(self) -> DiskUse: ...

    @property
    def pending_bytes(self) -> int: ...


@final
class Begun:
    """Stands behind the hosts that were held, and is stepped when they were."""

    def __init__(self, done: asyncio.Future[None]) -> None:
        self._done = done

    def step(self, now_ms: int) -> None:
        if not self._done.done():
            self._done.set_result(None)


class HostSteps:
    """See the module. All methods run on the loop thread."""

    def __init__(
        self,
        turn: Turn,
        timers: Timers,
        bodies: BodyLog,
        budget: BodyBudget,
        metadata: Metadata,
        events: Events,
        propose: Callable[[Command], None],
    ) -> None:
        self.unreadable = Unreadable()
        self.slow_consumer_count = 0  # that were found since the node started
        self._turn = turn
        self._timers = timers
        self._bodies = bodies
        self._budget = budget
        self._metadata = metadata
        self._events = events
        self._propose = propose
        # To be stepped once the definitions are known, each once; None: they are.
        self._held: dict[Steppable, None] | None = None

    def hold(self) -> None:
        """The node starts: step no host before `release`."""
        self._held = {}

    async def release(self) -> None:
        """The definitions are known, and all hosts configured: return once all were stepped."""
        held, self._held = self._held or {}, None
        done = asyncio.get_running_loop().create_future()
        for host in [*held, Begun(done)]:
            self._turn.mark_host(host)
        await done

    def mark_host(self, host: Steppable) -> None:
        if self._held is None:
            self._turn.mark_host(host)
        else:
            self._held[host] = None

    def mark_host_later(self, host: Steppable) -> None:
        if self._held is None:
            self._turn.mark_host_later(host)
        else:
            self._held[host] = None

    def wake_host(self, host: Waking, due_ms: int) -> None:
        self._timers.wake(host, due_ms)

    def queue_unused(self, uid: int) -> None:
        """Delete an auto-delete queue without consumers, or a queue that has expired."""
        queue = self._metadata.queue(uid)
        if queue is not None:
            self._propose(DeleteQueue(queue.vhost, queue.name, queue.uid))

    def consumer_slow(self, uid: int, effect: SlowConsumer) -> None:
        """Report a consumer that settles fewer messages than the queue's threshold asks."""
        self.slow_consumer_count += 1
        queue = self._metadata.queue(uid)
        if queue is not None:
            tell_slow_consumer(self._events, queue, effect)

    def load(self, owner: BodyOwner, chunk: Chunk) -> None:
        """Read the chunk's bytes from its page file, or from the log."""

        def done(result: bytes | Exception) -> None:
            self._turn.begin()
            if isinstance(result, Exception):
                self.unreadable.failed(owner, file_id, offset, result)
                owner.load_failed(chunk)
            else:
                self.unreadable.succeeded(owner, file_id, offset)
                owner.loaded(chunk, result)

        pager = self._budget.pager
        file_id, offset = chunk.file_id, chunk.file_offset
        if pager is not None and chunk.page_id > 0:
            file_id, offset = -chunk.page_id, chunk.page_offset  # A name that no log file has.
            pager.files.read(chunk.page_id, offset, chunk.size(), done)
        else:
            self._bodies.read(file_id, offset, chunk.size(), done)

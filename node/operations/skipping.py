"""Messages that cannot be read, taken out of the queue that they hold up. Not compiled.

    skipping = Skipping(broker)
    skipping.serve(operating.status)      # for the other nodes
    numbers = await skipping.skip(queue)  # PeekFailed: no node can answer

The leader of the queue looks at its first LOOKED_AT ready messages and reads each of them that is
not in memory alone. Those that the disk refuses each time are taken as a `get` takes them, and
accepted: there is no body to be a dead letter. What lies before them is taken too and goes back at
once, as redelivered. A message that is merely slow to be read stays.

A queue reads what was published together as one piece, so that one bad place keeps the others from
being read, too. Once the bad ones are gone for good, their neighbours are made pieces of their own,
as if the log had moved them to where they are (`isolate`); not those in page files, which are taken
with the piece. What was taken is logged with its numbers.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Sequence
from functools import partial
from itertools import count
from typing import TYPE_CHECKING, Any, Final

from node.cluster.services.status_channel import NoAnswer, StatusChannel, Unanswerable
from node.events.logs import ids_of
from node.operations.operator_session import OperatorSession, QueueGone
from node.operations.peeking import PeekFailed, Peeking, ready_from
from queues.bodies.extents import data_begin
from queues.definitions.broker_objects import Queue
from queues.hosts.queue_core import QueueCore
from queues.machine.commands import ACCEPT

if TYPE_CHECKING:
    from node.broker import Broker

log = logging.getLogger("warren.broker")

SKIP: Final = "skip_unreadable"
LOOKED_AT: Final = 1000
PATIENCE_S: Final = 60.0  # for all of it; a queue without a leader does not answer
STILL_S: Final = 0.05  # between two looks at whether a file is being rewritten
STILL_TRIES: Final = 200


class Skipping:
    """See the module."""

    def __init__(self, broker: "Broker", peeking: Peeking) -> None:
        self._broker = broker
        self._peeking = peeking
        self._beside: dict[int, list[int]] = {}  # by queue: taken, and their neighbours still wait

    def serve(self, status: StatusChannel) -> None:
        status.serve(SKIP, self._asked)

    async def skip(self, queue: Queue) -> list[int]:
        """Numbers of the messages that were taken out."""
        operating = self._broker.operating
        leader = operating.leader_of(queue.vhost, queue.name)
        if not leader:
            raise PeekFailed("the queue has no known leader")
        if leader == operating.cluster_snapshot.here:
            return await self._skip_here(queue)
        try:
            parts = await operating.status.ask(leader, SKIP, queue.uid, PATIENCE_S)
        except NoAnswer as error:
            name = operating.cluster_snapshot.name_of(leader)
            raise PeekFailed(f"node {name}, which leads the queue: {error}") from error
        return [int(part) for part in parts]

    async def _asked(self, asker: int, about: Any) -> AsyncIterator[object]:
        queue = self._broker.metadata.queue(about)
        operating = self._broker.operating
        if queue is None or not operating.is_led_here(about):
            raise Unanswerable("it does not lead the queue")
        try:
            numbers = await self._skip_here(queue)
        except PeekFailed as error:
            raise Unanswerable(str(error)) from error
        for number in numbers:
            yield number

    async def _skip_here(self, queue: Queue) -> list[int]:
        host = self._broker.queues.hosts.awake.get(queue.uid)
        if host is None:
            return []  # It is at rest, and has no message.
        try:
            async with asyncio.timeout(PATIENCE_S):
                bad = await self._unreadable(host)
                taken = await self._take(queue, bad) if bad else []
        except TimeoutError as error:
            raise PeekFailed("the queue, or the disk, does not answer") from error
        gone = sorted({*self._beside.pop(queue.uid, ()), *taken})
        if gone and not await self._isolate(host, gone):
            self._beside[queue.uid] = gone
        if taken:
            numbers = ", ".join(map(str, taken))
            log.warning(
                "queue '%s' in vhost '%s': %d messages that cannot be read were taken out: %s",
                queue.name,
                queue.vhost,
                len(taken),
                numbers,
                extra=ids_of(queue=queue.name, vhost=queue.vhost),
            )
            self._broker.steps.unreadable.forget(queue.uid)  # What is left is reported again.
        return taken

    async def _isolate(self, host: QueueCore, gone: Sequence[int]) -> bool:
        """As `isolate`, once nothing that was alive with the dead ones is about to move. False: the
        log took too long, and the next order tries again.
        """
        bodies = self._broker.bodies
        files = {place for place in map(partial(file_of, host), gone) if place}
        for _ in range(STILL_TRIES):
            if not any(bodies.is_rewriting(file_id) for file_id in files):
                isolate(host, gone)
                return True
            await asyncio.sleep(STILL_S)
        return False

    async def _unreadable(self, host: QueueCore) -> set[int]:
        found: set[int] = set()
        for seq in await ready_from(host, 0, LOOKED_AT):
            if await self._peeking.is_refused(host, seq):
                found.add(seq)
        return found

    async def _take(self, queue: Queue, bad: set[int]) -> list[int]:
        """Accept these; what the queue gives beside them goes back. The queue knows on return."""
        session = OperatorSession(self._broker.identity.new_session())
        taken: list[int] = []
        try:
            for looked_at in count():
                self._broker.turn.begin()
                message, _, _ = await session.get(self._broker.queues.host(queue.uid))
                if message in bad:
                    taken.append(message)
                if message == 0 or len(taken) == len(bad) or looked_at == LOOKED_AT:
                    break
            self._broker.turn.begin()
            session.settle(self._broker.queues.host(queue.uid), taken, ACCEPT)
            await session.inspect(self._broker.queues.host(queue.uid))
        except QueueGone as error:
            raise PeekFailed("the queue is gone") from error
        finally:
            self._broker.turn.begin()
            session.end()
        return sorted(taken)


def file_of(host: QueueCore, number: int) -> int:
    """The file of the log that had a message whose neighbours are alive; 0: none."""
    slot = host.store.find_live(number)
    return 0 if slot is None else int(slot.chunk.file_id)


def isolate(host: QueueCore, gone: Sequence[int]) -> None:
    """Make pieces of their own of what was written in the log together with these, which are dead.

    No more are made than the dead ones cut anyway, so that the log moves none of them with another.
    """
    for number in gone:
        slot = host.store.find_live(number)
        if slot is None or not slot.first <= number < slot.first + slot.count:
            continue
        chunk = slot.chunk
        in_log = chunk.file_id > 0 and chunk.durable and slot.journaled
        if chunk.data is not None or not in_log or chunk in host.store.loading:
            continue
        for first, end in ((slot.first, number), (number + 1, slot.first + slot.count)):
            if first < end and host.live_ranges(first, end - first):
                begin = slot.index + first - slot.first
                offsets = chunk.offsets[4 * begin : 4 * (begin + end - first + 1)]
                place = (int(chunk.file_id), int(data_begin(chunk, begin, False)))
                host.relocated(first, end - first, place, place, offsets)

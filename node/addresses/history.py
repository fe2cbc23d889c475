"""Gives a queue that is bound to a retroactive exchange what the exchange has kept.

    history.bind(command, propose, done)    # False: nothing is kept; propose it as ever

The newest messages first go to the queue, in the order of their arrival, those that the new binding
would have routed there (`copying`); then the binding is proposed; then the queue gets what came to
the ring meanwhile. So the queue lacks none that was published on this node, and may have one twice
that was published while the binding was made. If the leader of the ring does not answer, the
binding is made without messages, and the log says so.
"""

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING

from queues.definitions.broker_objects import Destination
from queues.definitions.metadata.commands import Bind
from queues.definitions.metadata.outcomes import Outcome, Refused
from queues.definitions.retroactive import ring_name
from warren.wire.errors import ReplyCode

if TYPE_CHECKING:
    from node.addresses.copying import Copying, Node

Done = Callable[[Outcome], None]


class History:
    """One for each broker. All methods run on the loop thread."""

    def __init__(self, broker: "Node") -> None:
        self._broker = broker
        self._tasks: set[asyncio.Task[None]] = set()

    def bind(self, command: Bind, propose: Callable[[Done], None], done: Done) -> bool:
        """Copy and propose; `done` gets the outcome behind the copies. During a resource alarm
        nothing is copied, and so nothing bound: the binding is refused."""
        copying = self._copying(command)
        if copying is None:
            return False
        if self._broker.alarms.is_set():
            done(
                Refused(
                    ReplyCode.PRECONDITION_FAILED,
                    f"queue '{command.destination}' in vhost '{command.vhost}' cannot get what "
                    f"exchange '{command.source}' keeps: publishing is blocked by a resource "
                    f"alarm: {self._broker.alarms.reason()}",
                )
            )
            return True
        task = asyncio.get_running_loop().create_task(self._bind(copying, propose, done))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return True

    def _copying(self, command: Bind) -> "Copying | None":
        """None: there is nothing to copy, or the binding is there already."""
        vhost = self._broker.metadata.vhosts.get(command.vhost)
        exchange = None if vhost is None else vhost.exchanges.get(command.source)
        if vhost is None or exchange is None or command.destination_kind is not Destination.QUEUE:
            return None
        ring = vhost.queues.get(ring_name(exchange))
        queue = vhost.queues.get(command.destination)
        if ring is None or queue is None or queue.exclusive_owner not in ("", command.connection):
            return None
        for each in vhost.bindings_to(Destination.QUEUE, queue.name):
            same = (each.source, each.binding_key, each.arguments)
            if same == (command.source, command.binding_key, command.arguments):
                return None
        from node.addresses.copying import Copying

        return Copying(self._broker, exchange, ring, queue, command)

    async def _bind(self, copying: "Copying", propose: Callable[[Done], None], done: Done) -> None:
        answered: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()
        try:
            await copying.run()
            self._broker.turn.begin()
            propose(answered.set_result)
            outcome = await answered
            if not isinstance(outcome, Refused):
                await copying.run()
        finally:
            copying.end()
        self._broker.turn.begin()
        done(outcome)

"""What the other members of a queue know of its leases, so that its next leader goes on with them.

A node tells them which messages each batch of a lease holds, before it answers its client (`tell`).
The node that leads the queue next ends the session that held them, and takes the same messages
under a session of its own (`Leases`, `Lease.restore`). A node forgets what it has heard when the
lease is over, or after twice its time limit. All this is in memory alone: a lease of which the next
leader has not heard is lost with its node, and its messages are ready again.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct

from node.cluster.services.status_channel import NoAnswer
from node.leases.batches import Batch, HeldRun
from node.leases.lease import Lease
from queues.machine.commands import SessionId

if TYPE_CHECKING:
    from node.cluster.services.status_channel import StatusChannel

HELD: Final = "lease_held"  # questions to other nodes
OVER: Final = "lease_over"

Key = tuple[int, str]  # uid of the queue, name of the lease


class Standing(Struct, frozen=True):
    """A lease of another node, as that has described it last."""

    user: str
    session: SessionId  # that holds the messages
    timeout_ms: int
    newest: int
    batches: list[Batch]
    due_ms: int  # monotonic: when it is forgotten


class Handover:
    """See the module."""

    def __init__(
        self, status: "StatusChannel", monotonic_ms: Callable[[], int], heard: Callable[[], None]
    ) -> None:
        """`heard` is called when another node has described a lease."""
        self.known: dict[Key, Standing] = {}
        self._status = status
        self._monotonic_ms = monotonic_ms
        self._heard = heard
        self._tasks: set[asyncio.Task[None]] = set()
        status.serve(HELD, self._held)
        status.serve(OVER, self._over)

    async def tell(self, lease: Lease) -> None:
        """Tell the other members of the queue, those that answer."""
        about = [
            *(int(lease.queue.uid), lease.name, lease.user, f"{lease.session:x}"),
            *(lease.timeout_ms, lease.batches.newest),
            [
                [each.number, each.size_bytes, [[r.first, r.count, r.attempts] for r in each.runs]]
                for each in lease.batches.held.values()
            ],
        ]
        await self._ask_all(lease, HELD, about)

    def end(self, lease: Lease) -> None:
        """The lease is over: the others forget it."""
        telling = self._ask_all(lease, OVER, [int(lease.queue.uid), lease.name])
        task = asyncio.get_running_loop().create_task(telling)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _ask_all(self, lease: Lease, question: str, about: list[object]) -> None:
        others = [each for each in lease.queue.holders if each != self._status.member]
        await asyncio.gather(*(self._ask(each, question, about) for each in others))

    async def _ask(self, member: int, question: str, about: object) -> None:
        try:
            await self._status.ask(member, question, about)
        except NoAnswer:
            return  # It cannot be the next leader, or then does without.

    async def _held(self, asker: int, about: Any) -> AsyncIterator[object]:
        uid, name, user, session, timeout_ms, newest, batches = about
        due_ms = self._monotonic_ms() + 2 * timeout_ms
        found = [batch_of(*each) for each in batches]
        numbered = SessionId(int(session, 16))
        self.known[uid, name] = Standing(user, numbered, timeout_ms, newest, found, due_ms)
        self._heard()
        yield True

    async def _over(self, asker: int, about: Any) -> AsyncIterator[object]:
        uid, name = about
        yield self.known.pop((uid, name), None) is not None


def batch_of(number: int, size_bytes: int, runs: list[list[int]]) -> Batch:
    """As other nodes tell it; its messages will have been delivered before."""
    batch = Batch(number)
    batch.add(
        (HeldRun(first, count, True, attempts) for first, count, attempts in runs), size_bytes
    )
    return batch

"""A node leaves its cluster, stops, and starts empty the next time (`warrenctl reset`).

Refused where queues or the definitions would lose their majority without it, unless it is forced.
If one of two nodes leaves, quorum queues and the lead of the definitions first move to the other
(`Membership.leave_pair`). The node is marked (`node.operations.resetting`), forgotten by the
others, and then
ends its process. Another node is asked to reset itself over `StatusChannel`; it answers before it
stops. The others end their links as soon as they have forgotten it, so that it may hear from one it
asks before it hears what became of its command: either will do (`Removal`).
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any, Final, Protocol

from node.cluster.membership.member_changes import Asking, Membership, Refused
from node.cluster.services.maintenance import told
from node.cluster.services.status_channel import NoAnswer
from node.operations.resetting import mark, unmark
from warren.storage.disk import Disk

RESET: Final = "reset"  # a question: force -> [True]
RESET_S: Final = 60.0
STOP_S: Final = 0.2  # so that the answer is on its way


class Removal(Protocol):
    """Who hears that this node is no member any more
    (`node.cluster.cluster_node.ClusterService`)."""

    on_removed: Callable[[], None] | None  # is called in place of an end of the process


class Leaving:
    """See the module. `stop` begins the end of the process, and returns."""

    def __init__(
        self,
        membership: Membership,
        asking: Asking,
        disk: Disk,
        directory: str,
        stop: Callable[[], None],
        removal: Removal | None = None,
    ) -> None:
        self._membership = membership
        self._asking = asking
        self._disk = disk
        self._directory = directory
        self._stop = stop
        self._removal = removal
        asking.serve(RESET, self._reset_asked)

    async def reset(self, node: str, force: bool = False) -> None:
        """Have that node leave; it may be this one."""
        member = self._membership.cluster_snapshot.member_named(node)
        if member is None:
            raise Refused(f"node '{node}' is not a member of the cluster", missing=True)
        try:
            await self._asking.ask(member.id, RESET, force, RESET_S)
        except NoAnswer as error:
            raise Refused(str(error)) from error

    async def _reset_asked(self, asker: int, about: Any) -> AsyncIterator[object]:
        await told(lambda: self._leave(about is True))
        asyncio.get_running_loop().call_later(STOP_S, self._stop)
        yield True

    async def _leave(self, force: bool) -> None:
        membership = self._membership
        cluster_snapshot = membership.cluster_snapshot
        here = cluster_snapshot.here
        if len(cluster_snapshot.members()) == 2:
            await membership.leave_pair(here)  # Before the mark: until then its log is needed.
        elif not force and (membership.critical(here) or membership.is_definitions_critical(here)):
            raise Refused("queues or the definitions have no majority of running nodes without it")
        await asyncio.to_thread(mark, self._disk, self._directory)
        if len(cluster_snapshot.members()) < 2:
            return
        try:
            await self._forgotten(cluster_snapshot.name_of(here))
        except Refused:
            await asyncio.to_thread(unmark, self._disk, self._directory)
            raise

    async def _forgotten(self, node: str) -> None:
        """Have the cluster forget this node."""
        if self._removal is None:
            await self._membership.forget(node, force=True)
            return
        removed = asyncio.Event()
        self._removal.on_removed = removed.set
        forgetting = asyncio.create_task(self._told_to_forget(node))
        hearing = asyncio.create_task(removed.wait())
        try:
            await asyncio.wait((forgetting, hearing), return_when=asyncio.FIRST_COMPLETED)
            refusal = None if removed.is_set() else forgetting.result()
            if refusal is not None:
                raise refusal
        except BaseException:
            self._removal.on_removed = None
            raise
        finally:
            forgetting.cancel()
            hearing.cancel()

    async def _told_to_forget(self, node: str) -> Refused | None:
        try:
            await self._membership.forget(node, force=True)
        except Refused as error:
            return error
        return None

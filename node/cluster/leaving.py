"""A node leaves its cluster, stops, and starts empty the next time (`warrenctl reset`).

Refused where queues or the definitions would lose their majority without it, unless it is forced.
The node is marked (`node.resetting`), forgotten by the others, and then ends its process. Another
node is asked to reset itself over `StatusPart`; it answers before it stops.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any, Final

from node.cluster.maintenance import told
from node.cluster.membership import Asking, Membership, Refused
from node.cluster.status_part import NoAnswer
from node.resetting import mark, unmark
from warren.storage.disk import Disk

RESET: Final = "reset"  # a question: force -> [True]
RESET_S: Final = 60.0
STOP_S: Final = 0.2  # so that the answer is on its way


class Leaving:
    """See the module. `stop` begins the end of the process, and returns."""

    def __init__(
        self,
        membership: Membership,
        asking: Asking,
        disk: Disk,
        directory: str,
        stop: Callable[[], None],
    ) -> None:
        self._membership = membership
        self._asking = asking
        self._disk = disk
        self._directory = directory
        self._stop = stop
        asking.serve(RESET, self._reset_asked)

    async def reset(self, node: str, force: bool = False) -> None:
        """Have that node leave; it may be this one."""
        member = self._membership.landscape.member_named(node)
        if member is None:
            raise Refused(f"node '{node}' is not a member of the cluster", missing=True)
        try:
            await self._asking.ask(member.id, RESET, force, RESET_S)
        except NoAnswer as error:
            raise Refused(str(error)) from error

    async def _reset_asked(self, asker: int, about: Any) -> AsyncIterator[object]:
        await told(lambda: self._leave(about is True))
        yield True
        asyncio.get_running_loop().call_later(STOP_S, self._stop)

    async def _leave(self, force: bool) -> None:
        membership = self._membership
        landscape = membership.landscape
        here = landscape.here
        is_needed = membership.critical(here) or membership.is_definitions_critical(here)
        if is_needed and not force:
            raise Refused("queues or the definitions would lose their majority without it")
        await asyncio.to_thread(mark, self._disk, self._directory)
        if len(landscape.members()) < 2:
            return
        try:
            await membership.forget(landscape.name_of(here), force=True)
        except Refused:
            await asyncio.to_thread(unmark, self._disk, self._directory)
            raise

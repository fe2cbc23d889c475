"""One import of definitions: commands that are tried, then carried out in slices.

Takes commands in order, each with its place in the file (`queues[12]`). `try_out` has all of them
applied by a rehearsal: where one would be refused nothing is done at all. `carry_out` proposes
them, SLICE in an entry; should one be refused then (another client has changed things meanwhile, or
there is no majority), what went before it stays, and the error says how far it came. Both let the
loop turn between slices.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

from msgspec import Struct

from node.management.changes import refuse
from node.management.operations import Operations
from node.management.rehearsal import rehearsal_of
from node.management.replies import ApiError
from queues.definitions.metadata.commands import Batch, Command
from queues.definitions.metadata.outcomes import Batched, Outcome, Refused
from queues.definitions.policy_warnings import command_warnings

SLICE: Final = 256  # commands in one entry
LOG: Final = logging.getLogger("warren.management")
LOGGED_MAX: Final = 100  # warnings of one import
TRIED: Final = 64  # commands between two turns of the loop

Told = Callable[[int], Awaitable[None]]  # how many are done


class Placed(Struct, frozen=True):
    """A command, and what of the file it is for."""

    command: Command
    place: str


class ImportRun:
    """See the module."""

    def __init__(self, operations: Operations, placed: Sequence[Placed]) -> None:
        self._operations = operations
        self._placed = placed

    @property
    def total(self) -> int:
        return len(self._placed)

    def warnings(self) -> list[str]:
        """What of the import will have no effect; also logged."""
        found = [warning for each in self._placed for warning in command_warnings(each.command)]
        for each in found[:LOGGED_MAX]:
            LOG.warning("definitions import: %s", each)
        if len(found) > LOGGED_MAX:
            LOG.warning("definitions import: %d more warnings", len(found) - LOGGED_MAX)
        return found

    async def try_out(self) -> None:
        """ApiError for the first command that would be refused."""
        machine = rehearsal_of(self._operations.metadata)
        for done, each in enumerate(self._placed, 1):
            outcome = machine.apply(machine.applied_index + 1, each.command)
            if isinstance(outcome, Refused):
                refuse(outcome.code, f"{each.place}: {outcome.text}; nothing was imported")
            if done % TRIED == 0:
                await asyncio.sleep(0)

    async def carry_out(self, told: Told) -> None:
        for start in range(0, self.total, SLICE):
            some = self._placed[start : start + SLICE]
            batch = Batch(tuple(each.command for each in some))
            outcome = await self._operations.carry_out(batch)
            if isinstance(outcome, Refused):
                self._refuse(start, outcome, done=start)
            assert isinstance(outcome, Batched)
            self._check(start, outcome.outcomes)
            await told(start + len(some))

    def _check(self, start: int, outcomes: Sequence[Outcome]) -> None:
        refused = sum(isinstance(each, Refused) for each in outcomes)
        for place, each in enumerate(outcomes, start):
            if isinstance(each, Refused):
                self._refuse(place, each, done=start + len(outcomes) - refused)

    def _refuse(self, place: int, refused: Refused, done: int) -> None:
        """`done`: how many are in force."""
        where = self._placed[place].place
        text = f"{where}: {refused.text}; {done} of {self.total} changes were made"
        refuse(refused.code, text)


async def ignore_progress(done: int) -> None:
    """Of an import that is not watched."""


def failure_row(error: ApiError) -> dict[str, object]:
    """The last line of a watched import that has failed."""
    return {"error": error.error, "reason": error.reason}

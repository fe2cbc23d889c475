"""When consumers are looked at for what they keep too long. Compiled.

Takes the time, and the timeout that holds where a consumer has none of its own; gives who is late,
and when the next look is due. How long a consumer has held something is its own knowledge
(`queues.machine.consuming.consumers`). A look costs as much as there are consumers, so there is
one for every eighth
of the shortest timeout, and none where nothing is held or no consumer has a timeout.
"""

from typing import Final, final

from mypy_extensions import i64

from queues.machine.consuming.consumers import Consumer
from queues.machine.consuming.roster import Roster
from queues.machine.expiry import FAR

NEVER: Final = FAR - 1  # no consumer has a timeout


@final
class Timeouts:
    """The next look is at `check_ms`; FAR: none is planned."""

    def __init__(self, roster: Roster) -> None:
        self.check_ms: i64 = FAR
        self.look_sooner = False  # some timeout may be shorter than when that was planned
        self._roster = roster

    def wants_plan(self) -> bool:
        """Whether `plan` is to be called, if consumers hold something."""
        return self.check_ms == FAR or self.look_sooner

    def plan(self, now_ms: i64, default_ms: i64) -> i64:
        """Set the time of the next look; return it, or FAR."""
        self.look_sooner = False
        step = self._roster.check_step_ms(default_ms)
        planned = NEVER if step < 0 else now_ms + step
        self.check_ms = min(self.check_ms, planned)
        return self.due_ms()

    def due_ms(self) -> i64:
        return self.check_ms if self.check_ms < NEVER else FAR

    def take_late(self, now_ms: i64, default_ms: i64) -> list[Consumer]:
        """Look, if it is time: who has kept a delivery for longer than its timeout?"""
        if now_ms < self.check_ms:
            return []
        self.check_ms = FAR
        return self._roster.late(now_ms, default_ms)

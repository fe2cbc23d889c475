"""What both ends of a queue in use from another node need of the node (0036). Compiled."""

from collections.abc import Callable
from typing import Final, Protocol

WINDOW_BYTES: Final = 1 << 20  # of bodies on their way to a session, or waiting for it
PART_BYTES: Final = 1 << 20  # a message of the stream is closed at this size

# A message of the stream to the other node, in parts that are not joined. The stream keeps the
# order, and loses and doubles nothing as long as both processes live.
Send = Callable[[list[bytes]], None]


class Ending(Protocol):
    """What has gathered something to be sent."""

    def end_turn(self) -> None: ...


class EndOfTurn(Protocol):
    """Who calls `end_turn` of what was marked, once all hosts of the turn were stepped."""

    def mark_away(self, ending: Ending) -> None: ...

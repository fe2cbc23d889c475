"""What a queue host needs of those around it: who steps and wakes it, and who takes its dead.

The turn of the loop keeps `Steps`, and steps whatever is `Steppable`; timers wake what is `Waking`.
Compiled.
"""

from typing import TYPE_CHECKING, Protocol

from mypy_extensions import i64

from queues.message import Chunk

if TYPE_CHECKING:
    from queues.hosts.classic import ClassicHost


class Steppable(Protocol):
    """What a turn steps."""

    def step(self, now_ms: i64) -> None: ...


class Waking(Protocol):
    """What a timer wakes."""

    def on_timer(self) -> None: ...

    @property
    def is_gone(self) -> bool: ...


class Steps(Protocol):
    """Who steps the hosts at the end of a turn of the loop."""

    def mark_host(self, host: Steppable) -> None: ...

    def mark_host_later(self, host: Steppable) -> None:
        """Step it in the next turn: there is more to do than fits into this one."""

    def wake_host(self, host: Waking, due_ms: int) -> None:
        """Call `host.on_timer()` at that time."""

    def queue_unused(self, uid: int) -> None:
        """The queue is to be deleted: its last consumer is gone, or its time is over."""

    def load(self, host: "ClassicHost", chunk: Chunk) -> None:
        """Read the chunk's bytes from its file, then call `host.loaded(chunk)`."""


class Undertaker(Protocol):
    """Where the dead letters of one queue go."""

    def bury(self, chunk: Chunk, index: int, count: int, reason: str) -> None:
        """Messages index.. of the chunk, whose bytes are in memory, died for this reason."""

    def close(self) -> None:
        """The queue is gone, or has another one now."""

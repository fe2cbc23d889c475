"""Which messages of a source are forwarded, when they are settled, and when the work is done.

The rules of shovels and links, without I/O. The host reports what happens and acts on the answer:

    core.opened(ready)              # both sides are there; ready: messages in the source queue
    take = core.arrived(count)      # forward that many of a batch; the rest waits for the end
    core.confirmed(count)           # the target has them: acknowledge them at the source
    core.is_complete                # all that was to be moved is acknowledged
    wait_s = core.failed(reason, roll)   # close both sides, and begin again after that time

`roll` is a random number of 0..1, so that many links do not dial at the same moment.
"""

from typing import Final

STARTING: Final = "starting"
RUNNING: Final = "running"
TERMINATED: Final = "terminated"
PAUSED: Final = "paused"  # by an operator
BACKOFF_MAX_S: Final = 60.0
BACKOFF_STEPS: Final = 3  # doublings of the reconnect delay
RECONNECT_S_MIN: Final = 0.1
STEADY_S: Final = 30.0  # a session of that length begins the row of waits again


class Forwarding:
    """Invariant: `in_flight` messages are forwarded and not settled; `_left` may still be, None:
    any number."""

    def __init__(self, reconnect_s: float, delete_after: int | str = "never") -> None:
        self.state = STARTING
        self.reason = ""
        self.forwarded = 0  # settled at the source, over all sessions
        self.in_flight = 0
        self.failures = 0  # in a row
        self._reconnect_s = reconnect_s
        self._by_length = delete_after == "queue-length"
        self._left: int | None = delete_after if isinstance(delete_after, int) else None
        self._unsettled_left = self._left  # the same, less what is in flight

    @property
    def is_limited(self) -> bool:
        """Whether it ends by itself after a number of messages."""
        return self._by_length or self._left is not None

    @property
    def is_complete(self) -> bool:
        return self._left == 0

    def prefetch(self, wanted: int) -> int:
        """No more than is to be moved: what is left over would be redelivered to others."""
        return wanted if not self._left else min(wanted, self._left)

    def declared(self, ready: int) -> None:
        """The source has so many ready messages; reported before it is consumed."""
        if self._by_length and self._left is None:
            self._left = ready
        self._unsettled_left = self._left

    def opened(self) -> None:
        self.state = RUNNING
        self.reason = ""

    def arrived(self, count: int) -> int:
        """How many of the next messages are forwarded."""
        take = count if self._unsettled_left is None else min(count, self._unsettled_left)
        if self._unsettled_left is not None:
            self._unsettled_left -= take
        self.in_flight += take
        return take

    def confirmed(self, count: int) -> None:
        self.in_flight -= count
        self.forwarded += count
        if self._left is not None:
            self._left -= count

    def failed(self, reason: str, roll: float, lasted_s: float = 0.0) -> float:
        """Both sides are closed: what is in flight comes again. How long to wait, in seconds."""
        self.state = TERMINATED
        self.reason = reason
        self.in_flight = 0
        self._unsettled_left = self._left
        self.failures = 1 if lasted_s >= STEADY_S else self.failures + 1
        steps = min(self.failures - 1, BACKOFF_STEPS)
        wait_s = min(self._reconnect_s * 2.0**steps, max(BACKOFF_MAX_S, self._reconnect_s))
        return max(RECONNECT_S_MIN, wait_s * (0.75 + 0.5 * roll))

    def restarted(self) -> None:
        """No session is open: what was in flight comes again."""
        self.state = STARTING
        self.in_flight = 0

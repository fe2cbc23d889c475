"""Calls that are due when the test says so. Keeps `node.timers.CallLater`."""

from collections.abc import Callable


class FakeHandle:
    """One of them."""

    def __init__(self, call: Callable[[], None]) -> None:
        self.call = call
        self.cancelled = False

    def cancel(self) -> None:
        self.cancelled = True


class FakeTimers:
    """All that were asked for and have not come, nor been cancelled when the rest came."""

    def __init__(self) -> None:
        self.due: list[FakeHandle] = []

    def call_later(self, seconds: float, call: Callable[[], None]) -> FakeHandle:
        self.due.append(FakeHandle(call))
        return self.due[-1]

    def pass_time(self) -> bool:
        """All come that are asked for now; whether there were any."""
        due, self.due = self.due, []
        for handle in due:
            if not handle.cancelled:
                handle.call()
        return len(due) > 0

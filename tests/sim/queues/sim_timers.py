"""Timers of a simulated node: they fire when the test lets time pass."""

from collections.abc import Callable


class Timer:
    def __init__(self, due_ms: float, callback: Callable[[], None]) -> None:
        self.due_ms = due_ms
        self.callback = callback
        self.cancelled = False

    def cancel(self) -> None:
        self.cancelled = True

    def fire(self) -> None:
        if not self.cancelled:
            self.callback()


class SimTimers:
    """All of one node; what is due is posted to its loop."""

    def __init__(
        self, now_ms: Callable[[], float], post: Callable[[Callable[[], None]], object]
    ) -> None:
        self._now_ms = now_ms
        self._post = post
        self._waiting: list[Timer] = []

    def set(self, delay_s: float, callback: Callable[[], None]) -> Timer:
        timer = Timer(self._now_ms() + 1000 * delay_s, callback)
        self._waiting.append(timer)
        return timer

    def pass_time(self) -> None:
        due = [timer for timer in self._waiting if timer.due_ms <= self._now_ms() + 0.01]
        self._waiting = [timer for timer in self._waiting if timer not in due]
        for timer in due:
            self._post(timer.fire)

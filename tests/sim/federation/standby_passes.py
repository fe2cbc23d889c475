"""What a standby has promised by its state, whatever a pass has to bring."""

from typing import Generic, TypeVar

T = TypeVar("T")


class Passes(Generic[T]):
    """Invariant: `promised` is what the primary had when the last pass began that is known to be
    whole; `begun` the same for the pass that runs."""

    def __init__(self) -> None:
        self.promised: T | None = None
        self.begun: T | None = None
        self.count = 0
        self._has_run = False  # before the last pass has ended

    def begins(self, is_running: bool, primary: T) -> None:
        """The pass before it was whole if the standby says that it runs."""
        if self.begun is not None and is_running:
            self.promised = self.begun
            self.count += 1
        self._has_run = is_running
        self.begun = primary

    def is_seen_whole(self, is_running: bool) -> bool:
        """Once for a pass after which the standby has come to run. If it ran before, the end of a
        pass cannot be told until the next one begins."""
        if self.begun is None or self._has_run or not is_running:
            return False
        self.promised = self.begun
        self._has_run = True
        return True

    def known(self) -> list[T]:
        return [each for each in (self.promised, self.begun) if each is not None]

"""The two transfer windows of a session (AMQP 1.0 part 2.5.6), as arithmetic alone. Compiled.

A window counts transfer frames, not messages. `IncomingWindow` is what the peer may still send to
us; `OutgoingWindow` what we may still send to it. Neither knows of frames: the session tells them
what came and went, and writes the flows that are due.
"""

from typing import final

from mypy_extensions import i64

from warren.wire.amqp10.codec.serial import ahead, plus


@final
class IncomingWindow:
    """What the peer may send.

    Opens with `window_max`, is set to it again when half is used up, and closes during an alarm.
    The peer may overrun what is left by one full window, for it may have sent before it read the
    flow that closed it; `left` is then negative and announced as 0.
    """

    def __init__(self, window_max: i64, is_open: bool) -> None:
        assert window_max > 0
        self.window_max: i64 = window_max
        self.is_open = is_open
        self.left: i64 = window_max if is_open else 0
        self.is_begun = False  # the peer's begin has told `next_id`
        self.next_id: i64 = 0  # next-incoming-id: the number of the next transfer frame
        self.flow_due = False  # the peer must be told of the window

    def take(self, frames: i64) -> bool:
        """So many transfer frames came; False: more than even the tolerance allows."""
        self.next_id = plus(self.next_id, frames)
        self.left -= frames
        if self.is_open and self.left * 2 <= self.window_max:
            self.flow_due = True
        return self.left >= -self.window_max

    def refill(self) -> None:
        """A flow is being written: from half on the window is whole again, unless it is closed."""
        self.flow_due = False
        if self.is_open and self.left * 2 <= self.window_max:
            self.left = self.window_max

    def announced(self) -> i64:
        """`incoming-window` for a flow."""
        return self.left if self.left > 0 else 0

    def close(self) -> None:
        """An alarm: nothing more, please."""
        if self.is_open:
            self.is_open = False
            self.left = 0
            self.flow_due = True

    def reopen(self) -> None:
        if not self.is_open:
            self.is_open = True
            self.flow_due = True


@final
class OutgoingWindow:
    """What the peer takes: `left` transfer frames; the next one is number `next_id`."""

    def __init__(self, first_id: i64) -> None:
        self.first_id: i64 = first_id
        self.next_id: i64 = first_id
        self.left: i64 = 0

    def update(self, next_incoming_id: int | None, incoming_window: i64) -> bool:
        """A flow told the peer's state; False: it has seen transfers that were never sent.

        Without next-incoming-id the peer has not read our begin, and so has seen none.
        """
        seen: i64 = self.first_id if next_incoming_id is None else next_incoming_id
        lag = ahead(seen, self.next_id)
        if lag > 0:
            return False
        left = lag + incoming_window
        self.left = left if left > 0 else 0
        return True

    def take(self, frames: i64) -> None:
        """So many transfer frames were sent."""
        assert frames <= self.left
        self.left -= frames
        self.next_id = plus(self.next_id, frames)

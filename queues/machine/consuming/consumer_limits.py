"""Byte window and rate of one consumer: how much it may get now.

A consumer with a window of N bytes gets a message while the bodies that it holds are fewer than N
bytes, so it exceeds the window by one message at most; with a window of 0 it holds one message at
most. What it settles, whatever the outcome, returns the bytes. A rate is a token bucket: tokens are
thousandths of a message, so that a rate per second adds itself per millisecond. The bucket of a
consumer that waits for tokens keeps 100 ms of them, which makes up for late timers; that of any
other consumer keeps 10 ms, so that no burst follows a pause.

Which consumers have limits is in `queues.machine.consuming.limiter`. Compiled.
"""

from typing import Final, Protocol, final

from mypy_extensions import i64

from queues.machine.expiry import FAR

TOKENS: Final = 1000  # of one message
PACE_MS: Final = 5  # least time between two deliveries to a consumer that waits for tokens
IDLE_MS: Final = 10  # so many milliseconds of tokens are kept
LATE_MS: Final = 100  # the same while the consumer waits for them


class Sizes(Protocol):
    """Of the bodies of a queue's messages (`queues.machine.notes`)."""

    def bytes_of(self, first: i64, count: i64) -> i64:
        """Of messages first.. together."""

    def fitting(self, first: i64, count: i64, room: i64) -> i64:
        """How many of the messages first.. begin within `room` bytes."""


@final
class Limits:
    """Invariant: `held_bytes` is the sum of the sizes of what the consumer holds, copies included;
    it is 0 without a window of bytes. `next_ms` is FAR unless the consumer waits for tokens."""

    def __init__(self, now_ms: i64) -> None:
        self.window_bytes: i64 = -1
        self.rate_max: i64 = -1
        self.held_bytes: i64 = 0
        self.tokens: i64 = TOKENS
        self.filled_ms: i64 = now_ms  # when tokens were added last
        self.next_ms: i64 = FAR  # when the consumer is served again
        self.next_copy: i64 = 1  # of a non-destructive queue: the first message it has not had
        self.copies_held: i64 = 0  # that it has not settled; they are in the queue as well
        self.copy_sizes: dict[int, int] = {}  # of these, with a window of bytes, by message
        self.at_end = False  # it has had all messages of a non-destructive queue
        self.settled_count: i64 = 0  # since the last look for slow consumers
        self.waiting_count: i64 = 0  # messages that waited for it then

    def allows(self, sizes: Sizes, held_count: i64, first: i64, count: i64, now_ms: i64) -> i64:
        """How many of the messages first.. the consumer may get now; 0: none."""
        if self.window_bytes == 0:
            count = min(count, 1 - held_count)
        elif self.window_bytes > 0:
            count = sizes.fitting(first, count, self.window_bytes - self.held_bytes)
        if self.rate_max > 0:
            count = self.by_rate(count, now_ms)
        return max(count, 0)

    def allows_copies(self, sizes: Sizes, first: i64, count: i64, now_ms: i64) -> i64:
        """How many of the messages first.. of a non-destructive queue the consumer gets now. They
        count as delivered."""
        if self.window_bytes == 0:
            count = min(count, 1 - self.copies_held)
        elif self.window_bytes > 0:
            count = sizes.fitting(first, count, self.window_bytes - self.held_bytes)
        if self.rate_max > 0:
            count = self.by_rate(count, now_ms)
            self.tokens -= count * TOKENS
        count = max(count, 0)
        self.copies_held += count
        if self.window_bytes > 0:
            for seq in range(first, first + count):
                size = sizes.bytes_of(seq, 1)
                self.copy_sizes[seq] = size
                self.held_bytes += size
        return count

    def settle_copies(self, first: i64, count: i64) -> None:
        """The consumer settles these messages, of which some may be copies."""
        if len(self.copy_sizes) > 0:
            for seq in range(first, first + count):
                self.held_bytes -= self.copy_sizes.pop(seq, 0)

    def by_rate(self, count: i64, now_ms: i64) -> i64:
        """How many of so many messages the rate allows now."""
        if count <= 0:
            return 0
        self.fill(now_ms)
        count = min(count, self.tokens // TOKENS)
        if count == 0:
            self.next_ms = now_ms + max(self._lack_ms(), PACE_MS)
        return count

    def fill(self, now_ms: i64) -> None:
        kept_ms: i64 = LATE_MS if self.next_ms < FAR else IDLE_MS
        elapsed = min(now_ms - self.filled_ms, 1 << 20)
        self.filled_ms = now_ms
        most = max(kept_ms * self.rate_max, TOKENS)
        self.tokens = max(self.tokens, min(self.tokens + elapsed * self.rate_max, most))
        self.next_ms = FAR

    def _lack_ms(self) -> i64:
        """Milliseconds until there are tokens for a message."""
        return (TOKENS - self.tokens + self.rate_max - 1) // self.rate_max

    def look(self, waiting_count: i64, wanted_count: i64) -> bool:
        """Whether the consumer has settled fewer messages than are wanted since the last look,
        although messages waited for it from then until now."""
        settled = self.settled_count
        is_slow = settled < wanted_count and settled < self.waiting_count and waiting_count > 0
        self.settled_count = 0
        self.waiting_count = waiting_count
        return is_slow

    def is_closed(self, counts_bytes: bool, held_count: i64) -> bool:
        """Whether the consumer gets nothing until it settles something, or for its rate."""
        if self.next_ms < FAR or self.at_end:
            return True
        if self.window_bytes > 0:
            return not counts_bytes or self.held_bytes >= self.window_bytes
        return self.window_bytes == 0 and held_count > 0

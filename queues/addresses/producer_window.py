"""The byte window of one sending link of AMQP 1.0: what it may send before it is answered. Pure.

A client that asks for a window gets a limit: the bytes of messages that it may have sent since its
link was attached. The limit is `size` beyond what the broker has answered for, and not beyond what
the address still takes. A client whose
limit is reached may send one message when nothing of it is under way. Link credit counts messages,
so for other clients the window becomes as many messages as fit, of the size they had.
"""

from collections import deque
from collections.abc import Mapping
from typing import Final, final

ASKED: Final = "warren:producer-window-bytes"  # attach property of the client
LIMIT: Final = "warren:producer-limit-bytes"  # property of a flow of the broker
SIZE_MIN: Final = 1024
SIZE_MAX: Final = 1 << 40
FORGET: Final = 8  # an eighth of the distance to smaller messages with each run


class BadWindow(Exception):
    """The client asks for a window that is not allowed; the text says what is."""


@final
class ProducerWindow:
    """Invariant: `limit` never falls, and is at most `size` beyond what was answered.

    `is_obeyed`: the client has asked for a window, so it counts bytes.
    """

    def __init__(self, size: int, is_obeyed: bool) -> None:
        self.size = size
        self.is_obeyed = is_obeyed
        self.limit = size  # as the client knows it
        self.received = 0  # bytes
        self._answered = 0
        self._runs: deque[tuple[int, int]] = deque()  # messages and bytes not answered for
        self._typical = 0.0  # bytes of a message

    @property
    def granted(self) -> int:
        """Bytes that the client may still send."""
        return max(0, self.limit - self.received)

    def came(self, count: int, size: int) -> None:
        """So many messages, with so many bytes together."""
        self._runs.append((count, size))
        self.received += size
        mean = size / count
        self._typical = max(mean, self._typical + (mean - self._typical) / FORGET)

    def answered(self, count: int) -> None:
        """The oldest messages need nothing more of the broker."""
        runs = self._runs
        while count > 0:
            first, size = runs.popleft()
            part = min(first, count)
            done = size * part // first
            if part < first:
                runs.appendleft((first - part, size - done))
            self._answered += done
            count -= part

    def advance(self, room: int | None = None) -> bool:
        """Raise the limit where that is worth a flow; return whether one is due. `room`: bytes that
        the address still takes, if it has a limit."""
        limit = self._answered + self.size
        if room is not None:
            limit = min(limit, self.received + room)
        gained = limit - self.limit
        if gained <= 0 or (gained < self.size // 4 and self._runs):
            return False
        self.limit = limit
        return True

    def credit(self, credit_max: int) -> int:
        """Messages that a client which does not count bytes is granted at once."""
        if self.is_obeyed:
            return credit_max
        return max(1, min(credit_max, int(self.size / max(self._typical, SIZE_MIN))))


def asked_window(properties: Mapping[str, object] | None) -> int:
    """The window that a client asks for in its attach; -1: none. BadWindow: it is not allowed."""
    asked = (properties or {}).get(ASKED)
    if asked is None:
        return -1
    if isinstance(asked, bool) or not isinstance(asked, int) or not SIZE_MIN <= asked <= SIZE_MAX:
        raise BadWindow(f"{ASKED}: expected a number of bytes from {SIZE_MIN} to {SIZE_MAX}")
    return int(asked)

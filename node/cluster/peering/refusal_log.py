"""Connections that were refused, told once: who, and why, and how often since. No I/O but the log.

The same text about the same host is logged again only after `QUIET_MS`, with the number of those in
between, and all together are `LINES_MAX` in that time: a stranger cannot fill the log. At most
`KEPT_MAX` are remembered; the oldest go.
"""

import logging
from typing import Final

log = logging.getLogger("warren.peers")

QUIET_MS: Final = 60_000
LINES_MAX: Final = 50
KEPT_MAX: Final = 256


class RefusalLog:
    """What was logged, and when. `total` counts all of them."""

    def __init__(self) -> None:
        self.total = 0
        self._told: dict[tuple[str, str], tuple[int, int]] = {}  # -> when, how often since
        self._lines = 0  # told since `_began_ms`
        self._began_ms = 0

    def tell(self, host: str, text: str, now_ms: int) -> bool:
        """A connection from this host was refused; whether it was logged."""
        self.total += 1
        told_ms, since = self._told.pop((host, text), (now_ms - QUIET_MS, 0))
        is_due = now_ms - told_ms >= QUIET_MS and self._may_tell(now_ms)
        self._told[host, text] = (now_ms, 0) if is_due else (told_ms, since + 1)
        if len(self._told) > KEPT_MAX:
            del self._told[next(iter(self._told))]
        if is_due:
            before = f" (and {since} times before)" if since else ""
            log.warning("peer link: %s: %s%s", host, text, before)
        return is_due

    def _may_tell(self, now_ms: int) -> bool:
        if now_ms - self._began_ms >= QUIET_MS:
            self._began_ms = now_ms
            self._lines = 0
        self._lines += 1
        return self._lines <= LINES_MAX

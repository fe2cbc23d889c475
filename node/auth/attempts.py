"""Logins that were tried: how many, from where, and when there were too many. No I/O.

`Throttle` holds back those who guess. Failed logins are counted by address and by the user that
they named; at `failures_max` of one of them within a window, further ones are refused, unseen, for
a pause. A user who has logged in from an address before is not held back with the others there, for
many clients may stand behind one address, but only by failures of its own name from there.
Addresses of this machine are not counted, for a proxy or the page's own server may stand
for many. A client with a password that was verified before is not held back because of others who
guess it elsewhere: `user_pause` is asked only where a password would have to be checked.

`AttemptLog` is for the API and the metrics. Both are bounded; the oldest entries go first.
"""

from collections import OrderedDict
from typing import Final

from msgspec import Struct

from node.auth.source import Source

KEYS_MAX: Final = 8192
SOURCES_MAX: Final = 1024


class Failures(Struct):
    """Of one address or user, in the window that began then."""

    since_s: float
    count: int = 0
    paused_until_s: float = 0.0


class Throttle:
    """See the module. Times are monotonic seconds."""

    def __init__(self, failures_max: int, window_s: float, pause_s: float) -> None:
        """Without a limit where `failures_max` is 0."""
        self._failures_max = failures_max
        self._window_s = window_s
        self._pause_s = pause_s
        self._by_key: OrderedDict[tuple[str, str], Failures] = OrderedDict()
        self._known: OrderedDict[tuple[str, str], None] = OrderedDict()  # address, user: succeeded

    def address_pause(self, source: Source, user: str, now_s: float) -> float:
        """For how long logins of that user from there are refused; 0: they are not."""
        if source.is_loopback:
            return 0.0
        if (source.address, user) in self._known:
            return self._pause((source.address, user), now_s)
        return self._pause(("address", source.address), now_s)

    def user_pause(self, user: str, now_s: float) -> float:
        """The same for passwords of a user that would have to be checked."""
        return self._pause(("user", user), now_s)

    def failed(self, source: Source, user: str, now_s: float) -> None:
        """A login was refused; `user` is '' if it named none."""
        if self._failures_max == 0:
            return
        if (source.address, user) in self._known:
            self._count((source.address, user), now_s)
        elif not source.is_loopback:
            self._count(("address", source.address), now_s)
        if user:
            self._count(("user", user), now_s)

    def succeeded(self, source: Source, user: str) -> None:
        """A login was accepted."""
        if self._failures_max == 0 or source.is_loopback:
            return
        self._known[source.address, user] = None
        self._known.move_to_end((source.address, user))
        if len(self._known) > KEYS_MAX:
            self._known.popitem(last=False)

    def _pause(self, key: tuple[str, str], now_s: float) -> float:
        found = self._by_key.get(key)
        return 0.0 if found is None else max(0.0, found.paused_until_s - now_s)

    def _count(self, key: tuple[str, str], now_s: float) -> None:
        found = self._by_key.get(key)
        if found is None or now_s - found.since_s > self._window_s:
            found = self._by_key[key] = Failures(now_s)
        self._by_key.move_to_end(key)
        found.count += 1
        if found.count >= self._failures_max:
            found.paused_until_s = now_s + self._pause_s
            found.since_s, found.count = now_s, 0
        if len(self._by_key) > KEYS_MAX:
            self._by_key.popitem(last=False)


class Attempts(Struct):
    """Counts of logins."""

    succeeded: int = 0
    failed: int = 0

    @property
    def every(self) -> int:
        return self.succeeded + self.failed


class AttemptLog:
    """Logins by protocol, and by address and user if that is wanted."""

    def __init__(self, track_sources: bool = False) -> None:
        self.by_protocol: dict[str, Attempts] = {}
        self.by_source: OrderedDict[tuple[str, str, str], Attempts] = OrderedDict()
        self._track_sources = track_sources

    def count(self, source: Source, user: str, succeeded: bool) -> None:
        _count(self.by_protocol.setdefault(source.protocol, Attempts()), succeeded)
        if not self._track_sources:
            return
        key = (source.protocol, source.address, user)
        _count(self.by_source.setdefault(key, Attempts()), succeeded)
        self.by_source.move_to_end(key)
        if len(self.by_source) > SOURCES_MAX:
            self.by_source.popitem(last=False)

    def reset(self) -> None:
        self.by_protocol.clear()
        self.by_source.clear()


def _count(attempts: Attempts, succeeded: bool) -> None:
    if succeeded:
        attempts.succeeded += 1
    else:
        attempts.failed += 1

"""How much CPU one turn of the loop uses for routing, of all sources together. Pure, compiled.

Routing one message may cost milliseconds: thousands of bindings with `#`, or exchanges bound to
exchanges. When the time of a turn is used up, the rest waits for the next turn: received messages
of channels and connections, routes of commits, dead letters of queues.
"""

from collections.abc import Callable
from typing import Final, final

from mypy_extensions import i64

from queues.queue_host import QueueHost
from queues.routing.content import Content
from queues.routing.router import Route, Router
from queues.sessions.publishing import HandOverRoom

ROUTE_MS_MAX: Final = 10.0  # of CPU, in one turn
HOSTS_AT_ONCE: Final = 256  # are made for queues that are used for the first time
UNFINISHED_MAX: Final = 64  # routes of which some queues have no host yet


@final
class RoutingPace:
    """One object per node. The turn calls `begin_turn`."""

    def __init__(self, cpu_s: Callable[[], float]) -> None:
        self._cpu_s = cpu_s
        self._spent_s = 0.0
        self._began_s = 0.0
        self.hand_overs = HandOverRoom()

    def begin_turn(self) -> None:
        self._spent_s = 0.0
        self.hand_overs.begin_turn()

    def begin(self) -> None:
        self._began_s = self._cpu_s()

    def end(self) -> None:
        self._spent_s += self._cpu_s() - self._began_s

    def lap(self) -> bool:
        """Count the time since `begin` and go on; return whether the turn has no time left."""
        now_s = self._cpu_s()
        self._spent_s += now_s - self._began_s
        self._began_s = now_s
        return self.is_spent()

    def is_spent(self) -> bool:
        return self._spent_s * 1000.0 > ROUTE_MS_MAX

    def route(
        self,
        router: Router,
        exchange: str,
        key: bytes,
        content: Content | None = None,
        more_keys: tuple[bytes, ...] = (),
    ) -> Route:
        """Route one message and count the time (`Router.route`)."""
        self._began_s = self._cpu_s()
        route = router.route(exchange, key, content, more_keys)
        self._spent_s += self._cpu_s() - self._began_s
        return route

    def route_some(
        self,
        router: Router,
        exchange: str,
        key: bytes,
        content: Content,
        more_keys: tuple[bytes, ...],
    ) -> Route | None:
        """Route one message by all its keys; None: go on with the same message in the next turn."""
        self._began_s = self._cpu_s()
        route = router.route_in_slices(exchange, key, content, more_keys, self.lap)
        self._spent_s += self._cpu_s() - self._began_s
        return route


@final
class RoutingShare:
    """The part of `RoutingPace` that one channel or connection gets.

    It routes while the turn has time, and at least one message after each wait.
    """

    def __init__(self) -> None:
        self._is_owed = False

    def waited(self) -> None:
        self._is_owed = True

    def must_wait(self, is_spent: bool) -> bool:
        """Return whether routing goes on in the next turn."""
        if is_spent and self._is_owed:
            self._is_owed = False
            return False
        return is_spent


@final
class NewHosts:
    """Makes the hosts of the queues that a message goes to, in several turns if they are many.

    A queue gets its host with its first message, and that takes much longer than to route to it.
    """

    def __init__(self, host_of: Callable[[int], QueueHost]) -> None:
        self._host_of = host_of
        self._made: dict[tuple[int, ...], int] = {}  # how many of these queues have been looked at

    def have(self, uids: tuple[int, ...], is_late: Callable[[], bool]) -> bool:
        """False: this turn has no time for all of them; ask again in the next one."""
        count: i64 = len(uids)
        if count <= HOSTS_AT_ONCE:
            return True
        made: i64 = self._made.pop(uids, 0)
        while made + HOSTS_AT_ONCE < count:
            for uid in uids[made : made + HOSTS_AT_ONCE]:
                self._host_of(uid)
            made += HOSTS_AT_ONCE
            if is_late():
                if len(self._made) >= UNFINISHED_MAX:
                    del self._made[next(iter(self._made))]
                self._made[uids] = int(made)
                return False
        return True

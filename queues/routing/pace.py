"""How much CPU one turn of the loop uses for routing, of all sources together. Pure, compiled.

Routing one message may cost milliseconds: thousands of bindings with `#`, or exchanges bound to
exchanges. When the time of a turn is used up, the rest waits for the next turn: received messages
of channels and connections, routes of commits, dead letters of queues.
"""

from collections.abc import Callable
from typing import Final, final

from queues.routing.content import Content
from queues.routing.router import Route, Router
from queues.sessions.publishing import HandOverRoom

ROUTE_MS_MAX: Final = 10.0  # of CPU, in one turn


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

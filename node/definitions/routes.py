"""The routers of this node and what is cached of them, for as long as it may be used.

One router for each vhost, made when it is first asked for, and one `RouteCache` for each user in a
vhost, which all connections of that user share. When a vhost or a user is deleted what was kept
for it is dropped; connections that are still closing go on with what they hold.
"""

import os
from collections.abc import Callable, Iterator
from functools import partial
from random import Random

from node.amqp091.publish_plans import RouteCache
from node.auth.access import AccessView, access_of
from node.auth.permissions import PermissionCache
from queues.queue_host import QueueHost
from queues.routing.pace import RoutingPace
from queues.routing.router import Router
from queues.sessions.publishing import Gate, Targets


class Routers:
    """By vhost."""

    def __init__(self) -> None:
        self._routers: dict[str, Router] = {}

    def __iter__(self) -> Iterator[str]:
        return iter(self._routers)

    def get(self, vhost: str) -> Router | None:
        return self._routers.get(vhost)

    def of(self, vhost: str) -> Router:
        """The router of a vhost, made if there is none."""
        router = self._routers.get(vhost)
        if router is None:
            router = self._routers[vhost] = Router(vhost, Random(os.urandom(16)))
        return router

    def remove(self, vhost: str) -> None:
        self._routers.pop(vhost, None)


class RouteCaches:
    """Owns the caches. Invariant: each cache has the router of its vhost."""

    def __init__(
        self,
        routers: Routers,
        access: AccessView,
        host: Callable[[int], QueueHost],
        version: Callable[[], int],
        answers: Callable[[str, bytes], Targets | None],
        is_traced: Callable[[str], bool],
        pace: RoutingPace,
        gate: Callable[[str, str, tuple[int, ...]], Gate | None],
    ) -> None:
        """`version`: another number when plans may hold no more. `answers`: where answers to a
        direct reply-to name go. `gate`: what messages to queues are charged to."""
        self._routers = routers
        self._access = access
        self._host = host
        self._version = version
        self._answers = answers
        self._is_traced = is_traced
        self._pace = pace
        self._gate = gate
        self._caches: dict[tuple[str, str, bool], RouteCache] = {}

    def cache(
        self, vhost: str, user: str, impersonator: bool, own: AccessView | None = None
    ) -> RouteCache:
        """The plans that all connections of a user to a vhost share.

        `own`: what one connection alone may do, by its token; its plans are not shared.
        """
        if own is not None and own is not self._access:
            # Both numbers only rise.
            return self._make(vhost, user, impersonator, own, lambda: self._version() + own.version)
        key = (vhost, user, impersonator)
        cache = self._caches.get(key)
        if cache is None:
            cache = self._make(*key, access_of(self._access, user), self._version)
            self._caches[key] = cache
        return cache

    def _make(
        self,
        vhost: str,
        user: str,
        impersonator: bool,
        access: AccessView,
        version: Callable[[], int],
    ) -> RouteCache:
        return RouteCache(
            vhost,
            user,
            impersonator,
            self._routers.of(vhost),
            PermissionCache(access, user, vhost),
            self._host,
            version,
            partial(self._answers, vhost),
            partial(self._is_traced, vhost),
            self._pace,
            partial(self._gate, vhost),
        )

    def vhost_gone(self, vhost: str) -> None:
        """It is deleted; one of the same name starts again."""
        self._caches = {key: cache for key, cache in self._caches.items() if key[0] != vhost}

    def user_gone(self, user: str) -> None:
        self._caches = {key: cache for key, cache in self._caches.items() if key[1] != user}

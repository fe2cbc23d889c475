"""The routers of this node and what is cached of them, for as long as it may be used.

One router for each vhost, made when it is first asked for, and one `RouteCache` for each user in a
vhost, which all connections of that user share. When a vhost or a user is deleted what was kept
for it is dropped; connections that are still closing go on with what they hold.
"""

import os
from collections.abc import Callable
from random import Random

from node.amqp091.publish_plans import RouteCache
from queues.routing.router import Router

MakeCache = Callable[[str, str, bool, Router], RouteCache]  # vhost, user, whether an impersonator


class Routes:
    """Owns the routers and the caches. Invariant: each cache has the router of its vhost."""

    def __init__(self, make_cache: MakeCache) -> None:
        self.routers: dict[str, Router] = {}
        self._make_cache = make_cache
        self._caches: dict[tuple[str, str, bool], RouteCache] = {}

    def router(self, vhost: str) -> Router:
        router = self.routers.get(vhost)
        if router is None:
            router = self.routers[vhost] = Router(vhost, Random(os.urandom(16)))
        return router

    def cache(self, vhost: str, user: str, impersonator: bool) -> RouteCache:
        """The plans that all connections of a user to a vhost share."""
        key = (vhost, user, impersonator)
        cache = self._caches.get(key)
        if cache is None:
            cache = self._caches[key] = self._make_cache(*key, self.router(vhost))
        return cache

    def vhost_gone(self, vhost: str) -> None:
        """It is deleted; one of the same name starts again."""
        self.routers.pop(vhost, None)
        self._caches = {key: cache for key, cache in self._caches.items() if key[0] != vhost}

    def user_gone(self, user: str) -> None:
        self._caches = {key: cache for key, cache in self._caches.items() if key[1] != user}

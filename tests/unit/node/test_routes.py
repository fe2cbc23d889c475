"""Routers and what is cached of them: shared while they are there, not kept for users who are
gone.
"""

from node.amqp091.publish_plans import RouteCache
from node.auth.permissions import PermissionCache
from node.definitions.routes import Routes
from queues.routing.router import Router
from tests.unit.node.fake_access import FakeAccess
from tests.unit.queues.fake_queue import FakeQueue


def new_cache(vhost: str, user: str, impersonator: bool, router: Router) -> RouteCache:
    permissions = PermissionCache(FakeAccess(), user, vhost)
    return RouteCache(vhost, user, impersonator, router, permissions, FakeQueue, lambda: 1)


def test_all_connections_of_a_user_to_a_vhost_share_their_plans() -> None:
    routes = Routes(new_cache)
    cache = routes.cache("/", "ann", False)
    assert routes.cache("/", "ann", False) is cache
    assert cache.router is routes.router("/")
    others = [routes.cache("/", "ann", True), routes.cache("/", "bo", False)]
    assert cache not in others and others[0] is not others[1]


def test_nothing_is_kept_of_a_vhost_that_is_gone_and_one_of_its_name_begins_anew() -> None:
    routes = Routes(new_cache)
    old, other = routes.cache("shop", "ann", False), routes.cache("/", "ann", False)
    routes.vhost_gone("shop")
    assert list(routes.routers) == ["/"]
    new = routes.cache("shop", "ann", False)
    assert new is not old and new.router is not old.router
    assert routes.cache("/", "ann", False) is other


def test_nothing_is_kept_for_a_user_who_is_gone() -> None:
    routes = Routes(new_cache)
    plans = [routes.cache("/", "ann", False), routes.cache("shop", "ann", True)]
    other = routes.cache("/", "bo", False)
    routes.user_gone("ann")
    rebuilt = [routes.cache("/", "ann", False), routes.cache("shop", "ann", True)]
    assert rebuilt[0] is not plans[0] and rebuilt[1] is not plans[1]
    assert routes.cache("/", "bo", False) is other

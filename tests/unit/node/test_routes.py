"""Routers and what is cached of them: shared while they are there, not kept for users who are
gone.
"""

from node.definitions.routes import RouteCaches, Routers
from queues.routing.pace import RoutingPace
from tests.unit.node.fake_access import FakeAccess
from tests.unit.queues.fake_queue import FakeQueue


class Routes:
    """Routers and caches; nothing is traced, nothing is charged."""

    def __init__(self) -> None:
        self.routers = Routers()
        self.caches = RouteCaches(
            self.routers,
            FakeAccess(),
            FakeQueue,
            lambda: 1,
            lambda vhost, key: None,
            lambda vhost: False,
            RoutingPace(lambda: 0.0),
            lambda vhost, exchange, uids: None,
        )
        self.cache = self.caches.cache


def test_all_connections_of_a_user_to_a_vhost_share_their_plans() -> None:
    routes = Routes()
    cache = routes.cache("/", "ann", False)
    assert routes.cache("/", "ann", False) is cache
    assert cache.router is routes.routers.of("/")
    others = [routes.cache("/", "ann", True), routes.cache("/", "bo", False)]
    assert cache not in others and others[0] is not others[1]


def test_connection_with_rights_of_its_own_has_plans_of_its_own() -> None:
    routes = Routes()
    shared = routes.cache("/", "ann", False)
    own = [routes.cache("/", "ann", False, FakeAccess()) for _ in range(2)]
    assert own[0] is not own[1] and shared not in own
    assert routes.cache("/", "ann", False) is shared


def test_nothing_is_kept_of_a_vhost_that_is_gone_and_one_of_its_name_starts_again() -> None:
    routes = Routes()
    old, other = routes.cache("shop", "ann", False), routes.cache("/", "ann", False)
    routes.routers.remove("shop")
    routes.caches.vhost_gone("shop")
    assert list(routes.routers) == ["/"]
    new = routes.cache("shop", "ann", False)
    assert new is not old and new.router is not old.router
    assert routes.cache("/", "ann", False) is other


def test_nothing_is_kept_for_a_user_who_is_gone() -> None:
    routes = Routes()
    plans = [routes.cache("/", "ann", False), routes.cache("shop", "ann", True)]
    other = routes.cache("/", "bo", False)
    routes.caches.user_gone("ann")
    rebuilt = [routes.cache("/", "ann", False), routes.cache("shop", "ann", True)]
    assert rebuilt[0] is not plans[0] and rebuilt[1] is not plans[1]
    assert routes.cache("/", "bo", False) is other

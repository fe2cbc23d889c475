"""Which queues a message goes to: the exchanges and bindings of one vhost, ready to be asked.

Built from the metadata machine's objects and kept up to date by its changes; holds nothing that
they do not say. `route` is what a cache of routes asks when it has no answer. Compiled.

A message goes through the graph of exchanges bound to exchanges, and meets each of them once
(A-13). An exchange passes it to its alternate (E-20) if neither its own bindings nor any exchange
behind them found a queue; a way that leads back to an exchange on it counts for no more than the
queues which that one found itself.
"""

from collections.abc import Callable, Iterable
from typing import Final, final

from mypy_extensions import i64

from queues.arguments import decode_arguments
from queues.definitions import DEFAULT_EXCHANGE, Binding, Definition, Exchange, Queue
from queues.metadata_outcomes import Added, Change, Removed
from queues.routing.direct import Direct
from queues.routing.kinds import KINDS, Kind

ALTERNATE_ARGUMENT: Final = "alternate-exchange"

HeadersSource = Callable[[], dict[str, object]]


@final
class Route:
    """Where a message goes. `queues` are uids, each once, ascending."""

    def __init__(
        self,
        exchange_found: bool,
        internal: bool,
        queues: tuple[int, ...],
        needs_headers: bool,
        warnings: tuple[str, ...],
    ) -> None:
        self.exchange_found = exchange_found
        self.internal = internal  # clients may not publish to it
        self.queues = queues
        self.needs_headers = needs_headers  # holds for this message alone: not to be cached
        self.warnings = warnings  # sentences about alternates that are missing


@final
class Hub:
    """One exchange with its bindings."""

    def __init__(self, exchange: Exchange, kind: Kind) -> None:
        self.uid: int = exchange.uid
        self.name: str = exchange.name
        self.internal: bool = exchange.internal
        self.kind = kind
        self.needs_headers: bool = kind.needs_headers
        self.link_count: i64 = 0  # bindings that lead to exchanges
        alternate = decode_arguments(exchange.arguments).get(ALTERNATE_ARGUMENT)
        self.alternate: str | None = alternate if isinstance(alternate, str) else None


@final
class Visit:
    """A message at a hub, on the way through the graph."""

    def __init__(self, hub: Hub, ahead: list[int], routed: bool) -> None:
        self.hub = hub
        self.ahead = ahead  # uids of exchanges that it goes to from here, the next one last
        self.routed = routed  # a queue was found here or behind here
        self.alternate_asked = False


@final
class Walk:
    """One message's way through the graph of a vhost."""

    def __init__(self, key: bytes, headers: HeadersSource | None) -> None:
        self.key = key
        self.headers: dict[str, object] = {}
        self.source = headers  # None: none there, or asked already
        self.needs_headers = False
        self.queues: set[int] = set()
        self.routed: dict[int, bool] = {}  # by uid of every exchange met; see `Visit.routed`
        self.warnings: list[str] = []

    def match(self, hub: Hub) -> set[int]:
        """The targets of the hub's matching bindings."""
        if hub.needs_headers:
            self.needs_headers = True
            if self.source is not None:
                self.headers = self.source()
                self.source = None
        found: set[int] = set()
        hub.kind.match(self.key, self.headers, found)
        return found

    def enter(self, hub: Hub) -> Visit:
        found = self.match(hub)
        ahead: list[int] = []
        if hub.link_count > 0:
            ahead = sorted([-target for target in found if target < 0], reverse=True)
            found = {target for target in found if target > 0}
        self.queues.update(found)
        routed = len(found) > 0
        self.routed[hub.uid] = routed
        return Visit(hub, ahead, routed)

    def leave(self, visit: Visit) -> None:
        self.routed[visit.hub.uid] = visit.routed

    def result(self, hub: Hub) -> Route:
        queues = tuple(sorted(self.queues))
        return Route(True, hub.internal, queues, self.needs_headers, tuple(self.warnings))


@final
class Router:
    """Routes in one vhost.

    Invariant: every target of a binding is there. The metadata machine adds and removes in such an
    order, and so must whoever calls.
    """

    def __init__(self, vhost: str) -> None:
        self.vhost = vhost
        self._hubs: dict[str, Hub] = {}
        self._hubs_by_uid: dict[int, Hub] = {}
        self._queues = Direct()  # of the default exchange: every queue by its name

    def apply(self, changes: Iterable[Change]) -> None:
        """Take over what a command changed; other vhosts' objects are passed over."""
        for change in changes:
            if isinstance(change, Added):
                self.add(change.subject)
            elif isinstance(change, Removed):
                self.remove(change.subject)

    def add(self, subject: Definition) -> None:
        if isinstance(subject, Binding) and subject.vhost == self.vhost:
            hub = self._hubs[subject.source]
            hub.kind.add(subject)
            hub.link_count += 1 if subject.target < 0 else 0
        elif isinstance(subject, Queue) and subject.vhost == self.vhost:
            self._queues.add_target(subject.name.encode(), subject.uid)
        elif isinstance(subject, Exchange) and subject.vhost == self.vhost:
            default = subject.name == DEFAULT_EXCHANGE
            hub = Hub(subject, self._queues if default else KINDS[subject.type].make())
            self._hubs[hub.name] = hub
            self._hubs_by_uid[hub.uid] = hub

    def remove(self, subject: Definition) -> None:
        if isinstance(subject, Binding) and subject.vhost == self.vhost:
            hub = self._hubs[subject.source]
            hub.kind.remove(subject)
            hub.link_count -= 1 if subject.target < 0 else 0
        elif isinstance(subject, Queue) and subject.vhost == self.vhost:
            self._queues.remove_target(subject.name.encode(), subject.uid)
        elif isinstance(subject, Exchange) and subject.vhost == self.vhost:
            del self._hubs[subject.name]
            del self._hubs_by_uid[subject.uid]

    def route(self, exchange: str, key: bytes, headers: HeadersSource | None) -> Route:
        """The way of a message; `headers` is called at most once, and only if they matter."""
        hub = self._hubs.get(exchange)
        if hub is None:
            return Route(False, False, (), False, ())
        if hub.link_count > 0 or hub.needs_headers:
            return self._walk(hub, Walk(key, headers))
        found: set[int] = set()
        hub.kind.match(key, {}, found)
        if not found and hub.alternate is not None:
            return self._walk(hub, Walk(key, headers))
        queues = tuple(found) if len(found) < 2 else tuple(sorted(found))
        return Route(True, hub.internal, queues, False, ())

    def _walk(self, start: Hub, walk: Walk) -> Route:
        """Depth first, with a stack of our own: clients decide how deep the graph is."""
        stack = [walk.enter(start)]
        while stack:
            visit = stack[-1]
            hub = self._next_hub(visit, walk)
            if hub is None:
                walk.leave(visit)
                stack.pop()
                if stack and visit.routed:
                    stack[-1].routed = True
                continue
            known = walk.routed.get(hub.uid)
            if known is None:
                stack.append(walk.enter(hub))
            elif known:
                visit.routed = True
        return walk.result(start)

    def _next_hub(self, visit: Visit, walk: Walk) -> Hub | None:
        if visit.ahead:
            return self._hubs_by_uid[visit.ahead.pop()]
        name = visit.hub.alternate
        if visit.routed or visit.alternate_asked or name is None:
            return None
        visit.alternate_asked = True
        hub = self._hubs.get(name)
        if hub is None:
            walk.warnings.append(
                f"alternate exchange '{name}' of exchange '{visit.hub.name}' "
                f"in vhost '{self.vhost}' does not exist"
            )
        return hub

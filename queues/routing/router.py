"""Which queues a message goes to: the exchanges and bindings of one vhost, ready to be asked.

Built from the metadata machine's objects and kept up to date by its changes; holds nothing that
they do not say. `route` is what a cache of routes asks when it has no answer. Compiled.

A message goes through the graph of exchanges bound to exchanges, and meets each of them once, with
all its routing keys at a time. An exchange passes it to its alternate if
neither its own bindings nor any exchange behind them found a queue; a way that leads back to an
exchange on it counts for no more than the queues which that one found itself. Of a retroactive
exchange the ring gets each message beside that: it counts as a queue, but not as found by a
binding, so that the alternate is asked all the same.
"""

from collections.abc import Callable, Iterable
from typing import Final, final

from mypy_extensions import i64

from queues.definitions.arguments import decode_arguments
from queues.definitions.broker_objects import DEFAULT_EXCHANGE, Binding, Definition, Exchange, Queue
from queues.definitions.metadata.outcomes import Added, Change, Removed
from queues.definitions.retroactive import exchange_of_ring
from queues.routing.content import TEXTS, Content, NoContent
from queues.routing.direct import Direct
from queues.routing.kinds import KINDS, Kind
from queues.routing.outside import CountedRandom, Locality, Lots, OneNode, Outside
from queues.routing.topic import Topic

ALTERNATE_ARGUMENT: Final = "alternate-exchange"
NO_CONTENT: Final = NoContent()
WARNINGS_MAX: Final = 100  # that wait to be taken; more are not kept
KEYS_AT_ONCE: Final = 32  # that are matched before the clock is asked
HUBS_AT_ONCE: Final = 32  # that are visited before the clock is asked
UNFINISHED_MAX: Final = 100  # routes kept for their next slice; the oldest then starts again
DEATH_HEADER: Final = "x-death"  # has the time at which a dead letter was made


@final
class Route:
    """Where a message goes. `queues` are uids, each once, ascending."""

    def __init__(
        self,
        exchange_found: bool,
        internal: bool,
        queues: tuple[int, ...],
        per_message: bool,
        warnings: tuple[str, ...],
    ) -> None:
        self.exchange_found = exchange_found
        self.internal = internal  # clients may not publish to it
        self.queues = queues
        self.per_message = per_message  # holds for this message alone: not to be cached
        self.warnings = warnings  # sentences about alternates that are missing


@final
class Hub:
    """One exchange with its bindings."""

    def __init__(self, exchange: Exchange, kind: Kind, arguments: dict[str, object]) -> None:
        self.uid: int = exchange.uid
        self.name: str = exchange.name
        self.internal: bool = exchange.internal
        self.kind = kind
        self.per_message: bool = kind.per_message
        self.by_key: bool = kind.by_key
        self.link_count: i64 = 0  # bindings that lead to exchanges
        self.ring: i64 = 0  # uid of the queue that keeps its newest messages; 0: none does
        alternate = arguments.get(ALTERNATE_ARGUMENT)
        self.declared: str | None = alternate if isinstance(alternate, str) else None
        self.alternate: str | None = self.declared  # or what a policy says


@final
class Visit:
    """A message at a hub, on the way through the graph."""

    def __init__(self, hub: Hub, ahead: list[int], routed: bool) -> None:
        self.hub = hub
        self.ahead = ahead  # uids of exchanges that it goes to from here, the next one last
        self.routed = routed  # a queue was found here or behind here
        self.alternate_asked = False


def never() -> bool:
    """Whether it is late, where time does not matter."""
    return False


@final
class Walk:
    """One message's way through the graph of a vhost. It may be interrupted within a hub."""

    def __init__(
        self, start: Hub, key: bytes, content: Content, more_keys: tuple[bytes, ...]
    ) -> None:
        self.start = start
        self.key = key
        self.more_keys = more_keys
        self.content = content
        self.per_message = False
        self.queues: set[int] = set()
        self.routed: dict[int, bool] = {}  # by uid of every exchange met; see `Visit.routed`
        self.warnings: list[str] = []
        self.stack: list[Visit] = []
        self.entering: Hub | None = start
        self._matched: i64 = -1  # of `more_keys` at the hub being entered; -1: not even `key`
        self._found: set[int] = set()  # targets at the hub being entered

    def _match(self, hub: Hub, is_late: Callable[[], bool]) -> bool:
        """Find the targets of the hub's matching bindings. False: there was no time for all."""
        if self._matched < 0:
            if hub.per_message:
                self.per_message = True
            hub.kind.match(self.key, self.content, self._found)
            self._matched = 0
        if not hub.by_key:
            return True
        more_keys = self.more_keys
        while self._matched < len(more_keys):
            last = min(self._matched + KEYS_AT_ONCE, len(more_keys))
            while self._matched < last:
                hub.kind.match(more_keys[self._matched], self.content, self._found)
                self._matched += 1
            if is_late():
                return False
        return True

    def enter(self, hub: Hub, is_late: Callable[[], bool]) -> bool:
        """Visit the hub. False: there was no time for all keys; call it again."""
        self.entering = hub
        if not self._match(hub, is_late):
            return False
        self.entering = None
        self._matched = -1
        found = self._found
        self._found = set()
        ahead: list[int] = []
        if hub.link_count > 0:
            ahead = sorted([-target for target in found if target < 0], reverse=True)
            found = {target for target in found if target > 0}
        self.queues.update(found)
        if hub.ring > 0:
            self.queues.add(hub.ring)
        routed = len(found) > 0
        self.routed[hub.uid] = routed
        self.stack.append(Visit(hub, ahead, routed))
        return True

    def forget_queue(self, uid: int) -> None:
        """The queue was deleted while the walk is interrupted."""
        self.queues.discard(uid)
        self._found.discard(uid)

    def is_for(self, content: Content) -> bool:
        """Whether this is the way of a message with these properties and headers."""
        mine = self.content
        if any(mine.text(name) != content.text(name) for name in TEXTS):
            return False
        return _lasting(mine.headers()) == _lasting(content.headers())

    def leave(self, visit: Visit) -> None:
        self.routed[visit.hub.uid] = visit.routed

    def result(self) -> Route:
        queues = tuple(sorted(self.queues))
        return Route(True, self.start.internal, queues, self.per_message, tuple(self.warnings))


def _lasting(headers: dict[str, object]) -> dict[str, object]:
    """The headers which are the same each time the dead letter of one message is made."""
    return {name: value for name, value in headers.items() if name != DEATH_HEADER}


@final
class Router:
    """Routes in one vhost.

    Invariant: every target of a binding is there. The metadata machine adds and removes in such an
    order, and so must the caller.
    """

    def __init__(
        self, vhost: str, lots: Lots | None = None, locality: Locality | None = None
    ) -> None:
        self.vhost = vhost
        self._outside = Outside(lots or CountedRandom(), locality or OneNode())
        self._warnings: list[str] = []
        self._hubs: dict[str, Hub] = {}
        self._hubs_by_uid: dict[int, Hub] = {}
        self._queues = Direct()  # of the default exchange: every queue by its name
        self._unfinished: dict[tuple[str, bytes, tuple[bytes, ...]], Walk] = {}

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
            warning = hub.kind.add(subject)
            if warning and len(self._warnings) < WARNINGS_MAX:
                self._warnings.append(warning)
            hub.link_count += 1 if subject.target < 0 else 0
        elif isinstance(subject, Queue) and subject.vhost == self.vhost:
            self._queues.add_target(subject.name.encode(), subject.uid)
            self._set_ring(subject, subject.uid)
        elif isinstance(subject, Exchange) and subject.vhost == self.vhost:
            hub = self._make_hub(subject)
            self._hubs[hub.name] = hub
            self._hubs_by_uid[hub.uid] = hub

    def _make_hub(self, exchange: Exchange) -> Hub:
        arguments = decode_arguments(exchange.arguments)
        if exchange.name == DEFAULT_EXCHANGE:
            return Hub(exchange, self._queues, arguments)
        return Hub(exchange, KINDS[exchange.type].make(arguments, self._outside), arguments)

    def remove(self, subject: Definition) -> None:
        if isinstance(subject, Binding) and subject.vhost == self.vhost:
            hub = self._hubs[subject.source]
            hub.kind.remove(subject)
            hub.link_count -= 1 if subject.target < 0 else 0
        elif isinstance(subject, Queue) and subject.vhost == self.vhost:
            self._queues.remove_target(subject.name.encode(), subject.uid)
            self._set_ring(subject, 0)
            for walk in self._unfinished.values():
                walk.forget_queue(subject.uid)
        elif isinstance(subject, Exchange) and subject.vhost == self.vhost:
            del self._hubs[subject.name]
            del self._hubs_by_uid[subject.uid]

    def _set_ring(self, queue: Queue, uid: i64) -> None:
        """If the queue is the ring of an exchange: that one's messages go there, or no more."""
        hub = self._hubs_by_uid.get(exchange_of_ring(queue.name))
        if hub is not None:
            hub.ring = uid

    def is_topic(self, exchange: str) -> bool:
        """Whether its keys are under topic permissions."""
        hub = self._hubs.get(exchange)
        return hub is not None and isinstance(hub.kind, Topic)

    def set_alternate(self, exchange: str, alternate: str | None) -> None:
        """A policy gives the exchange this alternate; one that was declared goes before it."""
        hub = self._hubs.get(exchange)
        if hub is not None:
            hub.alternate = alternate if hub.declared is None else hub.declared

    def take_warnings(self) -> list[str]:
        """Sentences about what was added since the last call: bindings that make no difference."""
        warnings = self._warnings
        self._warnings = []
        return warnings

    def route(
        self,
        exchange: str,
        key: bytes,
        content: Content | None = None,
        more_keys: tuple[bytes, ...] = (),
    ) -> Route:
        """The way of a message; `content` is asked only if it matters (None: not there to ask).

        `more_keys` are routing keys besides the first; the message goes wherever one leads.
        """
        hub = self._hubs.get(exchange)
        if hub is None:
            return Route(False, False, (), False, ())
        if content is None:
            content = NO_CONTENT
        if hub.link_count > 0 or hub.per_message or more_keys:
            return self._walk(hub, key, content, more_keys)
        found: set[int] = set()
        hub.kind.match(key, content, found)
        if not found and hub.alternate is not None:
            return self._walk(hub, key, content, more_keys)
        if hub.ring > 0:
            found.add(hub.ring)
        queues = tuple(found) if len(found) < 2 else tuple(sorted(found))
        return Route(True, hub.internal, queues, False, ())

    def route_in_slices(
        self,
        exchange: str,
        key: bytes,
        content: Content,
        more_keys: tuple[bytes, ...],
        is_late: Callable[[], bool],
    ) -> Route | None:
        """`route`, interrupted when `is_late` says so: None. Call it again for the same message.

        A message may have thousands of routing keys, and each of thousands of exchanges behind the
        first matches all of them. What is declared or deleted in between counts, or does not.
        """
        hub = self._hubs.get(exchange)
        is_short = hub is None or (hub.link_count == 0 and hub.alternate is None)
        if hub is None or (is_short and len(more_keys) <= KEYS_AT_ONCE):
            return self.route(exchange, key, content, more_keys)
        name = (exchange, key, more_keys)
        walk = self._unfinished.pop(name, None)
        if walk is None or walk.start is not hub or not walk.is_for(content):
            walk = Walk(hub, key, content, more_keys)
        if self._go_on(walk, is_late):
            return walk.result()
        if len(self._unfinished) >= UNFINISHED_MAX:
            del self._unfinished[next(iter(self._unfinished))]
        self._unfinished[name] = walk
        return None

    def _walk(
        self, start: Hub, key: bytes, content: Content, more_keys: tuple[bytes, ...]
    ) -> Route:
        walk = Walk(start, key, content, more_keys)
        self._go_on(walk, never)
        return walk.result()

    def _go_on(self, walk: Walk, is_late: Callable[[], bool]) -> bool:
        """Depth first, with a stack of our own: clients decide how deep the graph is.

        False: interrupted.
        """
        stack = walk.stack
        visited: i64 = 0
        if walk.entering is not None and not walk.enter(walk.entering, is_late):
            return False
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
                visited += 1
                if not walk.enter(hub, is_late) or (visited % HUBS_AT_ONCE == 0 and is_late()):
                    return False
            elif known:
                visit.routed = True
        return True

    def _next_hub(self, visit: Visit, walk: Walk) -> Hub | None:
        while visit.ahead:
            ahead = self._hubs_by_uid.get(visit.ahead.pop())
            if ahead is not None:  # It was not deleted while the walk was interrupted.
                return ahead
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

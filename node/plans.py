"""Where publishes go: routes and permissions of one user in one vhost, cached by raw key bytes.

A publish key is exchange, routing key and bits as they came on the wire. Everything here holds as
long as the metadata's version stays; the first look after a change begins anew. Bounded: at
PLANS_MAX keys the cache begins anew too. Source: DESIGN section 4.
"""

import logging
from collections.abc import Callable
from typing import Final

from node.auth.permissions import WRITE, PermissionCache
from node.owner import Parted, Plan
from queues.host import QueueHost
from queues.publishing import Targets
from queues.routing.router import Route, Router
from warren.wire.amqp091.events import INFO_EXPIRATION, INFO_HEADERS, INFO_USER_ID, Publishes
from warren.wire.amqp091.properties import expiration_of, headers_of, user_id_of
from warren.wire.buffer import read_i32_le
from warren.wire.errors import ProtocolError, ReplyCode, Scope

log = logging.getLogger("warren.routing")

PLANS_MAX: Final = 65536
NOWHERE: Final = Targets([])
MANDATORY: Final = 1
IMMEDIATE: Final = 2


class RouteCache:
    """Plans of one user in one vhost."""

    def __init__(
        self,
        vhost: str,
        user: str,
        impersonator: bool,
        router: Router,
        permissions: PermissionCache,
        host_of: Callable[[int], QueueHost],
        version_of: Callable[[], int],
    ) -> None:
        self.router = router
        self._vhost = vhost
        self._user = user
        self._impersonator = impersonator
        self._permissions = permissions
        self._host_of = host_of
        self._version_of = version_of
        self._version = -1
        self._plans: dict[bytes, Plan] = {}
        self._targets: dict[tuple[int, ...], Targets] = {(): NOWHERE}

    def refresh(self) -> None:
        """Forget everything if a definition has changed since."""
        version = self._version_of()
        if version != self._version:
            self._version = version
            self._plans = {}
            self._targets = {(): NOWHERE}

    def get(self, key: bytes) -> Plan | None:
        return self._plans.get(key)

    def make(self, key: bytes) -> Plan:
        """Route and check afresh, and remember."""
        plan = self._make(key)
        if len(self._plans) >= PLANS_MAX:
            self._plans = {}
            self._targets = {(): NOWHERE}
        self._plans[key] = plan
        return plan

    def _make(self, key: bytes) -> Plan:
        length = key[0]
        name = key[1 : 1 + length]
        routing_key = key[2 + length : -1]
        bits = key[-1]
        try:
            exchange = name.decode()
        except UnicodeDecodeError:
            shown = name.decode("utf-8", "replace")
            text = f"no exchange '{shown}' in vhost '{self._vhost}'"
            missing = _publish_error(ReplyCode.NOT_FOUND, text)
            return Plan(shown, routing_key, NOWHERE, False, False, missing)
        mandatory = bool(bits & MANDATORY)
        route = self.router.route(exchange, routing_key, None)
        error = self._refusal(exchange, route, bool(bits & IMMEDIATE))
        if error is not None:
            return Plan(exchange, routing_key, NOWHERE, mandatory, False, error)
        for warning in route.warnings:
            log.warning("%s", warning)
        targets = self.targets(route.queues)
        return Plan(exchange, routing_key, targets, mandatory, route.needs_headers, None)

    def targets(self, uids: tuple[int, ...]) -> Targets:
        """The one `Targets` of these queues."""
        known = self._targets.get(uids)
        if known is None:
            known = Targets([self._host_of(uid) for uid in uids])
            self._targets[uids] = known
        return known

    def _refusal(self, exchange: str, route: Route, immediate: bool) -> ProtocolError | None:
        """Why this user may not publish so, as RabbitMQ checks it and in its order."""
        if immediate:
            return _publish_error(ReplyCode.NOT_IMPLEMENTED, "immediate=true")
        if not self._permissions.allows(WRITE, exchange):
            refusal = self._permissions.refusal(WRITE, "exchange", exchange)
            return _publish_error(refusal.code, refusal.text)
        if not route.exchange_found:
            text = f"no exchange '{exchange}' in vhost '{self._vhost}'"
            return _publish_error(ReplyCode.NOT_FOUND, text)
        if route.internal:
            text = f"cannot publish to internal exchange '{exchange}' in vhost '{self._vhost}'"
            return _publish_error(ReplyCode.ACCESS_REFUSED, text)
        return None

    # Messages that need a look of their own

    def part(self, event: Publishes) -> Parted:
        """Look at each message; cut the event at the first that is refused."""
        parted = Parted()
        firsts: list[int] = []
        keys: list[bytes] = []
        infos: list[int] = []
        count = event.count
        bounds = [*event.firsts[1:], count]
        for k, first in enumerate(event.firsts):
            key, info, last = event.keys[k], event.infos[k], bounds[k]
            plan = self.get(key) or self.make(key)
            for index in range(first, last):
                parted.error, targets = self._look(event, index, plan, info)
                if parted.error is not None:
                    _cut(parted, event, firsts, keys, infos, index)
                    return parted
                firsts.append(index)
                keys.append(key)
                infos.append(info)
                parted.plans.append(targets)
                if plan.mandatory and len(targets.hosts) == 0:
                    start, end = _span(event, index)
                    parted.returns.append((start, end, plan.exchange, plan.routing_key))
        _cut(parted, event, firsts, keys, infos, count)
        return parted

    def _look(
        self, event: Publishes, index: int, plan: Plan, info: int
    ) -> tuple[ProtocolError | None, Targets]:
        """The refusal or the targets of one message."""
        if plan.error is not None:
            return plan.error, NOWHERE
        start = _span(event, index)[0]
        if info & (INFO_EXPIRATION | INFO_USER_ID):
            error = self._bad_properties(event.data, start)
            if error is not None:
                return error, NOWHERE
        if not plan.needs_headers:
            return None, plan.targets
        found = (headers_of(event.data, start) or {}) if info & INFO_HEADERS else {}
        route = self.router.route(plan.exchange, plan.routing_key, lambda: found)
        return None, self.targets(route.queues)

    def _bad_properties(self, data: bytes, start: int) -> ProtocolError | None:
        expiration = expiration_of(data, start)
        if expiration is not None and not _is_duration(expiration):
            shown = expiration.decode("utf-8", "replace")
            text = f"invalid expiration '{shown}': not a number of milliseconds"
            return _publish_error(ReplyCode.PRECONDITION_FAILED, text)
        user = user_id_of(data, start)
        if user is not None and user != self._user.encode() and not self._impersonator:
            shown = user.decode("utf-8", "replace")
            text = f"user_id property set to '{shown}' but authenticated user was '{self._user}'"
            return _publish_error(ReplyCode.PRECONDITION_FAILED, text)
        return None


def _is_duration(text: bytes) -> bool:
    """Whether this is a decimal number of milliseconds that a timer can hold."""
    return text.isdigit() and len(text) <= 10 and int(text) < 1 << 32


def _publish_error(code: ReplyCode, text: str) -> ProtocolError:
    scope = Scope.CONNECTION if code is ReplyCode.NOT_IMPLEMENTED else Scope.CHANNEL
    return ProtocolError(code, text, scope, 60, 40)


def _span(event: Publishes, index: int) -> tuple[int, int]:
    start = read_i32_le(event.offsets, 4 * index)
    return int(start), int(read_i32_le(event.offsets, 4 * index + 4))


def _cut(
    parted: Parted,
    event: Publishes,
    firsts: list[int],
    keys: list[bytes],
    infos: list[int],
    count: int,
) -> None:
    """The event's first `count` messages, one run each."""
    if count == 0:
        return
    offsets = event.offsets[: 4 * count + 4]
    parted.event = Publishes(event.channel, event.data, offsets, firsts, keys, infos)

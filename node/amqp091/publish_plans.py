"""Where publishes go: routes and permissions of one user in one vhost, cached by raw key bytes.

A publish key is exchange, routing key and bits as they came on the wire. Everything here holds as
long as the metadata's version stays; the first look after a change starts again. Bounded: at
PLANS_MAX keys the cache starts again too.

`part` is for events that a plan alone does not answer: a route that differs by message, copies to
further keys, a message to be returned, a refusal.
"""

import logging
from collections.abc import Callable, Sequence
from time import thread_time
from typing import Final

from node.amqp091.plans import Parted, Plan
from node.auth.asked_access import Undecided
from node.auth.permissions import WRITE, PermissionCache
from node.connections.direct_reply_to import is_answer
from node.events.logs import ids_of
from queues.definitions.queue_arguments import DURATION_MS_MAX
from queues.queue_host import QueueHost
from queues.routing.content import Content, Content091
from queues.routing.copies import copies_of, may_copy, may_copy_at, without_hidden
from queues.routing.pace import HOSTS_AT_ONCE, NewHosts, RoutingPace
from queues.routing.router import NO_CONTENT, Route, Router, never
from queues.sessions.publishing import Gate, HandOverRoom, Targets
from warren.wire.amqp091.events import INFO_EXPIRATION, INFO_HEADERS, INFO_USER_ID, Publishes
from warren.wire.amqp091.properties import expiration_of, user_id_of
from warren.wire.buffer import BytesWriter, read_i32_le, write_i32_le
from warren.wire.errors import ProtocolError, ReplyCode, Scope

log = logging.getLogger("warren.routing")

PLANS_MAX: Final = 65536
NOWHERE: Final = Targets([])
MANDATORY: Final = 1
IMMEDIATE: Final = 2


class Look:
    """What came of looking at one message."""

    __slots__ = (
        "end",
        "error",
        "info",
        "is_unfinished",
        "key",
        "plan",
        "rewritten",
        "start",
        "targets",
    )

    def __init__(self, plan: Plan, start: int, end: int) -> None:
        self.plan = plan
        self.start = start
        self.end = end
        self.targets = plan.targets
        self.error: ProtocolError | None = None
        self.rewritten: bytes | None = None  # None: it goes on as it came in
        self.key = b""
        self.info = 0
        self.is_unfinished = False  # this turn has no time for all its keys and exchanges


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
        answers_of: Callable[[bytes], Targets | None] = lambda _: None,
        is_traced: Callable[[], bool] = lambda: False,
        pace: RoutingPace | None = None,
        gate_of: Callable[[str, tuple[int, ...]], Gate | None] = lambda exchange, uids: None,
    ) -> None:
        self._pace = pace or RoutingPace(thread_time)
        self.router = router
        self._vhost = vhost
        self._user = user
        self._impersonator = impersonator
        self._permissions = permissions
        self._host_of = host_of
        self._version_of = version_of
        self._answers_of = answers_of
        self._is_traced = is_traced
        self._gate_of = gate_of
        self._version = -1
        self._plans: dict[bytes, Plan] = {}
        self._targets: dict[tuple[str, tuple[int, ...]], Targets] = {}
        self._undecided: Undecided | None = None
        self._new_hosts = NewHosts(host_of)

    def take_undecided(self) -> Undecided | None:
        undecided = self._undecided
        self._undecided = None
        return undecided

    def is_undecided(self) -> bool:
        return self._undecided is not None

    def put_off(self, undecided: Undecided) -> None:
        """A look at single messages ends here."""
        self._undecided = undecided

    def refresh(self) -> None:
        """Forget everything if a definition has changed since."""
        version = self._version_of()
        if version != self._version:
            self._version = version
            self._plans = {}
            self._targets = {}
            for warning in self.router.take_warnings():
                log.warning("%s", warning, extra=ids_of(vhost=self._vhost))

    def needs_look(self, event: Publishes) -> bool:
        """Whether messages with headers need a look of their own, whatever their plans say."""
        return may_copy(event)

    @property
    def version(self) -> int:
        return self._version

    @property
    def hand_overs(self) -> HandOverRoom:
        return self._pace.hand_overs

    def is_spent(self) -> bool:
        return self._pace.is_spent()

    def route(
        self, exchange: str, key: bytes, content: Content, more_keys: tuple[bytes, ...]
    ) -> Route | None:
        """Route one message by its content or by several keys; nothing is remembered.

        None: this turn has no time for all keys, or for hosts of all queues; call it again for the
        same message.
        """
        self._pace.begin()
        route = self._route(exchange, key, content, more_keys)
        self._pace.end()
        return route

    def _route(
        self, exchange: str, key: bytes, content: Content, more_keys: tuple[bytes, ...]
    ) -> Route | None:
        """See `route`. The time counts from `begin` on."""
        is_late = self._pace.lap
        route = self.router.route_in_slices(exchange, key, content, more_keys, is_late)
        if route is None or not self._have_hosts(exchange, route.queues, is_late):
            return None
        return route

    def get(self, key: bytes) -> Plan | None:
        return self._plans.get(key)

    def make(self, key: bytes) -> Plan:
        """Route and check afresh, and remember, unless the name dies with a consumer. Undecided."""
        self._pace.begin()
        plan = self._make(key, never)
        self._pace.end()
        assert plan is not None
        return self._remembered(key, plan)

    def make_some(self, key: bytes) -> Plan | None:
        """`make`, if this turn has time for all of it. None: call it again in the next turn."""
        self._pace.begin()
        try:
            plan = self._make(key, self._pace.lap)
        except Undecided as undecided:
            self._undecided = undecided
            return None
        self._pace.end()
        return None if plan is None else self._remembered(key, plan)

    def _remembered(self, key: bytes, plan: Plan) -> Plan:
        if self._is_traced():
            plan.trace()
        if is_answer(plan.exchange, plan.routing_key):
            return plan
        if len(self._plans) >= PLANS_MAX:
            self._plans = {}
            self._targets = {}
        self._plans[key] = plan
        return plan

    def _make(self, key: bytes, is_late: Callable[[], bool]) -> Plan | None:
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
        route = self.router.route_in_slices(exchange, routing_key, NO_CONTENT, (), is_late)
        if route is None:
            return None
        error = self._refusal(exchange, routing_key, route, bool(bits & IMMEDIATE))
        if error is not None:
            return Plan(exchange, routing_key, NOWHERE, mandatory, False, error)
        if not self._have_hosts(exchange, route.queues, is_late):
            return None
        for warning in route.warnings:
            log.warning("%s", warning, extra=ids_of(vhost=self._vhost))
        answers = self._answers_of(routing_key) if is_answer(exchange, routing_key) else None
        if answers is not None:
            gate = self._gate_of(exchange, ())
            if gate is not None:  # It marks messages.
                answers = Targets(answers.hosts, gate)
            return Plan(exchange, routing_key, answers, mandatory, False, None)
        targets = self.targets(route.queues, exchange)
        return Plan(exchange, routing_key, targets, mandatory, route.per_message, None)

    def _have_hosts(
        self, exchange: str, uids: tuple[int, ...], is_late: Callable[[], bool]
    ) -> bool:
        """Whether `targets` has no hosts to make, or few. False: go on in the next turn."""
        if len(uids) <= HOSTS_AT_ONCE or (exchange, uids) in self._targets:
            return True
        return self._new_hosts.have(uids, is_late)

    def targets(self, uids: tuple[int, ...], exchange: str) -> Targets:
        """The one `Targets` of these queues, for messages published to this exchange."""
        if len(uids) == 0:
            return NOWHERE
        known = self._targets.get((exchange, uids))
        if known is None:
            hosts = [self._host_of(uid) for uid in uids]
            known = Targets(hosts, self._gate_of(exchange, uids))
            self._targets[exchange, uids] = known
        return known

    def _refusal(
        self, exchange: str, key: bytes, route: Route, immediate: bool
    ) -> ProtocolError | None:
        """Why this user may not publish so, as RabbitMQ checks it and in its order."""
        if immediate:
            return _publish_error(ReplyCode.NOT_IMPLEMENTED, "immediate=true")
        if not self._permissions.allows(WRITE, exchange, "exchange"):
            refusal = self._permissions.refusal(WRITE, "exchange", exchange)
            return _publish_error(refusal.code, refusal.text)
        if not route.exchange_found:
            text = f"no exchange '{exchange}' in vhost '{self._vhost}'"
            return _publish_error(ReplyCode.NOT_FOUND, text)
        if route.internal:
            text = f"cannot publish to internal exchange '{exchange}' in vhost '{self._vhost}'"
            return _publish_error(ReplyCode.ACCESS_REFUSED, text)
        if self.router.is_topic(exchange):
            refused = self._permissions.topic_refusal(WRITE, exchange, key)
            if refused is not None:
                return _publish_error(refused.code, refused.text)
        return None

    def keys_refusal(self, exchange: str, keys: Sequence[bytes]) -> ProtocolError | None:
        """Why this user may not publish with these keys beside the message's own. Undecided."""
        if not self.router.is_topic(exchange):
            return None
        refused = self._permissions.keys_refusal(WRITE, exchange, keys)
        return None if refused is None else _publish_error(refused.code, refused.text)

    # Messages that need a look of their own

    def part(self, event: Publishes) -> Parted:
        """Look at each message; cut the event at the first that is refused, or when the time that
        this turn has for routing is spent.
        """
        parted = Parted()
        taken: list[Look] = []
        bounds = [*event.firsts[1:], event.count]
        is_spent = False
        for k, first in enumerate(event.firsts):
            if is_spent:
                break
            plan = self.get(event.keys[k]) or self.make_some(event.keys[k])
            if plan is None:
                break
            self._pace.begin()
            for index in range(first, bounds[k]):
                try:
                    look = self._look(event, index, plan, event.infos[k])
                except Undecided as undecided:
                    self._undecided = undecided
                    is_spent = True
                    break
                is_spent = self._pace.lap()
                if look.is_unfinished:
                    is_spent = True
                    break
                if look.error is not None:
                    parted.error = look.error
                    _gather(parted, event, taken)
                    return parted
                look.key, look.info = event.keys[k], event.infos[k]
                taken.append(look)
                if is_spent:
                    break
        _gather(parted, event, taken)
        if not taken:
            parted.rest = event
        elif len(taken) < event.count:
            parted.rest = event.split(len(taken))[1]
        return parted

    def _look(self, event: Publishes, index: int, plan: Plan, info: int) -> "Look":
        """The refusal or the targets of one message."""
        start, end = _span(event, index)
        look = Look(plan, start, end)
        if plan.error is not None:
            look.error = plan.error
            return look
        if info & (INFO_EXPIRATION | INFO_USER_ID):
            look.error = self._bad_properties(event.data, start)
            if look.error is not None:
                return look
        if info & INFO_HEADERS and may_copy_at(event.data, start):
            self._copy(event.data, look)
        elif plan.per_message:
            content = Content091(event.data, start, is_arriving=True)
            route = self._route(plan.exchange, plan.routing_key, content, ())
            if route is None:
                look.is_unfinished = True
                return look
            look.targets = self.targets(route.queues, plan.exchange)
        return look

    def _copy(self, data: bytes, look: "Look") -> None:
        """Route by all the keys that the message names."""
        copies = copies_of(data, look.start)
        if copies.fault:
            look.error = _publish_error(ReplyCode.PRECONDITION_FAILED, copies.fault)
            return
        plan = look.plan
        if copies.keys:
            look.error = self.keys_refusal(plan.exchange, copies.keys)
            if look.error is not None:
                return
        if copies.keys or plan.per_message:
            content = Content091(data, look.start, is_arriving=True)
            route = self._route(plan.exchange, plan.routing_key, content, copies.keys)
            if route is None:
                look.is_unfinished = True
                return
            look.targets = self.targets(route.queues, plan.exchange)
            if is_answer(plan.exchange, plan.routing_key) and plan.targets.hosts:
                look.targets = Targets(
                    [*plan.targets.hosts, *look.targets.hosts], plan.targets.gate
                )
        if copies.hidden:
            look.rewritten = without_hidden(data, look.start, look.end)

    def _bad_properties(self, data: bytes, start: int) -> ProtocolError | None:
        expiration = expiration_of(data, start)
        fault = None if expiration is None else _expiration_fault(expiration)
        if expiration is not None and fault is not None:
            shown = expiration.decode("utf-8", "replace")
            text = f"invalid expiration '{shown}': {fault}"
            return _publish_error(ReplyCode.PRECONDITION_FAILED, text)
        user = user_id_of(data, start)
        if user is not None and user != self._user.encode() and not self._impersonator:
            shown = user.decode("utf-8", "replace")
            text = f"user_id property set to '{shown}' but authenticated user was '{self._user}'"
            return _publish_error(ReplyCode.PRECONDITION_FAILED, text)
        return None


def _expiration_fault(text: bytes) -> str | None:
    """Why this is no number of milliseconds up to ten years, as a term; None: it is one."""
    digits = text.lstrip(b"+-")
    end = 0
    while end < len(digits) and digits[end : end + 1].isdigit():
        end += 1
    if end == 0 or len(text) - len(digits) > 1:
        return "no_integer"
    if end < len(digits):
        shown = digits[end:].decode("utf-8", "replace")
        return f'{{leftover_string,"{shown}"}}'
    number = int(text)
    if number < 0:
        return f"{{value_negative,{number}}}"
    return f"{{value_too_large,{number}}}" if number > DURATION_MS_MAX else None


def _publish_error(code: ReplyCode, text: str) -> ProtocolError:
    scope = Scope.CONNECTION if code is ReplyCode.NOT_IMPLEMENTED else Scope.CHANNEL
    return ProtocolError(code, text, scope, 60, 40)


def _span(event: Publishes, index: int) -> tuple[int, int]:
    start = read_i32_le(event.offsets, 4 * index)
    return int(start), int(read_i32_le(event.offsets, 4 * index + 4))


def _gather(parted: Parted, event: Publishes, taken: list[Look]) -> None:
    """Make an event of the messages taken, which are the first of `event`, one run each."""
    if not taken:
        return
    keys = [look.key for look in taken]
    infos = [look.info for look in taken]
    firsts = list(range(len(taken)))
    data, offsets = event.data, event.offsets[: 4 * len(taken) + 4]
    if any(look.rewritten is not None for look in taken):
        data, offsets = _join(event.data, taken)
    parted.event = Publishes(event.channel, data, offsets, firsts, keys, infos)
    parted.plans = [look.targets for look in taken]
    for index, look in enumerate(taken):
        unroutable = look.plan.mandatory and len(look.targets.hosts) == 0
        if unroutable:
            start, end = _span(parted.event, index)
            parted.returns.append((start, end, look.plan.exchange, look.plan.routing_key))


def _join(data: bytes, taken: list[Look]) -> tuple[bytes, bytes]:
    """The messages as they are to go on, and their offsets."""
    pieces: list[bytes] = []
    offsets = BytesWriter()
    size = 0
    for look in taken:
        piece = data[look.start : look.end] if look.rewritten is None else look.rewritten
        write_i32_le(offsets, size)
        pieces.append(piece)
        size += len(piece)
    write_i32_le(offsets, size)
    return b"".join(pieces), offsets.getvalue()

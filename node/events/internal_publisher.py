"""Messages that the node itself publishes: events, and copies of traced messages.

Takes a `Letter` at any time, from within anything (`offer` only notes it down); routes and hands
over up to LETTERS_A_TURN of them in each turn that follows, as a session of its own that waits for
no confirm: at most once. A letter for very many queues takes several turns. Limits: WAITING_MAX
letters of at most WAITING_BYTES together wait; what is beyond is dropped and counted, as is what
cannot be written as a message. A full queue that refuses a letter loses it. Of AMQP 0-9-1 in form.
Compiled, as its base is.
"""

import logging
from collections import deque
from collections.abc import Mapping
from typing import Final, Protocol, final

from node.process_identity import ProcessIdentity
from queues.definitions.metadata.machine import Metadata
from queues.hosts.host_interfaces import Steppable
from queues.machine.commands import SessionId
from queues.message import FORMAT_091, Chunk
from queues.queue_host import PublishingOnly, QueueHost
from queues.routing.content import Content091
from queues.routing.pace import RoutingPace
from queues.routing.router import Router
from queues.sessions.credit import CreditActor, CreditSpec
from warren.wire.amqp091.deliver import build
from warren.wire.amqp091.events import INFO_PERSISTENT
from warren.wire.amqp091.properties import BasicProperties
from warren.wire.amqp091.values import Int64

log = logging.getLogger("warren.events")

LETTERS_A_TURN: Final = 256
WAITING_MAX: Final = 8192
WAITING_BYTES: Final = 16 * 1024 * 1024
LETTER_BYTES: Final = 1024  # what one is counted as, beside its body
SILENCE_MS: Final = 60_000  # between two lines about what was dropped
CREDIT: Final = CreditSpec(1 << 30, 1 << 29)  # nothing waits for it: what is too much is dropped
PERSISTENT: Final = 2  # delivery-mode
HEADER_BYTES_MAX: Final = 120_000  # of a content header, so that it fits any client's frame
INT64_END: Final = 1 << 63


class Turning(Protocol):
    """What steps those that are marked."""

    def begin(self) -> None: ...

    def mark_host_later(self, host: Steppable) -> None:
        """Step it in the next turn."""

    @property
    def routing(self) -> RoutingPace: ...


class Queues(Protocol):
    """See `node.definitions.queue_registry`."""

    def host(self, uid: int) -> QueueHost: ...


class Routers(Protocol):
    """By vhost."""

    def get(self, vhost: str, /) -> Router | None: ...


class Site(Protocol):
    """What it needs of the broker."""

    @property
    def metadata(self) -> Metadata: ...

    @property
    def routers(self) -> Routers: ...

    @property
    def turn(self) -> Turning: ...

    @property
    def queues(self) -> Queues: ...

    @property
    def identity(self) -> ProcessIdentity: ...

    def now_ms(self) -> int: ...


@final
class Letter:
    """A message to be. `at_ms`: for the property `timestamp`; 0: it has none."""

    def __init__(
        self,
        vhost: str,
        exchange: str,
        routing_key: str,
        headers: Mapping[str, object],
        body: bytes = b"",
        at_ms: int = 0,
        is_persistent: bool = False,
    ) -> None:
        self.vhost = vhost
        self.exchange = exchange
        self.routing_key = routing_key
        self.headers = headers
        self.body = body
        self.at_ms = at_ms
        self.is_persistent = is_persistent


@final
class HandOver:
    """A letter that the queues of `uids` from `at` on have not got yet."""

    def __init__(self, data: bytes, info: int, uids: tuple[int, ...]) -> None:
        self.data = data
        self.offsets = bytes(4) + len(data).to_bytes(4, "little")
        self.info = info
        self.uids = uids
        self.at = 0


@final
class InternalPublisher(PublishingOnly):
    """See the module. Keeps `SessionSink` and `Steppable`.

    Invariant: while `_waiting` is not empty or `_unfinished` is there, this is marked for a turn.
    """

    def __init__(self, broker: Site) -> None:
        self.dropped_count = 0
        self.published_count = 0  # that found a queue
        self._broker = broker
        self._session: SessionId | None = None  # once something is published
        self._credit = CreditActor("events", CREDIT)
        self._next_seqs: dict[int, int] = {}  # by uid of the queue
        self._waiting: deque[Letter] = deque()
        self._waiting_bytes = 0
        self._unfinished: HandOver | None = None
        self._quiet_until_ms = 0

    @property
    def session(self) -> SessionId:
        if self._session is None:
            self._session = self._broker.identity.new_session()
        return self._session

    @property
    def credit(self) -> CreditActor:
        return self._credit

    @property
    def waiting_count(self) -> int:
        return len(self._waiting)

    def is_heard(self, vhost: str, exchange: str) -> bool:
        """Whether anything is bound to the exchange, so that letters to it may arrive."""
        found = self._broker.metadata.vhosts.get(vhost)
        return found is not None and found.has_bindings_from(exchange)

    def offer(self, letter: Letter) -> None:
        """Publish it in a turn to come, or drop it."""
        size = len(letter.body) + LETTER_BYTES
        if len(self._waiting) >= WAITING_MAX or self._waiting_bytes + size > WAITING_BYTES:
            self._drop("too many of them wait")
            return
        if not self._waiting and self._unfinished is None:
            self._mark()
        self._waiting.append(letter)
        self._waiting_bytes += size

    def _mark(self) -> None:
        turn = self._broker.turn
        turn.begin()
        turn.mark_host_later(self)

    def step(self, now_ms: int) -> None:
        """Publish what waits, or the first of it."""
        if self._unfinished is not None:
            self._hand_on(self._unfinished)
        for _ in range(min(len(self._waiting), LETTERS_A_TURN)):
            if self._unfinished is not None or self._broker.turn.routing.is_spent():
                break
            letter = self._waiting.popleft()
            self._waiting_bytes -= len(letter.body) + LETTER_BYTES
            self._publish(letter)
        if self._waiting or self._unfinished is not None:
            self._mark()

    def _publish(self, letter: Letter) -> None:
        try:
            data = message_of(letter)
        except (ValueError, OverflowError, RecursionError) as error:
            self._drop(f"one cannot be written: {error}")
            return
        router = self._broker.routers.get(letter.vhost)
        if router is None:
            return  # The vhost is gone.
        key = letter.routing_key.encode("utf-8", "surrogateescape")
        content = Content091(data, 0)
        route = self._broker.turn.routing.route(router, letter.exchange, key, content)
        if route.queues:
            self.published_count += 1
            info = INFO_PERSISTENT if letter.is_persistent else 0
            self._hand_on(HandOver(data, info, route.queues))

    def _hand_on(self, letter: HandOver) -> None:
        """Hand it to as many queues as this turn has room for."""
        some = self._broker.turn.routing.hand_overs.take(len(letter.uids) - letter.at)
        upto = letter.at + int(some)
        for uid in letter.uids[letter.at : upto]:
            self._hand_to(uid, letter)
        letter.at = upto
        self._unfinished = letter if upto < len(letter.uids) else None

    def _hand_to(self, uid: int, letter: HandOver) -> None:
        try:
            host = self._broker.queues.host(uid)
        except KeyError:
            return  # It was deleted since the letter was routed, some turns ago.
        seq = self._next_seqs.get(uid, 1)
        self._next_seqs[uid] = seq + 1
        # Each queue gets a chunk of its own: not all may journal it in the same turn.
        host.publish(self, Chunk(FORMAT_091, letter.data, 0, letter.offsets, letter.info), seq)

    def _drop(self, why: str) -> None:
        self.dropped_count += 1
        now_ms = self._broker.now_ms()
        if now_ms >= self._quiet_until_ms:
            self._quiet_until_ms = now_ms + SILENCE_MS
            log.warning("events or copies of traced messages are dropped: %s", why)

    def close(self) -> None:
        """The node stops: what waits is lost."""
        self._waiting.clear()
        self._waiting_bytes = 0
        self._unfinished = None

    # Effects: no confirm is awaited

    def on_gone(self, uid: int) -> None:
        self._next_seqs.pop(uid, None)

    def on_confirms(self, uid: int, upto_seq: int) -> None:
        return

    def on_refused(self, uid: int, first_seq: int, count: int) -> None:
        return


def message_of(letter: Letter) -> bytes:
    """In stored form 1. ValueError, OverflowError: a header or a name that cannot be written."""
    properties = BasicProperties(
        headers={name: header_value(value) for name, value in letter.headers.items()},
        delivery_mode=PERSISTENT if letter.is_persistent else None,
        timestamp=letter.at_ms // 1000 if letter.at_ms else None,
    ).encode()
    if len(properties) > HEADER_BYTES_MAX:
        raise ValueError(f"headers of {len(properties)} bytes")
    key = letter.routing_key.encode("utf-8", "surrogateescape")[:255]
    return build(letter.exchange, key, properties, letter.body)


def header_value(value: object) -> object:
    """As a header holds it: numbers of 64 bits, as RabbitMQ writes them."""
    if isinstance(value, bool):
        return value
    if type(value) is int:
        return Int64(value) if -INT64_END <= value < INT64_END else str(value)
    if isinstance(value, Mapping):
        return {str(name): header_value(each) for name, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [header_value(each) for each in value]
    return value

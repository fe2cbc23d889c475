"""A federation link while this node runs it: exchange or queue, its sessions and its status."""

import asyncio
import random
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Final

from msgspec import Struct

from federation.cleaning import reached_one_of
from federation.ends import AnyDelivery, Dialler, OnBlocked, Source091, Target091, closed
from federation.forwarding import Forwarding
from federation.hops import (
    SUFFIXES,
    bound_from,
    internal_exchange,
    received_from,
    upstream_queue,
)
from federation.lazy_target import LazyTarget
from federation.marking import ASK_FOR_IDS, mark_id
from federation.running import Facts, OnState, Runner
from federation.shovel_parameters import NO_ACK, ON_CONFIRM, SourceEnd, TargetEnd
from federation.upstreams import EXCHANGE, LinkConfig
from federation.uris import Uri, parse_uri, without_credentials
from federation.withholding import Withholding
from queues.definitions.arguments import decode_arguments
from queues.routing.federation_upstream import RECEIVED_FROM, TYPE, Place, should_forward
from warren.client import amqp091
from warren.client.errors import ClientError, RequestFailed
from warren.client.flag import Flag
from warren.wire.amqp091.contents import content_parts
from warren.wire.amqp091.deliver import build
from warren.wire.amqp091.fields import encode_table
from warren.wire.amqp091.forward import forwarded
from warren.wire.amqp091.properties import BasicProperties, readable_properties

PURPOSE: Final[Mapping[str, object]] = {"x-internal-purpose": "federation"}
FANOUT: Final = "fanout"
RECEIVED_FROM_KEY: Final = RECEIVED_FROM.encode()
FEDERATED_KEY: Final = "x-federated-routing-key"  # header: the key that a queue link replaced
FEDERATED_KEY_BYTES: Final = FEDERATED_KEY.encode()
IDLE_LOOKS: Final = 3  # ten are in a second
ENTRIES_MAX: Final = 256  # routing keys whose headers are kept encoded
UNKNOWN_TYPE: Final = "unknown exchange type"
PRIORITY: Final = -1  # of consumers at the upstream: its own consumers come first
NOT_FOUND: Final = 404

LocalBinding = tuple[bytes, bytes]  # binding key, encoded arguments


class Local(Struct, frozen=True):
    """What a link asks of its own cluster."""

    place: Callable[[str], Place]  # of a vhost
    bindings: Callable[[str, str], frozenset[LocalBinding]]  # of vhost and exchange
    has_demand: Callable[[str, str], bool]  # of vhost and queue, as known now
    is_here: Callable[[str, str], bool]  # whether that is as of now, or of the last answer


@dataclass(slots=True)
class LinkStatus:
    """What listings show of a link."""

    id: str
    facts: Facts
    uri: str
    config: LinkConfig = field(repr=False)


class Link:
    """See the module. `run` ends when it is cancelled; `clean_up` afterwards, if it is for good."""

    def __init__(
        self, config: LinkConfig, dialler: Dialler, local: Local, on_state: OnState
    ) -> None:
        self.config = config
        self.id = config.id
        self._dialler = dialler
        self._local = local
        self._uri = ""
        self._reached = ""  # the URI that connected last
        self._refusals: list[str] = []
        self._source: ExchangeSource | QueueSource | None = None  # of the last session
        what = f"{config.kind} '{config.name}' in vhost '{config.vhost}'"
        self._runner = Runner(
            f"federation of {what} with upstream '{config.upstream}'",
            Forwarding(config.reconnect_s),
            config.prefetch,
            self._sides,
            config.rates,
            on_state,
        )
        self.run = self._runner.run
        self.pause = self._runner.pause

    def status(self) -> LinkStatus:
        runner = self._runner
        return LinkStatus(
            self.id,
            runner.facts(),
            self._uri,
            self.config,
        )

    def _sides(self, on_blocked: OnBlocked) -> "tuple[ExchangeSource | QueueSource, LazyTarget]":
        config = self.config
        text = random.choice(config.uris)
        self._uri = without_credentials(text)
        reached = partial(self._note_reached, text)
        upstream = Upstream(config, parse_uri(text), self._uri, self._dialler, reached)
        source: ExchangeSource | QueueSource
        if config.kind == EXCHANGE:
            source = ExchangeSource(upstream, self._local, self._refusals)
        else:
            source = QueueSource(upstream, self._local)
        self._source = source
        local = Uri("", 0, False, "", "", config.vhost)
        name = f"Federation link {config.upstream}"

        def target() -> Target091:
            return Target091(
                partial(self._dialler.connect, local, config.vhost, name, on_blocked),
                TargetEnd(()),
                source.rewritten,
                config.kind != EXCHANGE,
                config.ack_mode != ON_CONFIRM,
            )

        return source, LazyTarget(target)

    def look(self, definitions_changed: bool) -> None:
        """Follow the bindings and the demand here; to be called ten times a second."""
        if self._source is not None:
            self._source.look(definitions_changed)

    def _note_reached(self, text: str) -> None:
        self._reached = text

    async def clean_up(self) -> None:
        """Delete what the link has made at the upstream, which it does not use any more."""
        config = self.config
        if config.kind == EXCHANGE and config.cleans_up:
            await reached_one_of(config.uris, self._reached, self._delete_at)

    async def _delete_at(self, text: str) -> None:
        upstream = Upstream(self.config, parse_uri(text), "", self._dialler)
        connection = await upstream.connect()
        try:
            management = await connection.management()
            name = self._buffer(upstream)
            for suffix in SUFFIXES:
                await management.delete_exchange(f"{name} {suffix}")
            await management.delete_queue(name)
        finally:
            await closed(connection)

    def _buffer(self, upstream: "Upstream") -> str:
        return upstream.queue_name(self._local.place(self.config.vhost))

    def left_over(self) -> str:
        """What stays at the upstream when `clean_up` fails, for the log."""
        config = self.config
        upstream = Upstream(config, parse_uri(self._reached or config.uris[0]), "", self._dialler)
        first, second = SUFFIXES
        return (
            f"upstream '{config.upstream}' of {config.kind} '{config.name}' in vhost "
            f"'{config.vhost}': the queue '{self._buffer(upstream)}' and the exchanges of that "
            f"name with ' {first}' and ' {second}' stay there"
        )


class Upstream:
    """The other side of a link."""

    def __init__(
        self,
        config: LinkConfig,
        uri: Uri,
        shown: str,
        dialler: Dialler,
        reached: Callable[[], None] | None = None,
    ) -> None:
        """`reached` is called when a connection is open."""
        self.config = config
        self._reached = reached
        self._uri = uri
        self._shown = shown
        self._dialler = dialler
        self.place = Place("", self.vhost)
        self._entries: dict[str | None, tuple[bytes, bytes]] = {}  # of headers; see `_entry`

    @property
    def vhost(self) -> str:
        return self.config.vhost if self._uri.vhost is None else self._uri.vhost

    async def connect(self) -> amqp091.Connection:
        name = f"Federation link (upstream: {self.config.upstream})"
        connection = await self._dialler.connect(self._uri, self.config.vhost, name)
        properties = connection.server_properties
        self.place = Place(
            str(properties.get("cluster_name", "")),
            self.vhost,
            str(properties.get("cluster_id", "")),
        )
        if self._reached is not None:
            self._reached()
        return connection

    def queue_name(self, here: Place) -> str:
        """Of the queue that buffers for an exchange."""
        config = self.config
        return upstream_queue(config.remote_exchange, self.vhost, here, config.name)

    def _hops(self, headers: Mapping[str, object], redelivered: bool) -> list[object]:
        hop: dict[str, object] = {"uri": self._shown, self.config.kind: self.config.remote}
        return received_from(headers, hop, redelivered, self.place)

    def quickly(
        self, content: bytes, exchange: str, key: bytes | None, bits: int, replaced: str | None
    ) -> bytes | None:
        """The message for this cluster, if it passes its first link and only has to say so; None:
        its properties must be looked at. `replaced`: the routing key that a header is to keep."""
        config = self.config
        if config.marks_ids or config.max_hops < 1:
            return None
        if replaced is not None and FEDERATED_KEY_BYTES in content:
            return None
        entries = self._entries.get(replaced)
        if entries is None:
            if len(self._entries) >= ENTRIES_MAX:
                self._entries.clear()
            entries = self._entry(False, replaced), self._entry(True, replaced)
            self._entries[replaced] = entries
        plain, again = entries
        return forwarded(
            content, exchange, key, plain, again, RECEIVED_FROM_KEY, config.trust_user_id, bits
        )

    def _entry(self, redelivered: bool, replaced: str | None) -> bytes:
        """The headers that a message gets which comes from its publisher, encoded."""
        headers: dict[str, object] = {RECEIVED_FROM: self._hops({}, redelivered)}
        if replaced is not None:
            headers[FEDERATED_KEY] = replaced
        return encode_table(headers)[4:]

    def prepare(
        self, delivery: amqp091.Delivery, properties: BasicProperties, headers: dict[str, object]
    ) -> None:
        """Note in the headers that the message came from there, and which one it is."""
        config = self.config
        headers[RECEIVED_FROM] = self._hops(headers, delivery.redelivered)
        if config.marks_ids:
            mark_id(headers, properties.message_id, f"{config.upstream}/{config.remote}")
        properties.headers = headers
        if not config.trust_user_id:
            properties.user_id = None


class ExchangeSource:
    """Consumes the upstream's queue, and keeps the bindings there as they are here."""

    def __init__(self, upstream: Upstream, local: Local, refusals: list[str]) -> None:
        """`refusals`: answers of the upstream, in this and earlier sessions, that it does not know
        the type of the internal exchange."""
        self._upstream = upstream
        self._config = config = upstream.config
        self._local = local
        self._refusals = refusals
        self._here = local.place(config.vhost)
        self._queue = upstream.queue_name(self._here)
        self._source = Source091(
            upstream.connect,
            SourceEnd(
                (),
                queue=self._queue,
                queue_arguments=self._queue_arguments(),
                consumer_arguments=dict(ASK_FOR_IDS) if config.marks_ids else {},
            ),
            config.ack_mode == NO_ACK,
        )
        self._exchange = ""  # the internal one of this session
        self._suffix = ""
        self._bound: dict[LocalBinding, dict[str, object]] = {}
        self._nudge = Flag()

    def _queue_arguments(self) -> dict[str, object]:
        config = self._config
        found: dict[str, object] = dict(PURPOSE)
        if config.queue_type != "classic":
            found["x-queue-type"] = config.queue_type
        if config.expires is not None:
            found["x-expires"] = config.expires
        if config.message_ttl is not None:
            found["x-message-ttl"] = config.message_ttl
        return found

    async def open(self) -> int:
        ready = await self._source.open()
        management = self._source.management
        config = self._config
        if not await _has_exchange(management, config.remote_exchange):
            await management.declare_exchange(
                config.remote_exchange,
                config.type,
                durable=config.durable,
                auto_delete=config.auto_delete,
                arguments=decode_arguments(config.arguments),
            )
        await self._renew()
        return ready

    async def _renew(self) -> None:
        """Bind through a new internal exchange, then delete that of the session before: messages
        flow without a gap, and bindings that went meanwhile go."""
        management = self._source.management
        has_a = await _has_exchange(management, f"{self._queue} {SUFFIXES[0]}")
        self._suffix, old = SUFFIXES[has_a], SUFFIXES[not has_a]
        self._exchange = f"{self._queue} {self._suffix}"
        await management.delete_exchange(self._exchange)
        await self._declare_internal()
        await management.bind(self._exchange, queue=self._queue)
        self._bound = {}
        await self._follow()
        await management.delete_exchange(f"{self._queue} {old}")

    async def _declare_internal(self) -> None:
        """A fanout where the upstream does not know federation: it refuses the type, mostly by
        closing the connection, and the next session asks for no other."""
        config, arguments = self._config, dict(PURPOSE)
        type_ = FANOUT if self._refusals else TYPE
        if type_ == TYPE:
            arguments |= internal_exchange(self._here, config.max_hops)
        try:
            await self._source.management.declare_exchange(
                self._exchange, type_, internal=True, auto_delete=True, arguments=arguments
            )
        except ClientError as error:
            if UNKNOWN_TYPE in str(error):
                self._refusals.append(str(error))
            raise

    async def _follow(self) -> None:
        """Bring the bindings at the upstream to those of this cluster."""
        config, management = self._config, self._source.management
        wanted = self._local.bindings(config.vhost, config.name)
        for each in wanted - self._bound.keys():
            arguments = bound_from(
                decode_arguments(each[1]),
                config.max_hops,
                self._here,
                self._upstream.place,
                f"{config.vhost}:{config.name} {self._suffix}",
            )
            if arguments is not None:
                await management.bind(
                    config.remote_exchange,
                    exchange=self._exchange,
                    key=each[0].decode("utf-8", "surrogateescape"),
                    arguments=arguments,
                )
            self._bound[each] = arguments or {}
        for each in self._bound.keys() - wanted:
            arguments = self._bound.pop(each)
            if arguments:
                await management.unbind(
                    config.remote_exchange,
                    exchange=self._exchange,
                    key=each[0].decode("utf-8", "surrogateescape"),
                    arguments=arguments,
                )

    async def consume(self, prefetch: int) -> None:
        await self._source.consume(prefetch)

    async def take(self, limit: int) -> Sequence[AnyDelivery]:
        return await self._source.take(limit)

    async def ready(self) -> int:
        return await self._source.ready()

    def accept(self, deliveries: Sequence[AnyDelivery]) -> None:
        self._source.accept(deliveries)

    def look(self, definitions_changed: bool) -> None:
        if definitions_changed:
            self._nudge.set()

    async def watch(self) -> None:
        """Follow the bindings; the end of the connection ends the session."""
        await until_lost(self._source, self._nudge, self._follow)

    async def close(self) -> None:
        await self._source.close()

    def rewritten(self, delivery: AnyDelivery) -> bytes | None:
        """The message for the exchange here; None: it has been here, or has come far enough."""
        assert isinstance(delivery, amqp091.Delivery)
        content = delivery.content
        found = self._upstream.quickly(content, self._config.name, None, 0, None)
        if found is not None:
            return found
        encoded, body = content_parts(content, 0, len(content))
        properties = readable_properties(encoded)
        headers = dict(properties.headers or {})
        if not should_forward(headers, self._config.max_hops, self._here):
            return None
        self._upstream.prepare(delivery, properties, headers)
        key = delivery.routing_key.encode("utf-8", "surrogateescape")
        return build(self._config.name, key, properties.encode(), body)


class QueueSource:
    """Consumes the upstream queue while there are consumers here and nothing for them."""

    def __init__(self, upstream: Upstream, local: Local) -> None:
        self._upstream = upstream
        self._config = config = upstream.config
        self._local = local
        arguments = decode_arguments(config.arguments)
        end = SourceEnd(
            (),
            queue=config.remote_queue,
            queue_arguments=arguments,
            consumer_arguments={
                "x-priority": PRIORITY,
                "x-purpose": "federation",
                **(ASK_FOR_IDS if config.marks_ids else {}),
            },
        )
        self._source = Source091(
            upstream.connect, end, config.ack_mode == NO_ACK, config.consumer_tag
        )
        self._prefetch = 0
        self._is_consuming = False
        self._idle_looks = 0  # in a row, without demand
        self._nudge = Flag()
        self._withholding = Withholding(
            self._demand_now, self._source.accept, config.ack_mode == ON_CONFIRM
        )
        self._withholding.is_open = True

    async def open(self) -> int:
        return await self._source.open()

    async def consume(self, prefetch: int) -> None:
        """Begins paused: nothing comes until there is demand."""
        self._prefetch = prefetch
        await self._source.consume(prefetch, paused=True)

    async def take(self, limit: int) -> Sequence[AnyDelivery]:
        return await self._source.take(limit)

    async def ready(self) -> int:
        return await self._source.ready()

    def accept(self, deliveries: Sequence[AnyDelivery]) -> None:
        self._withholding.accept(deliveries)

    def _demand_now(self) -> bool | None:
        here = self._local.is_here(self._config.vhost, self._config.name)
        return self._has_demand if here else None

    @property
    def _has_demand(self) -> bool:
        return self._local.has_demand(self._config.vhost, self._config.name)

    def look(self, definitions_changed: bool) -> None:
        has_demand = self._has_demand
        self._withholding.look(has_demand)
        self._idle_looks = 0 if has_demand else self._idle_looks + 1
        if self._wants() != self._is_consuming:
            self._nudge.set()

    def _wants(self) -> bool:
        """Whether to consume. A consumer that is busy for a moment does not end it: what comes
        meanwhile is bounded."""
        return self._has_demand or (self._is_consuming and self._idle_looks < IDLE_LOOKS)

    async def watch(self) -> None:
        """Consume by local demand; the end of the connection ends the session."""
        await until_lost(self._source, self._nudge, self._follow_demand)

    async def _follow_demand(self) -> None:
        wants = self._wants()
        if wants != self._is_consuming:
            self._is_consuming = wants
            if wants:
                self._withholding.is_open = False
            await self._source.let(wants)
            if not wants:
                self._withholding.is_open = True
                self._withholding.release()

    async def close(self) -> None:
        self._withholding.release()
        await self._source.close()

    def rewritten(self, delivery: AnyDelivery) -> bytes | None:
        """The message for the queue here."""
        assert isinstance(delivery, amqp091.Delivery)
        config, content = self._config, delivery.content
        key, original = config.name.encode(), delivery.routing_key
        replaced = original if config.keeps_key and original != config.name else None
        found = self._upstream.quickly(content, "", key, 1, replaced)
        if found is not None:
            return found
        encoded, body = content_parts(content, 0, len(content))
        properties = readable_properties(encoded)
        headers = dict(properties.headers or {})
        if replaced is not None:
            headers.setdefault(FEDERATED_KEY, replaced)
        self._upstream.prepare(delivery, properties, headers)
        return build("", key, properties.encode(), body, bits=1)


async def until_lost(source: Source091, nudge: Flag, act: Callable[[], Awaitable[None]]) -> None:
    """Act at once and after each nudge, until the connection of the source is lost."""
    lost = asyncio.ensure_future(source.watch())
    lost.add_done_callback(lambda _: nudge.set())
    try:
        while not lost.done():
            nudge.clear()
            await act()
            await nudge.wait()
    finally:
        lost.cancel()


async def _has_exchange(management: amqp091.Management, name: str) -> bool:
    try:
        await management.exchange(name)
    except RequestFailed as error:
        if error.status != NOT_FOUND:
            raise
        return False
    return True

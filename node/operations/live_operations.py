"""What operators have a running node do (`node.management.operations.Operations`)."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from itertools import islice
from typing import TYPE_CHECKING, Final

from node.amqp091.stream_rules import refuse_get, refuse_purge
from node.definitions.definition_changes import UNKNOWN_COUNT
from node.events.authors import REQUESTED_BY
from node.management.operations import Got, PublishersBlocked, shown_properties
from node.operations.operator_session import OperatorSession, QueueGone
from node.operations.peeking import Peeked, Peeking
from node.operations.redriving import Order, Permit, Redriven, Redriver, Told
from node.operations.skipping import Skipping
from queues.addresses.account import Gate, blocked_text
from queues.conversion.chunks import in_form_1
from queues.definitions.broker_objects import RESERVED_PREFIX, Queue
from queues.definitions.metadata.commands import (
    Batch,
    Command,
    DeleteExchange,
    DeleteQueue,
    DeleteVhost,
)
from queues.definitions.metadata.machine import Metadata
from queues.definitions.metadata.outcomes import Outcome
from queues.machine.commands import ACCEPT
from queues.message import FORMAT_091, FORMAT_10, Chunk
from queues.routing.content import Content091
from queues.routing.copies import copies_of, without_hidden
from queues.routing.pace import NewHosts
from queues.routing.router import Route
from queues.sessions.publishing import Targets
from queues.streams.host import StreamHost
from warren.wire.amqp091.deliver import build, extract, header_frame_bytes
from warren.wire.amqp091.events import INFO_EXPIRATION, INFO_PERSISTENT, INFO_PRIORITY
from warren.wire.amqp091.properties import BasicProperties, decode_properties, readable_properties

if TYPE_CHECKING:
    from node.broker import Broker

DELETED_MAX: Final = 256  # queues or exchanges in one entry
RETIRE_S: Final = 15.0  # for a queue without a leader
PERSISTENT: Final = 2  # delivery-mode


class LiveOperations:
    """All methods run on the loop thread."""

    def __init__(self, broker: "Broker") -> None:
        self._broker = broker
        self.peeking = Peeking(broker)
        self.skipping = Skipping(broker, self.peeking)
        self._routing = asyncio.Lock()
        self._new_hosts = NewHosts(lambda uid: broker.queues.host(uid))

    @property
    def metadata(self) -> Metadata:
        return self._broker.metadata

    @property
    def broker(self) -> "Broker":
        return self._broker

    async def carry_out(self, command: Command) -> Outcome:
        """See Operations. It is done even if the caller no longer waits."""
        answered: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()

        def told(outcome: Outcome) -> None:
            if not answered.done():
                answered.set_result(outcome)

        self._broker.definitions.propose(command, told, REQUESTED_BY.get())
        outcome = await answered
        await self._broker.policies.settled()
        return outcome

    async def delete_vhost(self, name: str) -> None:
        """See Operations. What clients declare meanwhile goes with the vhost, and so do those."""
        self.close_connections(name, "", f"vhost '{name}' is deleted")
        vhost = self.metadata.vhosts[name]
        for _ in range(len(vhost.queues) // DELETED_MAX):
            oldest = islice(vhost.queues.values(), DELETED_MAX)
            some = [DeleteQueue(name, each.name, each.uid) for each in oldest]
            await self.carry_out(Batch(tuple(some)))
        own = [each for each in vhost.exchanges if each and not each.startswith(RESERVED_PREFIX)]
        for start in range(0, len(own) - DELETED_MAX, DELETED_MAX):
            part = own[start : start + DELETED_MAX]
            await self.carry_out(Batch(tuple(DeleteExchange(name, each) for each in part)))
        await self.carry_out(DeleteVhost(name))

    def close_connections(self, vhost: str, user: str, reason: str) -> int:
        chosen = [
            each
            for each in self._broker.connections.open.values()
            if vhost in ("", each.vhost) and user in ("", each.user)
        ]
        for each in chosen:
            each.close(reason)
        return len(chosen)

    # Messages

    async def purge(self, queue: Queue) -> int:
        session = self._impatient_session()
        host = self._broker.queues.host(queue.uid)
        refuse_purge(host)
        try:
            self._broker.turn.begin()
            return await session.purge(host)
        except QueueGone as error:
            raise self._broker.queues.gone_error(host) from error
        finally:
            self._end(session)

    async def reset_offset(self, queue: Queue, reference: bytes) -> bool:
        """See Operations."""
        host = self._broker.queues.host(queue.uid)
        assert isinstance(host, StreamHost)
        async with asyncio.timeout(RETIRE_S):
            if await self._stored_offset(host, reference) is None:
                return False
            self._broker.turn.begin()
            host.store_offset(reference, 0)
            await self._stored_offset(host, reference)
        return True

    async def _stored_offset(self, host: StreamHost, reference: bytes) -> int | None:
        answered: asyncio.Future[int | None] = asyncio.get_running_loop().create_future()

        def told(offset: int | None) -> None:
            if not answered.done():
                answered.set_result(offset)

        self._broker.turn.begin()
        host.query_offset(reference, told)
        return await answered

    @asynccontextmanager
    async def retired(
        self, queue: Queue, *, if_empty: bool, if_unused: bool
    ) -> AsyncIterator[tuple[int, int]]:
        """See Operations. Of a queue whose home is down the content is unknown."""
        if self._broker.queues.is_down(queue):
            yield UNKNOWN_COUNT, 0
            return
        session = OperatorSession(self._broker.identity.new_session())
        try:
            self._broker.turn.begin()
            yield await self._retire(session, queue, if_empty, if_unused)
        finally:
            self._end(session)

    async def _retire(
        self, session: OperatorSession, queue: Queue, if_empty: bool, if_unused: bool
    ) -> tuple[int, int]:
        host = self._broker.queues.host(queue.uid)
        try:
            async with asyncio.timeout(RETIRE_S):
                return await session.retire(host, if_empty, if_unused)
        except QueueGone:
            is_deleted = self._broker.metadata.queue(queue.uid) is None
            return 0 if is_deleted else UNKNOWN_COUNT, 0

    async def publish(
        self, vhost: str, exchange: str, routing_key: bytes, properties: bytes, payload: bytes
    ) -> bool:
        self._refuse_in_alarm()
        if self._broker.definitions.is_standby(vhost):
            raise PublishersBlocked(f"vhost '{vhost}' is a warm standby and is not promoted")
        data = build(exchange, routing_key, properties, payload)
        header_bytes, allowed = header_frame_bytes(data, 0), self._broker.wire_limits.frame_max
        if header_bytes > allowed:
            raise ValueError(
                f"properties and headers make a content header frame of {header_bytes} bytes; "
                f"limits.frame_max allows {allowed}"
            )
        copies = copies_of(data, 0)
        if copies.fault:
            raise ValueError(copies.fault)
        route = await self._route(vhost, exchange, routing_key, data, copies.keys)
        if not route.exchange_found:
            raise LookupError(exchange)
        if route.internal:
            text = f"cannot publish to internal exchange '{exchange}' in vhost '{vhost}'"
            raise ValueError(text)
        if copies.hidden:
            data = without_hidden(data, 0, len(data))
        hosts = [self._broker.queues.host(uid) for uid in route.queues]
        self._count_published(vhost, exchange, Targets(list(hosts)))
        user = REQUESTED_BY.get().user
        self._broker.observers.firehose.published_alone(vhost, user, data, hosts)
        if not hosts:
            return False
        offsets = bytes(4) + len(data).to_bytes(4, "little")
        chunk = Chunk(FORMAT_091, data, 0, offsets, _info(decode_properties(properties)))
        gate = self._broker.addresses.gate_of(vhost, exchange, tuple(route.queues))
        self._broker.turn.begin()
        if gate is not None:
            chunk = gate.stamped(chunk)
            if not self._admit(gate, chunk):
                return True  # The address drops it, as its policy says.
        session = self._impatient_session()
        try:
            return await session.publish(hosts, chunk, self._broker.turn)
        finally:
            self._end(session)
            if gate is not None:
                for uid in route.queues:
                    gate.decided(uid, int(chunk.bytes_between(0, 1)), 1)

    def _admit(self, gate: Gate, chunk: Chunk) -> bool:
        """Whether the addresses take the message; False: one drops it. PublishersBlocked: one has
        publishers wait, or refuses it."""
        account = gate.blocked_by()
        if account is not None:
            raise PublishersBlocked(blocked_text(account))
        kept, refused_by = gate.admit(chunk.offsets, 0, 1)
        if kept == 0 and refused_by != 0:
            raise PublishersBlocked(self._broker.addresses.refusal_text(-refused_by))
        return kept == 1

    async def _route(
        self, vhost: str, exchange: str, key: bytes, data: bytes, more_keys: tuple[bytes, ...]
    ) -> Route:
        """Route one message; if this turn has no time left, in the next one. All queues that it
        goes to have hosts then.

        Requests wait in line: one of them at least is routed in each turn.
        """
        turn = self._broker.turn
        pace = turn.routing
        async with self._routing:
            if pace.is_spent():
                turn.begin()
                await asyncio.sleep(0)  # Behind the end of this turn.
            content = Content091(data, 0)
            while True:
                router = self._broker.routers.of(vhost)
                route = pace.route_some(router, exchange, key, content, more_keys)
                pace.begin()
                if route is not None and self._new_hosts.have(route.queues, pace.lap):
                    return route
                turn.begin()
                await asyncio.sleep(0)

    def _count_published(self, vhost: str, exchange: str, targets: Targets) -> None:
        """As if a client had published it."""
        counts = self._broker.counts
        counts.received += 1
        if not targets.hosts:
            counts.unroutable += 1
        tally = counts.exchanges
        if tally is not None:
            name = exchange.encode()
            key = bytes([len(name)]) + name
            tally.count(vhost, [key], [0], 1, [len(targets.hosts)])
            if tally.pairs is not None:
                tally.pairs.count("", vhost, [key], [0], 1, [targets.names()])

    async def get(self, queue: Queue, count: int, outcome: int) -> Sequence[Got]:
        session = self._impatient_session()
        try:
            return await self._get(session, queue, count, outcome)
        finally:
            self._end(session)

    async def _get(
        self, session: OperatorSession, queue: Queue, count: int, outcome: int
    ) -> list[Got]:
        host = self._broker.queues.host(queue.uid)
        refuse_get(host)
        found: list[Got] = []
        messages: list[int] = []
        for _ in range(count):
            self._broker.turn.begin()
            message, redelivered, ready = await session.get(host)
            if message == 0 and not found and not session.is_served(host):
                raise self._broker.queues.gone_error(host)
            if message == 0:
                break
            messages.append(message)
            self._broker.counts.got += 1
            try:
                view = await session.view(host, message)
            except QueueGone:
                break
            found.append(got_message(view.chunk, view.index, redelivered, ready))
        self._broker.turn.begin()
        session.settle(host, messages[: len(found)], outcome)
        if outcome == ACCEPT:
            self._broker.counts.acknowledged += len(found)
        return found

    async def peek(
        self, queue: Queue, offset: int, count: int, payload_bytes: int
    ) -> Sequence[Peeked]:
        return await self.peeking.peek(queue, offset, count, payload_bytes)

    async def skip_unreadable(self, queue: Queue) -> Sequence[int]:
        return await self.skipping.skip(queue)

    async def redrive(
        self, queue: Queue, order: Order, permit: Permit, told: Told | None = None
    ) -> Redriven:
        if not order.is_dry:
            self._refuse_in_alarm()
        return await Redriver(self._broker, queue, order, permit, told).run()

    def _refuse_in_alarm(self) -> None:
        """PublishersBlocked: a resource alarm is set."""
        if self._broker.alarms.is_set():
            reason = self._broker.alarms.reason()
            raise PublishersBlocked(f"publishing is blocked by a resource alarm: {reason}")

    def _impatient_session(self) -> OperatorSession:
        return OperatorSession(self._broker.identity.new_session(), waits_for_leaders=False)

    def _end(self, session: OperatorSession) -> None:
        self._broker.turn.begin()
        session.end()


def _info(properties: BasicProperties) -> int:
    info = INFO_PERSISTENT if properties.delivery_mode == PERSISTENT else 0
    info |= INFO_PRIORITY if properties.priority is not None else 0
    return int(info | (INFO_EXPIRATION if properties.expiration is not None else 0))


def got_message(chunk: Chunk, index: int, redelivered: bool, ready: int) -> Got:
    """The message as the API shows it; one of AMQP 1.0 as a client of AMQP 0-9-1 would get it."""
    if chunk.format_tag == FORMAT_10:
        chunk, index = in_form_1(chunk, index, 1), 0
    data = chunk.data
    assert data is not None
    start, end = chunk.span(index)
    exchange, routing_key, properties, payload = extract(data, start, end)
    return Got(
        exchange=exchange,
        routing_key=routing_key.decode("utf-8", "replace"),
        redelivered=redelivered,
        remaining=ready,
        properties=shown_properties(readable_properties(properties)),
        payload=payload,
    )

"""Queues, exchanges and bindings over AMQP 0-9-1.

    management = await connection.management()
    await management.declare_queue("orders", arguments={"x-queue-type": "quorum"})
    await management.declare_exchange("events", "topic")
    await management.bind("events", queue="orders", key="order.#")
    print((await management.queue("orders")).message_count)

A request that the broker refuses raises RequestFailed with the reply code as its status: 404 not
there, 406 there with other properties, 405 locked by another connection, 403 not permitted. The
protocol closes the channel for that; it is opened again at once. Requests are made one after the
other. One that has not been answered when the connection is lost fails with ConnectionLost; one
made while it is lost waits for the next.
"""

import asyncio
from dataclasses import dataclass

from warren.client.amqp091.channel import ChannelHandle, ChannelHome
from warren.client.amqp091.errors import ReplyError
from warren.client.errors import ClientError, RequestFailed
from warren.wire.amqp091.client_events import Arrived
from warren.wire.amqp091.events import Settles
from warren.wire.amqp091.methods import (
    ExchangeBind,
    ExchangeBindOk,
    ExchangeDeclare,
    ExchangeDeclareOk,
    ExchangeDelete,
    ExchangeDeleteOk,
    ExchangeUnbind,
    ExchangeUnbindOk,
    Method,
    QueueBind,
    QueueBindOk,
    QueueDeclare,
    QueueDeclareOk,
    QueueDelete,
    QueueDeleteOk,
    QueuePurge,
    QueuePurgeOk,
    QueueUnbind,
    QueueUnbindOk,
)

HARD_FIRST = 500  # reply codes from here on end the connection


@dataclass(frozen=True, slots=True)
class QueueCounts:
    """What queue.declare-ok tells."""

    name: str
    message_count: int
    consumer_count: int


class Management:
    """Made by `Connection.management`."""

    def __init__(self, connection: ChannelHome) -> None:
        self.handle = ChannelHandle(connection, self, reopens=True)
        self._connection = connection
        self._turn = asyncio.Lock()

    async def close(self) -> None:
        """Close the channel."""
        await self.handle.close()

    # Queues

    async def declare_queue(
        self,
        name: str,
        *,
        durable: bool = True,
        exclusive: bool = False,
        auto_delete: bool = False,
        arguments: dict[str, object] | None = None,
    ) -> QueueCounts:
        """Declare a queue that may be there already. With the name '' the broker chooses one."""
        method = QueueDeclare(
            name,
            durable=durable,
            exclusive=exclusive,
            auto_delete=auto_delete,
            arguments=arguments or {},
        )
        return _counts(await self._ask(method, QueueDeclareOk.identity))

    async def queue(self, name: str) -> QueueCounts:
        """How many messages are ready and how many consumers there are."""
        method = QueueDeclare(name, passive=True)
        return _counts(await self._ask(method, QueueDeclareOk.identity))

    async def delete_queue(
        self, name: str, *, if_unused: bool = False, if_empty: bool = False
    ) -> int:
        """Delete the queue if it is there; how many messages went with it."""
        method = QueueDelete(name, if_unused=if_unused, if_empty=if_empty)
        answer = await self._ask(method, QueueDeleteOk.identity)
        assert isinstance(answer, QueueDeleteOk)
        return answer.message_count

    async def purge_queue(self, name: str) -> int:
        """Drop all ready messages; how many went."""
        answer = await self._ask(QueuePurge(name), QueuePurgeOk.identity)
        assert isinstance(answer, QueuePurgeOk)
        return answer.message_count

    # Exchanges and bindings

    async def declare_exchange(
        self,
        name: str,
        type_: str = "direct",
        *,
        durable: bool = True,
        auto_delete: bool = False,
        internal: bool = False,
        arguments: dict[str, object] | None = None,
    ) -> None:
        """Declare an exchange that may be there already."""
        method = ExchangeDeclare(
            name,
            type_,
            durable=durable,
            auto_delete=auto_delete,
            internal=internal,
            arguments=arguments or {},
        )
        await self._ask(method, ExchangeDeclareOk.identity)

    async def exchange(self, name: str) -> None:
        """Look whether the exchange is there. RequestFailed 404: it is not."""
        await self._ask(ExchangeDeclare(name, "", passive=True), ExchangeDeclareOk.identity)

    async def delete_exchange(self, name: str, *, if_unused: bool = False) -> None:
        """Delete the exchange if it is there."""
        await self._ask(ExchangeDelete(name, if_unused), ExchangeDeleteOk.identity)

    async def bind(
        self,
        source: str,
        *,
        queue: str | None = None,
        exchange: str | None = None,
        key: str = "",
        arguments: dict[str, object] | None = None,
    ) -> None:
        """Bind a queue or an exchange to the exchange `source`."""
        raw, more = key.encode("utf-8", "surrogateescape"), arguments or {}
        if _is_queue(queue, exchange):
            bind = QueueBind(str(queue), source, raw, arguments=more)
            await self._ask(bind, QueueBindOk.identity)
        else:
            between = ExchangeBind(str(exchange), source, raw, arguments=more)
            await self._ask(between, ExchangeBindOk.identity)

    async def unbind(
        self,
        source: str,
        *,
        queue: str | None = None,
        exchange: str | None = None,
        key: str = "",
        arguments: dict[str, object] | None = None,
    ) -> None:
        """Take the binding away if it is there."""
        raw, more = key.encode("utf-8", "surrogateescape"), arguments or {}
        if _is_queue(queue, exchange):
            unbind = QueueUnbind(str(queue), source, raw, arguments=more)
            await self._ask(unbind, QueueUnbindOk.identity)
        else:
            between = ExchangeUnbind(str(exchange), source, raw, arguments=more)
            await self._ask(between, ExchangeUnbindOk.identity)

    async def _ask(self, method: Method, answer: int) -> Method:
        """One request, when those before it are answered."""
        async with self._turn:
            await self.handle.wait_ready(self._connection.timeout_s)
            try:
                answered = await self.handle.ask(method, answer)
            except ReplyError as error:
                if error.code >= HARD_FIRST:
                    raise
                raise RequestFailed(error.code, error.description) from error
        assert isinstance(answered, Method)
        return answered

    # What the channel tells

    def on_up(self) -> None:
        self.handle.set_ready()

    def on_down(self, error: ClientError, for_good: bool) -> None:
        """Requests hear it by themselves."""

    def on_arrived(self, run: Arrived) -> None:
        """Never: nothing is consumed or published here."""

    def on_settled(self, run: Settles) -> None:
        """Never: nothing is published here."""

    def on_told(self, method: Method) -> None:
        """Never: nothing is consumed or published here."""

    def on_writable(self) -> None:
        """Nothing waits to be sent."""

    def flush(self) -> None:
        """Nothing is gathered."""


def _is_queue(queue: str | None, exchange: str | None) -> bool:
    if (queue is None) == (exchange is None):
        raise ValueError("name a queue or an exchange")
    return queue is not None


def _counts(answer: Method) -> QueueCounts:
    assert isinstance(answer, QueueDeclareOk)
    return QueueCounts(answer.queue, answer.message_count, answer.consumer_count)

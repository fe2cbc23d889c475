"""Queues, exchanges and bindings, by requests to `/management`.

    management = await connection.management()
    await management.declare_queue("orders", arguments={"x-queue-type": "quorum"})
    await management.declare_exchange("events", "topic")
    await management.bind("events", queue="orders", key="order.#")
    print((await management.queue("orders"))["message_count"])

A request that the broker refuses raises RequestFailed with its status: 404 not there, 409 there
with other properties, 403 not permitted, 400 for the rest. A request that has not been answered
when the connection is lost fails with ConnectionLost; one made while it is lost waits for the next.
"""

import asyncio
import uuid
from collections import deque
from typing import Final, cast
from urllib.parse import quote, urlencode

from warren.client.errors import ClientError, RequestFailed
from warren.client.links import LinkHandle, LinkHome, Terms
from warren.client.message import Message, try_decode
from warren.client.publisher import run_of
from warren.wire.amqp10.codec.performatives import Attach, Flow, Source, Target
from warren.wire.amqp10.codec.values import ULong
from warren.wire.amqp10.events import Settled
from warren.wire.amqp10.link import SENDER_SETTLED
from warren.wire.amqp10.transfers import Transfers, payload_at
from warren.wire.buffer import read_i32_le

ADDRESS: Final = "/management"
REPLY_CREDIT: Final = 64  # more than a broker takes requests at once
ERROR_FIRST: Final = 400


class Management:
    """Made by `Connection.management`. Requests may be made at the same time."""

    def __init__(self, connection: LinkHome) -> None:
        self._connection = connection
        name = f"management-{uuid.uuid4()}"
        self._requests = _Requests()
        self._replies = _Replies(self._requests)
        requests = LinkHandle(connection, _terms(name, False), self._requests)
        replies = LinkHandle(connection, _terms(name, True), self._replies)
        self._requests.handle, self._replies.handle = requests, replies
        self.handles = [requests, replies]

    async def close(self) -> None:
        """Detach both links."""
        for handle in self.handles:
            await handle.close(self._connection.timeout_s)

    async def request(
        self, method: str, path: str, body: object = None, *, timeout_s: float | None = None
    ) -> object:
        """Any request: the body of the answer. RequestFailed for a status of 400 and more."""
        async with asyncio.timeout(timeout_s or self._connection.timeout_s):
            status, answer = await self._requests.ask(method, path, body)
        if status >= ERROR_FIRST:
            raise RequestFailed(status, str(answer))
        return answer

    # Queues

    async def declare_queue(
        self,
        name: str,
        *,
        durable: bool = True,
        exclusive: bool = False,
        auto_delete: bool = False,
        arguments: dict[str, object] | None = None,
    ) -> dict[str, object]:
        """Declare a queue that may be there already; what `queue` gives."""
        body = {
            "durable": durable,
            "exclusive": exclusive,
            "auto_delete": auto_delete,
            "arguments": arguments or {},
        }
        return _map(await self.request("PUT", _queue(name), body))

    async def queue(self, name: str) -> dict[str, object]:
        """The queue's properties, its leader and replicas, `message_count`, `consumer_count`."""
        return _map(await self.request("GET", _queue(name)))

    async def topology(self, name: str) -> dict[str, object]:
        """Where the queue's leader and members are, with their endpoints."""
        return _map(await self.request("GET", f"{_queue(name)}/topology"))

    async def delete_queue(self, name: str) -> int:
        """Delete the queue if it is there; how many messages went with it."""
        return _count(await self.request("DELETE", _queue(name)))

    async def purge_queue(self, name: str) -> int:
        """Drop all ready messages; how many went."""
        return _count(await self.request("DELETE", f"{_queue(name)}/messages"))

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
        body = {
            "type": type_,
            "durable": durable,
            "auto_delete": auto_delete,
            "internal": internal,
            "arguments": arguments or {},
        }
        await self.request("PUT", _exchange(name), body)

    async def delete_exchange(self, name: str) -> None:
        """Delete the exchange if it is there."""
        await self.request("DELETE", _exchange(name))

    async def partitions(self, super_stream: str) -> list[str]:
        """The streams of a super stream, in their order. Of this broker only."""
        answer = await self.request("GET", f"{_exchange(super_stream)}/partitions")
        return [str(each) for each in cast(list[object], answer)]

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
        body: dict[str, object] = {
            "source": source,
            "binding_key": key,
            "arguments": arguments or {},
        }
        if queue is not None:
            body["destination_queue"] = queue
        if exchange is not None:
            body["destination_exchange"] = exchange
        await self.request("POST", "/bindings", body)

    async def bindings(
        self, source: str, *, queue: str | None = None, exchange: str | None = None, key: str = ""
    ) -> list[dict[str, object]]:
        """The bindings between these two with this key; they differ in their arguments."""
        fields = {"src": source, "key": key}
        fields |= {"dstq": queue} if queue is not None else {"dste": exchange or ""}
        answer = await self.request("GET", f"/bindings?{urlencode(fields, quote_via=quote)}")
        return [_map(each) for each in cast(list[object], answer)]

    async def unbind(
        self,
        source: str,
        *,
        queue: str | None = None,
        exchange: str | None = None,
        key: str = "",
        arguments: dict[str, object] | None = None,
    ) -> None:
        """Take away the binding with these arguments, if there is one."""
        found = await self.bindings(source, queue=queue, exchange=exchange, key=key)
        for each in found:
            if each["arguments"] == (arguments or {}):
                await self.request("DELETE", str(each["location"]))

    async def nodes(self) -> list[dict[str, object]]:
        """The nodes of the cluster, with their listeners. Of this broker only."""
        return [_map(each) for each in cast(list[object], await self.request("GET", "/nodes"))]


class _Requests:
    """The link that requests go out on. Those without credit wait."""

    def __init__(self) -> None:
        self.handle: LinkHandle
        self._number = 0
        self._waiting: deque[tuple[int, bytes]] = deque()
        self._asked: dict[int, asyncio.Future[tuple[int, object]]] = {}

    def ask(self, method: str, path: str, body: object) -> "asyncio.Future[tuple[int, object]]":
        """Send a request, now or when there is credit; the future has status and body."""
        self.handle.check()
        self._number += 1
        message = Message(
            None,
            durable=False,
            message_id=ULong(self._number),
            to=path,
            subject=method,
            reply_to="$me",
        )
        message.body = body
        future: asyncio.Future[tuple[int, object]] = asyncio.get_running_loop().create_future()
        self._asked[self._number] = future
        self._waiting.append((self._number, message.encode()))
        self._pump()
        return future

    def answered(self, message: Message) -> None:
        """A reply has come."""
        future = self._asked.pop(cast(int, message.correlation_id), None)
        if future is not None and not future.done():
            future.set_result((int(message.subject or 0), message.body))

    def fail(self, error: ClientError) -> None:
        """None of the requests is answered any more."""
        asked, self._asked = self._asked, {}
        self._waiting.clear()
        for future in asked.values():
            if not future.done():
                future.set_exception(error)

    def _pump(self) -> None:
        link, session = self.handle.link, self.handle.session
        if link is None or link.sender is None or session is None or not self.handle.is_up:
            return
        while self._waiting and link.sender.credit > link.sender.waiting:
            number, payload = self._waiting.popleft()
            if self._asked[number].done():
                del self._asked[number]  # Given up before it was sent: so it is not.
            else:
                session.offer(link, run_of([payload], True))
        self.handle.connection.mark()

    def on_up(self, attach: Attach) -> None:
        self._pump()

    def on_flow(self, flow: Flow) -> None:
        self._pump()

    def on_down(self, error: ClientError, for_good: bool) -> None:
        self.fail(error)

    def on_withdrawn(self, count: int) -> None:
        """The broker never takes this credit back; what it would drop times out."""

    def on_sent(self, delivery_id: int, count: int) -> None:
        """Nothing is kept of a request that has left."""

    def on_settled(self, event: Settled) -> None:
        """Requests are settled when they are sent."""

    def on_received(self, run: Transfers) -> None:
        raise AssertionError("a sender received")


class _Replies:
    """The link on which replies come."""

    def __init__(self, requests: _Requests) -> None:
        self.handle: LinkHandle
        self._requests = requests

    def on_up(self, attach: Attach) -> None:
        self._grant()

    def on_received(self, run: Transfers) -> None:
        for place in range(int(run.count)):
            start = int(read_i32_le(run.offsets, 4 * place))
            end = int(read_i32_le(run.offsets, 4 * place + 4))
            self._requests.answered(try_decode(run.data, int(payload_at(run.data, start)), end))
        self._grant()

    def _grant(self) -> None:
        link, session = self.handle.link, self.handle.session
        if link is None or link.receiver is None or session is None:
            return
        link.receiver.unconfirmed = 0
        if link.receiver.credit * 2 <= REPLY_CREDIT:
            session.grant(link, REPLY_CREDIT)
            self.handle.connection.mark()

    def on_down(self, error: ClientError, for_good: bool) -> None:
        self._requests.fail(error)

    def on_flow(self, flow: Flow) -> None:
        """Nothing that a reply would need."""

    def on_settled(self, event: Settled) -> None:
        """Replies come settled."""

    def on_sent(self, delivery_id: int, count: int) -> None:
        raise AssertionError("a receiver sent")

    def on_withdrawn(self, count: int) -> None:
        raise AssertionError("a receiver sent")


def _terms(name: str, as_receiver: bool) -> Terms:
    return Terms(
        name=name,
        as_receiver=as_receiver,
        source=Source(address=ADDRESS),
        target=Target(address=ADDRESS),
        snd_settle_mode=SENDER_SETTLED,
        properties={"paired": True},
    )


def _queue(name: str) -> str:
    return f"/queues/{quote(name, safe='')}"


def _exchange(name: str) -> str:
    return f"/exchanges/{quote(name, safe='')}"


def _map(answer: object) -> dict[str, object]:
    return cast(dict[str, object], answer)


def _count(answer: object) -> int:
    return int(cast(int, _map(answer)["message_count"]))

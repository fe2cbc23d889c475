"""A small broker of AMQP 0-9-1 on the server's core, behind an in-memory pipe instead of a socket.

Queues are reached by any exchange, with their names as keys; by the exchange `picky` only if the
message has headers. What is asked wrongly is refused as a broker would.
"""

import asyncio
import time
from collections import deque
from typing import Any, Final, Protocol

from warren.client.sockets import Socket
from warren.wire.amqp091.connection import Connection as Core
from warren.wire.amqp091.connection import Limits
from warren.wire.amqp091.deliver import build, extract, write_ack, write_nack
from warren.wire.amqp091.events import (
    ACK,
    Called,
    Ended,
    Event,
    LoginRequested,
    OpenRequested,
    Publishes,
    Settles,
)
from warren.wire.amqp091.methods import (
    BasicCancel,
    BasicCancelOk,
    BasicConsume,
    BasicConsumeOk,
    BasicDeliver,
    BasicGet,
    BasicGetEmpty,
    BasicGetOk,
    BasicQos,
    BasicQosOk,
    BasicReturn,
    ChannelClose,
    ChannelCloseOk,
    ChannelFlow,
    ChannelOpen,
    ChannelOpenOk,
    ConfirmSelect,
    ConfirmSelectOk,
    ConnectionBlocked,
    ConnectionUnblocked,
    ExchangeBind,
    ExchangeBindOk,
    Method,
    QueueDeclare,
    QueueDeclareOk,
    QueueDelete,
    QueueDeleteOk,
    QueuePurge,
    QueuePurgeOk,
)
from warren.wire.buffer import read_i32_le
from warren.wire.errors import ProtocolError, ReplyCode

HEADERS: Final = 0x20  # bit of the first octet of the properties


class Receiver(Protocol):
    """The broker's end of a pipe."""

    def receive(self, data: bytes) -> None: ...


class Pipe(asyncio.Transport):
    """The client's end: what it writes reaches the broker in the next turn of the loop."""

    def __init__(self, socket: Socket, peer: Receiver) -> None:
        super().__init__()
        self._socket = socket
        self._peer = peer
        self._loop = asyncio.get_running_loop()
        self._closed = False
        self.is_paused = False
        self._held: list[bytes] = []
        self.written: list[bytes] = []

    def write(self, data: Any) -> None:
        self.written.append(bytes(data))
        self._loop.call_soon(self._peer.receive, bytes(data))

    def close(self) -> None:
        if not self._closed:
            self._closed = True
            self._loop.call_soon(self._socket.connection_lost, None)

    def abort(self) -> None:
        self.close()

    def fill(self) -> None:
        """The broker reads no more, and the socket takes nothing."""
        self._socket.pause_writing()

    def drain(self) -> None:
        self._socket.resume_writing()

    def pause_reading(self) -> None:
        self.is_paused = True

    def resume_reading(self) -> None:
        self.is_paused = False
        held, self._held = self._held, []
        for data in held:
            self.deliver(data)

    def deliver(self, data: bytes) -> None:
        if self.is_paused:
            self._held.append(data)
        elif not self._closed:
            self._loop.call_soon(self._socket.data_received, data)


class Channel:
    """What the broker knows of one channel."""

    def __init__(self) -> None:
        self.published = 0
        self.confirms = False
        self.prefetch = 0
        self.consumer: BasicConsume | None = None
        self.tag = 0
        self.unacked: dict[int, tuple[str, bytes]] = {}  # queue and message


class Peer:
    """The broker's end of one connection."""

    def __init__(self, server: "Server", socket: Socket) -> None:
        self.server = server
        self.core = Core(server.limits, {"product": "pipe"}, "PLAIN", 0)
        self.pipe = Pipe(socket, self)
        self.channels: dict[int, Channel] = {}
        self._greeted = b""
        socket.connection_made(self.pipe)

    def receive(self, data: bytes) -> None:
        if len(self._greeted) < 8:
            greeting = self._greeted + data
            self._greeted, data = greeting[:8], greeting[8:]
            if len(self._greeted) == 8:
                self.core.start()
        if data:
            events = self.core.receive(data, int(time.monotonic() * 1000))
            while events:
                for event in events:
                    self._handle(event)
                events = self.core.receive(b"", int(time.monotonic() * 1000))
        self.flush()

    def flush(self) -> None:
        output = self.core.data_to_send()
        if output:
            self.pipe.deliver(output)

    def _handle(self, event: Event) -> None:
        match event:
            case LoginRequested():
                self.server.properties.append(event.client_properties)
                if not self.server.answers_logins:
                    return
                if event.response == b"\0guest\0guest":
                    self.core.accept_login()
                else:
                    self.core.refuse_login()
            case OpenRequested():
                self.server.opened.append(event.vhost)
                self.core.accept_open()
            case Publishes():
                self._publish(event)
            case Settles():
                self._settle(event)
            case Called():
                self._call(event.channel, event.method)
            case Ended():
                self.pipe.close()

    def _publish(self, run: Publishes) -> None:
        channel = self.channels[run.channel]
        for place in range(run.count):
            start = read_i32_le(run.offsets, 4 * place)
            end = read_i32_le(run.offsets, 4 * place + 4)
            message = run.data[start:end]
            exchange, key, properties, _ = extract(message, 0, len(message))
            channel.published += 1
            queue = self.server.queues.get(key.decode())
            if exchange == "picky" and not properties[0] & HEADERS:
                queue = None
            if queue is not None:
                queue.append(build(*extract(message, 0, len(message))))
            elif message[14 + len(exchange) + 1 + len(key)] & 1:  # mandatory
                back = BasicReturn(312, "NO_ROUTE", exchange, key)
                self.core.send_content(run.channel, back, message, 0, len(message))
        if channel.confirms and self.server.answers:
            self.confirm(run.channel)
        self.feed()

    def confirm(self, number: int) -> None:
        """Confirm, or refuse, all that was published on the channel."""
        write = write_nack if self.server.refuses else write_ack
        write(self.core.writer, number, self.channels[number].published, True)

    def _settle(self, event: Settles) -> None:
        channel = self.channels[event.channel]
        if event.last not in channel.unacked:
            error = ProtocolError(ReplyCode.PRECONDITION_FAILED, f"unknown tag {event.last}")
            self.core.close_channel(event.channel, error)
            return
        first = min(channel.unacked, default=1) if event.multiple else event.first
        for tag in range(first, event.last + 1):
            found = channel.unacked.pop(tag, None)
            if found is None:
                continue
            self.server.settled.append((event.kind, tag, event.multiple))
            if event.kind != ACK and event.requeue:
                self.server.queues[found[0]].appendleft(found[1])
        self.feed()

    def _call(self, number: int, method: Method) -> None:
        send = self.core.send
        match method:
            case ChannelOpen():
                self.channels[number] = Channel()
                send(number, ChannelOpenOk())
            case ChannelClose():
                self.forget(number)
                send(number, ChannelCloseOk())
            case ConfirmSelect():
                self.channels[number].confirms = True
                send(number, ConfirmSelectOk())
            case BasicQos():
                self.channels[number].prefetch = method.prefetch_count
                send(number, BasicQosOk())
            case BasicConsume():
                self._consume(number, method)
            case BasicCancel():
                self.channels[number].consumer = None
                send(number, BasicCancelOk(method.consumer_tag))
            case BasicGet():
                self._get(number, method)
            case _:
                self._call_queues(number, method)

    def _call_queues(self, number: int, method: Method) -> None:
        queues, send = self.server.queues, self.core.send
        match method:
            case QueueDeclare():
                if method.passive and not self._there(number, method.queue):
                    return
                count = len(queues.setdefault(method.queue, deque()))
                send(number, QueueDeclareOk(method.queue, count, 0))
            case QueuePurge():
                if self._there(number, method.queue):
                    send(number, QueuePurgeOk(len(queues[method.queue])))
                    queues[method.queue].clear()
            case QueueDelete():
                send(number, QueueDeleteOk(len(queues.pop(method.queue, ()))))
                self._cancel_consumers(method.queue)
            case ExchangeBind():
                send(number, ExchangeBindOk())
            case _:
                raise AssertionError(f"the pipe knows no {method.name}")

    def _there(self, number: int, queue: str) -> bool:
        if queue in self.server.queues:
            return True
        error = ProtocolError(ReplyCode.NOT_FOUND, f"no queue '{queue}' in vhost '/'")
        self.core.close_channel(number, error)
        self.forget(number)
        return False

    def _consume(self, number: int, method: BasicConsume) -> None:
        if not self._there(number, method.queue):
            return
        channel = self.channels[number]
        if channel.consumer is not None:
            error = ProtocolError(ReplyCode.NOT_ALLOWED, "attempt to reuse consumer tag")
            self.core.fail(error)
            return
        channel.consumer = method
        self.core.send(number, BasicConsumeOk(method.consumer_tag))
        self.feed()

    def _get(self, number: int, method: BasicGet) -> None:
        queue = self.server.queues[method.queue]
        if not queue:
            self.core.send(number, BasicGetEmpty())
            return
        channel, message = self.channels[number], queue.popleft()
        channel.tag += 1
        channel.unacked[channel.tag] = (method.queue, message)
        answer = BasicGetOk(channel.tag, False, "", method.queue.encode(), len(queue))
        self.core.send_content(number, answer, message, 0, len(message))

    def _cancel_consumers(self, queue: str) -> None:
        for number, channel in self.channels.items():
            if channel.consumer is not None and channel.consumer.queue == queue:
                channel.consumer = None
                self.core.send(number, BasicCancel(queue, False))

    def forget(self, number: int) -> None:
        channel = self.channels.pop(number, None)
        if channel is not None:
            for queue, message in reversed(channel.unacked.values()):
                self.server.queues[queue].appendleft(message)

    def feed(self) -> None:
        """Deliver what consumers may have."""
        for number, channel in self.channels.items():
            consumer = channel.consumer
            queue = self.server.queues.get(consumer.queue) if consumer is not None else None
            while consumer is not None and queue:
                full = channel.prefetch and len(channel.unacked) >= channel.prefetch
                if full and not consumer.no_ack:
                    break
                message = queue.popleft()
                channel.tag += 1
                if not consumer.no_ack:
                    channel.unacked[channel.tag] = (consumer.queue, message)
                key = consumer.queue.encode()
                deliver = BasicDeliver(consumer.consumer_tag, channel.tag, False, "", key)
                self.core.send_content(number, deliver, message, 0, len(message))

    def block(self, reason: str | None) -> None:
        """connection.blocked, or unblocked."""
        self.core.send(0, ConnectionUnblocked() if reason is None else ConnectionBlocked(reason))
        self.flush()

    def set_flow(self, number: int, active: bool) -> None:
        self.core.send(number, ChannelFlow(active))
        self.flush()


class Server:
    """Any number of connections, one after the other; `reachable` False refuses new ones."""

    def __init__(self, **limits: int) -> None:
        self.limits = Limits(**limits)
        self.queues: dict[str, deque[bytes]] = {}
        self.opened: list[str] = []
        self.properties: list[dict[str, object]] = []
        self.settled: list[tuple[int, int, bool]] = []  # kind, tag, multiple
        self.answers = True
        self.refuses = False
        self.answers_logins = True
        self.reachable = True
        self.peers: list[Peer] = []

    async def dial(self, socket: Socket) -> None:
        if not self.reachable:
            raise ConnectionRefusedError("no listener")
        self.peers.append(Peer(self, socket))

    @property
    def peer(self) -> Peer:
        return self.peers[-1]

    def cut(self) -> None:
        """The connection is gone without a word; what was not settled is back in its queue."""
        peer = self.peer
        for number in list(peer.channels):
            peer.forget(number)
        peer.pipe.close()

    def put(self, queue: str, *bodies: bytes) -> None:
        """Messages appear in a queue, and go to who waits for them."""
        there = self.queues.setdefault(queue, deque())
        there.extend(build("", queue.encode(), b"\x00\x00", body) for body in bodies)
        if self.peers:
            self.peer.feed()
            self.peer.flush()

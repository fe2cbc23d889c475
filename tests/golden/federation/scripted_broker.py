"""A broker of AMQP 0-9-1 behind in-memory pipes that tells what links and shovels ask of it.

It takes in every definition, delivers what a story puts into its queues, and confirms what was
published when the story says so.
"""

from collections import deque
from itertools import groupby
from typing import Final

from queues.hosts.message_digests import DUPLICATE_IDS
from queues.routing.federation_upstream import RECEIVED_FROM, entries
from tests.unit.client.pipe091 import Pipe
from warren.client.sockets import Socket
from warren.wire.amqp091.connection import Connection, Limits
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
    BasicQos,
    BasicQosOk,
    BasicReturn,
    ChannelClose,
    ChannelCloseOk,
    ChannelOpen,
    ChannelOpenOk,
    ConfirmSelect,
    ConfirmSelectOk,
    ConnectionBlocked,
    ConnectionUnblocked,
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
)
from warren.wire.amqp091.properties import BasicProperties, decode_properties
from warren.wire.buffer import read_i32_le
from warren.wire.errors import ProtocolError, ReplyCode

SHOVELLED: Final = "x-shovelled"
Message = tuple[int, bool, tuple[str, ...]]  # number, redelivered, clusters where it has been


class Channel:
    """One channel, with what is unacknowledged on it."""

    def __init__(self) -> None:
        self.consumer: BasicConsume | None = None
        self.prefetch = 0
        self.tag = 0
        self.unacked: dict[int, Message] = {}
        self.published = 0
        self.confirmed = 0
        self.held: list[bytes] = []  # published and not confirmed


class Peer:
    """The broker's end of one connection."""

    def __init__(self, broker: "ScriptedBroker", socket: Socket) -> None:
        self.broker = broker
        properties: dict[str, object] = {
            "cluster_name": broker.name,
            "cluster_id": f"id of {broker.name}",
        }
        self.core = Connection(Limits(), properties, "PLAIN", 0)
        self.channels: dict[int, Channel] = {}
        self.pipe = Pipe(socket, self)
        self.is_deaf = False  # to acknowledgements
        self._greeted = b""
        socket.connection_made(self.pipe)

    def receive(self, data: bytes) -> None:
        if len(self._greeted) < 8:
            greeting = self._greeted + data
            self._greeted, data = greeting[:8], greeting[8:]
            self.core.start()
        if self in self.broker.peers:
            events = self.core.receive(data, 0) if data else []
            while events:
                for event in events:
                    self._handle(event)
                events = self.core.receive(b"", 0)
            self.flush()

    def flush(self) -> None:
        output = self.core.data_to_send()
        if output:
            self.pipe.deliver(output)

    def _handle(self, event: Event) -> None:
        match event:
            case LoginRequested() if self.broker.is_locked:
                self.broker.tell("refuses a login")
                self.core.refuse_login()
            case LoginRequested():
                self.core.accept_login()
            case OpenRequested():
                self.core.accept_open()
                self.broker.tell("connected")
            case Publishes():
                self._publish(event)
            case Settles():
                self._settle(event)
            case Called():
                self._call(event.channel, event.method)
            case Ended():
                self.broker.forget(self)
                self.pipe.close()

    def _publish(self, run: Publishes) -> None:
        channel = self.channels[run.channel]
        channel.published += run.count
        for place in range(run.count):
            start, end = (read_i32_le(run.offsets, 4 * (place + each)) for each in (0, 1))
            message = run.data[start:end]
            exchange, key, encoded, body = extract(message, 0, len(message))
            channel.held.append(message)
            where = f"exchange '{exchange}', key '{key.decode()}'" if exchange else key.decode()
            how = f" to {where}{noted(decode_properties(encoded))}"
            self.broker.tell("publish", body.decode(), how)

    def _settle(self, event: Settles) -> None:
        if self.is_deaf:
            return
        channel = self.channels[event.channel]
        kind = "ack" if event.kind == ACK else "nack"
        first = min(channel.unacked, default=1) if event.multiple else event.first
        for tag in range(first, event.last + 1):
            number = channel.unacked.pop(tag)[0]
            self.broker.tell(kind, str(number))
        self.broker.feed()

    def _call(self, number: int, method: Method) -> None:
        send = self.core.send
        match method:
            case ChannelOpen():
                self.channels[number] = Channel()
                send(number, ChannelOpenOk())
            case ChannelClose():
                self.broker.give_back(self.channels.pop(number))
                send(number, ChannelCloseOk())
            case ConfirmSelect():
                send(number, ConfirmSelectOk())
            case BasicQos():
                self.channels[number].prefetch = method.prefetch_count
                send(number, BasicQosOk())
            case BasicConsume():
                self.channels[number].consumer = method
                prefetch = (
                    "no-ack" if method.no_ack else f"prefetch {self.channels[number].prefetch}"
                )
                self.broker.tell(f"consume '{method.queue}' {prefetch}{shown(method.arguments)}")
                send(number, BasicConsumeOk(method.consumer_tag))
                self.broker.feed()
            case BasicCancel():
                self.channels[number].consumer = None
                self.broker.tell("cancel the consumer")
                send(number, BasicCancelOk(method.consumer_tag))
            case _:
                self._define(number, method)

    def _define(self, number: int, method: Method) -> None:
        broker, send = self.broker, self.core.send
        match method:
            case QueueDeclare():
                if method.passive and method.queue not in broker.queues:
                    self._refuse(number, f"no queue '{method.queue}' in vhost '/'")
                    return
                if not method.passive:
                    broker.tell(f"declare queue '{method.queue}'{shown(method.arguments)}")
                ready = broker.queues.setdefault(method.queue, deque())
                send(number, QueueDeclareOk(method.queue, len(ready), 0))
            case ExchangeDeclare():
                if method.passive and method.exchange not in broker.exchanges:
                    self._refuse(number, f"no exchange '{method.exchange}' in vhost '/'")
                    return
                if method.type in broker.unknown_types:
                    text = f"unknown exchange type '{method.type}'"
                    self.core.fail(ProtocolError(ReplyCode.COMMAND_INVALID, text))
                    return
                if not method.passive:
                    broker.exchanges.add(method.exchange)
                    broker.tell(f"declare {method.type} '{method.exchange}'")
                send(number, ExchangeDeclareOk())
            case ExchangeDelete():
                if method.exchange in broker.exchanges:
                    broker.exchanges.remove(method.exchange)
                    broker.tell(f"delete exchange '{method.exchange}'")
                send(number, ExchangeDeleteOk())
            case QueueDelete():
                broker.tell(f"delete queue '{method.queue}'")
                send(number, QueueDeleteOk(len(broker.queues.pop(method.queue, ()))))
            case ExchangeBind() | ExchangeUnbind():
                is_bound = isinstance(method, ExchangeBind)
                key, word = method.routing_key.decode(), "bind" if is_bound else "unbind"
                hops = " < ".join(
                    f"{each['cluster-name']} hops {each['hops']}"
                    for each in entries(method.arguments.get("x-bound-from"))
                )
                ends = f"'{method.source}' to '{method.destination}'"
                broker.tell(f"{word} {ends} by '{key}' from {hops}")
                send(number, ExchangeBindOk() if is_bound else ExchangeUnbindOk())
            case QueueBind():
                broker.tell(f"bind '{method.exchange}' to queue '{method.queue}'")
                send(number, QueueBindOk())
            case _:
                raise AssertionError(f"the scripted broker knows no {method.name}")

    def _refuse(self, number: int, text: str) -> None:
        self.core.close_channel(number, ProtocolError(ReplyCode.NOT_FOUND, text))
        self.channels.pop(number)

    def answer(self, count: int, is_taken: bool) -> int:
        """Confirm or refuse so many of what was published; how many are left to answer."""
        for number, channel in self.channels.items():
            taken = min(count, len(channel.held))
            if taken:
                count -= taken
                channel.confirmed += taken
                channel.held = channel.held[taken:]
                write = write_ack if is_taken else write_nack
                write(self.core.writer, number, channel.confirmed, True)
        self.flush()
        return count

    def return_all(self) -> None:
        """No queue takes what was published: basic.return, then the confirm."""
        for number, channel in self.channels.items():
            for message in channel.held:
                exchange, key, _, _ = extract(message, 0, len(message))
                back = BasicReturn(312, "NO_ROUTE", exchange, key)
                self.core.send_content(number, back, message, 0, len(message))
        self.answer(1 << 30, True)

    def block(self, is_blocked: bool) -> None:
        self.core.send(
            0, ConnectionBlocked("low on memory") if is_blocked else ConnectionUnblocked()
        )
        self.flush()


def shown(arguments: dict[str, object]) -> str:
    return f" {arguments}" if arguments else ""


def noted(properties: BasicProperties) -> str:
    """What a link or shovel notes in a message's headers; `*`: it was redelivered there."""
    headers = properties.headers or {}
    hops = [
        f"{each['cluster-name']}{'*' * bool(each['redelivered'])}"
        for each in entries(headers.get(RECEIVED_FROM))
    ]
    found = f", received from {' < '.join(hops)}" if hops else ""
    by = [str(each["shovel-name"]) for each in entries(headers.get(SHOVELLED))]
    found += f", shovelled by {' < '.join(by)}" if by else ""
    marked = headers.get(DUPLICATE_IDS[0])
    return found + (f", id {marked}" if marked else "")


class Story:
    """What the brokers of a story saw, in order."""

    def __init__(self) -> None:
        self._seen: list[tuple[str, str, str]] = []  # what was done, with which message, and how

    def tell(self, done: str, number: str = "", how: str = "") -> None:
        self._seen.append((done, number, how))

    def take(self) -> list[str]:
        """All lines; messages that were treated alike, one after the other, share one."""
        seen, self._seen = self._seen, []
        found: list[str] = []
        for (done, how), alike in groupby(seen, lambda each: (each[0], each[2])):
            numbers = [number for _, number, _ in alike]
            found += [f"{done} {' '.join(numbers)}{how}"] if numbers[0] else [done] * len(numbers)
        return found


class ScriptedBroker:
    """Invariant: a message is in one queue, or unacknowledged on one channel."""

    def __init__(self, name: str, story: Story) -> None:
        self.name = name
        self.exchanges: set[str] = set()
        self.queues: dict[str, deque[Message]] = {}
        self.unknown_types: set[str] = set()
        self.is_reachable = True
        self.is_locked = False  # refuses logins
        self.peers: list[Peer] = []
        self._story = story

    async def dial(self, socket: Socket) -> None:
        if not self.is_reachable:
            self.tell("refuses a connection")
            raise ConnectionRefusedError("no listener")
        self.peers.append(Peer(self, socket))

    def tell(self, done: str, number: str = "", how: str = "") -> None:
        self._story.tell(f"{self.name}: {done}", number, how)

    def put(self, queue: str, messages: list[Message]) -> None:
        self.queues.setdefault(queue, deque()).extend(messages)
        self.feed()

    def feed(self) -> None:
        """Deliver what consumers may have."""
        for peer in self.peers:
            for number, channel in peer.channels.items():
                self._feed(peer, number, channel)
            peer.flush()

    def _feed(self, peer: Peer, number: int, channel: Channel) -> None:
        consumer = channel.consumer
        queue = self.queues.get(consumer.queue) if consumer is not None else None
        while consumer is not None and queue and len(channel.unacked) < channel.prefetch:
            message = queue.popleft()
            channel.tag += 1
            if not consumer.no_ack:
                channel.unacked[channel.tag] = message
            count, redelivered, hops = message
            earlier = [{"cluster-name": each, "vhost": "/", "redelivered": False} for each in hops]
            headers: dict[str, object] | None = {RECEIVED_FROM: earlier} if earlier else None
            encoded = BasicProperties(headers=headers, message_id=f"m{count}").encode()
            content = build("", b"k", encoded, b"%d" % count)
            deliver = BasicDeliver(consumer.consumer_tag, channel.tag, redelivered, "x", b"k")
            peer.core.send_content(number, deliver, content, 0, len(content))

    def give_back(self, channel: Channel) -> None:
        """What is unacknowledged goes back to its queue and is redelivered."""
        if channel.consumer is not None:
            again = [(number, True, hops) for number, _, hops in channel.unacked.values()]
            self.queues[channel.consumer.queue].extendleft(reversed(again))

    def forget(self, peer: Peer) -> None:
        if peer in self.peers:
            self.peers.remove(peer)
            self.tell("disconnected")
            for channel in peer.channels.values():
                self.give_back(channel)

    def cut(self) -> None:
        """All connections are lost without a word."""
        for peer in list(self.peers):
            self.forget(peer)
            peer.pipe.close()

    def answer(self, count: int, is_taken: bool) -> None:
        for peer in self.peers:
            count = peer.answer(count, is_taken)

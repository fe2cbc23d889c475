"""Direct reply-to: answers go straight to the channel that asked, past all queues.

A channel that consumes from `amq.rabbitmq.reply-to` gets a pseudo-queue of its own, here an
`AnswerHost`, whose name cannot be guessed. Requests carry that name in place of the common one; who
publishes to it through the default exchange delivers to that channel, from any connection to the
vhost; in a cluster it ends in the id of its node, which is found by that. The name dies with the
consumer. Answers are transient and at most once: what waits for a client that does not read is
bounded, and beyond that is dropped and counted.

`DirectReplies` owns the names in use, a host its waiting answers. As any host, it answers later in
the turn (`flush`), never while it is called.
"""

import base64
import binascii
import logging
import os
from collections import deque
from collections.abc import Callable
from typing import Final, Protocol

from mypy_extensions import i64

from queues.machine.commands import Attach, Command, Detach, EndSession, Inspect, SessionId, Settle
from queues.message import Chunk
from queues.queue_host import QueueHost, SessionSink, View
from queues.sessions.publishing import Targets
from warren.wire.amqp091.events import INFO_REPLY_TO, Publishes
from warren.wire.amqp091.properties import reply_to_of
from warren.wire.amqp091.rewrite import rewrite
from warren.wire.buffer import BytesWriter, read_i32_le, write_i32_le

log = logging.getLogger("warren.reply_to")

REPLY_TO: Final = "amq.rabbitmq.reply-to"
REPLY_TO_BYTES: Final = REPLY_TO.encode()
PREFIX: Final = REPLY_TO + "."
PREFIX_BYTES: Final = PREFIX.encode()
ANSWERS_FROM: Final = 1 << 62  # uids of pseudo-queues: no queue has so high a one
TOKEN_BYTES: Final = 16
MEMBER_DIGITS_MAX: Final = 9
WAITING_BYTES_MAX: Final = 16 * 1024 * 1024  # of answers, for one consumer
NUMBER_MASK: Final = 0xFFFFFFFF  # of a consumer key


def is_answer(exchange: str, routing_key: bytes) -> bool:
    """Whether a publish goes to a pseudo-queue, if there is one of that name."""
    return exchange == "" and routing_key.startswith(PREFIX_BYTES)


# (member, uid, vhost, name): the pseudo-queue of another node; None: that node is not to be had.
FindElsewhere = Callable[[int, int, str, str], QueueHost | None]


class Flushable(Protocol):
    def flush(self) -> None: ...


class AnswerHost:
    """The pseudo-queue of one consumer of answers (`queues.queue_host.QueueHost`).

    Invariant: `_stored` is what the consumer received and has not settled, in order.
    """

    def __init__(self, owner: "DirectReplies", uid: int, vhost: str, name: str) -> None:
        self._owner = owner
        self._uid = uid
        self._vhost = vhost
        self._name = name
        self.targets = Targets([self])
        self.dropped_count = 0
        self._alive = True
        self._marked = False
        self._consumer: SessionSink | None = None
        self._number = 0  # the consumer's, in its session
        self._next = 1  # number of the next answer
        self._handed: list[tuple[SessionSink, Chunk, int]] = []  # since the last flush
        self._replies: list[Attach | Detach] = []  # to be answered
        self._asked: list[SessionSink] = []  # whether a consumer waits here
        self._publishers: dict[SessionId, SessionSink] = {}
        self._stored: deque[tuple[int, Chunk]] = deque()  # number of its first answer, answers
        self._waiting_bytes = 0

    @property
    def uid(self) -> int:
        return self._uid

    @property
    def vhost(self) -> str:
        return self._vhost

    @property
    def name(self) -> str:
        return self._name

    @property
    def quorum(self) -> bool:
        return False

    @property
    def single_active(self) -> bool:
        return False

    @property
    def ready_count(self) -> int:
        return 0

    @property
    def checked_out_count(self) -> int:
        return sum(chunk.count() for _, chunk in self._stored)

    @property
    def consumer_count(self) -> int:
        return int(self._alive)

    def publish(self, sink: SessionSink, chunk: Chunk, first_seq: i64) -> None:
        """Answers for the consumer."""
        self._publishers[sink.session] = sink
        self._handed.append((sink, chunk, int(first_seq)))
        self._mark()

    def command(self, sink: SessionSink, command: Command) -> None:
        """The consumer comes and goes; a publisher goes. Credit is nothing to answers."""
        if isinstance(command, Settle):
            for first, count in command.runs:
                self._release(first + count)
        elif isinstance(command, Attach):
            self._consumer = sink
            self._number = command.key & NUMBER_MASK
            self._replies.append(command)
            self._mark()
        elif isinstance(command, Inspect):
            self._asked.append(sink)
            self._mark()
        elif isinstance(command, Detach):
            self._replies.append(command)
            self._die()
        elif isinstance(command, EndSession):
            self._publishers.pop(command.session, None)
            if self._consumer is not None and self._consumer.session == command.session:
                self._consumer = None
                self._die()

    def view(self, sink: SessionSink, first: i64, count: i64) -> View | None:
        """The head of these answers."""
        for begin, chunk in self._stored:
            if begin <= first < begin + chunk.count():
                index = int(first) - begin
                return View(chunk, index, int(first), min(int(count), chunk.count() - index))
        raise AssertionError("answers without an owner")

    def _release(self, upto: int) -> None:
        """Answers before number `upto` are settled, in the order in which they were delivered."""
        while self._stored and self._stored[0][0] + self._stored[0][1].count() <= upto:
            self._waiting_bytes -= self._stored.popleft()[1].size()

    def _die(self) -> None:
        """The name is free from now on."""
        self._alive = False
        self._stored.clear()
        self._waiting_bytes = 0
        self._owner.forget(self)
        self._mark()

    def _mark(self) -> None:
        if not self._marked:
            self._marked = True
            self._owner.mark(self)

    def flush(self) -> None:
        """Answer what was asked, deliver and confirm; once dead, say so to all who published."""
        self._marked = False
        consumer = self._consumer
        handed, self._handed = self._handed, []
        asked, self._asked = self._asked, []
        replies, self._replies = self._replies, []
        for reply in replies:
            if consumer is not None and isinstance(reply, Attach):
                consumer.on_attached(self._uid, self._number)
        for sink in asked:
            sink.on_inspected(self._uid, 0, 1)
        for sink, chunk, first_seq in handed:
            self._deliver(chunk)
            sink.on_confirms(self._uid, first_seq + chunk.count() - 1)
        for reply in replies:
            if consumer is not None and isinstance(reply, Detach):
                consumer.on_detached(self._uid, self._number, False)
        if not self._alive:
            self._say_gone()

    def _deliver(self, chunk: Chunk) -> None:
        size = chunk.size()
        if self._consumer is None or not self._alive:
            return
        if self._waiting_bytes > 0 and self._waiting_bytes + size > WAITING_BYTES_MAX:
            if self.dropped_count == 0:
                log.warning("a client does not read its answers: some are dropped")
            self.dropped_count += chunk.count()
            return
        first = self._next
        self._next += chunk.count()
        self._stored.append((first, chunk))
        self._waiting_bytes += size
        self._consumer.on_delivers(self._uid, self._number, first, first, chunk.count(), False, 0)

    def _say_gone(self) -> None:
        sinks = dict(self._publishers)
        if self._consumer is not None:
            sinks[self._consumer.session] = self._consumer
        self._publishers = {}
        self._consumer = None
        for sink in sinks.values():
            sink.on_gone(self._uid)


class DirectReplies:
    """The pseudo-queues of this node, and the names of those of others."""

    def __init__(
        self, mark: Callable[[Flushable], None], member: int, elsewhere: FindElsewhere
    ) -> None:
        """`member`: id of this node in its cluster."""
        self.mark = mark
        self._member = member
        self._elsewhere = elsewhere
        self._hosts: dict[tuple[str, str], AnswerHost] = {}
        self._by_uid: dict[int, AnswerHost] = {}

    def open(self, vhost: str) -> AnswerHost:
        """A pseudo-queue for a consumer that is about to come."""
        token = os.urandom(TOKEN_BYTES)
        encoded = base64.urlsafe_b64encode(token).rstrip(b"=").decode()
        name = f"{PREFIX}{encoded}.{self._member}"
        host = AnswerHost(self, uid_of(token), vhost, name)
        self._hosts[vhost, name] = host
        self._by_uid[host.uid] = host
        return host

    def forget(self, host: AnswerHost) -> None:
        self._hosts.pop((host.vhost, host.name), None)
        self._by_uid.pop(host.uid, None)

    def of_uid(self, uid: int) -> AnswerHost | None:
        return self._by_uid.get(uid)

    def find(self, vhost: str, name: str) -> QueueHost | None:
        """The pseudo-queue of that name. One of another node may have died in the meantime."""
        return self._hosts.get((vhost, name)) or self._find_elsewhere(vhost, name)

    def is_here(self, vhost: str, name: str) -> bool:
        """Whether a consumer waits for answers of that name on this node."""
        return (vhost, name) in self._hosts

    def _find_elsewhere(self, vhost: str, name: str) -> QueueHost | None:
        token, _, place = name.removeprefix(PREFIX).partition(".")
        if not place.isdecimal() or len(place) > MEMBER_DIGITS_MAX:
            return None
        try:
            decoded = base64.b64decode(token + "==", b"-_", validate=True)
        except (binascii.Error, ValueError):
            return None
        if len(decoded) != TOKEN_BYTES or int(place) == self._member:
            return None
        return self._elsewhere(int(place), uid_of(decoded), vhost, name)

    def targets(self, vhost: str, routing_key: bytes) -> Targets | None:
        """Where a publish with this key goes; None: no consumer waits there."""
        name = routing_key.decode("utf-8", "replace")
        host = self._hosts.get((vhost, name))
        if host is not None:
            return host.targets
        away = self._find_elsewhere(vhost, name)
        return None if away is None else Targets([away])


def uid_of(token: bytes) -> int:
    """Of the pseudo-queue whose name has this token. 62 bits of it are as good as unguessable."""
    return ANSWERS_FROM | int.from_bytes(token[:8], "big") >> 2


def name_answers(event: Publishes, name: bytes | None) -> tuple[Publishes | None, bool]:
    """The event with `name` as the reply-to of messages that ask for answers.

    Without a name: what is before the first that asks, if anything, and whether there is none.
    """
    writer = BytesWriter()
    parts: list[bytes] = []
    size = 0
    bounds = [*event.firsts[1:], event.count]
    for k, first in enumerate(event.firsts):
        asks = event.infos[k] & INFO_REPLY_TO != 0
        for index in range(first, bounds[k]):
            start = int(read_i32_le(event.offsets, 4 * index))
            end = int(read_i32_le(event.offsets, 4 * index + 4))
            part = event.data[start:end]
            if asks and reply_to_of(event.data, start) == REPLY_TO_BYTES:
                if name is None:
                    return _before(event, index), False
                part = rewrite(event.data, start, end, None, None, None, 0, name)
            write_i32_le(writer, size)
            parts.append(part)
            size += len(part)
    write_i32_le(writer, size)
    data, offsets = b"".join(parts), writer.getvalue()
    return Publishes(event.channel, data, offsets, event.firsts, event.keys, event.infos), True


def _before(event: Publishes, index: int) -> Publishes | None:
    """The first `index` messages of the event."""
    if index == 0:
        return None
    firsts = [first for first in event.firsts if first < index]
    keys, infos = event.keys[: len(firsts)], event.infos[: len(firsts)]
    offsets = event.offsets[: 4 * index + 4]
    return Publishes(event.channel, event.data, offsets, firsts, keys, infos)

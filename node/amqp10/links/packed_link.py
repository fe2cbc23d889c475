"""One link that reads a stream in runs of messages, many in one delivery. Not compiled.

The filter set of its source has `warren:packed`, and no filter that leaves out messages. The client
gets deliveries of about PACKED_BYTES (`warren.wire.amqp10.packed`), settled, one for each credit,
from its offset on. So a message costs the node next to nothing. What the client takes back is read
again. A drain ends at the end of the stream.
"""

import logging
import time
from bisect import bisect_right
from typing import Final, final

from node.amqp10.forms import Forms
from node.amqp10.owner import Owner10
from node.amqp10.termini import Consumption
from queues.message import FORMAT_10, Chunk
from queues.queue_host import View
from queues.streams.host import StreamHost
from queues.streams.offsets import OffsetSpec, Start
from queues.streams.reader import Found, StreamReader
from warren.wire.amqp10.codec.performatives import Source
from warren.wire.amqp10.errors import Condition, ProtocolError, Scope
from warren.wire.amqp10.link import SENDER_SETTLED, Link
from warren.wire.amqp10.packed import PACKED_FILTER, pack, pack_run
from warren.wire.amqp10.sender import QueueCredit, Run
from warren.wire.amqp10.session import Session
from warren.wire.buffer import read_i32_le

log = logging.getLogger("warren.connection")

PACKED_BYTES: Final = 120 << 10  # of messages: a delivery mostly fits into one frame
MESSAGES_MAX: Final = 4096  # of a run
COST_MAX: Final = 128 << 10  # of what is converted for a delivery
WAITING_MAX: Final = 2  # deliveries that are made and not sent
NUMBER: Final = 1  # of the runs that are offered; it means nothing here


def is_packed(source: Source | None) -> bool:
    """`source`: as it is answered, with the filters that are applied."""
    return source is not None and PACKED_FILTER in (source.filter or {})


@final
class PackedLink:
    """Invariant: `_next`, or else `_reader`, has the message behind those that were offered."""

    def __init__(
        self, owner: Owner10, core: Session, link: Link, uid: int, asked: Consumption
    ) -> None:
        """ProtocolError: the link is not settled."""
        host, start = asked.host, asked.start
        assert isinstance(host, StreamHost) and start is not None
        member = host.member
        assert member is not None, "start_of_link has looked"
        if link.snd_settle_mode != SENDER_SETTLED:
            text = f"snd-settle-mode of a link with the filter {PACKED_FILTER} must be settled"
            raise ProtocolError(Condition.INVALID_FIELD, text, Scope.LINK)
        self.uid = uid  # of the link, in its session
        self.link = link
        self.ended = False
        self.delivered_count = 0
        self._owner = owner
        self._core = core
        self._host = host
        self._member = member
        self._reader = StreamReader(member, start.at(int(1000 * time.time())), self._go_on)
        self._next: Found | None = None  # read and not offered
        self._forms = Forms()
        self._cost = 0  # of what was converted for the delivery that is being made
        self._limit = 0  # deliveries that may be offered, counted from the beginning of the link
        self._is_draining = False
        self._is_going_on = False

    @property
    def stream(self) -> str:
        """Name of the stream."""
        return self._host.name

    def start(self) -> None:
        """The link is up."""
        self._owner.broker.named_targets.join(self._host.uid, self)
        self._member.consumer_count += 1
        self._member.watchers.append(self._go_on)

    def end(self) -> None:
        """The link is over."""
        if self.ended:
            return
        self.ended = True
        self._owner.broker.named_targets.leave(self._host.uid, self)
        self._member.consumer_count -= 1
        if self._go_on in self._member.watchers:
            self._member.watchers.remove(self._go_on)

    def target_deleted(self) -> None:
        """The stream was deleted."""
        self._fail(Condition.RESOURCE_DELETED, "was deleted")

    # What the client does

    def grant(self, credit: QueueCredit) -> None:
        """The client takes so many deliveries."""
        self._limit = int(credit.arrived + credit.credit)
        self._is_draining = credit.drain
        self._go_on()

    def flowed(self) -> None:
        """The client has sent a flow; what it has credit for is offered already."""

    def withdrawn(self, runs: list[tuple[int, int, int]]) -> None:
        """The client took credit back: what was not sent is to be read again."""
        _, first, _ = runs[-1]
        self._rewind(first)

    def _rewind(self, offset: int) -> None:
        self._next = None
        self._reader = StreamReader(self._member, OffsetSpec(Start.OFFSET, offset), self._go_on)

    # Reading

    def sent(self) -> None:
        """A delivery leaves."""
        self._go_on()

    def _go_on(self) -> None:
        """Offer what there is, as far as the client takes it."""
        sender = self.link.sender
        assert sender is not None
        if self.ended or self._is_going_on:
            return
        if self._member.is_gone:
            if self._owner.broker.definitions.queue(self._host.vhost, self._host.name) is None:
                self.target_deleted()
            else:
                self._fail(Condition.ILLEGAL_STATE, "has no replica on this node any more")
            return
        self._is_going_on = True
        while sender.waiting < WAITING_MAX and int(sender.arrived) < self._limit:
            if not self._offer():
                break
        self._is_going_on = False
        if self._reader.error is not None:
            self._fail(Condition.INTERNAL_ERROR, "cannot be read")
        elif self._is_draining and self._next is None and self._reader.is_at_end:
            self._is_draining = False
            self._core.drained(self.link, self._limit)
        self._owner.mark()

    def _offer(self) -> bool:
        """Make a delivery and offer it; False: there is nothing to read now."""
        first, count, parts = self._take()
        if count == 0:
            return False
        message = pack(parts)
        run = Run(NUMBER, first, 1, True)
        run.put(message, 0, bytes(4) + len(message).to_bytes(4, "little"), 0, 1)
        run.cost = self._cost
        if self._core.offer(self.link, run) == 0:
            self._rewind(first)
            return False
        self.delivered_count += count
        self._member.delivered_count += count
        self._owner.counts.delivered_no_ack += count
        return True

    def _take(self) -> tuple[int, int, list[bytes]]:
        """Runs for one delivery: offset of the first message, messages, and the parts."""
        first = count = size = 0
        parts: list[bytes] = []
        self._cost = 0
        while size < PACKED_BYTES and self._cost < COST_MAX:
            found = self._next or self._reader.take(MESSAGES_MAX)
            self._next = None
            if found is None:
                break
            offset, chunk, index, there = found
            fitting = _fitting(chunk, index, there, PACKED_BYTES - size)
            if fitting == 0 and parts:
                self._next = found
                break
            taken, more = self._run_of(offset, chunk, index, max(1, fitting))
            if count == 0:
                first = offset
            count += taken
            parts += more
            size += sum(map(len, more))
            if taken < there:
                self._next = (offset + taken, chunk, index + taken, there - taken)
                break
        return first, count, parts

    def _run_of(self, offset: int, chunk: Chunk, index: int, count: int) -> tuple[int, list[bytes]]:
        """How many messages are in the run, and its parts."""
        if chunk.format_tag == FORMAT_10:
            data = chunk.data
            assert data is not None
            place = (data, int(chunk.base), chunk.offsets, index, count)
            return count, pack_run(offset, chunk.names, *place)
        run = Run(NUMBER, offset, count, True)
        view = View(chunk, index, offset, count)
        self._forms.put(run, view, COST_MAX - self._cost, MESSAGES_MAX)
        self._cost += int(run.cost)
        converted = (run.data, int(run.base), run.offsets, int(run.index), int(run.ready))
        return int(run.ready), pack_run(offset, b"", *converted)

    def _fail(self, condition: Condition, what: str) -> None:
        if self.ended:
            return
        text = f"stream '{self._host.name}' in vhost '{self._host.vhost}' {what}"
        log.info("link %s: %s", self.link.name, text, extra=self._owner.ids())
        self.end()
        self._core.detach(self.link, ProtocolError(condition, text, Scope.LINK))
        self._owner.mark()


def _fitting(chunk: Chunk, index: int, count: int, size: int) -> int:
    """How many of the messages have at most `size` bytes together."""
    if chunk.bytes_between(index, index + count) <= size:
        return count
    limit = int(read_i32_le(chunk.offsets, 4 * index)) + size
    ends = range(index + 1, index + count + 1)
    return bisect_right(ends, limit, key=lambda end: int(read_i32_le(chunk.offsets, 4 * end)))

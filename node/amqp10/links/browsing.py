"""One browsing link: a receiver whose source has the distribution mode `copy`. Not compiled.

The client gets each ready message once, in the order of service, and the queue keeps all of them:
nothing is checked out, counted as delivered or marked as redelivered, and outcomes mean nothing to
the queue. Messages that consumers hold are not shown, nor is what comes back behind the cursor.

The leader of the queue is asked for BATCH messages at a time (`node.operations.peeking`), when the
client has
credit and what was read before is sent. A drain ends when there are no more messages; a link with
credit left asks again with each flow of the client. Limits: one question at a time for each link.
"""

import asyncio
import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, Protocol, final

from node.amqp10.forms import Forms
from node.amqp10.owner import Owner10
from node.clock import utc_ms
from queues.definitions.broker_objects import Queue
from queues.message import Chunk
from queues.queue_host import View
from queues.selectors.terms import decode_terms, selector_in
from warren.wire.amqp10.codec.performatives import Source
from warren.wire.amqp10.errors import Condition, ProtocolError, Scope
from warren.wire.amqp10.link import SENDER_SETTLED, Link
from warren.wire.amqp10.sender import QueueCredit, Run
from warren.wire.amqp10.session import Session

if TYPE_CHECKING:
    from node.operations.peeking import Browsed

log = logging.getLogger("warren.connection")

COPY: Final = "copy"  # the distribution mode
BATCH: Final = 32  # messages of one question
TRIES: Final = 10  # of a question that the leader does not answer
RETRY_S: Final = 0.5
TOP_LEVEL: Final = 255  # above every priority


class Broker(Protocol):
    """The part of the broker that is asked here."""

    async def browse(self, queue: Queue, level: int, seq: int, count: int) -> "Sequence[Browsed]":
        """Messages behind a cursor; LookupError: the leader has no answer, and why."""


def is_browser(source: Source | None) -> bool:
    return source is not None and source.distribution_mode == COPY


@final
class BrowsingLink:
    """Invariant: `_level` and `_seq` are where the next message to offer is, or behind it."""

    def __init__(
        self,
        owner: Owner10,
        core: Session,
        link: Link,
        uid: int,
        queue: Queue,
        selector: bytes = b"",
    ) -> None:
        self.uid = uid  # of the link, in its session
        self.link = link
        self.ended = False
        self._owner = owner
        self._core = core
        self._queue = queue
        self._is_settled = link.snd_settle_mode == SENDER_SETTLED
        self._forms = Forms(owner.broker.interceptors.sent_clock)
        self._selector = selector_in(decode_terms(selector), utc_ms) if selector else None
        self._level = TOP_LEVEL
        self._seq = 0
        self._limit = 0  # messages that may be offered, counted from the beginning of the link
        self._is_draining = False
        self._is_at_end = False
        self._withdrawals = 0
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """The link is up."""
        self._owner.broker.named_targets.join(self._queue.uid, self)

    def end(self) -> None:
        """The link is over."""
        self.ended = True
        self._owner.broker.named_targets.leave(self._queue.uid, self)
        if self._task is not None:
            self._task.cancel()

    def target_deleted(self) -> None:
        """The queue was deleted."""
        queue = self._queue
        text = f"queue '{queue.name}' in vhost '{queue.vhost}' was deleted"
        self._fail(Condition.RESOURCE_DELETED, text)

    # What the client does

    def grant(self, credit: QueueCredit) -> None:
        """The client takes so many messages."""
        self._limit = int(credit.arrived + credit.credit)
        self._is_draining = credit.drain
        self.flowed()

    def flowed(self) -> None:
        """The client has sent a flow: there may be more messages by now."""
        self._is_at_end = False
        self._go_on()

    def withdrawn(self, runs: list[tuple[int, int, int]]) -> None:
        """The client took credit back: the earliest message that was not sent is the next one."""
        level, seq, _ = runs[-1]
        self._level, self._seq = level, seq
        self._withdrawals += 1
        self._is_at_end = False

    def sent(self) -> None:
        """A message leaves."""
        self._go_on()

    # Reading

    def _go_on(self) -> None:
        """Ask for more if the client takes more and little waits."""
        sender = self.link.sender
        assert sender is not None
        if self.ended or self._task is not None or sender.waiting > 1:
            return
        room = self._limit - int(sender.arrived)
        if room > 0 and not self._is_at_end:
            asked = self._ask(min(room, BATCH), self._withdrawals)
            self._task = asyncio.get_running_loop().create_task(asked)
        elif self._is_draining:
            self._is_draining = False
            self._core.drained(self.link, self._limit)
            self._owner.mark()

    async def _ask(self, count: int, withdrawals: int) -> None:
        try:
            found = await self._found(count)
        except LookupError as error:
            self._task = None
            queue = self._queue
            text = f"queue '{queue.name}' in vhost '{queue.vhost}' cannot be browsed: {error}"
            self._fail(Condition.ILLEGAL_STATE, text)
            return
        self._task = None
        if self.ended:
            return
        if withdrawals == self._withdrawals:  # Else the cursor has moved back meanwhile.
            self._is_at_end = len(found) == 0
            self._offer(found)
        self._owner.mark()
        self._go_on()

    async def _found(self, count: int) -> "Sequence[Browsed]":
        """LookupError: the leader has not answered TRIES times."""
        broker: Broker = self._owner.broker
        for _ in range(TRIES - 1):
            try:
                return await broker.browse(self._queue, self._level, self._seq, count)
            except LookupError:
                await asyncio.sleep(RETRY_S)  # A leader is being elected, or a link set up.
        return await broker.browse(self._queue, self._level, self._seq, count)

    def _offer(self, found: "Sequence[Browsed]") -> None:
        for each in found:
            is_wanted = each.data and self._selects(each)
            if is_wanted and self._core.offer(self.link, self._run_of(each)) == 0:
                self._level, self._seq = each.level, each.seq
                return
            self._level, self._seq = each.level, each.seq + 1

    def _selects(self, each: "Browsed") -> bool:
        return self._selector is None or self._selector(_chunk_of(each), 0)

    def _run_of(self, each: "Browsed") -> Run:
        chunk = _chunk_of(each)
        run = Run(each.level, each.seq, 1, self._is_settled)
        run.delivery_count = each.failures
        run.acquired = each.redelivered
        self._forms.put(run, View(chunk, 0, each.seq, 1))
        return run

    def _fail(self, condition: Condition, text: str) -> None:
        if self.ended:
            return
        log.info("link %s: %s", self.link.name, text, extra=self._owner.ids())
        self.end()
        self._core.detach(self.link, ProtocolError(condition, text, Scope.LINK))
        self._owner.mark()


def _chunk_of(each: "Browsed") -> Chunk:
    offsets = bytes(4) + len(each.data).to_bytes(4, "little")
    return Chunk(each.format_tag, each.data, 0, offsets, 0, each.names)

"""The receiving half of a session: transfer frames become whole messages of links. Compiled.

Takes decoded transfers one by one, or runs of them (`Transfers`) as the scanner found them in
place; gives `Received` events. It checks, in this order: the session's window, the delivery-id
(contiguous over the session), the link's credit, the settled flag, the size. Errors of the session
and of the link are raised as ProtocolError of that scope; the session settles them. What came
before the error, in the same run, is given out.
"""

from typing import Final, NoReturn, Protocol, final

from mypy_extensions import i64

from warren.wire.amqp10.codec.performatives import TransactionalState, Transfer
from warren.wire.amqp10.codec.serial import ahead, plus
from warren.wire.amqp10.errors import Condition, ProtocolError, Scope
from warren.wire.amqp10.gather import Gathered
from warren.wire.amqp10.link import (
    RECEIVER_SECOND,
    SENDER_SETTLED,
    SENDER_UNSETTLED,
    Link,
)
from warren.wire.amqp10.receiver import Receiver
from warren.wire.amqp10.transfers import Transfers, single
from warren.wire.amqp10.windows import IncomingWindow

TAG_BYTES_MAX: Final = 32


@final
class Received:
    """Whole messages of one link: within its credit, its size and the session's window.

    Their delivery-ids are `transfers.id_at`: messages of other links may have come between them.
    A run with `transfers.transaction` was posted in that transaction.
    The order of messages is that of their link; between links it is that of their first ones.
    """

    def __init__(self, link: Link, transfers: Transfers) -> None:
        self.link = link
        self.transfers = transfers


class ReceivedSink(Protocol):
    """The list of events of the connection, of which this module adds one kind only."""

    def append(self, event: Received, /) -> None: ...


@final
class Held:
    """Bytes of unfinished messages, all links of the connection together."""

    def __init__(self, bytes_max: i64) -> None:
        self.bytes_max: i64 = bytes_max
        self.bytes: i64 = 0


@final
class Arrivals:
    """Invariant: `partial_count` links have begun a message and not finished it."""

    def __init__(self, window: IncomingWindow, held: Held) -> None:
        self.window = window
        self.partial_count: i64 = 0
        self.next_id: i64 = -1  # delivery-id of the next delivery; -1: the peer begins with any
        self._held = held

    # A run

    def take_run(self, link: Link, run: Transfers, events: ReceivedSink) -> None:
        """Whole settled-alike messages with consecutive ids, found in place."""
        count: i64 = run.count
        allowed = self.window.left + self.window.window_max
        if count > allowed:
            if allowed > 0:
                self.take_run(link, run.head(allowed), events)
            self.window.take(count)
            _fail_window()
        self.window.take(count)
        receiver = link.receiver
        if receiver is None or not link.is_up():
            self._pass_over(run.delivery_id, count)
            return
        self._follow(run.delivery_id)
        self.next_id = plus(run.delivery_id, count)
        self.take_counted(link, receiver, run, events)

    def take_counted(
        self, link: Link, receiver: Receiver, run: Transfers, events: ReceivedSink
    ) -> None:
        """A run whose window and delivery-ids are accounted for."""
        count: i64 = run.count
        _check_settled(link, run.settled)
        granted = receiver.allowed()
        if count > granted:
            if granted > 0:
                self._give(link, receiver, run.head(granted), events)
            _fail_credit(link)
        self._give(link, receiver, run, events)

    # Runs of several links that took turns

    def fits(self, part: Gathered) -> bool:
        """Whether its numbers are right; else its frames are to be taken as they came."""
        if self.partial_count > 0 or part.count > self.window.left + self.window.window_max:
            return False
        return self.next_id < 0 or part.delivery_id == self.next_id

    def count(self, part: Gathered) -> None:
        """Account for all of its deliveries; `take_counted` follows for each of its runs."""
        self.window.take(part.count)
        self.next_id = plus(part.delivery_id, part.count)

    def _give(self, link: Link, receiver: Receiver, run: Transfers, events: ReceivedSink) -> None:
        """Messages for which there is credit; those before one that is too large count."""
        bytes_max = receiver.message_bytes_max
        if bytes_max > 0 and run.payload_max() > bytes_max:
            fitting = run.fitting(bytes_max)
            receiver.take(fitting + 1)
            if fitting > 0:
                receiver.unconfirmed += fitting
                events.append(Received(link, run.head(fitting)))
            _fail_size(link, bytes_max)
        receiver.take(run.count)
        receiver.unconfirmed += run.count
        events.append(Received(link, run))

    # One by one

    def take(
        self,
        link: Link,
        transfer: Transfer,
        data: bytes,
        start: i64,
        end: i64,
        events: ReceivedSink,
    ) -> None:
        """One transfer frame that carries data[start:end]."""
        if not self.window.take(1):
            _fail_window()
        receiver = link.receiver
        if receiver is None or not link.is_up():
            if transfer.delivery_id is not None:
                self._pass_over(transfer.delivery_id, 1)
        elif receiver.partial:
            self._continue(link, receiver, transfer, data[start:end], events)
        else:
            self._begin(link, receiver, transfer, data[start:end], events)

    def _pass_over(self, delivery_id: i64, count: i64) -> None:
        """The link is being detached: nothing counts but the ids, unless they are known ones.

        For these frames may be the rest of a message that had begun before.
        """
        after = plus(delivery_id, count)
        if self.next_id < 0 or ahead(after, self.next_id) > 0:
            self.next_id = after

    def _follow(self, delivery_id: i64) -> None:
        if self.next_id >= 0 and delivery_id != self.next_id:
            text = f"delivery-id {delivery_id} where {self.next_id} is the next"
            raise ProtocolError(Condition.INVALID_FIELD, text, Scope.SESSION)

    def _begin(
        self,
        link: Link,
        receiver: Receiver,
        transfer: Transfer,
        payload: bytes,
        events: ReceivedSink,
    ) -> None:
        delivery_id = transfer.delivery_id
        if delivery_id is None:
            text = "the first transfer of a delivery has no delivery-id"
            raise ProtocolError(Condition.INVALID_FIELD, text, Scope.SESSION)
        self._follow(delivery_id)
        self.next_id = plus(delivery_id, 1)
        if receiver.allowed() == 0:
            _fail_credit(link)
        _check_first(link, transfer)
        receiver.take(1)
        if transfer.aborted:
            return
        tag = transfer.delivery_tag or b""
        message_format = transfer.message_format or 0
        receiver.begin(delivery_id, tag, message_format, transfer.settled is True)
        state = transfer.state
        receiver.transaction = state.txn_id if isinstance(state, TransactionalState) else b""
        self.partial_count += 1
        self._add(link, receiver, payload)
        if not transfer.more:
            self._finish(link, receiver, events)

    def _continue(
        self,
        link: Link,
        receiver: Receiver,
        transfer: Transfer,
        payload: bytes,
        events: ReceivedSink,
    ) -> None:
        if transfer.delivery_id is not None and transfer.delivery_id != receiver.delivery_id:
            text = (
                f"delivery-id {transfer.delivery_id} on link '{link.name}' "
                f"before delivery {receiver.delivery_id} is complete"
            )
            raise ProtocolError(Condition.INVALID_FIELD, text, Scope.SESSION)
        if transfer.delivery_tag is not None and transfer.delivery_tag != receiver.delivery_tag:
            text = f"another delivery-tag within delivery {receiver.delivery_id}"
            raise ProtocolError(Condition.INVALID_FIELD, text, Scope.LINK)
        message_format = transfer.message_format
        if message_format is not None and message_format != receiver.message_format:
            text = f"another message-format within delivery {receiver.delivery_id}"
            raise ProtocolError(Condition.INVALID_FIELD, text, Scope.LINK)
        if transfer.aborted:
            self.forget(receiver)
            return
        if transfer.settled is True:
            receiver.settled = True
        self._add(link, receiver, payload)
        if not transfer.more:
            self._finish(link, receiver, events)

    def _add(self, link: Link, receiver: Receiver, payload: bytes) -> None:
        before = receiver.held_bytes
        fits = receiver.add(payload)
        self._held.bytes += receiver.held_bytes - before
        if not fits:
            _fail_size(link, receiver.message_bytes_max)
        if self._held.bytes > self._held.bytes_max:
            text = f"unfinished messages hold more than {self._held.bytes_max} bytes"
            raise ProtocolError(Condition.RESOURCE_LIMIT_EXCEEDED, text, Scope.LINK)

    def _finish(self, link: Link, receiver: Receiver, events: ReceivedSink) -> None:
        _check_settled(link, receiver.settled)
        delivery_id = receiver.delivery_id
        message_format = receiver.message_format
        settled = receiver.settled
        payload = self.forget(receiver)
        receiver.unconfirmed += 1
        run = single(link.channel, link.peer_handle, delivery_id, message_format, settled, payload)
        run.transaction = receiver.transaction
        events.append(Received(link, run))

    def forget(self, receiver: Receiver) -> bytes:
        """The message under way is whole, or no longer wanted."""
        if not receiver.partial:
            return b""
        self.partial_count -= 1
        self._held.bytes -= receiver.held_bytes
        return receiver.finish()


def _check_first(link: Link, transfer: Transfer) -> None:
    """The first frame of a delivery: what only that frame tells."""
    tag = transfer.delivery_tag
    if tag is None or len(tag) > TAG_BYTES_MAX:
        text = "the first transfer of a delivery has no delivery-tag of at most 32 bytes"
        raise ProtocolError(Condition.INVALID_FIELD, text, Scope.LINK)
    if transfer.resume:
        text = "deliveries are not resumed: the unsettled map was empty"
        raise ProtocolError(Condition.NOT_IMPLEMENTED, text, Scope.LINK)
    if transfer.rcv_settle_mode == RECEIVER_SECOND and link.rcv_settle_mode != RECEIVER_SECOND:
        text = "receiver settle mode 'second' on a link that was attached with 'first'"
        raise ProtocolError(Condition.INVALID_FIELD, text, Scope.LINK)


def _check_settled(link: Link, settled: bool) -> None:
    mode = link.snd_settle_mode
    if (mode == SENDER_SETTLED and not settled) or (mode == SENDER_UNSETTLED and settled):
        name = "settled" if mode == SENDER_SETTLED else "unsettled"
        flag = "true" if settled else "false"
        text = f"sender settle mode is '{name}' but the transfer's settled flag is {flag}"
        raise ProtocolError(Condition.INVALID_FIELD, text, Scope.LINK)


def _fail_window() -> NoReturn:
    raise ProtocolError(Condition.WINDOW_VIOLATION, "incoming window violation", Scope.SESSION)


def _fail_credit(link: Link) -> NoReturn:
    text = f"transfer on link '{link.name}' without credit"
    raise ProtocolError(Condition.TRANSFER_LIMIT_EXCEEDED, text, Scope.LINK)


def _fail_size(link: Link, bytes_max: i64) -> NoReturn:
    text = f"message on link '{link.name}' is larger than {bytes_max} bytes"
    raise ProtocolError(Condition.MESSAGE_SIZE_EXCEEDED, text, Scope.LINK)

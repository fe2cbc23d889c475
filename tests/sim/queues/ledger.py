"""What was ever published, and what must have become of it: the truth of the simulation.

It knows nothing of chunks, slots or runs. Bodies begin with a number that goes up with every
publish, so that the order in a queue is the order of these numbers.
"""

from dataclasses import dataclass, field


@dataclass(slots=True, eq=False)
class Message:
    """One message in one queue."""

    uid: int
    body: bytes
    durable: bool  # it and its queue both are
    confirmed: bool = False
    seen: bool = False  # a client had it before
    settled: bool = False
    settled_lsn: int = -1  # once the turn of the settlement is over


@dataclass(slots=True)
class QueueBook:
    """Messages of one queue that may be in it, by body, in the order of publishing."""

    messages: dict[bytes, Message] = field(default_factory=dict)
    checked_out_upto: int = 0  # highest message_seq that a client had, or may have had


class Ledger:
    def __init__(self) -> None:
        self.books: dict[int, QueueBook] = {}
        self.delivered_count = 0
        self.recovered_count = 0
        self._settled: list[Message] = []  # in the turn that is under way

    def publish(self, uid: int, durable_queue: bool, body: bytes, persistent: bool) -> Message:
        message = Message(uid, body, durable_queue and persistent)
        self.books[uid].messages[body] = message
        return message

    def confirm(self, message: Message) -> None:
        assert not message.confirmed
        message.confirmed = True

    def checked_out(self, uid: int, seq: int, redelivered: bool) -> None:
        """A client will get this message; what nobody had before must not bear the flag."""
        book = self.books[uid]
        assert not redelivered or seq <= book.checked_out_upto, f"{uid}/{seq} has the flag"
        book.checked_out_upto = max(book.checked_out_upto, seq)

    def delivered(self, uid: int, seq: int, body: bytes, redelivered: bool) -> Message:
        """A client has got a message; it must be one that is there, with the right flag."""
        book = self.books[uid]
        message = book.messages.get(body)
        assert message is not None, f"queue {uid} delivers {body[:16]!r} that it does not have"
        assert not message.settled, f"{body[:16]!r} was settled before"
        assert redelivered or not message.seen, f"{body[:16]!r} comes again without the flag"
        message.seen = True
        self.delivered_count += 1
        return message

    def settle(self, message: Message) -> None:
        message.settled = True
        self._settled.append(message)

    def purge(self, uid: int, held: list[Message]) -> int:
        """Everything in the queue that nobody holds is gone; how many that is."""
        holds = set(map(id, held))
        messages = self.books[uid].messages.values()
        ready = [each for each in messages if not each.settled and id(each) not in holds]
        for message in ready:
            self.settle(message)
        return len(ready)

    def turn_ended(self, appended_lsn: int) -> None:
        """All settlements so far are in the log up to this place."""
        for message in self._settled:
            message.settled_lsn = appended_lsn
        self._settled.clear()

    # After a restart

    def check(self, uid: int, found: dict[int, bytes], durable_lsn: int, clean: bool) -> None:
        """`found` is what the queue holds after a restart, by message_seq."""
        self._settled.clear()  # Their turn never ended.
        book = self.books[uid]
        order = list(book.messages)
        bodies = list(found.values())
        assert len(set(bodies)) == len(bodies), f"queue {uid} has a message twice"
        unknown = [body[:16] for body in bodies if body not in book.messages]
        assert not unknown, f"queue {uid} has {unknown} that was settled or never published"
        assert bodies == [body for body in order if body in set(bodies)], "out of order"
        for message in book.messages.values():
            here = message.body in set(bodies)
            name = f"queue {uid}: {message.body[:16]!r}"
            assert message.durable or not here, f"{name} is transient and is back"
            gone = message.settled and 0 <= message.settled_lsn <= durable_lsn
            assert not (gone and here), f"{name} was settled for good and is back"
            promised = message.durable and message.confirmed and not message.settled
            assert here or not promised, f"{name} was confirmed and is lost"
            assert here or not (clean and message.durable and not message.settled), f"{name} lost"
        self._take_as_truth(book, found, clean)

    def _take_as_truth(self, book: QueueBook, found: dict[int, bytes], clean: bool) -> None:
        """What was found is durable from now on, and unsettled; the rest never was."""
        self.recovered_count += len(found)
        book.messages = {body: book.messages[body] for body in found.values()}
        for message in book.messages.values():
            message.confirmed = True
            message.settled = False
            message.settled_lsn = -1
            if not clean:
                message.seen = True  # All these queues are shorter than the slack above a mark.
        if not clean:
            book.checked_out_upto = max(found, default=0)

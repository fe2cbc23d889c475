"""What was ever published, and what must have become of it: the truth of the simulation.

It knows nothing of chunks, slots or runs. A payload comes to a queue once; in one for dead letters
it may be twice, if a crash came between the letter's PUBLISH and the SETTLE of the dead: the log
has them in this order, so that a classic queue loses none. A quorum queue is done with the dead
when its entry is committed, and buries them afterwards: a crash between these two loses them.
"""

from collections import defaultdict
from dataclasses import dataclass, field

from tests.sim.queues.kinds import Kind

NEVER = -1


@dataclass(slots=True, eq=False)
class Message:
    """One message in one queue. A place in the log is known once the turn is over."""

    uid: int
    payload: bytes
    persistent: bool
    durable: bool  # it survives a restart
    priority: int | None
    at_risk: bool  # an unreported entry may have removed it
    seq: int = 0  # its message_seq, once a client had it
    confirmed: bool = False
    arrived_lsn: int = NEVER  # of a dead letter: it is in the log up to here
    refusing: bool = False  # the queue has said so; the client was not told yet
    refused: bool = False
    seen: bool = False  # a client had it before
    settled: bool = False
    rejected: bool = False  # by a client, and to be dead-lettered
    died: bool = False
    left_lsn: int = NEVER  # what became of it is in the log up to here
    letter: "Message | None" = None  # what it was dead-lettered as

    def copy(self) -> "Message":
        """Without its letter."""
        return Message(
            self.uid,
            self.payload,
            self.persistent,
            self.durable,
            self.priority,
            self.at_risk,
            self.seq,
            self.confirmed,
            self.arrived_lsn,
            self.refusing,
            self.refused,
            self.seen,
            self.settled,
            self.rejected,
            self.died,
            self.left_lsn,
        )

    def is_over(self) -> bool:
        """No client may get it any more."""
        return self.settled or self.rejected or self.died or self.refused

    def is_gone(self, quorum: bool, durable_lsn: int) -> bool:
        """It is over, and no crash brings it back."""
        over = self.settled or self.died or (self.rejected and quorum)
        return over and 0 <= self.left_lsn <= durable_lsn


@dataclass(slots=True)
class QueueBook:
    """Messages of one queue that may be in it, in the order of publishing."""

    kind: Kind
    messages: list[Message] = field(default_factory=list)
    copies: dict[bytes, list[Message]] = field(default_factory=dict)
    by_seq: dict[int, Message] = field(default_factory=dict)
    over: set[bytes] = field(default_factory=set)  # payloads of some that are gone for good
    had: defaultdict[int, int] = field(default_factory=lambda: defaultdict(int))
    checked_out_upto: int = 0  # highest message_seq that a client had, or may have had

    def copy(self, twins: dict[int, Message]) -> "QueueBook":
        """With the twins of its messages in their place; they are added to `twins`."""
        book = QueueBook(self.kind, had=self.had.copy(), checked_out_upto=self.checked_out_upto)
        for message in self.messages:
            twin = twins[id(message)] = message.copy()
            book.add(twin)
            if twin.seq:
                book.by_seq[twin.seq] = twin
        book.over = self.over.copy()
        return book

    def forget(self, durable_lsn: int) -> None:
        """Of what is gone for good, its payload is enough."""
        quorum = self.kind.quorum
        gone: list[Message] = []
        kept: list[Message] = []
        for message in self.messages:  # What was rejected has yet to die.
            settled = message.settled or message.died
            (gone if settled and message.is_gone(quorum, durable_lsn) else kept).append(message)
        self.messages = kept
        for message in gone:
            self.over.add(message.payload)
            self.by_seq.pop(message.seq, None)
            copies = self.copies[message.payload]
            copies.remove(message)
            if not copies:
                del self.copies[message.payload]

    def add(self, message: Message) -> None:
        self.messages.append(message)
        self.copies.setdefault(message.payload, []).append(message)

    def find(self, seq: int, payload: bytes) -> Message | None:
        """The message with this number, which a client gets; copies are in order."""
        message = self.by_seq.get(seq)
        if message is None:
            fresh = [each for each in self.copies.get(payload, ()) if each.seq == 0]
            if not fresh:
                return None
            message = self.by_seq[seq] = fresh[0]
            message.seq = seq
        assert message.payload == payload
        return message


Found = dict[int, dict[int, bytes]]  # by uid: payloads by message_seq


class Ledger:
    def __init__(self) -> None:
        self.books: dict[int, QueueBook] = {}
        self.delivered_count = 0
        self.recovered_count = 0
        self.died_count = 0
        self.refused_count = 0
        self.doubled_count = 0  # both dead and alive after a crash
        self.lost_count = 0  # dead letters of quorum queues that a crash has taken
        self._left: list[Message] = []  # in the turn that is under way
        self._arrived: list[Message] = []

    def forget(self, durable_lsn: int) -> None:
        """Be brief about what is gone for good, now that the log is durable up to here."""
        for book in self.books.values():
            book.forget(durable_lsn)

    def copy(self, gone: set[int]) -> "Ledger":
        """As it is now; of the queues that are `gone` only that they were."""
        twin = Ledger()
        twins: dict[int, Message] = {}
        for uid, book in self.books.items():
            twin.books[uid] = QueueBook(book.kind) if uid in gone else book.copy(twins)
        for book in self.books.values():
            for message in book.messages:
                if message.letter is not None and id(message) in twins:
                    twins[id(message)].letter = twins.get(id(message.letter))
        return twin

    def declare(self, uid: int, kind: Kind) -> None:
        assert uid not in self.books, "a uid was used twice"
        self.books[uid] = QueueBook(kind)

    def publish(
        self, uid: int, payload: bytes, persistent: bool, priority: int | None, expires: bool
    ) -> Message:
        book = self.books[uid]
        kind = book.kind
        durable = kind.quorum or (kind.durable and persistent)
        at_risk = kind.quorum and (kind.drops or expires)
        message = Message(uid, payload, persistent, durable, priority, at_risk)
        book.add(message)
        return message

    def confirm(self, message: Message) -> None:
        assert not message.confirmed
        assert not message.refusing, f"{message.payload[:16]!r} was refused and is confirmed"
        message.confirmed = True

    def refuse(self, message: Message) -> None:
        assert self.books[message.uid].kind.refuses
        message.refused = True
        self.refused_count += 1

    def checked_out(self, uid: int, seq: int, redelivered: bool, attempts: int) -> None:
        """A client will get this message; an undelivered one must not bear the flag."""
        book = self.books[uid]
        assert not redelivered or seq <= book.checked_out_upto, f"{uid}/{seq} has the flag"
        book.checked_out_upto = max(book.checked_out_upto, seq)
        if book.kind.quorum:
            acquired, failed = attempts >> 32, attempts & 0xFFFFFFFF
            assert acquired >= book.had[seq], f"{uid}/{seq} was had {book.had[seq]}, not {acquired}"
            assert failed <= acquired

    def gave_back(self, uid: int, seq: int) -> None:
        """A client had it, or was about to, and has it no more; it stays in the queue."""
        if uid in self.books:
            self.books[uid].had[seq] += 1

    def delivered(self, uid: int, seq: int, payload: bytes, redelivered: bool) -> Message:
        """A client has got a message; it must be one that is there, with the right flag."""
        message = self.books[uid].find(seq, payload)
        assert message is not None, f"queue {uid} delivers {payload[:16]!r} that it does not have"
        assert not message.is_over(), f"{payload[:16]!r} was settled, refused or dead before"
        assert redelivered or not message.seen, f"{payload[:16]!r} comes again without the flag"
        message.seen = True
        self.delivered_count += 1
        return message

    def settle(self, message: Message) -> None:
        message.settled = True
        self._left.append(message)

    def reject(self, message: Message) -> None:
        """For good; it is to be dead-lettered if its queue does so."""
        if self.books[message.uid].kind.target:
            message.rejected = True
            self._left.append(message)
        else:
            self.settle(message)

    def died(self, uid: int, payload: bytes, target: int) -> None:
        """The queue hands it to the dead-letter exchange, which leads to that queue, if to any."""
        (message,) = self.books[uid].copies[payload]
        assert not message.settled
        assert not message.died
        message.died = True
        if not self.books[uid].kind.quorum:
            message.left_lsn = NEVER  # If it is that of a reject: the log was not told of that.
        self._left.append(message)
        self.died_count += 1
        if target in self.books:
            letter = self.publish(target, payload, message.persistent, message.priority, False)
            message.letter = letter
            self._arrived.append(letter)

    def purge(self, uid: int, held: list[Message]) -> int:
        """Everything in the queue that no client holds is gone; how many that is."""
        holds = set(map(id, held))
        messages = self.books[uid].messages
        ready = [each for each in messages if not each.settled and id(each) not in holds]
        for message in ready:
            self.settle(message)
        return len(ready)

    def turn_ended(self, appended_lsn: int) -> None:
        """All that was settled or buried so far is in the log up to this place."""
        for message in self._left:
            message.left_lsn = appended_lsn
        for message in self._arrived:
            message.arrived_lsn = appended_lsn
        self._left.clear()
        self._arrived.clear()

    # After a restart

    def check(self, found: Found, durable_lsn: int, clean: bool) -> None:
        """`found` is what the queues hold after a restart."""
        self._left.clear()  # Their turn never ended.
        self._arrived.clear()
        here: dict[int, dict[int, Message]] = {}
        for uid, payloads in found.items():
            here[uid] = self._identify(self.books[uid], payloads, durable_lsn)
        present = {id(message) for each in here.values() for message in each.values()}
        for uid in found:
            for message in self.books[uid].messages:
                self._check_message(message, present, found, durable_lsn, clean)
        for uid in found:
            self._take_as_truth(self.books[uid], here[uid], clean)

    def _identify(
        self, book: QueueBook, payloads: dict[int, bytes], durable_lsn: int
    ) -> dict[int, Message]:
        """Which message each one is; they must be in the order of publishing."""
        seqs: dict[bytes, list[int]] = {}
        for seq, payload in sorted(payloads.items()):
            seqs.setdefault(payload, []).append(seq)
        here: dict[int, Message] = {}
        places = {id(message): place for place, message in enumerate(book.messages)}
        for payload, at in seqs.items():
            known = book.copies.get(payload, [])
            name = f"{payload[:16]!r}, {len(at)} times for {len(known)}"
            never = "was over for good and is back" if payload in book.over else "never was there"
            assert len(at) <= len(known), f"a queue has what {never}: {name}"
            if len(known) == 1:
                here[at[0]] = known[0]
                continue
            # A body may be there twice: itself, and as its own dead letter. Where it was is known.
            here.update({seq: book.by_seq[seq] for seq in at if book.by_seq.get(seq) in known})
            at = [seq for seq in at if seq not in here]
            taken = {id(message) for message in here.values()}
            known = [message for message in known if id(message) not in taken]
            likely = sorted(known, key=lambda each: likelihood(each, durable_lsn), reverse=True)
            chosen = sorted(likely[: len(at)], key=lambda each: places[id(each)])
            here.update(zip(at, chosen, strict=True))
        order = [message for _, message in sorted(here.items())]
        assert order == sorted(order, key=lambda each: places[id(each)]), "out of order"
        return here

    def _check_message(
        self, message: Message, present: set[int], found: Found, durable_lsn: int, clean: bool
    ) -> None:
        kind = self.books[message.uid].kind
        here = id(message) in present
        name = f"{kind.arguments} {message.uid}: {message.payload[:16]!r}"
        assert message.durable or not here, f"{name} is transient and is back"
        # What is refused and dead-lettered too is one of the dying until it is buried.
        never = message.refused and not kind.target
        assert not (never and here), f"{name} was refused and is there"
        over = message.is_gone(kind.quorum, durable_lsn)
        assert not (over and here), f"{name} was over for good and is back"
        arrived = 0 <= message.arrived_lsn <= durable_lsn
        promised = message.confirmed or arrived or clean
        if not message.durable or not promised or message.refused or message.settled:
            return
        if not message.died:
            risk = message.at_risk or message.refusing or (message.rejected and kind.quorum)
            assert here or risk, f"{name} was confirmed and is lost"
            self.lost_count += 1 if not here and message.rejected else 0
            return
        letter = message.letter
        if letter is None or letter.uid not in found:
            return
        there = id(letter) in present
        if kind.quorum:
            assert not (here and there), f"{name} is dead and alive"
            self.lost_count += 1 if not here and not there and not letter.is_over() else 0
        elif not over:
            assert here or there or letter.is_over(), f"{name} died and is lost"
            self.doubled_count += 1 if here and there else 0

    def _take_as_truth(self, book: QueueBook, here: dict[int, Message], clean: bool) -> None:
        """What was found is durable from now on, and unsettled; the rest never was."""
        self.recovered_count += len(here)
        book.messages = []
        book.copies = {}
        book.by_seq = {}
        for seq, message in sorted(here.items()):
            message.seq = seq
            message.confirmed = True
            message.refusing = message.refused = False
            message.settled = message.rejected = message.died = False
            message.left_lsn = message.arrived_lsn = NEVER
            message.letter = None
            book.add(message)
            book.by_seq[seq] = message
            if not clean and not book.kind.quorum:
                message.seen = True  # All these queues are shorter than the slack above a mark.
        if not clean:
            book.checked_out_upto = max(here, default=0)


def likelihood(message: Message, durable_lsn: int) -> int:
    """How sure it is, of several copies, that this one is there."""
    if message.settled and 0 <= message.left_lsn <= durable_lsn:
        return 0
    return 2 if message.confirmed or 0 <= message.arrived_lsn <= durable_lsn else 1

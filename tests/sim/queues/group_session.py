"""A session of some node at the simulated quorum queue, and the books of what it may expect.

It numbers what it does, keeps it until it hears that it is applied, and sends it again to the
member that leads next. Its connection to the leader may break at any moment, and loses what is
under way; then it asks the new one how it stands (`Resume`).
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Protocol

from queues.hosts.effect_dispatch import tell
from queues.hosts.quorum_member import QuorumMember
from queues.machine.commands import (
    ACCEPT,
    REJECT,
    RELEASE,
    Attach,
    Command,
    EndSession,
    Enqueue,
    Numbered,
    SessionId,
    Settle,
    consumer_key,
)
from queues.machine.consuming.numbered_sessions import Resume, Resumed
from queues.message import FORMAT_091, Chunk
from queues.sessions.credit import CreditActor, CreditSpec
from tests.sim.queues.group_node import UID, GroupNode
from tests.unit.queues.runs import runs_of
from warren.wire.amqp091.events import INFO_PERSISTENT

CONSUMER: Final = 1
CREDIT: Final = 6


@dataclass(slots=True)
class Letter:
    """One message that was published."""

    payload: bytes
    confirmed: bool = False
    accepted: bool = False  # a settlement was handed down
    settled: bool = False  # and is applied
    is_open: bool = False  # its session is gone; it is unknown whether the settlement is applied
    seq: int = 0  # message_seq, once it was seen


@dataclass(slots=True)
class Books:
    """All messages of a run."""

    letters: dict[bytes, Letter]
    by_seq: dict[int, Letter]
    confirms: int = 0
    deliveries: int = 0
    on_confirms: Callable[[GroupNode, SessionId, range], None] | None = None

    def saw(self, seq: int, payload: bytes) -> Letter:
        """A message was read: it is what was published, under one number for ever."""
        letter = self.letters[payload]
        assert letter.seq in (0, seq), f"{payload!r} is there twice: {letter.seq} and {seq}"
        letter.seq = seq
        assert self.by_seq.setdefault(seq, letter) is letter, f"{seq} is two messages"
        return letter


class Leaders(Protocol):
    """Who knows where the leader is."""

    def find_leader(self) -> GroupNode | None: ...


@dataclass(slots=True)
class Kept:
    """A command that is not known to be applied."""

    number: int
    command: Command
    chunk: Chunk | None
    settles: list[Letter]


class Session:
    """See the module."""

    def __init__(self, session: SessionId, books: Books) -> None:
        self.session = session
        self.books = books
        self.kept: list[Kept] = []
        self.face: Face | None = None  # the connection that stands
        self.number = 0
        self.published: list[Letter] = []  # by number of the publish, from 1
        self.confirmed = 0
        self.wants = 1  # delivery_seq
        self.unread: list[int] = []  # delivered, by message_seq
        self.held: dict[int, Letter] = {}
        self.is_attached = False
        self.is_ended = False

    # What it does

    def publish(self, payloads: list[bytes]) -> None:
        letters = [self.books.letters.setdefault(each, Letter(each)) for each in payloads]
        first = len(self.published) + 1
        self.published.extend(letters)
        command = Enqueue(self.session, first, len(letters))
        self._hand_down(command, chunk_of(payloads), [])

    def attach(self) -> None:
        self.is_attached = True
        key = consumer_key(self.session, CONSUMER)
        self._hand_down(Attach(key, CREDIT, True, False, 0), None, [])

    def settle(self, seqs: list[int], outcome: int) -> None:
        letters = [self.held.pop(seq) for seq in seqs]
        for letter in letters:
            letter.accepted = letter.accepted or outcome == ACCEPT
        if outcome not in (ACCEPT, REJECT):
            letters = []
        key = consumer_key(self.session, CONSUMER)
        self._hand_down(Settle(key, outcome, runs_of(seqs)), None, letters)

    def release_all(self) -> None:
        if self.held:
            self.settle(sorted(self.held), RELEASE)

    def end(self) -> None:
        self.is_ended = True
        self.unread = []
        self.held = {}
        self._hand_down(EndSession(self.session), None, [])

    def _hand_down(self, command: Command, chunk: Chunk | None, settles: list[Letter]) -> None:
        self.number += 1
        whole = Numbered(self.session, self.number, self.confirmed, command)
        kept = Kept(self.number, whole, chunk, settles)
        self.kept.append(kept)
        if self.face is not None:
            self.face.send(kept)

    # Connections

    def connect(self, node: GroupNode) -> None:
        """Ask that node, which says that it leads."""
        self.face = Face(self, node)
        self.face.begin()

    def disconnect(self) -> None:
        self.face = None

    def resumed(self, resumed: Resumed) -> None:
        if resumed.number == 0 and self.number > len(self.kept):
            assert self.is_ended, "the leader does not know the session"
            self.kept = []
        self.applied(resumed.number)
        self.confirm(resumed.published)

    # What it hears

    def applied(self, number: int) -> None:
        while self.kept and self.kept[0].number <= number:
            for letter in self.kept.pop(0).settles:
                letter.settled = True

    def confirm(self, upto: int) -> None:
        while self.confirmed < upto:
            self.published[self.confirmed].confirmed = True
            self.confirmed += 1
            self.books.confirms += 1

    def delivered(self, delivery_seq: int, first: int, count: int) -> None:
        for place in range(count):
            if delivery_seq + place < self.wants:
                continue
            assert delivery_seq + place == self.wants, "a delivery is missing"
            self.wants += 1
            self.books.deliveries += 1
            if not self.is_ended:
                self.unread.append(first + place)

    def read(self, seq: int, payload: bytes) -> None:
        self.unread.remove(seq)
        letter = self.books.saw(seq, payload)
        assert not letter.settled, f"{payload!r} comes back, and was settled"
        self.held[seq] = letter


class Face:
    """One connection to one leader (`StreamSink`); of use while it is the session's."""

    def __init__(self, owner: Session, node: GroupNode) -> None:
        self.owner = owner
        self.node = node
        self.member: QuorumMember | None = node.member
        self._credit = CreditActor("session", CreditSpec(400, 200))
        self._is_resumed = False
        self._is_reading = False

    @property
    def session(self) -> SessionId:
        return self.owner.session

    @property
    def credit(self) -> CreditActor:
        return self._credit

    @property
    def is_up(self) -> bool:
        return self.owner.face is self

    def begin(self) -> None:
        self.node.runner.post(self._resume)

    def _resume(self) -> None:
        owner, member = self.owner, self.member
        if not self.is_up or member is None:
            return
        self.node.turn.begin()
        wanted = [(CONSUMER, owner.wants)] if owner.is_attached else []
        resumed = member.resume(self, Resume(owner.session, 0, owner.confirmed, wanted))
        if resumed is None:
            owner.disconnect()
            return
        self._is_resumed = True
        owner.resumed(resumed)
        for effect in resumed.effects:
            tell(self, UID, effect, False)
        for kept in list(owner.kept):
            self.send(kept)

    def send(self, kept: Kept) -> None:
        if self._is_resumed:
            self.node.runner.post(lambda: self._arrive(kept))

    def _arrive(self, kept: Kept) -> None:
        if self.is_up and self.member is not None:
            self.node.turn.begin()
            if not self.member.hand_down(self, kept.command, kept.chunk):
                self.owner.disconnect()

    def read_some(self) -> None:
        """Look at what was delivered."""
        self.node.runner.post(self._read)

    def _read(self) -> None:
        owner, member = self.owner, self.member
        if not self.is_up or not self._is_resumed or member is None or member.term == 0:
            return
        self.node.turn.begin()
        while owner.unread:
            seq = owner.unread[0]
            view = member.view(self, seq, 1)
            if view is None:
                return
            data = view.chunk.data
            assert data is not None
            begin, end = view.chunk.span(view.index)
            owner.read(seq, data[begin:end])

    # StreamSink

    def on_confirms(self, uid: int, upto_seq: int) -> None:
        if self.is_up:
            numbers = range(self.owner.confirmed + 1, upto_seq + 1)
            self.owner.confirm(upto_seq)
            told = self.owner.books.on_confirms
            if told is not None and numbers:
                told(self.node, self.session, numbers)

    def on_refused(self, uid: int, first_seq: int, count: int) -> None:
        raise AssertionError("nothing is refused here")

    def on_delivers(
        self,
        uid: int,
        number: int,
        delivery_seq: int,
        first: int,
        count: int,
        redelivered: bool,
        attempts: int,
    ) -> None:
        if self.is_up:
            self.owner.delivered(delivery_seq, first, count)

    def on_got(self, uid: int, message: int, redelivered: bool, ready: int, attempts: int) -> None:
        raise AssertionError("no client asked for a message")

    def on_attached(self, uid: int, number: int) -> None:
        return

    def on_attach_refused(self, uid: int, number: int, reason: int) -> None:
        raise AssertionError("no other client consumes alone")

    def on_detached(self, uid: int, number: int, goes: bool) -> None:
        return

    def on_activated(self, uid: int, number: int, active: bool) -> None:
        return

    def on_timed_out(self, uid: int, number: int, timeout_ms: int) -> None:
        return  # A process that was cut off for long; the session is resumed, or its end told.

    def on_drained(self, uid: int, number: int, delivery_count: int) -> None:
        return

    def on_purged(self, uid: int, count: int) -> None:
        return

    def on_inspected(self, uid: int, ready: int, consumer_count: int) -> None:
        return

    def on_inspect_ok(self, uid: int, ready: int, consumer_count: int) -> None:
        return

    def on_loaded(self, uid: int) -> None:
        self.read_some()

    def on_unreadable(self, uid: int) -> None:
        raise AssertionError("a body cannot be read")

    def on_gone(self, uid: int) -> None:
        self._drop()

    def on_resumed(self, uid: int, term: int, number: int) -> None:
        return

    def on_applied(self, uid: int, number: int) -> None:
        if self.is_up:
            self.owner.applied(number)

    def on_resend(self, uid: int) -> None:
        self._drop()  # The next connection says where the stream stands.

    def on_leader_lost(self, uid: int) -> None:
        self._drop()

    def _drop(self) -> None:
        if self.is_up:
            self.owner.disconnect()


def chunk_of(payloads: list[bytes]) -> Chunk:
    offsets = [0]
    for payload in payloads:
        offsets.append(offsets[-1] + len(payload))
    packed = b"".join([each.to_bytes(4, "little") for each in offsets])
    return Chunk(FORMAT_091, b"".join(payloads), 0, packed, INFO_PERSISTENT)

"""How a queue looks at its bodies: in memory now, or read back from disk first. Compiled.

Takes what sessions ask for (`view`) and gives the bytes, or None and, as soon as it can be asked
again, `SessionSink.on_loaded`. Owns who waits, for a body or for a delivered mark (0004). What is
wanted next is read ahead, up to READ_AHEAD_BYTES, and more of it when half of that was looked at,
so that a consumer of a backlog seldom waits; not while the queues that do so have brought the node
CROWDED_BYTES over its budget. A body that cannot be read is reported to the readers that wait
for it and to no others. What was looked at and is over the budget leaves memory again.
"""

from typing import Final, final

from mypy_extensions import i64

from queues.bodies.store import BodyBudget, Slot, Store, is_safe
from queues.hosts.host_interfaces import BodyOwner, Steps
from queues.machine.commands import SessionId
from queues.message import Chunk
from queues.queue_host import SessionSink, View

UNSEEN_SLACK: Final = 4096  # messages above the last durable mark that may be delivered (0004)
READ_AHEAD_BYTES: Final = 6 << 20
CROWDED_BYTES: Final = 128 << 20  # in memory above the budget: no queue reads ahead
LOAD_BYTES: Final = 1 << 10  # a chunk counts so much more in that, for it is work of its own


@final
class Reading:
    """The reading side of one queue's store."""

    def __init__(
        self, uid: i64, store: Store, budget: BodyBudget, turn: Steps, heeds_marks: bool
    ) -> None:
        self._uid: i64 = uid
        self._store = store
        self._budget = budget
        self._turn = turn
        self._heeds_marks = heeds_marks
        self._mark_durable: i64 = 0  # the last delivered mark that is synced
        self._unmarked: dict[SessionId, SessionSink] = {}  # wait for the next one
        self._waiting: dict[SessionId, tuple[SessionSink, Chunk]] = {}  # for a body to be loaded
        self._viewed: Chunk | None = None  # looked at last
        self._ahead_seq: i64 = 0  # reading ahead goes on with this message; 0: it does not
        self._ahead_bytes: i64 = 0  # of what comes before it and was not looked at, at most
        self._seen_seq: i64 = 0  # messages before it were looked at, once or more

    def heed_no_marks(self) -> None:
        """From now on deliveries are in a replicated log, and need no delivered mark."""
        self._heeds_marks = False
        self.mark_durable(self._mark_durable)  # No session waits for one.

    def heed_marks(self) -> None:
        """From now on a delivery needs a delivered mark in the log."""
        self._heeds_marks = True

    def view(self, owner: BodyOwner, sink: SessionSink, first: i64, count: i64) -> View | None:
        """The head of these messages with their bytes, or None while they are being read, or
        while the log does not know yet that as much as that has been delivered.
        """
        slot = self._store.find(first)
        if slot.chunk.data is None:
            self._waiting[sink.session] = (sink, slot.chunk)
            self.read_ahead(owner, slot)
            return None
        if self._viewed is not slot.chunk:
            self._view_next(slot.chunk)
            if self._ahead_seq > 0 and slot.first >= self._seen_seq:
                self._read_on(owner, slot)
        offset = first - slot.first
        count = min(count, slot.count - offset)
        if slot.journaled and self._heeds_marks:
            room = self._mark_durable + UNSEEN_SLACK + 1 - first
            if room <= 0:
                self._unmarked[sink.session] = sink
                return None
            count = min(count, room)
        return View(slot.chunk, slot.index + offset, first, count)

    def _view_next(self, chunk: Chunk) -> None:
        """The bodies looked at before were written: a copy on disk is enough for those."""
        before = self._viewed
        self._viewed = chunk
        if before is None or before.data is None or before.holders == 0:
            return
        if (before.lazy or self._budget.is_over()) and is_safe(before):
            self._budget.evict(before)

    def mark_durable(self, message_seq: i64) -> None:
        """The log knows for good that messages up to this one may have been delivered."""
        self._mark_durable = message_seq
        unmarked = self._unmarked
        if len(unmarked) > 0:
            self._unmarked = {}
            for sink in unmarked.values():
                sink.on_loaded(self._uid)

    def end_session(self, session: SessionId) -> None:
        """It waits for nothing any more."""
        self._waiting.pop(session, None)
        self._unmarked.pop(session, None)

    def read_ahead(self, owner: BodyOwner, slot: Slot) -> None:
        """Ask for the bytes of this slot and of the next ones, up to READ_AHEAD_BYTES."""
        self._ahead_bytes = 0
        self._seen_seq = slot.first
        self._ask(owner, slot)

    def _ask(self, owner: BodyOwner, slot: Slot) -> None:
        """From this slot on, until there is as much ahead as there may be."""
        loading = self._store.loading
        is_crowded = self._budget.used_bytes - self._budget.limit_bytes > CROWDED_BYTES
        most_bytes: i64 = 1 if is_crowded else READ_AHEAD_BYTES
        at: Slot | None = slot
        while at is not None and self._ahead_bytes < most_bytes:
            chunk = at.chunk
            if chunk.data is None and chunk not in loading:
                loading.add(chunk)
                self._turn.load(owner, chunk)
            self._ahead_bytes += chunk.size() + LOAD_BYTES
            at = self._store.after(at)
        self._ahead_seq = 0 if at is None else at.first

    def _read_on(self, owner: BodyOwner, slot: Slot) -> None:
        """This slot is looked at for the first time since reading ahead began before it."""
        self._seen_seq = slot.first + slot.count
        self._ahead_bytes -= slot.chunk.size() + LOAD_BYTES
        if self._ahead_bytes > READ_AHEAD_BYTES // 2:
            return
        following: Slot | None = None
        if self._seen_seq <= self._ahead_seq:
            following = self._store.find_live(self._ahead_seq)
        if following is None:  # What was to come next is gone: the next miss starts again.
            self._ahead_seq = 0
        else:
            self._ask(owner, following)

    def loaded(self, chunk: Chunk, data: bytes) -> None:
        """The bytes asked for by `Steps.load` are here."""
        self._store.loading.discard(chunk)
        if chunk.holders > 0 and chunk.data is None:
            chunk.data = data
            chunk.base = chunk.first_offset()
            self._budget.took(chunk)
        if len(self._waiting) > 0:
            waiting = self._waiting
            self._waiting = {}
            for sink, _ in waiting.values():
                sink.on_loaded(self._uid)

    def load_failed(self, chunk: Chunk) -> None:
        """The bytes cannot be read: report that to the readers that wait."""
        self._store.loading.discard(chunk)
        told = [(session, each[0]) for session, each in self._waiting.items() if each[1] is chunk]
        for session, sink in told:
            del self._waiting[session]
            sink.on_unreadable(self._uid)

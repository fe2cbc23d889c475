"""Host of a classic queue: the machine, its bodies, and the journal that makes it durable.

Commands of a turn are applied together in `step`; deliveries go out in the same turn, only the
confirm of a durable message waits for the sync. What the queue owns: its `Fifo`, its `Store`, the
sinks of the sessions that use it. Journaled are persistent messages of a durable queue and their
settlements; the rest lives in memory and is gone after a restart. Compiled.
"""

from typing import Final, Protocol, final

from mypy_extensions import i64

from queues.commands import (
    Command,
    ConsumerKey,
    EndSession,
    Enqueue,
    SessionId,
    session_of,
)
from queues.counts import Capacity
from queues.credit import CreditActor
from queues.effects import (
    Attached,
    AttachRefused,
    Delivers,
    Detached,
    Drained,
    Effect,
    Enqueued,
    Got,
    Inspected,
    KnownAlready,
    LastConsumerGone,
    Left,
    Purged,
)
from queues.fifo import Fifo
from queues.host import SessionSink, View
from queues.hosts.journal import Journal
from queues.message import Chunk
from queues.store import BodyBudget, Slot, Store
from warren.wire.amqp091.events import INFO_PERSISTENT

MARK_STRIDE: Final = 2048  # deliveries between two delivered marks in the journal
READ_AHEAD_BYTES: Final = 1 << 20


class Steps(Protocol):
    """Who steps the hosts at the end of a turn of the loop."""

    def mark_host(self, host: "ClassicHost") -> None: ...

    def queue_unused(self, host: "ClassicHost") -> None:
        """The last consumer of an auto-delete queue is gone: it is to be deleted."""

    def load(self, host: "ClassicHost", chunk: Chunk) -> None:
        """Read the chunk's bytes from its file, then call `host.loaded(chunk)`."""


@final
class ClassicHost:
    """A classic queue on this node."""

    def __init__(
        self,
        uid: i64,
        vhost: str,
        name: str,
        durable: bool,
        journal: Journal,
        budget: BodyBudget,
        turn: Steps,
        credit: CreditActor,
        auto_delete: bool = False,
    ) -> None:
        self.uid: i64 = uid
        self.vhost = vhost
        self.name = name
        self.durable = durable
        self.auto_delete = auto_delete
        self.machine = Fifo()
        self.store = Store(budget)
        self.credit = credit
        self.capacity = Capacity()
        self._journal = journal
        self._budget = budget
        self._turn = turn
        self._sinks: dict[SessionId, SessionSink] = {}
        self._receipts: dict[SessionId, int] = {}  # the last one in the journal
        self._commands: list[Command] = []
        self._chunks: list[Chunk] = []  # of the Enqueue commands, in order
        self._marked = False
        self._gone = False
        self.damaged = False  # some bodies could not be read back
        self._mark: i64 = 0
        self._waiting: dict[SessionId, SessionSink] = {}  # wait for bodies to be loaded
        self._loading: set[Chunk] = set()  # asked for by this queue; others may share them
        self.published_count: i64 = 0
        self.delivered_count: i64 = 0
        self.settled_count: i64 = 0
        self.redelivered_count: i64 = 0

    @property
    def ready_count(self) -> int:
        return self.machine.ready.count

    @property
    def checked_out_count(self) -> int:
        return self.machine.checked_out

    @property
    def consumer_count(self) -> int:
        return self.machine.attached_count

    # Handed down by sessions

    def publish(self, sink: SessionSink, chunk: Chunk, first_seq: i64) -> None:
        """Enqueue the whole chunk as the session's numbers first_seq.."""
        session = sink.session
        count = chunk.count()
        sink.credit.send(self.credit, count)
        self._sinks[session] = sink
        self._chunks.append(chunk)
        self._commands.append(Enqueue(session, first_seq, count))
        if not self._marked:
            self._marked = True
            self._turn.mark_host(self)

    def command(self, sink: SessionSink, command: Command) -> None:
        """Apply the command in this turn, after what was handed down before."""
        self._sinks[sink.session] = sink
        self._commands.append(command)
        if not self._marked:
            self._marked = True
            self._turn.mark_host(self)

    def view(self, sink: SessionSink, first: i64, count: i64) -> View | None:
        """The head of these messages with their bytes, or None while they are being read."""
        slot = self.store.find(first)
        if slot.chunk.data is None:
            self._waiting[sink.session] = sink
            self._read_ahead(slot)
            return None
        offset = first - slot.first
        return View(slot.chunk, slot.index + offset, first, min(count, slot.count - offset))

    # The turn

    def step(self, now_ms: i64) -> None:
        """Apply what was handed down and carry the effects out."""
        self._marked = False
        commands = self._commands
        if len(commands) == 0 or self._gone:
            return
        self._commands = []
        chunks = self._chunks
        self._chunks = []
        effects = self.machine.apply(commands, now_ms)
        self.capacity.observe(self.machine.is_able(), now_ms)
        self._carry_out(effects, chunks)
        for command in commands:
            if isinstance(command, EndSession):
                self._sinks.pop(command.session, None)
                self._waiting.pop(command.session, None)
                self._receipts.pop(command.session, None)
        high = self.machine.delivered_high
        if self.durable and high > self._mark + MARK_STRIDE:
            self._mark = high
            self._journal.mark(self.uid, high)

    def _carry_out(self, effects: list[Effect], chunks: list[Chunk]) -> None:
        taken: i64 = 0
        for effect in effects:
            if isinstance(effect, Enqueued):
                self._enqueued(effect, chunks[taken])
                taken += 1
            elif isinstance(effect, Delivers):
                self._delivers(effect)
            elif isinstance(effect, Left):
                self._left(effect.first, effect.count)
            else:
                self._answer(effect)

    def _enqueued(self, effect: Enqueued, chunk: Chunk) -> None:
        first = effect.message_first
        count = effect.count
        self.published_count += count
        journaled = self.durable and (chunk.info & INFO_PERSISTENT) != 0
        self.store.add(first, chunk, 0, count, journaled)
        sink = self._sinks[effect.session]
        self.credit.ack(sink.credit, count)
        upto = effect.first_seq + count - 1
        if journaled:
            self._journal.publish(chunk, self.uid, first)
            receipt = self._journal.confirm(sink, self.uid, upto, self.credit, count)
            self._receipts[effect.session] = receipt
        elif self._receipts.get(effect.session, 0) > self._journal.confirmed_receipt:
            # A confirm holds for all before it: this one must not overtake those in the journal.
            self._journal.confirm(sink, self.uid, upto, self.credit, 0)
        else:
            sink.on_confirms(self.uid, upto)

    def _delivers(self, effect: Delivers) -> None:
        key = effect.key
        self.delivered_count += effect.count
        if effect.redelivered:
            self.redelivered_count += effect.count
        sink = self._sinks[session_of(key)]
        sink.on_delivers(
            self.uid,
            number_of(key),
            effect.delivery_seq,
            effect.first,
            effect.count,
            effect.redelivered,
        )

    def _left(self, first: i64, count: i64) -> None:
        """Messages are gone for good: free them, and journal it for those that are in the log."""
        self.settled_count += count
        seq = first
        end = first + count
        while seq < end:
            slot = self.store.find(seq)
            stop = min(end, slot.first + slot.count)
            if slot.journaled:
                index = slot.index + seq - slot.first
                self._journal.settle(self.uid, seq, stop - seq)
                self._journal.release(slot.chunk, index, index + stop - seq)
            self.store.release(seq, stop - seq)
            seq = stop

    def _answer(self, effect: Effect) -> None:
        uid = self.uid
        if isinstance(effect, Got):
            if effect.message > 0:
                self.delivered_count += 1
            sink = self._sinks[effect.session]
            sink.on_got(uid, effect.message, effect.redelivered, effect.ready)
        elif isinstance(effect, Attached):
            self._sinks[session_of(effect.key)].on_attached(uid, number_of(effect.key))
        elif isinstance(effect, AttachRefused):
            self._sinks[session_of(effect.key)].on_attach_refused(uid, number_of(effect.key))
        elif isinstance(effect, Detached):
            goes = self.auto_delete and self.machine.attached_count == 0
            sink = self._sinks[session_of(effect.key)]
            sink.on_detached(uid, number_of(effect.key), goes)
        elif isinstance(effect, Drained):
            sink = self._sinks[session_of(effect.key)]
            sink.on_drained(uid, number_of(effect.key), effect.delivery_count)
        elif isinstance(effect, Purged):
            self._sinks[effect.session].on_purged(uid, effect.count)
        elif isinstance(effect, Inspected):
            sink = self._sinks[effect.session]
            sink.on_inspected(uid, effect.ready, effect.consumer_count)
        elif isinstance(effect, LastConsumerGone):
            if self.auto_delete:
                self._turn.queue_unused(self)
        else:
            # A session on the same node neither repeats nor leaves out a number.
            assert not isinstance(effect, KnownAlready), "a local session repeated a publish"
            raise AssertionError(f"unexpected effect {type(effect).__name__}")

    # Bodies on disk

    def _read_ahead(self, slot: Slot) -> None:
        """Ask for the bytes of this slot and of the next ones, up to READ_AHEAD_BYTES."""
        room: i64 = READ_AHEAD_BYTES
        at: Slot | None = slot
        while at is not None and room > 0:
            chunk = at.chunk
            if chunk.data is None and chunk.durable and chunk not in self._loading:
                self._loading.add(chunk)
                room -= chunk.size()
                self._turn.load(self, chunk)
            at = self.store.after(at)

    def loaded(self, chunk: Chunk, data: bytes) -> None:
        """The bytes asked for by `Steps.load` are here."""
        self._loading.discard(chunk)
        if chunk.holders > 0 and chunk.data is None:
            chunk.data = data
            chunk.base = chunk.first_offset()
            self._budget.took(chunk)
        waiting = self._waiting
        self._waiting = {}
        for sink in waiting.values():
            sink.on_loaded(self.uid)

    def load_failed(self, chunk: Chunk) -> None:
        """The bytes cannot be read: whoever waits for them is told, and nobody else."""
        self._loading.discard(chunk)
        self.damaged = True
        waiting = self._waiting
        self._waiting = {}
        for sink in waiting.values():
            sink.on_unreadable(self.uid)

    # The log's questions (warren.storage.compaction.Owners)

    def _alive(self) -> list[tuple[int, int]]:
        """All messages of the queue, ready or checked out, as ascending (first, count)."""
        return self.live_ranges(1, self.machine.next_seq - 1)

    def live_ranges(self, first: i64, count: i64) -> list[tuple[int, int]]:
        """Which of these messages are in the queue, as ascending (first, count)."""
        runs = self.machine.ready.within(first, count)
        for consumer in self.machine.consumers.values():
            runs.extend(consumer.held.within(first, count))
        runs.sort()
        return runs

    def journaled_ranges(self) -> list[tuple[int, int]]:
        """All messages of the queue that the log must keep, as ascending (first, count)."""
        found: list[tuple[int, int]] = []
        for slot in self.store.slots():
            if slot.journaled:
                found.extend(self.live_ranges(slot.first, slot.count))
        return found

    def relocated(
        self, first: i64, count: i64, file_id: i64, data_offset: i64, offsets: bytes
    ) -> None:
        """The log moved these messages, all of one record, to another file."""
        slot = self.store.find_live(first)
        if slot is None:
            return  # They died meanwhile.
        moved = Chunk(0, None, 0, offsets, 0)
        moved.file_id = file_id
        moved.file_offset = data_offset
        moved.durable = True
        end = first + count
        assert slot.first <= first and end <= slot.first + slot.count
        pieces: list[tuple[int, int, int]] = []
        for piece, stop in ((slot.first, first), (first, end), (end, slot.first + slot.count)):
            if stop > piece:
                pieces.append((piece, stop - piece, self._live_count(piece, stop - piece)))
        self.store.relocate(moved, pieces, first)

    def _live_count(self, first: i64, count: i64) -> i64:
        total: i64 = 0
        for _, run in self.live_ranges(first, count):
            total += run
        return total

    # After a restart

    def recover(self, chunk: Chunk, first: i64, runs: list[tuple[int, int]]) -> None:
        """The log holds this chunk as first..; `runs` of message_seqs are alive."""
        for run_first, run_count in runs:
            self.store.add(run_first, chunk, run_first - first, run_count, True)

    def begin(self) -> None:
        """A new queue: nothing was delivered yet, and after a restart the log shall say so."""
        if self.durable:
            self._journal.mark(self.uid, 0)

    def end_cleanly(self) -> None:
        """The node stops in good order: the log shall know exactly what was delivered."""
        if self.durable:
            self._journal.mark(self.uid, self.machine.delivered_high)

    def recovered(self, last_seq: i64, mark: i64, redelivered_upto: i64) -> None:
        """All chunks are there: what is alive is ready again. `mark` is what the log knows."""
        runs = [(int(slot.first), int(slot.count)) for slot in self.store.slots()]
        self.machine.restore(runs, last_seq + 1, redelivered_upto)
        self._mark = mark

    # The end of the queue

    def delete(self) -> int:
        """The definition is gone: tell the sessions, free everything; return what was ready."""
        self._gone = True
        ready = self.machine.ready.count
        self.credit.peer_down_everywhere()
        for sink in list(self._sinks.values()):
            sink.on_gone(self.uid)
        for first, count in self._alive():
            self._left(first, count)
        self.store.clear()
        if self.durable:
            self._journal.deleted(self.uid)
        self._sinks = {}
        self._commands = []
        self._chunks = []
        return ready


def number_of(key: ConsumerKey) -> int:
    """The session's own number of the consumer."""
    return key & 0xFFFFFFFF

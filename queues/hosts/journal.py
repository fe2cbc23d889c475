"""How classic queues become durable: one journal for all queues of a node, on the shared log.

Takes what the queues of a turn did (publishes, settlements, delivered marks) and writes it in one
go at the end of the turn: a chunk once, however many queues hold it. A session hears its confirms
when the log says that the record is synced, never before. A chunk whose messages have all been
settled before it was written is not written at all: publish and settlement cancel each other.

If the log fails, nothing more is confirmed; the node stops. Compiled.
"""

from collections import deque
from collections.abc import Callable
from typing import Protocol, final

from mypy_extensions import i64

from queues.bodies.store import BodyBudget
from queues.machine.traits import encode_meta
from queues.message import Chunk
from queues.queue_host import SessionSink
from queues.sessions.credit import CreditActor


class Place(Protocol):
    """Where a record's data went."""

    @property
    def file_id(self) -> int: ...

    @property
    def offset(self) -> int: ...


class Log(Protocol):
    """What the journal needs of the write-ahead log (`warren.storage.wal.Wal`)."""

    @property
    def appended_lsn(self) -> int: ...

    @property
    def durable_lsn(self) -> int:
        """Synced up to there, from the start on; `on_durable` reports it to those that wait."""

    @property
    def pending_bytes(self) -> int: ...

    def append_publish(
        self,
        format_tag: int,
        info: int,
        now_ms: int,
        targets: list[tuple[int, int]],
        meta: bytes,
        offsets: bytes,
        data: bytes,
        base: int,
        label: bytes,
    ) -> Place: ...

    def append_settle(self, owner: int, ranges: list[tuple[int, int]]) -> object: ...

    def append_mark(self, owner: int, message_seq: int) -> object: ...

    def append_deleted(self, owner: int) -> object: ...

    def append_entry(self, owner: int, index: int, parts: list[bytes]) -> object: ...

    def release_log(self, owner: int, index: int) -> None: ...

    def release(self, file_id: int, byte_count: int) -> None: ...

    def note_freeing(self, count: int) -> None:
        """So many more queues are gone and have yet to release what they had; -1: one has."""

    def flush(self) -> None: ...


class Marked(Protocol):
    """A host that waits for its delivered mark."""

    def mark_durable(self, message_seq: i64) -> None: ...


class Proposer(Protocol):
    """A host that logs its commands as entries of a group."""

    def propose(self) -> None: ...


@final
class Receipt:
    """Confirms that wait for one sync. `number` goes up by one from receipt to receipt."""

    def __init__(self, number: i64) -> None:
        self.number: i64 = number
        self.lsn: i64 = 0
        self.sinks: list[SessionSink] = []
        self.uids: list[int] = []
        self.seqs: list[int] = []
        self.hosts: list[CreditActor] = []
        self.counts: list[int] = []
        self.chunks: list[Chunk] = []
        self.marks: list[tuple[int, Marked]] = []
        self.calls: list[Callable[[], None]] = []

    def is_empty(self) -> bool:
        if len(self.calls) > 0:
            return False
        return len(self.sinks) == 0 and len(self.chunks) == 0 and len(self.marks) == 0


@final
class Journal:
    """Publishes, settlements and marks of one turn, and the confirms that wait."""

    def __init__(self, log: Log, budget: BodyBudget, credit: CreditActor) -> None:
        self.credit = credit
        self._log = log
        self._budget = budget
        self._chunks: list[Chunk] = []
        self._receipt = Receipt(1)
        self._waiting: deque[Receipt] = deque()
        self.confirmed_receipt: i64 = 0  # the number of the last one that was confirmed
        self._settled: dict[int, list[tuple[int, int]]] = {}
        self._marks: dict[int, tuple[int, Marked]] = {}
        self._proposers: list[Proposer] = []
        self._deleted: list[int] = []
        self._entries: list[tuple[int, int, bytes]] = []  # owner, index, content
        self._appended_lsn: i64 = 0  # at the end of the last turn
        self._flushed_lsn: i64 = 0
        self._settling = False  # `settle_later` was asked
        # Calls back after a few milliseconds; None: settlements do not wait.
        self.settle_later: Callable[[Callable[[], None]], object] | None = None
        self.confirmed_lsn: i64 = 0

    def publish(self, chunk: Chunk, uid: i64, message_first: i64) -> None:
        """The chunk is this queue's message_first..; written at the end of the turn."""
        if chunk.owner == 0:
            chunk.owner = uid
            chunk.owner_first = message_first
            self._chunks.append(chunk)
        elif chunk.others is None:
            chunk.others = [(uid, message_first)]
        else:
            chunk.others.append((uid, message_first))

    def confirm(
        self, sink: SessionSink, uid: i64, upto_seq: i64, host: CreditActor, count: i64
    ) -> i64:
        """Tell the session once everything journaled so far is synced; `confirmed_receipt` is then
        at least the number returned.

        `host` is the queue's credit account; the `count` messages are charged to it until then.
        """
        host.send(self.credit, count)
        receipt = self._receipt
        receipt.hosts.append(host)
        receipt.counts.append(count)
        receipt.sinks.append(sink)
        receipt.uids.append(uid)
        receipt.seqs.append(upto_seq)
        return receipt.number

    def settle(self, uid: int, first: i64, count: i64) -> None:
        """Messages first.. of this queue are settled for good."""
        runs = self._settled.get(uid)
        if runs is None:
            self._settled[uid] = [(first, count)]
            return
        last_first, last_count = runs[len(runs) - 1]
        if last_first + last_count == first:
            runs[len(runs) - 1] = (last_first, last_count + count)
        else:
            runs.append((first, count))

    def mark(self, uid: int, message_seq: int, host: Marked) -> None:
        """Messages up to this one may have been delivered (`redelivered` after a crash)."""
        self._marks[uid] = (message_seq, host)

    def entry_of(self, owner: int, index: int, content: bytes) -> None:
        """Write this entry of an owner without a group behind the messages of this turn. It stays
        until `release_entries`."""
        self._entries.append((owner, index, content))

    def release_entries(self, owner: int, index: int) -> None:
        """Entries of the owner up to this one are not needed."""
        self._entries = [each for each in self._entries if each[0] != owner or each[1] > index]
        self._log.release_log(owner, index)

    def entry(self, proposer: Proposer) -> None:
        """Have it propose at the end of the turn, behind the messages that its entry speaks of."""
        self._proposers.append(proposer)

    def release(self, chunk: Chunk, byte_count: i64) -> None:
        """One queue needs so many bytes of the chunk's record, of whole messages, no more."""
        if chunk.file_id > 0:
            self._log.release(chunk.file_id, byte_count)
        else:
            chunk.unclaimed += byte_count

    def freeing(self, count: int) -> None:
        """See `Log.note_freeing`."""
        self._log.note_freeing(count)

    def deleted(self, uid: int) -> None:
        """The queue is gone; it has released everything before, or does so in the next turns."""
        self._settled.pop(uid, None)
        self._marks.pop(uid, None)
        self._deleted.append(uid)

    def end_turn(self, now_ms: i64) -> None:
        """Write what the turn did, and hand it to the disk.

        No client waits for settlements: alone, they are gathered up to `settle_later` of the host,
        so that acknowledgements cost neither a record nor a sync each where no client publishes.
        """
        log = self._log
        urgent = log.appended_lsn != self._appended_lsn  # Log groups have appended.
        if len(self._chunks) > 0:
            self._write_chunks(now_ms)
            urgent = True
        if len(self._entries) > 0:
            for owner, index, content in self._entries:
                log.append_entry(owner, index, [content])
            self._entries = []
            urgent = True
        if len(self._proposers) > 0:
            for proposer in self._proposers:
                proposer.propose()
            self._proposers = []
            urgent = True
        seldom = len(self._marks) > 0 or len(self._deleted) > 0
        if urgent or seldom or not self._receipt.is_empty() or self.settle_later is None:
            self._write_settled()
        elif len(self._settled) > 0 and not self._settling:
            self._settling = True
            self.settle_later(self.settle_now)
        if seldom:
            self._write_seldom()
        appended: i64 = log.appended_lsn
        self._appended_lsn = appended
        if not self._receipt.is_empty():
            self._receipt.lsn = appended
            self._waiting.append(self._receipt)
            self._receipt = Receipt(self._receipt.number + 1)
        if appended != self._flushed_lsn:
            self._flush()
        if len(self._waiting) > 0:
            durable = max(self.confirmed_lsn, i64(log.durable_lsn))
            if self._waiting[0].lsn <= durable:  # Nothing is written that would tell of it.
                self.on_durable(durable)

    def _write_settled(self) -> None:
        for uid, runs in self._settled.items():
            self._log.append_settle(uid, runs)
        if len(self._settled) > 0:
            self._settled = {}

    def settle_now(self) -> None:
        """Settlements have waited long enough, or the log is about to tidy up."""
        self._settling = False
        self._write_settled()
        self._appended_lsn = self._log.appended_lsn
        if self._appended_lsn != self._flushed_lsn:
            self._flush()

    def _write_seldom(self) -> None:
        """Marks, and queues that are gone."""
        log = self._log
        for uid, (message_seq, host) in self._marks.items():
            log.append_mark(uid, message_seq)
            self._receipt.marks.append((message_seq, host))
        self._marks = {}
        for uid in self._deleted:
            log.append_deleted(uid)
        self._deleted = []

    def _flush(self) -> None:
        self._flushed_lsn = self._appended_lsn
        self._log.flush()

    def _write_chunks(self, now_ms: i64) -> None:
        for chunk in self._chunks:
            targets = [(int(chunk.owner), int(chunk.owner_first))]
            if chunk.others is not None:
                targets.extend(chunk.others)
                chunk.others = None
            chunk.owner = 0
            if chunk.data is None:
                continue  # settled already, by every queue that took it
            self._write(chunk, targets, now_ms)
        self._chunks = []

    def _write(self, chunk: Chunk, targets: list[tuple[int, int]], now_ms: i64) -> None:
        data = chunk.data
        assert data is not None
        assert chunk.file_id == 0, "a chunk has one place"
        traits = chunk.traits
        meta = b"" if traits is None else encode_meta(traits, chunk.count())
        place = self._log.append_publish(
            chunk.format_tag,
            chunk.info,
            now_ms,
            targets,
            meta,
            chunk.offsets,
            data,
            chunk.base,
            chunk.names,
        )
        chunk.file_id = place.file_id
        chunk.file_offset = place.offset
        if chunk.unclaimed > 0:  # Some messages were settled before they were written.
            self._log.release(chunk.file_id, chunk.unclaimed)
        self._receipt.chunks.append(chunk)

    def write_now(self, chunk: Chunk, uid: i64, message_first: i64, now_ms: i64) -> None:
        """The chunk, a new one of this queue alone, goes into the log before all that is appended
        from now on: a follower's entry is behind its bodies."""
        self._write(chunk, [(uid, message_first)], now_ms)

    def when_durable(self, done: Callable[[], None]) -> None:
        """Call back when everything that is in the log, or journaled, by now is synced. The
        caller makes sure that a turn ends."""
        self._receipt.calls.append(done)

    def on_durable(self, lsn: i64) -> None:
        """Everything up to `lsn` is synced: confirm, and let bodies over the budget go."""
        self.confirmed_lsn = lsn
        waiting = self._waiting
        budget = self._budget
        while len(waiting) > 0 and waiting[0].lsn <= lsn:
            receipt = waiting.popleft()
            self.confirmed_receipt = receipt.number
            for i in range(len(receipt.sinks)):
                self.credit.ack(receipt.hosts[i], receipt.counts[i])
                receipt.sinks[i].on_confirms(receipt.uids[i], receipt.seqs[i])
            for call in receipt.calls:
                call()
            for message_seq, marked in receipt.marks:
                marked.mark_durable(message_seq)
            for chunk in receipt.chunks:
                chunk.durable = True
                kept = chunk.pinned or chunk.data is None or chunk.holders == 0
                if not kept and (chunk.lazy or budget.is_over()):
                    budget.evict(chunk)

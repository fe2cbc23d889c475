"""What every queue host on this node has: the machine, the bodies, the counters, the view.

A host decides when commands are durable: `ClassicHost` applies them in the turn in which they come
and journals messages, `QuorumMember` applies what its group has committed. Both let `QueueCore`
keep the rest: the `Fifo` with its options, the `Store` of bodies and their reads, messages that
wait to be dead-lettered, what the log asks about its messages, and the end of the queue. The core
does not know sessions; a host passes the effects that concern sessions to their sinks itself.

Messages that are to be dead-lettered stay in the store, and in the log, until they are published
(`queues.dead_lettering.dead_letter_reads`). The core steps itself for that, and to end a hold of
publishers (`queues.sessions.balance`) in time. Compiled.
"""

from typing import Final, final

from mypy_extensions import i64

from queues.bodies.extents import Columns, data_begin
from queues.bodies.store import SPAN_SLOTS, BodyBudget, Slot, Store
from queues.conversion.annotated import annotated_view
from queues.dead_lettering.dead_letter_reads import Burying
from queues.hosts.body_reads import Reading
from queues.hosts.evaluating import NO_COMMANDS, Evaluating
from queues.hosts.found_state import Found, note_found, note_stretch
from queues.hosts.host_interfaces import DeadLetterPublisher, Steps, Waking
from queues.hosts.journal import Journal
from queues.hosts.message_digests import DUPLICATE_IDS, digests_of, groups_of
from queues.hosts.size_recount import sizes_in
from queues.hosts.sweeping import Remains, Sweep, runs_both, stored_runs
from queues.machine.commands import Command, Configure
from queues.machine.effects import (
    LEFT_ACCEPTED,
    Delivers,
    Effect,
    Got,
    LastConsumerGone,
    Left,
    QueueExpired,
    Refused,
    SlowConsumer,
)
from queues.machine.fifo import Fifo
from queues.machine.options import Options
from queues.machine.pending_dead_letters import DEATHS
from queues.machine.traits import Traits, decode_meta, traits_of
from queues.message import Chunk
from queues.queue_host import SessionSink, View
from queues.runs.seqset import SeqSet
from queues.sessions.balance import LEAD_MIN, Balance, lead_max_of
from queues.sessions.counts import Capacity
from queues.sessions.credit import CreditActor, CreditSpec
from warren.wire.amqp091.events import INFO_EXPIRATION, INFO_PERSISTENT, INFO_PRIORITY

DEFAULT: Final = 0  # modes
BRAKE: Final = CreditSpec(1, 1)
LAZY: Final = 1  # bodies do not stay in memory once they are on disk


@final
class QueueCore:
    """See the module. `quorum`: commands come from a replicated log, which also has the bodies."""

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
        options: Options | None = None,
        mode: i64 = DEFAULT,
        quorum: bool = False,
        dead_letter_publisher: DeadLetterPublisher | None = None,
    ) -> None:
        self.uid: i64 = uid
        self.vhost = vhost
        self.name = name
        self.durable = durable
        self.auto_delete = auto_delete
        self.mode: i64 = mode
        self.quorum = quorum
        self.journal = journal
        self.budget = budget
        self.turn = turn
        self.credit = credit
        self.store = Store(budget)
        self.machine = Fifo(options)
        if quorum:
            self.machine.begin_streams()
        self.options = self.machine.options  # once all commands that were handed down are applied
        self.capacity = Capacity()
        self.reading = Reading(uid, self.store, budget, turn, not quorum)
        self.dead_letter_publisher = dead_letter_publisher
        self.promises: SeqSet | None = None  # of a quorum queue: not applied yet, with bodies here
        if quorum:
            self.promises = SeqSet()
        self.sweeps: list[Sweep] = []  # of a quorum queue: what snapshots have made dead
        self.settles = True  # False: the same messages may come again, so the log keeps them
        self.is_gone = False
        self._pending = Burying(self.reading, self.store, turn)
        self._evaluating: Evaluating | None = None  # once a consumer had a selector
        self._closes_publisher = False  # once no message waits to be dead-lettered any more
        self._marked = False
        self._found: list[Found] = []  # what a recovery has found so far
        self._balance: Balance | None = None  # once messages waited although there were consumers
        self._brake: CreditActor | None = None  # blocks `credit` while publishers are held
        self.published_count: i64 = 0
        self.delivered_count: i64 = 0
        self.accepted_count: i64 = 0
        self.redelivered_count: i64 = 0
        self.refused_count: i64 = 0
        self.got_count: i64 = 0  # of those delivered, by basic.get

    @property
    def ready_count(self) -> int:
        return self.machine.ready.count

    @property
    def checked_out_count(self) -> int:
        return self.machine.checked_out

    @property
    def held_bytes(self) -> int:
        """Bytes of its messages, as its counts have them: of a quorum queue those that its machine
        has, and not those of entries that are not applied yet."""
        if self.promises is None or self.promises.count == 0:
            return self.store.live_bytes
        return self.store.live_bytes - self.store.bytes_of(self.promises.runs())

    @property
    def consumer_count(self) -> int:
        return self.machine.attached_count

    @property
    def single_active(self) -> bool:
        return self.machine.options.single_active

    # Messages that come in

    def expect(self, chunk: Chunk) -> None:
        """Keep the chunk until it is applied, whatever other queues do with it meanwhile."""
        self._set_lazy(chunk)
        self.store.reserve(chunk)

    def _set_lazy(self, chunk: Chunk) -> None:
        """The queue is about to hold the chunk, which is lazy if only lazy queues do."""
        if self.mode != LAZY:
            chunk.lazy = False
        elif chunk.holders == 0:
            chunk.lazy = True

    def traits(self, chunk: Chunk) -> Traits | None:
        """Return what the machine must know of these messages."""
        traits = self._common_traits(chunk)
        address = self.options.address
        if address is None:
            return traits
        ids: bytes | None = None
        keys: bytes | None = None
        if self.options.id_cache_size > 0:
            ids = digests_of(chunk, DUPLICATE_IDS)
        if address.last_value_key:
            keys = digests_of(chunk, (address.last_value_key,))
        groups = groups_of(chunk) if self.options.group_buckets > 0 else None
        if ids is None and keys is None and groups is None:
            return traits
        return (Traits() if traits is None else traits).with_digests(ids, keys, groups)

    def _common_traits(self, chunk: Chunk) -> Traits | None:
        options = self.options
        sized = options.counts_bytes
        ranked = options.levels > 1 and (chunk.info & INFO_PRIORITY) != 0
        if not sized and not ranked and (chunk.info & INFO_EXPIRATION) == 0:
            return None
        known = chunk.traits
        if known is None or (sized and known.sizes is None):
            known = traits_of(chunk, sized)
            chunk.traits = known
        return known

    def wanted(self, options: Options) -> Options:
        """Options that the definitions ask for, with what the consumers need beside them."""
        if options.counts_bytes or not self.machine.limiter.wants_sizes():
            return options
        return options.counting()

    def reconfigured(self, options: Options, next_seq: i64, chunks: list[Chunk]) -> Configure:
        """Return the command that sets the options. `chunks`, numbered from `next_seq` on, were
        handed down and are not applied yet."""
        begins = options.counts_bytes and not self.options.counts_bytes
        self.options = options
        return Configure(options, sizes_in(self.store, next_seq, chunks) if begins else None)

    # Messages that go out

    def view(self, sink: SessionSink, first: i64, count: i64) -> View | None:
        """See `QueueHost.view`. None as well while the log does not have the delivered mark yet
        that a delivery of these messages needs."""
        noted = self.machine.annotations
        view = self.reading.view(self, sink, first, count)
        return view if view is None or len(noted.words) == 0 else annotated_view(view, noted)

    def bytes_of(self, sink: SessionSink, first: i64, count: i64) -> View | None:
        """As `view`, of any messages in the store, and as they are stored."""
        return self.reading.view(self, sink, first, count)

    def count_answer(self, effect: Effect) -> None:
        """Count what a session is answered."""
        if isinstance(effect, Delivers):
            self.count_delivered(effect)
        elif isinstance(effect, Got) and effect.message > 0:
            self.delivered_count += 1
            self.got_count += 1
        elif isinstance(effect, Refused):
            self.refused_count += effect.count

    def count_delivered(self, effect: Delivers) -> None:
        self.delivered_count += effect.count
        if effect.redelivered:
            self.redelivered_count += effect.count

    def has_changed(self, effect: Effect) -> bool:
        """Whether the effect concerns the queue itself, and is carried out: its last consumer is
        gone, it has expired, or a consumer is slow."""
        if isinstance(effect, SlowConsumer):
            self.turn.consumer_slow(int(self.uid), effect)
            return True
        if not isinstance(effect, (LastConsumerGone, QueueExpired)):
            return False
        if self.auto_delete or isinstance(effect, QueueExpired):
            self.turn.queue_unused(int(self.uid))
        return True

    def left(self, effect: Left) -> None:
        """Messages left the queue: dead-letter or release them."""
        reason = effect.reason
        if reason == LEFT_ACCEPTED:
            self.accepted_count += effect.count
        if self.dead_letter_publisher is not None and reason in DEATHS:
            self._pending.died(effect)
        else:
            self.release_found(effect.first, effect.count)

    def release(self, first: i64, count: i64) -> None:
        """Free the bodies of these messages, and journal the settlement of those in the log."""
        seq = first
        end = first + count
        while seq < end:
            slot = self.store.covering(seq)
            stop = min(end, slot.first + slot.count)
            if slot.journaled:
                if self.settles:
                    self.journal.settle(self.uid, seq, stop - seq)
                self.journal.release(slot.chunk, slot.bytes_of(seq, stop))
            self.store.release(seq, stop - seq)
            seq = stop

    def release_found(self, first: i64, count: i64) -> None:
        """Release those of these messages that are in the store: a member of a group that was
        behind never got bodies that were dead by then."""
        if self.promises is None:
            self.release(first, count)
            return
        for run_first, run_count in self.store.spans_within(first, count):
            self.release(run_first, run_count)

    # Publishers and consumers

    def pace_publishers(self, now_ms: i64) -> None:
        """Hold publishers while consumers catch up. Called after each batch."""
        machine = self.machine
        ready = machine.roster.servable(machine.ready.count)
        balance = self._balance
        if balance is None:
            if ready <= LEAD_MIN or machine.attached_count == 0:
                return
            balance = Balance(self.published_count - self.delivered_count)
            self._balance = balance
        elif machine.attached_count == 0:
            self.forget_balance()
            return
        unsettled = machine.checked_out
        lead_max = lead_max_of(ready + unsettled, self.store.live_bytes)
        held = balance.is_holding
        due_ms = balance.due_ms
        accepted = self.published_count
        if balance.judge(now_ms, accepted, self.delivered_count, ready, unsettled, lead_max):
            if not held:
                if self._brake is None:
                    self._brake = CreditActor("consumers", BRAKE)
                self.credit.send(self._brake, 1)
            if balance.due_ms != due_ms:
                self.turn.wake_host(self, balance.due_ms)
        elif held:
            self._release_publishers()

    def _release_publishers(self) -> None:
        assert self._brake is not None
        self._brake.ack(self.credit, 1)

    def forget_balance(self) -> None:
        """Release the publishers: no consumers are served here any more."""
        balance = self._balance
        self._balance = None
        if balance is not None and balance.is_holding:
            self._release_publishers()

    # Selectors

    def evaluated(self, host: Waking, end: i64) -> list[Command]:
        """What selectors of consumers match of the messages up to `end`, some of them: commands for
        the machine. `host` gives them to it, and is woken where bodies are read first."""
        if len(self.machine.ready.selections) == 0:
            return NO_COMMANDS
        evaluating = self._evaluating
        if evaluating is None:
            evaluating = Evaluating(self, self.store, self.budget, self.turn, host)
            self._evaluating = evaluating
        return evaluating.work(self.machine, end)

    def wants_evaluation(self, end: i64) -> bool:
        """Whether `evaluated` has something to do."""
        if len(self.machine.ready.selections) == 0:
            return False
        evaluating = self._evaluating
        return evaluating is None or evaluating.wants(self.machine, end)

    def evaluate_again(self) -> None:
        """What was evaluated and is not applied yet is lost."""
        self._evaluating = None

    # Dead letters

    @property
    def is_dead_lettering(self) -> bool:
        """Whether messages wait to be dead-lettered."""
        return len(self._pending.runs) > 0

    def dead_letter_to(self, publisher: DeadLetterPublisher | None) -> None:
        """Dead-letter with this publisher from now on. None: with none, once the messages that
        wait are published by the old one."""
        old = self.dead_letter_publisher
        self._closes_publisher = publisher is None and len(self._pending.runs) > 0
        if old is not publisher and old is not None and not self._closes_publisher:
            old.close()
        if not self._closes_publisher:
            self.dead_letter_publisher = publisher

    def publish_dead_letters(self, now_ms: i64) -> None:
        """Publish a bounded part of the messages that wait to be dead-lettered, if any."""
        if len(self._pending.runs) == 0:
            return
        publisher = self.dead_letter_publisher
        assert publisher is not None
        if self._pending.bury(self, publisher, now_ms) and self._closes_publisher:
            self._closes_publisher = False
            self.dead_letter_publisher = None
            publisher.close()

    def step(self, now_ms: i64) -> None:
        """Publish further dead letters; end a hold of publishers that is over."""
        self._marked = False
        if self.is_gone:
            return
        self.publish_dead_letters(now_ms)
        balance = self._balance
        if balance is not None and balance.is_holding:
            self.pace_publishers(now_ms)
            if balance.is_holding:
                self.turn.wake_host(self, balance.due_ms)

    def on_timer(self) -> None:
        self._mark()

    def _mark(self) -> None:
        if not self._marked:
            self._marked = True
            self.turn.mark_host(self)

    # Bodies on disk

    def loaded(self, chunk: Chunk, data: bytes) -> None:
        """The bytes asked for by `Steps.load` are here."""
        self.reading.loaded(chunk, data)
        if self._evaluating is not None:
            self._evaluating.loaded()
        if len(self._pending.runs) > 0:
            self._mark()

    def load_failed(self, chunk: Chunk) -> None:
        """The bytes cannot be read: tell only the sessions that wait for them.

        Messages that wait to be dead-lettered and begin with these are not lost for it: the others
        are published first, and these are tried again later.
        """
        self.reading.load_failed(chunk)
        if self._evaluating is not None:
            self._evaluating.load_failed(chunk)
        if self._pending.load_failed(chunk):
            self._mark()

    # The log's questions (warren.storage.compaction.Owners)

    def live_ranges(self, first: i64, count: i64) -> list[tuple[int, int]]:
        """Of which of these messages the bodies are kept, as ascending (first, count). These are
        also messages that are not applied yet, or are dead and not swept."""
        runs = self._kept_within(first, count)
        return runs if self.promises is None else stored_runs(self.store, runs)

    def live_in(self, first: i64, count: i64, file_id: i64) -> list[tuple[int, int]]:
        """The same, of those whose copy that counts is in this file of the log."""
        runs: list[tuple[int, int]] = []
        for run_first, run_count in self._kept_within(first, count):
            runs.extend(self.store.spans_in(file_id, run_first, run_count))
        return runs

    def _kept_within(self, first: i64, count: i64) -> list[tuple[int, int]]:
        runs = self._standing_within(first, count)
        if self.promises is not None:
            runs.extend(self.promises.within(first, count))
        for sweep in self.sweeps:
            runs.extend(sweep.within(first, count))
        runs.sort()
        return runs

    def standing_ranges(self, first: i64, count: i64) -> list[tuple[int, int]]:
        """Which of these messages are in the queue, or leave it and are not published as dead
        letters yet, as ascending (first, count)."""
        runs = self._standing_within(first, count)
        runs.sort()
        return runs if self.promises is None else stored_runs(self.store, runs)

    def _standing_within(self, first: i64, count: i64) -> list[tuple[int, int]]:
        """In no order."""
        runs = self.machine.alive_within(first, count)
        for pending_first, pending_count, _ in self._pending.runs:
            start = max(first, i64(pending_first))
            end = min(first + count, i64(pending_first) + pending_count)
            if start < end:
                runs.append((start, end - start))
        return runs

    def journaled_from(
        self, first: i64, slots_max: i64 = SPAN_SLOTS
    ) -> tuple[list[tuple[int, int]], int]:
        """Messages from `first` on that the log must keep, as ascending (first, count), a bounded
        part; and the number to go on at, or 0 if these were all.
        """
        spans, following = self.store.journaled_spans(first, slots_max)
        if len(spans) == 0:
            return [], following
        begin = spans[0][0]  # One question, for there may be thousands of spans of one message.
        last = spans[len(spans) - 1]
        return runs_both(self.live_ranges(begin, last[0] + last[1] - begin), spans), following

    def relocated(
        self,
        first: i64,
        count: i64,
        source: tuple[int, int],
        target: tuple[int, int],
        offsets: bytes,
    ) -> list[tuple[int, int]]:
        """The log copied these messages, all of one record, to another file: those that are alive
        and were there are there now, and are answered."""
        moved: list[tuple[int, int]] = []
        slot = self.store.find_live(first)
        if slot is not None and is_at(slot, first, source):
            self._move(slot, first, count, target, offsets)
            moved = self.live_ranges(first, count)
        self.store.tidy_moved()
        return moved

    def _move(
        self, slot: Slot, first: i64, count: i64, target: tuple[int, int], offsets: bytes
    ) -> None:
        """Part of a slot is in another file now."""
        moved = Chunk(0, None, 0, offsets, 0)
        moved.file_id, moved.file_offset = target
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

    def recover(
        self, chunk: Chunk, first: i64, runs: list[tuple[int, int]], meta: bytes, arrived_ms: i64
    ) -> None:
        """The log holds this chunk as first..; `runs` of message_seqs are alive."""
        traits = decode_meta(meta) if len(meta) > 0 else None
        self._set_lazy(chunk)
        for run_first, run_count in runs:
            self.store.add(run_first, chunk, run_first - first, run_count, True)
            kept = self.mode != LAZY or (chunk.info & INFO_PERSISTENT) != 0
            found = Found(run_first, run_count, run_first - first, traits, arrived_ms, kept)
            note_found(self._found, found, self._times_arrivals())

    def recover_stretch(self, first: i64, count: i64, whole: Chunk, columns: Columns) -> None:
        """The log holds records one behind the other whose messages are all alive, as first..

        `whole` says what is the same for all of them.
        """
        kept = self.mode != LAZY or (whole.info & INFO_PERSISTENT) != 0
        whole.lazy = self.mode == LAZY
        self.store.add_stretch(first, whole, columns)
        note_stretch(self._found, columns, first, kept, self._times_arrivals())

    def _times_arrivals(self) -> bool:
        """Whether messages expire by when they arrived."""
        options = self.machine.options
        return options.ttl_ms >= 0 or options.bounds_expiry

    def take_found(self) -> list[Found]:
        """Return what a recovery has found, in no order."""
        found = self._found
        self._found = []
        return found

    def new_machine(self) -> Fifo:
        """Return an empty machine with the options of this one."""
        machine = Fifo(self.machine.options)
        if self.quorum:
            machine.begin_streams()
        return machine

    def begin_group(self) -> None:
        """From now on the queue's commands come from a replicated log, which has all its messages.
        Sessions keep what they have (`Fifo.begin_streams`)."""
        self.quorum = True
        self.mode = DEFAULT
        self.promises = SeqSet()
        self.machine.begin_streams()
        self.evaluate_again()
        self.reading.heed_no_marks()

    def end_group(self) -> None:
        """From now on the queue is one of this node alone: the log has its messages, and what is
        settled of them. Sessions whose commands have numbers go on with them."""
        assert self.promises is not None and self.promises.count == 0 and len(self.sweeps) == 0
        self.quorum = False
        self.promises = None
        self.settles = True
        self.evaluate_again()
        self.reading.heed_marks()

    def restore(self, last_seq: i64, redelivered_upto: i64) -> None:
        """Make the messages ready that were found in the log, which has given numbers up to
        `last_seq`. Those up to `redelivered_upto` may have been delivered before."""
        found = sorted(self.take_found(), key=lambda each: each.first)
        if self.quorum:  # Its log is damaged, so its snapshot and entries do not count.
            self.machine = self.new_machine()
        for each in found:
            if each.kept:
                self.machine.restore_run(
                    each.first, each.count, each.traits, each.index, each.arrived_ms
                )
        self.machine.end_restore(last_seq + 1, redelivered_upto)
        self.options = self.machine.options
        for each in found:
            if not each.kept:  # A transient message of a lazy queue.
                self.release(each.first, each.count)

    # The end of the queue

    def delete(self, sinks: list[SessionSink], for_good: bool) -> int:
        """Tell the sessions that the queue is gone and free everything; return what was ready.

        Not `for_good`: this node may get another member of its group.
        """
        self.settles = False
        self.is_gone = True
        ready = self.machine.ready.count
        self.credit.peer_down_everywhere()
        for sink in sinks:
            sink.on_gone(self.uid)
        if self.promises is None:
            self.promises = SeqSet()
        for first, count, _ in self._pending.runs:
            self.promises.add(first, count)
        for found in self._found:  # Of a damaged queue, for the machine knows nothing of it.
            self.release_found(found.first, found.count)
        self._pending.clear()
        if self.dead_letter_publisher is not None:
            self.dead_letter_publisher.close()
        Remains(self, self.turn).step(0)
        if self.durable and for_good:
            self.journal.deleted(self.uid)
        return ready


def is_at(slot: Slot, seq: i64, place: tuple[int, int]) -> bool:
    """Whether this message of the slot is there: file, offset."""
    chunk = slot.chunk
    file_id: i64 = place[0]
    offset: i64 = place[1]
    at = data_begin(chunk, slot.index + seq - slot.first, False)
    return chunk.file_id == file_id and at == offset

"""Host of a quorum queue: every command is an entry of its log group before it is applied.

Takes batches of commands as any queue host; gives them to the group as one entry per turn, and lets
the machine have them when they are committed, so that whatever a client hears is on disk at a
majority (P-06) and the machine can be built again from the log: consumers, counts of deliveries and
all. On a single node the group has one member (`raft.one_member`); bodies are in the node's log
beside the entries, written before them, under the message_seqs that the machine will give them.

An entry is version u8, now_ms u64, count u32, and for each command its length u32 and its bytes
(`queues.commands`), little-endian (docs/formats/queue-commands.md). Around a `ClassicHost` in mode
LOGGED, which owns machine, bodies, sinks and counts. After SNAPSHOT_ENTRIES entries the machine is
written down, slice by slice while it goes on, and the log before that may go. Compiled.
"""

from collections import deque
from collections.abc import Callable
from struct import Struct
from typing import Final, Protocol, final

from mypy_extensions import i64

from queues.commands import Command, Enqueue, Restarted, Tick, decode, encode
from queues.credit import CreditActor
from queues.effects import Dying
from queues.expiry import FAR
from queues.fifo_snapshot import Frozen, decode_fifo, encode_fifo
from queues.host import SessionSink, View
from queues.hosts.classic import ClassicHost, Steps, Undertaker
from queues.hosts.journal import Journal
from queues.hosts.sexton import Sexton
from queues.message import Chunk
from queues.options import Options

SNAPSHOT_ENTRIES: Final = 4096
ENTRY_VERSION: Final = 1
ENTRY_HEAD: Final = Struct("<BQI")
LENGTH: Final = Struct("<I")
WORK_SLICES: Final = 4  # of a snapshot, encoded in one turn


class Group(Protocol):
    """What it needs of its log group (`raft.one_member.OneMemberGroup`)."""

    @property
    def snapshot_index(self) -> int: ...

    @property
    def is_saving(self) -> bool: ...

    def load(self) -> bytes | None: ...

    def start(self) -> None: ...

    def propose(self, parts: list[bytes]) -> int: ...

    def snapshot(self, index: int, state: list[bytes]) -> None: ...

    def restart_at(self, state: list[bytes], done: Callable[[], None]) -> None: ...

    def close(self) -> None: ...


@final
class Batch:
    """Commands that were proposed together, and the chunks of those that enqueue."""

    def __init__(self, now_ms: i64, commands: list[Command], chunks: list[Chunk]) -> None:
        self.now_ms: i64 = now_ms
        self.commands = commands
        self.chunks = chunks


@final
class QuorumHost:
    """A quorum queue whose leader is this node."""

    def __init__(
        self,
        inner: ClassicHost,
        journal: Journal,
        turn: Steps,
        snapshot_entries: i64 = SNAPSHOT_ENTRIES,
    ) -> None:
        self.inner = inner
        self.uid: i64 = inner.uid
        self.vhost = inner.vhost
        self.name = inner.name
        self._journal = journal
        self._turn = turn
        self._group: Group | None = None
        self._started = False
        self._commands: list[Command] = []
        self._chunks: list[Chunk] = []
        self._stepped: deque[Batch] = deque()  # to be proposed at the end of the turn
        self._proposed: deque[Batch] = deque()
        self._next_seq: i64 = 1  # what the next message will be, once all is applied
        self._marked = False
        self._timer_ms: i64 = FAR
        self._snapshot_entries: i64 = snapshot_entries
        self._frozen: Frozen | None = None  # the machine, while it is being encoded,
        self._frozen_index: i64 = 0  # as it was behind that entry,
        self._slices: list[bytes] = []  # and what there is of it
        self._sexton: Sexton | None = None  # once something died that is kept (D-08)
        inner.on_dying = self._died

    @property
    def quorum(self) -> bool:
        return True

    @property
    def single_active(self) -> bool:
        return self.inner.single_active

    @property
    def is_gone(self) -> bool:
        return self.inner.is_gone

    @property
    def ready_count(self) -> int:
        return self.inner.ready_count

    @property
    def checked_out_count(self) -> int:
        return self.inner.checked_out_count

    @property
    def consumer_count(self) -> int:
        return self.inner.consumer_count

    @property
    def credit(self) -> CreditActor:
        return self.inner.credit

    # Handed down by sessions

    def publish(self, sink: SessionSink, chunk: Chunk, first_seq: i64) -> None:
        """See QueueHost. Every message is persistent here."""
        inner = self.inner
        count = chunk.count()
        sink.credit.send(inner.credit, count)
        inner.adopt(sink)
        inner.expect(chunk)
        traits = inner.traits(chunk)
        self._chunks.append(chunk)
        self._commands.append(Enqueue(sink.session, first_seq, count, traits))
        self._mark()

    def command(self, sink: SessionSink, command: Command) -> None:
        """See QueueHost."""
        self.inner.adopt(sink)
        self._commands.append(command)
        self._mark()

    def configure(self, options: Options, undertaker: Undertaker | None) -> None:
        """As that of a classic queue, by way of the log; not before the queue has started."""
        inner = self.inner
        inner.bury_by(undertaker)
        if self._started and not inner.options.same(options):
            promised = self._promised()
            first = self._next_seq - sum([chunk.count() for chunk in promised])
            command = inner.reconfigured(options, first, [*promised, *self._chunks])
            self._commands.append(command)
            self._mark()

    def _promised(self) -> list[Chunk]:
        """What has its numbers and is not applied yet."""
        return [chunk for batch in (*self._proposed, *self._stepped) for chunk in batch.chunks]

    def view(self, sink: SessionSink, first: i64, count: i64) -> View | None:
        return self.inner.view(sink, first, count)

    def _mark(self) -> None:
        if not self._marked:
            self._marked = True
            self._turn.mark_host(self)

    def on_timer(self) -> None:
        self._timer_ms = FAR
        self._mark()

    # The turn

    def step(self, now_ms: i64) -> None:
        """Make an entry of what was handed down, or of what time brings about."""
        self._marked = False
        machine = self.inner.machine
        if self.inner.is_gone or not self._started:
            return
        if self._frozen is not None:
            self._encode(self._frozen)
        if len(self._commands) == 0:
            due = machine.has_more() or now_ms >= machine.due_ms
            if len(self._proposed) > 0 or len(self._stepped) > 0:
                return  # What is under way brings the time with it.
            if not due:
                self._set_timer()
                return
            self._commands.append(Tick())
        self._write_bodies()
        batch = Batch(now_ms, self._commands, self._chunks)
        self._commands = []
        self._chunks = []
        self._stepped.append(batch)
        self._journal.entry(self)

    def _write_bodies(self) -> None:
        """Number the messages as the machine will, and have them in the log before the entry.

        Not before this step: queues that share a chunk journal it in one turn, or it would be
        written twice and have two places.
        """
        for chunk in self._chunks:
            self._journal.publish(chunk, self.uid, self._next_seq)
            self._next_seq += chunk.count()
        self.inner.promised_end = self._next_seq

    def propose(self) -> None:
        """The messages of the batch are in the log: so shall be the batch."""
        group = self._group
        assert group is not None
        batch = self._stepped.popleft()
        if self.inner.is_gone:
            return
        self._proposed.append(batch)
        group.propose([encode_entry(batch.now_ms, batch.commands)])

    def committed(self, index: int, entry: bytes) -> None:
        """An entry is durable: let the machine have it."""
        inner = self.inner
        group = self._group
        assert group is not None
        if not self._started:
            now_ms, commands = decode_entry(entry)
            inner.machine.apply(commands, now_ms)
            return
        batch = self._proposed.popleft()
        inner.apply_batch(batch.commands, batch.chunks, batch.now_ms)
        machine = inner.machine
        assert machine.next_seq <= self._next_seq
        if machine.has_more():
            self._turn.mark_host_later(self)
        else:
            self._set_timer()
        behind = index - group.snapshot_index
        if behind >= self._snapshot_entries and self._frozen is None and not group.is_saving:
            frozen = Frozen(machine)
            self._frozen = frozen
            self._frozen_index = index
            self._encode(frozen)

    def _encode(self, frozen: Frozen) -> None:
        """Some slices of the snapshot; behind the last one it is saved (0057)."""
        group = self._group
        assert group is not None
        left: i64 = WORK_SLICES
        while left > 0:
            left -= 1
            piece = frozen.take()
            if piece is None:
                slices = self._slices
                self._slices = []
                self._frozen = None
                group.snapshot(int(self._frozen_index), slices)
                return
            self._slices.append(piece)
        self._turn.mark_host_later(self)

    def _set_timer(self) -> None:
        due_ms = self.inner.machine.due_ms
        if due_ms < self._timer_ms:
            self._timer_ms = due_ms
            self._turn.wake_host(self, due_ms)

    # Dead letters at least once

    def _died(self, effect: Dying) -> None:
        self._sexton_here().died(effect.first, effect.count, effect.reason)

    def _sexton_here(self) -> Sexton:
        sexton = self._sexton
        if sexton is None:
            sexton = Sexton(self.inner, self._turn, self._order)
            self._sexton = sexton
        return sexton

    def _order(self, command: Command) -> None:
        """A command of the node's own."""
        self._commands.append(command)
        self._mark()

    # Beginning, restart, end

    def begin(self, group: Group) -> None:
        """A new queue."""
        self._group = group
        self._started = True
        group.start()
        self._commands.append(Tick())
        self._mark()

    def begin_recovery(self, group: Group) -> None:
        """The node starts: the machine begins with the group's snapshot; entries follow."""
        self._group = group
        state = group.load()
        if state is not None:
            decode_fifo(self.inner.machine, state)

    def recovered(self, last_seq: i64) -> None:
        """All entries and bodies were found; `last_seq` is the highest number in the log."""
        group = self._group
        assert group is not None
        self.inner.recovered_logged()
        self._next_seq = max(self.inner.machine.next_seq, last_seq + 1)
        self.inner.promised_first = self.inner.promised_end = self._next_seq
        self._started = True
        group.start()
        self._commands.append(Restarted(self._next_seq))
        self._mark()
        if self.inner.machine.dying.count > 0:
            self._sexton_here().begin(self.inner.machine.dying)

    def restart_with_bodies(self, last_seq: i64, done: Callable[[], None]) -> None:
        """The log of commands is damaged: go on with the messages whose bodies are there, which
        the inner host has taken as a classic queue takes them. Before: all that it was told.
        """
        group = self._group
        assert group is not None
        self._next_seq = last_seq + 1
        self.inner.promised_first = self.inner.promised_end = self._next_seq

        def saved() -> None:
            if not self.inner.is_gone:
                self._started = True
                group.start()
                self._commands.append(Restarted(self._next_seq))
                self._mark()
            done()

        group.restart_at([encode_fifo(self.inner.machine)], saved)

    def delete(self) -> None:
        """The definition is gone; the inner host is told next."""
        inner = self.inner
        promised = self._promised()
        first = self._next_seq - sum([chunk.count() for chunk in promised])
        for chunk in promised:
            inner.abandon(chunk, first)
            first += chunk.count()
            inner.store.cancel_reserve(chunk)
        for chunk in self._chunks:
            inner.store.cancel_reserve(chunk)
        self._proposed.clear()
        if self._frozen is not None:
            self._frozen.close()
        if self._sexton is not None:
            self._sexton.close()
        self._commands = []
        self._chunks = []
        if self._group is not None:
            self._group.close()


def encode_entry(now_ms: i64, commands: list[Command]) -> bytes:
    parts = [ENTRY_HEAD.pack(ENTRY_VERSION, now_ms, len(commands))]
    for command in commands:
        encoded = encode(command)
        parts.append(LENGTH.pack(len(encoded)))
        parts.append(encoded)
    return b"".join(parts)


def decode_entry(entry: bytes) -> tuple[int, list[Command]]:
    """BadCommand, ValueError: not an entry that this node knows."""
    if len(entry) < ENTRY_HEAD.size:
        raise ValueError("an entry cut short")
    version, now_ms, count = ENTRY_HEAD.unpack_from(entry)
    if version != ENTRY_VERSION:
        raise ValueError(f"an entry of version {version}")
    commands: list[Command] = []
    at = ENTRY_HEAD.size
    for _ in range(count):
        if at + LENGTH.size > len(entry):
            raise ValueError("an entry cut short")
        (size,) = LENGTH.unpack_from(entry, at)
        at += LENGTH.size
        commands.append(decode(entry[at : at + size]))
        at += size
    if at != len(entry):
        raise ValueError("bytes after the last command of an entry")
    return now_ms, commands

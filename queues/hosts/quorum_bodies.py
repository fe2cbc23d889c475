"""Bodies of a quorum queue on one of its members: which are in the store, and what for.

Bodies are written before the entry that speaks of them, by the leader when it proposes and by
followers in `promise`, and with the slices of a snapshot that comes in. Until the machine has
applied the entry, or is that of the snapshot, they are *promised*; then it has them, or has passed
over their numbers: message_seqs ascend along the log, so what is promised below the machine's next
number and was not taken has no owner (of an entry that was cut off, or of one that came a second
time), and is released. So neither a truncation nor a snapshot that is dropped needs a look at them;
and it must have none, for the same message may come again, and what was settled once in the log is
dead for good (docs/formats/wal.md).

`BodyReader` gives bodies back as runs (`queues.hosts.quorum_entry`), for members that are behind.
Owns the set of what is promised (`QueueCore.promises`, so that the log keeps it); what it asks of
the disk is answered by `QueueCore.loaded`. A body that cannot be read is tried again after a
while. Compiled.
"""

from collections import deque
from collections.abc import Callable
from typing import Final, final

from mypy_extensions import i64

from queues.hosts.byte_counts import Traffic
from queues.hosts.host_interfaces import Steps
from queues.hosts.queue_core import QueueCore
from queues.hosts.quorum_entry import cut_of, put_run
from queues.hosts.sweeping import Sweep, sets_alive
from queues.machine.commands import SessionId
from queues.machine.fifo import Fifo
from queues.message import Chunk
from queues.queue_host import PublishingOnly
from queues.sessions.credit import CreditActor, CreditSpec

READ_AGAIN_MS: Final = 1000
UNLIMITED: Final = 1 << 40
GATHER_SLOTS: Final = 32  # looked at in one go: a slice of a snapshot has a few hundred messages


@final
class Bodies:
    """See the module. Invariant: what is promised is in the store, and not below the machine's next
    number but while an entry is being applied."""

    def __init__(self, core: QueueCore, sweep_slots: i64) -> None:
        self._sweep_slots: i64 = sweep_slots
        promises = core.promises
        assert promises is not None
        self.promises = promises
        self.traffic: Traffic | None = None  # counted at the leader, if it is to follow it
        self._core = core

    def promise_own(self, chunk: Chunk, first: i64) -> None:
        """The leader is about to propose an entry with these messages; the chunk is reserved."""
        count = chunk.count()
        self._core.store.add(first, chunk, 0, count, True)
        self._core.store.cancel_reserve(chunk)
        self._core.journal.publish(chunk, self._core.uid, first)
        self.promises.add(first, count)

    def promise(self, chunk: Chunk, first: i64, now_ms: i64) -> None:
        """Messages of an entry that is about to be written, or of a snapshot that is coming in.

        Those that are here already stay as they are. Of those below the machine's next number all
        that is alive is here.
        """
        core = self._core
        end = first + chunk.count()
        at = max(first, core.machine.next_seq)
        for run_first, run_count in self._absent(at, end):
            piece = cut_of(chunk, run_first - first, run_count)
            self._core.journal.write_now(piece, core.uid, run_first, now_ms)
            core.store.add(run_first, piece, 0, run_count, True)
            self.promises.add(run_first, run_count)

    def _absent(self, first: i64, end: i64) -> list[tuple[int, int]]:
        """Which of these messages have no body here, ascending."""
        absent: list[tuple[int, int]] = []
        at = first
        for found, found_count in self._core.store.spans_within(at, end - at):
            if found > at:
                absent.append((at, found - at))
            at = found + found_count
        if end > at:
            absent.append((at, end - at))
        return absent

    def lost_below(self, end: i64) -> list[tuple[int, int]]:
        """Messages of the queue whose bodies are not here. Only a mirror that is not synchronised
        has such, and a member that lacks entries that were committed: entries that it received came
        without bodies of messages that were settled."""
        lost: list[tuple[int, int]] = []
        for first, count in self._core.machine.queue_within(1, end - 1):
            lost.extend(self._absent(first, first + count))
        return lost

    def taken(self, first: i64, count: i64) -> None:
        """The machine has these now."""
        self.promises.remove(first, count)

    def drop_passed(self) -> None:
        """The machine has applied an entry: what it has passed over goes."""
        promises = self.promises
        core = self._core
        next_seq = core.machine.next_seq
        if promises.count > 0 and promises.first() < next_seq:
            passed = promises.split_below(next_seq)
            if passed.count > self._sweep_slots:
                core.sweeps.append(Sweep(None, passed, [], next_seq, self._sweep_slots))
                return
            for first, count in passed.runs():
                core.release_found(first, count)

    def install(self, machine: Fifo) -> None:
        """The queue is what a snapshot says: what that has not goes, by `sweep`."""
        core = self._core
        passed = self.promises.split_below(machine.next_seq)
        end = max(machine.next_seq, core.machine.next_seq)
        kept = sets_alive(machine)
        core.sweeps.append(Sweep(core.machine, passed, kept, end, self._sweep_slots))
        core.machine = machine

    def sweep(self) -> bool:
        """Let go of some of what snapshots do not have; whether there is more."""
        sweeps = self._core.sweeps
        if len(sweeps) > 0 and sweeps[0].go_on(self._core):
            del sweeps[0]
        return len(sweeps) > 0

    def recovered(self) -> None:
        """All bodies were found that the log has: those behind the machine may be of entries that
        are still to be applied; of the others, what the machine has not is dead."""
        core = self._core
        machine = core.machine
        for found in core.take_found():
            behind = max(found.first, machine.next_seq)
            end = found.first + found.count
            if end > behind:
                self.promises.add(behind, end - behind)
            end = min(end, machine.next_seq)
            at = found.first
            for first, count in sorted(machine.alive_within(at, end - at)):
                if first > at:
                    core.release_found(at, first - at)
                at = first + count
            if end > at:
                core.release_found(at, end - at)


@final
class Gathering:
    """Bodies that are wanted: of each range (first, end) the runs of what is alive in it.

    `found` has those of the ranges that are through. It stops behind a range with which `room`
    bytes are used up, or within it, if `is_cut`, also after `count_left` messages; `at` is where
    it stopped, in the last range.
    """

    def __init__(
        self,
        ranges: list[tuple[int, int]],
        room: i64,
        is_cut: bool,
        done: Callable[["Gathering"], None],
        count_left: i64 = UNLIMITED,
    ) -> None:
        self.ranges = ranges
        self.room: i64 = room
        self.count_left: i64 = count_left
        self.is_cut = is_cut
        self.done = done
        self.found: list[list[bytes]] = [[]]
        self.at: i64 = ranges[0][0]

    @property
    def is_over(self) -> bool:
        return self.at >= self.ranges[len(self.found) - 1][1]

    @property
    def is_full(self) -> bool:
        """A cut is due here."""
        return self.is_cut and (self.room <= 0 or self.count_left <= 0)


@final
class BodyReader(PublishingOnly):
    """Reads bodies back, one gathering after the other. To the host it is a session."""

    def __init__(self, core: QueueCore, turn: Steps) -> None:
        self._core = core
        self._turn = turn
        self._credit = CreditActor("bodies for others", CreditSpec(1, 1))
        self._waiting: deque[Gathering] = deque()
        self._is_working = False

    @property
    def session(self) -> SessionId:
        return SessionId(0)

    @property
    def credit(self) -> CreditActor:
        return self._credit

    def on_confirms(self, uid: int, upto_seq: int) -> None:
        return

    def on_refused(self, uid: int, first_seq: int, count: int) -> None:
        return

    def on_gone(self, uid: int) -> None:
        self._waiting.clear()

    def on_loaded(self, uid: int) -> None:
        self._work()

    def on_unreadable(self, uid: int) -> None:
        self._turn.wake_host(self, int(self._core.machine.now_ms) + READ_AGAIN_MS)

    def on_timer(self) -> None:
        self._work()

    @property
    def is_gone(self) -> bool:
        return self._core.is_gone

    def gather(self, wanted: Gathering) -> None:
        self._waiting.append(wanted)
        self._work()

    def clear(self) -> None:
        """They are no longer wanted."""
        self._waiting.clear()

    def _work(self) -> None:
        if self._is_working:
            return  # `done` has asked for more, or the disk has answered at once.
        self._is_working = True
        while len(self._waiting) > 0:
            wanted = self._waiting[0]
            if not self._go_on(wanted):
                break
            if len(self._waiting) > 0 and self._waiting[0] is wanted:
                self._waiting.popleft()
                wanted.done(wanted)
        self._is_working = False

    def _go_on(self, wanted: Gathering) -> bool:
        """False: the disk is asked."""
        while True:
            end = wanted.ranges[len(wanted.found) - 1][1]
            while wanted.at < end and not wanted.is_full:
                if not self._go_on_within(wanted, end):
                    return False
            if wanted.room <= 0 or wanted.is_full or len(wanted.found) == len(wanted.ranges):
                return True
            wanted.found.append([])
            wanted.at = wanted.ranges[len(wanted.found) - 1][0]

    def _go_on_within(self, wanted: Gathering, end: i64) -> bool:
        """A bounded part of one range."""
        core = self._core
        spans, following = core.journaled_from(wanted.at, GATHER_SLOTS)
        into = wanted.found[len(wanted.found) - 1]
        for first, count in spans:
            at: i64 = first
            stop = min(at + count, end)
            while at < stop:
                wanted.at = at
                if wanted.is_full:
                    return True
                view = core.bytes_of(self, at, stop - at)
                if view is None:
                    return False
                some: i64 = view.count
                if wanted.is_cut:
                    some = min(some, wanted.count_left)
                    some = fitting(view.chunk, view.index, some, wanted.room)
                into.extend(put_run(at, view.chunk, view.index, some))
                wanted.room -= view.chunk.bytes_between(view.index, view.index + some)
                wanted.count_left -= some
                at += some
        wanted.at = end if following == 0 else min(end, following)
        return True


def fitting(chunk: Chunk, index: i64, count: i64, room: i64) -> i64:
    """How many of the messages index.. fit into `room` bytes; at least one."""
    fit: i64 = 1
    while fit < count and chunk.bytes_between(index, index + fit + 1) <= room:
        fit += 1
    return fit

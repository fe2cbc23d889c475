"""Snapshots of a quorum queue on a member: its own, those that it gives to others, and takes.

A snapshot in the keyed state is the machine (`queues.machine.fifo_snapshot`) in slices, and a
point: a
version u8, index u64, term u64, appended_term u64, next_seq u64 of the machine, length u32 of the
configuration, the configuration, then what the node wants to find again (`birth`), little-endian.
The first one of a member is its beginning: index 0, and the configuration it begins with. A machine
that is taken is frozen, and encoded while it goes on: WORK_SLICES in a turn, and no more than
UNWRITTEN_MAX of them wait for the disk. In the same way those that come in are decoded (0009).

For another member it is a stream of slices, each with a byte that says of what: the machine's,
then the bodies of messages below next_seq that are alive here, by ascending number. Where one
slice of bodies ends is remembered as long as the snapshot is the newest, so that a stream resumes.
What was settled since may be missing in it: the entries that follow settle it there, too.

What comes in is put down at once, the machine into the keyed state, bodies into the log. Nothing
of it counts before the last slice is durable and the head is written. `Outgoing` and `Incoming` own
what is under way; both are called when their disk is done, and by `work` when a turn has time for
them. Bytes that are no snapshot are a BadSnapshot, which goes through. Compiled.
"""

from collections import deque
from collections.abc import Callable, Sequence
from struct import Struct
from typing import Final, Protocol, final

from mypy_extensions import i64

from queues.bodies.store import SPAN_SLOTS
from queues.hosts.journal import Journal
from queues.hosts.quorum_bodies import UNLIMITED, Bodies, BodyReader, Gathering
from queues.hosts.quorum_entry import take_runs
from queues.machine.fifo import Fifo
from queues.machine.fifo_snapshot import PIECE_BYTES, SMALL, Frozen, Thawing
from raft.entries import SnapshotPoint
from raft.membership import decode_config, encode_config
from raft.messages import SnapshotSlice

POINT: Final = Struct("<BQQQQI")
POINT_VERSION: Final = 1
BODY_SLICE_BYTES: Final = 256 << 10
WORK_SLICES: Final = 4  # of a machine, encoded or decoded in one turn
UNWRITTEN_MAX: Final = 16  # slices that wait for the disk
OF_MACHINE: Final = b"\x01"
OF_BODIES: Final = b"\x02"


class Writer(Protocol):
    """A snapshot that is being written (`warren.storage.snapshot.SnapshotWriter`)."""

    def add(self, parts: Sequence[bytes], done: Callable[[], None] | None = None) -> None: ...

    def commit(self, done: Callable[[], None]) -> None: ...

    def drop(self) -> None: ...


class Shelf(Protocol):
    """Where snapshots are kept (`warren.storage.snapshot.SnapshotStore`)."""

    def begin(self, owner: int, index: int, point: bytes) -> Writer: ...

    def read_slice(
        self,
        owner: int,
        index: int,
        number: int,
        done: Callable[[bytes | Exception | None, bool], None],
    ) -> None: ...

    def stage(
        self,
        owner: int,
        source: int,
        index: int,
        term: int,
        number: int,
        parts: Sequence[bytes],
        done: Callable[[], None],
    ) -> bool: ...

    def install(self, owner: int, point: bytes, done: Callable[[], None]) -> None: ...

    def drop_staged(self, owner: int) -> None: ...

    def forget(self, owner: int) -> None: ...


@final
class Standing:
    """What the point of a snapshot says."""

    __slots__ = ("birth", "next_seq", "point")

    def __init__(self, point: SnapshotPoint, next_seq: i64, birth: bytes) -> None:
        self.point = point
        self.next_seq: i64 = next_seq
        self.birth = birth

    def encode(self) -> bytes:
        point = self.point
        config = encode_config(point.config)
        head = POINT.pack(
            POINT_VERSION, point.index, point.term, point.appended_term, self.next_seq, len(config)
        )
        return head + config + self.birth


def decode_standing(content: bytes) -> Standing:
    """ValueError: it is none that this node knows."""
    if len(content) < POINT.size:
        raise ValueError("the point of a snapshot is cut short")
    version, index, term, appended_term, next_seq, config_bytes = POINT.unpack_from(content)
    if version != POINT_VERSION:
        raise ValueError(f"the point of a snapshot of version {version}")
    end = POINT.size + config_bytes
    config = decode_config(content[POINT.size : end])
    return Standing(SnapshotPoint(index, term, appended_term, config), next_seq, content[end:])


@final
class Slicing:
    """How much is done at a time."""

    def __init__(
        self,
        small: i64 = SMALL,
        piece_bytes: i64 = PIECE_BYTES,
        body_bytes: i64 = BODY_SLICE_BYTES,
        pieces: i64 = WORK_SLICES,
        sweep_slots: i64 = SPAN_SLOTS,
    ) -> None:
        self.small: i64 = small  # rows of a machine that is encoded at once
        self.piece_bytes: i64 = piece_bytes  # of a machine, in a slice
        self.body_bytes: i64 = body_bytes  # of bodies, in a slice
        self.pieces: i64 = pieces  # of a machine, encoded or decoded in a turn
        self.sweep_slots: i64 = sweep_slots  # looked at in a turn, when a snapshot was installed


@final
class Writing:
    """A snapshot that is taken, and then written."""

    def __init__(self, standing: Standing, frozen: Frozen) -> None:
        self.standing = standing
        self.frozen = frozen
        self.writer: Writer | None = None  # once the log has got so far
        self.done: Callable[[SnapshotPoint], None] | None = None
        self.slice_count: i64 = 0
        self.unwritten: i64 = 0
        self.is_whole = False  # all slices are with the writer

    def end(self) -> None:
        """It is written, or of no use any more."""
        self.frozen.close()
        if self.writer is not None:
            self.writer.drop()


@final
class Outgoing:
    """This member's own snapshots: written, and given to others.

    `index` is that of the newest that is durable, of `slice_count` slices.
    """

    def __init__(
        self,
        uid: i64,
        shelf: Shelf,
        reader: BodyReader,
        slicing: Slicing,
        wake: Callable[[], None],
        wake_later: Callable[[], None],
    ) -> None:
        self._uid: i64 = uid
        self._wake = wake  # have `work` called in a turn,
        self._wake_later = wake_later  # or in the turn behind this one
        self._slicing = slicing
        self._shelf = shelf
        self._reader = reader
        self.index: i64 = -1
        self.slice_count: i64 = 0
        self._next_seq: i64 = 1
        self._cuts: list[int] = [1]  # where slices of bodies begin
        self._batch_size: i64 = UNLIMITED  # messages in a slice of bodies
        self._writing: Writing | None = None
        self._is_closed = False

    @property
    def is_busy(self) -> bool:
        """A snapshot is taken, and not durable yet."""
        return self._writing is not None

    @property
    def is_writing(self) -> bool:
        """The log has got so far: `work` is wanted."""
        return self._writing is not None and self._writing.writer is not None

    def stands(self, standing: Standing, slice_count: i64) -> None:
        """The newest snapshot that is durable."""
        self.index = standing.point.index
        self.slice_count = slice_count
        self._next_seq = standing.next_seq
        self._cuts = [1]

    def take(self, standing: Standing, machine: Fifo) -> None:
        """Write the machine down as it is now, as soon as `write` allows it."""
        assert not self.is_busy
        slicing = self._slicing
        frozen = Frozen(machine, int(slicing.small), int(slicing.piece_bytes))
        self._writing = Writing(standing, frozen)

    def write(self, durable_index: i64, done: Callable[[SnapshotPoint], None]) -> None:
        """The log is durable up to there, and so is what it refers to: write what was taken, some
        of it now and the rest by `work`."""
        writing = self._writing
        if writing is None or writing.writer is not None:
            return
        standing = writing.standing
        if standing.point.index > durable_index:
            return
        writing.done = done
        writing.writer = self._shelf.begin(self._uid, standing.point.index, standing.encode())
        self.work()

    def work(self) -> None:
        """Encode some slices of what is being written."""
        writing = self._writing
        if writing is None or writing.is_whole:
            return
        writer = writing.writer
        if writer is None:
            return

        def added() -> None:
            writing.unwritten -= 1
            if self._writing is writing and writing.unwritten == UNWRITTEN_MAX - 1:
                self._wake()

        left = self._slicing.pieces
        while left > 0 and writing.unwritten < UNWRITTEN_MAX:
            left -= 1
            piece = writing.frozen.take()
            if piece is None:
                self._commit(writing)
                return
            writing.slice_count += 1
            writing.unwritten += 1
            writer.add([piece], added)
        if writing.unwritten < UNWRITTEN_MAX:
            self._wake_later()

    def _commit(self, writing: Writing) -> None:
        """All slices are with the writer."""
        writer = writing.writer
        assert writer is not None
        writing.is_whole = True

        def written() -> None:
            if self._writing is not writing:
                return  # Another one came in between.
            self._writing = None
            self.stands(writing.standing, writing.slice_count)
            if writing.done is not None:
                writing.done(writing.standing.point)

        writer.commit(written)

    def give_up(self) -> None:
        """Another one is being installed: what was taken or is being written is of no use."""
        writing = self._writing
        self._writing = None
        if writing is not None:
            writing.end()

    def close(self) -> None:
        self._is_closed = True
        self.give_up()

    # For others

    def bound_batches(self, messages: i64) -> None:
        """Of the slices that are cut from now on."""
        self._batch_size = messages

    def copied_seq(self, slices: i64) -> i64:
        """Bodies of messages below this seq are in the first `slices` slices of the newest
        snapshot."""
        place = min(slices - self.slice_count, len(self._cuts) - 1)
        return self._cuts[max(place, 0)]

    def read_slice(
        self, index: i64, number: i64, done: Callable[[Sequence[bytes] | None, bool], None]
    ) -> None:
        """See `GroupOwner.read_slice`."""
        if index != self.index:
            done(None, False)
        elif number < self.slice_count:

            def read(found: bytes | Exception | None, is_last: bool) -> None:
                done([OF_MACHINE, found] if isinstance(found, bytes) else None, False)

            self._shelf.read_slice(self._uid, index, number, read)
        else:
            self._read_bodies(index, number - self.slice_count, done)

    def _read_bodies(
        self, index: i64, place: i64, done: Callable[[Sequence[bytes] | None, bool], None]
    ) -> None:
        """A slice of bodies; where it ends is known if it was read before."""
        cuts = self._cuts
        if place >= len(cuts):
            done(None, False)
            return
        is_known = place + 1 < len(cuts)
        begin = cuts[place]
        end = cuts[place + 1] if is_known else max(self._next_seq, begin)

        def gathered(wanted: Gathering) -> None:
            if self.index != index or self._is_closed:
                done(None, False)
                return
            is_last = not is_known and wanted.is_over
            if not is_known and not wanted.is_over and place + 1 == len(cuts):
                cuts.append(wanted.at)
            done([OF_BODIES, *wanted.found[0]], is_last)

        room: i64 = UNLIMITED if is_known else self._slicing.body_bytes
        count: i64 = UNLIMITED if is_known else self._batch_size
        self._reader.gather(Gathering([(begin, end)], room, True, gathered, count))


@final
class Answer:
    """What is to be told of a slice, and whether it is durable."""

    __slots__ = ("done", "is_durable")

    def __init__(self, done: Callable[[], None]) -> None:
        self.done = done
        self.is_durable = False


@final
class Incoming:
    """A snapshot of another member that is coming in, or being installed."""

    def __init__(
        self,
        uid: i64,
        shelf: Shelf,
        journal: Journal,
        bodies: Bodies,
        wake: Callable[[], None],
        fresh: Callable[[], Fifo],
        pieces: i64,
    ) -> None:
        self._uid: i64 = uid
        self._work_pieces: i64 = pieces
        self._shelf = shelf
        self._journal = journal
        self._bodies = bodies
        self._wake = wake  # have a turn end soon, with `work` in it
        self._fresh = fresh  # makes a new machine
        self._machine: Fifo | None = None  # that is being made
        self._thawing: Thawing | None = None
        self._pieces: deque[bytes] = deque()  # that are still to be decoded
        self._then: Callable[[Fifo], None] | None = None  # waits for the machine
        self.slice_count: i64 = 0  # of the machine, so far
        self._answers: deque[Answer] = deque()  # in the order of the slices, for two disks answer
        self._stream: i64 = 0  # goes up when what is staged is dropped

    def stage(self, piece: SnapshotSlice, now_ms: i64, done: Callable[[], None]) -> None:
        """Put a slice down; `done` when it is durable, and all before it are."""
        content = b"".join(piece.parts)
        stream = self._stream
        answer = Answer(done)
        self._answers.append(answer)

        def durable() -> None:
            answer.is_durable = True
            while self._stream == stream and len(self._answers) > 0:
                if not self._answers[0].is_durable:
                    return
                self._answers.popleft().done()

        if content[:1] == OF_MACHINE:
            state = content[1:]
            assert piece.slice_number == self.slice_count
            is_taken = self._shelf.stage(
                self._uid,
                piece.source,
                piece.index,
                piece.snapshot_term,
                piece.slice_number,
                [state],
                durable,
            )
            assert is_taken, "a slice that does not follow"
            self.slice_count += 1
            self._pieces.append(state)
            self._wake()
            return
        assert content[:1] == OF_BODIES
        for first, chunk in take_runs(content, 1):
            self._bodies.promise(chunk, first, now_ms)
        self._journal.when_durable(durable)
        self._wake()

    def work(self) -> None:
        """Decode some slices."""
        left = self._work_pieces
        while left > 0 and len(self._pieces) > 0:
            left -= 1
            thawing = self._thawing
            if thawing is None:
                machine = self._fresh()
                self._machine = machine
                thawing = Thawing(machine)
                self._thawing = thawing
            thawing.feed(self._pieces.popleft())
        if len(self._pieces) > 0:
            self._wake()
        elif self._then is not None:
            self._give()

    def when_whole(self, then: Callable[[Fifo], None]) -> None:
        """All slices are here: call back with the machine once it is made."""
        self._then = then
        if len(self._pieces) == 0:
            self._give()

    def _give(self) -> None:
        then = self._then
        self._then = None
        thawing = self._thawing
        machine = self._machine
        assert then is not None
        assert thawing is not None
        assert machine is not None
        thawing.finish()
        then(machine)

    def install(self, standing: Standing, done: Callable[[], None]) -> None:
        """All of it is durable: from `done` on it is this member's snapshot."""
        self._shelf.install(self._uid, standing.encode(), done)

    def finish(self, machine: Fifo) -> None:
        """The head is written: the queue is what it says."""
        self._bodies.install(machine)
        self._end()

    def drop(self) -> None:
        """What was staged is of no use; bodies stay promised."""
        if self.slice_count > 0:
            self._shelf.drop_staged(self._uid)
        self._end()

    def _end(self) -> None:
        self._machine = None
        self._thawing = None
        self._pieces.clear()
        self._then = None
        self.slice_count = 0
        self._answers.clear()
        self._stream += 1

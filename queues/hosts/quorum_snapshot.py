"""Snapshots of a quorum queue on a member: its own, those that it gives to others, and takes.

A snapshot in the keyed state is the machine (`queues.fifo_snapshot`) in slices, and a point: a
version
u8, index u64, term u64, appended_term u64, next_seq u64 of the machine, length u32 of the
configuration, the configuration, then what the node wants to find again (`birth`), little-endian.
The first one of a member is its beginning: index 0, and the configuration it begins with.

For another member it is a stream of slices, each with a byte that says of what: the machine's,
then the bodies of messages below next_seq that are alive here, by ascending number. Where one
slice of bodies ends is remembered as long as the snapshot is the newest, so that a stream resumes.
What was settled since may be missing in it: the entries that follow settle it there, too.

What comes in is put down at once, the machine into the keyed state, bodies into the log. Nothing
of it counts before the last slice is durable and the head is written. `Outgoing` and `Incoming` own
what is under way; both are told when their disk is done. Compiled.
"""

from collections import deque
from collections.abc import Callable, Sequence
from struct import Struct
from typing import Final, Protocol, final

from mypy_extensions import i64

from queues.fifo import Fifo
from queues.hosts.journal import Journal
from queues.hosts.quorum_bodies import Bodies, BodyReader, Gathering
from queues.hosts.quorum_entry import take_runs
from raft.entries import SnapshotPoint
from raft.membership import decode_config, encode_config
from raft.messages import SnapshotSlice

POINT: Final = Struct("<BQQQQI")
POINT_VERSION: Final = 1
SLICE_BYTES: Final = 60 << 10  # of a machine; the keyed state takes a little more
BODY_SLICE_BYTES: Final = 256 << 10
OF_MACHINE: Final = b"\x01"
OF_BODIES: Final = b"\x02"


class Writer(Protocol):
    """A snapshot that is being written (`warren.storage.snapshot.SnapshotWriter`)."""

    def add(self, parts: Sequence[bytes]) -> None: ...

    def commit(self, done: Callable[[], None]) -> None: ...


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


def slices_of(state: bytes) -> list[bytes]:
    """A machine in pieces; at least one."""
    return [state[at : at + SLICE_BYTES] for at in range(0, max(len(state), 1), SLICE_BYTES)]


@final
class Outgoing:
    """This member's own snapshots: written, and given to others.

    `index` is that of the newest that is durable, of `slice_count` slices.
    """

    def __init__(self, uid: i64, shelf: Shelf, reader: BodyReader, slice_bytes: i64) -> None:
        self._uid: i64 = uid
        self._slice_bytes: i64 = slice_bytes  # of bodies
        self._shelf = shelf
        self._reader = reader
        self.index: i64 = -1
        self.slice_count: i64 = 0
        self._next_seq: i64 = 1
        self._cuts: list[int] = [1]  # where slices of bodies begin
        self._taken: tuple[Standing, bytes] | None = None  # waits until the log has got so far
        self._is_writing = False
        self._is_closed = False

    @property
    def is_busy(self) -> bool:
        """A snapshot is taken, and not durable yet."""
        return self._is_writing or self._taken is not None

    def stands(self, standing: Standing, slice_count: i64) -> None:
        """The newest snapshot that is durable."""
        self.index = standing.point.index
        self.slice_count = slice_count
        self._next_seq = standing.next_seq
        self._cuts = [1]

    def take(self, standing: Standing, state: bytes) -> None:
        """Write this one down as soon as `write` allows it."""
        assert not self.is_busy
        self._taken = (standing, state)

    def write(self, durable_index: i64, done: Callable[[SnapshotPoint], None]) -> None:
        """The log is durable up to there, and so is what it refers to: write what was taken."""
        taken = self._taken
        if taken is None or taken[0].point.index > durable_index:
            return
        self._taken = None
        standing, state = taken
        self._is_writing = True
        slices = slices_of(state)
        writer = self._shelf.begin(self._uid, standing.point.index, standing.encode())
        for piece in slices:
            writer.add([piece])

        def written() -> None:
            self._is_writing = False
            if not self._is_closed and standing.point.index > self.index:
                self.stands(standing, len(slices))
                done(standing.point)

        writer.commit(written)

    def give_up(self) -> None:
        """Another one is being installed: what was taken or is being written is of no use."""
        self._taken = None
        self._is_writing = False

    def close(self) -> None:
        self._is_closed = True
        self._taken = None

    # For others

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

        room: i64 = 1 << 40 if is_known else self._slice_bytes
        self._reader.gather(Gathering([(begin, end)], room, True, gathered))


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
        self, uid: i64, shelf: Shelf, journal: Journal, bodies: Bodies, wake: Callable[[], None]
    ) -> None:
        self._uid: i64 = uid
        self._shelf = shelf
        self._journal = journal
        self._bodies = bodies
        self._wake = wake  # have a turn end soon
        self._state: list[bytes] = []
        self._answers: deque[Answer] = deque()  # in the order of the slices, for two disks answer
        self._stream: i64 = 0  # goes up when what is staged is dropped

    @property
    def slice_count(self) -> int:
        """Of the machine, so far."""
        return len(self._state)

    def state(self) -> bytes:
        """The machine as it came in."""
        return b"".join(self._state)

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
            assert piece.slice_number == len(self._state)
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
            self._state.append(state)
            return
        assert content[:1] == OF_BODIES
        for first, chunk in take_runs(content, 1):
            self._bodies.promise(chunk, first, now_ms)
        self._journal.when_durable(durable)
        self._wake()

    def install(self, standing: Standing, done: Callable[[], None]) -> None:
        """All of it is durable: from `done` on it is this member's snapshot."""
        self._shelf.install(self._uid, standing.encode(), done)

    def finish(self, machine: Fifo) -> None:
        """The head is written: the queue is what it says."""
        self._bodies.install(machine)
        self._end()

    def drop(self) -> None:
        """What was staged is of no use; bodies stay promised."""
        if len(self._state) > 0:
            self._shelf.drop_staged(self._uid)
        self._end()

    def _end(self) -> None:
        self._state = []
        self._answers.clear()
        self._stream += 1

"""Snapshots of log groups in the keyed state: the newest whole one of an owner counts.

Two ways to write one. `save` takes a whole state (groups of one member). `begin` gives a
`SnapshotWriter` that takes slices of at most SLICE_BYTES_MAX, one after the other, and `commit`;
snapshots from other nodes come in by `stage`, slice by slice, and count from `install` on. Slices
are read back one by one, by `read_slice`. Nothing on the loop grows with the size of a state.

The head of a snapshot comes last, in one batch with the end of all older ones. So a crash leaves
the older one or the new one, and slices without a head, which are never read and `open` removes:
what was staged does not outlive the process. Layout: docs/formats/snapshot.md. Errors: what is
there and not whole is KeyedDamaged; writing is the keyed state's business, which tries until it is
through. Not compiled.
"""

from collections.abc import Callable, Collection, Iterator, Sequence
from functools import partial
from typing import Final

from warren.checksum import crc32c
from warren.storage.keyed import SNAPSHOTS, Batch, Keyed
from warren.storage.snapshot_slices import (
    HEAD_1,
    HEAD_NUMBER,
    KEY,
    OWNER,
    SLICE_BYTES_MAX,
    STAGED,
    VERSION_1,
    SnapshotHead,
    Staged,
    Stream,
    damaged,
    decode_head,
    owner_end,
)

CHUNK_BYTES: Final = SLICE_BYTES_MAX  # of version 1
OWNER_END: Final = b"\xff" * 9  # behind every key
NO_KEY: Final = b""  # nothing has it

Slice = bytes | Exception | None
Durable = Callable[[], None]


def nothing() -> None:
    """No caller waits for the end of what is not needed."""


class SnapshotStore:
    """Snapshots by owner. Which owners have any is known from the start on, without reading.

    Invariant: `_heads[owner]` is the newest snapshot that is durable, of those that were written
    in slices or opened since the start; `_newest[owner]` the newest that was committed, durable or
    not. None is begun at or below it.
    """

    def __init__(self, keyed: Keyed) -> None:
        self._keyed = keyed
        self._owners = set(self._find_owners())
        self._heads: dict[int, SnapshotHead] = {}
        self._newest: dict[int, SnapshotHead] = {}
        self._writers: dict[int, SnapshotWriter] = {}
        self._staged: dict[int, Staged] = {}

    # Whole states.

    def save(self, owner: int, index: int, state: Sequence[bytes], done: Durable) -> None:
        """Write a snapshot; `done` is posted when it is durable."""
        self._owners.add(owner)
        self._keyed.save(batches_of(owner, index, state), done)

    def load(self, owner: int) -> tuple[int, bytes] | None:
        """(index, state) of the newest snapshot; None if there is none. At start alone.

        KeyedDamaged: there is a head, and the state is not what it says.
        """
        head = self.head(owner)
        return None if head is None else (head.index, b"".join(self.slices(owner, head)))

    @property
    def owners(self) -> list[int]:
        """Who has any, ascending."""
        return sorted(self._owners)

    # At start.

    def open(self, owner: int) -> SnapshotHead | None:
        """The newest snapshot of the owner, to go on from; what a crash left beside it goes.

        At start alone, before the first call for this owner.
        """
        head, last = self._look(owner)
        if head is not None:
            self._heads[owner] = self._newest[owner] = head
        whole = -1 if head is None else head.index
        if last > whole:
            batch = Batch()
            batch.delete_range(SNAPSHOTS, KEY.pack(owner, whole + 1, 0), owner_end(owner))
            self._keyed.save([batch], nothing)
        return head

    def head(self, owner: int) -> SnapshotHead | None:
        """The same, and nothing is changed. At start alone."""
        return self._look(owner)[0]

    def _look(self, owner: int) -> tuple[SnapshotHead | None, int]:
        """The newest head, and the highest index of which anything is there, or -1."""
        found: SnapshotHead | None = None
        last = -1
        while owner in self._owners:
            first = KEY.pack(owner, last + 1, 0)
            row = next(self._keyed.rows(SNAPSHOTS, first, owner_end(owner)), None)
            if row is None:
                break
            last = KEY.unpack(row[0])[1]
            key = KEY.pack(owner, last, HEAD_NUMBER)
            row = next(self._keyed.rows(SNAPSHOTS, key, key + b"\0"), None)
            if row is not None:
                found = decode_head(owner, last, row[1])
        return found, last

    def load_slices(self, owner: int) -> tuple[bytes, list[bytes]] | None:
        """Point and slices of the newest snapshot, to go on from (`open`); None if there is none.

        At start alone. KeyedDamaged: it is not whole.
        """
        head = self.open(owner)
        return None if head is None else (head.point, list(self.slices(owner, head)))

    def slices(self, owner: int, head: SnapshotHead) -> Iterator[bytes]:
        """The slices of a snapshot; KeyedDamaged, at the last one, if they are not what its head
        says. At start alone."""
        first = KEY.pack(owner, head.index, head.first)
        # Behind those of this node there may be some that were staged and do not count.
        last = HEAD_NUMBER if head.first == STAGED else STAGED
        end = KEY.pack(owner, head.index, last)
        count = byte_count = crc = 0
        for _, content in self._keyed.rows(SNAPSHOTS, first, end):
            count += 1
            byte_count += len(content)
            crc = crc32c(content, crc)
            yield content
        is_whole = head.version == VERSION_1 or count == head.slice_count
        if not is_whole or (byte_count, crc) != (head.byte_count, head.crc):
            raise damaged(owner, head.index)

    # In slices.

    def begin(self, owner: int, index: int, point: bytes) -> "SnapshotWriter":
        """Begin a snapshot of the state after `index`; an older one that is not finished is given
        up. `point` is opaque and comes back with it."""
        assert index > self._newest_index(owner)
        self._owners.add(owner)
        self._give_up_writer(owner)
        writer = SnapshotWriter(self, self._keyed, Stream(owner, index, 0), point)
        self._writers[owner] = writer
        return writer

    def read_slice(
        self, owner: int, index: int, number: int, done: Callable[[Slice, bool], None]
    ) -> None:
        """A slice of the newest snapshot, and whether it is the last one; None if there is no
        snapshot at that index any more. `done` is posted."""
        head = self._heads.get(owner)
        if head is None or head.index != index or not 0 <= number < head.slice_count:
            self._keyed.look_up(SNAPSHOTS, NO_KEY, lambda found: done(None, False))
            return
        is_last = number == head.slice_count - 1
        key = KEY.pack(owner, index, head.first + number)
        self._keyed.look_up(SNAPSHOTS, key, lambda found: done(found, is_last))

    # From other nodes.

    def stage(
        self,
        owner: int,
        source: int,
        index: int,
        term: int,
        number: int,
        parts: Sequence[bytes],
        done: Durable,
    ) -> bool:
        """Put down slice `number` of the snapshot (source, index, term); `done` when it is durable.

        Slice 0 of another snapshot than the one that is staged drops that. False, and nothing is
        done, if the slice is not the next one, or the owner has a snapshot as new from elsewhere,
        or a newer one.
        """
        staged = self._staged.get(owner)
        if staged is None or not staged.is_of(source, index, term):
            if number != 0 or not self._may_stage(owner, index):
                return False
            self.drop_staged(owner)
            staged = self._staged[owner] = Staged(owner, source, index, term)
            self._owners.add(owner)
        if number != staged.stream.slice_count:
            return False
        self._keyed.save([staged.stream.add(parts)], partial(slice_durable, staged, done))
        return True

    def staged(self, owner: int) -> tuple[int, int, int, int] | None:
        """(source, index, term, slices that are durable) of what is staged."""
        staged = self._staged.get(owner)
        if staged is None:
            return None
        return staged.source, staged.index, staged.term, staged.durable_count

    def install(self, owner: int, point: bytes, done: Durable) -> None:
        """What is staged is whole: it is the newest snapshot, durably when `done` is called.

        All older ones go with that, and one of this node that is being written.
        """
        staged = self._staged.pop(owner)
        assert self._may_stage(owner, staged.index)
        self._give_up_writer(owner)
        self.commit(staged.stream, point, done)

    def drop_staged(self, owner: int) -> None:
        """What was staged is of no use."""
        staged = self._staged.pop(owner, None)
        if staged is not None:
            self.give_up(staged.stream)

    def _may_stage(self, owner: int, index: int) -> bool:
        """Whether a snapshot at that index may come in. At the index of one that was written here
        it replaces that: a mirror begins with an empty machine at the index of its base."""
        newest = self._newest.get(owner)
        if newest is not None and newest.index == index:
            return newest.first != STAGED
        return index > self._newest_index(owner)

    def _newest_index(self, owner: int) -> int:
        head = self._newest.get(owner)
        return -1 if head is None else head.index

    def _give_up_writer(self, owner: int) -> None:
        writer = self._writers.pop(owner, None)
        if writer is not None and writer.stream.is_open:
            self.give_up(writer.stream)

    def give_up(self, stream: Stream) -> None:
        """Its slices are of no use."""
        stream.is_open = False
        if stream.slice_count:
            batch = Batch()
            stream.clear(batch)
            self._keyed.save([batch], nothing)

    def commit(self, stream: Stream, point: bytes, done: Durable) -> None:
        """Write the head of a snapshot (`SnapshotWriter`, `install`)."""
        owner = stream.owner
        staged = self._staged.get(owner)
        if staged is not None and staged.index <= stream.index:
            self.drop_staged(owner)
        head, batch = stream.finish(point)
        self._newest[owner] = head
        self._keyed.save([batch], partial(self._committed, owner, head, done))

    def _committed(self, owner: int, head: SnapshotHead, done: Durable) -> None:
        if self._newest.get(owner) is head:  # Else there is a newer one, or none any more.
            self._heads[owner] = head
        done()

    # The end.

    def forget(self, owner: int, done: Durable = nothing) -> None:
        """Remove all snapshots of an owner that is gone; `done` when that is durable."""
        if owner in self._owners:
            self._owners.discard(owner)
            self._heads.pop(owner, None)
            self._newest.pop(owner, None)
            self._give_up_writer(owner)
            self.drop_staged(owner)
            self._keyed.save([end_of(owner)], done)

    def sweep(self, known: Collection[int]) -> int:
        """Forget all owners but these; how many that were."""
        strays = [owner for owner in sorted(self._owners) if owner not in known]
        for owner in strays:
            self.forget(owner)
        return len(strays)

    def _find_owners(self) -> Iterator[int]:
        """One look for each owner: states may be long."""
        first = b""
        while True:
            row = next(self._keyed.rows(SNAPSHOTS, first, OWNER_END), None)
            if row is None:
                return
            (owner,) = OWNER.unpack_from(row[0])
            yield owner
            first = owner_end(owner)


class SnapshotWriter:
    """A snapshot of this node that is being written. Ends with `commit` or `drop`, or when the
    store has a newer one: then what is added goes nowhere, and `commit` is never answered."""

    def __init__(self, store: SnapshotStore, keyed: Keyed, stream: Stream, point: bytes) -> None:
        self._store = store
        self._keyed = keyed
        self.stream = stream
        self._point = point

    @property
    def is_open(self) -> bool:
        """Whether it is neither finished nor given up."""
        return self.stream.is_open

    def add(self, parts: Sequence[bytes], done: Durable | None = None) -> None:
        """The next slice, at most SLICE_BYTES_MAX; `done` when it is durable, to go on by."""
        if self.stream.is_open:
            self._keyed.save([self.stream.add(parts)], done or nothing)

    def commit(self, done: Durable) -> None:
        """That was all: it is the newest snapshot, durably when `done` is called."""
        if self.stream.is_open:
            self._store.commit(self.stream, self._point, done)

    def drop(self) -> None:
        """It will not be finished."""
        if self.stream.is_open:
            self._store.give_up(self.stream)


def slice_durable(staged: Staged, done: Durable) -> None:
    staged.durable_count += 1
    done()


def end_of(owner: int) -> Batch:
    """All snapshots of the owner go."""
    batch = Batch()
    batch.delete_range(SNAPSHOTS, OWNER.pack(owner), owner_end(owner))
    return batch


def batches_of(owner: int, index: int, state: Sequence[bytes]) -> Iterator[Batch]:
    """Chunks, each alone, then the head with the end of the older ones."""
    batch = Batch()  # An earlier try at this index may have left more chunks than there are now.
    batch.delete_range(SNAPSHOTS, KEY.pack(owner, index, 0), owner_end(owner))
    number = 0
    for part in state:
        view = memoryview(part)
        for at in range(0, len(view), CHUNK_BYTES):
            key = KEY.pack(owner, index, number)
            batch.put(SNAPSHOTS, key, bytes(view[at : at + CHUNK_BYTES]))
            number += 1
            yield batch
            batch = Batch()
    batch.put(SNAPSHOTS, KEY.pack(owner, index, HEAD_NUMBER), encode_head(state))
    batch.delete_range(SNAPSHOTS, OWNER.pack(owner), KEY.pack(owner, index, 0))
    yield batch


def encode_head(state: Sequence[bytes]) -> bytes:
    """Version 1."""
    crc = 0
    for part in state:
        crc = crc32c(part, crc)
    return HEAD_1.pack(VERSION_1, sum(map(len, state)), crc)

"""The deciding half of the write-ahead log: where a record goes, what is written in one go.

`append` gives a record its file and offset at once, encodes it and puts it into the open batch.
A batch is part of one file and one write. The order in the file is the order of the appends: a
record is durable only when all before it are. When a file is full it gets a SEAL and the next one
is taken. No I/O and no thread: full batches, and on `flush` the open one, are handed to
`hand_over`; new files come from `next_file`.
"""

from collections.abc import Callable, Sequence
from typing import Final, final

from mypy_extensions import i64

from warren.storage.files import BLOCK_BYTES, LogFile
from warren.storage.record import (
    HEADER_BYTES,
    ONE_PUBLISH_BYTES,
    ONE_SETTLE_BYTES,
    PADDING,
    RAFT_HEAD_BYTES,
    SEAL,
    Buffer,
    RaftRun,
    encode_header,
    encode_one_publish,
    encode_one_settle,
    padded,
)

SEAL_BYTES: Final = HEADER_BYTES
JOIN_BYTES: Final = 2048  # shorter payloads are copied into one piece with their header


@final
class Location:
    """Where a record is; `offset` is that of the message data (PUBLISH) or of the payload."""

    __slots__ = ("byte_count", "file_id", "offset")

    def __init__(self, file_id: int, offset: int, byte_count: int) -> None:
        self.file_id = file_id
        self.offset = offset
        self.byte_count = byte_count  # of the whole record, header and padding included


@final
class Batch:
    """Consecutive records of one file, to be written with one call."""

    __slots__ = ("byte_count", "end_lsn", "file", "offset", "parts")

    def __init__(self, file: LogFile, offset: int) -> None:
        self.file = file
        self.offset = offset
        self.parts: list[Buffer] = []
        self.byte_count = 0
        self.end_lsn = 0


@final
class Log:
    """The end of the log. Invariant: `offset` of the active file has room for a SEAL."""

    def __init__(
        self,
        group_bytes: int,
        next_file: Callable[[int], LogFile],
        hand_over: Callable[[Batch], None],
    ) -> None:
        self._group_bytes = group_bytes
        self._next_file = next_file  # called with the least size that is wanted
        self._hand_over = hand_over
        self.appended_lsn = 0  # bytes ever appended by this process
        self.active: LogFile = next_file(0)
        self.offset = BLOCK_BYTES
        self._batch = Batch(self.active, self.offset)

    def append(
        self, kind: int, owner: int, index: int, part: int, payload: list[Buffer], length: int
    ) -> int:
        """Append one record, `length` bytes of payload; return its offset in `active`."""
        size = padded(length)
        self._make_room(size)
        return self._place(kind, owner, index, part, payload, length, size)

    def append_publish(
        self,
        index: int,
        format_tag: int,
        info: int,
        now_ms: int,
        owner: int,
        first: int,
        offsets: bytes,
        data: Buffer,
    ) -> int:
        """Append a PUBLISH for one target, without meta and label; return its offset."""
        length: i64 = ONE_PUBLISH_BYTES + len(offsets) + len(data)
        size: i64 = padded(length)
        self._make_room(size)
        file = self.active
        checksum, rest = encode_one_publish(
            file.epoch,
            file.durable_offset,
            index,
            format_tag,
            info,
            now_ms,
            owner,
            first,
            offsets,
            data,
        )
        padding = PADDING[: size - HEADER_BYTES - length]
        parts = self._batch.parts
        if length < JOIN_BYTES:
            parts.append(b"".join((checksum, rest, offsets, data, padding)))
        else:
            parts.append(b"".join((checksum, rest, offsets)))
            parts.append(data)
            if padding:
                parts.append(padding)
        return self._count(size)

    def append_settle(self, owner: int, first: int, count: int) -> int:
        """Append a SETTLE of one range; return its offset."""
        self._make_room(ONE_SETTLE_BYTES)
        file = self.active
        record = encode_one_settle(file.epoch, file.durable_offset, owner, first, count)
        self._batch.parts.append(record)
        return self._count(ONE_SETTLE_BYTES)

    def append_raft_entries(
        self, run: RaftRun, index: i64, contents: Sequence[Sequence[bytes]], begin: i64
    ) -> list[int]:
        """Append RAFT_ENTRY records with `contents` from place `begin` on, the first of them at
        `index`, as many as go into one file and one batch, at least one. Their sizes; they end at
        `offset` of `active`."""
        sizes: list[int] = []
        end: i64 = len(contents)
        for place in range(begin, end):
            content = contents[place]
            byte_count: i64 = 0
            for part in content:
                byte_count += len(part)
            size: i64 = padded(RAFT_HEAD_BYTES + byte_count)
            if place > begin and not self._has_room(size):
                break
            if place == begin:
                self._make_room(size)
                run.begin(self.active.epoch, self.active.durable_offset)
            if byte_count < JOIN_BYTES and len(content) == 1:
                self._batch.parts.append(run.encode_whole(index, content[0], size))
                self._count(size)
            else:
                start = run.encode_start(index, content, RAFT_HEAD_BYTES + byte_count)
                self._put(start, content, byte_count, size)
            sizes.append(size)
            index += 1
        return sizes

    def _has_room(self, size: i64) -> bool:
        """Whether so many bytes go into the active file and into the open batch, which is begun."""
        return (
            self.offset + size + SEAL_BYTES <= self.active.size
            and self._batch.byte_count + size <= self._group_bytes
        )

    def _make_room(self, size: int) -> None:
        """See to it that so many bytes go into the active file, and into the open batch."""
        if self.offset + size + SEAL_BYTES > self.active.size:
            self.roll(size)
        elif self._batch.byte_count and self._batch.byte_count + size > self._group_bytes:
            self.flush()

    def _place(
        self,
        kind: int,
        owner: int,
        index: int,
        part: int,
        payload: list[Buffer],
        length: int,
        size: int,
    ) -> int:
        file = self.active
        header = encode_header(
            file.epoch, file.durable_offset, owner, index, kind, part, payload, length
        )
        return self._put(header, payload, length, size)

    def _put(self, start: bytes, rest: Sequence[Buffer], rest_bytes: int, size: int) -> int:
        """A record of `size` bytes: its beginning, `rest_bytes` more, padding. Its offset."""
        batch = self._batch
        padding = PADDING[: size - rest_bytes - len(start)]
        if rest_bytes < JOIN_BYTES:
            pieces: list[Buffer] = [start]
            pieces.extend(rest)
            pieces.append(padding)
            batch.parts.append(b"".join(pieces))
        else:
            batch.parts.append(start)
            batch.parts.extend(rest)
            if padding:
                batch.parts.append(padding)
        return self._count(size)

    def _count(self, size: int) -> int:
        """A record of `size` bytes was put into the open batch; its offset."""
        self._batch.byte_count += size
        file = self.active
        at = self.offset
        if at >= file.next_landmark:
            file.note_landmark(at)
        self.offset = at + size
        self.appended_lsn += size
        return at

    def flush(self) -> None:
        """Hand over what was appended."""
        batch = self._batch
        if not batch.byte_count:
            return
        batch.end_lsn = self.appended_lsn
        self._batch = Batch(self.active, self.offset)
        self._hand_over(batch)

    def roll(self, least_bytes: int = 0) -> None:
        """Seal the active file and go on in a new one that can hold `least_bytes`.

        Files are used in the order of their ids, for that is how recovery finds the last one; one
        that is next in line and too small is sealed at once.
        """
        least_bytes += BLOCK_BYTES + SEAL_BYTES
        self._take_next(least_bytes)
        while self.active.size < least_bytes:
            self._take_next(least_bytes)

    def seal(self) -> None:
        """The active file gets no more records."""
        self._place(SEAL, 0, 0, 0, [], 0, SEAL_BYTES)
        self.flush()
        self.active.used = self.offset
        self.active.sealed_lsn = self.appended_lsn

    def _take_next(self, least_bytes: int) -> None:
        self.seal()
        self.active = self._next_file(least_bytes)
        self.offset = BLOCK_BYTES
        self._batch = Batch(self.active, self.offset)

"""Byte layout of one record of the write-ahead log and of its segments. No I/O.

Little-endian; a record begins at a multiple of 8 bytes and is padded with zeros to the next one:

    crc u32              crc32c of everything after it: the rest of the header, then the payload
    length u32           bytes of the payload, padding not counted
    epoch u32            that of the file; a record of an earlier life of the file never counts
    durable_offset u32   all bytes of this file before it were durable when this was appended, so
                         that damage before it is corruption, and damage after it may be a torn tail
    owner u64            uid of a queue or log group; PUBLISH: that of the first target
    index u64            PUBLISH: number of the publish in the whole log; ENTRY, RAFT_ENTRY: its
                         log index; MARK: highest delivered message_seq; HARD_STATE: its number
                         in the whole log
    kind u8, flags u8
    owner_check u16      hash of the owner, so that the owner of a damaged record can be believed
    part u32             PUBLISH: place of the first message in the record it was first written in;
                         RAFT_ENTRY, HARD_STATE: incarnation of the group

Payloads are in docs/formats/wal.md. Message ranges are `(first, count)` pairs.
"""

from collections.abc import Sequence
from struct import Struct
from typing import Final, final

from mypy_extensions import i64

from warren.checksum import crc32c

Buffer = bytes | memoryview
Ranges = list[tuple[int, int]]  # (first, count), ascending, disjoint

PUBLISH: Final = 1
SETTLE: Final = 2
CHECKPOINT: Final = 3
MARK: Final = 4
ENTRY: Final = 5
HARD_STATE: Final = 6  # term and vote of a member of such a group
CLEAN: Final = 7  # the last thing a clean shutdown writes
DELETED: Final = 8  # the owner is gone, with all its messages
SEAL: Final = 9  # the last record of a file that gets no more
OPENED: Final = 10  # the first record of a process: what came before is over
RAFT_ENTRY: Final = 11  # an entry of a group of several members
FILE_HEADER: Final = 255  # no record: the first block of a file, of which no more is damaged
FILE_LIST: Final = 254  # no record: the list of the files (`warren.storage.manifest`)

KIND_NAMES: Final = {
    PUBLISH: "PUBLISH",
    SETTLE: "SETTLE",
    CHECKPOINT: "CHECKPOINT",
    MARK: "MARK",
    ENTRY: "ENTRY",
    HARD_STATE: "HARD_STATE",
    CLEAN: "CLEAN",
    DELETED: "DELETED",
    SEAL: "SEAL",
    OPENED: "OPENED",
    RAFT_ENTRY: "RAFT_ENTRY",
    FILE_HEADER: "file header",
    FILE_LIST: "list of files",
}

HEADER_BYTES: Final = 40
PAYLOAD_VERSION: Final = 1
LABELLED_VERSION: Final = 2  # of a PUBLISH with a label
LABEL_BYTES_MAX: Final = 65_535
PUBLISH_BYTES: Final = 24  # fixed part of the payload of PUBLISH
TARGETS_MAX: Final = 65_535

HEADER: Final = Struct("<IIIIQQBBHI")
HEADER_REST: Final = Struct("<IIIQQBBHI")
CRC: Final = Struct("<I")
PUBLISH_HEAD: Final = Struct("<BBHHHIIQ")
TARGET: Final = Struct("<QQ")
SETTLE_HEAD: Final = Struct("<B3xI")
CHECKPOINT_HEAD: Final = Struct("<B3xIQ")
ONE_PUBLISH: Final = Struct("<IIIQQBBHIBBHHHIIQQQ")  # HEADER_REST, PUBLISH_HEAD and TARGET
ONE_PUBLISH_BYTES: Final = PUBLISH_BYTES + 16  # of its payload, up to the offsets
ONE_SETTLE: Final = Struct("<IIIQQBBHIB3xIQQ")  # HEADER_REST, SETTLE_HEAD and TARGET
ONE_SETTLE_BYTES: Final = 64  # of the whole record
OFFSET: Final = Struct("<I")
RAFT_HEAD: Final = Struct("<QQB7x")
RAFT_HEAD_BYTES: Final = 24
RAFT_FRONT: Final = Struct("<IIQ")
RAFT_BACK: Final = Struct("<BBHIQQB7x")
RAFT_VARYING: Final = Struct("<I16sQ32s")  # HEADER_REST and RAFT_HEAD, one behind the other
RAFT_START_BYTES: Final = HEADER_BYTES + RAFT_HEAD_BYTES
STATE: Final = Struct("<QQ")
STATE_BYTES: Final = 16
LABEL_LENGTH: Final = Struct("<H")
PADDING: Final = bytes(8)
_WHOLE_LAYOUTS: Final[list[Struct | None]] = []  # of `whole_layout`, by size / 8


class CorruptRecord(Exception):
    """Bytes that were durable are not what was written.

    `targets` are those that are known to be hit; empty means that it is unknown, so that each
    owner may be.
    """

    def __init__(
        self,
        path: str,
        offset: int,
        kind: int = 0,
        targets: tuple[tuple[int, int, int], ...] = (),
        index: int = 0,
        reason: str = "",
    ) -> None:
        self.reason = reason  # what is wrong with the file as a whole
        place = f"corrupt record in {path} at offset {offset}"
        super().__init__(f"log file {path} {reason}" if reason else place)
        self.path = path
        self.offset = offset
        self.kind = kind  # of the record; 0: not known
        # (owner, first message_seq, count); 0 and 0 if it is no PUBLISH, or they are not known
        self.targets = targets
        self.index = index  # of the record's header, if `targets` names its owner

    @property
    def owners(self) -> tuple[int, ...]:
        return tuple(target[0] for target in self.targets)


@final
class Record:
    """A record as read, its checksum found right."""

    __slots__ = ("durable_offset", "index", "kind", "offset", "owner", "part", "payload")

    def __init__(
        self,
        offset: int,
        durable_offset: int,
        owner: int,
        index: int,
        kind: int,
        part: int,
        payload: memoryview,
    ) -> None:
        self.offset = offset  # of its header in the file
        self.durable_offset = durable_offset
        self.owner = owner
        self.index = index
        self.kind = kind
        self.part = part
        self.payload = payload


@final
class PublishPayload:
    """What a PUBLISH says, the message data left where it is.

    Message `i` is `data[offsets[i] - offsets[0] : offsets[i + 1] - offsets[0]]` and has, in each
    target `(owner, first)`, the message_seq `first + i`.
    """

    __slots__ = (
        "count",
        "data_at",
        "data_bytes",
        "format_tag",
        "info",
        "label",
        "meta",
        "meta_stride",
        "now_ms",
        "offsets",
        "targets",
    )

    def __init__(
        self,
        format_tag: int,
        info: int,
        now_ms: int,
        count: int,
        targets: list[tuple[int, int]],
        meta_stride: int,
        meta: bytes,
        offsets: bytes,
        data_at: int,
        data_bytes: int,
        label: bytes,
    ) -> None:
        self.format_tag = format_tag
        self.info = info
        self.now_ms = now_ms
        self.count = count
        self.targets = targets
        self.meta_stride = meta_stride
        self.meta = meta  # meta_stride bytes for each message
        self.offsets = offsets  # count + 1 times u32; the first one need not be 0
        self.data_at = data_at  # where the data begins in the payload
        self.data_bytes = data_bytes
        self.label = label  # what holds for all of its messages; opaque


def padded(length: int) -> int:
    """Bytes that a record with `length` bytes of payload takes in the file."""
    return (HEADER_BYTES + length + 7) & ~7


def owner_check(owner: int) -> int:
    """16 bits of a multiplicative hash."""
    return (owner * 0x9E3779B97F4A7C15 >> 48) & 0xFFFF


def quick_check(owner: i64) -> i64:
    """The same without large numbers: digits of 16 bits, the lowest first, multiplied by hand."""
    o0 = owner & 0xFFFF
    o1 = (owner >> 16) & 0xFFFF
    o2 = (owner >> 32) & 0xFFFF
    o3 = (owner >> 48) & 0xFFFF
    carry = (o0 * 0x7C15) >> 16
    carry = (carry + o0 * 0x7F4A + o1 * 0x7C15) >> 16
    carry = (carry + o0 * 0x79B9 + o1 * 0x7F4A + o2 * 0x7C15) >> 16
    return (carry + o0 * 0x9E37 + o1 * 0x79B9 + o2 * 0x7F4A + o3 * 0x7C15) & 0xFFFF


def encode_header(
    epoch: int,
    durable_offset: int,
    owner: int,
    index: int,
    kind: int,
    part: int,
    payload: Sequence[Buffer],
    length: int,
) -> bytes:
    """Header for a payload of `length` bytes handed in as parts, which are not joined."""
    check = owner_check(owner)
    rest = HEADER_REST.pack(length, epoch, durable_offset, owner, index, kind, 0, check, part)
    crc = crc32c(rest)
    for piece in payload:
        crc = crc32c(piece, crc)
    return CRC.pack(crc) + rest


def decode_record(buffer: memoryview, at: int, epoch: int, file_offset: int) -> Record | None:
    """The record that begins at `buffer[at]`, or None if there is no whole, sound one."""
    if at + HEADER_BYTES > len(buffer):
        return None
    crc, length, its_epoch, durable_offset, owner, index, kind, _, _, part = HEADER.unpack_from(
        buffer, at
    )
    end = at + HEADER_BYTES + length
    if its_epoch != epoch or end > len(buffer) or crc32c(buffer[at + 4 : end]) != crc:
        return None
    return Record(
        file_offset, durable_offset, owner, index, kind, part, buffer[at + HEADER_BYTES : end]
    )


def payload_length(buffer: memoryview, at: int, epoch: int) -> int:
    """What the header at `buffer[at]` claims as length, or -1 if it is of another epoch."""
    fields = HEADER.unpack_from(buffer, at)
    if fields[2] != epoch:
        return -1
    length: int = fields[1]
    return length


def claimed_epoch(head: bytes) -> int:
    """The epoch that a record header claims, or -1 if there is none."""
    if len(head) < HEADER_BYTES:
        return -1
    epoch: int = HEADER.unpack_from(head)[2]
    return epoch


def encode_publish_prefix(
    format_tag: int,
    info: int,
    now_ms: int,
    targets: Sequence[tuple[int, int]],
    meta: bytes,
    offsets: bytes,
    data_bytes: int,
    label: bytes = b"",
) -> bytes:
    """The payload of a PUBLISH up to its data."""
    count = len(offsets) // 4 - 1
    assert count >= 1
    assert 1 <= len(targets) <= TARGETS_MAX
    stride = len(meta) // count
    assert stride * count == len(meta)
    version = LABELLED_VERSION if label else PAYLOAD_VERSION
    head = PUBLISH_HEAD.pack(
        version, format_tag, info, len(targets), stride, count, data_bytes, now_ms
    )
    labelled = LABEL_LENGTH.pack(len(label)) + label if label else b""
    if len(targets) == 1:
        owner, first = targets[0]
        return b"".join((head, TARGET.pack(owner, first), labelled, meta, offsets))
    return b"".join((head, encode_ranges(targets), labelled, meta, offsets))


def encode_one_publish(
    epoch: int,
    durable_offset: int,
    index: int,
    format_tag: int,
    info: int,
    now_ms: int,
    owner: int,
    first: int,
    offsets: bytes,
    data: Buffer,
) -> tuple[bytes, bytes]:
    """A PUBLISH for one target, without meta and label, up to its offsets: checksum, and rest."""
    offsets_bytes: i64 = len(offsets)
    data_bytes: i64 = len(data)
    rest = ONE_PUBLISH.pack(
        ONE_PUBLISH_BYTES + offsets_bytes + data_bytes,
        epoch,
        durable_offset,
        owner,
        index,
        PUBLISH,
        0,
        quick_check(owner),
        0,
        PAYLOAD_VERSION,
        format_tag,
        info,
        1,
        0,
        offsets_bytes // 4 - 1,
        data_bytes,
        now_ms,
        owner,
        first,
    )
    return CRC.pack(crc32c(data, crc32c(offsets, crc32c(rest)))), rest


def label_end(payload: memoryview, version: int, targets_end: int) -> int:
    """Where what follows the label begins; the label is behind the targets."""
    if version == PAYLOAD_VERSION:
        return targets_end
    assert version == LABELLED_VERSION
    (length,) = LABEL_LENGTH.unpack_from(payload, targets_end)
    end: int = targets_end + LABEL_LENGTH.size + length
    return end


def label_of(payload: memoryview, targets_end: int, end: int) -> bytes:
    """The label in a payload; empty if there is none."""
    return bytes(payload[targets_end + LABEL_LENGTH.size : end])


def decode_publish(payload: memoryview) -> PublishPayload:
    """Take a PUBLISH apart; the checksum was right, so that only our own bugs can fail here."""
    version, format_tag, info, target_count, stride, count, data_bytes, now_ms = (
        PUBLISH_HEAD.unpack_from(payload, 0)
    )
    targets_end = PUBLISH_BYTES + 16 * target_count
    targets = decode_ranges(payload[PUBLISH_BYTES:targets_end])
    meta_at = label_end(payload, version, targets_end)
    meta_end = meta_at + stride * count
    offsets_end = meta_end + 4 * (count + 1)
    assert offsets_end + data_bytes == len(payload)
    meta = bytes(payload[meta_at:meta_end])
    offsets = bytes(payload[meta_end:offsets_end])
    return PublishPayload(
        format_tag,
        info,
        now_ms,
        count,
        targets,
        stride,
        meta,
        offsets,
        offsets_end,
        data_bytes,
        label_of(payload, targets_end, meta_at),
    )


def offset_at(offsets: bytes, place: int) -> int:
    """The u32 at `place` of an offsets table."""
    fields = OFFSET.unpack_from(offsets, 4 * place)
    value: int = fields[0]
    return value


def data_bytes_of(offsets: bytes, first: int, last: int) -> int:
    """Bytes of the messages first..last-1 of an offsets table."""
    return offset_at(offsets, last) - offset_at(offsets, first)


def encode_ranges(ranges: Sequence[tuple[int, int]]) -> bytes:
    """Pairs of u64."""
    flat: list[int] = []
    for first, count in ranges:
        flat.append(first)
        flat.append(count)
    return Struct(f"<{len(flat)}Q").pack(*flat)


def decode_ranges(payload: memoryview) -> Ranges:
    """Pairs of u64."""
    if len(payload) == 16:
        first, count = TARGET.unpack_from(payload)
        return [(first, count)]
    flat = Struct(f"<{len(payload) // 8}Q").unpack(payload)
    return list(zip(flat[::2], flat[1::2], strict=True))


def encode_settle(ranges: Sequence[tuple[int, int]]) -> bytes:
    """Payload of SETTLE: these messages of the owner are finished."""
    if len(ranges) == 1:
        first, count = ranges[0]
        return SETTLE_HEAD.pack(PAYLOAD_VERSION, 1) + TARGET.pack(first, count)
    return SETTLE_HEAD.pack(PAYLOAD_VERSION, len(ranges)) + encode_ranges(ranges)


def encode_one_settle(epoch: int, durable_offset: int, owner: int, first: int, count: int) -> bytes:
    """The whole record of a SETTLE of one range."""
    rest = ONE_SETTLE.pack(
        ONE_SETTLE_BYTES - HEADER_BYTES,
        epoch,
        durable_offset,
        owner,
        0,
        SETTLE,
        0,
        quick_check(owner),
        0,
        PAYLOAD_VERSION,
        1,
        first,
        count,
    )
    return CRC.pack(crc32c(rest)) + rest


def decode_settle(payload: memoryview) -> Ranges:
    version, count = SETTLE_HEAD.unpack_from(payload, 0)
    assert version == PAYLOAD_VERSION
    return decode_ranges(payload[8 : 8 + 16 * count])


def encode_checkpoint(last_seq: int, live: Sequence[tuple[int, int]]) -> bytes:
    """Payload of CHECKPOINT: of the messages up to `last_seq` exactly `live` are alive."""
    return CHECKPOINT_HEAD.pack(PAYLOAD_VERSION, len(live), last_seq) + encode_ranges(live)


def decode_checkpoint(payload: memoryview) -> tuple[int, Ranges]:
    version, count, last_seq = CHECKPOINT_HEAD.unpack_from(payload, 0)
    assert version == PAYLOAD_VERSION
    return last_seq, decode_ranges(payload[16 : 16 + 16 * count])


@final
class RaftRun:
    """Entries that a member appends one behind the other: what they have in common is encoded once.

    In a record there is, behind the checksum: the length, `_front` (epoch, durable_offset, owner),
    the index, and `_back` (the rest of the header, RAFT_HEAD); then the content of the entry.
    """

    __slots__ = ("_back", "_front", "_owner")

    def __init__(
        self, owner: int, incarnation: int, term: int, appended_term: int, kind: int
    ) -> None:
        self._owner = owner
        self._front = b""
        self._back = RAFT_BACK.pack(
            RAFT_ENTRY, 0, owner_check(owner), incarnation, term, appended_term, kind
        )

    def begin(self, epoch: int, durable_offset: int) -> None:
        """The records that follow are in that file, which is durable up to there."""
        self._front = RAFT_FRONT.pack(epoch, durable_offset, self._owner)

    def encode_start(self, index: i64, content: Sequence[bytes], length: i64) -> bytes:
        """The RAFT_ENTRY at `index` up to its content; its payload has `length` bytes."""
        rest = RAFT_VARYING.pack(length, self._front, index, self._back)
        crc = crc32c(rest)
        for piece in content:
            crc = crc32c(piece, crc)
        return CRC.pack(crc) + rest

    def encode_whole(self, index: i64, content: bytes, size: i64) -> bytes:
        """The same record with its short content and its padding: `size` bytes in all."""
        length: i64 = RAFT_HEAD_BYTES + len(content)
        rest = RAFT_VARYING.pack(length, self._front, index, self._back)
        crc = crc32c(content, crc32c(rest))
        return whole_layout(size).pack(crc, rest, content)


def whole_layout(size: i64) -> Struct:
    """Of a RAFT_ENTRY of so many bytes, a multiple of 8: checksum, start, content and zeros."""
    layouts = _WHOLE_LAYOUTS
    place = size // 8
    while len(layouts) <= place:
        layouts.append(None)
    layout = layouts[place]
    if layout is None:
        layout = Struct(f"<I{RAFT_VARYING.size}s{size - RAFT_START_BYTES}s")
        layouts[place] = layout
    return layout


def decode_raft_head(payload: memoryview) -> tuple[int, int, int]:
    """(term, appended_term, kind) of a RAFT_ENTRY; its content is behind RAFT_HEAD_BYTES."""
    term, appended_term, kind = RAFT_HEAD.unpack_from(payload, 0)
    return term, appended_term, kind


def encode_hard_state(term: int, vote: int) -> bytes:
    return STATE.pack(term, vote)


def decode_hard_state(payload: memoryview) -> tuple[int, int]:
    """(term, vote)."""
    term, vote = STATE.unpack_from(payload, 0)
    return term, vote

"""Bytes of the messages between members; docs/formats/raft-messages.md has the layout. Compiled.

`encode` gives parts that are not joined: a head, then the bytes of entries or of a slice as they
came; short contents are one part with the head. `decode` takes a whole message, believes nothing of
it, and copies what it keeps; `BadMessage` for anything that `encode` does not give. What it lets
through the core may rely on: no number out of range, entries that follow each other with terms that
ascend up to the sender's.
"""

import struct
from collections.abc import Sequence
from typing import Final, assert_never, final

from mypy_extensions import i64

from raft.entries import CONFIG, ENTRY_OVERHEAD_BYTES, INDEX_MAX, NOOP, TERM_MAX, Entry
from raft.membership import MEMBER_MAX, decode_config, encode_config
from raft.messages import (
    AppendRequest,
    AppendResponse,
    Message,
    SliceResponse,
    SnapshotSlice,
    TimeoutNow,
    VoteRequest,
    VoteResponse,
)

VERSION: Final = 1

VOTE_REQUEST: Final = 1
VOTE_RESPONSE: Final = 2
APPEND_REQUEST: Final = 3
APPEND_RESPONSE: Final = 4
TIMEOUT_NOW: Final = 5
SNAPSHOT_SLICE: Final = 6
SLICE_RESPONSE: Final = 7

FLAG_1: Final = 1
FLAG_2: Final = 2

_VOTE_REQUEST: Final = struct.Struct("<BBBBQQQ")
_VOTE_RESPONSE: Final = struct.Struct("<BBBBQ")
_APPEND_REQUEST: Final = struct.Struct("<BBBBIQQQQQ")
_APPEND_RESPONSE: Final = struct.Struct("<BBBBQQQQQQ")
_TIMEOUT_NOW: Final = struct.Struct("<BBBBQ")
_SNAPSHOT_SLICE: Final = struct.Struct("<BBBBIQQQQQ")
_SLICE_RESPONSE: Final = struct.Struct("<BBBBQQQQQ")
_ROW: Final = struct.Struct("<QIII")  # an entry: term, bytes, count of attached, kind
_LENGTH_BYTES: Final = 4
SHORT_BYTES: Final = 2048  # of contents, in the mean: cheaper to copy than to keep apart

READ_SEQ_MAX: Final = (1 << 63) - 1


@final
class BadMessage(Exception):
    """What came is no message of this version."""


def encode(message: Message) -> list[bytes]:
    """In parts, to be written one behind the other."""
    if isinstance(message, AppendRequest):
        return _encode_append(message)
    if isinstance(message, SnapshotSlice):
        return _encode_slice(message)
    return [_encode_short(message)]


def _encode_short(
    message: VoteRequest | VoteResponse | AppendResponse | TimeoutNow | SliceResponse,
) -> bytes:
    if isinstance(message, AppendResponse):
        return _APPEND_RESPONSE.pack(
            VERSION,
            APPEND_RESPONSE,
            FLAG_1 if message.is_matching else 0,
            0,
            message.term,
            message.index,
            message.commit_index,
            message.hint_index,
            message.hint_term,
            message.read_seq,
        )
    if isinstance(message, VoteRequest):
        flags = (FLAG_1 if message.is_pre_vote else 0) | (FLAG_2 if message.is_transfer else 0)
        return _VOTE_REQUEST.pack(
            VERSION, VOTE_REQUEST, flags, 0, message.term, message.last_index, message.last_term
        )
    if isinstance(message, VoteResponse):
        flags = (FLAG_1 if message.is_pre_vote else 0) | (FLAG_2 if message.is_granted else 0)
        return _VOTE_RESPONSE.pack(VERSION, VOTE_RESPONSE, flags, 0, message.term)
    if isinstance(message, TimeoutNow):
        return _TIMEOUT_NOW.pack(VERSION, TIMEOUT_NOW, 0, 0, message.term)
    if isinstance(message, SliceResponse):
        return _SLICE_RESPONSE.pack(
            VERSION,
            SLICE_RESPONSE,
            0,
            0,
            message.term,
            message.source,
            message.index,
            message.snapshot_term,
            message.next_slice,
        )
    assert_never(message)


def _encode_append(message: AppendRequest) -> list[bytes]:
    head = _APPEND_REQUEST.pack(
        VERSION,
        APPEND_REQUEST,
        0,
        0,
        len(message.entries),
        message.term,
        message.previous_index,
        message.previous_term,
        message.commit_index,
        message.read_seq,
    )
    if not message.entries:
        return [head]
    pack = _ROW.pack
    rows: list[bytes] = [head]
    lengths: list[int] = []
    contents: list[bytes] = []
    content_bytes: i64 = 0
    for entry in message.entries:
        parts_bytes = 0
        for part in entry.parts:
            parts_bytes += len(part)
        content_bytes += entry.byte_count - ENTRY_OVERHEAD_BYTES
        contents.extend(entry.parts)
        if entry.attached:
            for part in entry.attached:
                lengths.append(len(part))
            contents.extend(entry.attached)
        rows.append(pack(entry.term, parts_bytes, len(entry.attached), entry.kind))
    if lengths:
        rows.append(struct.pack(f"<{len(lengths)}I", *lengths))
    if content_bytes <= len(contents) * SHORT_BYTES:
        rows.extend(contents)
        return [b"".join(rows)]
    return [b"".join(rows), *contents]


def _encode_slice(message: SnapshotSlice) -> list[bytes]:
    config = encode_config(message.config)
    head = _SNAPSHOT_SLICE.pack(
        VERSION,
        SNAPSHOT_SLICE,
        FLAG_1 if message.is_last else 0,
        0,
        len(config),
        message.term,
        message.source,
        message.index,
        message.snapshot_term,
        message.slice_number,
    )
    return [head + config, *message.parts]


def decode(data: memoryview) -> Message:
    """One whole message; nothing of `data` is kept."""
    if len(data) < _TIMEOUT_NOW.size:
        raise BadMessage("it ends too early")
    if data[0] != VERSION:
        raise BadMessage(f"version {data[0]}")
    if data[3] != 0:
        raise BadMessage("a byte that has no meaning is set")
    kind = data[1]
    flags = data[2]
    if kind == APPEND_RESPONSE:
        return _decode_append_response(data, flags)
    if kind == APPEND_REQUEST:
        return _decode_append(data, flags)
    if kind == VOTE_REQUEST:
        return _decode_vote_request(data, flags)
    if kind == VOTE_RESPONSE:
        return _decode_vote_response(data, flags)
    if kind == TIMEOUT_NOW:
        return _decode_timeout_now(data, flags)
    if kind == SNAPSHOT_SLICE:
        return _decode_slice(data, flags)
    if kind == SLICE_RESPONSE:
        return _decode_slice_response(data, flags)
    raise BadMessage(f"kind {kind}")


def _check_size(data: memoryview, size: int) -> None:
    if len(data) != size:
        raise BadMessage(f"{len(data)} bytes in place of {size}")


def _check(value: int, low: int, high: int, name: str) -> None:
    if not low <= value <= high:
        raise BadMessage(f"{name} {value}")


def _decode_vote_request(data: memoryview, flags: int) -> VoteRequest:
    _check_size(data, _VOTE_REQUEST.size)
    _, _, _, _, term, last_index, last_term = _VOTE_REQUEST.unpack(data)
    _check(flags, 0, FLAG_2, "flags")
    _check(term, 1, TERM_MAX, "term")
    _check(last_index, 0, INDEX_MAX, "last index")
    _check(last_term, 0, term - 1, "last term")
    return VoteRequest(term, last_index, last_term, flags & FLAG_1 != 0, flags & FLAG_2 != 0)


def _decode_vote_response(data: memoryview, flags: int) -> VoteResponse:
    _check_size(data, _VOTE_RESPONSE.size)
    _, _, _, _, term = _VOTE_RESPONSE.unpack(data)
    _check(flags, 0, FLAG_1 | FLAG_2, "flags")
    _check(term, 0, TERM_MAX, "term")
    return VoteResponse(term, flags & FLAG_1 != 0, flags & FLAG_2 != 0)


def _decode_append_response(data: memoryview, flags: int) -> AppendResponse:
    _check_size(data, _APPEND_RESPONSE.size)
    unpacked: tuple[int, int, int, int, int, int, int, int, int, int]
    unpacked = _APPEND_RESPONSE.unpack(data)
    _, _, _, _, term, index, commit_index, hint_index, hint_term, read_seq = unpacked
    _check(flags, 0, FLAG_1, "flags")
    _check(term, 1, TERM_MAX, "term")
    _check(index, 0, INDEX_MAX, "index")
    _check(commit_index, 0, INDEX_MAX, "commit index")
    _check(hint_index, 0, INDEX_MAX, "hint index")
    _check(hint_term, 0, term, "hint term")
    _check(read_seq, 0, READ_SEQ_MAX, "round of reads")
    return AppendResponse(
        term, flags == FLAG_1, index, commit_index, hint_index, hint_term, read_seq
    )


def _decode_timeout_now(data: memoryview, flags: int) -> TimeoutNow:
    _check_size(data, _TIMEOUT_NOW.size)
    _, _, _, _, term = _TIMEOUT_NOW.unpack(data)
    _check(flags, 0, 0, "flags")
    _check(term, 1, TERM_MAX, "term")
    return TimeoutNow(term)


def _decode_append(data: memoryview, flags: int) -> AppendRequest:
    if len(data) < _APPEND_REQUEST.size:
        raise BadMessage("it ends too early")
    unpacked: tuple[int, int, int, int, int, int, int, int, int, int]
    unpacked = _APPEND_REQUEST.unpack_from(data)
    _, _, _, _, count, term, previous_index, previous_term, commit_index, read_seq = unpacked
    _check(flags, 0, 0, "flags")
    _check(term, 1, TERM_MAX, "term")
    _check(previous_index, 0, INDEX_MAX - count, "previous index")
    _check(previous_term, 0, term if previous_index else 0, "previous term")
    _check(commit_index, 0, INDEX_MAX, "commit index")
    _check(read_seq, 0, READ_SEQ_MAX, "round of reads")
    entries: Sequence[Entry] = ()
    if count:
        entries = _decode_entries(data, count, term, previous_index, previous_term)
    else:
        _check_size(data, _APPEND_REQUEST.size)
    return AppendRequest(term, previous_index, previous_term, commit_index, entries, read_seq)


def _decode_entries(
    data: memoryview, count: int, term: int, previous_index: int, previous_term: int
) -> list[Entry]:
    """Rows of all entries, lengths of all that is attached, then their bytes in order."""
    lengths_at = _APPEND_REQUEST.size + count * _ROW.size
    if lengths_at > len(data):
        raise BadMessage("it ends within its entries")
    rows: list[tuple[int, int, int, int]]
    rows = list(_ROW.iter_unpack(data[_APPEND_REQUEST.size : lengths_at]))
    attached_count = 0
    for row in rows:
        attached_count += row[2]
    position: i64 = lengths_at + attached_count * _LENGTH_BYTES
    if position > len(data):
        raise BadMessage("it ends within its entries")
    lengths: tuple[int, ...] = struct.unpack_from(f"<{attached_count}I", data, lengths_at)
    is_short = len(data) - position <= (count + attached_count) * SHORT_BYTES
    whole = bytes(data) if is_short else b""
    entries: list[Entry] = []
    last_term = previous_term
    index: i64 = previous_index
    attached_at = 0
    for entry_term, parts_bytes, entry_attached, kind in rows:
        index += 1
        began = position
        if not last_term <= entry_term <= term or entry_term == 0 or kind > CONFIG:
            raise BadMessage(f"an entry of term {entry_term} and kind {kind}")
        last_term = entry_term
        end = position + parts_bytes
        part = whole[position:end] if is_short else bytes(data[position:end])
        position = end
        attached: Sequence[bytes] = ()
        if entry_attached:
            bodies: list[bytes] = []
            for length in lengths[attached_at : attached_at + entry_attached]:
                end = position + length
                bodies.append(whole[position:end] if is_short else bytes(data[position:end]))
                position = end
            attached_at += entry_attached
            attached = bodies
        if kind:
            _check_own_kind(kind, part, attached)
        byte_count = ENTRY_OVERHEAD_BYTES + position - began
        entries.append(Entry(index, entry_term, kind, (part,), attached, term, byte_count))
    if position != len(data):
        raise BadMessage("its entries have another length")
    return entries


def _check_own_kind(kind: int, part: bytes, attached: Sequence[bytes]) -> None:
    """Entries that mean something to the core."""
    if attached or (kind == NOOP and part):
        raise BadMessage(f"an entry of kind {kind} with contents")
    if kind == CONFIG:
        try:
            decode_config(part)
        except ValueError as error:
            raise BadMessage(str(error)) from error


def _decode_slice(data: memoryview, flags: int) -> SnapshotSlice:
    if len(data) < _SNAPSHOT_SLICE.size:
        raise BadMessage("it ends too early")
    unpacked: tuple[int, int, int, int, int, int, int, int, int, int]
    unpacked = _SNAPSHOT_SLICE.unpack_from(data)
    _, _, _, _, config_bytes, term, source, index, snapshot_term, number = unpacked
    _check(flags, 0, FLAG_1, "flags")
    _check(term, 1, TERM_MAX, "term")
    _check(source, 1, MEMBER_MAX, "source")
    _check(index, 1, INDEX_MAX, "index")
    _check(snapshot_term, 1, term, "term of the snapshot")
    _check(number, 0, INDEX_MAX, "slice")
    end = _SNAPSHOT_SLICE.size + config_bytes
    if end > len(data):
        raise BadMessage("it ends within its configuration")
    try:
        config = decode_config(data[_SNAPSHOT_SLICE.size : end])
    except ValueError as error:
        raise BadMessage(str(error)) from error
    parts = (bytes(data[end:]),)
    return SnapshotSlice(term, source, index, snapshot_term, config, number, flags == FLAG_1, parts)


def _decode_slice_response(data: memoryview, flags: int) -> SliceResponse:
    _check_size(data, _SLICE_RESPONSE.size)
    unpacked: tuple[int, int, int, int, int, int, int, int, int] = _SLICE_RESPONSE.unpack(data)
    _, _, _, _, term, source, index, snapshot_term, next_slice = unpacked
    _check(flags, 0, 0, "flags")
    _check(term, 1, TERM_MAX, "term")
    _check(source, 1, MEMBER_MAX, "source")
    _check(index, 1, INDEX_MAX, "index")
    _check(snapshot_term, 1, term, "term of the snapshot")
    _check(next_slice, 0, INDEX_MAX, "slice")
    return SliceResponse(term, source, index, snapshot_term, next_slice)

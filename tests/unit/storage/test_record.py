"""Layout of records: the bytes on disk, to the letter."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from warren.storage.files import decode_header, encode_header, id_of, name_of
from warren.storage.record import (
    CHECKPOINT,
    ENTRY,
    PUBLISH,
    RAFT_HEAD_BYTES,
    SETTLE,
    RaftRun,
    Record,
    decode_checkpoint,
    decode_hard_state,
    decode_publish,
    decode_raft_head,
    decode_record,
    decode_settle,
    encode_checkpoint,
    encode_hard_state,
    encode_one_publish,
    encode_one_settle,
    encode_publish_prefix,
    encode_settle,
    owner_check,
    padded,
    quick_check,
)
from warren.storage.record import encode_header as encode_record_header

ranges = st.lists(st.tuples(st.integers(0, 2**63), st.integers(1, 2**32)), min_size=1, max_size=20)


def whole(kind: int, owner: int, index: int, payload: list[bytes]) -> bytes:
    length = sum(map(len, payload))
    header = encode_record_header(0xAABBCCDD, 4096, owner, index, kind, 0, payload, length)
    return (header + b"".join(payload)).ljust(padded(length), b"\0")


def decoded(found: bytes, epoch: int = 0xAABBCCDD) -> Record | None:
    return decode_record(memoryview(found), 0, epoch, 4096)


def test_an_entry_has_these_bytes() -> None:
    assert whole(ENTRY, 1, 7, [b"ab", b"c"]).hex() == (
        "ba3c4016"  # crc
        "03000000"  # length
        "ddccbbaa"  # epoch
        "00100000"  # durable_offset
        "0100000000000000"  # owner
        "0700000000000000"  # index
        "05"  # kind
        "00"  # flags
        "379e"  # owner_check
        "00000000"  # part
        "6162630000000000"  # payload, padding
    )


def test_a_publish_has_these_bytes() -> None:
    offsets = b"\x0a\0\0\0\x0b\0\0\0\x0d\0\0\0"
    prefix = encode_publish_prefix(1, 0x0203, 5, [(9, 100)], b"mmMM", offsets, 3)
    assert prefix.hex() == (
        "01"  # version
        "01"  # format_tag
        "0302"  # info
        "0100"  # target_count
        "0200"  # meta_stride
        "02000000"  # message_count
        "03000000"  # data_bytes
        "0500000000000000"  # now_ms
        "09000000000000006400000000000000"  # target
        "6d6d4d4d"  # meta
        "0a0000000b0000000d000000"  # offsets
    )


def test_a_publish_with_a_label_has_these_bytes() -> None:
    prefix = encode_publish_prefix(2, 0, 5, [(9, 100)], b"", bytes(8), 0, b"name")
    assert prefix.hex() == (
        "02"  # version
        "02"  # format_tag
        "0000"  # info
        "0100"  # target_count
        "0000"  # meta_stride
        "01000000"  # message_count
        "00000000"  # data_bytes
        "0500000000000000"  # now_ms
        "09000000000000006400000000000000"  # target
        "0400" + b"name".hex() + "0000000000000000"  # offsets
    )


def test_the_first_block_of_a_file_has_these_bytes() -> None:
    block = encode_header(3, 0x01020304, True)
    assert block[:32].hex() == "57415252454e574c01000000010000000300000000000000040302016cdec5c2"
    assert block[32:2048] == bytes(2048 - 32)
    assert block[2048:] == block[:2048]  # the copy
    assert decode_header(block) == (3, 0x01020304, True)


def test_a_first_block_with_any_byte_changed_is_refused() -> None:
    block = encode_header(3, 9, False)
    for place in range(32):
        assert decode_header(block[:place] + bytes([block[place] ^ 1]) + block[place + 1 :]) is None


def test_settle_and_checkpoint_have_these_bytes() -> None:
    assert encode_settle([(1, 2)]).hex() == "0100000001000000" + "01" + "00" * 7 + "02" + "00" * 7
    assert encode_checkpoint(9, []).hex() == "0100000000000000" + "09" + "00" * 7


@given(ranges, st.integers(0, 2**63))
def test_settle_and_checkpoint_come_back_as_they_went(
    pairs: list[tuple[int, int]], last_seq: int
) -> None:
    assert decode_settle(memoryview(encode_settle(pairs))) == pairs
    assert decode_checkpoint(memoryview(encode_checkpoint(last_seq, pairs))) == (last_seq, pairs)


@given(
    st.lists(st.tuples(st.integers(1, 2**63), st.integers(1, 2**63)), min_size=1, max_size=5),
    st.lists(st.binary(min_size=1, max_size=30), min_size=1, max_size=8),
    st.integers(0, 3),
    st.integers(0, 1000),
    st.binary(max_size=600),
)
def test_a_publish_comes_back_as_it_went(
    targets: list[tuple[int, int]], bodies: list[bytes], stride: int, base: int, label: bytes
) -> None:
    table = [base]
    for body in bodies:
        table.append(table[-1] + len(body))
    offsets = b"".join(value.to_bytes(4, "little") for value in table)
    data = b"".join(bodies)
    meta = bytes(range(stride * len(bodies)))
    prefix = encode_publish_prefix(2, 65_535, 2**40, targets, meta, offsets, len(data), label)
    record = decoded(whole(PUBLISH, targets[0][0], 1, [prefix, data]))
    assert record is not None
    found = decode_publish(record.payload)
    assert (found.format_tag, found.info, found.now_ms) == (2, 65_535, 2**40)
    assert (found.targets, found.meta, found.offsets) == (targets, meta, offsets)
    assert (found.count, found.meta_stride, found.label) == (len(bodies), stride, label)
    assert record.payload[found.data_at :] == data


def test_a_record_with_any_bit_changed_is_refused() -> None:
    found = whole(CHECKPOINT, 5, 0, [encode_checkpoint(9, [(1, 2)])])
    assert decoded(found) is not None
    for place in range(8 * len(found)):
        changed = bytearray(found)
        changed[place // 8] ^= 1 << place % 8
        assert decoded(bytes(changed)) is None


def test_a_record_of_another_epoch_is_refused() -> None:
    assert decoded(whole(ENTRY, 1, 7, [b"abc"]), epoch=0xAABBCCDE) is None


def test_a_record_cut_short_anywhere_is_refused() -> None:
    found = whole(ENTRY, 1, 7, [b"12345678"])
    for length in range(len(found)):
        assert decoded(found[:length]) is None


def test_the_owner_check_tells_owners_apart() -> None:
    assert all(owner_check(owner) != owner_check(owner ^ 1 << bit) for owner in (1, 77, 2**40)
               for bit in range(64))  # fmt: skip


def test_only_names_of_the_log_have_an_id() -> None:
    assert id_of(name_of("wal-", 12)) == 12
    assert id_of("wal-12.log") == -1
    assert id_of("lock") == -1
    assert id_of("snap-00000000000000000001-00000000000000000001.bin") == -1


def test_an_entry_of_a_group_of_several_members_has_these_bytes() -> None:
    run = RaftRun(500, 0x01020304, 3, 4, 2)
    run.begin(0xAABBCCDD, 4096)
    start = run.encode_start(7, [b"a", b"b"], RAFT_HEAD_BYTES + 2)
    assert (start + b"ab").hex()[8:] == (
        "1a000000"  # length
        "ddccbbaa"  # epoch
        "00100000"  # durable_offset
        "f401000000000000"  # owner
        "0700000000000000"  # index
        "0b"  # kind
        "00"  # flags
        f"{owner_check(500).to_bytes(2, 'little').hex()}"
        "04030201"  # incarnation
        "0300000000000000"  # term
        "0400000000000000"  # appended_term
        "02" + "00" * 7 + "6162"  # kind, content
    )


@pytest.mark.parametrize("byte_count", [0, 1, 7, 8, 1023, 2047])
def test_an_entry_in_one_piece_has_the_bytes_of_one_in_parts(byte_count: int) -> None:
    run = RaftRun(500, 1, 3, 4, 2)
    run.begin(7, 4096)
    content = bytes(range(256)) * 8
    content = content[:byte_count]
    parts = run.encode_start(9, (content,), RAFT_HEAD_BYTES + byte_count) + content
    size = padded(RAFT_HEAD_BYTES + byte_count)
    assert run.encode_whole(9, content, size) == parts + bytes(size - len(parts))


def test_a_hard_state_has_these_bytes() -> None:
    assert encode_hard_state(3, 2**63).hex() == "0300000000000000" + "0000000000000080"


@given(st.integers(0, 2**64 - 1), st.integers(0, 2**64 - 1), st.integers(0, 255))
def test_entries_and_hard_states_of_members_come_back_as_they_went(
    term: int, other: int, kind: int
) -> None:
    run = RaftRun(1, 1, term, other, kind)
    run.begin(1, 0)
    start = run.encode_start(1, (), RAFT_HEAD_BYTES)
    record = decode_record(memoryview(start), 0, 1, 0)
    assert record is not None
    assert decode_raft_head(record.payload) == (term, other, kind)
    assert decode_hard_state(memoryview(encode_hard_state(term, other))) == (term, other)


@given(st.integers(0, 2**63 - 1))
def test_the_quick_check_of_an_owner_is_the_check(owner: int) -> None:
    assert quick_check(owner) == owner_check(owner)


@given(
    st.integers(1, 2**40),
    st.integers(1, 2**40),
    st.lists(st.binary(min_size=1, max_size=9), min_size=1, max_size=4),
    st.integers(0, 99),
)
def test_a_publish_for_one_queue_is_that_for_any(
    owner: int, first: int, bodies: list[bytes], base: int
) -> None:
    data = b"".join(bodies)
    ends = [base + sum(map(len, bodies[:count])) for count in range(len(bodies) + 1)]
    offsets = b"".join(end.to_bytes(4, "little") for end in ends)
    prefix = encode_publish_prefix(1, 5, 99, [(owner, first)], b"", offsets, len(data))
    any_way = whole(PUBLISH, owner, 12, [prefix, data])
    start = encode_one_publish(0xAABBCCDD, 4096, 12, 1, 5, 99, owner, first, offsets, data)
    one_way = b"".join((*start, offsets, data))
    assert one_way.ljust(len(any_way), b"\0") == any_way


@given(st.integers(1, 2**40), st.integers(1, 2**40), st.integers(1, 2**32))
def test_a_settle_of_one_range_is_that_of_any(owner: int, first: int, count: int) -> None:
    any_way = whole(SETTLE, owner, 0, [encode_settle([(first, count)])])
    assert encode_one_settle(0xAABBCCDD, 4096, owner, first, count) == any_way

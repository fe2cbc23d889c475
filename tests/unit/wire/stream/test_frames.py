"""Frames of the stream protocol: bytes that real clients send, and wrong ones."""

import gzip
import zlib
from time import process_time

import cramjam
import pytest

from warren.wire.stream import codes
from warren.wire.stream.chunks import (
    CHUNK_HEAD,
    Entry,
    Unsupported,
    encode_chunk,
    take_entry,
)
from warren.wire.stream.frames import Answer, BadFrame, Fields, FrameBuffer, FrameWriter

# DeclarePublisher 1, correlation 7, publisher 3, reference "ref", stream "log".
DECLARE = bytes.fromhex("00000013 0001 0001 00000007 03 0003 726566 0003 6c6f67".replace(" ", ""))


def publish(*entries: bytes, version: int = 1) -> Fields:
    fields = Fields(FrameWriter(codes.PUBLISH, version).raw(b"".join(entries)).end()[4:])
    assert fields.key == codes.PUBLISH
    return fields


def single(number: int, message: bytes) -> bytes:
    return number.to_bytes(8, "big") + len(message).to_bytes(4, "big") + message


def batch(number: int, kind: int, packed: bytes, count: int, size: int) -> bytes:
    head = number.to_bytes(8, "big") + bytes([0x80 | kind << 4])
    sizes = size.to_bytes(4, "big") + len(packed).to_bytes(4, "big")
    return head + count.to_bytes(2, "big") + sizes + packed


def listed(*messages: bytes) -> bytes:
    return b"".join(len(each).to_bytes(4, "big") + each for each in messages)


def test_fields_are_read_as_the_specification_lays_them_out() -> None:
    frames = FrameBuffer(100)
    frames.add(DECLARE)
    body = frames.take()
    assert body is not None
    fields = Fields(body)
    assert (fields.key, fields.version, fields.is_response) == (1, 1, False)
    assert (fields.u32(), fields.u8(), fields.string(), fields.string()) == (7, 3, "ref", "log")
    assert fields.is_at_end


def test_frames_are_found_however_the_socket_cuts_them() -> None:
    frames = FrameBuffer(100)
    found: list[bytes] = []
    for at in range(2 * len(DECLARE)):
        frames.add((DECLARE + DECLARE)[at : at + 1])
        while (body := frames.take()) is not None:
            found.append(body)
    assert found == [DECLARE[4:], DECLARE[4:]]


def cost_of_pieces(count: int) -> float:
    """CPU seconds for so many pieces of one frame."""
    costs: list[float] = []
    for _ in range(3):
        frames = FrameBuffer(1 << 20)
        frames.add((1 << 20).to_bytes(4, "big"))
        begun = process_time()
        for _ in range(count):
            frames.add(b"0123456789abcdef")
            assert frames.take() is None
        costs.append(process_time() - begun)
    return min(costs)


def test_the_cost_of_a_frame_in_small_pieces_grows_with_its_size() -> None:
    assert cost_of_pieces(64_000) < 9 * cost_of_pieces(16_000)  # 4 if linear, 16 if quadratic


def test_an_answer_has_the_bit_of_responses() -> None:
    told = Answer(codes.OPEN, 5, codes.OK).pairs({"a": "b"}).end()
    assert told.hex() == "000000148015000100000005000100000001000161000162"


@pytest.mark.parametrize(
    "size", [0, 3, 101, (1 << 32) - 1], ids=["empty", "no version", "too large", "huge"]
)
def test_frames_of_wrong_sizes_are_refused_before_they_are_read(size: int) -> None:
    frames = FrameBuffer(100)
    frames.add(size.to_bytes(4, "big") + b"\x00\x01\x00\x01")
    with pytest.raises(BadFrame) as refused:
        frames.take()
    assert refused.value.is_too_large == (size > 100)


@pytest.mark.parametrize("length", range(4, len(DECLARE) - 4))
def test_a_frame_that_is_cut_short_is_refused(length: int) -> None:
    fields = Fields(DECLARE[4 : 4 + length])
    with pytest.raises(BadFrame, match="cut short"):
        (fields.u32(), fields.u8(), fields.string(), fields.string())


@pytest.mark.parametrize("count", [b"\xff\xff\xff\xff", b"\x7f\xff\xff\xff", b"\x00\x01\x00\x01"])
def test_an_array_of_more_than_a_frame_can_hold_is_refused(count: bytes) -> None:
    with pytest.raises(BadFrame, match="an array of"):
        Fields(b"\x00\x0f\x00\x01" + count).strings()


def test_a_string_that_is_not_utf_8_is_refused() -> None:
    with pytest.raises(BadFrame, match="not UTF-8"):
        Fields(b"\x00\x0f\x00\x01\x00\x01\xff").string()


def test_null_strings_and_bytes_are_empty() -> None:
    fields = Fields(b"\x00\x01\x00\x01\xff\xff\xff\xff\xff\xff")
    assert (fields.string(), fields.blob()) == ("", b"")


def test_entries_are_single_messages_and_batches() -> None:
    packed = gzip.compress(listed(b"b", b"c"))
    fields = publish(single(1, b"a"), batch(2, 1, packed, 2, 10), batch(3, 0, listed(b"d"), 1, 5))
    assert [take_entry(fields, False) for _ in range(3)] == [
        Entry(1, "", (b"a",)),
        Entry(2, "", (b"b", b"c")),
        Entry(3, "", (b"d",)),
    ]
    assert fields.is_at_end


def test_entries_of_version_2_have_filter_values() -> None:
    entry = single(1, b"a")
    fields = publish(entry[:8] + b"\x00\x04west" + entry[8:], version=2)
    assert take_entry(fields, True) == Entry(1, "west", (b"a",))


@pytest.mark.parametrize(
    "entry",
    [
        single(1, b"abc")[:-1],
        single(1, b"")[:9],
        batch(1, 0, listed(b"a"), 2, 5),
        batch(1, 0, listed(b"a"), 0, 5),
        batch(1, 0, b"\x7f\xff\xff\xffa", 1, 5),
        batch(1, 1, b"no gzip", 1, 5),
        batch(1, 1, gzip.compress(listed(b"a"), mtime=0), 1, 4),
        batch(1, 1, gzip.compress(bytes(1000), mtime=0), 1, 5),
        batch(1, 1, gzip.compress(b"", mtime=0), 1, (1 << 32) - 1),
    ],
)
def test_entries_that_are_none_are_refused(entry: bytes) -> None:
    with pytest.raises(BadFrame):
        take_entry(publish(entry), False)


CODECS = {1: cramjam.gzip, 2: cramjam.snappy, 3: cramjam.lz4, 4: cramjam.zstd}


@pytest.mark.parametrize("kind", CODECS)
def test_batches_are_unpacked_by_each_compression(kind: int) -> None:
    content = listed(b"a", b"b" * 1000)
    packed = bytes(CODECS[kind].compress(content))
    fields = publish(batch(1, kind, packed, 2, len(content)))
    assert take_entry(fields, False) == Entry(1, "", (b"a", b"b" * 1000))
    for wrong in (
        batch(1, kind, packed[:-3], 2, len(content)),
        batch(1, kind, b"packed by none of them", 1, 5),
        batch(1, kind, packed, 2, len(content) - 1),
        batch(1, kind, packed, 2, len(content) + 1),
        batch(1, kind, bytes(CODECS[kind].compress(bytes(1 << 20))), 1, 5),
    ):
        with pytest.raises(BadFrame, match=r"unpacked|other than"):
            take_entry(publish(wrong), False)


def test_a_compression_without_a_name_is_refused_and_passed_over() -> None:
    fields = publish(batch(1, 7, b"packed", 1, 5), single(2, b"a"))
    with pytest.raises(Unsupported, match="compression 7; allowed: none, gzip, snappy, lz4, zstd"):
        take_entry(fields, False)
    assert take_entry(fields, False) == Entry(2, "", (b"a",))


def test_a_chunk_has_a_header_and_length_prefixed_messages() -> None:
    chunk = encode_chunk(42, 1_700_000_000_000, 1, [b"a", b"bc"])
    head, data = chunk[: CHUNK_HEAD.size], chunk[CHUNK_HEAD.size :]
    assert data == listed(b"a", b"bc")
    assert CHUNK_HEAD.unpack(head) == (
        *(0x50, 0, 2, 2, 1_700_000_000_000, 1, 42),
        *(zlib.crc32(data), len(data), 0, 0),
    )
    assert len(head) == 48

"""Frames of the stream protocol: bytes that real clients send, and wrong ones."""

import gzip
import zlib
from time import process_time

import cramjam
import pytest

from warren.wire.stream import codes
from warren.wire.stream.chunks import CHUNK_HEAD, Unsupported, chunk_head, unpacked
from warren.wire.stream.frames import Answer, BadFrame, Fields, FrameBuffer

# DeclarePublisher 1, correlation 7, publisher 3, reference "ref", stream "log".
DECLARE = bytes.fromhex("00000013 0001 0001 00000007 03 0003 726566 0003 6c6f67".replace(" ", ""))


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


def test_frames_are_found_if_more_comes_before_all_are_taken() -> None:
    frames = FrameBuffer(100)
    frames.add(DECLARE[:7])
    assert frames.take() is None
    frames.add(DECLARE[7:] + DECLARE[:9])
    assert frames.take() == DECLARE[4:]
    frames.add(DECLARE[9:])
    frames.add(DECLARE)
    assert [frames.take(), frames.take(), frames.take()] == [DECLARE[4:], DECLARE[4:], None]


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


CODECS = {1: cramjam.gzip, 2: cramjam.snappy, 3: cramjam.lz4, 4: cramjam.zstd}


@pytest.mark.parametrize("kind", CODECS)
def test_batches_are_unpacked_by_each_compression(kind: int) -> None:
    content = listed(b"a", b"b" * 1000)
    packed = bytes(CODECS[kind].compress(content))
    assert unpacked(kind, packed, len(content)) == content
    for wrong, size in (
        (packed[:-3], len(content)),
        (b"packed by none of them", 5),
        (packed, len(content) - 1),
        (packed, len(content) + 1),
        (bytes(CODECS[kind].compress(bytes(1 << 20))), 5),
    ):
        with pytest.raises(BadFrame, match=r"unpacked|other than"):
            unpacked(kind, wrong, size)


def test_a_compression_without_a_name_is_refused() -> None:
    with pytest.raises(Unsupported, match="compression 7; allowed: none, gzip, snappy, lz4, zstd"):
        unpacked(7, b"packed", 5)


def test_a_batch_that_is_too_large_is_refused_before_it_is_unpacked() -> None:
    with pytest.raises(BadFrame, match="allowed: at most") as refused:
        unpacked(1, gzip.compress(b"", mtime=0), (1 << 32) - 1)
    assert refused.value.is_too_large


def test_a_chunk_has_a_header_and_length_prefixed_messages() -> None:
    data = listed(b"a", b"bc")
    head = chunk_head(42, 1_700_000_000_000, 1, 2, data)
    assert CHUNK_HEAD.unpack(head) == (
        *(0x50, 0, 2, 2, 1_700_000_000_000, 1, 42),
        *(zlib.crc32(data), len(data), 0, 0),
    )
    assert len(head) == 48

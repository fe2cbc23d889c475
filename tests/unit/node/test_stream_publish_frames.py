"""Publish frames of the stream protocol: what is taken of them in one turn, and wrong ones."""

import gzip

import pytest

from node.streams.bodies import body_of, stored_form
from node.streams.publish_frames import PublishRun, PublishScanner, confirm_frame
from queues.message import FORMAT_10, Chunk
from queues.streams.filtering import filter_value
from queues.streams.tracking import BATCH
from warren.wire.amqp10.codec.message import Sections
from warren.wire.stream import codes
from warren.wire.stream.frames import BadFrame, Fields, FrameWriter

MESSAGES, BYTES = 1024, 1 << 20
AMQP = b"\x00Su\xa0\x01a"


def frame(*entries: bytes, version: int = 1, publisher: int = 1, count: int = -1) -> bytes:
    said = len(entries) if count < 0 else count
    writer = FrameWriter(codes.PUBLISH, version).u8(publisher).u32(said)
    return writer.raw(b"".join(entries)).end()[4:]


def scanner_of(*entries: bytes, version: int = 1) -> PublishScanner:
    scanner = PublishScanner()
    scanner.begin(frame(*entries, version=version))
    return scanner


def run_of(*entries: bytes, version: int = 1) -> PublishRun:
    scanner = scanner_of(*entries, version=version)
    scanner.scan(MESSAGES, BYTES)
    assert scanner.left == 0
    return scanner.take()


def chunk_of(run: PublishRun) -> Chunk:
    return Chunk(FORMAT_10, run.data, 0, run.offsets, 0)


def bodies(run: PublishRun) -> list[bytes]:
    chunk = chunk_of(run)
    return [body_of(chunk, index) for index in range(run.count)]


def single(number: int, message: bytes) -> bytes:
    return number.to_bytes(8, "big") + len(message).to_bytes(4, "big") + message


def listed(*messages: bytes) -> bytes:
    return b"".join(len(each).to_bytes(4, "big") + each for each in messages)


def batch(number: int, kind: int, packed: bytes, count: int, size: int) -> bytes:
    head = number.to_bytes(8, "big") + bytes([0x80 | kind << 4])
    sizes = size.to_bytes(4, "big") + len(packed).to_bytes(4, "big")
    return head + count.to_bytes(2, "big") + sizes + packed


def gzipped(number: int, *messages: bytes) -> bytes:
    content = listed(*messages)
    return batch(number, 1, gzip.compress(content), len(messages), len(content))


def test_a_slice_ends_with_the_batch_that_has_too_many_messages() -> None:
    scanner = scanner_of(*[gzipped(number, *[b""] * 65_535) for number in range(20)])
    for number in range(20):
        assert scanner.scan(MESSAGES, BYTES)
        assert scanner.take().ids == [(number, BATCH | 65_535)]
    assert scanner.left == 0


def test_a_slice_ends_with_the_batch_that_has_too_many_bytes() -> None:
    scanner = scanner_of(*[gzipped(number, bytes(BYTES), b"") for number in range(4)])
    for number in range(4):
        assert scanner.scan(MESSAGES, BYTES)
        assert scanner.take().ids == [(number, BATCH | 2)]
    assert scanner.left == 0


def test_single_messages_are_taken_a_slice_at_a_time() -> None:
    scanner = scanner_of(*[single(number, b"x") for number in range(MESSAGES + 5)])
    assert scanner.scan(MESSAGES, BYTES)
    assert scanner.take().ids == [(0, MESSAGES)]
    assert not scanner.scan(MESSAGES, BYTES)
    assert scanner.take().ids == [(MESSAGES, 5)]
    assert scanner.left == 0


def test_frames_of_one_publisher_gather_in_one_run() -> None:
    scanner = scanner_of(single(1, b"a"), single(2, AMQP))
    assert not scanner.scan(MESSAGES, BYTES)
    following = frame(single(3, AMQP), single(9, b"b"))
    assert scanner.suits(following)
    assert not scanner.suits(frame(single(3, b"a"), publisher=2))
    scanner.begin(following)
    assert not scanner.scan(MESSAGES, BYTES)
    run = scanner.take()
    assert run.ids == [(1, 3), (9, 1)]
    assert bodies(run) == [b"a", AMQP, AMQP, b"b"]
    assert scanner.suits(frame(single(3, b"a"), publisher=2))


def test_what_cannot_be_published_is_refused_and_the_rest_is_taken() -> None:
    too_high = single(1 << 63, b"x")
    run = run_of(gzipped(1, b"a"), batch(2, 7, b"packed", 1, 5), too_high, gzipped(3, b"c"))
    assert run.ids == [(1, 1), (3, 1)]
    assert run.refused == [2, 1 << 63]
    assert "compression 7; allowed: none, gzip, snappy, lz4, zstd" in run.fault


def test_single_messages_and_batches_of_a_frame_come_in_order() -> None:
    packed = listed(b"b", b"c")
    run = run_of(single(5, b"aa"), batch(6, 0, packed, 2, len(packed)), single(5, AMQP))
    assert run.ids == [(5, 1), (6, BATCH | 2), (5, 1)]
    assert bodies(run) == [b"aa", b"b", b"c", AMQP]


def test_ids_that_count_up_are_runs_and_batches_stand_alone() -> None:
    entries = [single(1, b""), single(2, b""), gzipped(3, b"", b""), single(4, b""), single(5, b"")]
    run = run_of(*entries, single(9, b""), gzipped(10, b""))
    assert run.ids == [(1, 2), (3, BATCH | 2), (4, 2), (9, 2)]


def test_entries_of_version_2_have_filter_values() -> None:
    entries = []
    for entry, value in ((single(1, AMQP), b"west"), (single(2, b"no sections"), b"")):
        entries.append(entry[:8] + len(value).to_bytes(2, "big") + value + entry[8:])
    run = run_of(*entries, version=2)
    chunk = chunk_of(run)
    assert [filter_value(chunk, index) for index in range(2)] == [b"west", b""]
    assert body_of(chunk, 0).endswith(AMQP)
    assert body_of(chunk, 1) == b"no sections"


HEADER = b"\x00Sp\xc0\x02\x01A"
ANNOTATIONS = b"\x00Sr\xc1\x08\x02\xa3\x03x-a\xa1\x00"
PROPERTIES = b"\x00Ss\xc0\x04\x01\xa1\x01m"


@pytest.mark.parametrize(
    "message",
    [
        *(AMQP, PROPERTIES + AMQP, HEADER + AMQP, ANNOTATIONS + AMQP),
        *(HEADER + ANNOTATIONS + PROPERTIES + AMQP, b"no sections", b"", b"\x00Su"),
        *(b"\x00\x80\x00\x00\x00\x00\x00\x00\x00u\xa0\x01a", PROPERTIES + bytes(300) + AMQP),
        b"\x00Su\xb0\x00\x00\x10\x00" + bytes(4096),
    ],
)
def test_a_message_of_a_run_is_stored_with_its_filter_value(message: bytes) -> None:
    entries = []
    values = [b"eu", b"eu", b"", b"w" * 300, b"eu"]
    for number, value in enumerate(values):
        entry = single(number, message)
        entries.append(entry[:8] + len(value).to_bytes(2, "big") + value + entry[8:])
    run = run_of(*entries, version=2)
    chunk = chunk_of(run)
    for index, value in enumerate(values):
        assert filter_value(chunk, index) == value
        start, end = chunk.span(index)
        assert run.data[start:end] == stored_form(message, value.decode(), Sections())


@pytest.mark.parametrize(
    "entry",
    [
        single(1, b"abc")[:-1],
        single(1, b"")[:9],
        single(1, b"")[:7],
        batch(1, 0, listed(b"a"), 1, 5)[:-6],
        batch(1, 0, listed(b"a"), 1, 5)[:15],
        batch(1, 0, listed(b"a"), 2, 5),
        batch(1, 0, listed(b"a"), 0, 5),
        batch(1, 0, b"\x7f\xff\xff\xffa", 1, 5),
        batch(1, 0, b"\xff\xff\xff\xffa", 1, 5),
        batch(1, 1, b"no gzip", 1, 5),
        batch(1, 1, gzip.compress(listed(b"a"), mtime=0), 1, 4),
        batch(1, 1, gzip.compress(bytes(1000), mtime=0), 1, 5),
        batch(1, 1, gzip.compress(b"", mtime=0), 1, (1 << 32) - 1),
    ],
)
def test_entries_that_are_none_are_refused_and_those_before_them_are_kept(entry: bytes) -> None:
    scanner = scanner_of(single(7, AMQP), entry)
    with pytest.raises(BadFrame):
        scanner.scan(MESSAGES, BYTES)
    run = scanner.take()
    assert run.ids == [(7, 1)]
    assert bodies(run) == [AMQP]


@pytest.mark.parametrize("value", [b"\x00", b"\x00\x09west", b"\x00\x01\xff\x00\x00\x00\x00"])
def test_a_filter_value_that_is_none_is_refused(value: bytes) -> None:
    scanner = scanner_of(bytes(8) + value, version=2)
    with pytest.raises(BadFrame):
        scanner.scan(MESSAGES, BYTES)


@pytest.mark.parametrize("length", range(4, 9))
def test_a_frame_that_is_too_short_is_refused(length: int) -> None:
    scanner = PublishScanner()
    body = frame()[:length]
    assert scanner.suits(body)
    with pytest.raises(BadFrame, match="cut short"):
        scanner.begin(body)


def test_a_frame_that_has_fewer_entries_than_it_says_is_refused() -> None:
    scanner = PublishScanner()
    scanner.begin(frame(single(1, b"a"), count=2))
    with pytest.raises(BadFrame, match="cut short"):
        scanner.scan(MESSAGES, BYTES)


def test_a_confirm_names_every_publishing_id() -> None:
    content = confirm_frame(7, [(3, 2), ((1 << 63) - 1, 1)])
    assert int.from_bytes(content[:4], "big") == len(content) - 4
    fields = Fields(content[4:])
    assert (fields.key, fields.version, fields.u8()) == (codes.PUBLISH_CONFIRM, 1, 7)
    assert [fields.u64() for _ in range(fields.u32())] == [3, 4, (1 << 63) - 1]
    assert fields.is_at_end

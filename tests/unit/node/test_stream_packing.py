"""Chunks for subscribers of the stream protocol, made of runs of messages."""

from itertools import accumulate

from node.streams.bodies import stored_form
from node.streams.subscription import CHUNK_BYTES, MESSAGES_MAX, encode_runs
from queues.message import FORMAT_10, Chunk
from queues.streams.tail import EncodedChunk, Run
from warren.wire.amqp10.codec.message import Sections


def message(number: int, size: int = 8) -> bytes:
    return b"\x00Su\xb0" + size.to_bytes(4, "big") + number.to_bytes(8, "big").rjust(size, b"x")


def run_of(first: int, count: int, size: int = 8) -> Run:
    stored = [stored_form(message(first + at, size), "", Sections()) for at in range(count)]
    places = accumulate(map(len, stored), initial=0)
    offsets = b"".join(place.to_bytes(4, "little") for place in places)
    return first, Chunk(FORMAT_10, b"".join(stored), 0, offsets, 0), 1000 + first


def messages_in(chunk: EncodedChunk) -> list[bytes]:
    found, data = [], chunk.data
    while data:
        size = int.from_bytes(data[:4], "big")
        found.append(data[4 : 4 + size])
        data = data[4 + size :]
    assert len(found) == chunk.end_offset - chunk.first_offset
    return found


def test_small_runs_become_one_chunk_with_the_time_of_the_first() -> None:
    (chunk,) = encode_runs([run_of(5, 3), run_of(8, 2)], 0)
    assert (chunk.first_offset, chunk.end_offset) == (5, 10)
    assert messages_in(chunk) == [message(number) for number in range(5, 10)]
    assert int.from_bytes(chunk.head[8:16], "big") == 1005


def test_messages_before_the_offset_are_left_out() -> None:
    (chunk,) = encode_runs([run_of(0, 4), run_of(4, 4)], 6)
    assert messages_in(chunk) == [message(6), message(7)]


def test_a_gap_begins_a_chunk() -> None:
    chunks = encode_runs([run_of(0, 2), run_of(7, 2)], 0)
    assert [each.first_offset for each in chunks] == [0, 7]


def test_chunks_have_limits_of_bytes_and_messages() -> None:
    large = encode_runs([run_of(0, 100, 10_000)], 0)
    assert all(len(each.data) < CHUNK_BYTES + 11_000 for each in large)
    small = encode_runs([run_of(0, 2 * MESSAGES_MAX + 1)], 0)
    for chunks in (large, small):
        found = [each for chunk in chunks for each in messages_in(chunk)]
        size = 10_000 if chunks is large else 8
        assert found == [message(number, size) for number in range(len(found))]
        ends = [each.end_offset for each in chunks]
        assert [each.first_offset for each in chunks] == [0, *ends[:-1]]
    assert [each.end_offset for each in small] == [4096, 8192, 8193]

"""Bodies of the stream protocol in Warren's stored form, and back."""

from itertools import accumulate

import pytest

from node.streams.bodies import body_of, put_entries, stored_form
from queues.message import FORMAT_10, Chunk
from queues.streams.filtering import filter_value
from warren.wire.amqp10.codec.message import Sections
from warren.wire.buffer import BytesWriter

AMQP = b"\x00Su\xa0\x01a"


def chunk_of(message: bytes) -> Chunk:
    return Chunk(FORMAT_10, message, 0, bytes(4) + len(message).to_bytes(4, "little"), 0)


@pytest.mark.parametrize("body", [AMQP, b"", b"a", b"\x00Su", b"x" * 255, b"x" * 256, AMQP[:-1]])
def test_a_body_is_read_as_it_was_published(body: bytes) -> None:
    assert body_of(chunk_of(stored_form(body, "", Sections())), 0) == body


@pytest.mark.parametrize("body", [AMQP, b"no sections"])
def test_a_filter_value_is_stored_with_the_body(body: bytes) -> None:
    chunk = chunk_of(stored_form(body, "eu", Sections()))
    assert filter_value(chunk, 0) == b"eu"
    assert body_of(chunk, 0).endswith(body)


def entries_of(chunk: Chunk, index: int, count: int, bytes_max: int) -> tuple[list[bytes], int]:
    writer = BytesWriter()
    taken = put_entries(writer, chunk, index, count, bytes_max)
    data, found = writer.getvalue(), []
    while data:
        size = int.from_bytes(data[:4], "big")
        found.append(data[4 : 4 + size])
        data = data[4 + size :]
    return found, taken


@pytest.mark.parametrize("raw", [b"no sections", AMQP])
def test_entries_of_a_chunk_are_the_bodies_as_they_were_published(raw: bytes) -> None:
    bodies = [AMQP, raw, b"\x00Su\xb0" + (300).to_bytes(4, "big") + bytes(300), raw]
    messages = [stored_form(body, "", Sections()) for body in bodies]
    places = list(accumulate(map(len, messages), initial=0))
    offsets = b"".join(place.to_bytes(4, "little") for place in places)
    chunk = Chunk(FORMAT_10, b"".join(messages), 0, offsets, 0)
    assert entries_of(chunk, 0, 4, 1 << 20) == (bodies, 4)
    assert entries_of(chunk, 1, 2, 1 << 20) == (bodies[1:3], 2)
    assert entries_of(chunk, 1, 3, 0) == (bodies[1:2], 1)
    assert entries_of(chunk, 0, 4, places[1] + 1) == (bodies[:2], 2)

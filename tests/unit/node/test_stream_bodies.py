"""Bodies of the stream protocol in Warren's stored form, and back."""

import pytest

from node.streams.bodies import body_of, stored_form
from queues.message import FORMAT_10, Chunk
from queues.streams.filtering import filter_value
from warren.wire.amqp10.message import Sections

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
